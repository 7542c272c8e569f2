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

from functools import partial
from typing import TYPE_CHECKING

from wheelfit.cli.options.table.hardware import PROVIDERS, TRUST
from wheelfit.cli.options.table.machine import PROVIDER_SETTINGS
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.operations.trust import TrustPlan

_ACTIONS = ("list", "show", "trust", "untrust", "enable", "disable")


OPTIONS = (PROVIDERS, TRUST, SOURCES, PROVIDER_SETTINGS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Show providers, or decide about them."""
    from wheelfit.cli.requests import request_of
    from wheelfit.errors import UsageError
    from wheelfit.operations.context import Context

    action = arguments.action
    check_action(action, _ACTIONS)
    if action == "list" and arguments.names:
        raise UsageError("list takes no name", hint="wheelfit providers show NAME")
    if action != "list" and not arguments.names:
        raise UsageError(f"{action} needs a name", hint="wheelfit providers --help")
    if action == "show" and len(arguments.names) > 1:
        raise UsageError("show takes one name")
    context = Context(environ, output)
    if action in ("list", "show"):
        from wheelfit.cli.render.providers import show_provider_facts, show_provider_list
        from wheelfit.operations.providers import ProvidersRequest, list_providers, show_provider

        known = request_of(ProvidersRequest, arguments)
        if action == "list":
            show_provider_list(list_providers(known, context), output)
        else:
            show_provider_facts(show_provider(arguments.names[0], known, context), output)
        return 0
    from wheelfit.cli.render import trust as render
    from wheelfit.operations import trust

    if action == "trust":
        consent = _consent_given if arguments.yes else partial(_ask_consent, output)
        plugin = request_of(trust.TrustRequest, arguments)
        report = trust.trust(plugin, context, consent)
        render.show_trust(report, output, with_plan=arguments.yes)
    elif action == "untrust":
        packages = request_of(trust.UntrustRequest, arguments)
        render.show_untrust(trust.untrust(packages, context), output)
    else:
        namespaces = request_of(trust.SwitchRequest, arguments, on=action == "enable")
        render.show_switch(trust.switch_providers(namespaces, context), output)
    return 0


def _consent_given(plan: TrustPlan) -> None:
    """Agree to what would be trusted."""


def _ask_consent(output: Output, plan: TrustPlan) -> None:
    """Show what would be trusted, and ask for consent.

    :raises PolicyRefusal: ``no-consent``; the user does not agree, or no terminal is there.
    """
    import sys
    from dataclasses import replace

    from wheelfit.cli.render.trust import plan_lines
    from wheelfit_runtime.errors import PolicyRefusal

    package, lines = plan.entry.package, plan_lines(plan)
    if output.json or sys.stdin is None or not sys.stdin.isatty():
        raise PolicyRefusal(
            f"nobody is there who could agree to trust {package}",
            code="no-consent",
            note="\n".join(lines),
            hint="nothing was installed, run or written; if you agree, give --yes",
        )
    speaker = replace(output, verbosity=max(output.verbosity, 0))  # even with --quiet
    for line in lines:
        speaker.say(line)
    speaker.say("Code in these files will run on this machine, confined as far as the system can.")
    sys.stderr.write("Trust exactly these files? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise PolicyRefusal(
            f"you did not agree to trust {package}",
            code="no-consent",
            note="nothing was installed, run or written",
        )
