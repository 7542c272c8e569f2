"""Lock files go from tool to tool: uv and pip read ours, we read and rewrite theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from locking.entries import TARGET, X86_64, release_for
from packaging.pylock import Pylock
from packaging.version import Version

from wheelfit.cli.main import main
from wheelfit.locking.document import Lock, read_lock, write_lock
from wheelfit.locking.locking import new_lock
from wheelfit.locking.release import lock_release
from wheelfit.locking.selection import LockCandidates
from wheelfit.resolution.release_metadata import read_release_metadata
from wheelfit.sources.open import open_sources
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

pytestmark = pytest.mark.integration


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a project with variants, one without a plain wheel, and an ordinary one."""
    folder = tmp_path / "wheels"
    variants = {"v3": {"x86_64": {"level": ["v3"]}}, "v1.0": {"x86_64": {"level": ["v1"]}}}
    document = release_document(variants, providers={"x86_64": X86_64})
    for label in ("v3", "v1.0", None):
        build_wheel(folder, "fastfft", "2.1", label=label, document=document, requires=["small"])
    build_wheel(folder, "variants-only", "1", label="v1.0", document=document)
    build_wheel(folder, "small", "1")
    for name in ("fastfft-2.1", "variants_only-1"):
        (folder / f"{name}-variants.json").write_text(json.dumps(document))
    with RecordingIndex(folder) as index:
        yield index


def lock_from(index: RecordingIndex, *pins: str) -> Lock:
    """Lock releases of an index."""
    settings = SourceSettings(index_url=index.url, keyring="disabled")
    repository = open_sources(settings, cache_folder=None, environ={})
    tables = []
    for pin in pins:
        name, version = pin.split("==")
        page = repository.project(name)  # type: ignore[arg-type]
        assert page is not None
        release = release_for(page, Version(version), [TARGET])
        assert release is not None
        wheels = [wheel for wheel in release.wheels if wheel.filename.is_variant]
        metadata = read_release_metadata(release, wheels, repository)
        needs = {"": ["small"] if name == "fastfft" else []}
        tables.append(lock_release(release, metadata, needs=needs, index=index.url).table)
    return new_lock(tables, roots=[pins[0]], requires_python=">=3.11")


