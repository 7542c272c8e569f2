"""Dependencies of a project: added to and removed from its file, locked and installed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from packaging.utils import canonicalize_name

from wheelfit.errors import InvalidRequirement, UsageError
from wheelfit.operations.changes import ChangeRequest
from wheelfit.operations.context import Reporter
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.files import mode_of, write_atomically
from wheelfit.operations.lock import LockRequest, lock_project
from wheelfit.operations.projects import nearest_project
from wheelfit.operations.requests import BuildingOptions
from wheelfit.operations.sync import SyncRequest, sync_without
from wheelfit.projects.dependency_lists import (
    DependencyList,
    ProjectText,
    with_requirement,
    without_requirement,
    without_sources,
)
from wheelfit.resolution.project_file import read_project_file
from wheelfit_runtime.errors import FileProblem, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.installation.environment import Environment
    from wheelfit.locking.document import Lock
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.context import Context
    from wheelfit.operations.lock import LockReport
    from wheelfit.projects.dependency_lists import ListChange
    from wheelfit.resolution.requirements_file import RequirementLine

_Request = TypeVar("_Request")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class _ProjectChange(BuildingOptions, ChangeRequest):
    """The project whose file is edited, the list of it, and what is done beyond that."""

    project: str | None = None
    lock: str | None = None
    group: str | None = None
    extra: str | None = None
    dev: bool = False
    frozen: bool = False
    no_sync: bool = False
    pre: bool = False
    constraints: tuple[RequirementLine, ...] = ()
    overrides: tuple[RequirementLine, ...] = ()
    excludes: tuple[str, ...] = ()
    default_groups: tuple[str, ...] = ()
    python_version: tuple[str, ...] = ()
    platform: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AddRequest(_ProjectChange):
    """The requirements to add to a project."""

    requirements: tuple[str, ...] = ()
    raw: bool = False


@dataclass(frozen=True, kw_only=True)
class RemoveRequest(_ProjectChange):
    """The dependencies to remove from a project."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DependencyReport:
    """What was changed in a project, its lock and its environment, or would be."""

    project: Path
    """Its ``pyproject.toml``."""
    place: DependencyList
    """The list that was edited."""
    changes: tuple[ListChange, ...]
    diff: tuple[str, ...]
    """The lines of a unified difference of the file."""
    dry_run: bool
    """Whether nothing was written."""
    lock: LockReport | None = None
    """The lock; None: it was left alone."""
    environment: ChangeReport | None = None
    """What was installed and removed; None: nothing was."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "dry_run": self.dry_run,
            "project": str(self.project),
            "list": {"kind": self.place.kind, "name": self.place.name or None},
            "changes": [
                {"name": one.name, "before": one.before, "after": one.after} for one in self.changes
            ],
            "diff": "\n".join(self.diff),
            "lock": None if self.lock is None else self.lock.to_json(),
            "sync": None if self.environment is None else self.environment.to_json(),
        }


def add(request: AddRequest, context: Context) -> DependencyReport:
    """Add requirements to a project, lock it, and install what is new in the lock.

    If one of these fails, the project, the lock and the environment are as they were.

    :param request: the requirements, and the list they go to.
    :param context: the surroundings.
    :raises UsageError: nothing is named, or what is named is no requirement.
    :raises WheelfitError: something cannot be edited, resolved or installed.
    """
    if not request.requirements:
        raise UsageError(
            "nothing was named to add", hint="name a requirement: `wheelfit add httpx`"
        )
    texts = [_requirement(text) for text in request.requirements]
    editing = _Editing(request, context)
    edited = editing.before
    changes: list[ListChange] = []
    for text in texts:
        edited, change = with_requirement(edited, editing.place, text)
        changes.append(change)
    open_names = {one.name for one in changes if one.before is None and _is_open(one.after)}
    if open_names and not (request.raw or request.frozen):
        locked = editing.locked(edited)
        edited, changes = _bounded(edited, editing.place, changes, locked, open_names)
    return editing.carry_out(edited, changes)


def remove(request: RemoveRequest, context: Context) -> DependencyReport:
    """Remove dependencies from a project, lock it, and remove what nothing needs any more.

    If one of these fails, the project, the lock and the environment are as they were.

    :param request: the names, and the list they are removed from.
    :param context: the surroundings.
    :raises UserError: ``not-a-dependency``; the list does not have one of them.
    :raises WheelfitError: something cannot be edited, resolved or installed.
    """
    editing = _Editing(request, context)
    edited = editing.before
    changes: list[ListChange] = []
    for name in dict.fromkeys(map(_name, request.names)):
        edited, removed = without_requirement(edited, editing.place, name)
        if not removed:
            raise _not_there(editing, name)
        changes += removed
        edited = without_sources(edited, name)
    return editing.carry_out(edited, changes)


class _Editing:
    """A project while it is edited: its file, its lock and its environment."""

    def __init__(self, request: AddRequest | RemoveRequest, context: Context) -> None:
        self._context = context
        self.path = nearest_project(request.project)
        self._mode = mode_of(self.path) if self.path.is_file() else 0
        self._data = _content(self.path)
        self.before = ProjectText.of(self._data, str(self.path))
        self.place = _place(request, self.before)
        self._lock = Path(request.lock) if request.lock else self.path.with_name("pylock.toml")
        self._environment: Environment | None = None
        if not (request.frozen or request.no_sync or request.dry_run):
            # Before anything is resolved: without an environment that would be in vain.
            request = _beside(request, self.path, context)
            self._environment = open_environment_of(request, context.environ, may_be_new=True)
            self._environment.check_allowed(break_system_packages=request.break_system_packages)
        self._request = request

    def locked(self, edited: ProjectText) -> Lock:
        """Return the lock of an edited project; nothing is written."""
        silent = replace(self._context, reporter=_OnlyAsking(self._context.reporter))
        return self._locks(edited, silent, writes=False).locks[0].lock

    def carry_out(self, edited: ProjectText, changes: Sequence[ListChange]) -> DependencyReport:
        """Write the edited project, lock it and install from the lock, or leave all as it was.

        :param changes: what is different, for the report.
        """
        request = self._request
        report = DependencyReport(
            self.path,
            self.place,
            tuple(changes),
            _difference(self.before, edited),
            request.dry_run,
        )
        if request.dry_run:
            locks = None if request.frozen else self._locks(edited, self._context, writes=False)
            return replace(report, lock=locks)
        with self._undone_on_failure(edited):
            locks = None if request.frozen else self._locks(edited, self._context, writes=True)
            if edited != self.before:
                self._write(edited.encode())
            change = None if self._environment is None or locks is None else self._sync(locks)
        return replace(report, lock=locks, environment=change)

    def _locks(self, edited: ProjectText, context: Context, *, writes: bool) -> LockReport:
        """Lock an edited project, whose file may still be as before."""
        project = read_project_file(edited.encode(), str(self.path))
        request = _part(
            LockRequest,
            self._request,
            project=str(self.path),
            output=str(self._lock),
            dry_run=not writes,
            extra=(),
            group=(),
            host=None,
            # Where packages go is no matter of a lock, and may not be there yet.
            prefix=None,
            root=None,
            target=None,
        )
        return lock_project(request, context, project)

    def _sync(self, locks: LockReport) -> ChangeReport:
        """Install from the lock; what only the lock before had goes."""
        written = locks.locks[0]
        old = set() if written.old is None else {one.name for one in written.old.packages}
        extra: tuple[str, ...] = ()
        group: tuple[str, ...] | None = None
        if isinstance(self._request, AddRequest) and self.place.kind == "extra":
            extra = (self.place.name,)
        if isinstance(self._request, AddRequest) and self.place.kind == "group":
            group = (*(written.lock.pylock.default_groups or ()), self.place.name)
        request = _part(
            SyncRequest, self._request, lock=str(written.path), extra=extra, group=group
        )
        leaving = old - {one.name for one in written.lock.packages}
        return sync_without(request, self._context, leaving)

    def _write(self, data: bytes) -> None:
        write_atomically(str(self.path), data)
        self.path.resolve().chmod(self._mode)

    @contextmanager
    def _undone_on_failure(self, edited: ProjectText) -> Iterator[None]:
        """Bring the project and its lock back if the block fails, however it does.

        The environment does so itself. Only an interruption may come when all of its change is
        done; then the files belong to it and stay.
        """
        lock_before = self._locked_bytes()
        installed = self._installed()
        try:
            yield
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and installed != self._installed():
                raise
            self._restore(edited, self._context.reporter)
            if lock_before is None:
                self._lock.unlink(missing_ok=True)
            elif self._locked_bytes() != lock_before:
                write_atomically(str(self._lock), lock_before)
            raise

    def _locked_bytes(self) -> bytes | None:
        return self._lock.read_bytes() if self._lock.is_file() else None

    def _restore(self, edited: ProjectText, reporter: Reporter) -> None:
        now = _content(self.path)
        if now == self._data:
            return
        if now != edited.encode():
            reporter.warn(f"{self.path} was changed by another program, and stays as it is")
            return
        self._write(self._data)

    def _installed(self) -> Sequence[tuple[str, Version]]:
        if self._environment is None:
            return ()
        return [(one.name, one.version) for one in self._environment.installed()]


class _OnlyAsking(Reporter):
    """A reporter of what is done once more: it passes on questions and steps of work."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def confirm(self, question: str) -> bool:
        return self._reporter.confirm(question)

    def steps(self, what: str) -> AbstractContextManager[Callable[[str], None]]:
        return self._reporter.steps(what)


