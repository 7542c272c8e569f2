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
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (PUBLISH, UPLOAD_CHECKS, UPLOAD_NETWORK)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Check and publish; the exit code is 9 for faults and 10 if something was left unchecked."""
    from wheelfit.cli.render.publish import publish_exit_code, show_publish
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.publish import PublishRequest, publish

    report = publish(request_of(PublishRequest, arguments), Context(environ, output))
    show_publish(report, output)
    return publish_exit_code(report, strict=arguments.strict)
