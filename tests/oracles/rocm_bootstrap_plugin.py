"""Ask rocm-bootstrap about recorded machines; runs alone, under rocm-bootstrap's own Python.

``python rocm_bootstrap_plugin.py CASES ANSWERS``: CASES is a JSON list of ``{"root", "environ",
"clinfo"}``. ANSWERS is written as a JSON object: ``valid``, every value of its vocabulary, and
``supported``, per case the values of ``gfx_arch`` or why it fails.

It reads the machine it runs on, through functions of one module that its own tests replace too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rocm_bootstrap import _platform  # type: ignore[import-untyped,import-not-found,unused-ignore]
from rocm_bootstrap.variant_provider import AMDVariantPlugin  # type: ignore[import-untyped,import-not-found,unused-ignore]


def pretend(told: dict[str, Any]) -> None:
    """Let it see another machine."""
    _platform.KFD_TOPOLOGY = Path(told["root"]) / "sys/class/kfd/kfd/topology/nodes"
    _platform.get_env = told["environ"].get
    _platform.run_clinfo = lambda: told["clinfo"]


def supported() -> list[str] | str:
    """Return the values, or why there are none."""
    try:
        configs = AMDVariantPlugin.get_supported_configs()
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
    return [value for config in configs if config.name == "gfx_arch" for value in config.values]


def main(cases: str, answers: str) -> None:
    """Answer every case of a file."""
    found = []
    for told in json.loads(Path(cases).read_text(encoding="utf-8")):
        pretend(told)
        found.append(supported())
    (valid,) = AMDVariantPlugin.get_all_configs()
    assert valid.name == "gfx_arch"
    told = {"valid": valid.values, "supported": found}
    Path(answers).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
