"""Families of published distributions, presented as variants of one project.

Before variants existed, projects put the build into the name (``cupy-cuda12x``) or into an index of
its own. A family describes, as data, which of its members a machine gets; the members keep their
names, files and hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from packaging.specifiers import SpecifierSet

from wheelfit.core.labels import NULL
from wheelfit.core.properties import Property, PropertySet
from wheelfit.core.provider_table import EMULATED_PLUGINS
from wheelfit.core.variant_json_layouts.schema import KEY as SCHEMA
from wheelfit.core.variant_json_layouts.schema import PEP_850

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from datetime import date

    from packaging.tags import Tag
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label

ANY_VERSION = SpecifierSet("")
PLUGINS = {row.namespace: row for row in reversed(EMULATED_PLUGINS)}
"""The plugins of the namespaces of hardware that a condition may name."""
ABI = "abi_dependency"
"""The namespace of conditions on the versions of other packages."""
_BUILD = "build"


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """A distribution of a family, with the machines that get it."""

    distribution: NormalizedName
    """Its name; that of the family if it is the project's own."""
    label: Label | None
    """As which variant it is presented; None: as the plain wheels that it has."""
    when: PropertySet = PropertySet()
    """The properties a machine must support; empty: any machine without a better member."""
    versions: SpecifierSet = ANY_VERSION
    """Of which releases that is true."""
    platforms: tuple[str, ...] = ()
    """Of the wheels for which platforms, as ``linux_x86_64``; empty: all."""
    projects: tuple[str, ...] = ()
    """Of which projects of a family of indexes, as there; empty: all."""
    extras: tuple[NormalizedName, ...] = ()
    """Extras of the member that its build needs, as the one that brings its libraries."""
    requires: tuple[str, ...] = ()
    """The requirements beyond its own metadata on such a machine (PEP 508)."""
    local: str = ""
    """Of a family of indexes: the local version of its wheels, as ``cu128``; empty: any."""
    index: str = ""
    """Of a family of indexes: the folder below the base with ``/``, or a URL; empty: the registry
    itself.
    """
    page: str = ""
    """The same of one page with links to all wheels."""
    files: tuple[str, ...] = ()
    """Wheels that no page lists: below the base, or URLs."""

    @property
    def condition(self) -> str:
        """The properties a machine must support, in words."""
        return str(self.when) or "any machine"

    @property
    def is_of_registry(self) -> bool:
        """Whether its wheels are the project's own in the registry."""
        return not self.locations

    @property
    def locations(self) -> tuple[str, ...]:
        """The index, the page or the files, below the base or as URLs; empty: the registry."""
        return self.files or tuple(filter(None, (self.index, self.page)))

    @property
    def place(self) -> str:
        """The location of its wheels, below the family's base or as a URL; empty: the registry."""
        return self.files[0].rpartition("/")[0] if self.files else self.index or self.page

    @property
    def folder(self) -> str:
        """The folder of its wheels in a mirror of the family, below its base."""
        return path_in_mirror(self.place)

    @property
    def is_elsewhere(self) -> bool:
        """Whether its place is named by a whole URL, not below the base of the family."""
        return "://" in self.place

    def has(self, project: NormalizedName, version: Version) -> bool:
        """Return whether the member covers a release.

        :param project: a project of the family.
        """
        return self.is_for(project) and self.versions.contains(version, prereleases=True)

    def is_for(self, project: NormalizedName) -> bool:
        """Return whether the member covers a project.

        :param project: a project of the family.
        """
        return not self.projects or _is_among(project, self.projects)

    def covers(self, tags: Iterable[Tag], here: Iterable[str] = ()) -> bool:
        """Return whether the member covers a wheel, by its platform tags.

        :param tags: the tags of the wheel.
        :param here: platform tags of a machine, on which a wheel for any platform depends; none:
            that one is covered.
        """
        if not self.platforms:
            return True
        platforms: Iterable[str] = {tag.platform for tag in tags}
        if "any" in platforms:
            if not here:
                return True
            platforms = here
        return any(is_of(tag, one) for tag in platforms for one in self.platforms)

    @property
    def marker(self) -> str:
        """The marker that its platforms are (PEP 508); empty: any platform."""
        return " or ".join(map(_marker, self.platforms))


