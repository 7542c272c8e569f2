"""A folder in which errors are provoked and their hints followed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cli.running import CommandResult, Runner
from error_codes import raises_code

from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.error_codes import CODES, Code

BLAS = {"blas": {"library": ["mkl", "openblas"]}}
FAST = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}, "open": {"blas": {"library": ["openblas"]}}},
    static=BLAS,
)


class Scene:
    """A folder of wheels, and a target folder.

    :param request: of the test; gives other fixtures by name.
    """

    def __init__(self, run: Runner, folder: Path, request: pytest.FixtureRequest) -> None:
        self.run = run
        self.fixture = request.getfixturevalue
        self.given: pytest.MonkeyPatch = self.fixture("monkeypatch")
        self.folder = folder
        self.wheels = folder / "wheels"
        self.target = folder / "target"
        build_wheel(self.wheels, "some", "1.0")
        build_wheel(self.wheels, "other", "1.0", requires=("some",))
        for label in ("mkl", "open"):
            build_wheel(self.wheels, "fast", "1.0", label=label, document=FAST)
        self.document = self.wheels / "fast-1.0-variants.json"
        self.document.write_text(json.dumps(FAST))

    def install(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Install from the wheels into the target."""
        return self.run("install", *self.sources(), "--target", self.target, *words, code=code)

    def sources(self) -> list[str | Path]:
        """Return the options that name the wheels."""
        return ["--no-index", "-f", self.wheels]

    def fails(self, reference: Code, *words: str | Path, advised: str) -> Mapping[str, Any]:
        """Run a command that must fail, and check code and hint."""
        error = self.run(*words, "--json", code=CODES[reference].exit_code).error
        assert error["code"] == reference
        said = f"{error['message']}\n{error['note']}\n{error['hint']}"
        assert advised in said, said
        return error

    def raises(self, reference: Code, call: Callable[[], object], *, advised: str) -> None:
        """Call a function that must raise, and check code and hint."""
        with raises_code(reference) as excinfo:
            call()
        assert advised in f"{excinfo.value.message}\n{excinfo.value.hint}"

    def refuses(self, reference: Code, *words: str | Path, advised: str) -> Mapping[str, Any]:
        """Run an installation that must fail, and check code and hint."""
        own = (*self.sources(), "--target", self.target)
        return self.fails(reference, "install", *own, *words, advised=advised)
