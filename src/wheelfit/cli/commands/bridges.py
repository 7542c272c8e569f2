"""See which families of distributions can be presented as variants, and by what rule.

ACTION is one of

  list         every family that wheelfit knows (the default)
  show FAMILY  its members, best first, with what a machine must support

FAMILY is a name, or the path of a FAMILY.toml of your own, which is checked that way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.hardware import BRIDGES
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.core.bridges import Family

_ACTIONS = ("list", "show")


OPTIONS = (BRIDGES,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Do what ACTION says."""
    from wheelfit.cli.columns import columns
    from wheelfit.errors import UsageError
    from wheelfit.sources.bridges.shelf import find_family, shipped, shipped_names

    del environ
    check_action(arguments.action, _ACTIONS)
    if arguments.action == "show":
        if not arguments.names:
            raise UsageError("show needs a family", hint="wheelfit bridges list names them")
        families = [find_family(name) for name in arguments.names]
        output.result_json({"version": 1, "families": [_mapping(one) for one in families]})
        for place, family in enumerate(families):
            if place:
                output.result("")
            _print(family, output)
        return 0
    if arguments.names:
        raise UsageError("list takes no family", hint="wheelfit bridges show FAMILY")
    found = [one for name in shipped_names() if (one := shipped(name)) is not None]
    output.result_json({"version": 1, "families": [_mapping(one) for one in found]})
    rows = [
        (
            one.name,
            "always" if one.by_default else f"with --bridge {one.name}",
            ", ".join(one.projects if one.is_of_indexes else one.distributions),
        )
        for one in found
    ]
    for line in columns(("family", "counts", "members"), rows):
        output.result(line)
    return 0


def _print(family: Family, output: Output) -> None:
    output.result(family.name, "strong")
    counts = "always, unless --no-bridges is given" if family.by_default else ""
    output.result(f"  counts      {counts or f'with --bridge {family.name}'}")
    for member in family.members:
        name = f"{member.distribution} in {member.index}" if member.index else member.distribution
        releases = f", releases {member.versions}" if str(member.versions) else ""
        output.result(f"  member      {name}{releases}: {member.condition}")
    if family.is_of_indexes:
        output.result(f"  projects    {', '.join(family.projects)}")
        output.result(f"  indexes at  {family.base}")
    if family.extras:
        output.result(f"  extras      {', '.join(family.extras)}")
    if family.no_fit:
        output.result(f"  otherwise   {family.no_fit}")
    output.result(f"  because     {family.says}")
    output.result(f"              ({family.source}; compared {family.checked})")


def _mapping(family: Family) -> dict[str, object]:
    return {
        "name": family.name,
        "projects": list(family.projects),
        "by_default": family.by_default,
        "exclusive": family.exclusive,
        "members": [
            {
                "distribution": member.distribution,
                "label": member.label,
                "properties": [str(item) for item in member.when],
                "versions": str(member.versions),
                "index": member.index or None,
            }
            for member in family.members
        ],
        "extras": list(family.extras),
        "no_fit": family.no_fit,
        "says": family.says,
        "source": family.source,
        "checked": family.checked.isoformat(),
    }
