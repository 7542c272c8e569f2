"""The decision about the wheels of one release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from wheelfit.core.markers import VariantContext
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.resolution.listing import NO_TAG, Release, Wheel
from wheelfit.resolution.release_metadata import ReleaseMetadata
from wheelfit_runtime.platforms.words import natural_sort_key
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.core.property_support import Support
    from wheelfit.core.selection import Selection
    from wheelfit.core.unusable_metadata import Degradation

_EXAMPLES = 2
"""Rejections of wheels for other Pythons or platforms that a message lists."""


class ReleaseChoice(Struct, frozen=True):
    """The verdicts on all wheels of one release."""

    release: Release
    selection: Selection
    metadata: ReleaseMetadata = field(default_factory=ReleaseMetadata)
    support: Support | None = None
    """The support of the target for it; None if no variant wheel has fitting tags."""
    notes: tuple[str, ...] = ()
    """Notes on faults, one line each; the degradations of the release are one line (F-136)."""
    degradations: tuple[Degradation, ...] = ()
    """The degradations by faulty metadata, for programs (F-136)."""
    labels_without_agreements: tuple[Label | None, ...] = ()
    """The labels that would fit without agreements with other packages, best first. Empty: no
    agreement excludes a label, so these are the labels that fit."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes on entries missing from a host file, which is no fault (P-44)."""
        release = self.release
        notes = self.support.notes if self.support else ()
        return tuple(f"{release.name} {release.version}: {note}" for note in notes)

    @property
    def chosen(self) -> Wheel | None:
        """The chosen wheel; None if none fits."""
        filename = self.selection.chosen
        return None if filename is None else self.wheel(filename.text)

    @property
    def chosen_label(self) -> Label | None:
        """The label of the chosen wheel; None for a plain one, or if none fits."""
        filename = self.selection.chosen
        return None if filename is None else filename.label

    def best_wheel(self, label: Label | None) -> Wheel | None:
        """Return the best compatible wheel of a label; None if there is none.

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
        """The labels that would fit without agreements with other packages."""
        return self.labels_without_agreements or self.labels

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
        """The reason the chosen wheel was chosen, or the reasons none was."""
        if self.selection.chosen is not None:
            return self.selection.verdicts[0].reason
        return "; ".join(self.refusals()[:2]) or "the release has no wheels"

    def refusals(self) -> tuple[str, ...]:
        """Return the reasons wheels were rejected, equal ones together (F-92)."""
        groups: dict[str, dict[str, None]] = {}
        by_tags: dict[str, dict[str, None]] = {}
        incompatible = {
            wheel.filename.text for wheel in self.release.wheels if wheel.rejection is NO_TAG
        }
        for verdict in self.selection.verdicts:
            if verdict.verdict == "rejected":
                label = verdict.filename.label or "plain wheel"
                group = by_tags if verdict.filename.text in incompatible else groups
                group.setdefault(verdict.reason, {})[label] = None
        lines = [f"{', '.join(labels)}: {reason}" for reason, labels in groups.items()]
        lines += [f"{', '.join(by_tags[reason])}: {reason}" for reason in _closest(by_tags)]
        if len(by_tags) > _EXAMPLES:
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
    """Return the closest reasons among those of wheels for other Pythons or platforms.

    Reasons of this platform come first, then by Python, newest first.
    """
    newest = sorted(reasons, key=natural_sort_key, reverse=True)
    # A reason names Python and platform, "CPython 3.12 on macOS", only if neither fits.
    return sorted(newest, key=lambda reason: " on " in reason)[:_EXAMPLES]


def notes_on_passed_over(choices: Iterable[ReleaseChoice]) -> Iterator[str]:
    """Yield notes on releases passed over for an older one (F-92).

    :param choices: the choices of releases of one project; those with the same reason share a line.
    """
    choices_by_reason: dict[str, list[ReleaseChoice]] = {}
    for choice in choices:
        choices_by_reason.setdefault(choice.reason, []).append(choice)
    for reason, alike in choices_by_reason.items():
        versions = listed([str(choice.release.version) for choice in alike])
        verb, pronoun = ("is", "it") if len(alike) == 1 else ("are", "them")
        yield (
            f"{alike[0].release.name} {versions} {verb} passed over because no wheel of {pronoun} "
            f"fits: {reason}"
        )
