"""Files that define an environment, or steer its tools: no wheel may install them.

A wheel reaches all of them through ``data`` and ``scripts`` in its ``.data`` folder; with
``--target`` it reaches the prefix from its root too. The same files are never removed with a
distribution, even if its RECORD lists them. This is the only list of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit.wheels.entry_points import is_interpreter_name
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

STARTUP_ENDINGS = (".pth", ".start")
"""`site` reads both in library folders, the second kind since Python 3.15 (PEP 829)."""
STARTUP_MODULES = ("sitecustomize", "usercustomize")
"""`site` imports them from library folders, in any form."""

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
_ACTIVATION = pattern(r"(?:de)?activate(?:\..*)?|activate_this\.py", re.DOTALL)
_ACTIVATES = "it activates the environment"
_RUNS_ALWAYS = "it runs code whenever Python starts"
# Shells source each file of the first two when conda, mamba or pixi activates an environment, and
# get the variables that stand in the others.
_OF_CONDA = pattern(
    r"(?:etc/conda/(?:activate|deactivate|env_vars)\.d|conda-meta)(?:/.*)?",
    re.IGNORECASE | re.DOTALL,
)
# Below a prefix, on any system: what lies in a library folder, and the standard library.
_PYTHON = r"lib(?:64)?/(?:python|pypy|graalpy)[0-9.]+t?"
_IN_LIBRARY = pattern(rf"(?:{_PYTHON}|lib)/(?:site|dist)-packages/(.+)", re.IGNORECASE | re.DOTALL)
_IN_STANDARD_LIBRARY = pattern(rf"{_PYTHON}/.+", re.IGNORECASE | re.DOTALL)
_SCRIPTS = frozenset({"bin", "scripts"})
_ABOVE_LIBRARY = frozenset({"lib", "lib64"})


def why_reserved_in_prefix(name: str) -> str | None:
    """Return the reason a file of the prefix is reserved; None if it is not."""
    name = name.casefold()
    if _OF_INTERPRETER.fullmatch(name):
        return _INTERPRETER
    tool = _TOOLS.get(name)
    return None if tool is None else f"it has settings of {tool}"


def why_reserved_below_prefix(folder: str) -> str | None:
    """Return the reason all files of a folder are reserved; None if they are not."""
    return "it decides what conda activates" if _OF_CONDA.fullmatch(folder) else None


def why_reserved_in_scripts(name: str) -> str | None:
    """Return the reason a file among the commands is reserved; None if it is not."""
    if is_interpreter_name(name):
        return "it is the Python interpreter"
    name = name.casefold()
    if _OF_INTERPRETER.fullmatch(name):
        return _INTERPRETER
    return _ACTIVATES if _ACTIVATION.fullmatch(name) else None


def why_reserved_beside_library(name: str) -> str | None:
    """Return the reason a file beside the standard library is reserved; None if it is not."""
    return _INTERPRETER if _OF_INTERPRETER.fullmatch(name.casefold()) else None


def why_reserved(scheme: str, path: str) -> str | None:
    """Return the reason some environment refuses a file by its name; None if none does.

    >>> why_reserved("data", "share/demo/pip.conf")
    >>> why_reserved("data", "pip.conf")
    'it has settings of pip'

    :param scheme: the scheme of the file: ``data``, ``scripts``, ``purelib``, ``platlib`` or
        ``headers``, with any folders of an environment for these.
    :param path: below that, with ``/``.
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
    lower = folder.casefold()
    if not folder:
        return why_reserved_in_prefix(name)
    if lower in _SCRIPTS:
        return why_reserved_in_scripts(name)
    if lower in _ABOVE_LIBRARY:
        return why_reserved_beside_library(name)
    return why_reserved_below_prefix(folder)


def _why_in_library(path: str) -> str | None:
    """Return the reason a ``.data`` folder installs no file at a path in a library folder."""
    return _RUNS_ALWAYS if runs_at_startup(path.casefold()) else None


def runs_at_startup(path: str) -> bool:
    """Return whether a path in a library folder, in lower case, is that of a startup file."""
    first, separator, _ = path.partition("/")
    is_module = first.partition(".")[0] in STARTUP_MODULES
    return is_module or (not separator and first.endswith(STARTUP_ENDINGS))
