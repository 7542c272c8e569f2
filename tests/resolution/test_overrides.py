"""Overrides and exclusions: what the user says in place of what others need."""

from __future__ import annotations

import pytest

from wheelfit.errors import NoSolution
from wheelfit.resolution.request import direct_wheel
from wheelfit.testing.resolution_setup import ResolutionSetup
from wheelfit_runtime.errors import NoCompatibleWheel, UserError


@pytest.fixture
def world() -> ResolutionSetup:
    """Return an app that needs an old library, of which there is a new one."""
    world = ResolutionSetup()
    world.add("app 1", requires=["lib[fast]<2", "tool"])
    world.add("lib 1", "lib 2", extras=["fast"], requires=["speed; extra == 'fast'"])
    world.add("speed 1", "tool 1")
    return world


def test_an_override_counts_instead(world: ResolutionSetup) -> None:
    """What a package needs of a project is replaced; the extras stay."""
    assert world.pins("app")["lib"] == "1"
    pins = world.pins("app", overrides=["lib>=2"])
    assert pins == {"app": "1", "lib": "2", "speed": "1", "tool": "1"}


def test_an_override_can_add_extras(world: ResolutionSetup) -> None:
    """Extras of an override come on top of those that are asked for."""
    assert "speed" not in world.pins("lib")
    assert "speed" in world.pins("lib", overrides=["lib[fast]"])


def test_an_override_counts_for_what_is_asked_for(world: ResolutionSetup) -> None:
    """The user's own requirement is replaced too, and the details say by what."""
    resolution = world.resolve("lib==1", overrides=["lib==2"])
    assert [str(pin.version) for pin in resolution.pins] == ["2"]
    assert "lib==1 is replaced by lib==2 (overridden by the command line)" in resolution.details


def test_an_override_asks_for_nothing(world: ResolutionSetup) -> None:
    """A project that nobody needs is not installed because of an override."""
    assert world.pins("tool", overrides=["lib==2"]) == {"tool": "1"}


def test_constraints_limit_what_overrides_say(world: ResolutionSetup) -> None:
    """A constraint counts whoever asks, so one against an override leaves nothing."""
    with pytest.raises(NoSolution) as excinfo:
        world.resolve("app", overrides=["lib>=2"], constraints=["lib<2"])
    assert "app 1 needs lib[fast]>=2 (overridden by the command line)" in str(excinfo.value.note)


def test_an_override_whose_marker_does_not_match(world: ResolutionSetup) -> None:
    """The override still stands in place of the need, so that nothing is needed."""
    pins = world.pins("app", overrides=["lib==2; sys_platform == 'win32'"])
    assert pins == {"app": "1", "tool": "1"}


def test_of_several_overrides_all_count(world: ResolutionSetup) -> None:
    """Several overrides of a project hold together, each where its marker matches."""
    overrides = ["lib>=1", "lib<2; sys_platform == 'linux'", "lib==7; sys_platform == 'win32'"]
    assert world.pins("lib", overrides=overrides) == {"lib": "1"}


def test_a_proof_names_the_override(world: ResolutionSetup) -> None:
    """If there is no solution because of an override, the proof says so."""
    with pytest.raises(NoSolution) as excinfo:
        world.resolve("app", overrides=["lib>=3"])
    assert "app 1 needs lib[fast]>=3 (overridden by the command line)" in str(excinfo.value.note)


def test_an_override_of_a_needed_url() -> None:
    """F-125: a package that needs a URL can be had if the user says what to take instead."""
    world = ResolutionSetup()
    world.add("app 1", requires=["lib @ https://x.test/lib-9-py3-none-any.whl"])
    world.add("lib 1")
    with pytest.raises(NoCompatibleWheel, match="app"):
        world.resolve("app")
    assert world.pins("app", overrides=["lib"]) == {"app": "1", "lib": "1"}
    assert world.pins("app", excluded=["lib"]) == {"app": "1"}


def test_an_override_of_a_given_url(world: ResolutionSetup) -> None:
    """F-125: even a URL that the user asks for is replaced."""
    url = "lib @ https://x.test/lib-9-py3-none-any.whl"
    assert world.pins(url, overrides=["lib==1"]) == {"lib": "1"}


def test_an_override_cannot_be_a_url(world: ResolutionSetup) -> None:
    """A URL replaces nothing: whoever wants it asks for it."""
    with pytest.raises(UserError, match="an override of lib cannot be a URL"):
        world.resolve("app", overrides=["lib @ https://x.test/lib-9-py3-none-any.whl"])


def test_what_is_excluded_nobody_gets(world: ResolutionSetup) -> None:
    """An excluded project is left out whoever needs it, the user included."""
    assert world.pins("app", "speed", excluded=["lib", "speed"]) == {"app": "1", "tool": "1"}


def test_excluded_and_given(world: ResolutionSetup) -> None:
    """F-125: a wheel cannot be given of a project that is excluded."""
    wheel = direct_wheel("https://x.test/lib-9-py3-none-any.whl")
    with pytest.raises(UserError, match=r"lib is excluded, and lib-9-py3-none-any\.whl is given"):
        world.resolve("app", wheels=[wheel], excluded=["lib"])


def test_needs_that_are_not_met(world: ResolutionSetup) -> None:
    """The resolution says which needs are not met because the user said so, and no others."""
    resolution = world.resolve("app", overrides=["lib>=2"], excluded=["tool"])
    assert resolution.replaced == {"lib", "tool"}
    assert resolution.unmet == (
        "app 1 needs lib[fast]<2, and an override selects 2",
        "app 1 needs tool, which is excluded",
    )
    assert world.resolve("app", overrides=["lib<3", "lib!=2"]).unmet == ()
    nothing = world.resolve("app", overrides=["lib; sys_platform == 'win32'"])
    assert nothing.unmet == ("app 1 needs lib[fast]<2, and its override does not apply here",)
