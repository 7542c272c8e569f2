"""The options that configuration files and variables can set, by key.

Importing this module imports the table of all options, so commands import it only if a file or a
variable sets one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.table import AREAS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def every_group() -> Iterator[OptionGroup]:
    """Yield the groups of the table."""
    for area in AREAS:
        names = vars(import_module(f"wheelfit.cli.options.table.{area}"))
        yield from (group for group in names.values() if isinstance(group, OptionGroup))


def _settings() -> dict[str, Option]:
    options: dict[str, Option] = {}
    for group in every_group():
        for option in group.options:
            # Some commands have an option as a setting only; the other row has precedence.
            if option.is_setting and (option.is_on_command_line or option.key not in options):
                options[option.key] = option
    return dict(sorted(options.items()))


SETTINGS: Mapping[str, Option] = _settings()
"""The options by key, sorted alphabetically."""
