"""Families of published distributions, presented as the variants that they would be.

Before there were variants, projects put the build into the name (``cupy-cuda12x``) or into an
index of its own. A family says, as data, which of its members a machine gets; the members stay
what they are, with their names, files and hashes.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.core.labels import NULL, Label, parse_label, writer_faults
from wheelfit.core.layouts.schema import KEY as SCHEMA
from wheelfit.core.layouts.schema import PEP_850
from wheelfit.core.properties import PropertySet, parse_property
from wheelfit.core.provider_table import EMULATED_PLUGINS
from wheelfit.core.versions import parse_specifiers
from wheelfit.errors import Fault, InvalidBridge, InvalidLabel, InvalidProperty
from wheelfit.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from packaging.version import Version

    from wheelfit.core.filename import WheelFilename

__all__ = ["ANY_VERSION", "Family", "Member", "parse_family"]


def __dir__() -> list[str]:
    return __all__


ANY_VERSION = SpecifierSet("")
_PLUGINS = {row.namespace: row for row in reversed(EMULATED_PLUGINS)}


@dataclass(frozen=True, slots=True)
class Member:
    """Say of one distribution which machines get it."""

    distribution: NormalizedName
    """Its name; that of the family if it is the project's own."""
    label: Label | None
    """As which variant it is presented; None: as the plain wheels that it has."""
    when: PropertySet = PropertySet()
    """What a machine must support; empty: every one will do that has no better member."""
    versions: SpecifierSet = ANY_VERSION
    """Of which releases that is true."""
    local: str = ""
    """Of a family of indexes: the local version of its wheels, as ``cu128``; empty: any."""
    index: str = ""
    """Of a family of indexes: the folder below the base, with ``/``."""

    @property
    def condition(self) -> str:
        """What a machine must support, in words."""
        return str(self.when) or "any machine"


@dataclass(frozen=True, slots=True)
class Family:
    """Hold what is known of one family."""

    name: NormalizedName
    """What users ask for."""
    projects: tuple[NormalizedName, ...]
    """The projects it stands for: its own name, or of a family of indexes several."""
    members: tuple[Member, ...]
    """The best first."""
    source: str
    """Where the project says so: the address of a page."""
    checked: date
    """When the rule was last compared with what the members say of themselves."""
    says: str = ""
    """What the source says that the rules follow from, one sentence without a full stop."""
    no_fit: str = ""
    """What to tell people whose machine gets no member, one sentence without a full stop."""
    extras: tuple[NormalizedName, ...] = ()
    """Extras that the members have; others are not passed on."""
    by_default: bool = False
    """Whether the project itself names these members as the way to install it, so that
    nobody need opt in."""
    exclusive: bool = True
    """Whether the members own the same files."""
    base: str = ""
    """Of a family of indexes: the address below which the indexes lie."""

    @property
    def distributions(self) -> tuple[NormalizedName, ...]:
        """The names of its members, each once."""
        return tuple(dict.fromkeys(member.distribution for member in self.members))

    @property
    def is_of_indexes(self) -> bool:
        """Whether members differ in their index, and not in their names."""
        return bool(self.base)

    def members_of(self, version: Version) -> tuple[Member, ...]:
        """Return the members whose rule holds for a release.

        :param version: of the release.
        """
        return tuple(
            member for member in self.members if member.versions.contains(version, prereleases=True)
        )

    def notes(self, version: Version, labels: Container[Label | None]) -> tuple[str, ...]:
        """Return what to tell whoever gets a release: whose builds these are.

        :param version: of the release.
        :param labels: those that it has.
        """
        builds = dict.fromkeys(
            f"{one.label} is {one.index or one.distribution}"
            for one in self.members_of(version)
            if one.label is not None and one.label in labels
        )
        return (f"{self.name} {version} is bridged: {', '.join(builds)}",) if builds else ()

    def build(self, filename: WheelFilename) -> str:
        """Return what to tell of a wheel of the family; empty for a plain one.

        :param filename: as it is listed.
        """
        label = filename.label
        member = None if label is None else self.member_of(label, filename.version)
        if member is None:
            return ""
        return f"by a bridge it is {member.index or member.distribution}"

    def member_of(self, label: Label, version: Version) -> Member | None:
        """Return the member that a label of a release stands for; None if there is none.

        :param label: of a wheel.
        :param version: of the release.
        """
        return next((one for one in self.members_of(version) if one.label == label), None)

    def document(self, members: Iterable[Member]) -> dict[str, Any]:
        """Return variant metadata for some members, as JSON has it (PEP 850).

        :param members: those with wheels; of one label the first counts.
        """
        labelled: dict[str, Member] = {}
        for member in members:
            if member.label is not None:
                labelled.setdefault(member.label, member)
        # Priorities follow the family: what its first member wants comes first.
        namespaces = tuple(
            dict.fromkeys(name for one in self.members for name in one.when.namespaces)
        )
        return {
            SCHEMA: PEP_850,
            "default-priorities": {"namespace": list(namespaces)},
            "providers": {
                name: {
                    "requires": [_PLUGINS[name].package],
                    "plugin-api": _PLUGINS[name].endpoints[0],
                }
                for name in namespaces
            },
            "variants": {
                label: member.when.to_mapping() for label, member in sorted(labelled.items())
            },
        }


