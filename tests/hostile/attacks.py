"""Archives that are not what they seem, each a sound wheel with one thing wrong.

No code of the product takes part in making them.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hostile.archives import Entry, Zip, deflate, honest_record, members_of, rebuilt

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

ATTACKS["a file that is a folder too"] = lambda wheel: rebuilt(
    wheel, {"demo/a": b"1", "demo/a/b.py": b"2"}
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
    packed = deflate(bytes(80 << 20))
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


# --- what follows the data ------------------------------------------------------------------


def described(
    *, mark: bytes = b"PK\x07\x08", crc: int = 0, packed: int = 0, size: int = 0, wide: bool = False
) -> Callable[[Entry], bytes]:
    """Return a data descriptor; the numbers are added to the true ones."""

    def make(entry: Entry) -> bytes:
        numbers = (
            zlib.crc32(entry.content) + crc,
            len(entry.data) + packed,
            len(entry.content) + size,
        )
        return mark + struct.pack("<L2Q" if wide else "<3L", *numbers)

    return make


def streamed(behind: Callable[[Entry], bytes], *, method: int = 8, **fields: object) -> Attack:
    """Write one member as a stream is written: sizes and CRC follow the data."""

    def change(entry: Entry) -> Entry:
        if entry.name != INIT.encode():
            return entry
        zero: dict[str, object] = {"local_crc": 0, "local_size": 0, "local_packed_size": 0}
        changed = replace(entry, method=method, **{**zero, "flags": 8, **fields})  # type: ignore[arg-type]
        return replace(changed, behind=behind(changed))

    return lambda wheel: rebuilt(wheel, entries=change)


ATTACKS["a data descriptor with another CRC"] = streamed(described(crc=1))
ATTACKS["a data descriptor with another packed size"] = streamed(described(packed=1))
ATTACKS["a data descriptor with another size"] = streamed(described(size=1))
ATTACKS["a data descriptor without mark, with another size"] = streamed(described(mark=b"", size=1))
ATTACKS["a wide data descriptor with another packed size"] = streamed(
    described(packed=1, wide=True), local_extra=struct.pack("<2H", 1, 0)
)
ATTACKS["a wide data descriptor with another size"] = streamed(
    described(size=1, wide=True), local_extra=struct.pack("<2H", 1, 0)
)
ATTACKS["a data descriptor with nothing for a mark"] = streamed(described(mark=bytes(4)))
ATTACKS["a data descriptor of zeros"] = streamed(lambda _: b"PK\x07\x08" + bytes(12))
ATTACKS["a data descriptor that is not there"] = streamed(lambda _: b"")
ATTACKS["a data descriptor that nobody announced"] = streamed(
    described(), flags=0, local_crc=None, local_size=None, local_packed_size=None
)
ATTACKS["a data descriptor that only the directory announced"] = streamed(
    described(), local_flags=0
)
ATTACKS["a data descriptor, and zeros in the directory"] = streamed(
    described(), crc=0, size=0, packed_size=0
)
ATTACKS["a data descriptor, and a CRC of zero for a damaged content"] = streamed(
    lambda entry: b"PK\x07\x08" + struct.pack("<3L", 0, len(entry.data), len(entry.content)), crc=0
)
ATTACKS["a data descriptor behind stored data"] = streamed(described(), method=0)
ATTACKS["a hidden member behind a data descriptor"] = streamed(
    lambda entry: described()(entry) + Zip([Entry(b"demo/hidden.py", EVIL, listed=False)]).encode()
)

# --- ZIP64 -------------------------------------------------------------------------------------

FULL = 0xFFFFFFFF


def wide_field(*numbers: int) -> bytes:
    """Return the extra field with numbers of 64 bits."""
    return struct.pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


def end64(
    count: int, size: int, offset: int, *, more: bytes = b"", away: int = 0, disks: int = 1
) -> bytes:
    """Return the end records of ZIP64."""
    version = (45, 45)
    record = struct.pack(
        "<4sQ2H2L4Q", b"PK\x06\x06", 44 + len(more), *version, 0, 0, count, count, size, offset
    )
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, offset + size + away, disks)
    return record + more + locator


def lying_end64(
    *, count: int = 0, size: int = 0, offset: int = 0
) -> Callable[[int, int, int], bytes]:
    """Return a maker of end records with other numbers."""
    lies = (count, size, offset)
    return lambda *true: end64(*(number + lie for number, lie in zip(true, lies, strict=True)))


def widened(size: int = 0, packed: int = 0, **fields: object) -> Attack:
    """Say sizes with 64 bits, and lie by some bytes."""

    def change(entry: Entry) -> Entry:
        if entry.name != INIT.encode():
            return entry
        entry = replace(entry, method=8)
        field = wide_field(len(entry.content) + size, len(entry.data) + packed)
        wide: dict[str, object] = {
            "size": FULL,
            "packed_size": FULL,
            "extra": field,
            "local_extra": field,
        }
        return replace(entry, **{**wide, **fields})  # type: ignore[arg-type]

    return lambda wheel: rebuilt(wheel, entries=change)


ATTACKS["a larger size with 64 bits"] = widened(size=1)
ATTACKS["a smaller size with 64 bits"] = widened(size=-1)
ATTACKS["a larger packed size with 64 bits"] = widened(packed=1)
ATTACKS["a smaller packed size with 64 bits"] = widened(packed=-1)
ATTACKS["a size with 64 bits that nobody asked for"] = changed(
    INIT, extra=wide_field(9, 9), local_extra=wide_field(9, 9)
)
ATTACKS["a local size with 64 bits that nobody asked for"] = changed(
    INIT, local_extra=wide_field(9, 9)
)
ATTACKS["sizes with 64 bits in the wrong order"] = changed(
    INIT, method=8, extra=wide_field(38, 40), local_extra=wide_field(40, 38)
)
ATTACKS["a field with too many numbers"] = widened(extra=wide_field(38, 38, 0, 0))
ATTACKS["a field with too few numbers"] = widened(extra=wide_field(38))
ATTACKS["a local field with too few numbers"] = widened(local_extra=wide_field(38))
ATTACKS["a field that is missing"] = widened(extra=b"")
ATTACKS["a local field that is missing"] = widened(local_extra=b"")
ATTACKS["a field with half a number"] = widened(extra=struct.pack("<2HQL", 1, 12, 38, 38))
ATTACKS["an end record with another count"] = surrounded(end64=lying_end64(count=1))
ATTACKS["an end record with another size"] = surrounded(end64=lying_end64(size=-46))
ATTACKS["an end record with another offset"] = surrounded(end64=lying_end64(offset=-1))
ATTACKS["an end record that must be right alone"] = surrounded(
    end64=lying_end64(count=1), end=(0xFFFF, FULL, FULL)
)
ATTACKS["an end record that is missing"] = surrounded(end=(0xFFFF, FULL, FULL))
ATTACKS["an end record with more in it"] = surrounded(
    end64=lambda count, size, offset: end64(count, size, offset, more=bytes(20))
)
ATTACKS["an end record elsewhere"] = surrounded(
    end64=lambda count, size, offset: end64(count, size, offset, away=-56)
)
ATTACKS["an end record on another volume"] = surrounded(
    end64=lambda count, size, offset: end64(count, size, offset, disks=2)
)
ATTACKS["several volumes"] = surrounded(disk=1)


@attack("two end records, each with a directory of its own")
def two_ends(wheel: Path) -> bytes:
    """Whoever looks for the last mark sees another archive than who follows the locator."""
    first = rebuilt(wheel, archive=Zip(end64=end64, end=(0xFFFF, FULL, FULL)))
    second = Zip([Entry(b"demo/evil.py", EVIL)], before=first, end64=end64).encode()
    return first[:-2] + struct.pack("<H", len(second) - len(first)) + second[len(first) :]


# --- extra fields --------------------------------------------------------------------------------


def second_name(name: str, *, of: str = INIT, crc: int = 0) -> bytes:
    """Return the extra field with a name in Unicode."""
    data = name.encode()
    return struct.pack("<2HBL", 0x7075, 5 + len(data), 1, zlib.crc32(of.encode()) + crc) + data


ATTACKS["a second name with the CRC of the first"] = changed(INIT, extra=second_name("demo/x.py"))
ATTACKS["a second name in the local header"] = changed(INIT, local_extra=second_name("../evil.py"))
ATTACKS["two second names"] = changed(INIT, extra=second_name(INIT) + second_name("demo/evil.py"))
ATTACKS["a chain of second names"] = changed(
    INIT, extra=second_name("a.py") + second_name("b.py", crc=1) + second_name("c.py")
)
ATTACKS["a second name of no length"] = changed(INIT, extra=struct.pack("<2HB", 0x7075, 1, 1))
ATTACKS["three bytes for an extra field"] = changed(INIT, extra=b"abc")
ATTACKS["three bytes for a local extra field"] = changed(INIT, local_extra=b"abc")
ATTACKS["a local extra field that does not end"] = changed(
    INIT, local_extra=struct.pack("<2H", 0x5455, 60_000)
)

# --- sizes, and folders that are none -------------------------------------------------------------

CALM = b"x = 1  # nothing to see\n"
REST = b"raise SystemExit('owned')  # \x06\x1d{\xcf"
"""What can follow `CALM` without a change of the CRC-32."""


@attack("a size that hides the end, with a CRC that fits")
def short_size(wheel: Path) -> bytes:
    """Who believes the size and checks the CRC sees a harmless file."""
    assert zlib.crc32(CALM) == zlib.crc32(CALM + REST)
    return rebuilt(
        wheel,
        {"demo/calm.py": CALM},
        entries=lambda e: (
            replace(e, method=8, packed=deflate(CALM + REST)) if e.content == CALM else e
        ),
    )


@attack("a size that hides the end, and another one with 64 bits")
def short_wide_size(wheel: Path) -> bytes:
    """Say the true size in the field with 64 bits only, which nobody asked for."""
    packed = deflate(CALM + REST)
    field = wide_field(len(CALM + REST), len(packed))
    return rebuilt(
        wheel,
        {"demo/calm.py": CALM},
        entries=lambda e: (
            replace(e, method=8, packed=packed, extra=field, local_extra=field)
            if e.content == CALM
            else e
        ),
    )


FOLDER = b"demo/folder/"
for _label, _entry in {
    "a folder with content": Entry(FOLDER, EVIL, mode=0o040755),
    "a folder with content that is a file by its mode": Entry(FOLDER, EVIL),
    "a folder with packed content": Entry(FOLDER, EVIL, method=8, mode=0o040755),
    "a folder with packed content of no size": Entry(
        FOLDER, method=8, packed=deflate(EVIL), mode=0o040755
    ),
    "a folder with much packed nothing": Entry(
        FOLDER, method=8, packed=b"\0\0\0\xff\xff\3\0", mode=0o040755
    ),
    "a folder with two stored bytes": Entry(FOLDER, packed=b"\3\0", mode=0o040755),
    "a folder with a CRC": Entry(FOLDER, crc=7, mode=0o040755),
    "a folder that is a file by its mode": Entry(FOLDER, mode=0o100644),
    "a folder that is a link": Entry(FOLDER, mode=0o120777),
}.items():
    ATTACKS[_label] = lambda wheel, entry=_entry: rebuilt(wheel, extra=[entry])  # type: ignore[misc]
ATTACKS["a file that is a folder by its attributes"] = changed(INIT, attributes=0x10)
ATTACKS["a file that is a folder by its mode"] = changed(INIT, mode=0o040755)
ATTACKS["a file that is the name of a volume"] = changed(INIT, attributes=0x08)
ATTACKS["a link from a system without links"] = lambda wheel: rebuilt(
    wheel,
    {"demo/link": b"/etc"},
    entries=lambda e: replace(e, mode=0o120777, system=0) if e.name == b"demo/link" else e,
)
ATTACKS["a socket"] = changed(INIT, mode=0o140777)
ATTACKS["a version that does not exist"] = changed(INIT, version=200)
ATTACKS["a local version that does not exist"] = changed(INIT, local_version=0x3F14)
ATTACKS["masked"] = changed(INIT, flags=0x2000)
ATTACKS["a patch"] = changed(INIT, flags=0x20)
ATTACKS["only the local header is encrypted"] = changed(INIT, local_flags=1)
ATTACKS["a member twice in the directory"] = lambda wheel: rebuilt(
    wheel, extra=[Entry(b"demo/again.py", b"", offset=0)]
)
ATTACKS["a member inside another one"] = lambda wheel: rebuilt(
    wheel,
    {"demo/outer.bin": Zip([Entry(b"demo/inner.py", EVIL)]).encode()},
    extra=[Entry(b"demo/inner.py", EVIL, offset=90)],
)
ATTACKS["two streams in one member"] = changed(INIT, method=8, packed=deflate(b"a") + deflate(b"b"))
ATTACKS["bytes behind a stream"] = lambda wheel: rebuilt(
    wheel,
    entries=lambda e: (
        replace(e, method=8, packed=deflate(e.content) + b"\0") if e.name == INIT.encode() else e
    ),
)
ATTACKS["a stream that does not end"] = lambda wheel: rebuilt(
    wheel,
    entries=lambda e: (
        replace(e, method=8, packed=deflate(e.content)[:-2]) if e.name == INIT.encode() else e
    ),
)
ATTACKS["no members"] = lambda _: Zip().encode()
ATTACKS["members that nobody lists"] = lambda wheel: rebuilt(
    wheel, entries=lambda e: replace(e, listed=False)
)


@attack("a tar archive that begins with a member")
def inner_polyglot(wheel: Path) -> bytes:
    """Let the first header of a tar archive be the first member, so that nothing is put before."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        info = tarfile.TarInfo("evil.py")
        info.size = len(EVIL)
        archive.addfile(info, io.BytesIO(EVIL))
    name = "demo/first.bin"
    tar = bytearray(out.getvalue())
    start = 30 + len(name)
    for filler in range(1 << 16):
        # The sum of the tar header counts the CRC-32 of bytes among which it stands.
        tar[500:504] = b"%04x" % filler
        data = Zip([Entry(name.encode(), bytes(tar[start:]))]).encode()[:512]
        total = sum(data[:148]) + 8 * ord(" ") + sum(data[156:])
        if int(data[148:154], 8) == total:
            break
        tar[148:156] = b"%06o\0 " % total
    members = honest_record({name: bytes(tar[start:]), **members_of(wheel)})
    return Zip([Entry(name.encode(), content) for name, content in members.items()]).encode()


