"""Commands for projects that build wheels."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from wheelfit.cli.command import Command, Operation, request_of, show_report
from wheelfit.cli.options.table.building import (
    ABI_BOUNDS,
    BUILD,
    BUILD_WAYS,
    BUILT_MATRIX,
    BUILT_WHEELS,
    INIT,
    INIT_TABLE,
    MATRIX,
    TEST,
)
from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import DEPENDENCY_GROUPS, REQUIREMENTS, SOURCE_BUILDS
from wheelfit.cli.options.table.sources import SOURCES, UPLOADS
from wheelfit.cli.options.table.variants import VARIANTS
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace

    from wheelfit.cli.output import Output
    from wheelfit.operations.context import Context
    from wheelfit.operations.init import InitRequest


def _init(arguments: Namespace, output: Output, context: Context) -> int:
    """Edit the table of a project."""
    from wheelfit.cli.render.projects import show_diff, show_edits, show_guides
    from wheelfit.operations.init import InitRequest, explain_namespaces, init

    if arguments.explain:
        show_guides(explain_namespaces(), output)
        return 0
    request = request_of(InitRequest, arguments)
    if request.has_edits:
        return show_report(init(request, context), output, show_edits)
    request = _ask(request, output)
    report = init(request.with_options(dry_run=True), context)
    needs_consent = report.is_changed and not request.dry_run
    if needs_consent:
        show_diff(report.diff, output)
        if _answer("Write it? [y/N] ").lower() in ("y", "yes"):
            report = init(request, context)
    return show_report(report, output, show_edits, is_diff_shown=needs_consent)


def _ask(request: InitRequest, output: Output) -> InitRequest:
    """Prompt for the edits, and return the request with them.

    :raises UsageError: standard input is not a terminal.
    """
    from wheelfit.errors import UsageError
    from wheelfit.operations.init import check_providers, explain_namespaces, read_table

    table = read_table(request)
    if output.json or sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "no edit was given, and there is no terminal to ask for edits",
            hint="as `wheelfit init --provider x86_64 --variant 'v3=x86_64 :: level :: v3'`",
        )
    if table is not None:
        output.result(f"the table has {', '.join(table.priorities)}")
        output.result(f"and the variants {', '.join(sorted(table.variants)) or '(none)'}")
    guides = {guide.namespace: guide for guide in explain_namespaces()}
    for guide in guides.values():
        output.result(f"  {guide.namespace:<14}  {guide.purpose}")
    names = _answer("Which of these do variants depend on? (separated by spaces) ").split()
    for name in names:
        for line in guides[name].lines() if name in guides else ():
            output.result(line)
    request = request.with_options(provider=tuple(names))
    check_providers(request, table)  # before further questions
    variants = []
    while label := _answer("Label of a variant (empty: no more): "):
        properties = _answer(f"What does {label} need? (as x86_64 :: level :: v3, …) ")
        variants.append(f"{label}={properties}")
    return request.with_options(variant=tuple(variants))


def _answer(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _matrix(arguments: Namespace, output: Output, context: Context) -> int:
    """Print the matrix, for people or for a CI service."""
    from wheelfit.cli.render.projects import show_matrix
    from wheelfit.errors import UsageError
    from wheelfit.operations.matrix import MatrixRequest, matrix

    if arguments.service is not None and arguments.json:
        raise UsageError("--format and --json are two forms of one result", hint="choose one")
    if arguments.template is not None and arguments.service != "gitlab":
        raise UsageError("--template goes with --format gitlab", hint="leave it out")
    if arguments.job_per is not None and arguments.service is None:
        raise UsageError("--job-per goes with --format", hint="leave it out, or name the service")
    report = matrix(request_of(MatrixRequest, arguments), context)
    by_target = arguments.job_per == "target"
    if arguments.service == "github":
        output.result(report.for_github(by_target=by_target))
    elif arguments.service == "gitlab":
        text = report.for_gitlab(by_target=by_target, template=arguments.template)
        output.result(text.removesuffix("\n"))
    else:
        show_report(report, output, show_matrix)
    return 0


COMMANDS = {
    "init": Command(
        """\
Write the [variant] table of a project: its providers and variants.

Without options, on a terminal, it asks for them. Existing entries stay, and so do comments, order
and line endings of pyproject.toml. --explain lists the known properties of machines, and writes
nothing.
""",
        (INIT, INIT_TABLE),
        _init,
    ),
    "build": Command(
        """\
Build wheels of a project, as variants and plain, with any build backend.

The [variant] table of its pyproject.toml defines the variants. The backend builds a plain wheel,
and each variant is made from it.
""",
        (
            BUILD,
            BUILT_WHEELS,
            BUILD_WAYS,
            BUILT_MATRIX,
            WORKERS,
            INTERPRETER,
            SOURCES,
            UPLOADS,
            *(  # only defaults and settings, no options
                group.off_command_line()
                for group in (REQUIREMENTS, SOURCE_BUILDS, DEPENDENCY_GROUPS, MACHINE, VARIANTS)
            ),
        ),
        Operation("build.build", "projects.show_build"),
    ),
    "test": Command(
        """\
Run a project's tests with each of its wheels: in an environment of its own, from installed files.

PATH is a wheel or a folder of them. If all that this machine lacks for a wheel is an x86-64 level
up to v3, the wheel runs under QEMU; other unsupported wheels are skipped, with the reason. The
results are recorded beside the wheels, and from then on `wheelfit publish` refuses variants whose
tests did not pass. Exit codes: 9 tests failed, 10 no wheel could be tested.
""",
        (TEST, INTERPRETER, SOURCES),
        Operation("wheel_tests.run_wheel_tests", "projects.show_tests"),
    ),
    "matrix": Command(
        """\
Show which wheels a release has, and write them as jobs of a CI service.

The matrix stands under [tool.wheelfit.matrix] of pyproject.toml: labels, Pythons, platforms, and
what is excluded or included. --format writes it for GitHub Actions or GitLab CI; each job there has
the arguments for `wheelfit build`.
""",
        (MATRIX,),
        _matrix,
    ),
    "abi": Command(
        "See which versions of a library a build works with.",
        subcommands={
            "bounds": Command(
                """\
Derive from symbols which releases of a library a build works with.

The symbols that CONSUMER uses are searched in each release of the library. CONSUMER works with the
first one that has all of them and those after it, until one drops a symbol or has another soname.
The result is values of abi_dependency for the [variant] table, and a requirement. With abicompat
and debug information, types are compared too; without them changes of types and layouts cannot be
detected.

--against names the library: a project of an index, `torch>=2.5`, whose wheels are fetched one by
one; wheels and folders of them; or single libraries with their versions, `1.2=libfast.so`. With
`python` or `python>=3.9` the stable ABI of Python is meant.
""",
                (ABI_BOUNDS, SOURCES),
                Operation("abi_bounds.abi_bounds", "projects.show_bounds"),
            )
        },
    ),
}
