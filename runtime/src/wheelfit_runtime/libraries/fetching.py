"""Fetch missing libraries: find the wheels, check and unpack them, order their libraries."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wheelfit_runtime.errors import FileProblem, NoCompatibleWheel, StoreUnavailable, UserError
from wheelfit_runtime.libraries.files import make_folder
from wheelfit_runtime.libraries.listings import read_lock
from wheelfit_runtime.libraries.requirements import requirements_of, span_of
from wheelfit_runtime.libraries.selections import ChosenLibrary, Selection
from wheelfit_runtime.libraries.store_changes import (
    add_wheel,
    locked,
    not_in_store_error,
    remove_wheel,
    touch_wheel,
    unwritable_store_error,
    working_folder,
)
from wheelfit_runtime.libraries.transports import Transport, transport_for
from wheelfit_runtime.libraries.verifying import damage_of, unpack
from wheelfit_runtime.libraries.versions import Requirement, Span, parse_version
from wheelfit_runtime.libraries.wheels import ListedWheel, best_wheel
from wheelfit_runtime.platforms.elf import MAGIC, SharedObject, read_shared_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit_runtime.libraries.machine import Machine
    from wheelfit_runtime.libraries.progress import Progress
    from wheelfit_runtime.libraries.request import LibraryRequest
    from wheelfit_runtime.libraries.store import Store, StoredWheel


def fetch_selection(
    request: LibraryRequest,
    machine: Machine,
    projects: Mapping[str, str],
    span: Span,
    progress: Progress,
    damaged: frozenset[str],
) -> Selection:
    """Fetch wheels of an index or a lock into the store, and return the selection."""
    family = request.family
    try:
        wheels, version, transport = resolve(request, machine, projects, span, progress)
        entries = [stored_wheel(wheel, request, transport, progress, damaged) for wheel in wheels]
    except OSError as error:
        raise unwritable_store_error(request.store.root, error) from None
    try:
        libraries = loading_order(
            entries, {name: family.components[name].libraries for name in projects}
        )
    except OSError as error:
        raise StoreUnavailable(
            f"another process is changing the library store: {error}", where=request.store.root
        ) from None
    if not libraries:
        raise NoCompatibleWheel(
            f"the wheels of {family.title} {version} have none of the libraries"
        )
    return Selection(
        family=family.name,
        requested_version=request.version,
        components=request.components,
        fingerprint=request.fingerprint,
        span=str(span),
        version=version,
        wheels=tuple((wheel.sha256, wheel.project, wheel.version) for wheel in wheels),
        libraries=libraries,
        stems=family.stems,
        is_locked=request.lock is not None,
    )


def resolve(
    request: LibraryRequest,
    machine: Machine,
    projects: Mapping[str, str],
    span: Span,
    progress: Progress,
) -> tuple[list[ListedWheel], str, Transport | None]:
    """Return the required wheels, the version of the family, and the transport.

    :raises NoFit: no wheel is compatible.
    :raises NetworkError: no index can be read.
    :raises UserError: the lock has another version than requested.
    """
    family = request.family
    if request.lock is not None:
        lock = read_lock(Path(request.lock))
        listed = [
            _locked_wheel(request.lock, lock, project, machine) for project in projects.values()
        ]
        version = _version(request, projects, lock)
        numbers = parse_version(version)
        allowed = span_of(family, request.version, request.driver, cap_to_driver=False)
        if numbers is None or not allowed.contains(numbers):
            raise UserError(
                f"the lock has {family.title} {version}, not the requested {request.version}",
                where=request.lock,
                hint="request a version that it has, or lock again",
            )
        return listed, version, None
    transport = transport_for(request.transport, request.index_url, request.environ)
    requirements = requirements_of(family, projects, span)
    wheels = transport.resolve(requirements, machine, progress)
    # The libraries may need further wheels, which the metapackage or an installer adds.
    listed = [wheel for wheel in wheels if wheel.project != family.metapackage]
    missing = set(projects.values()) - {wheel.project for wheel in listed}
    if missing:
        raise NoCompatibleWheel(
            f"{family.title} {span} has no {', '.join(sorted(missing))} for this machine"
        )
    return listed, _version(request, projects, wheels), transport


def _version(
    request: LibraryRequest, projects: Mapping[str, str], wheels: Iterable[ListedWheel]
) -> str:
    """Return the version of the family from its wheels; the requested one if none shows it."""
    family = request.family
    versions = {wheel.project: wheel.version for wheel in wheels}
    if family.metapackage in versions:
        return versions[family.metapackage]
    for name, project in projects.items():
        component = family.components[name]
        if not family.metapackage and component.specifier is None:
            return versions[project]  # the whole version is the family's
        if component.has_version_of_family:
            # Only its major and minor numbers are the family's.
            return ".".join(versions[project].split(".")[:2])
    return request.version


def _locked_wheel(
    path: str, lock: Sequence[ListedWheel], project: str, machine: Machine
) -> ListedWheel:
    wheels = [wheel for wheel in lock if wheel.project == project]
    if not wheels:
        raise NoCompatibleWheel(
            f"the lock has no wheel of {project}",
            where=path,
            hint="lock again with all requested components, or request those it has",
        )
    return best_wheel(wheels, Requirement(project), machine)


def stored_wheel(
    listed: ListedWheel,
    request: LibraryRequest,
    transport: Transport | None,
    progress: Progress,
    damaged: frozenset[str],
) -> StoredWheel:
    """Return a wheel of the store, fetched if it is missing.

    :param transport: the transport; None with a lock, whose URLs are fetched over HTTP.
    :param damaged: hashes of wheels with changed files.
    :raises IntegrityError: it has no promised hash, or another one.
    :raises NotInStore: it is not in the store, and fetching is not allowed.
    :raises StoreUnavailable: it cannot be stored.
    """
    listed.require_hash()
    store, name = request.store, f"{listed.project}-{listed.version}"
    try:
        stored = _intact_wheel(store, listed.sha256, damaged)
        if stored is not None:
            return stored
        with locked(store, name, lambda: progress.wait(request.family.title)):
            stored = _intact_wheel(store, listed.sha256, damaged)
            if stored is not None:
                return stored
            if request.is_offline and not _is_local(listed):
                raise not_in_store_error(request, f"{listed.project} {listed.version}")
            with working_folder(store) as folder:
                wheel = _fetched_file(listed, request, folder, transport, progress)
                entry = Path(folder, "entry")
                make_folder(str(entry))
                unpack(Path(wheel), listed, entry)
                return add_wheel(store, str(entry), listed.sha256)
    except OSError as error:
        raise unwritable_store_error(store.root, error) from None


def _intact_wheel(store: Store, sha256: str, damaged: frozenset[str]) -> StoredWheel | None:
    wheel = store.find(sha256)
    if wheel is None:
        return None
    if wheel.is_whole() and not (sha256 in damaged and damage_of(wheel)):
        touch_wheel(wheel)
        return wheel
    if wheel.is_own:
        remove_wheel(store, wheel)
    return None


def _is_local(listed: ListedWheel) -> bool:
    return urlsplit(listed.url).scheme == "file"


def _fetched_file(
    listed: ListedWheel,
    request: LibraryRequest,
    folder: str,
    transport: Transport | None,
    progress: Progress,
) -> str:
    if _is_local(listed):  # from a lock or the settings of an installer, never from an index
        source = Path(url2pathname(urlsplit(listed.url).path))
        if not source.is_file():
            raise FileProblem("the wheel does not exist", where=str(source))
        path = Path(folder, "wheel.part")
        shutil.copyfile(source, path)
        return str(path)
    if transport is None:
        from wheelfit_runtime.libraries.transport_http import HttpTransport

        transport = HttpTransport(listed.url, request.environ)
    return transport.fetch(listed, folder, progress)


class _ElfFile(NamedTuple):
    """A shared object in a stored wheel."""

    wheel: StoredWheel
    path: str
    """Its path in the wheel."""
    size: int
    """Its size in bytes."""
    names: SharedObject


def loading_order(
    entries: Iterable[StoredWheel], prefixes: Mapping[str, tuple[str, ...]]
) -> tuple[ChosenLibrary, ...]:
    """Return the libraries to load, each once, dependencies first.

    :param prefixes: by component, the prefixes of its libraries' names.
    """
    elf_files: dict[str, _ElfFile] = {}
    for entry in entries:
        for path, size, _ in entry.files():
            name = PurePosixPath(path).name
            if ".so" not in name:
                continue
            with Path(entry.tree, path).open("rb") as stream:
                if stream.read(len(MAGIC)) != MAGIC:
                    continue  # a linker script: text that names another file
                stream.seek(0)
                names = read_shared_object(stream)
            soname = names.soname or name
            # A library may have several names; its SONAME is preferred.
            if soname not in elf_files or name == soname:
                elf_files[soname] = _ElfFile(entry, path, size, names)
    by_soname: dict[str, ChosenLibrary] = {}
    visited: set[str] = set()

    def add(soname: str, component: str) -> None:
        if soname in visited or soname not in elf_files:
            return
        visited.add(soname)
        file = elf_files[soname]
        for needed in file.names.needed:
            add(needed, component)
        owner = _owner(soname, component, prefixes)
        by_soname[soname] = ChosenLibrary(file.wheel.sha256, file.path, file.size, soname, owner)

    for component, library_prefixes in prefixes.items():
        for prefix in library_prefixes:
            for soname in sorted(elf_files):
                if soname.startswith(prefix):
                    add(soname, component)
    return tuple(by_soname.values())


def _owner(soname: str, component: str, prefixes: Mapping[str, tuple[str, ...]]) -> str:
    """Return the component of a library by its prefixes; else the component that needs it."""
    owners = (name for name, own_prefixes in prefixes.items() if soname.startswith(own_prefixes))
    return next(owners, component)
