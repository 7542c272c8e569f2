"""Trust in plugins, and the switches of providers."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.properties import parse_namespace
from wheelfit.core.provider_table import EMULATED_PLUGINS, UNREGISTERED
from wheelfit.core.providers import parse_endpoint
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.core.trust import SitePolicy, Trust, TrustedFile, TrustEntry
from wheelfit.errors import UsageError
from wheelfit.installation.environment import Environment, open_environment
from wheelfit.installation.plugins.environments import environments_with
from wheelfit.installation.plugins.plugin_wheels import resolve_plugin
from wheelfit.operations.indexes import open_indexes, read_settings
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.plugins import plugin_folder
from wheelfit.operations.providers import ProvidersRequest, check_namespaces
from wheelfit.operations.requests import SourceOptions
from wheelfit.operations.trust_store import change_trust, read_policies, read_trust_file, trust_file
from wheelfit.operations.user_folders import home
from wheelfit.sources.urls import redact
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import HashMismatch, PolicyRefusal, ProjectNotFound, UserError
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from wheelfit.operations.context import Context
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.memoized import MemoizedRepository

_HASH = re.compile(r"sha256[:=]([0-9a-fA-F]{64})")


class TrustRequest(ProvidersRequest, SourceOptions):
    """The plugin to trust."""

    names: tuple[str, ...]
    """One requirement."""
    python: str | None = None
    """The interpreter that will run the plugin; default: the one in use."""
    namespace: str | None = None
    plugin_api: str | None = None
    hash: tuple[str, ...] = ()
    keep: bool = False


class UntrustRequest(ProvidersRequest):
    """The plugins not to trust any more."""

    names: tuple[str, ...]
    """Packages."""


class SwitchRequest(ProvidersRequest):
    """The providers to switch on or off."""

    names: tuple[str, ...]
    """Namespaces."""
    on: bool


@dataclass(frozen=True, slots=True)
class PluginWheel:
    """A wheel of a plugin."""

    pin: Pin
    sha256: str
    is_computed: bool
    """Whether the source lists no SHA-256, so that it was computed from the file."""

    @property
    def origin(self) -> str:
        """Its source, without credentials."""
        return redact(self.pin.file.source) or redact(self.pin.file.url)

    def to_json(self) -> dict[str, Any]:
        """Return the object of the wheel in ``--json``."""
        file = self.pin.file
        return {
            **plain_fields(self.pin, "name version", filename=self.pin.filename.text),
            **plain_fields(file, "size source yanked", url=redact(file.url)),
            "sha256": self.sha256,
            "uploaded": file.upload_time,
        }


@dataclass(frozen=True, slots=True)
class TrustPlan:
    """The plugin to trust, and its files."""

    entry: TrustEntry
    wheels: tuple[PluginWheel, ...]


@dataclass(frozen=True, slots=True)
class TrustReport:
    """The plugins trusted now."""

    file: Path
    plan: TrustPlan
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        entry = self.plan.entry
        return plain_report(
            entry,
            "package versions namespace plugin_api",
            action="trust",
            file=self.file,
            files=self.plan.wheels,
            warnings=self.warnings,
        )


@dataclass(frozen=True, slots=True)
class UntrustReport:
    """The plugins that are no longer trusted."""

    file: Path
    packages: tuple[NormalizedName, ...]
    removed: tuple[str, ...]
    """The folders where the plugins were installed."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, "file packages removed", action="untrust")


@dataclass(frozen=True, slots=True)
class SwitchReport:
    """The providers that are switched on and off."""

    file: Path
    on: bool
    """Whether providers were switched on now."""
    namespaces: tuple[str, ...]
    """Those that were switched now."""
    trust: Trust

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "file",
            action="enable" if self.on else "disable",
            enabled=sorted(self.trust.enabled),
            disabled=sorted(self.trust.disabled),
        )


