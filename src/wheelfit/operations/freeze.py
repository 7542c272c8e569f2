"""The packages of an environment as requirements from which it can be recreated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from packaging.utils import canonicalize_name

from wheelfit.installation.installed import Broken, Installed, by_name
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requests import EnvironmentOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.operations.context import Context

_SEED_NAMES = frozenset(("pip",))
_SEED_NAMES_BEFORE_3_12 = _SEED_NAMES | {"setuptools", "distribute", "wheel"}
"""Distributions of a new environment, which pip does not freeze."""


class FreezeRequest(EnvironmentOptions):
    """The environment, and which of its packages are left out."""

    all: bool = False
    local: bool = False
    exclude: tuple[str, ...] = ()
    exclude_editable: bool = False


@dataclass(frozen=True, slots=True)
class FrozenPackage:
    """A package and the line of a requirements file that installs it."""

    package: Installed
    line: str

    def to_json(self) -> dict[str, object]:
        """Return the object of one package in ``--json``."""
        return plain_fields(self.package, "name version label editable", requirement=self.line)


@dataclass(frozen=True, slots=True)
class FreezeReport:
    """The packages of an environment as lines of a requirements file."""

    environment: str
    """The name of the environment."""
    packages: tuple[FrozenPackage, ...]
    """By name."""
    broken: tuple[Broken, ...]
    """Packages whose metadata cannot be read."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, "environment packages")


def freeze(request: FreezeRequest, context: Context) -> FreezeReport:
    """Return the packages of an environment as requirements.

    :param request: the environment, and the packages to exclude.
    :param context: the environment variables and the reporter.
    :raises WheelfitError: there is no such environment.
    """
    environment = open_environment_of(request, context.environ, tags=False)
    scan = environment.scan()
    excluded = set(map(canonicalize_name, request.exclude))
    if not request.all:
        is_old = environment.interpreter.version < (3, 12)
        excluded |= set(map(canonicalize_name, _SEED_NAMES_BEFORE_3_12 if is_old else _SEED_NAMES))
    packages = (
        entry
        for entry in by_name(scan.installed).values()
        if entry.name not in excluded
        and not (entry.outside and request.local)
        and not (entry.editable and request.exclude_editable)
    )
    return FreezeReport(
        environment.name,
        tuple(FrozenPackage(entry, requirement_line(entry)) for entry in packages),
        tuple(scan.broken),
    )


def requirement_line(entry: Installed) -> str:
    """Return the line of a requirements file that installs a package again.

    A package from a URL is pinned by the URL (PEP 610), any other by its version. A variant is
    named in a comment that `wheelfit install -r` reads and other installers skip.
    """
    if entry.direct_url is not None:
        if entry.editable:
            return f"-e {_escaped(str(entry.direct_url['url']))}"
        return f"{entry.name} @ {_escaped(_reference(entry.direct_url))}"
    line = f"{entry.name}=={entry.version}"
    if entry.label is not None:
        return f"{line}  # wheelfit: label {entry.label}"
    if entry.excluding_options:
        return f"{line}  # installed with {', '.join(entry.excluding_options)}"
    return line


def _reference(direct_url: Mapping[str, Any]) -> str:
    """Return the URL of a direct reference, with its commit or hash."""
    url = str(direct_url["url"])
    fragments = []
    vcs, archive = direct_url.get("vcs_info"), direct_url.get("archive_info")
    if isinstance(vcs, dict) and vcs.get("vcs") and vcs.get("commit_id"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    elif isinstance(archive, dict):
        hashes = archive.get("hashes")
        if isinstance(hashes, dict) and hashes:
            fragments = [f"{name}={digest}" for name, digest in sorted(hashes.items())][-1:]
        elif isinstance(archive.get("hash"), str):
            fragments = [archive["hash"]]
    if isinstance(direct_url.get("subdirectory"), str):
        fragments.append(f"subdirectory={direct_url['subdirectory']}")
    return url + (f"#{'&'.join(fragments)}" if fragments else "")


def _escaped(url: str) -> str:
    """Return a URL that cannot end its line, and has no name that a variable would replace."""
    return "".join(
        letter if letter.isprintable() and letter != " " else quote(letter, errors="replace")
        for letter in url
    ).replace("${", "%24{")
