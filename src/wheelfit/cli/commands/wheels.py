"""Commands that make, show and check wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.command import Command, Operation, request_of, show_report
from wheelfit.cli.options.table.checking import CHECK, REPORTING
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.wheels import (
    CONVERT,
    DOCUMENT,
    EDITS,
    FROM_BINARY,
    INSPECT,
    RELABEL,
    REPACK,
    REPAIR,
    RESOLVING,
    RESULTS,
    SHOW,
    UNMAKE,
    VARIANT,
    WHEELS,
)
from wheelfit.cli.options.table.workers import WORKERS, WORKERS_WITH_THREADS

if TYPE_CHECKING:
    from argparse import Namespace

    from wheelfit.cli.output import Output
    from wheelfit.operations.context import Context


def _show(arguments: Namespace, output: Output, context: Context) -> int:
    """Show wheels, or their METADATA alone."""
    from wheelfit.cli.render.wheels import show_metadata, show_wheels
    from wheelfit.operations.wheel_contents import WheelContentsRequest, read_contents

    report = read_contents(request_of(WheelContentsRequest, arguments), context)
    return show_report(report, output, show_metadata if arguments.metadata else show_wheels)


def _repack(arguments: Namespace, output: Output, context: Context) -> int:
    """Repack wheels, or show how projects would be joined."""
    from wheelfit.operations.repack import RepackRequest, repack

    request = request_of(RepackRequest, arguments)
    if request.plan:
        from wheelfit.cli.render.repack_plan import show_plan
        from wheelfit.operations.repack_plan import plan_repack

        return show_report(plan_repack(request, context), output, show_plan)
    from wheelfit.cli.render.wheels import show_rewrite

    return show_report(repack(request, context), output, show_rewrite)


def _inspect(arguments: Namespace, output: Output, context: Context) -> int:
    """Show the binaries of each wheel as soon as they are read."""
    from wheelfit.cli.render.wheels import show_inspected
    from wheelfit.operations.inspection import InspectReport, InspectRequest, inspect

    files = []
    for file in inspect(request_of(InspectRequest, arguments), context):
        show_inspected(file, output)
        files.append(file)
    output.result_json(InspectReport(tuple(files)).to_json())
    return 0


def _check(arguments: Namespace, output: Output, context: Context) -> int:
    """Check the targets; return 9 for faults, 10 if a target was left unchecked."""
    from wheelfit.cli.render.check import check_forms, exit_code, show_check
    from wheelfit.operations.check import CheckRequest, check

    check_forms(sarif=arguments.sarif, output=output)
    report = check(request_of(CheckRequest, arguments), context)
    show_check(report, output, sarif=arguments.sarif, file=arguments.output)
    return exit_code(report.findings, strict=arguments.strict)


COMMANDS = {
    "wheel": Command(
        "Make variant wheels from existing wheels, and inspect them.",
        subcommands={
            "make": Command(
                """\
Make variant wheels of wheels that exist.

A plain wheel becomes a variant wheel; label and document of a variant wheel are replaced. The
variant is given by --property and --label, by --label alone where the table of a project or a
document lists it, or by --null. The contents of the wheel are copied unchanged, except for
variant.json and RECORD.
""",
                (WHEELS, VARIANT, FROM_BINARY, DOCUMENT, RESOLVING, RESULTS, WORKERS),
                Operation("wheels.make_variant", "wheels.show_rewrite"),
            ),
            "relabel": Command(
                """\
Give variant wheels another label; their properties stay.

A document of an old layout is converted to the current one. The old wheel stays, unless it has the
same name.
""",
                (WHEELS, RELABEL, RESULTS, WORKERS),
                Operation("wheels.relabel", "wheels.show_rewrite"),
            ),
            "unmake": Command(
                """\
Make plain wheels of variant wheels.

Label and variant.json are removed, and variant markers of dependencies are resolved as for any
plain wheel, which has no properties.
""",
                (WHEELS, UNMAKE, RESULTS, WORKERS),
                Operation("wheels.unmake", "wheels.show_rewrite"),
            ),
            "repair": Command(
                """\
Repair wheels with auditwheel, delocate or delvewheel; variants keep label and document.

The command gets a wheel under a plain name, which it can read, and puts one into {dest_dir}. Wheels
for any platform are left alone; with --output they are copied.
""",
                (WHEELS, REPAIR, RESULTS, WORKERS),
                Operation("wheels.repair", "wheels.show_rewrite"),
            ),
            "convert": Command(
                """\
Convert variant wheels of old layouts to the current one.

Wheels that are plain or have the current layout are left alone; with --output they are copied, so
that the folder is complete. The null variant gets its current label. Index files are not converted:
`wheelfit index generate` writes new ones, and `wheelfit index convert` converts a whole index.
""",
                (WHEELS, CONVERT, RESULTS, WORKERS),
                Operation("wheels.convert", "wheels.show_rewrite"),
            ),
            "repack": Command(
                """\
Edit name, version and dependencies of wheels; make variants of them.

A SOURCE is a wheel, a folder of wheels, or a release of an index: `torch==2.10.0` means all its
wheels, which are fetched. The edits are given by options, or by a file (--config) in our format or
that of variant-repack, whose parts have names. Everything else stays the same, byte by byte:
METADATA is edited line by line, dependencies are matched by their exact names, and top-level
packages are never renamed. --plan writes nothing: it shows which releases of several projects,
`project:onnxruntime project:onnxruntime-gpu`, can be joined as variants of one, which cannot and
why, and the file and command that do it. Exit code 9: none can.
""",
                (REPACK, EDITS, VARIANT, DOCUMENT, RESOLVING, RESULTS, WORKERS, SOURCES),
                _repack,
            ),
            "show": Command(
                """\
Show the metadata of variant wheels: label, properties, providers, sizes and markers.

A WHEEL is a file, a folder of them, or a URL, of which a few ranges of bytes are read.
""",
                (SHOW, SOURCES),
                _show,
            ),
            "inspect": Command(
                """\
Show the machines and libraries that the binaries in wheels need.

For each library: machine, GPUs (code in CUDA fat binaries, PTX), the libraries it needs with their
versions, and the x86-64 level that the loader requires; and which properties the wheel may claim
because of them. A fact that a binary lacks is left out, one that cannot be read is called unknown.
""",
                (INSPECT,),
                _inspect,
            ),
            "check": Command(
                "Find all faults of wheels: an alias of `wheelfit check`.",
                (CHECK, REPORTING, WORKERS_WITH_THREADS, SOURCES),
                _check,
            ),
        },
    ),
    "check": Command(
        """\
Check wheels, index files, folders of them, and what is published.

All findings are reported together, with place, rule and remedy. A TARGET is a
wheel, a *-variants.json or variant.json file, a folder (searched with all folders in it), a URL of
such a file, a pyproject.toml, whose [variant] table and classifiers are checked, or a project of an
index: `project:torch`, `project:torch==2.8.0`. Where an index is named (--index-url,
--extra-index-url, --find-links), `torch` is a project too, unless a file or folder of that name
exists, or it is a usual name of a folder. Any other word is a path.
""",
        (CHECK, REPORTING, WORKERS_WITH_THREADS, SOURCES),
        _check,
    ),
}
