"""Check a release as an index would, and publish it: all of it or nothing.

PATH is a wheel, a source distribution, or a folder of them. --to names where they go: the URL of an
index (of one of wheelfit's own, or any that twine uploads to), a name of .pypirc, or for a static
index its folder or the URL of its object store.

An index of wheelfit's own, and a static one, show all files in one moment. Elsewhere wheels for
everybody go first, then variants, and the -variants.json last. After an interruption the same
command goes on where it stopped. Exit code 9 says that something is wrong with the files, and
nothing was sent, or that the index does not list what it was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.indexes import PUBLISH, UPLOAD_CHECKS, UPLOAD_NETWORK

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.build.publishing.acts import Act
    from wheelfit.build.publishing.completeness import Comparison
    from wheelfit.build.publishing.forecast import Forecast, Limits
    from wheelfit.build.publishing.outgoing import Release, Set
    from wheelfit.check.findings import Report
    from wheelfit.cli.output import Output
    from wheelfit.cli.publish_destinations import Index, StaticPlace
    from wheelfit.sources.page import File


OPTIONS = (PUBLISH, UPLOAD_CHECKS, UPLOAD_NETWORK)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Check and publish; the exit code is 9 for faults and 10 if something was left unchecked."""
    from pathlib import Path

    from wheelfit.build.publishing.outgoing import collect
    from wheelfit.build.publishing.refusals import REFUSALS
    from wheelfit.check.findings import Count, Report, Severity
    from wheelfit.cli.publish_destinations import Index, limits_of, open_destination
    from wheelfit.cli.publishing import documents_of
    from wheelfit.cli.render.check import exit_code
    from wheelfit.operations.check import check_ignored

    check_ignored(arguments.ignore, REFUSALS)
    with output.work("reading") as bar:
        outgoing = collect([Path(path) for path in arguments.paths], bar)
    destination = open_destination(arguments, environ, output)
    projects = sorted({name for name, _ in outgoing.releases})
    if isinstance(destination, Index):
        there = destination.there(projects, environ, output)
    else:
        there = destination.there(projects)
    limits = limits_of(arguments, destination)
    report, compared, forecasts = _judged(arguments, output, outgoing, destination, there, limits)
    index_files: Mapping[Release, bytes] = {}
    if isinstance(destination, Index) and report.worst() is not Severity.ERROR:
        index_files, found = documents_of(destination, outgoing, there, environ, output)
        report += Report.of(found, (), Count()).without(arguments.ignore)
    told = _Told(arguments, output, destination, outgoing, compared, forecasts)
    code = exit_code(report, strict=arguments.strict)
    if code or arguments.dry_run:
        told.tell(report)
        return code
    if isinstance(destination, Index):
        act = _send(arguments, output, environ, destination, outgoing, there, index_files)
        act, looked = _confirmed(arguments, output, environ, destination, outgoing, act)
        report += looked
        told.tell(report, act)
        code = exit_code(report, strict=arguments.strict)
        if destination.is_public and act.sent:
            output.say("the registry takes more files for a release for 14 days only", "dim")
        return code or (9 if act.refused_index_files and arguments.strict else 0)
    return _lay(told, report, output, destination, outgoing, there)


def _judged(
    arguments: Namespace,
    output: Output,
    outgoing: Set,
    destination: Index | StaticPlace,
    there: Mapping[NormalizedName, Sequence[File]],
    limits: Limits,
) -> tuple[Report, Comparison, tuple[Forecast, ...]]:
    """Find everything that speaks against publishing, and what would have to be sent."""
    from datetime import UTC, datetime
    from pathlib import Path

    from wheelfit.build.publishing.completeness import (
        closed_findings,
        compare,
        completeness_findings,
    )
    from wheelfit.build.publishing.forecast import forecast
    from wheelfit.check.findings import Count, Report
    from wheelfit.check.profile import Profile
    from wheelfit.cli.publishing import judge, project_in

    profiles = frozenset(map(Profile, arguments.profile))
    if destination.is_public:
        profiles |= {Profile.PYPI}
    with output.work("checking") as bar:
        report = judge(outgoing, profiles, bar)
    compared = compare(
        outgoing.files, {file.filename: file for files in there.values() for file in files}
    )
    forecasts, findings = forecast(compared.new, there, limits)
    found = [*compared.findings, *findings]
    found += completeness_findings(outgoing, there, project_in(Path(arguments.project)))
    if Profile.PYPI in profiles:
        found += closed_findings(compared.new, there, datetime.now(UTC))
    report += Report.of(found, (), Count())
    return report.without(arguments.ignore), compared, forecasts


