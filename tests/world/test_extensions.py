"""Extensions of torch, whose builds are for one version of it, without an option."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from world.internet import Answer, World
from world.registries import LINUX, SourceArchive, Wheel, wheels

pytestmark = pytest.mark.integration

FLASH = "2.8.3.post2"
PLACE = f"Dao-AILab/flash-attention/releases/download/v{FLASH}"


def released(torch: str, cuda: str) -> Wheel:
    """Return a wheel of flash-attn, whose file alone says what it is built for."""
    local = f"cu{cuda}torch{torch}cxx11abiTRUE"
    found = wheels("flash-attn", FLASH, "linux_x86_64", file_local=local, requires=("torch",))
    return next(found)


@pytest.fixture(scope="module")
def world(new_world: Callable[[], World]) -> World:
    """Return a world with torch and flash-attn, of which a wheel is missing."""
    world = new_world()
    for version, builds in {
        "2.9.1": "cu128 cu130",
        "2.10.0": "cu128 cu130",
        "2.15.0": "cu132",
    }.items():
        for build in ("cpu", *builds.split()):
            world.pytorch.add(f"whl/{build}", wheels("torch", f"{version}+{build}", LINUX))
    world.pytorch.add("whl/xpu", wheels("torch", "2.15.0+xpu", LINUX))
    for version in ("2.7.4", FLASH, "2.9.0"):
        world.registry.add([SourceArchive("flash-attn", version)])
    world.registry.add([SourceArchive("llama-cpp-python", "0.4.2")])
    world.registry.add([Wheel("flash-attn-3", "0.0.0")])
    world.index("github.com").add(
        PLACE, [released("2.9", "12"), released("2.9", "13"), released("2.10", "12")]
    )
    return world


def chosen(answer: Answer) -> tuple[str, str]:
    """Return the builds of torch and flash-attn."""
    return answer.chosen["torch"], answer.chosen["flash-attn"]


@pytest.mark.parametrize("words", [["torch", "flash-attn"], ["flash-attn"]], ids=" ".join)
def test_torch_is_chosen_with_its_extension(world: World, words: list[str]) -> None:
    """The newest torch with a build of the extension is taken, and both are for one CUDA."""
    found = world.choose("cuda-12.2-sm90", *words)
    assert chosen(found) == ("2.10.0+cu128 (cu128)", f"{FLASH} (cu12torch2.10)")
    assert "https://github.com/Dao-AILab/flash-attention/releases/download" in found.err


def test_why_it_is_not_the_newest_torch(world: World) -> None:
    """A lock that holds torch back tells of no build for other machines, and of no source."""
    words = ("torch", "flash-attn", "--for", "cuda-13.0-sm90", "-o", "pylock.toml")
    stderr = world.run("lock", *words).stderr
    assert "torch 2.10.0+cu128 (latest 2.15.0 " in stderr
    assert "flash-attn 2.8.3.post2 (latest" not in stderr
    assert "xpu" not in stderr


def test_another_torch_gets_another_build(world: World) -> None:
    """Where the version of torch is given, the build is the one for it."""
    found = world.choose("cuda-13.0-sm90", "torch<2.10", "flash-attn")
    assert chosen(found) == ("2.9.1+cu130 (cu130)", f"{FLASH} (cu13torch2.9)")


def test_a_wheel_that_is_not_there(world: World) -> None:
    """A rule may name a wheel that was never published: the next one is taken."""
    found = world.choose("cuda-13.0-sm90", "flash-attn")
    assert chosen(found) == ("2.10.0+cu128 (cu128)", f"{FLASH} (cu12torch2.10)")
    assert "github.com answered with 404" in found.err


def test_no_build_for_a_version_of_torch(world: World) -> None:
    """Where the version of torch has no build, the refusal says which ones have."""
    error = world.choose("cuda-12.2-sm90", "torch==2.15.0", "flash-attn", code=3).error
    assert "torch 2.7 to 2.10" in error["hint"]
    assert "is built for torch 2.10" in error["note"]


def test_why_there_is_no_wheel(world: World) -> None:
    """Source that compiles for hours is refused with what wheels need, and what is there."""
    error = world.choose("cuda-12.2-sm70", "flash-attn", code=3).error
    assert error["code"] == "no-compatible-wheel"
    assert "NVIDIA GPUs of compute capability 8.0 or newer" in error["hint"]
    assert "--allow-source flash-attn" in error["hint"]
    assert "preset cuda-12.2-sm70 has 7.0" in error["note"]


def test_no_source_of_another_release(world: World) -> None:
    """Source of a newer or older release is no way to keep the newest torch, but on request."""
    found = world.choose("cuda-13.0-sm90", "torch", "flash-attn")
    assert chosen(found) == ("2.10.0+cu128 (cu128)", f"{FLASH} (cu12torch2.10)")
    error = world.choose(
        "cuda-12.2-sm70", "flash-attn", "--allow-source", "flash-attn", code=3
    ).error
    assert error["code"] == "source-build-not-allowed"
    assert "flash_attn-2.9.0.tar.gz" in error["note"]


def test_without_families_only_source_is_left(world: World) -> None:
    """Who turns families off has what the registry has."""
    error = world.choose("cuda-12.2-sm90", "flash-attn==2.8.3.post2", "--no-bridges", code=3).error
    assert error["code"] == "source-build-not-allowed"


def test_a_placeholder_is_no_answer(world: World) -> None:
    """What the registry has under the name of what is elsewhere only is never taken."""
    error = world.choose("cuda-13.0-sm90", "flash-attn-3", code=3).error
    assert error["code"] == "project-not-found"


def test_a_family_that_nobody_agreed_to_is_named(world: World) -> None:
    """Where only source is left, the family that has wheels is named with its address."""
    error = world.choose("cuda-13.0-sm90", "llama-cpp-python", code=3).error
    assert "--bridge llama-cpp-python takes llama-cpp-python from https://abetlen" in error["hint"]
