"""Bundles: folders, created from a lock, that install without a network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.errors import DamagedBundle, reporting_os_errors
from wheelfit.locking.bundles.manifest import MANIFEST, Manifest
from wheelfit.locking.bundles.verification import load_manifest
from wheelfit.locking.bundles.verification import verify as verify_folder
from wheelfit.operations.bundle_contents import BundlePlan, check_accelerators
from wheelfit.operations.bundle_folder import folder_for, make, sizes_of
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.lock_files import LockChoiceRequest, open_lock
from wheelfit.operations.machine import ChosenMachine, choose_machine, read_options
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.preferences import choice_policy
from wheelfit.operations.requests import EnvironmentOptions, MachineOptions, VariantOptions
from wheelfit.operations.result_limits import check_download
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.operations.bundle_contents import HostChoice
    from wheelfit.operations.context import Context
    from wheelfit.resolution.resolution import Pin


class BundleRequest(LockChoiceRequest):
    """The lock, the machines, and the folder to make."""

    output: str
    hosts: tuple[str, ...] = ()
    dry_run: bool = False


class VerifyRequest(EnvironmentOptions):
    """The bundle to check, and the interpreter to read it for."""

    verify: str


@dataclass(frozen=True, slots=True)
class HostPackages:
    """The packages of a bundle for one machine."""

    name: str
    """The name of its host file."""
    machine: ChosenMachine
    packages: tuple[Pin, ...]
    """By name."""
    sizes: Mapping[str, int | None]
    """Bytes of each file of the bundle, by name; None where unknown."""

    @property
    def size(self) -> int | None:
        """Size of its files in bytes; None if one is unknown."""
        return _sum(self.sizes[pin.filename.text] for pin in self.packages)

    def to_json(self) -> dict[str, object]:
        """Return its part of the object of ``--json``."""
        return {
            "name": self.name,
            "file": f"hosts/{self.name}.toml",
            **self.machine.to_mapping(),
            "packages": [
                plain_fields(
                    pin,
                    "name version label",
                    filename=pin.filename.text,
                    size=self.sizes[pin.filename.text],
                )
                for pin in self.packages
            ],
            "size": self.size,
        }


@dataclass(frozen=True, slots=True)
class BundleReport:
    """The bundle that was created, or would be."""

    folder: str
    """The folder, as the user named it."""
    lock: Path
    hosts: tuple[HostPackages, ...]
    sizes: Mapping[str, int | None]
    """Bytes of each wheel, by file name; None where unknown."""
    manifest: Manifest | None
    """The manifest; None where nothing was made."""
    notes: tuple[str, ...]

    @property
    def size(self) -> int | None:
        """Bytes of all wheels; None where one is unknown."""
        return _sum(self.sizes.values())

    @property
    def shared(self) -> int | None:
        """Bytes that are saved because machines share files; None if unknown."""
        by_host = _sum(host.size for host in self.hosts)
        if self.size is None or by_host is None:
            return None
        return by_host - self.size

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        written = {} if self.manifest is None else self.manifest.wheels
        wheels = [
            {
                "filename": name,
                "size": self.sizes[name],
                "sha256": written[name].sha256 if name in written else None,
            }
            for name in sorted(self.sizes)
        ]
        return plain_report(
            self,
            "folder lock hosts size shared notes",
            dry_run=self.manifest is None,
            wheels=wheels,
        )


@dataclass(frozen=True, slots=True)
class VerifiedBundle:
    """A bundle that is complete and unchanged."""

    folder: str
    """The folder, as the user named it."""
    manifest: Manifest

    @property
    def size(self) -> int:
        """Bytes of all wheels."""
        return sum(file.size for file in self.manifest.wheels.values())

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "folder size",
            hosts=[plain_fields(host, "name file") for host in self.manifest.hosts],
            wheels=[
                {"filename": name, **file.to_mapping()}
                for name, file in self.manifest.wheels.items()
            ],
        )


def bundle(request: BundleRequest, context: Context) -> BundleReport:
    """Write a folder with the wheels that some machines get from a lock.

    If anything fails, the folder is unchanged.

    :param request: the lock, the machines and the folder.
    :param context: the environment variables and the reporter.
    :raises NoFit: a package has no wheel for a machine.
    :raises TooLarge: more would be downloaded than is allowed.
    :raises WheelfitError: a wheel cannot be downloaded, or the folder cannot be written.
    """
    folder = folder_for(request.output)
    opened_lock = open_lock(request, context)
    with opened_lock.repository:
        plan = BundlePlan(opened_lock, request.hosts or [None])
        if request.require_accelerator:
            check_accelerators(plan)
        manifest = None
        sizes: dict[str, int | None] = {}
        with context.reporter.transfers(opened_lock.repository.cancel) as transfers:
            if request.dry_run or request.max_download is not None:
                file_sizes = sizes_of(plan, transfers)
                sizes = {name: size.file for name, size in file_sizes.items()}
                if request.max_download is not None:
                    check_download(
                        request.max_download,
                        file_sizes,
                        hint="allow more, or bundle for fewer machines; --dry-run shows every size",
                    )
            if not request.dry_run:
                manifest = make(plan, opened_lock, folder, transfers)
                sizes = {name: file.size for name, file in manifest.wheels.items()}
    return BundleReport(
        request.output,
        opened_lock.path,
        tuple(_packages(host, sizes) for host in plan.hosts),
        sizes,
        manifest,
        tuple(plan.notes),
    )


def verify(request: VerifyRequest, context: Context) -> VerifiedBundle:
    """Check that a bundle is complete and unchanged.

    :raises FileProblem: there is no such folder.
    :raises DamagedBundle: something is missing, changed or extra.
    """
    folder = Path(request.verify)
    with reporting_os_errors("the folder cannot be read", where=request.verify):
        is_folder = folder.is_dir()
    if not is_folder:
        raise FileProblem(
            "the folder does not exist",
            where=request.verify,
            hint="name the folder of a bundle, as created by `wheelfit bundle -o DIR`",
        )
    manifest = load_manifest(folder)
    target = open_environment_of(request, context.environ, may_be_own=True).target
    recorded = _recorded_options(request, manifest, folder)
    machine = choose_machine(recorded, target, context)
    verify_folder(folder, manifest, target, choice_policy(recorded, machine.policy))
    return VerifiedBundle(request.verify, manifest)


class _RecordedOptions(MachineOptions, VariantOptions):
    """The options that a bundle was made with."""


def _recorded_options(request: VerifyRequest, manifest: Manifest, folder: Path) -> _RecordedOptions:
    """Return the options that a bundle was made with.

    :raises DamagedBundle: it has unknown options.
    """
    try:
        options = read_options(manifest.options)
    except ValueError as error:
        problem = (MANIFEST, "unreadable", str(error))
        raise DamagedBundle([problem], where=str(folder)) from None
    return _RecordedOptions(
        cache_dir=request.cache_dir, no_cache_dir=request.no_cache_dir, **options
    )


def _packages(host: HostChoice, sizes: Mapping[str, int | None]) -> HostPackages:
    pins = sorted(host.selection.resolution().pins, key=lambda pin: pin.name)
    return HostPackages(host.name, host.machine, tuple(pins), sizes)


def _sum(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of sizes; None when one is unknown."""
    known = tuple(sizes)
    return None if None in known else sum(size or 0 for size in known)
