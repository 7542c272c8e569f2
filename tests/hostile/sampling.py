"""Which of many cases are in every run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

_EACH = 24


def mostly_corpora(values: Iterable[str], ids: Iterable[str] | None = None) -> list[Any]:
    """Return values to parametrise with: each 24th for every run, the others for ``-m corpora``.

    :param values: what a test is about, which another test has in every run.
    :param ids: how to name them; as they are if left out.
    """
    values = tuple(values)
    names = values if ids is None else tuple(ids)
    return [
        pytest.param(value, id=name, marks=pytest.mark.corpora if number % _EACH else ())
        for number, (value, name) in enumerate(zip(values, names, strict=True))
    ]
