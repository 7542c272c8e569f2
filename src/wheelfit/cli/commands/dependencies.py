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
from wheelfit.cli.options.table.environment import ATTESTATIONS, BOUNDS, CONSENT, ENVIRONMENT
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import SOURCE_BUILDS
from wheelfit.cli.options.table.sources import SOURCES, UPLOADS
from wheelfit.cli.options.table.variants import VARIANTS

_EDITING = (
    PROJECT_INSTALLATION,
    BOUNDS,
    SOURCE_BUILDS,
    CONSENT,
    ATTESTATIONS,
    ENVIRONMENT,
    SOURCES,
    UPLOADS,
    MACHINE,
    VARIANTS,
)

COMMANDS = {
    "add": Command(
        """\
Add dependencies to a project, lock it, and install what is new in the lock.

Of pyproject.toml only the list changes: comments, order and style stay. A requirement on a project
that the list has already takes the place of that. If anything fails, also by Ctrl-C, file, lock
and environment are as they were.
""",
        (ADD, EDITED_PROJECT, PROJECT_SETTINGS, *_EDITING),
        Operation("dependencies.add", "dependencies.AddRequest", "dependencies.show_dependencies"),
    ),
    "remove": Command(
        """\
Remove dependencies from a project, lock it, and uninstall what the lock had and has no more.

Of pyproject.toml only the list changes: comments, order and style stay. If anything fails, also
by Ctrl-C, file, lock and environment are as they were.
""",
        (REMOVE, EDITED_PROJECT, PROJECT_SETTINGS, *_EDITING),
        Operation(
            "dependencies.remove", "dependencies.RemoveRequest", "dependencies.show_dependencies"
        ),
    ),
}
