"""Bounds on Python from the symbols that an extension module uses (B-61).

The table of the stable ABI has the first Python with each function, so no Python is fetched. Other
functions belong to the Python that the module was compiled for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from wheelfit.building.abi.bounds import Bounds, ReleaseVerdict, bounds_of_interface
from wheelfit.checking.findings import listed_briefly
from wheelfit.checking.wheels.stable_abi import stable_since
from wheelfit.core.abi_exports import AbiExports
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import NeedsExtra
from wheelfit.wheels.binaries.reading import binary_files, python_symbols
from wheelfit_runtime.errors import FileProblem
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.specifiers import SpecifierSet


PYTHON = "python"
_FIRST_STABLE = 2
"""The minor of the first Python with a stable ABI."""
_FIRST_FREE_THREADED = 15
"""The minor of the first Python with the stable ABI ``abi3t`` (PEP 803)."""
_TAG = pattern(r"cp3(\d+)")


def python_bounds(consumer: Path, specifier: SpecifierSet) -> Bounds:
    """Return the Pythons that an extension module works with, as bounds.

    :param consumer: a wheel, or a single module.
    :param specifier: the Pythons to consider, by their first two numbers.
    :raises FileProblem: it cannot be read, or has no extension module for ELF.
    :raises NeedsExtra: the table of the stable ABI is not installed.
    """
    since = stable_since()
    if since is None:
        raise NeedsExtra("build", "abi3info")
    symbols = _python_symbols(consumer)
    tags = _tags(consumer)
    unstable = sorted(symbol for symbol in symbols if symbol not in since)
    compiled_for = frozenset(minor for abi, minor in tags if not abi.startswith("abi3"))
    first = _FIRST_FREE_THREADED if any(abi == "abi3t" for abi, _ in tags) else _FIRST_STABLE
    verdicts = (
        _verdict(minor, symbols, since, compiled_for)
        for minor in range(first, max(since.values()) + 1)
        if specifier.contains(f"3.{minor}", prereleases=True)
    )
    interface = f"{count_of(len(symbols), 'symbol')} of Python"
    oldest = max(first, *(since.get(symbol, 0) for symbol in symbols))
    notes = _notes(oldest, unstable, is_exact=bool(compiled_for))
    return bounds_of_interface(interface, symbols, verdicts, AbiExports(), notes)


def _python_symbols(consumer: Path) -> list[str]:
    symbols = {symbol for _, file in binary_files(consumer) for symbol in python_symbols(file)}
    if not symbols:
        raise FileProblem("no Python extension module in it can be read", where=str(consumer))
    return sorted(symbols)


def _tags(consumer: Path) -> frozenset[tuple[str, int]]:
    """Return ABI and minor of the tags of a wheel for CPython; none for a single module."""
    if consumer.suffix != ".whl":
        return frozenset()
    return frozenset(
        (tag.abi, int(match[1]))
        for tag in parse_wheel_filename(consumer.name).tags
        if (match := _TAG.fullmatch(tag.interpreter)) is not None
    )


def _verdict(
    minor: int, symbols: Sequence[str], since: Mapping[str, int], compiled_for: frozenset[int]
) -> ReleaseVerdict:
    version = Version(f"3.{minor}")
    if compiled_for:
        versions = listed([f"3.{compiled_minor}" for compiled_minor in sorted(compiled_for)])
        refusal = "" if minor in compiled_for else f"it was compiled for {versions} alone"
        return ReleaseVerdict(version, PYTHON, refusal=refusal)
    missing = tuple(symbol for symbol in symbols if since.get(symbol, 0) > minor)
    return ReleaseVerdict(version, PYTHON, (), missing)


def _notes(oldest: int, unstable: Sequence[str], *, is_exact: bool) -> Iterator[str]:
    """Yield the conclusions, and the limits of symbols as evidence.

    :param oldest: the minor of the first Python whose stable ABI has all other symbols.
    """
    examples = listed_briefly(unstable)
    if unstable and is_exact:
        yield f"the stable ABI lacks {examples}: without them the tag could be cp3{oldest}-abi3"
    elif unstable:
        yield f"the stable ABI lacks {examples}: the Pythons that have them are unknown"
    elif is_exact:
        yield (
            "all symbols are in the stable ABI: built with Py_LIMITED_API it could have the tag "
            f"cp3{oldest}-abi3"
        )
    yield "macros and fields of structures leave no symbols, so they were not checked"
    yield (
        "free-threaded Pythons load it only if it was built for them, or for abi3t of Python "
        f"3.{_FIRST_FREE_THREADED}, which symbols do not show"
    )
