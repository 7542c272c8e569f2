"""Ask a published CPU plugin, or archspec itself, about recorded machines; runs alone.

``python cpu_plugin.py ENDPOINT MACHINES ANSWERS``: ENDPOINT is ``module:Class``, or ``archspec``.
MACHINES is a JSON list of ``{"system", "machine", "cpuinfo", "sysctl"}``; the answers are
written as a JSON list: of a plugin ``[[feature, [value, ...]], ...]``, of archspec the names
of the family, its generic ancestor and its features.

All of these read the machine they run on and cannot be pointed elsewhere. So what *they* open
and ask is replaced in this process, which is theirs alone.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import io
import json
import platform
import sys
from pathlib import Path
from typing import Any


def pretend(told: dict[str, Any]) -> None:
    """Let everything in this process see another machine."""
    real = OPEN

    def open_recorded(name: Any, *arguments: Any, **options: Any) -> Any:
        if name == "/proc/cpuinfo":
            return io.StringIO(told["cpuinfo"])
        return real(name, *arguments, **options)

    builtins.open = open_recorded  # type: ignore[assignment]
    platform.system = lambda: str(told["system"])
    platform.machine = lambda: str(told["machine"])


def answer_sysctl(detect: Any, told: dict[str, Any]) -> None:
    """Let archspec's module ask recorded answers of macOS."""

    def check_output(arguments: list[str], env: Any) -> str:
        del env
        names = [word for word in arguments[1:] if not word.startswith("-")]
        answers = told["sysctl"]
        if "-n" in arguments:
            return "".join(f"{answers.get(name, '')}\n" for name in names)
        return "".join(f"{name}: {answers[name]}\n" for name in names if name in answers)

    detect._check_output = check_output


def forget(detect: Any) -> None:
    """Drop what was kept of the machine before."""
    for kept in vars(detect).values():
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()


def main(endpoint: str, machines: str, answers: str) -> None:
    """Answer for every machine of a file."""
    module, _, name = endpoint.partition(":")
    plugin = getattr(importlib.import_module(module), name)() if name else None
    detect = importlib.import_module("archspec.cpu.detect")
    found: list[Any] = []
    for told in json.loads(Path(machines).read_text(encoding="utf-8")):
        pretend(told)
        answer_sysctl(detect, told)
        forget(detect)
        if plugin is not None:
            # P-25: the API of mid-2025 has a parameter.
            asked = inspect.signature(plugin.get_supported_configs).parameters
            configs = plugin.get_supported_configs(*[None] * len(asked))
            found.append([(config.name, config.values) for config in configs])
        else:
            family = detect.host()
            found.append([family.name, family.generic.name, sorted(family.features)])
    builtins.open = OPEN
    Path(answers).write_text(json.dumps(found), encoding="utf-8")


OPEN = builtins.open

if __name__ == "__main__":
    main(*sys.argv[1:])
