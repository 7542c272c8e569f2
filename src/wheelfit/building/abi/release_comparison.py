"""Comparison of a consumer with releases of a library, one by one (B-61)."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from wheelfit.building.abi.bounds import consumer_of, derive_bounds, symbols_of_release
from wheelfit.building.abi.torch_api import torch_notes
from wheelfit.checking.findings import listed_briefly
from wheelfit.checking.wheels.platform_tags import read_platform
from wheelfit.core.abi_exports import FILE, AbiExports, parse_abi_exports
from wheelfit.core.filename import WheelFilename, parse_wheel_filename, wheel_filename_of
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries.bounded_reader import Unreadable
from wheelfit.wheels.binaries.elf import MAGIC, Symbols, name_of
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

    from wheelfit.building.abi.bounds import Bounds, Consumer, ReleaseSymbols
    from wheelfit.core.labels import Label
    from wheelfit.sources.page import File
    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.zip_directory import Member


@dataclass(frozen=True, slots=True)
class LibraryRelease:
    """A release of the library, with functions that obtain its file."""

    version: Version
    origin: str
    fetch: Callable[[], Path]
    is_temporary: bool = False
    """Whether the file is removed when it has been read."""
    open: Callable[[], ByteSource | None] = lambda: None
    """Returns the bytes of a remote wheel, to read only a part of it; None: it must be fetched."""


def compare_releases(
    consumer: Path,
    releases: Iterable[LibraryRelease],
    exports: AbiExports | None,
    scratch: Path,
    *,
    program: str | None = None,
    built_with: Version | None = None,
) -> Bounds:
    """Return the releases of a library that a consumer works with, as bounds.

    :param releases: each version once, the oldest first.
    :param exports: the declared exports of the library; None: those in its releases, of which the
        newest counts.
    :param program: the program that compares types; None: they are not compared.
    :param built_with: the release that the consumer was built with. Symbols that this release lacks
        belong to other libraries, and its types are compared with those of the other releases.
        None: a symbol of any release belongs to the library, and the first release with all symbols
        is compared with the others.
    :raises FileProblem: a file cannot be read, or the consumer does not use the library.
    """
    copies_folder = scratch if program is not None else None
    consumer_folder = None if copies_folder is None else copies_folder / "consumer"
    consumer_files = read_libraries(consumer, consumer_folder, copies_all=True)
    if not consumer_files.symbols:
        raise FileProblem("no ELF file in it can be read", where=str(consumer))
    needs = consumer_of(consumer_files.symbols.values())
    candidates: list[ReleaseSymbols] = []
    files: dict[Version, LibraryFiles] = {}
    notes = list(consumer_files.faults)
    declared: AbiExports | None = None
    releases = list(releases)
    with ThreadPoolExecutor(_MAX_PARALLEL) as pool:
        read_release = partial(_read_release, needs, exports, copies_folder)
        results = list(pool.map(read_release, releases))
    for release, (candidate, libraries) in zip(releases, results, strict=True):
        declared = libraries.exports or declared
        candidates.append(candidate)
        files[release.version] = libraries
        if not candidate.undecided:
            notes += [f"{release.origin}: {fault}" for fault in libraries.faults]
        if not candidate.has_debug:  # copies serve only to compare types
            for copy in libraries.copies.values():
                copy.unlink()
    for candidate in candidates:
        if candidate.version == built_with:
            needs = replace(needs, symbols=needs.symbols & candidate.symbols)
    used_exports = exports or declared or AbiExports()
    if exports is None and declared is not None:
        notes.append(f"the library promises that its {declared.level} releases are compatible")
    bounds = derive_bounds(needs, candidates, used_exports)
    if not bounds.libraries:
        raise FileProblem(
            "the binary loads no library of any of these releases",
            where=str(consumer),
            note=f"it loads {', '.join(sorted(needs.needed)) or 'none'}",
            hint="libraries loaded at run time, as with dlopen, leave no symbols to compare",
        )
    if program is not None:
        with_changes = _with_type_changes(
            program, consumer_files, candidates, files, bounds, built_with
        )
        bounds = derive_bounds(needs, with_changes, used_exports)
        shutil.rmtree(scratch / "consumer", ignore_errors=True)
    notes += namespace_notes(needs.symbols)
    notes += torch_notes(needs.symbols)
    notes += _limits(bounds, candidates, program=program)
    return replace(bounds, notes=tuple(dict.fromkeys(notes)))


_MAX_PARALLEL = 4
"""Releases that are fetched and read at the same time."""


def _read_release(
    consumer: Consumer,
    declared: AbiExports | None,
    copies_folder: Path | None,
    release: LibraryRelease,
) -> tuple[ReleaseSymbols, LibraryFiles]:
    """Return the symbols of a consumer that a release has, and its libraries.

    :param copies_folder: where to make a folder of the release's name for copies of its libraries;
        None: nothing is copied.
    """
    release_folder = None if copies_folder is None else copies_folder / str(release.version)
    try:
        libraries = _libraries_of(consumer, release, release_folder)
    except InvalidWheel as error:
        if not release.is_temporary:
            raise  # the user named this file
        libraries = LibraryFiles()
        undecided = f"the file cannot be read: {error.message}"
    else:
        names = _file_names(consumer.needed)
        faults = [
            f"{name}: {error}" for name, error in libraries.unreadable.items() if name in names
        ]
        undecided = f"the file cannot be read: {'; '.join(faults)}" if faults else ""
    declared = declared or libraries.exports or AbiExports()
    candidate = symbols_of_release(
        release.version, release.origin, libraries.symbols, consumer, declared
    )
    return replace(candidate, undecided=undecided), libraries


def _libraries_of(
    consumer: Consumer, release: LibraryRelease, copies_folder: Path | None
) -> LibraryFiles:
    """Return the libraries of a release; of a remote one only those that are loaded.

    Only symbols of the consumer are stored: there may be hundreds of releases with a million each.
    """
    libraries = LibraryFiles(relevant_symbols=frozenset(map(name_of, consumer.symbols)))
    source = release.open()
    if source is not None:
        with closing(source):
            filename = parse_wheel_filename(release.origin)
            with WheelArchive(source, filename) as archive:
                if _is_small_part(archive, consumer.needed):
                    libraries.add_loaded(archive, consumer.needed, copies_folder)
                    return libraries
    path = release.fetch()
    libraries.add_file(path, copies_folder)
    if release.is_temporary:
        path.unlink(missing_ok=True)
    return libraries


def _is_small_part(archive: WheelArchive, names: Iterable[str]) -> bool:
    """Return whether some libraries of a wheel are less than half of its bytes."""
    file_names = _file_names(names)
    parts = (member for member in archive.members if member.name.rpartition("/")[2] in file_names)
    return sum(part.compressed_size for part in parts) * 2 < archive.size


def _file_names(libraries: Iterable[str]) -> frozenset[str]:
    """Return the possible file names of libraries.

    Loaders find a library by its soname. In a wheel its file may also be named without the number.
    """
    names = frozenset(libraries)
    return names | {f"{name.partition('.so.')[0]}.so" for name in names if ".so." in name}


def _with_type_changes(
    program: str,
    consumer_files: LibraryFiles,
    candidates: Sequence[ReleaseSymbols],
    files: dict[Version, LibraryFiles],
    bounds: Bounds,
    built_with: Version | None,
) -> list[ReleaseSymbols]:
    """Return the releases with their differences of types from the reference release."""
    fitting = {release.version for release in bounds.releases if release.fits}
    comparable = [
        candidate
        for candidate in candidates
        if candidate.has_debug and candidate.version in fitting
    ]
    first = built_with if built_with is not None else bounds.first
    reference = next((candidate for candidate in comparable if candidate.version == first), None)
    if reference is None:
        return list(candidates)
    results = []
    for candidate in candidates:
        if candidate not in comparable or candidate is reference:
            results.append(candidate)
            continue
        differences = _changes(
            program,
            consumer_files,
            files[reference.version],
            files[candidate.version],
            bounds.libraries,
        )
        results.append(replace(candidate, changed_types="; ".join(differences)))
    return results


def _changes(
    program: str,
    consumer_files: LibraryFiles,
    before: LibraryFiles,
    after: LibraryFiles,
    libraries: Sequence[str],
) -> list[str]:
    differences = []
    for name in libraries:
        old, new = _file_of(before, name), _file_of(after, name)
        if old is None or new is None:
            continue
        for file, symbols in consumer_files.symbols.items():
            if name in symbols.needed:
                difference = changed_types(program, consumer_files.copies[file], old, new)
                if difference:
                    differences.append(difference)
    return list(dict.fromkeys(differences))


def _file_of(libraries: LibraryFiles, name: str) -> Path | None:
    for file, path in libraries.copies.items():
        if (libraries.symbols[file].soname or file) == name:
            return path
    return None


def _limits(
    bounds: Bounds, candidates: Sequence[ReleaseSymbols], *, program: str | None
) -> Iterator[str]:
    """Yield the limits of the bounds."""
    fitting = [release for release in bounds.releases if release.fits]
    with_debug = {candidate.version for candidate in candidates if candidate.has_debug}
    stripped = [str(release.version) for release in fitting if release.version not in with_debug]
    if stripped:
        yield (
            f"the libraries of {listed_briefly(stripped)} have no debug information: changes of "
            "types and layouts cannot be detected"
        )
    if program is None and len(stripped) < len(fitting):
        yield (
            "abicompat (of libabigail; Debian has it in abigail-tools) is not installed, so types "
            "were not compared"
        )
    if bounds.unknown:
        yield (
            f"no examined release has {listed_briefly(bounds.unknown)}: these symbols are of other "
            "libraries, or of other releases"
        )
    releases = bounds.releases
    if bounds.first is not None and bounds.first == releases[0].version:
        yield f"{bounds.first} is the oldest examined release; older ones may fit too"
    if bounds.first is not None and bounds.broken_by is None:
        if bounds.last == releases[-1].version:
            yield f"{bounds.last} is the newest examined release; later ones may drop symbols"
        else:
            yield f"no release later than {bounds.last} could be judged"


# Bits of the exit status of abicompat.
_FAILED, _CHANGED = 1 | 2, 4 | 8
_TIME_LIMIT = 300.0
"""Seconds; hundreds of megabytes of debug information may take minutes."""
_SHOWN = 3
"""Changes that a message lists."""


def find_abicompat() -> str | None:
    """Return the path of abicompat, if it is installed."""
    return shutil.which("abicompat")


def changed_types(program: str, consumer: Path, before: Path, after: Path) -> str | None:
    """Return the types of a consumer that differ between two versions of a library, as a sentence.

    :return: empty if there are none; None if they could not be compared.
    """
    try:
        process = subprocess.run(
            [program, consumer, before, after],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIME_LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if process.returncode < 0 or process.returncode & _FAILED:
        return None
    if not process.returncode & _CHANGED:
        return ""
    changes = [
        line.strip().removeprefix("[C] ").rstrip(":")
        for line in process.stdout.splitlines()
        if line.lstrip().startswith("[")
    ]
    more = f" (and {len(changes) - _SHOWN} more)" if len(changes) > _SHOWN else ""
    return ("; ".join(changes[:_SHOWN]) or "its interface changed") + more


@dataclass(slots=True)
class LibraryFiles:
    """The libraries of a wheel, or a single one."""

    symbols: dict[str, Symbols] = field(default_factory=dict)
    """By file name."""
    faults: list[str] = field(default_factory=list)
    """Errors of unreadable files."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Errors of unreadable libraries, by file name."""
    relevant_symbols: frozenset[str] | None = None
    """Names of the relevant symbols; None: all."""
    copies: dict[str, Path] = field(default_factory=dict)
    """Copies of the libraries with debug information, by file name."""
    exports: AbiExports | None = None
    """The exports that their wheel declares; None if it declares none, or invalid ones."""

    def add_exports_of(self, archive: WheelArchive) -> None:
        """Read the exports that a wheel declares, if any."""
        name = f"{archive.dist_info}/{FILE}"
        if name in archive:
            self.add_exports(archive.read(name), archive.where)

    def add_exports(self, data: bytes, where: str) -> None:
        """Read the file with declared exports (B-61)."""
        try:
            self.exports = parse_abi_exports(data, where=where)
        except InvalidDocument as error:
            self.faults.append(f"its {FILE} is ignored: {error.message}")

    def add(
        self, name: str, file: BinaryIO, copies_folder: Path | None, *, copies_all: bool = False
    ) -> None:
        """Read one library."""
        file.seek(0)
        if file.read(len(MAGIC)) != MAGIC:
            return
        file_name = name.rpartition("/")[2]
        try:
            symbols = symbols_in(file, self.relevant_symbols)
        except Unreadable as error:
            self.faults.append(f"{name}: {error}")
            self.unreadable[file_name] = str(error)
            return
        self.symbols.setdefault(file_name, symbols)
        if (
            copies_folder is not None
            and (copies_all or symbols.has_debug)
            and file_name not in self.copies
        ):
            copies_folder.mkdir(exist_ok=True)
            target = copies_folder / file_name
            file.seek(0)
            with target.open("wb") as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
            self.copies[file_name] = target

    def add_loaded(
        self, archive: WheelArchive, needed: Iterable[str], copies_folder: Path | None
    ) -> None:
        """Read the libraries of a wheel that are loaded, directly or by others."""
        self.add_exports_of(archive)
        pending, seen = set(needed), set[str]()
        while pending:
            seen |= pending
            file_names, pending = _file_names(pending), set()

            def is_wanted(member: Member, file_names: frozenset[str] = file_names) -> bool:
                return member.name.rpartition("/")[2] in file_names

            for member, file in unpacked_binaries(archive, is_wanted=is_wanted):
                self.add(member.name, file, copies_folder)
            for symbols in self.symbols.values():
                pending |= set(symbols.needed) - seen

    def add_file(
        self, path: Path, copies_folder: Path | None = None, *, copies_all: bool = False
    ) -> None:
        """Read the ELF files of a wheel, or a single file."""
        for name, file in binary_files(path):
            self.add(name, file, copies_folder, copies_all=copies_all)
        if path.suffix == ".whl":
            with WheelArchive(path) as archive:
                self.add_exports_of(archive)
            return
        installed = _installed_exports(path)
        if installed is not None:
            self.add_exports(installed.read_bytes(), str(installed))
        if not self.symbols and not self.faults:
            raise FileProblem("the file is neither a wheel nor an ELF file", where=str(path))


