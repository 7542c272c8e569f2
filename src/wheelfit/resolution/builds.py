"""The builds of a release that was built for versions of other packages (P-52, P-53).

Most releases have one wheel to choose, independent of other packages. A release with ABI
dependencies has several builds: one for each label and each combination of its values, with its own
dependencies (F-112).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple
from packaging.specifiers import SpecifierSet

from wheelfit.core.abi_dependency import Branch, KnownVersions, abi_namespaces, branches
from wheelfit.core.markers import VariantContext
from wheelfit.core.properties import EMPTY, Property, PropertySet
from wheelfit.resolution.problem import Build, Dependency, Package
from wheelfit.resolution.version_set import VersionSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.ordering import Preferences
    from wheelfit.core.property_support import Support
    from wheelfit.resolution.release_choice import ReleaseChoice

_MAX_BUILDS = 1000
"""The number of builds with ABI dependencies that are tried for one release."""


class ReleaseBuild(Struct, frozen=True):
    """One build of a release."""

    label: Label | None
    """None for the plain wheel."""
    supported: PropertySet = EMPTY
    """The properties that count in variant markers if its branches are chosen (F-103, F-111)."""
    branches: tuple[Branch, ...] = ()
    """The versions of other packages that it was built for; empty: it depends on none."""
    is_installed: bool = False
    """Whether it is installed already; ignored in comparisons."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleaseBuild) and astuple(self)[:-1] == astuple(other)[:-1]

    def __hash__(self) -> int:
        return hash(astuple(self)[:-1])

    @property
    def context(self) -> VariantContext:
        """The context of variant markers in its metadata."""
        return VariantContext(self.label or "", self.supported)

    def build(self) -> Build:
        """Return the build for the solver."""
        return Build(
            self.label or "plain wheel",
            tuple(
                Dependency(Package(branch.project), VersionSet.of(branch.specifier), str(branch))
                for branch in self.branches
            ),
        )


def is_built_for_versions(document: VariantDocument | None, properties: PropertySet) -> bool:
    """Return whether a label was built for versions of other packages."""
    if document is None or not properties:
        return False
    return not abi_namespaces(document.providers).isdisjoint(properties.namespaces)


def builds_of_release(
    choice: ReleaseChoice, preferences: Preferences, known: KnownVersions
) -> Iterator[ReleaseBuild]:
    """Yield the builds that may be chosen, best label first.

    :param preferences: the preferences, of which only the forbidden properties are used.
    :param known: versions that cannot change.
    """
    document, support = choice.metadata.document, choice.support
    bound_builds = 0
    for label in choice.labels:
        if document is None or support is None or label is None:
            yield ReleaseBuild(label)
            continue
        properties = choice.declared(label)
        for build in builds_of_label(label, properties, document, support, preferences, known):
            bound_builds += bool(build.branches)
            if bound_builds > _MAX_BUILDS and build.branches:
                break  # of this label; others may have a build without branches
            yield build


def builds_of_label(
    label: Label,
    properties: PropertySet,
    document: VariantDocument,
    support: Support,
    preferences: Preferences,
    known: KnownVersions,
    *,
    is_installed: bool = False,
) -> Iterator[ReleaseBuild]:
    """Yield the builds of a label, for the most recent versions first.

    :param preferences: the preferences, of which only the forbidden properties are used.
    :param known: versions that cannot change.
    """
    namespaces = abi_namespaces(document.providers)
    forbidden = frozenset(
        (item.namespace, item.feature, item.value)
        for item in preferences.forbid
        if isinstance(item, Property)
    )
    # F-110: the support of the system counts, even if the user forbids it.
    other_properties = [
        item for item in properties if item.namespace not in namespaces and support.supports(item)
    ]
    for chosen_branches in islice(branches(properties, namespaces, forbidden), _MAX_BUILDS):
        if all(_is_possible(branch, known) for branch in chosen_branches):
            supported = [
                Property(*branch.feature, value)
                for branch in chosen_branches
                for value in branch.matching_values
            ]
            yield ReleaseBuild(
                label, PropertySet([*other_properties, *supported]), chosen_branches, is_installed
            )


def _is_possible(branch: Branch, known: KnownVersions) -> bool:
    fixed = known.versions.get(branch.project)
    return fixed is None or SpecifierSet(branch.specifier).contains(fixed.version, prereleases=True)
