"""What the tests of accidents share: wheels, an index, scenes, and the table of figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from faults.changes import Change, build_wheels
from faults.scene import can_step
from faults.trials import Prepared

from wheelfit.testing.index import RecordingIndex

_FIGURES = "figures of accidents"


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of wheels that the index serves."""
    folder = tmp_path_factory.mktemp("wheels")
    build_wheels(folder)
    return folder


@pytest.fixture(scope="session")
def index(wheels: Path) -> Iterator[RecordingIndex]:
    """Serve the wheels."""
    with RecordingIndex(wheels) as served:
        yield served
        assert not served.failures


@pytest.fixture(scope="session")
def stepping() -> None:
    """Skip where commands cannot be stopped at system calls."""
    if reason := can_step():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def prepared(
    index: RecordingIndex, wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Change], Prepared]:
    """Return a function that makes the scene of a change; one that is made is used again."""

    @cache
    def prepare(change: Change) -> Prepared:
        return Prepared(change, tmp_path_factory.mktemp("scenes") / change.name, index.url, wheels)

    return prepare


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Return a function that adds a line to the table at the end of the run."""
    return lambda line: record_property(_FIGURES, line)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the figures, also those of other processes."""
    lines = [
        line
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, line in getattr(report, "user_properties", ())
        if name == _FIGURES and getattr(report, "when", "") == "call"
    ]
    if lines:
        terminalreporter.section(_FIGURES)
        for line in sorted(lines):
            terminalreporter.write_line(line)
