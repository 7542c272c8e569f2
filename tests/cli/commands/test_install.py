"""Output and options of ``wheelfit install``; its effects are tested end to end."""

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
from cli.workplace import Workplace

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

BLAS = {"blas": {"library": ["openblas", "mkl"]}}
DOCUMENT = release_document(
    {
        "null": {},
        "mkl": {"blas": {"library": ["mkl"]}},
        "open": {"blas": {"library": ["openblas"]}},
    },
    static=BLAS,
)


@pytest.fixture
def setup(run: Runner, tmp_path: Path) -> Iterator[Workplace]:
    """Yield a folder with an index of a release with variants and a few plain ones."""
    with RecordingIndex(tmp_path / "wheels") as index:
        made = Workplace(run, tmp_path, index, "--no-cache-dir")
        build_release(made.wheels, "fast", "1.0", DOCUMENT, (None, "null", "mkl", "open"))
        made.add("plain", "1.0")
        made.add("plain", "2.0")
        made.add("plain", "3.0rc1")
        made.add("needs", "1.0", requires=("fast", "plain"))
        yield made


def test_text_output(setup: Workplace) -> None:
    """Each package has a line; the reason is shown where there was a choice."""
    result = setup.install("needs")
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


def test_dry_run(setup: Workplace) -> None:
    """A dry run prints a table of the changes with totals, and changes nothing."""
    result = setup.install("--dry-run", "needs")
    head, _, *rows, last = result.out.splitlines()
    assert head.split() == ["Package", "Version", "Variant", "Download", "On", "disk", "Change"]
    (row,) = [row for row in rows if row.startswith("fast ")]
    assert row.split()[:3] == ["fast", "1.0", "open"]
    assert row.endswith(" new; best fit: blas :: library :: openblas")
    assert sorted(row.split()[0] for row in rows) == ["fast", "needs", "plain"]
    assert last.startswith("Would install 3 packages: ")
    assert re.fullmatch(r"Resolved 3 packages in [\d.]+ m?s\n", result.err)
    assert not setup.target.exists()


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_quiet(more: list[str], setup: Workplace) -> None:
    """``-q`` prints errors, and nothing else."""
    result = setup.install("-q", "plain", *more)
    assert (result.out, result.err) == ("", "")
    result = setup.install("-q", "absent", *more, code=3)
    assert result.err.startswith("error: ")


def test_installed_packages_are_kept(setup: Workplace) -> None:
    """Installed packages that match are kept, and listed with ``--verbose``."""
    setup.install("needs")
    assert setup.install("needs").out == (
        "nothing to do: the installed packages meet every requirement\n"
    )
    result = setup.install("needs", "-v")
    assert "kept fast 1.0 (open)\n" in result.out


def test_replaced_packages(setup: Workplace) -> None:
    """The output names the replaced version or label."""
    setup.install("plain==1.0", "fast==1.0", "--label", "fast=mkl")
    result = setup.install("-U", "plain")
    assert result.out == "installed plain 2.0, replacing 1.0\n"
    result = setup.install("--label", "fast=open", "fast")
    line = "installed fast 1.0 (open), replacing 1.0 (mkl): the label open is requested"
    assert result.out.startswith(line)
    result = setup.install("--no-variants", "fast")
    assert result.out.startswith("installed fast 1.0, replacing 1.0 (open): the plain wheel")
    assert setup.installed() == {"fast": ("1.0", None), "plain": ("2.0", None)}


def test_no_downgrade(setup: Workplace, run: Runner) -> None:
    """An index with only older releases changes nothing, with a note."""
    newer = build_wheel(setup.folder / "elsewhere", "plain", "2.5.dev1")
    setup.install(newer)
    for words in (["-U", "plain"], ["-U", "needs", "plain"], ["-P", "plain", "needs"]):
        result = setup.install(*words)
        assert "plain 2.5.dev1 is kept: it is newer than plain 2.0" in result.err
        assert setup.installed()["plain"] == ("2.5.dev1", None)
    result = setup.install("-U", "plain<2.5.dev0")
    assert result.out == "installed plain 2.0, replacing the newer 2.5.dev1\n"
    lock = setup.folder / "pylock.toml"
    run("lock", "-i", setup.index.url, "-o", lock, "plain==1.0")
    result = run("sync", lock, "--target", setup.target)
    assert "installed plain 1.0, replacing the newer 2.0" in result.out


def test_upgrade_of_an_unknown_package(setup: Workplace) -> None:
    """An installed package that is in no index is kept, unless another version is required."""
    setup.install(build_wheel(setup.folder / "elsewhere", "lone", "1.0"))
    for words in (["-U", "lone"], ["-P", "lone", "lone"], ["-U", "lone>=1", "plain"]):
        result = setup.install(*words)
        assert "the installed lone 1.0 is kept: lone was not found in any index" in result.err
    assert "[project-not-found]" in setup.install("-U", "lone>1", code=3).err
    assert setup.installed()["lone"] == ("1.0", None)


