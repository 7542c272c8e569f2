"""Put the cases of the conformance suite to one or more tools and print what comes of it.

``python conformance/run.py --adapter "PYTHON conformance/adapters/wheelfit_adapter.py"``

Needs Python 3.11 or newer and nothing else. ``conformance/README.md`` describes the cases and
how to write an adapter.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suite.adapter import AdapterError, ask
from suite.cases import load_cases, load_rules
from suite.judging import load_known
from suite.ordering import drawn_cases
from suite.tables import as_json, as_markdown, as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suite.cases import Case
    from suite.judging import Known, Report

__all__ = ["main"]

DIFFERENT = 1
"""Exit code: a tool differs, or no longer differs where a file says that it does."""
BROKEN = 2
"""Exit code: the command line is wrong, or an adapter failed."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="conformance/run.py",
        description="Put the cases of the conformance suite to tools, by way of their adapters.",
    )
    add = parser.add_argument
    add("--adapter", action="append", required=True, metavar="COMMAND",
        help="command line of an adapter; give it again for another tool")  # fmt: skip
    add("--area", action="append", help="only cases of this area; may be repeated")
    add("--rule", action="append", help="only cases of this rule, as F-66; may be repeated")
    add("--case", action="append", metavar="ID", help="only this case; may be repeated")
    add("--drawn", type=int, default=100, metavar="N",
        help="how many random cases of ordering to add (default: 100)")  # fmt: skip
    add("--expected", action="append", default=[], metavar="TOOL=FILE",
        help="known differences of a tool; others, and those that are gone, count")  # fmt: skip
    add("--silence", type=float, default=120, metavar="SECONDS",
        help="stop an adapter that says nothing for so long (default: 120)")  # fmt: skip
    add("--deadline", type=float, default=900, metavar="SECONDS",
        help="stop an adapter that takes longer (default: 900)")  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--markdown", action="store_true", help="print tables in Markdown")
    add("--verbose", "-v", action="store_true", help="tell of every case that does not pass")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; return the exit code.

    :param arguments: the command line; None: that of the process.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    cases = _chosen(options)
    if not cases:
        parser.error("no case is left; look at --area, --rule and --case")
    try:
        known = _known(options.expected)
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"--expected: {error}")
    reports = []
    for command in options.adapter:
        try:
            words = shlex.split(command)
            report = ask(words, cases, silence=options.silence, deadline=options.deadline)
        except AdapterError as error:
            print(f"error: the adapter {command!r}: {error}", file=sys.stderr)
            return BROKEN
        reports.append(report)
    if options.json:
        print(json.dumps(as_json(reports), indent=2, ensure_ascii=False))
    elif options.markdown:
        print(as_markdown(reports, load_rules(), known), end="")
    else:
        print(as_text(reports, load_rules(), verbose=options.verbose))
    surprises = [line for one in reports for line in _surprises(one, known.get(one.tool, ()))]
    for line in surprises:
        print(line, file=sys.stderr)
    return DIFFERENT if surprises else 0


def _chosen(options: argparse.Namespace) -> list[Case]:
    cases = [*load_cases(), *drawn_cases(options.drawn)]
    return [
        case
        for case in cases
        if (options.area is None or case.area in options.area)
        and (options.rule is None or set(options.rule) & set(case.rules))
        and (options.case is None or case.id in options.case)
    ]


def _known(words: Sequence[str]) -> dict[str, list[Known]]:
    known: dict[str, list[Known]] = {}
    for word in words:
        tool, equals, path = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} is not TOOL=FILE")
        known.setdefault(tool, []).extend(load_known(Path(path)))
    return known


def _surprises(report: Report, known: Sequence[Known]) -> list[str]:
    lines = [
        f"{report.tool}: {finding.case.id} differs ({', '.join(finding.case.rules)})"
        for finding in report.unexpected(known)
    ]
    lines += [
        f"{report.tool}: nothing differs any more under {pattern!r}, which is listed as known"
        for pattern in report.outdated(known)
    ]
    return lines


if __name__ == "__main__":
    # Whoever ends the runner ends the adapter too, on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
