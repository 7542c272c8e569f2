"""Resolve the request of a lock for each environment, with the same versions where possible.

Each environment starts with the versions of an older lock and of the environments before it. Mostly
these meet its requirements, and then only one release of each project is examined.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from wheelfit.core import abi_dependency
from wheelfit.core.abi_dependency import KnownVersions, abi_namespaces
from wheelfit.core.agreements import value_key
from wheelfit.core.core_metadata import CoreMetadata, read_metadata
from wheelfit.core.filename import index_file_name, parse_index_file_name
from wheelfit.core.property_support import Support
from wheelfit.core.providers import BrokenProvider
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.core.versions import version_of, without_build
from wheelfit.errors import InvalidRequirement, SourceBuildNotAllowed
from wheelfit.locking.freshness import files_of_releases, version_in_filename
from wheelfit.locking.joint_releases import resolve_jointly
from wheelfit.resolution.candidates import Candidates, ChoicePolicy
from wheelfit.resolution.request import RequestedRequirement, ResolutionRequest
from wheelfit.resolution.resolver import resolve
from wheelfit.sources.file_readers import RepositoryWrapper
from wheelfit.sources.memoized import Memo
from wheelfit_runtime.errors import HashMismatch, NoFit, UserError
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.target import Target
    from wheelfit.locking.environments import LockEnvironment
    from wheelfit.locking.request import Fork, LockNeeds
    from wheelfit.resolution.listing import Wheel
    from wheelfit.resolution.resolution import HeldBack, Resolution
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Repository

ApproveBuilds: TypeAlias = "Callable[[Callable[[], Resolution], Candidates], Resolution]"
"""A function that resolves by calling its first argument, and returns the resolution.

If a package must be built to learn its requirements, it builds the package, and resolves again.
"""
Versions = dict["NormalizedName", "Version"]
"""One version for each of some projects."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The resolution for one environment."""

    environment: LockEnvironment
    resolution: Resolution
    candidates: Candidates = field(repr=False)
    additional: tuple[RequestedRequirement, ...] = ()
    """The requirements of labels other than the chosen ones."""

    @property
    def versions(self) -> Versions:
        """The version of each project."""
        return {pin.name: pin.release for pin in self.resolution.pins}

    @property
    def extras(self) -> dict[NormalizedName, frozenset[NormalizedName]]:
        """The required extras of each project."""
        return {pin.name: pin.extras for pin in self.resolution.pins}

    def is_not_older(self, versions: Mapping[NormalizedName, Version]) -> bool:
        """Return whether none of its versions is older than the given one of its project."""
        own = self.versions
        return all(own.get(name, version) >= version for name, version in versions.items())


def _newest(release: HeldBack) -> RequestedRequirement:
    """Return the requirement of at least the newest release."""
    bound = SpecifierSet(f">={without_build(release.latest)}")
    return RequestedRequirement(Requirement(release.name, frozenset(), bound))


