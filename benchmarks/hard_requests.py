"""Resolve twelve hard requests with wheelfit, uv and nab; print decisions, reads, seconds, memory.

    python benchmarks/hard_requests.py                      all twelve
    python benchmarks/hard_requests.py boto3-stubs azure    those whose name begins so
    python benchmarks/hard_requests.py --tools DIR          uv and nab of an environment

Every tool begins with an empty cache and asks an index on the loopback interface that repeats the
configured one from memory and counts (`counting_index.py`). One run before warms the index, so
that no tool waits for somebody else's server. The command ends with 1 if wheelfit reads the
metadata of more than three times as many releases as uv does.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from counting_index import Count, CountingIndex
from measuring import install

from wheelfit.server.loopback import LoopbackServer

REQUESTS = {
    "boto3-stubs": ["boto3-stubs[s3]"],
    "boto3-stubs-essential": ["boto3-stubs[essential]"],
    "sentry-django": ["sentry-sdk[django]"],
    "apache-beam": ["apache-beam"],
    "apache-beam-gcp": ["apache-beam[gcp]"],
    "azure-cli": ["azure-cli"],
    "sagemaker": ["sagemaker", "boto3"],
    "google-cloud": [
        *("google-cloud-storage", "google-cloud-bigquery", "google-cloud-pubsub"),
        "google-cloud-aiplatform",
    ],
    "airflow": ["apache-airflow==2.10.*"],
    "dbt": ["dbt-core", "dbt-postgres"],
    "keras": ["tensorflow==2.15.*", "keras-cv"],
    "transformers": ["transformers[torch]", "datasets", "numpy<2"],
}
MOST = 3
"""How many times as many releases as uv may have their metadata read."""
_CHILD = """
import sys
from nab_resolver.resolver import Resolver
solve, decisions = Resolver.solve, []
def counted(self, *arguments, **more):
    try:
        return solve(self, *arguments, **more)
    finally:
        decisions.append(self.stats.decisions)
Resolver.solve = counted
from wheelfit.cli.main import main
code = main(sys.argv[1:])
print("decisions", sum(decisions), file=sys.stderr)
raise SystemExit(code)
"""
"""Runs wheelfit and counts the decisions of the solver library."""
_METER = """
import os, resource, subprocess, sys, time
began = time.monotonic()
code = subprocess.run(sys.argv[1:]).returncode
memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
print("measured", time.monotonic() - began, memory, code)
"""
"""Measures a command from a small process, since the memory of who starts one counts as its own."""
PYPROJECT = """\
[project]
name = "tree"
version = "1"
requires-python = "=={python}.*"
dependencies = {needs}
[[tool.nab.indexes]]
name = "index"
url = "{index}"
"""


@dataclass(frozen=True)
class Run:
    """What one run of one tool took."""

    count: Count
    decisions: int | None
    seconds: float
    memory: int
    """Megabytes at most at one time."""
    code: int


def run(words: list[str], folder: Path, pattern: str, index: CountingIndex) -> Run:
    """Run a command and measure it.

    :param pattern: matches each decision in what it says, or the number of all in a group.
    """
    index.count = Count()
    metered = [sys.executable, "-c", _METER, *words]
    completed = subprocess.run(
        metered, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    output, _, measured = completed.stdout.decode(errors="replace").rpartition("measured ")
    seconds, memory, code = measured.split()
    matches = re.findall(pattern, output)
    decisions = int(matches[-1]) if matches and matches[-1].isdigit() else len(matches)
    return Run(index.count, decisions or None, float(seconds), int(memory), int(code))


def commands(tools: Path, folder: Path, url: str, needs: list[str]) -> dict[str, list[str]]:
    """Return the command of each tool, for requirements that are written into a new folder."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    text = PYPROJECT.format(python=python, needs=json.dumps(needs), index=url)
    (folder / "pyproject.toml").write_text(text)
    (folder / "tree.in").write_text("\n".join(needs) + "\n")
    cache, target = str(folder / "cache"), str(folder / "target")
    return {
        "wheelfit": [
            *(sys.executable, "-c", _CHILD, "explain", "--with-deps", "-r", "tree.in"),
            *("--index-url", url, "--cache-dir", cache, "--target", target),
        ],
        "uv": [
            *(str(tools / "uv"), "pip", "compile", "-v", "tree.in", "-p", python),
            *("--cache-dir", cache, "--default-index", url),
        ],
        "nab": [
            *(str(tools / "nab"), "lock", "pyproject.toml", "--output", "-"),
            *("--cache-dir", cache),
        ],
    }


_DECISIONS = {
    "wheelfit": r"^decisions (\d+)",
    "uv": r"DEBUG Selecting: ",
    "nab": r"(?!)",  # it tells of none
}


def measure(name: str, tools: Path, place: Path) -> dict[str, Run]:
    """Resolve one request with every tool."""
    application = CountingIndex()
    runs = {}
    with LoopbackServer(application) as server:
        for turn in range(2):  # the first one warms the index
            for tool in ("wheelfit", "uv", "nab"):
                folder = Path(tempfile.mkdtemp(prefix=f"{name}-{turn}-", dir=place))
                words = commands(tools, folder, f"{server.origin}/simple/", REQUESTS[name])[tool]
                pattern = f"(?m){_DECISIONS[tool]}"
                runs[tool] = run(words, folder, pattern, application)
    return runs


def row(name: str, tool: str, result: Run) -> str:
    """Return a row of the table."""
    ended = "" if result.code == 0 else f" (exit {result.code})"
    decisions = "" if result.decisions is None else result.decisions
    return (
        f"| {name} | {tool}{ended} | {decisions} | {result.count.pages} | {result.count.metadata} "
        f"| {result.count.wheels} | {result.seconds:.1f} | {result.memory} |"
    )


def main() -> int:
    """Print the table; return 1 if wheelfit reads too much."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="requests whose name begins so")
    parser.add_argument("--tools", type=Path, help="the bin folder of an environment with uv, nab")
    arguments = parser.parse_args()
    chosen = [
        name
        for name in REQUESTS
        if not arguments.names or any(name.startswith(result) for result in arguments.names)
    ]
    too_much = []
    with tempfile.TemporaryDirectory(prefix="wheelfit-hard-") as folder:
        tools = arguments.tools or install(Path(folder) / "tools", "uv==0.13.8", "nab")
        print("| request | tool | decisions | pages | metadata | files | seconds | MB |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        for name in chosen:
            runs = measure(name, tools.absolute(), Path(folder))
            for tool, result in runs.items():
                print(row(name, tool, result), flush=True)
            ours, theirs = runs["wheelfit"].count.metadata, runs["uv"].count.metadata
            if runs["uv"].code == 0 and ours > MOST * theirs:
                too_much.append(f"{name}: {ours} beside {theirs}")
    for line in too_much:
        print(f"more than {MOST} times as many releases as uv: {line}")
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
