"""Asking ahead: what is fetched while the solver waits for something else."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.resolution_setup import ResolutionSetup

if TYPE_CHECKING:
    from packaging.utils import NormalizedName

    from wheelfit.sources.page import ProjectPage


class _Waiting(FakeRepository):
    """Answer for one project only once somebody has asked for another."""

    def __init__(self, slow: str, until: str) -> None:
        super().__init__()
        self._slow, self._until = canonicalize_name(slow), canonicalize_name(until)
        self._asked = Event()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        if name == self._until:
            self._asked.set()
        if name == self._slow:
            assert self._asked.wait(20), f"{self._until} was not asked for meanwhile"
        return super().project(name)


def test_a_slow_page_does_not_hold_up_what_lies_deep_below_others() -> None:
    """What a tree needs travels in as many steps as it is deep, whatever the solver waits for."""
    world = ResolutionSetup(_Waiting("slow", until="deep"))
    world.add("slow 1", "deep 1")
    world.add("middle 1", requires=["deep[more]"])
    world.add("top 1", requires=["middle"])

    pins = world.pins("slow", "top", threads=4)

    assert pins == {"slow": "1", "deep": "1", "middle": "1", "top": "1"}


def test_what_an_extra_adds_is_asked_for_ahead() -> None:
    """An extra leads to its own needs as soon as its project is known."""
    world = ResolutionSetup(_Waiting("slow", until="deep"))
    world.add("slow 1", "deep 1")
    world.add("middle 1", requires=['deep; extra == "more"'], extras=["more"])
    world.add("top 1", requires=["middle[more]"])

    assert world.pins("slow", "top", threads=4)["deep"] == "1"


def test_nothing_is_fetched_ahead_of_what_is_left_out() -> None:
    """Without dependencies nobody asks what a release needs."""
    world = ResolutionSetup()
    world.add("top 1", requires=["middle"])
    world.add("middle 1")

    world.resolve("top", dependencies=False, threads=4)

    assert all("middle" not in str(question) for question in world.repository.requests)