class Solver:
    """A solver of one request for several environments, one at a time.

    :param repository: the projects and files; it should cache its answers.
    :param has_requirements: returns whether the metadata of an unbuilt file has its requirements.
    """

    def __init__(
        self,
        request: LockNeeds,
        repository: Repository,
        policy: ChoicePolicy = ChoicePolicy(),
        *,
        threads: int = 12,
        has_requirements: Callable[[File], bool] = lambda _file: True,
        approve: ApproveBuilds = lambda resolve_request, _candidates: resolve_request(),
    ) -> None:
        self.request = request
        self.repository = repository
        self.policy = policy
        self.threads = threads
        self._has_requirements = has_requirements
        self._approve = approve
        self._pages: dict[tuple[NormalizedName, Version], ProjectPage] = {}
        self._cores: Memo[str, CoreMetadata] = Memo()

    def with_request(self, request: LockNeeds) -> Solver:
        """Return a solver of another request that shares the pages and metadata read."""
        other = copy(self)
        other.request = request
        return other

    def solve(
        self,
        environment: LockEnvironment,
        preferred: Mapping[NormalizedName, Version],
        additional: Sequence[RequestedRequirement] = (),
        *,
        locked: Mapping[NormalizedName, Version] = MappingProxyType({}),
        candidates_of: Callable[[Repository], Candidates] | None = None,
    ) -> Solution:
        """Resolve for one environment.

        :param preferred: versions to keep while they meet the requirements.
        :param locked: those of an older lock among them; they are raised where a requested project
            that is not among them would otherwise not be at its newest version.
        :param additional: requirements besides those of the request.
        :param candidates_of: returns the candidates; default: `universal_candidates`.
        :raises WheelfitError: as ``wheelfit.resolution.resolver.resolve``.
        """
        if candidates_of is None:
            candidates_of = partial(self.universal_candidates, environment)

        def solve_with(
            repository: Repository, bounds: Sequence[RequestedRequirement] = ()
        ) -> Solution:
            candidates, requirements = candidates_of(repository), (*additional, *bounds)
            return self._solution(environment, candidates, preferred, requirements, resolve_jointly)

        if not preferred:
            return solve_with(self.repository)
        try:
            pinned = solve_with(PinnedRepository(self.repository, preferred, self._pages))
        except SourceBuildNotAllowed:
            raise
        except (NoFit, HashMismatch, UserError):
            # Some of these versions do not meet the requirements.
            return solve_with(self.repository)
        newest = [
            _newest(release)
            for release in pinned.resolution.held_back
            if locked and release.name not in locked
        ]
        attempts = [newest] if newest else []
        if len(newest) > 1:
            attempts += [[bound] for bound in newest]  # one of them may be possible
        for bounds in attempts:
            with suppress(NoFit, HashMismatch, UserError):
                raised = solve_with(self.repository, bounds)
                if raised.is_not_older(locked):
                    return replace(raised, additional=tuple(additional))
        return pinned

    def for_fork(self, fork: Fork) -> Solver:
        """Return a solver for one choice among conflicting extras and groups.

        :param fork: the choice; all solvers share the data read.
        """
        return self.with_request(structs.replace(self.request, roots=fork.roots(self.request)))

    def resolve_again(
        self, solution: Solution, candidates: Candidates, additional: Sequence[RequestedRequirement]
    ) -> Solution:
        """Resolve again with additional requirements and all versions unchanged.

        :param candidates: the result of `locked_candidates` for it.
        :raises NoFit: there is no such solution.
        """
        additional = (*solution.additional, *additional)
        repeated = self._solution(solution.environment, candidates, solution.versions, additional)
        # With only the locked versions, nothing would count as held back or refused.
        old, new = solution.resolution, repeated.resolution
        resolution = structs.replace(
            new, held_back=old.held_back, missing_builds=old.missing_builds
        )
        return replace(repeated, resolution=resolution)

    def universal_candidates(
        self,
        environment: LockEnvironment,
        repository: Repository,
        policy: ChoicePolicy | None = None,
    ) -> UniversalCandidates:
        """Return candidates for every machine of an environment.

        :param policy: the user's settings; default: those of the solver.
        """
        policy = self.policy if policy is None else policy
        return UniversalCandidates(
            repository, environment.target, policy, self._cores, self._has_requirements
        )

    def locked_candidates(self, solution: Solution) -> UniversalCandidates:
        """Return candidates with the versions of a solution, and all versions of other projects."""
        repository = PinnedRepository(self.repository, solution.versions, self._pages)
        # Builds must agree on one machine, but a lock lists labels for different machines.
        policy = structs.replace(self.policy, agreements=())
        return self.universal_candidates(solution.environment, repository, policy)

    def _solution(
        self,
        environment: LockEnvironment,
        candidates: Candidates,
        preferred: Mapping[NormalizedName, Version],
        additional: Sequence[RequestedRequirement],
        resolve_function: Callable[..., Resolution] = resolve,
    ) -> Solution:
        request, variables = self.request, environment.target.environment
        roots = [root for root in request.roots if root.requirement.applies(variables)]
        resolution_request = ResolutionRequest(
            requirements=(*(root.to_requested() for root in roots), *additional),
            wheels=tuple(dict.fromkeys(root.wheel for root in roots if root.wheel is not None)),
            constraints=request.constraints,
            overrides=request.overrides,
            excluded=request.excluded,
            preferred=preferred,
            prereleases=request.prereleases,
            dependencies=request.dependencies,
        )
        resolution = self._approve(
            lambda: resolve_function(resolution_request, candidates, threads=self.threads),
            candidates,
        )
        candidates = candidates.within(resolution.context)  # the choices the result was made with
        return Solution(environment, resolution, candidates, tuple(additional))


