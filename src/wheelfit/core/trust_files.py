"""What is trusted and what is allowed, as TOML: ``providers.toml`` and ``policy.toml``.

Both are read strictly: a key that is none is an error, never a note. Whoever mistypes a
limit must not go on without it.
"""

from __future__ import annotations

import re
from datetime import date
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn, cast, get_args

from packaging.specifiers import InvalidSpecifier
from packaging.utils import canonicalize_name

from wheelfit.core import strict_toml
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.properties import is_name
from wheelfit.core.providers import parse_endpoint
from wheelfit.core.toml_lines import line_of
from wheelfit.core.trust import PluginRule, PolicyFile, Trust, TrustedFile, TrustEntry
from wheelfit.core.versions import parse_specifiers
from wheelfit.errors import InvalidConfiguration, InvalidFilename, UnusablePolicy, WheelfitError
from wheelfit.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.specifiers import SpecifierSet

__all__ = ["FILE_VERSION", "format_trust", "read_policy", "read_trust"]


def __dir__() -> list[str]:
    return __all__


FILE_VERSION = 1
"""Version of either format."""
_LIMITS = strict_toml.Limits(size=4 << 20)

_MANUAL = "docs/reference/trust.md"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ENTRY = ("package", "versions", "namespace", "plugin-api", "source", "added", "files")


def read_trust(data: bytes, where: str) -> Trust:
    """Read ``providers.toml``.

    :param data: content of the file; an empty one trusts nothing.
    :param where: its path, for errors.
    :raises InvalidConfiguration: it is not TOML, or has a key or value that it cannot have.
    """
    reader = _Reader(where, InvalidConfiguration, data)
    table = reader.load()
    if not table:
        return Trust()
    reader.only(table, "", ("version", "trusted", "enable-provider", "disable-provider"))
    reader.version(table)
    entries = reader.entries(table)
    keys = [(entry.package, entry.namespace) for entry in entries]
    for name, namespace in keys:
        if keys.count((name, namespace)) > 1:
            what = f"{name} for {namespace}" if namespace else name
            reader.refuse("trusted", f"has {what} more than once")
    return Trust(
        entries,
        reader.namespaces(table, "enable-provider"),
        reader.namespaces(table, "disable-provider"),
    )


def read_policy(data: bytes, where: str, *, grants: bool) -> PolicyFile:
    """Read a policy.

    :param data: content of the file.
    :param where: its path, for messages.
    :param grants: whether its list is trusted without the user.
    :raises UnusablePolicy: it is not TOML, or has a key or value that it cannot have.
    """
    reader = _Reader(where, UnusablePolicy, data)
    table = reader.load()
    known = (
        "version", "plugins", "trusted", "disable-provider", "ignore-static",
        "no-env-override", "forbid-trust-all",
    )  # fmt: skip
    reader.only(table, "", known)
    reader.version(table)
    rule = table.get("plugins", "user")
    if rule not in get_args(PluginRule):
        reader.refuse("plugins", f"is none of {', '.join(get_args(PluginRule))}")
    return PolicyFile(
        where,
        cast(PluginRule, rule),
        reader.entries(table),
        reader.namespaces(table, "disable-provider"),
        reader.namespaces(table, "ignore-static", wild=":all:"),
        no_env_override=reader.flag(table, "no-env-override"),
        forbid_trust_all=reader.flag(table, "forbid-trust-all"),
        grants=grants,
    )


