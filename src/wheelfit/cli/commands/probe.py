"""Show what a machine supports, from which evidence, most preferred first.

`-o FILE` also writes it down: the host file that `--for` takes on any other machine. `-o -` prints
that file, and nothing else, to standard output.

`--record DIR` keeps everything that was looked at, and what drivers answered, for a bug report:
serial numbers, identifiers and names of hosts, users and folders are taken out, and other variables
than those that concern detection are left out. `--replay DIR` shows what such a record says.

Drivers are always asked anew; what they answer is remembered for the commands that choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.hardware import PROBE
from wheelfit.cli.options.table.machine import MACHINE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.core.provider_steps import Plugins
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.platforms.features import Detection


OPTIONS = (PROBE, MACHINE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Probe the machine."""
    from wheelfit.cli.detections import detection_mapping, print_detections, warn_of_detection
    from wheelfit.errors import UsageError
    from wheelfit.install.environment import open_environment
    from wheelfit.operations.files import write_atomically
    from wheelfit.operations.machine import choose_machine
    from wheelfit.operations.plugins import plugins_by_themselves

    printed = arguments.output == "-"
    if printed and arguments.json:
        raise UsageError(
            "-o - and --json cannot both have standard output", hint="name a file after -o"
        )
    if arguments.record or arguments.replay:
        from wheelfit.cli.records import check_options, open_record, write_record

        check_options(arguments)
    environment = open_environment(arguments.python, environ=environ)
    machine = choose_machine(arguments, environment.target(), environ, output, recall=False)
    record = None
    if arguments.replay:
        machine, record = open_record(arguments.replay, machine)
    named = (entry.namespace for entry in machine.plugin_rules.entries)
    asked = arguments.namespaces or [*machine.namespaces, *filter(None, named)]
    rules, variables = machine.plugin_rules, machine.environ
    with plugins_by_themselves(rules, environment, arguments, variables, output) as plugins:
        detections = _detect(asked, machine, plugins)
    if printed:
        for detection in detections:
            warn_of_detection(detection, output)
        output.result(_host_file(detections, machine).rstrip("\n"))
        return 0
    if arguments.output:
        # Before anything is printed: one object, and it is the error if there is one.
        write_atomically(arguments.output, _host_file(detections, machine).encode())
    if arguments.record:
        record = write_record(arguments.record, machine)
    output.result_json(
        {
            "version": 1,
            "machine": machine.name,
            **machine.to_mapping(),
            "record": None if record is None else record.to_mapping(),
            "namespaces": {
                one.namespace: {
                    **detection_mapping(one),
                    "plugin": None if one.plugin is None else one.plugin.to_mapping(),
                }
                for one in detections
            },
        }
    )
    output.result(_headline(machine), "strong")
    print_detections(detections, output)
    if arguments.output:
        output.say(
            f"wrote {arguments.output}; use it anywhere: wheelfit install --for "
            f"{arguments.output} …"
        )
    if record is not None:
        record.tell(output)
    return 0


def _headline(machine: ChosenMachine) -> str:
    if machine.words:
        return f"{machine.name}: {machine.words}"
    values = machine.target.environment
    return (
        f"{machine.name}: {values['implementation_name']} {machine.target.python_full_version}"
        f" on {values['platform_system']} {values['platform_machine']}"
    )


def _detect(namespaces: Iterable[str], machine: ChosenMachine, plugins: Plugins) -> list[Detection]:
    from wheelfit.core.properties import parse_namespace
    from wheelfit.platforms.features import Detection

    found = []
    for text in dict.fromkeys(namespaces):
        namespace = parse_namespace(text)
        found.append(
            machine.switched_off(namespace)
            or machine.detect(namespace)
            or _ask_plugin(namespace, machine, plugins)
            or Detection(namespace, source="no provider that wheelfit may ask")
        )
    return found


def _ask_plugin(namespace: str, machine: ChosenMachine, plugins: Plugins) -> Detection | None:
    """Return what the plugin says that is trusted for a namespace; None when none is."""
    from wheelfit.platforms.features import Detection

    question = machine.plugin_rules.question(namespace)
    if question is None:
        return None
    refusal = plugins.refusal(question)
    if refusal is not None:
        return Detection(namespace, source=refusal, step="not-trusted")
    return plugins.ask(question)


def _host_file(detections: Sequence[Detection], machine: ChosenMachine) -> str:
    from wheelfit import __version__
    from wheelfit.core.host_file import HostFile
    from wheelfit.operations.hosts import host_text
    from wheelfit.platforms.scrubbing import Scrubber
    from wheelfit.platforms.surroundings import Surroundings

    host = machine.host
    # What was written down on another machine was scrubbed there.
    scrubber = Scrubber.of(Surroundings(environ=machine.environ))
    file = HostFile.from_detections(
        detections,
        machine.target,
        created_by=f"wheelfit {__version__}",
        origin="this machine" if host is None else f"{host.kind} {host.record}",
        overrides=machine.in_effect,
        scrub=scrubber.text,
    )
    return host_text(file)