class PinnedRepository(RepositoryWrapper):
    """A ``Repository`` with only one release of some projects.

    :param versions: the release of each of these projects; one that is no longer listed sets no
        limit.
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
        """Return the page of a project, reduced to the files of its pinned release."""
        version = self._versions.get(name)
        if version is None:
            return self._repository.project(name)
        cached = self._pages.get((name, version))
        if cached is not None:
            return cached
        page = self._repository.project(name)
        if page is None:
            return None
        files = []
        for file in files_of_releases(page, [version]):
            file_version = version_in_filename(file.filename)
            if file_version is not None and page.has_joined_builds:
                file_version = without_build(file_version)
            if file_version == version:
                files.append(file)
        page = structs.replace(page, files=tuple(files)) if files else page
        self._pages[name, version] = page
        return page


class JoinedRepository(RepositoryWrapper):
    """A ``Repository`` that joins the builds of owners' indexes into one release.

    In such an index each build has a version of its own, such as ``2.15.0+cu132``, but a lock for
    every machine has one version of a project.

    :param unjoined: projects whose builds stay apart, since one is requested by its version.
    """

    def __init__(self, repository: Repository, unjoined: Collection[NormalizedName] = ()) -> None:
        super().__init__(repository)
        self._unjoined = unjoined
        self._pages: Memo[NormalizedName, ProjectPage] = Memo()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, with joined builds if it comes from its owner's index."""
        page = self._repository.project(name)
        if page is None or page.bridge is None or not page.bridge.is_of_indexes:
            return page
        has_builds = any(member.when for member in page.bridge.members)
        if not has_builds or name in self._unjoined:
            return page
        return self._pages.get(name, lambda: self._joined(page))

    @staticmethod
    def _joined(page: ProjectPage) -> ProjectPage:
        files: dict[tuple[str, str], File] = {}
        for file in page.files:
            renamed, release = file, parse_index_file_name(file.filename)
            if release is not None:  # the index files of all builds have the same content
                text = index_file_name(release[0], without_build(release[1]))
                renamed = structs.replace(file, filename=text)
            # Two builds of a release, as for ROCm 7.13 and 7.14, may have names that differ in the
            # local version only: the later one counts.
            public, local, rest = _split_filename(renamed.filename)
            key = f"{public}-{rest}", renamed.source
            other = files.get(key)
            if other is None or _local_version(local) > _local_of(other.filename):
                files[key] = renamed
        return structs.replace(page, files=tuple(files.values()), has_joined_builds=True)


def _split_filename(filename: str) -> tuple[str, str, str]:
    """Split a file name into the name with the public version, the local version, and the rest."""
    name, _, rest = filename.partition("-")
    version, _, rest = rest.partition("-")
    public, _, local = version.partition("+")
    return f"{name}-{public}", local or "0", rest


def _local_of(filename: str) -> Version:
    """Return the local version of a file name as a version that can be compared."""
    return _local_version(_split_filename(filename)[1])


def _local_version(text: str) -> Version:
    return version_of(f"0+{text}") or Version("0")  # an invalid one is lower than all others


