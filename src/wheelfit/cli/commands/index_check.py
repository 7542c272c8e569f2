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
    from collections.abc import Iterator, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.check.findings import Report
    from wheelfit.check.indexes import Demands
    from wheelfit.check.reach import Machines
    from wheelfit.cli.output import Output
    from wheelfit.core.document import VariantDocument
    from wheelfit.resolve.overview import Onlooker


OPTIONS = (CHECK_INDEX, REPORTING, SOURCES, INTERPRETER)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Check the index; the exit code is 9 for faults and 10 if something was left unchecked."""
    from contextlib import ExitStack

    from wheelfit.check.indexes import Demands
    from wheelfit.check.profile import Profile
    from wheelfit.cli.check_report import check_options, deliver, exit_code
    from wheelfit.cli.whole_index import is_remote
    from wheelfit.operations.indexes import open_indexes, read_settings

    check_options(arguments)
    arguments.targets = [arguments.index]
    with ExitStack() as stack:
        upstream = None
        if arguments.index_url or arguments.extra_index_url or arguments.find_links:
            settings = read_settings(arguments, environ)
            upstream = stack.enter_context(open_indexes(arguments, settings, environ, output))
        demands = Demands(
            _machines(arguments, environ, output),
            upstream,
            frozenset(map(Profile, arguments.profile)),
            full=arguments.full,
        )
        look = _remote if is_remote(arguments.index) else _local
        report = look(arguments, demands, output, environ).without(arguments.ignore)
    deliver(report, arguments, output)
    return exit_code(report, strict=arguments.strict)


def _machines(arguments: Namespace, environ: Mapping[str, str], output: Output) -> Machines:
    """Return what yields the machines that may be asked about a document."""
    from wheelfit.cli.overviews import onlookers
    from wheelfit.operations.environments import open_environment_of

    current = open_environment_of(arguments, environ).target()

    known: dict[str, Onlooker] = {}

    def machines(document: VariantDocument) -> Iterator[Onlooker]:
        return onlookers(document, current, environ, output, known=known)

    return machines


def _local(
    arguments: Namespace, demands: Demands, output: Output, environ: Mapping[str, str]
) -> Report:
    del environ
    from wheelfit.check.indexes import check_index_folder
    from wheelfit.cli.whole_index import existing_folder
    from wheelfit.errors import UsageError

    folder = existing_folder(arguments.index)
    if arguments.only:
        raise UsageError("--project is for an index that has a URL", hint="name its folder instead")
    with output.work("checking") as bar:
        return check_index_folder(folder, demands, progress=bar)


def _remote(
    arguments: Namespace, demands: Demands, output: Output, environ: Mapping[str, str]
) -> Report:
    from datetime import UTC, datetime

    from wheelfit.check import checks
    from wheelfit.check.findings import Count, Place, Report, Unchecked
    from wheelfit.check.indexes import check_index
    from wheelfit.cli.whole_index import open_whole_index
    from wheelfit.errors import ProjectNotFound, UserError
    from wheelfit.sources.urls import redact

    url = arguments.index
    notes: list[str] = []
    with open_whole_index(url, arguments, environ, note=notes.append, refresh=True) as (
        repository,
        listed,
    ):
        names = tuple(map(_name, arguments.only)) if arguments.only else listed()
        # Answers to what is not there differ most, and installers with them.
        repository.project(_name("wheelfit-asks-for-what-is-not-there"))
        for name in names if arguments.only else ():
            if repository.project(name) is None:
                raise ProjectNotFound(f"the index has no project {name}", where=redact(url))
        with output.work("checking") as bar:
            report = check_index(repository, names, demands, now=datetime.now(UTC), progress=bar)
    place = Place(redact(url))
    if report.count == Count() and not report.unchecked:
        # Whoever names the page above the index, or an empty one, is not told that all is well.
        nothing = UserError(
            "there is nothing to check in the index",
            hint="name the URL that installers are given, which often ends with /simple/",
        )
        report += Report.of((), [Unchecked.because(nothing, place.where)], Count())
    strange = [place.found(checks.STRANGE_ANSWER, note) for note in dict.fromkeys(notes)]
    return report + Report.of(strange, (), Count())


def _name(text: str) -> NormalizedName:
    from packaging.utils import canonicalize_name

    return canonicalize_name(text)