def trust(
    request: TrustRequest, context: Context, consent: Callable[[TrustPlan], None]
) -> TrustReport:
    """Find a plugin, and trust exactly its files, with consent (P-18).

    :param consent: called with the plan before anything is written; raises an error to refuse it.
    :raises PolicyRefusal: a policy forbids it.
    :raises HashMismatch: a file has another hash than the request names.
    """
    requirement = _requirement(request.names)
    namespace = parse_namespace(request.namespace) if request.namespace else None
    plugin_api = _endpoint(request.plugin_api)
    expected = _hashes(request.hash)
    site = read_policies(context.environ)
    policy = site.forbids_plugins
    if policy is not None:
        raise PolicyRefusal(
            "plugins are forbidden by a policy", where=policy, note='it sets plugins = "never"'
        )
    path = trust_file(context.environ, sys.platform, home())
    old = read_trust_file(path, context.reporter.warn)
    environment = open_environment(request.python, environ=context.environ, may_be_own=True)
    settings = read_settings(request, context.environ, prefix=environment.interpreter.prefix)
    with open_indexes(request, settings, context) as repository:
        wheels = _find_wheels(requirement, repository, environment)
        _check_hashes(wheels, expected)
        entry = TrustEntry(
            requirement.name,
            requirement.specifier,
            tuple(TrustedFile(wheel.pin.filename.text, wheel.sha256) for wheel in wheels),
            namespace,
            plugin_api,
            source=", ".join(dict.fromkeys(redact(wheel.pin.file.source) for wheel in wheels)),
            added=datetime.now(UTC).date().isoformat(),
        )
        _check_policy(entry, site)
        warnings = (*_warnings(requirement, wheels), *_losses(old, entry, keep=request.keep))
        for warning in warnings:
            context.reporter.warn(warning)
        plan = TrustPlan(entry, tuple(wheels))
        consent(plan)
        new = change_trust(path, lambda old: _with_entry(old, entry, keep=request.keep))
        _remove_unused(old, new, plugin_folder(request, context.environ))
    return TrustReport(path, plan, warnings)


def untrust(request: UntrustRequest, context: Context) -> UntrustReport:
    """Revoke trust, and remove the installed plugins.

    :raises UserError: ``not-installed``; one of them is not trusted, and nothing is changed.
    """
    path = trust_file(context.environ, sys.platform, home())
    names = tuple(canonicalize_name(name) for name in request.names)
    before = read_trust_file(path, context.reporter.warn)
    for name in names:
        if not before.of(name):
            trusted = ", ".join(sorted({entry.package for entry in before.entries}))
            raise UserError(
                f"{name} is not trusted",
                code="not-installed",
                where=str(path),
                note=trusted and f"trusted: {trusted}",
            )
    after = change_trust(
        path,
        lambda old: replace(
            old, entries=tuple(entry for entry in old.entries if entry.package not in names)
        ),
    )
    removed = _remove_unused(before, after, plugin_folder(request, context.environ))
    return UntrustReport(path, names, tuple(removed))


def _remove_unused(before: Trust, after: Trust, folder: Path) -> list[str]:
    """Remove the environments with files that are not trusted any more, and return them."""
    removed_digests = _digests(before) - _digests(after)
    removed = []
    for environment in environments_with(folder, removed_digests):
        shutil.rmtree(environment, ignore_errors=True)
        if not environment.exists():
            removed.append(str(environment))
    return removed


def _digests(trust: Trust) -> set[str]:
    return {file.sha256 for entry in trust.entries for file in entry.files}


def switch_providers(request: SwitchRequest, context: Context) -> SwitchReport:
    """Switch providers on or off permanently (P-10).

    :raises PolicyRefusal: a policy switches one of them off.
    :raises UserError: a provider to switch on is unknown.
    """
    names = frozenset(parse_namespace(name) for name in request.names)
    policy = read_policies(context.environ)
    if request.on:
        _check_enabled(names, policy)
        check_namespaces(sorted(names), request, context)
    path = trust_file(context.environ, sys.platform, home())
    after = change_trust(
        path,
        lambda old: replace(
            old,
            enabled=old.enabled | names if request.on else old.enabled - names,
            disabled=old.disabled - names if request.on else old.disabled | names,
        ),
    )
    for name in sorted(names):
        if request.on and name in request.disable_provider:
            context.reporter.warn(f"{name} stays off: disable-provider of wheelfit.toml names it")
    return SwitchReport(path, request.on, tuple(sorted(names)), after)


# --- reading the request ------------------------------------------------------------


def _requirement(names: Sequence[str]) -> Requirement:
    if len(names) > 1:
        raise UsageError("trust takes one requirement", hint="quote it: 'acme-provider>=1,<2'")
    requirement = parse_requirement(names[0], allow_variant_markers=False)
    if requirement.extras or requirement.url is not None or requirement.marker is not None:
        raise UserError(
            "a plugin is trusted by its name and versions, without extras, URL and marker",
            where=redact(names[0]),
        )
    return requirement


def _endpoint(text: str | None) -> str | None:
    if text is None:
        return None
    endpoint = parse_endpoint(text)
    if endpoint is None:
        raise UserError("a plugin-api has the form module:attribute", where=text[:80])
    return endpoint


def _hashes(texts: Sequence[str]) -> frozenset[str]:
    hashes = set()
    for text in texts:
        match = _HASH.fullmatch(text)
        if match is None:
            raise UsageError(f"{text[:80]!r} is not sha256:DIGEST with 64 hexadecimal digits")
        hashes.add(match[1].lower())
    return frozenset(hashes)


