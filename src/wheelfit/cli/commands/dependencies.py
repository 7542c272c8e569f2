"""Commands that edit the dependencies of a project."""

from __future__ import annotations

from wheelfit.cli.command import Command, Operation
from wheelfit.cli.options.table.dependencies import (
    ADD,
    EDITED_PROJECT,
    PROJECT_INSTALLATION,
    PROJECT_SETTINGS,
    REMOVE,
)
from wheelfit.cli.options.table.environment import BOUNDS
from wheelfit.cli.options.table.installing import INSTALLING
from wheelfit.cli.options.table.requirements import SOURCE_BUILDS

_EDITING = (
    EDITED_PROJECT,
    PROJECT_SETTINGS,
    PROJECT_INSTALLATION,
    BOUNDS,
    SOURCE_BUILDS,
    *INSTALLING,
)

COMMANDS = {
    "add": Command(
        """\
Add dependencies to a project, lock it, and install the packages that the lock gained.

Only the list in pyproject.toml changes: comments, order and style stay. A requirement replaces the
one on the same project. If anything fails, or you press Ctrl-C, pyproject.toml, lock and
environment stay as they were.
""",
        (ADD, *_EDITING),
        Operation("dependencies.add", "dependencies.show_dependencies"),
    ),
    "remove": Command(
        """\
Remove dependencies from a project, lock it, and uninstall the packages that the lock lost.

Only the list in pyproject.toml changes: comments, order and style stay. If anything fails, or you
press Ctrl-C, pyproject.toml, lock and environment stay as they were.
""",
        (REMOVE, *_EDITING),
        Operation("dependencies.remove", "dependencies.show_dependencies"),
    ),
}
