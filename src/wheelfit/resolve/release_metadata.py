"""Obtain the variant metadata of a release: its index file, else its wheels (F-70 to F-79).

What cannot be obtained or understood takes variant wheels out of the choice and
leaves the plain ones (F-130); it is said in a note, or raised when the user wants
strictness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.core.document import VariantDocument
from wheelfit.core.filename import index_file_name
from wheelfit.core.index_metadata import combine
from wheelfit.core.labels import NULL
from wheelfit.core.metadata import read_document
from wheelfit.core.properties import EMPTY
from wheelfit.core.providers import BrokenProvider
from wheelfit.errors import (
    FileProblem,
    HashMismatch,
    InconsistentDocuments,
    InvalidDocument,
    InvalidWheel,
    UnexpectedStatus,
    WheelfitError,
)
from wheelfit.sources.repository import TooCostly

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.core.labels import Label
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
        if release.index_files:
            return reading.from_index_file()
        return reading.from_wheels()
    except _Unusable as unusable:
        return reading.without(unusable.reason)


class _Unusable(Exception):
    """All variant wheels of the release are out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Reading:
    """Read the metadata of one release."""

    def __init__(
        self,
        release: Release,
        wheels: Sequence[Wheel],
        repository: Repository,
        policy: MetadataPolicy,
    ) -> None:
        self._release = release
        self._wheels = wheels
        self._repository = repository
        self._policy = policy
        self._rejections: dict[str, str] = {}
        self._notes: list[str] = []

    # --- the two ways ------------------------------------------------------------

    def from_index_file(self) -> ReleaseMetadata:
        file = self._index_file()
        try:
            data = self._repository.read(file)
        except (UnexpectedStatus, HashMismatch, FileProblem) as error:
            self._be_strict(error)
            raise _Unusable(f"{file.filename} cannot be used: {error}") from None  # F-79
        document = self._read(data, file.filename)
        if document is None:
            raise _Unusable(self._notes.pop())
        return self._done(self._with_unlisted(document, file))

    def from_wheels(self) -> ReleaseMetadata:
        labels = list(dict.fromkeys(self._label(wheel) for wheel in self._wheels))
        remote = any(not wheel.file.is_local for wheel in self._wheels)
        if remote and not self._release.is_given and len(labels) > self._policy.most_labels:
            raise _Unusable(
                f"there is no {self._expected()}, and {len(labels)} labels are too many to look "
                "up in the wheels"
            )  # F-77
        found = dict(self._from_wheels(labels))
        if not found and NULL in labels and not self._rejections:  # F-26
            return self._done(VariantDocument((), variants={NULL: EMPTY}))
        if not found:
            reasons = list(dict.fromkeys(self._rejections.values()))
            raise _Unusable("; ".join(reasons) or f"there is no {self._expected()}")
        try:
            return self._done(combine(found.values()))
        except InconsistentDocuments as error:
            self._be_strict(error)
            raise _Unusable(f"its wheels contradict each other: {error.message}") from None

    def without(self, reason: str) -> ReleaseMetadata:
        """Return that no variant wheel can be used, the null variant neither (F-130)."""
        for wheel in self._wheels:
            self._rejections.setdefault(wheel.filename.text, reason)
        release = f"{self._release.name} {self._release.version}"
        note = f"{release}: {reason}; its variant wheels are ignored"
        return ReleaseMetadata(None, self._rejections, (*self._notes, note))

    # --- parts ---------------------------------------------------------------------

    def _index_file(self) -> File:
        files = self._release.index_files
        spelled = [file for file in files if file.filename in self._spellings()]
        if len(files) > 1 and len(spelled) != 1:  # F-78
            names = " and ".join(sorted(file.filename for file in files))
            raise _Unusable(f"{names} are both there, and none is spelled like the wheels")
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
        unlisted = [
            wheel
            for wheel in self._wheels
            if self._label(wheel) not in document.variants
            and self._label(wheel) not in document.unusable
            and self._label(wheel) != NULL  # F-26
        ]
        reason = f"its label is not in {file.filename}"
        wanted: list[Label] = []
        for wheel in unlisted:
            if wheel.file.is_local or self._policy.read_unlisted:
                wanted.append(self._label(wheel))
            else:
                self._rejections[wheel.filename.text] = reason
        for label, (where, own) in self._from_wheels(list(dict.fromkeys(wanted))):
            try:
                document = combine([(file.filename, document), (where, own)])
            except InconsistentDocuments as error:
                self._be_strict(error)
                self._reject(label, f"{reason}, and its own metadata contradicts that file")
        missing = sorted({self._label(wheel) for wheel in unlisted} - set(wanted))
        if missing:
            self._notes.append(f"{', '.join(missing)}: ignored, not in {file.filename}")
        return document

    def _from_wheels(
        self, labels: Iterable[Label]
    ) -> Iterable[tuple[Label, tuple[str, VariantDocument]]]:
        """Yield what one wheel of each label says of itself (F-77)."""
        for label in labels:
            wheel = next(wheel for wheel in self._wheels if self._label(wheel) == label)
            where = wheel.filename.text
            try:
                data = self._repository.variant_document(wheel.file)
            except TooCostly as error:
                self._be_strict(error)
                self._reject(label, "its metadata cannot be read without fetching the whole wheel")
                continue
            except InvalidWheel as error:
                self._be_strict(error)
                self._reject(label, f"the wheel is not sound: {error.message}")
                continue
            if data is None:
                if label != NULL:  # F-26, F-27
                    self._reject(label, "the wheel has no variant.json")
                continue
            document = self._read(data, where)
            if document is None:
                self._reject(label, self._notes.pop())
            elif label in document.unusable:
                self._reject(label, document.unusable[label])
            elif label not in document.variants and label != NULL:  # F-24
                self._reject(label, "its variant.json describes another label")
            else:
                yield label, (where, document)

    def _read(self, data: bytes, where: str) -> VariantDocument | None:
        try:
            document = read_document(data, where=where)
        except InvalidDocument as error:  # F-36, F-130
            self._be_strict(error)
            self._notes.append(f"{where} cannot be used: {error.message}")
            return None
        broken = [
            f"{namespace}: {provider.reason}"
            for namespace, provider in document.providers.items()
            if isinstance(provider, BrokenProvider)
        ]
        broken += [f"{label}: {reason}" for label, reason in document.unusable.items()]
        if broken and self._policy.strict:
            raise WheelfitError(
                "the variant metadata is partly unusable", where=where, note="\n".join(broken)
            )
        return document

    def _reject(self, label: Label, reason: str) -> None:
        for wheel in self._wheels:
            if self._label(wheel) == label:
                self._rejections[wheel.filename.text] = reason

    def _be_strict(self, error: WheelfitError) -> None:
        if self._policy.strict:
            raise error

    def _done(self, document: VariantDocument) -> ReleaseMetadata:
        release = f"{self._release.name} {self._release.version}"
        notes = [*document.notes, *self._notes]
        return ReleaseMetadata(
            document, self._rejections, tuple(f"{release}: {note}" for note in notes)
        )

    @staticmethod
    def _label(wheel: Wheel) -> Label:
        label = wheel.filename.label
        if label is None:
            raise ValueError(wheel)  # only variant wheels are given
        return label
