"""Derive with which releases of torch something works, from its functions that it wants (B-61).

The stable C interface of torch is functions, as ``aoti_torch_get_dim``, which later releases keep.
The table of the release that brought each is made from torch's headers, in
``torch_interface.json``; `tests/building/abi/write_torch_interface.py` writes that file. So no
release is fetched.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from packaging.version import Version

from wheelfit.building.abi.bounds import (
    ReleaseVerdict,
    bounds_of_interface,
    consumer_of,
    name_of,
)
from wheelfit.checking.findings import some_of
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.building.abi.bounds import Bounds, Consumer
    from wheelfit.core.abi_exports import AbiExports
    from wheelfit.wheels.binaries.elf import Symbols

TORCH = "torch"
_STABLE = pattern(r"(?:aoti|torch)_\w+")
_UNSTABLE = pattern(r"_Z\w*?(?:3c10|2at|5torch|5caffe2)|THP")
"""C++ of torch, and the symbols of its bindings for Python beside the interface."""
_LIBRARIES = pattern(r"lib(?:torch|c10)(?:_\w+)?\.so")
_OF_CUDA = ("libtorch_cuda.so", "libc10_cuda.so")


@dataclass(frozen=True, slots=True)
class TorchInterface:
    """The functions of the stable C interface of torch."""

    oldest: Version
    """The oldest release in the table; the ages of its functions are unknown."""
    newest: Version
    since: Mapping[str, Version]
    """The release that brought a function."""
    until: Mapping[str, Version]
    """The release that dropped it, where one did."""


@cache
def torch_interface() -> TorchInterface:
    """Return the table of the interface."""
    table = json.loads(files(__package__).joinpath("torch_interface.json").read_bytes())

    def by_name(releases: Mapping[str, Sequence[str]]) -> dict[str, Version]:
        return {name: Version(one) for one, names in releases.items() for name in names}

    return TorchInterface(
        Version(table["oldest"]),
        Version(table["newest"]),
        by_name(table["since"]),
        by_name(table["until"]),
    )


@dataclass(frozen=True, slots=True)
class TorchUse:
    """The symbols of torch that a consumer wants."""

    stable: frozenset[str]
    """Functions of the stable interface, by the table."""
    unknown: frozenset[str]
    """Functions with names as those of the interface, which the table does not have."""
    unstable: frozenset[str]
    """The symbols that no release promises to keep."""

    @property
    def first(self) -> Version | None:
        """The first release with all used functions of the table; None: there are none."""
        since = torch_interface().since
        return max((since[name] for name in self.stable), default=None)

    def newest_of(self) -> list[str]:
        """Return the functions that the first release brought."""
        since, first = torch_interface().since, self.first
        return sorted(name for name in self.stable if since[name] == first)


def torch_use(symbols: Iterable[str]) -> TorchUse:
    """Sort the symbols of torch among those that are wanted."""
    names = frozenset(map(name_of, symbols))
    like = frozenset(name for name in names if _STABLE.fullmatch(name))
    stable = like & torch_interface().since.keys()
    unstable = frozenset(name for name in names if _UNSTABLE.match(name))
    return TorchUse(stable, like - stable, unstable)


def torch_notes(symbols: Iterable[str]) -> Iterator[str]:
    """Yield the bounds of torch's stable interface, and the symbols used beside it.

    >>> list(torch_notes(["torch_call_dispatcher"]))[0]
    '1 symbol of the stable C interface of torch needs torch 2.10.0 (torch_call_dispatcher)'
    """
    use = torch_use(symbols)
    if use.first is not None:
        count = count_of(len(use.stable), "symbol")
        needs = "needs" if len(use.stable) == 1 else "need"
        yield (
            f"{count} of the stable C interface of torch {needs} torch {use.first} "
            f"({some_of(use.newest_of())})"
        )
        if use.first == torch_interface().oldest:
            yield f"functions of torch {use.first} may be older: the table begins there"
    if use.unstable:
        count = count_of(len(use.unstable), "symbol")
        few = some_of(sorted(use.unstable))
        yield f"{count} of torch beside it no release promises to keep: {few}"
    if use.unknown:
        yield (
            f"the table of the interface, which ends with torch {torch_interface().newest}, has no "
            f"{some_of(sorted(use.unknown))}"
        )


def torch_bounds(
    members: Iterable[Symbols], releases: Iterable[tuple[Version, str]], exports: AbiExports
) -> Bounds | None:
    """Return the releases of torch that a consumer works with; no release is fetched.

    :param releases: version and file name, each version once, the oldest first.
    :return: None if it uses more of torch than the interface, or nothing of it.
    """
    consumer = consumer_of(members)
    use = torch_use(consumer.wanted)
    if use.unknown or use.unstable or use.first is None:
        return None
    verdicts = [_verdict(version, origin, use) for version, origin in releases]
    interface = f"{count_of(len(use.stable), 'symbol')} of the stable C interface of torch"
    notes = (*torch_notes(use.stable), *_reservations(consumer, verdicts))
    return bounds_of_interface(interface, sorted(use.stable), verdicts, exports, notes)


def _verdict(version: Version, origin: str, use: TorchUse) -> ReleaseVerdict:
    table = torch_interface()
    missing = [
        name
        for name in use.stable
        # Older releases may have some of the functions of the first release in the table.
        if version < table.since[name] > table.oldest or version >= table.until.get(name, _NEVER)
    ]
    undecided = ""
    if version < table.oldest and not missing:
        undecided = f"the table of functions begins with torch {table.oldest}"
    return ReleaseVerdict(version, origin, (), tuple(sorted(missing)), undecided=undecided)


_NEVER = Version("999999")


def _reservations(consumer: Consumer, verdicts: Sequence[ReleaseVerdict]) -> Iterator[str]:
    """Yield the limits of the table."""
    newest = torch_interface().newest
    if any(verdict.version > newest for verdict in verdicts):
        yield f"releases after torch {newest} are taken to keep the interface, as torch promises"
    if of_cuda := [name for name in _OF_CUDA if name in consumer.needed]:
        yield f"it loads {' and '.join(of_cuda)}, which builds of torch without CUDA lack"
    others = sorted(
        name
        for name in consumer.needed
        if name.startswith(("libtorch", "libc10")) and _LIBRARIES.fullmatch(name) is None
    )
    if others:
        yield f"whether torch has {some_of(others)} was not looked at"
    yield "what a function does with arguments that a newer release knows was not looked at"
