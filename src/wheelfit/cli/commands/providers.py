"""See who says what a machine supports, and decide which plugins may be installed and run.

ACTION is one of

  list               known providers and trusted plugins (the default)
  show NAME          everything about one namespace or one package
  trust REQUIREMENT  look up a plugin, show its files, trust exactly those
  untrust PACKAGE    take that back, and remove where it was installed
  enable NAMESPACE   use an optional provider; switch on what was switched off
  disable NAMESPACE  treat a namespace as unsupported

Nothing is trusted by default, and nothing is installed or run by `trust` unless --try is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.hardware import PROVIDERS, TRUST
from wheelfit.cli.options.table.machine import PROVIDER_SETTINGS
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

_ACTIONS = ("list", "show", "trust", "untrust", "enable", "disable")


OPTIONS = (PROVIDERS, TRUST, SOURCES, PROVIDER_SETTINGS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Do what ACTION says."""
    from wheelfit.errors import UsageError

    action = arguments.action
    check_action(action, _ACTIONS)
    if action == "list":
        if arguments.names:
            raise UsageError("list takes no name", hint="wheelfit providers show NAME")
        return _list(arguments, output, environ)
    if not arguments.names:
        raise UsageError(f"{action} needs a name", hint="wheelfit providers --help")
    if action == "show":
        return _show(arguments, output, environ)
    from wheelfit.cli import trusting

    if action == "trust":
        return trusting.trust(arguments, output, environ)
    if action == "untrust":
        return trusting.untrust(arguments, output, environ)
    return trusting.switch(arguments, output, environ)


def _list(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    from wheelfit.cli.provider_listing import KnownProviders, print_list

    known = KnownProviders.read(arguments, environ, output)
    output.result_json(known.to_mapping())
    print_list(known, output)
    return 0


def _show(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    from wheelfit.cli.provider_listing import KnownProviders, print_one
    from wheelfit.errors import UsageError, UserError

    if len(arguments.names) > 1:
        raise UsageError("show takes one name")
    known = KnownProviders.read(arguments, environ, output)
    about = known.about(arguments.names[0])
    if about is None:
        raise UserError(
            f"nothing is known of {arguments.names[0]!r}",
            hint="wheelfit providers list names every provider that is known",
        )
    output.result_json(about)
    print_one(about, known, output)
    return 0
