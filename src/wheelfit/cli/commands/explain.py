"""Show which wheel would be chosen, and why not the others.

Each project named is looked at by itself: the newest release that fits the requirement and has a
wheel that fits the machine. With --with-deps everything is resolved together, as install would
where nothing is installed, and every package that comes in variants is explained.

With --all no machine decides: every label of the newest release that fits the requirement is shown,
with what it asks of a machine, what there is of it, and which presets and host files of your own
would take it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import BOUNDS_WITHOUT_DOWNLOADS, ENVIRONMENT
from wheelfit.cli.options.table.installing import EXPLAIN
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import DEPENDENCY_GROUPS, REQUIREMENTS, SOURCE_BUILDS
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS
from wheelfit_runtime.errors import CODES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (
    REQUIREMENTS,
    DEPENDENCY_GROUPS,
    EXPLAIN,
    BOUNDS_WITHOUT_DOWNLOADS,
    SOURCE_BUILDS,
    ENVIRONMENT,
    SOURCES,
    MACHINE,
    VARIANTS,
)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Explain what was named; the exit code is 3 when something has no wheel that fits."""
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.explain import ExplainRequest, explain, overview

    request, context = request_of(ExplainRequest, arguments), Context(environ, output)
    if request.all:
        from wheelfit.cli.render.overviews import show_overviews

        show_overviews(overview(request, context), output)
        return 0
    from wheelfit.cli.render.explanations import show_explanations

    report = explain(request, context)
    show_explanations(report, output)
    return CODES["no-compatible-wheel"].exit_code if report.refused else 0
