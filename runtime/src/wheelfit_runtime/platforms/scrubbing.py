"""Remove data that identifies a machine or its user from a record.

Names are replaced in every file and answer; identifiers are recognised by their form, or by the
word in front of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import overrides, providers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit_runtime.platforms.system_view import SystemView

_PREFIXES = (
    "LD_LIBRARY_PATH",
    "PATH",
    "PROGRAMFILES",
    "SYSTEMROOT",
    "WHEELFIT_OVERRIDE_",
    overrides.CONDA_PREFIX,
    *(prefix for family in providers.families() for prefix in family.recorded_variables),
)
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)

_UUID = re.compile(
    r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Fa-f])"
)
_MAC = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
_WORDS = (
    r"(?:pci |board |product |vnpu |card |gpu |mig |npu )*(?:"
    r"serial(?:[ _-]?(?:number|num|no\.?))?|s/n|(?:unique|hive|machine)[ _-]?id|"
    r"asset[ _-]?tag|uuid|guid|board id|vdie id|die id|chip uid|part number|host ?name|user ?name)"
)
# As in: Serial Number : 1320…; unique_id 123…; "serial": "1320…"; | Serial | 1320… |
_NAMED = re.compile(
    rf"""(?im)(?<![A-Za-z])({_WORDS}"?(?:[ \t]{{0,99}}[:=|][ \t]{{0,99}}|[ \t]{{1,99}})"?)"""
    r"""((?=[^\s",;|]*[0-9])[0-9A-Za-z][^\s",;|]*)"""
)
_HOME = "/home/user"
_SYSTEM_FOLDERS = ("/dev/", "/etc/", "/proc/", "/sys/", "/usr/")
_MIN_NAME_LENGTH = 3
"""Characters of a name; a shorter one, as of a user ``a``, is not replaced."""
_COMMON = frozenset(
    [
        "root",
        "localhost",
        "user",
        "host",
        "admin",
        "linux",
        "ubuntu",
        "debian",
        "fedora",
        "windows",
        "gpu",
        "driver",
        "version",
        *(name for family in providers.families() for name in family.common_names),
    ]
)
"""Names that identify no user, and that appear in files for other reasons. Those of vendors are
the preset user names of their boards.
"""


@dataclass(frozen=True, slots=True)
class Scrubber:
    """The replacements for data that identifies a machine or its user."""

    names: tuple[tuple[str, str], ...]
    """The texts to replace, with their replacements; longest first."""

    @classmethod
    def of(cls, view: SystemView, paths: Iterable[str] = ()) -> Scrubber:
        """Return a scrubber for the names of a machine and of its user.

        :param paths: the recorded files; a name that occurs in the path of a system's file is a
            common word and stays.
        """
        environ = view.environ
        replacements: dict[str, str] = {}
        for variable in ("HOME", "USERPROFILE"):
            home = environ.get(variable, "").rstrip("/\\")
            if home not in ("", "/root") and len(home) > _MIN_NAME_LENGTH:
                replacements[home] = replacements[home.replace("\\", "/")] = _HOME
        for variable in ("USER", "LOGNAME", "USERNAME", "SUDO_USER"):
            _add(replacements, environ.get(variable, ""), "user")
        hosts = [environ.get("HOSTNAME", ""), environ.get("COMPUTERNAME", "")]
        hosts += [
            view.read_text(path) or "" for path in ("/proc/sys/kernel/hostname", "/etc/hostname")
        ]
        if view.is_real:
            import socket

            hosts.append(socket.gethostname())
        for host in hosts:
            _add(replacements, host, "host")
            _add(replacements, host.partition(".")[0], "host")
        words = {
            word
            for path in paths
            if path.startswith(_SYSTEM_FOLDERS)
            for word in re.split(r"[^A-Za-z0-9_]+", path)
        }
        names = [item for item in replacements.items() if item[0] not in words]
        return cls(tuple(sorted(names, key=lambda item: -len(item[0]))))

    def text(self, text: str) -> str:
        """Return a text without identifying data."""
        for name, replacement in self.names:
            pattern = rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])"
            text = re.sub(pattern, replacement, text)
        text = _UUID.sub("00000000-0000-0000-0000-000000000000", text)
        text = _MAC.sub("00:00:00:00:00:00", text)
        return _NAMED.sub(_zero, text)

    def data(self, data: bytes) -> bytes:
        """Return bytes without identifying data; bytes that are not text stay."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _add(replacements: dict[str, str], name: str, replacement: str) -> None:
    if len(name) >= _MIN_NAME_LENGTH and name.lower() not in _COMMON:
        replacements.setdefault(name, replacement)


def _zero(match: re.Match[str]) -> str:
    """Return an identifier with zeros, keeping its prefix and form: ``GPU-000…``."""
    prefix = re.match(r"(?:(?:GPU|MIG|NPU)-|0x)?", match[2])
    start = prefix.end() if prefix else 0
    return match[1] + match[2][:start] + re.sub(r"[0-9A-Za-z]", "0", match[2][start:])


def concerns_detection(name: str) -> bool:
    """Return whether a variable concerns detection; others are never recorded."""
    return name.upper().startswith(_PREFIXES) and not _SECRET_NAME.search(name)
