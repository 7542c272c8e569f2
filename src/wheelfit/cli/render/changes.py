"""Changes of environments as text."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.sizes import size_in_words
from wheelfit.operations.text import by_size, columns, size_words, unknown_sizes
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.cli.output import Output
    from wheelfit.installation.installed import Installed
    from wheelfit.installation.plan import Plan
    from wheelfit.installation.variant_fit import FitVerdict
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.recover import RecoverReport
    from wheelfit.operations.uninstall import UninstallReport
    from wheelfit.operations.venv import VenvReport
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.repository import FileSize

_PLAIN = "plain"


def show_change(report: ChangeReport, output: Output) -> None:
    """Print the changes of an environment, done or planned."""
    decision = report.decision
    planned, resolution = decision.planned, decision.resolution
    for warning in (*report.warnings, *map(str, report.broken)):
        output.warn(warning)
    for line in misfits_in_words(decision.misfits):
        output.warn(line)
    for text in report.notes:
        output.note(f"note: {text}")
    for held_back in resolution.held_back:
        output.remark(f"note: {held_back}")
    for agreement in resolution.agreements:
        if agreement.forced.reasons:
            output.remark(f"note: {agreement}")
    for change in decision.changes:
        output.remark(f"note: {change}")
    for pin in resolution.pins:
        if (better := pin.choice.selection.better) is not None:
            output.remark(
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
    if report.dry_run:
        _show_planned(report, output)
    else:
        _show_done(planned, output)
    for line in unknown_sizes(report.sizes):
        output.warn(line)
    if not planned:
        output.report(f"nothing to do: {report.no_change_reason}")
    for warning in report.unused_labels:
        output.warn(warning)


def misfits_in_words(misfits: Iterable[FitVerdict]) -> Iterator[str]:
    """Yield a line for each reason why installed variants do not fit any more."""
    names_by_reason: dict[str, list[str]] = {}
    for misfit in misfits:
        names_by_reason.setdefault(misfit.reason, []).append(str(misfit.variant))
    for reason, names in names_by_reason.items():
        verb, pronoun = ("does", "it") if len(names) == 1 else ("do", "them")
        remedy = f"`wheelfit install --refit` exchanges {pronoun}"
        yield f"{listed(names)} {verb} not fit any more: {reason} ({remedy})"


def _show_done(planned: Plan, output: Output) -> None:
    """Print a line for each package that was installed or removed."""
    replaceable = _removals_by_name(planned)
    for pin in planned.install:
        replaced = _replaced(pin, replaceable.pop(pin.name, []))
        origin = "" if pin.file.origin is None else f", built from {pin.file.origin.name}"
        reason = f": {pin.reason}" if _has_variants(pin) else ""
        output.report(f"installed {pin}{replaced}{origin}{reason}")
    for entry in chain.from_iterable(replaceable.values()):
        output.report(f"removed {entry}{_why_removed(entry, planned)}")
    for entry in planned.keep:
        if output.verbosity > 0:
            output.report(f"kept {entry}")


def _removals_by_name(planned: Plan) -> dict[NormalizedName, list[Installed]]:
    """Return the distributions to remove; several of one name are leftovers of other tools."""
    removals: dict[NormalizedName, list[Installed]] = {}
    for entry in planned.remove:
        removals.setdefault(entry.name, []).append(entry)
    return removals


def _why_removed(entry: Installed, planned: Plan) -> str:
    """Return the reason of a removal as the rest of a sentence; empty where there is none."""
    reason = planned.reasons.get(entry.name)
    return f": {reason}" if reason else ""


def _replaced(pin: Pin, removed: Sequence[Installed]) -> str:
    """Return the version that a package replaces, as the rest of a sentence; empty if it is new."""
    if not removed:
        return ""
    if len(removed) > 1:
        return f", replacing {listed([str(entry.version) for entry in removed])}"
    old = removed[0]
    words = f", replacing {'the newer ' if old.version > pin.version else ''}{old.version}"
    return words if old.label == pin.label else f"{words} ({old.label or _PLAIN})"


def _has_variants(pin: Pin) -> bool:
    """Return whether a package has variants, so that its choice needs an explanation."""
    return pin.label is not None or any(
        verdict.filename.label for verdict in pin.choice.selection.verdicts
    )


def _show_planned(report: ChangeReport, output: Output) -> None:
    """Print one table of all changes, and the sums."""
    planned = report.decision.planned
    if not planned:
        return
    removals = _removals_by_name(planned)
    by_name = {pin.name: pin for pin in planned.install}
    rows = []
    for name in by_size(report.sizes):
        pin, size = by_name[name], report.sizes[name]
        change = _replaced(pin, removals.pop(name, [])).removeprefix(", ") or "new"
        if pin.file.origin is not None:
            change += f", to be built from {pin.file.origin.name}"
        reason = f"; {pin.reason}" if _has_variants(pin) else ""
        sizes = (_download(pin, size), size_words(size.unpacked))
        rows.append((pin.name, pin.shown_version, pin.label or "", *sizes, change + reason))
    remaining = list(chain.from_iterable(removals.values()))
    for entry in remaining:
        change = f"to be removed{_why_removed(entry, planned)}"
        rows.append((entry.name, str(entry.version), entry.label or "", "", "", change))
    if output.verbosity > 0:
        rows += [
            (entry.name, str(entry.version), entry.label or "", "", "", "kept")
            for entry in planned.keep
        ]
    titles = ("Package", "Version", "Variant", "Download", "On disk", "Change")
    for line in columns(titles, rows, output.width):
        output.report(line)
    output.report(_summary_line(report, len(by_name), len(remaining)))


def _summary_line(report: ChangeReport, installs: int, removals: int) -> str:
    """Return the last line of a dry run: how much would change, and the sizes."""
    verbs = (("install", installs), ("remove", removals))
    words = [f"{verb} {count_of(count, 'package')}" for verb, count in verbs if count]
    line = f"Would {' and '.join(words)}"
    if not installs:
        return line
    download = _total([size.download for size in report.sizes.values()])
    disk = _total([size.unpacked for size in report.sizes.values()])
    return f"{line}: {download} to download, {disk} on disk"


def _total(sizes: list[int | None]) -> str:
    known = [size for size in sizes if size is not None]
    return size_in_words(sum(known)) + (" or more" if len(known) < len(sizes) else "")


def show_uninstalled(report: UninstallReport, output: Output) -> None:
    """Print the removed packages, and the requirements that this breaks."""
    for note in report.uninstalled.notes:
        output.note(f"note: {note}")
    for broken in report.uninstalled.broken_requirements:
        output.warn(str(broken))
    verb = "would remove" if report.dry_run else "removed"
    for package in report.uninstalled.removed:
        output.report(f"{verb} {package}")


def show_created(report: VenvReport, output: Output) -> None:
    """Print the created environment, and the command to activate it."""
    import shlex

    output.report(
        f"Created a virtual environment with Python {report.python_version} at {report.path}"
    )
    activate = str(Path(report.python).parent / "activate")
    output.note(
        f"activate it with: {activate}"
        if sys.platform == "win32"
        else f"activate it with: source {shlex.quote(activate)}"
    )


def show_recovered(report: RecoverReport, output: Output) -> None:
    """Print the outcome of the recovery."""
    output.report("no change was interrupted" if report.change is None else str(report.change))
    for note in report.notes:
        output.note(f"note: {note}")


def _download(pin: Pin, size: FileSize) -> str:
    if size.is_on_disk:
        return "local" if pin.file.is_local else "cached"
    return size_words(size.file)