@pytest.mark.integration
def test_upgrade_like_pip(setup: Workplace, pip: Path) -> None:
    """An upgrade leaves the same release as pip does."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", setup.target], check=True)
    place: list[str | Path] = ["--python", setup.target]
    for version, expected in (("2.5", "2.5"), ("1.9+local", "2.0"), ("2.0+cu128", "2.0+cu128")):
        newer = build_wheel(setup.folder / "elsewhere", "plain", version)
        setup.run("install", "--no-index", "--force-reinstall", newer, *place)
        setup.run("install", "-i", setup.index.url, "-U", "plain", *place)
        installed = setup.run.installed(*place)
        assert {name: one["version"] for name, one in installed.items()} == {"plain": expected}
        setup.run("install", "--no-index", "--force-reinstall", newer, *place)
        subprocess.run(
            [pip, *place, "install", "-q", "-i", setup.index.url, "-U", "plain"],
            check=True,
            env={"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull},
        )
        installed = setup.run.installed(*place)
        assert {name: one["version"] for name, one in installed.items()} == {"plain": expected}


def test_upgrade_package(setup: Workplace) -> None:
    """``-P`` upgrades only the named package, also if it is a dependency."""
    setup.install("plain==1.0", "needs")
    setup.add("needs", "1.1", requires=("plain",))
    assert setup.install("-P", "plain", "needs").out == "installed plain 2.0, replacing 1.0\n"
    assert setup.installed()["needs"] == ("1.0", None)


def test_leftover(setup: Workplace) -> None:
    """A package with several ``.dist-info`` folders is installed again, and all are removed."""
    setup.install("plain==1.0")
    other = build_wheel(setup.folder / "elsewhere", "plain", "0.9")
    setup.run("install", "--no-index", "--target", setup.folder / "other", other)
    name = "plain-0.9.dist-info"
    (setup.folder / "other" / name).rename(setup.target / name)
    assert setup.install("plain<2").out == "installed plain 1.0, replacing 0.9 and 1.0\n"
    assert not (setup.target / name).exists()


def test_reinstall(setup: Workplace) -> None:
    """--force-reinstall installs the same wheel again."""
    setup.install("plain")
    (setup.target / "plain" / "__init__.py").write_text("damaged")
    assert setup.install("--force-reinstall", "plain").out == (
        "installed plain 2.0, replacing 2.0\n"
    )
    assert "damaged" not in (setup.target / "plain" / "__init__.py").read_text()


def test_reinstall_from_the_cache(setup: Workplace, run: Runner) -> None:
    """Unchanged links into the cache are kept; an edited file is replaced with a warning."""
    words = (
        "-i",
        setup.index.url,
        "--cache-dir",
        setup.folder / "cache",
        "--target",
        setup.target,
    )

    def install() -> CommandResult:
        return run("install", *words, "--link-mode", "hardlink", "--force-reinstall", "plain")

    install()
    module = setup.target / "plain/__init__.py"
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
def test_requirement_options(words: list[str], names: dict[str, str], setup: Workplace) -> None:
    """Options and files restrict the selection as in pip."""
    (setup.folder / "limits.txt").write_text("plain<2\n")
    (setup.folder / "all.txt").write_text("needs\n-c limits.txt\n")
    setup.install(*(word.replace("{here}", str(setup.folder)) for word in words))
    assert {name: version for name, (version, _) in setup.installed().items()} == names


def test_sources_in_a_requirements_file(setup: Workplace, run: Runner) -> None:
    """A requirements file can name an index and a folder, whose wheels are preferred."""
    build_wheel(setup.folder / "beside", "plain", "9.0")
    file = setup.folder / "all.txt"
    file.write_text(f"--index-url {setup.index.url}\n--find-links beside\nplain\nfast\n")
    run("install", "--no-cache-dir", "--target", setup.target, "-r", file)
    assert setup.installed() == {"plain": ("9.0", None), "fast": ("1.0", "open")}


def test_wheel_files_and_urls(setup: Workplace) -> None:
    """Wheel files and URLs are installed; their dependencies come from the index."""
    wheel = build_wheel(setup.folder / "mine", "plain", "0.5")
    result = setup.install(wheel, setup.index.file_url("needs-1.0-py3-none-any.whl"))
    assert setup.installed() == {
        "plain": ("0.5", None), "needs": ("1.0", None), "fast": ("1.0", "open"),
    }  # fmt: skip
    assert "installed plain 0.5\n" in result.out
    recorded = json.loads((setup.target / "plain-0.5.dist-info/direct_url.json").read_text())
    assert recorded["url"] == wheel.as_uri()


def test_variant_by_url(setup: Workplace) -> None:
    """F-125: A variant by URL is installed if it fits and has the given name."""
    url = setup.index.file_url("fast-1.0-py3-none-any-mkl.whl")
    setup.install(f"fast @ {url}")
    assert setup.installed() == {"fast": ("1.0", "mkl")}


def test_unmet_required_property(setup: Workplace) -> None:
    """F-91: A required property must occur somewhere in the result."""
    before = tree(setup.folder)
    result = setup.install("fast", "--require", "nvidia", "--json", code=3)
    assert result.error["message"].startswith("nvidia is required")
    assert tree(setup.folder) == before
    setup.install("needs", "--require", "blas :: library :: mkl")
    assert setup.installed()["fast"] == ("1.0", "mkl")
    assert setup.install("needs", "--require", "blas").out.startswith("nothing to do")


def test_label_without_effect(setup: Workplace) -> None:
    """A label for a package that is not needed causes a warning."""
    result = setup.install("fast", "--label", "fats=mkl")
    assert "warning: --label fats=mkl has no effect: fats is not needed\n" in result.err
    assert "warning" not in setup.install("fast", "--label", "fast=open").err


def test_mismatched_wheel(setup: Workplace) -> None:
    """F-93: A variant that differs from the index file is replaced by the next best."""
    other = release_document({"open": {"blas": {"library": ["mkl"]}}}, static=BLAS)
    build_wheel(setup.wheels, "fast", "1.0", label="open", document=other)
    result = setup.install("fast")
    assert setup.installed() == {"fast": ("1.0", "mkl")}
    assert "warning: fast 1.0: fast-1.0-py3-none-any-open.whl is not used: " in result.err
    assert result.err.count("warning: ") == 1
    assert "installed fast 1.0 (mkl)" in result.out
    with_label = ["--force-reinstall", "--label", "fast=open"]
    assert "no-compatible-wheel" in setup.install("fast", *with_label, code=3).err


def test_required_property_of_a_mismatched_wheel(setup: Workplace) -> None:
    """F-91, F-93: the next best wheel must have the required properties too."""
    other = release_document({"open": {"blas": {"library": ["mkl"]}}}, static=BLAS)
    build_wheel(setup.wheels, "fast", "1.0", label="open", document=other)
    build_wheel(setup.wheels, "fast", "0.9")
    words = ["--require", "blas :: library :: openblas", "--json"]
    assert setup.install("fast", *words, code=3).error["code"] == "no-compatible-wheel"
    assert not setup.target.exists()


def test_strict(setup: Workplace) -> None:
    """F-93, F-130: with ``--strict`` a wheel that differs from the index file is an error."""
    other = release_document({"open": {"blas": {"library": ["mkl"]}}}, static=BLAS)
    build_wheel(setup.wheels, "fast", "1.0", label="open", document=other)
    error = setup.install("fast", "--strict", "--json", code=8).error
    assert error["code"] == "bad-metadata"
    assert [lost["code"] for lost in error["degradations"]] == ["metadata-disagreement"]
    assert not setup.target.exists()


def test_broken_dependents(setup: Workplace) -> None:
    """Installed packages that the change breaks are named."""
    setup.add("needed", "1")
    setup.add("needed", "2")
    setup.add("needing", "1", requires=("needed>=2",))
    setup.install("needing")
    dry = setup.install("needed==1", "--dry-run", "--json").object
    assert dry["broken_requirements"] == [
        {"name": "needing", "version": "1", "requirement": "needed>=2", "installed": "1"}
    ]
    result = setup.install("needed==1")
    assert "warning: needing 1 needs needed>=2, but needed 1 will be installed\n" in result.err
    assert "needing" not in setup.install("needed==2").err


def test_options_of_pip(setup: Workplace) -> None:
    """Options of pip that request the default behaviour are accepted."""
    setup.add("solo", "1")
    result = setup.install(
        "solo", "--prefer-binary", "--no-compile", "--no-input", "--only-binary", ":all:",
        "--progress-bar", "off", "--disable-pip-version-check", "--no-warn-script-location",
    )  # fmt: skip
    assert result.out.startswith("installed solo 1")


def test_empty_requirements_file(setup: Workplace) -> None:
    """An empty requirements file is not an error."""
    empty = setup.folder / "empty.txt"
    empty.write_text("# nothing yet\n")
    assert setup.install("-r", empty).out == "nothing to do: the files have no requirements\n"


def test_marker_that_does_not_match(setup: Workplace) -> None:
    """A requirement whose marker does not match is mentioned only with -v."""
    words = ("plain", "needs; sys_platform == 'win32'")
    assert "marker" not in setup.install("--dry-run", *words).err
    told = setup.install("--dry-run", "-v", *words).err
    assert "its marker does not match, so it is ignored" in told
    assert "warning" not in told
    result = setup.install("needs; sys_platform == 'win32'")
    assert result.out == "nothing to do: no requirement applies to this environment\n"


def test_namespace_not_in_the_host_file(setup: Workplace) -> None:
    """P-44: A namespace that the host file lacks causes a note, not a warning."""
    host = setup.folder / "host.toml"
    host.write_text('[metadata]\nversion = "0.1"\n')
    claim = {"requires": ["acme-provider"], "plugin-api": "acme:Plugin"}
    document = release_document(
        {"null": {}, "gpu": {"acme": {"chip": ["7"]}}},
        providers={"acme": claim},
        namespaces=["acme"],
    )
    build_release(setup.wheels, "needy", "1.0", document, ("null", "gpu"))
    stderr = setup.install("--for", host, "needy").err
    assert f"note: needy 1.0: acme: not in host file {host}, so unsupported" in stderr
    assert "warning" not in stderr
