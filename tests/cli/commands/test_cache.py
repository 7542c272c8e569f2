"""``wheelfit cache``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner, tree
from jsonschema import Draft202012Validator

from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request, Response
from wheelfit.sources.cache import Store
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/reference/schemas/cache.json").read_text())
DOCUMENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)
LARGE = {"plain/data.bin": os.urandom(50_000)}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a variant wheel and two plain ones."""
    folder = tmp_path / "index"
    build_wheel(folder, "fast", "2.0", label="mkl", document=DOCUMENT)
    (folder / "fast-2.0-variants.json").write_text(json.dumps(DOCUMENT))
    build_wheel(folder, "plain", "1.0", files=LARGE)
    build_wheel(folder, "plain", "2.0", files=LARGE)
    with RecordingIndex(folder) as server:
        yield server


@pytest.fixture
def cache(run: Runner, index: RecordingIndex, tmp_path: Path) -> Path:
    """Fill the cache by installing."""
    run("install", "-i", index.url, "--target", tmp_path / "one", "fast", "plain")
    run("install", "-i", index.url, "--target", tmp_path / "two", "plain==1.0")
    return tmp_path / "cache"


class Cache:
    """Run ``wheelfit cache`` and hold every result against the schema."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def __call__(self, *words: str | Path, code: int = 0) -> dict[str, Any]:
        """Return the result of an action."""
        found = self._run("cache", *words, "--json", code=code).object
        if "error" not in found:
            Draft202012Validator(SCHEMA).validate(found)
        return found

    def kept(self) -> set[str]:
        """Return what is listed, as name and version."""
        return {f"{wheel['name']} {wheel['version']}" for wheel in self("list")["wheels"]}


@pytest.fixture
def ask(run: Runner) -> Cache:
    """Return what runs the command."""
    return Cache(run)


def test_interpreters(run: Runner, ask: Cache, index: RecordingIndex, tmp_path: Path) -> None:
    """What an interpreter said of itself is kept, counted, read again and removed like the rest."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    python.symlink_to(base)
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    time.sleep(2.1)  # what was made just now is not remembered
    command = ("install", "--dry-run", "-i", index.url, "--python", python, "plain")

    def kept() -> int:
        return sum(
            kind["entries"] for kind in ask("info")["kinds"] if kind["kind"] == "interpreters"
        )

    run(*command, "--no-cache-dir")
    assert kept() == 0
    assert run(*command).out == run(*command).out
    assert kept() == 1
    assert ask("verify")["damaged"] == []
    (entry,) = (tmp_path / "cache" / "interpreters-1").glob("*/*")
    entry.write_bytes(entry.read_bytes()[:-1])
    run(*command)
    assert ask("verify")["damaged"] == []
    entry.write_bytes(b"harm")
    assert [one["kind"] for one in ask("verify", code=4)["damaged"]] == ["interpreters"]
    assert run("cache", "remove", "--all").out
    assert not entry.exists()


def entries(cache: Path, kind: str) -> list[Path]:
    """Return the entries of a kind."""
    return sorted((cache / f"{kind}-1").glob("[0-9a-f][0-9a-f]/[0-9a-f]*"))


def grow_old(path: Path, days: float) -> None:
    """Let an entry look as if it had not been used for some days."""
    when = time.time() - days * 24 * 3600
    os.utime(path / "manifest" if path.is_dir() else path, (when, when))


