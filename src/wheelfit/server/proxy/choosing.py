"""The choice of wheels that are listed for a machine, so that any installer takes the right one.

Installers compare tags and ignore labels, so of wheels with equal tags only the best variant is
listed, and no wheel that its tags would put before it.

The label becomes a build tag: an installer takes the highest build tag among wheels of equal tags,
so the variant goes before the plain wheel; and caches by file name distinguish variants.

Tools that lock read the METADATA of one wheel and believe it of all. Where builds for two
platforms need different things, each requirement gets a marker of its platform.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.core.compatible_tags import platform_values
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.requirements import marker_start
from wheelfit.errors import InvalidFilename

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.tags import Tag

    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.core.target import TagPreference
    from wheelfit.resolution.listing import Wheel
    from wheelfit.sources.page import File


class MarkerPlatform(NamedTuple):
    """A kind of machine that markers can name."""

    sys_platform: str
    platform_machine: str

    @property
    def is_here(self) -> str:
        """The marker of that platform."""
        return (
            f"sys_platform == '{self.sys_platform}' and "
            f"platform_machine == '{self.platform_machine}'"
        )

    @property
    def is_elsewhere(self) -> str:
        """The marker of all other platforms."""
        return (
            f"(sys_platform != '{self.sys_platform}' or "
            f"platform_machine != '{self.platform_machine}')"
        )


_UNIVERSAL = ("arm64", "x86_64")


def platforms_of_tags(tags: Iterable[Tag]) -> frozenset[MarkerPlatform | None]:
    """Return the platforms of a wheel; None for all of them."""
    return frozenset(platform for tag in tags for platform in _platforms(tag.platform))


def _platforms(tag: str) -> Iterable[MarkerPlatform | None]:
    values = platform_values(tag)
    if not values:
        yield None
    elif values["platform_machine"] == "universal2":
        for machine in _UNIVERSAL:
            yield MarkerPlatform(values["sys_platform"], machine)
    else:
        yield MarkerPlatform(values["sys_platform"], values["platform_machine"])


def merged_requirements(needs: Mapping[MarkerPlatform | None, Sequence[str]]) -> tuple[str, ...]:
    """Return requirements with markers of the platforms that have them.

    >>> linux = MarkerPlatform("linux", "x86_64")
    >>> merged_requirements({linux: ["one", "two"], None: ["one"]})
    ('one', "two ; sys_platform == 'linux' and platform_machine == 'x86_64'")

    :param needs: the requirements of each platform, in order; None: of all that are not named.
    """
    named = [platform for platform in needs if platform is not None]
    platforms_of: dict[str, set[MarkerPlatform | None]] = {}
    for platform, requirements in needs.items():
        for text in requirements:
            platforms_of.setdefault(text, set()).add(platform)
    return tuple(_limited(text, places, named, needs) for text, places in platforms_of.items())


def _limited(
    text: str,
    places: set[MarkerPlatform | None],
    named: Sequence[MarkerPlatform],
    needs: Mapping[MarkerPlatform | None, Sequence[str]],
) -> str:
    if len(places) == len(needs):
        return text
    if None in places:
        where = " and ".join(platform.is_elsewhere for platform in named if platform not in places)
    else:
        parts = [platform.is_here for platform in named if platform in places]
        where = parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)
    start = marker_start(text)
    if start is None:
        return f"{text} ; {where}"
    return f"{text[:start].rstrip()} ; ({text[start + 1 :].strip()}) and ({where})"


_LONGEST = 255


def highest_build(filenames: Iterable[WheelFilename]) -> int:
    """Return the highest build number of some wheels, with which build tags of variants start."""
    return max((int(filename.build[0]) for filename in filenames if filename.build), default=0)


def proxied_name(filename: WheelFilename, number: int) -> str | None:
    """Return the name under which a variant is listed; None if none would be legal.

    >>> wheel = parse_wheel_filename("torch-2.8.0-cp313-cp313-linux_x86_64-cu12.9.whl")
    >>> proxied_name(wheel, 0)
    'torch-2.8.0-0_cu12.9-cp313-cp313-linux_x86_64.whl'
    """
    name, version, *rest = filename.plain.removesuffix(".whl").split("-")
    tags = "-".join(rest[-3:])
    text = f"{name}-{version}-{number}_{filename.label}-{tags}.whl"
    if len(text) > _LONGEST:
        return None
    try:
        parse_wheel_filename(text)
    except InvalidFilename:
        return None
    return text


def original_of(files: Iterable[File], name: str) -> File | None:
    """Return the file that the proxy lists under an untrusted name."""
    number = name.split("-")[2].partition("_")[0] if name.count("-") == 5 else ""
    for file in files:
        if file.filename == name:
            return file
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            continue
        if not file.filename.endswith(".whl"):
            continue
        try:
            filename = parse_wheel_filename(file.filename)
        except InvalidFilename:
            continue
        if filename.is_variant and proxied_name(filename, int(number)) == name:
            return file
    return None


def fingerprint(file: File) -> str:
    """Return the key of a file in URLs of the proxy, which identifies its bytes."""
    known = file.hashes.get("sha256") or f"{file.url}\n{file.filename}"
    return hashlib.sha256(known.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class OfferedRelease:
    """The listed wheels of a release."""

    variants: tuple[Wheel, ...]
    """At most one for each set of tags, best label first."""
    plain: tuple[Wheel, ...]
    """The plain wheels that no variant has to go before."""
    chosen: Wheel | None = None
    """The wheel that the client will take, if its tags are known and a wheel fits."""


def offer(
    wheels: Iterable[Wheel], ranks: Mapping[Label, int], tags: TagPreference | None
) -> OfferedRelease:
    """Return the listed wheels of a release.

    :param ranks: the labels that may be chosen, the best with the lowest number.
    :param tags: of the client; None: they are unknown, and no wheel is chosen for it.
    """
    best: dict[frozenset[Tag], Wheel] = {}
    plain: list[Wheel] = []
    for wheel in wheels:
        filename = wheel.filename
        if filename.label is None:
            plain.append(wheel)
        elif filename.label in ranks:
            other = best.get(filename.tags)
            if other is None or _order(filename, ranks) < _order(other.filename, ranks):
                best[filename.tags] = wheel
    variants = sorted(best.values(), key=lambda wheel: _order(wheel.filename, ranks))
    if tags is None:
        return OfferedRelease(tuple(variants), tuple(plain))
    return _for_client(variants, plain, ranks, tags)


def _for_client(
    variants: Sequence[Wheel],
    plain: Sequence[Wheel],
    ranks: Mapping[Label, int],
    tags: TagPreference,
) -> OfferedRelease:
    fitting = [
        (ranks[variant.filename.label], rank, variant)
        for variant in variants
        if variant.rejection is None
        and variant.filename.label is not None
        and (rank := tags.best(variant.filename.tags)) is not None
    ]
    if not fitting:
        candidates = [
            (rank, one)
            for one in plain
            if one.rejection is None and (rank := tags.best(one.filename.tags)) is not None
        ]
        chosen = min(candidates, key=lambda item: item[0])[1] if candidates else None
        return OfferedRelease(tuple(variants), tuple(plain), chosen)
    # F-90: the variant decides before the tags do. For the client the tags would decide.
    _, chosen_rank, chosen = min(fitting, key=lambda item: item[:2])
    label = chosen.filename.label

    def stays(wheel: Wheel) -> bool:
        rank = tags.best(wheel.filename.tags)
        if wheel.filename.label is None:
            return rank is None or rank >= chosen_rank
        return rank is None or wheel.filename.label == label

    return OfferedRelease(tuple(filter(stays, variants)), tuple(filter(stays, plain)), chosen)


def _order(filename: WheelFilename, ranks: Mapping[Label, int]) -> tuple[int, int, str]:
    build = int(filename.build[0]) if filename.build else 0
    return ranks[filename.label], -build, filename.text  # type: ignore[index]  # a variant


def taken(
    offered: OfferedRelease, ranks: Mapping[Label, int], here: frozenset[MarkerPlatform | None]
) -> dict[MarkerPlatform | None, Wheel]:
    """Return a wheel of the build that is taken on each platform; None: wherever else."""
    wheel_of: dict[MarkerPlatform | None, Wheel] = {}
    worst = len(ranks)

    def rank(wheel: Wheel) -> int:
        label = wheel.filename.label
        return worst if label is None else ranks[label]

    everywhere: list[Wheel] = []
    wheels = (*offered.variants, *offered.plain)
    for wheel in wheels:
        for platform in platforms_of_tags(wheel.filename.tags):
            if platform is None:
                everywhere.append(wheel)
            known = wheel_of.get(platform)
            if known is None or rank(wheel) < rank(known):
                wheel_of[platform] = wheel
    for wheel in everywhere:
        for platform, known in wheel_of.items():
            if rank(wheel) < rank(known):
                wheel_of[platform] = wheel
    if offered.chosen is not None:
        for platform in here & wheel_of.keys():
            wheel_of[platform] = offered.chosen
    return wheel_of
