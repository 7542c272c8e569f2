"""The user's own settings: a file whose keys are the names of options, and set their defaults.

A file in the folder where a command happens to run is never read: whoever unpacks an archive
there must not decide what is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from wheelfit.errors import InvalidConfiguration

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Mapping

    from wheelfit.core.provider_table import EmulatedPlugin

__all__ = [
    "LIMITS",
    "VARIABLE",
    "configuration_file",
    "home",
    "read_configuration",
    "set_defaults",
]


def __dir__() -> list[str]:
    return __all__


VARIABLE = "WHEELFIT_CONFIG_FILE"
"""Names another file; ``/dev/null`` is none."""
LIMITS: Mapping[str, tuple[int, int]] = {
    "size": (2, 1 << 30),
    "depth": (1, 200),
    "labels": (1, 100_000_000),
    "values": (1, 100_000_000),
    "lookups": (0, 100_000),
}
"""What ``--limit`` can set, with the smallest and the largest value."""

_FLAGS = frozenset(
    [
        "accept-unknown-drafts",
        "compare-sources",
        "no-abi-dependency",
        "no-env-override",
        "no-plugins",
        "read-unlisted",
        "strict",
        "tpu-generation",
    ]
)
_NAMES = frozenset(["disable-provider", "enable-provider", "ignore-static"])
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "devices": ("all", "highest", "lowest", "min", "any"),
    "rocm-compat": ("exact", "same-major"),
}
_DEADLINE = "plugin-deadline"
_LIMIT = "limit"
_TABLE = "provider"
_ROW = frozenset(["namespace", "package", "plugin-api", "versions"])
_LARGEST = 1 << 20
"""Bytes of the longest file."""


def home() -> Path:
    """Return the user's home; a container may run as a user who has none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def configuration_file(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """Return which file holds the settings, whether it exists or not.

    :param environ: the environment of the process.
    :param platform: as ``sys.platform``.
    :param home: the user's folder.
    """
    if named := environ.get(VARIABLE):
        return Path(named)
    if platform == "win32":
        folder = Path(environ.get("APPDATA") or home / "AppData/Roaming")
    elif platform == "darwin":
        folder = home / "Library/Application Support"
    else:
        folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return folder / "wheelfit" / "wheelfit.toml"


def read_configuration(path: Path, *, must_exist: bool) -> Mapping[str, Any]:
    """Return the defaults that a file sets, by the destination of the option.

    :param path: the file.
    :param must_exist: whether somebody named it.
    :raises InvalidConfiguration: it cannot be read, or sets what there is not.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        if must_exist:
            raise InvalidConfiguration(
                "the configuration file does not exist", where=str(path), hint=f"see {VARIABLE}"
            ) from None
        return {}
    except OSError as error:
        if must_exist or not isinstance(error, NotADirectoryError):
            why = error.strerror or type(error).__name__
            raise InvalidConfiguration(
                f"the configuration file cannot be read: {why}", where=str(path)
            ) from None
        return {}
    if not data:  # as /dev/null: nothing to parse, so the parser need not be imported
        return {}
    from wheelfit.core import strict_toml

    try:
        table = strict_toml.load(data, strict_toml.Limits(size=_LARGEST))
    except ValueError as error:
        raise InvalidConfiguration(
            f"the configuration file is not TOML: {error}", where=str(path)
        ) from None
    return _Reading(path).defaults(table)


def set_defaults(parser: ArgumentParser, defaults: Mapping[str, Any]) -> None:
    """Let a command start from the settings that concern it; options add to them.

    :param parser: of the command.
    :param defaults: what `read_configuration` returned.
    """
    known = {key: value for key, value in defaults.items() if parser.get_default(key) is not None}
    if parser.get_default("read_unlisted") is None:
        known.pop("strict", None)  # where nothing is chosen the word means something else
    parser.set_defaults(**known)