class TestLooking:
    """What is said about what is kept."""

    def test_dir(self, run: Runner, ask: Cache, tmp_path: Path) -> None:
        """The folder alone is printed, whether it exists or not."""
        assert run("cache", "dir").out == f"{tmp_path / 'cache'}\n"
        assert run("cache", "dir", "--cache-dir", tmp_path / "other").out == f"{tmp_path}/other\n"
        assert ask("dir")["folder"] == str(tmp_path / "cache")
        assert not (tmp_path / "cache").exists()

    def test_nothing_is_kept(self, run: Runner, ask: Cache, tmp_path: Path) -> None:
        """A folder that is not there is empty, and none is made."""
        assert ask("info")["size"] == 0
        assert "(none yet)" in run("cache", "info").out
        assert run("cache", "list").out == "the cache has no wheels\n"
        assert run("cache", "prune").out == "nothing to remove\n"
        assert run("cache", "verify").out == "0 entries, none damaged\n"
        assert not (tmp_path / "cache").exists()

    @pytest.mark.usefixtures("cache")
    def test_info(self, ask: Cache, cache: Path) -> None:
        """Kinds, counts and sizes are those of the disk; what environments use is told apart."""
        found = ask("info")
        kinds = {kind["kind"]: kind for kind in found["kinds"]}
        assert kinds["unpacked"]["entries"] == len(entries(cache, "unpacked")) == 3
        sizes = sum(
            path.stat().st_size
            for path in cache.rglob("*")
            if path.is_file() and path.parent != cache
        )
        assert found["size"] == sizes
        assert found["linked_size"] == sum(
            path.stat().st_size
            for path in (cache / "unpacked-1").rglob("*")
            if path.is_file() and path.stat().st_nlink > 1
        )
        assert found["linked_size"] > 100_000
        assert found["links"] == "hardlink"
        assert found["unknown"] == []

    def test_list(self, run: Runner, ask: Cache, cache: Path) -> None:
        """Wheels have names, labels and sizes, and say when they were used last."""
        grow_old(entries(cache, "unpacked")[0], 10)
        found = ask("list")["wheels"]
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

    def test_archives_alone_have_names(self, ask: Cache, cache: Path) -> None:
        """A wheel file that is kept without its unpacked tree is told by its own content."""
        path = build_wheel(cache, "fast", "3.0", label="mkl", document=DOCUMENT)
        place = cache / "wheels-1" / "ab" / ("0" * 62)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
        (cache / "wheels-1" / "ab" / ("1" * 62)).write_bytes(b"no archive")
        told = {
            wheel["sha256"][2]: wheel
            for wheel in ask("list")["wheels"]
            if wheel["sha256"][:2] == "ab"
        }
        assert (told["0"]["name"], told["0"]["label"]) == ("fast", "mkl")
        assert told["1"]["name"] is None

    def test_using_renews(
        self, run: Runner, ask: Cache, cache: Path, index: RecordingIndex
    ) -> None:
        """An entry that is used again counts as new, and no request is needed for it."""
        for path in entries(cache, "unpacked"):
            grow_old(path, 40)
        index.forget()
        run("install", "-i", index.url, "--target", cache.parent / "three", "fast")
        assert not index.requests_for("fast-2.0-py3-none-any-mkl.whl")
        used = {wheel["name"]: wheel["last_used"] for wheel in ask("list", "fast")["wheels"]}
        assert used["fast"][:10] == time.strftime("%Y-%m-%d", time.gmtime())
        assert {f"{one['name']}" for one in ask("prune", "--older-than", "30d")["removed"]} == {
            "plain"
        }


