"""The indexes that uv and pdm are configured to use, for a proxy in front of them.

A file that cannot be read is ignored, since uv and pdm report it themselves.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit.core.strict_toml import load
from wheelfit.sources.urls import split_userinfo, with_userinfo
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class InstallerIndexes:
    """The indexes of an installer; URLs may have credentials, so never show the ``repr``."""

    first: tuple[str, ...] = ()
    """The indexes besides the default one, in their order."""
    default: str | None = None
    """The default index; None if none is configured, which means PyPI."""
    flat: tuple[str, ...] = ()
    """Flat indexes (such as ``--find-links``) of uv, which it reads itself, not by a proxy."""


# --- uv ---------------------------------------------------------------------------


_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})


@dataclass(frozen=True, slots=True)
class UvEnvironment:
    """Everything that uv's configuration is read from."""

    environ: Mapping[str, str]
    """Environment variables."""
    home: Path
    """The user's home folder."""
    folder: Path
    """The current folder of the command."""
    platform: str = sys.platform
    """As ``sys.platform``."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Command-line options by name, such as ``index``; a switch has no values."""
    system: tuple[Path, ...] = (Path("/etc/xdg/uv/uv.toml"), Path("/etc/uv/uv.toml"))
    """Configuration files of the system; uv reads the first that exists."""


def read_uv_configuration(environment: UvEnvironment) -> InstallerIndexes:
    """Return the indexes of uv.

    The order, as observed with uv 0.13: ``--index``, or else ``UV_INDEX``; ``--extra-index-url``,
    or else ``UV_EXTRA_INDEX_URL``; the files of the project, the user and the system; their
    ``[pip]`` sections; and last the default index. An ``explicit`` index is left out, because uv
    reads it only for projects that are pinned to it.
    """
    environ, options = environment.environ, environment.options
    tables = list(_tables(environment))
    first = [
        *(options.get("index") or environ.get("UV_INDEX", "").split()),
        *(options.get("extra-index-url") or environ.get("UV_EXTRA_INDEX_URL", "").split()),
    ]
    indexes = _Indexes(environ)
    for text in first:
        indexes.add(_parse_index(text))
    defaults = [
        *options.get("default-index", ()),
        *options.get("index-url", ()),
        environ.get("UV_DEFAULT_INDEX", ""),
        environ.get("UV_INDEX_URL", ""),
    ]
    indexes.defaults.extend(indexes.url_of(_parse_index(text)) for text in defaults if text)
    for table in tables:
        indexes.add_table(table)
    for table in tables:
        indexes.add_table(_subtable(table, "pip"))
    default = indexes.defaults[0] if indexes.defaults else None
    return InstallerIndexes(tuple(dict.fromkeys(indexes.first)), default, tuple(indexes.flat))


class _Indexes:
    """The indexes read so far."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.first: list[str] = []
        self.defaults: list[str] = []
        self.flat: list[str] = []

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add an index from an ``[[index]]`` table."""
        url = self.url_of(entry)
        if not url or entry.get("explicit") is True:
            return
        if entry.get("format") == "flat":
            self.flat.append(url)
        elif entry.get("default") is True:
            self.defaults.append(url)
        else:
            self.first.append(url)

    def add_table(self, table: Mapping[str, Any]) -> None:
        """Add the indexes of a file, or of its ``[pip]`` section."""
        entries = table.get("index")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                self.add(entry)
        extra = table.get("extra-index-url")
        urls = extra if isinstance(extra, list) else ()
        self.first.extend(url for url in urls if isinstance(url, str) and url)
        url = table.get("index-url")
        if isinstance(url, str) and url:
            self.defaults.append(url)

    def url_of(self, entry: Mapping[str, Any]) -> str:
        """Return the URL of an index, with the login that environment variables have for it."""
        url, name = entry.get("url"), entry.get("name")
        if not isinstance(url, str):
            return ""
        if not isinstance(name, str) or split_userinfo(url)[1] is not None:
            return url
        variable = "UV_INDEX_" + re.sub(r"[^0-9A-Za-z]", "_", name).upper()
        user = self._environ.get(f"{variable}_USERNAME", "")
        password = self._environ.get(f"{variable}_PASSWORD", "")
        return with_userinfo(url, user, password) if user or password else url


def _parse_index(text: str) -> dict[str, Any]:
    """Parse ``NAME=URL``, or a URL, which may contain an equals sign.

    >>> _parse_index("own=https://a.example/simple")
    {'name': 'own', 'url': 'https://a.example/simple'}
    >>> _parse_index("https://a.example/?x=y")
    {'url': 'https://a.example/?x=y'}
    """
    name, equals, url = text.partition("=")
    if equals and ":" not in name and "/" not in name:
        return {"name": name, "url": url}
    return {"url": text}


