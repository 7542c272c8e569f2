"""Reports of locks and bundles, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.lock import LockReport, labels_of
from wheelfit.operations.text import size_words
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.bundle import BundleReport, VerifiedBundle


def show_lock(report: LockReport, output: Output) -> None:
    """Print the changes of the locks, and their paths."""
    for note in report.notes:
        output.warn(note)
    for text in dict.fromkeys(text for lock in report.locks for text in lock.unmet):
        output.note(f"note: {text}")
    for held_back in dict.fromkeys(
        held_back for lock in report.locks for held_back in lock.held_back
    ):
        output.remark(f"note: {held_back}")
    for lock in report.locks:
        for change in lock.changes:
            output.report(str(change))
        for package in lock.lock.packages:
            labels = labels_of(package)
            if labels:
                output.report(f"{package.name} {package.version}: {', '.join(labels)}")
    if report.split_reason is not None:
        output.warn(
            "one lock cannot serve all of these machines, so each has its own: "
            f"{report.split_reason}"
        )
    for lock in report.locks:
        packages = count_of(len({package.name for package in lock.lock.packages}), "package")
        if lock.is_same:
            output.report(f"{lock.path} is up to date: {packages} for {lock.environments}")
        else:
            verb = "Locked" if report.writes else "Would lock"
            output.report(f"{verb} {packages} for {lock.environments} in {lock.path}")


def show_bundle(report: BundleReport, output: Output) -> None:
    """Print the contents of a bundle for each machine."""
    for note in report.notes:
        output.warn(note)
    for host in report.hosts:
        count = count_of(len(host.packages), "package")
        output.report(f"{host.name}: {count}, {_words(host.size)}")
        for pin in host.packages:
            if pin.label is not None or output.verbosity > 0:
                label = f" ({pin.label})" if pin.label else ""
                output.report(f"  {pin.name} {pin.version}{label}")
    verb = "would write" if report.manifest is None else "wrote"
    wheels = count_of(len(report.sizes), "wheel")
    line = f"{verb} {report.folder}: {wheels}, {_words(report.size)}"
    if report.shared:
        line += f"; a folder for each machine would take {_words(report.shared)} more"
    output.report(line)


def show_verified(bundle: VerifiedBundle, output: Output) -> None:
    """Print the summary of a valid bundle."""
    manifest = bundle.manifest
    machines = ", ".join(host.name for host in manifest.hosts)
    output.report(
        f"{bundle.folder} is valid: {count_of(len(manifest.wheels), 'wheel')}, "
        f"{_words(bundle.size)}, for {machines}"
    )


def _words(byte_count: int | None) -> str:
    return "of unknown size" if byte_count is None else size_words(byte_count)
