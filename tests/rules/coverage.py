"""Which test proves which rule: ``python tests/rules/coverage.py [--json]``.

The rules and what is asked of each stand in ``docs/reference/rules.md``. A test proves a
rule when its own docstring, or that of its class, names exactly that rule. A case of the
conformance suite proves the rules it lists.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]

RULE = re.compile(r"\b[FPB]-\d+\b")
# "F-60 to F-65" names two rules and means six; nobody can tell which of them is proved.
RANGE = re.compile(r"\b[FPB]-\d+ ?(?:to|until|through|–|—|-|…|\.\.+) ?[FPB]-\d+\b")
_ROW = re.compile(r"\| ([FPB]-\d+) \| ([^|]+) \| ([^|]+) \|")
_REMARK = re.compile(r"\| ([FPB]-\d+) \| ([^|]+) \|")
_EXCEPTION = "exception: "


@dataclass(frozen=True, slots=True)
class Rule:
    """Hold one row of the page."""

    name: str
    """As ``F-23``."""
    meaning: str
    """What it says, in a clause."""
    required: bool = False
    """Whether a test must prove it."""
    exception: str | None = None
    """Why no test can."""
    remark: str | None = None
    """What of it is missing, or done otherwise."""


@dataclass(frozen=True, slots=True)
class Test:
    """Hold a test, or a case, with the rules that it names."""

    name: str
    """As ``tests/core/test_labels.py::test_valid_labels``."""
    rules: tuple[str, ...]
    ranges: tuple[str, ...] = ()
    """Ranges in its docstring, which prove nothing."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Hold what is proved by what, and what is wrong with that."""

    rules: tuple[Rule, ...]
    tests: Mapping[str, tuple[str, ...]]
    """Names of tests by rule."""
    faults: tuple[str, ...]
    """One sentence each; empty when all is well."""

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "rules": [
                {
                    "rule": rule.name,
                    "meaning": rule.meaning,
                    "required": rule.required,
                    "exception": rule.exception,
                    "remark": rule.remark,
                    "tests": list(self.tests.get(rule.name, ())),
                }
                for rule in self.rules
            ],
            "faults": list(self.faults),
        }

    def as_text(self) -> str:
        """Return the table for people."""
        lines = []
        for rule in self.rules:
            lines.append(f"{rule.name}  {rule.meaning}")
            if rule.exception is not None:
                lines.append(f"    exception: {rule.exception}")
            if rule.remark is not None:
                lines.append(f"    in part: {rule.remark}")
            lines += [f"    {test}" for test in self.tests.get(rule.name, ())]
        proved = sum(1 for rule in self.rules if rule.required and self.tests.get(rule.name))
        required = sum(1 for rule in self.rules if rule.required)
        exceptions = sum(1 for rule in self.rules if rule.exception is not None)
        lines.append("")
        lines += [f"fault: {fault}" for fault in self.faults]
        lines.append(
            f"{proved} of {required} required rules are proved by a test; "
            f"{exceptions} exceptions; {len(self.rules)} rules in all"
        )
        return "\n".join(lines)


def read_rules(page: str) -> tuple[Rule, ...]:
    """Read the tables of the page.

    :raises ValueError: a row cannot be understood, or a rule is there twice.
    """
    rules: dict[str, Rule] = {}
    remarks: dict[str, str] = {}
    for line in page.splitlines():
        remark = _REMARK.fullmatch(line)
        if remark is not None:
            remarks[remark[1]] = remark[2]
            continue
        row = _ROW.fullmatch(line)
        if row is None:
            if re.match(r"\| *[FPB]-\d", line):
                raise ValueError(f"not a row of the table: {line}")
            continue
        name, meaning, tests = row.groups()
        exception = tests.removeprefix(_EXCEPTION) if tests.startswith(_EXCEPTION) else None
        if name in rules or (exception is None and tests not in ("required", "open")):
            raise ValueError(f"{name} is there twice, or says neither required nor open")
        rules[name] = Rule(name, meaning, tests == "required", exception)
    for name, text in remarks.items():
        if name not in rules or rules[name].exception is not None:
            raise ValueError(f"{name} is followed in part, but is not a rule that is followed")
        rules[name] = replace(rules[name], remark=text)
    return tuple(rules.values())