# --- sending -----------------------------------------------------------------------------


def _send(
    arguments: Namespace,
    output: Output,
    environ: Mapping[str, str],
    index: Index,
    outgoing: Set,
    there: Mapping[NormalizedName, Sequence[File]],
    index_files: Mapping[Release, bytes],
) -> Act:
    """Send what is missing to an index."""
    from wheelfit.build.publishing.acts import Act, publish_as_one, publish_in_order
    from wheelfit.build.publishing.completeness import compare
    from wheelfit.build.publishing.wire import WireSender

    def sender(url: str) -> WireSender:
        return WireSender(url, index.login, index.context)

    if index.base is not None and not arguments.one_by_one:
        from wheelfit.server.hosting.client import ServerAdministration

        base = index.base
        if not compare(outgoing.files, _by_name(there)).new:  # nobody has to be known for that
            return Act(there=tuple(one.filename for one in outgoing.files))
        token = index.login.password if index.login else ""
        stages = ServerAdministration(base, token, context=index.context)
        with output.work("sending") as bar:
            return publish_as_one(
                outgoing.files,
                stages,
                lambda stage: sender(f"{base}/stage/{stage}/legacy/"),
                lambda: _by_name(index.there(list(there), environ, output)),
                bar,
            )
    with output.work("sending") as bar:
        act = publish_in_order(
            outgoing.files,
            {} if index.base else index_files,  # one of ours makes them itself
            sender(index.upload_url),
            _by_name(there),
            bar,
        )
    for message in act.refused_index_files:
        output.warn(f"{message}; without it installers may not find the variants")
    return act


def _confirmed(
    arguments: Namespace,
    output: Output,
    environ: Mapping[str, str],
    index: Index,
    outgoing: Set,
    act: Act,
) -> tuple[Act, Report]:
    """Look at the index again: what it was sent is published when it lists it."""
    from dataclasses import replace

    from wheelfit.build.publishing.confirming import confirm
    from wheelfit.build.publishing.refusals import NOT_LISTED
    from wheelfit.check.findings import Count, Place, Report, Unchecked

    sent = [one for one in outgoing.files if one.filename in act.sent]
    if not sent:
        return act, Report.of((), (), Count())
    projects = sorted({one.release[0] for one in sent})
    looked = confirm(
        sent,
        lambda: _by_name(index.there(projects, environ, output)),
        patience=arguments.patience,
    )
    found = [*looked.findings]
    for one in looked.missing:
        message = f"{index.check_url} does not list it"
        found.append(Place(str(one.path)).found(NOT_LISTED, message))
    unchecked = () if looked.error is None else (Unchecked.because(looked.error, index.check_url),)
    act = replace(
        act,
        unlisted=tuple(one.filename for one in looked.missing),
        is_confirmed=looked.error is None,
    )
    return act, Report.of(found, unchecked, Count()).without(arguments.ignore)


def _by_name(there: Mapping[NormalizedName, Sequence[File]]) -> dict[str, File]:
    return {file.filename: file for files in there.values() for file in files}


def _lay(
    told: _Told,
    report: Report,
    output: Output,
    place: StaticPlace,
    outgoing: Set,
    there: Mapping[NormalizedName, Sequence[File]],
) -> int:
    """Put files and pages of a static index in their place."""
    from wheelfit.build.publishing.acts import Act
    from wheelfit.check.findings import Count, Report
    from wheelfit.cli.publishing import publish_static
    from wheelfit.cli.render.check import FAULTS

    with output.work("writing") as bar:
        written, refused = publish_static(place, outgoing, there, bar)
    if refused:
        told.tell(report + Report.of(refused, (), Count()))
        return FAULTS
    names = {path.rpartition("/")[2] for path in written}
    sent = tuple(one.filename for one in outgoing.files if one.filename in names)
    left = tuple(one.filename for one in outgoing.files if one.filename not in names)
    told.tell(report, Act(sent, left))
    return 0


