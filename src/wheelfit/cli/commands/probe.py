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
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (PROBE, MACHINE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Probe the machine, and show or write what it supports."""
    from wheelfit.cli.render.probe import show_host_file, show_probe
    from wheelfit.cli.requests import request_of
    from wheelfit.errors import UsageError
    from wheelfit.operations.context import Context
    from wheelfit.operations.probe import ProbeRequest, probe

    if arguments.output == "-" and arguments.json:
        raise UsageError(
            "-o - and --json cannot both have standard output", hint="name a file after -o"
        )
    if arguments.output and arguments.replay:
        raise UsageError(
            "a record does not hold the interpreter that -o writes down",
            hint="have probe -o run on the recorded machine",
        )
    report = probe(request_of(ProbeRequest, arguments), Context(environ, output))
    if arguments.output == "-":
        show_host_file(report, output)
        return 0
    if arguments.output:
        from wheelfit.operations.files import write_atomically

        # Before anything is printed: one object, and it is the error if there is one.
        write_atomically(arguments.output, report.host_file().encode())
    show_probe(report, output)
    if arguments.output:
        output.say(
            f"wrote {arguments.output}; use it anywhere: wheelfit install --for "
            f"{arguments.output} …"
        )
    return 0
