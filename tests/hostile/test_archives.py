"""Archives that are not what they seem (CVE-2025-54368, CVE-2026-1703, CVE-2026-3219, …)."""

from __future__ import annotations

import hashlib
import io
import struct
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hostile.archives import Entry, Zip, rebuilt
from hostile.conftest import Site

from wheelfit.testing.wheels import build_wheel

NAME = "demo-2-py3-none-any.whl"
INIT = "demo/__init__.py"
EVIL = b"raise SystemExit('owned')\n"

Attack = Callable[[Path], bytes]
ATTACKS: dict[str, Attack] = {}


def attack(label: str) -> Callable[[Attack], Attack]:
    """Name an attack."""

    def register(make: Attack) -> Attack:
        ATTACKS[label] = make
        return make

    return register


def member(name: str, content: bytes = EVIL) -> Attack:
    """Add a member that RECORD knows, with an honest hash."""
    return lambda wheel: rebuilt(wheel, {name: content})


def changed(name: str, **fields: object) -> Attack:
    """Change fields of one entry."""

    def change(entry: Entry) -> Entry:
        return replace(entry, **fields) if entry.name == name.encode() else entry  # type: ignore[arg-type]

    return lambda wheel: rebuilt(wheel, entries=change)


def surrounded(**fields: object) -> Attack:
    """Change what is around the members."""
    return lambda wheel: rebuilt(wheel, archive=Zip(**fields))  # type: ignore[arg-type]


# --- members that escape --------------------------------------------------------------

for _name in (
    "../evil.py",
    "demo/../../evil.py",
    "demo/../../../../../../../../evil.py",
    "../site-packages-evil/evil.py",  # CVE-2026-1703: a sibling that begins alike
    "demo-2.data/scripts/../../evil",
    "demo-2.data/data/../../evil",
    "demo-2.data/../../evil",
    "/evil.py",
    "//evil/share/evil.py",
    "demo-2.data/data//evil",
    "C:/evil.py",
    "c:evil.py",
    "demo\\..\\..\\evil.py",
    "\\\\server\\share\\evil.py",
    "demo/./evil.py",
    "./evil.py",
    "demo//evil.py",
    "demo/evil.py\x00.txt",
    "demo/evil\n.py",
    "demo/\x7fevil.py",
    "demo/evil\x1b[2J.py",
    "demo/\x85evil.py",
    "",
):
    ATTACKS[f"member {_name!r}"] = member(_name)

# --- two members that are one ----------------------------------------------------------

for _first, _second in (
    ("demo/a.py", "demo/A.py"),
    ("demo/stra\u00dfe.py", "demo/STRASSE.py"),
    ("demo/caf\u00e9.py", "demo/cafe\u0301.py"),
    ("demo/\u212a.py", "demo/k.py"),
    ("demo/a", "demo/a/b.py"),
    ("demo/a", "demo/A/b.py"),
):
    ATTACKS[f"both {_first!a} and {_second!a}"] = (
        lambda wheel, first=_first, second=_second: rebuilt(wheel, {first: b"1", second: b"2"})  # type: ignore[misc]
    )

ATTACKS["a name twice"] = lambda wheel: rebuilt(wheel, extra=[Entry(INIT.encode(), EVIL)])
ATTACKS["METADATA twice"] = lambda wheel: rebuilt(
    wheel, extra=[Entry(b"demo-2.dist-info/METADATA", b"Name: demo\nVersion: 2\n")]
)
ATTACKS["a member only in the stream"] = lambda wheel: rebuilt(
    wheel, extra=[Entry(b"demo/hidden.py", EVIL, listed=False)]
)
ATTACKS["a second content only in the stream"] = lambda wheel: rebuilt(
    wheel, extra=[Entry(INIT.encode(), EVIL, listed=False)]
)

# --- members that are no files ---------------------------------------------------------

