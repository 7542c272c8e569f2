"""Comparison of a consumer with releases of a library, one by one (B-61)."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from wheelfit.building.abi.bounds import consumer_of, derive, name_of, offer_of
from wheelfit.building.abi.torch_api import torch_notes
from wheelfit.checking.findings import some_of
from wheelfit.checking.wheels.platform_tags import read_platform
from wheelfit.core.abi_exports import FILE, AbiExports, parse_abi_exports
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import InvalidFilename
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries.bounded_reader import Unreadable
from wheelfit.wheels.binaries.elf import MAGIC
from wheelfit.wheels.binaries.reading import binary_files, symbols_in, unpacked_binaries
from wheelfit_runtime.errors import FileProblem, InvalidDocument, InvalidWheel
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    from wheelfit.building.abi.bounds import Bounds, Consumer, LibraryOffer
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.sources.page import File
    from wheelfit.wheels.binaries.elf import Symbols
    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.zip_directory import Member


@dataclass(frozen=True, slots=True)
class Release:
    """A release of the library, and how its file is obtained."""

    version: Version
    origin: str
    fetch: Callable[[], Path]
    is_temporary: bool = False
    """Whether the file is removed when it has been read."""
    open: Callable[[], ByteSource | None] = lambda: None
    """Returns the bytes of a wheel that is elsewhere, so that a part of it is enough; None: it must
    be fetched."""


def look(
    consumer: Path,
    releases: Iterable[Release],
    exports: AbiExports | None,
    scratch: Path,
    *,
    program: str | None = None,
    built_with: Version | None = None,
) -> Bounds:
    """Return the releases of a library that a consumer works with, as bounds.

    :param releases: each version once, the oldest first.
    :param exports: the declared exports of the library; None: those in its releases, of which the
        newest decides.
    :param program: the program that compares types; None: they are not compared.
    :param built_with: the release that the consumer was built with: symbols that it lacks are of
        other libraries, and its types are compared with those of others. None: all symbols of any
        release are the library's, and types are those of the first release with all symbols.
    :raises FileProblem: a file cannot be read, or the consumer does not use the library.
    """
    keep = scratch if program is not None else None
    own = read_libraries(consumer, keep=keep and keep / "consumer", every=True)
    if not own.symbols:
        raise FileProblem("no ELF file in it can be read", where=str(consumer))
    wanted = consumer_of(own.symbols.values())
    offers: list[LibraryOffer] = []
    files: dict[Version, LibrarySymbols] = {}
    notes = list(own.faults)
    carried: AbiExports | None = None
    folders = (keep and keep / f"release-{number}" for number in itertools.count())
    releases = list(releases)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        read = list(pool.map(partial(_offered, wanted, exports), releases, folders))
    for release, (offer, libraries) in zip(releases, read, strict=True):
        carried = libraries.promises or carried
        offers.append(offer)
        files[release.version] = libraries
        if not offer.undecided:
            notes += [f"{release.origin}: {fault}" for fault in libraries.faults]
        if not offer.has_debug:
            for copy in libraries.kept.values():
                copy.unlink()
    base = next((one.symbols for one in offers if one.version == built_with), None)
    if base is not None:
        wanted = replace(wanted, wanted=wanted.wanted & base)
    promised = exports or carried or AbiExports()
    if exports is None and carried is not None:
        notes.append(f"the library promises that its {carried.level} releases are compatible")
    bounds = derive(wanted, offers, promised)
    if not bounds.libraries:
        raise FileProblem(
            "the binary loads no library of any of these releases",
            where=str(consumer),
            note=f"it loads {', '.join(sorted(wanted.needed)) or 'none'}",
            hint="libraries loaded at run time, as with dlopen, leave no symbols to compare",
        )
    if program is not None:
        changed = _with_types(program, own, offers, files, bounds, built_with)
        bounds = derive(wanted, changed, promised)
        shutil.rmtree(scratch / "consumer", ignore_errors=True)
    notes += namespace_notes(wanted.wanted)
    notes += torch_notes(wanted.wanted)
    notes += _reservations(bounds, offers, program=program)
    return replace(bounds, notes=tuple(dict.fromkeys(notes)))


_AT_ONCE = 4
"""Releases that are fetched and read at the same time."""


def _offered(
    consumer: Consumer, exports: AbiExports | None, release: Release, keep: Path | None
) -> tuple[LibraryOffer, LibrarySymbols]:
    """Return the symbols that a release offers, and its libraries.

    :param keep: the folder for copies of libraries to compare; None: there are none.
    """
    try:
        libraries = _libraries_of(consumer, release, keep)
    except InvalidWheel as error:
        if not release.is_temporary:
            raise  # it was named
        libraries = LibrarySymbols(unread={release.origin: error.message})
        undecided = f"the file cannot be read: {error.message}"
    else:
        wanted = _file_names(consumer.needed)
        faults = [f"{name}: {why}" for name, why in libraries.unread.items() if name in wanted]
        undecided = f"the file cannot be read: {'; '.join(faults)}" if faults else ""
    promises = exports or libraries.promises or AbiExports()
    offer = offer_of(release.version, release.origin, libraries.symbols, consumer, promises)
    return replace(offer, undecided=undecided), libraries


def _libraries_of(consumer: Consumer, release: Release, keep: Path | None) -> LibrarySymbols:
    """Return the libraries of a release; of one elsewhere those that are loaded.

    Of their symbols those are kept that the consumer wants: there may be hundreds of releases with
    a million each.
    """
    libraries = LibrarySymbols(only=frozenset(map(name_of, consumer.wanted)))
    source = release.open()
    if source is not None:
        with closing(source):
            filename = parse_wheel_filename(release.origin)
            with WheelArchive(source, filename) as archive:
                if _is_small_part(archive, consumer.needed):
                    libraries.add_loaded(archive, consumer.needed, keep)
                    return libraries
    path = release.fetch()
    libraries.add_file(path, keep)
    if release.is_temporary:
        path.unlink(missing_ok=True)
    return libraries


def _is_small_part(archive: WheelArchive, names: Iterable[str]) -> bool:
    """Return whether some libraries of a wheel are less than half of its bytes."""
    wanted = _file_names(names)
    parts = (member for member in archive.members if member.name.rpartition("/")[2] in wanted)
    return sum(part.compressed_size for part in parts) * 2 < archive.size


def _file_names(libraries: Iterable[str]) -> frozenset[str]:
    """Return the file names under which libraries may lie.

    A library is found by its file name, as loaders do; or without the number in that, for one
    that lies under its plain name may call itself otherwise.
    """
    names = frozenset(libraries)
    return names | {f"{name.partition('.so.')[0]}.so" for name in names if ".so." in name}


def _with_types(
    program: str,
    own: LibrarySymbols,
    offers: Sequence[LibraryOffer],
    files: dict[Version, LibrarySymbols],
    bounds: Bounds,
    built_with: Version | None,
) -> list[LibraryOffer]:
    """Return the offers, each with its differences of types from the reference release."""
    fitting = {release.version for release in bounds.releases if release.fits}
    comparable = [offer for offer in offers if offer.has_debug and offer.version in fitting]
    first = built_with if built_with is not None else bounds.first
    base = next((one for one in comparable if one.version == first), None)
    if base is None:
        return list(offers)
    changed = []
    for offer in offers:
        if offer not in comparable or offer is base:
            changed.append(offer)
            continue
        differences = _changes(
            program, own, files[base.version], files[offer.version], bounds.libraries
        )
        changed.append(replace(offer, changed="; ".join(differences)))
    return changed


def _changes(
    program: str,
    own: LibrarySymbols,
    before: LibrarySymbols,
    after: LibrarySymbols,
    used: Sequence[str],
) -> list[str]:
    differences = []
    for name in used:
        old, new = _file_of(before, name), _file_of(after, name)
        if old is None or new is None:
            continue
        for file, symbols in own.symbols.items():
            if name in symbols.needed:
                difference = changed_types(program, own.kept[file], old, new)
                if difference:
                    differences.append(difference)
    return list(dict.fromkeys(differences))


def _file_of(libraries: LibrarySymbols, name: str) -> Path | None:
    for file, path in libraries.kept.items():
        if (libraries.symbols[file].soname or file) == name:
            return path
    return None


def _reservations(
    bounds: Bounds, offers: Sequence[LibraryOffer], *, program: str | None
) -> Iterator[str]:
    """Yield the limits of the bounds."""
    fitting = [release for release in bounds.releases if release.fits]
    with_debug = {offer.version for offer in offers if offer.has_debug}
    stripped = [str(one.version) for one in fitting if one.version not in with_debug]
    if stripped:
        yield (
            f"the libraries of {some_of(stripped)} have no debug information: changes of "
            "types and layouts cannot be seen"
        )
    if program is None and len(stripped) < len(fitting):
        yield (
            "abicompat (of libabigail; Debian has it in abigail-tools) is not installed, so types "
            "were not compared"
        )
    if bounds.unknown:
        yield (
            f"nothing that was looked at offers {some_of(bounds.unknown)}: they are of "
            "other libraries, or of a release that was not looked at"
        )
    releases = bounds.releases
    if bounds.first is not None and bounds.first == releases[0].version:
        yield f"{bounds.first} is the oldest release that was looked at; older ones may fit too"
    if bounds.first is not None and bounds.broken_by is None:
        if bounds.last != releases[-1].version:
            yield f"whether it works with later releases than {bounds.last} is not decided"
            return
        yield (
            f"{bounds.last} is the newest release that was looked at; what later ones drop is not "
            "known"
        )


_FAILED, _CHANGED = 1 | 2, 4 | 8
_LONGEST = 300.0
"""Seconds; a library of some hundred megabytes of debug information may take minutes."""
_SHOWN = 3


def find_program() -> str | None:
    """Return the program, if it is installed."""
    return shutil.which("abicompat")


def changed_types(program: str, consumer: Path, before: Path, after: Path) -> str | None:
    """Return the differences between two versions of a library in types that a consumer uses.

    :return: empty if there are none, else a sentence; None if that is unknown.
    """
    try:
        done = subprocess.run(
            [program, consumer, before, after],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode < 0 or done.returncode & _FAILED:
        return None
    if not done.returncode & _CHANGED:
        return ""
    changes = [
        line.strip().removeprefix("[C] ").rstrip(":")
        for line in done.stdout.splitlines()
        if line.lstrip().startswith("[")
    ]
    more = f" (and {len(changes) - _SHOWN} more)" if len(changes) > _SHOWN else ""
    return ("; ".join(changes[:_SHOWN]) or "its interface changed") + more


@dataclass(slots=True)
class LibrarySymbols:
    """The libraries of one file."""

    symbols: dict[str, Symbols] = field(default_factory=dict)
    """By file name."""
    faults: list[str] = field(default_factory=list)
    """Errors of unreadable files."""
    unread: dict[str, str] = field(default_factory=dict)
    """The same of libraries, by file name."""
    only: frozenset[str] | None = None
    """Names of the relevant symbols; None: all."""
    kept: dict[str, Path] = field(default_factory=dict)
    """Copies of those that have debug information, by file name."""
    promises: AbiExports | None = None
    """The exports declared in their wheel; None if it has none that can be read."""

    def add_promises_of(self, archive: WheelArchive) -> None:
        """Read the promises that a wheel carries, if it does."""
        carrier = f"{archive.dist_info}/{FILE}"
        if carrier in archive:
            self.add_promises(archive.read(carrier), archive.where)

    def add_promises(self, data: bytes, where: str) -> None:
        """Read the promises of the library, from the file that carries them (B-61)."""
        try:
            self.promises = parse_abi_exports(data, where=where)
        except InvalidDocument as error:
            self.faults.append(f"its {FILE} counts for nothing: {error.message}")

    def add(self, name: str, file: BinaryIO, keep: Path | None, *, every: bool = False) -> None:
        """Read one library."""
        file.seek(0)
        if file.read(len(MAGIC)) != MAGIC:
            return
        short = name.rpartition("/")[2]
        try:
            symbols = symbols_in(file, self.only)
        except Unreadable as error:
            self.faults.append(f"{name}: {error}")
            self.unread[short] = str(error)
            return
        self.symbols.setdefault(short, symbols)
        if keep is not None and (every or symbols.has_debug) and short not in self.kept:
            keep.mkdir(exist_ok=True)
            target = keep / short
            file.seek(0)
            with target.open("wb") as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
            self.kept[short] = target

    def add_loaded(self, archive: WheelArchive, needed: Iterable[str], keep: Path | None) -> None:
        """Read the libraries of a wheel that are loaded, directly or by others."""
        self.add_promises_of(archive)
        waiting, known = set(needed), set[str]()
        while waiting:
            known |= waiting
            wanted, waiting = _file_names(waiting), set()

            def is_wanted(member: Member, wanted: frozenset[str] = wanted) -> bool:
                return member.name.rpartition("/")[2] in wanted

            for member, file in unpacked_binaries(archive, is_wanted=is_wanted):
                self.add(member.name, file, keep)
            for symbol in self.symbols.values():
                waiting |= set(symbol.needed) - known

    def add_file(self, path: Path, keep: Path | None = None, *, every: bool = False) -> None:
        """Read the ELF files of a wheel, or a single file."""
        for name, file in binary_files(path):
            self.add(name, file, keep, every=every)
        if path.suffix == ".whl":
            with WheelArchive(path) as archive:
                self.add_promises_of(archive)
            return
        installed = _installed_promises(path)
        if installed is not None:
            self.add_promises(installed.read_bytes(), str(installed))
        if not self.symbols and not self.faults:
            raise FileProblem("the file is neither a wheel nor an ELF file", where=str(path))


def read_libraries(path: Path, *, keep: Path | None = None, every: bool = False) -> LibrarySymbols:
    """Return the ELF files of a wheel, or a single file; as `LibrarySymbols.add_file`."""
    libraries = LibrarySymbols()
    libraries.add_file(path, keep, every=every)
    return libraries


def _installed_promises(library: Path) -> Path | None:
    """Return the file that carries the promises of an installed library; None if there is none."""
    path = library.absolute()
    for folder in path.parents:
        for carrier in folder.glob(f"*.dist-info/{FILE}"):
            row = f"{path.relative_to(folder).as_posix()},"
            record = carrier.with_name("RECORD")
            if record.exists() and any(
                line.startswith(row) for line in record.read_text("utf-8", "replace").splitlines()
            ):
                return carrier
    return None


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
    :param specifier: the versions to consider; pre-releases only if it names some.
    :param label: the builds to consider; None: plain wheels, and where there are none, any.
    :param newest: how many releases at most; 0: all.
    """
    best: dict[Version, tuple[tuple[bool, bool, str], File]] = {}
    for file in files:
        try:
            name = parse_wheel_filename(file.filename)
        except InvalidFilename:
            continue
        pre = bool(specifier.prereleases)
        if file.yanked is not None or not specifier.contains(name.version, prereleases=pre):
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


