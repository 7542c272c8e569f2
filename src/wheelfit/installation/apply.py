"""Carry out a plan: the one function through which an environment changes.

All checks come before the first file of the environment changes: wheels, verified when they were
unpacked, are compared with the resolution, conflicts are detected, and all files are linked or
written into a stage beside their place. Renames follow, which are undone if one of them fails
(`wheelfit.installation.transaction`). Nothing of the environment is imported or executed after it
was written to.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from wheelfit.errors import EnvironmentBusy
from wheelfit.installation.checked_wheel import CheckedWheel, check_wheel
from wheelfit.installation.choice_record import HostAndOverrides
from wheelfit.installation.conflicts import WheelLayout, lay_out, scheme_folders
from wheelfit.installation.environment_folders import EnvironmentFolders
from wheelfit.installation.folder_scan import FolderScan
from wheelfit.installation.locking import LOCK_TIMEOUT, locked
from wheelfit.installation.recovery import recover
from wheelfit.installation.removal import RealPaths, Removal, plan_removal
from wheelfit.installation.staging_folders import make_folders, remove_folders
from wheelfit.installation.startup_files import StartupFiles
from wheelfit.installation.transaction import Transaction, environment_error
from wheelfit.installation.unchanged_folders import unchanged_folders
from wheelfit.installation.wheel_stage import WheelStage
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.wheels.file_system import NATIVE
from wheelfit.wheels.linking import Linker
from wheelfit_runtime.errors import EnvironmentUnavailable, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.installation.broken_requirements import BrokenRequirement
    from wheelfit.installation.environment import Environment
    from wheelfit.installation.installed import Installed
    from wheelfit.installation.plan import Plan
    from wheelfit.resolution.resolution import Pin
    from wheelfit.wheels.file_system import FileSystem
    from wheelfit.wheels.unpacked import UnpackedWheel

MAX_PLANS = 10
"""The most plans that are made while other processes change the environment."""


class PlanOutdated(EnvironmentBusy):
    """The environment was changed since the plan was made; a new plan may succeed."""


class UnpackedWheelChanged(EnvironmentUnavailable):
    """Files of an unpacked wheel were removed or edited; unpacking it again may help."""


class Applied(Struct, frozen=True):
    """The result of applying a plan."""

    installed: tuple[Pin, ...] = ()
    removed: tuple[Installed, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes for the user, one sentence each."""
    broken_requirements: tuple[BrokenRequirement, ...] = ()
    """Requirements that are not met any more; empty unless the caller adds them."""


def apply(
    plan: Plan,
    environment: Environment,
    wheels: Mapping[NormalizedName, UnpackedWheel],
    *,
    progress: Progress = NO_PROGRESS,
    replace: bool = False,
    compile_bytecode: bool = False,
    startup_files: StartupFiles = StartupFiles.WARN,
    linker: Linker | None = None,
    break_system_packages: bool = False,
    host_and_overrides: HostAndOverrides = HostAndOverrides(),
    lock_timeout: float = LOCK_TIMEOUT,
    file_system: FileSystem = NATIVE,
) -> Applied:
    """Apply a plan to an environment, as a whole or not at all.

    :param replace: overwrite files that belong to no distribution.
    :param compile_bytecode: write ``.pyc`` files, as pip does by default.
    :param startup_files: the policy for wheels with files that run whenever Python starts.
    :param linker: links or copies the files of the wheels; the fastest way by default.
    :param break_system_packages: change an externally managed environment too (PEP 668).
    :param host_and_overrides: the host and overrides of the choice, recorded in ``.dist-info``.
    :raises PolicyRefusal: ``externally-managed``; PEP 668 forbids it.
    :raises PlanOutdated: another process changed the packages of the plan.
    :raises UnpackedWheelChanged: another process removed or changed a wheel to install.
    :raises EnvironmentUnavailable: it cannot be written, or is busy, or has no space.
    :raises IntegrityError: a wheel is not valid, not the chosen one, or would overwrite foreign
        files.
    :raises NotRemovable: the files of a package to remove are unknown.
    :raises PolicyRefusal: ``startup-file``; a wheel has such files, and the policy forbids them.
    """
    environment.check_allowed(break_system_packages=break_system_packages)
    if not plan:
        return Applied()
    try:
        checked = tuple(
            check_wheel(pin, wheels[pin.name], host_and_overrides) for pin in plan.install
        )
    except InvalidWheel:
        _check_complete(wheels.values())
        raise
    environment.check_writable(_folders_to_change(checked, plan, environment))
    job = _Job(
        plan, environment, checked, replace, startup_files, compile_bytecode,
        progress, linker or Linker(), file_system,
    )  # fmt: skip
    try:
        notes = _change_locked(job, lock_timeout)
    except FileNotFoundError as error:
        _check_complete(wheels.values())
        raise environment_error(error) from None
    except OSError as error:
        needed = sum(sum(wheels[pin.name].files.sizes) for pin in plan.install)
        destination = environment.schemes.purelib
        raise environment_error(error, destination=destination, needed=needed) from None
    return Applied(plan.install, plan.remove, notes)


