"""Checks of the names of archive members.

A name that leads out of the archive, that tools read differently, or that occurs twice is refused
on every system, before a member is read. A name that only Windows refuses, or that is a duplicate
only where the file system ignores case, is a fault only if the target is such a system.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


# Most names: of letters, digits, ``_``, ``+`` and ``-``, with single dots. They need no other check
# but for their length. The lookahead excludes parts that may be devices of Windows, as ``con`` or
# ``lpt1``: three letters, the first two as in a device, with or without a digit.
_PLAIN = pattern(
    r"(?:(?![CPANLcpanl][ORUPorup]\w[1-9]?(?:[./]|$))[\w+-]++(?:\.[\w+-]++)*+(?:/|$))++", re.ASCII
)
_CONTROL = pattern(r"[\x00-\x1f\x7f-\x9f]")
# A device of Windows with any extension; there, superscript digits count as digits.
_DEVICE = pattern(
    r"(?:^|/)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[1-9¹²³]) *(?:[./]|$)", re.IGNORECASE
)
_FORBIDDEN_ON_WINDOWS = pattern(r'[<>"|?*]')
_TRAILING_DOT_OR_SPACE = pattern(r"[. ](?:/|$)")
# Unicode categories of formatting marks, line and paragraph separators, and surrogates.
_INVISIBLE = frozenset({"Cf", "Zl", "Zp", "Cs"})
_SUSPICIOUS = ("\\", "//", "/./", "/../")
_MAX_PART = 255  # bytes of a file name, on almost every file system
_MAX_PATH = 1024


def path_fault(name: str) -> str | None:
    """Return the reason a member name is refused on every system; None if it is accepted.

    >>> path_fault("package/../../evil.py")
    "'package/../../evil.py' leads out of the wheel"
    >>> path_fault("package/aux.py") is None
    True

    :param name: as the archive spells it; a folder ends with ``/``.
    """
    if len(name) <= _MAX_PART and _PLAIN.fullmatch(name):
        return None
    if not name:
        return "a member has no name"
    if _CONTROL.search(name):
        return f"{name!r} contains a control character"
    if not name.isascii() and any(unicodedata.category(letter) in _INVISIBLE for letter in name):
        return f"{name!a} contains an invisible character"
    if "\\" in name:
        return f"{name!r} contains a backslash"
    if name.startswith("/"):
        return f"{name!r} is an absolute path"
    parts = name.removesuffix("/").split("/")
    if ".." in parts:
        return f"{name!r} leads out of the wheel"
    if "" in parts or "." in parts:
        return f"{name!r} is not a normalized path"
    longest_part = max(len(part.encode()) for part in parts)
    if longest_part > _MAX_PART or len(name.encode()) > _MAX_PATH:
        return f"{name[:80]!r}… is longer than some file systems allow"
    return None


def first_path_fault(names: Sequence[str]) -> str | None:
    """Return the first reason a member name is refused on every system; None if all are accepted.

    :param names: as for `path_fault`.
    """
    # Searching thousands of names together takes a twentieth of the time of one after the other.
    together = "/".join(["", *[name.removesuffix("/") for name in names], ""])
    if (
        together.isascii()
        and together.isprintable()
        and not any(part in together for part in _SUSPICIOUS)
        and max(map(len, names), default=0) <= _MAX_PART
    ):
        return None
    return next((fault for name in names if (fault := path_fault(name)) is not None), None)


def windows_fault(name: str) -> str | None:
    """Return the reason a member name is refused on Windows; None if it is accepted.

    >>> windows_fault("package/aux.py")
    "'package/aux.py' has the name of a device on Windows"

    :param name: one without `path_fault`.
    """
    if _PLAIN.fullmatch(name):
        return None
    if ":" in name:
        return f"{name!r} contains a colon, which names a drive or data stream on Windows"
    if _FORBIDDEN_ON_WINDOWS.search(name):
        return f"{name!r} contains a character that no file name has on Windows"
    if _TRAILING_DOT_OR_SPACE.search(name):
        return f"{name!r} has a part that ends with a dot or a space, which Windows removes"
    if _DEVICE.search(name):
        return f"{name!r} has the name of a device on Windows"
    return None


def collision_faults(names: Iterable[str]) -> tuple[str, ...]:
    """Return the faults of names that collide on every system.

    These are names that occur twice, and files that are also the folder of another member.

    >>> collision_faults(["a", "a/b.py"])
    ("'a' is a file and also the folder of 'a/b.py'",)
    """
    return _collisions(names, str)


def target_faults(
    names: Iterable[str], *, is_windows: bool = False, ignores_case: bool = False
) -> tuple[str, ...]:
    """Return the faults of member names on the target system.

    >>> target_faults(["a.py", "A.py"], ignores_case=True)
    ("'A.py' and 'a.py' are one file on systems that ignore case",)

    :param names: all names of the archive, in its order; without faults of `path_fault` and
        `collision_faults`.
    :param is_windows: whether the target is Windows, which also ignores case.
    :param ignores_case: whether names that are equal after Unicode normalisation and case
        folding are one file on the target.
    """
    names = tuple(names)
    faults: tuple[str, ...] = ()
    if is_windows:
        faults = tuple(fault for name in names if (fault := windows_fault(name)) is not None)
    if is_windows or ignores_case:
        faults += _collisions(names, fold_name)
    return faults


def _collisions(names: Iterable[str], fold: Callable[[str], str]) -> tuple[str, ...]:
    """Return the collisions of names after folding.

    :param fold: returns the same text for names that are one file.
    """
    faults = []
    names_by_fold: dict[str, str] = {}  # names by folded name
    folders: dict[str, str] = {}  # a member of each folder, by folded name of the folder
    for name in names:
        folded = fold(name.removesuffix("/"))
        if (other := names_by_fold.get(folded)) is None:
            names_by_fold[folded] = name
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
        for folded, name in names_by_fold.items()
        if folded in folders and not name.endswith("/")
    ]
    return tuple(faults)


def fold_name(name: str) -> str:
    """Return one spelling for all names of a file on file systems that ignore case."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
