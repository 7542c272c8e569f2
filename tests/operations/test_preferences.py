"""Wishes about variants (F-91)."""

from __future__ import annotations

from typing import Any

import pytest

from wheelfit.core.ordering import Preferences
from wheelfit.core.properties import Feature, Property
from wheelfit.errors import InvalidLabel, UsageError
from wheelfit.operations.preferences import read_preferences
from wheelfit.operations.requests import VariantOptions
from wheelfit_runtime.errors import InvalidProperty, WheelfitError


def preferences(**wishes: Any) -> Preferences:
    """Read the wishes of a request."""
    return read_preferences(VariantOptions(**wishes))


def test_everything() -> None:
    """Each kind of wish at each precision; names are normalised."""
    found = preferences(
        prefer=("nvidia", "x86_64 :: level"),
        forbid=("amd",),
        require=("blas :: library :: mkl",),
        label=("My.Torch=cu128", " other = null "),
    )
    assert found == Preferences(
        prefer=("nvidia", Feature("x86_64", "level")),
        require=(Property("blas", "library", "mkl"),),
        forbid=("amd",),
        labels={"my-torch": "cu128", "other": "null"},  # type: ignore[dict-item]
    )
    assert found.variants


def test_twice_the_same() -> None:
    """Saying it twice does no harm."""
    labels = ("torch=cu128",)
    assert preferences(label=labels * 2) == preferences(label=labels)


def test_none() -> None:
    """Variants can be switched off."""
    assert preferences() == Preferences()
    assert not preferences(no_variants=True).variants


@pytest.mark.parametrize(
    ("option", "texts", "kind"),
    [
        ("label", ("torch",), UsageError),
        ("label", ("=cu128",), UsageError),
        ("label", ("torch=cu128", "Torch=cu126"), UsageError),
        ("label", ("torch=",), InvalidLabel),
        ("label", ("torch=CU128",), InvalidLabel),
        ("prefer", ("a :: b :: c :: d",), InvalidProperty),
        ("prefer", ("",), InvalidProperty),
        ("require", ("NVIDIA",), InvalidProperty),
        ("forbid", ("a ::",), InvalidProperty),
    ],
)
def test_malformed(option: str, texts: tuple[str, ...], kind: type[WheelfitError]) -> None:
    """A wish that cannot be read is an error (F-2, F-3, F-5)."""
    with pytest.raises(kind):
        preferences(**{option: texts})
