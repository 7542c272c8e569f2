"""``wheelfit sync``: installation from a lock."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from cli.locking import write_lock_of
from cli.running import CommandResult, Runner, tree
from sampled_cases import sampled

from wheelfit.locking.document import Lock, read_lock, write_lock
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_release, build_wheel, release_document

AMD = {
    "requires": ["amd-variant-provider"],
    "plugin-api": "amd_variant_provider.plugin:AMDVariantPlugin",
}
DOCUMENT = release_document(
    {
        "cu130": {"nvidia": {"cuda_version_lower_bound": ["13.0"]}},
        "cu128": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
        "rocm": {"amd": {"gfx_arch": ["gfx942"]}},
        "xpu": {"intel": {"device_ip": ["20.1.0"]}},
        "v3": {"x86_64": {"level": ["v3"]}},
        "v1": {"x86_64": {"level": ["v1"]}},
        "null": {},
    },
    providers={
        "nvidia": NVIDIA,
        "amd": AMD,
        "intel": {
            "requires": ["intel-variant-provider"],
            "plugin-api": "intel_variant_provider.plugin:IntelVariantPlugin",
        },
        "x86_64": {"requires": ["x86-64-variant-provider<1"]},
    },
    namespaces=["nvidia", "amd", "intel", "x86_64"],
)
LABELS = ("cu130", "cu128", "rocm", "xpu", "v3", "v1")
GPU = LABELS[:4]
NEEDS: dict[str, dict[str, list[str]]] = {
    "fast": {
        "": ["small"],
        **{one: ["small", "gpu-lib"] if one in GPU else ["small"] for one in LABELS},
    },
    "small": {"": []},
    "gpu-lib": {"": []},
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingIndex]:
    """Serve a release with builds for many machines, and its dependencies."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "2.0"):
        for label in LABELS if version == "1.0" else (*LABELS[:2], "v1"):
            needs = ["small", *(["gpu-lib"] if label in GPU else [])]
            build_wheel(folder, "fast", version, label=label, document=DOCUMENT, requires=needs)
        build_wheel(folder, "fast", version, requires=["small"], tag="py3-none-macosx_11_0_arm64")
        (folder / f"fast-{version}-variants.json").write_text(json.dumps(DOCUMENT))
    for name in ("small", "gpu-lib", "left-over"):
        build_wheel(folder, name, "1.0")
    with RecordingIndex(folder) as served:
        yield served


