"""Which names of archive members are refused everywhere, and which on some systems only.

A name that escapes, that readers understand differently, or that stands twice is refused before
anything is read through it. What only Windows cannot have, or only a file system that ignores
case, is no fault elsewhere: it is refused where such a system is the target.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


# No part of which could be a device; most names are like this.
_PLAIN = pattern(
    r"(?:(?![CPANLcpanl][ORUPorup]\w[1-9]?(?:[./]|$))[\w+-]++(?:\.[\w+-]++)*+(?:/|$))++", re.ASCII
)
_CONTROL = pattern(r"[\x00-\x1f\x7f-\x9f]")
# With or without an extension; the superscript digits count as digits.
_DEVICE = pattern(
    r"(?:^|/)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[1-9¹²³]) *(?:[./]|$)", re.IGNORECASE
)
_LEFT_OUT = pattern(r"[. ](?:/|$)")
# Marks that change the direction of a text, letters without width, and their like.
_UNSEEN = frozenset({"Cf", "Zl", "Zp", "Cs"})
_SUSPICIOUS = ("\\", "//", "/./", "/../")
_LONGEST_PART = 255  # bytes of a name in a folder, almost everywhere
_LONGEST_PATH = 1024


def path_fault(name: str) -> str | None:
    """Return the reason no system may have a member of this name; None if some can.

    >>> path_fault("package/../../evil.py")
    "'package/../../evil.py' leads out of the wheel"
    >>> path_fault("package/aux.py") is None
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
    if name.startswith("/"):
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
    return None


def first_path_fault(names: Sequence[str]) -> str | None:
    """Return the first reason no system may have a member of one of these names, or None.

    :param names: as for `path_fault`.
    """
    # Searching thousands of names together takes a twentieth of the time of one after the other.
    together = "/".join(["", *[name.removesuffix("/") for name in names], ""])
    if (
        together.isascii()
        and together.isprintable()
        and not any(part in together for part in _SUSPICIOUS)
        and max(map(len, names), default=0) <= _LONGEST_PART
    ):
        return None
    return next((fault for name in names if (fault := path_fault(name)) is not None), None)


def windows_fault(name: str) -> str | None:
    """Return the reason Windows cannot have a member of this name; None if it can.

    >>> windows_fault("package/aux.py")
    "'package/aux.py' has the name of a device on Windows"

    :param name: one without `path_fault`.
    """
    if _PLAIN.fullmatch(name):
        return None
    if ":" in name:
        return f"{name!r} contains a colon, which leads to another file on Windows"
    if _LEFT_OUT.search(name):
        return f"{name!r} has a part that ends with a dot or a space, which Windows leaves out"
    if _DEVICE.search(name):
        return f"{name!r} has the name of a device on Windows"
    return None


def collision_faults(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that collide on some system.

    Names that are equal, and files that are also the folder of another member.

    >>> collision_faults(["a", "a/b.py"])
    ("'a' is a file and also the folder of 'a/b.py'",)
    """
    return _collisions(names, str)


def target_faults(
    names: Iterable[str], *, is_windows: bool = False, ignores_case: bool = False
) -> tuple[str, ...]:
    """Return the faults of an archive's names that only some systems have.

    >>> target_faults(["a.py", "A.py"], ignores_case=True)
    ("'A.py' and 'a.py' are one file on systems that ignore case",)

    :param names: all names of the archive, in its order; without faults of `path_fault` and
        `collision_faults`.
    :param is_windows: whether the files will lie on Windows, which ignores case as well.
    :param ignores_case: whether names that are equal after Unicode normalisation and case
        folding are one file there.
    """
    names = tuple(names)
    faults: tuple[str, ...] = ()
    if is_windows:
        faults = tuple(fault for name in names if (fault := windows_fault(name)) is not None)
    if is_windows or ignores_case:
        faults += _collisions(names, _fold)
    return faults


def _collisions(names: Iterable[str], fold: Callable[[str], str]) -> tuple[str, ...]:
    faults = []
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name in names:
        folded = fold(name.removesuffix("/"))
        if (other := seen.get(folded)) is None:
            seen[folded] = name
        elif other == name:
            faults.append(f"{name!r} exists twice")
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
