"""The generated tables of the reference pages."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from wheelfit.cli.command import Command
from wheelfit.cli.options.option import Option, OptionGroup, ProjectAccess
from wheelfit.cli.options.values import FLAG, TEXT, TEXTS, OneOf

SCRIPT = Path(__file__).parents[2] / "docs" / "reference" / "write_option_tables.py"
fill_page = runpy.run_path(str(SCRIPT))["fill_page"]
BRUSH = Option("-b, --brush BRUSH", TEXT, "flat|round")
TOOLS = OptionGroup("tools", BRUSH, Option("--wet", FLAG, "with water"), note="default: none")
PAINT = OptionGroup("", Option("COLOUR", OneOf("red", "blue"), "which"))
COMMANDS = {
    "paint": Command("paint a wall", (PAINT, TOOLS)),
    "wood": Command(
        "work on wood",
        subcommands={
            "oil": Command("oil it", (OptionGroup("tools", BRUSH),)),
            "saw": Command("saw it", (OptionGroup("tools", Option("--blade B", TEXT, "which")),)),
        },
    ),
}
SETTINGS = {
    "wet": Option("--wet", FLAG, "with water", project=ProjectAccess.TIGHTEN),
    "names": Option("names", TEXTS, "of walls", project=ProjectAccess.PROJECT_ONLY),
}


def filled(page: str) -> list[str]:
    """Return the generated lines of a page."""
    lines = fill_page(f"above\n{page}\nold\n<!-- end -->\nbelow", COMMANDS, SETTINGS).splitlines()
    assert (lines[0], lines[1], lines[-2:]) == ("above", page, ["<!-- end -->", "below"])
    return [line for line in lines[2:-2] if line and line != "|---|---|"]


def test_command_with_groups() -> None:
    """Groups without a section have a table each, under their titles."""
    lines = filled("<!-- options of wheelfit paint -->")
    assert lines[: lines.index("Output:")] == [
        "| option | meaning |",
        "| `COLOUR` | which |",
        "Tools (default: none):",
        "| option | meaning |",
        r"| `-b`, `--brush` `BRUSH` | flat\|round |",
        "| `--wet` | with water |",
    ]


def test_list_of_commands() -> None:
    """Each command is listed with its description and a link."""
    assert filled("<!-- commands -->")[1:] == [
        "| [`paint`](#wheelfit-paint) | paint a wall |",
        "| [`wood oil`](#wheelfit-wood-oil) | oil it |",
        "| [`wood saw`](#wheelfit-wood-saw) | saw it |",
    ]


def test_groups_with_a_section() -> None:
    """Commands link to the section of a group; other rows are listed with the command."""
    page = "\n".join(
        f"<!-- {what} -->\n<!-- end -->"
        for what in ("group tools", "options of wheelfit wood oil", "options of wheelfit wood saw")
    )
    lines = fill_page(page, COMMANDS, SETTINGS)
    section, oil, saw = lines.split("<!-- end -->")[:3]
    assert "`--brush` `BRUSH`" in section
    assert "| `--wet` | with water |" in section
    assert "Shared options: [tools](#tools)." in oil
    assert "--brush" not in oil
    assert "| `--blade` `B` | which |" in saw
    assert "tools" not in saw
    assert fill_page(lines, COMMANDS, SETTINGS) == lines


def test_settings() -> None:
    """A setting has its type, its variable and the rights of a project."""
    assert filled("<!-- settings -->")[2:] == [
        "| `wet` | true or false | `WHEELFIT_WET` | if it is stricter | with water |",
        "| `names` | a list of texts |  | only there | of walls |",
    ]


def test_unknown_command() -> None:
    """A page with an unknown command is an error."""
    with pytest.raises(KeyError, match="glue"):
        filled("<!-- options of wheelfit glue -->")
