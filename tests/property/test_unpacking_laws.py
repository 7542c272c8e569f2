"""Laws of unpacking."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.testing.wheels import build_wheel, unpack_wheel
from wheelfit.wheels.paths import collision_faults, path_fault
from wheelfit.wheels.unpacked import TREE, read_unpacked

PARTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="\\/"),
    min_size=1,
    max_size=20,
)
NAMES = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
CONTENTS = st.one_of(
    st.binary(max_size=300),
    st.tuples(st.binary(max_size=4), st.integers(0, 2_200_000))
    .map(lambda two: two[0] * two[1])
    .filter(lambda data: len(data) < 5_000_000),
)


@settings(deadline=None, max_examples=60)
@given(
    files=st.dictionaries(
        NAMES.filter(lambda name: path_fault(name) is None), CONTENTS, max_size=6
    ).filter(lambda files: not collision_faults(files)),
    programs=st.sets(st.integers(0, 5)),
)
def test_unpacking_is_extracting(files: dict[str, bytes], programs: set[int]) -> None:
    """The tree of a good wheel is what the standard library extracts, and its manifest says so."""
    names = list(files)
    executables = {names[number] for number in programs if number < len(names)}
    with tempfile.TemporaryDirectory() as base:
        path = build_wheel(Path(base), "some", "1", files=files, executables=executables)
        found = unpack_wheel(path)
        with zipfile.ZipFile(path) as archive:
            archive.extractall(Path(base, "extracted"))
        assert tree(found.folder / TREE) == tree(Path(base, "extracted"))
        assert {name for name in found.names() if found.is_executable(name)} == executables
        again = read_unpacked(found.folder, parse_wheel_filename(path.name), where=found.where)
        assert again is not None
        assert dict(again.files) == dict(found.files)
        assert found.changed() is None


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
