"""Files that define an environment or configure its tools, and that no wheel may install.

A wheel could write all of them through ``data`` and ``scripts`` in its ``.data`` folder, and with
``--target`` those of the prefix also from its root. They are never removed with a distribution
either, even if its RECORD lists them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit.wheels.entry_points import is_interpreter_name
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

STARTUP_ENDINGS = (".pth", ".start")
"""Suffixes of files that `site` runs in library folders; ``.start`` since 3.15 (PEP 829)."""
STARTUP_MODULES = ("sitecustomize", "usercustomize")
"""Modules or packages that `site` imports from library folders."""

_CONFIGURES_INTERPRETER = "it configures the Python interpreter"
# Files that an interpreter reads at start-up, in its own folder or the one above.
_INTERPRETER_FILE = pattern(r"pyvenv\.cfg|.*\._pth|pybuilddir\.txt|python[0-9]+t?\.zip")
_TOOL_SETTINGS: Mapping[str, str] = {
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
"""Files of the prefix with the settings of a tool, by name; such a file could add an index."""
_ACTIVATION_SCRIPT = pattern(r"(?:de)?activate(?:\..*)?|activate_this\.py", re.DOTALL)
_ACTIVATES = "it activates the environment"
_RUNS_AT_STARTUP = "it runs code whenever Python starts"
# When conda, mamba or pixi activates or deactivates an environment, the shell sources each file of
# the first two folders, and gets the variables of the others.
_CONDA_ACTIVATION = pattern(
    r"(?:etc/conda/(?:activate|deactivate|env_vars)\.d|conda-meta)(?:/.*)?",
    re.IGNORECASE | re.DOTALL,
)
# Paths below a prefix of any system, in a library folder and in the standard library.
_PYTHON = r"lib(?:64)?/(?:python|pypy|graalpy)[0-9.]+t?"
_IN_LIBRARY = pattern(rf"(?:{_PYTHON}|lib)/(?:site|dist)-packages/(.+)", re.IGNORECASE | re.DOTALL)
_IN_STANDARD_LIBRARY = pattern(rf"{_PYTHON}/.+", re.IGNORECASE | re.DOTALL)
_SCRIPT_FOLDERS = frozenset({"bin", "scripts"})
_LIB_FOLDERS = frozenset({"lib", "lib64"})


def why_reserved_in_prefix(name: str) -> str | None:
    """Return the reason a file directly in the prefix is reserved; None if it is not."""
    name = name.casefold()
    if _INTERPRETER_FILE.fullmatch(name):
        return _CONFIGURES_INTERPRETER
    tool = _TOOL_SETTINGS.get(name)
    return None if tool is None else f"it has settings of {tool}"


def why_reserved_below_prefix(folder: str) -> str | None:
    """Return the reason all files of a folder are reserved; None if they are not.

    :param folder: relative to the prefix, with ``/``.
    """
    return "it decides what conda activates" if _CONDA_ACTIVATION.fullmatch(folder) else None


def why_reserved_in_scripts(name: str) -> str | None:
    """Return the reason a file in the folder of scripts is reserved; None if it is not."""
    if is_interpreter_name(name):
        return "it is the Python interpreter"
    name = name.casefold()
    if _INTERPRETER_FILE.fullmatch(name):
        return _CONFIGURES_INTERPRETER
    return _ACTIVATES if _ACTIVATION_SCRIPT.fullmatch(name) else None


def why_reserved_beside_library(name: str) -> str | None:
    """Return the reason a file beside the standard library is reserved; None if it is not."""
    return _CONFIGURES_INTERPRETER if _INTERPRETER_FILE.fullmatch(name.casefold()) else None


def why_reserved(scheme: str, path: str) -> str | None:
    """Return the reason a file is reserved in environments of any kind; None if it is not.

    >>> why_reserved("data", "share/demo/pip.conf")
    >>> why_reserved("data", "pip.conf")
    'it has settings of pip'

    :param scheme: ``data``, ``scripts``, ``purelib``, ``platlib`` or ``headers``.
    :param path: relative to the folder of the scheme, with ``/``.
    """
    folder, _, name = path.rpartition("/")
    if scheme in {"purelib", "platlib"}:
        return _why_in_library(path)
    if scheme == "scripts":
        return None if folder else why_reserved_in_scripts(name)
    if scheme != "data":
        return None
    if match := _IN_LIBRARY.fullmatch(path):
        return _why_in_library(match[1])
    if _IN_STANDARD_LIBRARY.fullmatch(path):
        return "it belongs to the standard library"
    if not folder:
        return why_reserved_in_prefix(name)
    if folder.casefold() in _SCRIPT_FOLDERS:
        return why_reserved_in_scripts(name)
    if folder.casefold() in _LIB_FOLDERS:
        return why_reserved_beside_library(name)
    return why_reserved_below_prefix(folder)


def _why_in_library(path: str) -> str | None:
    return _RUNS_AT_STARTUP if runs_at_startup(path.casefold()) else None


def runs_at_startup(path: str) -> bool:
    """Return whether Python runs a file at start-up.

    :param path: relative to a library folder, in lower case, with ``/``.
    """
    first, separator, _ = path.partition("/")
    is_module = first.partition(".")[0] in STARTUP_MODULES
    return is_module or (not separator and first.endswith(STARTUP_ENDINGS))
