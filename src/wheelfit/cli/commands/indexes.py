"""Commands that publish wheels, and serve them to installers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.command import Command, Operation, request_of, show_report
from wheelfit.cli.options.table.checking import REPORTING
from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.indexes import (
    AUDIT,
    CHECK_INDEX,
    CLEAN,
    CONVERT_INDEX,
    DELETE,
    EXPORT_FOLDER,
    FILES_OF_INDEX,
    GENERATE,
    IMPORT,
    MIRRORS,
    NEW_STAGE,
    NEW_TOKEN,
    PLACE,
    PREFETCH,
    PROJECT_STATUS,
    PUBLISH,
    SERVE,
    SERVER,
    STAGE,
    STORE,
    TOKEN,
    UPLOAD_CHECKS,
    UPLOAD_NETWORK,
    YANK,
)
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.proxying import PROXIED, PROXY, RUN
from wheelfit.cli.options.table.sources import SOURCES, UPLOADS
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from wheelfit.cli.options.option import Option
    from wheelfit.cli.output import Output
    from wheelfit.operations.context import Context


def _publish(arguments: Namespace, output: Output, context: Context) -> int:
    """Check and publish; return 9 for faults, 10 if a target was left unchecked."""
    from wheelfit.cli.render.indexes import publish_exit_code, show_publish
    from wheelfit.operations.publish import PublishRequest, publish

    report = publish(request_of(PublishRequest, arguments), context)
    show_report(report, output, show_publish)
    return publish_exit_code(report, strict=arguments.strict)


def _check_index(arguments: Namespace, output: Output, context: Context) -> int:
    """Check an index; return 9 for faults, 10 if a target was left unchecked."""
    from wheelfit.cli.render.check import check_forms, exit_code, show_check
    from wheelfit.operations.check_index import CheckIndexRequest, check_index

    check_forms(sarif=arguments.sarif, output=output)
    report = check_index(request_of(CheckIndexRequest, arguments), context)
    show_check(report, output, sarif=arguments.sarif, file=arguments.output)
    if not report.full and output.verbosity < 1:  # otherwise users may expect that they were
        output.note("contents were not compared with RECORD and hashes; --full does that")
    return exit_code(report.findings, strict=arguments.strict)


def _serve(arguments: Namespace, output: Output, context: Context) -> int:
    """Serve until the process receives a signal to stop."""
    import sys

    from wheelfit.cli.logged_output import logged_as
    from wheelfit.cli.render.indexes import show_served_index
    from wheelfit.operations.context import Context
    from wheelfit.operations.serve import ServeRequest, serve, server_settings
    from wheelfit_runtime.errors import WheelfitError

    rows = (*STORE.options, *SERVER.options, *MIRRORS.options)
    options = _server_options(arguments, arguments.folder, rows)
    settings = server_settings(ServeRequest(options=options, settings=arguments.settings), context)
    server_output = logged_as(output, settings.log_format)
    try:
        serve(
            settings,
            Context(context.environ, server_output),
            started=lambda index: show_served_index(index, server_output),
            log_to=sys.stderr,
        )
    except WheelfitError as error:
        if arguments.debug:
            server_output.traceback(error)
        server_output.error(error)
        return error.exit_code
    return 0


def _prefetch(arguments: Namespace, output: Output, context: Context) -> int:
    """Fill mirrors; return 3 if a file is in no mirror, 5 if a fetch failed."""
    from wheelfit.cli.render.indexes import show_prefetch
    from wheelfit.operations.prefetch import PrefetchRequest, prefetch

    options = _server_options(arguments, arguments.at, (*STORE.options, *MIRRORS.options))
    request = request_of(PrefetchRequest, arguments).with_options(options=options)
    return show_report(prefetch(request, context), output, show_prefetch)


def _server_options(
    arguments: Namespace, folder: str | None, rows: Iterable[Option]
) -> dict[str, str | None]:
    """Return settings of a server by their keys, as text."""
    options: dict[str, str | None] = {"folder": folder}
    for option in rows:
        value = getattr(arguments, option.destination)
        options[option.key] = " ".join(value) if isinstance(value, list) else value
    return options


def _proxy(arguments: Namespace, output: Output, context: Context) -> int:
    """Serve until interrupted."""
    from wheelfit.cli.render.indexes import show_served_proxy
    from wheelfit.operations.proxy import ProxyRequest, proxy

    request = request_of(ProxyRequest, arguments)
    proxy(request, context, started=lambda report: show_served_proxy(report, output))
    output.remark("stopped", "dim")
    return 0


def _run(arguments: Namespace, output: Output, context: Context) -> int:
    """Run a command, and return its exit code."""
    from wheelfit.errors import UsageError
    from wheelfit.operations.run import RunRequest, run

    if arguments.command and output.json:
        raise UsageError("--json cannot be used here: the output is that of the command")
    return run(request_of(RunRequest, arguments), context)


COMMANDS = {
    "publish": Command(
        """\
