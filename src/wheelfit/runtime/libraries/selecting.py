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
    NetworkError,
    NoCompatibleWheel,
    NotInStore,
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
from wheelfit.runtime.libraries.store import unwritable
from wheelfit.runtime.libraries.verifying import unpack
from wheelfit.runtime.libraries.versions import Requirement, Span, parse_version
from wheelfit.runtime.libraries.wheels import best
from wheelfit.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        return child.PipTransport(pip, environ, ("--index-url", index_url) if index_url else ())
    may_uv = name in (None, "uv") and not settings.is_frozen()
    uv = child.uv_of(sys.executable, environ) if may_uv else None
    http = HttpTransport(index_url or settings.usual_index(environ), environ)
    if uv:
        options = ("--default-index", index_url) if index_url else ()
        return child.UvTransport(uv, environ, http, options)
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
        if request.is_offline:
            return _stored(request, store, span)
        try:
            listed, version, transport = _resolved(request, machine, projects, span)
        except NetworkError:
            if request.damaged or request.upgrade:
                raise
            with suppress(NotInStore):
                return _stored(request, store, span)
            raise
        entries = [_brought(one, request, store, transport) for one in listed]
        selection = Selection(
            family=family.name,
            asked=request.asked,
            components=request.components,
            fingerprint=request.fingerprint,
            span=str(span),
            version=version,
            wheels=tuple((one.sha256, one.project, one.version) for one in listed),
            libraries=in_order(
                entries, {name: family.components[name].libraries for name in projects}
            ),
            stems=family.stems,
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
        for _, one in reversed(read_all(store)):
            same = (one.family, one.components, one.span)
            if same == (request.family.name, request.components, str(span)):
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
    for _, one in read_all(store):
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
        wanted = f"{request.family.title} {request.asked} ({', '.join(request.components)})"
        names = " ".join((request.family.name, request.asked, *request.components))
        raise NotInStore(
            f"{wanted} is not in the store, and nothing may be fetched",
            where=store.root,
            note=f"versions that would do: {span}",
            hint=f"with a network: python -m wheelfit.runtime store prefetch {names}",
        )
    return max(fitting, key=lambda found: found[:2])[2]


def _resolved(
    request: Request, machine: Machine, projects: Mapping[str, str], span: Span
) -> tuple[list[Listed], str, Transport | None]:
    """Return the wheels to have, the version of the family, and who fetches them."""
    family = request.family
    requirements = _requirements(family, projects, span)
    transport: Transport | None = None
    if request.lock is not None:
        by_project = [_of_lock(request.lock, project, machine) for project in projects.values()]
        version = _version_of_lock(request, by_project)
        return by_project, version, None
    transport = transport_for(request.transport, request.index_url, request.environ)
    found = transport.resolve(requirements, machine, request.progress)
    # What a table or an installer adds to what was asked for, the libraries may need.
    listed = [one for one in found if one.project != family.table]
    missing = set(projects.values()) - {one.project for one in listed}
    if missing:
        raise NoCompatibleWheel(
            f"{family.title} {span} has no {', '.join(sorted(missing))} for this machine"
        )
    leading = family.table or next(iter(projects.values()))
    version = next((one.version for one in found if one.project == leading), "")
    return listed, version or _version_by_first(projects, listed), transport


def _version_by_first(projects: Mapping[str, str], listed: Sequence[Listed]) -> str:
    return next((one.version for one in listed if one.project in projects.values()), "0")


def _of_lock(lock: Sequence[Listed], project: str, machine: Machine) -> Listed:
    wheels = [one for one in lock if one.project == project]
    if not wheels:
        raise NoCompatibleWheel(f"the lock has no wheel of {project}")
    return best(wheels, Requirement(project), machine)


def _version_of_lock(request: Request, wheels: Sequence[Listed]) -> str:
    """Return the version of the family that a lock has, and see that it is what was asked for."""
    assert request.lock is not None  # noqa: S101 - for the type checker
    table = request.family.table
    told = [one.version for one in request.lock if one.project == table]
    # Without the table: the first component of the family, which has its first two numbers.
    version = told[0] if told else ".".join(wheels[0].version.split(".")[:2])
    numbers = parse_version(version)
    span = span_of(request.family, request.asked, request.driver, cap=False)
    if numbers is None or not span.holds(numbers):
        raise UserError(
            f"the lock has {request.family.title} {version}, and {request.asked} was asked for"
        )
    return version


def _brought(listed: Listed, request: Request, store: Store, transport: Transport | None) -> Entry:
    """Return a wheel of the store, fetched if it is not there."""
    found = _sound_entry(listed.sha256, request, store)
    if found is not None:
        return found
    try:
        with store.lock(f"{listed.project}-{listed.version}", request.wait):
            found = _sound_entry(listed.sha256, request, store)
            if found is not None:
                return found
            with store.working_folder() as folder:
                wheel = _fetched(listed, request, folder, transport)
                filled = Path(folder, "entry")
                filled.mkdir()
                unpack(Path(wheel), listed, filled)
                return store.keep(str(filled), listed.sha256)
    except OSError as error:
        raise unwritable(store.root, error) from None


def _sound_entry(sha256: str, request: Request, store: Store) -> Entry | None:
    found = store.find(sha256) if sha256 else None
    if found is None or sha256 not in request.damaged:
        return found
    if found.is_own and _is_damaged(found):
        store.remove(found)
        return None
    return found if not _is_damaged(found) else None


def _is_damaged(entry: Entry) -> bool:
    from wheelfit.runtime.libraries.verifying import damage_of  # noqa: PLC0415

    return bool(damage_of(entry))


def _fetched(listed: Listed, request: Request, folder: str, transport: Transport | None) -> str:
    parts = urlsplit(listed.url)
    if parts.scheme == "file" and listed.sha256:
        path = os.path.join(folder, "wheel.part")  # noqa: PTH118
        shutil.copyfile(url2pathname(parts.path), path)
        return path
    if transport is None:
        from wheelfit.runtime.libraries.transport_http import HttpTransport  # noqa: PLC0415

        transport = HttpTransport(listed.url, request.environ)
    return transport.fetch(listed, folder, request.progress)