class TestRemoving:
    """What goes, and what stays."""

    def test_by_name(self, run: Runner, ask: Cache, cache: Path) -> None:
        """All of a package goes, or one version; environments keep their files."""
        before = tree(cache.parent / "one")
        assert {one["version"] for one in ask("remove", "PLAIN==1.0.0")["removed"]} == {"1.0"}
        assert ask.kept() == {"fast 2.0", "plain 2.0"}
        result = run("cache", "remove", "plain", "fast")
        assert "stay there" in result.err
        assert ask.kept() == set()
        assert tree(cache.parent / "one") == before

    def test_what_is_not_there(self, run: Runner, ask: Cache, cache: Path) -> None:
        """A name of which nothing is kept is an error, and then nothing goes."""
        assert "none is not in the cache" in run("cache", "remove", "plain", "none", code=1).err
        assert ask("remove", "plain==3", code=1)["error"]["code"] == "file-problem"
        assert ask("remove", "plain==what", code=1)["error"]["code"] == "file-problem"
        assert ask.kept() == {"fast 2.0", "plain 1.0", "plain 2.0"}
        assert cache.exists()

    def test_dry_run(self, ask: Cache, cache: Path) -> None:
        """``--dry-run`` says the same and removes nothing."""
        before = tree(cache)
        rehearsed = ask("remove", "--all", "--dry-run")
        assert tree(cache) == before
        done = ask("remove", "--all")
        assert {**rehearsed, "dry_run": False} == done
        assert ask("info")["size"] == 0

    def test_all(self, ask: Cache, cache: Path) -> None:
        """``--all`` leaves nothing of wheelfit, and everything of others."""
        (cache / "mine.txt").write_text("mine")
        (cache / "probes").mkdir()
        (cache / "probes" / "answer.json").write_text("{}")
        ask("remove", "--all")
        assert ask("info")["size"] == 0
        left = {path for path in cache.rglob("*") if path.is_file()}
        assert left == {cache / "mine.txt", cache / "CACHEDIR.TAG"}

    def test_the_library_store(self, ask: Cache, cache: Path) -> None:
        """What programs load from is not a stranger here, and stays: it has commands of its own."""
        kept = cache / "libraries" / "store" / "wheel.txt"
        kept.parent.mkdir(parents=True)
        kept.write_text("kept")
        ask("remove", "--all")
        assert kept.exists()
        assert ask("info")["unknown"] == []

    def test_least_recently_used_first(self, ask: Cache, cache: Path) -> None:
        """``--max-size`` removes the oldest until the rest fits."""
        trees = {path.parent.name + path.name: path for path in entries(cache, "unpacked")}
        for one in ask("list")["wheels"]:
            if one["version"] == "1.0":
                for kind in ("wheels", "unpacked"):
                    path = cache / f"{kind}-1" / one["sha256"][:2] / one["sha256"][2:]
                    if path.exists():
                        grow_old(path, 5)
        total = ask("info")["size"]
        assert trees
        found = ask("prune", "--max-size", str(total - 1))
        assert {one["version"] for one in found["removed"]} == {"1.0"}
        assert found["left_size"] <= total - 1
        assert ask("prune", "--max-size", "1TB")["removed"] == []
        assert ask("prune", "--max-size", "0")["left_size"] == 0

    def test_sizes_and_times(self, run: Runner) -> None:
        """Sizes and times are written as in other tools; anything else is refused."""
        for size in ("20G", "20GB", "500MiB", "500Mi", "1.5 GB", "0", "7k"):
            run("cache", "prune", "--max-size", size)
        for words in (
            ("--max-size", "much"), ("--max-size", "-1"), ("--max-size", ""),
            ("--older-than", "30"), ("--older-than", "soon"), ("--older-than", "1y"),
        ):  # fmt: skip
            run("cache", "prune", *words, code=2)

    def test_other_layouts(self, ask: Cache, cache: Path) -> None:
        """What another version kept is shown as such, and pruned."""
        for layout in (0, 2):
            other = cache / f"pages-{layout}" / "ab" / ("0" * 62)
            other.parent.mkdir(parents=True)
            other.write_bytes(b"of another version")
        kinds = {(kind["kind"], kind["layout"]): kind["entries"] for kind in ask("info")["kinds"]}
        assert (kinds["pages", 0], kinds["pages", 2]) == (1, 1)
        reasons = {one["reason"] for one in ask("prune")["others"]}
        assert reasons == {"layout 0", "layout 2"}
        assert not (cache / "pages-2").exists()
        assert len(ask.kept()) == 3

    def test_links_are_not_followed(self, ask: Cache, cache: Path, tmp_path: Path) -> None:
        """Whatever a link in the folder leads to is neither counted nor removed."""
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
        ask("info")
        ask("prune", "--max-size", "0")
        ask("verify")
        ask("remove", "--all")
        assert tree(outside) == before

    def test_what_cannot_be_changed(self, run: Runner, cache: Path) -> None:
        """A folder that cannot be changed is an error with its reason."""
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


