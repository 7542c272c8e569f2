"""Resolve the request of a lock, once for each environment, with versions that stay.

Environments agree as far as they can: each begins with the versions of an older lock, then of
the environments before it. Mostly these will do, and then of each project only that one release
is looked at.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs
from packaging.version import Version

from wheelfit.core import abi_dependency
from wheelfit.core.abi_dependency import KnownVersions, abi_namespaces
from wheelfit.core.core_metadata import read_metadata
from wheelfit.core.filename import index_file_name, parse_index_file_name
from wheelfit.core.property_support import Support
from wheelfit.core.providers import BrokenProvider
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.versions import without_build
from wheelfit.errors import InvalidRequirement, SourceOff
from wheelfit.locking.freshness import files_near, version_of
from wheelfit.locking.joint_releases import resolve_jointly
from wheelfit.resolution.candidates import Candidates, ChoicePolicy
from wheelfit.resolution.request import ResolutionRequest
from wheelfit.resolution.resolver import resolve
from wheelfit.sources.file_readers import RepositoryWrapper
from wheelfit.sources.memoized import Memo
from wheelfit_runtime.errors import HashMismatch, NoFit, UserError
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.target import Target
    from wheelfit.locking.environments import LockEnvironment
    from wheelfit.locking.fork import Fork
    from wheelfit.locking.request import LockNeeds
    from wheelfit.resolution.listing import Wheel
    from wheelfit.resolution.release_choice import ReleaseChoice
    from wheelfit.resolution.request import RequestedRequirement
    from wheelfit.resolution.resolution import Resolution
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Repository

Approve: TypeAlias = "Callable[[Callable[[], Resolution], Candidates], Resolution]"
Versions = dict["NormalizedName", "Version"]
"""One version for each of some projects."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The resolution for one environment."""

    environment: LockEnvironment
    resolution: Resolution
    candidates: Candidates = field(repr=False)
    """By which it was chosen, in those circumstances."""
    more: tuple[RequestedRequirement, ...] = ()
    """The further requirements of labels other than the chosen ones."""

    @property
    def versions(self) -> Versions:
        """Return the version of each project."""
        return {pin.name: pin.release for pin in self.resolution.pins}

    @property
    def common(self) -> list[NormalizedName]:
        """Return the projects that are needed whichever labels are taken."""
        others = {asked.requirement.name for asked in self.more}
        pins = self.resolution.pins
        shared = {pin.name for pin in pins if pin.requested and pin.name not in others}
        needed: dict[NormalizedName, set[NormalizedName]] = {}
        for edge in self.resolution.edges:
            needed.setdefault(edge.needing, set()).add(edge.needed)
        pending = list(shared)
        while pending:
            new = needed.get(pending.pop(), set()) - shared
            shared |= new
            pending += new
        return [pin.name for pin in pins if pin.name in shared]

    @property
    def extras(self) -> dict[NormalizedName, frozenset[NormalizedName]]:
        """Return the required extras of each project."""
        return {pin.name: pin.extras for pin in self.resolution.pins}


