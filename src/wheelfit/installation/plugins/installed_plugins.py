"""Installed plugins, by their metadata alone (P-32).

Being installed does not make a plugin trusted, and nothing of it is imported: plugins run only in
environments of their own.
"""

from __future__ import annotations

import configparser
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.core.providers import parse_endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.installation.installed import Installed

GROUP = "variant_plugins"
"""The entry point group."""
_MAX_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class ListedPlugin:
    """An entry point of an installed distribution."""

    entry: Installed
    name: str
    """The name of the entry point, which has no meaning; plugins often use that of their package.
    """
    plugin_api: str
    """The object reference of the plugin, without whitespace."""


def listed_plugins(installed: Iterable[Installed]) -> Iterator[ListedPlugin]:
    """Yield the plugins among installed distributions; unreadable ones are skipped."""
    for entry in installed:
        try:
            with (entry.path / "entry_points.txt").open("rb") as file:
                text = file.read(_MAX_SIZE)
        except OSError:
            continue
        for name, endpoint in plugin_entry_points(text):
            yield ListedPlugin(entry, name, endpoint)


def plugin_entry_points(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and object reference of the plugins that ``entry_points.txt`` lists."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(data.decode("utf-8", "replace"))
    except configparser.Error:
        return
    if parser.has_section(GROUP):
        for name, value in parser.items(GROUP):
            endpoint = parse_endpoint(value.partition("[")[0])
            if endpoint is not None:
                yield name, endpoint
