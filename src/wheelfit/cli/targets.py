"""What a word on the command line names: a path, or a project of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelfit.core.requirements import Requirement

__all__ = ["named_project"]


def __dir__() -> list[str]:
    return __all__


def named_project(text: str) -> Requirement | None:
    """Return the project that a target names; None if it is a path.

    What exists on this machine is a path, and so is what looks like one.

    :param text: as the user wrote it.
    :raises UsageError: it is a requirement, but with more than versions.
    """
    from pathlib import Path

    from wheelfit.core.requirements import parse_requirement
    from wheelfit.errors import InvalidRequirement, UsageError

    if text.endswith((".whl", ".json", ".html")) or set(text) & set("/\\") or Path(text).exists():
        return None
    try:
        requirement = parse_requirement(text, allow_variant_markers=False)
    except InvalidRequirement:
        return None
    if requirement.url or requirement.marker or requirement.extras:
        raise UsageError(
            f"{text!r} is no target: name a project, or one with versions",
            hint="as torch or torch==2.8.0",
        )
    return requirement
