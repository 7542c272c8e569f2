"""Warnings about libraries that a machine cannot use, and about idle accelerators."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w
from cli.running import Runner

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

NO_GPU = "linux-x86_64"
H100 = "cuda-13.0-sm90"
V100 = "cuda-12.2-sm70"
VOLTA = "cuda-13.0-sm70"
MI300 = "rocm-7.1-gfx942"

LINUX = "py3-none-manylinux_2_28_x86_64"
ON_LINUX = 'platform_system == "Linux"'

# As the registry has them in November 2026, but for their contents.
RELEASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "torch": (
        "2.15.0",
        LINUX,
        (
            f"cuda-toolkit[cublas,cufft]==13.2.2; {ON_LINUX}",
            f"nvidia-cudnn-cu13==9.26.0.51; {ON_LINUX}",
            f"triton~=3.9.0; {ON_LINUX}",
            "sympy>=1.13.3",
        ),
    ),
    "torchvision": ("0.30.0", LINUX, ("torch>=2.14",)),
    "triton": ("3.9.0", LINUX, ()),
    "sympy": ("1.14.0", "py3-none-any", ()),
    "cuda-toolkit": (
        "13.2.2",
        "py3-none-any",
        ("nvidia-cublas==13.*; extra == 'cublas'", "nvidia-cufft==12.*; extra == 'cufft'"),
    ),
    "nvidia-cublas": ("13.2.0.9", LINUX, ()),
    "nvidia-cufft": ("12.2.0.1", LINUX, ()),
    "nvidia-cudnn-cu13": ("9.26.0.51", LINUX, ("nvidia-cublas",)),
    "nvidia-cudnn-cu12": ("9.26.0.51", LINUX, ()),
    "nvidia-cublas-cu12": ("12.9.1.4", LINUX, ()),
    "nvidia-nccl-cu13": ("2.30.7", LINUX, ()),
    "jax": (
        "0.12.0",
        "py3-none-any",
        (
            "jax-cuda12-plugin[with-cuda]==0.12.0; extra == 'cuda'",
            "jax-cuda12-plugin[with-cuda]==0.12.0; extra == 'cuda12'",
            "jax-cuda13-plugin[with-cuda]==0.12.0; extra == 'cuda13'",
            "sympy; extra == 'ci'",
            "sympy; extra == 'rocm7-local'",
        ),
    ),
    "jax-cuda12-plugin": ("0.12.0", LINUX, ("nvidia-cudnn-cu12; extra == 'with-cuda'",)),
    "jax-cuda13-plugin": ("0.12.0", LINUX, ("nvidia-cudnn-cu13; extra == 'with-cuda'",)),
    "tensorflow": (
        "2.21.0",
        LINUX,
        ("sympy", "nvidia-cublas-cu12==12.9.*; extra == 'and-cuda'"),
    ),
    "tensorflow-cpu": ("2.21.0", LINUX, ("nvidia-cublas-cu12==12.9.*; extra == 'and-cuda'",)),
    "xgboost": ("3.4.1", LINUX, (f"nvidia-nccl-cu13; {ON_LINUX}",)),
    "xgboost-cpu": ("3.4.1", LINUX, ()),
    "faiss": ("1.14.1", LINUX, ()),
    "faiss-gpu-cu12": ("1.14.1", LINUX, ()),
    "onnxruntime": ("1.31.1", LINUX, ()),
    "onnxruntime-gpu": (
        "1.31.1",
        LINUX,
        ("nvidia-cublas; extra == 'cuda'", "nvidia-cudnn-cu13; extra == 'cudnn'"),
    ),
    "heavy": ("1.0", LINUX, ("nvidia-cudnn-cu12",)),
    "flax": ("1.0", "py3-none-any", ("jax",)),
}


class Registry:
    """Commands that run for described machines with the releases of `RELEASES`."""

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex) -> None:
        self.run = run
        self.folder = folder
        self.index = index

    def warnings(self, *words: str, host: str, command: str = "install --dry-run") -> list[str]:
        """Return the warnings of a command."""
        options = ["--target", str(self.folder / "t")] if command.startswith("install") else []
        result = self.run(*command.split(), *options, "--for", host, "-i", self.index.url, *words)
        return [
            re.sub(r"^[0-9.]+ (B|kB) of ", "SIZE of ", line.removeprefix("warning: "))
            for line in result.err.splitlines()
            if line.startswith("warning: ")
        ]

    def request_paths(self, *words: str, host: str) -> list[str]:
        """Return the paths that a command with an empty cache requests, sorted."""
        self.index.clear_requests()
        cache = self.folder / f"cache-{host}-{'-'.join(words)}"
        self.warnings(*words, "--cache-dir", str(cache), host=host, command="download --dry-run")
        return sorted(request.path for request in self.index.requests)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the releases of the registry."""
    folder = tmp_path_factory.mktemp("wheels")
    for name, (version, tag, requires) in RELEASES.items():
        extras = sorted(set(re.findall(r"extra == '([a-z0-9-]+)'", " ".join(requires))))
        build_wheel(folder, name, version, tag=tag, requires=requires, provides_extra=extras)
    for name in ("torch", "faiss", "jax"):
        version, _, requires = RELEASES[name]
        build_wheel(folder, name, version, tag="py3-none-win_amd64", requires=requires)
    return folder


