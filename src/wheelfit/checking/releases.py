"""Checks of the files of one release against each other (F-60 to F-65, F-70 to F-79, F-93)."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import Finding, Location, Severity, listed_briefly
from wheelfit.checking.tool_profiles import Profile
from wheelfit.checking.wheels.dependencies import DeclaredNames, undeclared_findings
from wheelfit.core.filename import index_file_name
from wheelfit.core.index_metadata import contradictions, disagreement
from wheelfit.core.labels import NULL, Label
from wheelfit.core.providers import BrokenProvider
from wheelfit.core.sizes import size_in_words
from wheelfit.core.strict_json import path_of, shortened
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.checking.wheels.wheel import LibraryFacts, WheelFacts
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.index_metadata import Contradiction
    from wheelfit_runtime.errors import IntegrityError


_MAX_QUOTED = 300
"""Characters of a document's content that a message quotes."""


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """The facts about an index file."""

    where: str
    filename: str
    """Its name, such as ``torch-2.8.0-variants.json``."""
    document: VariantDocument | None = None
    """Its content; None if it is unusable, or was not read."""
    data: bytes = field(default=b"", repr=False)
    """Its bytes, to locate lines."""


@dataclass(slots=True)
class ReleaseFacts:
    """The files of one release that belong together: of one index, or of one folder."""

    name: NormalizedName
    version: Version
    where: str
    """The folder, or the page without credentials."""
    wheels: list[WheelFacts] = field(default_factory=list)
    index_files: list[IndexFacts] = field(default_factory=list)
    has_source: bool = False
    is_listed: bool = False
    """Whether an index page lists them; a missing index file is then an error (F-70)."""
    is_whole: bool = True
    """Whether these are all files of the release, and not a selection."""

    @property
    def variants(self) -> tuple[WheelFacts, ...]:
        """The wheels with a label."""
        return tuple(wheel for wheel in self.wheels if wheel.filename.label is not None)

    @property
    def has_index(self) -> bool:
        """Whether there is an index file or an index page."""
        return bool(self.index_files) or self.is_listed

    def add(self, other: ReleaseFacts) -> None:
        """Add the files of another folder."""
        self.wheels += other.wheels
        self.index_files += other.index_files
        self.has_source |= other.has_source
        self.is_listed |= other.is_listed
        self.is_whole &= other.is_whole


def check_index_file(
    data: bytes,
    filename: str,
    *,
    where: str,
    profiles: frozenset[Profile] = frozenset(),
) -> tuple[list[Finding], IndexFacts]:
    """Check an index file by itself."""
    location = Location(where)
    from wheelfit.checking.documents.document import check_variant_document

    findings, document = check_variant_document(data, location, profiles=profiles)
    if Profile.PYPI in profiles:
        findings.append(location.finding(checks.PYPI_INDEX_FILE, "it is a -variants.json file"))
    return findings, IndexFacts(where, filename, document, data)


def check_release(
    release: ReleaseFacts, *, profiles: frozenset[Profile] = frozenset()
) -> list[Finding]:
    """Check whether the files of a release fit together."""
    usable = [file for file in release.index_files if file.document is not None]
    findings = [*_file_name_findings(release, profiles), *_missing_file_findings(release, profiles)]
    if Profile.UV in profiles:
        findings += _python_version_findings(release)
    for index in usable:
        if index.document is not None:
            findings += _index_file_findings(release, index, index.document, profiles)
    findings += _contradiction_findings(release, usable)
    findings += _shared_library_findings(release)
    findings += _marker_findings(release, usable)
    return _with_line_numbers(findings, release.index_files)


def _with_line_numbers(findings: list[Finding], index_files: Iterable[IndexFacts]) -> list[Finding]:
    """Add lines to findings in index files."""
    for index in index_files:
        from wheelfit.checking.documents.positions import with_positions

        findings_in_file = [finding for finding in findings if finding.where == index.where]
        other_findings = [finding for finding in findings if finding.where != index.where]
        findings = [*other_findings, *with_positions(findings_in_file, index.data)]
    return findings


