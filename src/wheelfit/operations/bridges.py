"""The operation of ``wheelfit bridges``: families of distributions presented as variants."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wheelfit.core.digests import sha256_of
from wheelfit.core.filename import WheelFilename, wheel_filename_of
from wheelfit.errors import AttestationProblem, install_hint, reporting_os_errors
from wheelfit.operations.attestations import LARGEST_PROVENANCE, required_attestations
from wheelfit.operations.indexes import open_indexes, read_settings
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requests import AttestationOptions, SourceOptions, ValidatedRequest
from wheelfit.sources.attestations import can_verify, verify_provenance
from wheelfit.sources.bridges.catalogue import (
    SHIPPED,
    SHIPPED_VERSION,
    KnownFamilies,
    known_families,
    update_file,
)
from wheelfit.sources.bridges.updates import (
    DISTRIBUTION,
    LARGEST_WHEEL,
    REMOVE_HINT,
    FamilyUpdate,
    read_families,
    read_update,
    release_of,
    write_update,
)
from wheelfit.sources.page import File, ProjectPage
from wheelfit_runtime.errors import InvalidWheel, PolicyRefusal, ProjectNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.operations.context import Context
    from wheelfit.sources.repository import Repository


class BridgesRequest(ValidatedRequest):
    """The families to show."""

    names: tuple[str, ...] = ()
    """Names of families, or paths of their files; empty for all families."""
    shipped_bridges: bool = False


@dataclass(frozen=True, slots=True)
class BridgesReport:
    """The families that were requested."""

    families: tuple[BridgeFamily, ...]
    available: KnownFamilies

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        families = list(map(_to_json, self.families))
        return plain_report(self, data=self.available.origin_data(), families=families)


def show_bridges(request: BridgesRequest, context: Context) -> BridgesReport:
    """Return the requested families, or all of them.

    :raises InvalidDocument: ``invalid-bridge``; a file does not describe a family.
    """
    available = known_families(context.environ, shipped_bridges=request.shipped_bridges)
    names = request.names or available.names()
    return BridgesReport(tuple(available.find(name) for name in names), available)


def _to_json(family: BridgeFamily) -> dict[str, object]:
    return plain_fields(
        family,
        "name projects by_default exclusive extras no_fit says source",
        members=[
            plain_fields(
                member,
                "distribution label versions",
                properties=[str(item) for item in member.when],
                index=member.index or None,
            )
            for member in family.members
        ],
        checked=family.checked.isoformat(),
    )


# --- updates --------------------------------------------------------------------------------------


class UpdateBridgesRequest(SourceOptions, AttestationOptions):
    """The source of newer families, and their required signers."""

    remove: bool = False
    """Whether to return to the families that ship with this program."""


@dataclass(frozen=True, slots=True)
class BridgeUpdateReport:
    """The result of updating the families."""

    action: Literal["updated", "current", "removed"]
    """``current``: the index has no newer families."""
    families: KnownFamilies
    """The families in effect now."""
    update: FamilyUpdate | None = None
    """The update fetched now or earlier."""
    added: tuple[str, ...] = ()
    """Families that do not ship with this program."""
    changed: tuple[str, ...] = ()
    """Families whose files differ from those that ship with this program."""
    restricted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Families that are used only if they are requested by name, since their update names more than
    the shipped file of a family that is used by default: the additions, one clause each.
    """

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        update = self.update
        return plain_report(
            self,
            "action added changed restricted",
            data=self.families.origin_data(),
            sha256=None if update is None else update.sha256,
            source=None if update is None else update.source,
            signers=() if update is None else update.signers,
            left_out={} if update is None else update.left_out,
        )


def update_bridges(request: UpdateBridgesRequest, context: Context) -> BridgeUpdateReport:
    """Fetch newer files of families from the user's index, and store them.

    Nothing is installed: the files are read in the wheel, which may contain nothing else.

    :raises PolicyRefusal: the settings allow only the shipped files.
    :raises ProjectNotFound: the index has no wheel of the distribution.
    :raises InvalidWheel: the wheel is not sound, or contains other files.
    :raises InvalidDocument: ``invalid-bridge``; a family breaks its rules.
    :raises AttestationProblem: a signature is invalid, or the signers differ from before.
    :raises FileProblem: the files cannot be stored.
    """
    path = update_file(context.environ)
    if request.remove:
        return _remove(path)
    if request.shipped_bridges:
        raise PolicyRefusal(
            "the setting shipped-bridges forbids families newer than this wheelfit",
            hint="`wheelfit config show` shows where it is set",
        )
    former = read_update(path)
    without_bridges = request.with_options(no_bridges=True)
    settings = read_settings(request, context.environ)
    with open_indexes(without_bridges, settings, context) as sources:
        filename, file = _newest(sources)
        current_release = max(map(release_of, (SHIPPED_VERSION, former.version if former else "")))
        if release_of(str(filename.version)) <= current_release:
            return _report("current", former, context)
        update = _fetch(filename, file, sources, former, request, context)
    write_update(path, update)
    return _report("updated", update, context)


