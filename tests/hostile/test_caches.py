"""Caches that others own, could write to or have changed: nothing of them reaches an environment.

Each attack goes through the command line. The attacker's code is a marker in a file of a wheel; an
environment in which it shows is lost.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.running import CommandResult
from hostile.conftest import Site

from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.unpacked import MANIFEST, TREE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs owners and permissions")
only_root = pytest.mark.skipif(
    os.name == "posix" and os.geteuid() != 0, reason="only root gives files away"
)

GOOD, EVIL = b"x = 'good'\n", b"x = 'evil'\n"
OTHER_USER = 12345


class Cache:
    """A cache that was filled by an installation, and what can be done to it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.folder = site.folder / "cache"
        files = {"demo/__init__.py": GOOD, "demo/large.bin": bytes(3 << 20)}
        self.wheel = build_wheel(site.wheels, "demo", "1", files=files)
        self.sha256 = hashlib.sha256(self.wheel.read_bytes()).hexdigest()
        site.shelf.put(self.wheel)
        site.flat = True
        self.install()
        assert self.installed() == GOOD

    def at(self, kind: str) -> Path:
        """Return where the wheel is kept."""
        return self.folder / kind / self.sha256[:2] / self.sha256[2:]

    @property
    def code(self) -> Path:
        """The file below the unpacked wheel that attackers want to change."""
        return self.at("unpacked-1") / TREE / "demo" / "__init__.py"

    def poison(self) -> None:
        """Change the code; size and time stay what they were."""
        before = self.code.stat()
        self.code.unlink()  # not the file in the environment, which may be the same one
        self.code.write_bytes(EVIL)
        os.utime(self.code, ns=(before.st_atime_ns, before.st_mtime_ns))

    def forge_manifest(self) -> None:
        """Describe the changed code as what belongs there, with the sum that makes it sound."""
        manifest = self.at("unpacked-1") / MANIFEST
        _, _, body = manifest.read_bytes().partition(b"\n")

        def digest(content: bytes) -> bytes:
            return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")

        assert digest(GOOD) in body
        body = body.replace(digest(GOOD), digest(EVIL))
        head = b"wheelfit unpacked 1 " + hashlib.sha256(body).hexdigest().encode()
        manifest.write_bytes(head + b"\n" + body)

    def install(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Install the wheel into an empty folder."""
        shutil.rmtree(self.site.library, ignore_errors=True)
        return self.site.run("install", *(words or ["demo"]), code=code)

    def install_by_hash(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Install the wheel by a requirements file with its hash."""
        file = self.site.folder / "home" / "requirements.txt"
        file.write_text(f"demo==1 --hash=sha256:{self.sha256}\n")
        return self.install("-r", file, *words, code=code)

    def installed(self) -> bytes:
        """Return the code in the environment."""
        return (self.site.library / "demo" / "__init__.py").read_bytes()


@pytest.fixture
def cache(site: Site) -> Cache:
    """Return a cache with a wheel."""
    return Cache(site)


class TestContents:
    """Where hashes are required, sizes and times are not enough."""

    def test_size_and_time_kept(self, cache: Cache) -> None:
        """A file below ``unpacked-1`` that was changed is found by its content, and mended."""
        cache.poison()
        cache.install()
        assert cache.installed() == EVIL  # the attack works: nothing else tells
        result = cache.install_by_hash("--require-hashes")
        assert cache.installed() == GOOD
        assert "demo/__init__.py of the unpacked demo-1-py3-none-any.whl" in result.err
        cache.install()
        assert cache.installed() == GOOD

    def test_a_hash_anywhere_is_enough(self, cache: Cache) -> None:
        """As in pip, one hash in a file means that hashes are required."""
        cache.poison()
        cache.install_by_hash()
        assert cache.installed() == GOOD

    def test_a_hash_in_a_url(self, cache: Cache) -> None:
        """A URL with a hash requires that of nothing else, and of its own file all the same."""
        cache.poison()
        url = cache.site.index.file_url(cache.wheel.name)
        cache.install(f"demo @ {url}#sha256={cache.sha256}")
        assert cache.installed() == GOOD

    def test_a_lock(self, cache: Cache) -> None:
        """What a lock lists has a hash."""
        lock = cache.site.folder / "home" / "pylock.toml"
        cache.site.bare("lock", "-o", lock, "demo", "-i", cache.site.index.url)
        cache.poison()
        shutil.rmtree(cache.site.library)
        result = cache.site.bare(
            "sync", lock, "--target", cache.site.library, "-i", cache.site.index.url
        )
        assert result.code == 0, result
        assert cache.installed() == GOOD

    def test_a_forged_manifest(self, cache: Cache) -> None:
        """What is written beside the files counts no more than they do."""
        cache.poison()
        cache.forge_manifest()
        cache.install_by_hash()
        assert cache.installed() == GOOD

    def test_more_than_the_archive_has(self, cache: Cache) -> None:
        """A file that the archive lacks does not get in by being listed."""
        entry = cache.at("unpacked-1")
        _, _, body = (entry / MANIFEST).read_bytes().partition(b"\n")
        first, names, hashes, sizes, marks, times = body.split(b"\n")
        (entry / TREE / "evil.py").write_bytes(EVIL)
        time = (entry / TREE / "evil.py").stat().st_mtime_ns
        body = b"\n".join(
            (
                first,
                names + b"\tevil.py",
                hashes + b"\t" + hashes.split(b"\t")[0],
                sizes + b"\t%d" % len(EVIL),
                marks + b"-",
                times + b"\t%d" % time,
            )
        )
        head = b"wheelfit unpacked 1 " + hashlib.sha256(body).hexdigest().encode()
        (entry / MANIFEST).write_bytes(head + b"\n" + body)
        cache.install_by_hash()
        assert not (cache.site.library / "evil.py").exists()

    @pytest.mark.parametrize("name", ["../../../../evil.py", "/evil.py", "demo/../../evil.py"])
    def test_a_manifest_that_leads_out(self, cache: Cache, name: str) -> None:
        """Names that lead out of the wheel make it none, hashes or not."""
        manifest = cache.at("unpacked-1") / MANIFEST
        _, _, body = manifest.read_bytes().partition(b"\n")
        body = body.replace(b"demo/__init__.py", name.encode(), 1)
        head = b"wheelfit unpacked 1 " + hashlib.sha256(body).hexdigest().encode()
        manifest.write_bytes(head + b"\n" + body)
        cache.install()
        assert cache.installed() == GOOD

    def test_without_the_archive(self, cache: Cache) -> None:
        """Without the archive nothing says what is right, so it is fetched again."""
        cache.poison()
        cache.at("wheels-1").unlink()
        cache.site.index.clear_requests()
        cache.install_by_hash()
        assert cache.installed() == GOOD
        assert cache.site.index.requests_for(cache.wheel.name)

    def test_without_the_archive_and_offline(self, cache: Cache) -> None:
        """Then there is nothing to go by, and the message says so."""
        cache.at("wheels-1").unlink()
        result = cache.install_by_hash("--offline", code=5)
        assert "the archive of demo-1-py3-none-any.whl is not in the cache" in result.err
        cache.install("demo", "--offline")
        assert cache.installed() == GOOD

    def test_a_damaged_archive(self, cache: Cache) -> None:
        """An archive that is not what was promised is fetched again too."""
        cache.poison()
        archive = cache.at("wheels-1")
        archive.chmod(0o600)
        archive.write_bytes(archive.read_bytes().replace(b"x = 'good'", b"x = 'evil'"))
        cache.install_by_hash()
        assert cache.installed() == GOOD

    def test_a_sibling(self, cache: Cache, site: Site) -> None:
        """What a new wheel shares with a poisoned one is not taken over."""
        cache.poison()
        large = os.urandom(5 << 20)
        old = build_wheel(
            site.wheels, "big", "1", files={"big/__init__.py": GOOD, "big/large.bin": large}
        )
        site.shelf.put(old)
        cache.install("big==1")
        sha256 = hashlib.sha256(old.read_bytes()).hexdigest()
        tree = cache.folder / "unpacked-1" / sha256[:2] / sha256[2:] / TREE
        code = tree / "big" / "__init__.py"
        before = code.stat()
        code.unlink()
        code.write_bytes(EVIL)
        os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns))
        new = build_wheel(
            site.wheels,
            "big",
            "2",
            files={"big/__init__.py": GOOD, "big/large.bin": large, "big/new.py": b""},
        )
        site.shelf.put(new)
        file = site.folder / "home" / "requirements.txt"
        digest = hashlib.sha256(new.read_bytes()).hexdigest()
        file.write_text(f"big==2 --hash=sha256:{digest}\n")
        cache.install("-r", file)
        assert (site.library / "big" / "__init__.py").read_bytes() == GOOD

    def test_another_hash_than_the_index_gives(self, cache: Cache) -> None:
        """A hash that only the user knows counts, whatever is kept under that of the index."""
        file = cache.site.folder / "home" / "requirements.txt"
        file.write_text(f"demo==1 --hash=sha512:{'0' * 128}\n")
        result = cache.install("-r", file, code=4)
        assert "sha512" in result.err

    def test_a_wheel_on_this_machine(self, cache: Cache) -> None:
        """A local wheel is its own archive; what was remembered of its hash does not count."""
        words = ("--no-index", "--find-links", cache.site.wheels, "--offline")
        old = cache.wheel.stat().st_mtime - 10
        os.utime(cache.wheel, (old, old))
        cache.install("demo", *words)
        cache.poison()
        cache.install("demo", *words)
        assert cache.installed() == EVIL
        cache.install_by_hash(*words)
        assert cache.installed() == GOOD


