"""Families of published distributions, presented as variants of one project.

Before variants existed, projects put the build into the name (``cupy-cuda12x``) or into an index of
its own. A family describes, as data, the machines for each of its members; the members keep their
names, files and hashes.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct
from packaging.specifiers import SpecifierSet

from wheelfit.core.labels import NULL, Label
from wheelfit.core.properties import Property, PropertySet
from wheelfit.core.provider_table import EMULATED_PLUGINS
from wheelfit.core.variant_json_layouts.schema import KEY as SCHEMA
from wheelfit.core.variant_json_layouts.schema import PEP_850

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from datetime import date

    from packaging.tags import Tag
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.filename import WheelFilename

ANY_VERSION = SpecifierSet("")
PLUGINS = {row.namespace: row for row in reversed(EMULATED_PLUGINS)}
"""The namespaces of hardware that a condition may name, each with the first of its plugins."""
ABI = "abi_dependency"
"""The namespace of conditions on the versions of other packages."""
_BUILD = "build"


class FamilyMember(Struct, frozen=True):
    """A distribution of a family, with the machines that get it."""

    distribution: NormalizedName
    """Its name; the family's name for the project itself."""
    label: Label | None
    """The label of the variant it is presented as; None: its wheels stay plain."""
    when: PropertySet = PropertySet()
    """The properties a machine must support; empty: for any machine without a better member."""
    versions: SpecifierSet = ANY_VERSION
    """The releases that it covers."""
    platforms: tuple[str, ...] = ()
    """The platforms of the wheels that it covers, such as ``linux_x86_64``; empty: all."""
    projects: tuple[str, ...] = ()
    """The projects that it covers, of a family of indexes; empty: all."""
    extras: tuple[NormalizedName, ...] = ()
    """Extras of the distribution that are required with it, such as one with its libraries."""
    requires: tuple[str, ...] = ()
    """The requirements beyond its own metadata on such a machine (PEP 508)."""
    local: str = ""
    """The local version of its wheels in a family of indexes, such as ``cu128``; empty: any."""
    index: str = ""
    """Its index in a family of indexes: a folder below the base, or a URL; empty: the registry."""
    page: str = ""
    """A page with links to all wheels, in place of an index."""
    files: tuple[str, ...] = ()
    """Wheels that are on no page: paths below the base, or URLs."""

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
    def location(self) -> str:
        """The location of its wheels, below the family's base or as a URL; empty: the registry."""
        return self.files[0].rpartition("/")[0] if self.files else self.index or self.page

    @property
    def folder(self) -> str:
        """The folder of its wheels in a mirror of the family, below its base."""
        return path_in_mirror(self.location)

    @property
    def has_own_url(self) -> bool:
        """Whether its location is a URL, not a path below the base of the family."""
        return "://" in self.location

    def covers_release(self, project: NormalizedName, version: Version) -> bool:
        """Return whether the member covers a release."""
        return self.covers_project(project) and self.versions.contains(version, prereleases=True)

    def covers_project(self, project: NormalizedName) -> bool:
        """Return whether the member covers a project."""
        return not self.projects or _is_among(project, self.projects)

    def covers_tags(self, tags: Iterable[Tag], machine_platforms: Iterable[str] = ()) -> bool:
        """Return whether the member covers a wheel, by its tags.

        :param machine_platforms: the platform tags of the machine that a wheel for any platform is
            for; empty: such a wheel is covered.
        """
        if not self.platforms:
            return True
        platforms = {tag.platform for tag in tags}
        if "any" in platforms:
            return not machine_platforms or self.covers_platforms(machine_platforms)
        return self.covers_platforms(platforms)

    def covers_platforms(self, platforms: Iterable[str]) -> bool:
        """Return whether the member covers one of several platform tags."""
        return not self.platforms or any(
            is_tag_of_platform(tag, platform) for tag in platforms for platform in self.platforms
        )

    @property
    def marker(self) -> str:
        """Its platforms as a marker (PEP 508); empty: any platform."""
        return " or ".join(map(_marker, self.platforms))


