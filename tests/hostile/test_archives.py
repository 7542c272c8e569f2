"""Archives that are not what they seem (CVE-2025-54368, CVE-2026-1703, CVE-2026-3219, …)."""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from collections.abc import Callable

import pytest
from cli.running import CommandResult
from hostile.archives import rebuilt
from hostile.attacks import ATTACKS, HARMLESS, INIT, NAME, UNPORTABLE
from hostile.conftest import Site
from hostile.sampling import mostly_corpora

from wheelfit.testing.wheels import build_wheel

METADATA = b"Metadata-Version: 2.1\nName: demo\nVersion: 2\n"
Route = Callable[[Site, bytes], CommandResult]
ROUTES: dict[str, Route] = {}


def route(name: str) -> Callable[[Route], Route]:
    """Name a way on which a wheel comes to be installed."""

    def register(way: Route) -> Route:
        ROUTES[name] = way
        return way

    return register


@route("index")
def from_an_index(site: Site, content: bytes) -> CommandResult:
    """Put sound metadata beside it, so that nobody looks into it before it is there."""
    site.shelf.put(content, NAME, metadata=METADATA)
    return site.attempt("install", "--json", "demo")


@route("page without hashes")
def without_hashes(site: Site, content: bytes) -> CommandResult:
    """Promise nothing, so that only the archive itself can tell."""
    site.shelf.put(content, NAME, metadata=METADATA, hashes=False, size=False)
    return site.attempt("install", "--json", "demo")


@route("page in HTML")
def from_html(site: Site, content: bytes) -> CommandResult:
    """Give it on the older kind of page."""
    site.index.faults.html_only = True
    return from_an_index(site, content)


@route("server without ranges")
def without_ranges(site: Site, content: bytes) -> CommandResult:
    """Give it from its beginning to its end only."""
    site.index.faults.ranges = False
    return from_an_index(site, content)


@route("no cache")
def without_cache(site: Site, content: bytes) -> CommandResult:
    """Keep nothing."""
    site.shelf.put(content, NAME, metadata=METADATA)
    return site.attempt("install", "--json", "demo", "--no-cache-dir")


@route("URL")
def from_a_url(site: Site, content: bytes) -> CommandResult:
    """Name it without any page."""
    site.shelf.put(content, NAME, metadata=METADATA)
    base = site.index.url.partition("/simple")[0]
    return site.attempt("install", "--json", f"{base}/files/{NAME}")


@route("file")
def from_a_file(site: Site, content: bytes) -> CommandResult:
    """Name a file on this machine."""
    wheel = site.wheels / NAME
    wheel.write_bytes(content)
    return site.attempt("install", "--json", wheel)


def check_nothing_kept(site: Site, content: bytes) -> None:
    """Neither the archive nor a tree of it may stay in the cache."""
    for path in (site.folder / "cache").rglob("*"):
        assert path.name != "manifest"
        assert not path.is_file() or path.read_bytes() != content or not content


OFTEN = ("index", "server without ranges", "no cache", "file")
SELDOM = tuple(name for name in ROUTES if name not in OFTEN)


def refuse(site: Site, label: str, routes: tuple[str, ...]) -> None:
    """Attack on some ways, one after another, each of which shall be in vain."""
    site.flat = True
    content = ATTACKS[label](build_wheel(site.wheels, "demo", "2"))
    for name in routes:
        site.shelf.forget()
        site.index.faults.html_only, site.index.faults.ranges = False, True
        result = ROUTES[name](site, content)
        assert (result.code, result.error["code"]) == (4, "invalid-wheel"), name
        assert NAME in result.error["where"], name
        check_nothing_kept(site, content)
        assert not site.library.exists()


@pytest.mark.parametrize("label", ATTACKS)
def test_one_verdict(site: Site, label: str) -> None:
    """However it comes, an unsound wheel is refused alike (exit code 4), and leaves nothing."""
    refuse(site, label, OFTEN)


@pytest.mark.parametrize("label", mostly_corpora(ATTACKS))
def test_one_verdict_on_other_ways(site: Site, label: str) -> None:
    """The same on ways that are seldom taken."""
    refuse(site, label, SELDOM)


@pytest.mark.parametrize("html", [False, True], ids=["json", "html"])
@pytest.mark.parametrize("label", mostly_corpora(ATTACKS))
def test_the_same_wheel_read_by_ranges(site: Site, label: str, html: bool) -> None:  # noqa: FBT001
    """Without metadata beside it, it is refused too: when chosen (3) or when it has come (4)."""
    site.index.faults.html_only = html
    wheel = build_wheel(site.wheels, "demo", "2")
    site.shelf.put(ATTACKS[label](wheel), NAME, metadata=False)
    result = site.attempt("install", "demo")
    assert result.code in {3, 4}


@pytest.mark.parametrize("label", mostly_corpora(ATTACKS))
def test_the_same_wheel_in_a_folder(site: Site, label: str) -> None:
    """A file that is found in a folder is refused when chosen (3) or when installed (4)."""
    wheel = build_wheel(site.wheels, "demo", "2")
    wheel.write_bytes(ATTACKS[label](wheel))
    found = site.attempt("install", "demo", "--no-index", "-f", site.wheels)
    assert found.code in {3, 4}


def test_what_is_not_an_attack(site: Site) -> None:
    """The same archives without a fault are installed: the refusals above are no accidents."""
    wheel = build_wheel(site.wheels, "demo", "2")
    site.shelf.put(rebuilt(wheel, {"demo/caf\u00e9.py": b""}), NAME)
    site.run("install", "demo")
    assert (site.library / "demo" / "caf\u00e9.py").exists()
    expected = hashlib.sha256((site.library / INIT).read_bytes()).digest()
    assert expected == hashlib.sha256(b'__version__ = "2"\n__variant__ = None\n').digest()


@pytest.mark.parametrize("label", HARMLESS)
def test_what_only_looks_odd(site: Site, label: str) -> None:
    """What can be read in one way only is installed: no false refusal."""
    site.flat = True
    content = HARMLESS[label](build_wheel(site.wheels, "demo", "2"))
    site.shelf.put(content, NAME, metadata=METADATA)
    site.run("install", "demo")
    installed = site.library / INIT
    assert installed.read_bytes() == b'__version__ = "2"\n__variant__ = None\n'
    assert installed.stat().st_mode & 0o7000 == 0


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="these systems refuse the names")
@pytest.mark.parametrize("label", UNPORTABLE)
def test_what_only_other_systems_refuse(site: Site, label: str) -> None:
    """B-34: names of other systems are no reason on this one; all files arrive, and go again."""
    content = UNPORTABLE[label](build_wheel(site.wheels, "demo", "2"))
    site.shelf.put(content, NAME, metadata=METADATA)
    site.run("install", "demo")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
    assert [name for name in names if not (site.library / name).is_file()] == []
    site.run("uninstall", "demo")
    assert not (site.library / "demo").exists()
