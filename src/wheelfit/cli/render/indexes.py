"""Reports of indexes, of publishing, and of index files, as text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wheelfit.cli.render.check import FAULTS, exit_code, show_findings
from wheelfit.cli.render.wheels import LOSSES
from wheelfit.operations.text import columns, size_words
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.building.publishing.tool_choices import ReleaseChoices
    from wheelfit.cli.output import Output
    from wheelfit.operations.convert_index import ConvertedIndex
    from wheelfit.operations.generate_index import GeneratedIndex
    from wheelfit.operations.import_index import ImportedPackages
    from wheelfit.operations.live_index import (
        AuditReport,
        CleaningReport,
        CreatedToken,
        DroppedStage,
        FilesReport,
        MovedIndexReport,
        OpenedStage,
        RevokedToken,
        StagesReport,
        StatusReport,
        TokensReport,
    )
    from wheelfit.operations.prefetch import PrefetchReport
    from wheelfit.operations.proxy import ServedProxy
    from wheelfit.operations.publish import PublishReport
    from wheelfit.operations.serve import ServedIndex


_NO_FIT, _NETWORK = 3, 5
"""Exit codes (docs/reference/exit-codes.md)."""


def show_served_index(report: ServedIndex, output: Output) -> None:
    """Print the URL of an index, and how to upload, or an object under ``--json``."""
    output.result_json(report.to_json())
    output.result(report.index_url)
    output.flush()
    for bridge in report.bridges:
        output.remark(f"clients install mirrored builds with: --bridge {bridge}", "dim")
    if report.token_file is not None:
        from shlex import quote

        token = f'"$(cat {quote(str(report.token_file))})"'
        upload = report.upload_url
        output.remark(
            f"a token for uploads is in {report.token_file}; with it\n"
            f"  uv publish --publish-url {upload} --token {token}\n"
            f"  twine upload --repository-url {upload} -u __token__ -p {token} dist/*",
            "dim",
        )


def show_files(report: FilesReport, output: Output) -> None:
    """Print the files that were changed."""
    for name in report.files:
        output.report(name)


def show_status(report: StatusReport, output: Output) -> None:
    """Print the status of a project."""
    why = f": {report.reason}" if report.reason else ""
    output.report(f"{report.project} is {report.status}{why}")


def show_cleaning(report: CleaningReport, output: Output) -> None:
    """Print the removals, done or planned."""
    rows = [
        (release.project, release.version, str(len(release.files)),
         size_words(sum(file.size for file in release.files)), release.reason)
        for release in report.releases
    ]  # fmt: skip
    output.table(("project", "version", "files", "size", "why"), rows)
    if report.dry_run:
        count = count_of(len(rows), "release")
        output.report(f"{count} would be removed" if rows else "no release would be removed")
        return
    parts = [
        count_of(count, noun)
        for count, noun in (
            (len(report.releases), "release"),
            (report.files, "file"),
            (report.stages, "stage"),
            (report.uploads, "broken upload"),
        )
        if count
    ]
    size = f" ({size_words(report.size)})" if report.size else ""
    output.report(f"removed {', '.join(parts)}{size}" if parts else "nothing to remove")


def show_prefetch(report: PrefetchReport, output: Output) -> int:
    """Print the fetched or planned files, and the missing ones; return the exit code."""
    for name in report.missing:
        output.warn(
            f"{name} comes from uploads alone, so no mirror keeps it"
            if name in report.uploaded
            else f"no mirror has {name} as requested"
        )
    for failure in report.failed:
        output.warn(f"{failure.name} was not fetched: {failure.message}")
    if report.dry_run:
        planned = count_of(report.files - report.existing, "file")
        summary = f"{planned} ({size_words(report.size)}) would be fetched"
    else:
        summary = f"fetched {count_of(report.fetched, 'file')} ({size_words(report.fetched_size)})"
    output.report(f"{summary}; {report.existing} of {report.files} already existed")
    if report.failed:
        return _NETWORK
    return _NO_FIT if report.missing else 0


def show_audit_log(report: AuditReport, output: Output) -> None:
    """Print entries of the audit log."""
    rows = []
    for entry in report.entries:
        actor = " ".join(filter(None, (entry.owner, entry.token, entry.note)))
        action = f"{entry.action}{' refused' if entry.outcome == 'refused' else ''}"
        subject = entry.subject or entry.project
        if entry.action == "status":  # its subject is the status alone
            subject = f"{entry.project} {subject}"
        detail = " ".join(entry.detail.split())
        rows.append((f"{entry.time[:19]}Z", action, subject, actor, entry.address, detail))
    if not rows:
        output.report("no entry matches")
        return
    output.table(("time", "action", "what", "who", "from", "detail"), rows)


def show_moved_index(report: MovedIndexReport, output: Output) -> None:
    """Print the amount of moved files and records."""
    files = f"{count_of(report.files, 'file')} ({size_words(report.size)})"
    is_partial = report.copied < report.files
    existing = f"; {report.copied} copied, the others already existed" if is_partial else ""
    output.report(f"{files} and {count_of(report.records, 'record')}{existing}")


def show_import(report: MovedIndexReport | ImportedPackages, output: Output) -> int:
    """Print the imported files, and each refused one; return the exit code."""
    from wheelfit.operations.live_index import MovedIndexReport

    if isinstance(report, MovedIndexReport):
        show_moved_index(report, output)
        return 0
    for refused in report.refused:
        for reason in refused.reasons:
            output.report(str(reason), "bad")
    for failure in report.failed:
        output.warn(f"{failure.name} was not imported: {failure.message}")
    for name in report.missing:
        output.warn(f"the source has no project {name}")
    added = f"{count_of(report.added, 'file')} ({size_words(report.added_size)})"
    summary = f"{added} would be imported" if report.dry_run else f"imported {added}"
    refusals = f", {len(report.refused)} refused" if report.refused else ""
    output.report(f"{summary}; {report.existing} of {report.files} already existed{refusals}")
    if report.refused:
        return FAULTS
    if report.failed:
        return _NETWORK
    return _NO_FIT if report.missing else 0


def show_opened_stage(report: OpenedStage, output: Output) -> None:
    """Print the ID of a stage, and its URLs."""
    output.result(report.id)
    if report.server is not None:
        output.remark(f"upload to {report.upload_url} with your own token", "dim")
        output.remark(f"see it at {report.index_url}", "dim")
    else:
        output.remark(f"its secret is {report.secret}", "dim")
    output.remark(f"publish it before {report.expires}", "dim")


def show_stages(report: StagesReport, output: Output) -> None:
    """Print the open stages."""
    for stage in report.stages:
        output.result(f"{stage['id']}  {stage['owner']}  until {stage['expires']}")


def show_dropped_stage(report: DroppedStage, output: Output) -> None:
    """Print the number of dropped files."""
    output.report(f"{count_of(report.count, 'file')} deleted")


def show_created_token(report: CreatedToken, output: Output) -> None:
    """Print a new token."""
    output.result(report.secret)
    output.remark(f"its ID is {report.id}; it cannot be shown again", "dim")


def show_tokens(report: TokensReport, output: Output) -> None:
    """Print the tokens with their rights."""
    for token in report.tokens:
        projects = "every project" if token["projects"] is None else ", ".join(token["projects"])
        until = f"until {token['expires']}" if token["expires"] else "always"
        parts = [
            token["id"],
            token["owner"],
            "+".join(token["scopes"]),
            projects,
            until,
            token["note"],
        ]
        output.result("  ".join(part for part in parts if part))


def show_revoked_token(report: RevokedToken, output: Output) -> None:
    """Print the revoked token."""
    output.report(f"{report.revoked} is revoked")


def show_served_proxy(report: ServedProxy, output: Output) -> None:
    """Print the URL of a proxy, or an object under ``--json``."""
    output.result_json(report.to_json())
    output.result(report.index_url)
    output.flush()
    output.remark(f"for another machine: {report.base}/for/PRESET/simple/", "dim")


def show_generated_index(report: GeneratedIndex, output: Output) -> int:
    """Print the refused and the published files; return 9 if any was refused."""
    generated = report.generated
    for note in generated.notes:
        output.warn(note)
    if generated.refused:
        show_findings(report.refused, output)
    if not generated.is_published:
        output.report("nothing is published; --keep-going publishes the rest", "bad")
        return FAULTS
    contents = (
        f"{count_of(generated.files, 'file')} of {count_of(generated.releases, 'release')}, "
        f"{count_of(generated.projects, 'project')}"
    )
    if generated.written or generated.removed:
        changes = f"{len(generated.written)} written"
        if generated.removed:
            changes += f", {len(generated.removed)} removed"
    else:
        changes = "nothing has changed"
    output.report(f"{report.target}/simple/: {contents}; {changes}", "good")
    if generated.excluded:
        output.report(f"left out: {', '.join(generated.excluded)}", "warning")
    if generated.unreferenced:
        output.remark(
            f"no page names {count_of(generated.unreferenced, 'file')} any more; --prune removes "
            "those that none named before the last change either",
            "dim",
        )
    return FAULTS if generated.refused else 0


def show_converted_index(report: ConvertedIndex, output: Output) -> int:
    """Print the converted files and the losses; return 9 if a file was left out, 32 for losses."""
    generated = report.generated
    if generated.refused:
        show_findings(report.refused, output)
    for text in report.lost:
        output.report(f"lost: {text}", "warning")
    documents = report.documents
    layouts = Counter(documents.values())
    counts = ", ".join(f"{layouts[layout]} of layout {layout}" for layout in sorted(layouts))
    output.report(
        f"{count_of(len(documents), 'index file')} read" + (f" ({counts})" if counts else "")
    )
    if generated.is_published:
        count = count_of(len(report.projects), "project")
        output.report(f"{report.target}/simple/: {count}; {len(generated.written)} written", "good")
    elif any(finding.code == "changed-file" for finding in generated.refused):
        output.report("nothing is published, since published files would change", "bad")
    else:
        output.report("nothing is published; --keep-going publishes the rest", "bad")
    if generated.refused:
        return FAULTS
    return LOSSES if report.lost else 0


def show_publish(report: PublishReport, output: Output) -> None:
    """Print the findings, every file with its state, and the sent files."""
    show_findings(report.checks, output)
    rows = [
        (file.filename, size_words(file.size), report.state(file.filename))
        for file in report.outgoing.files
    ]
    for line in columns(("file", "size", "state"), rows, output.width):
        output.report(line)
    for forecast in report.forecasts:
        output.remark(str(forecast), "dim")
    for choices in report.choices:
        _show_choices(choices, output)
    _show_end(report, output)
    if report.is_public and report.result is not None and report.result.sent:
        output.remark("the registry accepts further files of a release for 14 days only", "dim")


def _show_choices(choices: ReleaseChoices, output: Output) -> None:
    """Print the build that each tool chooses on each machine, and warn of inferior ones."""
    tools = [choice.tool for choice in choices.machines[0].choices]
    rows = [(row.machine, *(choice.build for choice in row.choices)) for row in choices.machines]
    release = f"{choices.name} {choices.version}"
    output.report(f"builds of {release} for Python {choices.python}, by tool:", "strong")
    for line in columns(("machine", *tools), rows, output.width):
        output.report(line)
    for warning in choices.warnings():
        output.remark(warning, "warning")


def publish_exit_code(report: PublishReport, *, strict: bool) -> int:
    """Return the exit code of a release: that of its findings, or 9 where files were refused."""
    code = exit_code(report.checks, strict=strict)
    if report.result is None:
        return code or (0 if report.dry_run else FAULTS)
    return code or (FAULTS if report.result.refused_index_files and strict else 0)


def _show_end(report: PublishReport, output: Output) -> None:
    publication = report.result
    if publication is None:
        output.report("nothing was sent", "plain" if report.dry_run else "bad")
        return
    if not publication.sent:
        output.report(f"{report.to} already has all files", "good")
        return
    files = count_of(len(publication.sent), "file")
    if publication.unlisted:
        message = f"{files} sent to {report.to}, which does not list {len(publication.unlisted)}"
        output.report(message, "bad")
    elif not publication.is_confirmed:
        message = f"{files} sent to {report.to}, whose listing could not be read"
        output.report(message, "warning")
    else:
        how = "one by one" if report.method == "one-by-one" else "all at once"
        resumed = ", continuing an interrupted upload" if publication.is_resumed else ""
        output.report(f"{files} published at {report.to} {how}{resumed}", "good")
