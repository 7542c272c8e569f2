"""Tables of cases of which the fast tests take some, and the integration tests the others."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], fast: Container[int]) -> list[Any]:
    """Return the cases of a parametrized test, those that the fast tests leave out marked.

    :param cases: values of one argument, or tuples of values of several.
    :param fast: the places in the table of the cases that the fast tests take.
    """
    return [
        case
        if place in fast
        else pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.integration
        )
        for place, case in enumerate(cases)
    ]
