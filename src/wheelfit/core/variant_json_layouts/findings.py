"""The faults a reader finds in a document, and their effects (F-130).

A document is read once. A lenient reader gets the document with notes, a strict one (F-131) every
fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.strict_json import path_of
from wheelfit.core.unusable_metadata import Degradation
from wheelfit_runtime.errors import Fault
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_NOTES = 100
"""Notes of one document that are shown."""
_MAX_NAMED = 5
"""Labels that the summary names."""


class Findings:
    """The faults and notes of a document that is being read."""

    __slots__ = ("_notes", "degradations", "faults", "pedantic", "refusals", "unusable")

    def __init__(self, *, pedantic: bool) -> None:
        self.pedantic = pedantic
        """Whether to add violations that every reader accepts, too."""
        self.faults: list[Fault] = []
        """Every violation of a rule, in document order."""
        self.refusals: list[Fault] = []
        """Those that make the whole document unusable."""
        self.unusable: dict[str, str] = {}
        """Broken labels with the first reason (F-130)."""
        self.degradations: list[Degradation] = []
        """The namespaces that are unusable because of their providers (F-130)."""
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of a lenient reader for its user (F-136), up to a limit."""
        notes = tuple(self._notes)
        if len(notes) <= _MAX_NOTES:
            return notes
        return (*notes[:_MAX_NOTES], f"and {count_of(len(notes) - _MAX_NOTES, 'more note')}")

    def add_fault(self, steps: tuple[str | int, ...], message: str, rule: str) -> Fault:
        """Add a violation, and return it; the caller decides on its effect."""
        fault = Fault(path_of(*steps), message, rule)
        self.faults.append(fault)
        return fault

    def add_minor_fault(self, steps: tuple[str | int, ...], message: str, rule: str) -> None:
        """Add a violation that readers accept without a note."""
        if self.pedantic:
            self.add_fault(steps, message, rule)

    def add_fatal_fault(self, steps: tuple[str | int, ...], message: str, rule: str) -> None:
        """Add a violation that makes the whole document unusable."""
        self.refusals.append(self.add_fault(steps, message, rule))

    def add_noted_fault(self, steps: tuple[str | int, ...], message: str, rule: str) -> None:
        """Add a violation that a lenient reader accepts with a note."""
        self.add_note(str(self.add_fault(steps, message, rule)))

    def add_degradation(self, namespace: str, code: str, reason: str) -> None:
        """Add the loss of a namespace whose provider cannot be used (F-130).

        :param reason: one clause without a final full stop.
        """
        self.degradations.append(Degradation("namespace", (namespace,), code, reason))

    def add_note(self, text: str) -> None:
        """Add a note for the user of a lenient reader, once."""
        self._notes[text] = None

    def add_ignored_keys(
        self, steps: tuple[str | int, ...], keys: Iterable[str], *, rule: str, is_fault: bool
    ) -> None:
        """Add unknown keys, which a lenient reader ignores.

        :param is_fault: whether they are violations for a strict reader.
        """
        for key in keys:
            if is_fault:
                self.add_minor_fault((*steps, key), "unknown key", rule)
            self.add_note(f"{path_of(*steps, key)}: unknown key, ignored ({rule})")

    def summarise_labels(self) -> None:
        """Add a note with the number of unusable labels; their reasons are in ``unusable``."""
        if not self.unusable:
            return
        count = len(self.unusable)
        first = ", ".join(path_of(label) for label in list(self.unusable)[:_MAX_NAMED])
        more = "" if count <= _MAX_NAMED else f" and {count - _MAX_NAMED} more"
        labels = "label is" if count == 1 else "labels are"
        self.add_note(f"{count} {labels} unusable (F-130): {first}{more}")
