"""Wheels as an index, a lock or an installer lists them, and the choice of the best one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import IntegrityError, NoCompatibleWheel
from wheelfit_runtime.libraries.machine import Machine, is_compatible
from wheelfit_runtime.libraries.versions import normalized, parse_version, satisfies, version_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit_runtime.libraries.versions import Requirement, Version


@dataclass(frozen=True, slots=True)
class ListedWheel:
    """A wheel in the list of an index, a lock or an installer."""

    project: str
    """The normalised name."""
    version: str
    filename: str
    url: str
    sha256: str
    """Empty: unknown, so it is not fetched."""
    size: int | None = None
    metadata_sha256: str | None = None
    """The hash of its METADATA on the index; empty: unknown; None: the index has no METADATA."""
    is_yanked: bool = False

    def require_hash(self) -> None:
        """Check that its hash is known.

        :raises IntegrityError: it is unknown.
        """
        if not self.sha256:
            raise IntegrityError(
                f"the index lists no sha256 of {self.filename}, so it is not used",
                where=safe_url(self.url),
            )


def split_filename(filename: str) -> tuple[str, str] | None:
    """Return project and version of a wheel's name; None: not a wheel, or a variant wheel."""
    parts = filename.removesuffix(".whl").split("-")
    if not filename.endswith(".whl") or len(parts) not in (5, 6):
        return None
    if len(parts) == 6 and not parts[2][:1].isdigit():
        return None  # a variant wheel: six parts, and the third is not a build number
    return normalized(parts[0]), parts[1]


def safe_url(url: str) -> str:
    """Return a URL for messages, without the login, and without the query, which may be signed."""
    scheme, slashes, rest = url.partition("?")[0].rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"


def best_wheel(
    wheels: Iterable[ListedWheel], requirement: Requirement, machine: Machine
) -> ListedWheel:
    """Return the newest wheel that satisfies a requirement on a machine.

    :raises NoCompatibleWheel: there is none; the note has the reasons.
    """
    versions: set[Version] = set()
    fitting: dict[tuple[Version, str], ListedWheel] = {}
    for wheel in wheels:
        version = parse_version(wheel.version)
        if version is None or wheel.is_yanked or wheel.project != requirement.project:
            continue
        versions.add(version)
        if satisfies(version, requirement.specifier) and is_compatible(wheel.filename, machine):
            fitting.setdefault((version, wheel.filename), wheel)
    if not fitting:
        newest = ", ".join(map(version_text, sorted(versions)[-8:]))
        raise NoCompatibleWheel(
            f"no wheel of {requirement} fits this machine",
            note=f"the newest versions: {newest or 'none'}\n"
            f"this machine: {machine.system} {machine.architecture}, glibc "
            + (version_text(machine.glibc) if machine.glibc else "none"),
        )
    return fitting[max(fitting)]