def rehearse(
    plan: Plan,
    environment: Environment,
    wheels: Mapping[NormalizedName, UnpackedWheel],
    *,
    replace: bool = False,
    startup_files: StartupFiles = StartupFiles.WARN,
) -> None:
    """Raise the errors of `apply`, as far as the wheels at hand show them; change nothing.

    :param wheels: the wheels at hand, by name; others are not checked.
    """
    checked = tuple(
        check_wheel(pin, wheels[pin.name]) for pin in plan.install if pin.name in wheels
    )
    environment.check_writable(_folders_to_change(checked, plan, environment))
    job = _Job(plan, environment, checked, replace, startup_files)
    staying = [entry for entry in environment.installed() if entry not in plan.remove]
    _plan_files(job, staying, FolderScan())


def _check_complete(wheels: Iterable[UnpackedWheel]) -> None:
    """Check that unpacked wheels are unchanged; on some file systems caches have no locks."""
    for wheel in wheels:
        if (name := wheel.changed()) is not None:
            raise UnpackedWheelChanged(
                f"{name} of the unpacked wheel {wheel.filename.text} was removed or changed",
                where=str(wheel.folder),
                hint="nothing was changed; try again when no other process cleans the cache",
            )


class _Job(Struct, frozen=True):
    """The arguments of `apply`, and the checked wheels."""

    plan: Plan
    environment: Environment
    checked: tuple[CheckedWheel, ...]
    replace: bool
    startup_files: StartupFiles
    compile_bytecode: bool = False
    progress: Progress = NO_PROGRESS
    linker: Linker = field(default_factory=Linker)
    file_system: FileSystem = NATIVE


def _folders_to_change(
    checked: tuple[CheckedWheel, ...], plan: Plan, environment: Environment
) -> tuple[Path, ...]:
    folders = environment.schemes.folders()
    schemes = {scheme for wheel in checked for scheme in wheel.schemes}
    written = [folders[scheme] for scheme in sorted(schemes)]
    return (*written, *(entry.location for entry in plan.remove))


def _change_locked(job: _Job, lock_timeout: float) -> tuple[str, ...]:
    """Change the environment under its lock, after an interrupted change is recovered."""
    folders = EnvironmentFolders(job.environment.real_folders(), job.environment.signer)
    # The lock needs the library folder; a new folder is removed again after an error.
    created = make_folders(folders.library)
    try:
        with locked(Path(folders.library), lock_timeout=lock_timeout) as is_locked:
            # Only with the lock is it certain that no other process changes the environment. If the
            # recovery changes what the plan is based on, `_staying` refuses the plan.
            recovered = recover(folders, job.file_system) if is_locked else None
            # Without the lock, the transaction waits for other processes.
            transaction_timeout = None if is_locked else lock_timeout
            with Transaction(
                folders,
                created=created,
                lock_timeout=transaction_timeout,
                file_system=job.file_system,
            ) as transaction:
                notes = _change(job, transaction)
    except BaseException:
        remove_folders(created)
        raise
    recovery_notes = () if recovered is None else (str(recovered), *recovered.notes)
    return (*recovery_notes, *notes, *transaction.notes)


def _change(job: _Job, transaction: Transaction) -> tuple[str, ...]:
    """Stage the wheels, switch to them, and return notes for the user."""
    environment, progress = job.environment, job.progress
    read_folder = FolderScan()
    removals, removed_files, layouts = _plan_files(
        job, _staying(job.plan, environment), read_folder
    )
    unchanged = {
        layout.wheel.pin.name: _unchanged(layout, job, removed_files, read_folder)
        for layout in layouts
    }
    for unchanged_folders_of_wheel in unchanged.values():
        for installed_folder in unchanged_folders_of_wheel.values():
            del removed_files[installed_folder]  # nothing is removed from it
    progress.start(sum(wheel.size for wheel in job.checked))
    for layout in layouts:
        _stage(layout, job, transaction, unchanged[layout.wheel.pin.name])
    if job.compile_bytecode:
        _compile_modules(environment, transaction.stage)
    transaction.switch(removed_files, changes=_describe_changes(job.plan), replace=job.replace)
    progress.done()
    notes = [note for removal in removals for note in removal.notes]
    notes += [note for wheel in job.checked for note in wheel.notes]
    if job.startup_files is StartupFiles.WARN:
        notes += [
            f"{layout.wheel.pin.filename.text} runs code whenever Python starts: {path}"
            for layout in layouts
            for path in layout.startup
        ]
    return tuple(notes)


