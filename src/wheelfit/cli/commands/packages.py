"""Commands that choose packages, and put them into environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.command import Command, Operation, request_of, show_report
from wheelfit.cli.options.table.environment import (
    BOUNDS,
    BOUNDS_WITHOUT_DOWNLOADS,
    ENVIRONMENT,
    INTERPRETER,
    VENV,
)
from wheelfit.cli.options.table.installing import (
    DOWNLOAD,
    EXPLAIN,
    FREEZE,
    INSTALLATION,
    INSTALLING,
    LIST,
    PIP_HABITS,
    RECOVER,
    SHOW,
    SYNC,
    UNINSTALL,
    WHY,
)
from wheelfit.cli.options.table.locking import BUNDLE, EXPORT, LOCKING, TREE
from wheelfit.cli.options.table.machine import MACHINE, MACHINES
from wheelfit.cli.options.table.requirements import (
    DEPENDENCY_GROUPS,
    LOCK_FILE,
    LOCKED_BUILDS,
    PROJECT,
    REQUIREMENTS,
    SOURCE_BUILDS,
)
from wheelfit.cli.options.table.sources import SOURCES, UPLOADS
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace

    from wheelfit.cli.output import Output
    from wheelfit.operations.context import Context


def _list(arguments: Namespace, output: Output, context: Context) -> int:
    """Show the installed packages, or the outdated ones."""
    from wheelfit.cli.render import installed as render

    if arguments.outdated:
        from wheelfit.operations.outdated import OutdatedRequest, list_outdated

        outdated = list_outdated(request_of(OutdatedRequest, arguments), context)
        return show_report(outdated, output, render.show_outdated)
    from wheelfit.operations.list import ListRequest, list_installed

    return show_report(
        list_installed(request_of(ListRequest, arguments), context), output, render.show_installed
    )


def _explain(arguments: Namespace, output: Output, context: Context) -> int:
    """Explain the choice of packages; return 3 if one has no compatible wheel."""
    from wheelfit.operations.explain import ExplainRequest, explain, overview
    from wheelfit_runtime.error_codes import CODES

    request = request_of(ExplainRequest, arguments)
    if request.all:
        from wheelfit.cli.render.overviews import show_overviews

        return show_report(overview(request, context), output, show_overviews)
    from wheelfit.cli.render.explanations import show_explanations

    report = explain(request, context)
    show_report(report, output, show_explanations)
    return CODES["no-compatible-wheel"].exit_code if report.refused else 0


def _bundle(arguments: Namespace, output: Output, context: Context) -> int:
    """Write a bundle, or verify one."""
    from wheelfit.cli.render.locks import show_bundle, show_verified
    from wheelfit.errors import UsageError
    from wheelfit.operations.bundle import BundleRequest, VerifyRequest, bundle, verify

    if arguments.verify:
        if arguments.output or arguments.hosts or arguments.lock != "pylock.toml":
            raise UsageError(
                "--verify checks a bundle, and takes no lock and neither -o nor --for",
                hint="name the bundle alone: `wheelfit bundle --verify DIR`",
            )
        return show_report(
            verify(request_of(VerifyRequest, arguments), context), output, show_verified
        )
    if not arguments.output:
        raise UsageError("no folder was given for the bundle", hint="give -o DIR")
    return show_report(bundle(request_of(BundleRequest, arguments), context), output, show_bundle)


def _export(arguments: Namespace, output: Output, context: Context) -> int:
    """Write an export for each machine."""
    from wheelfit.operations.export import ExportRequest, export, several_machines_error

    request = request_of(ExportRequest, arguments)
    if len(request.hosts) > 1 and request.output is None and not output.json:
        raise several_machines_error(None)
    report = export(request, context)
    for machine_export in report.exports:
        if machine_export.path is not None:
            output.remark(f"{machine_export.contents.target.name}: {machine_export.path}")
    output.result_json(report.to_json())
    for machine_export in report.exports:
        if machine_export.path is None:
            for line in machine_export.text.removesuffix("\n").split("\n"):
                output.result(line)
    return 0


COMMANDS = {
    "install": Command(
        """\
Install packages, each in the build that fits the machine.

Installed packages that satisfy the requirements stay. Everything is checked before the environment
changes; if anything fails, it is as before.
""",
        (
            REQUIREMENTS,
            DEPENDENCY_GROUPS,
            INSTALLATION,
            BOUNDS,
            SOURCE_BUILDS,
            *INSTALLING,
            PIP_HABITS,
        ),
        Operation("install.install", "changes.show_change"),
    ),
    "lock": Command(
        """\
Write a lock: versions and files for every machine, from which each takes its own wheels.

The lock is for the version of Python of this machine, unless you name others. With --for it is for
the named machines, with their wheels and no others.

Versions of an existing lock stay while they satisfy the requirements; --upgrade ignores them.
""",
        (
            REQUIREMENTS,
            PROJECT,
            LOCKING,
            SOURCE_BUILDS,
            INTERPRETER,
            SOURCES,
            UPLOADS,
            MACHINES,
            VARIANTS,
        ),
        Operation("lock.lock", "locks.show_lock"),
    ),
    "sync": Command(
        """\
Make an environment equal to a lock, each package in the build that fits the machine.

