"""Shorthands of ``--variant``: words for several preferences about variants, as dated data (F-91).

A shorthand applies to all packages of a result. Its requirements apply to projects with builds that
meet them, and its prohibitions to all. It never admits a build that the machine cannot run.
"""

from __future__ import annotations

import itertools
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from wheelfit.core.accelerators import ACCELERATORS
from wheelfit.core.properties import Feature, Property
from wheelfit.errors import UnknownShorthand, UsageError
from wheelfit_runtime.platforms import providers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wheelfit.core.ordering import Choice, Preferences
    from wheelfit_runtime.platforms.hardware_family import HardwareFamily
    from wheelfit_runtime.platforms.hardware_family import Shorthand as BuildsRow

DATA_VERSION: Final = "2026-11"
"""The month in which the rows were last compared with the names that other tools use."""


class Shorthand(Struct, frozen=True):
    """A word that stands for several preferences."""

    name: str
    """The word, such as ``cpu`` or ``cuda12``."""
    meaning: str
    """Its effect, one sentence without a final full stop."""
    prefer: tuple[Choice, ...] = ()
    require: tuple[Choice, ...] = ()
    forbid: tuple[Choice, ...] = ()
    path: tuple[str, ...] = ()
    """The builds that it selects, from coarse to fine, such as ``("cuda", "12", "12.8")``. Of the
    paths of two shorthands, one must begin with the other. A user's own shorthand has no path."""


# The names are those of uv's torch backends, of light-the-torch (cpu, cu128, rocm6.4, xpu), and of
# machine presets.
_BUILDS: tuple[tuple[HardwareFamily, BuildsRow], ...] = tuple(
    (family, family.shorthand) for family in providers.accelerators() if family.shorthand
)
_AUTO = Shorthand("auto", "the best build for the machine, whatever is configured", path=("auto",))
_CPU = Shorthand(
    "cpu",
    "no build that uses an accelerator",
    forbid=tuple(ACCELERATORS.values()),
    path=("cpu",),
)

NAMES: tuple[str, ...] = (
    "cpu",
    *(f"{row.name}{version}" for _, row in _BUILDS for version in ("", *row.example)),
    "auto",
)
"""Names for help texts; other versions are valid too."""

_VERSIONED = re.compile(r"([a-z]+)-?([0-9]{1,2})(?:\.([0-9]{1,2}))?")
_WITHOUT_DOT = re.compile(r"([a-z]+)([0-9]{2})([0-9])")


def find_shorthand(name: str, own: Iterable[Shorthand] = ()) -> Shorthand:
    """Return the shorthand of a word.

    >>> find_shorthand("cu128").name
    'cuda12.8'

    :raises UnknownShorthand: there is no such shorthand.
    """
    user_shorthands = {user_shorthand.name: user_shorthand for user_shorthand in own}
    shorthand = user_shorthands.get(name) or _built_in(name.lower())
    if shorthand is None:
        raise _unknown(name, (*user_shorthands, *NAMES))
    return shorthand


def is_built_in(name: str) -> bool:
    """Return whether a word is a built-in shorthand."""
    return _built_in(name.lower()) is not None


def names_builds(project: str) -> bool:
    """Return whether a project's name states its accelerator, or that it has none.

    >>> names_builds("cupy-cuda12x"), names_builds("tensorflow-cpu"), names_builds("numpy")
    (True, True, False)
    """
    names = tuple(row.name for _, row in _BUILDS)
    prefixes = [row.compact_prefix for _, row in _BUILDS if row.compact_prefix]
    return any(
        word in ("cpu", "gpu")
        or word.startswith(names)
        or any(word.startswith(prefix) and word[len(prefix) :].isdecimal() for prefix in prefixes)
        for word in project.split("-")
    )


