"""Write the table of the shipped families: ``python tests/sources/bridge_table.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wheelfit.core.bridges import BridgeFamily, FamilyMember
from wheelfit.sources.bridges.catalogue import SHIPPED, shipped

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "bridges.md"
HEAD = "## Shipped families\n"


def table() -> str:
    """Return the section of the page about the shipped families."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    families = [family for name in SHIPPED.names() if (family := shipped(name)) is not None]
    distributions = {name for family in families for name in family.distributions}
    yield HEAD
    yield f"{len(families)} families with {len(distributions)} distributions."
    yield "Families in bold are enabled by default."
    yield ""
    yield "| family | members, best first | source |"
    yield "|---|---|---|"
    for family in families:
        name = f"**`{family.name}`**" if family.by_default else f"`{family.name}`"
        members = "<br>".join(_member(family, member) for member in family.members)
        yield f"| {name} | {members} | [{family.checked}]({family.source}) |"


def _member(family: BridgeFamily, member: FamilyMember) -> str:
    kind = "index" if member.index else "page" if member.page else "files in"
    where = f"{kind} `{member.location}`" if member.location else "the registry"
    where = where if family.is_of_indexes else f"`{member.distribution}`"
    releases = f" {member.versions}" if str(member.versions) else ""
    conditions = ", ".join(
        f"`{feature} :: {' or '.join(values)}`" for feature, values in member.when.features()
    )
    return f"{where}{releases}: {conditions or 'any machine'}"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.partition(HEAD)[0] + table(), encoding="utf-8")
