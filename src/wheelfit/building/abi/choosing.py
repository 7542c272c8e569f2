"""Choose which wheel of each release of a library something is held against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.checking.wheels.platform_tags import read_platform
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import InvalidFilename

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.sources.page import File


def choose_wheels(
    files: Iterable[File],
    machines: frozenset[str],
    consumer: WheelFilename | None,
    *,
    specifier: SpecifierSet,
    label: Label | None,
    newest: int,
) -> list[tuple[Version, File]]:
    """Return one wheel of each release, the oldest release first.

    :param consumer: its file name; None: a library by itself, which fits any Python.
    :param specifier: which versions count; pre-releases only if it names some.
    :param label: which builds count; None: plain wheels, and where there are none, any.
    :param newest: how many releases at most; 0: all.
    """
    best: dict[Version, tuple[tuple[bool, bool, str], File]] = {}
    for file in files:
        try:
            name = parse_wheel_filename(file.filename)
        except InvalidFilename:
            continue
        if file.yanked is not None or not _is_asked(specifier, name.version):
            continue
        if not _fits(name, machines) or (label is not None and name.label != label):
            continue
        rank = (not _same_python(name, consumer), name.is_variant, file.filename)
        if name.version not in best or rank < best[name.version][0]:
            best[name.version] = (rank, file)
    chosen = [(version, best[version][1]) for version in sorted(best)]
    return chosen[-newest:] if newest else chosen


def _fits(name: WheelFilename, machines: frozenset[str]) -> bool:
    claims = [read_platform(tag.platform) for tag in name.tags]
    return any(
        claim is not None
        and claim.format.value == "elf"
        and not claim.machines.isdisjoint(machines)
        for claim in claims
    )


def _same_python(name: WheelFilename, consumer: WheelFilename | None) -> bool:
    if consumer is None:
        return True
    pythons = {tag.interpreter for tag in name.tags}
    return not pythons.isdisjoint(tag.interpreter for tag in consumer.tags)


def _is_asked(specifier: SpecifierSet, version: Version) -> bool:
    return specifier.contains(version, prereleases=bool(specifier.prereleases))
