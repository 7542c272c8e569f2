"""Show what a machine supports, from which evidence, most preferred first.

`-o FILE` also writes it down: the host file that `--for` takes on any other machine. `-o -` prints
that file, and nothing else, to standard output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options import add_machine, given

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.cli.machine import ChosenMachine
    from wheelfit.cli.output import Output, Style
    from wheelfit.platforms.features import Detection

_SHOWN = 6
"""How many values of a long list are shown without ``--verbose``."""
_WIDTH = 72
"""How many characters of a piece of evidence are shown without ``--verbose``."""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "namespaces", nargs="*", metavar="NAMESPACE", help="look at these only (default: all)"
    )
    parser.add_argument(
        "-o", "--output", type=given, metavar="FILE", help="write a host file; -: print it"
    )
    parser.add_argument(
        "--python",
        type=given,
        metavar="PYTHON",
        help="the interpreter to write into the host file (default: the active one)",
    )
    add_machine(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Probe the machine."""
    from wheelfit.cli.files import write_atomically
    from wheelfit.cli.machine import choose_machine
    from wheelfit.errors import UsageError
    from wheelfit.install.environment import open_environment

    printed = arguments.output == "-"
    if printed and arguments.json:
        raise UsageError(
            "-o - and --json cannot both have standard output", hint="name a file after -o"
        )
    target = open_environment(arguments.python, environ=environ).target()
    machine = choose_machine(arguments, target, environ, output)
    detections = _detect(arguments.namespaces or machine.namespaces, machine)
    if printed:
        for detection in detections:
            _warn(detection, output)
        output.result(_host_file(detections, machine).rstrip("\n"))
        return 0
    if arguments.output:
        # Before anything is printed: one object, and it is the error if there is one.
        write_atomically(arguments.output, _host_file(detections, machine).encode())
    output.result_json(
        {
            "version": 1,
            "machine": machine.name,
            **machine.to_mapping(),
            "namespaces": {one.namespace: _mapping(one) for one in detections},
        }
    )
    environment = machine.target.environment
    output.result(
        f"{machine.name}: {environment['implementation_name']} {machine.target.python_full_version}"
        f" on {environment['platform_system']} {environment['platform_machine']}",
        "strong",
    )
    for detection in detections:
        _print(detection, output)
    if arguments.output:
        output.say(
            f"wrote {arguments.output}; use it anywhere: wheelfit install --for "
            f"{arguments.output} …"
        )
    return 0


def _detect(namespaces: Iterable[str], machine: ChosenMachine) -> list[Detection]:
    from wheelfit.core.properties import parse_namespace
    from wheelfit.platforms.features import Detection, Status

    found = []
    for text in dict.fromkeys(namespaces):
        namespace = parse_namespace(text)
        if namespace in machine.policy.disabled:
            found.append(Detection(namespace, status=Status.DISABLED, source="--disable-provider"))
            continue
        found.append(
            machine.detect(namespace)
            or Detection(namespace, source="no provider that wheelfit may ask")
        )
    return found


def _mapping(detection: Detection) -> dict[str, object]:
    return {
        "features": [
            {"name": feature.name, "values": list(feature.values)} for feature in detection.features
        ],
        "status": str(detection.status),
        "source": detection.source,
        "evidence": [{"source": one.source, "value": one.value} for one in detection.evidence],
        "warnings": list(detection.warnings),
        "devices": [
            {"device": one.device, "feature": one.feature, "values": sorted(one.values)}
            for one in detection.devices
        ],
    }


def _print(detection: Detection, output: Output) -> None:
    styles: dict[str, Style] = {"supported": "good", "failed": "bad", "disabled": "warning"}
    output.result()
    output.result(
        f"{detection.namespace}: {detection.status}", styles.get(str(detection.status), "dim")
    )
    output.result(f"  decided by  {detection.source}")
    # One feature per CPU flag would fill the screen; together they are one line.
    flags = [feature.name for feature in detection.features if feature.values == ("on",)]
    for feature in detection.features:
        if feature.name not in flags:
            output.result(f"  {feature.name}  {_shortened(feature.values, output)}")
    if flags:
        output.result(f"  on  {_shortened(flags, output)}")
    for device in detection.devices:
        values = _shortened(sorted(device.values), output)
        output.result(f"  {device.device}: {device.feature}  {values}")
    for one in detection.evidence:
        output.result(f"  evidence  {one.source}: {_clipped(one.value, output)}", "dim")
    _warn(detection, output)


def _warn(detection: Detection, output: Output) -> None:
    for warning in detection.warnings:
        output.warn(f"{detection.namespace}: {warning}")


def _shortened(values: Sequence[str], output: Output) -> str:
    if len(values) <= _SHOWN + 2 or output.verbosity > 0:
        return ", ".join(values)
    return f"{', '.join(values[:_SHOWN])}, … {values[-1]} ({len(values)} in all)"


def _clipped(text: str, output: Output) -> str:
    if output.verbosity > 0:
        return text
    first, *rest = text.splitlines() or [""]
    return f"{first[:_WIDTH]} …" if rest or len(first) > _WIDTH else first


def _host_file(detections: Sequence[Detection], machine: ChosenMachine) -> str:
    import tomli_w

    from wheelfit import __version__
    from wheelfit.core.host_file import HostFile
    from wheelfit.core.host_file_mapping import to_mapping
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
    return tomli_w.dumps(to_mapping(file), multiline_strings=False)
