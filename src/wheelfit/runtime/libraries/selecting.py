"""Choose libraries for this machine, and bring their wheels into the store."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wheelfit.errors import (
    DriverTooOld,
    FileProblem,
    IntegrityError,
    NetworkError,
    NoCompatibleWheel,
    NoFit,
    NotInStore,
    ProjectNotFound,
    StoreUnavailable,
    UserError,
)
from wheelfit.platforms.tables.nvidia import DRIVER_FLOOR
from wheelfit.runtime.libraries import settings
from wheelfit.runtime.libraries.machine import refuse_unfit, this_machine
from wheelfit.runtime.libraries.order import in_order
from wheelfit.runtime.libraries.selections import (
    Selection,
    read_all,
    read_selection,
    write_selection,
)
from wheelfit.runtime.libraries.store import make_folder, unwritable
from wheelfit.runtime.libraries.verifying import damage_of, unpack
from wheelfit.runtime.libraries.versions import Requirement, Span, parse_version
from wheelfit.runtime.libraries.wheels import best, shown
from wheelfit.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.runtime.driver import Driver
    from wheelfit.runtime.libraries.families import Family
    from wheelfit.runtime.libraries.machine import Machine
    from wheelfit.runtime.libraries.progress import Progress
    from wheelfit.runtime.libraries.store import Entry, Store
    from wheelfit.runtime.libraries.wheels import Listed

__all__ = ["Request", "Transport", "select", "span_of", "transport_for"]


def __dir__() -> list[str]:
    return __all__


_PARTS = 3
TRANSPORTS = ("pip", "uv", "http")


class Transport(Protocol):
    """Find wheels and fetch them; what is fetched is checked by whoever asked."""

    def resolve(
        self, requirements: Sequence[Requirement], machine: Machine, progress: Progress
    ) -> list[Listed]:
        """Return the wheels of some requirements and of the extras they name."""
        ...

    def fetch(self, wheel: Listed, folder: str, progress: Progress) -> str:
        """Write a wheel into a folder and return its path."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """Hold what is wanted, and how it may be had."""

    family: Family
    asked: str
    components: tuple[str, ...]
    name: str
    """Of the selection that will be written."""
    driver: Driver | None
    """None: the family needs none."""
    fingerprint: str
    environ: Mapping[str, str]
    progress: Progress
    cap_to_driver: bool = True
    is_offline: bool = False
    lock: tuple[Listed, ...] | None = None
    transport: str | None = None
    index_url: str | None = None
    upgrade: bool = False
    damaged: frozenset[str] = frozenset()
    """Hashes of wheels of which files are not what they were."""

    def wait(self) -> None:
        """Tell that another process does what is wanted."""
        self.progress.tell(f"waiting for another process that fetches {self.family.title}")


def transport_for(name: str | None, index_url: str | None, environ: Mapping[str, str]) -> Transport:
    """Return what finds and fetches: the user's installer, else the standard library.

    :param name: ``pip``, ``uv`` or ``http``; None: the first of them that there is.
    :param index_url: where; None: as the installer is configured.
    :raises UserError: what was named is not there.
    """
    from wheelfit.runtime.libraries import transport_child as child  # noqa: PLC0415
    from wheelfit.runtime.libraries.transport_http import HttpTransport  # noqa: PLC0415

    if name not in (None, *TRANSPORTS):
        raise UserError(f"there is no transport {name!r}", note="known: " + ", ".join(TRANSPORTS))
    pip = child.pip_of(sys.executable, is_frozen=settings.is_frozen()) if name != "http" else None
    if pip and name in (None, "pip"):
        return child.PipTransport(pip, environ, index_url)
    may_uv = name in (None, "uv") and not settings.is_frozen()
    uv = child.uv_of(sys.executable, environ) if may_uv else None
    http = HttpTransport(index_url or settings.usual_index(environ), environ)
    if uv:
        return child.UvTransport(uv, environ, http, index_url)
    if name in ("pip", "uv"):
        raise UserError(f"{name} is not there", hint="use the transport http, which needs nothing")
    return http


# --- what is wanted -------------------------------------------------------------------------


def span_of(family: Family, asked: str, driver: Driver | None, *, cap: bool) -> Span:
    """Return the versions that may be taken.

    A driver runs all minor versions of its own major version and of older ones, but compiles
    PTX of no newer toolkit than its own (P-91, P-92): a major version is capped by the driver.

    :param asked: as ``12``, ``12.8`` or ``12.8.1``.
    :param cap: whether the driver's minor version counts.
    :raises UserError: it is no version.
    :raises DriverTooOld: the driver is of an older major version.
    """
    parts = asked.split(".")
    if not all(part.isascii() and part.isdigit() for part in parts) or len(parts) > _PARTS:
        raise UserError(
            f"{asked!r} is no version of {family.title}", hint="ask for 12, 12.8 or 12.8.1"
        )
    low = tuple(int(part) for part in parts)
    high = (*low[:-1], low[-1] + 1)
    if driver is not None and driver.cuda is not None:
        if driver.cuda[0] < low[0]:
            raise _too_old(family, asked, driver, driver.cuda, low[0])
        if cap and len(low) == 1 and driver.cuda[0] == low[0]:
            high = (low[0], driver.cuda[1] + 1)
    return Span(low, high)


def _too_old(
    family: Family, asked: str, driver: Driver, offered: tuple[int, int], major: int
) -> DriverTooOld:
    floor = DRIVER_FLOOR.get(major)
    kernel = f" (release {driver.kernel})" if driver.kernel else ""
    needed = f"driver {floor[0]} or newer" if floor else "a newer driver"
    return DriverTooOld(
        f"{family.title} {asked} needs {needed}; the driver of this machine{kernel} "
        f"offers {family.title} {offered[0]}.{offered[1]}",
        hint=f"update the driver, or ask for {family.title} {offered[0]}",
    )


def _closure(family: Family, components: Sequence[str], major: str) -> dict[str, str]:
    """Return the distribution of each component that is wanted, what is needed first.

    :raises UserError: there is no such component.
    """
    found: dict[str, str] = {}

    def add(name: str) -> None:
        component = family.components.get(name)
        if component is None:
            known = ", ".join(family.components)
            raise UserError(f"{family.title} has no component {name!r}", note=f"known: {known}")
        project = component.project(major)
        if project is None:
            raise UserError(
                f"{family.title} {major} has no component {name!r}",
                note=f"{family.title} that has it: {', '.join(component.projects)}",
            )
        for needed in component.needs:
            only, _, other = needed.rpartition(":")
            if only in ("", major):
                add(other)
        found[name] = project

    for name in components:
        add(name)
    if not found:
        raise UserError("no component was asked for", note="known: " + ", ".join(family.components))
    return found


def _requirements(family: Family, projects: Mapping[str, str], span: Span) -> list[Requirement]:
    major = str(span.low[0])
    extras = {name: family.components[name].extra_of(major) for name in projects}
    named = tuple(filter(None, extras.values()))
    found = [Requirement(family.table, named, str(span))] if family.table and named else []
    for name, project in projects.items():
        component = family.components[name]
        if not extras[name]:
            specifier = str(span) if component.specifier is None else component.specifier
            found.append(Requirement(project, (), specifier))
    return found


# --- choosing -------------------------------------------------------------------------------


def select(request: Request, store: Store) -> Selection:
    """Return what to load, with all of it in the store.

    :raises WheelfitError: it cannot be had; the reason is its class.
    """
    family = request.family
    machine = this_machine()
    refuse_unfit(family, machine)
    major = request.asked.partition(".")[0]
    projects = _closure(family, request.components, major)
    span = span_of(family, request.asked, request.driver, cap=request.cap_to_driver)
    with store.lock(request.name, request.wait):
        if not request.upgrade:
            known = _known(request, store, span)
            if known is not None:
                return known
        if request.is_offline and request.lock is None:
            return _stored(request, store, span)
        try:
            listed, version, transport = _resolved(request, machine, projects, span)
            entries = [_brought(one, request, store, transport) for one in listed]
            libraries = in_order(
                entries, {name: family.components[name].libraries for name in projects}
            )
        except FileNotFoundError as error:
            raise StoreUnavailable(
                f"somebody changes the library store meanwhile: {error}", where=store.root
            ) from None
        except OSError as error:
            raise unwritable(store.root, error) from None
        except (NetworkError, StoreUnavailable):
            # Nobody to ask, or nowhere to put it, as in an image: what is there may do.
            if request.damaged or request.upgrade or request.lock is not None:
                raise
            with suppress(NotInStore):
                return _stored(request, store, span)
            raise
        selection = Selection(
            family=family.name,
            asked=request.asked,
            components=request.components,
            fingerprint=request.fingerprint,
            span=str(span),
            version=version,
            wheels=tuple((one.sha256, one.project, one.version) for one in listed),
            libraries=libraries,
            stems=family.stems,
            is_locked=request.lock is not None,
        )
        if not selection.libraries:
            raise NoCompatibleWheel(
                f"the wheels of {family.title} {version} have none of the libraries"
            )
        _remember(request, store, selection)
        return selection


def _remember(request: Request, store: Store, selection: Selection) -> None:
    # Where the store cannot be written all is chosen anew the next time, which is right too.
    with suppress(OSError):
        write_selection(store, request.name, selection)


def _known(request: Request, store: Store, span: Span) -> Selection | None:
    """Return what another process has just chosen, or another driver got of the same versions."""
    found = read_selection(store, request.name, request.fingerprint)
    if found is None and request.lock is None:
        wanted = (request.family.name, request.components, str(span), False)
        for one in reversed(read_all(store)):
            if (one.family, one.components, one.span, one.is_locked) == wanted:
                found = one.for_fingerprint(request.fingerprint, request.asked)
                break
    if found is None or not _is_sound(found, request, store):
        return None
    _remember(request, store, found)
    return found


def _is_sound(selection: Selection, request: Request, store: Store) -> bool:
    hashes = {one.sha256 for one in selection.libraries}
    return hashes.isdisjoint(request.damaged) and selection.is_in(store)


def _stored(request: Request, store: Store, span: Span) -> Selection:
    """Return the newest of what was chosen before that will do, without asking anybody."""
    fitting = []
    for one in read_all(store):
        version = parse_version(one.version)
        if (
            one.family == request.family.name
            and version is not None
            and span.holds(version)
            and set(request.components) <= set(one.components)
            and _is_sound(one, request, store)
        ):
            fitting.append((version, -len(one.components), one))
    if not fitting:
        raise _not_in_store(request, store, f"versions that would do: {span}")
    return max(fitting, key=lambda found: found[:2])[2]


def _not_in_store(request: Request, store: Store, note: str) -> NotInStore:
    wanted = f"{request.family.title} {request.asked} ({', '.join(request.components)})"
    names = " ".join((request.family.name, request.asked, *request.components))
    return NotInStore(
        f"{wanted} is not in the store, and nothing may be fetched",
        where=store.root,
        note=note,
        hint=f"with a network: python -m wheelfit.runtime store prefetch {names}",
    )


def _resolved(
    request: Request, machine: Machine, projects: Mapping[str, str], span: Span
) -> tuple[list[Listed], str, Transport | None]:
    """Return the wheels to have, the version of the family, and who fetches them."""
    family = request.family
    if request.lock is not None:
        listed = [_of_lock(request.lock, project, machine) for project in projects.values()]
        version = _version(request, projects, request.lock)
        numbers = parse_version(version)
        allowed = span_of(family, request.asked, request.driver, cap=False)
        if numbers is None or not allowed.holds(numbers):
            raise UserError(
                f"the lock has {family.title} {version}, and {request.asked} was asked for"
            )
        return listed, version, None
    transport = transport_for(request.transport, request.index_url, request.environ)
    try:
        wanted = _requirements(family, projects, span)
        found = transport.resolve(wanted, machine, request.progress)
    except NoFit as error:
        found = _without_table(request, machine, projects, span, transport, error)
    # What a table or an installer adds to what was asked for, the libraries may need.
    listed = [one for one in found if one.project != family.table]
    missing = set(projects.values()) - {one.project for one in listed}
    if missing:
        raise NoCompatibleWheel(
            f"{family.title} {span} has no {', '.join(sorted(missing))} for this machine"
        )
    return listed, _version(request, projects, found), transport


def _without_table(
    request: Request,
    machine: Machine,
    projects: Mapping[str, str],
    span: Span,
    transport: Transport,
    error: NoFit,
) -> list[Listed]:
    """Return the wheels of an index that has the components and not the table, as mirrors do.

    :param error: what is wrong otherwise.
    :raises NoFit: some versions only the table knows, or they are not there either.
    """
    components = request.family.components
    if request.family.table and len(span.low) < _PARTS:
        if all(components[name].has_version_of_family for name in projects):
            wanted = [Requirement(project, (), str(span)) for project in projects.values()]
            with suppress(NoFit):
                return transport.resolve(wanted, machine, request.progress)
        elif isinstance(error, ProjectNotFound):
            known = (name for name, one in components.items() if one.has_version_of_family)
            error.hint = (
                f"have {request.family.table} put there, which says what forms one version; "
                f"without it only these can be had: {', '.join(known)}"
            )
    raise error


def _version(request: Request, projects: Mapping[str, str], wheels: Iterable[Listed]) -> str:
    """Return the version of the family that some wheels are; what was asked for if none tells."""
    family = request.family
    told = {one.project: one.version for one in wheels}
    if family.table in told:
        return told[family.table]
    for name, project in projects.items():
        if not family.table:
            return told[project]
        if family.components[name].has_version_of_family:
            return ".".join(told[project].split(".")[:2])
    return request.asked


def _of_lock(lock: Sequence[Listed], project: str, machine: Machine) -> Listed:
    wheels = [one for one in lock if one.project == project]
    if not wheels:
        raise NoCompatibleWheel(f"the lock has no wheel of {project}")
    return best(wheels, Requirement(project), machine)


def _brought(listed: Listed, request: Request, store: Store, transport: Transport | None) -> Entry:
    """Return a wheel of the store, fetched if it is not there.

    :raises IntegrityError: nobody promised a hash of it.
    """
    if not listed.sha256:
        raise IntegrityError(
            f"no sha256 is promised of {listed.filename}, so it is not taken",
            where=shown(listed.url),
        )
    try:
        found = _sound_entry(listed.sha256, request, store)
        if found is not None:
            return found
        with store.lock(f"{listed.project}-{listed.version}", request.wait):
            found = _sound_entry(listed.sha256, request, store)
            if found is not None:
                return found
            if request.is_offline and not _is_local(listed):
                raise _not_in_store(request, store, f"{listed.project} {listed.version}")
            with store.working_folder() as folder:
                wheel = _fetched(listed, request, folder, transport)
                filled = Path(folder, "entry")
                make_folder(str(filled))
                unpack(Path(wheel), listed, filled)
                return store.keep(str(filled), listed.sha256)
    except OSError as error:
        raise unwritable(store.root, error) from None


def _sound_entry(sha256: str, request: Request, store: Store) -> Entry | None:
    found = store.find(sha256)
    if found is None:
        return None
    if found.is_whole() and not (sha256 in request.damaged and damage_of(found)):
        found.touch()
        return found
    if found.is_own:
        store.remove(found)
    return None


def _is_local(listed: Listed) -> bool:
    return urlsplit(listed.url).scheme == "file"


def _fetched(listed: Listed, request: Request, folder: str, transport: Transport | None) -> str:
    if _is_local(listed):  # as a lock or the settings of an installer say; no index can
        source = Path(url2pathname(urlsplit(listed.url).path))
        if not source.is_file():
            raise FileProblem("the lock names a wheel that is not there", where=str(source))
        path = os.path.join(folder, "wheel.part")  # noqa: PTH118
        shutil.copyfile(source, path)
        return path
    if transport is None:
        from wheelfit.runtime.libraries.transport_http import HttpTransport  # noqa: PLC0415

        transport = HttpTransport(listed.url, request.environ)
    return transport.fetch(listed, folder, request.progress)
