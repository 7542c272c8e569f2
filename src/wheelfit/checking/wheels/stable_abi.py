"""Checks of modules for Python's stable ABI; only this module imports abi3info."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import Finding, Location, listed_briefly
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit.core.filename import WheelFilename
    from wheelfit.wheels.binaries.facts import Binaries

_STABLE = frozenset(["abi3", "abi3t"])
_CPYTHON_3 = pattern(r"cp3(\d+)")


def oldest_stable(name: WheelFilename) -> int | None:
    """Return the minor version of the oldest Python whose stable ABI a wheel is for.

    :return: None if the wheel is not for the stable ABI.
    """
    interpreters = (tag.interpreter for tag in name.tags if tag.abi in _STABLE)
    matches = map(_CPYTHON_3.fullmatch, interpreters)
    return min((int(match[1]) for match in matches if match), default=None)


def stable_abi_findings(
    binaries: Binaries, name: WheelFilename, location: Location
) -> Iterator[Finding]:
    """Yield findings about symbols outside of the stable ABI, or newer than the tag (F-15).

    Symbols are not checked without abi3info, which the extra ``build`` installs (PEP 384).
    """
    oldest = oldest_stable(name)
    since = None if oldest is None else stable_since()
    if oldest is None or since is None:
        return
    used_by: dict[str, str] = {}
    for binary in binaries:
        for symbol in binary.python_symbols:
            used_by.setdefault(symbol, binary.member)
    outside = sorted(symbol for symbol in used_by if symbol not in since)
    if outside:
        symbols = listed_briefly(outside)
        message = f"{used_by[outside[0]]} uses symbols outside of the stable ABI: {symbols}"
        yield location.finding(checks.OUTSIDE_STABLE_ABI, message)
    newer = sorted(symbol for symbol in used_by if since.get(symbol, 0) > oldest)
    if newer:
        newest = max(since[symbol] for symbol in newer)
        message = (
            f"{used_by[newer[0]]} uses symbols of the stable ABI of Python 3.{newest} "
            f"({listed_briefly(newer)}); the tag allows 3.{oldest}"
        )
        yield location.finding(checks.OUTSIDE_STABLE_ABI, message)


def stable_since() -> Mapping[str, int] | None:
    """Return the minor version of Python 3 that added each symbol to the stable ABI.

    :return: None if abi3info is not installed.
    """
    try:
        import abi3info
    except ImportError:
        return None
    tables = (abi3info.FUNCTIONS, abi3info.DATAS)
    return {key.name: entry.added.minor for table in tables for key, entry in table.items()}
