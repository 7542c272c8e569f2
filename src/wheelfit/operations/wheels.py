"""Make variant wheels of wheels that exist."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.building.repack.edits import NOTHING
from wheelfit.building.wheel_jobs import Convert, Relabel, Repack, Repair, Unmake
from wheelfit.core.labels import parse_label
from wheelfit.core.properties import parse_property
from wheelfit.errors import UsageError
from wheelfit.operations.requested_variants import (
    VariantRequestOptions,
    open_table,
    requested_variant,
)
from wheelfit.operations.rewriting import RewriteRequest, find_wheels, rewrite
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import FileProblem
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wheelfit.core.labels import Label
    from wheelfit.core.properties import Property
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.rewriting import RewriteReport
    from wheelfit.wheels.binaries.properties import FoundProperties


_MOST_NOTES = 10
"""The most notes of one wheel where details are not wanted."""


def variants_of_binaries(
    wheels: Sequence[Path], request: VariantRequestOptions, reporter: Reporter, *, ptx: bool
) -> Iterator[tuple[Path, tuple[Label, bytes]]]:
    """Yield each wheel with the variant that its binaries show, and its document.

    Namespaces without a provider in a table or an option get the provider of wheelfit's own table.

    :param request: further properties, providers and priorities.
    :param reporter: gets notes on properties that the binaries leave open.
    :param ptx: whether values of ``sm_arch`` may rely on PTX.
    :raises FileProblem: a wheel shows no property, or cannot be read.
    :raises NeedsExtra: the packages that read binaries are not installed.
    :raises UsageError: ``null`` is requested.
    """
    if request.null:
        raise UsageError("--null has no properties, --from-binary finds some")
    given = [parse_property(text) for text in request.property]
    kept = {(one.namespace, one.feature) for one in given}
    bound = _lower_bound(given)
    for wheel in wheels:
        properties = _properties_of(wheel, ptx=ptx, bound=bound)
        # A wheel may have thousands of libraries, and a note for each.
        shown_notes = properties.notes if reporter.wants_details else properties.notes[:_MOST_NOTES]
        for note in shown_notes:
            reporter.say(f"{wheel.name}: {note}")
        if left := len(properties.notes) - len(shown_notes):
            reporter.say(f"{wheel.name}: {left} more notes (--verbose)")
        shown = [one for one in properties.properties if (one.namespace, one.feature) not in kept]
        known = open_table(request).providers
        own = request.with_options(
            property=(*request.property, *map(str, shown)),
            provider=(
                *request.provider,
                *sorted({one.namespace for one in shown} - set(known)),
            ),
        )
        variant = requested_variant(own, open_table(own), reporter)
        if variant is None:
            raise FileProblem(
                "the binaries of the wheel show no property",
                where=str(wheel),
                hint=(
                    "`wheelfit wheel inspect` shows what they contain; --property names properties"
                ),
            )
        yield wheel, variant


_VERSION = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?")


def _lower_bound(given: Sequence[Property]) -> Capability | None:
    """Return the lower bound of the driver in properties; None: they have none."""
    bounds = []
    for one in given:
        match = _VERSION.fullmatch(one.value)
        if (one.namespace, one.feature) == ("nvidia", "cuda_version_lower_bound") and match:
            bounds.append(Capability(int(match[1]), int(match[2] or 0)))
    return min(bounds, default=None)


def _properties_of(wheel: Path, *, ptx: bool, bound: Capability | None) -> FoundProperties:
    from wheelfit.wheels.binaries.properties import properties_of
    from wheelfit.wheels.binaries.reading import binaries_of

    with WheelArchive(wheel) as archive:
        return properties_of(binaries_of(archive), ptx=ptx, bound=bound)


class MakeVariantRequest(RewriteRequest, VariantRequestOptions):
    """The wheels to make variants of, and the variant."""

    from_binary: bool = False
    no_ptx: bool = False
    resolve_markers: bool = False


class RelabelRequest(RewriteRequest):
    """The variant wheels to rename, and their new label."""

    label: str | None = None


class UnmakeRequest(RewriteRequest):
    """The variant wheels to make plain wheels of."""

    skip_plain: bool = False


class RepairRequest(RewriteRequest):
    """The wheels to repair, and the tool."""

    command: str | None = None


class ConvertRequest(RewriteRequest):
    """The variant wheels of old layouts to convert."""

    accept_losses: bool = False


def make_variant(request: MakeVariantRequest, context: Context) -> RewriteReport:
    """Write variant wheels from plain ones.

    :param request: the wheels and the variant.
    :param context: the environment variables and the reporter.
    :raises UsageError: no variant is requested.
    :raises WheelfitError: a wheel cannot be written.
    """
    return rewrite(_variants(request, context), request, context)


def _variants(request: MakeVariantRequest, context: Context) -> list[tuple[Path, Repack]]:
    """Return each wheel, and the variant to make of it."""
    wheels = find_wheels(request.wheels)
    if request.from_binary:
        ptx = not request.no_ptx
        variants = list(variants_of_binaries(wheels, request, context.reporter, ptx=ptx))
    else:
        variant = requested_variant(request, open_table(request), context.reporter)
        if variant is None:
            raise UsageError(
                "no variant was given",
                hint="give --property, --label of a table, --null, or --from-binary",
            )
        variants = [(wheel, variant) for wheel in wheels]
    return [
        (wheel, Repack(NOTHING, label, document, request.layout, request.resolve_markers))
        for wheel, (label, document) in variants
    ]


def relabel(request: RelabelRequest, context: Context) -> RewriteReport:
    """Change the label of variant wheels; their properties stay."""
    act = Relabel(None if request.label is None else parse_label(request.label))
    return rewrite([(wheel, act) for wheel in find_wheels(request.wheels)], request, context)


def unmake(request: UnmakeRequest, context: Context) -> RewriteReport:
    """Write plain wheels from variant wheels."""
    act = Unmake(skip_plain=request.skip_plain)
    work = [(wheel, act) for wheel in find_wheels(request.wheels)]
    return rewrite(work, request, context, copy_unchanged=True)


def repair(request: RepairRequest, context: Context) -> RewriteReport:
    """Repair wheels with a tool such as auditwheel; variant wheels keep label and document.

    :raises UsageError: no command is given.
    """
    if request.command is None:
        raise UsageError(
            "no command was given",
            hint="give --command 'auditwheel repair -w {dest_dir} {wheel}'",
        )
    act = Repair(request.command)
    work = [(wheel, act) for wheel in find_wheels(request.wheels)]
    return rewrite(work, request, context, copy_unchanged=True)


def convert(request: ConvertRequest, context: Context) -> RewriteReport:
    """Write the current layout into variant wheels of old ones."""
    act = Convert(accept_losses=request.accept_losses)
    work = [(wheel, act) for wheel in find_wheels(request.wheels)]
    report = rewrite(work, request, context, copy_unchanged=True)
    return replace(report, lost=tuple(text for one in report.wheels for text in one.lost))