_KEYS = frozenset(
    [
        "base",
        "by-default",
        "checked",
        "exclusive",
        "extras",
        "member",
        "name",
        "no-fit",
        "projects",
        "says",
        "source",
    ]
)
_MEMBER_KEYS = frozenset(["distribution", "index", "label", "local", "versions", "when"])


def parse_family(data: bytes, *, where: str = "") -> Family:
    """Read the file of a family.

    :param data: TOML.
    :param where: the file, for errors.
    :raises InvalidBridge: something is wrong; names every fault.
    """
    from wheelfit.core.strict_toml import load  # noqa: PLC0415 - start-up

    try:
        table = load(data)
    except ValueError as error:
        raise InvalidBridge([Fault("", str(error))], where=where or None) from None
    reading = _Reading(table)
    family = reading.family()
    if family is None or reading.faults:
        raise InvalidBridge(reading.faults, where=where or None)
    return family


class _Reading:
    """Read one file, and collect what is wrong with it."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.faults: list[Fault] = []
        self._table = table

    def family(self) -> Family | None:
        table = self._table
        self._unknown(table, _KEYS, "")
        name = self._name(table, "name", "")
        base = self._text(table, "base", "", needed=False)
        projects = [
            self._canonical(text, f"projects[{place}]")
            for place, text in enumerate(self._texts(table, "projects", ""))
        ]
        if projects and not base:
            self._fault("projects", "only a family of indexes has several projects")
        rows = table.get("member")
        if not isinstance(rows, list) or not rows or not all(isinstance(r, dict) for r in rows):
            self._fault("member", "there must be at least one [[member]]")
            rows = []
        members = [
            self._member(row, f"member[{place}]", name, base) for place, row in enumerate(rows)
        ]
        self._check_labels(members)
        source = self._text(table, "source", "")
        if source and not source.startswith("https://"):
            self._fault("source", "is no https address")
        checked = table.get("checked")
        if type(checked) is not date:
            self._fault("checked", "is no date, as 2026-11-22")
            checked = date.min
        extras = [
            self._canonical(text, f"extras[{place}]")
            for place, text in enumerate(self._texts(table, "extras", ""))
        ]
        family = Family(
            name,
            tuple(projects) or (name,),
            tuple(members),
            source,
            checked,
            self._text(table, "says", ""),
            self._text(table, "no-fit", "", needed=False),
            tuple(extras),
            self._flag(table, "by-default", default=False),
            self._flag(table, "exclusive", default=True),
            base.rstrip("/"),
        )
        if not family.no_fit and members and all(member.when for member in members):
            self._fault("no-fit", "is missing, and there are machines that get no member")
        return family

    def _member(self, row: dict[str, Any], path: str, name: NormalizedName, base: str) -> Member:
        self._unknown(row, _MEMBER_KEYS, path)
        distribution = name if base else self._name(row, "distribution", path)
        if base and "distribution" in row:
            self._fault(f"{path}.distribution", "a family of indexes has only one name")
        label = self._label(row, path)
        when = self._when(row, path)
        if "label" not in row and (distribution != name or base):
            self._fault(f"{path}.label", "is missing")
        elif "label" not in row and when:
            self._fault(f"{path}.label", "is missing: what has a condition is a variant")
        if label is not None and bool(when) == (label == NULL):
            self._fault(
                f"{path}.label",
                "must be 'null' for a member without conditions, and for no other",
            )
        local = self._text(row, "local", path, needed=False)
        index = self._text(row, "index", path, needed=bool(base))
        if (local or index) and not base:
            self._fault(path, "only a family of indexes has local and index")
        return Member(distribution, label, when, self._versions(row, path), local, index.strip("/"))

    def _label(self, row: dict[str, Any], path: str) -> Label | None:
        text = self._text(row, "label", path, needed=False)
        if not text:
            return None
        try:
            label = parse_label(text)
        except InvalidLabel as error:
            self._fault(f"{path}.label", error.message)
            return None
        for fault in writer_faults(label):
            self._fault(f"{path}.label", f"{fault} (F-4)")
        return label

    def _when(self, row: dict[str, Any], path: str) -> PropertySet:
        found = []
        for place, text in enumerate(self._texts(row, "when", path)):
            try:
                item = parse_property(text)
            except InvalidProperty as error:
                self._fault(f"{path}.when[{place}]", error.message)
                continue
            if item.namespace not in _PLUGINS:
                known = ", ".join(sorted(_PLUGINS))
                self._fault(
                    f"{path}.when[{place}]",
                    f"nobody tells what is supported of {item.namespace}; there are {known}",
                )
            found.append(item)
        return PropertySet(found)

    def _versions(self, row: dict[str, Any], path: str) -> SpecifierSet:
        text = self._text(row, "versions", path, needed=False)
        try:
            return parse_specifiers(text)
        except InvalidSpecifier as error:
            self._fault(f"{path}.versions", f"cannot be read: {error}")
            return ANY_VERSION

    def _check_labels(self, members: list[Member]) -> None:
        seen: dict[Label, Member] = {}
        for place, member in enumerate(members):
            if member.label is None:
                continue
            other = seen.setdefault(member.label, member)
            if other is not member and other.when != member.when:
                self._fault(
                    f"member[{place}].label",
                    f"two members are {member.label}, with other conditions",
                )

    # --- values ------------------------------------------------------------------

    def _fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))

    def _unknown(self, table: dict[str, Any], known: frozenset[str], path: str) -> None:
        for key in table.keys() - known:
            self._fault(f"{path}.{key}" if path else key, "there is no such key")

    def _text(self, table: dict[str, Any], key: str, path: str, *, needed: bool = True) -> str:
        value: object = table.get(key, "")
        at = f"{path}.{key}" if path else key
        if not isinstance(value, str) or not value.isprintable():
            self._fault(at, "is no text of one line")
            return ""
        if needed and not value:
            self._fault(at, "is missing")
        return value

    def _texts(self, table: dict[str, Any], key: str, path: str) -> list[str]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self._fault(f"{path}.{key}" if path else key, "is no list of texts")
            return []
        return value

    def _flag(self, table: dict[str, Any], key: str, *, default: bool) -> bool:
        value = table.get(key, default)
        if not isinstance(value, bool):
            self._fault(key, "is neither true nor false")
            return default
        return value

    def _name(self, table: dict[str, Any], key: str, path: str) -> NormalizedName:
        text = self._text(table, key, path)
        if not text:
            return canonicalize_name("")
        return self._canonical(text, f"{path}.{key}" if path else key)

    def _canonical(self, text: str, path: str) -> NormalizedName:
        try:
            name = canonicalize_name(text, validate=True)
        except InvalidName:
            self._fault(path, f"{text[:80]!r} is no name of a project")
            return canonicalize_name("")
        if name != text:
            self._fault(path, f"is spelled {name}")
        return name