class BridgeFamily(Struct, frozen=True):
    """A family of distributions that are presented as variants."""

    name: NormalizedName
    """The name users request."""
    projects: tuple[str, ...]
    """The projects it stands for: its own name, or several for a family of indexes; ``*`` at the
    end of one matches the rest of a name."""
    members: tuple[FamilyMember, ...]
    """The best first."""
    source: str
    """The URL of the page on which the project documents the rules."""
    checked: date
    """The date on which the rules were last compared with the members' metadata."""
    says: str = ""
    """The statement of the source on which the rules are based, a sentence without full stop."""
    no_fit: str = ""
    """The hint for machines without a member, one sentence without a full stop."""
    extras: tuple[NormalizedName, ...] = ()
    """Extras that the members have; others are not passed on."""
    by_default: bool = False
    """Whether no opt-in is needed: the project documents these members as the way to install it, or
    they are in its owner's index."""
    exclusive: bool = True
    """Whether the members own the same files."""
    base: str = ""
    """The URL above the indexes of a family of indexes."""
    hosts: tuple[str, ...] = ()
    """The hosts of files of a family of indexes, beside those of its locations."""
    registry: bool = False
    """Whether files on the registry are used beside those of a family of indexes, because they
    have the same owner; otherwise they are used only if the indexes cannot be reached."""

    @property
    def distributions(self) -> tuple[NormalizedName, ...]:
        """The names of its members, each once."""
        return tuple(dict.fromkeys(member.distribution for member in self.members))

    @property
    def is_of_indexes(self) -> bool:
        """Whether the members differ in their index, not in their names."""
        return bool(self.base)

    @property
    def only_hosts(self) -> tuple[str, ...]:
        """The hosts from which its files may be fetched; empty: any.

        A family that is used by default is limited to its own hosts.
        """
        if not (self.hosts or self.by_default):
            return ()
        places = (self.base, *(member.location for member in self.members if member.has_own_url))
        hosts = (str(urlsplit(place).hostname) for place in places)
        return tuple(dict.fromkeys((*hosts, *self.hosts)))

    def has_project(self, project: NormalizedName) -> bool:
        """Return whether the family supplies the builds of a project."""
        return _is_among(project, self.projects)

    def members_of(
        self, version: Version, project: NormalizedName | None = None
    ) -> tuple[FamilyMember, ...]:
        """Return the members that cover a release.

        :param project: the project of the release; None: the one the family is named after.
        """
        name = project or self.name
        return tuple(member for member in self.members if member.covers_release(name, version))

    def new_locations(self, earlier: BridgeFamily) -> tuple[str, ...]:
        """Return the locations that an earlier edition of the family lacks, a clause each.

        Further projects and changed conditions of members are not included.
        """
        new = self._origins() - earlier._origins()
        return tuple(f"{kind} {name}" for kind, name in sorted(new))

    def _origins(self) -> set[tuple[str, str]]:
        """Return the external origins of packages and files: kind and name."""
        from packaging.requirements import Requirement

        origins = {("the base", self.base), *(("the host", host) for host in self.hosts)}
        for member in self.members:
            origins.add(("the distribution", member.distribution))
            origins.update(
                ("the place", location) for location in member.locations if "://" in location
            )
            for text in member.requires:
                needed = Requirement(text)
                origins.add(("the requirement", text if needed.url else needed.name))
            if self.base and member.is_of_registry:
                for project in member.projects or self.projects:
                    origins.add(("the registry for", project))
                    if self.registry:
                        origins.add(("the registry, beside its places, for", project))
        return origins

    def notes(
        self, version: Version, labels: Container[Label | None], project: NormalizedName
    ) -> tuple[str, ...]:
        """Return the notes for users of a release: the members its builds come from."""
        builds = dict.fromkeys(
            f"{member.label} is {member.location or member.distribution}"
            for member in self.members_of(version, project)
            if member.label is not None and member.label in labels
        )
        return (f"{project} {version} is bridged: {', '.join(builds)}",) if builds else ()

    def wheel_note(self, filename: WheelFilename) -> str:
        """Return the note on a wheel of the family; empty for a plain one."""
        member = self.member_of_wheel(filename)
        return f"by a bridge it is {member.location or member.distribution}" if member else ""

    def member_of(
        self, label: Label, version: Version, project: NormalizedName | None = None
    ) -> FamilyMember | None:
        """Return the member that a label of a release stands for; None if there is none."""
        members = self.members_of(version, project)
        return next((member for member in members if member.label == label), None)

    def rank_of(self, filenames: Iterable[WheelFilename]) -> int:
        """Return the index of the best member with one of the wheels, 0 for the first member.

        :param filenames: wheels of one release.
        :return: the count of members if none has any of them.
        """
        # By identity, since members may be many, and their comparison is slow.
        members = {id(self.member_of_wheel(filename)) for filename in filenames}
        ranks = (rank for rank, member in enumerate(self.members) if id(member) in members)
        return next(ranks, len(self.members))

    def member_of_wheel(self, filename: WheelFilename) -> FamilyMember | None:
        """Return the member that a variant wheel belongs to; None if there is none."""
        if filename.label is None:
            return None
        project = filename.name if self.is_of_indexes else self.name
        return next(
            (
                member
                for member in self.members
                if member.label == filename.label  # the cheapest test of many thousands
                and member.covers_release(project, filename.version)
                and member.covers_tags(filename.tags)
            ),
            None,
        )

    def properties(self, member: FamilyMember) -> PropertySet:
        """Return the properties of a member's label.

        A machine may support builds of several indexes; so the rank of a build in the family is a
        property too, and comes first.
        """
        if not self.is_of_indexes or not member.when:
            return member.when
        build = Property(self._namespace, _BUILD, str(member.label))
        return PropertySet([build, *member.when])

    def document(self, members: Iterable[FamilyMember]) -> dict[str, Any]:
        """Return variant metadata for some members as plain data (PEP 850).

        :param members: the members with wheels; of each label the first is used.
        """
        labelled: dict[str, FamilyMember] = {}
        for member in members:
            if member.label is not None:
                labelled.setdefault(member.label, member)
        # The priorities have the order of the members.
        used = dict.fromkeys(name for member in self.members for name in member.when.namespaces)
        providers = {name: _provider(name) for name in used}
        if self.is_of_indexes:
            labels = dict.fromkeys(str(member.label) for member in self.members if member.when)
            builds = list(labels) or [NULL]  # a list must not be empty
            providers = {
                self._namespace: {"static-properties": {_BUILD: builds}},
                **providers,
            }
        variants = {
            label: self.properties(member).to_mapping()
            for label, member in sorted(labelled.items())
        }
        return _document(providers, variants)

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
    return _document({name: _provider(name) for name in namespaces}, {})