# --- versions in the names of symbols -----------------------------------------------------

_ICU = "u|ubidi|ubrk|ucal|ucnv|ucol|udat|uenum|uloc|unorm2?|unum|uregex|ures|uscript|uset|utext"
# Marks in upstream namespaces, as of November 2026: the library, how a compiler writes the
# namespace into a symbol, and the part for the version in it.
_NAMESPACES = (
    ("Abseil", "absl::lts_{}", pattern(r"4absl12lts_(\d{8})")),
    ("ICU", "icu_{}", pattern(rf"6icu_(\d{{2}})|\A(?:{_ICU})_\w+_(\d{{2}})\Z")),
    ("fmt", "fmt::v{}", pattern(r"3fmt(?:2v(\d)|3v(\d\d))")),
    (
        "nlohmann/json",
        "nlohmann::json_abi_v{}",
        pattern(r"15json_abi_v(\d_\d_\d)|16json_abi_v(\d_\d\d_\d)"),
    ),
)


def namespace_notes(symbols: Iterable[str]) -> Iterator[str]:
    """Yield the releases of other libraries that names of wanted symbols belong to.

    >>> list(namespace_notes(["_ZN4absl12lts_202407223NowEv"]))
    ['absl::lts_20240722 (1 symbol) is in releases 20240722.* of Abseil only']
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    for symbol in symbols:
        name = symbol.partition("@")[0]
        for library, written, expression in _NAMESPACES:
            if (match := expression.search(name)) is not None:
                version = next(group for group in match.groups() if group is not None)
                counts[library, written, version] += 1
    for (library, written, version), count in sorted(counts.items()):
        releases = version.replace("_", ".") + ("" if "_" in version else ".*")
        yield (
            f"{written.format(version)} ({count_of(count, 'symbol')}) is in releases {releases} of "
            f"{library} only"
        )
