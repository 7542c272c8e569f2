"""Wishes about variants (F-91)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from error_codes import raises_code

from wheelfit.core.ordering import Preferences
from wheelfit.core.properties import Feature, Property
from wheelfit.operations.install import InstallRequest
from wheelfit.operations.preferences import read_preferences

if TYPE_CHECKING:
    from wheelfit_runtime.error_codes import Code


def preferences(**wishes: Any) -> Preferences:
    """Read the wishes of a request."""
    return read_preferences(InstallRequest(**wishes))


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
    ("option", "texts", "code"),
    [
        ("label", ("torch",), "usage"),
        ("label", ("=cu128",), "usage"),
        ("label", ("torch=cu128", "Torch=cu126"), "usage"),
        ("label", ("torch=",), "invalid-label"),
        ("label", ("torch=CU128",), "invalid-label"),
        ("prefer", ("a :: b :: c :: d",), "invalid-property"),
        ("prefer", ("",), "invalid-property"),
        ("require", ("NVIDIA",), "invalid-property"),
        ("forbid", ("a ::",), "invalid-property"),
    ],
)
def test_malformed(option: str, texts: tuple[str, ...], code: Code) -> None:
    """A wish that cannot be read is an error (F-2, F-3, F-5)."""
    with raises_code(code):
        preferences(**{option: texts})
