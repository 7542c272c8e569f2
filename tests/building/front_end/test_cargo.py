"""Flags of Rust are added to those of a project, whatever it says and where."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from wheelfit.building.front_end.toolchains.inputs import BuildInputs
from wheelfit.building.front_end.toolchains.rust import RUST, CompiledCrates, compiled_crates
from wheelfit.core.properties import PropertySet, parse_property

FLAG = "-Ctarget-cpu=x86-64-v3"
BUILD = '[build]\nrustflags = ["--cfg", "own"]\n'
TARGET = '[target.x86_64-unknown-linux-gnu]\nrustflags = ["--cfg", "own"]\n'
CONDITION = "[target.'cfg(unix)']\nrustflags = \"--cfg own\"\n"


V3 = PropertySet([parse_property("x86_64 :: level :: v3")])


def tuned(
    environ: Mapping[str, str], project: Path, properties: PropertySet = V3
) -> Mapping[str, str]:
    """Return the environment of cargo for a variant."""
    return RUST.add(BuildInputs(environ, project=project), properties).environ


def crate(folder: Path, configuration: str) -> Path:
    """Write a library without dependencies."""
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "lib.rs").write_text('#[no_mangle] pub extern "C" fn one() -> i32 { 1 }\n')
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "one"\nversion = "0.1.0"\nedition = "2021"\n'
    )
    (folder / ".cargo").mkdir()
    (folder / ".cargo" / "config.toml").write_text(configuration)
    return folder


@pytest.mark.integration
@pytest.mark.parametrize("configuration", ["", BUILD, TARGET, CONDITION, BUILD + TARGET])
@pytest.mark.parametrize(
    "variables", [{}, {"CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS": "--cfg mine"}]
)
def test_cargo_joins_them(configuration: str, variables: dict[str, str], tmp_path: Path) -> None:
    """What cargo gives to the compiler is what it gave before, and the flag."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("needs cargo")
    if os.uname().machine != "x86_64":
        pytest.skip("is for x86-64")
    project = crate(tmp_path / "project", configuration)
    kept = {name: text for name, text in os.environ.items() if "RUSTFLAGS" not in name}
    environ = {**kept, **variables}

    def given(environ: dict[str, str], target: str) -> list[str]:
        words = [cargo, "check", "-v", "--offline", "--target-dir", str(tmp_path / target)]
        completed = subprocess.run(
            words, cwd=project, env=environ, capture_output=True, text=True, check=False
        )
        if completed.returncode and "toolchain" in completed.stderr:
            pytest.skip("needs a toolchain of Rust")
        assert completed.returncode == 0, completed.stderr
        return sorted(re.findall(r"--cfg (?:own|mine)|-C ?target-cpu=[\w-]+", completed.stderr))

    before = given(environ, "before")
    after = given(dict(tuned(environ, project)), "after")
    assert after == sorted([*before, FLAG])


@pytest.mark.parametrize(
    ("environ", "changed"),
    [
        ({"RUSTFLAGS": "-g"}, {"RUSTFLAGS": f"-g {FLAG}"}),
        ({"RUSTFLAGS": ""}, {"RUSTFLAGS": FLAG}),
        (
            {"RUSTFLAGS": "-O", "CARGO_ENCODED_RUSTFLAGS": "-g\x1f--cfg=a b"},
            {"CARGO_ENCODED_RUSTFLAGS": f"-g\x1f--cfg=a b\x1f{FLAG}"},
        ),
        ({"CARGO_BUILD_RUSTFLAGS": "-g"}, {"CARGO_BUILD_RUSTFLAGS": f"-g {FLAG}"}),
    ],
)
def test_what_the_user_has_set(
    environ: dict[str, str], changed: dict[str, str], tmp_path: Path
) -> None:
    """A variable that replaces everything else gets the flag, and no other one is set."""
    shown = {"CARGO_TERM_VERBOSE": "true"}
    assert tuned(environ, tmp_path) == {**environ, **shown, **changed}
    assert tuned(environ, tmp_path, PropertySet()) == environ


def test_a_configuration_that_cannot_be_read(tmp_path: Path) -> None:
    """What is wrong with it says cargo."""
    project = crate(tmp_path / "project", "[build")
    assert tuned({}, project)["CARGO_BUILD_RUSTFLAGS"] == FLAG


def log(*commands: str) -> str:
    """Return what cargo prints of its commands."""
    return "\n".join(f"     Running `/bin/rustc --crate-name {command}`" for command in commands)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (log("a src/lib.rs -Ctarget-cpu=x86-64-v3", "b -C x -C target-cpu=x86-64-v3"), (2, ())),
        (log("a src/lib.rs -Ctarget-cpu=x86-64-v3", "b src/lib.rs"), (1, ("b",))),
        # The last one counts.
        (log("a -Ctarget-cpu=x86-64-v3 -Ctarget-cpu=native"), (0, ("a",))),
        # What only builds others is in no wheel.
        (
            log("a -Ctarget-cpu=x86-64-v3", "build_script_build b.rs", "m --crate-type proc-macro"),
            (1, ()),
        ),
        # Crates for this machine get no flags beside those for a target.
        (log("a --target x -Ctarget-cpu=x86-64-v3", "cc src/lib.rs"), (1, ())),
        ("gcc -c some.c", None),
    ],
)
def test_what_was_compiled(text: str, found: tuple[int, tuple[str, ...]] | None) -> None:
    """What cargo calls says which crates are for the level."""
    assert compiled_crates(text, [FLAG]) == (None if found is None else CompiledCrates(*found))
    assert compiled_crates(text, []) is None


def test_the_lowest_level_needs_no_flag() -> None:
    """Without a flag code is for any processor."""
    found = compiled_crates(log("a src/lib.rs"), ["-Ctarget-cpu=x86-64"])
    assert found == CompiledCrates(1, ())