def _remove(path: Path) -> BridgeUpdateReport:
    with (
        reporting_os_errors("the file cannot be removed", where=str(path)),
        suppress(FileNotFoundError),
    ):
        path.unlink()
        return BridgeUpdateReport("removed", SHIPPED)
    return BridgeUpdateReport("current", SHIPPED)


def _newest(sources: Repository) -> tuple[WheelFilename, File]:
    """Return the newest wheel of the distribution for any system.

    :raises ProjectNotFound: there is none.
    """
    page = sources.project(DISTRIBUTION)
    files = {} if page is None else dict(_wheels(page))
    if not files:
        message = f"{DISTRIBUTION} was not found in any index"
        if page is not None:
            message = f"no wheel of {DISTRIBUTION} has a date as its version"
        raise ProjectNotFound(
            message,
            where=sources.name,
            hint=f"the families of {SHIPPED_VERSION} ship with wheelfit; --index-url names "
            "another index",
        )
    return max(files.items(), key=lambda wheel: release_of(str(wheel[0].version)))


def _wheels(page: ProjectPage) -> Iterator[tuple[WheelFilename, File]]:
    """Yield the wheels of a page whose versions are dates."""
    for file in page.files:
        if file.filename.endswith("-py3-none-any.whl") and file.yanked is None:
            filename = wheel_filename_of(file.filename)
            if filename and filename.name == page.name and release_of(str(filename.version)):
                yield filename, file


def _fetch(
    filename: WheelFilename,
    file: File,
    sources: Repository,
    former: FamilyUpdate | None,
    request: UpdateBridgesRequest,
    context: Context,
) -> FamilyUpdate:
    """Fetch a wheel of families, and return its verified content."""
    if (file.size or 0) > LARGEST_WHEEL:
        raise InvalidWheel(
            f"the wheel has {file.size} bytes; the limit is {LARGEST_WHEEL}", where=filename.text
        )
    data = sources.read(file, limit=LARGEST_WHEEL)  # its hash is verified where the index has one
    sha256 = sha256_of(data).hex()
    signers = _verify_signers(file, sha256, sources, former, request, context)
    files, left_out = read_families(data, filename)
    source = file.source or sources.name
    return FamilyUpdate(str(filename.version), sha256, source, signers, files, left_out)


def _verify_signers(
    file: File,
    sha256: str,
    sources: Repository,
    former: FamilyUpdate | None,
    request: UpdateBridgesRequest,
    context: Context,
) -> tuple[str, ...]:
    """Verify the attestation of a wheel, and return its signers; empty if the index has none.

    :raises AttestationProblem: it is invalid, or is missing though required or though the former
        update had one.
    """
    required, trusted = required_attestations(request)
    former_signers = former.signers if former is not None else ()
    is_required = bool({":all:", DISTRIBUTION} & required or former_signers)
    if file.provenance is None:
        if not is_required:
            return ()
        message, hint = "the file has no attestation, but one is required", "nothing was changed"
        if former_signers:
            names = ", ".join(former_signers)
            message = f"the file has no attestation, but {names} signed the former update"
            hint = f"nothing was changed; {REMOVE_HINT}"
        raise AttestationProblem(message, where=file.filename, hint=hint)
    if not (is_required or request.verify_attestations or can_verify()):
        context.reporter.warn(
            f"the attestations of {file.filename} are not verified: the library for it is not "
            f"installed; {install_hint('attestations')}"
        )
        return ()
    provenance = sources.read(
        File(f"{file.filename}.provenance", file.provenance), limit=LARGEST_PROVENANCE
    )
    signers = verify_provenance(
        provenance, file.filename, sha256, trusted=trusted.get(DISTRIBUTION, ())
    )
    if former_signers and not set(signers) <= set(former_signers):
        raise AttestationProblem(
            f"the file was published by {', '.join(signers)}, "
            f"but the former update by {', '.join(former_signers)}",
            where=file.filename,
            hint=f"nothing was changed; if that is right: {REMOVE_HINT}, and forgets the signers",
        )
    return signers


def _report(
    action: Literal["updated", "current"], update: FamilyUpdate | None, context: Context
) -> BridgeUpdateReport:
    """Return the report on the families that the stored update adds or changes."""
    families = known_families(context.environ, shipped_bridges=False)
    if update is None or not families.is_update:
        return BridgeUpdateReport(action, families)
    added, changed, restricted = [], [], {}
    for name in sorted(update.files):
        updated, shipped = families.named(name), SHIPPED.named(name)
        if shipped is None:
            added.append(name)
        elif updated is not None and updated != shipped:
            changed.append(name)
            if clauses := families.restrictions(name):
                restricted[name] = clauses
    return BridgeUpdateReport(action, families, update, tuple(added), tuple(changed), restricted)
