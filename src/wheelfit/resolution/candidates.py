"""The candidates of a release: the compatible wheels, and the reasons against the others.

The steps of F-90 are done lazily: nothing is fetched before its release is examined, and only
namespaces that occur in wheels with compatible tags are detected (P-22).
"""

from __future__ import annotations

from copy import copy
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from wheelfit.core.abi_dependency import KnownVersions
from wheelfit.core.agreements import AGREEMENTS, Agreement, differing_agreement
from wheelfit.core.core_metadata import CoreMetadata, read_metadata
from wheelfit.core.ordering import Preferences
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.core.property_support import Support, namespaces_used, support_for
from wheelfit.core.provider_lookup import Detector, NoPlugins, Plugins, ProviderPolicy
from wheelfit.core.selection import Selection, select
from wheelfit.core.unusable_metadata import Degradation, degradations_in_one_line
from wheelfit.core.versions import admits_python
from wheelfit.errors import InvalidRequirement, InvalidSource
from wheelfit.resolution.choice_context import ChoiceContext
from wheelfit.resolution.choice_warnings import warnings_about_choices
from wheelfit.resolution.listing import NO_TAG, AllowedHashes, Listing, sort_page
from wheelfit.resolution.release_choice import ReleaseChoice
from wheelfit.resolution.release_metadata import (
    MetadataPolicy,
    ReleaseMetadata,
    choose_source_metadata,
    raise_if_degraded,
    read_each_source,
)
from wheelfit.sources.memoized import Memo
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

    from packaging.tags import Tag
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.core.target import Target
    from wheelfit.resolution.listing import Release, SourcePolicy, Wheel
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Repository


def _shipped_families(project: NormalizedName) -> tuple[BridgeFamily, ...]:
    from wheelfit.sources.bridges.catalogue import SHIPPED

    return SHIPPED.standing_for(project)


class ChoicePolicy(Struct, frozen=True):
    """The user's decisions about choosing wheels."""

    providers: ProviderPolicy = field(default_factory=ProviderPolicy)
    preferences: Preferences = field(default_factory=Preferences)
    metadata: MetadataPolicy = field(default_factory=MetadataPolicy)
    hashes: Mapping[NormalizedName, AllowedHashes] = field(default_factory=dict)
    """The allowed digests of a project's files (F-94); default: any."""
    agreements: tuple[Agreement, ...] = AGREEMENTS
    mixed: frozenset[str] = frozenset()
    """The names of agreements that do not bind, because the user allows the mixture."""
    sources: SourcePolicy | None = None
    """The source distributions that may be chosen besides wheels; None: none."""
    families: Callable[[NormalizedName], tuple[BridgeFamily, ...]] = _shipped_families
    """Returns the bridge families that have builds of a project, in use or not."""
    bridges_off: Literal["", "option", "setting"] = ""
    """How the default families were turned off; empty: they were not."""

    @property
    def binding(self) -> tuple[Agreement, ...]:
        """The agreements that bind."""
        return tuple(agreement for agreement in self.agreements if agreement.name not in self.mixed)


_ProjectState: TypeAlias = "tuple[NormalizedName, ProjectPage | None, int]"
"""A project, its files that the user named, and the number of times its listing was discarded."""


class _SharedData:
    """The data from the sources, and the conclusions that are true in all contexts.

    The key of each entry has all values it depends on, so entries are never replaced.
    """

    def __init__(self) -> None:
        self.listings: Memo[_ProjectState, Listing | None] = Memo()
        self.metadata_by_source: Memo[
            tuple[_ProjectState, Version], Mapping[str, ReleaseMetadata]
        ] = Memo()
        self.cores: Memo[tuple[_ProjectState, str], CoreMetadata] = Memo()
        self.accepted: dict[str, CoreMetadata] = {}
        """The core metadata of wheels that passed all checks, by file name."""
        self.discarded_listings: dict[NormalizedName, int] = {}
        """The number of times that the listing of each project was discarded."""
        self.rejected: dict[NormalizedName, dict[str, str]] = {}
        """Wheels that turned out unusable: reason by file name, by project."""
        self.degradations: dict[str, Degradation] = {}


