"""The packages of an environment, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.installed import project_folder
from wheelfit.operations.text import columns

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.installation.installed import Installed
    from wheelfit.operations.installed import InstalledReport


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


def _remark(entry: Installed) -> str:
    place = project_folder(entry)
    remarks = {
        f"editable: {place}" if place else "editable": entry.editable,
        "outside this environment": entry.outside,
        "legacy": entry.legacy and not entry.editable,
    }
    return ", ".join(remark for remark, holds in remarks.items() if holds)
