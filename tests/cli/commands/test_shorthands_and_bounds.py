"""``--variant``, ``--require-accelerator``, ``--max-download`` and sizes."""

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
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_wheel, release_document

GPU = "cuda-12.8-sm90"
NEW_GPU = "cuda-13.0-sm90"
NO_GPU = "linux-x86_64"

_PROVIDERS = {"nvidia": NVIDIA}


def cuda(version: str) -> dict[str, dict[str, list[str]]]:
    """Return the properties of a CUDA build."""
    return {"nvidia": {"cuda_version_lower_bound": [version]}}


BUILDS = {"null": {}, "cu126": cuda("12.6"), "cu128": cuda("12.8"), "cu130": cuda("13.0")}
LARGE = {"big/data": "0" * 200_000}


class TargetFolder:
    """Installations for described machines from one index into one folder."""

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
        """Return the labels that would be installed."""
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
        """Add a release with variants to the index."""
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
def setup(run: Runner, tmp_path: Path) -> Iterator[TargetFolder]:
    """Yield a folder with an index of a framework in several builds and a dependent tool."""
    with RecordingIndex(tmp_path / "index") as index:
        made = TargetFolder(run, tmp_path, index)
        made.add("engine", *BUILDS)
        made.add("tool", requires=("engine",))
        yield made


