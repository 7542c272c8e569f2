"""Rust: levels of processors for cargo, under any caller (maturin, setuptools-rust, a script).

Cargo ignores the flags of configuration files if ``RUSTFLAGS`` is set. So flags are added to
``RUSTFLAGS`` only if it is set already. Otherwise they are added to variables whose values cargo
joins with the files' flags: that of ``build.rustflags``, and those of targets if any target has
flags, as a target's flags replace ``build.rustflags``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tomli

from wheelfit.building.front_end.toolchains.c_family import level_of
from wheelfit.building.front_end.toolchains.inputs import BuildInputs, Toolchain
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wheelfit.core.properties import PropertySet

_TARGETS = (
    "UNKNOWN_LINUX_GNU",
    "UNKNOWN_LINUX_MUSL",
    "APPLE_DARWIN",
    "PC_WINDOWS_MSVC",
    "PC_WINDOWS_GNU",
)
"""Targets of Rust on x86-64, as in the names of cargo's variables."""


def words(properties: PropertySet, _machine: Mapping[str, str]) -> tuple[str, ...]:
    """Return the flags of the Rust compiler; for ARM it has no stable names.

    >>> from wheelfit.core.properties import PropertySet, parse_property
    >>> words(PropertySet([parse_property("x86_64 :: level :: v3")]), {})
    ('-Ctarget-cpu=x86-64-v3',)
    """
    level = level_of(properties, "x86_64")
    if level is None:
        return ()
    return (f"-Ctarget-cpu=x86-64{'' if level == 'v1' else f'-{level}'}",)


def add(inputs: BuildInputs, properties: PropertySet) -> BuildInputs:
    """Return inputs with flags for rustc, appended to those that cargo passes already."""
    flags = words(properties, inputs.machine)
    if not flags:
        return inputs
    inputs = inputs.with_variable("CARGO_TERM_VERBOSE", "true")  # for `compiled_crates`
    environ = inputs.environ
    if "CARGO_ENCODED_RUSTFLAGS" in environ:
        return inputs.with_appended("CARGO_ENCODED_RUSTFLAGS", flags, separator="\x1f")
    if "RUSTFLAGS" in environ:
        return inputs.with_appended("RUSTFLAGS", flags)
    names = {
        name for name in environ if name.startswith("CARGO_TARGET_") and name.endswith("_RUSTFLAGS")
    }
    if names or any(map(_has_target_flags, _cargo_folders(environ, inputs.project))):
        names |= {f"CARGO_TARGET_X86_64_{system}_RUSTFLAGS" for system in _TARGETS}
    for name in ("CARGO_BUILD_RUSTFLAGS", *sorted(names)):
        inputs = inputs.with_appended(name, flags)
    return inputs


# --- the result ----------------------------------------------------------------

_RUSTC_CALL = pattern(
    r"Running `.*?\brustc(?:\.exe)?[\"']? .*?--crate-name (?P<name>\S+)(?P<words> .*)`"
)
_LEVEL = pattern(r"target-cpu=([\w-]+)")
_DEFAULT_LEVEL = "x86-64"
_BUILD_TIME_MARKS = ("build_script_", "proc-macro")
"""Texts in the compiler calls of crates that run during the build only."""


@dataclass(frozen=True, slots=True)
class CompiledCrates:
    """The crates that cargo compiled for a wheel."""

    tuned: int
    """The number of crates compiled for the requested level."""
    others: tuple[str, ...]
    """The names of all other crates."""

    @property
    def total(self) -> int:
        """The number of crates."""
        return self.tuned + len(self.others)


def compiled_crates(log: str, flags: Sequence[str]) -> CompiledCrates | None:
    """Return the crates compiled with and without some flags, from the log of the backend.

    Flags can get lost on the way to the compiler: a configuration file or a backend replaces them.
    Cargo logs its calls of the compiler.

    :return: None if cargo did not run, or logged no call.
    """
    commands = [(match["name"], match["words"]) for match in _RUSTC_CALL.finditer(log)]
    if any(" --target " in words for _, words in commands):
        # Build scripts and macros are then compiled for this machine, without flags.
        commands = [command for command in commands if " --target " in command[1]]
    levels = {
        name: (_LEVEL.findall(words) or [_DEFAULT_LEVEL])[-1]
        for name, words in commands
        if not any(part in f"{name}{words}" for part in _BUILD_TIME_MARKS)
    }
    if not levels or not flags:
        return None
    others = tuple(name for name, level in levels.items() if not flags[0].endswith(f"={level}"))
    return CompiledCrates(len(levels) - len(others), others)


def _cargo_folders(environ: Mapping[str, str], project: Path) -> Iterator[Path]:
    """Yield the folders of cargo's configuration when it builds a project."""
    project = project.absolute()
    for folder in (project, *project.parents):
        yield folder / ".cargo"
    home = environ.get("HOME")
    if own := environ.get("CARGO_HOME") or (home and str(Path(home, ".cargo"))):
        yield Path(own)


def _has_target_flags(folder: Path) -> bool:
    """Return whether a configuration has flags for a target."""
    for name in ("config", "config.toml"):
        try:
            configuration = tomli.loads((folder / name).read_text("utf-8"))
        except (OSError, ValueError):  # cargo itself reports the fault
            continue
        targets = configuration.get("target", {})
        if isinstance(targets, dict) and any(
            isinstance(target, dict) and "rustflags" in target for target in targets.values()
        ):
            return True
    return False


RUST = Toolchain(words, add, is_reported_only_if_used=True)
