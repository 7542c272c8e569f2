"""``--variant``, ``--require-accelerator``, ``--max-download`` and sizes, as users meet them."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.locking import write_lock_of
from cli.running import CommandResult, Runner

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.testing.worlds import NVIDIA

GPU = "cuda-12.8-sm90"
NEW_GPU = "cuda-13.0-sm90"
NO_GPU = "linux-x86_64"

_PROVIDERS = {"nvidia": NVIDIA}


def cuda(version: str) -> dict[str, dict[str, list[str]]]:
    """Return the properties of a CUDA build."""
    return {"nvidia": {"cuda_version_lower_bound": [version]}}


BUILDS = {"null": {}, "cu126": cuda("12.6"), "cu128": cuda("12.8"), "cu130": cuda("13.0")}
LARGE = {"big/data": "0" * 200_000}


class Shop:
    """Install for machines that are described, from one index into one folder."""

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex) -> None:
        self._run = run
        self.folder = folder / "index"
        self.index = index
        self.target = folder / "target"

    def __call__(
        self, command: str, *words: str | Path, host: str = GPU, code: int = 0
    ) -> CommandResult:
        """Run a command."""
        where: list[str | Path] = ["--target", self.target, "--for", host, "-i", self.index.url]
        return self._run(command, *where, *words, code=code)

    def install(self, *words: str | Path, host: str = GPU, code: int = 0) -> dict[str, str | None]:
        """Say which build of each package would be installed."""
        result = self("install", "--dry-run", "--json", *words, host=host, code=code)
        return {row["name"]: row["label"] for row in result.object["install"]}

    def add(
        self,
        name: str,
        *labels: str,
        requires: tuple[str, ...] = (),
        plain: bool = True,
        tag: str = "py3-none-any",
    ) -> None:
        """Add a release with variants."""
        document = release_document(
            {label: BUILDS[label] for label in labels}, providers=_PROVIDERS
        )
        if plain:
            build_wheel(self.folder, name, "1.0", requires=requires)
        for label in labels:
            build_wheel(
                self.folder,
                name,
                "1.0",
                tag=tag,
                label=label,
                document=document,
                requires=requires,
                files=LARGE if label.startswith("cu") else {},
            )
        if labels:
            (self.folder / f"{name}-1.0-variants.json").write_text(json.dumps(document))


@pytest.fixture
def shop(run: Runner, tmp_path: Path) -> Iterator[Shop]:
    """Serve a framework in several builds, and a tool that needs it."""
    with RecordingIndex(tmp_path / "index") as index:
        made = Shop(run, tmp_path, index)
        made.add("engine", *BUILDS)
        made.add("tool", requires=("engine",))
        yield made


class TestVariant:
    """One word for several wishes (F-91)."""

    @pytest.mark.parametrize(
        ("words", "host", "label"),
        [
            ((), NEW_GPU, "cu130"),
            (("--variant", "cpu"), NEW_GPU, "null"),
            (("--variant", "cuda12"), NEW_GPU, "cu128"),
            (("--variant", "cu126"), NEW_GPU, "cu126"),
            (("--variant", "cuda-13"), NEW_GPU, "cu130"),
            (("--variant", "cuda"), GPU, "cu128"),
            (("--variant", "cpu"), NO_GPU, "null"),
        ],
    )
    def test_it_reaches_what_others_need(
        self, shop: Shop, words: tuple[str, ...], host: str, label: str
    ) -> None:
        """Nobody named the package that comes in builds; what has none does not matter."""
        assert shop.install("tool", *words, host=host) == {"tool": None, "engine": label}

    def test_no_caution_about_what_was_asked_for(self, shop: Shop) -> None:
        """A GPU that is there and not used deserves a word only where nobody wished it so."""
        shop.add("bound", "null", "cu130")
        warned = shop("install", "--dry-run", "bound").err
        assert "nvidia hardware is present, but the chosen build (null) does not use it" in warned
        for command in ("install --dry-run", "explain"):
            result = shop(*command.split(), "bound", "--variant", "cpu")
            assert "hardware is present" not in result.err + result.out

    def test_libraries_that_come_along(self, shop: Shop) -> None:
        """No wish keeps away what a plain wheel needs; that is said once, with who needs it."""
        shop.add("nvidia-cudnn-cu12", requires=("nvidia-cublas-cu12",))
        shop.add("nvidia-cublas-cu12")
        shop.add("heavy", requires=("nvidia-cudnn-cu12",))
        result = shop("install", "--dry-run", "heavy", "--variant", "cpu")
        told = "of CUDA libraries come along that are not wanted: preferences exclude builds, not"
        assert result.err.count("come along") == result.err.count(told) == 1
        assert "heavy needs them: take it from an index with other builds, or leave" in result.err
        assert "come along" in shop("explain", "--with-deps", "heavy", "--variant", "cpu").err
        for words in (["heavy"], ["heavy", "--variant", "cpu", "--exclude", "nvidia-cudnn-cu12"]):
            assert "come along" not in shop("install", "--dry-run", *words).err

    def test_what_is_installed(self, shop: Shop) -> None:
        """What is named gets the builds that are asked for; what is only needed and plain stays."""
        shop("install", "engine", "--no-variants")
        assert shop.install("tool", "--variant", "cuda") == {"tool": None}
        assert shop.install("engine", "--variant", "cuda") == {"engine": "cu128"}
        result = shop("install", "engine", "--variant", "cuda")
        assert "nvidia is required (--variant cuda), and this wheel does not have it" in result.err
        assert shop.install("engine", "--variant", "cuda") == {}
        assert shop.install("engine", "--variant", "cpu") == {"engine": "null"}

    def test_where_none_fits(self, shop: Shop) -> None:
        """It fails: what was asked for is offered, and the machine cannot run it."""
        result = shop("install", "tool", "--variant", "cuda", host=NO_GPU, code=3)
        assert "engine" in result.err
        assert "nvidia is required (--variant cuda)" in result.err
        result = shop("install", "tool", "--variant", "cuda13", code=3)
        assert "cu128: nvidia :: cuda_version_lower_bound :: 12.8 is forbidden" in result.err

    def test_where_nothing_offers_it(self, shop: Shop) -> None:
        """It changes nothing: a word in a configuration must not break other installations."""
        shop.add("other")
        assert shop.install("other", "--variant", "cuda", host=NO_GPU) == {"other": None}

    def test_it_is_in_effect(self, shop: Shop) -> None:
        """Who reads the result sees why it is so."""
        result = shop("explain", "engine", "--variant", "cpu")
        assert "in effect: --variant cpu" in result.err
        assert "nvidia is forbidden (--variant cpu)" in result.out
        result = shop("explain", "engine", "--variant", "cpu", "--json")
        assert "--variant cpu" in result.object["overrides"]

    @pytest.mark.parametrize(
        ("words", "code", "reference", "message"),
        [
            (["--variant", "cuba"], 1, "unknown-shorthand", "'cuba' stands for no builds"),
            (["--variant", "cpu", "--variant", "cuda"], 2, "usage", "contradict each other"),
            (["--variant", "cpu", "--require", "nvidia"], 2, "usage", "contradict each other"),
        ],
    )
    def test_mistakes(
        self, shop: Shop, words: list[str], code: int, reference: str, message: str
    ) -> None:
        """A word that is none, and words that contradict each other, are refused at once."""
        error = shop("install", "tool", "--json", *words, code=code).error
        assert (error["code"], message in error["message"]) == (reference, True)
        assert not shop.index.requests

    def test_configured(self, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is configured holds until the command line names another; own words are words."""
        file = tmp_path / "wheelfit.toml"
        file.write_text(
            'variant = ["lab"]\n'
            '[shorthand.lab]\nmeaning = "our machines"\nrequire = ["nvidia"]\n'
            'forbid = ["nvidia :: cuda_version_lower_bound :: 12.8"]\n'
        )
        monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(file))
        assert shop.install("tool")["engine"] == "cu126"
        assert shop.install("tool", "--variant", "cpu")["engine"] == "null"
        assert shop.install("tool", "--variant", "auto")["engine"] == "cu128"
        error = shop("install", "tool", "--variant", "lap", "--json", code=1).error
        assert "did you mean lab?" in error["hint"]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("shorthand = 1", "is not a table of tables"),
            ("[shorthand]\nlab = 1", "shorthand.lab is not a table"),
            ("[shorthand.lab]\n", "has no effect"),
            ("[shorthand.lab]\nmeaning = 1\nforbid=['x']", "must be a string"),
            ("[shorthand.lab]\nforbit = []", "did you mean 'shorthand.lab.forbid'?"),
            ("[shorthand.lab]\nnam = 'x'", "did you mean 'shorthand.lab.meaning'?"),
            ("[shorthand.lab]\nforbid = ['a :: b :: c :: d']", "a :: b"),
            ("[shorthand.cu128]\nforbid = ['x']", "is built in"),
            ("[shorthand.'a b']\nforbid = ['x']", "is not a name"),
            ("variant = 'cpu'", "variant must be a list of strings"),
        ],
    )
    def test_configured_badly(
        self,
        shop: Shop,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        text: str,
        said: str,
    ) -> None:
        """What cannot be read is refused with the place."""
        file = tmp_path / "wheelfit.toml"
        file.write_text(text)
        monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(file))
        error = shop("install", "tool", "--json", code=1).error
        assert said in f"{error['message']} {error['hint']}"
        assert str(file) in error["where"]


