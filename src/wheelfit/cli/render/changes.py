"""Changes of environments, and what is installed, as text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.sizes import size_in_words
from wheelfit.operations.installed import project_folder
from wheelfit.operations.text import by_size, columns, size_words, unknown_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.cli.output import Output
    from wheelfit.installation.installed import Installed
    from wheelfit.installation.plan import Plan
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.freeze import FreezeReport
    from wheelfit.operations.installed import InstalledReport
    from wheelfit.operations.recover import RecoverReport
    from wheelfit.operations.uninstall import UninstallReport
    from wheelfit.operations.venv import VenvReport
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.size import FileSize

_PLAIN = "plain"


def show_change(report: ChangeReport, output: Output) -> None:
    """Print what was done to an environment, or would be."""
    output.result_json(report.to_json())
    tell_change(report, output)


def tell_change(report: ChangeReport, output: Output) -> None:
    """Print the same, without the object of ``--json``."""
    decided = report.decided
    planned, resolution = decided.planned, decided.resolution
    for warning in (*report.warnings, *map(str, report.broken)):
        output.warn(warning)
    for one in decided.misfits:
        remedy = "wheelfit install --refit exchanges it"
        output.warn(f"{one.variant} does not fit any more: {one.reason} ({remedy})")
    for text in report.notes:
        output.note(f"note: {text}")
    for old in resolution.held_back:
        output.say(f"note: {old}")
    for held in resolution.held:
        if held.forced.because:
            output.say(f"note: {held}")
    for change in decided.changes:
        output.say(f"note: {change}")
    for pin in resolution.pins:
        if (better := pin.choice.selection.better) is not None:
            output.say(
                f"note: {pin.name} stays {pin.label}, though {better.label or _PLAIN} would fit "
                "better (--allow-variant-change takes it)"
            )
    for pin in planned.install:
        for remark in pin.choice.remarks:
            output.note(f"note: {remark}")
        for remark in pin.choice.metadata.notes:
            output.detail(remark)
    for detail in resolution.details:
        output.detail(detail)
    _show_plan(planned, output, dry_run=report.dry_run)
    if report.sizes:
        for line in size_table(planned.install, report.sizes):
            output.result(line)
        for line in unknown_sizes(report.sizes):
            output.warn(line)
    if not planned:
        output.result(f"nothing to do: {report.otherwise}")
    for warning in report.idle_labels:
        output.warn(warning)


def _show_plan(planned: Plan, output: Output, *, dry_run: bool) -> None:
    old = {entry.name: entry for entry in planned.remove}
    for pin in planned.install:
        gone = old.pop(pin.name, None)
        replaced = ""
        if gone is not None:
            newer = "the newer " if gone.version > pin.version else ""
            replaced = f", replacing {newer}{gone.version}"
        if gone is not None and gone.label != pin.label:
            replaced += f" ({gone.label or _PLAIN})"
        # One line for each package that had a choice; for the others there is nothing to say.
        had_choice = pin.label is not None or any(
            verdict.filename.label for verdict in pin.choice.selection.verdicts
        )
        why = f": {pin.reason}" if had_choice else ""
        if pin.file.origin is not None:
            replaced += f", {'to be ' if dry_run else ''}built from {pin.file.origin.name}"
        output.result(f"{'would install' if dry_run else 'installed'} {pin}{replaced}{why}")
    for entry in old.values():
        reason = planned.reasons.get(entry.name)
        why = f": {reason}" if reason else ""
        output.result(f"{'would remove' if dry_run else 'removed'} {entry}{why}")
    for entry in planned.keep:
        if output.verbosity > 0:
            output.result(f"kept {entry}")


def show_uninstalled(report: UninstallReport, output: Output) -> None:
    """Print what was removed, and what it breaks."""
    output.result_json(report.to_json())
    for note in report.uninstalled.notes:
        output.note(f"note: {note}")
    for broken in report.uninstalled.breaks:
        output.warn(str(broken))
    verb = "would remove" if report.dry_run else "removed"
    for package in report.uninstalled.removed:
        output.result(f"{verb} {package}")


def show_created(report: VenvReport, output: Output) -> None:
    """Print which environment was created, and how it is activated."""
    import shlex

    output.result_json(report.to_json())
    output.result(
        f"Created a virtual environment with Python {report.python_version} at {report.path}"
    )
    activate = str(Path(report.python).parent / "activate")
    output.note(
        f"activate it with: {activate}"
        if sys.platform == "win32"
        else f"activate it with: source {shlex.quote(activate)}"
    )


def show_recovered(report: RecoverReport, output: Output) -> None:
    """Print what was undone or finished."""
    output.result_json(report.to_json())
    output.result("no change was interrupted" if report.found is None else str(report.found))
    for note in report.notes:
        output.note(f"note: {note}")


def size_table(pins: Sequence[Pin], sizes: Mapping[NormalizedName, FileSize]) -> list[str]:
    """Return the lines of a table: every package, the largest download first, and the sums.

    :param pins: what would be installed.
    :param sizes: of each.
    """
    by_name = {pin.name: pin for pin in pins}
    rows = [
        (
            str(by_name[name]),
            _download(by_name[name], sizes[name]),
            size_words(sizes[name].unpacked),
        )
        for name in by_size(sizes)
    ]
    known = sizes.values()
    download = size_in_words(sum(one.download or 0 for one in known))
    disk = size_in_words(sum(one.unpacked or 0 for one in known))
    more = [
        " or more" if any(value is None for value in values) else ""
        for values in ([one.download for one in known], [one.unpacked for one in known])
    ]
    total = ("together", download + more[0], disk + more[1])
    return columns(("package", "download", "on disk"), [*rows, total] if len(rows) > 1 else rows)


def _download(pin: Pin, size: FileSize) -> str:
    if size.is_here:
        return "local" if pin.file.is_local else "cached"
    return size_words(size.file)


def show_installed(report: InstalledReport, output: Output) -> None:
    """Print the packages of an environment."""
    output.result_json(report.to_json())
    rows = [
        (entry.name, str(entry.version), entry.label or "", _remark(entry))
        for entry in report.packages
    ]
    for line in columns(("Package", "Version", "Variant", "Remark"), rows):
        output.result(line)
    for broken in report.broken:
        output.warn(f"{broken.path}: {broken.reason}")
    for entry in report.packages:
        for note in entry.notes:
            output.detail(f"{entry}: {note}")


def show_frozen(report: FreezeReport, output: Output) -> None:
    """Print the lines of a requirements file."""
    output.result_json(report.to_json())
    for one in report.packages:
        output.result(one.line)
    for broken in report.broken:
        output.warn(f"{broken.path}: {broken.reason}")


def _remark(entry: Installed) -> str:
    place = project_folder(entry)
    remarks = {
        f"editable: {place}" if place else "editable": entry.editable,
        "outside this environment": entry.outside,
        "legacy": entry.legacy and not entry.editable,
    }
    return ", ".join(remark for remark, holds in remarks.items() if holds)