@pytest.fixture(scope="module")
def locks(index: RecordingIndex, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lock both versions."""
    folder = tmp_path_factory.mktemp("locks")
    for version in ("1.0", "2.0"):
        path = folder / f"pylock.v{version[0]}.toml"
        pins = [f"fast=={version}", "small==1.0", "gpu-lib==1.0"]
        write_lock_of(index, pins, path, needs=NEEDS)
    return folder


@pytest.fixture
def lock(locks: Path, index: RecordingIndex) -> Path:
    """Return the lock of the older version, with no requests so far."""
    index.clear_requests()
    return locks / "pylock.v1.toml"


class TargetFolder:
    """Syncs of one folder."""

    def __init__(self, run: Runner, folder: Path, lock: Path) -> None:
        self._run = run
        self.folder = folder
        self.lock = lock

    def sync(self, host: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Make the folder equal to the lock for a host."""
        setup: list[str | Path] = ["--for", host, "--target", self.folder, "--no-cache-dir"]
        return self._run("sync", self.lock, *setup, *words, code=code)

    def installed(self) -> dict[str, tuple[str, str | None]]:
        """Return version and label of the installed packages."""
        packages = self._run.installed("--target", self.folder).items()
        return {name: (package["version"], package["label"]) for name, package in packages}


@pytest.fixture
def setup(run: Runner, tmp_path: Path, lock: Path) -> TargetFolder:
    """Return an empty folder and the lock."""
    return TargetFolder(run, tmp_path / "place", lock)


V1, V3 = "cpu-x86_64-v1", "cpu-x86_64-v3"
CUDA_12, CUDA_13 = "cuda-12.8-sm90", "cuda-13.0-sm100"
ROCM, INTEL, MAC = "rocm-6.4-gfx942", "intel-arc-b580", "macos-arm64"


def test_earlier_request(run: Runner, index: RecordingIndex, tmp_path: Path) -> None:
    """A package that the user requested stays requested if a lock replaces it."""
    pins = ["small==1.0", "fast==2.0"]
    lock = write_lock_of(index, pins, tmp_path / "pylock.toml", roots=["small", "gpu-lib"])
    table = read_lock(lock.read_bytes(), where="").to_mapping()
    del table["tool"]["wheelfit"]["roots"]  # as a lock of another tool
    lock.write_bytes(write_lock(Lock.of(table)))
    folder = tmp_path / "place"
    options: list[str | Path] = ["--for", V1, "--target", folder, "--no-cache-dir"]
    run("install", *options, "--index-url", index.url, "fast==1.0")
    run("sync", lock, *options)
    assert (folder / "fast-2.0.dist-info/REQUESTED").exists()
    assert not (folder / "small-1.0.dist-info/REQUESTED").exists()


@pytest.mark.parametrize(
    ("host", "label"),
    sampled(
        fast={2},
        cases=[
            (V1, "v1"),
            (V3, "v3"),
            (CUDA_12, "cu128"),
            (CUDA_13, "cu130"),
            (ROCM, "rocm"),
            (INTEL, "xpu"),
        ],
    ),
)
def test_build_of_each_machine(
    host: str, label: str, lock: Path, run: Runner, index: RecordingIndex, tmp_path: Path
) -> None:
    """F-121, F-123: one lock installs each machine's build, and fetches only these wheels."""
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    result = run("sync", lock, "--for", host, "--python", environment, "--no-cache-dir")
    assert f"installed fast 1.0 ({label}): best fit: " in result.out
    gpu = ["gpu_lib-1.0-py3-none-any.whl"] if label in GPU else []
    names = [f"fast-1.0-py3-none-any-{label}.whl", *gpu, "small-1.0-py3-none-any.whl"]
    assert sorted(request.path for request in index.requests) == [
        f"/files/{name}" for name in names
    ]
    python = next(environment.glob("*/python"))
    code = "import fast, small; print(fast.__variant__)"
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == label


def test_another_platform(setup: TargetFolder) -> None:
    """F-123: A lock can be installed for another platform into a folder."""
    assert "installed fast 1.0" in setup.sync(MAC).out
    assert setup.installed() == {"fast": ("1.0", None), "small": ("1.0", None)}
    assert setup.sync(MAC).out == "nothing to do: the environment matches the lock\n"


def test_packages_not_in_the_lock(setup: TargetFolder, run: Runner, index: RecordingIndex) -> None:
    """Other packages are removed, unless --inexact; pip is kept."""
    build_wheel(setup.folder.parent / "more", "pip", "99")
    more = ("--find-links", setup.folder.parent / "more", "--target", setup.folder)
    run("install", "-i", index.url, "--no-cache-dir", *more, "left-over", "pip")
    assert "left-over" in setup.sync(V1, "--inexact").out + str(setup.installed())
    assert set(setup.installed()) == {"fast", "small", "left-over", "pip"}
    _, _, row, last = setup.sync(V1, "--dry-run").out.splitlines()
    assert re.fullmatch(r"left-over +1\.0 +to be removed", row)
    assert last == "Would remove 1 package"
    assert setup.sync(V1).out == "removed left-over 1.0\n"
    assert set(setup.installed()) == {"fast", "small", "pip"}
    assert "nothing to do" in setup.sync(V1).out


def test_leftover(setup: TargetFolder, run: Runner, tmp_path: Path) -> None:
    """A second ``.dist-info`` of a package is removed, and the package is installed again."""
    setup.sync(V1)
    wheel = build_wheel(tmp_path, "small", "0.9")
    run("install", "--no-index", "--target", tmp_path / "other", wheel)
    name = "small-0.9.dist-info"
    (tmp_path / "other" / name).rename(setup.folder / name)
    *_, row, last = setup.sync(V1, "--dry-run").out.splitlines()
    assert row.endswith("replacing 0.9 and 1.0")
    assert last.startswith("Would install 1 package: ")
    assert setup.sync(V1).out == "installed small 1.0, replacing 0.9 and 1.0\n"
    assert not (setup.folder / name).exists()
    assert setup.installed().keys() == {"fast", "small"}
    assert "nothing to do" in setup.sync(V1).out


def test_hash_mismatch(setup: TargetFolder, index: RecordingIndex, run: Runner) -> None:
    """F-123: A wrong hash changes nothing, removals included."""
    run("install", "-i", index.url, "--no-cache-dir", "--target", setup.folder, "left-over")
    before = tree(setup.folder)
    name = "small-1.0-py3-none-any.whl"
    with urlopen(index.file_url(name)) as answer:
        index.faults.content[name] = answer.read().replace(b"RECORD", b"record")
    try:
        result = setup.sync(V1, code=4)
    finally:
        index.faults.content.clear()
    assert "the sha256 hash does not match" in result.err
    assert tree(setup.folder) == before


def test_package_without_a_record(setup: TargetFolder, index: RecordingIndex, run: Runner) -> None:
    """A package that cannot be removed is an error before any download."""
    run("install", "-i", index.url, "--no-cache-dir", "--target", setup.folder, "left-over")
    (setup.folder / "left_over-1.0.dist-info" / "RECORD").unlink()
    before = tree(setup.folder)
    index.clear_requests()
    for words in ((), ("--dry-run",)):
        assert "left-over 1.0 has no RECORD" in setup.sync(V1, *words, code=1).err
        assert (index.requests, tree(setup.folder)) == ([], before)
    setup.sync(V1, "--inexact")
    assert set(setup.installed()) == {"fast", "small", "left-over"}


def test_installed_build_is_kept(setup: TargetFolder) -> None:
    """An installed build that fits is kept, with a note about a better one."""
    setup.sync(CUDA_12)
    result = setup.sync(CUDA_13)
    assert result.out == "nothing to do: the environment matches the lock\n"
    assert (
        "note: fast stays cu128, though cu130 would fit better (--allow-variant-change takes it)"
        in result.err
    )
    kept = {one["name"]: one for one in setup.sync(CUDA_13, "--json").object["keep"]}
    assert (kept["fast"]["label"], kept["fast"]["better"]) == ("cu128", "cu130")
    result = setup.sync(CUDA_13, "--allow-variant-change")
    assert "note: fast 1.0 cu128 -> cu130, because cu130 is preferred" in result.err
    assert setup.installed()["fast"] == ("1.0", "cu130")


def test_newer_lock_with_the_label(setup: TargetFolder, locks: Path) -> None:
    """A newer release is installed with the installed label."""
    setup.sync(CUDA_12)
    setup.lock = locks / "pylock.v2.toml"
    result = setup.sync(CUDA_13)
    assert (
        "installed fast 2.0 (cu128), replacing 1.0: cu128 is installed and still fits" in result.out
    )


def test_newer_lock_without_the_label(
    setup: TargetFolder, locks: Path, index: RecordingIndex
) -> None:
    """A newer release without the label is refused before any download."""
    setup.sync(V3)
    before = tree(setup.folder)
    setup.lock = locks / "pylock.v2.toml"
    index.clear_requests()
    for words in ((), ("--dry-run",)):
        result = setup.sync(V3, *words, code=7)
        assert "fast 1.0 v3 -> 2.0 v1, because fast 2.0 has no build v3" in result.err
        assert "hint: --allow-variant-change allows this; --label fast=v1 asks for" in result.err
    assert (index.requests, tree(setup.folder)) == ([], before)
    error = setup.sync(V3, "--json", code=7).error
    assert error["code"] == "variant-change"
    (change,) = error["variant_changes"]
    assert (change["from"], change["to"], change["needs_consent"]) == ("v3", "v1", True)
    (change,) = setup.sync(V3, "--json", "--label", "fast=v1").object["variant_changes"]
    assert change["reason"] == "fast 2.0 has no build v3"


def test_refit(setup: TargetFolder, locks: Path) -> None:
    """--refit replaces only the builds that do not fit, with their dependencies."""
    setup.sync(V3)
    build_wheel(setup.folder.parent / "more", "other", "1.0")
    result = setup.sync(V1, code=7)
    assert "hint: --refit exchanges variants that do not fit any more" in result.err
    assert "because " in result.err
    setup.lock = locks / "pylock.v1.toml"
    result = setup.sync(V1, "--refit")
    assert "installed fast 1.0 (v1), replacing 1.0 (v3)" in result.out
    assert "removed" not in result.out
    assert "all installed variants" in setup.sync(V1, "--refit").out
    setup.sync(V3)  # which keeps v1
    result = setup.sync(V3, "--label", "fast=v3")
    assert setup.installed()["fast"] == ("1.0", "v3")


def test_refit_agrees_with_kept_builds(run: Runner, tmp_path: Path) -> None:
    """A replaced build agrees with the kept ones."""
    document = release_document(
        {
            "narrow": {
                "nvidia": {
                    "cuda_version_lower_bound": ["12.8"],
                    "cuda_version_upper_bound": ["12.9"],
                }
            },
            "cu130": {"nvidia": {"cuda_version_lower_bound": ["13.0"]}},
            "cu128": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
        },
        providers={"nvidia": NVIDIA},
    )
    wheels = tmp_path / "wheels"

    def add(name: str, version: str, *labels: str) -> None:
        build_release(wheels, name, version, document, labels)

    def lock(file: str) -> TargetFolder:
        found = ("--no-index", "-f", wheels, "--platform", "linux-x86_64")
        run("lock", "torch", "flash", *found, "-o", tmp_path / file)
        return TargetFolder(run, tmp_path / "place", tmp_path / file)

    add("torch", "1.0", "narrow")
    add("flash", "1.0", "cu128")
    setup = lock("pylock.first.toml")
    setup.sync(CUDA_12)
    add("torch", "2.0", "cu130")
    add("flash", "2.0", "cu130")
    setup = lock("pylock.newer.toml")
    result = setup.sync(CUDA_13, "--refit", code=3)
    assert "CUDA 12: flash; CUDA 13: torch" in result.err
    assert setup.installed() == {"flash": ("1.0", "cu128"), "torch": ("1.0", "narrow")}
    add("torch", "2.1", "cu130", "cu128")
    setup = lock("pylock.newest.toml")
    result = setup.sync(CUDA_13, "--refit", "--allow-variant-change", "--dry-run")
    assert re.search(r"^torch +2\.1 +cu128 .*replacing 1\.0 \(narrow\)", result.out, re.MULTILINE)
    result = setup.sync(CUDA_13, "--refit")
    assert "CUDA 12 for all, because the installed flash 1.0 (cu128) is built for" in result.err
    assert setup.installed() == {"flash": ("1.0", "cu128"), "torch": ("2.1", "cu128")}


def test_refit_keeps_other_packages(setup: TargetFolder, run: Runner) -> None:
    """Packages that are not in the lock are kept, except libraries of the replaced build."""
    document = release_document(
        {"cu128": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}}}, providers={"nvidia": NVIDIA}
    )
    folder = setup.folder.parent / "more"
    build_wheel(folder, "alone", "1.0", label="cu128", document=document)
    words = ("--no-index", "-f", folder, "--target", setup.folder, "--for", CUDA_12)
    run("install", *words, "alone")
    setup.sync(CUDA_12, "--inexact")
    result = setup.sync(V1, "--refit")
    assert "installed fast 1.0 (v1), replacing 1.0 (cu128)" in result.out
    assert "alone is not in the lock; `wheelfit install --refit` exchanges it" in result.err
    assert "alone 1.0 (cu128) does not fit any more: " in result.err
    assert setup.installed()["alone"] == ("1.0", "cu128")
    assert "removed gpu-lib 1.0: only fast 1.0 (cu128) needed it" in result.out
    assert "gpu-lib" not in setup.installed()