class TestOthersAtWork:
    """Other processes use the folder at the same time."""

    @pytest.fixture
    def other(self, cache: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
        """Start a process that writes one wheel file and holds one unpacked wheel."""
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

    def test_in_use(
        self, ask: Cache, run: Runner, cache: Path, other: tuple[subprocess.Popen[str], Path]
    ) -> None:
        """What another process holds stays, is named, and goes when that has ended."""
        process, writing = other
        found = ask("remove", "--all")
        assert len(found["in_use"]) == 1
        assert len(entries(cache, "unpacked")) == 1
        assert writing.exists()
        assert "is in use and stays" in run("cache", "prune", "--max-size", "0").err
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert ask("info")["leftovers"]["entries"] == 1
        found = ask("prune", "--max-size", "0")
        assert {one["kind"] for one in found["others"]} == {"leftovers"}
        assert not writing.exists()
        assert entries(cache, "unpacked") == []

    @pytest.mark.integration
    def test_sixteen_install_while_everything_is_removed(
        self, ask: Cache, cache: Path, index: RecordingIndex, tmp_path: Path
    ) -> None:
        """No installation fails or is incomplete, however often the cache is emptied meanwhile."""
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
                ask("remove", "--all")
                ask("prune", "--max-size", "10kB")
                rounds += 1
                time.sleep(0.02)
        assert rounds > 2
        for number, one in enumerate(running):
            done = one.result()
            assert done.returncode == 0, done.stderr
            assert tree(tmp_path / f"target-{number}").keys() == expected.keys()
        assert ask("verify")["damaged"] == []


class TestVerifying:
    """Every byte is read again."""

    def test_sound(self, run: Runner, ask: Cache, cache: Path) -> None:
        """Nothing is damaged by being used."""
        found = ask("verify")
        assert found["damaged"] == []
        assert found["entries"] > 6
        assert found["size"] > 100_000
        assert "entries, none damaged" in run("cache", "verify").out
        assert cache.exists()

    def test_damaged(self, run: Runner, ask: Cache, cache: Path, tmp_path: Path) -> None:
        """Each damaged entry is named and removed, and the exit code is 4."""
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
        damaged = ask("verify", "--keep-damaged", code=4)["damaged"]
        assert {(one["kind"], one["removed"]) for one in damaged} == {
            ("pages", False), ("unpacked", False), ("wheels", False),
        }  # fmt: skip
        assert [one["name"] for one in damaged if one["kind"] == "unpacked"] == ["plain"]
        result = run("cache", "verify", code=4)
        assert "plain/data.bin has another hash (removed)" in result.out
        assert ask("verify")["damaged"] == []
        assert not page.exists()
        assert not wheel.exists()
        assert (tmp_path / "one" / "plain").exists()

    def test_manifest(self, ask: Cache, cache: Path) -> None:
        """A damaged manifest, a file that is gone and one that was edited are found."""
        first, second, third = entries(cache, "unpacked")
        (first / "manifest").write_bytes(b"wheelfit unpacked 1 0\n")
        next(path for path in (second / "tree").rglob("METADATA")).unlink()
        edited = next(path for path in (third / "tree").rglob("METADATA"))
        edited.write_text("Name: other")
        reasons = sorted(one["reason"] for one in ask("verify", code=4)["damaged"])
        assert reasons[0] == "its manifest is damaged" or "manifest" in " ".join(reasons)
        assert sum("was changed" in reason for reason in reasons) == 2
        assert entries(cache, "unpacked") == []

    def test_manifest_that_cannot_be_read(self, ask: Cache, cache: Path) -> None:
        """The reason is that of the system, not that the content is wrong."""
        manifest = entries(cache, "unpacked")[0] / "manifest"
        manifest.unlink()
        manifest.mkdir()
        (damaged,) = ask("verify", code=4)["damaged"]
        assert damaged["reason"].startswith("the entry cannot be read: ")


class TestUsage:
    """Wrong command lines are refused before anything is looked at."""

    def test_refused(self, run: Runner, cache: Path) -> None:
        """The error says what belongs together; nothing is removed."""
        before = tree(cache)
        for words in (
            "lst", "prune torch", "verify torch", "dir torch", "remove", "remove torch --all",
            "list --all", "prune --keep-damaged", "remove torch --max-size 1G", "info --dry-run",
        ):  # fmt: skip
            assert "[usage]" in run("cache", *words.split(), code=2).err
        assert tree(cache) == before

    @pytest.mark.parametrize("name", ["../x", "a==", "", "a b", "..", "a=1"])
    def test_no_name(self, name: str, run: Runner) -> None:
        """What is no name of a package is refused."""
        assert "is not a valid package name" in run("cache", "remove", name, code=1).err


class TestGone:
    """What was found in the cache goes away before it is linked, as where there are no locks."""

    def test_unpacked_again(self, run: Runner, tmp_path: Path) -> None:
        """The wheel is unpacked again, and everything is installed."""
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
        assert "early-1.0-py3-none-any.whl was removed or changed meanwhile" in done.err
        assert (tmp_path / "two/plain/data.bin").read_bytes() == LARGE["plain/data.bin"]
        assert (tmp_path / "two/late-1.0.dist-info/RECORD").exists()
