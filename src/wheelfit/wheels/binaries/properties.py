"""Which properties a wheel may claim by what its binaries are (P-90 to P-93, P-102)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.properties import Property, PropertySet
from wheelfit.values import dataclass
from wheelfit.wheels.binaries.facts import ANY_SUFFIX, CodeKind
from wheelfit.wheels.binaries.gpus import cuda_majors, cuda_of_ptx, unserved
from wheelfit.wheels.binaries.levels import LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.platforms.facts import Capability
    from wheelfit.wheels.binaries.facts import Binaries, Binary, DeviceCode

__all__ = ["FoundProperties", "properties_of"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class FoundProperties:
    """Hold what the binaries of a wheel say of its properties."""

    properties: PropertySet
    notes: tuple[str, ...]
    """What they leave open, one sentence each, without a final full stop."""


def properties_of(binaries: Binaries, *, ptx: bool = True) -> FoundProperties:
    """Return the properties that the binaries of a wheel show.

    A value of ``sm_arch`` is among them if every binary that has code for GPUs has some that the
    GPUs of that value run.

    :param binaries: of the wheel.
    :param ptx: count code that the driver compiles, which needs a driver at least as new as the
        compiler (P-93).
    """
    notes: list[str] = []
    found = [*_level(binaries, notes), *_nvidia(binaries, notes, ptx=ptx)]
    notes += [f"{one.member}: {fault}" for one in binaries for fault in one.faults]
    return FoundProperties(PropertySet(found), tuple(dict.fromkeys(notes)))


def _level(binaries: Binaries, notes: list[str]) -> Iterator[Property]:
    """Yield the level that the loader asks for (P-102)."""
    native = [one for one in binaries if "x86_64" in one.machines]
    levels = {one.levels.needed for one in native} - {None}
    highest = max((LEVELS.index(level) for level in levels if level is not None), default=0)
    if highest:
        yield Property("x86_64", "level", LEVELS[highest])
    elif native and not levels:
        notes.append(
            "no binary says which x86-64 level it needs (the linker option -z x86-64-v3 makes it)"
        )


def _nvidia(binaries: Binaries, notes: list[str], *, ptx: bool) -> Iterator[Property]:
    carriers = binaries.with_code
    majors = {
        one.member: found for one in binaries if (found := cuda_majors(one.needed)) != frozenset()
    }
    values = sorted({value for one in carriers for value in _candidates(one, ptx=ptx)})
    shared = []
    for value in values:
        lacking = [one.member for one in carriers if unserved(value, one.code) != ()]
        if lacking:
            notes.append(f"{value} is left out, because {_first(lacking)} has no code for it")
        else:
            shared.append(value)
    yield from (Property("nvidia", "sm_arch", value) for value in shared)
    relied = [value for value in shared if value.endswith("_virtual")]
    bound = _bound(binaries, majors, relied, notes)
    if bound is not None:
        yield Property("nvidia", "cuda_version_lower_bound", bound)


def _candidates(binary: Binary, *, ptx: bool) -> Iterator[str]:
    """Yield values that a binary may stand for, also the plain ones of special code."""
    for code in binary.code:
        if code.kind is CodeKind.PTX and not ptx:
            continue
        if code.suffix == ANY_SUFFIX:
            yield from code.values[:1]
            continue
        yield from code.values
        if code.kind is CodeKind.MACHINE and code.suffix:
            plain = f"{code.number}_real"
            if unserved(plain, (code,)) == ():  # tools that know no families find it by this
                yield plain


def _bound(
    binaries: Binaries,
    majors: dict[str, frozenset[int]],
    relied: list[str],
    notes: list[str],
) -> str | None:
    """Return the lower bound of the driver (P-93)."""
    found = sorted({major for several in majors.values() for major in several})
    if len(found) > 1:
        notes.append(
            f"there are binaries for CUDA {' and '.join(map(str, found))}, so no lower bound of "
            "the driver is said"
        )
        return None
    exact = _cuda_of(binaries, relied, notes) if relied else None
    if exact is not None and (not found or exact.major >= found[0]):
        return f"{exact.major}.{exact.minor}"
    if found:
        return f"{found[0]}.0"
    if binaries.code:
        notes.append(
            "no binary loads a runtime library of CUDA, so its version is not known; it may be "
            "linked statically"
        )
    return None


def _cuda_of(binaries: Binaries, relied: list[str], notes: list[str]) -> Capability | None:
    """Return the first CUDA version whose driver compiles what the values rely on (P-91)."""
    texts: list[DeviceCode] = [
        code
        for code in binaries.code
        if code.kind is CodeKind.PTX and not set(code.values).isdisjoint(relied)
    ]
    newest = max((code.version for code in texts if code.version is not None), default=None)
    if newest is None:
        return None
    cuda = cuda_of_ptx(newest)
    version = f"{newest[0]}.{newest[1]}"
    if cuda is None:
        notes.append(f"which driver understands PTX {version} is not known")
        return None
    notes.append(
        f"PTX {version} needs a driver for CUDA {cuda.major}.{cuda.minor}; without the values "
        f"{', '.join(relied)} a driver for {cuda.major}.0 would do"
    )
    return cuda


def _first(members: list[str]) -> str:
    return members[0] if len(members) == 1 else f"{members[0]} (and {len(members) - 1} more)"
