"""Laws of installing and removing: sequences of changes to one folder."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hypothesis import event, given, settings
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.installation.apply import apply
from wheelfit.installation.environment import open_environment
from wheelfit.installation.plan import plan
from wheelfit.installation.uninstall import uninstall
from wheelfit.resolution.resolution import Pin, Resolution
from wheelfit.sources.page import File
from wheelfit.testing.wheels import build_wheel, unpack_wheel
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from wheelfit.installation.environment import Environment
    from wheelfit.resolution.release_choice import ReleaseChoice

    Change = str | list[tuple[str, str, dict[str, str]]]

# Few names and contents, so that wheels collide, share and replace each other's files.
PATHS = ("x.py", "p/__init__.py", "p/a.py", "p/q/b.py", "r", "r/c.py", "{}-{}.data/scripts/s")
NAMES = st.sampled_from("ab")
WHEELS = st.tuples(
    NAMES,
    st.sampled_from("12"),
    st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["", "1"]), max_size=4),
).filter(lambda wheel: not {"r", "r/c.py"} <= wheel[2].keys())
CHANGES = st.one_of(
    st.lists(WHEELS, min_size=1, max_size=2, unique_by=lambda wheel: wheel[0]), NAMES
)


def pin(path: Path) -> Pin:
    """Return the pin of a wheel."""
    name = parse_wheel_filename(path.name)
    file = File(name.text, path.as_uri())
    return Pin(name.name, name.version, file, name, cast("ReleaseChoice", None))


def state(folder: Path) -> dict[str, bytes | None]:
    """Return every file below a folder with its content, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def attempt(change: Change, environment: Environment, home: Path) -> WheelfitError | None:
    """Make one change and return the error, if any."""
    try:
        if isinstance(change, str):
            uninstall([canonicalize_name(change)], environment)
            return None
        wheels = {}
        for name, version, files in change:
            contents = {path.format(name, version): content for path, content in files.items()}
            wheels[canonicalize_name(name)] = build_wheel(home, name, version, files=contents)
        resolution = Resolution(tuple(map(pin, wheels.values())))
        unpacked = {name: unpack_wheel(path) for name, path in wheels.items()}
        apply(plan(resolution, environment.installed(), reinstall=True), environment, unpacked)
    except WheelfitError as error:
        return error
    return None


@settings(max_examples=60, deadline=None)
@given(changes=st.lists(CHANGES, min_size=1, max_size=6))
def test_sequences(changes: list[Change]) -> None:
    """A failed change changes nothing; after any other, the files are those of the RECORDs."""
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "flat"
        environment = open_environment(None, environ={}, target=folder)
        for number, change in enumerate(changes):
            before = state(folder)
            failure = attempt(change, environment, Path(base) / str(number))
            if failure is not None:
                event(failure.reference)
                assert failure.reference in ("not-installed", "file-conflict")
                assert state(folder) == before
                continue
            event("changed")
            recorded = set()
            for entry in environment.installed():
                with (entry.path / "RECORD").open(newline="") as stream:
                    recorded |= {os.path.normpath(row[0]) for row in csv.reader(stream)}
            after = state(folder)
            assert {path for path, content in after.items() if content is not None} == recorded
            # No empty folder stays, except the places themselves.
            kept = {str(Path(path).parent) for path in after}
            empty = {path for path, content in after.items() if content is None} - kept
            assert empty <= {"bin"}
