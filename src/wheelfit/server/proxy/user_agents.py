"""The client of a request, as pip and uv describe themselves in their ``User-Agent``.

Both include their Python, processor and C library, and uv its command. No contract requires this,
so everything may be missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from wheelfit.core.compatible_tags import (
    interpreter_values,
    linux_platforms,
    macos_platforms,
    platform_values,
    tags_for,
)
from wheelfit.core.target import Target
from wheelfit.core.versions import version_of

if TYPE_CHECKING:
    from collections.abc import Mapping


_MAX_LENGTH = 4096
PROJECT_COMMANDS = frozenset(
    {"add", "audit", "export", "lock", "remove", "run", "sync", "tree", "upgrade", "version"}
)
"""Commands of uv that read or write a ``uv.lock``."""
_WINDOWS = {"amd64": "win_amd64", "x86_64": "win_amd64", "arm64": "win_arm64", "x86": "win32"}
_NEWEST_LIBRARY = 99
_PLATFORM_VARIABLES = ("sys_platform", "platform_machine")


@dataclass(frozen=True, slots=True)
class ClientDescription:
    """The client, as its ``User-Agent`` describes it."""

    tool: str = ""
    """``pip``, ``uv``; empty: unknown."""
    command: str = ""
    """First word of a command of uv."""
    implementation: str = ""
    """As ``sys.implementation.name``; empty: unknown."""
    python: str = ""
    """Full version of its Python; empty: unknown."""
    platforms: tuple[str, ...] = ()
    """Platform tags, best first; empty: unknown."""

    @property
    def writes_uv_lock(self) -> bool:
        """Whether uv would write the listed files into a ``uv.lock``."""
        return self.tool == "uv" and self.command in PROJECT_COMMANDS

    def target(self, base: Target) -> Target | None:
        """Return the target of the client; None if too little is known.

        :param base: the machine to choose for. It is used where the client is on another system and
            so will not use the chosen files itself; the Python is the client's.
        """
        if not (self.python and self.implementation):
            return None
        version = Version(self.python)
        environment = {**base.environment, **interpreter_values(self.implementation, version)}
        platforms = self.platforms
        client_values = platform_values(platforms[0]) if platforms else {}
        if any(base.environment.get(key) != client_values.get(key) for key in _PLATFORM_VARIABLES):
            platforms = base.platforms
        is_same_python = (version.major, version.minor) == (
            base.python_full_version.major,
            base.python_full_version.minor,
        ) and self.implementation == base.environment.get("implementation_name")
        if is_same_python and set(base.platforms) == set(platforms):
            return base
        if not platforms:
            return None
        return Target.of(
            f"{self.tool} with Python {version.major}.{version.minor}",
            environment,
            tags_for(self.implementation, version, (), platforms),
        )


UNKNOWN = ClientDescription()


def read_user_agent(text: str) -> ClientDescription:
    """Return the description of a client; empty fields are unknown."""
    tool, _, rest = text.partition("/")
    if tool not in ("pip", "uv") or len(text) > _MAX_LENGTH:
        return UNKNOWN
    _, _, data = rest.partition(" ")
    try:
        agent = json.loads(data)
    except (ValueError, RecursionError):
        return ClientDescription(tool)
    if not isinstance(agent, dict):
        return ClientDescription(tool)
    commands = _mapping(agent, "installer").get("subcommand")
    command = commands[0] if isinstance(commands, list) and commands else ""
    implementation = _text(_mapping(agent, "implementation"), "name").lower()
    return ClientDescription(
        tool,
        command if isinstance(command, str) else "",
        implementation if implementation.isidentifier() else "",
        _version(_text(agent, "python")),
        _platforms(agent),
    )


def _platforms(agent: Mapping[str, Any]) -> tuple[str, ...]:
    machine = _text(agent, "cpu")
    if not machine.replace("_", "").isalnum() or not machine.isascii():
        return ()
    distro = _mapping(agent, "distro")
    match _text(_mapping(agent, "system"), "name"):
        case "Linux":
            libc = _mapping(distro, "libc")
            major, minor = _version_pair(_text(libc, "version"))
            if _text(libc, "lib") == "glibc" and major == 2:
                return linux_platforms(machine, glibc=minor)
            if _text(libc, "lib") == "musl" and major == 1:
                return linux_platforms(machine, musl=minor)
        case "Darwin":
            major, minor = _version_pair(_text(distro, "version"))
            if major >= 10:
                return macos_platforms(machine, major, minor)
        case "Windows":
            if machine.lower() in _WINDOWS:
                return (_WINDOWS[machine.lower()],)
    return ()


def _version_pair(text: str) -> tuple[int, int]:
    """Read two numbers of a version; both 0 if it is invalid."""
    parts = [*text.split("."), "0"][:2]
    if not all(part.isascii() and part.isdecimal() and len(part) < 4 for part in parts):
        return 0, 0
    major, minor = map(int, parts)
    return (major, minor) if max(major, minor) <= _NEWEST_LIBRARY else (0, 0)


def _version(text: str) -> str:
    """Return a version of Python 3 as it was given; empty if it is another text."""
    version = version_of(text)
    if version is None:
        return ""
    is_python_3 = version.major == 3 and version.minor < 100 and len(version.release) <= 3
    return text if is_python_3 else ""


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""
