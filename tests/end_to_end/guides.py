"""Executable guides: write the files of a section, and run its commands."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from programs import run_program

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_BLOCK = re.compile(
    r"(?:^`(?P<name>[\w./]+)`\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_COMMAND = re.compile(r"^\$ ", re.MULTILINE)


@dataclass
class Section:
    """The files and the commands of a section, with the printed lines."""

    files: dict[str, str] = field(default_factory=dict)
    commands: list[tuple[str, list[str]]] = field(default_factory=list)


def sections(page: str) -> dict[str, Section]:
    """Return the sections of a guide by their headings."""
    _, *parts = _HEADING.split((PAGES / page).read_text())
    found = {}
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        section = found[heading] = Section()
        for block in _BLOCK.finditer(text):
            if block["name"]:
                section.files[block["name"]] = block["text"]
            elif block["kind"] == "console":
                for part in _COMMAND.split(block["text"])[1:]:
                    command, *shown = part.splitlines()
                    section.commands.append((command, shown))
    return found


def follow(section: Section, folder: Path, cache: Path) -> None:
    """Write files into a folder and run the commands there; check the lines that the page shows."""
    for name, text in section.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    settings = {"WHEELFIT_CACHE_DIR": str(cache), "WHEELFIT_CONFIG_FILE": os.devnull}
    environ = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **settings}
    for command, shown in section.commands:
        completed = run_program(
            "bash", "-c", f'wheelfit() {{ "{sys.executable}" -m wheelfit "$@"; }}\n{command}',
            cwd=folder, env=environ,
        )  # fmt: skip
        said = completed.stdout + completed.stderr
        printed = iter(map(_alike, completed.stdout.splitlines()))
        for line in shown:
            assert _alike(line) in printed, f"{command} does not print {line!r} there, but\n{said}"


def _alike(text: str) -> str:
    """Return a line without versions of Python and of tools."""
    text = re.sub(r"\bcp3\d+", "cp3", text)
    text = re.sub(r"\b([a-z][\w-]+|PTX) \d+(\.\d+)+", r"\1 VERSION", text)
    return " ".join(text.split())
