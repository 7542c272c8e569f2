"""``wheelfit cache``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner, tree

from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request, Response
from wheelfit.sources.cache import Store
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

DOCUMENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)
LARGE = {"plain/data.bin": os.urandom(50_000)}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a variant wheel and two plain ones."""
    folder = tmp_path / "index"
    build_release(folder, "fast", "2.0", DOCUMENT, ["mkl"])
    build_wheel(folder, "plain", "1.0", files=LARGE)
    build_wheel(folder, "plain", "2.0", files=LARGE)
    with RecordingIndex(folder) as server:
        yield server


@pytest.fixture
def cache(run: Runner, index: RecordingIndex, tmp_path: Path) -> Path:
    """Fill the cache by two installations."""
    run("install", "-i", index.url, "--target", tmp_path / "one", "fast", "plain")
    run("install", "-i", index.url, "--target", tmp_path / "two", "plain==1.0")
    return tmp_path / "cache"


class CacheCommand:
    """Runs of ``wheelfit cache`` with JSON output."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def __call__(self, *words: str | Path, code: int = 0) -> dict[str, Any]:
        """Return the JSON result of an action."""
        return self._run("cache", *words, "--json", code=code).object

    def listed(self) -> set[str]:
        """Return the listed wheels as name and version."""
        return {f"{wheel['name']} {wheel['version']}" for wheel in self("list")["wheels"]}


@pytest.fixture
def cache_command(run: Runner) -> CacheCommand:
    """Return the runner of the command."""
    return CacheCommand(run)


def test_cached_interpreters(
    run: Runner, cache_command: CacheCommand, index: RecordingIndex, tmp_path: Path
) -> None:
    """The facts of an interpreter are cached, counted, verified and removed like other entries."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    python.symlink_to(base)
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    time.sleep(2.1)  # what was made just now is not remembered
    command = ("install", "--dry-run", "-i", index.url, "--python", python, "plain")

    def listed() -> int:
        return sum(
            kind["entries"]
            for kind in cache_command("info")["kinds"]
            if kind["kind"] == "interpreters"
        )

    run(*command, "--no-cache-dir")
    assert listed() == 0
    assert run(*command).out == run(*command).out
    assert listed() == 1
    assert cache_command("verify")["damaged"] == []
    (entry,) = (tmp_path / "cache" / "interpreters-1").glob("*/*")
    entry.write_bytes(entry.read_bytes()[:-1])
    run(*command)
    assert cache_command("verify")["damaged"] == []
    entry.write_bytes(b"harm")
    assert [one["kind"] for one in cache_command("verify", code=4)["damaged"]] == ["interpreters"]
    assert run("cache", "remove", "--all").out
    assert not entry.exists()


def entries(cache: Path, kind: str) -> list[Path]:
    """Return the entries of a kind."""
    return sorted((cache / f"{kind}-1").glob("[0-9a-f][0-9a-f]/[0-9a-f]*"))


def make_old(path: Path, days: float) -> None:
    """Set the last use of an entry to some days ago."""
    when = time.time() - days * 24 * 3600
    os.utime(path / "manifest" if path.is_dir() else path, (when, when))


