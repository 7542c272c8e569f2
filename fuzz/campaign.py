"""Fuzz every target for a while, side by side, and say what came of it.

``python fuzz/campaign.py --hours 1`` runs all of them, ``... --hours 1 page marker`` two.
Logs, inputs that fail and inputs that reach new code are kept in ``fuzz/found/``.
``--keep`` copies the inputs that reach new code into the corpus. See ``docs/how-to/fuzz.md``.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGETS = sorted(path.stem for path in (HERE / "targets").glob("*.py"))
LIMITS = ["-timeout=5", "-rss_limit_mb=2048"]
"""Seconds and megabytes that no input may take; run.py looks at processor time besides."""


@dataclass(frozen=True, slots=True)
class Result:
    """Hold what came of one target."""

    target: str
    executions: int
    seconds: int
    features: int
    """How many different things the inputs make the code do, as libFuzzer counts."""
    findings: list[Path]
    """Inputs that fail; none after a clean run."""

    @property
    def row(self) -> str:
        """The result as a row of a table."""
        rate = self.executions // max(self.seconds, 1)
        return (
            f"{self.target:10} {self.executions:>12,} {rate:>8,} {self.features:>9,} "
            f"{len(self.findings):>9}"
        )


def fuzz(target: str, seconds: int, found: Path) -> Result:
    """Fuzz one target in a process of its own, until the time is up or an input fails.

    :param target: its name.
    :param seconds: how long.
    :param found: where logs and inputs go, below the name of the target.
    """
    folder = found / target
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    log = folder / "log.txt"
    with log.open("wb") as stream:
        status = subprocess.run(
            [
                sys.executable, HERE / "run.py", target, corpus, HERE / "corpus" / target,
                f"-max_total_time={seconds}", f"-artifact_prefix={folder}/",
                "-print_final_stats=1", *LIMITS,
            ],
            stdout=stream, stderr=subprocess.STDOUT, check=False,
        ).returncode  # fmt: skip
    findings = sorted(set(folder.iterdir()) - before - {log})
    if status and not findings:
        findings = [log]  # it did not even start
    text = log.read_text(errors="replace")
    executed = _last(r"number_of_executed_units: (\d+)", text)
    rate = _last(r"average_exec_per_sec: *(\d+)", text)
    ran = executed // rate if rate else 0
    return Result(target, executed, ran, _last(r" ft: (\d+)", text), findings)


def _last(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def keep(target: str, found: Path) -> int:
    """Add to the corpus what reaches code that nothing in it reaches; return how many files.

    :param target: its name.
    :param found: where `fuzz` left inputs.
    """
    corpus = HERE / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    before = len(list(corpus.iterdir()))
    merge: list[str | Path] = [
        sys.executable,
        HERE / "run.py",
        target,
        "-merge=1",
        corpus,
        found / target / "corpus",
    ]
    subprocess.run(merge, check=True, stderr=subprocess.DEVNULL)
    return len(list(corpus.iterdir())) - before


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--hours", type=float, default=1.0, help="how long (1)")
    parser.add_argument("--keep", action="store_true", help="only add what was found to the corpus")
    parser.add_argument("--found", type=Path, default=HERE / "found", help="where to (fuzz/found)")
    options = parser.parse_args()
    targets = options.targets or TARGETS
    if unknown := sorted(set(targets) - set(TARGETS)):
        parser.error(f"unknown: {', '.join(unknown)}")
    if options.keep:
        for target in targets:
            print(f"{target}: {keep(target, options.found)} inputs added to the corpus")
        return 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        seconds = int(options.hours * 3600)
        results = list(pool.map(lambda target: fuzz(target, seconds, options.found), targets))
    print(f"{'target':10} {'executions':>12} {'per s':>8} {'features':>9} {'findings':>9}")
    for result in results:
        print(result.row)
    for result in results:
        for path in result.findings:
            print(f"{result.target}: python fuzz/run.py {result.target} {path}")
    return 1 if any(result.findings for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
