"""The trusted plugins and the site's policy, as TOML: ``providers.toml`` and ``policy.toml``.

Unknown keys are errors, so that a mistyped limit is never ignored.
"""

from __future__ import annotations

import re
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, cast, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from wheelfit.core import strict_toml
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.properties import is_name
from wheelfit.core.providers import parse_endpoint
from wheelfit.core.strict_json import shown
from wheelfit.core.table_reader import FirstFault, Table
from wheelfit.core.toml_lines import line_of
from wheelfit.core.trust import PluginRule, PolicyFile, Trust, TrustedFile, TrustEntry
from wheelfit.core.versions import parse_specifiers
from wheelfit.errors import InvalidFilename
from wheelfit_runtime.errors import InvalidConfiguration, PolicyRefusal, WheelfitError

if TYPE_CHECKING:
    from wheelfit_runtime.error_codes import Code

FILE_VERSION = 1
"""Version of either format."""
_LIMITS = strict_toml.TomlLimits(size=4 << 20)

_MANUAL = "docs/reference/trust.md"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def read_trust(data: bytes, where: str) -> Trust:
    """Read ``providers.toml``.

    :param data: the content of the file; if empty, nothing is trusted.
    :raises InvalidConfiguration: it is not TOML, or has an unknown key or an invalid value.
    """
    table = _load(data, where, InvalidConfiguration)
    if not table.content:
        return Trust()
    table.only("version", "trusted", "enable-provider", "disable-provider")
    _check_version(table)
    entries = _entries(table)
    keys = [(entry.package, entry.namespace) for entry in entries]
    for name, namespace in keys:
        if keys.count((name, namespace)) > 1:
            entry_name = f"{name} for {namespace}" if namespace else name
            table.fault(f"has {entry_name} more than once", "trusted")
    return Trust(
        entries, _namespaces(table, "enable-provider"), _namespaces(table, "disable-provider")
    )


def read_policy(data: bytes, where: str, *, grants_trust: bool) -> PolicyFile:
    """Read a policy.

    :param grants_trust: whether its entries are trusted without the user.
    :raises PolicyRefusal: ``unusable-policy``; it is not TOML, or has an unknown key or an invalid
        value.
    """
    table = _load(data, where, PolicyRefusal, code="unusable-policy")
    table.only(
        "version", "plugins", "trusted", "disable-provider", "ignore-static",
        "no-env-override", "bridges", "forbid-trust-all",
    )  # fmt: skip
    _check_version(table)
    rule = table.content.get("plugins", "user")
    if rule not in get_args(PluginRule):
        table.must_be(f"one of {', '.join(get_args(PluginRule))}", rule, "plugins")
    if (bridges := table.content.get("bridges", [])) != []:
        table.must_be("[], which forbids all families", bridges, "bridges")
    return PolicyFile(
        where,
        cast("PluginRule", rule),
        _entries(table),
        _namespaces(table, "disable-provider"),
        _namespaces(table, "ignore-static", wildcard=":all:"),
        no_env_override=table.flag("no-env-override"),
        no_bridges="bridges" in table,
        forbid_trust_all=table.flag("forbid-trust-all"),
        grants_trust=grants_trust,
    )


def format_trust(trust: Trust) -> str:
    """Return the text of ``providers.toml``, from which `read_trust` returns an equal value.

    Bytes that are not text are escaped.
    """
    lines = [*_HEADER, f"version = {FILE_VERSION}"]
    for key, names in (("enable-provider", trust.enabled), ("disable-provider", trust.disabled)):
        if names:
            lines.append(f"{key} = [{', '.join(map(_quoted, sorted(names)))}]")
    for entry in sorted(trust.entries, key=lambda entry: (entry.package, entry.namespace or "")):
        values = {
            "package": entry.package,
            "versions": str(entry.versions) or None,
            "namespace": entry.namespace,
            "plugin-api": entry.plugin_api,
            "source": entry.source or None,
            "added": entry.added or None,
        }
        lines += ["", "[[trusted]]"]
        lines += [f"{key} = {_quoted(value)}" for key, value in values.items() if value is not None]
        lines.append("files = [")
        for file in sorted(entry.files, key=lambda file: file.filename):
            name, digest = _quoted(file.filename), _quoted(file.sha256)
            lines.append(f"    {{ filename = {name}, sha256 = {digest} }},")
        lines.append("]")
    return "\n".join(lines) + "\n"


