"""Make a static index of a folder of wheels, which any web server or object store can offer.

All wheels and source distributions in DIR and the folders in it are listed, in HTML and JSON, with
hashes, sizes, upload times and the metadata of each wheel; for each release with variants its
-variants.json is combined from the wheels. Without --to the pages go into DIR/simple and the
files stay where they are.

FILE.yanked beside a file, or NAME-VERSION.yanked, yanks it for the reason that is written in it;
FILE.provenance is passed on. What no index would take is refused with all reasons, and nothing is
published then unless --keep-going is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.indexes import GENERATE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (GENERATE,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Generate the index; the exit code is 9 if something was refused."""
    from wheelfit.cli.render.check import FAULTS
    from wheelfit.cli.render.index_generate import show_generated_index
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.generate_index import GenerateIndexRequest, generate_index

    report = generate_index(request_of(GenerateIndexRequest, arguments), Context(environ, output))
    show_generated_index(report, output)
    return FAULTS if report.generated.refused else 0
