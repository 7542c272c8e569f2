"""Laws of RECORD, of remote reading, and of rewriting."""

from __future__ import annotations

import io
import random
import tempfile
import zipfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.ranged_file import RangedFile
from wheelfit.testing.wheels import add_member, build_wheel
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.partial_archive import END_SIZE, read_members
from wheelfit.wheels.paths import collision_faults, first_path_fault, path_fault
from wheelfit.wheels.record import RecordRow, format_record, leads_out, parse_record
from wheelfit.wheels.remote import Extent, Range, RemotePart, Suffix
from wheelfit.wheels.rewrite import rewrite

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"))
PATHS = CELLS.filter(bool)
WHEEL = parse_wheel_filename("some-1.0-py3-none-any.whl")


@given(st.lists(st.text(st.sampled_from("ab./\\\x00 é")) | st.text(max_size=5)))
def test_names_together_have_the_first_fault_of_one_of_them(names: list[str]) -> None:
    """Names that are looked at together are judged as each of them is alone."""
    faults = (fault for name in names if (fault := path_fault(name)) is not None)
    assert first_path_fault(names) == next(faults, None)


@given(st.lists(st.builds(RecordRow, PATHS, CELLS, CELLS)), st.sampled_from(["\n", "\r\n"]))
def test_writing_and_reading_record_are_inverses(rows: list[RecordRow], terminator: str) -> None:
    """B-35: commas, quotes and non-ASCII names survive, and so does the line end."""
    record = parse_record(format_record(rows, terminator), where="RECORD")
    assert record.rows == tuple(rows)
    assert not rows or record.terminator == terminator


@given(
    counts=st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)),
    size=st.sampled_from([0, 10, 3000, 30000]),
    extra=st.sampled_from([0, 4, 5000, 60000]),
)
@settings(deadline=None)
def test_remote_reading_finds_files_anywhere(
    counts: tuple[int, int, int], size: int, extra: int
) -> None:
    """Wherever the files lie and however long their headers, the right bytes are found."""
    noise = random.Random(1).randbytes(size)
    expected = {"METADATA": b"m" * 500, "variant.json": b"v" * 300}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for place, name in enumerate((*expected, None)):
            for number in range(counts[place]):
                add_member(archive, f"some/{place}/{number}", noise)
            if name is not None:
                info = zipfile.ZipInfo(f"some-1.0.dist-info/{name}")
                if extra:
                    info.extra = b"\xfe\xca" + (extra - 4).to_bytes(2, "little") + bytes(extra - 4)
                archive.writestr(info, expected[name])
    data = file.getvalue()
    requests = []

    def fetch(asked: Range) -> RemotePart:
        requests.append(asked)
        start = max(0, len(data) - asked.length) if isinstance(asked, Suffix) else asked.start
        stop = len(data) if isinstance(asked, Suffix) else min(asked.stop, len(data))
        return RemotePart(Extent(start, stop, len(data)), data[start:stop])

    source = RangedFile(fetch, where="some.whl", first_request=END_SIZE)
    assert read_members(source, [*expected], filename=WHEEL, where="some.whl") == expected
    # Only a header that is longer than anyone expects costs another one each.
    assert len(requests) <= (5 if extra > 4 else 3)


NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="\\"),
    min_size=1,
    max_size=49,
).filter(lambda name: not (path_fault(name) or leads_out(name) or name.endswith("/")))
"""Names of files; RECORD lists none on a drive of Windows."""


@given(
    files=st.dictionaries(NAMES, st.binary(max_size=2000), max_size=8).filter(
        lambda files: not collision_faults(files)
    ),
    changed=st.dictionaries(NAMES, st.binary(max_size=2000), max_size=3),
)
@settings(deadline=None, max_examples=50)
def test_rewriting_changes_what_it_should(
    files: dict[str, bytes], changed: dict[str, bytes]
) -> None:
    """B-30, B-36: everything else keeps its content, and the result is sound and stable."""
    if collision_faults({**files, **changed}):
        changed = {}
    with tempfile.TemporaryDirectory() as folder:
        source = build_wheel(Path(folder), "some", "1.0", files=files)
        before = source.read_bytes()
        rewrite(source, source, replace_members=changed)
        after = source.read_bytes()
        with WheelArchive(source) as wheel:
            wheel.verify()
            expected = {**files, **changed}
            assert {name: wheel.read(name) for name in expected} == expected
        rewrite(source, source, replace_members=changed)
        assert source.read_bytes() == after
        if not changed:
            assert after == before