_HEADER = (
    "# Plugins that wheelfit may install and run, and providers that are switched on or off.",
    "# Written by `wheelfit providers trust`, `untrust`, `enable` and `disable`; shown by",
    "# `wheelfit providers list`. Every file is named with its SHA-256: nothing else is installed",
    "# for a plugin.",
    "",
)


def _quoted(text: str) -> str:
    # A path of wheels may have bytes that are not text.
    text = text.encode("utf-8", "backslashreplace").decode()
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'


def _load(data: bytes, where: str, kind: type[WheelfitError], code: Code | None = None) -> Table:
    """Parse a file; the first fault of its table is raised."""
    try:
        content = strict_toml.load(data, _LIMITS)
    except ValueError as problem:
        raise kind(f"the file is not TOML: {problem}", code=code, where=where) from None
    lines = partial(line_of, data.decode())
    return Table(content, FirstFault(kind, where, lines, hint=f"see {_MANUAL}", code=code))


def _check_version(table: Table) -> None:
    version = table.content.get("version")
    if type(version) is not int or version != FILE_VERSION:
        table.fault(f"must be {FILE_VERSION}", "version")


def _namespaces(table: Table, key: str, wildcard: str | None = None) -> frozenset[str]:
    names = table.strings(key)
    for index, name in enumerate(names):
        if not is_name(name) and name != wildcard:
            table.fault(f"is not a valid namespace: {shown(name)}", key, index)
    return frozenset(names)


def _entries(table: Table) -> tuple[TrustEntry, ...]:
    return tuple(map(_entry, table.tables("trusted")))


def _entry(row: Table) -> TrustEntry:
    row.only("package", "versions", "namespace", "plugin-api", "source", "added", "files")
    name = canonicalize_name(row.required("package"))
    namespace = _text(row, "namespace")
    if namespace is not None and not is_name(namespace):
        row.fault(f"is not a valid namespace: {shown(namespace)}", "namespace")
    plugin_api = _text(row, "plugin-api")
    endpoint = None if plugin_api is None else parse_endpoint(plugin_api)
    if plugin_api is not None and endpoint is None:
        row.fault("must be of the form module:attribute", "plugin-api")
    files = _files(row)
    if not any(file.name == name for file in files):
        row.fault(f"has no wheel of {name}", "files")
    added = row.content.get("added")
    return TrustEntry(
        name,
        _versions(row),
        files,
        namespace,
        endpoint,
        _text(row, "source") or "",
        added.isoformat() if type(added) is date else _text(row, "added") or "",
    )


def _text(row: Table, key: str) -> str | None:
    """Return a string; report an empty one, which would set no limit."""
    return row.required(key) if key in row else None


def _versions(row: Table) -> SpecifierSet:
    try:
        return parse_specifiers(_text(row, "versions") or "")
    except InvalidSpecifier:
        row.fault("is not a version specifier, such as >=1,<2", "versions")
        return SpecifierSet()


def _files(row: Table) -> tuple[TrustedFile, ...]:
    files: dict[str, TrustedFile] = {}
    for file in row.tables("files"):
        file.only("filename", "sha256")
        try:
            parsed = parse_wheel_filename(file.required("filename"))
        except InvalidFilename as error:
            file.fault(f"is not the name of a wheel: {error.message}", "filename")
            continue
        if parsed.label is not None:  # P-33
            file.fault("is a variant wheel; plugins are plain ones", "filename")
        digest = file.required("sha256")
        if not _DIGEST.fullmatch(digest):
            file.must_be("a SHA-256: 64 hexadecimal digits, lower case", digest, "sha256")
        if parsed.text in files:
            file.fault("is listed more than once", "filename")
        files[parsed.text] = TrustedFile(parsed.text, digest)
    return tuple(files.values())