class TestVariant:
    """Shorthands for several preferences (F-91)."""

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
    def test_shorthand_applies_to_dependencies(
        self, setup: TargetFolder, words: tuple[str, ...], host: str, label: str
    ) -> None:
        """A shorthand applies to dependencies; packages without variants are unaffected."""
        assert setup.install("tool", *words, host=host) == {"tool": None, "engine": label}

    def test_no_idle_gpu_warning_with_a_shorthand(self, setup: TargetFolder) -> None:
        """An idle GPU causes a warning only without a preference."""
        setup.add("bound", "null", "cu130")
        warned = setup("install", "--dry-run", "bound").err
        assert "nvidia hardware is present, but the chosen build (null) does not use it" in warned
        for command in ("install --dry-run", "explain"):
            result = setup(*command.split(), "bound", "--variant", "cpu")
            assert "hardware is present" not in result.err + result.out

    def test_unwanted_libraries(self, setup: TargetFolder) -> None:
        """Dependencies of a plain wheel are not excluded by a preference, with one warning."""
        setup.add("nvidia-cudnn-cu12", requires=("nvidia-cublas-cu12",))
        setup.add("nvidia-cublas-cu12")
        setup.add("heavy", requires=("nvidia-cudnn-cu12",))
        result = setup("install", "--dry-run", "heavy", "--variant", "cpu")
        told = "of CUDA libraries are included that your preferences exclude, which apply to builds"
        assert result.err.count("are included") == result.err.count(told) == 1
        assert "heavy needs them: take it from an index with other builds, or leave" in result.err
        assert "are included" in setup("explain", "--with-deps", "heavy", "--variant", "cpu").err
        for words in (["heavy"], ["heavy", "--variant", "cpu", "--exclude", "nvidia-cudnn-cu12"]):
            assert "are included" not in setup("install", "--dry-run", *words).err

    def test_installed_packages(self, setup: TargetFolder) -> None:
        """Named packages are replaced by the requested builds; plain dependencies are kept."""
        setup("install", "engine", "--no-variants")
        assert setup.install("tool", "--variant", "cuda") == {"tool": None}
        assert setup.install("engine", "--variant", "cuda") == {"engine": "cu128"}
        result = setup("install", "engine", "--variant", "cuda")
        assert "nvidia is required (--variant cuda), and this wheel does not have it" in result.err
        assert setup.install("engine", "--variant", "cuda") == {}
        assert setup.install("engine", "--variant", "cpu") == {"engine": "null"}

    def test_no_fitting_build(self, setup: TargetFolder) -> None:
        """It is an error if builds exist and none fits the machine."""
        result = setup("install", "tool", "--variant", "cuda", host=NO_GPU, code=3)
        assert "engine" in result.err
        assert "nvidia is required (--variant cuda)" in result.err
        result = setup("install", "tool", "--variant", "cuda13", code=3)
        assert "cu128: nvidia :: cuda_version_lower_bound :: 12.8 is forbidden" in result.err

    def test_no_such_builds(self, setup: TargetFolder) -> None:
        """Without such builds a shorthand has no effect."""
        setup.add("other")
        assert setup.install("other", "--variant", "cuda", host=NO_GPU) == {"other": None}

    def test_shorthand_is_shown(self, setup: TargetFolder) -> None:
        """The output names the shorthand in effect."""
        result = setup("explain", "engine", "--variant", "cpu")
        assert "in effect: --variant cpu" in result.err
        assert "nvidia is forbidden (--variant cpu)" in result.out
        result = setup("explain", "engine", "--variant", "cpu", "--json")
        assert "--variant cpu" in result.object["overrides"]

    @pytest.mark.parametrize(
        ("words", "code", "reference", "message"),
        [
            (["--variant", "cuba"], 1, "unknown-shorthand", "'cuba' stands for no builds"),
            (["--variant", "cpu", "--variant", "cuda"], 2, "usage", "contradict each other"),
            (["--variant", "cpu", "--require", "nvidia"], 2, "usage", "contradict each other"),
        ],
    )
    def test_invalid_shorthands(
        self, setup: TargetFolder, words: list[str], code: int, reference: str, message: str
    ) -> None:
        """Unknown and contradictory shorthands are refused before any request."""
        error = setup("install", "tool", "--json", *words, code=code).error
        assert (error["code"], message in error["message"]) == (reference, True)
        assert not setup.index.requests

    def test_configured_shorthand(self, setup: TargetFolder, user_settings: Path) -> None:
        """A configured shorthand applies until the command line has another one."""
        user_settings.write_text(
            'variant = ["lab"]\n'
            '[shorthand.lab]\nmeaning = "our machines"\nrequire = ["nvidia"]\n'
            'forbid = ["nvidia :: cuda_version_lower_bound :: 12.8"]\n'
        )
        assert setup.install("tool")["engine"] == "cu126"
        assert setup.install("tool", "--variant", "cpu")["engine"] == "null"
        assert setup.install("tool", "--variant", "auto")["engine"] == "cu128"
        error = setup("install", "tool", "--variant", "lap", "--json", code=1).error
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
    def test_invalid_configuration(
        self,
        setup: TargetFolder,
        user_settings: Path,
        text: str,
        said: str,
    ) -> None:
        """An invalid configuration is refused with its place."""
        user_settings.write_text(text)
        error = setup("install", "tool", "--json", code=1).error
        assert said in f"{error['message']} {error['hint']}"
        assert str(user_settings) in error["where"]


