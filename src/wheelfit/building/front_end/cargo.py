"""Compiler flags of Rust, added to those that a project and its user have."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TARGETS = ("UNKNOWN_LINUX_GNU", "UNKNOWN_LINUX_MUSL", "APPLE_DARWIN")


def with_rust_flags(
    environ: Mapping[str, str], flags: Sequence[str], machine: str, project: Path
) -> Mapping[str, str]:
    """Return an environment in which cargo gives flags to the compiler, behind those it has.

    ``RUSTFLAGS`` replaces what configuration files say, so it is only used where it is set
    already. Otherwise the flags go where cargo joins them with those of the files: into
    ``build.rustflags``, or into those of a target, which count instead where there are any.

    :param machine: the first part of the target's name, as ``x86_64``.
    """
    if not flags:
        return environ
    if "CARGO_ENCODED_RUSTFLAGS" in environ:
        return {**environ, **_appended(environ, "CARGO_ENCODED_RUSTFLAGS", flags, "\x1f")}
    if "RUSTFLAGS" in environ:
        return {**environ, **_appended(environ, "RUSTFLAGS", flags)}
    changed = _appended(environ, "CARGO_BUILD_RUSTFLAGS", flags)
    names = {
        name for name in environ if name.startswith("CARGO_TARGET_") and name.endswith("_RUSTFLAGS")
    }
    if names or any(map(_has_target_flags, _configurations(environ, project))):
        names |= {f"CARGO_TARGET_{machine.upper()}_{one}_RUSTFLAGS" for one in _TARGETS}
    for name in names:
        changed |= _appended(environ, name, flags)
    return {**environ, **changed}


def _appended(
    environ: Mapping[str, str], name: str, flags: Sequence[str], between: str = " "
) -> dict[str, str]:
    return {name: between.join(filter(None, [environ.get(name, ""), *flags]))}


def _configurations(environ: Mapping[str, str], project: Path) -> Iterator[Path]:
    """Yield where cargo looks for its configuration when it builds a project."""
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
            found = tomllib.loads((folder / name).read_text("utf-8"))
        except (OSError, ValueError):  # cargo itself says what is wrong with it
            continue
        targets = found.get("target", {})
        if isinstance(targets, dict) and any(
            isinstance(one, dict) and "rustflags" in one for one in targets.values()
        ):
            return True
    return False
