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

from typing import TYPE_CHECKING

from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.platforms.families.aarch64 import tables as aarch64
from wheelfit_runtime.platforms.families.x86_64 import tables as x86_64

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    found: list[str] = []
    for feature, values in properties.features():
        known = _FLAGS.get((feature.namespace, feature.name), {})
        found += [flag for value, flag in known.items() if value in values][:1]
    return tuple(found)


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
    for flag, namespace in zip(flags_of(properties), _concerned(properties), strict=True):
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


def _concerned(properties: PropertySet) -> list[str]:
    return [
        feature.namespace
        for feature, values in properties.features()
        if _FLAGS.get((feature.namespace, feature.name), {}).keys() & set(values)
    ]


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
