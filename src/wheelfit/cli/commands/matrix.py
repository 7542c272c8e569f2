"""Show which wheels a release has, and write that for services that build them.

The matrix stands under [tool.wheelfit.matrix] of pyproject.toml: labels, Pythons, platforms, and
what is excluded or included. --for writes it as GitHub Actions or GitLab CI read it; each job there
carries the words for wheelfit build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.building import MATRIX

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (MATRIX,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Read the matrix, and write it."""
    from wheelfit.cli.render.matrix import show_matrix
    from wheelfit.cli.requests import request_of
    from wheelfit.errors import UsageError
    from wheelfit.operations.context import Context
    from wheelfit.operations.matrix import MatrixRequest, matrix

    if arguments.service is not None and arguments.json:
        raise UsageError("--for and --json are two forms of one result", hint="choose one")
    if arguments.template is not None and arguments.service != "gitlab":
        raise UsageError("--template goes with --for gitlab", hint="leave it out")
    if arguments.by is not None and arguments.service is None:
        raise UsageError("--by goes with --for", hint="leave it out, or name the service")
    report = matrix(request_of(MatrixRequest, arguments), Context(environ, output))
    by_target = arguments.by == "target"
    if arguments.service == "github":
        output.result(report.for_github(by_target=by_target))
    elif arguments.service == "gitlab":
        text = report.for_gitlab(by_target=by_target, template=arguments.template)
        output.result(text.removesuffix("\n"))
    else:
        show_matrix(report, output)
    return 0