class TestInspection:
    """``dir``, ``info`` and ``list``."""

    def test_dir(self, run: Runner, cache_command: CacheCommand, tmp_path: Path) -> None:
        """The folder is printed, whether it exists or not."""
        assert run("cache", "dir").out == f"{tmp_path / 'cache'}\n"
        assert run("cache", "dir", "--cache-dir", tmp_path / "other").out == f"{tmp_path}/other\n"
        assert cache_command("dir")["folder"] == str(tmp_path / "cache")
        assert not (tmp_path / "cache").exists()

    def test_empty_cache(self, run: Runner, cache_command: CacheCommand, tmp_path: Path) -> None:
        """A missing folder is an empty cache, and is not created."""
        assert cache_command("info")["size"] == 0
        assert "(none yet)" in run("cache", "info").out
        assert run("cache", "list").out == "the cache has no wheels\n"
        assert run("cache", "prune").out == "nothing to remove\n"
        assert run("cache", "verify").out == "0 entries, none damaged\n"
        assert not (tmp_path / "cache").exists()

    @pytest.mark.usefixtures("cache")
    def test_info(self, cache_command: CacheCommand, cache: Path) -> None:
        """Kinds, counts and sizes match the disk; entries linked into environments are separate."""
        found = cache_command("info")
        kinds = {kind["kind"]: kind for kind in found["kinds"]}
        assert kinds["unpacked"]["entries"] == len(entries(cache, "unpacked")) == 3
        sizes = sum(
            path.stat().st_size
            for path in cache.rglob("*")
            if path.is_file() and path.parent != cache
        )
        assert found["size"] == sizes
        (cache / "builds").mkdir()
        (cache / "builds" / "record.jsonl").write_text("x" * 9)
        assert cache_command("info")["others"][0] == {"name": "builds", "files": 1, "size": 9}
        assert found["linked_size"] == sum(
            path.stat().st_size
            for path in (cache / "unpacked-1").rglob("*")
            if path.is_file() and path.stat().st_nlink > 1
        )
        assert found["linked_size"] > 100_000
        assert found["links"] == "hardlink"

    def test_list(self, run: Runner, cache_command: CacheCommand, cache: Path) -> None:
        """Wheels are listed with name, label, size and last use."""
        make_old(entries(cache, "unpacked")[0], 10)
        found = cache_command("list")["wheels"]
        assert [(one["name"], one["version"], one["label"]) for one in found] == [
            ("fast", "2.0", "mkl"), ("plain", "1.0", None), ("plain", "2.0", None),
        ]  # fmt: skip
        assert all(one["linked_size"] for one in found)
        assert {one["sha256"] for one in found} == {
            path.parent.name + path.name for path in entries(cache, "unpacked")
        }
        lines = run("cache", "list", "Plain").out.splitlines()
        assert [line.split()[:2] for line in lines[2:]] == [["plain", "1.0"], ["plain", "2.0"]]
        assert run("cache", "list", "nothing").out == "the cache has no wheels of these packages\n"

    def test_wheel_files_without_unpacked_trees(
        self, cache_command: CacheCommand, cache: Path
    ) -> None:
        """A cached wheel file without an unpacked tree is identified by its own metadata."""
        path = build_wheel(cache, "fast", "3.0", label="mkl", document=DOCUMENT)
        place = cache / "wheels-1" / "ab" / ("0" * 62)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
        (cache / "wheels-1" / "ab" / ("1" * 62)).write_bytes(b"no archive")
        told = {wheel["sha256"]: wheel for wheel in cache_command("list")["wheels"]}
        wheel = told["ab" + "0" * 62]
        assert (wheel["name"], wheel["label"]) == ("fast", "mkl")
        assert told["ab" + "1" * 62]["name"] is None

    def test_use_renews_an_entry(
        self, run: Runner, cache_command: CacheCommand, cache: Path, index: RecordingIndex
    ) -> None:
        """Use renews the time of an entry, without a request."""
        for path in entries(cache, "unpacked"):
            make_old(path, 40)
        index.clear_requests()
        run("install", "-i", index.url, "--target", cache.parent / "three", "fast")
        assert not index.requests_for("fast-2.0-py3-none-any-mkl.whl")
        used = {
            wheel["name"]: wheel["last_used"] for wheel in cache_command("list", "fast")["wheels"]
        }
        assert used["fast"][:10] == time.strftime("%Y-%m-%d", time.gmtime())
        assert {
            f"{one['name']}" for one in cache_command("prune", "--older-than", "30d")["removed"]
        } == {"plain"}


