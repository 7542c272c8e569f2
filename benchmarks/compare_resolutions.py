"""Resolve requirement sets with wheelfit, pip and uv, and print where they differ.

    python benchmarks/compare_resolutions.py                     every set
    python benchmarks/compare_resolutions.py own-docopt pandas   those whose name begins so
    python benchmarks/compare_resolutions.py --tools DIR         pip and uv of an environment
    python benchmarks/compare_resolutions.py --rows FILE         keep rows; go on after a stop

The sets stand in `requirement_sets.json`, and so does a reason for each difference that is meant.
All tools may build metadata of source distributions, as pip and uv always do; so run it where
code of these packages may run. What wheelfit would refuse to build unasked has a mark. A set for
another Python needs its interpreter on PATH (`python3.9`). The command ends with 1 if a
difference has no reason.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measuring import install
from packaging.utils import canonicalize_name

SETS = Path(__file__).with_name("requirement_sets.json")
TOOLS = ("wheelfit", "pip", "uv")
DEADLINE = 300
"""Seconds that a tool may take for a set."""


@dataclass(frozen=True)
class Answer:
    """What a tool makes of a set."""

    versions: dict[str, str] = field(default_factory=dict)
    """By name; empty where it refuses."""
    seconds: float = 0.0
    needs_consent: bool = False
    """Whether wheelfit builds nothing of it unasked."""
    refusal: str = ""
    """Why there are no versions: wheelfit's error code, or one word for the others."""


def resolve_with_wheelfit(words: list[str], python: str, folder: Path) -> Answer:
    """Return the answer of wheelfit, which may build if it asks for consent."""
    command = [sys.executable, "-m", "wheelfit", "install", "--dry-run", "--json", "--no-bridges"]
    command += ["--python", python, "--target", str(folder / "target"), *words]
    report = _read_json(_run(command))
    needs_consent = _error_code(report) == "source-build-not-allowed"
    if needs_consent:
        report = _read_json(_run([*command, "--allow-source", "always"]))
    versions = {package["name"]: package["version"] for package in report.get("install", [])}
    return Answer(versions, 0.0, needs_consent, _error_code(report))


def _error_code(report: dict[str, Any]) -> str:
    return str(report.get("error", {}).get("code", ""))


def _read_json(text: str) -> dict[str, Any]:
    return dict(json.loads(text)) if text.startswith("{") else {"error": {"code": "no answer"}}


def resolve_with_pip(pip: Path, words: list[str], python: str) -> Answer:
    """Return the answer of pip, run by its own interpreter for another one if need be."""
    command = [str(pip), "--python", python, "install", "--dry-run", "--quiet"]
    command += ["--ignore-installed", "--report", "-", *words]
    text = _run(command)
    if not text.startswith("{"):
        return Answer(refusal="refused" if text != "timeout" else text)
    chosen = [package["metadata"] for package in json.loads(text)["install"]]
    return Answer({canonicalize_name(data["name"]): data["version"] for data in chosen})


def resolve_with_uv(uv: Path, words: list[str], python: str, folder: Path) -> Answer:
    """Return the answer of uv."""
    requirements_file = folder / "wanted.in"
    requirements_file.write_text(
        "\n".join(word for word in words if not word.startswith("-")) + "\n"
    )
    options = ["--prerelease", "allow"] if "--pre" in words else []
    command = [str(uv), "pip", "compile", "--no-header", "--python", python, *options]
    text = _run([*command, str(requirements_file)])
    pairs = re.findall(r"(?m)^([A-Za-z0-9._-]+)(?:==| @ )(\S+)", text)
    if not pairs:
        return Answer(refusal="timeout" if text == "timeout" else "refused")
    return Answer({canonicalize_name(name): version for name, version in pairs})


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    return done.stdout


def resolve(tool: str, words: list[str], python: str, tools: Path) -> Answer:
    """Return the answer of a tool for an interpreter, and the seconds it took."""
    with tempfile.TemporaryDirectory(prefix="wheelfit-sets-") as name:
        folder = Path(name)
        began = time.monotonic()
        if tool == "wheelfit":
            answer = resolve_with_wheelfit(words, python, folder)
        elif tool == "pip":
            answer = resolve_with_pip(tools / "pip", words, python)
        else:
            answer = resolve_with_uv(tools / "uv", words, python, folder)
        seconds = time.monotonic() - began
    return Answer(answer.versions, seconds, answer.needs_consent, answer.refusal)


