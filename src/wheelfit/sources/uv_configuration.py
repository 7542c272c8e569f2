"""The indexes of uv, in its order, so that a proxy in front of them reads the same ones.

As measured with uv 0.13: what an option ``--index`` names replaces ``UV_INDEX``; then come
``UV_EXTRA_INDEX_URL`` and its option, the files of the project, of the user and of the system, the
``[pip]`` section, requirements files, and last one index that is the default. An ``explicit`` index
is read only for projects pinned to it, and never in place of another.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from wheelfit.core.strict_toml import load
from wheelfit.sources.urls import split_userinfo
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_YES = frozenset({"1", "true", "t", "yes", "y", "on"})


@dataclass(frozen=True, slots=True)
class UvPlaces:
    """The places of uv's configuration."""

    environ: Mapping[str, str]
    """The environment."""
    home: Path
    """The user's home folder."""
    folder: Path
    """Where the command runs."""
    platform: str = sys.platform
    """As ``sys.platform``."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Options of its command line by name, as ``index``; a switch has no values."""
    system: tuple[Path, ...] = (Path("/etc/xdg/uv/uv.toml"), Path("/etc/uv/uv.toml"))
    """Files of the system; the first that is there counts."""


@dataclass(frozen=True, slots=True)
class IndexesOfUv:
    """The indexes; URLs may have credentials, so ``repr`` must never be shown."""

    first: tuple[str, ...] = ()
    """The indexes in the order in which they are read."""
    default: str | None = None
    """The last one; None: none is configured, so it is PyPI."""
    left: tuple[str, ...] = ()
    """Flat lists of files, which uv reads itself, beside all others."""


def read_uv_configuration(surroundings: UvPlaces) -> IndexesOfUv:
    """Return the indexes uv reads.

    A file that cannot be read is ignored: uv itself reports it.
    """
    environ, options = surroundings.environ, surroundings.options
    tables = list(_tables(surroundings))
    listed = [
        *(options.get("index") or environ.get("UV_INDEX", "").split()),
        *(options.get("extra-index-url") or environ.get("UV_EXTRA_INDEX_URL", "").split()),
    ]
    indexes = _Found(environ)
    for text in listed:
        indexes.add(_named(text))
    defaults = [
        *options.get("default-index", ()),
        *options.get("index-url", ()),
        environ.get("UV_DEFAULT_INDEX", ""),
        environ.get("UV_INDEX_URL", ""),
    ]
    indexes.defaults.extend(indexes.url_of(_named(text)) for text in defaults if text)
    for table in tables:
        indexes.add_table(table)
    for table in tables:
        indexes.add_table(_table(table, "pip"))
    return IndexesOfUv(
        tuple(dict.fromkeys(indexes.first)), next(iter(indexes.defaults), None), tuple(indexes.left)
    )


class _Found:
    """The indexes found so far."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.first: list[str] = []
        self.defaults: list[str] = []
        self.left: list[str] = []

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add an index as a table describes it."""
        url = self.url_of(entry)
        if not url or entry.get("explicit") is True:
            return
        if entry.get("format") == "flat":
            self.left.append(url)
        elif entry.get("default") is True:
            self.defaults.append(url)
        else:
            self.first.append(url)

    def add_table(self, table: Mapping[str, Any]) -> None:
        """Add the indexes of a file, or of its section for `uv pip`."""
        entries = table.get("index")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                self.add(entry)
        extra = table.get("extra-index-url")
        self.first.extend(url for url in (extra if isinstance(extra, list) else ()) if url)
        url = table.get("index-url")
        if isinstance(url, str) and url:
            self.defaults.append(url)

    def url_of(self, entry: Mapping[str, Any]) -> str:
        """Return the URL of an index, with the login that variables have for its name."""
        url, name = entry.get("url"), entry.get("name")
        if not isinstance(url, str):
            return ""
        if not isinstance(name, str) or split_userinfo(url)[1] is not None:
            return url
        variable = "UV_INDEX_" + re.sub(r"[^0-9A-Za-z]", "_", name).upper()
        user = self._environ.get(f"{variable}_USERNAME", "")
        password = self._environ.get(f"{variable}_PASSWORD", "")
        if not (user or password):
            return url
        parts = urlsplit(url)
        login = f"{quote(user, safe='')}:{quote(password, safe='')}"
        return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc}"))


def _named(text: str) -> dict[str, Any]:
    """Read ``NAME=URL`` or a URL, which may have an equals sign itself.

    >>> _named("own=https://a.example/simple")
    {'name': 'own', 'url': 'https://a.example/simple'}
    >>> _named("https://a.example/?x=y")
    {'url': 'https://a.example/?x=y'}
    """
    name, equals, url = text.partition("=")
    if equals and ":" not in name and "/" not in name:
        return {"name": name, "url": url}
    return {"url": text}


# --- files ------------------------------------------------------------------------


def _tables(surroundings: UvPlaces) -> Iterator[Mapping[str, Any]]:
    """Yield the tables of files, the most important first."""
    environ, options = surroundings.environ, surroundings.options
    named = next(iter(options.get("config-file", ())), environ.get("UV_CONFIG_FILE", ""))
    if named:
        yield _read(surroundings.folder / named)
        return
    if "no-config" in options or environ.get("UV_NO_CONFIG", "").lower() in _YES:
        return
    yield from _of_project(surroundings)
    yield _read(_user_folder(surroundings) / "uv" / "uv.toml")
    for path in surroundings.system:
        if path.is_file():
            yield _read(path)
            return


def _of_project(surroundings: UvPlaces) -> Iterator[Mapping[str, Any]]:
    """Yield the tables of the nearest folder with settings, and of its workspace."""
    named = next(
        iter(
            (*surroundings.options.get("project", ()), *surroundings.options.get("directory", ()))
        ),
        "",
    )
    folder = (surroundings.folder / named).resolve()
    is_found = False
    for place in (folder, *folder.parents):
        in_project = _table(_read(place / "pyproject.toml"), "tool", "uv")
        is_root = bool(_table(in_project, "workspace"))
        own = _read(place / "uv.toml") if (place / "uv.toml").is_file() else in_project
        if (own and not is_found) or is_root:
            yield own
            is_found = True
        if is_root:
            return


def _user_folder(surroundings: UvPlaces) -> Path:
    environ, home = surroundings.environ, surroundings.home
    if surroundings.platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData/Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return load(path.read_bytes())
    except (OSError, ValueError, WheelfitError):
        return {}


def _table(table: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    for key in keys:
        inner = table.get(key)
        if not isinstance(inner, dict):
            return {}
        table = inner
    return table
