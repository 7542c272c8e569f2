"""The operations that write wheels from existing ones: variants, labels, repairs, layouts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.building.repack.edits import NO_EDITS
from wheelfit.building.wheel_jobs import Convert, MakePlain, Operation, Relabel, Repack, Repair
from wheelfit.core.labels import Label, parse_label
from wheelfit.core.properties import Property, parse_property
from wheelfit.errors import UsageError
from wheelfit.operations.requested_variants import (
    VariantRequestOptions,
    open_table,
    requested_variant,
)
from wheelfit.operations.rewriting import RewriteReport, RewriteRequest, find_wheels, rewrite
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import FileProblem
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wheelfit.operations.context import Context, Reporter
    from wheelfit.wheels.binaries.properties import ImpliedProperties

_MAX_NOTES = 10
"""Notes of one wheel that are shown without ``--verbose``."""


def _variants_of_binaries(
    wheels: Sequence[Path], request: VariantRequestOptions, reporter: Reporter, *, ptx: bool
) -> Iterator[tuple[Path, tuple[Label, bytes]]]:
    """Yield each wheel with its label and document, by the properties of its binaries.

    Namespaces without a provider in a table or an option get wheelfit's own provider.

    :param request: further properties, providers and priorities; its properties replace those of
        the same features.
    :param reporter: shows notes on properties that the binaries leave open.
    :param ptx: whether values of ``sm_arch`` may rely on PTX.
    :raises FileProblem: the binaries of a wheel have no property, or it cannot be read.
    :raises NeedsExtra: the packages that read binaries are not installed.
    :raises UsageError: ``null`` is requested.
    """
    if request.null:
        raise UsageError("--null excludes --from-binary, which adds properties")
    requested = [parse_property(text) for text in request.property]
    requested_features = {(prop.namespace, prop.feature) for prop in requested}
    bound = _lower_bound(requested)
    providers = set(open_table(request).providers)
    for wheel in wheels:
        implied = _properties_of(wheel, ptx=ptx, bound=bound)
        # A wheel may have thousands of libraries, and a note for each.
        notes = implied.notes if reporter.wants_details else implied.notes[:_MAX_NOTES]
        for note in notes:
            reporter.remark(f"{wheel.name}: {note}")
        if hidden := len(implied.notes) - len(notes):
            reporter.remark(f"{wheel.name}: {count_of(hidden, 'more note')} (--verbose)")
        added = [
            prop
            for prop in implied.properties
            if (prop.namespace, prop.feature) not in requested_features
        ]
        added_providers = sorted({prop.namespace for prop in added} - providers)
        completed = request.with_options(
            property=(*request.property, *map(str, added)),
            provider=(*request.provider, *added_providers),
        )
        variant = requested_variant(completed, open_table(completed), reporter)
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


def _lower_bound(properties: Sequence[Property]) -> Capability | None:
    """Return the lower bound of the CUDA version in properties; None if they have none."""
    bounds = []
    for prop in properties:
        match = _VERSION.fullmatch(prop.value)
        if (prop.namespace, prop.feature) == ("nvidia", "cuda_version_lower_bound") and match:
            bounds.append(Capability(int(match[1]), int(match[2] or 0)))
    return min(bounds, default=None)


def _properties_of(wheel: Path, *, ptx: bool, bound: Capability | None) -> ImpliedProperties:
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
    """Return each wheel with the job that makes a variant of it."""
    wheels = find_wheels(request.wheels)
    if request.from_binary:
        ptx = not request.no_ptx
        variants = list(_variants_of_binaries(wheels, request, context.reporter, ptx=ptx))
    else:
        variant = requested_variant(request, open_table(request), context.reporter)
        if variant is None:
            raise UsageError(
                "no variant was given",
                hint="give --property, --label of a table, --null, or --from-binary",
            )
        variants = [(wheel, variant) for wheel in wheels]
    return [
        (wheel, Repack(NO_EDITS, label, document, request.layout, request.resolve_markers))
        for wheel, (label, document) in variants
    ]


def relabel(request: RelabelRequest, context: Context) -> RewriteReport:
    """Change the label of variant wheels; their properties stay."""
    operation = Relabel(None if request.label is None else parse_label(request.label))
    return _apply(operation, request, context, copy_unchanged=False)


def unmake(request: UnmakeRequest, context: Context) -> RewriteReport:
    """Write plain wheels from variant wheels."""
    return _apply(MakePlain(skip_plain=request.skip_plain), request, context)


def repair(request: RepairRequest, context: Context) -> RewriteReport:
    """Repair wheels with a tool such as auditwheel; variant wheels keep label and document.

    :raises UsageError: no command is given.
    """
    if request.command is None:
        raise UsageError(
            "no command was given", hint="give --command 'auditwheel repair -w {dest_dir} {wheel}'"
        )
    return _apply(Repair(request.command), request, context)


def convert(request: ConvertRequest, context: Context) -> RewriteReport:
    """Convert variant wheels of old layouts to the current layout."""
    report = _apply(Convert(accept_losses=request.accept_losses), request, context)
    return replace(report, lost=tuple(text for wheel in report.wheels for text in wheel.lost))


def _apply(
    operation: Operation, request: RewriteRequest, context: Context, *, copy_unchanged: bool = True
) -> RewriteReport:
    """Apply an operation to every wheel of a request."""
    jobs = [(wheel, operation) for wheel in find_wheels(request.wheels)]
    return rewrite(jobs, request, context, copy_unchanged=copy_unchanged)
