"""Resolve requirement sets with wheelfit, pip and uv, and print where they differ.

    python benchmarks/compare_resolutions.py                     every set for this Python
    python benchmarks/compare_resolutions.py own-docopt pandas   those whose name begins so
    python benchmarks/compare_resolutions.py --tools DIR         pip and uv of an environment

The sets stand in `requirement_sets.json`, and so does a reason for each difference that is meant.
All tools may build metadata of source distributions, as pip and uv always do; so run it where
code of these packages may run. What wheelfit would refuse to build unasked has a mark. The command
ends with 1 if a difference has no reason.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

SETS = Path(__file__).with_name("requirement_sets.json")
TOOLS = ("wheelfit", "pip", "uv")
_DEADLINE = 300


@dataclass(frozen=True)
class Answer:
    """What a tool makes of a set."""

    versions: dict[str, str] = field(default_factory=dict)
    """By name; empty where it refuses."""
    seconds: float = 0.0
    needs_consent: bool = False
    """Whether wheelfit builds nothing of it unasked."""


def ask(tool: str, words: list[str], tools: Path, folder: Path) -> Answer:
    """Return the answer of a tool.

    :param tool: its name.
    :param words: the requirements.
    :param tools: the folder of pip and uv.
    :param folder: an empty one, for targets.
    """
    began = time.monotonic()
    if tool == "wheelfit":
        command = [sys.executable, "-m", "wheelfit", "install", "--dry-run", "--json"]
        command += ["--target", str(folder / "target"), *words]
        said = _run(command)
        is_refused = '"source-off"' in said
        if is_refused:
            said = _run([*command, "--allow-source", "always"])
        found = json.loads(said).get("install", []) if said.startswith("{") else []
        versions = {one["name"]: one["version"] for one in found}
        return Answer(versions, time.monotonic() - began, is_refused)
    if tool == "pip":
        said = _run(
            [
                *(str(tools / "pip"), "install", "--dry-run", "--quiet", "--ignore-installed"),
                *("--report", "-", *words),
            ]
        )
        report: dict[str, Any] = json.loads(said) if said.startswith("{") else {"install": []}
        pairs = [(one["metadata"]["name"], one["metadata"]["version"]) for one in report["install"]]
    else:
        wanted = folder / "wanted.in"
        texts = [word for word in words if not word.startswith("-")]
        wanted.write_text("\n".join(texts) + "\n")
        options = ["--prerelease", "allow"] if "--pre" in words else []
        said = _run([str(tools / "uv"), "pip", "compile", "--no-header", *options, str(wanted)])
        pairs = re.findall(r"(?m)^([A-Za-z0-9._-]+)==(\S+)", said)
    versions = {canonicalize_name(name): version for name, version in pairs}
    return Answer(versions, time.monotonic() - began)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DEADLINE, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def difference(ours: Answer, theirs: Answer) -> str:
    """Return how two answers differ, in a few words; empty where they do not."""
    if bool(ours.versions) != bool(theirs.versions):
        return "only we refuse" if theirs.versions else "only they refuse"
    return ", ".join(
        f"{name} {ours.versions.get(name, '-')} / {theirs.versions.get(name, '-')}"
        for name in sorted(ours.versions.keys() | theirs.versions.keys())
        if ours.versions.get(name) != theirs.versions.get(name)
    )


def main() -> int:
    """Print the table; return 1 if a difference has no reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="sets whose name begins so")
    parser.add_argument("--tools", type=Path, help="the bin folder of an environment with both")
    arguments = parser.parse_args()
    known = json.loads(SETS.read_text())
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    unexplained = 0
    with tempfile.TemporaryDirectory(prefix="wheelfit-sets-") as folder:
        tools = arguments.tools or install_tools(Path(folder) / "tools")
        print("| set | consent | s | pip: s | uv: s | differs from pip | from uv | reason |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        for one in known["sets"]:
            name = one["name"]
            is_asked = not arguments.names or any(name.startswith(n) for n in arguments.names)
            if one["python"] != python or not is_asked:
                continue
            answers = {}
            for tool in TOOLS:
                place = Path(tempfile.mkdtemp(dir=folder))
                answers[tool] = ask(tool, one["arguments"], tools.absolute(), place)
            ours = answers["wheelfit"]
            differs = [difference(ours, answers[tool]) for tool in TOOLS[1:]]
            reason = known["reasons"].get(name, "")
            unexplained += any(differs) and not reason
            seconds = " | ".join(f"{answers[tool].seconds:.1f}" for tool in TOOLS)
            consent = "asks" if ours.needs_consent else ""
            print(
                f"| {name} | {consent} | {seconds} | {' | '.join(differs)} | {reason} |", flush=True
            )
    print(f"differences without a reason: {unexplained}")
    return 1 if unexplained else 0


def install_tools(folder: Path) -> Path:
    """Install pip and uv into an environment of their own and return its scripts."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = folder / "bin" / "pip"
    subprocess.run([pip, "install", "--quiet", "uv==0.13.8", "pip==26.3"], check=True)
    return folder / "bin"


if __name__ == "__main__":
    sys.exit(main())