def test_mismatched_wheel(run: Runner, tmp_path: Path) -> None:
    """F-93: A wheel with other properties than the lock's is replaced by the next best."""
    folder = tmp_path / "wheels"
    for label in ("v3", "v1"):
        build_wheel(folder, "fast", "1.0", label=label, document=DOCUMENT)
    wrong = release_document(
        {"v3": {"x86_64": {"level": ["v2"]}}},
        providers={"x86_64": {"requires": ["x86-64-variant-provider<1"]}},
    )
    (folder / "fast-1.0-variants.json").write_text(json.dumps(DOCUMENT))
    build_wheel(folder, "fast", "1.0", label="v3", document=wrong)
    with RecordingIndex(folder) as served:
        lock = write_lock_of(
            served, ["fast==1.0"], tmp_path / "pylock.toml", needs={"fast": {"v1": [], "v3": []}}
        )
        setup = TargetFolder(run, tmp_path / "place", lock)
        result = setup.sync(V3)
    assert "installed fast 1.0 (v1)" in result.out
    assert "fast 1.0" in result.err


def test_wheel_paths(run: Runner, tmp_path: Path) -> None:
    """A wheel path is relative to the lock, and its hash is checked."""
    wheel = build_wheel(tmp_path / "locked" / "wheels", "small", "1.0")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock = tmp_path / "locked" / "pylock.toml"
    lock.write_text(
        'lock-version = "1.0"\ncreated-by = "a test"\n\n[[packages]]\nname = "small"\n'
        f'version = "1.0"\nwheels = [{{path = "wheels/{wheel.name}", '
        f'hashes = {{sha256 = "{digest}"}}}}]\n'
    )
    setup = TargetFolder(run, tmp_path / "place", lock)
    assert setup.sync(V1).out == "installed small 1.0\n"
    lock.write_text(lock.read_text().replace(digest, "0" * 64))
    setup.folder = tmp_path / "other"
    setup.sync(V1, code=4)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('directory = {path = ".", editable = true}', "x 1 must be built from source"),
        (
            'vcs = {type = "git", url = "https://example.org/x", commit-id = "0"}',
            "git+https://example.org/x@0",
        ),
        (
            'sdist = {url = "https://example.org/x-1.tar.gz", hashes = {sha256 = "00"}}',
            "x-1.tar.gz",
        ),
    ],
)
def test_entries_without_wheels(source: str, words: str, run: Runner, tmp_path: Path) -> None:
    """An entry without wheels is an error with a hint."""
    lock = tmp_path / "pylock.toml"
    lock.write_text(
        'lock-version = "1.0"\ncreated-by = "a test"\n\n[[packages]]\nname = "x"\n'
        f'version = "1"\n{source}\n'
    )
    result = TargetFolder(run, tmp_path / "place", lock).sync(V1, code=3)
    assert words in result.err
    assert "hint: " in result.err


