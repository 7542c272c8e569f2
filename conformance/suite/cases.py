"""The cases: what a tool is asked, and the answer that the rules demand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["CASES", "FORMAT", "RULES", "Case", "Rule", "load_cases", "load_rules", "rule_order"]

FORMAT = 1
"""Version of the case files and of the protocol; raised when their meaning changes."""
_HERE = Path(__file__).resolve().parent.parent
CASES = _HERE / "cases"
"""Folder of the case files."""
RULES = _HERE / "rules.json"
"""What each rule says, and where it comes from."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Hold one rule in a few words."""

    name: str
    """As ``F-66``."""
    origin: str
    """``PEP 825``, ``PEP 850``, ``draft``, ``inferred`` or ``wheelfit``."""
    says: str
    """Its gist."""
    unobservable: str = ""
    """Why no case can show it; empty when one does."""


@dataclass(frozen=True, slots=True)
class Case:
    """Hold one case."""

    id: str
    """Unique for ever; never reused with another meaning."""
    area: str
    """Which part of the format it is about."""
    rules: tuple[str, ...]
    """The rules that it shows."""
    claim: str
    """What holds, in one sentence."""
    question: str
    """What the tool is asked; the README lists all of them."""
    input: Mapping[str, Any]
    """The particulars of the question, recipes not yet followed."""
    expected: Mapping[str, Any]
    """``{"result": {...}}`` or ``{"invalid": true}``."""
    also: tuple[Mapping[str, Any], ...] = field(default=())
    """Other answers that the rules allow."""

    def request(self) -> dict[str, Any]:
        """Return what is sent to an adapter, with recipes followed."""
        return {
            "id": self.id,
            "area": self.area,
            "question": self.question,
            "input": {name: _cooked(value) for name, value in self.input.items()},
        }


def load_rules(path: Path = RULES) -> dict[str, Rule]:
    """Read the rules, in the order of the file.

    :param path: the file.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    return {name: Rule(name=name, **entry) for name, entry in content["rules"].items()}


def load_cases(folder: Path = CASES) -> list[Case]:
    """Read all case files of a folder, in the order of their names.

    :param folder: with one file for each area.
    :raises ValueError: a file has another format than this runner reads.
    """
    return [case for path in sorted(folder.glob("*.json")) for case in _read(path)]


def _read(path: Path) -> Iterator[Case]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("format") != FORMAT:
        raise ValueError(f"{path}: format {content.get('format')!r}; this runner reads {FORMAT}")
    for entry in content["cases"]:
        yield Case(
            id=entry["id"],
            area=content["area"],
            rules=tuple(entry["rules"]),
            claim=entry["claim"],
            question=entry["question"],
            input=entry["input"],
            expected=entry["expected"],
            also=tuple(entry.get("also", ())),
        )


def rule_order(rules: Iterable[str]) -> list[str]:
    """Sort rules by letter and number.

    :param rules: as ``F-66``.
    """
    return sorted(set(rules), key=_place)


def _place(rule: str) -> tuple[int, int, str]:
    number = rule[2:].rstrip("abcdefgh")
    return "FPBA".index(rule[0]), int(number), rule[2 + len(number) :]


# --- texts too large to be stored -----------------------------------------------------------

_SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"


def _cooked(value: Any) -> Any:
    """Follow ``{"recipe": name, ...}``; anything else stays as it is."""
    if isinstance(value, dict) and "recipe" in value:
        arguments = {name: one for name, one in value.items() if name != "recipe"}
        return _RECIPES[value["recipe"]](**arguments)
    return value


def _document(variants: Any) -> dict[str, Any]:
    return {
        "$schema": _SCHEMA,
        "default-priorities": {"namespace": ["a"]},
        "providers": {"a": {"static-properties": {"b": ["c"]}}},
        "variants": variants,
    }


def _labels(count: int) -> str:
    """Write a sound document with this many labels."""
    variants = {f"l{number}": {"a": {"b": ["c"]}} for number in range(count)}
    return json.dumps(_document(variants))


def _values(count: int) -> str:
    """Write a sound document whose one label has this many values."""
    values = sorted(f"v{number}" for number in range(count))
    return json.dumps(_document({"big": {"a": {"b": values}}}))


def _size(count: int) -> str:
    """Write a sound document of this many bytes, most of them blanks."""
    text = json.dumps(_document({"null": {}}))
    return text[:-1] + " " * (count - len(text)) + "}"


def _depth(count: int) -> str:
    """Write a document that is sound but for lists in lists, this many levels in all."""
    text = json.dumps(_document({"null": {}}))
    return text[:-1] + ', "deep": ' + "[" * (count - 1) + "]" * (count - 1) + "}"


_RECIPES = {"labels": _labels, "values": _values, "size": _size, "depth": _depth}
