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
    from collections.abc import Mapping, Sequence

    from wheelfit.check.findings import Report
    from wheelfit.check.profile import Profile
    from wheelfit.cli.output import Output
    from wheelfit.core.requirements import Requirement


OPTIONS = (CHECK, REPORTING, WORKERS_WITH_THREADS, SOURCES, ENVIRONMENT, MACHINE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Check the targets; the exit code is 9 for faults and 10 if something was left unchecked."""
    from wheelfit.cli.check_report import check_options, deliver, exit_code
    from wheelfit.errors import UsageError

    check_options(arguments)
    if not arguments.targets and not arguments.environment:
        raise UsageError("there is nothing to check", hint="name a TARGET, or --environment")
    report = _check(arguments, output, environ).without(arguments.ignore)
    deliver(report, arguments, output)
    return exit_code(report, strict=arguments.strict)


# --- checking -----------------------------------------------------------------------------


def _check(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> Report:
    from pathlib import Path

    from wheelfit.check.findings import Report
    from wheelfit.check.local import check_paths
    from wheelfit.check.profile import Profile
    from wheelfit.operations.executors import each_wheel
    from wheelfit.operations.targets import named_project

    profiles = frozenset(map(Profile, arguments.profile))
    paths: list[Path] = []
    urls: list[str] = []
    projects: list[Requirement] = []
    for text in arguments.targets:
        if text.startswith(("https://", "http://")):
            urls.append(text)
        elif (project := named_project(text, arguments)) is not None:
            projects.append(project)
        else:
            paths.append(Path(text))
    report = Report()
    if paths:
        with each_wheel(arguments) as each, output.work("checking") as bar:
            report += check_paths(
                paths,
                full=arguments.full,
                binaries=arguments.binaries or arguments.instructions,
                instructions=arguments.instructions,
                profiles=profiles,
                progress=bar,
                each=each,
            )
    if urls or projects:
        report += _published(arguments, output, environ, urls, projects, profiles)
    if arguments.environment:
        report += _installed(arguments, output, environ)
    return report


def _published(
    arguments: Namespace,
    output: Output,
    environ: Mapping[str, str],
    urls: Sequence[str],
    projects: Sequence[Requirement],
    profiles: frozenset[Profile],
) -> Report:
    from datetime import UTC, datetime

    from wheelfit.check.findings import Report
    from wheelfit.check.remote import check_project, check_url
    from wheelfit.operations.indexes import open_indexes, read_settings

    settings = read_settings(arguments, environ)
    report = Report()
    with open_indexes(arguments, settings, environ, output, urls) as repository:
        for url in urls:
            report += check_url(repository, url, full=arguments.full, profiles=profiles)
        for project in projects:
            with output.work(project.name) as bar:
                report += check_project(
                    repository,
                    project.name,
                    project.specifier,
                    now=datetime.now(UTC),
                    full=arguments.full,
                    profiles=profiles,
                    progress=bar,
                )
    return report


def _installed(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> Report:
    from wheelfit.check.findings import Count, Report, Unchecked
    from wheelfit.check.installed import report_on
    from wheelfit.install.fit import judge
    from wheelfit.operations.environments import open_environment_of
    from wheelfit.operations.machine import choose_machine

    environment = open_environment_of(arguments, environ)
    machine = choose_machine(arguments, environment.target(), environ, output)
    scan = environment.scan()
    broken = [Unchecked(str(one.path), "file-problem", one.reason) for one in scan.broken]
    judged = judge(scan.installed, machine.support)
    return report_on(judged) + Report.of((), broken, Count())
