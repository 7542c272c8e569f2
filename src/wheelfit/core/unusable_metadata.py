"""Degradations caused by faulty metadata: unusable variants, with reasons (F-130, F-136)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from wheelfit.core.strict_json import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit_runtime.errors import Fault


Scope: TypeAlias = Literal["release", "namespace", "label", "wheel"]
"""The lost part: every variant wheel of a release, a namespace, a label, or one wheel."""

_SENTENCES: dict[Scope, tuple[str, str]] = {
    "release": (
        "{reason}; its variant wheels are ignored",
        "{reason}; its variant wheels are ignored",
    ),
    "namespace": (
        "the namespace {names} is unsupported: {reason}",
        "the namespaces {names} are unsupported: {reason}",
    ),
    "label": ("{names}: ignored, {reason}", "{names}: ignored, {reason}"),
    "wheel": ("{names} is not used: {reason}", "{names} are not used: {reason}"),
}
"""The sentences about a loss, for one name and for several."""
_MAX_NAMED = 5
"""Labels, namespaces or wheels that a sentence names; the others are counted."""
MAX_SHOWN = 3
"""Degradations shown in one line; the others are counted."""
_MAX_SINGLE = 100
"""Unusable labels with a degradation of their own, and faults in the plain data."""
_MAX_LENGTH = 300
"""Characters of a reason in one line."""


class Degradation(Struct, frozen=True):
    """The loss of one part to faulty metadata; everything else keeps working."""

    scope: Scope
    names: tuple[str, ...]
    """The labels, namespaces or file names that are lost; for a release, its labels."""
    code: str
    """The reason for programs: an error code, or one of ``docs/reference/json.md``."""
    reason: str
    """The reason, one clause without a final full stop."""
    where: str = ""
    """The file at fault; empty when the clause names it."""
    faults: tuple[Fault, ...] = ()
    """The faults of an invalid document."""

    def __post_init__(self) -> None:
        force_setattr(self, "names", tuple(_printable(name) for name in self.names))

    @property
    def fault(self) -> str:
        """The reason, without its consequence."""
        return self.reason if self.scope == "release" else f"{self._listed}: {self.reason}"

    @property
    def _listed(self) -> str:
        more = len(self.names) - _MAX_NAMED
        return ", ".join(self.names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")

    def __str__(self) -> str:
        singular, plural = _SENTENCES[self.scope]
        sentence = singular if len(self.names) == 1 else plural
        return sentence.format(names=self._listed, reason=self.reason)

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
                for fault in self.faults[:_MAX_SINGLE]
            ],
        }


def degradations_of_labels(unusable: Mapping[str, str]) -> tuple[Degradation, ...]:
    """Return the degradations by broken labels; beyond a limit the others are one degradation."""
    items = list(unusable.items())
    degradations = [
        Degradation("label", (name,), "invalid-variant", reason)
        for name, reason in items[:_MAX_SINGLE]
    ]
    rest = items[_MAX_SINGLE:]
    if rest:
        names = tuple(name for name, _ in rest)
        degradations.append(
            Degradation("label", names, "invalid-variant", f"the first: {rest[0][1]}")
        )
    return tuple(degradations)


def degradations_in_one_line(degradations: Iterable[Degradation]) -> str:
    """Return the degradations of a release in one line (F-136); empty if there is none."""
    sentences = [str(degradation) for degradation in degradations]
    shown = [
        text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"
        for text in sentences[:MAX_SHOWN]
    ]
    if len(sentences) > MAX_SHOWN:
        shown.append(f"and {len(sentences) - MAX_SHOWN} more (`wheelfit explain` names them)")
    return "; ".join(shown)


def _printable(name: str) -> str:
    """Return a name, shortened, and escaped if it is not printable ASCII."""
    name = shortened(name)
    return name if name.isascii() and name.isprintable() else ascii(name)