ATTACKS["a symbolic link"] = lambda wheel: rebuilt(
    wheel,
    {"demo/link": b"/etc"},
    entries=lambda e: replace(e, mode=0o120777) if e.name == b"demo/link" else e,
)
ATTACKS["a file below a symbolic link"] = lambda wheel: rebuilt(
    wheel,
    {"demo/link": b"../../../..", "demo/link/evil.py": EVIL},
    entries=lambda e: replace(e, mode=0o120777) if e.name == b"demo/link" else e,
)
ATTACKS["a device"] = changed(INIT, mode=0o060644)
ATTACKS["a named pipe"] = changed(INIT, mode=0o010644)

# --- two places that disagree ------------------------------------------------------------

ATTACKS["another local name"] = changed(INIT, local_name=b"demo/__main__.py")
ATTACKS["an escaping local name"] = changed(INIT, local_name=b"../__init__.pyx")
ATTACKS["another local size"] = changed(INIT, local_size=7)
ATTACKS["another local CRC"] = changed(INIT, local_crc=7)
ATTACKS["another local method"] = changed(INIT, local_method=8)
ATTACKS["another size"] = changed(INIT, size=7)
ATTACKS["a smaller size, packed"] = changed(INIT, method=8, size=1)
ATTACKS["a larger size, packed"] = changed(INIT, method=8, size=1 << 20)
ATTACKS["another CRC"] = changed(INIT, crc=7)
ATTACKS["another offset"] = changed(INIT, offset=1)
ATTACKS["an offset behind the end"] = changed(INIT, offset=1 << 30)
ATTACKS["encrypted"] = changed(INIT, flags=1)
ATTACKS["strongly encrypted"] = changed(INIT, flags=0x41)
ATTACKS["packed with bzip2"] = changed(INIT, method=12, packed=b"BZh9")
ATTACKS["packed with nonsense"] = changed(INIT, method=8, packed=b"\xff" * 20)
ATTACKS["no UTF-8 mark"] = lambda wheel: rebuilt(
    wheel, {"demo/\u00e9.py": b""}, entries=lambda e: replace(e, flags=0)
)


@attack("a second name in an extra field")
def unicode_path(wheel: Path) -> bytes:
    """APPNOTE 4.6.9 allows a second name, which some readers prefer."""
    field = struct.pack("<2HBL", 0x7075, 5 + 10, 1, 0) + b"../evil.py"
    return changed(INIT, extra=field)(wheel)


@attack("a damaged extra field")
def damaged_extra(wheel: Path) -> bytes:
    """Its length reaches beyond its end."""
    return changed(INIT, extra=struct.pack("<2H", 1, 400))(wheel)


@attack("a ZIP64 size that nobody announced")
def zip64_extra(wheel: Path) -> bytes:
    """Write the field twice, with other numbers."""
    field = struct.pack("<2HQ", 1, 8, 5) + struct.pack("<2HQ", 1, 8, 7)
    return changed(INIT, extra=field)(wheel)


# --- what is around ----------------------------------------------------------------------

ATTACKS["something before, offsets aware of it"] = surrounded(before=b"#!/bin/sh\nrm -rf /\n")
ATTACKS["something before, offsets unaware"] = surrounded(before=b"#!/bin/sh\n", shifted=False)
ATTACKS["something behind"] = surrounded(after=b"\0" * 10)
ATTACKS["something between"] = surrounded(between=b"\0" * 10)
ATTACKS["a member count too small"] = surrounded(count=1)
ATTACKS["a member count too large"] = surrounded(count=1000)
ATTACKS["a directory too short"] = surrounded(directory_size=46)
ATTACKS["a directory elsewhere"] = surrounded(directory_offset=0)
ATTACKS["a comment that is an archive"] = lambda wheel: rebuilt(
    wheel, archive=Zip(comment=rebuilt(wheel, {INIT: EVIL}))
)


@attack("two archives, one behind the other")
def concatenated(wheel: Path) -> bytes:
    """Join two archives that are sound, each for itself."""
    return rebuilt(wheel) + rebuilt(wheel, {INIT: EVIL})


