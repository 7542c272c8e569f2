"""Bounds on torch from the functions of its stable C interface that a consumer uses (B-61).

Later releases of torch keep these functions, such as ``aoti_torch_get_dim``. The first release with
each function is in ``torch_interface.json``, which `tests/building/abi/write_torch_interface.py`
makes from torch's headers. So no release is fetched.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from packaging.version import Version

from wheelfit.building.abi.bounds import ReleaseVerdict, bounds_of_interface, consumer_of
from wheelfit.checking.findings import listed_briefly
from wheelfit.wheels.binaries.elf import name_of
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
"""Symbols of torch's C++ code and of its bindings for Python."""
_LIBRARIES = pattern(r"lib(?:torch|c10)(?:_\w+)?\.so")
_CUDA_LIBRARIES = ("libtorch_cuda.so", "libc10_cuda.so")


@dataclass(frozen=True, slots=True)
class TorchInterface:
    """The functions of the stable C interface of torch."""

    oldest: Version
    """The oldest release in the table; its functions may be older."""
    newest: Version
    since: Mapping[str, Version]
    """The first release with each function."""
    until: Mapping[str, Version]
    """The first release without it, for dropped functions."""


@cache
def torch_interface() -> TorchInterface:
    """Return the table of the interface."""
    table = json.loads(files(__package__).joinpath("torch_interface.json").read_bytes())

    def by_name(releases: Mapping[str, Sequence[str]]) -> dict[str, Version]:
        return {name: Version(release) for release, names in releases.items() for name in names}

    return TorchInterface(
        Version(table["oldest"]),
        Version(table["newest"]),
        by_name(table["since"]),
        by_name(table["until"]),
    )


@dataclass(frozen=True, slots=True)
class TorchUse:
    """The symbols of torch that a consumer uses."""

    stable: frozenset[str]
    """Functions in the table of the stable interface."""
    unknown: frozenset[str]
    """Functions that are named as those of the interface, and not in the table."""
    unstable: frozenset[str]
    """Symbols that are not part of the interface."""

    @property
    def first(self) -> Version | None:
        """The first release with all functions of `stable`; None if there are none."""
        since = torch_interface().since
        return max((since[name] for name in self.stable), default=None)

    def newest_functions(self) -> list[str]:
        """Return the functions that the release before `first` lacks."""
        since, first = torch_interface().since, self.first
        return sorted(name for name in self.stable if since[name] == first)


def torch_use(symbols: Iterable[str]) -> TorchUse:
    """Return the symbols of torch among those of a consumer."""
    names = frozenset(map(name_of, symbols))
    candidates = frozenset(name for name in names if _STABLE.fullmatch(name))
    stable = candidates & torch_interface().since.keys()
    unstable = frozenset(name for name in names if _UNSTABLE.match(name))
    return TorchUse(stable, candidates - stable, unstable)


def torch_notes(symbols: Iterable[str]) -> Iterator[str]:
    """Yield the bounds from torch's stable interface, and the symbols that are not part of it.

    >>> list(torch_notes(["torch_call_dispatcher"]))[0]
    '1 symbol of the stable C interface of torch needs torch 2.10.0 (torch_call_dispatcher)'
    """
    use = torch_use(symbols)
    if use.first is not None:
        count = count_of(len(use.stable), "symbol")
        needs = "needs" if len(use.stable) == 1 else "need"
        yield (
            f"{count} of the stable C interface of torch {needs} torch {use.first} "
            f"({listed_briefly(use.newest_functions())})"
        )
        if use.first == torch_interface().oldest:
            yield f"the table begins with torch {use.first}; older releases may have them too"
    if use.unstable:
        count = count_of(len(use.unstable), "symbol")
        examples = listed_briefly(sorted(use.unstable))
        yield f"{count} of torch outside of its stable interface may change: {examples}"
    if use.unknown:
        yield (
            f"the table of the interface, which ends with torch {torch_interface().newest}, has no "
            f"{listed_briefly(sorted(use.unknown))}"
        )


def torch_bounds(
    members: Iterable[Symbols], releases: Iterable[tuple[Version, str]], exports: AbiExports
) -> Bounds | None:
    """Return the releases of torch that a consumer works with; no release is fetched.

    :param releases: version and file name, each version once, the oldest first.
    :return: None if it uses more of torch than the interface, or nothing of it.
    """
    consumer = consumer_of(members)
    use = torch_use(consumer.symbols)
    if use.unknown or use.unstable or use.first is None:
        return None
    verdicts = [_verdict(version, origin, use) for version, origin in releases]
    interface = f"{count_of(len(use.stable), 'symbol')} of the stable C interface of torch"
    notes = (*torch_notes(use.stable), *_caveats(consumer, verdicts))
    return bounds_of_interface(interface, sorted(use.stable), verdicts, exports, notes)


def _verdict(version: Version, origin: str, use: TorchUse) -> ReleaseVerdict:
    table = torch_interface()

    def is_missing(name: str) -> bool:
        since, until = table.since[name], table.until.get(name)
        # Functions of the oldest release in the table may have been added before that release.
        is_first_release_known = since > table.oldest
        is_too_old = is_first_release_known and version < since
        return is_too_old or (until is not None and version >= until)

    missing = sorted(filter(is_missing, use.stable))
    undecided = ""
    if version < table.oldest and not missing:
        undecided = f"the table of functions begins with torch {table.oldest}"
    return ReleaseVerdict(version, origin, (), tuple(missing), undecided=undecided)


def _caveats(consumer: Consumer, verdicts: Sequence[ReleaseVerdict]) -> Iterator[str]:
    """Yield notes on what the verdicts assume or do not cover."""
    newest = torch_interface().newest
    if any(verdict.version > newest for verdict in verdicts):
        yield f"releases after torch {newest} are assumed to keep the interface, as torch promises"
    if cuda_libraries := [name for name in _CUDA_LIBRARIES if name in consumer.needed]:
        yield f"it loads {' and '.join(cuda_libraries)}, which builds of torch without CUDA lack"
    others = sorted(
        name
        for name in consumer.needed
        if name.startswith(("libtorch", "libc10")) and _LIBRARIES.fullmatch(name) is None
    )
    if others:
        yield f"whether torch has {listed_briefly(others)} was not checked"
    yield "arguments and behaviour of the functions were not checked"
