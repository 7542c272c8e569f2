"""Draw what ``wheelfit demo --gpu`` prints, as the picture that the README shows.

With ``--check`` nothing is written; the exit code is 1 if the picture is not as it would be drawn.
"""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent / "demo.svg"
_COLUMNS = 84
_COMMAND = "wheelfit demo --gpu"
# Rich's own form names fonts on another server, which pages of code hosts must not load.
_FORM = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" \
role="img" aria-label="what wheelfit demo --gpu prints">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; \
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def run_demo() -> str:
    """Return what the command prints on a terminal with colours."""
    environ = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
    done = subprocess.run(
        [sys.executable, "-m", *_COMMAND.split()],
        env=environ
        | {"COLUMNS": str(_COLUMNS), "FORCE_COLOR": "1", "WHEELFIT_CONFIG_FILE": os.devnull},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.strip()


def draw(printed: str) -> str:
    """Return the picture of a terminal after a command.

    :param printed: what the command printed, with codes for colours.
    """
    console = Console(file=StringIO(), record=True, width=_COLUMNS, force_terminal=True)
    console.print(Text(f"$ {_COMMAND}\n", style="bold"))
    console.print(Text.from_ansi(printed))
    picture = console.export_svg(title="wheelfit", code_format=_FORM, unique_id="demo")
    return "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"


def main() -> int:
    """Draw the picture, or check it."""
    drawn = draw(run_demo())
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(drawn, encoding="utf-8")
    elif drawn != PICTURE.read_text(encoding="utf-8"):
        sys.stderr.write(f"{PICTURE} is not up to date: run {Path(__file__).name}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