def _tables(environment: UvEnvironment) -> Iterator[Mapping[str, Any]]:
    """Yield the content of uv's configuration files, in order of precedence."""
    environ, options = environment.environ, environment.options
    config_file = next(iter(options.get("config-file", ())), environ.get("UV_CONFIG_FILE", ""))
    if config_file:
        yield _read_toml(environment.folder / config_file)
        return
    if "no-config" in options or environ.get("UV_NO_CONFIG", "").lower() in _TRUE:
        return
    yield from _project_tables(environment)
    yield _read_toml(_user_folder(environment) / "uv" / "uv.toml")
    for path in environment.system:
        if path.is_file():
            yield _read_toml(path)
            return


def _project_tables(environment: UvEnvironment) -> Iterator[Mapping[str, Any]]:
    """Yield the settings of the nearest folder that has any, and of its workspace."""
    options = environment.options
    folder = environment.folder
    if projects := (*options.get("project", ()), *options.get("directory", ())):
        folder /= projects[0]
    folder = folder.resolve()
    has_settings = False
    for ancestor in (folder, *folder.parents):
        in_project = _subtable(_read_toml(ancestor / "pyproject.toml"), "tool", "uv")
        is_workspace = bool(_subtable(in_project, "workspace"))
        uv_toml = ancestor / "uv.toml"
        settings = _read_toml(uv_toml) if uv_toml.is_file() else in_project
        is_nearest = bool(settings) and not has_settings
        if is_nearest or is_workspace:
            yield settings
            has_settings = True
        if is_workspace:
            return


def _user_folder(environment: UvEnvironment) -> Path:
    environ, home = environment.environ, environment.home
    if environment.platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData/Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


# --- pdm --------------------------------------------------------------------------


_PDM_DEFAULT = "pypi"


def read_pdm_configuration(
    environ: Mapping[str, str], *, home: Path, folder: Path, platform: str = sys.platform
) -> InstallerIndexes:
    """Return the indexes of pdm: those of the project's ``pyproject.toml`` and of its own files.

    ``PDM_PYPI_URL``, or else a source named ``pypi``, replaces the default index.

    :param folder: the current folder of the command.
    """
    ancestors = (folder, *folder.parents)
    root = next((path for path in ancestors if (path / "pyproject.toml").is_file()), folder)
    files = (
        _read_toml(root / "pdm.toml"),
        _read_toml(Path(environ.get("PDM_CONFIG_FILE") or _pdm_user_file(environ, home, platform))),
    )
    urls: dict[str, str] = {}
    for name, source in (*_pdm_sources(root), *_pdm_stored(files)):
        url = _pdm_url(source, environ)
        if url:
            urls.setdefault(name, url)
    default = urls.pop(_PDM_DEFAULT, None)
    for file in files:
        default = default or _pdm_url(_subtable(file, _PDM_DEFAULT), environ) or None
    return InstallerIndexes(tuple(urls.values()), environ.get("PDM_PYPI_URL") or default)


def _pdm_sources(root: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the sources of a project by name."""
    sources = _subtable(_read_toml(root / "pyproject.toml"), "tool", "pdm").get("source")
    for source in sources if isinstance(sources, list) else ():
        if isinstance(source, dict) and isinstance(source.get("name"), str):
            yield source["name"], source


def _pdm_stored(files: tuple[Mapping[str, Any], ...]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the sources stored with ``pdm config pypi.NAME.url``."""
    for file in files:
        for name, source in _subtable(file, _PDM_DEFAULT).items():
            if isinstance(source, dict):
                yield name, source


def _pdm_url(source: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return the URL of a source, with its login."""
    url = source.get("url")
    if not isinstance(url, str) or source.get("type") == "find_links":
        return ""
    url = re.sub(r"\$\{(\w+)\}", lambda match: environ.get(match[1], match[0]), url)
    user, password = source.get("username"), source.get("password")
    if not isinstance(user, str) or split_userinfo(url)[1] is not None:
        return url
    return with_userinfo(url, user, password if isinstance(password, str) else None)


def _pdm_user_file(environ: Mapping[str, str], home: Path, platform: str) -> Path:
    if platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home / "AppData/Local", "pdm/pdm/config.toml")
    if platform == "darwin":
        return home / "Library/Application Support/pdm/config.toml"
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "pdm/config.toml")


# --- files ------------------------------------------------------------------------


def _read_toml(path: Path) -> Mapping[str, Any]:
    """Return the content of a TOML file; empty if it cannot be read."""
    try:
        return load(path.read_bytes())
    except (OSError, ValueError, WheelfitError):
        return {}


def _subtable(table: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the table at a path of keys; empty if there is none."""
    for key in keys:
        value = table.get(key)
        if not isinstance(value, dict):
            return {}
        table = value
    return table
