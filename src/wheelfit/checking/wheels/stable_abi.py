"""Checks of modules for Python's stable ABI; the one importer of abi3info."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import some_of
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit.checking.findings import CheckedFile, Finding
    from wheelfit.core.filename import WheelFilename
    from wheelfit.wheels.binaries.facts import Binaries

_STABLE = frozenset(["abi3", "abi3t"])
_CPYTHON = pattern(r"cp3(\d+)")


def oldest_stable(name: WheelFilename) -> int | None:
    """Return the minor of the oldest Python 3 whose stable ABI a wheel is for; None: for none."""
    found = [
        match
        for tag in name.tags
        if tag.abi in _STABLE and (match := _CPYTHON.fullmatch(tag.interpreter)) is not None
    ]
    return min((int(match[1]) for match in found), default=None)


def stable_abi_findings(
    binaries: Binaries, name: WheelFilename, place: CheckedFile
) -> Iterator[Finding]:
    """Yield symbols outside of Python's stable ABI, or newer than the tag (PEP 384, F-15).

    Without abi3info, of the extra ``build``, they are not checked.
    """
    oldest = oldest_stable(name)
    known = None if oldest is None else stable_since()
    if oldest is None or known is None:
        return
    wanted: dict[str, str] = {}
    for binary in binaries:
        for symbol in binary.python_symbols:
            wanted.setdefault(symbol, binary.member)
    outside = sorted(symbol for symbol in wanted if symbol not in known)
    if outside:
        message = f"{wanted[outside[0]]} uses {some_of(outside)}, which no stable ABI has"
        yield place.found(checks.OUTSIDE_STABLE_ABI, message)
    newer = sorted(symbol for symbol in wanted if known.get(symbol, 0) > oldest)
    if newer:
        since = max(known[symbol] for symbol in newer)
        message = (
            f"{wanted[newer[0]]} uses {some_of(newer)}, and the stable ABI has that since Python "
            f"3.{since}; the tag admits 3.{oldest}"
        )
        yield place.found(checks.OUTSIDE_STABLE_ABI, message)


def stable_since() -> Mapping[str, int] | None:
    """Return since which Python 3 the stable ABI has each symbol; None: that is not installed."""
    try:
        import abi3info
    except ImportError:
        return None
    tables = (abi3info.FUNCTIONS, abi3info.DATAS)
    return {key.name: entry.added.minor for table in tables for key, entry in table.items()}