def test_archive_wheel(run: Runner, tmp_path: Path, index: RecordingIndex) -> None:
    """F-124: A wheel locked by URL is installed once and then recognised by its hash."""
    name = "small-1.0-py3-none-any.whl"
    with urlopen(index.file_url(name)) as answer:
        digest = hashlib.sha256(answer.read()).hexdigest()
    lock = tmp_path / "pylock.toml"
    lock.write_text(
        'lock-version = "1.0"\ncreated-by = "a test"\n\n[[packages]]\nname = "small"\n'
        f'archive = {{url = "{index.file_url(name)}", hashes = {{sha256 = "{digest}"}}}}\n'
    )
    setup = TargetFolder(run, tmp_path / "place", lock)
    assert setup.sync(V1).out == "installed small 1.0\n"
    assert "nothing to do" in setup.sync(V1).out


def test_plain_wheel_of_another_tool(setup: TargetFolder, run: Runner) -> None:
    """A plain wheel that another tool installed is replaced by the build that fits."""
    folder = setup.folder.parent / "plain"
    build_wheel(folder, "fast", "1.0", requires=["small"])
    build_wheel(folder, "small", "1.0")
    run("install", "--no-index", "-f", folder, "--target", setup.folder, "fast")
    result = setup.sync(V3)
    assert "note: fast 1.0 plain -> v3, because " in result.err
    assert setup.installed()["fast"] == ("1.0", "v3")


