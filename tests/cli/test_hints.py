"""Hints of errors: each error is provoked and its hint followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cli.hints import choices, environments, inputs
from cli.hints.scene import Scene
from cli.running import Runner

from wheelfit_runtime.error_codes import CODES

PLAYS: Mapping[str, Callable[[Scene], None]] = {
    play.__name__.replace("_", "-"): play
    for play in (*inputs.PLAYS, *choices.PLAYS, *environments.PLAYS)
}
SLOW = frozenset({"build-failed", "checkout-failed", "environment-busy"})
"""Plays that wait, and those with real builds and checkouts."""
_PUBLISHER = "the remedy is with whoever published it; no command of this user helps"
_OPERATOR = "the remedy is on the server or the network"
_HARDWARE = "needs a driver, a GPU or a library of a vendor: tests/runtime/libraries"
_CLUSTER = "needs workers elsewhere, or one that is killed: tests/building/test_executors.py"
_FULL = "needs a full disk or a machine without memory"
_COMPILER = "needs a compiler and minutes: tests/cli/commands/test_build_flags.py"
_BREAKS = "breaks wheelfit itself: tests/end_to_end/test_own_requirements.py"
_INDEX = "needs an index of a family under its own name: tests/world/test_recorded_hashes.py"
_FAMILY = "the root of a family of errors; what commands raise of it is more special"
_OURS = "no input of the user brings it about"
NOT_PLAYED: Mapping[str, str] = {
    **dict.fromkeys(
        ("unsupported-schema", "inconsistent-documents", "invalid-wheel",
         "invalid-source", "metadata-disagreement", "attestation", "integrity"),
        _PUBLISHER,
    ),
    **dict.fromkeys(
        ("network", "too-costly", "storage-unavailable", "upload-refused"),
        _OPERATOR,
    ),
    **dict.fromkeys(
        ("driver-too-old", "another-library-loaded", "library-not-loadable",
         "not-in-store", "store-unavailable"),
        _HARDWARE,
    ),
    **dict.fromkeys(("unfit-workers", "worker-lost"), _CLUSTER),
    "error": _FAMILY,
    "file-changed": _INDEX,
    "environment-unavailable": _FULL,
    "lost-optimisation": _COMPILER,
    "broken-installation": _BREAKS,
    **dict.fromkeys(("work-failed", "interrupted", "terminated", "internal-error"), _OURS),
}  # fmt: skip
"""Codes whose hint is not played here, each with the reason."""


@pytest.fixture
def scene(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Scene:
    """Return a scene in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    return Scene(run, tmp_path, request)


@pytest.mark.parametrize(
    "code",
    [pytest.param(code, marks=pytest.mark.integration if code in SLOW else ()) for code in PLAYS],
)
def test_hint_helps(code: str, scene: Scene) -> None:
    """The error occurs, has the hint, and following it helps."""
    PLAYS[code](scene)


def test_every_code_is_listed() -> None:
    """Every code has a scene or a reason not to."""
    assert sorted([*PLAYS, *NOT_PLAYED]) == sorted(CODES)
