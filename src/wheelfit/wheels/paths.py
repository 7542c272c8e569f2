"""Which names of archive members are safe on every system.

A name that escapes, that two systems read differently, or that falls together
with another one is refused before anything is read through it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable


# No part of which could be a device; most names are like this.
_PLAIN = pattern(
    r"(?:(?![CPANLcpanl][ORUPorup]\w[1-9]?(?:[./]|$))[\w+-]++(?:\.[\w+-]++)*+(?:/|$))++", re.ASCII
)
_DRIVE = pattern(r"[A-Za-z]:")
_CONTROL = pattern(r"[\x00-\x1f\x7f-\x9f]")
# With or without an extension; the superscript digits count as digits.
_DEVICE = pattern(
    r"(?:^|/)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[1-9¹²³]) *(?:[./]|$)", re.IGNORECASE
)
_LEFT_OUT = pattern(r"[. ](?:/|$)")
# Marks that change the direction of a text, letters without width, and their like.
_UNSEEN = frozenset({"Cf", "Zl", "Zp", "Cs"})
_LONGEST_PART = 255  # bytes of a name in a folder, almost everywhere
_LONGEST_PATH = 1024


def path_fault(name: str) -> str | None:
    """Say why a member may not have this name; None if it may.

    >>> path_fault("package/../../evil.py")
    "'package/../../evil.py' leads out of the wheel"
    >>> path_fault("package/module.py") is None
    True

    :param name: as the archive spells it; a folder ends with ``/``.
    """
    if len(name) <= _LONGEST_PART and _PLAIN.fullmatch(name):
        return None
    if not name:
        return "a member has no name"
    if _CONTROL.search(name):
        return f"{name!r} contains a control character"
    if not name.isascii() and any(unicodedata.category(letter) in _UNSEEN for letter in name):
        return f"{name!a} contains a character that is not shown"
    if "\\" in name:
        return f"{name!r} contains a backslash"
    if name.startswith("/") or _DRIVE.match(name):
        return f"{name!r} is an absolute path"
    parts = name.removesuffix("/").split("/")
    if ".." in parts:
        return f"{name!r} leads out of the wheel"
    if "" in parts or "." in parts:
        return f"{name!r} is not in its simplest form"
    if max(len(part.encode()) for part in parts) > _LONGEST_PART or len(name.encode()) > (
        _LONGEST_PATH
    ):
        return f"{name[:80]!r}… is longer than some file systems allow"
    if ":" in name:
        return f"{name!r} contains a colon, which leads to another file on Windows"
    if _LEFT_OUT.search(name):
        return f"{name!r} has a part that ends with a dot or a space, which Windows leaves out"
    if _DEVICE.search(name):
        return f"{name!r} has the name of a device on Windows"
    return None


def collision_faults(names: Iterable[str]) -> tuple[str, ...]:
    """Say which names cannot lie beside each other in every file system.

    Names that are equal, or equal after Unicode normalisation and case folding,
    and files that are also the folder of another member.

    >>> collision_faults(["a.py", "A.py"])
    ("'A.py' and 'a.py' are one file on systems that ignore case",)

    :param names: all names of the archive, in its order.
    """
    faults = []
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name in names:
        folded = _fold(name.removesuffix("/"))
        if (other := seen.get(folded)) is None:
            seen[folded] = name
        elif other == name:
            faults.append(f"{name!r} is there twice")
        else:
            faults.append(f"{name!r} and {other!r} are one file on systems that ignore case")
        folder = folded if name.endswith("/") else folded.rpartition("/")[0]
        while folder and folder not in folders:
            folders[folder] = name
            folder = folder.rpartition("/")[0]
    faults += [
        f"{name!r} is a file and also the folder of {folders[folded]!r}"
        for folded, name in seen.items()
        if folded in folders and not name.endswith("/")
    ]
    return tuple(faults)


def _fold(name: str) -> str:
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
