"""Dependencies of a project: added to and removed from its file, locked and installed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from packaging.utils import canonicalize_name

from wheelfit.errors import InvalidRequirement, UsageError, did_you_mean, reporting_os_errors
from wheelfit.operations.changes import ChangeRequest
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.files import mode_of, write_atomically
from wheelfit.operations.lock import LockRequest, lock_project
from wheelfit.operations.projects import nearest_project
from wheelfit.operations.requests import ResolutionBuildOptions, field_types
from wheelfit.operations.requirements import project_name
from wheelfit.operations.sync import SyncRequest, sync_removing
from wheelfit.projects.dependency_lists import (
    DependencyList,
    ProjectText,
    check_not_of_poetry,
    with_requirement,
    without_requirement,
    without_sources,
)
from wheelfit.resolution.project_file import read_project_file
from wheelfit_runtime.errors import FileProblem, UserError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.installation.environment import Environment
    from wheelfit.locking.document import Lock
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.lock import LockReport
    from wheelfit.projects.dependency_lists import ListChange
    from wheelfit.resolution.project_file import ProjectFile
    from wheelfit.resolution.requirements_file import RequirementLine

_Request = TypeVar("_Request")


class _ProjectChange(ResolutionBuildOptions, ChangeRequest):
    """The project to edit, the list of requirements, and further targets."""

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


class AddRequest(_ProjectChange):
    """The requirements to add to a project."""

    requirements: tuple[str, ...] = ()
    raw: bool = False


class RemoveRequest(_ProjectChange):
    """The dependencies to remove from a project."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DependencyReport:
    """The changes of a project, its lock and its environment, done or planned."""

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
    """The changes of the environment; None: there are none."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "dry_run": self.dry_run,
            "project": str(self.project),
            "list": {"kind": self.place.kind, "name": self.place.name or None},
            "changes": [
                {"name": change.name, "before": change.before, "after": change.after}
                for change in self.changes
            ],
            "diff": "\n".join(self.diff),
            "lock": None if self.lock is None else self.lock.to_json(),
            "sync": None if self.environment is None else self.environment.to_json(),
        }


def add(request: AddRequest, context: Context) -> DependencyReport:
    """Add requirements to a project, lock it, and install the new packages of the lock.

    If one of these fails, the project, the lock and the environment are as they were.

    :param request: the requirements, and the list they go to.
    :param context: the environment variables and the reporter.
    :raises UsageError: no requirement is given, or one is invalid.
    :raises WheelfitError: an edit, the resolution or the installation fails.
    """
    if not request.requirements:
        raise UsageError(
            "no requirements were given", hint="name a requirement: `wheelfit add httpx`"
        )
    texts = [_requirement(text) for text in request.requirements]
    editing = _Editing(request, context)
    edited = editing.before
    changes: list[ListChange] = []
    for text in texts:
        edited, change = with_requirement(edited, editing.place, text)
        twice = [one for one in changes if (one.name, one.after) == (change.name, change.before)]
        for one in twice:
            changes.remove(one)
            change = replace(change, before=one.before)
        changes.append(change)
    is_raw = request.raw or request.frozen
    open_names = {one.name for one in changes if one.before is None and _is_open(one.after)}
    return editing.carry_out(edited, changes, frozenset() if is_raw else open_names)


def remove(request: RemoveRequest, context: Context) -> DependencyReport:
    """Remove dependencies from a project, lock it, and remove packages that are no longer needed.

    If one of these fails, the project, the lock and the environment are as they were.

    :param request: the names, and the list they are removed from.
    :param context: the environment variables and the reporter.
    :raises UserError: ``not-a-dependency``; the list does not have one of them.
    :raises WheelfitError: an edit, the resolution or the installation fails.
    """
    editing = _Editing(request, context)
    edited = editing.before
    changes: list[ListChange] = []
    for name in dict.fromkeys(map(project_name, request.names)):
        edited, removed = without_requirement(edited, editing.place, name)
        if not removed:
            if editing.place.kind != "group":
                check_not_of_poetry(editing.before)
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
            # Before anything is resolved: without an environment that would be useless.
            request = _beside(request, self.path, context)
            self._environment = open_environment_of(request, context.environ, may_be_new=True)
            self._environment.check_allowed(break_system_packages=request.break_system_packages)
        self._request = request

    def carry_out(
        self,
        edited: ProjectText,
        changes: Sequence[ListChange],
        open_names: Collection[NormalizedName] = (),
    ) -> DependencyReport:
        """Write the edited project, lock it and install from the lock, or restore everything.

        :param open_names: new requirements that get the locked version as their lower bound.
        """
        request, edit = self._request, _Edit(edited, tuple(changes))
        if request.dry_run:
            locks = None if request.frozen else self._locks(edit, open_names, writes=False)
            return self._report(edit, locks)
        with self._undone_on_failure(edit):
            locks = None if request.frozen else self._locks(edit, open_names, writes=True)
            if edit.text != self.before:
                self._write(edit.text.encode())
            change = None if self._environment is None or locks is None else self._sync(locks)
        return self._report(edit, locks, change)

    def _report(
        self, edit: _Edit, locks: LockReport | None, change: ChangeReport | None = None
    ) -> DependencyReport:
        return DependencyReport(
            self.path,
            self.place,
            edit.changes,
            _difference(self.before, edit.text),
            self._request.dry_run,
            locks,
            change,
        )

    def _locks(
        self, edit: _Edit, open_names: Collection[NormalizedName], *, writes: bool
    ) -> LockReport:
        """Lock an edited project, whose file may still be as before, and add bounds to the edit."""
        where = str(self.path)

        def bounded(lock: Lock) -> ProjectFile:
            edit.add_bounds(self.place, lock, open_names)
            return read_project_file(edit.text.encode(), where)

        project = read_project_file(edit.text.encode(), where)
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
        return lock_project(request, self._context, project, bounded if open_names else None)

    def _sync(self, locks: LockReport) -> ChangeReport:
        """Install from the lock; packages of the former lock alone are removed."""
        written = locks.locks[0]
        old = set() if written.old is None else {package.name for package in written.old.packages}
        extra: tuple[str, ...] = ()
        group: tuple[str, ...] | None = None
        if isinstance(self._request, AddRequest) and self.place.kind == "extra":
            extra = (self.place.name,)
        if isinstance(self._request, AddRequest) and self.place.kind == "group":
            group = (*written.lock.default_groups, self.place.name)
        request = _part(
            SyncRequest, self._request, lock=str(written.path), extra=extra, group=group
        )
        leaving = old - {package.name for package in written.lock.packages}
        return sync_removing(request, self._context, leaving)

    def _write(self, data: bytes) -> None:
        write_atomically(str(self.path), data)
        self.path.resolve().chmod(self._mode)

    @contextmanager
    def _undone_on_failure(self, edit: _Edit) -> Iterator[None]:
        """Restore the project and its lock if the block fails in any way.

        The environment restores itself. After an interruption that comes when its change is
        complete, the files stay.
        """
        lock_before = self._locked_bytes()
        installed = self._installed()
        try:
            yield
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and installed != self._installed():
                raise
            self._restore(edit.text, self._context.reporter)
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


@dataclass(slots=True)
class _Edit:
    """The edited text of a project, and its changes."""

    text: ProjectText
    changes: tuple[ListChange, ...]

    def add_bounds(
        self, place: DependencyList, lock: Lock, names: Collection[NormalizedName]
    ) -> None:
        """Add the locked versions of new requirements as their lower bounds."""
        self.text, changes = _bounded(self.text, place, self.changes, lock, names)
        self.changes = tuple(changes)


def _part(kind: type[_Request], request: _ProjectChange, **more: Any) -> _Request:
    """Return a request with the options that another has too."""
    names = [name for name in field_types(kind) if hasattr(request, name)]
    values = {name: getattr(request, name) for name in names if name not in _OWN}
    return kind(**{**values, **more})


_OWN = frozenset(("requirements", "lock", "project", "extra", "group"))
"""Fields with another meaning in the requests of other operations."""


def _beside(
    request: AddRequest | RemoveRequest, path: Path, context: Context
) -> AddRequest | RemoveRequest:
    """Return a request whose environment is that of the project that it names."""
    from wheelfit.installation.interpreter import find_interpreter

    named = (request.python, request.system, request.prefix, request.root, request.target)
    if request.project is None or any(named):
        return request
    folder = path.absolute().parent
    interpreter = find_interpreter(None, context.environ, folder)
    if interpreter is None:
        raise UserError(
            "no virtual environment found",
            code="no-environment",
            where=str(folder),
            hint=f"run `wheelfit venv {folder / '.venv'}`, or name another with --python",
        )
    context.reporter.note(f"environment: {interpreter.parent.parent}")
    return request.with_options(python=str(interpreter))


def _content(path: Path) -> bytes:
    with reporting_os_errors(
        "the project's file cannot be read", where=str(path), hint="name the project with --project"
    ):
        return path.read_bytes()


def _place(request: _ProjectChange, project: ProjectText) -> DependencyList:
    """Return the list that is edited, with its name as the file writes it."""
    named = {"--group": request.group, "--extra": request.extra, "--dev": request.dev}
    given = [option for option, value in named.items() if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} name two lists", hint="give one of them")
    if request.extra:
        wanted = DependencyList("extra", project_name(request.extra, "--extra"))
    elif request.group or request.dev:
        wanted = DependencyList("group", project_name(request.group or "dev", "--group"))
    else:
        wanted = DependencyList()
    return project.find(wanted) or wanted


def _requirement(text: str) -> str:
    """Return a requirement that may stand in a list.

    :raises UsageError: it is a path or URL without a name.
    :raises FileProblem: it is a path that does not exist.
    """
    from wheelfit.core.requirements import parse_requirement

    try:
        parsed = parse_requirement(text, allow_variant_markers=False)
    except InvalidRequirement as error:
        head = text.partition(";")[0].strip()
        is_place = "/" in head or "\\" in head or head in (".", "..") or head.endswith(".whl")
        if "@" not in head and is_place:
            raise UsageError(f"{head} has no name", hint=_named_reference(head)) from None
        error.where = error.where or "command line"
        raise
    if parsed.url is not None and "://" not in parsed.url:
        hint = _named_reference(parsed.url, parsed.name)
        raise UsageError(f"{parsed.url} is a path, where a URL belongs", hint=hint)
    return text.strip()


def _named_reference(place: str, name: str | None = None) -> str:
    """Return a hint how to add a path or URL in the right form.

    :param name: of the project; None: as the place has it.
    :raises FileProblem: the path does not exist.
    """
    from shlex import quote

    from wheelfit.projects.static_metadata import name_of

    url, consent = place, ""
    if place.startswith("file:///") or "://" not in place:
        path = Path(place.removeprefix("file://")).expanduser().absolute()
        if not path.exists():
            raise FileProblem(
                "the file or folder does not exist", where=place, hint="name one that exists"
            )
        url = path.resolve().as_uri()
        name = name or (name_of(path) if path.is_dir() else None)
    if place.endswith(".whl"):
        name = name or canonicalize_name(place.rpartition("/")[2].partition("-")[0])
    elif name is not None:
        consent = f" --allow-source {name}"
    reference = quote(f"{name or 'NAME'} @ {url}")
    return f"write NAME @ URL: `wheelfit add {reference}{consent}`"


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
    names: Collection[NormalizedName],
) -> tuple[ProjectText, list[ListChange]]:
    """Return the project with the locked versions of new requirements as lower bounds."""
    versions: dict[NormalizedName, list[Version]] = {}
    for package in locked.packages:
        if package.version is not None:
            versions.setdefault(package.name, []).append(package.version)
    result = []
    for change in changes:
        locked_versions = versions.get(change.name, [])
        if change.after is None or change.name not in names or not locked_versions:
            result.append(change)
            continue
        after = f"{change.name}>={min(locked_versions).public}"
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
    places = editing.before.places_of(name)
    options = [
        f"--{one.kind} {one.name}" if one.name else "no --group or --extra" for one in places
    ]
    if places:
        hint = f"it is in {' and in '.join(map(str, places))}: give {' or '.join(options)}"
    else:
        known = editing.before.names(editing.place)
        hint = did_you_mean(name, known, f"there are: {', '.join(known) or 'none'}")
    return UserError(
        f"{name} is not in {editing.place}",
        code="not-a-dependency",
        where=str(editing.path),
        hint=hint,
    )