def test_unknown_extra(run: Runner, tmp_path: Path, index: RecordingIndex) -> None:
    """An extra that the lock does not have is an error."""
    lock = write_lock_of(index, ["small==1.0"], tmp_path / "pylock.toml", needs=NEEDS)
    result = TargetFolder(run, tmp_path / "place", lock).sync(V1, "--extra", "no", code=1)
    assert "the lock was not made for the extra no" in result.err
    assert read_lock(lock.read_bytes(), where="lock").packages


def test_dry_run(setup: TargetFolder) -> None:
    """A dry run reports the changes and makes none."""
    result = setup.sync(CUDA_12, "--dry-run")
    assert re.search(r"^fast +1\.0 +cu128 .* new; best fit", result.out, re.MULTILINE)
    assert not setup.folder.exists()
    answer = setup.sync(CUDA_12, "--dry-run", "--json").object
    assert answer["dry_run"] is True
    assert {one["name"]: one["label"] for one in answer["install"]} == {
        "fast": "cu128",
        "gpu-lib": None,
        "small": None,
    }


def test_limits(setup: TargetFolder) -> None:
    """The limits of install apply, before any download."""
    assert setup.sync(CUDA_12, "--max-download", "10", code=7).err
    setup.sync(V1, "--require-accelerator", code=3)
    assert not setup.folder.exists()


