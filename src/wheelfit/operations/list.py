"""The packages of an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requests import EnvironmentOptions

if TYPE_CHECKING:
    from wheelfit.installation.installed import Broken, Installed
    from wheelfit.operations.context import Context


class ListRequest(EnvironmentOptions):
    """The environment, and which of its packages are listed."""

    variants: bool = False


class InstalledReport(Struct, frozen=True):
    """The packages of an environment."""

    environment: str
    """The name of the environment."""
    packages: tuple[Installed, ...]
    broken: tuple[Broken, ...]
    """Packages whose metadata cannot be read."""
    variants: bool = False
    """Whether only variants are listed."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, "environment", packages=list(map(_package_data, self.packages)))


def list_installed(request: ListRequest, context: Context) -> InstalledReport:
    """Return the installed distributions of an environment."""
    environment = open_environment_of(request, context.environ, note=context.reporter.detail)
    scan = environment.scan()
    packages = tuple(entry for entry in scan.installed if entry.label or not request.variants)
    return InstalledReport(environment.name, packages, tuple(scan.broken), request.variants)


def project_folder(entry: Installed) -> str | None:
    """Return the source tree of an editable installation (PEP 610); None if unknown."""
    from wheelfit.sources.urls import file_path

    url = "" if entry.direct_url is None else str(entry.direct_url.get("url", ""))
    if not entry.editable or not url.startswith("file:"):
        return None
    try:
        return file_path(url)
    except ValueError:
        return None


def _package_data(entry: Installed) -> dict[str, object]:
    return plain_fields(
        entry,
        "name version label requested editable location",
        properties=[str(prop) for prop in entry.properties],
        installer=entry.installer or None,
        project=project_folder(entry),
    )
