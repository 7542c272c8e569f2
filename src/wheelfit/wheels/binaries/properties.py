"""The properties that the binaries of a wheel imply (P-90 to P-93, P-102)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.core.properties import Property, PropertySet
from wheelfit.wheels.binaries.facts import ANY_SUFFIX, LEVELS, Binaries, Binary, CodeKind
from wheelfit.wheels.binaries.gpus import cuda_majors, cuda_of_ptx, has_code_for_value
from wheelfit.wheels.binaries.offload import values_of
from wheelfit.wheels.binaries.ptx import has_boards, refused_ptx
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class ImpliedProperties:
    """The properties that the binaries of a wheel imply."""

    properties: PropertySet
    notes: tuple[str, ...]
    """The reasons for unknown and excluded properties: sentences without a full stop."""


def properties_of(
    binaries: Binaries, *, ptx: bool = True, bound: Capability | None = None
) -> ImpliedProperties:
    """Return the properties that the binaries of a wheel imply.

    A value of ``sm_arch`` is implied if every binary with code for GPUs has code that runs on the
    GPUs of that value, with any driver that the lower bound admits.

    :param bound: the lower bound of the driver that the wheel will claim; None: the first
        release of the toolkit's major (P-92).
    """
    notes: list[str] = []
    properties = [
        *_level(binaries, notes),
        *_nvidia(binaries, notes, ptx=ptx, bound=bound),
        *_amd(binaries, notes),
    ]
    notes += [f"{binary.member}: {fault}" for binary in binaries for fault in binary.faults]
    return ImpliedProperties(PropertySet(properties), tuple(dict.fromkeys(notes)))


def _level(binaries: Binaries, notes: list[str]) -> Iterator[Property]:
    """Yield the level that the loader requires (P-102)."""
    native = [binary for binary in binaries if "x86_64" in binary.machines]
    levels = {level for binary in native if (level := binary.levels.needed) is not None}
    highest = max(map(LEVELS.index, levels), default=0)
    if highest:
        yield Property("x86_64", "level", LEVELS[highest])
    elif native and not levels:
        notes.append(
            "no binary states the x86-64 level it needs (the linker option -z x86-64-v3 adds it)"
        )


def _nvidia(
    binaries: Binaries, notes: list[str], *, ptx: bool, bound: Capability | None
) -> Iterator[Property]:
    """Yield the lower bound, and the NVIDIA GPUs for which every binary with GPU code has code."""
    with_code = binaries.with_code
    values = {value for binary in with_code for value in _candidate_values(binary, ptx=ptx)}
    shared = []
    for value in sorted(values):
        lacking = [
            binary.member for binary in with_code if not has_code_for_value(value, binary.code)
        ]
        if lacking:
            notes.append(
                f"{value} is left out, because {_first_and_count(lacking)} has no code for it"
            )
        else:
            shared.append(value)
    bound = bound or _bound(binaries, notes)
    if any(value.endswith("_real") for value in shared):
        shared = [value for value in shared if _is_compilable(value, binaries, bound, notes)]
    elif shared:
        bound = _bound_of_ptx(binaries, shared, bound, notes)
    yield from (Property("nvidia", "sm_arch", value) for value in shared)
    if bound is not None:
        yield Property("nvidia", "cuda_version_lower_bound", f"{bound.major}.{bound.minor}")


def _amd(binaries: Binaries, notes: list[str]) -> Iterator[Property]:
    """Yield the AMD GPUs for which every binary with code for AMD GPUs has code."""
    values_by_member = {
        binary.member: {value for target in binary.targets for value in values_of(target)}
        for binary in binaries.with_targets
    }
    for value in sorted(set().union(*values_by_member.values())):
        lacking = [member for member, values in values_by_member.items() if value not in values]
        if lacking:
            notes.append(
                f"{value} is left out, because {_first_and_count(lacking)} has no code for it"
            )
        else:
            yield Property("amd", "gfx_arch", value)


def _candidate_values(binary: Binary, *, ptx: bool) -> Iterator[str]:
    """Yield the values of ``sm_arch`` that a binary may imply.

    For machine code of one architecture or family (``90a_real``), the plain value (``90_real``) is
    yielded as well, if every GPU that supports ``90_real`` can run the code.

    :param ptx: whether values of PTX are included.
    """
    for code in binary.code:
        is_ptx = code.kind is CodeKind.PTX
        if is_ptx and not ptx:
            continue
        if is_ptx and code.suffix == "f":
            continue  # no GPU lists 100f_virtual
        if code.suffix == ANY_SUFFIX:
            yield from code.values[:1]  # plain: whether it is for "a" or "f" is unknown
            continue
        yield from code.values
        if code.kind is CodeKind.MACHINE and code.suffix:
            plain = f"{code.number}_real"
            if has_code_for_value(plain, (code,)):  # for installers that do not know families
                yield plain


def _bound(binaries: Binaries, notes: list[str]) -> Capability | None:
    """Return the lower bound of the driver: the first release of the toolkit's major (P-92).

    None if the toolkit is unknown; then the reason is added to the notes.
    """
    majors = sorted({major for binary in binaries for major in cuda_majors(binary.needed)})
    if len(majors) > 1:
        notes.append(
            f"there are binaries for CUDA {listed(map(str, majors))}, so the lower bound of the "
            "driver is unknown"
        )
        return None
    if majors:
        return Capability(majors[0], 0)
    toolkits = [
        cuda for version in _ptx_versions(binaries) if (cuda := cuda_of_ptx(version)) is not None
    ]
    if toolkits:  # the runtime library is linked statically
        return Capability(max(toolkits).major, 0)
    if binaries.code:
        notes.append(
            "no binary loads a runtime library of CUDA, so its version is not known; it may be "
            "linked statically"
        )
    return None


def _is_compilable(
    value: str, binaries: Binaries, bound: Capability | None, notes: list[str]
) -> bool:
    """Return whether all drivers can compile the PTX of a value for GPUs without machine code.

    GPUs whose first driver is new enough for the PTX do not count.
    """
    boards = has_boards(binaries)
    for binary in binaries.with_code:
        refused = refused_ptx(value, binary.code, bound, boards=boards)
        if refused:
            code = refused[min(refused)]
            gpus = ", ".join(map(str, sorted(refused)))
            needed = cuda_of_ptx(code.version or (0, 0))
            notes.append(
                f"{value} is left out: {gpus} would run {code} of {binary.member}, which "
                + (
                    "no known driver compiles"
                    if needed is None
                    else f"needs a driver for CUDA {needed}; claim "
                    f"cuda_version_lower_bound :: {needed} in a variant for them"
                )
            )
            return False
    return True


def _bound_of_ptx(
    binaries: Binaries, values: list[str], bound: Capability | None, notes: list[str]
) -> Capability | None:
    """Return the lower bound for a wheel without machine code: CUDA whose drivers compile all PTX.

    Older drivers could not run the wheel on any GPU, so the bound excludes no usable machine.
    """
    newest = max(_ptx_versions(binaries), default=None)
    if newest is None:
        return bound
    cuda = cuda_of_ptx(newest)
    version = f"{newest[0]}.{newest[1]}"
    if cuda is None:
        notes.append(f"the first driver that compiles PTX {version} is unknown")
        return bound
    notes.append(
        f"there is only PTX for {', '.join(values)}, and PTX {version} needs a driver for CUDA "
        f"{cuda}"
    )
    return cuda if bound is None else max(cuda, bound)


def _ptx_versions(binaries: Binaries) -> list[tuple[int, int]]:
    """Return the versions of all PTX."""
    return [
        code.version
        for code in binaries.code
        if code.kind is CodeKind.PTX and code.version is not None
    ]


def _first_and_count(members: list[str]) -> str:
    """Return the first of some members, with the number of the others."""
    return members[0] if len(members) == 1 else f"{members[0]} (and {len(members) - 1} more)"
