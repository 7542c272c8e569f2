"""Commands about machines, and the providers that detect supported values."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wheelfit.cli.command import Command, Operation, request_of, show_report
from wheelfit.cli.options.table.checking import DOCTOR
from wheelfit.cli.options.table.environment import ATTESTATIONS, ENVIRONMENT
from wheelfit.cli.options.table.hardware import (
    BRIDGES,
    CHECKED_BRIDGES,
    COMPARED_HOSTS,
    FAMILY_DATA,
    HOST,
    LISTED_HOSTS,
    LISTED_PROVIDERS,
    NAMESPACES,
    NEW_HOST,
    PROBE,
    PROVIDER,
    TRUST,
    UNTRUSTED,
    UPDATED_BRIDGES,
)
from wheelfit.cli.options.table.machine import MACHINE, PROVIDER_SETTINGS
from wheelfit.cli.options.table.sources import SOURCES, SOURCES_EXAMINED, UPLOADS
from wheelfit.cli.options.table.variants import AGREEMENT_SETTINGS

if TYPE_CHECKING:
    from argparse import Namespace

    from wheelfit.cli.output import Output
    from wheelfit.operations.context import Context
    from wheelfit.operations.trust import TrustPlan


EXIT_CODES = {"machine": 11, "settings": 12, "packages": 13, "process": 14}
"""The exit code of `doctor` for a fault in each area; with several, the first one is used."""
DIFFERENT = 30
"""The exit code of ``host diff --exit-code`` for machines that differ."""


def _probe(arguments: Namespace, output: Output, context: Context) -> int:
    """Probe the machine, and show or write the supported values."""
    from wheelfit.cli.render.machines import show_host_file, show_probe
    from wheelfit.errors import UsageError
    from wheelfit.operations.probe import ProbeRequest, probe

    _check_stdout(arguments)
    if arguments.output and arguments.replay:
        raise UsageError(
            "a record has no interpreter, which -o needs",
            hint="run `wheelfit probe -o FILE` on the recorded machine",
        )
    report = probe(request_of(ProbeRequest, arguments), context)
    if arguments.output == "-":
        show_host_file(report, output)
        return 0
    if arguments.output:
        from wheelfit.operations.files import write_atomically

        # Written before anything is printed, so that with --json an error is the only object.
        write_atomically(arguments.output, report.host_file().encode())
    show_report(report, output, show_probe)
    if arguments.output:
        output.remark(
            f"wrote {arguments.output}; use it anywhere: "
            f"`wheelfit install --for {arguments.output} …`"
        )
    return 0


def _check_stdout(arguments: Namespace) -> None:
    if arguments.output == "-" and arguments.json:
        from wheelfit.errors import UsageError

        raise UsageError(
            "-o - and --json cannot both have standard output", hint="name a file after -o"
        )


def _list_hosts(arguments: Namespace, output: Output, context: Context) -> int:
    from wheelfit.cli.render.machines import show_host_list
    from wheelfit.operations.host_descriptions import list_hosts

    return show_report(
        list_hosts(arguments.names, context), output, show_host_list, names=arguments.names
    )


def _show_host(arguments: Namespace, output: Output, context: Context) -> int:
    from wheelfit.cli.render.machines import show_host_report
    from wheelfit.errors import UsageError
    from wheelfit.operations.host_descriptions import format_host, show_host

    if arguments.form and arguments.json:
        raise UsageError("--format and --json cannot both have standard output")
    report = show_host(arguments.host, context)
    if arguments.form:
        output.result(format_host(report, arguments.form, context))
    else:
        show_report(report, output, show_host_report)
    return 0


def _compare_hosts(arguments: Namespace, output: Output, context: Context) -> int:
    """Show the differences; return 30 with ``--exit-code`` if there are any."""
    from wheelfit.cli.render.machines import show_comparison
    from wheelfit.operations.host_descriptions import compare_hosts

    comparison = compare_hosts(arguments.host, arguments.other, context)
    show_report(comparison, output, show_comparison)
    return DIFFERENT if comparison.differences and arguments.exit_code else 0


def _new_host(arguments: Namespace, output: Output, context: Context) -> int:
    """Write or print the host file of a machine."""
    from wheelfit.cli.render.machines import show_new_host
    from wheelfit.errors import UsageError
    from wheelfit.operations.host_descriptions import NewHostRequest, describe_host, write_host
    from wheelfit.operations.hosts import host_text

    if bool(arguments.output) == bool(arguments.save):
        raise UsageError("`wheelfit host new` needs either -o FILE or --save NAME")
    _check_stdout(arguments)
    request = request_of(NewHostRequest, arguments)
    if arguments.output == "-":
        output.result(host_text(describe_host(request, context).file).rstrip("\n"))
    else:
        show_report(write_host(request, context), output, show_new_host)
    return 0


def _show_provider(arguments: Namespace, output: Output, context: Context) -> int:
    from wheelfit.cli.render.providers import show_provider_facts
    from wheelfit.operations.providers import ProvidersRequest, show_provider

    request = request_of(ProvidersRequest, arguments)
    facts = show_provider(arguments.name, request, context)
    output.result_json(facts)
    show_provider_facts(facts, output)
    return 0


def _trust(arguments: Namespace, output: Output, context: Context) -> int:
    """Trust a plugin with the user's consent."""
    from wheelfit.cli.render.providers import show_trust
    from wheelfit.operations.trust import TrustRequest, trust

    consent = _consent_given if arguments.yes else partial(_ask_consent, output)
    report = trust(request_of(TrustRequest, arguments), context, consent)
    return show_report(report, output, show_trust, with_plan=arguments.yes)


