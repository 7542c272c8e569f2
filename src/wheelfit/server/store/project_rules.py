"""The operator's rules for projects: how much they may have, and which releases expire."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from wheelfit.core.project_patterns import fits
from wheelfit.server.store.records import NewFile, StoredFile, Violation
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.server.store.database import Execute


class ProjectRules(NamedTuple):
    """The rules for some projects; None: there is no such rule."""

    names: tuple[str, ...] = ()
    """Names and patterns of the projects."""
    max_size: int | None = None
    """Bytes of all files of a project, those in stages included."""
    max_files: int | None = None
    """Files of a project, those in stages included."""
    max_file_size: int | None = None
    """Bytes of one file."""
    keep_releases: int | None = None
    """Final releases to keep, not counting yanked ones; older releases are removed."""
    prerelease_retention: timedelta | None = None
    """The time a pre-release stays after its last upload."""
    dev_release_retention: timedelta | None = None
    """The time a development release stays after its last upload."""


NO_RULES = ProjectRules()


def rules_of(all_rules: Iterable[ProjectRules], project: NormalizedName) -> ProjectRules:
    """Return the first rules that are for a project."""
    return next((rules for rules in all_rules if fits(project, rules.names)), NO_RULES)


def quota_violations(execute: Execute, new: NewFile, rules: ProjectRules) -> list[Violation]:
    """Return the quotas of a project that another file would exceed."""
    rows = execute(
        "SELECT COUNT(*), COALESCE(SUM(size), 0) FROM file WHERE project = ?", (new.project,)
    )
    count, size = map(int, rows[0])
    messages = []
    if rules.max_files is not None and count >= rules.max_files:
        has = count_of(count, "file")
        messages.append(f"{new.project} has {has}, and may have {rules.max_files}")
    if rules.max_size is not None and size + new.size > rules.max_size:
        messages.append(
            f"{new.project} has {size} bytes, and may have {rules.max_size}; "
            f"this file has {new.size}"
        )
    return [Violation("over-quota", message, new.filename) for message in messages]


class ExpiredRelease(NamedTuple):
    """A release that has expired by the rules of its project."""

    project: NormalizedName
    version: str
    files: tuple[StoredFile, ...]
    reason: str


def expired_releases(
    files: Sequence[StoredFile], rules: ProjectRules, *, now: datetime
) -> list[ExpiredRelease]:
    """Return the releases of a project that have expired, the lowest version first.

    If all releases that are not yanked would expire, the newest of them stays.

    :param files: all published files of the project.
    """
    releases: dict[Version, list[StoredFile]] = {}
    for file in files:
        releases.setdefault(Version(file.version), []).append(file)
    offered = sorted({Version(file.version) for file in files if file.yanked is None})
    # Builds that differ in the local part only, as 1.0+cpu and 1.0+cu128, are one release.
    final = sorted({Version(version.public) for version in offered if not version.is_prerelease})
    keep = rules.keep_releases or 0
    oldest = final[-keep] if 0 < keep <= len(final) else None
    reasons: dict[Version, str] = {}
    for version, release_files in releases.items():
        age = now - max(datetime.fromisoformat(file.uploaded) for file in release_files)
        if oldest is not None and version < oldest:
            reasons[version] = f"older than the newest {count_of(keep, 'release')}"
        elif version.is_prerelease:
            is_dev = version.is_devrelease
            lifetime = rules.dev_release_retention if is_dev else rules.prerelease_retention
            if lifetime is not None and age > lifetime:
                kind = "development release" if is_dev else "pre-release"
                reasons[version] = f"a {kind} of {count_of(age.days, 'day')} ago"
    if offered and reasons.keys() >= set(offered):
        newest = offered[-1].public
        reasons = {key: reasons[key] for key in reasons if key.public != newest}
    return [
        ExpiredRelease(
            releases[version][0].project, str(version), tuple(releases[version]), reasons[version]
        )
        for version in sorted(reasons)
    ]