def _part(kind: type[_Request], request: _ProjectChange, **more: Any) -> _Request:
    """Return a request with the options that another has too."""
    names = [one.name for one in fields(kind) if hasattr(request, one.name)]  # type: ignore[arg-type]
    values = {name: getattr(request, name) for name in names if name not in _OWN}
    return kind(**{**values, **more})


_OWN = frozenset(("requirements", "lock", "project", "extra", "group"))
"""Fields that mean something else in the requests of other operations."""


def _beside(
    request: AddRequest | RemoveRequest, path: Path, context: Context
) -> AddRequest | RemoveRequest:
    """Return a request whose environment is that of the project that it names."""
    from wheelfit.installation.interpreter import find_interpreter

    named = (request.python, request.system, request.prefix, request.root, request.target)
    if request.project is None or any(named):
        return request
    folder = path.absolute().parent
    found = find_interpreter(None, context.environ, folder)
    if found is None:
        raise UserError(
            "no virtual environment found",
            code="no-environment",
            where=str(folder),
            hint=f"run `wheelfit venv {folder / '.venv'}`, or name another with --python",
        )
    context.reporter.note(f"environment: {found.parent.parent}")
    return replace(request, python=str(found))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileProblem(
            f"the project's file cannot be read: {error.strerror}",
            where=str(path),
            hint="name the project with --project",
        ) from None