def _consent_given(plan: TrustPlan) -> None:
    """Consent to any plan."""


def _ask_consent(output: Output, plan: TrustPlan) -> None:
    """Show the plan, and request the consent of the user.

    :raises PolicyRefusal: ``no-consent``; the user does not consent, or there is no terminal.
    """
    import sys

    from wheelfit.cli.render.providers import plan_lines
    from wheelfit_runtime.errors import PolicyRefusal

    package, lines = plan.entry.package, plan_lines(plan)
    if output.json or sys.stdin is None or not sys.stdin.isatty():
        raise PolicyRefusal(
            f"trusting needs your consent, and there is no terminal to ask for it: {package}",
            code="no-consent",
            note="\n".join(lines),
            hint="nothing was installed, run or written; if you agree, give --yes",
        )
    screen = output.with_options(verbosity=max(output.verbosity, 0))  # even with --quiet
    for line in lines:
        screen.remark(line)
    screen.remark(
        "Code in these files will run on this machine, confined as far as the system can."
    )
    sys.stderr.write("Trust exactly these files? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise PolicyRefusal(
            f"you did not agree to trust {package}",
            code="no-consent",
            note="nothing was installed, run or written",
        )


def _switch(arguments: Namespace, output: Output, context: Context, *, on: bool) -> int:
    """Switch providers on or off."""
    from wheelfit.cli.render.providers import show_switch
    from wheelfit.operations.trust import SwitchRequest, switch_providers

    request = request_of(SwitchRequest, arguments, on=on)
    return show_report(switch_providers(request, context), output, show_switch)


def _check_bridges(arguments: Namespace, output: Output, context: Context) -> int:
    from wheelfit.cli.render.providers import show_bridge_checks
    from wheelfit.operations.bridge_checks import CheckBridgesRequest, check_bridges

    report = check_bridges(request_of(CheckBridgesRequest, arguments), context)
    show_report(report, output, show_bridge_checks)
    return 1 if report.has_faults else 0


def _doctor(arguments: Namespace, output: Output, context: Context) -> int:
    """Diagnose, show the findings, and return the exit code of the first area with a fault."""
    from wheelfit.cli.render.diagnosis import show_diagnosis
    from wheelfit.operations.doctor import DoctorRequest, diagnose

    report = diagnose(request_of(DoctorRequest, arguments), context)
    show_report(report, output, show_diagnosis)
    areas = report.faulty_areas(strict=arguments.strict)
    return min((EXIT_CODES[area] for area in areas), default=0)


_HOST_HELP = """\
HOST is a host file, the name of one of your own, a preset as cuda-12.8-sm90+cpu-x86_64-v3, or
`this` for this machine. What `conda info --json` prints is a host file too, and pixi.toml#NAME is
the platform of that name.
"""