class TestRequireAccelerator:
    """``--require-accelerator``."""

    def test_accelerated_build(self, setup: TargetFolder) -> None:
        """A build that uses the GPU is installed."""
        result = setup("install", "--dry-run", "tool", "--require-accelerator")
        assert "cu128" in result.out
        assert "--require-accelerator" not in result.err

    def test_cpu_build_is_refused(self, setup: TargetFolder) -> None:
        """A CPU build is refused before any download, with the reason."""
        result = setup("install", "tool", "--require-accelerator", "--json", host=NO_GPU, code=3)
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
        assert not [request for request in setup.index.requests if request.path.endswith(".whl")]
        assert not setup.target.exists()

    def test_one_package_without_accelerator(self, setup: TargetFolder) -> None:
        """Each package must use the accelerator."""
        setup.add("second", "null", "cu130")
        error = setup("install", "tool", "second", "--require-accelerator", "--json", code=3).error
        assert error["message"].startswith("second 1.0 uses no accelerator")
        assert "cu130" in error["note"]

    def test_explain_has_the_same_result(self, setup: TargetFolder) -> None:
        """`explain` exits as install does."""
        result = setup("explain", "engine", "--require-accelerator", host=NO_GPU, code=3)
        assert "engine 1.0 uses no accelerator" in result.err
        assert setup("explain", "engine", "--require-accelerator").code == 0

    def test_builds_for_another_platform(self, setup: TargetFolder) -> None:
        """Accelerated builds for other platforms count."""
        setup.add("elsewhere", "cu128", tag="py3-none-win_amd64")
        error = setup("install", "elsewhere", "--require-accelerator", "--json", code=3).error
        assert error["note"].startswith("elsewhere 1.0 (plain): nvidia: cu128: ")

    def test_installed_cpu_build(self, setup: TargetFolder) -> None:
        """An installed CPU build is refused too, with a hint."""
        setup("install", "engine", "--no-variants")
        error = setup("install", "tool", "--require-accelerator", "--json", code=3).error
        assert error["note"] == (
            "the installed engine 1.0 (plain): nvidia: "
            "cu128: it fits, but what is installed is kept"
        )
        assert "--force-reinstall" in error["hint"]
        words = ["tool", "--require-accelerator", "--json"]
        note = setup("install", *words, host=NO_GPU, code=3).error["note"]
        assert note.startswith("the installed engine 1.0 (plain): nvidia: cu1")
        assert "it fits" not in note

    def test_release_without_variants(self, setup: TargetFolder) -> None:
        """A newer release without variants is refused too."""
        build_wheel(setup.folder, "engine", "2.0")
        words = ["tool", "--require-accelerator", "--json"]
        error = setup("install", *words, code=3).error
        (package,) = error["without_accelerator"]
        assert (package["name"], package["version"]) == ("engine", "2.0")
        assert package["why_not"] == {
            "nvidia": "builds of another release use one, none of this release does"
        }
        setup("explain", "engine", "--require-accelerator", code=3)
        assert setup.install("tool", "engine<2", "--require-accelerator")["engine"] == "cu128"

    def test_no_accelerated_builds(self, setup: TargetFolder) -> None:
        """Without accelerated builds the option has no effect, with a note."""
        setup.add("other")
        for command in ("install --dry-run", "explain"):
            result = setup(*command.split(), "other", "--require-accelerator", host=NO_GPU)
            assert "--require-accelerator has no effect" in result.err