class Candidates:
    """The wheels of one repository for one target, each with a verdict on its compatibility.

    All verdicts belong to one `ChoiceContext`, which never changes; `within` returns candidates for
    another one. All of them share the data read. Methods are safe to call from several threads.
    If a source cannot be read, methods and functions that take candidates raise `NetworkError`.

    :param machine: the detector of the target; None: only ``host_detector`` is used.
    :param host_detector: the detector of a host file; it precedes ``machine`` (P-44).
    :param plugins: runs trusted plugins; default: none is run (P-14, P-15).
    :param has_requirements: returns whether the metadata of an unbuilt file states its
        requirements.
    """

    is_for_one_machine = True
    """Whether the chosen wheels are for one environment, so that they must be compatible."""

    def __init__(
        self,
        repository: Repository,
        target: Target,
        machine: Detector | None,
        policy: ChoicePolicy = ChoicePolicy(),
        *,
        host_detector: Detector | None = None,
        plugins: Plugins = NoPlugins(),
        has_requirements: Callable[[File], bool] = lambda _file: True,
    ) -> None:
        self.repository = repository
        self.target = target
        self.policy = policy
        self.context = ChoiceContext()
        """The context of every verdict."""
        self._machine = machine
        self._host_detector = host_detector
        self._plugins = plugins
        self.has_requirements = has_requirements
        self._detection_lock = RLock()
        self._shared_data = _SharedData()
        self._clear_caches()

    def _clear_caches(self) -> None:
        self._derived: Self | None = None  # the last one, which is usually needed again
        self._metadata: Memo[tuple[_ProjectState, Version], ReleaseMetadata] = Memo()
        self._offers: Memo[_ProjectState, tuple[PropertySet, ...]] = Memo()
        self._choices: Memo[tuple[_ProjectState, Version, int], ReleaseChoice] = Memo()

    def within(self, context: ChoiceContext) -> Self:
        """Return the same candidates in another context."""
        if context == self.context:
            return self
        derived = self._derived
        if derived is None or derived.context != context:
            derived = copy(self)
            derived.context = context
            derived._clear_caches()  # noqa: SLF001 - of the same class
            self._derived = derived
        return derived

    # --- listings -----------------------------------------------------------------

    def listing(self, name: NormalizedName) -> Listing | None:
        """Return the listing of a project; None if no source has it."""
        return self._shared_data.listings.get(self._project_state(name), lambda: self._list(name))

    def bridge(self, name: NormalizedName) -> BridgeFamily | None:
        """Return the bridge family in use for a project; None if there is none."""
        listing = self.listing(name)
        return None if listing is None else listing.bridge

    def discard_listing(self, name: NormalizedName) -> None:
        """Discard the listing of a project in every context, because its files changed."""
        count = self._shared_data.discarded_listings.get(name, 0)
        self._shared_data.discarded_listings[name] = count + 1

    def _project_state(self, name: NormalizedName) -> _ProjectState:
        discarded = self._shared_data.discarded_listings.get(name, 0)
        return name, self.context.direct_files.get(name), discarded

    def _list(self, name: NormalizedName) -> Listing | None:
        direct_page = self.context.direct_files.get(name)
        page = direct_page or self.repository.project(name)
        if page is None:
            return None
        allowed = self.policy.hashes.get(name, frozenset())
        return sort_page(
            page,
            self.target,
            allowed=allowed,
            is_direct=direct_page is not None,
            sources=self.policy.sources,
        )

    # --- choosing -------------------------------------------------------------------

    @property
    def known_versions(self) -> KnownVersions:
        """The versions of packages that builds may have been made for (P-51)."""
        if self.context.known_versions is not None:
            return self.context.known_versions
        return KnownVersions(self.policy.providers.abi_versions, is_open=True)

    def objection(self, properties: PropertySet, *, is_installed: bool = False) -> str | None:
        """Return the reason a build contradicts the agreed values; None if it does not."""
        for agreed in self.context.agreed:
            if is_installed and agreed.exempts_installed:
                continue
            objection = agreed.objection(properties)
            if objection is not None:
                return objection
        return None

    def choice(self, name: NormalizedName, version: Version) -> ReleaseChoice:
        """Return the verdicts on the wheels of a release, by file names and variants.

        :raises KeyError: the release is not listed.
        """
        # After another wheel of the project is rejected, the choice is made again.
        rejected_count = len(self._shared_data.rejected.get(name, ()))
        key = self._project_state(name), version, rejected_count
        return self._choices.get(key, lambda: self._choose(name, version))

    def usable_choice(self, name: NormalizedName, version: Version) -> ReleaseChoice:
        """Return the verdicts on a release after the core metadata of the chosen wheel was read.

        A wheel whose metadata is invalid or requires another Python is rejected, and the next one
        is chosen (F-94).

        :raises KeyError: the release is not listed.
        """
        while True:
            choice = self.choice(name, version)
            if choice.chosen is None or self._accepts_metadata(choice.chosen):
                return choice

    def wheel_with_label(
        self, name: NormalizedName, version: Version, label: Label | None
    ) -> Wheel | None:
        """Return the best wheel of a label with usable core metadata; None if there is none.

        :param label: None for the plain wheel.
        :raises KeyError: the release is not listed.
        """
        while True:
            wheel = self.choice(name, version).best_wheel(label)
            if wheel is None or self._accepts_metadata(wheel):
                return wheel

    def choice_with_label(
        self, name: NormalizedName, version: Version, label: Label | None
    ) -> ReleaseChoice:
        """Return the verdicts on a release with one label chosen (F-111).

        Compatible labels that rank above it are excluded.

        :param label: the chosen label; None for the plain wheel.
        """
        choice = self.choice(name, version)
        excluded: dict[str, str] = {}
        for verdict in choice.selection.verdicts:
            if verdict.verdict == "rejected" or verdict.filename.label == label:
                break
            excluded[verdict.filename.text] = (
                "its requirements cannot be met together with those of the other packages (P-55)"
            )
        if not excluded:
            return choice
        return self.within(self.context.with_excluded(excluded)).choice(name, version)

    def core_metadata(self, wheel: Wheel) -> CoreMetadata:
        """Return the core metadata of a chosen wheel (F-95).

        :raises InvalidWheel: it is not valid.
        :raises HashMismatch: its hash is not the promised one.
        """
        text = wheel.filename.text  # F-112: per file, since labels may differ in it
        return self._shared_data.cores.get(
            (self._project_state(wheel.filename.name), text),
            lambda: read_metadata(self.repository.metadata(wheel.file), text),
        )

    def reject(self, filename: WheelFilename, reason: str) -> None:
        """Reject a wheel that turned out unusable when it was read, in every context.

        From then on the next best wheel of its release is chosen.

        :param reason: a clause without a final full stop; the first one for each wheel is kept.
        """
        self._shared_data.rejected.setdefault(filename.name, {}).setdefault(filename.text, reason)

    def is_rejected(self, filename: WheelFilename) -> bool:
        """Return whether a wheel was rejected or is excluded."""
        rejected = self._shared_data.rejected.get(filename.name, {})
        return filename.text in rejected or filename.text in self.context.excluded

    def metadata_disagreement(self, choice: ReleaseChoice, data: bytes | None) -> str | None:
        """Compare the document in a downloaded wheel with the metadata it was chosen by (F-93).

        :param data: ``variant.json`` of the wheel; None if it has none.
        :returns: the difference, as a reason to reject the wheel; None if they agree.
        :raises BadMetadata: they do not agree, and the policy is strict.
        """
        filename, document = choice.selection.chosen, choice.metadata.document
        if filename is None or filename.label is None or document is None:
            return None  # F-10: the content of a plain wheel does not matter
        if data is None and choice.chosen is not None:
            data = choice.chosen.file.declared_document
        from wheelfit.core.index_metadata import disagreement, read_wheel_document

        try:
            wheel_document = read_wheel_document(
                data,
                filename.label,
                where=filename.text,
                limits=self.policy.metadata.limits,
                accept_unknown_drafts=self.policy.metadata.accept_unknown_drafts,
            )
        except InvalidWheel as error:
            reason: str | None = error.message
        else:
            reason = disagreement(wheel_document, document, filename.label)
        if reason is not None:
            self._record_degradation(filename, "metadata-disagreement", reason)
        return reason

    def support_of(
        self,
        document: VariantDocument,
        namespaces: Iterable[str],
        known_versions: KnownVersions | None = None,
    ) -> Support:
        """Return the support of the target for some namespaces of a document.

        :param namespaces: the namespaces to detect; no other is detected (P-22).
        :param known_versions: versions of packages that builds may be made for; default: those of
            the context.
        """
        with self._detection_lock:  # detectors need not be thread-safe
            return support_for(
                document,
                self._machine,
                environment=self.target.environment,
                host_detector=self._host_detector,
                policy=self.policy.providers,
                namespaces=namespaces,
                known=self.known_versions if known_versions is None else known_versions,
                plugins=self._plugins,
            )

    def warnings_about(self, choices: Iterable[ReleaseChoice]) -> Iterable[str]:
        """Return the warnings about some choices; none where no machine is detected."""
        if not self.is_for_one_machine:
            return ()
        return warnings_about_choices(choices, self.policy.preferences)

    def _choose(self, name: NormalizedName, version: Version) -> ReleaseChoice:
        listing = self.listing(name)
        if listing is None:
            raise KeyError(name)
        release = listing.releases[version]
        rejections = self._early_rejections(release)
        metadata, support = ReleaseMetadata(), None
        # F-90, steps 1 to 4.
        wheels = self._variant_wheels(release, rejections)
        if wheels:
            metadata = self._metadata_of(release, wheels)
            support = self._detect_support(metadata, wheels)
        # Steps 5 to 8.
        select_wheel = partial(
            select,
            [wheel.filename for wheel in release.wheels],
            document=metadata.document,
            support=support,
            tags=self.target.tags,
            preferences=self.applicable_preferences(name, metadata.document),
            installed=self._preferred_label(name, metadata.document),
        )
        unneeded = self._unneeded_builds(release, rejections)
        selection = select_wheel(extra_rejections={**metadata.rejections, **rejections, **unneeded})
        if selection.chosen is not None:
            rejections |= unneeded
        elif unneeded:  # no built wheel fits, so they are needed
            selection = select_wheel(extra_rejections={**metadata.rejections, **rejections})
        labels_without_agreements = tuple(
            dict.fromkeys(filename.label for filename in selection.fitting)
        )
        contradicting = self._contradicting(selection)
        if contradicting:
            selection = select_wheel(
                extra_rejections={**metadata.rejections, **rejections, **contradicting}
            )
        of_wheels = [
            self._shared_data.degradations.get(wheel.filename.text) for wheel in release.wheels
        ]
        degradations = (*metadata.degradations, *filter(None, of_wheels))
        line = degradations_in_one_line(degradations)
        notes = [f"{name} {version}: {line}"] if line else []
        if support is not None:
            notes += support.warnings  # about the machine, the same for every release
        if release.is_yanked and selection.chosen is not None:
            reason = next(_yank_reason(wheel.file) for wheel in release.wheels if wheel.is_yanked)
            notes.append(f"{name} {version} is {reason}")
        return ReleaseChoice(
            release,
            selection,
            metadata,
            support,
            tuple(notes),
            degradations=degradations,
            labels_without_agreements=labels_without_agreements if contradicting else (),
        )

    @staticmethod
    def _unneeded_builds(release: Release, rejections: Mapping[str, str]) -> dict[str, str]:
        """Return the unbuilt wheels to reject if there is a built one that fits (F-92)."""
        return {
            wheel.filename.text: "a compatible wheel exists, so it need not be built"
            for wheel in release.wheels
            if wheel.file.origin is not None
            and not release.is_direct
            and wheel.filename.text not in rejections
        }

    def _preferred_label(
        self, name: NormalizedName, document: VariantDocument | None
    ) -> Label | None:
        """Return the label of a release for the preferred build; None if there is none.

        It has the same name and the same values of agreements, or else the same properties.
        """
        preferred = self.context.preferred_builds.get(name)
        if preferred is None or document is None:
            return None
        label, properties = preferred
        variant = document.variants.get(label)
        if not properties:  # only the label of the preferred build is known
            return label
        agreements = self.policy.agreements
        if variant is not None and differing_agreement(properties, variant, agreements) is None:
            return label
        variants = document.variants.items()
        return next((other for other, declared in variants if declared == properties), None)

    def _contradicting(self, selection: Selection) -> dict[str, str]:
        """Return the compatible wheels that contradict the agreed values, with the reason."""
        if not self.context.agreed:
            return {}
        objections: dict[str, str] = {}
        for verdict in selection.verdicts:
            if verdict.verdict == "rejected":
                break
            objection = self.objection(verdict.properties or EMPTY)
            if objection is not None:
                objections[verdict.filename.text] = objection
        return objections

    def _early_rejections(self, release: Release) -> dict[str, str]:
        """Return the wheels to reject before variants are examined, with the reason (F-94)."""
        rejected = {**self.context.excluded, **self._shared_data.rejected.get(release.name, {})}
        rejections = _listing_rejections(release)
        rejections.update(
            (wheel.filename.text, rejected[wheel.filename.text])
            for wheel in release.wheels
            if wheel.filename.text in rejected
        )
        return rejections

    def applicable_preferences(
        self, name: NormalizedName, document: VariantDocument | None
    ) -> Preferences:
        """Return the preferences without requirements that the project cannot meet (F-91).

        Otherwise a property that one project has would exclude every other project.

        :param document: the document of the examined release; None: only the listing is used.
        """
        preferences = self.policy.preferences
        if not preferences.require:
            return preferences
        offered = [*self.offered_variants(name)]
        offered += () if document is None else document.variants.values()
        unmet = set(preferences.unmet(offered))
        require = tuple(choice for choice in preferences.require if choice not in unmet)
        return replace(preferences, require=require)

    def offered_variants(self, name: NormalizedName) -> tuple[PropertySet, ...]:
        """Return the properties of each variant of a project's newest release with variants."""
        return self._offers.get(self._project_state(name), lambda: self._newest_variants(name))

    def _newest_variants(self, name: NormalizedName) -> tuple[PropertySet, ...]:
        """Return the properties of the variants of the newest release that has any.

        A preference that one of them meets applies to every release: it excludes older releases
        without such a variant.
        """
        listing = self.listing(name)
        for release in () if listing is None else listing.releases.values():
            wheels = self._variant_wheels(release, _listing_rejections(release))
            if wheels and not release.is_yanked:
                metadata = self._metadata_of(release, wheels)
                return () if metadata.document is None else (*metadata.document.variants.values(),)
        return ()

    def document_of(self, name: NormalizedName, version: Version) -> VariantDocument | None:
        """Return the variant metadata of a release, even if none of its wheels is compatible."""
        listing = self.listing(name)
        release = None if listing is None else listing.releases.get(version)
        wheels = [wheel for wheel in release.wheels if wheel.filename.is_variant] if release else []
        return self._metadata_of(release, wheels).document if release and wheels else None

    def _metadata_of(self, release: Release, wheels: Sequence[Wheel]) -> ReleaseMetadata:
        key = self._project_state(release.name), release.version
        by_source = self._shared_data.metadata_by_source.get(
            key, lambda: read_each_source(release, wheels, self.repository, self.policy.metadata)
        )
        return self._metadata.get(
            key, lambda: choose_source_metadata(by_source, wheels, self._supports_any)
        )

    def _variant_wheels(self, release: Release, rejections: Mapping[str, str]) -> Sequence[Wheel]:
        """Return the variant wheels that are not rejected, best tags first."""
        preferences = self.policy.preferences
        if not preferences.variants:
            return []
        ranked = []
        ranks: dict[frozenset[Tag], int | None] = {}  # a cache: many wheels have the same tags
        for wheel in release.wheels:
            if not wheel.filename.is_variant or wheel.filename.text in rejections:
                continue
            tags = wheel.filename.tags
            if tags not in ranks:
                ranks[tags] = self.target.tags.best(tags)
            rank = ranks[tags]
            if rank is not None:
                ranked.append((rank, wheel.filename.text, wheel))
        return [wheel for _, _, wheel in sorted(ranked, key=lambda item: item[:2])]

    def _detect_support(self, metadata: ReleaseMetadata, wheels: Sequence[Wheel]) -> Support | None:
        if metadata.document is None:
            return None
        variants = metadata.document.variants
        labels = {wheel.filename.label for wheel in wheels}
        used = [properties for label, properties in variants.items() if label in labels]
        return self.support_of(metadata.document, namespaces_used(used))  # P-22

    def _accepts_metadata(self, wheel: Wheel) -> bool:
        """Return whether the core metadata of a wheel allows it; if not, reject the wheel."""
        reason = self._metadata_fault(wheel)
        if reason is not None:
            self.reject(wheel.filename, reason)
        return reason is None

    def _metadata_fault(self, wheel: Wheel) -> str | None:
        """Return the reason the core metadata of a wheel excludes it."""
        try:
            core = self.core_metadata(wheel)
            if self._shared_data.accepted.get(wheel.filename.text) is core:
                return None
            _ = core.requires  # parses them, so that an invalid requirement rejects the wheel
        except (InvalidWheel, InvalidRequirement, InvalidSource) as error:
            if isinstance(error, InvalidSource) and self._is_direct(wheel):
                raise
            reason = f"its metadata cannot be used: {error.message}"
            return self._record_fault(wheel, reason, error.reference)
        filename = wheel.filename
        if core.name != filename.name or core.version != filename.version:
            reason = f"its metadata is that of {core.name} {core.version}"
            return self._record_fault(wheel, reason, "metadata-disagreement")
        python = self.target.python_full_version
        if core.requires_python is not None and not admits_python(core.requires_python, python):
            return f"needs Python {core.requires_python}, this is {python}"
        self._shared_data.accepted[filename.text] = core
        return None

    def _is_direct(self, wheel: Wheel) -> bool:
        return wheel.filename.name in self.context.direct_files

    def _record_fault(self, wheel: Wheel, reason: str, code: str) -> str:
        """Record and return the fault of a wheel; raise it if the user named the wheel (F-125)."""
        if self._is_direct(wheel):
            raise InvalidWheel(
                f"{wheel.filename.text} is unusable: {reason}", where=redact(wheel.file.url)
            )
        self._record_degradation(wheel.filename, code, reason)
        return reason

    def _record_degradation(self, filename: WheelFilename, code: str, reason: str) -> None:
        """Record a wheel that is unusable because of its metadata (F-136).

        :raises BadMetadata: the policy is strict.
        """
        degradation = Degradation("wheel", (filename.text,), code, reason, filename.text)
        if self.policy.metadata.strict:
            raise_if_degraded(f"{filename.name} {filename.version}", [degradation])
        self._shared_data.degradations[filename.text] = degradation

    def _supports_any(self, document: VariantDocument, wheels: Sequence[Wheel]) -> bool:
        """Return whether the target supports the properties of any of some wheels (F-127)."""
        properties_of_wheels = [document.properties(str(wheel.filename.label)) for wheel in wheels]
        declared = [properties for properties in properties_of_wheels if properties is not None]
        support = self.support_of(document, namespaces_used(declared))
        return any(support.refusal(properties) is None for properties in declared)


def _listing_rejections(release: Release) -> dict[str, str]:
    """Return the wheels to reject by their listing entries alone, with the reason (F-94)."""
    rejections: dict[str, str] = {}
    all_yanked = release.is_yanked  # computed once, since it examines every wheel
    for wheel in release.wheels:
        if wheel.rejection is not None and wheel.rejection is not NO_TAG:
            rejections[wheel.filename.text] = wheel.rejection
        elif wheel.is_yanked and not all_yanked:
            rejections[wheel.filename.text] = _yank_reason(wheel.file)
    return rejections


def _yank_reason(file: File) -> str:
    return f"yanked: {file.yanked}" if file.yanked else "yanked"
