"""Variant wheels made of other wheels, and plain ones made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit.operations.requested_variants import VariantRequestOptions
from wheelfit.operations.rewriting import RewriteRequest, find_wheels, rewrite

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit.building.wheel_jobs import Make
    from wheelfit.operations.context import Context
    from wheelfit.operations.rewriting import RewriteReport


@dataclass(frozen=True, kw_only=True)
class MakeVariantRequest(RewriteRequest, VariantRequestOptions):
    """The wheels to make variants of, and the variant."""

    from_binary: bool = False
    no_ptx: bool = False
    resolve_markers: bool = False


@dataclass(frozen=True, kw_only=True)
class RelabelRequest(RewriteRequest):
    """The variant wheels to rename, and their new label."""

    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class UnmakeRequest(RewriteRequest):
    """The variant wheels to make plain wheels of."""

    if_any: bool = False


@dataclass(frozen=True, kw_only=True)
class ConvertRequest(RewriteRequest):
    """The variant wheels of old layouts to convert."""

    accept_losses: bool = False


def make_variant(request: MakeVariantRequest, context: Context) -> RewriteReport:
    """Make variant wheels of wheels.

    :param request: the wheels and the variant.
    :param context: the surroundings.
    :raises UsageError: no variant is requested.
    :raises WheelfitError: a wheel cannot be made.
    """
    return rewrite(_variants(request, context), request, context)


def _variants(request: MakeVariantRequest, context: Context) -> list[tuple[Path, Make]]:
    """Return each wheel, and the variant to make of it."""
    from wheelfit.building.wheel_jobs import Make
    from wheelfit.errors import UsageError
    from wheelfit.operations.binary_variants import variants_of_binaries
    from wheelfit.operations.requested_variants import open_table, requested_variant

    wheels = find_wheels(request.wheels)
    if request.from_binary:
        ptx = not request.no_ptx
        found = list(variants_of_binaries(wheels, request, context.reporter, ptx=ptx))
    else:
        variant = requested_variant(request, open_table(request), context.reporter)
        if variant is None:
            raise UsageError(
                "no variant is asked for",
                hint="give --property, --label of a table, --null, or --from-binary",
            )
        found = [(wheel, variant) for wheel in wheels]
    return [
        (wheel, Make(label, document, request.layout, request.resolve_markers))
        for wheel, (label, document) in found
    ]


def relabel(request: RelabelRequest, context: Context) -> RewriteReport:
    """Give variant wheels another label; their properties stay.

    :param request: the wheels and the label.
    :param context: the surroundings.
    :raises WheelfitError: a wheel cannot be written.
    """
    from wheelfit.building.wheel_jobs import Relabel
    from wheelfit.core.labels import parse_label

    act = Relabel(None if request.label is None else parse_label(request.label))
    return rewrite([(wheel, act) for wheel in find_wheels(request.wheels)], request, context)


def unmake(request: UnmakeRequest, context: Context) -> RewriteReport:
    """Make plain wheels of variant wheels.

    :param request: the wheels.
    :param context: the surroundings.
    :raises WheelfitError: a wheel cannot be written.
    """
    from wheelfit.building.wheel_jobs import Unmake

    act = Unmake(if_any=request.if_any)
    work = [(wheel, act) for wheel in find_wheels(request.wheels)]
    return rewrite(work, request, context, copy_unchanged=True)


def convert(request: ConvertRequest, context: Context) -> RewriteReport:
    """Write the current layout into variant wheels of old ones.

    :param request: the wheels.
    :param context: the surroundings.
    :raises WheelfitError: a wheel cannot be written.
    """
    from wheelfit.building.wheel_jobs import Convert

    act = Convert(accept_losses=request.accept_losses)
    work = [(wheel, act) for wheel in find_wheels(request.wheels)]
    report = rewrite(work, request, context, copy_unchanged=True)
    return replace(report, lost=tuple(text for one in report.wheels for text in one.lost))
