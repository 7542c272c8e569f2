"""Binaries: whatever a file says of itself, reading ends, and what is said of it can be shown."""

from __future__ import annotations

import io
import json

import elftools.elf.elffile  # noqa: F401  # now: what is imported later is not watched
from packaging.version import Version

from wheelfit.building.abi.bounds import consumer_of, derive_bounds, symbols_of_release
from wheelfit.checking.findings import Location
from wheelfit.checking.wheels.binaries import claim_findings
from wheelfit.core.abi_exports import AbiExports
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.wheels.binaries.bounded_reader import Unreadable
from wheelfit.wheels.binaries.facts import Binaries, Binary, CodeKind
from wheelfit.wheels.binaries.properties import properties_of
from wheelfit.wheels.binaries.reading import read_binary, symbols_in

LONGEST = 6000
"""Bytes of an input."""
MOST_LOOKS = 21_000
"""At a file as small as these; two of them are one in the library that reads ELF."""
LARGEST_LOOK = 1 << 20
NAMES = (
    parse_wheel_filename("some-1-cp313-cp313-manylinux_2_28_x86_64.whl"),
    parse_wheel_filename("some-1-cp313-cp313-macosx_11_0_universal2.whl"),
)


class Counting(io.BytesIO):
    """Count looks at a file."""

    looks = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Count, and read."""
        self.looks += 1
        assert size is not None
        assert 0 <= size <= LARGEST_LOOK
        return super().read(size)


def check(data: bytes) -> None:
    """Hold the readers to what they promise about any file."""
    file = Counting(data)
    found = read_binary(file, "some.ptx" if data[:1] == b"." else "some.so")
    assert file.looks <= MOST_LOOKS
    assert found == read_binary(io.BytesIO(data), "some.ptx" if data[:1] == b"." else "some.so")
    if found is not None:
        check_binary(found, len(data))
    try:
        symbols = symbols_in(io.BytesIO(data))
    except Unreadable as error:
        assert str(error).isprintable()
        return
    assert all(name and name.isprintable() for name in symbols.exported | symbols.imported)
    assert symbols.weak <= symbols.imported
    consumer = consumer_of([symbols])
    own = symbols_of_release(Version("1"), "some", {"some.so": symbols}, consumer, AbiExports())
    bounds = derive_bounds(consumer, [own], AbiExports())
    assert all(one.fits for one in bounds.releases)  # nothing lacks what only it offers


def check_binary(found: Binary, size: int) -> None:
    """Check that what is said of a file can be shown, written and compared with claims."""
    assert found.size == size
    texts = (
        *found.machines,
        *found.needed,
        *found.rpath,
        *found.faults,
        *found.targets,
        *(one.name for one in found.versions),
        *(one.library for one in found.versions),
        found.soname or "",
    )
    assert all(text.isprintable() for text in texts)
    assert json.loads(json.dumps(found.to_mapping())) == found.to_mapping()
    assert list(found.code) == sorted(set(found.code), key=lambda one: one.sort_key)
    for code in found.code:
        assert 0 < code.number < 1000
        assert (code.version is None) == (code.kind is not CodeKind.PTX)
        assert str(code)
    binaries = Binaries((found,))
    for ptx in (True, False):
        claimed = properties_of(binaries, ptx=ptx)
        assert all(note.isprintable() for note in claimed.notes)
    for name in NAMES:
        for finding in claim_findings(binaries, name, None, Location("some")):
            assert finding.message.isprintable()
