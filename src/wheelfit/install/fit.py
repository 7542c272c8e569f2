"""Which installed variants do not fit any more: the machine changed, or another package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.check.installed import InstalledVariant, Judged, judge_installed
from wheelfit.install.installed import by_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.check.installed import Ask
    from wheelfit.install.installed import Installed

__all__ = ["judge"]


def __dir__() -> list[str]:
    return __all__


def judge(installed: Iterable[Installed], ask: Ask) -> tuple[Judged, ...]:
    """Judge the installed variants (F-96, P-56); what is hidden by another one is left out.

    :param installed: what is there; of one name, what is imported comes first.
    :param ask: as for `wheelfit.check.installed.judge_installed`.
    """
    first = by_name(installed)
    variants = [
        InstalledVariant(
            str(entry.path),
            entry.name,
            entry.version,
            entry.label,
            entry.properties,
            entry.document,
        )
        for entry in first.values()
        if entry.label is not None
    ]
    versions = {name: entry.version for name, entry in first.items()}
    return tuple(judge_installed(variants, versions, ask))