class Solver:
    """A solver of one request for several environments, one at a time.

    :param request: the request.
    :param repository: the projects and files; it should cache its answers.
    :param policy: the user's settings for choosing wheels.
    :param threads: the number of concurrent requests to the sources.
    :param knows_needs: returns whether the metadata of an unbuilt file has its requirements.
    :param approve: returns the final form of a resolution, after checking that the requirements of
        all packages to be built are known.
    """

    def __init__(
        self,
        request: LockNeeds,
        repository: Repository,
        policy: ChoicePolicy = ChoicePolicy(),
        *,
        threads: int = 12,
        knows_needs: Callable[[File], bool] = lambda _file: True,
        approve: Approve = lambda resolved, _candidates: resolved(),
    ) -> None:
        self.request = request
        self.repository = repository
        self.policy = policy
        self.threads = threads
        self._knows_needs = knows_needs
        self._approve = approve
        self._pages: dict[tuple[NormalizedName, Version], ProjectPage] = {}
        self._cores: Memo[str, CoreMetadata] = Memo()

    def asking(self, request: LockNeeds) -> Solver:
        """Return a solver of another request that shares the pages and metadata read.

        :param request: the other request.
        """
        other = copy(self)
        other.request = request
        return other

    def solve(
        self,
        environment: LockEnvironment,
        preferred: Mapping[NormalizedName, Version],
        more: Sequence[RequestedRequirement] = (),
        *,
        candidates: Callable[[Repository], Candidates] | None = None,
    ) -> Solution:
        """Resolve for one environment.

        :param environment: the environment.
        :param preferred: versions to keep while they meet the requirements.
        :param more: further requirements.
        :param candidates: returns the candidates of a repository; default: every label counts.
        :raises WheelfitError: as ``wheelfit.resolution.resolver.resolve``.
        """
        opened = candidates or (lambda repository: self.every_label(environment, repository))
        if preferred:
            chosen = opened(Pinned(self.repository, preferred, self._pages))
            try:
                return self._solution(environment, chosen, preferred, more, resolve_jointly)
            except SourceOff:
                raise
            except (NoFit, HashMismatch, UserError):
                pass  # not all of them will do
        chosen = opened(self.repository)
        return self._solution(environment, chosen, preferred, more, resolve_jointly)

    def within(self, fork: Fork) -> Solver:
        """Return a solver for one choice among conflicting extras and groups.

        :param fork: the choice; all solvers share the data read.
        """
        return self.asking(structs.replace(self.request, roots=fork.roots(self.request)))

    def again(
        self, solution: Solution, candidates: Candidates, more: Sequence[RequestedRequirement]
    ) -> Solution:
        """Resolve again with further requirements and all versions unchanged.

        :param solution: the solution so far.
        :param candidates: the candidates `locked` returns for it.
        :param more: the further requirements.
        :raises NoFit: there is no such solution.
        """
        needs = (*solution.more, *more)
        again = self._solution(solution.environment, candidates, solution.versions, needs)
        # With only the locked versions, nothing would count as held back or given up.
        old, new = solution.resolution, again.resolution
        resolution = structs.replace(new, held_back=old.held_back, given_up=old.given_up)
        return replace(again, resolution=resolution)

    def every_label(
        self,
        environment: LockEnvironment,
        repository: Repository,
        policy: ChoicePolicy | None = None,
    ) -> EveryLabel:
        """Return candidates for every machine of an environment.

        :param environment: the environment.
        :param repository: the projects and files.
        :param policy: the user's settings; default: those of the solver.
        """
        policy = self.policy if policy is None else policy
        return EveryLabel(repository, environment.target, policy, self._cores, self._knows_needs)

    def locked(self, solution: Solution) -> EveryLabel:
        """Return candidates with the versions of a solution, and all versions of other projects.

        :param solution: the solution.
        """
        repository = Pinned(self.repository, solution.versions, self._pages)
        # What a machine must agree on is its own business: labels that it would not mix stand
        # side by side in a lock.
        policy = structs.replace(self.policy, agreements=())
        return self.every_label(solution.environment, repository, policy)

    def _solution(
        self,
        environment: LockEnvironment,
        candidates: Candidates,
        preferred: Mapping[NormalizedName, Version],
        more: Sequence[RequestedRequirement],
        resolved: Callable[..., Resolution] = resolve,
    ) -> Solution:
        request, variables = self.request, environment.target.environment
        roots = [root for root in request.roots if root.requirement.applies(variables)]
        asked = ResolutionRequest(
            requirements=(*(root.asked() for root in roots), *more),
            wheels=tuple(dict.fromkeys(root.wheel for root in roots if root.wheel is not None)),
            constraints=request.constraints,
            overrides=request.overrides,
            excluded=request.excluded,
            preferred=preferred,
            prereleases=request.prereleases,
            dependencies=request.dependencies,
        )
        resolution = self._approve(
            lambda: resolved(asked, candidates, threads=self.threads), candidates
        )
        candidates = candidates.within(resolution.context)
        return Solution(environment, resolution, candidates, tuple(more))


