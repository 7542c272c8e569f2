"""Colours of the pages in both schemes."""

from __future__ import annotations

import re
from importlib import resources

import pytest

STYLE = (resources.files("wheelfit.server.site") / "site.css").read_text()
PAIRS = [
    *((ink, paper) for ink in ("ink", "soft", "accent", "bad") for paper in ("paper", "surface")),
    ("ink", "sunken"),
    ("ink", "bad-tint"),
    ("soft", "bad-tint"),
    ("bad", "bad-tint"),
    ("good", "good-tint"),
    ("accent", "tint"),
    ("accent-ink", "accent"),
]


def colours() -> dict[str, dict[str, str]]:
    """Return the colours of each scheme."""
    found = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    ]
    return dict(zip(("light", "dark"), found, strict=True))


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours."""
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "paper"), PAIRS)
def test_contrast_of_text(scheme: str, ink: str, paper: str) -> None:
    """Text has a contrast of at least 4.5 (WCAG 2, 1.4.3)."""
    palette = colours()[scheme]
    assert contrast(palette[ink], palette[paper]) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_of_inputs(scheme: str) -> None:
    """The border of inputs has a contrast of at least 3 (WCAG 2, 1.4.11)."""
    palette = colours()[scheme]
    assert min(contrast(palette["edge"], palette[one]) for one in ("paper", "surface")) >= 3
