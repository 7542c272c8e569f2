"""Trust a plugin, take that back, and switch providers on and off."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from wheelfit.cli.render.detections import shortened
from wheelfit.core.properties import parse_namespace
from wheelfit.core.provider_table import EMULATED_PLUGINS, UNREGISTERED
from wheelfit.core.providers import PluginQuestion, default_endpoint, parse_endpoint
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.core.trust import PluginRules, TrustedFile, TrustEntry
from wheelfit.errors import (
    HashMismatch,
    NoConsent,
    NotInstalled,
    PolicyRefusal,
    ProjectNotFound,
    UsageError,
    UserError,
)
from wheelfit.install.environment import open_environment
from wheelfit.install.plugins.environments import digest_of, environments_holding
from wheelfit.install.plugins.listed import plugin_entry_points
from wheelfit.install.plugins.tree import resolve_plugin
from wheelfit.operations.indexes import open_indexes, read_settings
from wheelfit.operations.plugins import OnDemandPlugins, plugin_folder
from wheelfit.operations.trust_store import change_trust, read_policies, read_trust_file, trust_file
from wheelfit.operations.user_folders import home
from wheelfit.sources.urls import redact
from wheelfit.wheels.archive import WheelArchive

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.core.trust import SitePolicy, Trust
    from wheelfit.install.environment import Environment
    from wheelfit.resolve.resolution import Pin
    from wheelfit.sources.remembered import Remembered

_HASH = re.compile(r"sha256[:=]([0-9a-fA-F]{64})")


@dataclass(frozen=True, slots=True)
class _Found:
    """Hold one wheel that would be trusted."""

    pin: Pin
    sha256: str
    is_computed: bool
    """Whether the source promised no SHA-256, so that the file was fetched to get it."""

    def to_mapping(self) -> dict[str, Any]:
        file = self.pin.file
        return {
            "name": self.pin.name,
            "version": str(self.pin.version),
            "filename": self.pin.filename.text,
            "sha256": self.sha256,
            "size": file.size,
            "source": file.source,
            "url": redact(file.url),
            "uploaded": file.upload_time,
            "yanked": file.yanked,
        }


def trust(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Look up a plugin, show what it consists of, and trust exactly that, with consent (P-18).

    :param arguments: of ``wheelfit providers``.
    :param output: where to show it.
    :param environ: the environment of the process.
    """
    requirement = _requirement(arguments.names)
    namespace = parse_namespace(arguments.namespace) if arguments.namespace else None
    plugin_api = _endpoint(arguments.plugin_api)
    wanted = _hashes(arguments.hash)
    site = read_policies(environ)
    never = site.forbids_plugins
    if never is not None:
        raise PolicyRefusal(
            "plugins are forbidden by a policy", where=never, note='it says plugins = "never"'
        )
    path = trust_file(environ, sys.platform, home())
    before = read_trust_file(path, output.warn)
    environment = open_environment(arguments.python, environ=environ)
    settings = read_settings(arguments, environ, prefix=environment.interpreter.prefix)
    with open_indexes(arguments, settings, environ, output) as repository:
        found = _look_up(requirement, repository, environment)
        _check_hashes(found, wanted)
        entry = TrustEntry(
            requirement.name,
            requirement.specifier,
            tuple(TrustedFile(one.pin.filename.text, one.sha256) for one in found),
            namespace,
            plugin_api,
            source=_source(found),
            added=datetime.now(UTC).date().isoformat(),
        )
        _check_lists(entry, site)
        warnings = [*_doubts(requirement, found), *_loss(before, entry, keep=arguments.keep)]
        plan = _plan(entry, found)
        for warning in warnings:
            output.warn(warning)
        if not arguments.yes:
            _ask_consent(plan, entry, output)
        after = change_trust(path, lambda old: _with(old, entry, keep=arguments.keep))
        _remove_unused(before, after, plugin_folder(arguments, environ))
        answer = None
        if arguments.attempt:
            rules = PluginRules(after, site)
            endpoint = _entry_point(found[0].pin, repository)
            answer = _try(
                arguments, output, environ, rules, environment, repository, entry, endpoint
            )
    output.result_json(
        {
            "version": 1,
            "action": "trust",
            "file": str(path),
            "package": entry.package,
            "versions": str(entry.versions),
            "namespace": entry.namespace,
            "plugin_api": entry.plugin_api,
            "files": [one.to_mapping() for one in found],
            "warnings": warnings,
            "answer": answer,
        }
    )
    if arguments.yes:
        for line in plan:
            output.result(line)
    output.result(f"trusted: {entry.package}{entry.versions}; written to {path}")
    if answer is not None:
        _print_answer(answer, output)
    return 0


