"""How a server is set up: by flags, else by variables, else by a file, else by itself."""

from __future__ import annotations

import tomllib
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from wheelfit.core.sizes import parse_size
from wheelfit.errors import FileProblem, InvalidConfiguration
from wheelfit.server.asgi import Limits
from wheelfit.server.hosting.administration import seconds_of
from wheelfit.server.hosting.application import Rules
from wheelfit.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


__all__ = ["PREFIX", "ServerSettings", "read_settings"]


def __dir__() -> list[str]:
    return __all__


PREFIX = "WHEELFIT_SERVER_"
"""What the names of variables begin with: ``WHEELFIT_SERVER_PUBLIC_URL`` sets ``public-url``."""
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Hold all that can be set."""

    folder: Path
    """For what has no address of its own."""
    database: str | None
    storage: str | None
    host: str
    port: int
    fd: int | None
    """A socket that is open already."""
    public_url: str | None
    """Without a slash at the end."""
    log: Literal["auto", "json", "plain"]
    log_requests: bool
    stop_within: int
    """Seconds."""
    limits: Limits
    rules: Rules


def read_settings(
    given: Mapping[str, str | None], environ: Mapping[str, str], file: str | None = None
) -> ServerSettings:
    """Put together what was said.

    :param given: by key, what flags say; None where they say nothing.
    :param environ: the environment of the process.
    :param file: a TOML file with the same keys.
    :raises InvalidConfiguration: something that was said cannot be.
    :raises FileProblem: the file cannot be read.
    """
    said = {key: (str(value), f"file {file}") for key, value in _read(file).items()}
    for key in _KEYS:
        variable = PREFIX + key.upper().replace("-", "_")
        if environ.get(variable):
            said[key] = (environ[variable], variable)
        if (flag := given.get(key)) is not None:
            said[key] = (flag, f"--{key}")
    values: dict[str, Any] = {}
    for key, (parse, default) in _KEYS.items():
        text, origin = said.get(key, (default, key))
        try:
            values[key] = None if text is None else parse(text)
        except (ValueError, InvalidConfiguration) as error:
            reason = error.message if isinstance(error, InvalidConfiguration) else str(error)
            raise InvalidConfiguration(reason, where=origin) from None
    return ServerSettings(
        folder=values["folder"],
        database=values["database"],
        storage=values["storage"],
        host=values["host"],
        port=values["port"],
        fd=values["fd"],
        public_url=values["public-url"],
        log=values["log"],
        log_requests=values["log-requests"],
        stop_within=values["stop-within"],
        limits=Limits(body=values["max-file"] + (32 << 20), connections=values["max-connections"]),
        rules=Rules(
            deletes=values["delete"],
            file_size=values["max-file"],
            stage_lasts=values["stage-lasts"],
            metrics=values["metrics"],
        ),
    )


def _read(file: str | None) -> dict[str, object]:
    if file is None:
        return {}
    path = Path(file)
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise InvalidConfiguration("it is too large for settings", where=file)
        said = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FileProblem(f"it cannot be read: {reason}", where=file) from None
    except ValueError as error:
        raise InvalidConfiguration(f"it is no TOML: {error}", where=file) from None
    for key, value in said.items():
        if key not in _KEYS:
            raise InvalidConfiguration(
                f"there is no setting {key!r}", where=file, hint=f"there are {', '.join(_KEYS)}"
            )
        if isinstance(value, bool):
            said[key] = "yes" if value else "no"
        elif not isinstance(value, (str, int)):
            raise InvalidConfiguration(f"{key} is a text or a number", where=file)
    return said


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text[:40]!r} is none of {', '.join(words)}")
        return text

    return parse


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text[:20]) <= most):
            raise ValueError(f"{text[:40]!r} is no number from {least} to {most}")
        return int(text)

    return parse


def _deletes(text: str) -> str | timedelta:
    return text if text in ("never", "admin") else timedelta(seconds=seconds_of(text))


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ValueError("it is no address of a server, as https://wheels.example.org/")
    return text.rstrip("/")


def _yes(text: str) -> bool:
    return _one_of("yes", "no", "true", "false", "1", "0")(text.lower()) in ("yes", "true", "1")


_KEYS = cast(
    "Mapping[str, tuple[Callable[[str], object], str | None]]",
    {
        "folder": (Path, "."),
        "database": (str, None),
        "storage": (str, None),
        "host": (str, "127.0.0.1"),
        "port": (_number(0, 65535), "8942"),
        "fd": (_number(0, 1 << 20), None),
        "public-url": (_public_url, None),
        "log": (_one_of("auto", "json", "plain"), "auto"),
        "log-requests": (_yes, "yes"),
        "metrics": (_one_of("operator", "everybody"), "operator"),
        "delete": (_deletes, "admin"),
        "max-file": (parse_size, "10GiB"),
        "max-connections": (_number(1, 1 << 20), "2000"),
        "stop-within": (_number(0, 86400), "60"),
        "stage-lasts": (seconds_of, "7d"),
    },
)
"""Each with what reads it, and what holds if nobody says anything."""