def run(program: Path, *words: str | Path, folder: Path, **environment: str) -> Any:
    """Run a tool with nothing of the settings of whoever runs the tests."""
    names = ("PATH", "SYSTEMROOT", "PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    settings = {"HOME": str(folder), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    if "PIP_INDEX_URL" in kept:
        settings["UV_DEFAULT_INDEX"] = kept["PIP_INDEX_URL"]
    if "PIP_CERT" in kept:
        settings["SSL_CERT_FILE"] = kept["PIP_CERT"]
    return subprocess.run(
        [program, *words],
        env={**kept, **settings, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def uv_sync(uv: Path, lock: Path, folder: Path, *options: str) -> Any:
    """Let uv install a lock into a folder."""
    target = folder / "target"
    words = ["pip", "sync", "--no-config", "--no-cache", "--python", sys.executable]
    return run(uv, *words, "--target", target, *options, lock, folder=folder)


def kept(text: bytes) -> bytes:
    """Rewrite a lock, and check that nothing got lost."""
    lock = read_lock(text, where="pylock.toml")
    data = write_lock(lock)
    assert tomllib.loads(data.decode()) == tomllib.loads(text.decode())
    assert lock.notes == ()
    return data


@pytest.mark.network
class TestUv:
    """What uv 0.13.8 does."""

    @pytest.mark.parametrize("preview", [(), ("--preview-features", "wheel-variants")])
    def test_it_takes_the_plain_wheel(
        self, index: RecordingIndex, uv: Path, tmp_path: Path, preview: tuple[str, ...]
    ) -> None:
        """It ignores table and variants of our locks and installs what is plain (F-117)."""
        path = tmp_path / "pylock.toml"
        path.write_bytes(write_lock(lock_from(index, "fastfft==2.1", "small==1")))
        done = uv_sync(uv, path, tmp_path, *preview)
        assert done.returncode == 0, done.stderr
        wheels = {
            request.path.rpartition("/")[2] for request in index.requests if ".whl" in request.path
        }
        assert wheels == {"fastfft-2.1-py3-none-any.whl", "small-1-py3-none-any.whl"}

    def test_without_a_plain_wheel_it_gives_up(
        self, index: RecordingIndex, uv: Path, tmp_path: Path
    ) -> None:
        """It says that there is no wheel for the platform."""
        path = tmp_path / "pylock.toml"
        path.write_bytes(write_lock(lock_from(index, "variants-only==1")))
        done = uv_sync(uv, path, tmp_path)
        assert done.returncode == 2
        assert "doesn't have a source distribution or wheel" in done.stderr

    def test_it_writes_no_variants(self, index: RecordingIndex, uv: Path, tmp_path: Path) -> None:
        """Its own locks never have variants: with them, writing one is an error."""
        words = ["pip", "compile", "--no-config", "--no-cache", "--python", sys.executable]
        words += ["--index-url", index.url, "--format", "pylock.toml", "in.txt"]
        (tmp_path / "in.txt").write_text("fastfft")
        plain = run(uv, *words, folder=tmp_path)
        assert plain.returncode == 0, plain.stderr
        (package, *_) = read_lock(plain.stdout.encode(), where="pylock.toml").packages
        assert [wheel.filename.label for wheel in package.wheels] == [None]
        variants = run(uv, *words, "--preview-features", "wheel-variants", folder=tmp_path)
        assert variants.returncode == 2
        assert "pylock.toml export does not support" in variants.stderr

    def test_its_locks_survive_a_rewrite(self, uv: Path, tmp_path: Path) -> None:
        """All of a lock of a project, with extras and groups, and uv installs the rewrite."""
        (tmp_path / "pyproject.toml").write_text(
            '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.11"\n'
            'dependencies = ["iniconfig", "colorama; sys_platform == \'win32\'"]\n'
            '[project.optional-dependencies]\nmore = ["packaging"]\n'
            '[dependency-groups]\ndev = ["pluggy"]\n'
        )
        words = ["--no-cache", "--python", sys.executable, "--format", "pylock.toml"]
        done = run(uv, "export", *words, "--all-extras", "--all-groups", folder=tmp_path)
        if done.returncode:
            pytest.skip(f"the package registry cannot be reached: {done.stderr}")
        path = tmp_path / "pylock.toml"
        path.write_bytes(kept(done.stdout.encode()))
        synced = uv_sync(uv, path, tmp_path)
        assert synced.returncode == 0, synced.stderr
        lock = read_lock(path.read_bytes(), where="pylock.toml")
        chosen = LockCandidates(lock, TARGET, None).select().resolution().pins
        assert {"iniconfig", "packaging"} <= {pin.name for pin in chosen}
        assert "colorama" not in {pin.name for pin in chosen}


@pytest.mark.network
class TestPip:
    """What pip 26.3 does."""

    def test_it_reads_locks_without_variants(
        self, index: RecordingIndex, pip: Path, tmp_path: Path
    ) -> None:
        """A lock of plain wheels is installed; one that lists variants is refused."""
        path = tmp_path / "pylock.toml"
        words: list[str | Path] = ["install", "--dry-run", "--ignore-installed", "-r", path]
        lock = lock_from(index, "small==1")
        path.write_bytes(write_lock(lock))
        assert Pylock.from_dict(tomllib.loads(path.read_text())).created_by == "wheelfit"
        done = run(pip, *words, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Would install small-1" in done.stdout
        path.write_bytes(write_lock(lock_from(index, "fastfft==2.1", "small==1")))
        done = run(pip, *words, folder=tmp_path)
        assert done.returncode != 0
        assert "wheel filename" in done.stderr.lower()

    def test_its_locks_survive_a_rewrite(self, pip: Path, tmp_path: Path) -> None:
        """All of a lock is kept, and pip installs the rewrite."""
        path = tmp_path / "pylock.toml"
        done = run(pip, "lock", "--quiet", "iniconfig", "pluggy", "-o", path, folder=tmp_path)
        if done.returncode:
            pytest.skip(f"the package registry cannot be reached: {done.stderr}")
        path.write_bytes(kept(path.read_bytes()))
        again = run(pip, "install", "--dry-run", "--ignore-installed", "-r", path, folder=tmp_path)
        assert again.returncode == 0, again.stderr
        assert "iniconfig" in again.stdout


@pytest.mark.network
class TestTheCommand:
    """Locks of ``wheelfit lock`` go to uv 0.13.8 and pip 26.3."""

    @pytest.fixture
    def written(self, index: RecordingIndex, tmp_path: Path, bare_environment: None) -> Any:
        """Return what locks requirements of the index into a file, for this Python too."""
        del bare_environment
        folder = tmp_path / "wheels"
        build_wheel(folder, "elsewhere", "1")
        build_wheel(folder, "gpu-only", "1")
        needs = ["small", 'elsewhere; sys_platform == "nowhere"', 'more; extra == "more"']
        build_wheel(folder, "app", "1", requires=needs, provides_extra=["more"])
        build_wheel(folder, "more", "1")

        def write(*words: str) -> Path:
            path = tmp_path / "pylock.toml"
            python = f"{sys.version_info.major}.{sys.version_info.minor}"
            settings = ["-i", index.url, "--no-cache-dir", "--python-version", python]
            assert main(["lock", "-q", *settings, "-o", str(path), *words]) == 0
            return path

        return write

    @pytest.mark.parametrize("words", [["pip", "sync"], ["pip", "install", "-r"]])
    def test_uv_installs_plain_locks(
        self, written: Any, uv: Path, tmp_path: Path, words: list[str]
    ) -> None:
        """A lock without variants is an ordinary one: just what counts here is installed."""
        path = written("app[more]")
        target = tmp_path / "target"
        options = ["--no-config", "--no-cache", "--python", sys.executable, "--target"]
        done = run(uv, *words, path, *options, target, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        found = {path.name.split("-")[0] for path in target.glob("*.dist-info")}
        assert found == {"app", "small", "more"}

    def test_pip_installs_plain_locks(self, written: Any, pip: Path, tmp_path: Path) -> None:
        """So does pip."""
        path = written("app[more]")
        words = ["install", "--dry-run", "--ignore-installed", "-r", path]
        done = run(pip, *words, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Would install app-1 more-1 small-1" in done.stdout

    def test_uv_takes_the_plain_wheel_and_what_it_needs(
        self, written: Any, index: RecordingIndex, uv: Path, tmp_path: Path
    ) -> None:
        """What only labels need is not among the packages for other tools (F-117, F-121)."""
        document = release_document(
            {"v3": {"x86_64": {"level": ["v3"]}}}, providers={"x86_64": X86_64}
        )
        folder = tmp_path / "wheels"
        build_wheel(folder, "fast", "1")
        build_release(folder, "fast", "1", document, ["v3"], requires=["gpu-only"])
        path = written("fast")
        done = uv_sync(uv, path, tmp_path)
        assert done.returncode == 0, done.stderr
        found = {path.name.split("-")[0] for path in (tmp_path / "target").glob("*.dist-info")}
        assert found == {"fast"}
        assert not index.requests_for("fast-1-py3-none-any-v3.whl")

    def test_a_lock_of_uv_is_the_beginning_of_ours(
        self, written: Any, index: RecordingIndex, uv: Path, tmp_path: Path
    ) -> None:
        """Its versions stay, so going over to wheelfit changes none."""
        words = ["pip", "compile", "--no-config", "--no-cache", "--python", sys.executable]
        words += ["--index-url", index.url, "--format", "pylock.toml", "in.txt", "-o"]
        (tmp_path / "in.txt").write_text("app")
        done = run(uv, *words, tmp_path / "pylock.toml", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        build_wheel(tmp_path / "wheels", "small", "2")
        lock = read_lock(written("app").read_bytes(), where="pylock.toml")
        assert {f"{package.name} {package.version}" for package in lock.packages} == {
            "app 1",
            "small 1",
        }


def test_our_own_choice_is_the_variant(index: RecordingIndex, tmp_path: Path) -> None:
    """From the same file we fetch the variant that fits, without asking the index (F-123)."""
    lock = lock_from(index, "fastfft==2.1", "small==1")
    settings = SourceSettings(index_url=index.url, keyring="disabled")
    files = open_sources(settings, cache_folder=None, environ={})
    index.clear_requests()
    machine = FixedDetector({"x86_64": {"level": ["v3", "v2", "v1"]}})
    chooser = LockCandidates(lock, TARGET, machine, files=files)
    (pin,) = (pin for pin in chooser.select().resolution().pins if pin.name == "fastfft")
    path = chooser.candidates.repository.download(pin.file, tmp_path)
    own = chooser.candidates.repository.metadata(pin.file)
    assert path.name == "fastfft-2.1-py3-none-any-v3.whl"
    assert b"Name: fastfft" in own
    assert not [request.path for request in index.requests if "simple" in request.path]