@pytest.fixture
def registry(run: Runner, tmp_path: Path, wheels: Path) -> Iterator[Registry]:
    """Serve the releases."""
    with RecordingIndex(wheels) as index:
        yield Registry(run, tmp_path, index)


class TestLibraries:
    """Dependencies that the machine cannot use."""

    @pytest.mark.parametrize(
        ("host", "why", "remedy"),
        [
            (NO_GPU, "no NVIDIA GPU", "a build without them (cpu)"),
            (
                V100,
                f"CUDA 13 needs CUDA driver >= 13.0, preset {V100} has 12.2",
                "a build for it (CUDA 12)",
            ),
            (
                "cuda-12.8",
                "CUDA 13 needs CUDA driver >= 13.0, preset cuda-12.8 has 12.8",
                "a build without them (cpu)",
            ),
        ],
    )
    def test_unusable_libraries(self, registry: Registry, host: str, why: str, remedy: str) -> None:
        """One line names the wasted size, the reason, and the option that takes a better build."""
        (line,) = registry.warnings("torch", "torchvision", host=host)
        assert line.startswith(
            f"SIZE of CUDA libraries are included that preset {host} cannot use ({why}); "
            f"--bridge pytorch takes {remedy}"
        )

    @pytest.mark.parametrize("host", [H100, "cuda-13.0", "windows-x86_64"])
    def test_usable_libraries(self, registry: Registry, host: str) -> None:
        """There is no warning about libraries that the machine can use or does not get."""
        assert registry.warnings("torch", host=host) == []

    def test_size(self, registry: Registry) -> None:
        """The size is the sum of the sizes in the index."""
        result = registry.run(
            "install", "--dry-run", "--json", "--for", NO_GPU, "--target",
            registry.folder / "t", "-i", registry.index.url, "torch"
        )  # fmt: skip
        (use,) = result.object["accelerators"]
        sizes = {row["name"]: row["size"] for row in result.object["install"]}
        assert set(use["libraries"]) == {
            "cuda-toolkit", "nvidia-cublas", "nvidia-cufft", "nvidia-cudnn-cu13"
        }  # fmt: skip
        assert use["size"] == sum(sizes[name] for name in use["libraries"])
        assert (use["kind"], use["namespace"]) == ("unusable-libraries", "nvidia")
        assert (use["packages"], use["remedies"]) == (["torch"], ["--bridge pytorch"])
        assert result.err.count(use["message"]) == 1

    def test_no_requests_for_sizes(self, registry: Registry) -> None:
        """No request is made only to find sizes."""
        registry.index.faults.sizes = False
        (line,) = registry.warnings("torch", host=NO_GPU, command="download --dry-run")
        assert line.startswith("CUDA libraries are included that")

    def test_family_member_with_its_own_name(self, registry: Registry) -> None:
        """An enabled family avoids the libraries; a disabled family is named in the warning."""
        assert registry.warnings("xgboost", host=NO_GPU) == []
        (line,) = registry.warnings("xgboost", "--no-bridges", host=NO_GPU)
        assert line.endswith("; leaving out --no-bridges takes a build without them (xgboost-cpu)")

    def test_all_families_disabled(self, registry: Registry) -> None:
        """The remedy replaces --no-bridges, which disables all families."""
        (line,) = registry.warnings("torch", "xgboost", "--no-bridges", host=NO_GPU)
        assert line.endswith(
            "; --bridge pytorch in place of --no-bridges takes builds without them "
            "(cpu and xgboost-cpu)"
        )

    def test_no_family_helps(self, registry: Registry) -> None:
        """Without a matching family the warning names other remedies."""
        (line,) = registry.warnings("heavy", host=NO_GPU)
        assert line.endswith(
            "; heavy needs them: take it from an index with other builds, or leave a library "
            "out with --exclude nvidia-cudnn-cu12"
        )
        assert registry.warnings("heavy", "--exclude", "nvidia-cudnn-cu12", host=NO_GPU) == []
        assert registry.warnings("heavy", host=V100) == []

    def test_several_packages_in_one_warning(self, registry: Registry) -> None:
        """All packages that need unusable libraries share one warning."""
        (line,) = registry.warnings("torch", "jax[cuda12]", host=NO_GPU)
        assert "--bridge pytorch takes a build without them (cpu)" in line

    def test_partial_remedy(self, registry: Registry) -> None:
        """A remedy that covers only some packages names the others."""
        (line,) = registry.warnings("torch", "heavy", host=NO_GPU)
        assert line.endswith("takes a build without them (cpu); heavy needs some of them too")

    def test_requested_libraries(self, registry: Registry) -> None:
        """An extra that requires the libraries is named; explicitly requested libraries are not."""
        (line,) = registry.warnings("jax[cuda12]", host=NO_GPU)
        assert line.endswith("; the extra jax[cuda12] brings them")
        assert registry.warnings("nvidia-cublas-cu12", host=NO_GPU) == []

    @pytest.mark.parametrize("host", [NO_GPU, H100])
    def test_libraries_excluded_by_a_preference(self, registry: Registry, host: str) -> None:
        """Libraries of an excluded variant are wasted on every machine."""
        (line,) = registry.warnings("torch", "--variant", "cpu", host=host)
        assert "that your preferences exclude, which apply to builds, not to dependencies" in line
        assert line.endswith("--bridge pytorch takes a build without them (cpu)")

    def test_installed_libraries(self, registry: Registry) -> None:
        """Libraries that are installed already cause no warning."""
        where = ("--target", str(registry.folder / "t"), "--for", NO_GPU)
        told = registry.run("install", *where, "-i", registry.index.url, "heavy").err
        assert told.count("are included") == 1
        again = registry.run("install", *where, "-i", registry.index.url, "heavy").err
        assert "are included" not in again


