"""The installed variants that do not fit any more: the machine or another package changed."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.installation.installed import by_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.checking.installed import DetectSupport, FitVerdict
    from wheelfit.installation.installed import Installed


def judge(
    installed: Iterable[Installed],
    ask: DetectSupport,
    *,
    new_versions: Mapping[NormalizedName, Version] = MappingProxyType({}),
) -> tuple[FitVerdict, ...]:
    """Judge the installed variants that can be imported (F-96, P-56).

    :param new_versions: the packages to install beside them.
    """
    first = by_name(installed)
    labelled = [
        (entry, entry.label)
        for entry in first.values()
        if entry.label is not None and entry.name not in new_versions
    ]
    if not labelled:
        return ()
    from wheelfit.checking.installed import (
        InstalledVariant,
        judge_installed,
    )

    variants = [
        InstalledVariant(
            str(entry.path),
            entry.name,
            entry.version,
            label,
            entry.properties,
            entry.document,
        )
        for entry, label in labelled
    ]
    versions = {**{name: entry.version for name, entry in first.items()}, **new_versions}
    return tuple(judge_installed(variants, versions, ask))