class TestRequireAccelerator:
    """Fail rather than fall back."""

    def test_met(self, shop: Shop) -> None:
        """A build that uses the GPU is what was asked for."""
        result = shop("install", "--dry-run", "tool", "--require-accelerator")
        assert "cu128" in result.out
        assert "--require-accelerator" not in result.err

    def test_a_fallback_is_refused(self, shop: Shop) -> None:
        """Before anything is downloaded, with the reason why the best build was not taken."""
        result = shop("install", "tool", "--require-accelerator", "--json", host=NO_GPU, code=3)
        error = result.error
        assert error["code"] == "no-accelerator"
        assert error["message"] == "engine 1.0 uses no accelerator, though other builds of it do"
        assert error["note"].startswith("engine 1.0 (null): nvidia: cu1")
        assert "wheelfit doctor" in error["hint"]
        (package,) = error["without_accelerator"]
        assert (package["name"], package["label"], package["installed"]) == (
            "engine",
            "null",
            False,
        )
        assert error["note"].endswith(package["why_not"]["nvidia"])
        assert not [request for request in shop.index.requests if request.path.endswith(".whl")]
        assert not shop.target.exists()

    def test_one_of_two(self, shop: Shop) -> None:
        """One package on the GPU does not make up for another that is not."""
        shop.add("second", "null", "cu130")
        error = shop("install", "tool", "second", "--require-accelerator", "--json", code=3).error
        assert error["message"].startswith("second 1.0 uses no accelerator")
        assert "cu130" in error["note"]

    def test_the_same_said_by_explain(self, shop: Shop) -> None:
        """Looking at it ends like doing it."""
        result = shop("explain", "engine", "--require-accelerator", host=NO_GPU, code=3)
        assert "engine 1.0 uses no accelerator" in result.err
        assert shop("explain", "engine", "--require-accelerator").code == 0

    def test_builds_for_another_platform_count(self, shop: Shop) -> None:
        """That no wheel with an accelerator has fitting tags is not an excuse."""
        shop.add("elsewhere", "cu128", tag="py3-none-win_amd64")
        error = shop("install", "elsewhere", "--require-accelerator", "--json", code=3).error
        assert error["note"].startswith("elsewhere 1.0 (plain): nvidia: cu128: ")

    def test_what_is_kept_counts(self, shop: Shop) -> None:
        """An installed build without accelerator is refused too, and the hint says how to go on."""
        shop("install", "engine", "--no-variants")
        error = shop("install", "tool", "--require-accelerator", "--json", code=3).error
        assert error["note"] == (
            "the installed engine 1.0 (plain): nvidia: "
            "cu128: it fits, but what is installed is kept"
        )
        assert "--force-reinstall" in error["hint"]
        words = ["tool", "--require-accelerator", "--json"]
        note = shop("install", *words, host=NO_GPU, code=3).error["note"]
        assert note.startswith("the installed engine 1.0 (plain): nvidia: cu1")
        assert "it fits" not in note

    def test_a_release_without_builds_is_no_way_round(self, shop: Shop) -> None:
        """A newer release that has plain wheels only is a fallback too."""
        build_wheel(shop.folder, "engine", "2.0")
        words = ["tool", "--require-accelerator", "--json"]
        error = shop("install", *words, code=3).error
        (package,) = error["without_accelerator"]
        assert (package["name"], package["version"]) == ("engine", "2.0")
        assert package["why_not"] == {
            "nvidia": "builds of another release use one, none of this release does"
        }
        shop("explain", "engine", "--require-accelerator", code=3)
        assert shop.install("tool", "engine<2", "--require-accelerator")["engine"] == "cu128"

    def test_nothing_concerned(self, shop: Shop) -> None:
        """Where there are no such builds nothing can be required, and that is said."""
        shop.add("other")
        for command in ("install --dry-run", "explain"):
            result = shop(*command.split(), "other", "--require-accelerator", host=NO_GPU)
            assert "--require-accelerator has no effect" in result.err


