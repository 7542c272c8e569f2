"""Check wheels, index files, folders of them, and what is published.

Everything that is wrong is said at once, with the place, the rule and what to do. A TARGET is a
wheel, a *-variants.json or variant.json file, a folder (searched with all folders in it), a URL of
such a file, a pyproject.toml, whose [variant] table is checked, or a project of an index:
`project:torch`, `project:torch==2.8.0`. Where an index is named (--index-url, --extra-index-url,
--find-links), `torch` is a project too, unless a file or folder of that name exists, or it is a
usual name of a folder. Any other word is a path. --environment looks at what is installed instead,
or as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.checking import CHECK, REPORTING
from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.workers import WORKERS_WITH_THREADS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (CHECK, REPORTING, WORKERS_WITH_THREADS, SOURCES, ENVIRONMENT, MACHINE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Check the targets; the exit code is 9 for faults and 10 if something was left unchecked."""
    from wheelfit.cli.render.check import check_forms, exit_code, show_check
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.check import CheckRequest, check
    from wheelfit.operations.context import Context

    check_forms(sarif=arguments.sarif, output=output)
    report = check(request_of(CheckRequest, arguments), Context(environ, output))
    show_check(report, output, sarif=arguments.sarif, file=arguments.output)
    return exit_code(report.found, strict=arguments.strict)
