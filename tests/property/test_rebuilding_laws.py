"""Laws of putting a wheel together from another one."""

from __future__ import annotations

import io
import random
import zipfile
from dataclasses import dataclass, replace
from dataclasses import replace as replace_value

from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.wheels.bytes_source import BytesInMemory
from wheelfit.wheels.delta import RebuildPlan, RebuiltWheel, make_plan, read_directory
from wheelfit_runtime.errors import InvalidWheel

NAMES = [f"{folder}/{name}" for folder in ("some", "some-1.0.dist-info") for name in "abcdé"]


@dataclass(frozen=True)
class Entry:
    """Describe a member to be written."""

    name: str
    seed: int
    size: int
    method: int
    second: int
    extra: int
    executable: bool

    def write(self, archive: zipfile.ZipFile) -> None:
        """Write the member."""
        info = zipfile.ZipInfo(self.name, (2020, 1, 1, 0, 0, self.second))
        info.external_attr = (0o100755 if self.executable else 0o100644) << 16
        info.compress_type = self.method
        if self.extra:
            info.extra = (
                b"\xfe\xca" + (self.extra - 4).to_bytes(2, "little") + bytes(self.extra - 4)
            )
        noise = random.Random(self.seed).randbytes(self.size)
        archive.writestr(info, noise)


ENTRIES = st.builds(
    Entry,
    name=st.sampled_from(NAMES),
    seed=st.integers(0, 3),
    size=st.sampled_from([0, 1, 70, 300, 20_000]),
    method=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
    second=st.sampled_from([0, 2]),
    extra=st.sampled_from([0, 0, 4, 12]),
    executable=st.booleans(),
)


class Unseekable(io.RawIOBase):
    """Something that can only be appended to, so that sizes follow the data of a member."""

    def __init__(self) -> None:
        self.content = io.BytesIO()

    def writable(self) -> bool:
        """Tell so."""
        return True

    def write(self, data: object) -> int:
        """Append."""
        return self.content.write(data)  # type: ignore[arg-type]


def archive_of(entries: list[Entry], *, streamed: bool) -> bytes:
    """Write an archive, each name once."""
    unseekable = Unseekable()
    target = unseekable if streamed else unseekable.content
    with zipfile.ZipFile(target, "w") as archive:
        for entry in {entry.name: entry for entry in entries}.values():
            entry.write(archive)
    return unseekable.content.getvalue()


@st.composite
def pairs(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Draw two archives, the second of which is often the first with a few changes."""
    one = draw(st.lists(ENTRIES, min_size=1, max_size=8))
    other = draw(st.lists(ENTRIES, min_size=1, max_size=3))
    for entry in one:
        match draw(st.sampled_from(["same", "same", "touched", "renamed", "extended", "gone"])):
            case "same":
                other.append(entry)
            case "touched":
                other.append(replace(entry, second=4 - 2 * (entry.second // 2)))
            case "extended":
                other.append(replace(entry, extra=entry.extra + 8))
            case "renamed":
                other.append(replace(entry, name=f"{entry.name}2"))
    other = draw(st.permutations(other))
    streamed = draw(st.booleans())
    return archive_of(one, streamed=streamed), archive_of(other, streamed=streamed)


def rebuilt(
    wanted: bytes, other: bytes, *, near: int, tail: int
) -> tuple[RebuildPlan, RebuiltWheel]:
    """Put an archive together, of which only the end and what the plan calls missing is given."""
    directory = read_directory(BytesInMemory(wanted), where="wanted")
    start = max(0, directory.end.offset - tail)
    directory = replace_value(directory, tail_start=start, tail=wanted[start:])
    plan = make_plan(
        directory,
        read_directory(BytesInMemory(other), where="x"),
        BytesInMemory(other),
        max_gap=near,
    )
    fetched = bytearray(len(wanted))
    for piece in plan.missing:
        fetched[piece.start : piece.stop] = wanted[piece.start : piece.stop]
    return plan, RebuiltWheel(plan, BytesInMemory(other), BytesInMemory(bytes(fetched)))


@given(pairs(), st.sampled_from([0, 100, 1 << 16]), st.sampled_from([0, 50, 5000]))
@settings(deadline=None)
def test_rebuilt_is_original(pair: tuple[bytes, bytes], near: int, tail: int) -> None:
    """Whatever two archives share, the pieces of both give the bytes of the one that is wanted."""
    wanted, other = pair
    plan, file = rebuilt(wanted, other, near=near, tail=tail)
    assert file.size == len(wanted)
    assert file.read_at(0, len(wanted) + 10) == wanted
    positions = [piece.start for piece in plan.pieces]
    assert positions == [0, *(piece.stop for piece in plan.pieces)][:-1]


@given(pairs(), st.integers(0, 70_000), st.integers(0, 70_000))
@settings(deadline=None)
def test_reading_anywhere(pair: tuple[bytes, bytes], start: int, length: int) -> None:
    """Every range of the rebuilt archive is that range of the original."""
    wanted, other = pair
    _, file = rebuilt(wanted, other, near=0, tail=0)
    assert file.read_at(start, length) == wanted[start : start + length]


@given(pairs())
@settings(deadline=None)
def test_nothing_is_fetched_of_an_equal_archive(pair: tuple[bytes, bytes]) -> None:
    """Of a wheel that is there already nothing is missing but what came with its directory."""
    wanted, _ = pair
    plan, _ = rebuilt(wanted, wanted, near=0, tail=0)
    assert not plan.missing


@given(st.binary(max_size=200), st.integers(0, 200))
def test_damaged_directories_are_refused(noise: bytes, position: int) -> None:
    """Whatever stands in a directory, it is refused or gives pieces for all of the wheel."""
    entry = Entry("some/e", 1, 30, zipfile.ZIP_STORED, 0, 0, executable=False)
    wanted = bytearray(archive_of([entry, replace(entry, name="some/f")], streamed=False))
    start = wanted.index(b"PK\x01\x02") + position
    wanted[start : start + len(noise)] = noise[: max(0, len(wanted) - 22 - start)]
    try:
        _, file = rebuilt(bytes(wanted), bytes(wanted), near=0, tail=0)
    except InvalidWheel:
        return
    assert file.read_at(0, len(wanted)) == wanted