Nothing is resolved and no index is asked: only the files that the lock names are fetched, and each
must have the hash in the lock. Source distributions are built if --allow-source allows it. Of each
package the best listed build for this machine, or that of --for, is installed; an installed build
that is listed and fits stays. Packages that the lock does not name are removed, except pip,
setuptools, wheel, wheelfit with its dependencies, and editable ones.
""",
        (
            LOCK_FILE,
            SYNC,
            BOUNDS,
            LOCKED_BUILDS,
            *INSTALLING,
        ),
        Operation("sync.sync", "changes.show_change"),
    ),
    "uninstall": Command(
        "Remove packages from an environment; their dependencies stay.",
        (UNINSTALL, ENVIRONMENT),
        Operation("uninstall.uninstall", "changes.show_uninstalled"),
    ),
    "venv": Command(
        "Create a virtual environment to install into.",
        (VENV,),
        Operation("venv.create_venv", "changes.show_created"),
    ),
    "recover": Command(
        """\
Repair an environment after an interrupted change, as by a power cut.

Every command that changes an environment does so first; this one does nothing else. A committed
change is finished, any other is undone. It also runs if dependencies of wheelfit are broken or
missing, as that change may have broken them.
""",
        (RECOVER, ENVIRONMENT),
        Operation("recover.recover", "changes.show_recovered"),
    ),
    "list": Command(
        """\
List the installed packages of an environment, with the label of each variant.

With --outdated the configured indexes are asked which packages have a newer release that this
machine and its Python can have. Pre-releases count with --pre only, yanked releases never.
""",
        (LIST, ENVIRONMENT, SOURCES, UPLOADS, MACHINE, VARIANTS),
        _list,
    ),
    "download": Command(
        """\
Download the wheels for a machine into a folder from which they can be installed.

They are resolved as for an empty environment: for this machine, for those of --for, or for
platforms and Pythons. Each file has the hash on its index, and all of them appear in the folder at
once. The documents of variants are downloaded too, so that the folder offers the same builds:
`wheelfit install --no-index --find-links DIR`.
""",
        (
            REQUIREMENTS,
            DEPENDENCY_GROUPS,
            DOWNLOAD,
            BOUNDS,
            SOURCE_BUILDS,
            INTERPRETER,
            SOURCES,
            UPLOADS,
            MACHINES,
            VARIANTS,
        ),
        Operation("download.download", "downloads.show_downloaded"),
    ),
    "show": Command(
        """\
Show metadata and location of installed packages, what they require, and what requires them.

For a variant, also show what it needs of a machine, its wheel, the machine that it was chosen for,
and whether it fits this one. `wheelfit wheel show` does so for wheel files.
""",
        (SHOW, ENVIRONMENT, MACHINE),
        Operation("show.show", "installed.show_details"),
    ),
    "why": Command(
        """\
Show why a package is installed: the requirements that lead to it, from what was asked for.

Each line is a chain; the shortest come first. For a lock, see `wheelfit tree --invert NAME`.
""",
        (WHY, ENVIRONMENT),
        Operation("why.why", "installed.show_why"),
    ),
    "freeze": Command(
        """\
Print installed packages as requirements, from which `wheelfit install -r` can reinstall them.

The label of a variant stands in a comment that wheelfit reads and other installers skip. A package
from a URL or a repository has that as its requirement, with hash or commit.
""",
        (FREEZE, ENVIRONMENT),
        Operation("freeze.freeze", "installed.show_frozen"),
    ),
    "explain": Command(
        """\
Show which wheel would be chosen, and why not the others.

Each named project is examined by itself: the newest release that fits the requirement and has a
wheel that fits the machine. With --with-deps everything is resolved together, as for an empty
environment, and every package that has variants is explained.

With --all no machine decides: every label of the newest release that fits the requirement is shown,
with what it needs of a machine, its wheels, and the presets and your own host files that get it.
""",
        (
            REQUIREMENTS,
            DEPENDENCY_GROUPS,
            EXPLAIN,
            BOUNDS_WITHOUT_DOWNLOADS,
            SOURCE_BUILDS,
            ENVIRONMENT,
            SOURCES,
            UPLOADS,
            MACHINE,
            VARIANTS,
        ),
        _explain,
    ),
    "tree": Command(
        """\
Show the dependency tree of a lock: for every machine, or for one.

Without --for and --here it is the tree of all machines together, with the labels, markers, extras
and groups on which packages depend. With them it is exactly what that machine gets, and why. A
package that several others need is expanded once; further down it is marked (above).
""",
        (LOCK_FILE, TREE, ENVIRONMENT, SOURCES, MACHINE, VARIANTS),
        Operation("tree.tree", "trees.show_tree"),
    ),
    "bundle": Command(
        """\
Make a folder from a lock that installs with no network.

It has exactly the wheels that the machines named with --for need, each once, with a lock, an index
and the host files. It is verified before it gets its name, so a bundle that exists is complete.
`--verify DIR` checks an existing bundle for missing, changed and extra files.
""",
        (LOCK_FILE, BUNDLE, INTERPRETER, SOURCES, MACHINES, BOUNDS, VARIANTS),
        _bundle,
    ),
    "export": Command(
        """\
Export the packages of a lock for a machine: as requirements, bill of materials or list of licences.

Each machine has an export of its own; several --for write several files, never one for all. Without
--for it is this machine, which the export notes. FORMAT is `requirements` (with hashes, for pip and
uv), `cyclonedx` (CycloneDX 1.6 in JSON) or `licenses` (a table; with --json as data).
""",
        (LOCK_FILE, EXPORT, ENVIRONMENT, SOURCES, MACHINES, VARIANTS),
        _export,
    ),
}