class Pinned(RepositoryWrapper):
    """A ``Repository`` with one release only of some projects.

    :param repository: the projects and files.
    :param versions: the release of each of these projects; one that is no longer listed sets no
        limit.
    :param pages: caches the reduced pages.
    """

    def __init__(
        self,
        repository: Repository,
        versions: Mapping[NormalizedName, Version],
        pages: dict[tuple[NormalizedName, Version], ProjectPage] | None = None,
    ) -> None:
        super().__init__(repository)
        self._versions = versions
        self._pages = {} if pages is None else pages

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page with the files of one release, or the whole page."""
        version = self._versions.get(name)
        if version is None:
            return self._repository.project(name)
        known = self._pages.get((name, version))
        if known is not None:
            return known
        page = self._repository.project(name)
        if page is None:
            return None
        of = without_build if page.joins_builds else lambda version_of_file: version_of_file
        listed = ((file, version_of(file.filename)) for file in files_near(page, [version]))
        files = tuple(
            file
            for file, version_of_file in listed
            if version_of_file and of(version_of_file) == version
        )
        page = structs.replace(page, files=files) if files else page
        self._pages[name, version] = page
        return page


class JoinedBuilds(RepositoryWrapper):
    """A ``Repository`` that joins the builds of owners' indexes into one release.

    There each build has a version of its own, such as ``2.15.0+cu132``, and a lock for every
    machine has one version of a project.

    :param repository: the projects and files.
    :param apart: projects of which one build is requested by its version.
    """

    def __init__(self, repository: Repository, apart: Collection[NormalizedName] = ()) -> None:
        super().__init__(repository)
        self._apart = apart
        self._pages: Memo[NormalizedName, ProjectPage] = Memo()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project; of an owner's, a release has one index file in an index."""
        page = self._repository.project(name)
        if page is None or page.bridge is None or not page.bridge.is_of_indexes:
            return page
        has_builds = any(member.when for member in page.bridge.members)
        if not has_builds or name in self._apart:
            return page
        return self._pages.get(name, lambda: self._joined(page))

    @staticmethod
    def _joined(page: ProjectPage) -> ProjectPage:
        files: dict[tuple[str, str], File] = {}
        for file in page.files:
            one, release = file, parse_index_file_name(file.filename)
            if release is not None:  # a family has the same data for each build
                text = index_file_name(release[0], without_build(release[1]))
                one = structs.replace(file, filename=text)
            # Of one release an index may have the same build twice, as for ROCm 7.13 and 7.14.
            public, local, rest = _parted(one.filename)
            key = f"{public}-{rest}", one.source
            if key not in files or Version(f"0+{local}") > _local_of(files[key].filename):
                files[key] = one
        return structs.replace(page, files=tuple(files.values()), joins_builds=True)


def _parted(filename: str) -> tuple[str, str, str]:
    """Return name and public version, the local version and the rest of the name of a file."""
    name, _, rest = filename.partition("-")
    version, _, rest = rest.partition("-")
    public, _, local = version.partition("+")
    return f"{name}-{public}", local or "0", rest


def _local_of(filename: str) -> Version:
    return Version(f"0+{_parted(filename)[1]}")