# --- telling -----------------------------------------------------------------------------


class _Told:
    """Say what came of it."""

    def __init__(
        self,
        arguments: Namespace,
        output: Output,
        destination: Index | StaticPlace,
        outgoing: Set,
        compared: Comparison,
        forecasts: Sequence[Forecast],
    ) -> None:
        self._arguments = arguments
        self._output = output
        self._to = destination.name
        self._way = _way_of(destination, one_by_one=arguments.one_by_one)
        self._outgoing = outgoing
        self._there = {one.filename for one in compared.there}
        self._forecasts = forecasts

    def tell(self, report: Report, act: Act | None = None) -> None:
        """Say it, as a table or as one JSON object.

        :param report: what was found.
        :param act: what was done; None: nothing.
        """
        from wheelfit.cli.render.check import report_lines

        self._output.result_json(self._mapping(report, act))
        if report.findings or report.unchecked:
            verbosity = self._output.verbosity
            for line, style in report_lines(report, verbose=verbosity > 0, quiet=verbosity < 0):
                self._output.result(line, style)
            self._output.result()
        self._tell_files(act)
        for one in self._forecasts:
            self._output.say(str(one), "dim")
        self._tell_end(act)

    def _tell_files(self, act: Act | None) -> None:
        from wheelfit.cli.columns import columns
        from wheelfit.core.sizes import size_in_words

        rows = [
            (one.filename, size_in_words(one.size), self._state(one.filename, act))
            for one in self._outgoing.files
        ]
        for line in columns(("file", "size", "state"), rows):
            self._output.result(line)

    def _tell_end(self, act: Act | None) -> None:
        from wheelfit.wording import count_of

        if act is None:
            dry = self._arguments.dry_run
            self._output.result("nothing was sent", "plain" if dry else "bad")
        elif not act.sent:
            self._output.result(f"{self._to} has all of it already", "good")
        else:
            files = count_of(len(act.sent), "file")
            resumed = ", going on with what was sent before" if act.is_resumed else ""
            how = {"stage": "in one act", "static": "in one act"}.get(self._way, "one by one")
            if act.unlisted:
                words = f"{files} sent to {self._to}, which does not list {len(act.unlisted)}"
                self._output.result(words, "bad")
                return
            if not act.is_confirmed:
                words = f"{files} sent to {self._to}; whether it lists them could not be asked"
                self._output.result(words, "warning")
                return
            self._output.result(f"{files} published at {self._to} {how}{resumed}", "good")

    def _state(self, filename: str, act: Act | None) -> str:
        if act is not None and filename in act.unlisted:
            return "not listed"
        if act is not None and not act.is_confirmed and filename in act.sent:
            return "sent"
        if act is not None:
            return "published" if filename in act.sent else "was there"
        return "is there" if filename in self._there else "new"

    def _mapping(self, report: Report, act: Act | None) -> dict[str, object]:
        return {
            "version": 1,
            "to": self._to,
            "way": self._way,
            "dry_run": self._arguments.dry_run,
            "published": act is not None and act.is_confirmed and not act.unlisted,
            "resumed": act is not None and act.is_resumed,
            "files": [
                {
                    "filename": one.filename,
                    "project": one.release[0],
                    "version": str(one.release[1]),
                    "label": one.label,
                    "size": one.size,
                    "sha256": one.sha256,
                    "attestations": len(one.attestations),
                    "state": self._state(one.filename, act),
                }
                for one in self._outgoing.files
            ],
            "refused_index_files": list(act.refused_index_files) if act else [],
            "forecast": [one.to_mapping() for one in self._forecasts],
            "findings": [one.to_mapping() for one in report.findings],
            "unchecked": [one.to_mapping() for one in report.unchecked],
        }


def _way_of(destination: Index | StaticPlace, *, one_by_one: bool) -> str:
    from wheelfit.cli.publish_destinations import Index

    if not isinstance(destination, Index):
        return "static"
    return "stage" if destination.base is not None and not one_by_one else "one-by-one"
