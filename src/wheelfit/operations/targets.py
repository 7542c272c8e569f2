"""Targets: paths, or projects of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelfit.core.requirements import Requirement
    from wheelfit.operations.requests import SourceOptions

_PREFIX = "project:"
"""The prefix of a target that is always the name of a project."""
_EXAMPLES = "as project:torch or project:torch==2.8.0"
_FOLDERS = frozenset(
    [
        "artifacts", "bin", "build", "dist", "dists", "downloads", "index", "lib", "out", "output",
        "packages", "public", "release", "releases", "sdist", "sdists", "simple", "site", "src",
        "target", "tmp", "variants", "vendor", "wheel", "wheelhouse", "wheels",
    ]
)  # fmt: skip
"""Usual names of folders, some of them projects on public indexes, too."""
_ENDINGS = (
    ".bz2", ".gz", ".html", ".json", ".lock", ".tar", ".tgz", ".toml", ".txt", ".whl", ".xz",
    ".zip",
)  # fmt: skip


def named_project(
    text: str, request: SourceOptions, *, versions_suffice: bool = False
) -> Requirement | None:
    """Return the project that a target names; None if it is a path.

    A misspelt path must not be looked up in an index. So a target without ``project:`` is a
    project only if the request names an index, and never if the path exists, has a slash or the
    ending of a file, or is a usual name of a folder.

    :param versions_suffice: whether versions, as in ``torch==2.8.0``, serve in place of an index.
    :raises UsageError: it is a requirement with more than versions, or not a project.
    """
    from pathlib import Path

    from wheelfit.core.requirements import parse_requirement
    from wheelfit.errors import InvalidRequirement, UsageError

    is_named = text.startswith(_PREFIX)
    name = text.removeprefix(_PREFIX)
    has_index = request.index_url or request.extra_index_url or request.find_links
    has_versions = any(sign in text for sign in "=<>!~")
    if not is_named and (
        not (has_index or (versions_suffice and has_versions))
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
        raise UsageError(f"{text!r} names no project", hint=_EXAMPLES) from None
    if requirement.url or requirement.marker or requirement.extras:
        raise UsageError(
            f"{text!r} is not a target: name a project, or one with versions", hint=_EXAMPLES
        )
    return requirement