class EveryLabel(Candidates):
    """The wheels that are compatible with any machine of a platform (F-120).

    No machine is detected. All properties that labels of a release name count as supported, so the
    best of all labels comes first; only builds for other packages are checked against their
    versions (P-51).

    :param repository: lists projects and reads files.
    :param target: the Python that runs the chosen wheels.
    :param policy: the user's settings.
    :param cores: metadata read for other environments, by its promised hash.
    :param knows_needs: returns whether the metadata of an unbuilt file has its requirements.
    """

    is_for_one_machine = False

    def __init__(
        self,
        repository: Repository,
        target: Target,
        policy: ChoicePolicy,
        cores: Memo[str, CoreMetadata],
        knows_needs: Callable[[File], bool],
    ) -> None:
        super().__init__(repository, target, None, policy, knows_needs=knows_needs)
        self._shared = cores

    def core_metadata(self, wheel: Wheel) -> CoreMetadata:
        """Return the core metadata of a wheel.

        Files with the same promised metadata hash are read once; others are not shared (F-112). A
        bridged file may need more under each label.
        """
        if wheel.is_from_source:
            return super().core_metadata(wheel)  # it may change once its backend may be run
        text = wheel.filename.text
        promised = (wheel.file.metadata_hashes if wheel.file.declared is None else None) or {}
        key = f"{wheel.filename.name} {promised['sha256']}" if "sha256" in promised else text
        return self._shared.get(
            key,
            lambda: self._of_any_build(read_metadata(self.repository.metadata(wheel.file), text)),
        )

    def _of_any_build(self, core: CoreMetadata) -> CoreMetadata:
        """Return metadata whose requirements on joined builds the joined release meets.

        A build that needs ``torch==2.14.0+rocm7`` is for the same platform and gets it by its
        label.
        """
        texts = tuple(map(self._of_joined, core.requires_texts))
        return core if texts == core.requires_texts else structs.replace(core, requires_texts=texts)

    def _of_joined(self, text: str) -> str:
        if "+" not in text:
            return text
        try:
            needed = parse_requirement(text, allow_variant_markers=True)
        except InvalidRequirement:
            return text  # the error names the package that needs it
        builds = [one.version.partition("+")[2] for one in needed.specifier if "+" in one.version]
        page = self.repository.project(needed.name) if builds else None
        if page is not None and page.joins_builds:
            for build in builds:
                text = text.replace(f"+{build}", "", 1)
        return text

    def support_of(
        self,
        document: VariantDocument,
        namespaces: Iterable[str],
        known: KnownVersions | None = None,
    ) -> Support:
        """Return that everything is supported that a document names.

        :param document: the document with providers and labels.
        :param namespaces: the namespaces of interest.
        :param known: versions that builds may be made for; default: those of the
            context.
        """
        known = self.known if known is None else known
        abi = abi_namespaces(document.providers)
        order = {namespace: index for index, namespace in enumerate(document.priorities)}
        detections = {}
        for namespace in sorted(set(namespaces), key=lambda one: (order.get(one, len(order)), one)):
            if namespace in abi and self.policy.providers.abi_dependency:
                detections[namespace] = abi_dependency.detect(namespace, document, known)
            elif namespace not in abi and _is_answerable(document, namespace):
                detections[namespace] = _everything(document, namespace)
            else:
                detections[namespace] = Detection(namespace)
        return Support(detections, abi_namespaces=abi, known=known)

    def cautions(self, choices: Iterable[ReleaseChoice]) -> Iterable[str]:  # noqa: ARG002
        """Return nothing: there is no machine whose hardware could go unused."""
        return ()


def _is_answerable(document: VariantDocument, namespace: str) -> bool:
    """Return whether the support of a namespace could be detected at all (F-130).

    :param document: the document with the providers.
    :param namespace: a namespace of one of its labels.
    """
    provider = document.providers.get(namespace)
    return document.lacks_providers or not (
        provider is None or isinstance(provider, BrokenProvider)
    )


def _everything(document: VariantDocument, namespace: str) -> Detection:
    """Return all values that a document names, the higher ones first: most are versions."""
    used: dict[str, set[str]] = {}
    for properties in document.variants.values():
        for feature, values in properties.features():
            if feature.namespace == namespace:
                used.setdefault(feature.name, set()).update(values)
    features = tuple(
        FeatureConfig(name, tuple(sorted(used[name], key=_height, reverse=True)), True)
        for name in sorted(used)
    )
    return Detection(namespace, features, Status.SUPPORTED, source="a machine of any kind")


def _height(value: str) -> tuple[tuple[int, str], ...]:
    """Compare numbers in a text as numbers: ``12.10`` is higher than ``12.9``."""
    return tuple(
        (int(part), "") if part.isdecimal() and len(part) < 20 else (-1, part)
        for part in re.split(r"([0-9]+)", value)
        if part
    )