COMMANDS = {
    "probe": Command(
        """\
Show what a machine supports, from which evidence, most preferred first.

`-o FILE` also writes a host file, which `--for` accepts on any other machine. `-o -` prints that
file, and nothing else, to standard output.

`--record DIR` records every file read and every answer of a driver, for a bug report. It leaves out
serial numbers, identifiers, variables that do not concern detection, and the names of hosts, users
and folders. `--replay DIR` shows the result for such a record.

Drivers are always queried again; the commands that choose packages use the cached answers.
""",
        (PROBE, MACHINE),
        _probe,
    ),
    "host": Command(
        "List, show, compare and write descriptions of machines, which `--for` takes.",
        subcommands={
            "list": Command(
                "List your own host files, and the parts of presets.",
                (LISTED_HOSTS,),
                _list_hosts,
            ),
            "show": Command(
                f"Show the description of a machine.\n\n{_HOST_HELP}",
                (HOST,),
                _show_host,
            ),
            "diff": Command(
                f"Show what differs between two machines.\n\n{_HOST_HELP}",
                (COMPARED_HOSTS,),
                _compare_hosts,
            ),
            "new": Command(
                "Write a host file for a machine that cannot be probed.",
                (NEW_HOST,),
                _new_host,
            ),
        },
    ),
    "providers": Command(
        """\
List providers, and decide which plugins may be installed and run.

Nothing is trusted by default, and `trust` installs and runs nothing.
""",
        subcommands={
            "list": Command(
                "Show known providers and trusted plugins.",
                (LISTED_PROVIDERS, PROVIDER_SETTINGS),
                Operation("providers.list_providers", "providers.show_provider_list"),
            ),
            "show": Command(
                "Show everything about one namespace or one package.",
                (PROVIDER, LISTED_PROVIDERS, PROVIDER_SETTINGS),
                _show_provider,
            ),
            "trust": Command(
                """\
Look up a plugin, show its files, and trust exactly those.

Nothing is installed or run.
""",
                (TRUST, SOURCES, UPLOADS, PROVIDER_SETTINGS),
                _trust,
            ),
            "untrust": Command(
                "Revoke trust in plugins, and remove their environments.",
                (UNTRUSTED,),
                Operation("trust.untrust", "providers.show_untrust"),
            ),
            "enable": Command(
                "Enable optional or disabled providers.",
                (NAMESPACES, PROVIDER_SETTINGS),
                partial(_switch, on=True),
            ),
            "disable": Command(
                "Treat namespaces as unsupported.",
                (NAMESPACES, PROVIDER_SETTINGS),
                partial(_switch, on=False),
            ),
        },
    ),
    "bridges": Command(
        "List the families of distributions that can be presented as variants, with their rules.",
        subcommands={
            "list": Command(
                "Show every known family.",
                (FAMILY_DATA,),
                Operation("bridges.show_bridges", "providers.show_bridge_table"),
            ),
            "show": Command(
                """\
Show the members of families, best first, with what a machine must support.

FAMILY is a name, or the path of a FAMILY.toml of your own; showing it checks the file too.
""",
                (BRIDGES, FAMILY_DATA),
                Operation("bridges.show_bridges", "providers.show_bridge_members"),
            ),
            "update": Command(
                """\
Fetch newer families than this wheelfit has, from your index.

They are the files in the newest wheel of wheelfit-families, which contains nothing else: it is
verified and read, not installed, and nothing in it is run. Attestations are verified where the
index has them and wheelfit[attestations] is installed; later updates must have the same signer.

An update alone sends requests to no new host. If an updated family names new hosts, indexes or
packages, the shipped version stays in use until you give --bridge.
""",
                (UPDATED_BRIDGES, SOURCES, ATTESTATIONS),
                Operation("bridges.update_bridges", "providers.show_bridge_update"),
            ),
            "check": Command(
                """\
Compare families with the registry and the indexes of their members.

Every member must exist, have releases to which its rule applies and the extras that the family
names, and need the CUDA of its rule; members with the same files must be declared so. In a family
of indexes, every build needs a member, every member needs a build, and all files must be on hosts
that the family names. Only pages, metadata and directories of wheels are read.

The exit code is 1 if a family differs from the indexes.
""",
                (CHECKED_BRIDGES, SOURCES),
                _check_bridges,
            ),
        },
    ),
    "doctor": Command(
        """\
Diagnose the machine and the environment, with remedies.

Examines the machine with all its probes, environment variables and tools, and all installed
packages: whether they fit the machine and each other. --runtime examines a running process instead.
No installed package is imported, and without --repair nothing is changed and no network is used.
The report can be sent to others: it has no host names, serial numbers or credentials.

It reports packages that wheelfit itself depends on and that are missing, damaged or of an
unsuitable version; --repair installs them.
""",
        (DOCTOR, ENVIRONMENT, MACHINE, AGREEMENT_SETTINGS, SOURCES_EXAMINED),
        _doctor,
    ),
}
