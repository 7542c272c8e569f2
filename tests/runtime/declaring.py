"""Files in which implementations declare themselves, as authors write them."""

from __future__ import annotations

import json
from pathlib import Path

from wheelfit_runtime.loader.declaration_files import FOLDER

LOADS_SPAM = 'from wheelfit_runtime import load\nload("spam", into=__name__)\n'
"""The code of a package that is split."""


def declaration(title: str, *properties: str, **more: object) -> dict[str, object]:
    """Return what an implementation declares.

    :param title: group and name, as ``spam-cu12``; the module is ``spam_cu12`` then.
    :param more: other fields, or other values of these.
    """
    group, _, name = title.partition("-")
    told = {"schema": 1, "group": group, "implementation": name, "module": f"{group}_{name}"}
    return {**told, "properties": list(properties), **more}


def declare(site: Path, name: str, told: object) -> Path:
    """Write a file of declarations beside the modules, and return it.

    :param told: its text, or what it has as JSON.
    """
    path = site / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(told if isinstance(told, str) else json.dumps(told))
    return path