@attack("also a tar archive")
def polyglot(wheel: Path) -> bytes:
    """CVE-2026-3219: which it is must not depend on who looks."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("evil.py")
        info.size = len(EVIL)
        archive.addfile(info, io.BytesIO(EVIL))
    return rebuilt(wheel, archive=Zip(before=out.getvalue()))


for _cut in (1, 10, 22, 60):
    ATTACKS[f"cut off {_cut} bytes before its end"] = (
        lambda wheel, cut=_cut: rebuilt(wheel)[:-cut]  # type: ignore[misc]
    )
ATTACKS["cut off in the middle"] = lambda wheel: rebuilt(wheel)[: len(rebuilt(wheel)) // 2]
ATTACKS["empty"] = lambda _: b""
ATTACKS["no archive at all"] = lambda _: b"<html>your session has expired</html>" * 10
ATTACKS["a tar archive"] = lambda wheel: polyglot(wheel)[:10240]

# --- bombs ---------------------------------------------------------------------------------


@attack("a bomb")
def bomb(wheel: Path) -> bytes:
    """80 MiB out of 80 kB."""
    zeros = bytes(80 << 20)
    return rebuilt(
        wheel,
        {"demo/zeros.bin": zeros},
        entries=lambda e: replace(e, method=8) if e.name.endswith(b"zeros.bin") else e,
    )


@attack("a bomb that claims to be small")
def lying_bomb(wheel: Path) -> bytes:
    """80 MiB out of 80 kB, and 100 bytes if one believes the directory."""
    import zlib

    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(80 << 20)) + packer.flush()
    content = bytes(100)
    return rebuilt(
        wheel,
        {"demo/zeros.bin": content},
        entries=lambda e: (
            replace(e, method=8, packed=packed) if e.name.endswith(b"zeros.bin") else e
        ),
    )


@attack("overlapping members")
def overlapping(wheel: Path) -> bytes:
    """Many members that share one packed content."""
    data = bytes(1 << 20)
    return rebuilt(
        wheel,
        {f"demo/{number}.bin": data for number in range(4)},
        entries=lambda e: replace(e, offset=0) if e.name.endswith(b".bin") else e,
    )


# --- the claims ------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ATTACKS)
def test_from_an_index(site: Site, label: str) -> None:
    """An unsound wheel with sound metadata beside it is refused when it has come (exit code 4)."""
    wheel = build_wheel(site.wheels, "demo", "2")
    content = ATTACKS[label](wheel)
    beside = b"Metadata-Version: 2.1\nName: demo\nVersion: 2\n"
    site.shelf.put(content, NAME, metadata=beside)
    said = site.refused("demo", code=4)
    assert said.error["code"] == "invalid-wheel"
    assert NAME in said.error["where"]


@pytest.mark.slow
@pytest.mark.parametrize("html", [False, True], ids=["json", "html"])
@pytest.mark.parametrize("label", ATTACKS)
def test_the_same_wheel_read_by_ranges(site: Site, label: str, html: bool) -> None:  # noqa: FBT001
    """Without metadata beside it, it is refused too: when chosen (3) or when it has come (4)."""
    site.index.faults.html_only = html
    wheel = build_wheel(site.wheels, "demo", "2")
    site.shelf.put(ATTACKS[label](wheel), NAME, metadata=False)
    said = site.attempt("install", "demo")
    assert said.code in {3, 4}


@pytest.mark.slow
@pytest.mark.parametrize("label", ATTACKS)
def test_the_same_wheel_on_this_machine(site: Site, label: str) -> None:
    """A file that is named, or lies in a folder, gets the same verdict."""
    wheel = build_wheel(site.wheels, "demo", "2")
    wheel.write_bytes(ATTACKS[label](wheel))
    named = site.attempt("install", wheel)
    found = site.attempt("install", "demo", "--no-index", "-f", site.wheels)
    assert (named.code, found.code) in {(4, 4), (4, 3)}


def test_what_is_not_an_attack(site: Site) -> None:
    """The same archives without a fault are installed: the refusals above are no accidents."""
    wheel = build_wheel(site.wheels, "demo", "2")
    site.shelf.put(rebuilt(wheel, {"demo/caf\u00e9.py": b""}), NAME)
    site.run("install", "demo")
    assert (site.library / "demo" / "caf\u00e9.py").exists()
    expected = hashlib.sha256((site.library / INIT).read_bytes()).digest()
    assert expected == hashlib.sha256(b'__version__ = "2"\n__variant__ = None\n').digest()