def _file_name_findings(release: ReleaseFacts, profiles: frozenset[Profile]) -> Iterator[Finding]:
    expected = index_file_name(release.name, release.version)
    spellings = {expected} | {
        f"{'-'.join(wheel.filename.text.split('-')[:2])}-variants.json" for wheel in release.wheels
    }
    for index in release.index_files:
        if index.filename != expected:
            fault = f"it should be named {expected}"
            yield Location(index.where).finding(checks.MISSPELT_INDEX_FILE, fault)
            if Profile.UV in profiles:
                yield Location(index.where).finding(checks.UV_INDEX_FILE, fault)
    if len(release.index_files) > 1:
        named_like_wheels = [file for file in release.index_files if file.filename in spellings]
        consequence = (
            "only the one spelled like the wheels is used"
            if len(named_like_wheels) == 1
            else "none of them is used"
        )
        for index in release.index_files:
            others = sorted(
                file.filename for file in release.index_files if file.where != index.where
            )
            if others:
                yield Location(index.where).finding(
                    checks.DUPLICATE_INDEX_FILE,
                    f"{release.name} {release.version} also has {', '.join(others)}; {consequence}",
                )


def _missing_file_findings(
    release: ReleaseFacts, profiles: frozenset[Profile]
) -> Iterator[Finding]:
    variants = release.variants
    if not variants or not release.is_whole:
        return
    release_name = f"{release.name} {release.version}"
    count = count_of(len(variants), "variant wheel")
    if len(variants) == len(release.wheels) and not release.has_source:
        yield Location(release.where).finding(
            checks.NO_PLAIN_WHEEL, f"{release_name} has {count} and no plain wheel"
        )
    if not release.index_files:
        index_file = index_file_name(release.name, release.version)
        yield Location(release.where).finding(
            checks.NO_INDEX_FILE,
            f"{release_name} has {count} and no {index_file}",
            severity=Severity.ERROR if release.is_listed else None,
        )
        if Profile.UV in profiles:
            yield Location(release.where).finding(
                checks.UV_INDEX_FILE,
                f"there is no {index_file}, and uv does not read the documents in wheels instead",
            )


def _python_version_findings(release: ReleaseFacts) -> Iterator[Finding]:
    """Yield variant wheels for other Pythons than the rest of the release (F-94)."""
    wheels = [
        (wheel, str(wheel.core.requires_python or ""))
        for wheel in release.wheels
        if wheel.core is not None
    ]
    counts = Counter(requires_python for _, requires_python in wheels)
    usual_requirement = max(sorted(counts), key=counts.__getitem__, default="")
    for wheel, requires_python in wheels:
        if requires_python != usual_requirement and wheel.filename.label is not None:
            yield Location(wheel.where, "METADATA").finding(
                checks.UV_PYTHON,
                f"Requires-Python is {requires_python or 'missing'} here, and "
                f"{usual_requirement or 'missing'} in other wheels",
            )


def _index_file_findings(
    release: ReleaseFacts,
    index: IndexFacts,
    document: VariantDocument,
    profiles: frozenset[Profile],
) -> Iterator[Finding]:
    """Compare the wheels with an index file (F-73, F-93)."""
    listed = {*document.variants, *document.unusable}
    by_label: dict[Label, list[WheelFacts]] = {}
    for wheel in release.variants:
        if wheel.filename.label is not None:
            by_label.setdefault(wheel.filename.label, []).append(wheel)
    for label, wheels in by_label.items():
        if label not in listed:
            for wheel in wheels:
                yield from _unlisted_label_findings(wheel, label, index, profiles)
            continue
        for wheel in wheels:
            if wheel.document is None or wheel.document.properties(label) is None:
                continue
            if label in document.unusable:
                continue  # the check of the document reports it, with the reason
            reason = disagreement(wheel.document, document, label)
            if reason is not None:
                yield Location(wheel.where, "variant.json").finding(
                    checks.CLAIMS_DISAGREE,
                    f"{reason} ({index.filename})",
                    path=path_of("variants", label),
                )
    if release.wheels and release.is_whole:
        for missing in sorted(listed - by_label.keys() - {NULL}):
            yield Location(index.where).finding(
                checks.LABEL_WITHOUT_WHEEL,
                f"no wheel has the label {missing}",
                path=path_of("variants", missing),
            )
        if NULL in listed and NULL not in by_label:
            yield Location(index.where).finding(
                checks.LABEL_WITHOUT_WHEEL,
                "no wheel has the label null",
                path=path_of("variants", NULL),
                severity=Severity.NOTE,  # listed for plain wheels too, by some tools
            )


def _unlisted_label_findings(
    wheel: WheelFacts, label: Label, index: IndexFacts, profiles: frozenset[Profile]
) -> Iterator[Finding]:
    if label != NULL:  # null needs no entry (F-26)
        yield Location(wheel.where).finding(
            checks.LABEL_NOT_IN_INDEX, f"the label {label} is not in {index.filename}"
        )
    elif Profile.UV in profiles:
        yield Location(wheel.where).finding(checks.UV_NULL, f"null is not in {index.filename}")