# --- names that mean something else elsewhere -----------------------------------------------------

for _name in (
    "demo/\u202eyp.live",
    "demo/ev\u200bil.py",
    "demo/evil\u2028.py",
    "demo/\u2066evil.py",
    "demo/\ufeffevil.py",
    "demo/" + "a" * 256,
    "a/" * 600 + "evil.py",
):
    ATTACKS[f"member {_name[:40]!a}"] = member(_name)

# --- names that only other systems refuse -------------------------------------------------------

UNPORTABLE: dict[str, Attack] = {}
"""Wheels that can be installed here, and not on Windows or macOS (B-34)."""

for _name in (
    "c:evil.py",
    "demo/evil.py:hidden",
    "demo:evil.py",
    "demo/con",
    "demo/aux.py",
    "NUL",
    "demo/com1.txt",
    "demo/LPT9/evil.py",
    "demo/com\u00b9",
    "demo/conout$",
    "demo/evil.py.",
    "demo/evil.py ",
    "demo./evil.py",
):
    UNPORTABLE[f"member {_name!a}"] = member(_name)

for _first, _second in (
    ("demo/a.py", "demo/A.py"),
    ("demo/stra\u00dfe.py", "demo/STRASSE.py"),
    ("demo/caf\u00e9.py", "demo/cafe\u0301.py"),
    ("demo/\u212a.py", "demo/k.py"),
    ("demo/a", "demo/A/b.py"),
    ("demo/\u1e9e.py", "demo/ss.py"),
    ("demo/\ufb01le.py", "demo/file.py"),
    ("demo/a/b.py", "demo/A"),
    ("demo/\u00e5/x.py", "demo/a\u030a/X.py"),
):
    UNPORTABLE[f"both {_first!a} and {_second!a}"] = (
        lambda wheel, first=_first, second=_second: rebuilt(wheel, {first: b"1", second: b"2"})  # type: ignore[misc]
    )

