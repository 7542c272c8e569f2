"""Requests refuse wrong values with the words of whoever made them."""

from __future__ import annotations

import pickle
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import pytest

import wheelfit.operations
from wheelfit import CheckRequest, Context, InstallRequest, ResolveRequest, SelectRequest, check
from wheelfit.errors import UsageError
from wheelfit.operations.number_ranges import NOT_NEGATIVE, POSITIVE, RANGES
from wheelfit.operations.requests import CacheOptions, SourceOptions, ValidatedRequest, field_types

if TYPE_CHECKING:
    from collections.abc import Iterator

BARE = {"ServeRequest"}
"""Requests without several values and words."""


def test_every_request_is_checked() -> None:
    """All classes of requests and of their options derive from the one that checks."""
    found = set()
    for module in iter_modules(wheelfit.operations.__path__):
        name = f"{wheelfit.operations.__name__}.{module.name}"
        for key, kind in vars(import_module(name)).items():
            is_own = isinstance(kind, type) and kind.__module__ == name
            if (
                is_own
                and key.endswith(("Request", "Options"))
                and not issubclass(kind, ValidatedRequest)
            ):
                found.add(key)
    assert found == BARE


@pytest.mark.parametrize("name", ["requirements", "find_links", "prefer", "label"])
def test_one_text_where_several_belong(name: str) -> None:
    """The letters of a text are not taken for names, folders or wishes."""
    values: dict[str, Any] = {name: "spam"}
    with pytest.raises(TypeError, match=rf"{name} takes several: write \('spam',\)"):
        InstallRequest(**values)


def test_path_where_a_text_belongs() -> None:
    """A path is refused where it is given, rather than deep inside."""
    values: dict[str, Any] = {"find_links": (Path("wheels"),)}
    with pytest.raises(TypeError, match="find_links takes strings: write 'wheels'"):
        InstallRequest(**values)
    values = {"python": Path("python3")}
    with pytest.raises(TypeError, match="python takes strings: write 'python3'"):
        InstallRequest(**values)


@pytest.mark.parametrize("name", ["devices", "link_mode", "startup_files"])
def test_word_that_means_nothing(name: str) -> None:
    """A word that the command line refuses is refused here, too."""
    values: dict[str, Any] = {name: "most"}
    with pytest.raises(UsageError, match=f"{name} cannot be 'most'"):
        InstallRequest(**values)


def test_unknown_profile() -> None:
    """A profile is one of those that `wheelfit check` has."""
    with pytest.raises(UsageError, match="unknown profile 'pip'"):
        check(CheckRequest(targets=(__file__,), profile=("pip",)), Context({}))


def test_limit_is_a_pair() -> None:
    """A limit has a name and a number."""
    limit: Any = ("lookups=1",)
    with pytest.raises(TypeError, match="limit takes pairs"):
        ResolveRequest(requirements=("spam",), limit=limit)


@pytest.mark.parametrize(
    "given",
    [
        {"connections": 0}, {"connections": 65}, {"retries": -1}, {"timeout": 0.0},
        {"timeout": float("nan")}, {"plugin_timeout": -1.0}, {"max_download": -1},
        {"limit": (("size", 1),)}, {"limit": (("sise", 100),)},
    ],
)  # fmt: skip
def test_numbers_that_mean_nothing(given: dict[str, Any]) -> None:
    """A number is refused where the option of its name refuses it."""
    with pytest.raises(UsageError, match=next(iter(given))):
        InstallRequest(**given)


def test_every_number_has_a_range() -> None:
    """A field of a request that is a number stands in the table of ranges, and no other does."""
    for module in iter_modules(wheelfit.operations.__path__, "wheelfit.operations."):
        import_module(module.name)
    numbers = {
        name
        for kind in _below(ValidatedRequest)
        for name, written in field_types(kind).items()
        if re.match("(int|float)\\b", written)
    }
    assert numbers == {*RANGES, *POSITIVE, *NOT_NEGATIVE}


def test_unknown_and_missing_fields() -> None:
    """A misspelled field is refused, and a field without a default is needed."""
    misspelled: dict[str, Any] = {"requirement_files": ()}
    with pytest.raises(TypeError, match="InstallRequest has no field 'requirement_files'"):
        InstallRequest(**misspelled)
    with pytest.raises(TypeError, match="SelectRequest needs a value for 'filenames'"):
        SelectRequest()  # type: ignore[call-arg]


def test_requests_are_values() -> None:
    """Requests of one class with the same values are equal; a copy leaves the first as it was."""
    request = InstallRequest(requirements=("spam",), connections=2)
    copy = request.with_options(dry_run=True)
    assert copy != request
    assert {copy.with_options(dry_run=False), request} == {request}
    assert pickle.loads(pickle.dumps(copy)) == copy
    assert CacheOptions() != SourceOptions()
    assert "requirements=('spam',)" in repr(request)
    with pytest.raises(AttributeError, match=r"use with_options\(dry_run=...\)"):
        request.dry_run = True  # type: ignore[misc]
    with pytest.raises(AttributeError, match="'dry_run' stays"):
        del request.dry_run


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    """Yield the classes below a class."""
    for derived in kind.__subclasses__():
        yield derived
        yield from _below(derived)