class UniversalCandidates(Candidates):
    """The wheels that are compatible with any machine of a platform (F-120).

    No machine is detected. All properties that labels of a release name count as supported, so the
    best of all labels comes first. Only builds against another package are checked against its
    version (P-51).

    :param cores: metadata read for other environments, by its promised hash.
    """

    is_for_one_machine = False

    def __init__(
        self,
        repository: Repository,
        target: Target,
        policy: ChoicePolicy,
        cores: Memo[str, CoreMetadata],
        has_requirements: Callable[[File], bool],
    ) -> None:
        super().__init__(repository, target, None, policy, has_requirements=has_requirements)
        self._shared = cores

    def core_metadata(self, wheel: Wheel) -> CoreMetadata:
        """Return the core metadata of a wheel.

        It is read once for all files with one metadata hash on their pages, otherwise for each file
        (F-112), and for each label under which a bridge lists a file: the bridge may add
        requirements to one.
        """
        if wheel.is_from_source:
            return super().core_metadata(wheel)  # it may change once its backend may be run
        text = wheel.filename.text
        promised = (
            wheel.file.metadata_hashes if wheel.file.declared_document is None else None
        ) or {}
        key = f"{wheel.filename.name} {promised['sha256']}" if "sha256" in promised else text
        return self._shared.get(
            key,
            lambda: self._for_any_build(read_metadata(self.repository.metadata(wheel.file), text)),
        )

    def _for_any_build(self, core: CoreMetadata) -> CoreMetadata:
        """Return metadata without local versions in requirements on projects with joined builds.

        A build that needs ``torch==2.14.0+rocm7`` is for the same platform and gets it by its
        label.
        """
        texts = tuple(map(self._without_builds, core.requires_texts))
        return core if texts == core.requires_texts else structs.replace(core, requires_texts=texts)

    def _without_builds(self, text: str) -> str:
        if "+" not in text:
            return text
        try:
            needed = parse_requirement(text, allow_variant_markers=True)
        except InvalidRequirement:
            return text  # the error names the package that needs it
        builds = [
            specifier.version.partition("+")[2]
            for specifier in needed.specifier
            if "+" in specifier.version
        ]
        page = self.repository.project(needed.name) if builds else None
        if page is not None and page.has_joined_builds:
            for build in builds:
                text = text.replace(f"+{build}", "", 1)
        return text

    def support_of(
        self,
        document: VariantDocument,
        namespaces: Iterable[str],
        known_versions: KnownVersions | None = None,
    ) -> Support:
        """Return the support of a machine that supports everything a document names."""
        known = self.known_versions if known_versions is None else known_versions
        abi = abi_namespaces(document.providers)
        order = {namespace: index for index, namespace in enumerate(document.priorities)}
        detections = {}
        for namespace in sorted(
            set(namespaces), key=lambda namespace: (order.get(namespace, len(order)), namespace)
        ):
            if namespace in abi and self.policy.providers.abi_dependency:
                detections[namespace] = abi_dependency.detect(namespace, document, known)
            elif namespace not in abi and _is_detectable(document, namespace):
                detections[namespace] = _all_values(document, namespace)
            else:
                detections[namespace] = Detection(namespace)
        return Support(detections, abi_namespaces=abi, known=known)


def _is_detectable(document: VariantDocument, namespace: str) -> bool:
    """Return whether a machine could detect its support of a namespace (F-130)."""
    provider = document.providers.get(namespace)
    return document.lacks_providers or not (
        provider is None or isinstance(provider, BrokenProvider)
    )


def _all_values(document: VariantDocument, namespace: str) -> Detection:
    """Return all values that a document names as supported, higher versions first."""
    features = tuple(
        FeatureConfig(name, tuple(sorted(values, key=value_key, reverse=True)), True)
        for name, values in document.named_values(namespace).items()
    )
    return Detection(namespace, features, Status.SUPPORTED, source="a machine of any kind")
