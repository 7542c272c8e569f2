"""The decision about the wheels of one release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from wheelfit.core.markers import VariantContext
from wheelfit.core.properties import EMPTY
from wheelfit.resolution.listing import NO_TAG
from wheelfit.resolution.release_metadata import ReleaseMetadata
from wheelfit_runtime.platforms.words import natural_sort_key
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.property_support import Support
    from wheelfit.core.selection import Selection
    from wheelfit.core.unusable_metadata import Degradation
    from wheelfit.resolution.listing import Release, Wheel

_EXAMPLES = 2
"""Wheels for other Pythons or platforms that are named when a release does not fit."""


class ReleaseChoice(Struct, frozen=True):
    """The verdicts on all wheels of one release."""

    release: Release
    selection: Selection
    """The verdicts, best first."""
    metadata: ReleaseMetadata = field(default_factory=ReleaseMetadata)
    """The metadata that decided about variants."""
    support: Support | None = None
    """The support of the target for it; None when no variant wheel had fitting tags."""
    notes: tuple[str, ...] = ()
    """What went wrong on the way, one line each; all that the release lost is one (F-136)."""
    degradations: tuple[Degradation, ...] = ()
    """The degradations by faulty metadata, for programs (F-136)."""
    alone: tuple[Label | None, ...] = ()
    """The labels that would fit if no agreement with other packages were needed, best first;
    empty: the same that fit."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes without a fault: the entries missing from a host file (P-44)."""
        release = self.release
        notes = self.support.notes if self.support else ()
        return tuple(f"{release.name} {release.version}: {note}" for note in notes)

    @property
    def chosen(self) -> Wheel | None:
        """The wheel to take; None when none fits."""
        filename = self.selection.chosen
        return None if filename is None else self.wheel(filename.text)

    @property
    def taken(self) -> Label | None:
        """The label of the chosen wheel; None for a plain one, or when none fits."""
        filename = self.selection.chosen
        return None if filename is None else filename.label

    def best_of(self, label: Label | None) -> Wheel | None:
        """Return the best wheel of a label that may be chosen; None when none fits.

        :param label: None for the plain wheel.
        """
        for filename in self.fitting:
            if filename.label == label:
                return self.wheel(filename.text)
        return None

    @property
    def fitting(self) -> tuple[WheelFilename, ...]:
        """The wheels that may be chosen, best first."""
        return self.selection.fitting

    @property
    def labels(self) -> tuple[Label | None, ...]:
        """The labels that may be chosen, best first, each once; None for plain wheels."""
        return tuple(dict.fromkeys(filename.label for filename in self.fitting))

    @property
    def offered(self) -> tuple[Label | None, ...]:
        """The labels that would fit if no agreement with other packages were needed."""
        return self.alone or self.labels

    def declared(self, label: Label | None) -> PropertySet:
        """Return the properties of a label; empty for a plain wheel."""
        document = self.metadata.document
        if label is None or document is None:
            return EMPTY
        return document.properties(label) or EMPTY

    def wheel(self, filename: str) -> Wheel:
        """Return a wheel by its file name.

        :raises KeyError: the release has no such wheel.
        """
        for wheel in self.release.wheels:
            if wheel.filename.text == filename:
                return wheel
        raise KeyError(filename)

    @property
    def reason(self) -> str:
        """Why the chosen wheel was chosen, or why none was, in words."""
        if self.selection.chosen is not None:
            return self.selection.verdicts[0].reason
        return "; ".join(self.refusals()[:2]) or "the release has no wheels"

    def refusals(self) -> tuple[str, ...]:
        """Return the reasons wheels were rejected, equal ones together (F-92)."""
        groups: dict[str, dict[str, None]] = {}
        elsewhere: dict[str, dict[str, None]] = {}
        misfits = {w.filename.text for w in self.release.wheels if w.rejection is NO_TAG}
        for verdict in self.selection.verdicts:
            if verdict.verdict == "rejected":
                label = verdict.filename.label or "plain wheel"
                group = elsewhere if verdict.filename.text in misfits else groups
                group.setdefault(verdict.reason, {})[label] = None
        lines = [f"{', '.join(labels)}: {reason}" for reason, labels in groups.items()]
        lines += [f"{', '.join(elsewhere[reason])}: {reason}" for reason in _closest(elsewhere)]
        if len(elsewhere) > _EXAMPLES:
            lines.append("and others for other Pythons or platforms")
        return tuple(lines)

    def context(self) -> VariantContext:
        """Return the context of variant markers of the chosen wheel (F-102 to F-104)."""
        filename = self.selection.chosen
        if filename is None or filename.label is None:
            return VariantContext.PLAIN
        document, support = self.metadata.document, self.support
        if document is None or support is None:
            return VariantContext(filename.label, EMPTY)
        # F-110: the support of the system counts, even if the user forbids it.
        return VariantContext(filename.label, support.filter(self.properties))

    @property
    def properties(self) -> PropertySet:
        """The properties of the chosen wheel's label; empty for a plain wheel."""
        filename = self.selection.chosen
        return EMPTY if filename is None else self.declared(filename.label)


def _closest(reasons: Iterable[str]) -> list[str]:
    """Return the reasons to name of wheels for other Pythons or platforms.

    Those of this platform first, and the newest Python of each.
    """
    newest = sorted(reasons, key=natural_sort_key, reverse=True)
    return sorted(newest, key=lambda reason: " on " in reason)[:_EXAMPLES]


def passed_over(choices: Iterable[ReleaseChoice]) -> Iterator[str]:
    """Yield notes on releases passed over for an older one (F-92).

    :param choices: the choices of releases of one project; those with the same reason share a line.
    """
    alike: dict[str, list[ReleaseChoice]] = {}
    for choice in choices:
        alike.setdefault(choice.reason, []).append(choice)
    for reason, those in alike.items():
        versions = listed([str(choice.release.version) for choice in those])
        verb, them = ("is", "it") if len(those) == 1 else ("are", "them")
        yield (
            f"{those[0].release.name} {versions} {verb} passed over, no wheel of {them} fits: "
            f"{reason}"
        )
