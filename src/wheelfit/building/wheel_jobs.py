"""Jobs on a single wheel, as values that can be sent to another process.

Workers call `run_job`, which returns the written wheel or raises an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.building.repack.edits import NO_EDITS, Edits
from wheelfit.building.variant_wheel import make_plain, relabel, repack_wheel
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.metadata import WrittenLayout, read_document
from wheelfit.wheels.conversion import ConversionResult, convert_wheel
from wheelfit.wheels.rewrite import RewriteDetails, RewriteOptions, copy_wheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.core.labels import Label


@dataclass(frozen=True, slots=True)
class Relabel:
    """The relabelling of a variant wheel; its properties stay."""

    label: Label | None = None
    """The new label; None: derived from the properties."""


@dataclass(frozen=True, slots=True)
class MakePlain:
    """The conversion of a variant wheel to a plain one (B-32)."""

    skip_plain: bool = False
    """Whether a plain wheel is skipped, and not an error."""


@dataclass(frozen=True, slots=True)
class Convert:
    """The conversion of variant wheels of old layouts to the current one (F-56)."""

    accept_losses: bool = False


@dataclass(frozen=True, slots=True)
class Repack:
    """Edits to a wheel, and the variant that it becomes, if any (B-32, B-42, B-43)."""

    edits: Edits = NO_EDITS
    label: Label | None = None
    document: bytes | None = None
    """The document of the label, or of the release, as JSON; given together with the label."""
    layout: WrittenLayout = "850"
    resolve_markers: bool = False


@dataclass(frozen=True, slots=True)
class Repair:
    """The repair of a wheel by a tool without support for labels."""

    command: str
    """As ``auditwheel repair -w {dest_dir} {wheel}``."""


Operation: TypeAlias = Relabel | MakePlain | Convert | Repack | Repair
"""An operation on a wheel."""


@dataclass(frozen=True, slots=True)
class WheelJob:
    """A job on one wheel; can be pickled."""

    source: Path
    operation: Operation
    folder: Path
    options: RewriteOptions = RewriteOptions()
    copy_unchanged: bool = False
    """Whether a wheel that needs no change is copied anyway."""


@dataclass(frozen=True, slots=True)
class WheelJobResult:
    """The result of a job on one wheel; can be pickled."""

    source: Path
    path: Path
    """The result; the source itself if there was nothing to do."""
    notes: tuple[str, ...] = ()
    """Changes and warnings, one sentence each."""
    content_verified: bool = False
    """Whether every byte was compared with RECORD."""
    removed_dependencies: frozenset[NormalizedName] = frozenset()
    layout: str | None = None
    """The former layout of a converted wheel; None if it is a plain wheel, or not a conversion."""
    lost: tuple[str, ...] = ()
    """Losses of a conversion that the user accepted, one sentence each."""
    is_new: bool = True
    """Whether a wheel was written."""


def run_job(job: WheelJob) -> WheelJobResult:
    """Run a job on one wheel.

    :raises WheelfitError: the job failed; nothing was written.
    """
    details: list[RewriteDetails] = []
    path, converted = _run_operation(job, details.append)
    layout, lost = (None, ()) if converted is None else (converted.layout, converted.lost)
    if path is None:
        if job.copy_unchanged and job.folder.absolute() != job.source.parent.absolute():
            path = job.folder / job.source.name
            copy_wheel(job.source, path, overwrite=job.options.overwrite, sync=job.options.sync)
            return WheelJobResult(job.source, path, ("it is copied unchanged",), layout=layout)
        return WheelJobResult(job.source, job.source, layout=layout, is_new=False)
    # A repaired wheel has no details, and is always verified.
    detail = details[0] if details else RewriteDetails((), content_verified=True)
    return WheelJobResult(
        job.source,
        path,
        (*detail.notes, *(f"lost: {text}" for text in lost)),
        detail.content_verified,
        detail.removed_dependencies,
        layout,
        lost,
    )


def _run_operation(
    job: WheelJob, add_details: Callable[[RewriteDetails], None]
) -> tuple[Path | None, ConversionResult | None]:
    """Return the path of the result, None without one; and the details of a conversion."""
    source, folder, options = job.source, job.folder, job.options
    match job.operation:
        case Relabel(label):
            return relabel(
                source, folder, label=label, options=options, add_details=add_details
            ), None
        case MakePlain(skip_plain):
            if skip_plain and not parse_wheel_filename(source.name).is_variant:
                return None, None
            return make_plain(source, folder, options=options, add_details=add_details), None
        case Convert(accept_losses):
            if not parse_wheel_filename(source.name).is_variant:
                return None, None
            converted = convert_wheel(
                source,
                folder,
                accept_losses=accept_losses,
                options=options,
                add_details=add_details,
            )
            return (converted.path if converted.is_new else None), converted
        case Repair(command):
            from wheelfit.building.repairing import is_for_any_platform, repair_wheel

            if is_for_any_platform(source):
                return None, None
            return repair_wheel(source, command, folder), None
        case Repack(edits, label, document, layout, resolve):
            where = "the document of the variant"
            parsed = None if document is None else read_document(document, where=where)
            path = repack_wheel(
                source, folder, edits, label=label, document=parsed, layout=layout,
                resolve_markers=resolve, options=options, add_details=add_details,
            )  # fmt: skip
            return path, None