class TestMaxDownload:
    """``--max-download``."""

    def test_limit_exceeded(self, setup: TargetFolder) -> None:
        """The largest wheels are named, and nothing is downloaded."""
        result = setup("install", "tool", "--max-download", "2kB", "--json", code=7)
        assert result.error["code"] == "too-large"
        assert "2.0 kB are allowed (--max-download)" in result.error["message"]
        assert result.error["note"].startswith("engine 1.0 (cu128): ")
        assert not [request for request in setup.index.requests if request.path.endswith(".whl")]

    def test_limit_kept(self, setup: TargetFolder) -> None:
        """Smaller downloads are allowed, and cached wheels do not count."""
        setup("install", "tool", "--max-download", "1 MB")
        setup("install", "tool", "--max-download", "0", "--force-reinstall")
        setup(
            "install", "tool", "--max-download", "0", "--force-reinstall", "--no-cache-dir", code=7
        )

    @pytest.mark.parametrize("ranges", [True, False])
    def test_sizes_from_the_server(
        self,
        setup: TargetFolder,
        ranges: bool,  # noqa: FBT001
    ) -> None:
        """Sizes that the page lacks are requested from the server."""
        setup.index.faults.sizes = False
        setup.index.faults.ranges = ranges
        result = setup("install", "tool", "--max-download", "2kB", "--json", code=7)
        assert result.error["note"].startswith("engine 1.0 (cu128): ")
        assert "is not known" not in result.err

    def test_unknown_sizes(self, setup: TargetFolder) -> None:
        """An unknown size is limited during the download, with a note."""
        setup.index.faults.sizes = False
        setup.index.faults.status["engine-1.0-py3-none-any-cu128.whl"] = 404
        result = setup("install", "--dry-run", "tool", "--max-download", "1GB")
        assert "the size of engine is not known" in result.err
        assert "--max-download applies during its download" in result.err

    @pytest.mark.parametrize("sizes", [True, False])
    def test_downloads_for_metadata(
        self,
        setup: TargetFolder,
        sizes: bool,  # noqa: FBT001
    ) -> None:
        """Whole wheels that are downloaded for their metadata count."""
        setup.index.faults.sizes = sizes
        setup.index.faults.ranges = setup.index.faults.metadata = False
        words = ["tool", "--no-cache-dir", "--max-download", "2kB", "--json"]
        error = setup("install", *words, code=7).error
        assert error["code"] == "too-large"
        assert error["message"].startswith("downloading this file would exceed the 2.0 kB")
        assert error["where"].endswith("engine-1.0-py3-none-any-cu128.whl")
        if sizes:
            assert setup.index.bytes_sent("engine-1.0-py3-none-any-cu128.whl") == 0

    def test_invalid_size(self, setup: TargetFolder) -> None:
        """An invalid size is a usage error."""
        result = setup("install", "tool", "--max-download", "much", code=2)
        assert "'much' is not a size" in result.err

    def test_configured_limits(self, setup: TargetFolder, user_settings: Path) -> None:
        """Settings can have both limits."""
        user_settings.write_text('max-download = "2kB"\nrequire-accelerator = true\n')
        setup("install", "tool", code=7)
        setup("install", "tool", host=NO_GPU, code=3)
        setup("install", "tool", "--max-download", "1MB")


class TestSizes:
    """Sizes in a dry run."""

    def unpacked_size(self, setup: TargetFolder, name: str) -> int:
        """Return the unpacked size of a wheel."""
        with zipfile.ZipFile(setup.folder / name) as archive:
            return sum(member.file_size for member in archive.infolist())

    def test_text_output(self, setup: TargetFolder) -> None:
        """The table lists the largest first, with totals."""
        setup.add("aid", requires=("engine",))  # not the order of the alphabet
        result = setup("install", "--dry-run", "aid")
        _, line, first, second, last = result.out.splitlines()
        assert set(line) == {"-", " "}
        assert first.split()[:3] == ["engine", "1.0", "cu128"]
        assert " 201.0 kB " in first
        assert second.split()[:2] == ["aid", "1.0"]
        assert re.fullmatch(r"Would install 2 packages: .+ to download, 201.4 kB on disk", last)
        assert result.err.count("not known") == 0

    def test_json_report(self, setup: TargetFolder) -> None:
        """The JSON object has the sizes of each wheel and the totals."""
        found = setup("install", "--dry-run", "tool", "--json").object
        rows = {row["name"]: row for row in found["install"]}
        name = rows["engine"]["filename"]
        assert rows["engine"]["download_size"] == (setup.folder / name).stat().st_size
        assert rows["engine"]["installed_size"] == self.unpacked_size(setup, name)
        assert rows["engine"]["cached"] is False
        for key in ("download_size", "installed_size"):
            assert found[key] == sum(row[key] for row in rows.values())
        assert found["unknown_sizes"] == []
        setup("install", "tool")
        again = setup("install", "--dry-run", "--force-reinstall", "tool", "--json").object
        assert (again["download_size"], again["installed_size"]) == (0, found["installed_size"])
        assert all(row["cached"] for row in again["install"])
        assert "cached" in setup("install", "--dry-run", "--force-reinstall", "tool").out
        links: list[str | Path] = ["-f", setup.folder, "--no-index"]
        assert "local" in setup("install", "--dry-run", "--force-reinstall", "tool", *links).out

    def test_only_the_end_of_a_wheel_is_fetched(self, setup: TargetFolder) -> None:
        """Only the end of a wheel is requested for its size."""
        noise = "".join(chr(33 + (number * number) % 89) for number in range(400_000))
        path = build_wheel(
            setup.folder, "noise", "1.0", files={f"noise/{n}": noise[n:] for n in range(4)}
        )
        with zipfile.ZipFile(path) as archive:
            stored = [(one.filename, archive.read(one)) for one in archive.infolist()]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for name, data in stored:
                archive.writestr(name, data)
        setup("install", "--dry-run", "noise")
        assert setup.index.bytes_sent(path.name) <= 1 << 16
        assert path.stat().st_size > 1_000_000

    def test_server_without_ranges(self, setup: TargetFolder) -> None:
        """Without ranges sizes are unknown, with a note."""
        setup.index.faults.ranges = False
        result = setup("install", "--dry-run", "tool")
        assert "unknown" in result.out
        assert "or more" in result.out
        assert result.err.count("is not known") == 1
        found = setup("install", "--dry-run", "tool", "--json").object
        assert found["unknown_sizes"] == ["engine", "tool"]
        assert found["download_size"] > 0
        assert all(row["installed_size"] is None for row in found["install"])

    def test_no_size_requests_in_an_installation(self, setup: TargetFolder) -> None:
        """An installation requests no sizes."""
        found = setup("install", "tool", "--json").object
        assert "download_size" not in found
        wheels = [request for request in setup.index.requests if request.path.endswith(".whl")]
        assert len(wheels) == 2

    def test_no_changes(self, setup: TargetFolder) -> None:
        """Without changes there is no table."""
        setup("install", "tool")
        result = setup("install", "--dry-run", "tool")
        assert result.out == "nothing to do: the installed packages meet every requirement\n"


