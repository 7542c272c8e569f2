"""Typing errors and look-alikes."""

from __future__ import annotations

import pytest

from wheelfit.checking.documents.spelling import (
    is_typo,
    label_words,
    lookalike_of,
    looks_like,
    spellings_of,
)
from wheelfit.core.properties import PropertySet


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("x8664vv4", "x8664v4"),
        ("openbals", "openblas"),
        ("openblass", "openblas"),
        ("opnblas", "openblas"),
        ("accelerste", "accelerate"),
    ],
)
def test_slips(text: str, meant: str) -> None:
    """F-8: one letter too many, too few, changed or swapped is a typing error, both ways."""
    assert is_typo(text, meant)
    assert is_typo(meant, text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("cu126", "cu128"),
        ("cu12", "cu128"),
        ("x8664v3", "x8664v4"),
        ("gfx90a", "gfx90c"),
        ("gfx90", "gfx90a"),
        ("v3", "v4"),
        ("mkl", "mlk"),  # too short to tell
        ("openblas", "accelerate"),
        ("openblas", "openblas"),
        ("cuda12.6", "cuda12.8"),
        ("rocm7.0", "rocm7.10"),
    ],
)
def test_other_words(text: str, other: str) -> None:
    """F-8: other numbers, short words and different words are no typing errors."""
    assert not is_typo(text, other)
    assert not is_typo(other, text)


def test_words() -> None:
    """Labels are words joined by underscores; dots belong to numbers."""
    assert label_words("x8664v4_mkl") == ("x8664v4", "mkl")
    assert label_words("cuda12.6") == ("cuda12.6",)


def test_spellings() -> None:
    """Labels usually name namespace and value, feature and value, or the value alone."""
    needs = PropertySet.from_mapping({"x86_64": {"level": ["v4"]}})
    assert set(spellings_of(needs)) == {"x8664", "v4", "x8664v4", "levelv4"}


@pytest.mark.parametrize("name", ["nvidla", "nv1dia", "nvidia_", "n_vidia", "nvidai", "mvidia"])
def test_lookalikes(name: str) -> None:
    """P-63: a namespace that a reader would take for nvidia is found."""
    assert looks_like(name, "nvidia")
    assert lookalike_of(name, ["amd", "nvidia"]) == "nvidia"


@pytest.mark.parametrize("name", ["nvidia", "amd", "blas", "openmp", "cuda", "x86"])
def test_other_namespaces(name: str) -> None:
    """P-63: other names are other names."""
    assert lookalike_of(name, ["nvidia", "x86_64", "aarch64"]) is None
