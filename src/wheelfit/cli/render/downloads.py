"""Downloads, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.text import size_words
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.download import DownloadReport


def show_downloaded(report: DownloadReport, output: Output) -> None:
    """Print the wheels of each machine, and the new files of the folder."""
    for target in report.targets:
        output.result(f"{target.name}:")
        for pin in target.pins:
            label = f" ({pin.label})" if pin.label else ""
            output.result(f"  {pin.name} {pin.version}{label}")
    if report.dry_run:
        return
    new = [file for file in report.files if file.is_new]
    size = size_words(sum(file.size for file in new))
    existing = len(report.files) - len(new)
    existing_note = f"; {count_of(existing, 'file')} already existed" if existing else ""
    output.result(f"wrote {count_of(len(new), 'file')} ({size}) to {report.folder}{existing_note}")
