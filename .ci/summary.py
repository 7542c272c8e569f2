"""Print one line in pytest's format with the sum of what several runs of pytest counted."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

_SUMMARY = re.compile(r"^=+ (?P<counts>.*) in (?P<seconds>[\d.]+)s( \([\d:]+\))? =+$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (failed|passed|skipped|xfailed|xpassed|errors?)")


def main(logs: list[Path]) -> int:
    """Print the sum.

    :param logs: output of each run.
    :return: 1 if a run has no summary, or a test failed; else 0.
    """
    total: Counter[str] = Counter()
    seconds = 0.0
    missing = 0
    for log in logs:
        summaries = list(_SUMMARY.finditer(log.read_text(errors="replace")))
        if not summaries:
            print(f"{log.name}: no summary of pytest")
            missing += 1
            continue
        seconds += float(summaries[-1]["seconds"])
        for number, outcome in _COUNT.findall(summaries[-1]["counts"]):
            total[outcome.rstrip("s")] += int(number)
    order = ("failed", "passed", "skipped", "xfailed", "xpassed", "error")
    counts = ", ".join(f"{total[name]} {name}" for name in order if total[name])
    print(f" {counts or 'no tests ran'} in {seconds:.2f}s ".center(80, "="))
    return 1 if missing or total["failed"] or total["error"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
