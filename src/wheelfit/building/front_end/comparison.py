"""Comparison of native variants with the plain build.

A variant is harmful if its code is worse than that of the plain wheel, because installers prefer it
all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wheelfit.building.front_end.build_orders import TunedParts, compiles_alike
from wheelfit.building.front_end.toolchains.c_family import DEFAULT_FLAGS
from wheelfit.errors import BuildFailed
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries.instructions import FrameUse
from wheelfit.wheels.binaries.optimisation import Optimisation, read_optimisation
from wheelfit.wheels.binaries.reading import unpacked_binaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wheelfit.building.front_end.build_orders import BuildOrder, BuiltWheel
    from wheelfit.building.front_end.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing variants with the plain build."""

    rejected: tuple[tuple[BuiltWheel, BuildFailed], ...] = ()
    """The variants that are worse than the plain build."""
    notes: tuple[str, ...] = ()
    """Remarks, one sentence each."""
    parts: Mapping[str, TunedParts] = field(default_factory=dict, hash=False)
    """The changed and the unchanged libraries of each wheel, by the digest of its content."""

    def with_compared_libraries(self, wheel: BuiltWheel) -> BuiltWheel:
        """Return a wheel with the names of its changed and unchanged libraries."""
        parts = self.parts.get(wheel.content) if wheel.label is not None else None
        if parts is None:
            return wheel
        return replace(wheel, tuned=replace(parts, crates=wheel.tuned.crates))


def compare_with_plain(
    built: Sequence[tuple[BuildOrder, Sequence[BuiltWheel]]],
    plain_order: BuildOrder,
    build_plain: Callable[[], BuiltWheel],
) -> Comparison:
    """Compare the code of every variant wheel with that of the plain wheel.

    :param build_plain: builds a plain wheel; called at most once, and only if ``built`` has none.
    """
    plain = next((wheel for _, wheels in built for wheel in wheels if wheel.label is None), None)
    compared: set[str] = set()
    rejected, notes, parts = [], [], {}
    plain_codes: Mapping[str, Optimisation] | None = None
    failure = ""  # the reason that there is no plain wheel
    for order, wheels in built:
        for wheel in wheels:
            is_variant = wheel.label is not None and order.kind == "wheel"
            is_alike = compiles_alike(order, plain_order)
            if not is_variant or is_alike or wheel.content in compared:
                continue
            if not _has_binaries(wheel.path):
                continue
            compared.add(wheel.content)
            if plain is None and not failure:
                try:
                    plain = build_plain()
                except BuildFailed as error:
                    failure = error.message
            if plain is None:
                notes.append(
                    f"{wheel.path.name} is not compared with a plain wheel, which cannot be "
                    f"built: {failure}"
                )
                continue
            if plain.content == wheel.content:
                continue  # `check_together` reports that
            plain_codes = _read_codes(plain.path) if plain_codes is None else plain_codes
            codes = _read_codes(wheel.path)
            parts[wheel.content] = _parts(codes, plain_codes)
            lines = tuple(_losses(codes, plain_codes, order.recipe))
            # Default flags of compilers make no difference anyway.
            effective_flags = [flag for flag in wheel.flags if flag not in DEFAULT_FLAGS]
            if lines:
                rejected.append((wheel, _error(wheel, lines)))
            elif effective_flags and _digests(codes) == _digests(plain_codes):
                notes.append(
                    f"the machine code of {wheel.path.name} is that of {plain.path.name}: "
                    f"{' '.join(effective_flags)} made no difference"
                )
    return Comparison(tuple(rejected), tuple(notes), parts)


def _has_binaries(path: Path) -> bool:
    with WheelArchive(path) as archive:
        return next(unpacked_binaries(archive), None) is not None


def _read_codes(path: Path) -> dict[str, Optimisation]:
    with WheelArchive(path) as archive:
        codes = {
            member.name: read_optimisation(file, member.name)
            for member, file in unpacked_binaries(archive)
        }
    return {name: code for name, code in codes.items() if code is not None}


def _digests(codes: Mapping[str, Optimisation]) -> dict[str, str]:
    return {name: code.code for name, code in codes.items()}


def _parts(codes: Mapping[str, Optimisation], plain: Mapping[str, Optimisation]) -> TunedParts:
    plain_digests, digests = _digests(plain), _digests(codes)
    changed = tuple(name for name, digest in digests.items() if plain_digests.get(name) != digest)
    return TunedParts(changed, tuple(name for name in digests if name not in changed))


def _losses(
    variant: Mapping[str, Optimisation], plain: Mapping[str, Optimisation], recipe: Recipe
) -> Iterator[str]:
    """Yield what binaries have lost, except for losses that the project's own flags ask for."""
    flags = recipe.further_flags or ()
    names_level = any(flag.startswith("-O") for flag in flags)
    names_assertions = "-UNDEBUG" in flags
    for name, code in variant.items():
        if name not in plain:
            continue
        if names_level:  # a level that the project names is no loss, nor are its stack frames
            code = replace(code, levels=plain[name].levels, frames=FrameUse())  # noqa: PLW2901
        if names_assertions:
            code = replace(code, has_assertions=False)  # noqa: PLW2901
        yield from (f"{name}: {loss}" for loss in code.losses_against(plain[name]))


_MAX_LINES = 10
"""Losses that an error lists."""


def _error(wheel: BuiltWheel, lines: Sequence[str]) -> BuildFailed:
    more = len(lines) - _MAX_LINES
    return BuildFailed(
        f"variant {wheel.label} has lost optimisation that the plain build has",
        code="lost-optimisation",
        where=wheel.path.name,
        note="\n".join([*lines[:_MAX_LINES], *([f"and {more} more"] if more > 0 else [])]),
        hint="set further flags with `flags` in [tool.wheelfit.build.variants.LABEL], since CFLAGS "
        "set in that table replace the interpreter's own; if the loss is intended, name it in "
        '`flags`, as "-O1" or "-UNDEBUG"',
    )