def read_tests(source: str, where: str) -> Iterator[Test]:
    """Find the tests in the text of a module; a class lends its docstring to all its tests."""
    yield from _tests_in(ast.parse(source).body, where, "")


def _tests_in(body: Iterable[ast.stmt], where: str, outer: str) -> Iterator[Test]:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            docstring = f"{outer}\n{ast.get_docstring(node) or ''}"
            yield from _tests_in(node.body, f"{where}::{node.name}", docstring)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            text = f"{outer}\n{ast.get_docstring(node) or ''}"
            ranges = tuple(RANGE.findall(text))
            rules = dict.fromkeys(RULE.findall(RANGE.sub("", text)))
            yield Test(f"{where}::{node.name}", tuple(rules), ranges)


def read_cases(data: object, where: str) -> Iterator[Test]:
    """Find the conformance cases in a file: every object that lists ``rules``."""
    if isinstance(data, dict):
        rules = data.get("rules")
        if isinstance(rules, list):
            name = data.get("id") or data.get("name") or "case"
            # "A-25" is a scenario of acceptance, no rule.
            named = (str(rule) for rule in rules)
            yield Test(f"{where}::{name}", tuple(rule for rule in named if rule[:2] != "A-"))
        for value in data.values():
            yield from read_cases(value, where)
    elif isinstance(data, list):
        for value in data:
            yield from read_cases(value, where)


def judge(rules: Iterable[Rule], tests: Iterable[Test]) -> Coverage:
    """Say which tests and cases prove which rule, and what is wrong."""
    rules = tuple(rules)
    known = {rule.name for rule in rules}
    proofs: dict[str, list[str]] = {}
    faults: list[str] = []
    for test in tests:
        faults += [f"{test.name} names a range, {each}: name each rule" for each in test.ranges]
        for rule in test.rules:
            if rule not in known:
                faults.append(f"{test.name} names {rule}, which does not exist")
            proofs.setdefault(rule, []).append(test.name)
    for each in rules:
        if each.required and each.name not in proofs:
            faults.append(f"no test proves {each.name}: {each.meaning}")
        if each.exception is not None and each.name in proofs:
            faults.append(f"{each.name} is an exception, but {proofs[each.name][0]} proves it")
    return Coverage(rules, {name: tuple(found) for name, found in proofs.items()}, tuple(faults))


@cache
def measure(repository: Path = REPOSITORY) -> Coverage:
    """Judge what is in the repository."""
    tests: list[Test] = []
    for path in sorted((repository / "tests").rglob("test_*.py")):
        where = path.relative_to(repository).as_posix()
        source = path.read_text(encoding="utf-8")
        if RULE.search(source):  # most modules name none, and need not be parsed
            tests += read_tests(source, where)
    for path in sorted((repository / "conformance" / "cases").rglob("*.json")):
        where = path.relative_to(repository).as_posix()
        tests += read_cases(json.loads(path.read_bytes()), where)
    page = repository / "docs" / "reference" / "rules.md"
    return judge(read_rules(page.read_text(encoding="utf-8")), tests)


def main(arguments: list[str] | None = None) -> int:
    """Print the coverage; return 1 when something is wrong with it."""
    parser = argparse.ArgumentParser(description="print which test proves which rule")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(arguments)
    coverage = measure()
    if options.json:
        print(json.dumps(coverage.as_json(), indent=2, ensure_ascii=False))
    else:
        print(coverage.as_text())
    return 1 if coverage.faults else 0


if __name__ == "__main__":
    sys.exit(main())