@dataclass(frozen=True, slots=True)
class BridgeFamily:
    """A family of distributions that are presented as variants."""

    name: NormalizedName
    """The name users request."""
    projects: tuple[str, ...]
    """The projects it stands for: its own name, or of a family of indexes several; one that ends
    with ``*`` is all names that begin so."""
    members: tuple[FamilyMember, ...]
    """The best first."""
    source: str
    """The URL of the page on which the project documents the rules."""
    checked: date
    """When the rule was last compared with the members' own metadata."""
    says: str = ""
    """The statement of the source that supports the rules, one sentence without a full stop."""
    no_fit: str = ""
    """The hint for machines without a member, one sentence without a full stop."""
    extras: tuple[NormalizedName, ...] = ()
    """Extras that the members have; others are not passed on."""
    by_default: bool = False
    """Whether no opt-in is needed: the project itself documents these members as the way to install
    it, or they are in its owner's index.
    """
    exclusive: bool = True
    """Whether the members own the same files."""
    base: str = ""
    """Of a family of indexes: the address below which the indexes lie."""
    hosts: tuple[str, ...] = ()
    """Of a family of indexes: the hosts from which its files may come, beside those of its
    places."""
    registry: bool = False
    """Of a family of indexes: whether what the registry has counts beside these places, for it is
    of the same owner; otherwise only when they cannot be reached."""

    @property
    def distributions(self) -> tuple[NormalizedName, ...]:
        """The names of its members, each once."""
        return tuple(dict.fromkeys(member.distribution for member in self.members))

    @property
    def is_of_indexes(self) -> bool:
        """Whether members differ in their index, and not in their names."""
        return bool(self.base)

    @property
    def only_hosts(self) -> tuple[str, ...]:
        """The hosts from which its files may be fetched; empty: any.

        A family that counts by default is limited to its own hosts.
        """
        if not (self.hosts or self.by_default):
            return ()
        places = (self.base, *(member.place for member in self.members if member.is_elsewhere))
        hosts = (str(urlsplit(place).hostname) for place in places)
        return tuple(dict.fromkeys((*hosts, *self.hosts)))

    def stands_for(self, project: NormalizedName) -> bool:
        """Return whether the family supplies the builds of a project."""
        return _is_among(project, self.projects)

    def members_of(
        self, version: Version, project: NormalizedName | None = None
    ) -> tuple[FamilyMember, ...]:
        """Return the members whose rule holds for a release.

        :param project: the project of the release; None: the one the family is named after.
        """
        name = project or self.name
        return tuple(member for member in self.members if member.has(name, version))

    def further_places(self, known: BridgeFamily) -> tuple[str, ...]:
        """Return the locations that an earlier edition of the family lacks, a clause each.

        Neither further projects are among them, nor which machine gets which of the builds.

        :param known: the earlier edition.
        """
        new = self._places() - known._places()
        return tuple(f"{kind} {name}" for kind, name in sorted(new))

    def _places(self) -> set[tuple[str, str]]:
        """Return everything outside that names of packages and files are taken from."""
        from packaging.requirements import Requirement

        places = {("the base", self.base), *(("the host", host) for host in self.hosts)}
        for member in self.members:
            places.add(("the distribution", member.distribution))
            places.update(
                ("the place", location) for location in member.locations if "://" in location
            )
            for text in member.requires:
                needed = Requirement(text)
                places.add(("the requirement", text if needed.url else needed.name))
            if self.base and member.is_of_registry:
                ways = ("the registry for", "the registry, beside its places, for")
                for project in member.projects or self.projects:
                    places.update((way, project) for way in ways[: 1 + self.registry])
        return places

    def notes(
        self, version: Version, labels: Container[Label | None], project: NormalizedName
    ) -> tuple[str, ...]:
        """Return the notes for users of a release: the members its builds come from."""
        builds = dict.fromkeys(
            f"{one.label} is {one.place or one.distribution}"
            for one in self.members_of(version, project)
            if one.label is not None and one.label in labels
        )
        return (f"{project} {version} is bridged: {', '.join(builds)}",) if builds else ()

    def build(self, filename: WheelFilename) -> str:
        """Return the note on a wheel of the family; empty for a plain one."""
        member = self.member_of_wheel(filename)
        return "" if member is None else f"by a bridge it is {member.place or member.distribution}"

    def member_of(
        self, label: Label, version: Version, project: NormalizedName | None = None
    ) -> FamilyMember | None:
        """Return the member that a label of a release stands for; None if there is none."""
        return next((one for one in self.members_of(version, project) if one.label == label), None)

    def place_of(self, filenames: Iterable[WheelFilename]) -> int:
        """Return the place of the best member that some wheels are of, 0 for the first one.

        :param filenames: of one release; without any it is that behind the last member.
        """
        members = {id(self.member_of_wheel(filename)) for filename in filenames}
        places = (place for place, member in enumerate(self.members) if id(member) in members)
        return next(places, len(self.members))

    def member_of_wheel(self, filename: WheelFilename) -> FamilyMember | None:
        """Return the member that a wheel under a label is of; None if it is of none."""
        if filename.label is None:
            return None
        project = filename.name if self.is_of_indexes else self.name
        return next(
            (
                member
                for member in self.members
                if member.label == filename.label  # the cheapest test of many thousands
                and member.has(project, filename.version)
                and member.covers(filename.tags)
            ),
            None,
        )

    def properties(self, member: FamilyMember) -> PropertySet:
        """Return the properties of a member's label.

        Indexes differ in builds of one release that a machine may support alike; so the place of
        a build in the family is a property too, and the first one decides.
        """
        if not self.is_of_indexes or not member.when:
            return member.when
        build = Property(self._namespace, _BUILD, str(member.label))
        return PropertySet([build, *member.when])

    def document(self, members: Iterable[FamilyMember]) -> dict[str, Any]:
        """Return variant metadata for some members, as JSON has it (PEP 850).

        :param members: those with wheels; of one label the first counts.
        """
        labelled: dict[str, FamilyMember] = {}
        for member in members:
            if member.label is not None:
                labelled.setdefault(member.label, member)
        # Priorities follow the family: what its first member wants comes first.
        used = dict.fromkeys(name for one in self.members for name in one.when.namespaces)
        providers = {name: _provider(name) for name in used}
        if self.is_of_indexes:
            builds = dict.fromkeys(str(one.label) for one in self.members if one.when) or [NULL]
            providers = {
                self._namespace: {"static-properties": {_BUILD: list(builds)}},
                **providers,
            }
        return {
            SCHEMA: PEP_850,
            "default-priorities": {"namespace": list(providers)},
            "providers": providers,
            "variants": {
                label: self.properties(member).to_mapping()
                for label, member in sorted(labelled.items())
            },
        }

    @property
    def _namespace(self) -> str:
        return self.name.replace("-", "_")


