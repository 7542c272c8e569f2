"""Read which ROCm is installed, from the file that it brings along (P-124)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.system_view import SystemView

FOLDER = "/opt/rocm"
"""Where it is installed unless somebody chose another place."""

_FILE = ".info/version"
# Compiled where they are needed: most machines have nothing to match.
_VERSION = r"([0-9]{1,4})\.([0-9]{1,4})(?![0-9])"
_NUMBERED = r"rocm-([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?.*"


def read(surroundings: SystemView) -> tuple[tuple[str, str], ...]:
    """Return path and text of the files that say a release, the one that counts first."""
    found = []
    for folder in folders(surroundings):
        text = surroundings.read_text(f"{folder}/{_FILE}")
        if text is not None:
            found.append((f"{folder}/{_FILE}", text))
    return tuple(found)


def folders(surroundings: SystemView) -> tuple[str, ...]:
    """Return where ROCm may be: where ``ROCM_PATH`` says, at its place, the newest beside it."""
    named = surroundings.environ.get("ROCM_PATH", "").replace("\\", "/").rstrip("/")
    numbered = [
        match
        for name in surroundings.children("/opt")
        if name.startswith("rocm-") and (match := re.fullmatch(_NUMBERED, name))
    ]
    newest = sorted(
        numbered, key=lambda match: [int(number or 0) for number in match.groups()], reverse=True
    )
    places = (named, FOLDER, *(f"/opt/{match[0]}" for match in newest))
    return tuple(dict.fromkeys(place for place in places if place))


def parse(text: str) -> tuple[int, int] | None:
    """Return major and minor of a release, or None when the text says none.

    :param text: as ``6.4.1-83`` or ``7.0.0``; what follows the minor does not matter.

    >>> parse("6.4.1-83"), parse("7.10"), parse("unknown")
    ((6, 4), (7, 10), None)
    """
    match = re.match(_VERSION, text.strip())
    return (int(match[1]), int(match[2])) if match else None
