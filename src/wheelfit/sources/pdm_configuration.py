"""The indexes in pdm's configuration.

They are the sources of the project's ``pyproject.toml`` and of pdm's own files. ``PDM_PYPI_URL``,
or else a source named ``pypi``, replaces the default index.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit.core.strict_toml import load
from wheelfit.sources.urls import split_userinfo, with_userinfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_DEFAULT_NAME = "pypi"


@dataclass(frozen=True, slots=True)
class PdmIndexes:
    """Indexes, whose URLs may contain credentials: ``repr`` must never be shown."""

    first: tuple[str, ...] = ()
    """The indexes besides the default one."""
    default: str | None = None
    """The default index; None: none is configured."""


def read_pdm_configuration(
    environ: Mapping[str, str], *, home: Path, folder: Path, platform: str = sys.platform
) -> PdmIndexes:
    """Return the indexes pdm reads.

    A file that cannot be read is ignored: pdm itself reports it.

    :param folder: the current folder of the command.
    """
    ancestors = (folder, *folder.parents)
    root = next((path for path in ancestors if (path / "pyproject.toml").is_file()), folder)
    files = (
        _read(root / "pdm.toml"),
        _read(Path(environ.get("PDM_CONFIG_FILE") or _user_file(environ, home, platform))),
    )
    urls: dict[str, str] = {}
    for name, source in (*_sources(root), *_stored(files)):
        url = _url(source, environ)
        if url:
            urls.setdefault(name, url)
    default = urls.pop(_DEFAULT_NAME, None)
    for file in files:
        table = file.get(_DEFAULT_NAME)
        if default is None and isinstance(table, dict):
            default = _url(table, environ) or None
    return PdmIndexes(tuple(urls.values()), environ.get("PDM_PYPI_URL") or default)


def _sources(root: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the sources of a project by name."""
    table: Any = _read(root / "pyproject.toml")
    for key in ("tool", "pdm", "source"):
        table = table.get(key) if isinstance(table, dict) else None
    for source in table if isinstance(table, list) else ():
        if isinstance(source, dict) and isinstance(source.get("name"), str):
            yield source["name"], source


def _stored(files: tuple[Mapping[str, Any], ...]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the sources stored with ``pdm config pypi.NAME.url``."""
    for file in files:
        table = file.get(_DEFAULT_NAME)
        for name, source in table.items() if isinstance(table, dict) else ():
            if isinstance(source, dict):
                yield name, source


def _url(source: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return the URL of a source, with its login."""
    url = source.get("url")
    if not isinstance(url, str) or source.get("type") == "find_links":
        return ""
    url = re.sub(r"\$\{(\w+)\}", lambda match: environ.get(match[1], match[0]), url)
    user, password = source.get("username"), source.get("password")
    if not isinstance(user, str) or split_userinfo(url)[1] is not None:
        return url
    return with_userinfo(url, user, password if isinstance(password, str) else None)


def _user_file(environ: Mapping[str, str], home: Path, platform: str) -> Path:
    if platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home / "AppData/Local", "pdm/pdm/config.toml")
    if platform == "darwin":
        return home / "Library/Application Support/pdm/config.toml"
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "pdm/config.toml")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return load(path.read_bytes())
    except (OSError, ValueError):
        return {}
