"""The cases of the conformance suite as data."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from suite.cases import CASES, load_cases, load_rules
from suite.judging import load_known
from suite.ordering import drawn_cases, order

REPOSITORY = Path(__file__).parents[2]
SUITE = REPOSITORY / "conformance"
FILES = sorted(CASES.glob("*.json"))
ALL = load_cases()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_follow_the_schema(path: Path) -> None:
    """Every file of cases is valid under the schema that is published with it."""
    schema = json.loads((SUITE / "format-1.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    content = json.loads(path.read_text(encoding="utf-8"))
    faults = [
        f"{list(fault.absolute_path)}: {fault.message[:300]}"
        for fault in Draft202012Validator(schema).iter_errors(content)
    ]
    assert faults == []
    assert content["area"] == path.stem


def test_the_schema_refuses() -> None:
    """The schema refuses what the runner could not use: questions, keys and rules of no kind."""
    schema = json.loads((SUITE / "format-1.schema.json").read_text(encoding="utf-8"))
    validator = Draft202012Validator({"$defs": schema["$defs"], "$ref": "#/$defs/case"})
    sound = {
        "id": "label-x", "rules": ["F-2"], "claim": "It is so.", "question": "parse-label",
        "input": {"label": "x"}, "expected": {"result": {"label": "x"}},
    }  # fmt: skip
    assert validator.is_valid(sound)
    changes: list[dict[str, Any]] = [
        {"question": "parse-lable"},
        {"input": {"text": "x"}},
        {"rules": []},
        {"rules": ["X-2"]},
        {"claim": "no sentence"},
        {"expected": {}},
        {"expected": {"result": {"label": "x"}, "invalid": True}},
        {"extra": 1},
    ]
    for change in changes:
        assert not validator.is_valid({**sound, **change}), change


def test_ids_are_unique() -> None:
    """No two cases share an id, and an id begins with its area."""
    counts = Counter(case.id for case in [*ALL, *drawn_cases(400)])
    assert [name for name, count in counts.items() if count > 1] == []
    assert [case.id for case in ALL if not case.id.startswith(f"{case.area}-")] == []


def test_every_rule_has_its_cases() -> None:
    """Every rule that is named is known, and every known rule has a case or says why not."""
    rules = load_rules()
    named = {rule for case in [*ALL, *drawn_cases(1)] for rule in case.rules}
    assert named - rules.keys() == set()
    observable = {name for name, rule in rules.items() if not rule.unobservable}
    assert observable == named


def test_rules_are_those_of_wheelfit() -> None:
    """A rule of the suite is a rule of the reference, and no rule of the format is left out."""
    page = (REPOSITORY / "docs/reference/rules.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| ([FPB]-\d+) \|", page, re.MULTILINE))
    ours = {name for name in load_rules() if not name.startswith("A-")}
    assert ours - listed == set()
    assert {name for name in listed if name.startswith("F-")} - ours == set()


def test_drawn_cases_are_the_same_everywhere() -> None:
    """A-80: more cases begin with fewer cases, and their labels are worth ordering."""
    few, many = drawn_cases(20), drawn_cases(400)
    assert many[:20] == few
    lengths = [len(case.expected["result"]["order"]) for case in many]
    assert sum(length > 2 for length in lengths) > 130
    assert sum(length < len(case.input["document"]["variants"]) for length, case in zip(
        lengths, many, strict=True)) > 100  # fmt: skip


def test_the_second_implementation_agrees_with_the_hand() -> None:
    """F-66: the few lines behind drawn cases give what was derived by hand."""
    compared = 0
    for case in ALL:
        if case.question != "order-labels" or {"target", "options"} & case.input.keys():
            continue
        document = case.input["document"]
        static = all("static-properties" in provider for provider in document["providers"].values())
        if static and "850" in document.get("$schema", ""):
            assert order(document) == case.expected["result"]["order"], case.id
            compared += 1
    assert compared > 20


def test_the_runner_needs_the_standard_library_only() -> None:
    """Nothing of wheelfit or of anybody else is imported outside of the adapters."""
    for path in [SUITE / "run.py", *(SUITE / "suite").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                top = name.split(".")[0]
                assert top == "suite" or top in sys.stdlib_module_names, f"{path}: {name}"


@pytest.mark.parametrize("path", sorted((SUITE / "known").glob("*.json")), ids=lambda p: p.stem)
def test_known_differences_name_rules_and_cases(path: Path) -> None:
    """A known difference has a rule of the suite, a clause, and patterns of existing cases."""
    rules = load_rules()
    for known in load_known(path):
        assert known.rule in rules
        assert known.why
        assert not known.why.endswith(".")
        for pattern in known.cases:
            part = type(known)((pattern,), known.rule, known.why)
            assert any(part.covers(case) for case in ALL), pattern


def test_the_readme_has_every_question() -> None:
    """The README lists the questions that occur, and its examples are of the suite."""
    text = (SUITE / "README.md").read_text(encoding="utf-8")
    table = text.split("## Questions")[1].split("## Adapters")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`([a-z-]+)`", cell)}
    assert listed == {case.question for case in ALL}
    examples = re.findall(r'"id": "([^"]+)"', text)
    known = {case.id: case for case in ALL}
    assert set(examples) <= known.keys()
    block = next(one for one in re.findall(r"```json\n(.*?)```", text, re.DOTALL) if "claim" in one)
    example = json.loads(block)
    case = known[example["id"]]
    assert (example["claim"], example["input"]) == (case.claim, case.input)
    assert (example["question"], example["expected"]) == (case.question, case.expected)