def format_trust(trust: Trust) -> str:
    """Return the text of ``providers.toml``; reading it gives an equal value.

    Of what is no Unicode text a readable form stays.

    :param trust: what to write.
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
    "# Written by `wheelfit providers trust|untrust|enable|disable`; wheelfit providers list shows",
    "# it. Every file is named with its SHA-256: nothing else is installed for a plugin.",
    "",
)


def _quoted(text: str) -> str:
    # The path of a folder with wheels may have bytes that are no text.
    text = text.encode("utf-8", "backslashreplace").decode()
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda sign: f"\\u{ord(sign[0]):04x}", escaped) + '"'


@dataclass(frozen=True, slots=True)
class _Reader:
    """Check key after key; every error names the file and the key."""

    where: str
    error: type[WheelfitError]
    data: bytes

    def refuse(self, key: str, what: str, *, hint: str | None = None) -> NoReturn:
        line = line_of(self.data.decode("utf-8", "replace"), key)
        where = self.where if line is None else f"{self.where}, line {line}"
        raise self.error(f"{key[:80]} {what}", where=where, hint=hint)

    def load(self) -> dict[str, Any]:
        try:
            return strict_toml.load(self.data, _LIMITS)
        except ValueError as error:
            raise self.error(f"the file is not TOML: {error}", where=self.where) from None

    def only(self, table: Mapping[str, Any], path: str, known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                close = get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"see {_MANUAL}"
                self.refuse(f"{path}{key}", "is no key", hint=hint)

    def version(self, table: Mapping[str, Any]) -> None:
        found = table.get("version")
        if type(found) is not int or found != FILE_VERSION:
            self.refuse("version", f"must be {FILE_VERSION}", hint=f"see {_MANUAL}")

    def flag(self, table: Mapping[str, Any], key: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            self.refuse(key, "is neither true nor false")
        return value

    def namespaces(self, table: Mapping[str, Any], key: str, wild: str = "") -> frozenset[str]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self.refuse(key, "is no list of texts")
        for name in value:
            if not is_name(name) and name != (wild or None):
                self.refuse(key, f"has {name[:80]!r}, which is no namespace")
        return frozenset(value)

    def entries(self, table: Mapping[str, Any]) -> tuple[TrustEntry, ...]:
        rows = table.get("trusted", [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            self.refuse("trusted", "is no list of tables; write [[trusted]]")
        return tuple(self.entry(row, f"trusted[{index}].") for index, row in enumerate(rows))

    def entry(self, row: Mapping[str, Any], path: str) -> TrustEntry:
        self.only(row, path, _ENTRY)
        package = self.text(row, path, "package")
        if package is None:
            self.refuse(f"{path}package", "is missing")
        namespace = self.text(row, path, "namespace")
        if namespace is not None and not is_name(namespace):
            self.refuse(f"{path}namespace", "is no namespace")
        plugin_api = self.text(row, path, "plugin-api")
        if plugin_api is not None and parse_endpoint(plugin_api) is None:
            self.refuse(f"{path}plugin-api", "is not of the form module:attribute")
        name = canonicalize_name(package)
        files = self.files(row, path)
        if not any(file.name == name for file in files):
            self.refuse(f"{path}files", f"has no wheel of {name}")
        return TrustEntry(
            name,
            self.versions(row, path),
            files,
            namespace,
            None if plugin_api is None else parse_endpoint(plugin_api),
            self.text(row, path, "source") or "",
            self.text(row, path, "added") or "",
        )

    def text(self, row: Mapping[str, Any], path: str, key: str) -> str | None:
        value = row.get(key)
        if type(value) is date and key == "added":
            return value.isoformat()
        if value is not None and (not isinstance(value, str) or not value):
            self.refuse(f"{path}{key}", "is no text")
        return value

    def versions(self, row: Mapping[str, Any], path: str) -> SpecifierSet:
        try:
            return parse_specifiers(self.text(row, path, "versions") or "")
        except InvalidSpecifier:
            self.refuse(f"{path}versions", "is no version specifier, as >=1,<2")

    def files(self, row: Mapping[str, Any], path: str) -> tuple[TrustedFile, ...]:
        value = row.get("files")
        if not isinstance(value, list) or not value:
            self.refuse(f"{path}files", "must list the wheels, each with filename and sha256")
        found: dict[str, TrustedFile] = {}
        for index, item in enumerate(value):
            place = f"{path}files[{index}]"
            if not isinstance(item, dict):
                self.refuse(place, "is no table with filename and sha256")
            self.only(item, f"{place}.", ("filename", "sha256"))
            name, digest = item.get("filename"), item.get("sha256")
            try:
                parsed = parse_wheel_filename(name if isinstance(name, str) else "")
            except InvalidFilename:
                self.refuse(f"{place}.filename", "is not the name of a wheel")
            if parsed.label is not None:  # P-33
                self.refuse(f"{place}.filename", "is a variant wheel; plugins are plain ones")
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                self.refuse(f"{place}.sha256", "is no SHA-256: 64 hexadecimal digits, lower case")
            if parsed.text in found:
                self.refuse(f"{place}.filename", "is there more than once")
            found[parsed.text] = TrustedFile(parsed.text, digest)
        return tuple(found.values())