# --- looking it up ------------------------------------------------------------------


def _find_wheels(
    requirement: Requirement, repository: MemoizedRepository, environment: Environment
) -> list[PluginWheel]:
    try:
        pins = resolve_plugin([requirement], repository, environment.target)
    except ProjectNotFound as error:
        warning = (
            "some plugins that packages name were never published, and anybody could take "
            "their names (P-19)"
        )
        error.note = f"{error.note}\n{warning}" if error.note else warning
        raise
    wheels = []
    with tempfile.TemporaryDirectory(prefix="wheelfit-") as folder:
        for pin in pins:
            listed_digest = pin.file.hashes.get("sha256")
            digest = listed_digest or sha256_of_file(repository.download(pin.file, Path(folder)))
            wheels.append(PluginWheel(pin, digest, is_computed=listed_digest is None))
    return sorted(wheels, key=lambda wheel: (wheel.pin.name != requirement.name, wheel.pin.name))


def _check_hashes(wheels: Sequence[PluginWheel], expected: frozenset[str]) -> None:
    for wheel in wheels:
        if expected and wheel.sha256 not in expected:
            raise HashMismatch(
                algorithm="sha256",
                expected=sorted(expected),
                actual=wheel.sha256,
                where=redact(wheel.pin.file.url),
            )


def _check_enabled(namespaces: AbstractSet[str], policy: SitePolicy) -> None:
    """Raise on a namespace that a policy switches off."""
    for name in sorted(namespaces & policy.disabled.keys()):
        raise PolicyRefusal(
            f"{name} is switched off by a policy",
            where=policy.disabled[name],
            note="it is in its disable-provider",
        )


def _check_policy(entry: TrustEntry, site: SitePolicy) -> None:
    """Raise on a plugin that a policy forbids."""
    if entry.namespace is not None:
        _check_enabled({entry.namespace}, site)
    for policy in site.allow_lists:
        listed_files = {
            (file.filename, file.sha256)
            for listed_entry in policy.entries
            if listed_entry.package == entry.package
            for file in listed_entry.usable_files()
        }
        for file in entry.files:
            if (file.filename, file.sha256) not in listed_files:
                raise PolicyRefusal(
                    f"{file.filename} is not in the list of the policy",
                    where=policy.where,
                    note=f'it sets plugins = "listed"; the file has SHA-256 {file.sha256}',
                )


def _warnings(requirement: Requirement, wheels: Sequence[PluginWheel]) -> list[str]:
    """Return warnings to consider before a plugin is trusted."""
    warnings = []
    if requirement.name in UNREGISTERED:  # P-19
        warnings.append(
            f"{requirement.name} was not registered on PyPI in November 2026; its publisher "
            "there may not be the one that the name suggests"
        )
    emulated = {row.namespace for row in EMULATED_PLUGINS if row.package == requirement.name}
    if emulated:
        warnings.append(
            f"wheelfit emulates {requirement.name} for {listed(sorted(emulated))}, so the plugin "
            "is run only for versions that it does not emulate (P-13)"
        )
    for wheel in wheels:
        if wheel.pin.file.yanked is not None:
            why = f": {wheel.pin.file.yanked}" if wheel.pin.file.yanked else ""
            warnings.append(f"{wheel.pin.filename.text} was yanked by its publisher{why}")
        if wheel.is_computed and not wheel.pin.file.is_local:
            warnings.append(
                f"{wheel.pin.file.source} lists no SHA-256 of {wheel.pin.filename.text}; the hash "
                "is that of the downloaded file"
            )
    return warnings


def _losses(old: Trust, entry: TrustEntry, *, keep: bool) -> list[str]:
    """Return a warning of files that would not be trusted any more."""
    if keep:
        return []
    replaced_files = {file for former in _former_entries(old, entry) for file in former.files}
    removed = replaced_files - set(entry.files)
    names = ", ".join(sorted(file.filename for file in removed))
    return (
        [f"these files will not be trusted any more: {names} (--keep keeps them)"] if names else []
    )


def _former_entries(old: Trust, entry: TrustEntry) -> list[TrustEntry]:
    """Return the entries that a new one replaces."""
    return [former for former in old.of(entry.package) if former.namespace == entry.namespace]


def _with_entry(old: Trust, entry: TrustEntry, *, keep: bool) -> Trust:
    former_entries = _former_entries(old, entry)
    others = tuple(other for other in old.entries if other not in former_entries)
    if keep:
        files = {file.filename: file for former in former_entries for file in former.files}
        files |= {file.filename: file for file in entry.files}
        entry = replace(entry, files=tuple(files.values()))
    return replace(old, entries=(*others, entry))
