"""Which licence files metadata promises (PEP 639)."""

from __future__ import annotations

from wheelfit.core.core_metadata import read_metadata
from wheelfit.wheels.dist_info import header_value
from wheelfit_runtime.errors import InvalidWheel

_FIRST = (2, 4)
"""The first version of metadata whose ``License-File`` says where the file is."""


def license_files(metadata: bytes) -> tuple[str, ...]:
    r"""Return the paths of licences that must be there; before version 2.4 nobody knew where.

    >>> license_files(b"Metadata-Version: 2.4\\nName: x\\nVersion: 1\\nLicense-File: LICENSE\\n")
    ('LICENSE',)
    """
    version = header_value(metadata, "Metadata-Version") or ""
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()) or (int(major), int(minor)) < _FIRST:
        return ()
    try:
        return read_metadata(metadata, "").license.files
    except InvalidWheel:
        return ()  # which others find
