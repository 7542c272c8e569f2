"""Write the tables of options into the pages of the reference.

With ``--check`` nothing is written; the exit code is 1 if a page is not as it would be written.
"""

import sys
from pathlib import Path

from wheelfit.cli.commands import every_command
from wheelfit.cli.documentation import fill_page
from wheelfit.cli.options.settings import SETTINGS

FOLDER = Path(__file__).parent
PAGES = ("commands.md", "configuration.md")


def main() -> int:
    """Write the pages, or check them."""
    commands = every_command()
    old = 0
    for name in PAGES:
        path = FOLDER / name
        page = path.read_text(encoding="utf-8")
        filled = fill_page(page, commands, SETTINGS)
        old += filled != page
        if "--check" not in sys.argv[1:]:
            path.write_text(filled, encoding="utf-8")
        elif filled != page:
            sys.stderr.write(f"{path} is not up to date: run {Path(__file__).name}\n")
    return int("--check" in sys.argv[1:] and old > 0)


if __name__ == "__main__":
    sys.exit(main())
