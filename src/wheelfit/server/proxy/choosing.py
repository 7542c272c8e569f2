"""The choice of the wheels that are listed for a machine, so that installers take the right one.

Installers compare tags and ignore labels. So of wheels with equal tags, only the best variant is
listed. A wheel is left out if installers would prefer its tags to the tags of that variant.

The label becomes a build tag: an installer takes the highest build tag among wheels with equal
tags, so it prefers the variant to the plain wheel; and caches by file name distinguish variants.

Tools that lock read the METADATA of one wheel and assume it for all. Where builds for two platforms
have different requirements, each requirement gets a marker of its platform.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from wheelfit.core.compatible_tags import platform_values
from wheelfit.core.filename import WheelFilename, wheel_filename_of
from wheelfit.core.requirements import marker_start
from wheelfit.sources.local_files import path_of
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from packaging.tags import Tag

    from wheelfit.core.labels import Label
    from wheelfit.core.target import TagPreference
    from wheelfit.resolution.listing import Wheel
    from wheelfit.sources.page import File


class MarkerPlatform(NamedTuple):
    """A kind of machine that markers can name."""

    sys_platform: str
    platform_machine: str

    @property
    def marker(self) -> str:
        """The marker of that platform."""
        return (
            f"sys_platform == '{self.sys_platform}' and "
            f"platform_machine == '{self.platform_machine}'"
        )

    @property
    def other_platforms_marker(self) -> str:
        """The marker of all other platforms."""
        return (
            f"(sys_platform != '{self.sys_platform}' or "
            f"platform_machine != '{self.platform_machine}')"
        )


Platform: TypeAlias = MarkerPlatform | None
"""None: all platforms, or all platforms that no other key names."""
_UNIVERSAL = ("arm64", "x86_64")
_MAX_FILENAME_LENGTH = 255


def marker_platforms(tags: Iterable[str]) -> frozenset[Platform]:
    """Return the platforms of platform tags; None for all of them."""
    return frozenset(platform for tag in tags for platform in _platforms(tag))


def _platforms(tag: str) -> Iterable[Platform]:
    values = platform_values(tag)
    if not values:
        yield None
    elif values["platform_machine"] == "universal2":
        for machine in _UNIVERSAL:
            yield MarkerPlatform(values["sys_platform"], machine)
    else:
        yield MarkerPlatform(values["sys_platform"], values["platform_machine"])


def merged_requirements(requirements: Mapping[Platform, Sequence[str]]) -> tuple[str, ...]:
    """Return requirements with markers of the platforms that have them.

    >>> linux = MarkerPlatform("linux", "x86_64")
    >>> merged_requirements({linux: ["one", "two"], None: ["one"]})
    ('one', "two ; sys_platform == 'linux' and platform_machine == 'x86_64'")

    :param requirements: by platform, in order; None: all platforms that are not named.
    """
    platforms_of: dict[str, set[Platform]] = {}
    for platform, texts in requirements.items():
        for text in texts:
            platforms_of.setdefault(text, set()).add(platform)
    return tuple(
        _limited(text, needing, requirements.keys()) for text, needing in platforms_of.items()
    )


def _limited(text: str, platforms: set[Platform], all_platforms: Collection[Platform]) -> str:
    """Return a requirement with a marker of its platforms, unless these are all."""
    if len(platforms) == len(all_platforms):
        return text
    if None in platforms:
        others = (platform for platform in all_platforms if platform not in platforms)
        marker = " and ".join(platform.other_platforms_marker for platform in others if platform)
    else:
        parts = [item.marker for item in all_platforms if item and item in platforms]
        marker = parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)
    start = marker_start(text)
    if start is None:
        return f"{text} ; {marker}"
    return f"{text[:start].rstrip()} ; ({text[start + 1 :].strip()}) and ({marker})"


def highest_build(filenames: Iterable[WheelFilename]) -> int:
    """Return the highest build number of some wheels, with which build tags of variants start."""
    return max((int(filename.build[0]) for filename in filenames if filename.build), default=0)


def proxied_name(filename: WheelFilename, number: int) -> str | None:
    """Return the name under which a variant is listed; None if none would be legal.

    >>> wheel = wheel_filename_of("torch-2.8.0-cp313-cp313-linux_x86_64-cu12.9.whl")
    >>> proxied_name(wheel, 0)
    'torch-2.8.0-0_cu12.9-cp313-cp313-linux_x86_64.whl'
    """
    name, version, *rest = filename.plain.removesuffix(".whl").split("-")
    tags = "-".join(rest[-3:])
    text = f"{name}-{version}-{number}_{filename.label}-{tags}.whl"
    return (
        text if len(text) <= _MAX_FILENAME_LENGTH and wheel_filename_of(text) is not None else None
    )


def find_original(files: Iterable[File], name: str) -> File | None:
    """Return the file that the proxy lists under a name from a request, which may be anything."""
    number = name.split("-")[2].partition("_")[0] if name.count("-") == 5 else ""
    for file in files:
        if file.filename == name:
            return file
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            continue
        filename = wheel_filename_of(file.filename)
        if filename is None or not filename.is_variant:
            continue
        if proxied_name(filename, int(number)) == name:
            return file
    return None


def fingerprint(file: File) -> str:
    """Return the key of a file in URLs of the proxy, which identifies its bytes."""
    identity = file.hashes.get("sha256") or f"{file.url}\n{file.filename}\n{_state_of(file)}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _state_of(file: File) -> str:
    """Return the size and time of a local file, which may be built again; otherwise empty."""
    if file.is_local:
        with suppress(OSError, ValueError, FileProblem):
            status = path_of(file).stat()
            return f"{status.st_size} {status.st_mtime_ns}"
    return ""


@dataclass(frozen=True, slots=True)
class OfferedRelease:
    """The listed wheels of a release."""

    variants: tuple[Wheel, ...]
    """At most one for each set of tags, best label first."""
    plain: tuple[Wheel, ...]
    """The plain wheels whose tags do not outrank the chosen variant."""
    chosen: Wheel | None = None
    """The wheel that the client will take, if its tags are known and a wheel fits."""


def select_wheels(
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
            (rank, wheel)
            for wheel in plain
            if wheel.rejection is None and (rank := tags.best(wheel.filename.tags)) is not None
        ]
        chosen = min(candidates, key=lambda item: item[0])[1] if candidates else None
        return OfferedRelease(tuple(variants), tuple(plain), chosen)
    # F-90: variants are compared before tags, but the client compares tags alone.
    _, chosen_rank, chosen = min(fitting, key=lambda item: item[:2])
    label = chosen.filename.label

    def is_kept(wheel: Wheel) -> bool:
        rank = tags.best(wheel.filename.tags)
        if wheel.filename.label is None:
            return rank is None or rank >= chosen_rank
        return rank is None or wheel.filename.label == label

    return OfferedRelease(tuple(filter(is_kept, variants)), tuple(filter(is_kept, plain)), chosen)


def _order(filename: WheelFilename, ranks: Mapping[Label, int]) -> tuple[int, int, str]:
    build = int(filename.build[0]) if filename.build else 0
    return ranks[filename.label], -build, filename.text  # type: ignore[index]  # a variant


def builds_by_platform(
    offered: OfferedRelease, ranks: Mapping[Label, int], client: frozenset[Platform]
) -> dict[Platform, Wheel]:
    """Return a wheel of the build that is chosen on each platform; None: on all others."""
    wheel_of: dict[Platform, Wheel] = {}
    worst = len(ranks)

    def rank(wheel: Wheel) -> int:
        label = wheel.filename.label
        return worst if label is None else ranks[label]

    for_all_platforms: list[Wheel] = []
    wheels = (*offered.variants, *offered.plain)
    for wheel in wheels:
        for platform in marker_platforms(tag.platform for tag in wheel.filename.tags):
            if platform is None:
                for_all_platforms.append(wheel)
            current = wheel_of.get(platform)
            if current is None or rank(wheel) < rank(current):
                wheel_of[platform] = wheel
    for wheel in for_all_platforms:
        for platform, current in wheel_of.items():
            if rank(wheel) < rank(current):
                wheel_of[platform] = wheel
    if offered.chosen is not None:
        for platform in client & wheel_of.keys():
            wheel_of[platform] = offered.chosen
    return wheel_of