def open_to_all(path: Path) -> None:
    """Make a folder writable for everybody."""
    path.chmod(0o777)


def open_to_group(path: Path) -> None:
    """Make a folder writable for a group; that of root is nobody's private one."""
    os.chown(path, -1, os.getgid())
    path.chmod(0o770)


def give_away(path: Path) -> None:
    """Give a folder to another user."""
    os.chown(path, OTHER_USER, OTHER_USER, follow_symlinks=False)


def link_elsewhere(path: Path) -> None:
    """Put a link in the place of a folder."""
    elsewhere = path.with_name(path.name + "-elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def link_of_another(path: Path) -> None:
    """Put a link that another user made in the place of a folder."""
    link_elsewhere(path)
    give_away(path)


ROOT_ONLY = [pytest.param(way, marks=only_root) for way in (open_to_group, give_away)]
TOPS = [open_to_all, *ROOT_ONLY, pytest.param(link_of_another, marks=only_root)]


class TestFolders:
    """A folder that others own or can write to is not used, however right it looks."""

    @pytest.mark.parametrize("harm", TOPS)
    def test_the_cache(self, cache: Cache, harm: Callable[[Path], None]) -> None:
        """An installation goes on without it, and says once what is wrong and what mends it."""
        cache.poison()
        harm(cache.folder)
        before = sorted(path.name for path in cache.folder.rglob("*"))
        result = cache.install()
        assert cache.installed() == GOOD
        (warning,) = [line for line in result.err.splitlines() if line.startswith("warning")]
        assert str(cache.folder) in warning
        assert re.search(r"chmod go-w|chown|sudo -H", warning)
        assert sorted(path.name for path in cache.folder.rglob("*")) == before

    @pytest.mark.parametrize("harm", [open_to_all, link_elsewhere, *ROOT_ONLY])
    @pytest.mark.parametrize("which", ["kind", "prefix", "entry"])
    def test_below_it(self, cache: Cache, harm: Callable[[Path], None], which: str) -> None:
        """Nor is a folder in it, which somebody may have made when it was open."""
        entry = cache.at("unpacked-1")
        cache.poison()
        harm({"kind": entry.parent.parent, "prefix": entry.parent, "entry": entry}[which])
        cache.install()
        assert cache.installed() == GOOD

    @pytest.mark.parametrize("harm", [link_elsewhere, pytest.param(give_away, marks=only_root)])
    def test_in_an_unpacked_wheel(self, cache: Cache, harm: Callable[[Path], None]) -> None:
        """Nor one among the files of a wheel; who can write to it matters only further up."""
        cache.poison()
        harm(cache.code.parent)
        cache.install()
        assert cache.installed() == GOOD

    @only_root
    def test_files_of_another_user(self, cache: Cache) -> None:
        """A file that another user put there, when that was possible, is not installed."""
        cache.poison()
        give_away(cache.code)
        cache.install()
        assert cache.installed() == GOOD

    @only_root
    def test_small_entries_of_another_user(self, cache: Cache) -> None:
        """Neither is a page of an index believed that another user wrote."""
        for path in (cache.folder / "pages-1").glob("*/*"):
            give_away(path)
        cache.site.index.clear_requests()
        cache.install("demo", "--offline", code=5)

    @only_root
    def test_a_packed_wheel_of_another_user(self, cache: Cache) -> None:
        """Nor an archive, of which he may still hold a handle."""
        shutil.rmtree(cache.folder / "unpacked-1")
        give_away(cache.at("wheels-1"))
        cache.site.index.clear_requests()
        cache.install()
        assert cache.site.index.requests_for(cache.wheel.name)

    def test_a_pipe_in_the_place_of_an_entry(self, cache: Cache) -> None:
        """Nobody waits for what will never be written."""
        for path in (cache.folder / "pages-1").glob("*/*"):
            path.unlink()
            os.mkfifo(path)
        cache.install()

    def test_a_link_of_ones_own(self, cache: Cache) -> None:
        """A cache on another disk, to which the user has made a link, is a cache."""
        link_elsewhere(cache.folder)
        cache.site.index.clear_requests()
        result = cache.install("demo", "--offline")
        assert cache.installed() == GOOD
        assert "warning" not in result.err

    def test_whoever_has_no_umask(self, site: Site) -> None:
        """With umask 000, as daemons have it, nobody else can write to what is made."""
        umask = os.umask(0)
        try:
            cache = Cache(site)
        finally:
            os.umask(umask)
        folders = [cache.folder, *cache.folder.glob("*"), *cache.folder.glob("*/??")]
        open_ones = [path for path in folders if path.is_dir() and path.stat().st_mode & 0o022]
        assert not open_ones
        entries = cache.folder.glob("unpacked-1/??/*")
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in entries)

    @pytest.mark.parametrize("action", ["remove", "prune", "verify"])
    def test_cleaning_up(self, cache: Cache, action: str) -> None:
        """Nothing is removed where others could exchange folders meanwhile; looking is allowed."""
        cache.folder.chmod(0o777)
        words = ["--all"] if action == "remove" else []
        before = sorted(cache.folder.rglob("*"))
        result = cache.site.bare("cache", action, *words, "--cache-dir", cache.folder)
        assert result.code == 1, result
        assert f"chmod go-w {cache.folder}" in result.err
        assert sorted(cache.folder.rglob("*")) == before
        result = cache.site.bare("cache", "info", "--cache-dir", cache.folder)
        assert (result.code, "chmod go-w" in result.err) == (0, True)
        cache.folder.chmod(0o700)
        assert cache.site.bare("cache", action, *words, "--cache-dir", cache.folder).code == 0


def test_interpreters(site: Site) -> None:
    """What an interpreter is remembered to be is not believed of a folder that others can write."""
    folder = site.folder / "cache"
    site.run("install", "--dry-run", "--no-index", "--find-links", site.wheels, code=2)
    (folder / "interpreters-1").mkdir(parents=True, exist_ok=True)
    (folder / "interpreters-1").chmod(0o777)
    build_wheel(site.wheels, "demo", "1")
    site.run("install", "--no-index", "--find-links", site.wheels, "demo")
    assert not list((folder / "interpreters-1").rglob("*"))


def test_unpacked_wheels_serve_again(cache: Cache) -> None:
    """What was verified is used: nothing is fetched, and files are shared as before."""
    cache.site.index.clear_requests()
    cache.install_by_hash("--offline", "--link-mode", "hardlink")
    assert not cache.site.index.requests
    assert (cache.site.library / "demo" / "__init__.py").samefile(cache.code)
