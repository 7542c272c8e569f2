"""Families of distributions, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.text import columns

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.core.bridges import Family
    from wheelfit.operations.bridges import BridgesReport


def show_bridge_table(report: BridgesReport, output: Output) -> None:
    """Print families, one a line."""
    output.result_json(report.to_json())
    rows = [
        (
            one.name,
            "always" if one.by_default else f"with --bridge {one.name}",
            ", ".join(one.projects if one.is_of_indexes else one.distributions),
        )
        for one in report.families
    ]
    for line in columns(("family", "counts", "members"), rows):
        output.result(line)


def show_bridge_members(report: BridgesReport, output: Output) -> None:
    """Print families with all their members."""
    output.result_json(report.to_json())
    for place, family in enumerate(report.families):
        if place:
            output.result("")
        _show_family(family, output)


def _show_family(family: Family, output: Output) -> None:
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