class _Reading:
    """Check key after key."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def defaults(self, table: Mapping[str, Any]) -> dict[str, Any]:
        defaults: dict[str, Any] = {}
        for key, value in table.items():
            name = key.replace("-", "_")
            if key in _FLAGS:
                if not isinstance(value, bool):
                    self._refuse(key, "is neither true nor false")
                defaults[name] = value
            elif key in _NAMES:
                defaults[name] = self._texts(key, value)
            elif key in _CHOICES:
                if value not in _CHOICES[key]:
                    self._refuse(key, f"is none of {', '.join(_CHOICES[key])}")
                defaults[name] = "lowest" if value == "min" else value  # as --devices min
            elif key == _DEADLINE:
                if type(value) not in (int, float) or not 0 < value < float("inf"):
                    self._refuse(key, "is not a number of seconds")
                defaults[name] = float(value)
            elif key == _LIMIT:
                defaults[name] = self._limits(value)
            elif key == _TABLE:
                defaults["provider_table"] = self._rows(value)
            else:
                self._unknown(key, (*_FLAGS, *_NAMES, *_CHOICES, _DEADLINE, _LIMIT, _TABLE))
        return defaults

    def _limits(self, value: object) -> list[tuple[str, int]]:
        if not isinstance(value, dict):
            self._refuse(_LIMIT, "is no table of limits")
        for name, number in value.items():
            if name not in LIMITS:
                self._unknown(f"{_LIMIT}.{name}", [f"{_LIMIT}.{known}" for known in LIMITS])
            smallest, largest = LIMITS[name]
            if type(number) is not int or not smallest <= number <= largest:
                self._refuse(f"{_LIMIT}.{name}", f"is no number from {smallest} to {largest}")
        return list(value.items())

    def _rows(self, value: object) -> tuple[EmulatedPlugin, ...]:
        """Read further rows of the table of plugins (P-64)."""
        from packaging.utils import canonicalize_name
        from packaging.version import InvalidVersion, Version

        from wheelfit.core.properties import is_name
        from wheelfit.core.provider_table import EmulatedPlugin
        from wheelfit.core.providers import parse_endpoint

        if not isinstance(value, list):
            self._refuse(_TABLE, "is no list of tables; write [[provider]]")
        rows = []
        for index, row in enumerate(value):
            path = f"{_TABLE}[{index}]"
            if not isinstance(row, dict):
                self._refuse(path, "is no table")
            for key in row:
                if key not in _ROW:
                    self._unknown(f"{path}.{key}", [f"{path}.{known}" for known in _ROW])
            for key in sorted(_ROW - row.keys()):
                self._refuse(f"{path}.{key}", "is missing")
            namespace, package = row["namespace"], row["package"]
            if not isinstance(namespace, str) or not is_name(namespace):
                self._refuse(f"{path}.namespace", "is no namespace")
            if not isinstance(package, str) or not package:
                self._refuse(f"{path}.package", "is no name of a package")
            versions = self._texts(f"{path}.versions", row["versions"])
            try:
                for text in versions:
                    Version(text)
            except InvalidVersion:
                self._refuse(f"{path}.versions", "has something that is no version")
            endpoints = [
                parse_endpoint(e) for e in self._texts(f"{path}.plugin-api", row["plugin-api"])
            ]
            known = tuple(endpoint for endpoint in endpoints if endpoint is not None)
            if len(known) < len(endpoints) or not known or not versions:
                self._refuse(path, "needs versions, and a plugin-api as module:attribute")
            rows.append(
                EmulatedPlugin(namespace, canonicalize_name(package), tuple(versions), known)
            )
        return tuple(rows)

    def _texts(self, key: str, value: object) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self._refuse(key, "is no list of texts")
        return [str(one) for one in value]

    def _unknown(self, key: str, known: Any) -> NoReturn:
        from difflib import get_close_matches

        close = get_close_matches(key, list(known), n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see docs/reference/configuration.md"
        raise InvalidConfiguration(f"{key[:80]} is no setting", where=str(self._path), hint=hint)

    def _refuse(self, key: str, what: str) -> NoReturn:
        raise InvalidConfiguration(f"{key[:80]} {what}", where=str(self._path))
