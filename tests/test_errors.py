"""The family of errors keeps its promises."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import re
from pathlib import Path

import pytest

import wheelfit
import wheelfit_runtime
from wheelfit import errors
from wheelfit.errors import InvalidMarker, UploadRefused
from wheelfit_runtime import errors as base
from wheelfit_runtime.error_codes import CODES
from wheelfit_runtime.errors import (
    Fault,
    HashMismatch,
    InvalidDocument,
    NoFit,
    NoImplementation,
    UnexpectedStatus,
    UserError,
    WheelfitError,
)

REPOSITORY = Path(__file__).parent.parent
REFERENCE = REPOSITORY / "docs" / "reference"


def family() -> list[type[WheelfitError]]:
    """Return every error class of the distribution, after importing all of it."""
    for package in (wheelfit, wheelfit_runtime):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__") and "isolated" not in module.name:
                importlib.import_module(module.name)
    found: list[type[WheelfitError]] = []
    pending = [WheelfitError]
    while pending:
        kind = pending.pop()
        found.append(kind)
        pending.extend(kind.__subclasses__())
    return [
        kind for kind in found if kind.__module__.startswith(("wheelfit.", "wheelfit_runtime."))
    ]


def test_every_code_is_explained() -> None:
    """The reference has a row for each code a user can meet, with its exit code, and no other."""
    rows = dict(
        re.findall(
            r"^\| `([a-z-]+)` \| (\d+) \|", (REFERENCE / "errors.md").read_text(), re.MULTILINE
        )
    )
    assert rows == {
        code: str(row.exit_code) for code, row in CODES.items() if code != WheelfitError.reference
    }


def test_every_exit_code_is_explained() -> None:
    """Each exit code stands in the reference."""
    codes = re.findall(r"^\| (\d+) \|", (REFERENCE / "exit-codes.md").read_text(), re.MULTILINE)
    assert {str(row.exit_code) for row in CODES.values()} <= set(codes)


def test_the_tree_on_top_is_true() -> None:
    """The tree drawn in the docstring of `wheelfit.errors` names exactly the public classes."""
    modules = (base.__name__, errors.__name__)
    drawn = re.findall(r"[─ ]([A-Z]\w+)\s+(?:exit|[a-z-]+$)", errors.__doc__ or "", re.MULTILINE)
    assert set(drawn) == {
        kind.__name__
        for kind in family()
        if kind.__module__ in modules and not kind.__name__.startswith("_")
    } - {"WheelfitError"}


@pytest.mark.parametrize(
    "error",
    [
        WheelfitError("m", where="w", note="n", hint="h"),
        InvalidMarker("expected an operator", source="a ? b", position=2),
        InvalidDocument([Fault("variants", "is not a table", "F-20"), Fault("", "late")]),
        HashMismatch(algorithm="sha256", expected=["aa"], actual="bb", where="f.whl"),
        UnexpectedStatus("no", status=500),
        UserError("m", code="invalid-label", where="w", note="n", hint="h"),
        InvalidDocument([Fault("schema", "is unknown")], code="unsupported-schema"),
        NoFit("m", code="no-accelerator", details=[{"name": "torch"}]),
        UploadRefused("m", details=[{"reference": "r"}]),
    ],
    ids=lambda error: error.reference,
)
def test_errors_survive_pickling(error: WheelfitError) -> None:
    """An error that crosses a process keeps all its parts, its code and its details too."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert copy.parts() == error.parts()
    assert copy.__dict__ == error.__dict__
    assert CODES[error.reference].details_key in {"", *copy.parts()}


def test_an_import_error_keeps_its_name() -> None:
    """Who asks what could not be imported is told in another process, too."""
    error = NoImplementation("no", hint="install one")
    error.name = "spam"
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.name, copy.msg, str(copy)) == ("spam", "no", str(error))


def test_grammar_errors_point_at_the_place() -> None:
    """A text that does not follow its grammar is shown with a caret below the fault."""
    error = InvalidMarker("expected an operator", source="os_name ? 'x'", position=8)
    assert error.note == "os_name ? 'x'\n        ^"


def test_document_errors_hold_every_fault() -> None:
    """All faults of a document are reported at once, with path and rule."""
    error = InvalidDocument([Fault("variants.a", "is empty", "F-23"), Fault("", "no namespaces")])
    assert error.message == "variants.a: is empty (F-23)"
    assert error.note == "no namespaces"
    assert error.parts()["faults"] == [
        {"path": "variants.a", "message": "is empty", "rule": "F-23"},
        {"path": "", "message": "no namespaces", "rule": ""},
    ]
