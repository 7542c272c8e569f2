"""Requests refuse wrong values with the words of whoever made them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

import wheelfit.operations
from wheelfit import CheckRequest, Context, InstallRequest, ResolveRequest, check, resolve
from wheelfit.errors import UsageError
from wheelfit.operations.requests import Checked

BARE = {"ServeRequest"}
"""Requests without several values and words."""


def test_every_request_is_checked() -> None:
    """All classes of requests and of their options derive from the one that checks."""
    found = set()
    for module in iter_modules(wheelfit.operations.__path__):
        name = f"{wheelfit.operations.__name__}.{module.name}"
        for key, kind in vars(import_module(name)).items():
            is_own = isinstance(kind, type) and kind.__module__ == name
            if is_own and key.endswith(("Request", "Options")) and not issubclass(kind, Checked):
                found.add(key)
    assert found == BARE


@pytest.mark.parametrize("name", ["requirements", "find_links", "prefer", "label"])
def test_one_text_where_several_belong(name: str) -> None:
    """The letters of a text are not taken for names, folders or wishes."""
    values: dict[str, Any] = {name: "spam"}
    with pytest.raises(TypeError, match=rf"{name} takes several: write \('spam',\)"):
        InstallRequest(**values)


@pytest.mark.parametrize("name", ["devices", "link_mode", "startup_files"])
def test_word_that_means_nothing(name: str) -> None:
    """A word that the command line refuses is refused here, too."""
    values: dict[str, Any] = {name: "most"}
    with pytest.raises(UsageError, match=f"{name} cannot be 'most'"):
        InstallRequest(**values)


def test_unknown_profile() -> None:
    """A profile is one of those that `wheelfit check` has."""
    with pytest.raises(UsageError, match="there is no profile 'pip'"):
        check(CheckRequest(targets=(__file__,), profile=("pip",)), Context({}))


def test_limit_is_a_pair() -> None:
    """A limit has a name and a number."""
    limit: Any = ("lookups=1",)
    request = ResolveRequest(requirements=("spam",), no_index=True, limit=limit)
    with pytest.raises(TypeError, match="limit takes pairs"):
        resolve(request, Context({}))