def test_lock_of_the_command(run: Runner, index: RecordingIndex, tmp_path: Path) -> None:
    """A-78: A lock of `wheelfit lock` gives each of seven machines its build."""
    lock = tmp_path / "pylock.toml"
    words = ("-i", index.url, "--no-cache-dir", "fast==1.0")
    run("lock", *words, "-o", lock)
    run("lock", *words, "-o", tmp_path / "pylock.again.toml")
    assert (tmp_path / "pylock.again.toml").read_bytes() == lock.read_bytes()
    index.clear_requests()
    found = {}
    for host in (V1, V3, CUDA_12, CUDA_13, ROCM, INTEL, MAC):
        setup = TargetFolder(run, tmp_path / host, lock)
        setup.sync(host)
        found[host] = [label for _, label in setup.installed().values() if label]
        assert ("gpu-lib" in setup.installed()) == (host in (CUDA_12, CUDA_13, ROCM, INTEL))
    assert list(found.values()) == [["v1"], ["v3"], ["cu128"], ["cu130"], ["rocm"], ["xpu"], []]
    assert all(request.path.startswith("/files/") for request in index.requests)


def test_second_sync_on_a_better_machine(setup: TargetFolder) -> None:
    """A-68: A second sync changes nothing; on a better machine the better build is optional."""
    assert "installed fast 1.0 (v1)" in setup.sync(V1).out
    assert setup.sync(V1).out.startswith("nothing to do")
    result = setup.sync(V3)
    assert result.out.startswith("nothing to do")
    assert "fast stays v1, though v3 would fit better" in result.err
    assert "installed fast 1.0 (v3), replacing" in setup.sync(V3, "--allow-variant-change").out


def test_no_compatible_wheel(run: Runner, tmp_path: Path) -> None:
    """A-67: without a compatible wheel it fails, and the environment is unchanged."""
    build_release(tmp_path, "fast", "1.0", DOCUMENT, ["v3"])
    with RecordingIndex(tmp_path) as served:
        lock = write_lock_of(served, ["fast==1.0"], tmp_path / "pylock.toml")
        setup = TargetFolder(run, tmp_path / "place", lock)
        result = setup.sync(V1, code=3)
    assert "fast has no wheel in the lock for cpu-x86_64-v1" in result.err
    assert not setup.folder.exists()
