"""Parsing of host files from TOML, and the mapping for writing them (P-44).

A fault is an error with its place in the file. An unknown key is ignored with a note, unless it
looks like a misspelled known key, which is an error.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from packaging.tags import Tag
from packaging.version import InvalidVersion

from wheelfit.core import strict_toml
from wheelfit.core.compatible_tags import linux_platforms, macos_platforms, platform_values
from wheelfit.core.host_file import FILE_VERSION, HostFile, HostInterpreter, HostProvider
from wheelfit.core.marker_grammar import SET_VARIABLES, VARIABLES, VARIANT_VARIABLES
from wheelfit.core.properties import is_name, is_value
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.table_reader import FirstFault, Table
from wheelfit.core.toml_lines import line_of
from wheelfit.core.versions import parse_version
from wheelfit.errors import InvalidRequirement
from wheelfit_runtime.errors import Fault, UserError
from wheelfit_runtime.platforms.features import DeviceValues, Evidence, FeatureConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self


def parse_host_file(data: bytes, where: str) -> HostFile:
    """Parse the bytes of a host file.

    :raises UserError: ``invalid-host-file``; it is too large, is not TOML, or is not valid for a
        host file.
    """
    try:
        table = strict_toml.load(data)
    except ValueError as error:
        raise UserError(
            f"the host file is not TOML: {error}",
            code="invalid-host-file",
            where=where,
            hint="`wheelfit probe -o FILE` writes a host file",
        ) from None
    return read_host_file(table, where, lambda path: line_of(data.decode("utf-8"), path))


def read_host_file(
    mapping: Mapping[str, Any], where: str, line_of: Callable[[str], int | None] | None = None
) -> HostFile:
    """Return the host file of a mapping.

    :param line_of: returns the line of a path in the file; None: the lines are unknown.
    :raises UserError: ``invalid-host-file``; the format has another version, a key is missing or
        misspelled, or a value is not valid.
    """
    report = _Report(where, line_of)
    root = _Table(mapping, report)
    metadata = root.optional("metadata")
    if metadata is None:
        root.only(*_ROOT_KEYS)  # a misspelled key is the better error
        root.fail("metadata", "is missing", hint=f'write [metadata] version = "{FILE_VERSION}"')
    version = _file_version(metadata)
    root.only(*_ROOT_KEYS)  # only now, as a newer version may have more keys
    metadata.only("version", "created-by", "origin", "overrides")
    platform = root.optional("platform")
    interpreter = root.optional("interpreter")
    environment = root.optional("environment")
    file = HostFile(
        providers=tuple(_provider(item) for item in root.tables("provider")),
        created_by=metadata.string("created-by") or "",
        version=version,
        origin=metadata.string("origin") or "",
        overrides=metadata.distinct_strings("overrides"),
        interpreter=None if interpreter is None else _interpreter(interpreter),
        platforms=() if platform is None else _platforms(platform),
        environment={} if environment is None else _environment(environment),
    )
    if file.platforms and not platform_values(file.platforms[0]) and not file.environment:
        report.notes.append(
            f"the marker values of platform {file.platforms[0]} are unknown; "
            "those of the current platform are used, unless [environment] has others"
        )
    report.notes += _notes_on_uv_file(file, root)
    return replace(file, notes=tuple(report.notes))


_ROOT_KEYS: Final = ("metadata", "provider", "interpreter", "platform", "environment")


def _notes_on_uv_file(file: HostFile, root: _Table) -> Iterator[str]:
    """Yield notes on assumptions about a file that uv has written, which has fewer keys."""
    if not file.created_by.lower().startswith("uv"):
        return
    if file.interpreter is None and not file.platforms:
        yield (
            f"written by {file.created_by}: it has no interpreter and platform, "
            "so the current ones are used"
        )
    for provider, table in zip(file.providers, root.tables("provider"), strict=True):
        if len(provider.features) > 1 and "feature-order" not in table.content:
            yield (
                f"written by {file.created_by}: no order of the features of "
                f"{provider.namespace}, so that of the file is used"
            )


def to_mapping(file: HostFile) -> dict[str, Any]:
    """Return a mapping for TOML, from which `read_host_file` returns an equal host file."""
    metadata = {
        "created-by": file.created_by,
        "version": file.version,
        "origin": file.origin,
        "overrides": list(file.overrides),
    }
    return _without_empty(
        {
            "metadata": _without_empty(metadata),
            "interpreter": _interpreter_mapping(file.interpreter) if file.interpreter else None,
            "platform": _platform_mapping(file.platforms) if file.platforms else None,
            "environment": dict(file.environment),
            "provider": [_provider_mapping(provider) for provider in file.providers],
        }
    )


def _without_empty(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if value}


class _Report(FirstFault):
    """A reporter that raises the first fault of a host file, and collects notes."""

    def __init__(self, where: str, line_of: Callable[[str], int | None] | None) -> None:
        super().__init__(UserError, where, line_of, code="invalid-host-file")
        self.is_newer = False
        """Whether the format is newer, so that unknown keys may be valid."""
        self.notes: list[str] = []


class _Table(Table):
    __slots__ = ()
    report: _Report

    def fail(self, key: str, message: str, *, hint: str | None = None) -> NoReturn:
        """Raise the error for a key, as `fault` does; this one is typed as never returning."""
        self.report(Fault(self.path(key), message), hint)

    def only(self, *known: str) -> None:
        """Note unknown keys; raise an error for misspelled ones."""
        for key, close in self.unknown(known, cutoff=0.75):
            if close and not self.report.is_newer:
                self.fail(key, "is an unknown key", hint=f'did you mean "{close}"?')
            self.report.notes.append(f"unknown key {self.path(key)} is ignored")

    def optional(self, key: str) -> Self | None:
        """Return a table, or None without it."""
        return None if self.content.get(key) is None else self.table(key)

    def distinct_strings(self, key: str) -> tuple[str, ...]:
        """Return a list of distinct strings."""
        items = self.strings(key)
        if len(set(items)) != len(items):
            repeated = next(item for item in items if items.count(item) > 1)
            self.fail(key, f"lists {repeated!r} twice")
        return items


def _file_version(metadata: _Table) -> str:
    """Return the version of the format; a newer one with the same major number only adds keys."""
    version = metadata.required("version")
    if version != FILE_VERSION:
        known_numbers = FILE_VERSION.split(".")
        match = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", version)
        if match is None or match[1] != known_numbers[0] or int(match[2]) < int(known_numbers[1]):
            metadata.fail(
                "version",
                f"is {version!r}, and only {FILE_VERSION!r} is known",
                hint="it is the version of the file format; upgrade wheelfit, "
                "or write the file again with probe -o",
            )
        metadata.report.is_newer = True
        metadata.report.notes.append(
            f"version {version} of the format is newer than {FILE_VERSION}; "
            "unknown keys are ignored"
        )
    return version


def _provider(table: _Table) -> HostProvider:
    table.only(
        "namespace", "plugin-api", "resolved", "feature-order", "properties", "multi-value",
        "evidence", "devices", "version", "warnings",
    )  # fmt: skip
    namespace = table.required("namespace")
    if not is_name(namespace):
        table.fail("namespace", f"is not a valid namespace: {namespace!r}", hint=_NAME_HINT)
    resolved = table.distinct_strings("resolved")
    for index, text in enumerate(resolved):
        try:
            parse_requirement(text, allow_variant_markers=False)
        except InvalidRequirement as error:
            table.fault(f"is not a requirement: {error.message}", "resolved", index)
    return HostProvider(
        namespace,
        features=_features(table),
        plugin_api=table.string("plugin-api"),
        resolved=resolved,
        evidence=tuple(_evidence(item) for item in table.tables("evidence")),
        devices=tuple(_device(item) for item in table.tables("devices")),
        version=table.string("version") or "",
        warnings=table.distinct_strings("warnings"),
    )


_NAME_HINT: Final = "use lower-case ASCII letters, digits and '_' only (F-2)"
_VALUE_HINT: Final = "use lower-case ASCII letters, digits, '_' and '.' only (F-2)"


def _features(table: _Table) -> tuple[FeatureConfig, ...]:
    properties = table.optional("properties")
    if properties is None:
        table.fail(
            "properties", "is missing", hint="an empty table means that nothing is supported"
        )
    names = list(properties.content)
    order = table.distinct_strings("feature-order")
    multi_value = table.distinct_strings("multi-value")
    for key, listed_names in (("feature-order", order), ("multi-value", multi_value)):
        if unknown := next((name for name in listed_names if name not in names), None):
            table.fail(key, f"names {unknown!r}, which is not in properties")
    return tuple(
        FeatureConfig(name, _feature_values(properties, name), multi_value=name in multi_value)
        for name in dict.fromkeys([*order, *names])
    )


def _feature_values(properties: _Table, name: str) -> tuple[str, ...]:
    if not is_name(name):
        properties.fail(name, "is not a valid feature", hint=_NAME_HINT)
    values = properties.distinct_strings(name)
    if wrong := next((value for value in values if not is_value(value)), None):
        properties.fail(name, f"lists {wrong!r}, which is not a valid value", hint=_VALUE_HINT)
    return values


def _evidence(table: _Table) -> Evidence:
    table.only("source", "value")
    return Evidence(table.required("source"), table.string("value") or "")


def _device(table: _Table) -> DeviceValues:
    table.only("feature", "device", "values")
    return DeviceValues(
        table.required("feature"),
        table.required("device"),
        frozenset(table.distinct_strings("values")),
    )


def _interpreter(table: _Table) -> HostInterpreter:
    table.only("implementation", "version", "abi", "tags")
    text = table.required("version")
    try:
        version = parse_version(text)
    except InvalidVersion:
        table.fail("version", f"is not a version of Python: {text!r}", hint="write 3.13.1")
    if len(version.release) < 2:
        table.fail(
            "version", f"must have at least major and minor numbers: {text!r}", hint="write 3.13"
        )
    # One ABI is usual, and people write it as a string.
    one_abi = isinstance(table.content.get("abi"), str)
    return HostInterpreter(
        version,
        table.string("implementation") or "cpython",
        abis=(table.required("abi"),) if one_abi else table.distinct_strings("abi"),
        tags=tuple(_tag(table, text) for text in table.distinct_strings("tags")),
    )


def _tag(table: _Table, text: str) -> Tag:
    parts = text.split("-")
    if len(parts) != 3 or not all(parts):
        table.fail("tags", f"lists {text!r}, which is not a tag", hint="write py3-none-any")
    return Tag(*parts)


_LIBC_VERSION: Final = {"glibc": re.compile(r"2\.(\d{1,3})"), "musl": re.compile(r"1\.(\d{1,3})")}
_MACOS_VERSION: Final = re.compile(r"(10|1[1-9]|[2-9]\d)\.(\d{1,2})")


def _platforms(table: _Table) -> tuple[str, ...]:
    table.only("tags", "machine", "glibc", "musl", "macos")
    machine = table.string("machine")
    if machine is None:
        for key in (*_LIBC_VERSION, "macos"):
            if key in table.content:
                table.fail("machine", f"is missing; {key} alone is not enough")
        tags = table.distinct_strings("tags")
        if not tags:
            table.fail("tags", "is missing", hint='or write machine = "x86_64", glibc = "2.39"')
        return tags
    if "tags" in table.content:
        table.fail("tags", "and machine cannot be given together")
    if (macos := table.string("macos")) is not None:
        for key in _LIBC_VERSION:
            if key in table.content:
                table.fail(key, "and macos cannot be given together")
        match = _MACOS_VERSION.fullmatch(macos)
        if match is None:
            table.fail("macos", f"is not a version of macOS: {macos!r}", hint="write 14.0")
        return macos_platforms(machine, int(match[1]), int(match[2]))
    minors: dict[str, int] = {}
    for key, pattern in _LIBC_VERSION.items():
        text = table.string(key)
        if text is not None:
            match = pattern.fullmatch(text)
            if match is None:
                table.fail(key, f"is not a version of {key}: {text!r}", hint="write 2.39 or 1.2")
            minors[key] = int(match[1])
    return linux_platforms(machine, **minors)


def _environment(table: _Table) -> dict[str, str]:
    known = VARIABLES - SET_VARIABLES - VARIANT_VARIABLES - {"extra"}
    for name, near in table.unknown(known):
        hint = f"did you mean {near}?" if near else None
        table.fail(name, "is not a marker variable of an environment", hint=hint)
    return {name: table.string(name) or "" for name in table.content}


def _interpreter_mapping(interpreter: HostInterpreter) -> dict[str, Any]:
    return _without_empty(
        {
            "implementation": interpreter.implementation,
            "version": str(interpreter.version),
            "abi": list(interpreter.abis),
            "tags": [str(tag) for tag in interpreter.tags],
        }
    )


# The first two tags, joined by a space.
_LINUX_TAGS = re.compile(
    r"linux_(?P<machine>\S+) (?:many|musl)linux_[12]_(?P<minor>\d+)_(?P=machine)"
)

_MACOS_TAG = re.compile(r"macosx_(?P<major>\d{2})_(?P<minor>\d{1,2})_(?P<machine>\S+)")


def _platform_mapping(platforms: tuple[str, ...]) -> dict[str, Any]:
    """Return the machine and a version if they are equivalent to the tags, else the tags."""
    if match := _LINUX_TAGS.fullmatch(" ".join(platforms[:2])):
        machine, minor = match["machine"], int(match["minor"])
        if platforms == linux_platforms(machine, glibc=minor):
            return {"machine": machine, "glibc": f"2.{minor}"}
        if platforms == linux_platforms(machine, musl=minor):
            return {"machine": machine, "musl": f"1.{minor}"}
    if match := _MACOS_TAG.fullmatch(platforms[0]):
        machine = match["machine"]
        if platforms == macos_platforms(machine, int(match["major"]), int(match["minor"])):
            return {"machine": machine, "macos": f"{match['major']}.{match['minor']}"}
    return {"tags": list(platforms)}


def _provider_mapping(provider: HostProvider) -> dict[str, Any]:
    names = [feature.name for feature in provider.features]
    listed = _without_empty(
        {
            "version": provider.version,
            "plugin-api": provider.plugin_api,
            "resolved": list(provider.resolved),
            "feature-order": names if len(names) > 1 else None,
            "multi-value": [feature.name for feature in provider.features if feature.multi_value],
        }
    )
    observed = _without_empty(
        {
            "warnings": list(provider.warnings),
            "evidence": [
                {"source": item.source, "value": item.value} for item in provider.evidence
            ],
            "devices": [
                {"feature": item.feature, "device": item.device, "values": sorted(item.values)}
                for item in provider.devices
            ],
        }
    )
    # An empty table means that nothing is supported.
    properties = {feature.name: list(feature.values) for feature in provider.features}
    return {"namespace": provider.namespace, **listed, "properties": properties, **observed}
