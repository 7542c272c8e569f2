"""Version bounds on a library, from the symbols that a consumer uses of it (B-61)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.core.abi_exports import AbiExports, values_for
from wheelfit.wheels.binaries.elf import Symbols, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.version import Version


@dataclass(frozen=True, slots=True)
class Consumer:
    """The libraries and symbols that the binaries of a consumer need."""

    needed: frozenset[str]
    """The libraries that it loads, without its own."""
    symbols: frozenset[str]
    """The undefined symbols, with their versions; without weak ones, which may be missing."""
    providers: Mapping[str, str]
    """The library of each symbol that has a version."""


@dataclass(frozen=True, slots=True)
class ReleaseSymbols:
    """The symbols that a consumer needs and one release of a library has."""

    version: Version
    origin: str
    libraries: frozenset[str]
    """The sonames of its libraries."""
    symbols: frozenset[str]
    """The symbols of the consumer that it has, with the versions that the consumer names."""
    has_debug: bool = False
    """Whether it has debug information, so that types can be compared."""
    changed_types: str = ""
    """The types of the consumer that differ from those of the release it was built with; empty:
    none, or unknown.
    """
    undecided: str = ""
    """The reason why there is no verdict, such as a library that cannot be read."""


@dataclass(frozen=True, slots=True)
class ReleaseVerdict:
    """The verdict whether a consumer works with one release."""

    version: Version
    origin: str
    missing_libraries: tuple[str, ...] = ()
    missing_symbols: tuple[str, ...] = ()
    changed_types: str = ""
    refusal: str = ""
    """A reason other than symbols why it does not fit."""
    undecided: str = ""
    """The reason why there is no verdict; then the other fields are empty."""

    @property
    def fits(self) -> bool:
        """Whether it was examined without an objection."""
        return not self.has_objection and not self.undecided

    @property
    def has_objection(self) -> bool:
        """Whether anything shows that the consumer does not work with it."""
        return bool(
            self.missing_libraries or self.missing_symbols or self.changed_types or self.refusal
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """The releases of a library with which a consumer works."""

    libraries: tuple[str, ...]
    """The sonames of the library that the consumer loads."""
    symbols: tuple[str, ...]
    """The symbols of the library that the consumer uses."""
    releases: tuple[ReleaseVerdict, ...]
    """Oldest first."""
    values: tuple[str, ...]
    """The values of ``abi_dependency`` for the releases that fit (P-47)."""
    unknown: tuple[str, ...] = ()
    """Unversioned symbols that no examined release has, without those of Python."""
    interface: str = ""
    """The interface that the consumer uses instead of a library, such as ``the C API of NumPy``."""
    notes: tuple[str, ...] = ()
    """The limits of the bounds, one sentence each without a final full stop."""

    @property
    def first(self) -> Version | None:
        """The first release that fits."""
        return next((release.version for release in self.releases if release.fits), None)

    @property
    def last(self) -> Version | None:
        """The last release that fits."""
        return next((release.version for release in reversed(self.releases) if release.fits), None)

    @property
    def broken_by(self) -> Version | None:
        """The first release after `last` that does not fit; None if none was examined."""
        last = self.last
        later = (
            release.version
            for release in self.releases
            if last is not None and release.version > last and release.has_objection
        )
        return next(later, None)

    @property
    def requirement(self) -> str:
        """The bounds as a version specifier; empty if nothing fits."""
        first, last, broken_by = self.first, self.last, self.broken_by
        if first is None or last is None:
            return ""
        parts = [f">={first.public}"]
        parts += [
            f"!={release.version.public}"
            for release in self.releases
            if first < release.version < last and release.has_objection
        ]
        if broken_by is not None:
            parts.append(f"<{broken_by.public}")
        return ",".join(parts)


def consumer_of(members: Iterable[Symbols]) -> Consumer:
    """Return some libraries as one consumer."""
    needed: set[str] = set()
    undefined: set[str] = set()
    own: set[str] = set()
    providers: dict[str, str] = {}
    for member in members:
        needed.update(member.needed)
        undefined |= member.imported - member.weak
        own |= member.exported
        if member.soname is not None:
            own.add(member.soname)
        providers.update(member.providers)
    symbols = {name for name in undefined if name not in own and name_of(name) not in own}
    return Consumer(frozenset(needed - own), frozenset(symbols), providers)


def bounds_of_interface(
    interface: str,
    symbols: Iterable[str],
    releases: Iterable[ReleaseVerdict],
    exports: AbiExports,
    notes: Iterable[str],
) -> Bounds:
    """Return the bounds of an interface that does not depend on the symbols of a library.

    :param interface: as ``the C API of NumPy``.
    """
    releases = tuple(releases)
    values = values_for({release.version: release.fits for release in releases}, exports)
    return Bounds((), tuple(symbols), releases, values, interface=interface, notes=tuple(notes))


def symbols_of_release(
    version: Version,
    origin: str,
    libraries: Mapping[str, Symbols],
    consumer: Consumer,
    exports: AbiExports,
) -> ReleaseSymbols:
    """Return the symbols of a consumer that the libraries of a release have."""
    by_name: dict[str, Symbols] = {}
    for file, symbols in libraries.items():
        if exports.covers(file) or (symbols.soname is not None and exports.covers(symbols.soname)):
            by_name.setdefault(symbols.soname or file, symbols)
    loaded: dict[str, Symbols] = {}
    pending = [name for name in sorted(consumer.needed) if name in by_name]
    while pending:
        name = pending.pop()
        if name not in loaded:
            loaded[name] = by_name[name]
            pending += [library for library in by_name[name].needed if library in by_name]
    exported = {symbol for library in loaded.values() for symbol in library.exported}
    names = {name_of(symbol) for symbol in exported}
    return ReleaseSymbols(
        version,
        origin,
        frozenset(by_name),
        frozenset(
            symbol
            for symbol in consumer.symbols
            # An unversioned symbol may bind to any version.
            if symbol in exported or ("@" not in symbol and symbol in names)
        ),
        bool(loaded) and all(library.has_debug for library in loaded.values()),
    )


def derive_bounds(
    consumer: Consumer, candidates: Sequence[ReleaseSymbols], exports: AbiExports
) -> Bounds:
    """Return the releases that a consumer works with, as bounds (B-61).

    A symbol that no release has is taken for one of another library. So the release that the
    consumer was built with, or a similar one, must be among them.

    :param candidates: the symbols of each release, each version once.
    """
    provided = frozenset[str]().union(*(candidate.libraries for candidate in candidates))
    libraries = consumer.needed & provided
    symbols = frozenset(
        symbol
        for candidate in candidates
        for symbol in candidate.symbols & consumer.symbols
        # A symbol with a version names its library; others may be of any.
        if consumer.providers.get(symbol) in (None, *libraries)
    )
    releases = tuple(
        _verdict(release, libraries, symbols)
        for release in sorted(candidates, key=lambda candidate: candidate.version)
    )
    fitting = {release.version: release.fits for release in releases if not release.undecided}
    unknown = (
        symbol
        for symbol in consumer.symbols - symbols
        if "@" not in symbol and not symbol.startswith(("Py", "_Py"))
    )
    return Bounds(
        tuple(sorted(libraries)),
        tuple(sorted(symbols)),
        releases,
        values_for(fitting, exports),
        tuple(sorted(unknown)),
    )


def _verdict(
    release: ReleaseSymbols, libraries: frozenset[str], symbols: frozenset[str]
) -> ReleaseVerdict:
    """Return the verdict on a release, from the libraries and their symbols that are used."""
    if release.undecided:
        return ReleaseVerdict(release.version, release.origin, undecided=release.undecided)
    missing_libraries = tuple(sorted(libraries - release.libraries))
    # The symbols of a missing library are missing too, and not reported separately.
    missing_symbols = () if missing_libraries else tuple(sorted(symbols - release.symbols))
    return ReleaseVerdict(
        release.version, release.origin, missing_libraries, missing_symbols, release.changed_types
    )