def combine_preferences(shorthands: Sequence[Shorthand], own: Preferences) -> Preferences:
    """Return preferences combined with those of shorthands.

    :param shorthands: at least one.
    :param own: the user's explicit preferences, which come first.
    :raises UsageError: preferences contradict each other.
    """
    _check_paths(shorthands)
    options_by_kind: dict[str, dict[Choice, str]] = {}
    for kind in ("prefer", "require", "forbid"):
        options_by_kind[kind] = {choice: f"--{kind} {choice}" for choice in getattr(own, kind)}
        for shorthand in shorthands:
            for choice in getattr(shorthand, kind):
                options_by_kind[kind].setdefault(choice, f"--variant {shorthand.name}")
    for required, required_option in options_by_kind["require"].items():
        for forbidden, forbidden_option in options_by_kind["forbid"].items():
            if _covers(forbidden, required):
                raise UsageError(
                    f"{required_option} and {forbidden_option} contradict each other: "
                    f"{required} would be required and forbidden"
                )
    return structs.replace(
        own,
        prefer=tuple(options_by_kind["prefer"]),
        require=tuple(options_by_kind["require"]),
        forbid=tuple(options_by_kind["forbid"]),
        origins={
            choice: option
            for choices in options_by_kind.values()
            for choice, option in choices.items()
            if option.startswith("--variant ")
        },
    )


def _check_paths(shorthands: Sequence[Shorthand]) -> None:
    with_path = [shorthand for shorthand in shorthands if shorthand.path]
    for first, second in itertools.combinations(with_path, 2):
        common = min(len(first.path), len(second.path))
        if first.path[:common] != second.path[:common]:
            raise UsageError(
                f"--variant {first.name} and --variant {second.name} contradict each other",
                hint="no build is both; name one of them",
            )


def _covers(forbidden: Choice, required: Choice) -> bool:
    """Return whether a forbidden choice includes a required one."""
    match required:
        case Property(namespace, feature, _):
            wider: tuple[Choice, ...] = (namespace, Feature(namespace, feature))
        case Feature(namespace, _):
            wider = (namespace,)
        case _:
            wider = ()
    return forbidden == required or forbidden in wider


def _built_in(name: str) -> Shorthand | None:
    if name in ("cpu", "auto"):
        return _CPU if name == "cpu" else _AUTO
    for family, row in _BUILDS:
        if name in (row.name, *row.aliases):
            return _of_family(family, row)
    joined = _WITHOUT_DOT.fullmatch(name)
    if joined is not None and any(joined[1] == row.compact_prefix for _, row in _BUILDS):
        name = f"{joined[1]}{joined[2]}.{joined[3]}"
    match = _VERSIONED.fullmatch(name)
    if match is None:
        return None
    word, major, minor = match[1], int(match[2]), match[3]
    for family, row in _BUILDS:
        is_known = major in row.majors and (minor is None or int(minor) in row.minors)
        if word in (row.name, *row.aliases, row.compact_prefix) and is_known:
            return _of_version(family, row, major, None if minor is None else int(minor))
    return None


def _of_family(family: HardwareFamily, row: BuildsRow) -> Shorthand:
    namespace = family.namespace
    return Shorthand(
        row.name,
        f"{row.title} builds of packages that have them; no build for another accelerator",
        require=(ACCELERATORS[namespace],),
        forbid=tuple(choice for other, choice in ACCELERATORS.items() if other != namespace),
        path=(row.name,),
    )


def _of_version(family: HardwareFamily, row: BuildsRow, major: int, minor: int | None) -> Shorthand:
    of_family = _of_family(family, row)
    others = (
        Property(family.namespace, row.feature, version)
        for other in row.majors
        if other != major
        for version in (str(other), *(f"{other}.{other_minor}" for other_minor in row.minors))
    )
    of_major = Shorthand(
        f"{row.name}{major}",
        f"as {row.name}, and no build for another {row.title} than {major}",
        require=of_family.require,
        forbid=(*of_family.forbid, *others),
        path=(row.name, str(major)),
    )
    if minor is None:
        return of_major
    version = f"{major}.{minor}"
    return structs.replace(
        of_major,
        name=f"{row.name}{version}",
        meaning=f"as {of_major.name}, and the {version} build of packages that have one",
        require=(*of_family.require, Property(family.namespace, row.feature, version)),
        path=(*of_major.path, version),
    )


def _unknown(name: str, known: Sequence[str]) -> UnknownShorthand:
    close = get_close_matches(name.lower(), known, n=3, cutoff=0.6)
    suggestion = f"did you mean {' or '.join(dict.fromkeys(close))}? " if close else ""
    return UnknownShorthand(
        f"{name[:80]!r} stands for no builds",
        where="--variant",
        hint=f"{suggestion}There are {', '.join(NAMES)}; a single build is asked for with "
        "--label NAME=LABEL",
    )
