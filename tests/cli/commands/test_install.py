"""What ``wheelfit install`` says and takes into account; how it ends is tested end to end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner, tree

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

BLAS = {"blas": {"library": ["openblas", "mkl"]}}
DOCUMENT = release_document(
    {
        "null": {},
        "mkl": {"blas": {"library": ["mkl"]}},
        "open": {"blas": {"library": ["openblas"]}},
    },
    static=BLAS,
)


class Shop:
    """Install from one index into one folder."""

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex) -> None:
        self._run = run
        self.folder = folder
        self.index = index
        self.target = folder / "target"

    def install(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Install."""
        sources = ["-i", self.index.url, "--no-cache-dir"]
        return self._run("install", *sources, "--target", self.target, *words, code=code)

    def add(self, name: str, version: str, *, requires: tuple[str, ...] = ()) -> Path:
        """Add a plain wheel."""
        return build_wheel(self.folder / "index", name, version, requires=requires)

    def add_variants(self, name: str, version: str, *, index_file: bool = True) -> None:
        """Add a release with variants and a plain wheel."""
        folder = self.folder / "index"
        for label in (None, "null", "mkl", "open"):
            build_wheel(folder, name, version, label=label, document=DOCUMENT if label else None)
        if index_file:
            (folder / f"{name}-{version}-variants.json").write_text(json.dumps(DOCUMENT))

    def installed(self) -> dict[str, tuple[str, str | None]]:
        """Return version and label of what is there."""
        packages = self._run("list", "--target", self.target, "--json").object["packages"]
        return {entry["name"]: (entry["version"], entry["label"]) for entry in packages}


@pytest.fixture
def shop(run: Runner, tmp_path: Path) -> Iterator[Shop]:
    """Serve a release with variants and a few plain ones."""
    with RecordingIndex(tmp_path / "index") as index:
        made = Shop(run, tmp_path, index)
        made.add_variants("fast", "1.0")
        made.add("plain", "1.0")
        made.add("plain", "2.0")
        made.add("plain", "3.0rc1")
        made.add("needs", "1.0", requires=("fast", "plain"))
        yield made


def test_one_line_for_each_package(shop: Shop) -> None:
    """What had a choice says why; for the others there is nothing to say."""
    result = shop.install("needs")
    assert sorted(result.out.splitlines()) == [
        "installed fast 1.0 (open): best fit: blas :: library :: openblas",
        "installed needs 1.0",
        "installed plain 2.0",
    ]
    assert "  downloaded fast 1.0 (open): " in result.err
    summaries = [line for line in result.err.splitlines() if line[0].isupper()]
    assert [line.partition(" in ")[0].partition(" (")[0] for line in summaries] == [
        "Resolved 3 packages",
        "Downloaded 3 wheels",
        "Installed 3 packages",
    ]


def test_dry_run(shop: Shop) -> None:
    """One table of what would change, with the sums below, and nothing else happens."""
    result = shop.install("--dry-run", "needs")
    head, _, *rows, last = result.out.splitlines()
    assert head.split() == ["Package", "Version", "Variant", "Download", "On", "disk", "Change"]
    (row,) = [row for row in rows if row.startswith("fast ")]
    assert row.split()[:3] == ["fast", "1.0", "open"]
    assert row.endswith(" new; best fit: blas :: library :: openblas")
    assert sorted(row.split()[0] for row in rows) == ["fast", "needs", "plain"]
    assert last.startswith("Would install 3 packages: ")
    assert re.fullmatch(r"Resolved 3 packages in [\d.]+ m?s\n", result.err)
    assert not shop.target.exists()


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_quiet(more: list[str], shop: Shop) -> None:
    """``-q`` prints errors, and nothing else."""
    result = shop.install("-q", "plain", *more)
    assert (result.out, result.err) == ("", "")
    result = shop.install("-q", "absent", *more, code=3)
    assert result.err.startswith("error: ")


def test_nothing_to_do(shop: Shop) -> None:
    """What is there and will do is kept, which ``--verbose`` shows."""
    shop.install("needs")
    assert shop.install("needs").out == (
        "nothing to do: the installed packages meet every requirement\n"
    )
    result = shop.install("needs", "-v")
    assert "kept fast 1.0 (open)\n" in result.out


