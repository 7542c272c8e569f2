"""Files that decide what an environment is, or what its tools do: no wheel may bring them.

A wheel reaches all of them through ``data`` and ``scripts`` in its ``.data`` folder; with
``--target`` it reaches the prefix from its root too. The same files are never removed with a
distribution, whatever its RECORD says. This is the only list of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.patterns import pattern
from wheelfit.wheels.entry_points import is_interpreter_name

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "STARTUP_ENDINGS",
    "STARTUP_MODULES",
    "why_reserved_beside_library",
    "why_reserved_in_prefix",
    "why_reserved_in_scripts",
]


def __dir__() -> list[str]:
    return __all__


STARTUP_ENDINGS = (".pth", ".start")
"""`site` reads both in library folders, the second kind since Python 3.15 (PEP 829)."""
STARTUP_MODULES = ("sitecustomize", "usercustomize")
"""`site` imports them from library folders, in whatever form they are."""

_INTERPRETER = "it tells the Python interpreter where to look"
# What an interpreter reads beside itself, or above, before anything else.
_OF_INTERPRETER = pattern(r"pyvenv\.cfg|.*\._pth|pybuilddir\.txt|python[0-9]+t?\.zip")
_TOOLS: Mapping[str, str] = {
    "pip.conf": "pip",
    "pip.ini": "pip",
    "uv.toml": "uv",
    "wheelfit.toml": "wheelfit",
    "pdm.toml": "pdm",
    ".pdm.toml": "pdm",
    "poetry.toml": "poetry",
    ".pypirc": "twine",
    ".condarc": "conda",
    "condarc": "conda",
}
"""Which tool has its settings in a file of the prefix; such a file may name another index."""
_ACTIVATION = pattern(r"(?:de)?activate(?:\.(?:bat|csh|fish|nu|ps1))?|activate_this\.py")
_ACTIVATES = "it activates the environment"


def why_reserved_in_prefix(name: str) -> str | None:
    """Return why a file of the prefix belongs to no distribution; None if it may.

    :param name: of a file right in the prefix, in any case.
    """
    name = name.casefold()
    if _OF_INTERPRETER.fullmatch(name):
        return _INTERPRETER
    tool = _TOOLS.get(name)
    return None if tool is None else f"it has settings of {tool}"


def why_reserved_in_scripts(name: str) -> str | None:
    """Return why a file among the commands belongs to no distribution; None if it may.

    :param name: of the file, in any case.
    """
    if is_interpreter_name(name):
        return "it is the Python interpreter"
    name = name.casefold()
    if _OF_INTERPRETER.fullmatch(name):
        return _INTERPRETER
    return _ACTIVATES if _ACTIVATION.fullmatch(name) else None


def why_reserved_beside_library(name: str) -> str | None:
    """Return why a file beside the standard library belongs to no distribution; None if it may.

    :param name: of a file in the folder above that of the standard library, in any case.
    """
    return _INTERPRETER if _OF_INTERPRETER.fullmatch(name.casefold()) else None
