"""One METADATA for all wheels of a version, whatever platform each is for.

Tools that lock read the METADATA of one wheel and believe it of all. Where builds for two
platforms need different things, what each needs gets a marker that says where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wheelfit.core.compatible_tags import platform_values
from wheelfit.core.requirements import marker_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.tags import Tag


class Platform(NamedTuple):
    """Name a kind of machine as markers can."""

    sys_platform: str
    platform_machine: str

    @property
    def is_here(self) -> str:
        """The marker that holds there."""
        return (
            f"sys_platform == '{self.sys_platform}' and "
            f"platform_machine == '{self.platform_machine}'"
        )

    @property
    def is_elsewhere(self) -> str:
        """The marker that holds everywhere else."""
        return (
            f"(sys_platform != '{self.sys_platform}' or "
            f"platform_machine != '{self.platform_machine}')"
        )


_UNIVERSAL = ("arm64", "x86_64")


def platforms_of_tags(tags: Iterable[Tag]) -> frozenset[Platform | None]:
    """Return where a wheel can be used; None stands for everywhere."""
    return frozenset(found for tag in tags for found in _platforms(tag.platform))


def _platforms(tag: str) -> Iterable[Platform | None]:
    values = platform_values(tag)
    if not values:
        yield None
    elif values["platform_machine"] == "universal2":
        for machine in _UNIVERSAL:
            yield Platform(values["sys_platform"], machine)
    else:
        yield Platform(values["sys_platform"], values["platform_machine"])


def merged_requirements(needs: Mapping[Platform | None, Sequence[str]]) -> tuple[str, ...]:
    """Return what is needed, each with where it is.

    >>> linux = Platform("linux", "x86_64")
    >>> merged_requirements({linux: ["one", "two"], None: ["one"]})
    ('one', "two ; sys_platform == 'linux' and platform_machine == 'x86_64'")

    :param needs: what is needed on each platform, in order; None: on all that are not named.
    """
    named = [platform for platform in needs if platform is not None]
    found: dict[str, set[Platform | None]] = {}
    for platform, requirements in needs.items():
        for text in requirements:
            found.setdefault(text, set()).add(platform)
    return tuple(_limited(text, places, named, needs) for text, places in found.items())


def _limited(
    text: str,
    places: set[Platform | None],
    named: Sequence[Platform],
    needs: Mapping[Platform | None, Sequence[str]],
) -> str:
    if len(places) == len(needs):
        return text
    if None in places:
        where = " and ".join(one.is_elsewhere for one in named if one not in places)
    else:
        parts = [one.is_here for one in named if one in places]
        where = parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)
    start = marker_start(text)
    if start is None:
        return f"{text} ; {where}"
    return f"{text[:start].rstrip()} ; ({text[start + 1 :].strip()}) and ({where})"