def _contradiction_findings(
    release: ReleaseFacts, indexes: Sequence[IndexFacts]
) -> Iterator[Finding]:
    """Yield contradictions between wheels, or between a wheel and the index file (F-65)."""
    from_wheels = [
        (wheel.where, wheel.document) for wheel in release.wheels if wheel.document is not None
    ]
    from_index = [
        (index.where, index.document) for index in indexes[:1] if index.document is not None
    ]
    documents = [*from_index, *from_wheels]
    if len(documents) < 2:
        return
    # Reported already: labels of the index file (F-93), and unusable parts of documents.
    index_labels = {
        path_of("variants", label) for _, document in from_index for label in document.variants
    }
    unusable: set[str] = set()
    for _, document in documents:
        unusable |= {path_of("variants", label) for label in document.unusable}
        for name, provider in document.providers.items():
            if isinstance(provider, BrokenProvider):
                unusable.add(path_of("providers", name))
    wheels = {where for where, _ in from_wheels}
    for contradiction in contradictions(documents):
        first, second = contradiction.first, contradiction.second
        concerns_index = first not in wheels or second not in wheels
        if contradiction.path in unusable:
            continue
        if concerns_index and contradiction.path in index_labels:
            continue
        yield contradiction_finding(contradiction, "variant.json" if second in wheels else "")


_MAX_DUPLICATE_SIZE = 1_000_000  # bytes


def _shared_library_findings(release: ReleaseFacts) -> Iterator[Finding]:
    """Yield a finding about libraries that are identical in several variants."""
    labels: dict[LibraryFacts, set[str]] = defaultdict(set)
    first_by_hash: dict[str, LibraryFacts] = {}
    for wheel in release.variants:
        for library in wheel.libraries:
            first = first_by_hash.setdefault(library.hash, library)
            labels[first].add(str(wheel.filename.label))
    shared = {library: variants for library, variants in labels.items() if len(variants) > 1}
    if (size := sum(library.size for library in shared)) <= _MAX_DUPLICATE_SIZE:
        return
    largest = sorted(shared, key=lambda library: (-library.size, library.path))
    names = listed_briefly(sorted({label for variants in shared.values() for label in variants}))
    message = (
        f"{release.name} {release.version} has {size_in_words(size)} of identical libraries in "
        f"{names}: {listed_briefly([library.path for library in largest])}"
    )
    yield Location(release.where).finding(checks.DUPLICATE_LIBRARY, message)


def _marker_findings(release: ReleaseFacts, indexes: Sequence[IndexFacts]) -> Iterator[Finding]:
    """Yield markers for labels and properties that the release does not have (F-107)."""
    if not indexes:
        return  # other wheels are unknown
    documents = [index.document for index in indexes] + [wheel.document for wheel in release.wheels]
    declared = DeclaredNames.of(document for document in documents if document is not None)
    for wheel in release.wheels:
        if wheel.core is not None:
            yield from undeclared_findings(wheel.core, declared, Location(wheel.where, "METADATA"))


def contradiction_finding(contradiction: Contradiction, member: str = "variant.json") -> Finding:
    """Return the finding of the second file of a contradiction (F-65).

    :param member: the member of a wheel; empty: the file itself contradicts the first one.
    """
    # A common beginning would hide the difference behind the end of what is quoted.
    common = commonprefix(contradiction.values).rfind(", ") + 1  # noqa: RUF071 - of text
    there, here = (
        shortened(f"…{value[common:]}" if common else value, _MAX_QUOTED)
        for value in contradiction.values
    )
    path, first = contradiction.path, contradiction.first
    message = f"{path} differs from {first} (here: {here}; there: {there})"
    return Location(contradiction.second, member).finding(
        checks.INCONSISTENT_WHEELS, message, path=path
    )


def wrong_hash_finding(error: IntegrityError, where: str) -> Finding:
    """Return the finding of a file that differs from its promised digest (F-79)."""
    words = f"{error.message}: {error.note}" if error.note else error.message
    return Location(where).finding(checks.WRONG_HASH, " ".join(words.split()))


def closed_finding(release: ReleaseFacts) -> Finding:
    """Return the finding of a release to which the public registry accepts no more files (B-53)."""
    return Location(release.where).finding(
        checks.PYPI_CLOSED_RELEASE, f"{release.name} {release.version} is older than 14 days"
    )