class TestIdle:
    """Accelerators that the chosen builds do not use."""

    @pytest.mark.parametrize(
        ("words", "host", "remedy"),
        [
            ("jax --no-bridges", H100, "jax[cuda13] uses it (SIZE more)"),
            ("flax --no-bridges", H100, "jax[cuda13] uses it (SIZE more)"),
            ("jax --no-bridges", V100, "jax[cuda12] uses it (SIZE more)"),
            ("jax --no-bridges", VOLTA, "jax[cuda12] uses it (SIZE more)"),
            ("tensorflow --no-bridges", H100, "tensorflow[and-cuda] uses it (SIZE more)"),
            ("faiss", V100, "--bridge faiss takes a build that uses it (faiss-gpu-cu12)"),
            (
                "onnxruntime --no-bridges",
                H100,
                "leaving out --no-bridges takes a build that uses it (onnxruntime-gpu)",
            ),
        ],
    )
    def test_remedy_for_an_idle_gpu(
        self, registry: Registry, words: str, host: str, remedy: str
    ) -> None:
        """The warning names the extra or the family that uses the GPU."""
        (line,) = registry.warnings(*words.split(), host=host)
        name = re.split(r"[\[ ]", remedy if "[" in remedy else words)[0]
        start = f"{name} leaves the NVIDIA GPU of preset {host} idle; "
        assert re.sub(r"\([0-9.]+ k?B", "(SIZE", line) == start + remedy

    def test_idle_gpu_on_windows(self, registry: Registry) -> None:
        """Registries whose Windows wheels are CPU-only leave the GPU idle."""
        host = str(registry.folder / "windows.toml")
        registry.run("host", "new", "windows-x86_64", "cuda-13.0-sm120", "-o", host)
        gpu = f"the NVIDIA GPU of host file {host} idle"
        assert registry.warnings("torch", "jax", host=host) == [  # plugins are for Linux only
            f"torch leaves {gpu}; --bridge pytorch takes a build that uses it (CUDA 13)",
            f"jax leaves {gpu}: no build that uses one is for this machine",
        ]

    def test_builds_for_other_vendors_only(self, registry: Registry) -> None:
        """A project with builds only for other vendors' GPUs leaves this GPU idle."""
        (line,) = registry.warnings("jax", "tensorflow", "faiss", host=MI300)
        assert line == (
            f"tensorflow leaves the AMD GPU of preset {MI300} idle: there are builds for NVIDIA "
            "GPUs only"
        )

    def test_several_packages_leave_a_gpu_idle(self, registry: Registry) -> None:
        """Packages that leave the same accelerator idle share one warning."""
        (line,) = registry.warnings("faiss", "jax", "tensorflow", "--no-bridges", host=V100)
        assert line.startswith("faiss, jax and tensorflow leave the NVIDIA GPU of ")
        assert "jax[cuda12] and tensorflow[and-cuda] use it (" in line
        assert line.endswith(
            "; --bridge faiss in place of --no-bridges takes a build that uses it (faiss-gpu-cu12)"
        )

    @pytest.mark.parametrize(
        ("words", "host"),
        [
            ("jax tensorflow faiss onnxruntime sympy", NO_GPU),
            ("jax tensorflow faiss sympy", "cpu-x86_64-v3"),
            ("jax[cuda13] tensorflow[and-cuda]", H100),
            ("jax jax-cuda12-plugin --no-bridges", V100),
            ("torch torchvision triton", H100),
            ("torch --no-deps", H100),
            ("xgboost", H100),
            ("onnxruntime", H100),
            ("onnxruntime-gpu tensorflow-cpu", H100),
            ("sympy", H100),
            ("jax tensorflow faiss --variant cpu", H100),
            ("jax tensorflow faiss --no-variants", H100),
        ],
    )
    def test_no_warning(self, registry: Registry, words: str, host: str) -> None:
        """There is no warning where nothing is idle or CPU-only builds were requested."""
        assert registry.warnings(*words.split(), host=host) == []

    def test_local_version_of_the_user(self, registry: Registry, tmp_path: Path) -> None:
        """A build with a local version was chosen deliberately and causes no warning."""
        build_wheel(tmp_path / "other", "torch", "2.14.1+cpu", tag=LINUX)
        with RecordingIndex(tmp_path / "other") as other:
            registry.index = other
            assert registry.warnings("torch", host=H100) == []


