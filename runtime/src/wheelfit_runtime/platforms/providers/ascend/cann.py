"""Read which CANN toolkit is installed, from the files that it brings along (P-142, P-143)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.system_view import SystemView

_PLACES = ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann")
"""Where it is installed unless somebody chose another place; the second since 8.5."""

# Compiled where they are needed: most machines have nothing to match.
_INSTALLED = r"(?m)^version=(\S+)\s*$"
_RUNNING = r"(?m)^toolkit_running_version=\[(?:[^:\]]*:)?([^:\]]+)\]"


def read(surroundings: SystemView) -> tuple[tuple[str, str], ...]:
    """Return path and text of the files that say a version, the one that counts first."""
    named = surroundings.environ.get("ASCEND_TOOLKIT_HOME", "").rstrip("/")
    names = (
        f"{surroundings.architecture}-linux/ascend_toolkit_install.info",
        "version.cfg",
    )
    found = []
    for place in dict.fromkeys(place for place in (named, *_PLACES) if place):
        for name in names:
            text = surroundings.read_text(f"{place}/{name}")
            if text is not None:
                found.append((f"{place}/{name}", text))
    return tuple(found)


def parse(text: str) -> str | None:
    r"""Return the version that a file says, or None.

    >>> parse("package_name=Ascend-cann-toolkit\nversion=8.2.RC1\narch=aarch64")
    '8.2.RC1'
    >>> parse("# version: 1.0\ntoolkit_running_version=[7.6.0.1.220:8.0.0]")
    '8.0.0'
    """
    match = re.search(_INSTALLED, text) or re.search(_RUNNING, text)
    return match[1] if match else None