def path_in_mirror(location: str) -> str:
    """Return the path of a page in a mirror of a family, below its base.

    :param location: below the base of the family, or a URL.
    """
    return location.partition("://")[2] or location


def document_of(namespaces: Iterable[str]) -> dict[str, Any]:
    """Return variant metadata without variants, for detecting a machine.

    :param namespaces: the namespaces to detect, best first.
    """
    providers = {name: _provider(name) for name in namespaces}
    return {
        SCHEMA: PEP_850,
        "default-priorities": {"namespace": list(providers)},
        "providers": providers,
        "variants": {},
    }


def _provider(namespace: str) -> dict[str, Any]:
    if namespace == ABI:
        return {"builtin": ABI}
    plugin = PLUGINS[namespace]
    return {"requires": [plugin.package], "plugin-api": plugin.endpoints[0]}


def _is_among(project: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(project, name) for name in names)


def _marker(platform: str) -> str:
    """Return the marker of a platform without version, as ``linux_x86_64``."""
    system, _, machine = platform.partition("_")
    if system == "win":
        system, machine = "win32", machine.upper()
    name = {"macosx": "darwin"}.get(system, system)
    return f"sys_platform == '{name}' and platform_machine == '{machine}'"


def is_of(tag: str, platform: str) -> bool:
    """Return whether a platform tag belongs to a platform without version, as ``linux_x86_64``."""
    system, _, machine = platform.partition("_")
    if system == "linux":
        return tag.endswith(f"_{machine}") and tag.startswith(("linux", "manylinux", "musllinux"))
    if system == "macosx":
        return tag.startswith("macosx") and tag.endswith((f"_{machine}", "_universal2"))
    return tag == platform