def _plan_files(
    job: _Job, staying: Iterable[Installed], read_folder: FolderScan
) -> tuple[Sequence[Removal], dict[str, dict[str, str]], Sequence[WheelLayout]]:
    """Return the removals, their files by folder with the owners, and the layouts of the wheels."""
    environment, real = job.environment, RealPaths()
    removals = tuple(
        plan_removal(entry, environment, staying, real, read_folder) for entry in job.plan.remove
    )
    # Two distributions to remove may share a file.
    removed_files: dict[str, dict[str, str]] = {}
    for removal in removals:
        for folder, names in removal.files.items():
            removed_files.setdefault(folder, {}).update(dict.fromkeys(names, removal.name))
    layouts = lay_out(
        job.checked,
        environment,
        removed_files=removed_files,
        staying=staying,
        replace=job.replace,
        startup_files=job.startup_files,
        file_system=job.file_system,
        real=real,
        read_folder=read_folder,
    )
    return removals, removed_files, layouts


def _describe_changes(plan: Plan) -> list[str]:
    """Return descriptions of the changes, for readers of the journal."""
    installed_names = {pin.name for pin in plan.install}
    removed = [entry for entry in plan.remove if entry.name not in installed_names]
    return [*(f"install {pin}" for pin in plan.install), *(f"remove {entry}" for entry in removed)]


def _staying(plan: Plan, environment: Environment) -> tuple[Installed, ...]:
    """Return the distributions that stay, and check that the plan is still valid.

    :raises PlanOutdated: the environment was changed since the plan was made.
    """
    removed_keys = {(entry.path, entry.version) for entry in plan.remove}
    kept_keys = {(entry.path, entry.version) for entry in plan.keep}
    installed = {(entry.path, entry.version): entry for entry in environment.installed()}
    staying = tuple(entry for key, entry in installed.items() if key not in removed_keys)
    replaced = {pin.name for pin in plan.install}
    added = [entry for entry in staying if entry.name in replaced and not entry.outside]
    if added or not (removed_keys | kept_keys) <= installed.keys():
        raise PlanOutdated(
            "the environment was changed since the plan was made",
            where=environment.name,
            hint="nothing was changed; run the command again",
        )
    return staying


def _unchanged(
    layout: WheelLayout,
    job: _Job,
    removed_files: Mapping[str, Collection[str]],
    read_folder: FolderScan,
) -> Mapping[str, str]:
    """Return the folders of a wheel that are installed already, each with its installed path.

    The installed files must be hard links to those of the wheel, and belong to no other
    distribution. If modules are compiled, no folder is unchanged.
    """
    wheel, environment = layout.wheel, job.environment
    is_replacement = any(entry.name == wheel.pin.name for entry in job.plan.remove)
    if not is_replacement or job.compile_bytecode or layout.present:
        return {}
    if not job.linker.can_hard_link(wheel.unpacked):
        return {}
    folders = scheme_folders(environment.schemes.folders(), wheel.pin.name)
    roots = {scheme: str(folder) for scheme, folder in folders.items()}
    return unchanged_folders(wheel, roots, removed_files, read_folder)


def _stage(
    layout: WheelLayout, job: _Job, transaction: Transaction, unchanged: Collection[str]
) -> None:
    """Write the files of a wheel into folders beside their places."""
    wheel, environment = layout.wheel, job.environment
    stages = {scheme: transaction.stage(scheme) for scheme in sorted(wheel.schemes)}
    if "headers" in stages:
        stages["headers"] /= wheel.pin.name
    stage = WheelStage(
        stages,
        scheme_folders(environment.runtime.folders(), wheel.pin.name),
        interpreter=environment.script_options.python,
        launcher=environment.script_options.launcher,
        skip=layout.present,
        unchanged=unchanged,
        advance=job.progress.advance,
        linker=job.linker,
        files=transaction.files,
    )
    stage.fill(wheel)


def _compile_modules(environment: Environment, stage: Callable[[str], Path]) -> None:
    """Write bytecode beside the modules of a stage; modules that do not compile are skipped.

    The interpreter of the environment does it, since bytecode belongs to one version, in as
    many processes as there are processors. It runs without the environment's
    ``site-packages`` (``-S``), where start-up files may lie.
    """
    finals = environment.runtime.folders()
    # By folder: mostly there is one library.
    schemes = {str(stage(scheme)): scheme for scheme in ("platlib", "purelib")}
    for folder, scheme in schemes.items():
        subprocess.run(
            [
                str(environment.interpreter.executable),
                *("-I", "-S", "-m", "compileall", "-q", "-j", "0"),
                # Tracebacks must name the final place.
                *("-s", folder, "-p", str(finals[scheme])),
                folder,
            ],
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
