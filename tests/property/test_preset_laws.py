"""Presets: whatever is typed, there is an answer or an error of ours, and names mean themselves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit_runtime.errors import UnknownHost, UserError
from wheelfit_runtime.platforms.presets import Preset, compose, is_preset, preset_lines

PARTS = st.sampled_from([line.example for line in preset_lines()])
NUMBERS = st.integers(0, 20)
NAMES = st.one_of(
    PARTS,
    st.builds(
        lambda major, minor, sm: f"cuda-{major}.{minor}-sm{sm}",
        NUMBERS,
        NUMBERS,
        st.integers(0, 140),
    ),
    st.builds(lambda major, minor: f"rocm-{major}.{minor}-gfx942", NUMBERS, NUMBERS),
    st.text(max_size=6),
)


def made(name: str) -> Preset | None:
    """Return the preset of a name, if there is one."""
    try:
        return compose([name])
    except (UnknownHost, UserError):
        return None


@settings(max_examples=300)
@given(st.lists(NAMES, min_size=1, max_size=3).map("+".join))
def test_names_parse_or_are_refused(name: str) -> None:
    """A name of a preset, read again, is the same preset; it looks like one, and is composed."""
    preset = made(name)
    if preset is None:
        return
    assert is_preset(name)
    assert compose([preset.name]) == preset
    assert compose(preset.name.split("+")) == preset


@settings(max_examples=150)
@given(st.lists(PARTS, min_size=1, max_size=3, unique=True), st.randoms())
def test_the_order_of_parts_does_not_matter(parts: list[str], random: object) -> None:
    """The same parts are the same machine, or contradict each other, in any order."""
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = made("+".join(parts)), made("+".join(shuffled))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert (one.platform, one.processor) == (other.platform, other.processor)
        assert set(one.accelerators) == set(other.accelerators)


@given(PARTS)
def test_every_part_is_a_preset_by_itself(part: str) -> None:
    """What is listed can be used, and nothing contradicts itself."""
    assert compose([part]).name == part
    with pytest.raises((UnknownHost, UserError)):
        compose([f"{part}+{part}x"])
