"""The losses to faulty metadata: unusable variants, with the reasons (F-130, F-136)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from wheelfit.core.strict_json import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit_runtime.errors import Fault


Scope: TypeAlias = Literal["release", "namespace", "label", "wheel"]
"""What is lost: every variant wheel of a release, a namespace, a label, or one wheel."""

_WORDS: dict[Scope, tuple[str, str]] = {
    "release": ("{why}; its variant wheels are ignored", "{why}; its variant wheels are ignored"),
    "namespace": (
        "the namespace {names} is unsupported: {why}",
        "the namespaces {names} are unsupported: {why}",
    ),
    "label": ("{names}: ignored, {why}", "{names}: ignored, {why}"),
    "wheel": ("{names} is not taken: {why}", "{names} are not taken: {why}"),
}
_NAMED = 5
"""Labels, namespaces or wheels that a sentence names; the others are counted."""
TOLD = 3
"""Degradations shown in one line; the others are counted."""
_SINGLE = 100
"""Broken labels that have a degradation each, and faults that are listed."""
_LONGEST = 300
"""Characters of a reason in one line."""


class Degradation(Struct, frozen=True):
    """The loss of one part to faulty metadata; everything else keeps working."""

    scope: Scope
    names: tuple[str, ...]
    """The labels, namespaces or file names that are lost; of a release its labels."""
    code: str
    """Why, for programs: the reference of an error, or one of those in
    ``docs/reference/json.md``."""
    reason: str
    """Why, one clause without a final full stop."""
    where: str = ""
    """The file at fault; empty when the clause names it."""
    faults: tuple[Fault, ...] = ()
    """Every fault of a document, where that is why."""

    def __post_init__(self) -> None:
        force_setattr(self, "names", tuple(_sayable(name) for name in self.names))

    @property
    def fault(self) -> str:
        """The fault, without the loss."""
        return self.reason if self.scope == "release" else f"{self._listed}: {self.reason}"

    @property
    def _listed(self) -> str:
        more = len(self.names) - _NAMED
        return ", ".join(self.names[:_NAMED]) + (f" and {more} more" if more > 0 else "")

    def __str__(self) -> str:
        singular, plural = _WORDS[self.scope]
        words = singular if len(self.names) == 1 else plural
        return words.format(names=self._listed, why=self.reason)

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "scope": self.scope,
            "names": list(self.names),
            "code": self.code,
            "reason": self.reason,
            "where": self.where or None,
            "faults": [
                {"path": fault.path, "message": fault.message, "rule": fault.rule}
                for fault in self.faults[:_SINGLE]
            ],
        }


def of_labels(unusable: Mapping[str, str]) -> tuple[Degradation, ...]:
    """Return the degradations by broken labels; of very many the last ones together."""
    items = list(unusable.items())
    single = [
        Degradation("label", (name,), "invalid-variant", why) for name, why in items[:_SINGLE]
    ]
    rest = items[_SINGLE:]
    if rest:
        names = tuple(name for name, _ in rest)
        single.append(Degradation("label", names, "invalid-variant", f"the first: {rest[0][1]}"))
    return tuple(single)


def in_one_line(degradations: Iterable[Degradation]) -> str:
    """Return a line with everything that one release lost (F-136); empty when that is nothing."""
    sentences = [str(degradation) for degradation in degradations]
    told = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in sentences[:TOLD]]
    if len(sentences) > TOLD:
        told.append(f"and {len(sentences) - TOLD} more (`wheelfit explain` names them)")
    return "; ".join(told)


def _sayable(name: str) -> str:
    """Return a name as it is if it can be one; a text of a stranger escaped and short."""
    name = shortened(name)
    return name if name.isascii() and name.isprintable() else ascii(name)
