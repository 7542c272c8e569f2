"""Families of published distributions, presented as the variants that they would be.

Before there were variants, projects put the build into the name (``cupy-cuda12x``) or into an
index of its own. A family says, as data, which of its members a machine gets; the members stay
what they are, with their names, files and hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.core.labels import NULL, Label, parse_label, writer_faults
from wheelfit.core.properties import Property, PropertySet, parse_property
from wheelfit.core.provider_table import EMULATED_PLUGINS
from wheelfit.core.strict_json import shown
from wheelfit.core.table_reader import FaultList, Table
from wheelfit.core.variant_json_layouts.schema import KEY as SCHEMA
from wheelfit.core.variant_json_layouts.schema import PEP_850
from wheelfit.core.versions import parse_specifiers
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from packaging.version import Version

    from wheelfit.core.filename import WheelFilename

ANY_VERSION = SpecifierSet("")
_PLUGINS = {row.namespace: row for row in reversed(EMULATED_PLUGINS)}


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """A distribution of a family, with the machines that get it."""

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
class BridgeFamily:
    """A family of distributions that are presented as variants."""

    name: NormalizedName
    """What users ask for."""
    projects: tuple[NormalizedName, ...]
    """The projects it stands for: its own name, or of a family of indexes several."""
    members: tuple[FamilyMember, ...]
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

    def members_of(self, version: Version) -> tuple[FamilyMember, ...]:
        """Return the members whose rule holds for a release."""
        return tuple(
            member for member in self.members if member.versions.contains(version, prereleases=True)
        )

    def notes(self, version: Version, labels: Container[Label | None]) -> tuple[str, ...]:
        """Return what to tell whoever gets a release: whose builds these are."""
        builds = dict.fromkeys(
            f"{one.label} is {one.index or one.distribution}"
            for one in self.members_of(version)
            if one.label is not None and one.label in labels
        )
        return (f"{self.name} {version} is bridged: {', '.join(builds)}",) if builds else ()

    def build(self, filename: WheelFilename) -> str:
        """Return what to tell of a wheel of the family; empty for a plain one."""
        label = filename.label
        member = None if label is None else self.member_of(label, filename.version)
        if member is None:
            return ""
        return f"by a bridge it is {member.index or member.distribution}"

    def member_of(self, label: Label, version: Version) -> FamilyMember | None:
        """Return the member that a label of a release stands for; None if there is none."""
        return next((one for one in self.members_of(version) if one.label == label), None)

    def document(self, members: Iterable[FamilyMember]) -> dict[str, Any]:
        """Return variant metadata for some members, as JSON has it (PEP 850).

        :param members: those with wheels; of one label the first counts.
        """
        labelled: dict[str, FamilyMember] = {}
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


def parse_family(data: bytes, *, where: str = "") -> BridgeFamily:
    """Read the file of a family.

    :raises InvalidDocument: ``invalid-bridge``; something is wrong; names every fault.
    """
    from wheelfit.core.strict_toml import load  # noqa: PLC0415 - start-up

    try:
        content = load(data)
    except ValueError as error:
        raise InvalidDocument(
            [Fault("", str(error))], code="invalid-bridge", where=where or None
        ) from None
    faults = FaultList()
    family = _family(Table(content, faults))
    if faults:
        raise InvalidDocument(faults, code="invalid-bridge", where=where or None)
    return family


def _family(table: Table) -> BridgeFamily:
    table.only(
        "base", "by-default", "checked", "exclusive", "extras", "member", "name", "no-fit",
        "projects", "says", "source",
    )  # fmt: skip
    name = _name(table, "name")
    base = _line(table, "base")
    projects = table.each("projects", _canonical)
    if "projects" in table and not base:
        table.fault("is for a family of indexes only", "projects")
    members = [_member(row, name, base) for row in table.tables("member")]
    if not members:
        table.fault("must have at least one table", "member")
    _check_labels(table, members)
    source = _line(table, "source", needed=True)
    if source and not source.startswith("https://"):
        table.fault("must be an https address", "source")
    checked = table.content.get("checked")
    if type(checked) is not date:
        table.must_be("a date, such as 2026-11-22", checked, "checked")
        checked = date.min
    family = BridgeFamily(
        name,
        tuple(projects) or (name,),
        tuple(members),
        source,
        checked,
        _line(table, "says", needed=True),
        _line(table, "no-fit"),
        tuple(table.each("extras", _canonical)),
        table.flag("by-default"),
        table.flag("exclusive", default=True),
        base.rstrip("/"),
    )
    if not family.no_fit and members and all(member.when for member in members):
        table.fault("is missing, and there are machines that get no member", "no-fit")
    return family


def _member(row: Table, name: NormalizedName, base: str) -> FamilyMember:
    row.only("distribution", "index", "label", "local", "versions", "when")
    distribution = name if base else _name(row, "distribution")
    if base and "distribution" in row:
        row.fault("must not be there: a family of indexes has only one name", "distribution")
    label = _label(row)
    when = _when(row)
    if "label" not in row and (distribution != name or base):
        row.fault("is missing", "label")
    elif "label" not in row and when:
        row.fault("is missing: what has a condition is a variant", "label")
    if label is not None and bool(when) == (label == NULL):
        row.fault("must be 'null' for a member without conditions, and for no other", "label")
    local = _line(row, "local")
    index = _line(row, "index", needed=bool(base))
    if (local or index) and not base:
        row.fault("must not have local and index: only a family of indexes has them")
    return FamilyMember(distribution, label, when, _versions(row), local, index.strip("/"))


def _label(row: Table) -> Label | None:
    text = _line(row, "label")
    label = row.parsed(parse_label, text, "label") if text else None
    for fault in () if label is None else writer_faults(label):
        row.fault(fault, "label", rule="F-4")
    return label


def _when(row: Table) -> PropertySet:
    found: list[Property] = []

    def add(text: str) -> None:
        found.append(parse_property(text))
        namespace = found[-1].namespace
        if namespace not in _PLUGINS:
            known = ", ".join(sorted(_PLUGINS))
            raise ValueError(f"has no known namespace: {namespace}; there are {known}")

    row.each("when", add)
    return PropertySet(found)


def _versions(row: Table) -> SpecifierSet:
    try:
        return parse_specifiers(_line(row, "versions"))
    except InvalidSpecifier as error:
        row.fault(f"cannot be read: {error}", "versions")
        return ANY_VERSION


def _check_labels(table: Table, members: list[FamilyMember]) -> None:
    seen: dict[Label, FamilyMember] = {}
    for place, member in enumerate(members):
        if member.label is None:
            continue
        other = seen.setdefault(member.label, member)
        if other is not member and other.when != member.when:
            message = f"is {member.label} as of another member, with other conditions"
            table.fault(message, "member", place, "label")


def _line(table: Table, key: str, *, needed: bool = False) -> str:
    """Return a string of one line."""
    text = (table.required(key) if needed else table.string(key)) or ""
    if text.isprintable():
        return text
    table.fault("must be one line without control characters", key)
    return ""


def _name(table: Table, key: str) -> NormalizedName:
    text = _line(table, key, needed=True)
    found = table.parsed(_canonical, text, key) if text else None
    return canonicalize_name("") if found is None else found


def _canonical(text: str) -> NormalizedName:
    try:
        name = canonicalize_name(text, validate=True)
    except InvalidName:
        raise ValueError(f"is not a valid project name: {shown(text)}") from None
    if name != text:
        raise ValueError(f"must be spelled {name}")
    return name
