"""Find what is wrong with everything that an index has.

All releases of all projects are looked at as `wheelfit check` looks at one: documents, wheels by a
few ranges of bytes, hashes, metadata. Besides, INDEX is asked which variants nobody can ever take,
which are always below another one, and which versions that wheels pin are not to be had, from it or
from the indexes that are named with --index-url.

INDEX is a URL, or a folder with the pages or the wheels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.checking import REPORTING
from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.indexes import CHECK_INDEX
from wheelfit.cli.options.table.sources import SOURCES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (CHECK_INDEX, REPORTING, SOURCES, INTERPRETER)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Check the index; the exit code is 9 for faults and 10 if something was left unchecked."""
    from wheelfit.cli.render.check import check_forms, exit_code, show_check
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.check_index import CheckIndexRequest, check_index
    from wheelfit.operations.context import Context

    check_forms(sarif=arguments.sarif, output=output)
    report = check_index(request_of(CheckIndexRequest, arguments), Context(environ, output))
    show_check(report, output, sarif=arguments.sarif, file=arguments.output)
    return exit_code(report.found, strict=arguments.strict)
