"""Compiler flags that follow from the properties of a variant, on request only (B-26).

The flags of a variant are those of the plain build, and what the variant adds. How a backend
combines ``CFLAGS`` with flags of its own decides what has to stand there:

- Meson, CMake and cargo put them behind those of the build type.
- Setuptools has the flags of the interpreter, and ``CFLAGS`` and ``CXXFLAGS`` *replace* these
  (since 75.7 and 72.2; before, they went behind them). So they must begin with them, unless the
  user has set the variable: then the plain build does without them, too.
- What backends of a project's own do is not known. Most use setuptools.
"""

from __future__ import annotations

import shlex
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.wheels.binaries.reading import read_binary
from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.platforms.child_processes import run
from wheelfit_runtime.platforms.providers.aarch64 import tables as aarch64
from wheelfit_runtime.platforms.providers.x86_64 import tables as x86_64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.building.front_end.looking import Compiler
    from wheelfit.core.properties import PropertySet

_C = ("CFLAGS", "CXXFLAGS")
_FORTRAN = ("FFLAGS", "FCFLAGS")
_APPENDING = frozenset({"maturin", "mesonpy", "py_build_cmake.build", "scikit_build_core.build"})
"""Backends whose compilers get ``CFLAGS`` besides what a build type says, never instead."""
_FLAGS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("x86_64", "level"): {
        name: f"-march=x86-64{'' if name == 'v1' else f'-{name}'}" for name, _ in x86_64.LEVELS
    },
    ("aarch64", "version"): {
        # No compiler knows a ".0".
        name: f"-march=armv{name.removesuffix('a').removesuffix('.0')}-a"
        for name in reversed(aarch64.VERSIONS)
    },
}
"""What gcc and clang are told for each value, lowest first; each runs wherever one below it may."""
USUAL = frozenset(next(iter(known.values())) for known in _FLAGS.values())
"""The lowest of them: what compilers do unasked."""
_MACHINES = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}


def flags_of(properties: PropertySet) -> tuple[str, ...]:
    """Return the flags that follow from properties, in their order.

    Of several values of one feature the wheel must run on the machines of each: the lowest counts.

    >>> from wheelfit.core.properties import PropertySet, parse_property
    >>> flags_of(PropertySet([parse_property("x86_64 :: level :: v3")]))
    ('-march=x86-64-v3',)
    """
    return tuple(flag for _, flag in _flags_by_namespace(properties))


def _flags_by_namespace(properties: PropertySet) -> Iterator[tuple[str, str]]:
    for feature, values in properties.features():
        known = _FLAGS.get((feature.namespace, feature.name), {})
        for flag in [flag for value, flag in known.items() if value in values][:1]:
            yield feature.namespace, flag


def base_flags(backend: str, compiler: Compiler) -> str:
    """Return what compilers of C and C++ get from a backend where ``CFLAGS`` is not set."""
    return "" if backend in _APPENDING else compiler.flags


def level_mark(properties: PropertySet) -> tuple[str, str] | None:
    """Return the level of x86-64 that a loader requires, and the option of the linker for it.

    None if there is no such level, or if every processor has it.

    >>> from wheelfit.core.properties import PropertySet, parse_property
    >>> level_mark(PropertySet([parse_property("x86_64 :: level :: v3")]))
    ('v3', '-Wl,-z,x86-64-v3')
    """
    for flag in flags_of(properties):
        if flag not in USUAL and flag.startswith("-march=x86-64-"):
            level = flag.removeprefix("-march=x86-64-")
            return level, f"-Wl,-z,x86-64-{level}"
    return None


def rust_flags_of(properties: PropertySet) -> tuple[str, ...]:
    """Return what the compiler of Rust is told; for ARM it has no stable names.

    >>> from wheelfit.core.properties import PropertySet, parse_property
    >>> rust_flags_of(PropertySet([parse_property("x86_64 :: level :: v3")]))
    ('-Ctarget-cpu=x86-64-v3',)
    """
    march = "-march="
    return tuple(
        f"-Ctarget-cpu={flag.removeprefix(march)}"
        for flag in flags_of(properties)
        if flag.startswith(f"{march}x86-64")
    )


def with_flags(
    environ: Mapping[str, str],
    properties: PropertySet,
    words: Iterable[str],
    *,
    machine: Mapping[str, str],
    base: str = "",
    linker_options: Iterable[str] = (),
) -> Mapping[str, str]:
    """Return an environment in which compilers get flags, behind those of a plain build.

    :param properties: flags that follow from these are added; empty: none are.
    :param machine: marker variables of the interpreter that builds.
    :param base: what C and C++ get where a variable is not set, see `base_flags`.
    :raises InvalidConfiguration: flags for another machine, or for another compiler, would be
        needed.
    """
    added: dict[str, list[str]] = {}
    for namespace, flag in _flags_by_namespace(properties):
        _check(namespace, machine)
        for variable in (*_C, *_FORTRAN):
            added.setdefault(variable, []).append(flag)
    further = list(words)
    for variable in _C if further else ():
        added.setdefault(variable, []).extend(further)
    if options := list(linker_options):
        added["LDFLAGS"] = options
    changed = {
        variable: " ".join(
            filter(None, [environ.get(variable, base if variable in _C else ""), *more])
        )
        for variable, more in added.items()
    }
    return {**environ, **changed}


def _check(namespace: str, machine: Mapping[str, str]) -> None:
    here = machine.get("platform_machine", "")
    if here.lower() not in _MACHINES[namespace]:
        raise InvalidConfiguration(
            f"compiler flags for {namespace} are asked for, and this machine is {here}",
            hint="build that variant on such a machine, or leave out --flags and give those of "
            "your cross compiler",
        )
    if machine.get("sys_platform") == "win32":
        raise InvalidConfiguration(
            "compiler flags are known for gcc and clang only",
            hint="leave out --flags; [tool.wheelfit.build.variants.LABEL] may set what your "
            "compiler reads",
        )


_DEADLINE = 60.0


def marks_level(
    level: str, option: str, command: str, environ: Mapping[str, str], folder: Path
) -> bool:
    """Link a library with an option, and return whether it then says which level it needs.

    Linkers differ: that of binutils does it since 2.36, gold refuses the option, lld ignores it.

    :param level: as ``v3``.
    :param option: as ``-Wl,-z,x86-64-v3``.
    :param command: of the compiler where ``CC`` names none.
    :param environ: of the backend, whose ``CC`` and ``LDFLAGS`` count.
    :param folder: for files; an empty one.
    :raises NeedsExtra: what reads libraries is not installed.
    """
    words = _words(environ.get("CC") or command)
    path = environ.get("PATH")
    if not words or shutil.which(words[0], path=path) is None:
        words = ["cc"]
    program = shutil.which(words[0], path=path)
    if program is None:
        return False
    source, library = folder / "empty.c", folder / "empty.so"
    source.write_text("int wheelfit_empty;\n")
    command_line = [program, *words[1:], "-shared", "-fPIC", str(source), "-o", str(library)]
    command_line += [*_words(environ.get("LDFLAGS", "")), option]
    if not run(command_line, environ=environ, deadline=_DEADLINE).succeeded:
        return False
    try:
        with library.open("rb") as file:
            binary = read_binary(file, library.name)
    except OSError:
        return False
    return binary is not None and binary.levels.needed == level


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


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