class TestCommands:
    """Every command with a result prints each warning once."""

    @pytest.mark.parametrize(
        "command",
        ["install", "install --dry-run", "download --dry-run", "explain", "explain --with-deps"],
    )
    def test_each_command(self, registry: Registry, command: str) -> None:
        """Each command prints one warning on standard error, and none with -q."""
        told = registry.warnings("torch", host=NO_GPU, command=command)
        assert len([line for line in told if "CUDA libraries are included" in line]) == 1
        assert registry.warnings("torch", "-q", host=NO_GPU, command=command) == []

    def test_download_for_several_machines(self, registry: Registry) -> None:
        """A download for several machines warns about each machine separately."""
        result = registry.run(
            "download", "--dry-run", "--json", "--for", NO_GPU, "--for", H100,
            "-i", registry.index.url, "torch"
        )  # fmt: skip
        assert [len(target["accelerators"]) for target in result.object["targets"]] == [1, 0]
        assert result.err.count("are included") == 1

    def test_lock_and_sync(self, registry: Registry) -> None:
        """Locking warns of nothing; installing from the lock warns once about the machine."""
        lock = registry.folder / "pylock.toml"
        words = ("-i", registry.index.url, "torch", "-o", lock)
        assert "are included" not in registry.run("lock", "--for", NO_GPU, *words).err
        result = registry.run(
            "sync", lock, "--for", NO_GPU, "--target", registry.folder / "t", "--json"
        )
        (use,) = result.object["accelerators"]
        assert use["message"].endswith(
            "; `wheelfit lock --bridge pytorch` takes a build without them (cpu)"
        )
        assert result.err.count("are included") == 1
        again = registry.run("sync", lock, "--for", NO_GPU, "--target", registry.folder / "t")
        assert "are included" not in again.err

    @pytest.mark.parametrize(("host", "count"), [(NO_GPU, 1), (H100, 0)])
    def test_lock_without_dependencies(self, registry: Registry, host: str, count: int) -> None:
        """Locks of other tools list no dependencies; the remedy is found all the same."""
        lock = registry.folder / "pylock.toml"
        registry.run("lock", "--for", NO_GPU, "-i", registry.index.url, "torch", "-o", lock)
        content = tomllib.loads(lock.read_text())
        content.pop("tool", None)
        for package in content["packages"]:
            package.pop("dependencies", None)
            package.pop("tool", None)
        lock.write_text(tomli_w.dumps(content))
        where = ("--for", host, "--target", registry.folder / "t", "--dry-run")
        result = registry.run("sync", lock, *where)
        assert result.err.count("are included") == count
        assert result.err.count("`wheelfit lock --bridge pytorch` takes a build without") == count
        assert "idle" not in result.err

    def test_project(self, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
        """Adding to a project warns once, for this machine."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        folder = registry.folder / "project"
        folder.mkdir()
        (folder / "pyproject.toml").write_text('[project]\nname = "a"\nversion = "1"\n')
        monkeypatch.chdir(folder)
        registry.run("venv", "-q")
        where = ("-i", registry.index.url, "--python", ".venv")
        result = registry.run("add", "heavy", *where, "--json")
        (use,) = result.object["sync"]["accelerators"]
        assert use["libraries"] == ["nvidia-cudnn-cu12"]
        assert result.err.count("are included") == 1


class TestCost:
    """Requests that the warnings cost."""

    def test_no_extra_requests_for_libraries(self, registry: Registry) -> None:
        """The requests are the same with and without a warning."""
        assert registry.request_paths("torch", host=NO_GPU) == registry.request_paths(
            "torch", host=H100
        )
        assert registry.request_paths("sympy", host=NO_GPU) == registry.request_paths(
            "sympy", host=H100
        )

    def test_no_extra_requests_without_idle_gpus(self, registry: Registry) -> None:
        """Builds for a GPU are looked up only where that GPU is idle."""
        plain = registry.request_paths("jax", "tensorflow", "--no-bridges", host=NO_GPU)
        assert not [path for path in plain if "cuda" in path or "nvidia" in path]
        more = registry.request_paths("jax", "--no-bridges", host=V100)
        assert "/simple/jax-cuda12-plugin/" in more
        assert "/simple/jax-cuda13-plugin/" not in more

    def test_only_the_page_of_a_member_is_read(self, registry: Registry) -> None:
        """Only the page is read of a family member with its own project name."""
        more = set(registry.request_paths("faiss", host=V100)) - set(
            registry.request_paths("faiss", host=NO_GPU)
        )
        assert more == {"/simple/faiss-gpu/", "/simple/faiss-gpu-cu12/"}
