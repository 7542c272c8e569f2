"""The addition and removal of dependencies of a project, with its lock and environment."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import InvalidRequirement, UsageError, did_you_mean, reporting_os_errors
from wheelfit.installation.interpreter import find_interpreter
from wheelfit.operations.changes import ChangeRequest
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.files import writable_mode, write_atomically
from wheelfit.operations.lock import LockReport, LockRequest, lock_project
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.projects import is_project_file, nearest_project
from wheelfit.operations.requests import ResolutionBuildOptions, request_like
from wheelfit.operations.requirements import project_name, requirements_of_file, source_of
from wheelfit.operations.sync import SyncRequest, sync_removing
from wheelfit.projects.dependency_lists import (
    DependencyList,
    ProjectText,
    refuse_poetry_project,
    with_requirement,
    without_requirement,
    without_sources,
)
from wheelfit.projects.static_metadata import read_pyproject_name
from wheelfit.resolution.project_file import ProjectFile, read_project_file
from wheelfit.resolution.request import RequestedRequirement
from wheelfit.resolution.requirements_file import RequirementsFile
from wheelfit_runtime.errors import FileProblem, UserError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packaging.version import Version

    from wheelfit.installation.environment import Environment
    from wheelfit.locking.document import Lock
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.context import Context
    from wheelfit.projects.dependency_lists import ListChange
    from wheelfit.resolution.requirements_file import RequirementLine


class _ProjectChange(ResolutionBuildOptions, ChangeRequest):
    """The options of `add` and `remove`: project, list of requirements, lock and environment."""

    project: str | None = None
    lock: str | None = None
    group: str | None = None
    extra: str | None = None
    dev: bool = False
    frozen: bool = False
    no_sync: bool = False
    pre: bool = False
    constraint_lines: tuple[RequirementLine, ...] = ()
    override_lines: tuple[RequirementLine, ...] = ()
    excluded_names: tuple[str, ...] = ()
    default_groups: tuple[str, ...] = ()
    python_version: tuple[str, ...] = ()
    platform: tuple[str, ...] = ()


class AddRequest(_ProjectChange):
    """The requirements to add to a project."""

    requirements: tuple[str, ...] = ()
    requirements_files: tuple[str, ...] = ()
    raw: bool = False


class RemoveRequest(_ProjectChange):
    """The dependencies to remove from a project."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DependencyReport:
    """The changes of a project, its lock and its environment, done or planned."""

    project: Path
    """Its ``pyproject.toml``."""
    edited_list: DependencyList
    """The list that was edited."""
    changes: tuple[ListChange, ...]
    diff: tuple[str, ...]
    """The lines of a unified difference of the file."""
    dry_run: bool
    """Whether nothing was written."""
    lock: LockReport | None = None
    """The new lock; None: the lock is unchanged."""
    environment: ChangeReport | None = None
    """The changes of the environment; None: there are none."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "dry_run project lock",
            list={"kind": self.edited_list.kind, "name": self.edited_list.name or None},
            changes=[plain_fields(change, "name before after") for change in self.changes],
            diff="\n".join(self.diff),
            sync=self.environment,
        )


def add(request: AddRequest, context: Context) -> DependencyReport:
    """Add requirements to a project, lock it, and install the new packages of the lock.

    If one of these fails, the project, the lock and the environment are as they were.

    :param request: the requirements, and the list they go to.
    :param context: the environment variables and the reporter.
    :raises UsageError: no requirement is given, or one is invalid.
    :raises WheelfitError: a file cannot be read, or an edit, the resolution or the installation
        fails.
    """
    project = nearest_project(request.project).parent
    texts = [_requirement(text, project) for text in request.requirements]
    for name in request.requirements_files:
        texts += _requirements_of_file(name, project, context)
    if not texts:
        raise UsageError(
            "no requirements were given",
            hint="name a requirement or a file: `wheelfit add httpx`, `wheelfit add -r FILE`",
        )
    editor = _ProjectEditor(request, context)
    edited = editor.before
    own_name = read_pyproject_name(editor.path.parent)
    changes: list[ListChange] = []
    for text in texts:
        edited, change = with_requirement(edited, editor.edited_list, text)
        if change.name == own_name and editor.edited_list.kind == "project":
            raise UsageError(
                f"{own_name} is the project itself", hint="rename the project to add that package"
            )
        for earlier in [*changes]:  # two changes of the same requirement are reported as one
            if (earlier.name, earlier.after) == (change.name, change.before):
                changes.remove(earlier)
                change = replace(change, before=earlier.before)
        changes.append(change)
    if request.raw or request.frozen:
        return editor.carry_out(edited, changes)
    new = (change for change in changes if change.before is None)
    unbounded = {change.name for change in new if _is_unbounded(change.after)}
    return editor.carry_out(edited, changes, unbounded)


def remove(request: RemoveRequest, context: Context) -> DependencyReport:
    """Remove dependencies from a project, lock it, and remove packages that are no longer needed.

    If one of these fails, the project, the lock and the environment are as they were.

    :param request: the names, and the list they are removed from.
    :param context: the environment variables and the reporter.
    :raises UserError: ``not-a-dependency``; the list does not have one of them.
    :raises WheelfitError: an edit, the resolution or the installation fails.
    """
    editor = _ProjectEditor(request, context)
    edited = editor.before
    changes: list[ListChange] = []
    for name in dict.fromkeys(map(project_name, request.names)):
        edited, removed = without_requirement(edited, editor.edited_list, name)
        if not removed:
            if editor.edited_list.kind != "group":
                refuse_poetry_project(editor.before)
            raise _missing_dependency(editor, name)
        changes += removed
        edited = without_sources(edited, name)
    return editor.carry_out(edited, changes)


class _ProjectEditor:
    """An editor of a project, its lock and its environment."""

    def __init__(self, request: AddRequest | RemoveRequest, context: Context) -> None:
        self._context = context
        self.path = nearest_project(request.project)
        self._mode = writable_mode(self.path) if self.path.is_file() else 0
        self._data = _read_file(self.path)
        self.before = ProjectText.of(self._data, str(self.path))
        self.edited_list = _list_to_edit(request, self.before)
        self._lock = Path(request.lock) if request.lock else self.path.with_name("pylock.toml")
        self._environment: Environment | None = None
        if not (request.frozen or request.no_sync or request.dry_run):
            # An error about the environment comes before the work of a resolution.
            request = _in_project_environment(request, self.path, context)
            self._environment = open_environment_of(request, context.environ, may_be_new=True)
            self._environment.check_allowed(break_system_packages=request.break_system_packages)
        self._request = request

    def carry_out(
        self,
        edited: ProjectText,
        changes: Sequence[ListChange],
        unbounded: Collection[NormalizedName] = (),
    ) -> DependencyReport:
        """Write the edited project, lock it and install from the lock, or restore everything.

        A dry run only locks, and writes nothing.

        :param unbounded: new requirements that get the locked version as their lower bound.
        """
        request, edit = self._request, _Edit(edited, tuple(changes))
        with nullcontext() if request.dry_run else self._restored_on_failure(edit):
            locks = None if request.frozen else self._lock_project(edit, unbounded)
            if edit.text != self.before and not request.dry_run:
                self._write(edit.text.encode())
            change = None if self._environment is None or locks is None else self._sync(locks, edit)
        return DependencyReport(
            self.path,
            self.edited_list,
            edit.changes,
            _difference(self.before, edit.text),
            request.dry_run,
            locks,
            change,
        )

    def _lock_project(self, edit: _Edit, unbounded: Collection[NormalizedName]) -> LockReport:
        """Lock an edited project, whose file may still be as before, and add bounds to the edit."""
        where = str(self.path)

        def add_bounds(lock: Lock) -> ProjectFile:
            """Add lower bounds to the edit, and return the project with them."""
            edit.add_bounds(self.edited_list, lock, unbounded)
            return read_project_file(edit.text.encode(), where)

        project = read_project_file(edit.text.encode(), where)
        request = request_like(
            LockRequest,
            self._request,
            output=str(self._lock),
            # These fields have another meaning in a request to add or to remove.
            requirements=(),
            project=str(self.path),
            extra=(),
            group=(),
            host=None,
            # The destination has no effect on a lock, and may not exist yet.
            prefix=None,
            root=None,
            target=None,
        )
        return lock_project(request, self._context, project, add_bounds if unbounded else None)

    def _sync(self, locks: LockReport, edit: _Edit) -> ChangeReport:
        """Install from the lock, and remove packages that only the former lock has."""
        written = locks.locks[0]
        former = () if written.old is None else written.old.packages
        extra: tuple[str, ...] = ()
        group: tuple[str, ...] | None = None
        if isinstance(self._request, AddRequest) and self.edited_list.kind == "extra":
            extra = (self.edited_list.name,)
        if isinstance(self._request, AddRequest) and self.edited_list.kind == "group":
            group = (*written.lock.default_groups, self.edited_list.name)
        # By adding a project by its folder, archive or repository, the user consents to building
        # it, as for `install`.
        named = [change.name for change in edit.changes if _names_source(change.after)]
        request = request_like(
            SyncRequest,
            self._request,
            lock=str(written.path),
            extra=extra,
            group=group,
            allow_source=(*self._request.allow_source, *named),
        )
        leaving = {package.name for package in former}
        leaving -= {package.name for package in written.lock.packages}
        return sync_removing(request, self._context, leaving)

    def _write(self, data: bytes) -> None:
        write_atomically(str(self.path), data)
        self.path.resolve().chmod(self._mode)

    @contextmanager
    def _restored_on_failure(self, edit: _Edit) -> Iterator[None]:
        """Restore the project and its lock if the block fails in any way.

        The environment restores itself. If its change was complete before an interruption, the
        files stay.
        """
        lock_before = self._read_lock()
        installed = self._installed()
        try:
            yield
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and installed != self._installed():
                raise
            self._restore(edit.text)
            if lock_before is None:
                self._lock.unlink(missing_ok=True)
            elif self._read_lock() != lock_before:
                write_atomically(str(self._lock), lock_before)
            raise

    def _read_lock(self) -> bytes | None:
        return self._lock.read_bytes() if self._lock.is_file() else None

    def _restore(self, edited: ProjectText) -> None:
        now = _read_file(self.path)
        if now == self._data:
            return
        if now != edited.encode():
            self._context.reporter.warn(
                f"{self.path} was changed by another program, and stays as it is"
            )
            return
        self._write(self._data)

    def _installed(self) -> Sequence[tuple[str, Version]]:
        if self._environment is None:
            return ()
        return [(entry.name, entry.version) for entry in self._environment.installed()]


@dataclass(slots=True)
class _Edit:
    """The edited text of a project, and its changes."""

    text: ProjectText
    changes: tuple[ListChange, ...]

    def add_bounds(
        self, edited_list: DependencyList, lock: Lock, names: Collection[NormalizedName]
    ) -> None:
        """Add the lowest locked versions of some new requirements as their lower bounds."""
        versions: dict[NormalizedName, list[Version]] = {}
        for package in lock.packages:
            if package.version is not None:
                versions.setdefault(package.name, []).append(package.version)
        changes = []
        for change in self.changes:
            locked_versions = versions.get(change.name, [])
            is_new = change.name in names and _is_unbounded(change.after)
            if change.after is not None and is_new and locked_versions:
                _, separator, marker = change.after.partition(";")
                after = f"{change.name}>={min(locked_versions).public}{separator}{marker}"
                self.text, bound = with_requirement(self.text, edited_list, after)
                changes.append(replace(change, after=bound.after))
            else:
                changes.append(change)
        self.changes = tuple(changes)


def _in_project_environment(
    request: AddRequest | RemoveRequest, path: Path, context: Context
) -> AddRequest | RemoveRequest:
    """Return a request for the environment of its project, unless it names one itself."""
    destination = (request.python, request.system, request.prefix, request.root, request.target)
    if request.project is None or any(destination):
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


def _read_file(path: Path) -> bytes:
    with reporting_os_errors(
        "the project's file cannot be read", where=str(path), hint="name the project with --project"
    ):
        return path.read_bytes()


def _list_to_edit(request: _ProjectChange, project: ProjectText) -> DependencyList:
    """Return the list to edit, with its name as the file spells it."""
    values = {"--group": request.group, "--extra": request.extra, "--dev": request.dev}
    options = [option for option, value in values.items() if value]
    if len(options) > 1:
        raise UsageError(f"{options[0]} and {options[1]} name two lists", hint="give one of them")
    if request.extra:
        place = DependencyList("extra", project_name(request.extra, "--extra"))
    elif request.group or request.dev:
        place = DependencyList("group", project_name(request.group or "dev", "--group"))
    else:
        place = DependencyList()
    return project.find(place) or place


def _requirements_of_file(name: str, project: Path, context: Context) -> list[str]:
    """Return the requirements of a file in the form for a list of dependencies.

    :raises UsageError: a requirement is editable, or a path or URL without a name.
    """
    if is_project_file(name):
        raise UsageError(
            "a project is not a requirements file",
            where=name,
            hint="name a file in pip's format",
        )
    file = requirements_of_file(name, context.environ)
    for line in file.requirements:
        if line.editable:
            raise UsageError(
                f"{line.text} is editable, which a list of dependencies cannot state",
                where=line.where,
                hint=_named_reference(line.text, project),
            )
    others = structs.replace(file, requirements=())
    if others != RequirementsFile() or any(line.label or line.hashes for line in file.requirements):
        context.reporter.note(
            f"note: only the requirements of {name} are added; its options, hashes, constraints "
            "and labels are not"
        )
    return [_requirement(line.text, project, line.where) for line in file.requirements]


def _requirement(text: str, project: Path, where: str = "command line") -> str:
    """Return a requirement in the form for a list of dependencies.

    :param where: the file and line of the requirement.
    :raises UsageError: it is a path or URL without a name.
    :raises FileProblem: it is a path that does not exist.
    """
    try:
        parsed = parse_requirement(text, allow_variant_markers=False)
    except InvalidRequirement as error:
        head = text.partition(";")[0].strip()
        is_path = "/" in head or "\\" in head or head in (".", "..") or head.endswith(".whl")
        if "@" not in head and is_path:
            raise UsageError(
                f"{head} has no name", where=where, hint=_named_reference(head, project)
            ) from None
        error.where = error.where or where
        raise
    if parsed.url is not None and "://" not in parsed.url:
        hint = _named_reference(parsed.url, project, parsed.name)
        raise UsageError(f"{parsed.url} is a path, where a URL belongs", where=where, hint=hint)
    return text.strip()


def _named_reference(place: str, project: Path, name: str | None = None) -> str:
    """Return a hint with the right form of a path or URL.

    :param project: the folder of the project, which cannot depend on itself.
    :param name: the project; None: the one that the place names.
    :raises FileProblem: the path does not exist.
    """
    from shlex import quote

    url = place
    if place.startswith("file:///") or "://" not in place:
        path = Path(os.path.expanduser(place.removeprefix("file://"))).absolute()  # noqa: PTH111
        if not path.exists():
            raise FileProblem(
                "the file or folder does not exist", where=place, hint="name one that exists"
            )
        if path.resolve() == project.resolve():
            return "leave it out: it is the project itself"
        url = path.resolve().as_uri()
        name = name or (read_pyproject_name(path) if path.is_dir() else None)
    if place.endswith(".whl"):
        name = name or canonicalize_name(place.rpartition("/")[2].partition("-")[0])
    reference = quote(f"{name or 'NAME'} @ {url}")
    return f"write NAME @ URL: `wheelfit add {reference}`"


def _is_unbounded(requirement: str | None) -> bool:
    """Return whether a requirement admits every version."""
    if requirement is None:
        return False
    parsed = parse_requirement(requirement, allow_variant_markers=False)
    return parsed.url is None and not parsed.specifier


def _names_source(requirement: str | None) -> bool:
    """Return whether a requirement has the URL of a source tree."""
    if requirement is None:
        return False
    parsed = parse_requirement(requirement, allow_variant_markers=False)
    return source_of(RequestedRequirement(parsed)) is not None


def _difference(before: ProjectText, after: ProjectText) -> tuple[str, ...]:
    from difflib import unified_diff

    old, new = before.text.splitlines(), after.text.splitlines()
    return tuple(unified_diff(old, new, before.where, before.where, lineterm=""))


def _missing_dependency(editor: _ProjectEditor, name: NormalizedName) -> UserError:
    """Return the error that a list lacks a requirement, with the list that has it."""
    places = editor.before.lists_with(name)
    options = [
        f"--{place.kind} {place.name}" if place.name else "no --group or --extra"
        for place in places
    ]
    if places:
        hint = f"it is in {' and in '.join(map(str, places))}: give {' or '.join(options)}"
    else:
        names = editor.before.names(editor.edited_list)
        hint = did_you_mean(name, names, f"there are: {', '.join(names) or 'none'}")
    return UserError(
        f"{name} is not in {editor.edited_list}",
        code="not-a-dependency",
        where=str(editor.path),
        hint=hint,
    )