Check a release as an index would, and publish it: all of it or nothing.

PATH is a wheel, a source distribution, or a folder of them. --to names where they go: the URL of an
index (of one of wheelfit's own, or any that twine uploads to), a name of .pypirc, or for a static
index its folder or the URL of its object store.

An index of wheelfit's own, and a static one, show all files in one moment. Elsewhere plain wheels
go first, then variants, and the -variants.json last. After an interruption the same command
continues where it stopped. Exit code 9: the files have faults and nothing was sent, or the index
does not list what was sent.
""",
        (PUBLISH, UPLOAD_CHECKS, UPLOAD_NETWORK),
        _publish,
    ),
    "index": Command(
        "Publish wheels as an index.",
        subcommands={
            "generate": Command(
                """\
Make a static index of a folder of wheels; any web server or object store can offer it.

All wheels and source distributions in DIR and the folders in it are listed, in HTML and JSON, with
hashes, sizes, upload times and the metadata of each wheel; for each release with variants its
-variants.json is combined from the wheels. Without --to the pages go into DIR/simple and the
files stay where they are.

FILE.yanked beside a file, or NAME-VERSION.yanked, yanks it for the reason that is written in it;
FILE.provenance is passed on. Invalid files are refused with all reasons, and then nothing is
published unless --keep-going is given.
""",
                (GENERATE,),
                Operation("generate_index.generate_index", "indexes.show_generated_index"),
            ),
            "check": Command(
                """\
Check everything on an index.

All releases of all projects are checked as `wheelfit check` does with one: documents, wheels by a
few ranges of bytes, hashes, metadata. It also finds variants that no machine can use or that always
rank below another one, and pinned versions that neither INDEX nor an index of --index-url has.

INDEX is a URL, or a folder with the pages or the wheels.
""",
                (CHECK_INDEX, REPORTING, SOURCES, INTERPRETER),
                _check_index,
            ),
            "convert": Command(
                """\
Convert an index of an old layout to the current one.

Every -variants.json of SOURCE, in any published layout, is converted to the current one, and new
pages list it beside the same files. Files on this machine are copied; others stay where they are.
Wheels stay unchanged: `wheelfit wheel convert` converts them.
""",
                (CONVERT_INDEX, SOURCES),
                Operation("convert_index.convert_index", "indexes.show_converted_index"),
            ),
            "serve": Command(
                """\
Serve a live index: installers read it, publishing tools upload to it.

DIR contains all its data: a SQLite database and the files. No setup is needed; the first start
creates a token for uploads. Several machines serve one index with the same --database and
--storage.

Every option can be set by a variable, as WHEELFIT_SERVER_PUBLIC_URL, and in a file; options take
precedence. On SIGTERM it finishes requests in progress and stops.
""",
                (SERVE, STORE, SERVER, MIRRORS),
                _serve,
            ),
            "prefetch": Command(
                """\
Fill the mirrors of a live index ahead of time: by requirements, by a lock, or by a family.

Files that the mirrors have are not fetched again, so an interrupted command can be repeated. Every
file is compared with its digest. Afterwards the index serves all of them without the upstreams.
Dependencies are not followed; a lock names them.

Mirrors are described as for `wheelfit index serve`; servers may run meanwhile.
""",
                (PREFETCH, STORE, MIRRORS),
                _prefetch,
            ),
            "token": Command(
                "Create, list and revoke tokens for uploads, or for reading a private index.",
                subcommands={
                    "create": Command(
                        "Create a token, and show it once; it cannot be shown again.",
                        (NEW_TOKEN, PLACE, STORE),
                        Operation("live_index.create_token", "indexes.show_created_token"),
                    ),
                    "list": Command(
                        "List the tokens of an index, with their descriptions.",
                        (PLACE, STORE),
                        Operation("live_index.list_tokens", "indexes.show_tokens"),
                    ),
                    "revoke": Command(
                        "Revoke a token: the index no longer accepts it.",
                        (TOKEN, PLACE, STORE),
                        Operation("live_index.revoke_token", "indexes.show_revoked_token"),
                    ),
                },
            ),
            "stage": Command(
                "Upload a release unpublished, look at it, and publish all of it at once.",
                subcommands={
                    "open": Command(
                        """\
Make a stage, and show where to upload to and which index URL shows it.

--at must name the server: only the server knows the URLs of a stage.
""",
                        (NEW_STAGE, PLACE, STORE),
                        Operation("live_index.open_stage", "indexes.show_opened_stage"),
                    ),
                    "list": Command(
                        "Show the stages that are open.",
                        (PLACE, STORE),
                        Operation("live_index.list_stages", "indexes.show_stages"),
                    ),
                    "publish": Command(
                        """\
Publish all files of a stage in one moment, or none if one has a fault.

Exit code 9: a file has a fault, and the stage is unchanged.
""",
                        (STAGE, PLACE, STORE),
                        Operation("live_index.publish_stage", "indexes.show_files"),
                    ),
                    "drop": Command(
                        "Delete a stage and its files.",
                        (STAGE, PLACE, STORE),
                        Operation("live_index.drop_stage", "indexes.show_dropped_stage"),
                    ),
                },
            ),
            "export": Command(
                """\
Write all of a live index into a folder: a back-up, or half of a move to another store.

Files, owners, digests of tokens, yanks, upload times, names of deleted files and stages. Files that
the folder has from an earlier export are not copied again. The export is of one moment, also while
servers run.
""",
                (EXPORT_FOLDER, PLACE, STORE),
                Operation("live_index.export_live_index", "indexes.show_moved_index"),
            ),
            "import": Command(
                """\
Put an exported index, or the packages of another one, into a store.

SOURCE is the folder of an export, which goes into a new store: any database and storage. Every file
is compared with its digest. Records come last, all or none.

Or it is the URL of an index (PEP 503 or 691), a folder of packages as pypiserver has it, or an
export of devpi. Each file is checked like an upload, and compared with its hashes and metadata at
the source; yanks and times of upload are kept. Exit codes: 9 files were refused, 5 some could not
be read, 3 a project does not exist.

If it is interrupted, run it again: existing files are not fetched again.
""",
                (IMPORT, PLACE, STORE, SOURCES),
                Operation("import_index.import_live_index", "indexes.show_import"),
            ),
            "audit": Command(
                """\
Show the audit log of a live index: changes and refusals with actor, time and address, newest first.

Over a server it needs a token of the operator.
""",
                (AUDIT, PLACE, STORE),
                Operation("live_index.read_audit_log", "indexes.show_audit_log"),
            ),
            "clean": Command(
                """\
Remove unused files from the store of a live index now.

These are deleted files, expired stages and interrupted uploads. A server removes them once a day;
this frees the space at once. Uploads in progress stay, also while servers run. With --settings,
expired releases are removed, too, by the rules of its [[project]] tables.
""",
                (CLEAN, PLACE, STORE),
                Operation("live_index.clean_index", "indexes.show_cleaning"),
            ),
            "yank": Command(
                "Yank files of a live index: installers take them only if they are pinned.",
                (FILES_OF_INDEX, YANK, PLACE, STORE),
                Operation("live_index.yank", "indexes.show_files"),
            ),
            "unyank": Command(
                "Undo the yanking of files of a live index.",
                (FILES_OF_INDEX, PLACE, STORE),
                Operation("live_index.unyank", "indexes.show_files"),
            ),
            "status": Command(
                """\
Set the status of a project of a live index: active, archived, deprecated or quarantined.

Installers show it (PEP 792). Only the operator can start or end a quarantine.
""",
                (PROJECT_STATUS, PLACE, STORE),
                Operation("live_index.set_status", "indexes.show_status"),
            ),
            "delete": Command(
                """\
Delete files of a live index for ever: no file of these names can be uploaded again.

To keep installers from a release, yank it instead: locks that name it still work.
""",
                (FILES_OF_INDEX, DELETE, PLACE, STORE),
                Operation("live_index.delete", "indexes.show_files"),
            ),
        },
    ),
    "proxy": Command(
        """\
Serve an index from which any installer takes the variant that fits.

The proxy stands in front of the indexes that are configured. It lists variants under names that
installers understand, each in the build that fits this machine, or the one that the URL names:
/simple/ is for this machine, /for/cuda-12.8-sm90/simple/ for another one. It runs until it is
interrupted.

By default it serves only projects with variants: give installers its URL besides their usual index.
The path of its URLs begins with WHEELFIT_PROXY_SECRET, if that variable is set.

To listen at an address that other machines reach, it needs the extra `server`.
""",
        (PROXY, PROXIED, INTERPRETER, SOURCES, UPLOADS, MACHINE, VARIANTS),
        _proxy,
    ),
    "run": Command(
        """\
Run a command that installs with pip, uv or pdm, so that they get the variants that fit.

Unlike `uv run` it makes, syncs and activates no environment: the command runs as it would without
wheelfit, except that its installer downloads fitting builds.

A proxy is started on this machine, for this command only, in front of the configured indexes;
variables point pip, uv and pdm to it. Projects with variants come from there, each in the build
that fits; all others come from their usual indexes.

Everything after -- is the command: `wheelfit run -- uv pip install torch`
""",
        (RUN, PROXIED, INTERPRETER, SOURCES, UPLOADS, MACHINE, VARIANTS),
        _run,
    ),
}