def untrust(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Take trust back, and remove where the plugins were installed.

    :param arguments: of ``wheelfit providers``.
    :param output: where to say it.
    :param environ: the environment of the process.
    """
    path = trust_file(environ, sys.platform, home())
    names = [canonicalize_name(name) for name in arguments.names]
    before = read_trust_file(path, output.warn)
    for name in names:
        if not before.of(name):
            trusted = ", ".join(sorted({entry.package for entry in before.entries}))
            raise NotInstalled(
                f"{name} is not trusted", where=str(path), note=trusted and f"trusted: {trusted}"
            )
    after = change_trust(
        path,
        lambda old: replace(
            old, entries=tuple(entry for entry in old.entries if entry.package not in names)
        ),
    )
    removed = _remove_unused(before, after, plugin_folder(arguments, environ))
    output.result_json(
        {
            "version": 1,
            "action": "untrust",
            "file": str(path),
            "packages": names,
            "removed": removed,
        }
    )
    output.result(f"not trusted any more: {', '.join(names)}")
    for folder_name in removed:
        output.say(f"removed {folder_name}", "dim")
    return 0


def _remove_unused(before: Trust, after: Trust, folder: Path) -> list[str]:
    """Remove the environments with files that are not trusted any more, and return which."""
    gone = _digests(before) - _digests(after)
    removed = []
    for place in environments_holding(folder, gone):
        shutil.rmtree(place, ignore_errors=True)
        if not place.exists():
            removed.append(str(place))
    return removed


def _digests(trust: Trust) -> set[str]:
    return {file.sha256 for entry in trust.entries for file in entry.files}


def switch(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Switch providers on or off for good (P-10).

    :param arguments: of ``wheelfit providers``; ``enable`` or ``disable``.
    :param output: where to say it.
    :param environ: the environment of the process.
    """
    names = frozenset(parse_namespace(name) for name in arguments.names)
    on = arguments.action == "enable"
    path = trust_file(environ, sys.platform, home())
    policy = read_policies(environ)
    if on:
        for name in sorted(names & policy.disabled.keys()):
            raise PolicyRefusal(
                f"{name} is switched off by a policy",
                where=policy.disabled[name],
                note="it is in its disable-provider",
            )
    after = change_trust(
        path,
        lambda old: replace(
            old,
            enabled=old.enabled | names if on else old.enabled - names,
            disabled=old.disabled - names if on else old.disabled | names,
        ),
    )
    for name in sorted(names):
        if on and name in arguments.disable_provider:
            output.warn(f"{name} stays off: disable-provider of wheelfit.toml names it")
    output.result_json(
        {
            "version": 1,
            "action": arguments.action,
            "file": str(path),
            "enabled": sorted(after.enabled),
            "disabled": sorted(after.disabled),
        }
    )
    output.result(f"{arguments.action}d: {', '.join(sorted(names))}; written to {path}")
    return 0


# --- reading what was asked ---------------------------------------------------------


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
    found = set()
    for text in texts:
        match = _HASH.fullmatch(text)
        if match is None:
            raise UsageError(f"{text[:80]!r} is not sha256:DIGEST with 64 hexadecimal digits")
        found.add(match[1].lower())
    return frozenset(found)


# --- looking it up ------------------------------------------------------------------


def _look_up(
    requirement: Requirement, repository: Remembered, environment: Environment
) -> list[_Found]:
    try:
        pins = resolve_plugin([requirement], repository, environment.target())
    except ProjectNotFound as error:
        words = (
            "some plugins that packages name were never published, and anybody could take "
            "their names (P-19)"
        )
        error.note = "\n".join(filter(None, (error.note, words, _similar(requirement.name))))
        raise
    found = []
    with tempfile.TemporaryDirectory(prefix="wheelfit-") as folder:
        for pin in pins:
            promised = pin.file.hashes.get("sha256")
            digest = promised or digest_of(repository.download(pin.file, Path(folder)))
            found.append(_Found(pin, digest, is_computed=promised is None))
    return sorted(found, key=lambda one: (one.pin.name != requirement.name, one.pin.name))


def _entry_point(pin: Pin, repository: Remembered) -> str | None:
    """Return where a wheel says its plugin is, if it names exactly one (P-32)."""
    with tempfile.TemporaryDirectory(prefix="wheelfit-") as folder:
        path = repository.download(pin.file, Path(folder))
        with WheelArchive(path, pin.filename) as wheel:
            name = f"{wheel.dist_info}/entry_points.txt"
            text = wheel.read(name) if name in wheel.names() else b""
    endpoints = {endpoint for _, endpoint in plugin_entry_points(text)}
    return endpoints.pop() if len(endpoints) == 1 else None


def _check_hashes(found: Sequence[_Found], wanted: frozenset[str]) -> None:
    for one in found:
        if wanted and one.sha256 not in wanted:
            raise HashMismatch(
                algorithm="sha256",
                expected=sorted(wanted),
                actual=one.sha256,
                where=redact(one.pin.file.url),
            )


def _check_lists(entry: TrustEntry, site: SitePolicy) -> None:
    """Refuse to trust what could not be used anyway."""
    if entry.namespace is not None and entry.namespace in site.disabled:
        raise PolicyRefusal(
            f"{entry.namespace} is switched off by a policy",
            where=site.disabled[entry.namespace],
            note="it is in its disable-provider",
        )
    for policy in site.lists:
        listed = {
            (file.filename, file.sha256)
            for one in policy.entries
            if one.package == entry.package
            for file in one.usable_files()
        }
        for file in entry.files:
            if (file.filename, file.sha256) not in listed:
                raise PolicyRefusal(
                    f"{file.filename} is not in the list of the policy",
                    where=policy.where,
                    note=f'it says plugins = "listed"; the file has SHA-256 {file.sha256}',
                )


def _doubts(requirement: Requirement, found: Sequence[_Found]) -> list[str]:
    """Return what somebody should think about before trusting this."""
    doubts = []
    if requirement.name in UNREGISTERED:  # P-19
        doubts.append(
            f"{requirement.name} was not registered on PyPI in November 2026; whoever published "
            "it there since need not be who the name suggests"
        )
    similar = _similar(requirement.name)
    if similar:
        doubts.append(similar)
    own = sorted({row.namespace for row in EMULATED_PLUGINS if row.package == requirement.name})
    if own:
        doubts.append(
            f"wheelfit's own {' and '.join(own)} provider answers instead of {requirement.name} "
            "where the versions agree, and the plugin is asked only elsewhere (P-13)"
        )
    for one in found:
        if one.pin.file.yanked is not None:
            why = f": {one.pin.file.yanked}" if one.pin.file.yanked else ""
            doubts.append(f"{one.pin.filename.text} was taken back by its publisher{why}")
        if one.is_computed and not one.pin.file.is_local:
            doubts.append(
                f"{one.pin.file.source} promises no SHA-256 of {one.pin.filename.text}; "
                "it was fetched, and this is the hash of what came"
            )
    return doubts


def _similar(name: str) -> str:
    known = sorted({row.package for row in EMULATED_PLUGINS})
    if name in known or name in UNREGISTERED:
        return ""
    close = get_close_matches(name, known, n=1, cutoff=0.85)
    return f"the name is much like {close[0]}, which is another package" if close else ""


def _loss(before: Trust, entry: TrustEntry, *, keep: bool) -> list[str]:
    """Say what is trusted now and would not be any more."""
    old = [one for one in before.of(entry.package) if one.namespace == entry.namespace]
    if keep or not old:
        return []
    gone = {file for one in old for file in one.files} - set(entry.files)
    names = ", ".join(sorted(file.filename for file in gone))
    return [f"no longer trusted then: {names} (--keep keeps them)"] if names else []


def _with(old: Trust, entry: TrustEntry, *, keep: bool) -> Trust:
    same = [
        one
        for one in old.entries
        if (one.package, one.namespace) == (entry.package, entry.namespace)
    ]
    others = tuple(one for one in old.entries if one not in same)
    if keep:
        files = {file.filename: file for one in same for file in one.files}
        files |= {file.filename: file for file in entry.files}
        entry = replace(entry, files=tuple(files.values()))
    return replace(old, entries=(*others, entry))


def _source(found: Sequence[_Found]) -> str:
    return ", ".join(dict.fromkeys(redact(one.pin.file.source) for one in found))


# --- consent ------------------------------------------------------------------------


def _plan(entry: TrustEntry, found: Sequence[_Found]) -> list[str]:
    """Return what would be trusted, in lines."""
    lines = [f"{entry.package}{entry.versions} consists of"]
    for one in found:
        file = one.pin.file
        size = "" if file.size is None else f", {file.size:,} bytes"
        when = f", uploaded {file.upload_time[:10]}" if file.upload_time else ""
        lines += [
            f"  {one.pin.name} {one.pin.version}",
            f"    file    {one.pin.filename.text}{size}{when}",
            f"    sha256  {one.sha256}",
            f"    from    {redact(file.source) or redact(file.url)}",
        ]
    namespace = entry.namespace or "any namespace that names it"
    lines.append(f"It may answer for {namespace}, at {entry.plugin_api or 'any endpoint'}.")
    return lines


def _ask_consent(plan: Sequence[str], entry: TrustEntry, output: Output) -> None:
    """Show what would be trusted, and ask.

    :raises NoConsent: the user does not agree, or nobody is there.
    """
    if output.json or sys.stdin is None or not sys.stdin.isatty():
        raise NoConsent(
            f"nobody is there who could agree to trust {entry.package}",
            note="\n".join(plan),
            hint="nothing was installed, run or written; if you agree, give --yes",
        )
    speaker = replace(output, verbosity=max(output.verbosity, 0))  # even with --quiet
    for line in plan:
        speaker.say(line)
    speaker.say("Code in these files will run on this machine, confined as far as the system can.")
    sys.stderr.write("Trust exactly these files? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NoConsent(
            f"you did not agree to trust {entry.package}",
            note="nothing was installed, run or written",
        )


def _try(
    arguments: Namespace,
    output: Output,
    environ: Mapping[str, str],
    rules: PluginRules,
    environment: Environment,
    repository: Remembered,
    entry: TrustEntry,
    endpoint: str | None,
) -> dict[str, Any]:
    """Install the plugin, ask it, and return what it says.

    :param endpoint: where its own metadata says it is, if they do (P-32).
    """
    # It never learns for which namespace it is asked (P-31).
    question = PluginQuestion(
        entry.namespace or "any",
        (Requirement(entry.package, specifier=entry.versions),),
        entry.plugin_api or endpoint or default_endpoint(entry.package),
    )
    plugins = OnDemandPlugins(
        rules,
        environment.interpreter,
        environment.target(),
        lambda: repository,
        arguments=arguments,
        environ=environ,
        output=output,
    )
    detection = plugins.ask(question)
    for warning in detection.warnings:
        output.warn(warning)
    return {
        "status": str(detection.status),
        "source": detection.source,
        "features": [
            {"name": feature.name, "values": list(feature.values)} for feature in detection.features
        ],
        "evidence": [{"source": one.source, "value": one.value} for one in detection.evidence],
        "warnings": list(detection.warnings),
        "plugin": None if detection.plugin is None else detection.plugin.to_mapping(),
    }


def _print_answer(answer: Mapping[str, Any], output: Output) -> None:
    output.result(f"{answer['source']}: {answer['status']}")
    values = {feature["name"]: feature["values"] for feature in answer["features"]}
    flags = [name for name, some in values.items() if some == ["on"]]
    for name, some in values.items():
        if name not in flags:
            output.result(f"  {name}  {shortened(some, output)}")
    if flags:
        output.result(f"  on  {shortened(flags, output)}")
    for one in answer["evidence"]:
        output.result(f"  evidence  {one['source']}: {one['value']}", "dim")
