"""Parsing of the TOML file that describes a family of distributions (a bridge)."""

from __future__ import annotations

import itertools
from datetime import date
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.core.bridges import ABI, ANY_VERSION, PLUGINS, BridgeFamily, FamilyMember
from wheelfit.core.labels import NULL, Label, parse_label, writer_faults
from wheelfit.core.properties import PropertySet, parse_property
from wheelfit.core.strict_json import shown
from wheelfit.core.table_reader import FaultList, Table
from wheelfit.core.versions import parse_specifiers
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORMAT = 1
"""The newest supported format of these files."""
MAX_SIZE = 1 << 20
"""The largest accepted size of a file, in bytes."""
_FAMILY_KEYS = (
    "base", "by-default", "checked", "exclusive", "extras", "format", "hosts", "member", "name",
    "no-fit", "projects", "registry", "says", "source",
)  # fmt: skip
_INDEX_MEMBER_KEYS = ("files", "index", "local", "page", "projects")
"""Keys of members that only a family of indexes has."""
_MEMBER_KEYS = (
    "distribution", "each", "extras", "label", "platforms", "requires", "versions", "when",
    *_INDEX_MEMBER_KEYS,
)  # fmt: skip
_MAX_MEMBERS_OF_ROW = 2000


def parse_family(data: bytes, *, where: str = "") -> BridgeFamily:
    """Read the file of a family.

    :raises InvalidDocument: ``invalid-bridge``; the file has faults.
    """
    from wheelfit.core.strict_toml import TomlLimits, load

    faults = FaultList()
    try:
        content = load(data, TomlLimits(size=MAX_SIZE))
    except ValueError as error:
        faults.append(Fault("", str(error)))
    else:
        if file_format := _newer_format(content):
            faults.append(Fault("format", f"is {file_format}, for a newer wheelfit than this one"))
        else:
            family = _family(Table(content, faults))
    if faults:
        raise InvalidDocument(faults, code="invalid-bridge", where=where or None)
    return family


def newer_format(data: bytes) -> int | None:
    """Return the format of a file if it is newer than the supported one; else None.

    :param data: the content, which need not be valid.
    """
    from wheelfit.core.strict_toml import load

    try:
        return _newer_format(load(data))
    except ValueError:
        return None


def _newer_format(content: dict[str, Any]) -> int | None:
    file_format = content.get("format")
    return file_format if type(file_format) is int and file_format > FORMAT else None


def _family(table: Table) -> BridgeFamily:
    table.only(*_FAMILY_KEYS)
    name = _name(table, "name")
    base = _line(table, "base")
    projects = table.each("projects", _project_pattern)
    for key in ("projects", "hosts", "registry"):
        if key in table and not base:
            table.fault("is for a family of indexes only", key)
    rows = [expanded for row in table.tables("member") for expanded in _expand_each(row)]
    members = [_member(row, name, base) for row in rows]
    if not members:
        table.fault("must have at least one table", "member")
    _check_labels(rows, members)
    source = _line(table, "source", is_required=True)
    for key, address in (("source", source), ("base", base)):
        if address and not address.startswith("https://"):
            table.fault("must be an https address", key)
    checked = table.content.get("checked")
    if checked is None:
        table.fault("is missing", "checked")
    elif type(checked) is not date:
        table.must_be("a date, such as 2026-11-22", checked, "checked")
    family = BridgeFamily(
        name=name,
        projects=tuple(projects) or (name,),
        members=tuple(members),
        source=source,
        checked=checked if type(checked) is date else date.min,
        says=_line(table, "says", is_required=True),
        no_fit=_line(table, "no-fit"),
        extras=tuple(table.each("extras", _canonical_name)),
        by_default=table.flag("by-default"),
        exclusive=table.flag("exclusive", default=True),
        base=base.rstrip("/"),
        hosts=table.strings("hosts"),
        registry=table.flag("registry"),
    )
    if not family.no_fit and members and all(member.when for member in members):
        table.fault("is missing, and there are machines that get no member", "no-fit")
    return family


def _expand_each(row: Table) -> Iterator[Table]:
    """Yield a copy of a row for every combination of the values in its ``each``."""
    each = row.table("each")
    if not each.content:
        yield row
        return
    values = {key: each.strings(key) for key in each.content}
    count = 1
    for key, values_of_key in values.items():
        count *= len(values_of_key)
        if not values_of_key:
            each.fault("must not be empty", key)
    if count > _MAX_MEMBERS_OF_ROW:
        row.fault(f"stands for {count} members, more than {_MAX_MEMBERS_OF_ROW}", "each")
        return
    content = {key: value for key, value in row.content.items() if key != "each"}
    for combination in itertools.product(*values.values()):
        words = dict(zip(values, combination, strict=True))
        yield Table(_replace_keys(content, words), row.report, *row.steps)


