"""Write an index of an old layout anew in the current one.

Every -variants.json of SOURCE, whatever published layout it has, is written as the current layout
has it, and new pages list it beside the same files. What lies on this machine is copied along; what
lies elsewhere stays where it is. Wheels are never changed, unless --rewrite-wheels is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.indexes import CONVERT_INDEX
from wheelfit.cli.options.table.sources import SOURCES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping
    from contextlib import ExitStack

    from packaging.utils import NormalizedName

    from wheelfit.cli.output import Output
    from wheelfit.server.generate.conversion import Converted
    from wheelfit.server.generate.targets import Target
    from wheelfit.server.generate.wishes import Generated
    from wheelfit.sources.repository import Repository

LOSSES = 32
"""The exit code when something was lost, with consent (F-56)."""


OPTIONS = (CONVERT_INDEX, SOURCES)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Convert the index; 9 if something was left out, 32 if something was lost with consent."""
    from contextlib import ExitStack
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from wheelfit.cli.check_report import FAULTS
    from wheelfit.cli.index_targets import open_target
    from wheelfit.errors import UsageError
    from wheelfit.server.generate.conversion import convert_project, publish_converted

    target, place = open_target(arguments.to)
    if place is not None and place.absolute() == Path(arguments.source).absolute():
        raise UsageError(
            "an index is not written over itself", hint="name another folder with --to"
        )
    done: dict[str, Converted] = {}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="wheelfit-")))
        repository, names = _open(arguments, output, environ, stack)
        bar = stack.enter_context(output.work("converting"))
        bar.start(len(names))
        for name in names:
            page = repository.project(name)
            if page is not None:
                folder = scratch / name
                folder.mkdir()
                converted = convert_project(
                    repository,
                    page,
                    folder,
                    rewrite_wheels=arguments.rewrite_wheels,
                    accept_losses=arguments.accept_losses,
                )
                if converted.files or converted.findings:  # other folders are no projects
                    done[name] = converted
            bar.advance(1)
        bar.done()
        generated = publish_converted(
            done, target, keep_going=arguments.keep_going, replace_files=arguments.replace
        )
    _tell(done, generated, arguments, target, output)
    if generated.refused:
        return FAULTS
    return LOSSES if any(one.lost for one in done.values()) else 0


def _open(
    arguments: Namespace, output: Output, environ: Mapping[str, str], stack: ExitStack
) -> tuple[Repository, tuple[NormalizedName, ...]]:
    """Open the old index; return it and the names of its projects."""
    from packaging.utils import canonicalize_name

    from wheelfit.cli.whole_index import existing_folder, is_remote, open_whole_index
    from wheelfit.server.generate.conversion import names_in

    source = arguments.source
    if is_remote(source):
        repository, listed = stack.enter_context(
            open_whole_index(source, arguments, environ, note=output.warn)
        )
        return repository, listed()
    folder = existing_folder(source)
    if (folder / "simple").is_dir():
        folder /= "simple"
    repository, _ = stack.enter_context(
        open_whole_index(str(folder.absolute()), arguments, environ, note=output.warn)
    )
    return repository, tuple(canonicalize_name(name) for name in names_in(folder.absolute()))


def _tell(
    done: Mapping[str, Converted],
    generated: Generated,
    arguments: Namespace,
    target: Target,
    output: Output,
) -> None:
    from wheelfit.check.findings import Count, Report
    from wheelfit.cli.check_report import report_lines
    from wheelfit.sources.urls import redact
    from wheelfit.wording import count_of

    documents = {name: layout for one in done.values() for name, layout in one.documents.items()}
    rewritten = {old: new for one in done.values() for old, new in one.rewritten.items()}
    lost = [text for one in done.values() for text in one.lost]
    output.result_json(
        {
            "version": 1,
            "source": redact(arguments.source),
            "target": target.name,
            "published": generated.is_published,
            "projects": len(done),
            "documents": documents,
            "rewritten": rewritten,
            "findings": [one.to_mapping() for one in generated.refused],
            "lost": lost,
            "written": list(generated.written),
        }
    )
    if generated.refused:
        report = Report.of(generated.refused, (), Count())
        for line, style in report_lines(report, verbose=output.verbosity > 0):
            output.result(line, style)
        output.result()
    for text in lost:
        output.result(f"lost: {text}", "warning")
    layouts: dict[str, int] = {}
    for layout in documents.values():
        layouts[layout] = layouts.get(layout, 0) + 1
    told = ", ".join(f"{layouts[layout]} of layout {layout}" for layout in sorted(layouts))
    output.result(f"{count_of(len(documents), 'index file')} read" + (f" ({told})" if told else ""))
    for old, new in rewritten.items():
        output.result(f"  {old} → {new}" if old != new else f"  {old} is written anew")
    if generated.is_published:
        what = count_of(len(done), "project")
        output.result(f"{target.name}/simple/: {what}; {len(generated.written)} written", "good")
    else:
        output.result("nothing is published; --keep-going publishes the rest", "bad")
