"""Show what is installed in an environment, with the label of each variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.installing import LIST

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.install.installed import Installed


OPTIONS = (LIST, ENVIRONMENT)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """List what is installed."""
    from wheelfit.cli.columns import columns
    from wheelfit.operations.environments import open_environment_of

    environment = open_environment_of(arguments, environ)
    scan = environment.scan()
    packages = [entry for entry in scan.installed if entry.label or not arguments.variants]
    output.result_json(
        {
            "version": 1,
            "environment": environment.name,
            "packages": [_mapping(entry) for entry in packages],
        }
    )
    rows = [
        (entry.name, str(entry.version), entry.label or "", _remark(entry)) for entry in packages
    ]
    for line in columns(("Package", "Version", "Variant", "Remark"), rows):
        output.result(line)
    for broken in scan.broken:
        output.warn(f"{broken.path}: {broken.reason}")
    for entry in packages:
        for note in entry.notes:
            output.detail(f"{entry}: {note}")
    return 0


def _mapping(entry: Installed) -> dict[str, object]:
    return {
        "name": entry.name,
        "version": str(entry.version),
        "label": entry.label,
        "properties": [str(one) for one in entry.properties],
        "requested": entry.requested,
        "installer": entry.installer or None,
        "editable": entry.editable,
        "location": str(entry.location),
        "project": _project(entry),
    }


def _project(entry: Installed) -> str | None:
    """Return where the source tree of an editable installation lies (PEP 610)."""
    from wheelfit.sources.urls import file_path

    url = "" if entry.direct_url is None else str(entry.direct_url.get("url", ""))
    if not entry.editable or not url.startswith("file:"):
        return None
    try:
        return file_path(url)
    except ValueError:
        return None


def _editable(entry: Installed) -> str:
    place = _project(entry)
    return f"editable: {place}" if place else "editable"


def _remark(entry: Installed) -> str:
    remarks = {
        _editable(entry): entry.editable,
        "outside this environment": entry.outside,
        "legacy": entry.legacy and not entry.editable,
    }
    return ", ".join(remark for remark, holds in remarks.items() if holds)
