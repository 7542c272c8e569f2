"""Obtain the variant metadata of a release: its index file, else its wheels (F-70 to F-79).

What cannot be obtained or understood takes variant wheels out of the choice and
leaves the plain ones (F-130); it is said in a note, or raised when the user wants
strictness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.core.filename import index_file_name
from wheelfit.core.index_metadata import combine, read_wheel_document
from wheelfit.core.labels import NULL
from wheelfit.core.metadata import read_document
from wheelfit.errors import (
    FileProblem,
    InconsistentDocuments,
    IntegrityError,
    InvalidDocument,
    InvalidPage,
    InvalidWheel,
    UnexpectedStatus,
)
from wheelfit.sources.repository import TooCostly
from wheelfit.wheels.archive import WheelArchive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.errors import WheelfitError
    from wheelfit.resolve.listing import Release, Wheel
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Repository

__all__ = ["MetadataPolicy", "ReleaseMetadata", "obtain"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class MetadataPolicy:
    """Hold how much trouble to take, and how much to forgive."""

    strict: bool = False
    """Whether everything that would only be skipped is an error (section 12)."""
    read_unlisted: bool = False
    """Whether labels missing from a remote index file are looked up in the wheels (F-76)."""
    most_labels: int = 16
    """Labels of a remote release to look up in its wheels (F-77)."""


@dataclass(frozen=True, slots=True)
class ReleaseMetadata:
    """Hold what is known of the variants of a release."""

    document: VariantDocument | None = None
    """All of it, combined; None when there is nothing to go by."""
    rejections: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Wheels that cannot be used because of their metadata: file name to reason."""
    notes: tuple[str, ...] = ()
    """What was wrong, one sentence each (F-136)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rejections", MappingProxyType(dict(self.rejections)))


def obtain(
    release: Release,
    wheels: Sequence[Wheel],
    repository: Repository,
    policy: MetadataPolicy = MetadataPolicy(),
) -> ReleaseMetadata:
    """Return the metadata that decides among some wheels of a release.

    :param release: the release with its index file, if it has one.
    :param wheels: its variant wheels whose tags fit, best tags first; only for these
        anything is read.
    :param repository: where to read.
    :param policy: how strict to be.
    :raises Unreachable: a server cannot be reached; nobody then knows what was lost.
    """
    reading = _Reading(release, wheels, repository, policy)
    try:
        document = reading.from_index_file() if release.index_files else reading.from_wheels()
    except _Unusable as unusable:
        return reading.without(unusable.reason)
    return reading.with_document(document)


class _Unusable(Exception):
    """All variant wheels of the release are out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Reading:
    """Read the metadata of one release; remember which labels are out, and why."""

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
        self._ignored: dict[Label, str] = {}
        self._notes: list[str] = []

    # --- the two ways ------------------------------------------------------------

    def from_index_file(self) -> VariantDocument:
        file = self._index_file()
        try:
            data = self._repository.read(file)
            document = read_document(data, where=file.filename, strict=self._policy.strict)
        except (UnexpectedStatus, IntegrityError, FileProblem, InvalidDocument) as error:
            self._be_strict(error)  # F-36, F-79, F-130
            raise _Unusable(f"{file.filename} cannot be used: {error.message}") from None
        return self._with_unlisted(document, file)

    def from_wheels(self) -> VariantDocument:
        remote = any(not wheels[0].file.is_local for wheels in self._wheels.values())
        if remote and len(self._wheels) > self._policy.most_labels and not self._release.is_given:
            reason = (
                f"there is no {self._expected()}, and {len(self._wheels)} labels are too many to "
                "look up in the wheels"
            )
            self._be_strict(TooCostly(reason))
            raise _Unusable(reason)  # F-77
        found = [(where, own) for _, where, own in self._look_up(self._wheels)]
        if not found:
            raise _Unusable("; ".join(f"{who}: {why}" for who, why in self._reasons()))
        try:
            return combine(found)
        except InconsistentDocuments as error:
            self._be_strict(error)
            raise _Unusable(f"its wheels contradict each other: {error.message}") from None

    # --- the result ----------------------------------------------------------------

    def with_document(self, document: VariantDocument) -> ReleaseMetadata:
        ignored = (f"{who}: ignored, {why}" for who, why in self._reasons())
        return self._result(document, self._ignored, [*document.notes, *self._notes, *ignored])

    def without(self, reason: str) -> ReleaseMetadata:
        """Return that no variant wheel can be used, the null variant neither (F-130)."""
        ignored = {label: self._ignored.get(label, reason) for label in self._wheels}
        return self._result(
            None, ignored, [*self._notes, f"{reason}; its variant wheels are ignored"]
        )

    def _result(
        self, document: VariantDocument | None, ignored: Mapping[Label, str], notes: Sequence[str]
    ) -> ReleaseMetadata:
        rejections = {
            wheel.filename.text: reason
            for label, reason in ignored.items()
            for wheel in self._wheels[label]
        }
        release = f"{self._release.name} {self._release.version}"
        return ReleaseMetadata(document, rejections, tuple(f"{release}: {note}" for note in notes))

    def _reasons(self) -> Iterator[tuple[str, str]]:
        """Yield labels that are out for the same reason, and the reason."""
        reasons: dict[str, list[Label]] = {}
        for label, reason in sorted(self._ignored.items()):
            reasons.setdefault(reason, []).append(label)
        for reason, labels in reasons.items():
            yield ", ".join(labels), reason

    # --- parts ---------------------------------------------------------------------

    def _index_file(self) -> File:
        files = self._release.index_files
        spelled = [file for file in files if file.filename in self._spellings()]
        if len(files) > 1 and len(spelled) != 1:  # F-78
            names = " and ".join(sorted(file.filename for file in files))
            reason = f"{names} are both there, and none is spelled like the wheels"
            self._be_strict(InvalidPage(reason, where=files[0].source))
            raise _Unusable(reason)
        file = spelled[0] if spelled else files[0]
        if file.filename != self._expected():
            self._notes.append(f"{file.filename} should be named {self._expected()}")
        return file

    def _spellings(self) -> set[str]:
        """Return how the index file would be called in the spelling of each wheel."""
        stems = (wheel.filename.text.split("-")[:2] for wheel in self._release.wheels)
        return {f"{name}-{version}-variants.json" for name, version in stems}

    def _expected(self) -> str:
        return index_file_name(self._release.name, self._release.version)

    def _with_unlisted(self, document: VariantDocument, file: File) -> VariantDocument:
        """Deal with wheels whose label the index file does not have (F-76)."""
        listed = {*document.variants, *document.unusable, NULL}  # F-26
        wanted: list[Label] = []
        for label in self._wheels.keys() - listed:
            if self._wheels[label][0].file.is_local or self._policy.read_unlisted:
                wanted.append(label)
            else:
                self._ignored[label] = f"not in {file.filename}"
        for label, where, own in self._look_up(sorted(wanted)):
            try:
                document = combine([(file.filename, document), (where, own)])
            except InconsistentDocuments as error:
                self._be_strict(error)
                self._ignored[label] = f"its own metadata contradicts {file.filename}"
        return document

    def _look_up(self, labels: Iterable[Label]) -> Iterator[tuple[Label, str, VariantDocument]]:
        """Yield what the best wheel of each label says of itself, and its name (F-77)."""
        for label in labels:
            wheel = self._wheels[label][0]
            where = wheel.filename.text
            try:
                data = self._document_in(wheel)
                own = read_wheel_document(data, label, where=where, strict=self._policy.strict)
            except TooCostly as error:
                self._be_strict(error)
                self._ignored[label] = (
                    "its metadata cannot be read without fetching the whole wheel"
                )
            except (UnexpectedStatus, FileProblem, InvalidWheel) as error:
                self._be_strict(error)
                self._ignored[label] = error.message
            else:
                yield label, where, own

    def _document_in(self, wheel: Wheel) -> bytes | None:
        try:
            return self._repository.variant_document(wheel.file)
        except TooCostly:
            if not self._release.is_given:
                raise
        # F-125: what the user named is fetched anyway.
        with TemporaryDirectory(prefix="wheelfit-") as folder:
            path = self._repository.download(wheel.file, Path(folder))
            with WheelArchive(path, wheel.filename) as archive:
                return archive.variant_document()

    def _be_strict(self, error: WheelfitError) -> None:
        """Raise what may not be passed over: anything if strict, and a wheel that is given."""
        if self._policy.strict or self._release.is_given:
            raise error