class TestSync:
    """The same options for ``sync``."""

    @pytest.fixture
    def lock(self, setup: TargetFolder, tmp_path: Path) -> Path:
        """Lock the tool and the framework."""
        labels = ("", *BUILDS)
        return write_lock_of(
            setup.index,
            ["tool==1.0", "engine==1.0"],
            tmp_path / "pylock.toml",
            needs={"tool": {"": ["engine"]}, "engine": {label: [] for label in labels}},
        )

    def sync(
        self,
        setup: TargetFolder,
        run: Runner,
        lock: Path,
        *words: str,
        host: str = GPU,
        code: int = 0,
    ) -> CommandResult:
        """Sync a lock for a host."""
        return run("sync", lock, "--target", setup.target, "--for", host, *words, code=code)

    @pytest.mark.parametrize(
        ("words", "label"),
        [((), "cu130"), (("--variant", "cpu"), "null"), (("--variant", "cuda12"), "cu128")],
    )
    def test_shorthand(
        self,
        setup: TargetFolder,
        run: Runner,
        lock: Path,
        words: tuple[str, ...],
        label: str,
    ) -> None:
        """A shorthand applies to all packages of the lock."""
        result = self.sync(setup, run, lock, "--dry-run", "--json", *words, host=NEW_GPU)
        rows = {row["name"]: row for row in result.object["install"]}
        assert rows["engine"]["label"] == label
        assert rows["engine"]["download_size"] > 0
        assert result.object["installed_size"] > rows["engine"]["installed_size"]

    def test_limits(self, setup: TargetFolder, run: Runner, lock: Path) -> None:
        """CPU builds and large downloads are refused."""
        result = self.sync(setup, run, lock, "--require-accelerator", host=NO_GPU, code=3)
        assert "engine 1.0 uses no accelerator" in result.err
        result = self.sync(setup, run, lock, "--max-download", "2kB", code=7)
        assert "engine 1.0 (cu128)" in result.err
        assert not setup.target.exists()
        self.sync(setup, run, lock, "--max-download", "1MB", "--require-accelerator")
