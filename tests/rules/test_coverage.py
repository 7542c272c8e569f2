"""The table of rules and tests, and that it is complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from python_runs import run_python
from rules.coverage import REPOSITORY, Coverage, judge, measure, read_cases, read_rules, read_tests
from rules.coverage import Test as Proof

PAGE = """
# Rules

| rule | what is missing |
|---|---|
| P-3 | half of it |

| rule | meaning | tests |
|---|---|---|
| F-1 | one thing | required |
| F-12 | another | required |
| P-3 | a third | open |
| B-4 | a fourth | exception: there is no such thing |
"""
MODULE = '''
"""F-99: the docstring of a module proves nothing."""

def test_one() -> None:
    """F-1: it holds; F-12, P-3 too, but F-123 is another rule."""

def test_without() -> None:
    pass

def helper() -> None:
    """F-98."""

class TestMore:
    """B-4."""

    def test_two(self) -> None:
        """F-1."""

    def helper(self) -> None:
        """F-97."""

    class TestInner:
        """F-12."""

        def test_three(self) -> None:
            """Nothing."""

class Helper:
    """F-96."""

    def test_looks_like_one(self) -> None:
        """F-95."""

# test: F-94
'''


def found(source: str) -> dict[str, tuple[str, ...]]:
    """Return the rules that each test in a module names."""
    return {test.name.removeprefix("t.py::"): test.rules for test in read_tests(source, "t.py")}


def faults(*tests: Proof) -> list[str]:
    """Judge some tests by the small page."""
    complete = Proof("all", ("F-1", "F-12"))
    return list(judge(read_rules(PAGE), [complete, *tests]).faults)


def test_which_docstrings_count() -> None:
    """A rule counts where the docstring of a test, or of its class, names exactly that rule."""
    assert found(MODULE) == {
        "test_one": ("F-1", "F-12", "P-3", "F-123"),
        "test_without": (),
        "TestMore::test_two": ("B-4", "F-1"),
        "TestMore::TestInner::test_three": ("B-4", "F-12"),
    }


@pytest.mark.parametrize("between", [" to ", "…", " – ", "-", "...", " through ", "..", " until "])
def test_ranges_prove_nothing(between: str) -> None:
    """A range names nothing, and is a fault."""
    (test,) = read_tests(f'def test_it():\n    """F-1{between}F-12, P-3."""\n', "t.py")
    assert test.rules == ("P-3",)
    (fault,) = faults(test)
    assert fault.startswith("t.py::test_it names a range, F-1")


def test_lists_prove_all() -> None:
    """Rules one by one are named one by one."""
    (test,) = read_tests('def test_it():\n    """F-1, F-12 and P-3."""\n', "t.py")
    assert test.rules == ("F-1", "F-12", "P-3")


def test_cases() -> None:
    """A case of the conformance suite proves what it lists; scenarios are no rules."""
    data = {"rules": ["F-1"], "cases": [{"id": "one", "rules": ["F-12", "A-3"]}, {"id": "two"}]}
    assert list(read_cases(data, "c.json")) == [
        Proof("c.json::case", ("F-1",)),
        Proof("c.json::one", ("F-12",)),
    ]


def test_what_is_wrong() -> None:
    """A required rule without test, a rule that does not exist, an exception with a test."""
    assert faults() == []
    assert faults(Proof("a", ("P-3",))) == []
    assert faults(Proof("a", ("F-77",))) == ["a names F-77, which does not exist"]
    assert faults(Proof("a", ("B-4",))) == ["B-4 is an exception, but a proves it"]
    assert judge(read_rules(PAGE), [Proof("a", ("F-12",))]).faults == (
        "no test proves F-1: one thing",
    )


@pytest.mark.parametrize(
    "row",
    [
        "| F-1 | twice | required |",
        "| F-2 | neither | maybe |",
        "| F-2 | in part, but it does not exist |",
        "| B-4 | in part, but it is an exception |",
        "| F-2 | too | many | columns |",
        "| F-2 required |",
    ],
)
def test_a_page_with_a_slip(row: str) -> None:
    """A row that cannot be read is an error, and not a rule that is forgotten."""
    with pytest.raises(ValueError, match=r"[FB]-"):
        read_rules(PAGE + row)


def test_the_table() -> None:
    """Text and JSON have every rule with its tests, and exceptions with their reason."""
    coverage = judge(read_rules(PAGE), [Proof("a::b", ("F-1",)), Proof("c", ("F-1", "F-12"))])
    assert coverage.as_text().splitlines() == [
        "F-1  one thing",
        "    a::b",
        "    c",
        "F-12  another",
        "    c",
        "P-3  a third",
        "    in part: half of it",
        "B-4  a fourth",
        "    exception: there is no such thing",
        "",
        "2 of 2 required rules are proved by a test; 1 exceptions; 4 rules in all",
    ]
    rules = coverage.as_json()["rules"]
    assert rules[0] == {
        "rule": "F-1",
        "meaning": "one thing",
        "required": True,
        "exception": None,
        "remark": None,
        "tests": ["a::b", "c"],
    }
    assert rules[2]["remark"] == "half of it"
    assert rules[3]["exception"] == "there is no such thing"


@pytest.fixture(scope="module")
def measured() -> Coverage:
    """Give the coverage of this repository."""
    return measure()


def test_the_suite_knows_the_same_rules() -> None:
    """The conformance suite, which stands alone, explains no rule that is not on the page."""
    suite = json.loads((REPOSITORY / "conformance" / "rules.json").read_bytes())
    page = (REPOSITORY / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
    explained = {rule for rule in suite["rules"] if rule[:2] != "A-"}
    assert explained <= {rule.name for rule in read_rules(page)}


@pytest.mark.integration
def test_as_a_program(measured: Coverage) -> None:
    """The program prints the same as JSON, and its status says whether all is well."""
    program = Path(__file__).with_name("coverage.py")
    completed = run_python(program, "--json")
    printed = json.loads(completed.stdout)
    assert printed == measured.as_json()
    assert completed.returncode == (1 if printed["faults"] else 0)