def test_replaced(shop: Shop) -> None:
    """An upgrade names the version that goes; another label is named as well."""
    shop.install("plain==1.0", "fast==1.0", "--label", "fast=mkl")
    result = shop.install("-U", "plain")
    assert result.out == "installed plain 2.0, replacing 1.0\n"
    result = shop.install("--label", "fast=open", "fast")
    assert result.out.startswith("installed fast 1.0 (open), replacing 1.0 (mkl): label open")
    result = shop.install("--no-variants", "fast")
    assert result.out.startswith("installed fast 1.0, replacing 1.0 (open): the plain wheel")
    assert shop.installed() == {"fast": ("1.0", None), "plain": ("2.0", None)}


def test_upgrade_never_goes_back(shop: Shop, run: Runner) -> None:
    """Where an index has older releases only, what is installed stays, and that is said."""
    newer = build_wheel(shop.folder / "elsewhere", "plain", "2.5.dev1")
    shop.install(newer)
    for words in (["-U", "plain"], ["-U", "needs", "plain"], ["-P", "plain", "needs"]):
        result = shop.install(*words)
        assert "plain 2.5.dev1 is kept: it is newer than plain 2.0" in result.err
        assert shop.installed()["plain"] == ("2.5.dev1", None)
    result = shop.install("-U", "plain<2.5.dev0")
    assert result.out == "installed plain 2.0, replacing the newer 2.5.dev1\n"
    lock = shop.folder / "pylock.toml"
    run("lock", "-i", shop.index.url, "-o", lock, "plain==1.0")
    result = run("sync", lock, "--target", shop.target)
    assert "installed plain 1.0, replacing the newer 2.0" in result.out


def test_upgrade_of_what_no_index_knows(shop: Shop) -> None:
    """An upgrade keeps what no source knows, unless another version of it is asked for."""
    shop.install(build_wheel(shop.folder / "elsewhere", "lone", "1.0"))
    for words in (["-U", "lone"], ["-P", "lone", "lone"], ["-U", "lone>=1", "plain"]):
        result = shop.install(*words)
        assert "lone 1.0 stays: lone was not found in any index" in result.err
    assert "[project-not-found]" in shop.install("-U", "lone>1", code=3).err
    assert shop.installed()["lone"] == ("1.0", None)


@pytest.mark.integration
def test_an_upgrade_is_as_careful_as_that_of_pip(shop: Shop, pip: Path) -> None:
    """Of the same environment and the same index pip leaves the same release."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", shop.target], check=True)
    place: list[str | Path] = ["--python", shop.target]
    for version, expected in (("2.5", "2.5"), ("1.9+local", "2.0"), ("2.0+cu128", "2.0+cu128")):
        newer = build_wheel(shop.folder / "elsewhere", "plain", version)
        shop._run("install", "--no-index", "--force-reinstall", newer, *place)
        shop._run("install", "-i", shop.index.url, "-U", "plain", *place)
        packages = shop._run("list", "--json", *place).object["packages"]
        assert [package["version"] for package in packages] == [expected]
        shop._run("install", "--no-index", "--force-reinstall", newer, *place)
        subprocess.run(
            [pip, *place, "install", "-q", "-i", shop.index.url, "-U", "plain"],
            check=True,
            env={"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull},
        )
        packages = shop._run("list", "--json", *place).object["packages"]
        assert [package["version"] for package in packages] == [expected]


def test_upgrade_one(shop: Shop) -> None:
    """``-P`` looks up what is named, wherever it is needed, and nothing else."""
    shop.install("plain==1.0", "needs")
    shop.add("needs", "1.1", requires=("plain",))
    assert shop.install("-P", "plain", "needs").out == "installed plain 2.0, replacing 1.0\n"
    assert shop.installed()["needs"] == ("1.0", None)


def test_reinstall(shop: Shop) -> None:
    """The same wheel again, when somebody insists."""
    shop.install("plain")
    (shop.target / "plain" / "__init__.py").write_text("damaged")
    assert shop.install("--force-reinstall", "plain").out == (
        "installed plain 2.0, replacing 2.0\n"
    )
    assert "damaged" not in (shop.target / "plain" / "__init__.py").read_text()


def test_reinstall_from_the_cache(shop: Shop, run: Runner) -> None:
    """What is linked from the cache stays; an edit in place is noticed, and does not."""
    words = ("-i", shop.index.url, "--cache-dir", shop.folder / "cache", "--target", shop.target)

    def install() -> CommandResult:
        return run("install", *words, "--link-mode", "hardlink", "--force-reinstall", "plain")

    install()
    module = shop.target / "plain/__init__.py"
    folder = module.parent.stat().st_ino
    assert install().out == "installed plain 2.0, replacing 2.0\n"
    assert module.parent.stat().st_ino == folder
    before = module.read_text()
    with module.open("a") as file:
        file.write("damaged")
    assert "in the cache was changed" in install().err
    assert (module.read_text(), module.parent.stat().st_ino == folder) == (before, False)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["needs", "--no-deps"], {"needs": "1.0"}),
        (["plain", "--pre"], {"plain": "3.0rc1"}),
        (["plain>2.5"], {"plain": "3.0rc1"}),
        (["plain<2"], {"plain": "1.0"}),
        (["plain", "-c", "{here}/limits.txt"], {"plain": "1.0"}),
        (["-r", "{here}/all.txt"], {"plain": "1.0", "needs": "1.0", "fast": "1.0"}),
        (["plain; python_version < '3'", "fast"], {"fast": "1.0"}),
    ],
)
def test_what_is_asked_for(words: list[str], names: dict[str, str], shop: Shop) -> None:
    """Options and files limit as pip's do."""
    (shop.folder / "limits.txt").write_text("plain<2\n")
    (shop.folder / "all.txt").write_text("needs\n-c limits.txt\n")
    shop.install(*(word.replace("{here}", str(shop.folder)) for word in words))
    assert {name: version for name, (version, _) in shop.installed().items()} == names


