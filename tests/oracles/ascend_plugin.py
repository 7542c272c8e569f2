"""Ask ascend-variant-provider about this process's environment; runs alone, under its own Python.

``python ascend_plugin.py MACHINE ANSWER``: MACHINE stands for what ``uname -m`` says. ANSWER is
written as a JSON list of ``[feature, [value, ...]]``, supported and then valid. What it prints
besides is its own.

It finds the tool on ``PATH`` and the toolkit by its variable, which need no help.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

from ascend_variant_provider.plugin import AscendVariantPlugin  # type: ignore[import-untyped,import-not-found,unused-ignore]


def main(machine: str, answer: str) -> None:
    """Write what it supports and what it calls valid."""
    os.uname = lambda: SimpleNamespace(machine=machine)  # type: ignore[assignment,return-value]
    told = [
        [[config.name, config.values] for config in configs]
        for configs in (
            AscendVariantPlugin.get_supported_configs(),
            AscendVariantPlugin.get_all_configs(),
        )
    ]
    Path(answer).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
