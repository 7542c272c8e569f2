"""Measure what a look at the whole machine costs, beside other tools.

``python benchmarks/probe.py [--rounds N] [--variantlib PYTHON] [--uv UV]``

All built-in namespaces are asked. *Cold*: a fresh process, less what a process that does
nothing costs. *Warm*: a new look in a process in which everything is imported. *First*: the
first look in a process, imports included, as measured inside. Runs of all programs take
turns, so that a busy machine slows all alike; medians are shown, and ratios to the cold
look at all namespaces.

Others answer for less: variantlib asks wheelfit's provider of x86-64 (it refuses the
published one, whose plain call is shown), if the interpreter of an environment with
``variantlib`` and ``provider-variant-x86-64`` is given; uv looks for NVIDIA's, AMD's and
Intel's drivers to choose an index for torch.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

NOTHING = "pass"
DISCOVERY = "import wheelfit_runtime.platforms.discovery"
PROBE = """
import wheelfit_runtime.platforms.discovery as discovery
machine = discovery.Machine()
machine.overrides_in_effect()
for namespace in machine.namespaces:
    machine.detect(namespace)
"""
INSIDE = """
import sys, time
start = time.perf_counter()
def probe():
    import wheelfit_runtime.platforms.discovery as discovery
    machine = discovery.Machine()
    machine.overrides_in_effect()
    return [machine.detect(namespace) for namespace in machine.namespaces]
probe()
first = time.perf_counter() - start
times = []
for _ in range(20):
    start = time.perf_counter()
    found = probe()
    times.append(time.perf_counter() - start)
print(first, sorted(times)[10], *(f"{one.namespace}={one.seconds:.6f}" for one in found))
"""
X86_64 = """
import wheelfit_runtime.platforms.discovery as discovery
discovery.Machine().detect("x86_64")
"""
VARIANTLIB = """
from variantlib.plugins.loader import DictPluginLoader
with DictPluginLoader({"x86_64": "wheelfit_runtime.platforms.providers.x86_64.provider"}) as loader:
    assert loader.get_supported_configs()
"""
PLUGIN = """
from provider_variant_x86_64.plugin import X8664Plugin
assert X8664Plugin().get_supported_configs(None)
"""


def seconds(*command: str) -> float:
    """Return how long a program takes; one that fails ends the measurement."""
    start = time.perf_counter()
    # variantlib runs plugins in a child process that must find ours.
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "runtime" / "src")}
    done = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environ,
    )
    taken = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stderr}")
    return taken


def inside(python: str) -> tuple[float, float, dict[str, float]]:
    """Return the time of the first look, of later ones, and of each namespace then."""
    done = subprocess.run([python, "-c", INSIDE], capture_output=True, text=True, check=True)
    first, warm, *each = done.stdout.split()
    parts = (one.partition("=") for one in each)
    return float(first), float(warm), {name: float(text) for name, _, text in parts}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--variantlib", metavar="PYTHON")
    parser.add_argument("--uv", metavar="UV")
    arguments = parser.parse_args()
    python = sys.executable
    commands = {
        "python, doing nothing": (python, "-c", NOTHING),
        "wheelfit, discovery imported": (python, "-c", DISCOVERY),
        "wheelfit, all namespaces": (python, "-c", PROBE),
        "wheelfit probe (the command)": (python, "-m", "wheelfit", "probe"),
    }
    if arguments.variantlib:
        commands["the other python, doing nothing"] = (arguments.variantlib, "-c", NOTHING)
        commands["wheelfit, x86_64 only"] = (python, "-c", X86_64)
        commands["variantlib, x86_64 only"] = (arguments.variantlib, "-c", VARIANTLIB)
        commands["published x86-64 plugin, bare"] = (arguments.variantlib, "-c", PLUGIN)
    if arguments.uv:
        commands["uv, doing nothing"] = (arguments.uv, "--version")
        commands["uv, choosing torch's backend"] = (
            *(arguments.uv, "pip", "compile", "--torch-backend=auto", "--offline", os.devnull),
        )
    times: dict[str, list[float]] = {name: [] for name in commands}
    firsts, warms = [], []
    each: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        for name, command in commands.items():
            times[name].append(seconds(*command))
        first, warm, parts = inside(python)
        firsts.append(first)
        warms.append(warm)
        for namespace, part in parts.items():
            each.setdefault(namespace, []).append(part)
    medians = {name: statistics.median(detected) for name, detected in times.items()}
    floor = medians["python, doing nothing"]
    ours = medians["wheelfit, all namespaces"]
    for name, median in medians.items():
        beyond = f"{(median - floor) * 1000:8.1f} ms beyond the interpreter"
        print(f"{name:32} {median * 1000:8.1f} ms {beyond} {median / ours:6.2f} x")
    print(f"{'first look, inside':32} {statistics.median(firsts) * 1000:8.1f} ms")
    print(f"{'later looks, inside':32} {statistics.median(warms) * 1000:8.1f} ms")
    for namespace, detected in each.items():
        print(f"    {namespace:28} {statistics.median(detected) * 1000:8.2f} ms")


if __name__ == "__main__":
    main()