def _document(providers: Mapping[str, Any], variants: Mapping[str, Any]) -> dict[str, Any]:
    """Return variant metadata; the priorities have the order of the providers."""
    return {
        SCHEMA: PEP_850,
        "default-priorities": {"namespace": list(providers)},
        "providers": providers,
        "variants": variants,
    }


def _provider(namespace: str) -> dict[str, Any]:
    if namespace == ABI:
        return {"builtin": ABI}
    plugin = PLUGINS[namespace]
    return {"requires": [plugin.package], "plugin-api": plugin.endpoints[0]}


def _is_among(project: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(project, name) for name in names)


def _marker(platform: str) -> str:
    """Return the marker of a platform without version, such as ``linux_x86_64``."""
    system, _, machine = platform.partition("_")
    if system == "win":
        system, machine = "win32", machine.upper()
    name = {"macosx": "darwin"}.get(system, system)
    return f"sys_platform == '{name}' and platform_machine == '{machine}'"


def is_tag_of_platform(tag: str, platform: str) -> bool:
    """Return whether a platform tag belongs to a platform without version, as ``linux_x86_64``."""
    system, _, machine = platform.partition("_")
    if system == "linux":
        return tag.endswith(f"_{machine}") and tag.startswith(("linux", "manylinux", "musllinux"))
    if system == "macosx":
        return tag.startswith("macosx") and tag.endswith((f"_{machine}", "_universal2"))
    return tag == platform