class TestRemoval:
    """``remove`` and ``prune``."""

    def test_remove_by_name(self, run: Runner, cache_command: CacheCommand, cache: Path) -> None:
        """All versions of a package or one of them are removed; environments are unaffected."""
        before = tree(cache.parent / "one")
        assert {one["version"] for one in cache_command("remove", "PLAIN==1.0.0")["removed"]} == {
            "1.0"
        }
        assert cache_command.listed() == {"fast 2.0", "plain 2.0"}
        result = run("cache", "remove", "plain", "fast")
        assert "stay there" in result.err
        assert cache_command.listed() == set()
        assert tree(cache.parent / "one") == before

    def test_remove_unknown_package(
        self, run: Runner, cache_command: CacheCommand, cache: Path
    ) -> None:
        """A package that is not in the cache is an error, and no other is removed."""
        assert "none is not in the cache" in run("cache", "remove", "plain", "none", code=1).err
        assert cache_command("remove", "plain==3", code=1)["error"]["code"] == "file-problem"
        assert cache_command("remove", "plain==what", code=1)["error"]["code"] == "file-problem"
        assert cache_command.listed() == {"fast 2.0", "plain 1.0", "plain 2.0"}
        assert cache.exists()

    def test_dry_run(self, cache_command: CacheCommand, cache: Path) -> None:
        """``--dry-run`` reports the same and removes nothing."""
        before = tree(cache)
        rehearsed = cache_command("remove", "--all", "--dry-run")
        assert tree(cache) == before
        done = cache_command("remove", "--all")
        assert {**rehearsed, "dry_run": False} == done
        assert cache_command("info")["size"] == 0

    def test_remove_all(self, cache_command: CacheCommand, cache: Path) -> None:
        """``--all`` removes all entries of wheelfit and no other files."""
        (cache / "mine.txt").write_text("mine")
        (cache / "probes").mkdir()
        (cache / "probes" / "answer.json").write_text("{}")
        cache_command("remove", "--all")
        assert cache_command("info")["size"] == 0
        left = {path for path in cache.rglob("*") if path.is_file()}
        assert left == {cache / "mine.txt", cache / "CACHEDIR.TAG"}

    def test_library_store_is_not_removed(self, cache_command: CacheCommand, cache: Path) -> None:
        """The library store is not removed."""
        listed = cache / "libraries" / "store" / "wheel.txt"
        listed.parent.mkdir(parents=True)
        listed.write_text("kept")
        cache_command("remove", "--all")
        assert listed.exists()

    def test_max_size(self, cache_command: CacheCommand, cache: Path) -> None:
        """``--max-size`` removes the least recently used entries until the rest fits."""
        trees = {path.parent.name + path.name: path for path in entries(cache, "unpacked")}
        for one in cache_command("list")["wheels"]:
            if one["version"] == "1.0":
                for kind in ("wheels", "unpacked"):
                    path = cache / f"{kind}-1" / one["sha256"][:2] / one["sha256"][2:]
                    if path.exists():
                        make_old(path, 5)
        total = cache_command("info")["size"]
        assert trees
        found = cache_command("prune", "--max-size", str(total - 1))
        assert {one["version"] for one in found["removed"]} == {"1.0"}
        assert found["left_size"] <= total - 1
        assert cache_command("prune", "--max-size", "1TB")["removed"] == []
        assert cache_command("prune", "--max-size", "0")["left_size"] == 0

    def test_spellings_of_sizes_and_ages(self, run: Runner) -> None:
        """Sizes and ages are accepted in the usual spellings; others are refused."""
        for size in ("20G", "20GB", "500MiB", "500Mi", "1.5 GB", "0", "7k"):
            run("cache", "prune", "--max-size", size)
        for words in (
            ("--max-size", "much"), ("--max-size", "-1"), ("--max-size", ""),
            ("--older-than", "30"), ("--older-than", "soon"), ("--older-than", "1y"),
        ):  # fmt: skip
            run("cache", "prune", *words, code=2)

    def test_recorded_hash_of_a_package_that_is_named_twice(
        self, cache_command: CacheCommand, cache: Path
    ) -> None:
        """It is counted and removed once."""
        Store(cache).write("hashes", "key", {"name": "plain"}, b"00")
        for words in (["--dry-run"], []):
            (other,) = cache_command("remove", "plain==1.0", "plain==2.0", *words)["others"]
            assert (other["kind"], other["entries"]) == ("hashes", 1)

    def test_links_are_not_followed(
        self, cache_command: CacheCommand, cache: Path, tmp_path: Path
    ) -> None:
        """The targets of links are neither counted nor removed."""
        outside = tmp_path / "outside"
        shutil.copytree(cache / "unpacked-1", outside / "unpacked")
        before = tree(outside)
        some = entries(cache, "unpacked")[0]
        (cache / "unpacked-1" / "zz").symlink_to(outside)
        (some.parent / ("f" * 62)).symlink_to(outside)
        (some / "tree" / "link").symlink_to(outside)
        if not (cache / "unpacked-1" / "00").exists():
            (cache / "unpacked-1" / "00").symlink_to(next((outside / "unpacked").iterdir()))
        (cache / "wheels-2").symlink_to(outside)
        (some.parent / "..part").mkdir()
        cache_command("info")
        cache_command("prune", "--max-size", "0")
        cache_command("verify")
        cache_command("remove", "--all")
        assert tree(outside) == before

    def test_read_only_cache(self, run: Runner, cache: Path) -> None:
        """A cache that cannot be changed is an error with a reason."""
        if os.geteuid() == 0:
            pytest.skip("root may write anywhere")
        for folder in (cache / "unpacked-1").iterdir():
            folder.chmod(0o500)
        assert "cannot be changed" in run("cache", "remove", "plain", code=1).err


