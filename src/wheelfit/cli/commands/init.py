"""Write the [variant] table of a project: who knows of machines, and which variants there are.

Without options, at a terminal, it asks. What the table has already stays; comments, order and line
endings of pyproject.toml too. --explain tells what can be known of machines, and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.building import INIT, INIT_TABLE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.operations.init import InitRequest


OPTIONS = (INIT, INIT_TABLE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Edit the table."""
    from dataclasses import replace

    from wheelfit.cli.render.project_table import show_diff, show_edits, show_guides
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.init import InitRequest, explain_namespaces, init

    if arguments.explain:
        show_guides(explain_namespaces(), output)
        return 0
    request, context = request_of(InitRequest, arguments), Context(environ, output)
    if request.has_edits:
        show_edits(init(request, context), output)
        return 0
    request = _ask(request, output)
    report = init(replace(request, dry_run=True), context)
    asks = report.is_changed and not request.dry_run
    if asks:
        show_diff(report.diff, output)
        if _answer("Write it? [y/N] ").lower() in ("y", "yes"):
            report = init(request, context)
    show_edits(report, output, is_diff_shown=asks)
    return 0


def _ask(request: InitRequest, output: Output) -> InitRequest:
    """Ask for the edits, and return the request with them.

    :raises UsageError: standard input is not a terminal.
    """
    import sys
    from dataclasses import replace

    from wheelfit.errors import UsageError
    from wheelfit.operations.init import check_providers, explain_namespaces, read_table

    table = read_table(request)
    if output.json or sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "nothing says what to write, and nobody is there to be asked",
            hint="as wheelfit init --provider x86_64 --variant 'v3=x86_64 :: level :: v3'",
        )
    if table is not None:
        output.result(f"the table has {', '.join(table.priorities)}")
        output.result(f"and the variants {', '.join(sorted(table.variants)) or '(none)'}")
    guides = {one.namespace: one for one in explain_namespaces()}
    for guide in guides.values():
        output.result(f"  {guide.namespace:<14}  {guide.purpose}")
    names = _answer("Which of these do variants depend on? (several with blanks) ").split()
    for name in names:
        for line in guides[name].lines() if name in guides else ():
            output.result(line)
    request = replace(request, provider=tuple(names))
    check_providers(request, table)  # before more is asked
    variants = []
    while label := _answer("Label of a variant (empty: no more): "):
        properties = _answer(f"What does {label} need? (as x86_64 :: level :: v3, …) ")
        variants.append(f"{label}={properties}")
    return replace(request, variant=tuple(variants))


def _answer(question: str) -> str:
    import sys

    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
