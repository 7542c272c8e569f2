"""Write a wheel of a few pure Python modules, without a build backend."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.wheels.record import RecordRow, format_record, row_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_DATE = (2026, 1, 1, 0, 0, 0)


def write_plain_wheel(folder: Path, name: str, version: str, modules: Mapping[str, str]) -> Path:
    """Write a ``py3-none-any`` wheel and return its path; equal arguments give equal bytes."""
    stem = f"{canonicalize_name(name).replace('-', '_')}-{Version(version)}"
    dist_info = f"{stem}.dist-info"
    members = {path: text.encode() for path, text in modules.items()}
    members[f"{dist_info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    )
    members[f"{dist_info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: wheelfit\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = f"{dist_info}/RECORD"
    rows = [row_for(path, content) for path, content in members.items()]
    members[record] = format_record([*rows, RecordRow(record)])
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            entry = zipfile.ZipInfo(member, _DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return path
