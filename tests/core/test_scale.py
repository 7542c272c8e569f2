"""What it costs to choose among many wheels; counted in steps, not in seconds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace
from packaging.tags import Tag
from packaging.version import Version
from sampled_cases import sampled

from wheelfit.core.compatible_tags import linux_platforms, tags_for
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.metadata import read_document
from wheelfit.core.ordering import order_labels
from wheelfit.core.property_support import Support, support_for
from wheelfit.core.selection import select
from wheelfit.core.target import TagPreference, Target
from wheelfit.resolution.candidates import Candidates
from wheelfit.resolution.listing import sort_page
from wheelfit.sources.simple_api import parse_page
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.repositories import FakeRepository

VERSION = Version("3.13.1")
TAGS = tags_for("cpython", VERSION, (), linux_platforms("x86_64", glibc=39))
TARGET = Target.of("a test", {"python_full_version": str(VERSION)}, TAGS)
MACHINE = {
    "nvidia": {"cuda_version_lower_bound": ["12.8", "12.6", "12.4"], "sm_arch": ["86_real"]},
    "x86_64": {"level": ["v3", "v2", "v1"]},
}
# The second fits only a newer Python, the third only another system.
SHAPES = [
    "cp313-cp313-manylinux_2_28_x86_64",
    "cp314-cp314-manylinux_2_28_x86_64",
    "py3-none-win_amd64",
    "1-cp313-cp313-manylinux_2_28_x86_64",
    "py3-none-any",
]
FEW, MANY = 200, 800


def make_document(labels: int) -> dict[str, Any]:
    """Make a document: of twelve labels one is supported, and one names another vendor."""
    bounds, levels = ["12.9", "12.8", "12.6", "12.4"], ["v4", "v3", "v2"]
    return {
        "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
        "default-priorities": {"namespace": ["nvidia", "x86_64", "unused"]},
        "providers": {
            "nvidia": {
                "requires": ["nvidia-variant-provider>=0.0.1,<1"],
                "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
            },
            "x86_64": {"requires": ["x86-64-variant-provider<1"]},
            "unused": {"static-properties": {"a": ["b"]}},
        },
        "variants": {
            f"v{number}": {
                "nvidia": {
                    "cuda_version_lower_bound": [bounds[number % 4]],
                    "sm_arch": [f"{number}_real", "86_real"][number % 2 :],
                },
                "x86_64": {"level": [levels[number % 3]]},
            }
            for number in range(labels)
        },
    }


def make_names(labels: int) -> list[str]:
    """Name one wheel of each label in each shape."""
    return [f"fast-1.0-{shape}-v{number}.whl" for number in range(labels) for shape in SHAPES]


def count_steps(work: Callable[[], object]) -> int:
    """Return how many lines of Python a piece of work executes, calls and returns included."""
    steps = 0

    def trace(_frame: FrameType, _event: str, _argument: object) -> Any:
        nonlocal steps
        steps += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


# Each gets a number of labels and returns the work to be counted.


def reading_a_page(labels: int) -> Callable[[], object]:
    """Read the page of a project."""
    files = [{"filename": name, "url": name, "hashes": {}} for name in make_names(labels)]
    body = json.dumps({"meta": {"api-version": "1.0"}, "name": "fast", "files": files}).encode()
    return lambda: parse_page(body, "application/json", "https://i.example/fast/", FAST)


def sorting_a_page(labels: int) -> Callable[[], object]:
    """Sort its files by release."""
    page = repository(labels).project(FAST)
    assert page is not None
    return lambda: sort_page(page, TARGET)


def reading_a_document(labels: int) -> Callable[[], object]:
    """Read the index file of a release."""
    data = json.dumps(make_document(labels)).encode()
    return lambda: read_document(data, where="it")


def ordering(labels: int) -> Callable[[], object]:
    """Order its labels."""
    document, support = read_document(make_document(labels), where="it"), supported(labels)
    return lambda: order_labels(document, support)


def selecting(labels: int) -> Callable[[], object]:
    """Judge every wheel."""
    return partial(selected, labels, [parse_wheel_filename(name) for name in make_names(labels)])


def explaining(labels: int) -> Callable[[], object]:
    """Say of every wheel why."""
    selection = selecting(labels)()
    return lambda: [verdict.reason for verdict in selection.verdicts]  # type: ignore[attr-defined]


def choosing(labels: int) -> Callable[[], object]:
    """Do all of it, for a release of which every other wheel was yanked."""
    there = repository(labels)
    return lambda: Candidates(there, TARGET, FixedDetector(MACHINE)).choice(FAST, Version("1.0"))


FAST: Any = "fast"


def repository(labels: int) -> FakeRepository:
    """Make a repository of the one release."""
    there = FakeRepository()
    for number, name in enumerate(make_names(labels)):
        there.add_wheel(name, yanked="bad" if number % 2 else None, requires_python=">=3.11")
    there.add_file("fast-1.0-variants.json", json.dumps(make_document(labels)).encode())
    return there


def supported(labels: int) -> Support:
    """Return what the machine supports."""
    document = read_document(make_document(labels), where="it")
    return support_for(document, FixedDetector(MACHINE), environment={})


def selected(labels: int, filenames: Sequence[Any], tags: TagPreference | None = None) -> Any:
    """Select among wheels."""
    document = read_document(make_document(labels), where="it")
    return select(filenames, document=document, support=supported(labels), tags=tags or TARGET.tags)


@pytest.mark.parametrize(
    "work",
    sampled(
        fast={1, 2, 3, 4, 5},
        cases=[
            reading_a_page,
            sorting_a_page,
            reading_a_document,
            ordering,
            selecting,
            explaining,
            choosing,
        ],
    ),
)
def test_four_times_as_many_cost_four_times_as_much(
    work: Callable[[int], Callable[[], object]],
) -> None:
    """F-90: no step of the choice compares all wheels with all others."""
    work(FEW)()  # what is remembered for good is remembered now
    few, many = count_steps(work(FEW)), count_steps(work(MANY))
    assert few > FEW
    assert many < few * (MANY / FEW) * 1.15


def test_the_machine_is_asked_once_for_each_namespace() -> None:
    """P-22: however many labels, each namespace in use is asked about once."""
    machine = FixedDetector(MACHINE)
    choice = Candidates(repository(FEW), TARGET, machine).choice(FAST, Version("1.0"))
    assert choice.selection.chosen is not None
    assert sorted(machine.requests) == ["nvidia", "x86_64"]


class CountingTags(TagPreference, frozen=True):
    """Count how often a target is asked about tags."""

    looked_up: ClassVar[list[frozenset[Tag]]] = []

    def best(self, tags: frozenset[Tag]) -> int | None:
        """Answer, and count."""
        self.looked_up.append(tags)
        return super().best(tags)


def test_tags_are_looked_up_once_for_each_set() -> None:
    """F-90: of a thousand wheels with four sets of tags, four sets are looked up."""
    tags = CountingTags(TAGS)
    tags.looked_up.clear()
    selected(FEW, [parse_wheel_filename(name) for name in make_names(FEW)], tags)
    assert len(tags.looked_up) == len(set(tags.looked_up)) == len(SHAPES) - 1
    # Along the whole way: sorting the page, reading what the fitting ones say, selecting.
    tags.looked_up.clear()
    target = replace(TARGET, tags=tags)
    Candidates(repository(FEW), target, FixedDetector(MACHINE)).choice(FAST, Version("1.0"))
    assert len(tags.looked_up) <= 3 * (len(SHAPES) - 1)


def test_no_reason_is_put_into_words_before_somebody_asks() -> None:
    """F-92: reasons cost nothing until they are read, and most never are."""
    filenames = [parse_wheel_filename(name) for name in make_names(MANY)]
    steps = count_steps(lambda: selected(MANY, filenames))
    selection = selected(MANY, filenames)
    rejected = [verdict for verdict in selection.verdicts if verdict.verdict == "rejected"]
    assert len(rejected) > len(filenames) / 2
    reading = count_steps(lambda: [one.reason for one in rejected])
    assert reading > steps / 4  # words are a large part of the work, which was not done yet
    assert all(one.reason for one in rejected)