def read_libraries(
    path: Path, copies_folder: Path | None = None, *, copies_all: bool = False
) -> LibraryFiles:
    """Return the ELF files of a wheel, or a single file."""
    libraries = LibraryFiles()
    libraries.add_file(path, copies_folder, copies_all=copies_all)
    return libraries


def _installed_exports(library: Path) -> Path | None:
    """Return the file with the declared exports of an installed library; None if there is none."""
    path = library.absolute()
    for folder in path.parents:
        for exports in folder.glob(f"*.dist-info/{FILE}"):
            row = f"{path.relative_to(folder).as_posix()},"
            record = exports.with_name("RECORD")
            if record.exists() and any(
                line.startswith(row) for line in record.read_text("utf-8", "replace").splitlines()
            ):
                return exports
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

    :param machines: the architectures of the consumer, one of which a wheel must be for.
    :param consumer: its file name; None: a single library, which fits any Python.
    :param specifier: the versions to consider; pre-releases only if it names some.
    :param label: the builds to consider; None: plain wheels, and where there are none, any.
    :param newest: the maximum number of releases; 0: all.
    """
    best_files: dict[Version, tuple[tuple[bool, bool, str], File]] = {}
    for file in files:
        name = wheel_filename_of(file.filename)
        if name is None:
            continue
        pre = bool(specifier.prereleases)
        if file.yanked is not None or not specifier.contains(name.version, prereleases=pre):
            continue
        if not _fits(name, machines) or (label is not None and name.label != label):
            continue
        rank = (not _has_same_python(name, consumer), name.is_variant, file.filename)
        if name.version not in best_files or rank < best_files[name.version][0]:
            best_files[name.version] = (rank, file)
    chosen = [(version, best_files[version][1]) for version in sorted(best_files)]
    return chosen[-newest:] if newest else chosen


def _fits(name: WheelFilename, machines: frozenset[str]) -> bool:
    claims = [read_platform(tag.platform) for tag in name.tags]
    return any(
        claim is not None
        and claim.format.value == "elf"
        and not claim.machines.isdisjoint(machines)
        for claim in claims
    )


def _has_same_python(name: WheelFilename, consumer: WheelFilename | None) -> bool:
    if consumer is None:
        return True
    pythons = {tag.interpreter for tag in name.tags}
    return not pythons.isdisjoint(tag.interpreter for tag in consumer.tags)


# --- versions in the names of symbols -----------------------------------------------------

_ICU = "u|ubidi|ubrk|ucal|ucnv|ucol|udat|uenum|uloc|unorm2?|unum|uregex|ures|uscript|uset|utext"
# Versioned namespaces, as of November 2026: the library, the namespace, and the pattern of its
# mangled name with the version.
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
    """Yield the releases of other libraries that symbols with versioned namespaces belong to.

    >>> list(namespace_notes(["_ZN4absl12lts_202407223NowEv"]))
    ['absl::lts_20240722 (1 symbol) is in releases 20240722.* of Abseil only']
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    for symbol in symbols:
        name = name_of(symbol)
        for library, namespace, version_pattern in _NAMESPACES:
            if (match := version_pattern.search(name)) is not None:
                version = next(group for group in match.groups() if group is not None)
                counts[library, namespace, version] += 1
    for (library, namespace, version), count in sorted(counts.items()):
        releases = version.replace("_", ".") + ("" if "_" in version else ".*")
        yield (
            f"{namespace.format(version)} ({count_of(count, 'symbol')}) is in releases {releases} "
            f"of {library} only"
        )
