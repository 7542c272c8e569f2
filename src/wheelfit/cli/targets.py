"""What a word on the command line names: a path, or a project of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace

    from wheelfit.core.requirements import Requirement

__all__ = ["has_versions", "is_index_named", "named_project"]


def __dir__() -> list[str]:
    return __all__


PREFIX = "project:"
"""What a word begins with that names a project, whatever it looks like."""
_FOLDERS = frozenset(
    [
        "artifacts", "bin", "build", "dist", "dists", "downloads", "index", "lib", "out", "output",
        "packages", "public", "release", "releases", "sdist", "sdists", "simple", "site", "src",
        "target", "tmp", "variants", "vendor", "wheel", "wheelhouse", "wheels",
    ]
)  # fmt: skip
"""How folders of wheels are usually called. Some are names of projects too, of strangers."""
_ENDINGS = (
    ".bz2", ".gz", ".html", ".json", ".lock", ".tar", ".tgz", ".toml", ".txt", ".whl", ".xz",
    ".zip",
)  # fmt: skip


def is_index_named(arguments: Namespace) -> bool:
    """Tell whether the command line says which index to ask.

    :param arguments: the options of `wheelfit.cli.options.add_sources`.
    """
    return bool(arguments.index_url or arguments.extra_index_url or arguments.find_links)


def has_versions(text: str) -> bool:
    """Tell whether a word limits versions, as ``torch==2.8.0``, and so is no slip of a path."""
    return any(sign in text for sign in "=<>!~")


def named_project(text: str, *, may_be_project: bool = True) -> Requirement | None:
    """Return the project that a target names; None if it is a path.

    A path is what exists on this machine, what has a slash or the ending of a file, and what is
    called as folders usually are: a slip of the name must not be looked up in an index.

    :param text: as the user wrote it.
    :param may_be_project: whether a word without ``project:`` may name one.
    :raises UsageError: it is a requirement, but with more than versions; or names no project.
    """
    from pathlib import Path

    from wheelfit.core.requirements import parse_requirement
    from wheelfit.errors import InvalidRequirement, UsageError

    is_named = text.startswith(PREFIX)
    name = text.removeprefix(PREFIX)
    if not is_named and (
        not may_be_project
        or name.lower().endswith(_ENDINGS)
        or name.lower() in _FOLDERS
        or set(name) & set("/\\")
        or Path(name).exists()
    ):
        return None
    try:
        requirement = parse_requirement(name, allow_variant_markers=False)
    except InvalidRequirement:
        if not is_named:
            return None
        raise UsageError(
            f"{text!r} names no project", hint="as project:torch or project:torch==2.8.0"
        ) from None
    if requirement.url or requirement.marker or requirement.extras:
        raise UsageError(
            f"{text!r} is no target: name a project, or one with versions",
            hint="as torch or torch==2.8.0",
        )
    return requirement