def _replace_keys(value: Any, words: dict[str, str]) -> Any:
    """Return a value with every ``{key}`` in its strings replaced by a word."""
    if isinstance(value, str):
        for key, word in words.items():
            value = value.replace(f"{{{key}}}", word)
        return value
    if isinstance(value, list):
        return [_replace_keys(item, words) for item in value]
    if isinstance(value, dict):
        return {
            _replace_keys(key, words): _replace_keys(item, words) for key, item in value.items()
        }
    return value


def _member(row: Table, name: NormalizedName, base: str) -> FamilyMember:
    row.only(*_MEMBER_KEYS)
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
    if not base and any(key in row for key in _INDEX_MEMBER_KEYS):
        keys = ", ".join(_INDEX_MEMBER_KEYS)
        row.fault(f"must not have {keys}: only a family of indexes has them")
    if sum(key in row for key in ("files", "index", "page")) > 1:
        row.fault("must have one of files, index and page, or none for the registry")
    return FamilyMember(
        distribution=distribution,
        label=label,
        when=when,
        versions=_versions(row),
        platforms=row.strings("platforms"),
        projects=tuple(row.each("projects", _project_pattern)),
        extras=tuple(row.each("extras", _canonical_name)),
        requires=tuple(row.each("requires", _requirement)),
        local=_line(row, "local"),
        index=_location(row, "index"),
        page=_location(row, "page"),
        files=tuple(row.each("files", _wheel)),
    )


def _label(row: Table) -> Label | None:
    text = _line(row, "label")
    label = row.parsed(parse_label, text, "label") if text else None
    if label is not None:
        for fault in writer_faults(label):
            row.fault(fault, "label", rule="F-4")
    return label


def _when(row: Table) -> PropertySet:
    """Return the conditions, written like the properties of a label."""
    properties = []
    for namespace, features in row.named("when").items():
        if namespace not in PLUGINS and namespace != ABI:
            known = ", ".join(sorted([*PLUGINS, ABI]))
            row.fault(f"is no known namespace; there are {known}", "when", namespace)
            continue
        for feature in features.content:
            for value in features.strings(feature):
                text = f"{namespace} :: {feature} :: {value}"
                parsed = features.parsed(parse_property, text, feature)
                if parsed is not None:
                    properties.append(parsed)
    return PropertySet(properties)


def _versions(row: Table) -> SpecifierSet:
    try:
        return parse_specifiers(_line(row, "versions"))
    except InvalidSpecifier as error:
        row.fault(f"cannot be read: {error}", "versions")
        return ANY_VERSION


def _check_labels(rows: Sequence[Table], members: Sequence[FamilyMember]) -> None:
    """Report labels with two meanings in one release (F-65)."""
    first_members: dict[tuple[object, ...], FamilyMember] = {}
    for row, member in zip(rows, members, strict=True):
        if member.label is None:
            continue
        for project in member.projects or ("",):
            key = (member.label, project, member.versions)
            if first_members.setdefault(key, member).when != member.when:
                row.fault(f"is {member.label} as of another member, with other conditions", "label")


def _line(table: Table, key: str, *, is_required: bool = False) -> str:
    text = (table.required(key) if is_required else table.string(key)) or ""
    if text.isprintable():
        return text
    table.fault("must be one line without control characters", key)
    return ""


def _location(row: Table, key: str) -> str:
    """Return the location of an index or page: a folder below the base, or a whole URL."""
    place = _line(row, key).strip("/")
    if "://" in place and not place.startswith("https://"):
        row.fault("must be an https address, or a folder below the base", key)
    if _leaves_base(place):
        row.fault("must not lead out of the base", key)
    return place


def _leaves_base(place: str) -> bool:
    decoded = place.lower().replace("%2e", ".").replace("%2f", "/").replace("\\", "/")
    return ".." in decoded.split("/")


def _name(table: Table, key: str) -> NormalizedName:
    text = _line(table, key, is_required=True)
    canonical = table.parsed(_canonical_name, text, key) if text else None
    return canonicalize_name("") if canonical is None else canonical


def _canonical_name(text: str) -> NormalizedName:
    try:
        name = canonicalize_name(text, validate=True)
    except InvalidName:
        raise ValueError(f"is not a valid project name: {shown(text)}") from None
    if name != text:
        raise ValueError(f"must be spelled {name}")
    return name


def _project_pattern(text: str) -> str:
    """Return the name of a project, or the beginning of names followed by ``*``."""
    if not text.endswith("*"):
        return _canonical_name(text)
    _canonical_name(text[:-1].strip("-"))  # raises for an invalid beginning
    return text


def _requirement(text: str) -> str:
    try:
        return str(Requirement(text))
    except InvalidRequirement as error:
        raise ValueError(f"is not a valid requirement: {error}") from None


def _wheel(text: str) -> str:
    if not text.endswith(".whl") or ("://" in text and not text.startswith("https://")):
        raise ValueError("must be a wheel below the base, or the https address of one")
    if _leaves_base(text):
        raise ValueError("must not lead out of the base")
    return text
