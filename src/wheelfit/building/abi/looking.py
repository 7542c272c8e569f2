"""Hold something against releases of a library, one after the other (B-61)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit.building.abi.bounds import consumer_of, derive, offer_of
from wheelfit.building.abi.reading import read_libraries
from wheelfit.building.abi.types import changed_types
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from packaging.version import Version

    from wheelfit.building.abi.bounds import Bounds, Offer
    from wheelfit.building.abi.reading import Libraries
    from wheelfit.core.abi_exports import AbiExports


@dataclass(frozen=True, slots=True)
class Release:
    """Name one release of the library, and how its file is had."""

    version: Version
    origin: str
    """Name of the file."""
    fetch: Callable[[], Path]
    """Returns the file."""
    is_temporary: bool = False
    """Whether the file is removed when it has been read."""


@dataclass(frozen=True, slots=True)
class FoundBounds:
    """Hold what was found, and what could not be."""

    bounds: Bounds
    notes: tuple[str, ...]
    """One sentence each, without a final full stop."""


def look(
    consumer: Path,
    releases: Iterable[Release],
    exports: AbiExports,
    scratch: Path,
    *,
    program: str | None = None,
    built_with: Version | None = None,
) -> FoundBounds:
    """Return with which releases of a library something works.

    :param releases: each version once.
    :param program: what compares types; None: they are not compared.
    :param built_with: the release whose types the others are compared with; None: the first
        that has all symbols.
    :raises FileProblem: something cannot be read, or the consumer does not use the library.
    :raises InvalidWheel: a wheel is not sound.
    :raises NeedsExtra: what reads such files is not installed.
    """
    keep = scratch if program is not None else None
    own = read_libraries(consumer, keep=keep and keep / "consumer", every=True)
    if not own.symbols:
        raise FileProblem("it has no ELF file that can be read", where=str(consumer))
    wanted = consumer_of(own.symbols.values())
    offers: list[Offer] = []
    files: dict[Version, Libraries] = {}
    notes = list(own.faults)
    for number, release in enumerate(releases):
        path = release.fetch()
        libraries = read_libraries(path, keep=keep and keep / f"release-{number}")
        if release.is_temporary:
            path.unlink(missing_ok=True)
        offer = offer_of(release.version, release.origin, libraries.symbols, wanted, exports)
        offers.append(offer)
        files[release.version] = libraries
        notes += [f"{release.origin}: {fault}" for fault in libraries.faults]
        if not offer.has_debug:
            for copy in libraries.kept.values():
                copy.unlink()
    bounds = derive(wanted, offers, exports)
    if not bounds.libraries:
        raise FileProblem(
            "it loads no library of any of these releases",
            where=str(consumer),
            note=f"it loads {', '.join(sorted(wanted.needed)) or 'none'}",
            hint="what is reached at run time, as the C API of NumPy, leaves no symbols to compare",
        )
    if program is not None:
        changed = _with_types(program, own, offers, files, bounds, built_with)
        bounds = derive(wanted, changed, exports)
        shutil.rmtree(scratch / "consumer", ignore_errors=True)
    notes += _reservations(bounds, offers, program=program)
    return FoundBounds(bounds, tuple(dict.fromkeys(notes)))


def _with_types(
    program: str,
    own: Libraries,
    offers: Sequence[Offer],
    files: dict[Version, Libraries],
    bounds: Bounds,
    built_with: Version | None,
) -> list[Offer]:
    """Return the offers, each with how its types differ from the release that counts."""
    fitting = {one.version for one in bounds.releases if one.fits}
    comparable = [one for one in offers if one.has_debug and one.version in fitting]
    first = built_with if built_with is not None else bounds.first
    base = next((one for one in comparable if one.version == first), None)
    if base is None:
        return list(offers)
    changed = []
    for one in offers:
        if one not in comparable or one is base:
            changed.append(one)
            continue
        found = _changes(program, own, files[base.version], files[one.version], bounds.libraries)
        changed.append(replace(one, changed="; ".join(found)))
    return changed


def _changes(
    program: str, own: Libraries, before: Libraries, after: Libraries, used: Sequence[str]
) -> list[str]:
    found = []
    for name in used:
        old, new = _file_of(before, name), _file_of(after, name)
        if old is None or new is None:
            continue
        for file, symbols in own.symbols.items():
            if name in symbols.needed:
                difference = changed_types(program, own.kept[file], old, new)
                if difference:
                    found.append(difference)
    return list(dict.fromkeys(found))


def _file_of(libraries: Libraries, name: str) -> Path | None:
    for file, path in libraries.kept.items():
        if (libraries.symbols[file].soname or file) == name:
            return path
    return None


def _reservations(bounds: Bounds, offers: Sequence[Offer], *, program: str | None) -> Iterator[str]:
    """Yield what the bounds cannot know."""
    fitting = [one for one in bounds.releases if one.fits]
    stripped = [str(one.version) for one in fitting if not _has_debug(offers, one.version)]
    if stripped:
        yield (
            f"the libraries of {_few(stripped)} have no debug information: changes of types and "
            "layouts cannot be seen"
        )
    if program is None and len(stripped) < len(fitting):
        yield (
            "abicompat (of libabigail; Debian has it in abigail-tools) is not installed, so types "
            "were not compared"
        )
    if bounds.unknown:
        yield (
            f"nothing that was looked at offers {_few(bounds.unknown, 'and others')}: they are of "
            "other libraries, or of a release that was not looked at"
        )
    releases = bounds.releases
    if bounds.first is not None and bounds.first == releases[0].version:
        yield f"{bounds.first} is the oldest release that was looked at; older ones may fit too"
    if bounds.first is not None and bounds.broken_by is None:
        yield (
            f"{bounds.last} is the newest release that was looked at; what later ones drop is not "
            "known"
        )


def _has_debug(offers: Sequence[Offer], version: Version) -> bool:
    return any(one.has_debug for one in offers if one.version == version)


_SHOWN = 3


def _few(items: Sequence[str], rest: str = "") -> str:
    if len(items) <= _SHOWN:
        return ", ".join(items)
    return f"{', '.join(items[:_SHOWN])} {rest}" if rest else f"{items[0]} to {items[-1]}"