def _place(request: _ProjectChange, project: ProjectText) -> DependencyList:
    """Return the list that is edited, with its name as the file writes it."""
    named = {"--group": request.group, "--extra": request.extra, "--dev": request.dev}
    given = [option for option, value in named.items() if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} name two lists", hint="give one of them")
    if request.extra:
        wanted = DependencyList("extra", _name(request.extra, "--extra"))
    elif request.group or request.dev:
        wanted = DependencyList("group", _name(request.group or "dev", "--group"))
    else:
        wanted = DependencyList()
    return project.find(wanted) or wanted


def _name(text: str, where: str | None = None) -> NormalizedName:
    from packaging.utils import InvalidName

    try:
        return canonicalize_name(text.strip(), validate=True)
    except InvalidName:
        raise UsageError(
            f"{text[:80]!r} is not a valid name", where=where, hint="give the name alone"
        ) from None


def _requirement(text: str) -> str:
    """Return a requirement that may stand in a list.

    :raises UsageError: it is the path or URL of something.
    """
    from wheelfit.core.requirements import parse_requirement

    try:
        parse_requirement(text, allow_variant_markers=False)
    except InvalidRequirement as error:
        head = text.partition(";")[0]
        if "@" not in head and ("/" in head or "\\" in head or head.endswith(".whl")):
            raise UsageError(
                f"{text} names no project", hint=f"write NAME @ URL: `wheelfit add 'demo @ {text}'`"
            ) from None
        error.where = error.where or "command line"
        raise
    return text.strip()


def _is_open(requirement: str | None) -> bool:
    """Return whether a requirement admits every version."""
    from wheelfit.core.requirements import parse_requirement

    if requirement is None:
        return False
    parsed = parse_requirement(requirement, allow_variant_markers=False)
    return parsed.url is None and not parsed.specifier


def _bounded(
    project: ProjectText,
    place: DependencyList,
    changes: Sequence[ListChange],
    locked: Lock,
    names: set[NormalizedName],
) -> tuple[ProjectText, list[ListChange]]:
    """Return the project with the locked versions as lower bounds of what is new.

    :param names: the new requirements without a bound.
    """
    versions: dict[NormalizedName, list[Version]] = {}
    for package in locked.packages:
        if package.version is not None:
            versions.setdefault(package.name, []).append(package.version)
    result = []
    for change in changes:
        found = versions.get(change.name, [])
        if change.after is None or change.name not in names or not found:
            result.append(change)
            continue
        after = f"{change.name}>={min(found).public}"
        if change.after.partition(";")[2]:
            after += f";{change.after.partition(';')[2]}"
        project, bound = with_requirement(project, place, after)
        result.append(replace(change, after=bound.after))
    return project, result


def _difference(before: ProjectText, after: ProjectText) -> tuple[str, ...]:
    from difflib import unified_diff

    old, new = before.text.splitlines(), after.text.splitlines()
    return tuple(unified_diff(old, new, before.where, before.where, lineterm=""))


def _not_there(editing: _Editing, name: NormalizedName) -> UserError:
    """Return the error that a list lacks a requirement, with the list that has it."""
    from difflib import get_close_matches

    places = editing.before.places_of(name)
    options = [
        f"--{one.kind} {one.name}" if one.name else "no --group or --extra" for one in places
    ]
    if places:
        hint = f"it is in {' and in '.join(map(str, places))}: give {' or '.join(options)}"
    else:
        known = editing.before.names(editing.place)
        close = get_close_matches(name, known, n=1)
        hint = (
            f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known) or 'none'}"
        )
    return UserError(
        f"{name} is not in {editing.place}",
        code="not-a-dependency",
        where=str(editing.path),
        hint=hint,
    )