def test_sources_from_a_requirements_file(shop: Shop, run: Runner) -> None:
    """The file names the index and the folder; wheels of the folder come first."""
    build_wheel(shop.folder / "beside", "plain", "9.0")
    file = shop.folder / "all.txt"
    file.write_text(f"--index-url {shop.index.url}\n--find-links beside\nplain\nfast\n")
    run("install", "--no-cache-dir", "--target", shop.target, "-r", file)
    assert shop.installed() == {"plain": ("9.0", None), "fast": ("1.0", "open")}


def test_given_wheels(shop: Shop) -> None:
    """Paths and URLs are taken as they are; what they need comes from the index."""
    wheel = build_wheel(shop.folder / "mine", "plain", "0.5")
    result = shop.install(wheel, shop.index.file_url("needs-1.0-py3-none-any.whl"))
    assert shop.installed() == {
        "plain": ("0.5", None), "needs": ("1.0", None), "fast": ("1.0", "open"),
    }  # fmt: skip
    assert "installed plain 0.5\n" in result.out
    recorded = json.loads((shop.target / "plain-0.5.dist-info/direct_url.json").read_text())
    assert recorded["url"] == wheel.as_uri()


def test_a_given_variant_by_name_and_url(shop: Shop) -> None:
    """F-125: a variant named by its URL is taken if it fits, under the name before it."""
    url = shop.index.file_url("fast-1.0-py3-none-any-mkl.whl")
    shop.install(f"fast @ {url}")
    assert shop.installed() == {"fast": ("1.0", "mkl")}


def test_a_wish_nobody_meets(shop: Shop) -> None:
    """F-91: what is required must occur somewhere in the result."""
    before = tree(shop.folder)
    result = shop.install("fast", "--require", "nvidia", "--json", code=3)
    assert result.error["message"].startswith("nvidia is required")
    assert tree(shop.folder) == before
    shop.install("needs", "--require", "blas :: library :: mkl")
    assert shop.installed()["fast"] == ("1.0", "mkl")
    assert shop.install("needs", "--require", "blas").out.startswith("nothing to do")


def test_a_label_of_nothing(shop: Shop) -> None:
    """A label for a package that is not there is a warning: the name may be a slip."""
    result = shop.install("fast", "--label", "fats=mkl")
    assert "warning: --label fats=mkl has no effect: fats is not needed\n" in result.err
    assert "warning" not in shop.install("fast", "--label", "fast=open").err