def difference(ours: Answer, theirs: Answer) -> str:
    """Return how two answers differ, in a few words; empty where they do not."""
    if bool(ours.versions) != bool(theirs.versions):
        return f"we: {ours.refusal}" if theirs.versions else f"they: {theirs.refusal}"
    return ", ".join(
        f"{name} {ours.versions.get(name, '-')} / {theirs.versions.get(name, '-')}"
        for name in sorted(ours.versions.keys() | theirs.versions.keys())
        if ours.versions.get(name) != theirs.versions.get(name)
    )


def compare(words: list[str], python: str, tools: Path) -> dict[str, Any]:
    """Return the row of a set: packages, consent, seconds by tool, differences by tool."""
    answers = {tool: resolve(tool, words, python, tools) for tool in TOOLS}
    ours = answers["wheelfit"]
    return {
        "packages": len(ours.versions) or ours.refusal,
        "consent": ours.needs_consent,
        "seconds": {tool: round(answers[tool].seconds, 1) for tool in TOOLS},
        "differences": {tool: difference(ours, answers[tool]) for tool in TOOLS[1:]},
    }


def print_table(rows: dict[str, Any], reasons: dict[str, str]) -> int:
    """Print the rows and what they come to; return how many differences have no reason."""
    print("| set | packages | consent | s | pip: s | uv: s | pip differs | uv differs | reason |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        seconds = " | ".join(f"{row['seconds'][tool]:.1f}" for tool in TOOLS)
        differs = " | ".join(row["differences"][tool] for tool in TOOLS[1:])
        consent = "asks" if row["consent"] else ""
        reason = reasons.get(name, "")
        print(f"| {name} | {row['packages']} | {consent} | {seconds} | {differs} | {reason} |")
    print()
    for tool in TOOLS[1:]:
        same = sum(not row["differences"][tool] for row in rows.values())
        ratios = [row["seconds"]["wheelfit"] / row["seconds"][tool] for row in rows.values()]
        print(f"same as {tool}: {same} of {len(rows)}, ", end="")
        print(f"median ratio of seconds to {tool}: {statistics.median(ratios):.1f}")
    unexplained = [
        name
        for name, row in rows.items()
        if any(row["differences"].values()) and name not in reasons
    ]
    print(f"differences without a reason: {', '.join(unexplained) or 'none'}")
    return len(unexplained)


def main() -> int:
    """Print the table; return 1 if a difference has no reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="sets whose name begins so")
    parser.add_argument("--tools", type=Path, help="the bin folder of an environment with both")
    parser.add_argument("--rows", type=Path, help="a JSON file of rows to add to")
    arguments = parser.parse_args()
    published = json.loads(SETS.read_text())
    is_resumed = arguments.rows and arguments.rows.exists()
    rows: dict[str, Any] = json.loads(arguments.rows.read_text()) if is_resumed else {}
    with tempfile.TemporaryDirectory(prefix="wheelfit-sets-") as folder:
        tools = arguments.tools or install(Path(folder) / "tools", "uv==0.13.8", "pip==26.3")
        tools = tools.absolute()
        for entry in published["sets"]:
            name, version = entry["name"], entry["python"]
            is_asked = not arguments.names or any(name.startswith(n) for n in arguments.names)
            if name in rows or not is_asked:
                continue
            python = shutil.which(f"python{version}")
            if python is None:
                print(f"{name}: no python{version} on PATH", file=sys.stderr)
                continue
            rows[name] = compare(entry["arguments"], python, tools)
            print(name, json.dumps(rows[name]), file=sys.stderr, flush=True)
            if arguments.rows:
                arguments.rows.write_text(json.dumps(rows, indent=1))
    return 1 if print_table(rows, published["reasons"]) else 0


if __name__ == "__main__":
    sys.exit(main())
