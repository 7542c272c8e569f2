"""Write what auditwheel knows of manylinux and musllinux as the data that `wheelfit check` uses.

python tests/checking/wheels/write_linux_policies.py
"""

from __future__ import annotations

import json
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

DATA = Path(__file__).parents[3] / "src/wheelfit/checking/wheels/linux_policies.json"
SYMBOLS = ("CXXABI", "GCC", "GLIBC", "GLIBCXX", "ZLIB")


def newest(versions: list[str]) -> str | None:
    """Return the newest of some versions of symbols, without those that are words."""
    found = []
    for text in versions:
        try:
            found.append(Version(text))
        except InvalidVersion:
            continue
    return str(max(found)) if found else None


def policy(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a policy: libraries, and the newest version of each kind of symbol."""
    symbols = {}
    for machine, kinds in entry["symbol_versions"].items():
        newest_of = {kind: newest(kinds.get(kind, [])) for kind in SYMBOLS}
        symbols[machine] = {kind: one for kind, one in newest_of.items() if one is not None}
    return {"libraries": sorted(entry["lib_whitelist"]), "symbols": symbols}


def policies() -> dict[str, Any]:
    """Return all policies by the tag that they are for, without the machine."""
    folder = files("auditwheel") / "policy"
    found: dict[str, Any] = {"source": f"auditwheel {version('auditwheel')}, MIT License"}
    for kind in ("manylinux", "musllinux"):
        entries = json.loads((folder / f"{kind}-policy.json").read_text("utf-8"))
        found |= {entry["name"]: policy(entry) for entry in entries if entry["name"] != "linux"}
    return found


if __name__ == "__main__":
    DATA.write_text(f"{json.dumps(policies(), indent=1)}\n", "utf-8")