HOLDER = """
import sys, time
from pathlib import Path
from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Response, Request
from wheelfit.sources.cache import Store
from wheelfit.sources.cache_locks import EntryLocks
locks = EntryLocks()
store = Store(Path(sys.argv[1]))
with store.new_wheel() as (file, path):
    file.write(b"half")
    file.flush()
    for held in sys.argv[2:]:
        assert locks.lock(held)
    print(path, flush=True)
    time.sleep(600)
"""


class TestConcurrentUse:
    """Other processes that use the cache at the same time."""

    @pytest.fixture
    def other(self, cache: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
        """Start a process that writes a wheel file and locks an unpacked wheel."""
        held = str(entries(cache, "unpacked")[0] / "manifest")
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(cache), held], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            path = Path(process.stdout.readline().strip())
            old = time.time() - 300
            os.utime(path, (old, old))
            yield process, path
            process.kill()

    def test_entries_in_use(
        self,
        cache_command: CacheCommand,
        run: Runner,
        cache: Path,
        other: tuple[subprocess.Popen[str], Path],
    ) -> None:
        """Entries in use are kept and reported, and removed after the other process has ended."""
        process, writing = other
        found = cache_command("remove", "--all")
        assert len(found["in_use"]) == 1
        assert len(entries(cache, "unpacked")) == 1
        assert writing.exists()
        assert "is in use and stays" in run("cache", "prune", "--max-size", "0").err
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert cache_command("info")["leftovers"]["entries"] == 1
        found = cache_command("prune", "--max-size", "0")
        assert {one["kind"] for one in found["others"]} == {"leftovers"}
        assert not writing.exists()
        assert entries(cache, "unpacked") == []

    @pytest.mark.integration
    def test_installations_during_removal(
        self, cache_command: CacheCommand, cache: Path, index: RecordingIndex, tmp_path: Path
    ) -> None:
        """Sixteen installations succeed while the cache is repeatedly emptied."""
        expected = tree(tmp_path / "one")
        environ = {**os.environ, "WHEELFIT_CACHE_DIR": str(cache)}

        def install(number: int) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "wheelfit", "install", "-q", "-i", index.url]
            command += ["--target", str(tmp_path / f"target-{number}"), "fast", "plain"]
            return subprocess.run(
                command, env=environ, capture_output=True, text=True, check=False, timeout=120
            )

        with ThreadPoolExecutor(16) as pool:
            running = [pool.submit(install, number) for number in range(16)]
            rounds = 0
            while not all(one.done() for one in running):
                cache_command("remove", "--all")
                cache_command("prune", "--max-size", "10kB")
                rounds += 1
                time.sleep(0.02)
        assert rounds > 2
        for number, one in enumerate(running):
            done = one.result()
            assert done.returncode == 0, done.stderr
            assert tree(tmp_path / f"target-{number}").keys() == expected.keys()
        assert cache_command("verify")["damaged"] == []