def test_a_wheel_that_is_not_what_the_index_says(shop: Shop) -> None:
    """F-93: a variant that contradicts the index file gives way to the next, visibly."""
    other = release_document({"open": {"blas": {"library": ["mkl"]}}}, static=BLAS)
    build_wheel(shop.folder / "index", "fast", "1.0", label="open", document=other)
    result = shop.install("fast")
    assert shop.installed() == {"fast": ("1.0", "mkl")}
    assert "warning: fast 1.0: fast-1.0-py3-none-any-open.whl is not taken: " in result.err
    assert result.err.count("warning: ") == 1
    assert "installed fast 1.0 (mkl)" in result.out
    with_label = ["--force-reinstall", "--label", "fast=open"]
    assert "no-compatible-wheel" in shop.install("fast", *with_label, code=3).err


def test_a_wish_that_only_a_wrong_wheel_would_meet(shop: Shop) -> None:
    """F-91, F-93: the next wheel must meet the wishes too, or nothing is installed."""
    other = release_document({"open": {"blas": {"library": ["mkl"]}}}, static=BLAS)
    build_wheel(shop.folder / "index", "fast", "1.0", label="open", document=other)
    build_wheel(shop.folder / "index", "fast", "0.9")
    words = ["--require", "blas :: library :: openblas", "--json"]
    assert shop.install("fast", *words, code=3).error["code"] == "no-compatible-wheel"
    assert not shop.target.exists()


def test_strictly(shop: Shop) -> None:
    """F-93, F-130: with ``--strict`` a wheel that contradicts the index file is an error."""
    other = release_document({"open": {"blas": {"library": ["mkl"]}}}, static=BLAS)
    build_wheel(shop.folder / "index", "fast", "1.0", label="open", document=other)
    error = shop.install("fast", "--strict", "--json", code=8).error
    assert error["code"] == "bad-metadata"
    assert [lost["code"] for lost in error["degradations"]] == ["metadata-disagreement"]
    assert not shop.target.exists()


def test_what_others_need(shop: Shop) -> None:
    """A package nobody asked about that the change breaks is named, with what it will find."""
    shop.add("needed", "1")
    shop.add("needed", "2")
    shop.add("needing", "1", requires=("needed>=2",))
    shop.install("needing")
    dry = shop.install("needed==1", "--dry-run", "--json").object
    assert dry["broken_requirements"] == [
        {"name": "needing", "version": "1", "requirement": "needed>=2", "installed": "1"}
    ]
    result = shop.install("needed==1")
    assert "warning: needing 1 needs needed>=2, and will find needed 1\n" in result.err
    assert "needing" not in shop.install("needed==2").err


def test_habits_of_pip(shop: Shop) -> None:
    """Options of pip that ask for what is done anyway are taken."""
    shop.add("solo", "1")
    result = shop.install(
        "solo", "--prefer-binary", "--no-compile", "--no-input", "--only-binary", ":all:",
        "--progress-bar", "off", "--disable-pip-version-check", "--no-warn-script-location",
    )  # fmt: skip
    assert result.out.startswith("installed solo 1")


def test_a_file_without_requirements(shop: Shop) -> None:
    """A requirements file that asks for nothing is not a mistake."""
    empty = shop.folder / "empty.txt"
    empty.write_text("# nothing yet\n")
    assert shop.install("-r", empty).out == "nothing to do: the files have no requirements\n"


def test_a_requirement_for_another_platform(shop: Shop) -> None:
    """That its marker leaves a requirement out is as it should be, and told with -v only."""
    words = ("plain", "needs; sys_platform == 'win32'")
    assert "marker" not in shop.install("--dry-run", *words).err
    told = shop.install("--dry-run", "-v", *words).err
    assert "its marker does not match, so it is ignored" in told
    assert "warning" not in told


def test_what_a_host_file_leaves_out(shop: Shop) -> None:
    """P-44: it is told, and no warning: files answer for some namespaces, releases name more."""
    host = shop.folder / "host.toml"
    host.write_text('[metadata]\nversion = "0.1"\n')
    claim = {"requires": ["acme-provider"], "plugin-api": "acme:Plugin"}
    document = release_document(
        {"null": {}, "gpu": {"acme": {"chip": ["7"]}}},
        providers={"acme": claim},
        namespaces=["acme"],
    )
    for label in ("null", "gpu"):
        build_wheel(shop.folder / "index", "needy", "1.0", label=label, document=document)
    (shop.folder / "index" / "needy-1.0-variants.json").write_text(json.dumps(document))
    stderr = shop.install("--for", host, "needy").err
    assert f"note: needy 1.0: acme: not in host file {host}, so unsupported" in stderr
    assert "warning" not in stderr
