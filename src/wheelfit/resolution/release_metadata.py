"""The variant metadata of a release, from its index file or its wheels (F-70 to F-79).

Metadata that cannot be read or is invalid excludes variant wheels, but not plain ones (F-130). Each
such loss is a `Degradation`; with a strict policy they are raised together.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from wheelfit.core.filename import index_file_name
from wheelfit.core.labels import NULL, Label
from wheelfit.core.strict_json import DEFAULT_LIMITS, JsonLimits
from wheelfit.core.unusable_metadata import Degradation
from wheelfit.errors import BadMetadata, InconsistentDocuments
from wheelfit.sources.repository import Repository, TooCostly
from wheelfit_runtime.errors import (
    Fault,
    FileProblem,
    IntegrityError,
    InvalidDocument,
    UnexpectedStatus,
    Unreachable,
)
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wheelfit.core.document import VariantDocument
    from wheelfit.resolution.listing import Release, Wheel
    from wheelfit.sources.page import File
    from wheelfit_runtime.errors import WheelfitError


class MetadataPolicy(Struct, frozen=True):
    """The limits on reading metadata, and the treatment of faults."""

    strict: bool = False
    """Whether degradations are an error (``--strict``)."""
    read_unlisted: bool = False
    """Whether labels missing from a remote index file are looked up in the wheels (F-76)."""
    max_labels: int = 16
    """The largest number of labels of a remote release to look up in its wheels (F-77)."""
    limits: JsonLimits = DEFAULT_LIMITS
    """The size limits of a document (F-30)."""
    accept_unknown_drafts: bool = False
    """Whether documents of an unknown 0.x schema are read (F-38)."""


class ReleaseMetadata(Struct, frozen=True):
    """The variant metadata of a release."""

    document: VariantDocument | None = None
    """The combined document; None if there is no usable metadata."""
    rejections: Mapping[str, str] = field(default_factory=dict)
    """The wheels that are unusable because of their metadata: file name to reason."""
    notes: tuple[str, ...] = ()
    """Notes on unusual or faulty parts, one sentence each (F-136)."""
    degradations: tuple[Degradation, ...] = ()
    """The degradations by faulty metadata, for programs (F-136)."""

    def __post_init__(self) -> None:
        force_setattr(self, "rejections", MappingProxyType(dict(self.rejections)))


def read_release_metadata(
    release: Release,
    wheels: Sequence[Wheel],
    repository: Repository,
    policy: MetadataPolicy = MetadataPolicy(),
) -> ReleaseMetadata:
    """Return the metadata that decides among some wheels of a release on any target.

    Parameters and errors are those of `read_each_source` and `choose_source_metadata`.
    """
    by_source = read_each_source(release, wheels, repository, policy)
    return choose_source_metadata(by_source, wheels, lambda _document, _wheels: True)


def read_each_source(
    release: Release, wheels: Sequence[Wheel], repository: Repository, policy: MetadataPolicy
) -> Mapping[str, ReleaseMetadata]:
    """Return the metadata of some wheels of a release by source.

    :param wheels: its variant wheels whose tags fit, best tags first; only their metadata is read.
    :raises BadMetadata: metadata is faulty, and the policy is strict.
    :raises WheelfitError: a file the user named cannot be read (F-125).
    """
    sources = list(dict.fromkeys(wheel.file.source for wheel in wheels))
    return {
        source: _of_one_source(
            replace(
                release,
                index_files=tuple(file for file in release.index_files if file.source == source),
            ),
            [wheel for wheel in wheels if wheel.file.source == source],
            repository,
            policy,
        )
        for source in sources
    }


def _of_one_source(
    release: Release, wheels: Sequence[Wheel], repository: Repository, policy: MetadataPolicy
) -> ReleaseMetadata:
    reader = _MetadataReader(release, wheels, repository, policy)
    try:
        document = reader.from_index_file() if release.index_files else reader.from_wheels()
    except _Unusable as unusable:
        metadata = reader.without_document(unusable)
    else:
        metadata = reader.with_document(document)
    if policy.strict:
        raise_if_degraded(f"{release.name} {release.version}", metadata.degradations)
    return metadata


def choose_source_metadata(
    by_source: Mapping[str, ReleaseMetadata],
    wheels: Sequence[Wheel],
    runs_on_target: Callable[[VariantDocument, Sequence[Wheel]], bool],
) -> ReleaseMetadata:
    """Return the metadata of the only source, or of several that agree (F-127).

    :param runs_on_target: takes a document and its wheels, and returns whether the target runs one
        of them; called only if several sources have the release.
    :raises InconsistentDocuments: several sources have variants that fit, and contradict
        each other.
    """
    if len(by_source) == 1:
        return next(iter(by_source.values()))
    documents = {
        source: metadata.document
        for source, metadata in by_source.items()
        if metadata.document is not None
    }
    usable = {
        source: document
        for source, document in documents.items()
        if runs_on_target(document, [wheel for wheel in wheels if wheel.file.source == source])
    }
    decisive = usable or dict(list(documents.items())[:1])
    rejections = {
        wheel.filename.text: f"no variant of {wheel.file.source} fits"
        for wheel in wheels
        if wheel.file.source not in decisive
    }
    for metadata in by_source.values():
        rejections.update(metadata.rejections)
    from wheelfit.core.index_metadata import combine

    return ReleaseMetadata(
        combine(decisive.items()) if decisive else None,
        rejections,
        tuple(note for metadata in by_source.values() for note in metadata.notes),
        tuple(
            degradation for metadata in by_source.values() for degradation in metadata.degradations
        ),
    )


def raise_if_degraded(release: str, degradations: Sequence[Degradation]) -> None:
    """Raise an error if there are degradations (``--strict``).

    :param release: name and version, for the message.
    :raises BadMetadata: there are degradations.
    """
    if degradations:
        first, *others = degradations
        notes = [
            *map(str, first.faults[1:_MAX_SHOWN]),
            *(other.fault for other in others[:_MAX_SHOWN]),
        ]
        raise BadMetadata(
            f"{release}: {first.fault}",
            where=first.where or None,
            note="\n".join(notes) or None,
            hint="report it to the publisher; without --strict the faulty parts are ignored",
            details=[degradation.to_mapping() for degradation in degradations],
        )


_MAX_SHOWN = 20
"""Faults and further degradations in the text of an error; its JSON has more."""


class _Unusable(Exception):
    """Raised if all variant wheels of the release are unusable."""

    def __init__(
        self, code: str, reason: str, where: str = "", faults: tuple[Fault, ...] = ()
    ) -> None:
        super().__init__(reason)
        self.faults = faults
        self.code = code
        self.reason = reason
        self.where = where


class _MetadataReader:
    def __init__(
        self,
        release: Release,
        wheels: Sequence[Wheel],
        repository: Repository,
        policy: MetadataPolicy,
    ) -> None:
        self._release = release
        self._repository = repository
        self._policy = policy
        self._wheels: dict[Label, list[Wheel]] = {}
        for wheel in wheels:
            if wheel.filename.label is not None:
                self._wheels.setdefault(wheel.filename.label, []).append(wheel)
        self._ignored: dict[Label, tuple[str, str]] = {}  # with the code and the reason
        self._notes: list[str] = []
        self._where = ""

    # --- sources of the metadata -------------------------------------------------

    def from_index_file(self) -> VariantDocument:
        from wheelfit.core.metadata import read_document

        file = self._index_file()
        self._where = file.filename
        try:
            document = read_document(
                self._content(file),
                where=file.filename,
                limits=self._policy.limits,
                accept_unknown_drafts=self._policy.accept_unknown_drafts,
            )
        except _METADATA_ERRORS as error:  # F-36, F-79, F-130
            self._raise_if_direct(error)
            reason = f"{file.filename} cannot be used: {error.message}"
            faults = error.faults if isinstance(error, InvalidDocument) else ()
            raise _Unusable(error.reference, reason, file.filename, faults) from None
        return self._with_unlisted(document, file)

    def from_wheels(self) -> VariantDocument:
        is_remote = any(not wheels[0].file.is_local for wheels in self._wheels.values())
        if (
            is_remote
            and len(self._wheels) > self._policy.max_labels
            and not self._release.is_direct
        ):
            reason = (
                f"there is no {self._expected_name()}, and {len(self._wheels)} labels are too many "
                "to look up in the wheels"
            )
            raise _Unusable(TooCostly.reference, reason)  # F-77
        documents = [
            (where, document) for _, where, document in self._documents_in_wheels(self._wheels)
        ]
        if not documents:
            reasons = [
                f"{', '.join(labels)}: {reason}" for labels, _, reason in self._labels_by_reason()
            ]
            code = next(iter(self._ignored.values()))[0]
            raise _Unusable(code, "; ".join(reasons))
        from wheelfit.core.index_metadata import combine

        try:
            return combine(documents)
        except InconsistentDocuments as error:
            self._raise_if_direct(error)
            reason = f"its wheels contradict each other: {error.message}"
            raise _Unusable(error.reference, reason) from None

    # --- the result ----------------------------------------------------------------

    def with_document(self, document: VariantDocument) -> ReleaseMetadata:
        ignored = [
            Degradation("label", labels, code, reason)
            for labels, code, reason in self._labels_by_reason()
        ]
        return self._result(
            document,
            {label: reason for label, (_, reason) in self._ignored.items()},
            [*document.notes, *self._notes, *map(str, ignored)],
            [replace(lost, where=self._where) for lost in (*document.degradations, *ignored)],
        )

    def without_document(self, unusable: _Unusable) -> ReleaseMetadata:
        """Return the metadata without any usable variant wheel, even the null variant (F-130)."""
        degradation = Degradation(
            "release",
            tuple(sorted(self._wheels)),
            unusable.code,
            unusable.reason,
            unusable.where,
            unusable.faults,
        )
        reasons = {label: reason for label, (_, reason) in self._ignored.items()}
        ignored_labels = {label: reasons.get(label, unusable.reason) for label in self._wheels}
        return self._result(None, ignored_labels, [*self._notes, str(degradation)], [degradation])

    def _result(
        self,
        document: VariantDocument | None,
        ignored: Mapping[Label, str],
        notes: Sequence[str],
        degradations: Sequence[Degradation],
    ) -> ReleaseMetadata:
        rejections = {
            wheel.filename.text: reason
            for label, reason in ignored.items()
            for wheel in self._wheels[label]
        }
        release = f"{self._release.name} {self._release.version}"
        return ReleaseMetadata(
            document,
            rejections,
            tuple(f"{release}: {note}" for note in notes),
            tuple(degradations),
        )

    def _labels_by_reason(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """Yield the ignored labels by reason: labels, code and reason."""
        reasons: dict[tuple[str, str], list[str]] = {}
        for label, fault in sorted(self._ignored.items()):
            reasons.setdefault(fault, []).append(label)
        for (code, reason), labels in reasons.items():
            yield tuple(labels), code, reason

    # --- files ---------------------------------------------------------------------

    def _index_file(self) -> File:
        files = self._release.index_files
        named_like_wheels = [file for file in files if file.filename in self._spelled_names()]
        if len(files) > 1 and len(named_like_wheels) != 1:  # F-78
            names = listed(sorted(file.filename for file in files))
            reason = f"{names} exist, and none is spelled like the wheels"
            raise _Unusable("ambiguous-document", reason)
        file = named_like_wheels[0] if named_like_wheels else files[0]
        if file.filename != self._expected_name():
            self._notes.append(f"{file.filename} should be named {self._expected_name()}")
        return file

    def _spelled_names(self) -> set[str]:
        """Return the names of the index file in the spellings of the wheels."""
        stems = (wheel.filename.text.split("-")[:2] for wheel in self._release.wheels)
        return {f"{name}-{version}-variants.json" for name, version in stems}

    def _expected_name(self) -> str:
        return index_file_name(self._release.name, self._release.version)

    def _content(self, file: File) -> bytes:
        limit = self._policy.limits.size
        if file.size is not None and file.size > limit:  # no request is needed
            problem = f"the document has {file.size} bytes, more than the limit of {limit}"
            raise InvalidDocument([Fault("", problem, "F-30")])
        return self._repository.read(file, limit=limit)

    def _with_unlisted(self, document: VariantDocument, file: File) -> VariantDocument:
        """Return the document with the labels that only wheels have (F-76)."""
        listed_labels = {*document.variants, *document.unusable, NULL}  # F-26
        unlisted = sorted(self._wheels.keys() - listed_labels)
        if not unlisted:
            return document
        local = [label for label in unlisted if self._wheels[label][0].file.is_local]
        remote = [label for label in unlisted if label not in local]
        limit = self._policy.max_labels if self._policy.read_unlisted else 0
        labels_to_read = [*local, *remote[:limit]]
        from wheelfit.core.index_metadata import combine

        for label in unlisted:
            if label not in labels_to_read:
                self._ignored[label] = ("unlisted-variant", f"not in {file.filename}")
        for label, where, own_document in self._documents_in_wheels(labels_to_read):
            try:
                document = combine([(file.filename, document), (where, own_document)])
            except InconsistentDocuments as error:
                self._raise_if_direct(error)
                reason = f"its own metadata contradicts {file.filename}"
                self._ignored[label] = (error.reference, reason)
        return document

    def _documents_in_wheels(
        self, labels: Iterable[Label]
    ) -> Iterator[tuple[Label, str, VariantDocument]]:
        """Yield the labels with the name of the best wheel of each and its document (F-77)."""
        from wheelfit.core.index_metadata import read_wheel_document

        for label in labels:
            wheel = self._wheels[label][0]
            where = wheel.filename.text
            try:
                document = read_wheel_document(
                    self._document_in(wheel),
                    label,
                    where=where,
                    limits=self._policy.limits,
                    accept_unknown_drafts=self._policy.accept_unknown_drafts,
                )
            except TooCostly as error:
                self._raise_if_direct(error)
                reason = "no metadata can be read without fetching the whole wheel"
                self._ignored[label] = (error.reference, reason)
            except _METADATA_ERRORS as error:
                self._raise_if_direct(error)
                self._ignored[label] = (error.reference, error.message)
            else:
                yield label, where, document

    def _document_in(self, wheel: Wheel) -> bytes | None:
        try:
            return self._repository.variant_document(wheel.file)
        except TooCostly:
            if not self._release.is_direct:
                raise
        # F-125: a wheel that the user named is fetched anyway.
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="wheelfit-") as folder:
            path = self._repository.download(wheel.file, Path(folder))
            from wheelfit.wheels.archive import WheelArchive

            with WheelArchive(path, wheel.filename) as archive:
                return archive.variant_document()

    def _raise_if_direct(self, error: WheelfitError) -> None:
        """Raise an error in metadata of wheels that the user named (F-125)."""
        if self._release.is_direct:
            raise error


_METADATA_ERRORS = (UnexpectedStatus, Unreachable, IntegrityError, FileProblem, InvalidDocument)
"""The errors in metadata of a release that leave its plain wheels usable."""
