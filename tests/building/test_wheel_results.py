"""The record of tests beside wheels, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from server.uploading import DOCUMENT

from wheelfit.building.publishing.release_files import collect_files
from wheelfit.building.wheel_results import (
    FOLDER,
    How,
    State,
    WheelResult,
    read_results,
    untested_findings,
    write_results,
)
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import FileProblem


def record(folder: Path, label: str | None, state: State, how: How | None) -> None:
    """Record a result of the wheel with a label."""
    wheel = next(file for file in collect_files([folder]).files if file.label == label)
    result = WheelResult(
        filename=wheel.filename, label=label, sha256=wheel.sha256, state=state, how=how
    )
    write_results(folder, [result])


def refused(folder: Path) -> list[str]:
    """Return the labels of the wheels that are refused."""
    files = collect_files([folder]).files
    places = {finding.where for finding in untested_findings(files)}
    return [str(file.label or "plain") for file in files if str(file.path) in places]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a plain wheel and two variants."""
    for label in (None, "mkl", "open"):
        build_wheel(tmp_path, "fast", "1.0", label=label, document=DOCUMENT if label else None)
    return tmp_path


def test_no_record(folder: Path) -> None:
    """Of a project that never ran the tests, nothing is refused."""
    assert read_results(folder) is None
    assert refused(folder) == []


def test_what_is_refused(folder: Path) -> None:
    """With a record, every variant needs a proof, and a plain wheel must not have failed."""
    record(folder, "mkl", "passed", "machine")
    assert refused(folder) == ["open"]
    record(folder, "open", "passed", "emulated")
    assert refused(folder) == []
    record(folder, None, "failed", "machine")
    assert refused(folder) == ["plain"]


@pytest.mark.parametrize(("state", "how"), [("not-run", None), ("passed", "described")])
def test_what_proves_nothing(folder: Path, state: State, how: How | None) -> None:
    """It neither lets a wheel pass nor takes away what another machine proved; a failure does."""
    record(folder, "mkl", state, how)
    assert refused(folder) == ["mkl", "open"]
    record(folder, "mkl", "passed", "machine")
    record(folder, "mkl", state, how)
    assert refused(folder) == ["open"]
    record(folder, "mkl", "failed", "machine")
    assert refused(folder) == ["mkl", "open"]


def test_built_anew(folder: Path) -> None:
    """A wheel of the same name with other content is untested."""
    record(folder, "mkl", "passed", "machine")
    files = {"fast/__init__.py": "# new"}
    build_wheel(folder, "fast", "1.0", label="mkl", document=DOCUMENT, files=files)
    assert refused(folder) == ["mkl", "open"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"results": []}', '{"results": {"a": 1}}'])
def test_broken_record(text: str, folder: Path) -> None:
    """A record that cannot be read is an error, and never taken for none."""
    (folder / FOLDER).mkdir()
    (folder / FOLDER / "results.json").write_text(text)
    with pytest.raises(FileProblem, match="record of tests"):
        read_results(folder)
