"""Choices among random releases, held against uv 0.13.8 as a black box.

uv shows only what it takes. So it really installs; then what it took is removed from the
index and it installs again, until nothing of the release is left. That gives its whole order,
which `wheelfit explain` prints at once.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from differential.oracles import Reason, show
from differential.releases import (
    FALLBACK,
    VERSION,
    Draw,
    Release,
    Shelves,
    Wheel,
    draw_hardware,
    draw_static,
)
from differential.side_by_side import FORCED_CAPABILITY, FORCED_DRIVER, Tools
from packaging.tags import Tag, parse_tag, sys_tags

from wheelfit.testing.index import RecordingIndex

pytestmark = pytest.mark.network

# --- differences that are accepted -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """Say where uv decides otherwise, and why that is accepted."""

    rule: str
    """What wheelfit follows."""
    why: str
    """What uv does."""
    expected: Callable[[Release, Sequence[str], Mapping[str, str]], list[str]]
    """Turns what wheelfit takes of a release, best first, into what uv takes."""


def without_unlisted_null(
    release: Release, taken: Sequence[str], _environment: Mapping[str, str]
) -> list[str]:
    """Drop wheels labelled null where the index file has no entry for it."""
    if "null" in release.index["variants"]:
        return list(taken)
    return [filename for filename in taken if release.wheel(filename).label != "null"]


def without_flags(
    release: Release, taken: Sequence[str], _environment: Mapping[str, str]
) -> list[str]:
    """Drop labels that name a single feature of the CPU."""
    variants = release.document["variants"]

    def has_flags(label: str | None) -> bool:
        features = variants[label].get("x86_64", {}) if label is not None else {}
        return bool(features.keys() - {"level"})

    return [name for name in taken if not has_flags(release.wheel(name).label)]


def without_appended_code(
    release: Release, taken: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Drop labels of which the device runs only code that the reference does not list."""
    major, minor = environment[FORCED_CAPABILITY].split(".")
    # P-82: machine code of this major version, and its oldest PTX.
    known = {f"{major}{number}_real" for number in range(int(minor) + 1)} | {f"{major}0_virtual"}
    variants = release.document["variants"]

    def is_known(label: str | None) -> bool:
        values = variants[label].get("nvidia", {}).get("sm_arch") if label is not None else None
        return values is None or bool(known & set(values))

    return [name for name in taken if is_known(release.wheel(name).label)]


UNLISTED_NULL = Difference(
    "F-26", "uv skips a null wheel that the index file has no entry for", without_unlisted_null
)
FLAGS = Difference("P-100", "uv knows the level of the CPU only", without_flags)
CODE = Difference(
    "P-83", "what works, but is not listed by the reference, is appended", without_appended_code
)


TIES = ("F-68", "wheels alike in label, tags and build come in an order of uv's own")


def with_ties_by_name(release: Release, taken: Sequence[str]) -> list[str]:
    """Sort wheels by name that nothing else tells apart: neither label nor tags nor build.

    F-68: this last step is ours; in uv such wheels come in an order of its own.
    """

    def key(filename: str) -> tuple[str | None, int, tuple[int, str]]:
        wheel = release.wheel(filename)
        return wheel.label, _rank(wheel.tag), _build(wheel)

    return [name for _, group in groupby(taken, key) for name in sorted(group)]


@cache
def _ranks() -> Mapping[Tag, int]:
    return {tag: rank for rank, tag in enumerate(sys_tags())}


def _rank(tags: str) -> int:
    return min(rank for tag in parse_tag(tags) if (rank := _ranks().get(tag)) is not None)


def _build(wheel: Wheel) -> tuple[int, str]:
    """F-14: the leading digits as a number, then the rest; none is lowest."""
    rest = (wheel.build or "").lstrip("0123456789")
    digits = (wheel.build or "")[: len(wheel.build or "") - len(rest)]
    return (int(digits), rest) if digits else (-1, "")


# --- random releases ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class World:
    """Hold what a run of the comparison is about."""

    seed: str
    """Of the random generator; the same seed gives the same releases."""
    draw: Draw
    """Draws one release."""
    releases: int
    """How many."""
    installs: int
    """At least so many decisions of uv must come of it."""
    differences: tuple[Difference, ...]
    """All that is accepted."""
    occurring: frozenset[str]
    """Rules of those, and of ties, that occur on every machine; the rest depends on the CPU."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for both tools."""


# Together at least 500 decisions of uv, whatever CPU the tests run on.
WORLDS = {
    "static": World(
        seed="static lists",
        draw=draw_static,
        releases=58,
        installs=350,
        differences=(UNLISTED_NULL,),
        occurring=frozenset({"F-26", "F-68"}),
    ),
    "hopper": World(
        seed="hardware",
        draw=draw_hardware,
        releases=30,
        installs=80,
        differences=(UNLISTED_NULL, FLAGS, CODE),
        occurring=frozenset({"P-83"}),
        environment={FORCED_DRIVER: "12.8", FORCED_CAPABILITY: "9.0"},
    ),
    "ampere": World(
        seed="other hardware",
        draw=draw_hardware,
        releases=30,
        installs=80,
        differences=(UNLISTED_NULL, FLAGS, CODE),
        occurring=frozenset({"P-83"}),
        environment={FORCED_DRIVER: "13.1", FORCED_CAPABILITY: "8.6"},
    ),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_same_order_as_uv(
    uv: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same wheels in the same order, but for differences with a rule (F-28, F-66, F-68)."""
    draw = random.Random(world.seed)
    releases = [world.draw(draw, f"p{number}") for number in range(world.releases)]
    names = [release.name for release in releases]
    shelves = Shelves(tmp_path / "shelves")
    for release in releases:
        shelves.add(release)
    with RecordingIndex(shelves) as index:
        tools = Tools(uv, tmp_path, index.url, world.environment)
        explained, planned = tools.explain(*names), tools.would_install(*names)
        theirs, installs = order_of_uv(tools, shelves, names)
    occurred: Counter[Reason] = Counter()
    for release in releases:
        fallback = f"{release.name}-{FALLBACK}-py3-none-any.whl"
        ours = [name for name in explained[release.name] if name != fallback]
        assert planned[release.name] == [*ours, fallback][0]
        expected = list(ours)
        for difference in world.differences:
            changed = difference.expected(release, expected, world.environment)
            occurred[difference.rule, difference.why] += changed != expected
            expected = changed
        order = with_ties_by_name(release, theirs[release.name])
        occurred[TIES] += order != theirs[release.name]
        assert order == expected, f"ours: {ours}\n{json.dumps(release.index)}"
    found = +occurred
    decisions = f"{installs} decisions on {len(releases)} releases"
    show(capsys, f"uv 0.13.8, {world.seed}: {decisions}; the same order but for:", found)
    assert installs >= world.installs
    assert {rule for rule, _ in found} >= world.occurring
    assert sum(len(order) > 2 for order in theirs.values()) > world.releases / 4


def order_of_uv(
    tools: Tools, shelves: Shelves, names: Sequence[str]
) -> tuple[dict[str, list[str]], int]:
    """Return what uv takes of each release, best first, and how often it was asked."""
    order: dict[str, list[str]] = {name: [] for name in names}
    left, installs = list(names), 0
    while left:
        taken = tools.uv_install(*left)
        installs += len(left)
        for name, filename in taken.items():
            if filename.startswith(f"{name}-{FALLBACK}-"):
                left.remove(name)
                continue
            assert filename.startswith(f"{name}-{VERSION}-"), filename
            order[name].append(filename)
            shelves.remove(name, filename)
    return order, installs
