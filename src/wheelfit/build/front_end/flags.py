"""Compiler flags that follow from the properties of a variant, on request only (B-26)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.errors import InvalidConfiguration
from wheelfit.platforms.tables import aarch64, x86_64

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.core.properties import PropertySet

__all__ = ["USUAL", "flags_of", "with_flags"]


def __dir__() -> list[str]:
    return __all__


_C = ("CFLAGS", "CXXFLAGS")
_WITH_FORTRAN = (*_C, "FFLAGS", "FCFLAGS")
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
_LANGUAGES = {"x86_64": _C, "aarch64": _WITH_FORTRAN}
_MACHINES = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}


def flags_of(properties: PropertySet) -> tuple[str, ...]:
    """Return the flags that follow from properties, in their order.

    Of several values of one feature the wheel must run on the machines of each: the lowest counts.

    >>> from wheelfit.core.properties import PropertySet, parse_property
    >>> flags_of(PropertySet([parse_property("x86_64 :: level :: v3")]))
    ('-march=x86-64-v3',)

    :param properties: of the variant.
    """
    found: list[str] = []
    for feature, values in properties.features():
        known = _FLAGS.get((feature.namespace, feature.name), {})
        found += [flag for value, flag in known.items() if value in values][:1]
    return tuple(found)


def with_flags(
    environ: Mapping[str, str],
    properties: PropertySet,
    words: Iterable[str],
    *,
    machine: Mapping[str, str],
) -> Mapping[str, str]:
    """Return an environment in which compilers get flags, behind those that are there already.

    :param environ: of the backend.
    :param properties: flags that follow from these are added; empty: none are.
    :param words: further flags, for C and C++.
    :param machine: marker variables of the interpreter that builds.
    :raises InvalidConfiguration: flags for another machine, or for another compiler, would be
        needed.
    """
    added: dict[str, list[str]] = {}
    for flag, namespace in zip(flags_of(properties), _concerned(properties), strict=True):
        _check(namespace, machine)
        for variable in _LANGUAGES[namespace]:
            added.setdefault(variable, []).append(flag)
    further = list(words)
    for variable in _C if further else ():
        added.setdefault(variable, []).extend(further)
    changed = {
        variable: " ".join(filter(None, [environ.get(variable, ""), *more]))
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
