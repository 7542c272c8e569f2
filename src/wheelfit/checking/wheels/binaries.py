"""Comparison of a wheel's claims with its binaries.

The file name claims a platform, the document claims properties. An unreadable binary is reported,
but contradicts no claim; missing data is not guessed. Traces of the build are found, too: debug
information, and paths of its machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.checking import checks
from wheelfit.checking.findings import Finding, Location, Severity, listed_briefly
from wheelfit.checking.wheels.loading import search_path_findings
from wheelfit.checking.wheels.platform_tags import platform_findings
from wheelfit.checking.wheels.stable_abi import stable_abi_findings
from wheelfit.core.sizes import size_in_words
from wheelfit.core.versions import version_of
from wheelfit.wheels.binaries.facts import Binaries, Binary, CodeKind, DeviceCode, is_below
from wheelfit.wheels.binaries.gpus import (
    accepting_gpus,
    cuda_majors,
    cuda_of_ptx,
    gpus_without_code,
)
from wheelfit.wheels.binaries.offload import values_of
from wheelfit.wheels.binaries.ptx import has_boards, refused_ptx
from wheelfit.wheels.binaries.unguarded_instructions import claimed_level, unguarded_code
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import WheelFilename

_AMD, _NVIDIA, _X86_64 = "amd", "nvidia", "x86_64"


def claim_findings(
    binaries: Binaries, name: WheelFilename, document: VariantDocument | None, location: Location
) -> Iterator[Finding]:
    """Yield contradictions between the binaries of a wheel and its claims (B-60).

    :param document: its ``variant.json``; None for a plain wheel, or if it cannot be read.
    """
    for binary in binaries:
        for fault in binary.faults:
            yield location.finding(checks.UNREADABLE_BINARY, f"{binary.member}: {fault}")
    yield from platform_findings(binaries, name, location)
    yield from search_path_findings(binaries, location)
    yield from _trace_findings(binaries, location)
    yield from stable_abi_findings(binaries, name, location)
    properties = None
    if document is not None and name.label is not None:
        properties = document.properties(name.label)
    claimed = {} if properties is None else properties.to_mapping()
    yield from _level_findings(binaries, claimed.get(_X86_64, {}), location)
    yield from _amd_findings(binaries, claimed.get(_AMD, {}).get("gfx_arch", ()), location)
    nvidia = claimed.get(_NVIDIA, {})
    if properties and not nvidia.get("sm_arch"):
        yield from _no_arch_findings(binaries, location, claims_nvidia=bool(nvidia))
    if nvidia:
        yield from _nvidia_findings(binaries, nvidia.get("sm_arch", ()), location)
        yield from _driver_findings(binaries, nvidia, location)


def _level_findings(
    binaries: Binaries, features: Mapping[str, Sequence[str]], location: Location
) -> Iterator[Finding]:
    """Compare the level with the one that the loader requires, and with unguarded code (P-102)."""
    claimed = claimed_level(features)
    if claimed is None:
        return
    # Without features `claimed` is the baseline, which the wheel does not claim itself.
    severity = None if features else Severity.WARNING
    claim = f"the wheel claims {claimed}" if features else "the wheel claims no level"
    for level in sorted({binary.levels.needed for binary in binaries if binary.levels.needed}):
        members = [binary.member for binary in binaries if binary.levels.needed == level]
        if is_below(claimed, level):
            yield location.finding(
                checks.LEVEL_TOO_LOW,
                f"processors below {level} cannot load {listed_briefly(members)}; {claim}",
                severity=severity,
            )
    for code in unguarded_code(binaries, claimed):
        yield location.finding(checks.UNGUARDED_CODE, f"{code}; {claim}", severity=severity)


def _no_arch_findings(
    binaries: Binaries, location: Location, *, claims_nvidia: bool
) -> Iterator[Finding]:
    """Report code for GPUs in a variant that claims no GPU (P-95).

    A variant without properties of NVIDIA may run without a GPU; plain wheels are not reported.
    """
    if binaries.code:
        yield location.finding(
            checks.NO_SM_ARCH,
            f"it has {listed([str(code) for code in binaries.code])} and claims no sm_arch, so "
            "that it is also chosen for other GPUs",
            severity=None if claims_nvidia else Severity.NOTE,
        )


def _nvidia_findings(
    binaries: Binaries, values: Sequence[str], location: Location
) -> Iterator[Finding]:
    """Compare the values of ``sm_arch`` with the present code (B-60, P-90, P-91)."""
    if not values:
        return
    with_code = binaries.with_code
    has_unreadable = any(binary.faults for binary in binaries)
    if not with_code:
        yield from _no_code_findings("sm_arch", location, has_unreadable=has_unreadable)
        return
    present = listed([str(code) for code in binaries.code])
    for value in values:
        if accepting_gpus(value) is None:
            continue  # unknown-value reports it
        lacking_members = {
            binary.member: gpus
            for binary in with_code
            if not binary.faults and (gpus := gpus_without_code(value, binary.code))
        }
        if lacking_members:
            # If every member lacks code, the message names the GPUs that the best member lacks.
            fewest_gpus = _gpus(min(lacking_members.values(), key=len))
            message = f"it claims {value}, but has no code for {fewest_gpus}, only for {present}"
            yield _missing_code(value, list(lacking_members), len(with_code), message, location)
        elif not has_unreadable and not any(_has_value(code, value) for code in binaries.code):
            yield location.finding(
                checks.NO_SUCH_CODE,
                f"it claims {value}, but has only other code that runs on these GPUs",
                severity=Severity.NOTE,
            )
    yield from _unclaimed_code(binaries, values, location)


def _missing_code(
    value: str, members: Sequence[str], count: int, message: str, location: Location
) -> Finding:
    """Return the finding of members without GPU code for a value.

    :param count: the number of all members with code for GPUs.
    :param message: the fault if all of them lack it.
    """
    if len(members) == count:
        return location.finding(checks.NO_SUCH_CODE, message)
    message = f"it claims {value}, for which there is no code in {listed_briefly(members)}"
    return location.finding(checks.NO_SUCH_CODE, message, severity=Severity.WARNING)


def _no_code_findings(
    feature: str, location: Location, *, has_unreadable: bool
) -> Iterator[Finding]:
    if not has_unreadable:
        yield location.finding(
            checks.NO_SUCH_CODE,
            f"it claims {feature}, but no binary in it has code for GPUs",
            severity=Severity.NOTE,
        )


def _amd_findings(
    binaries: Binaries, values: Sequence[str], location: Location
) -> Iterator[Finding]:
    """Compare the values of ``gfx_arch`` with the present code (B-60)."""
    if not values:
        return
    with_code = binaries.with_targets
    if not with_code:
        has_unreadable = any(binary.faults for binary in binaries)
        yield from _no_code_findings("gfx_arch", location, has_unreadable=has_unreadable)
        return
    present = sorted({target for binary in with_code for target in binary.targets})
    for value in values:
        lacking_members = [
            binary.member
            for binary in with_code
            if not binary.faults
            and not any(value in values_of(target) for target in binary.targets)
        ]
        if lacking_members:
            message = f"it claims {value}, but has code only for {listed(present)}"
            yield _missing_code(value, lacking_members, len(with_code), message, location)
    unclaimed = [target for target in present if set(values).isdisjoint(values_of(target))]
    if unclaimed:
        yield location.finding(
            checks.UNCLAIMED_CODE,
            f"it contains {listed(unclaimed)}, which no claimed gfx_arch covers",
        )


def _has_value(code: DeviceCode, value: str) -> bool:
    """Return whether code covers a value; code for the family 100f covers ``100_real``, too."""
    kind = "virtual" if code.kind is CodeKind.PTX else "real"
    value_of_number = f"{code.number}_{kind}"
    return bool(code.values) and value in (*code.values, value_of_number)


def _unclaimed_code(
    binaries: Binaries, values: Sequence[str], location: Location
) -> Iterator[Finding]:
    """Yield code for GPUs that none of the claimed values covers."""
    covered: set[Capability] = set()
    compilable: set[Capability] = set()
    for value in values:
        capabilities, kind = accepting_gpus(value) or (frozenset(), None)
        covered |= capabilities
        if kind is CodeKind.PTX:  # which drivers compile for all newer GPUs
            compilable |= capabilities
    oldest = min(compilable, default=None)
    unclaimed = [
        str(code)
        for code in binaries.code
        if code.values
        and code.capability not in covered
        and (oldest is None or code.capability < oldest)
    ]
    if unclaimed:
        yield location.finding(
            checks.UNCLAIMED_CODE,
            f"it contains {listed(unclaimed)}, which no claimed sm_arch covers",
        )


def _gpus(capabilities: Sequence[Capability]) -> str:
    return listed([f"{capability.major}.{capability.minor}" for capability in capabilities])


class _Bound(Struct, frozen=True):
    """The lowest driver that a wheel claims to support, as a CUDA version."""

    text: str
    version: tuple[int, int]


def _driver_findings(
    binaries: Binaries, claimed: Mapping[str, Sequence[str]], location: Location
) -> Iterator[Finding]:
    """Compare the lower bound of the driver with runtime libraries and PTX (P-92, P-93)."""
    bound = _bound(claimed.get("cuda_version_lower_bound", ()))
    majors: dict[int, list[Binary]] = {}
    for binary in binaries:
        for major in cuda_majors(binary.needed):
            majors.setdefault(major, []).append(binary)
    if bound is None:
        if majors and "cuda_version_lower_bound" not in claimed:
            yield location.finding(
                checks.WRONG_CUDA_BOUND,
                f"it needs libraries of CUDA {min(majors)}, but claims no lower bound for drivers",
                severity=Severity.WARNING,
            )
        return
    if majors and min(majors) > bound.version[0]:
        members = [binary.member for binary in majors[min(majors)]]
        yield location.finding(
            checks.WRONG_CUDA_BOUND,
            f"it claims {bound.text}, but libraries of CUDA {min(majors)} are needed by "
            f"{listed_briefly(members)}",
        )
    elif majors and max(majors) < bound.version[0]:
        yield location.finding(
            checks.WRONG_CUDA_BOUND,
            f"it claims {bound.text}, but its libraries are of CUDA {max(majors)}: older drivers "
            "would be sufficient",
            severity=Severity.NOTE,
        )
    yield from _ptx_findings(binaries, claimed.get("sm_arch", ()), bound, location)


def _ptx_findings(
    binaries: Binaries, values: Sequence[str], bound: _Bound, location: Location
) -> Iterator[Finding]:
    """Report GPUs for which there is only PTX that is too new for the oldest driver."""
    boards = has_boards(binaries)  # whether the wheel can run on Jetson and DRIVE boards
    for value in values:
        for binary in binaries.with_code:
            refused = refused_ptx(value, binary.code, Capability(*bound.version), boards=boards)
            needed = {
                gpu: cuda
                for gpu, code in refused.items()
                if (cuda := cuda_of_ptx(code.version or (0, 0))) is not None
            }
            if needed:
                code = refused[min(needed)]
                yield location.finding(
                    checks.WRONG_CUDA_BOUND,
                    f"it claims {value} and {bound.text}, but the only code of {binary.member} for "
                    f"{_gpus(sorted(needed))} is {code}, which needs a driver for CUDA "
                    f"{max(needed.values())}",
                )


def _bound(values: Sequence[str]) -> _Bound | None:
    """Return the lowest of the values of ``cuda_version_lower_bound``; None if there is none."""
    bounds = (
        _Bound(value, (version.major, version.minor))
        for value in values
        if (version := version_of(value)) is not None
    )
    return min(bounds, key=lambda bound: bound.version, default=None)


# --- traces of the build --------------------------------------------------------------------

_MAX_DEBUG_SIZE = 1_000_000  # bytes
_HOME = pattern(r"(?:/home|/Users|[A-Za-z]:\\Users)[/\\]([^/\\]+)[/\\]")
_MACHINE_ACCOUNTS = frozenset(
    """
    administrator appveyor azure-pipelines azureuser bot build buildbot builder buildkite buildozer
    ci circleci cloudtest conda containeradministrator containeruser distiller docker ec2-user
    github gitlab-runner iojs jenkins root travis ubuntu user vagrant vcpkg vsts vssadministrator
    """.split()  # noqa: SIM905  # a list of words is read more easily as text
)
"""Names of accounts of machines, not of persons."""


def _trace_findings(binaries: Binaries, location: Location) -> Iterator[Finding]:
    """Yield findings of debug data and of paths of the build machine."""
    debug = {binary.member: binary.debug for binary in binaries if binary.debug}
    if sum(debug.values()) > _MAX_DEBUG_SIZE:
        largest = sorted(debug, key=lambda member: -debug[member])
        size = size_in_words(sum(debug.values()))
        message = f"it has {size} of debug information, in {listed_briefly(largest)}"
        yield location.finding(checks.DEBUG_SYMBOLS, message)
    paths = [(path, binary.member) for binary in binaries for path in binary.build_paths or ()]
    personal = [(path, member) for path, member in paths if _is_personal(path)]
    if shown := personal or paths:
        path, member = shown[0]
        path_count = len({path for path, _ in paths})
        others = f", and {count_of(path_count - 1, 'other path')}" if path_count > 1 else ""
        yield location.finding(
            checks.BUILD_PATH,
            f"{member} names {path}{others}",
            severity=Severity.WARNING if personal else None,
        )


def _is_personal(path: str) -> bool:
    """Return whether a path is in the home folder of a person."""
    match = _HOME.match(path)
    if match is None:
        return False
    name = match[1].lower()
    return name not in _MACHINE_ACCOUNTS and not name.startswith(("runner", "task_"))