class TestMaxDownload:
    """Refuse before anything is downloaded."""

    def test_too_much(self, shop: Shop) -> None:
        """The largest are named; nothing was fetched."""
        result = shop("install", "tool", "--max-download", "2kB", "--json", code=7)
        assert result.error["code"] == "too-large"
        assert "2.0 kB are allowed (--max-download)" in result.error["message"]
        assert result.error["note"].startswith("engine 1.0 (cu128): ")
        assert not [request for request in shop.index.requests if request.path.endswith(".whl")]

    def test_enough(self, shop: Shop) -> None:
        """What is small enough is installed, and what is cached costs nothing any more."""
        shop("install", "tool", "--max-download", "1 MB")
        shop("install", "tool", "--max-download", "0", "--force-reinstall")
        shop(
            "install", "tool", "--max-download", "0", "--force-reinstall", "--no-cache-dir", code=7
        )

    @pytest.mark.parametrize("ranges", [True, False])
    def test_sizes_that_the_index_does_not_give(
        self,
        shop: Shop,
        ranges: bool,  # noqa: FBT001
    ) -> None:
        """They are asked of the server, by a range or by the head of an answer."""
        shop.index.faults.sizes = False
        shop.index.faults.ranges = ranges
        result = shop("install", "tool", "--max-download", "2kB", "--json", code=7)
        assert result.error["note"].startswith("engine 1.0 (cu128): ")
        assert "is not known" not in result.err

    def test_unknown_sizes_are_said(self, shop: Shop) -> None:
        """What nobody knows counts only while it comes, and that is told."""
        shop.index.faults.sizes = False
        shop.index.faults.status["engine-1.0-py3-none-any-cu128.whl"] = 404
        result = shop("install", "--dry-run", "tool", "--max-download", "1GB")
        assert "the size of engine is not known" in result.err
        assert "--max-download applies during its download" in result.err

    @pytest.mark.parametrize("sizes", [True, False])
    def test_wheels_that_are_fetched_for_their_metadata(
        self,
        shop: Shop,
        sizes: bool,  # noqa: FBT001
    ) -> None:
        """Where only the whole wheel tells what it needs, it counts before anything is chosen."""
        shop.index.faults.sizes = sizes
        shop.index.faults.ranges = shop.index.faults.metadata = False
        words = ["tool", "--no-cache-dir", "--max-download", "2kB", "--json"]
        error = shop("install", *words, code=7).error
        assert error["code"] == "too-large"
        assert error["message"].startswith("downloading this file would exceed the 2.0 kB")
        assert error["where"].endswith("engine-1.0-py3-none-any-cu128.whl")
        if sizes:
            assert shop.index.bytes_sent("engine-1.0-py3-none-any-cu128.whl") == 0

    def test_no_size(self, shop: Shop) -> None:
        """A text that says no size is a mistake of the command line."""
        result = shop("install", "tool", "--max-download", "much", code=2)
        assert "'much' is not a size" in result.err

    def test_configured(self, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A site can set both bounds."""
        file = tmp_path / "wheelfit.toml"
        file.write_text('max-download = "2kB"\nrequire-accelerator = true\n')
        monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(file))
        shop("install", "tool", code=7)
        shop("install", "tool", host=NO_GPU, code=3)
        shop("install", "tool", "--max-download", "1MB")


class TestSizes:
    """What a dry run says of sizes."""

    def inside(self, shop: Shop, name: str) -> int:
        """Return how much a wheel holds."""
        with zipfile.ZipFile(shop.folder / name) as archive:
            return sum(member.file_size for member in archive.infolist())

    def test_for_people(self, shop: Shop) -> None:
        """A table, the largest first, with the sums."""
        shop.add("aid", requires=("engine",))  # not the order of the alphabet
        result = shop("install", "--dry-run", "aid")
        _, line, first, second, last = result.out.splitlines()
        assert set(line) == {"-", " "}
        assert first.split()[:3] == ["engine", "1.0", "cu128"]
        assert " 201.0 kB " in first
        assert second.split()[:2] == ["aid", "1.0"]
        assert re.fullmatch(r"Would install 2 packages: .+ to download, 201.4 kB on disk", last)
        assert result.err.count("not known") == 0

    def test_for_programs(self, shop: Shop) -> None:
        """Bytes of each and together; what is cached need not be fetched."""
        found = shop("install", "--dry-run", "tool", "--json").object
        rows = {row["name"]: row for row in found["install"]}
        name = rows["engine"]["filename"]
        assert rows["engine"]["download_size"] == (shop.folder / name).stat().st_size
        assert rows["engine"]["installed_size"] == self.inside(shop, name)
        assert rows["engine"]["cached"] is False
        for key in ("download_size", "installed_size"):
            assert found[key] == sum(row[key] for row in rows.values())
        assert found["unknown_sizes"] == []
        shop("install", "tool")
        again = shop("install", "--dry-run", "--force-reinstall", "tool", "--json").object
        assert (again["download_size"], again["installed_size"]) == (0, found["installed_size"])
        assert all(row["cached"] for row in again["install"])
        assert "cached" in shop("install", "--dry-run", "--force-reinstall", "tool").out
        links: list[str | Path] = ["-f", shop.folder, "--no-index"]
        assert "local" in shop("install", "--dry-run", "--force-reinstall", "tool", *links).out

    def test_no_whole_wheel_is_fetched(self, shop: Shop) -> None:
        """Of a wheel that is larger than what is asked for only the end comes."""
        noise = "".join(chr(33 + (number * number) % 89) for number in range(400_000))
        path = build_wheel(
            shop.folder, "noise", "1.0", files={f"noise/{n}": noise[n:] for n in range(4)}
        )
        with zipfile.ZipFile(path) as archive:
            stored = [(one.filename, archive.read(one)) for one in archive.infolist()]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for name, data in stored:
                archive.writestr(name, data)
        shop("install", "--dry-run", "noise")
        assert shop.index.bytes_sent(path.name) <= 1 << 16
        assert path.stat().st_size > 1_000_000

    def test_without_ranges(self, shop: Shop) -> None:
        """A server that gives no ranges leaves it open, which is said once."""
        shop.index.faults.ranges = False
        result = shop("install", "--dry-run", "tool")
        assert "unknown" in result.out
        assert "or more" in result.out
        assert result.err.count("is not known") == 1
        found = shop("install", "--dry-run", "tool", "--json").object
        assert found["unknown_sizes"] == ["engine", "tool"]
        assert found["download_size"] > 0
        assert all(row["installed_size"] is None for row in found["install"])

    def test_a_real_installation_asks_for_nothing_more(self, shop: Shop) -> None:
        """Sizes are looked up where somebody wants to know them."""
        found = shop("install", "tool", "--json").object
        assert "download_size" not in found
        wheels = [request for request in shop.index.requests if request.path.endswith(".whl")]
        assert len(wheels) == 2

    def test_nothing_to_do(self, shop: Shop) -> None:
        """No table of nothing."""
        shop("install", "tool")
        result = shop("install", "--dry-run", "tool")
        assert result.out == "nothing to do: the installed packages meet every requirement\n"


class TestSync:
    """The same words and bounds where a lock says what there is."""

    @pytest.fixture
    def lock(self, shop: Shop, tmp_path: Path) -> Path:
        """Lock the tool and its framework."""
        labels = ("", *BUILDS)
        return write_lock_of(
            shop.index,
            ["tool==1.0", "engine==1.0"],
            tmp_path / "pylock.toml",
            needs={"tool": {"": ["engine"]}, "engine": {label: [] for label in labels}},
        )

    def sync(
        self, shop: Shop, run: Runner, lock: Path, *words: str, host: str = GPU, code: int = 0
    ) -> CommandResult:
        """Sync what a lock says."""
        return run("sync", lock, "--target", shop.target, "--for", host, *words, code=code)

    @pytest.mark.parametrize(
        ("words", "label"),
        [((), "cu130"), (("--variant", "cpu"), "null"), (("--variant", "cuda12"), "cu128")],
    )
    def test_variant(
        self, shop: Shop, run: Runner, lock: Path, words: tuple[str, ...], label: str
    ) -> None:
        """A word reaches everything in the lock."""
        result = self.sync(shop, run, lock, "--dry-run", "--json", *words, host=NEW_GPU)
        rows = {row["name"]: row for row in result.object["install"]}
        assert rows["engine"]["label"] == label
        assert rows["engine"]["download_size"] > 0
        assert result.object["installed_size"] > rows["engine"]["installed_size"]

    def test_bounds(self, shop: Shop, run: Runner, lock: Path) -> None:
        """Neither a fallback nor too much is downloaded."""
        result = self.sync(shop, run, lock, "--require-accelerator", host=NO_GPU, code=3)
        assert "engine 1.0 uses no accelerator" in result.err
        result = self.sync(shop, run, lock, "--max-download", "2kB", code=7)
        assert "engine 1.0 (cu128)" in result.err
        assert not shop.target.exists()
        self.sync(shop, run, lock, "--max-download", "1MB", "--require-accelerator")
