"""Patterns that are compiled late behave as those of the standard library."""

from __future__ import annotations

import re

import pytest
from python_runs import printed_by

from wheelfit_runtime.patterns import pattern


def test_as_compiled_at_once() -> None:
    """Methods and attributes are those of a compiled pattern."""
    late, early = (make(r"(?P<name>[a-z]+)=(\d+)", re.IGNORECASE) for make in (pattern, re.compile))
    text = "A=1 b=22"
    assert late.findall(text) == early.findall(text)
    assert late.sub("x", text, count=1) == early.sub("x", text, count=1)
    match = late.search(text)
    assert match is not None
    assert match["name"] == "A"
    assert late.fullmatch(text) is None
    for name in ("pattern", "flags", "groups", "groupindex"):
        assert getattr(late, name) == getattr(early, name)


def test_bytes() -> None:
    """A pattern of bytes is one too."""
    assert pattern(rb"\s+").split(b"a  b") == [b"a", b"b"]


def test_nothing_else() -> None:
    """What no compiled pattern has, none of these has."""
    with pytest.raises(AttributeError):
        pattern("a").no_such_method  # type: ignore[attr-defined] # noqa: B018


def test_nothing_is_compiled_before() -> None:
    """Saying a pattern compiles nothing, not even one that is wrong."""
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("a")


def test_modules_compile_nothing() -> None:
    """To import what a resolution needs compiles no pattern of ours."""
    program = """
import re, sys
from pathlib import Path
compiled = []
def compile(text, flags=0, compile=re.compile):
    frame = sys._getframe(1)
    if frame.f_globals["__name__"].startswith("wheelfit") and frame.f_code.co_name == "<module>":
        compiled.append(f"{frame.f_globals['__name__']}: {text}")
    return compile(text, flags)
re.compile = compile
import wheelfit.operations.selection_session, wheelfit.operations.changes
import wheelfit.resolution.resolver, wheelfit.installation.apply
import wheelfit.sources.simple_api, wheelfit.core.variant_json_layouts, wheelfit.locking.selection
print(*compiled, sep="\\n", end="")
"""
    assert printed_by("-c", program).splitlines() == []
