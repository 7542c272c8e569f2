"""Bounds on the releases of a library from symbols (B-61)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.core.abi_exports import values_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.version import Version

    from wheelfit.core.abi_exports import AbiExports
    from wheelfit.wheels.binaries.elf import Symbols


@dataclass(frozen=True, slots=True)
class Consumer:
    """The symbols that a consumer wants of all its libraries together."""

    needed: frozenset[str]
    """The libraries that it loads and does not bring along."""
    wanted: frozenset[str]
    """The symbols that it wants, with their versions; those that may be missing left out."""
    providers: Mapping[str, str]
    """Of symbols with a version: the library that is to offer them."""


@dataclass(frozen=True, slots=True)
class LibraryOffer:
    """The symbols that one release of a library offers of those a consumer wants."""

    version: Version
    origin: str
    libraries: frozenset[str]
    """The sonames of its libraries."""
    symbols: frozenset[str]
    """Of the symbols that the consumer wants: those that it has, as the consumer calls them."""
    has_debug: bool = False
    """Whether types can be compared."""
    changed: str = ""
    """The differences of types that the consumer uses from the release it was built with; empty:
    unknown.
    """
    undecided: str = ""
    """The reason why there is no verdict, as that a library cannot be read."""


@dataclass(frozen=True, slots=True)
class ReleaseVerdict:
    """The verdict whether a consumer works with one release."""

    version: Version
    origin: str
    missing_libraries: tuple[str, ...] = ()
    missing_symbols: tuple[str, ...] = ()
    changed: str = ""
    refusal: str = ""
    """The reason why it does not fit, where symbols are not the reason."""
    undecided: str = ""
    """The reason why there is no verdict; then the other fields are empty."""

    @property
    def fits(self) -> bool:
        """Whether it was examined without an objection."""
        against = self.missing_libraries or self.missing_symbols or self.changed or self.refusal
        return not against and not self.undecided

    @property
    def is_refused(self) -> bool:
        """Whether there is an objection."""
        return not self.fits and not self.undecided


@dataclass(frozen=True, slots=True)
class Bounds:
    """The releases of a library with which a consumer works."""

    libraries: tuple[str, ...]
    """Those of the library that the consumer loads."""
    symbols: tuple[str, ...]
    """Those of the library that the consumer uses."""
    releases: tuple[ReleaseVerdict, ...]
    """Oldest first."""
    values: tuple[str, ...]
    """Of ``abi_dependency``: the releases that fit (P-47)."""
    unknown: tuple[str, ...] = ()
    """Symbols that nothing that was looked at offers, and that no version binds to a library."""
    interface: str = ""
    """The interface that the consumer uses, where that is not a library, as ``the C API of NumPy``.
    """
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
        """The first release after those that fit; None: there is none among the examined ones."""
        last = self.last
        later = (
            release.version
            for release in self.releases
            if last is not None and release.version > last and release.is_refused
        )
        return next(later, None)

    @property
    def requirement(self) -> str:
        """The same as a specifier for dependencies; empty if nothing fits."""
        first, last, broken = self.first, self.last, self.broken_by
        if first is None or last is None:
            return ""
        parts = [f">={first.public}"]
        parts += [
            f"!={release.version.public}"
            for release in self.releases
            if first < release.version < last and release.is_refused
        ]
        if broken is not None:
            parts.append(f"<{broken.public}")
        return ",".join(parts)


def consumer_of(members: Iterable[Symbols]) -> Consumer:
    """Return the consumer that some libraries are together."""
    libraries = list(members)
    own = {one.soname for one in libraries} | {
        symbol for one in libraries for symbol in one.exported
    }
    return Consumer(
        frozenset(name for one in libraries for name in one.needed)
        - {n for n in own if n is not None},
        frozenset(
            symbol
            for one in libraries
            for symbol in one.wanted - one.weak
            if symbol not in own and name_of(symbol) not in own
        ),
        {symbol: library for one in libraries for symbol, library in one.providers},
    )


def bounds_of_interface(
    interface: str,
    symbols: Iterable[str],
    releases: Iterable[ReleaseVerdict],
    exports: AbiExports,
    notes: Iterable[str],
) -> Bounds:
    """Return the bounds of an interface that no library offers by symbols.

    :param interface: as ``the C API of NumPy``.
    """
    releases = tuple(releases)
    values = values_for({release.version: release.fits for release in releases}, exports)
    return Bounds((), tuple(symbols), releases, values, interface=interface, notes=tuple(notes))


def name_of(symbol: str) -> str:
    """Return the name of a symbol without its version.

    >>> name_of("memcpy@GLIBC_2.14")
    'memcpy'
    """
    return symbol.partition("@")[0]


def offer_of(
    version: Version,
    origin: str,
    libraries: Mapping[str, Symbols],
    consumer: Consumer,
    exports: AbiExports,
) -> LibraryOffer:
    """Return the offer of a release to a consumer.

    It has the libraries that the consumer loads, and those that they load, as far as the release
    has them.
    """
    by_name: dict[str, Symbols] = {}
    for file, symbols in libraries.items():
        if exports.covers(file) or (symbols.soname is not None and exports.covers(symbols.soname)):
            by_name.setdefault(symbols.soname or file, symbols)
    loaded: dict[str, Symbols] = {}
    waiting = [name for name in sorted(consumer.needed) if name in by_name]
    while waiting:
        name = waiting.pop()
        if name not in loaded:
            loaded[name] = by_name[name]
            waiting += [one for one in by_name[name].needed if one in by_name]
    exported = {symbol for one in loaded.values() for symbol in one.exported}
    names = {name_of(symbol) for symbol in exported}
    return LibraryOffer(
        version,
        origin,
        frozenset(by_name),
        frozenset(
            symbol
            for symbol in consumer.wanted
            # A symbol without a version takes whichever version there is.
            if symbol in exported or ("@" not in symbol and symbol in names)
        ),
        bool(loaded) and all(one.has_debug for one in loaded.values()),
    )


def derive(consumer: Consumer, offers: Sequence[LibraryOffer], exports: AbiExports) -> Bounds:
    """Return the releases that a consumer works with, as bounds (B-61).

    The symbols that a consumer wants from the library are those that any release of it has: all
    others come from elsewhere. So the release that the consumer was built with, or a similar
    release, must be among them.

    :param offers: of the releases, each version once.
    """
    provided = frozenset[str]().union(*(offer.libraries for offer in offers))
    libraries = consumer.needed & provided
    symbols = frozenset(
        symbol
        for offer in offers
        for symbol in offer.symbols & consumer.wanted
        if consumer.providers.get(symbol, "") in ("", *libraries)
    )
    releases = tuple(
        ReleaseVerdict(
            one.version,
            one.origin,
            missing := tuple(sorted(libraries - one.libraries)),
            # Without a library its symbols are missing, too, which adds nothing.
            () if missing else tuple(sorted(symbols - one.symbols)),
            one.changed,
        )
        if not one.undecided
        else ReleaseVerdict(one.version, one.origin, undecided=one.undecided)
        for one in sorted(offers, key=lambda offer: offer.version)
    )
    fitting = {release.version: release.fits for release in releases if not release.undecided}
    return Bounds(
        tuple(sorted(libraries)),
        tuple(sorted(symbols)),
        releases,
        values_for(fitting, exports),
        tuple(sorted(filter(_is_unbound, consumer.wanted - symbols))),
    )


def _is_unbound(symbol: str) -> bool:
    """Return whether a symbol may be of any library: not Python's, nor of a versioned library."""
    return "@" not in symbol and not symbol.startswith(("Py", "_Py"))