class TestVerification:
    """``verify``."""

    def test_sound_entries(self, run: Runner, cache_command: CacheCommand, cache: Path) -> None:
        """Use damages no entry."""
        found = cache_command("verify")
        assert found["damaged"] == []
        assert found["entries"] > 6
        assert found["size"] > 100_000
        assert "entries, none damaged" in run("cache", "verify").out
        assert cache.exists()

    def test_damaged_entries(
        self, run: Runner, cache_command: CacheCommand, cache: Path, tmp_path: Path
    ) -> None:
        """Damaged entries are reported and removed, with exit code 4."""
        store = Store(cache)
        store.write("pages", "key", {}, b"body")
        page = next(path for path in entries(cache, "pages") if path.read_bytes().endswith(b"body"))
        page.write_bytes(page.read_bytes() + b"!")
        edited = next(cache.rglob("tree/plain/data.bin"))
        found = edited.stat()
        data = bytearray(edited.read_bytes())
        data[7] ^= 1
        edited.write_bytes(data)
        os.utime(edited, ns=(found.st_atime_ns, found.st_mtime_ns))  # as a bad disk does it
        wheel = cache / "wheels-1" / "ab" / ("0" * 62)
        wheel.parent.mkdir(parents=True, exist_ok=True)
        wheel.write_bytes(b"another")
        damaged = cache_command("verify", "--keep-damaged", code=4)["damaged"]
        assert {(one["kind"], one["removed"]) for one in damaged} == {
            ("pages", False), ("unpacked", False), ("wheels", False),
        }  # fmt: skip
        assert [one["name"] for one in damaged if one["kind"] == "unpacked"] == ["plain"]
        result = run("cache", "verify", code=4)
        assert "plain/data.bin has another hash (removed)" in result.out
        assert cache_command("verify")["damaged"] == []
        assert not page.exists()
        assert not wheel.exists()
        assert (tmp_path / "one" / "plain").exists()

    def test_damaged_names(self, cache_command: CacheCommand, cache: Path) -> None:
        """A wheel is listed and removed though its ``variant.json`` is damaged."""
        for path in entries(cache, "wheels"):
            with zipfile.ZipFile(path) as archive:
                members = [name for name in archive.namelist() if name.endswith("variant.json")]
                offsets = [archive.getinfo(name).header_offset + 30 + len(name) for name in members]
            for offset in offsets:
                data = bytearray(path.read_bytes())
                data[offset : offset + 20] = b"\xff" * 20
                path.write_bytes(data)
        for document in cache.rglob("tree/*.dist-info/variant.json"):
            document.write_bytes(b"{}")
        assert {wheel["label"] for wheel in cache_command("list")["wheels"]} == {None}
        assert "wheels" in {one["kind"] for one in cache_command("verify", code=4)["damaged"]}

    def test_damaged_unpacked_wheels(self, cache_command: CacheCommand, cache: Path) -> None:
        """A damaged manifest, a missing file and a changed file are reported."""
        first, second, third = entries(cache, "unpacked")
        (first / "manifest").write_bytes(b"wheelfit unpacked 1 0\n")
        next(path for path in (second / "tree").rglob("METADATA")).unlink()
        edited = next(path for path in (third / "tree").rglob("METADATA"))
        edited.write_text("Name: other")
        reasons = sorted(one["reason"] for one in cache_command("verify", code=4)["damaged"])
        assert reasons[0] == "its manifest is damaged" or "manifest" in " ".join(reasons)
        assert sum("was changed" in reason for reason in reasons) == 2
        assert entries(cache, "unpacked") == []

    def test_unreadable_manifest(self, cache_command: CacheCommand, cache: Path) -> None:
        """The reason is the system's error, not a wrong content."""
        manifest = entries(cache, "unpacked")[0] / "manifest"
        manifest.unlink()
        manifest.mkdir()
        (damaged,) = cache_command("verify", code=4)["damaged"]
        assert damaged["reason"].startswith("the entry cannot be read: ")


class TestUsage:
    """Usage errors."""

    def test_conflicting_words(self, run: Runner, cache: Path) -> None:
        """Words that do not belong together are refused; nothing is removed."""
        before = tree(cache)
        for words in (
            "lst", "prune torch", "verify torch", "dir torch", "remove", "remove torch --all",
            "list --all", "prune --keep-damaged", "remove torch --max-size 1G", "info --dry-run",
        ):  # fmt: skip
            assert "[usage]" in run("cache", *words.split(), code=2).err
        assert tree(cache) == before

    @pytest.mark.parametrize("name", ["../x", "a==", "", "a b", "..", "a=1"])
    def test_invalid_package_name(self, name: str, run: Runner) -> None:
        """An invalid package name is refused."""
        assert "is not a valid package name" in run("cache", "remove", name, code=1).err


class TestConcurrentRemoval:
    """A cache entry that disappears between selection and linking."""

    def test_wheel_is_unpacked_again(self, run: Runner, tmp_path: Path) -> None:
        """The wheel is unpacked again, and the installation succeeds."""
        folder = tmp_path / "index"
        build_wheel(folder, "early", "1.0", files=LARGE)
        build_wheel(folder, "late", "1.0", requires=["early"])
        inside = FolderIndex(folder)
        lost: list[Path] = []

        def answer(request: Request) -> Response:
            if request.path.endswith(".whl") and "late" in request.path and not lost:
                time.sleep(0.3)  # `early` was found meanwhile
                lost.extend(entries(tmp_path / "cache", "unpacked"))
                for entry in lost:
                    shutil.rmtree(entry)
            return inside(request)

        with RecordingIndex(answer) as index:
            run("install", "-i", index.url, "--target", tmp_path / "one", "early")
            done = run("install", "-i", index.url, "--target", tmp_path / "two", "late")
        assert lost
        assert "early-1.0-py3-none-any.whl was removed or changed" in done.err
        assert (tmp_path / "two/plain/data.bin").read_bytes() == LARGE["plain/data.bin"]
        assert (tmp_path / "two/late-1.0.dist-info/RECORD").exists()