# --- what looks odd, and harms nobody ----------------------------------------------------------

HARMLESS: dict[str, Attack] = {
    "a data descriptor": streamed(described()),
    "a data descriptor without mark": streamed(described(mark=b"")),
    "a wide data descriptor": streamed(described(wide=True), local_extra=struct.pack("<2H", 1, 0)),
    "a data descriptor that the directory does not announce": streamed(
        described(), flags=0, local_flags=8
    ),
    "a data descriptor that repeats what the header says": streamed(
        described(), local_crc=None, local_size=None, local_packed_size=None
    ),
    "sizes with 64 bits": widened(),
    "sizes with 64 bits that nobody asked for, and true": changed(
        INIT, extra=wide_field(37, 37), local_extra=wide_field(37, 37)
    ),
    "end records of ZIP64": surrounded(end64=end64, end=(0xFFFF, FULL, FULL)),
    "end records of ZIP64 that nobody asked for": surrounded(end64=end64),
    "a comment": surrounded(comment=b"made with love"),
    "a comment of a member": changed(INIT, comment=b"made with love"),
    "a second name that is the first": changed(INIT, extra=second_name(INIT)),
    "the time of a Unix system": changed(
        INIT,
        extra=struct.pack("<2HBL", 0x5455, 5, 1, 0),
        local_extra=struct.pack("<2HB2L", 0x5455, 9, 3, 0, 0),
    ),
    "a folder": lambda wheel: rebuilt(wheel, extra=[Entry(FOLDER, mode=0o040755, attributes=0x10)]),
    "a folder with packed nothing": lambda wheel: rebuilt(
        wheel, extra=[Entry(FOLDER, method=8, mode=0o040755)]
    ),
    "set-user-ID": changed(INIT, mode=0o106755),
    "another system": changed(INIT, system=0, mode=0),
    "a mode without a kind": changed(INIT, mode=0o644),
    "names of other scripts": member("demo/\u65e5\u672c\u8a9e.py", b""),
    "a name with a blank and a dot": member("demo/.a b.py", b""),
}
