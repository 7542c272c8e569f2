"""Which wheel of one release is taken, with a reason for every other one (F-90).

The steps of F-90 on values: tags, then variants, then the wheels inside a label. What
needs the network or the machine - the document, the support - is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from wheelfit.core.ordering import Preferences, RankedVariant, Ranking
from wheelfit.core.phrases import short
from wheelfit.core.properties import EMPTY, Feature, PropertySet
from wheelfit.core.property_support import Support

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packaging.tags import Tag

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.core.tag_phrases import TagPhrases
    from wheelfit.core.target import TagPreference

Outcome: TypeAlias = Literal["chosen", "compatible", "rejected"]
Reason: TypeAlias = "str | Callable[[Verdict], str]"
"""The words, or who finds them: of a hundred thousand wheels few are asked about."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one wheel."""

    filename: WheelFilename
    verdict: Outcome
    """``chosen``, ``compatible`` (it would run, another is better) or ``rejected``."""
    why: Reason = field(repr=False, compare=False)
    properties: PropertySet | None = None
    """What its label stands for; None for a plain wheel, or when that is not known."""

    @property
    def reason(self) -> str:
        """Why, in words of the user, without a final full stop."""
        return self.why if isinstance(self.why, str) else self.why(self)


class Selection(Struct, frozen=True):
    """The verdicts on all wheels of a release."""

    verdicts: tuple[Verdict, ...]
    """Best first: the chosen one, the compatible ones, the rejected ones."""
    better: WheelFilename | None = None
    """What fits better than the chosen one, which was taken because it is installed."""

    @property
    def chosen(self) -> WheelFilename | None:
        """The wheel to take; None when none fits."""
        if self.verdicts and self.verdicts[0].verdict == "chosen":
            return self.verdicts[0].filename
        return None

    @property
    def fitting(self) -> tuple[WheelFilename, ...]:
        """The wheels that may be chosen, best first."""
        return tuple(one.filename for one in self.verdicts if one.verdict != "rejected")


def select(
    filenames: Sequence[WheelFilename],
    *,
    document: VariantDocument | None,
    support: Support | None,
    tags: TagPreference,
    preferences: Preferences = Preferences(),
    extra_rejections: Mapping[str, str] | None = None,
    installed: Label | None = None,
) -> Selection:
    """Judge the wheels of one release and put them in order (F-90, F-66 to F-68).

    :param document: the combined metadata; None: there is none that can be used.
    :param support: what the target supports of the namespaces in play; None: nothing.
    :param tags: what fits the target, best first.
    :param extra_rejections: wheels that are out for another reason, as yanked or
        ``Requires-Python``, by file name with the reason (F-94).
    :param installed: the label that is there now. It is taken where it fits, even if
        another one would fit better: a build is never exchanged unasked.
    """
    judge = _Judge(
        document, support or Support(), tags, preferences, extra_rejections or {}, installed
    )
    for filename in filenames:
        judge.look_at(filename)
    return judge.selection()


_UNKNOWN_LABEL = "its label is not in the variant metadata of this release"
_NO_DOCUMENT = "there is no usable variant metadata for this release"
_NO_VARIANTS = "variant wheels are switched off"


class _Judge:
    """The judgement of all wheels of a release."""

    def __init__(
        self,
        document: VariantDocument | None,
        support: Support,
        tags: TagPreference,
        preferences: Preferences,
        extra_rejections: Mapping[str, str],
        installed: Label | None,
    ) -> None:
        self._document = document
        self._installed = installed
        self._support = support
        self._tags = tags
        self._preferences = preferences
        self._extra_rejections = extra_rejections
        self._ranking = None if document is None else Ranking(document, support, preferences)
        self._tag_phrases: TagPhrases | None = None
        self._tag_ranks: dict[frozenset[Tag], int | None] = {}
        # The label may be chosen, or why it may not.
        self._labels: dict[Label, RankedVariant | Reason] = {}
        self._in: list[WheelFilename] = []
        # By how far each came: through the tags, through its listing entry, neither.
        self._refused: list[Verdict] = []
        self._unlisted: list[Verdict] = []
        self._misfits: list[Verdict] = []

    # --- looking at one wheel (F-90, steps 1 to 5) ---------------------------------

    def look_at(self, filename: WheelFilename) -> None:
        if self.tag_rank(filename) is None:
            properties = self._declared(filename)
            self._misfits.append(Verdict(filename, "rejected", self._why_none_fits, properties))
            return
        extra = self._extra_rejections.get(filename.text)
        if extra is not None:  # F-94: before variants are ordered
            self._unlisted.append(Verdict(filename, "rejected", extra, self._declared(filename)))
            return
        unwanted = self._unwanted(filename)
        if unwanted is not None:
            properties = self._declared(filename)
            self._refused.append(Verdict(filename, "rejected", unwanted, properties))
            return
        self._in.append(filename)

    def tag_rank(self, filename: WheelFilename) -> int | None:
        tags = filename.tags
        if tags not in self._tag_ranks:  # many wheels share few sets of tags
            self._tag_ranks[tags] = self._tags.best(tags)
        return self._tag_ranks[tags]

    def variant(self, filename: WheelFilename) -> RankedVariant | None:
        found = None if filename.label is None else self._labels.get(filename.label)
        return found if isinstance(found, RankedVariant) else None

    def _declared(self, filename: WheelFilename) -> PropertySet | None:
        if filename.label is None or self._document is None:
            return None
        return self._document.properties(filename.label)

    def _why_none_fits(self, verdict: Verdict) -> str:
        if self._tag_phrases is None:
            from wheelfit.core.tag_phrases import TagPhrases  # noqa: PLC0415 - start-up

            self._tag_phrases = TagPhrases(self._tags)
        reason = self._tag_phrases.why_none_fits(verdict.filename.tags)
        if not verdict.properties:
            return reason
        # Its properties were not looked into; name them, they say what it is.
        return f"{reason} ({verdict.filename.label}: {short(verdict.properties.features())})"

    def _unwanted(self, filename: WheelFilename) -> Reason | None:
        label = filename.label
        if label is not None and not self._preferences.variants:
            return _NO_VARIANTS
        pinned = self._preferences.labels.get(filename.name)
        if pinned is not None and label != pinned:
            return f"only label {pinned} is asked for"
        if label is None:
            return self._preferences.objection(EMPTY, self._support)
        judgement = self._labels.get(label)
        if judgement is None:
            judgement = self._labels[label] = self._judge(label)
        return None if isinstance(judgement, RankedVariant) else judgement

    def _judge(self, label: Label) -> RankedVariant | Reason:
        document, ranking = self._document, self._ranking
        if document is None or ranking is None:
            return _NO_DOCUMENT
        broken = document.unusable.get(label)
        if broken is not None:  # F-130
            return f"its label is broken in the variant metadata: {broken}"
        properties = document.properties(label)
        if properties is None:  # F-76
            return _UNKNOWN_LABEL
        ranked = ranking.rank(label, properties)
        return ranked or self._why_refused

    def _why_refused(self, verdict: Verdict) -> str:
        properties = verdict.properties or EMPTY
        refusal = self._support.refusal(properties)
        if refusal is not None:  # F-28, P-88
            return refusal
        objection = self._preferences.objection(properties, self._support)  # F-91
        return objection or "the preferences exclude it"

    # --- all of them together (steps 6 to 8) ----------------------------------------

    def selection(self) -> Selection:
        fitting = self._in_order()
        better = self._give_way(fitting)
        verdicts: list[Verdict] = []
        if fitting:
            chosen = self._why_chosen(fitting)
            if better is not None:
                chosen = f"{fitting[0].label} is installed and still fits"
            verdicts.append(Verdict(fitting[0], "chosen", chosen, self._declared(fitting[0])))
            why_after = _Comparison(fitting[0], self, self._ranking, better).why_after
            verdicts += [
                Verdict(filename, "compatible", why_after, self._declared(filename))
                for filename in fitting[1:]
            ]
        for rejected in (self._refused, self._unlisted, self._misfits):
            rejected.sort(key=_rejected_last)
            verdicts += rejected
        return Selection(tuple(verdicts), better)

    def _give_way(self, fitting: list[WheelFilename]) -> WheelFilename | None:
        """Put the wheels of the installed label first; return the best one if it is another."""
        if self._installed is None or not fitting or fitting[0].label == self._installed:
            return None
        better = fitting[0]
        fitting.sort(key=lambda one: one.label != self._installed)
        return None if fitting[0] is better else better

    def _in_order(self) -> list[WheelFilename]:
        """Return the wheels that may be chosen, best first (F-66 to F-68)."""
        ranked = [one for one in self._labels.values() if isinstance(one, RankedVariant)]
        ranked.sort(key=lambda one: one.place)
        places: dict[Label | None, int] = {one.label: place for place, one in enumerate(ranked)}
        places[None] = len(ranked)  # F-67
        # F-68, from the least important to the most; sorting keeps what is equal in place.
        fitting = sorted(self._in, key=lambda one: one.text)
        fitting.sort(key=lambda one: one.build, reverse=True)
        fitting.sort(key=lambda one: (places[one.label], self._tag_ranks[one.tags]))
        return fitting

    def _why_chosen(self, fitting: Sequence[WheelFilename]) -> str:
        winner, variant = fitting[0], self.variant(fitting[0])
        pinned = self._preferences.labels.get(winner.name)
        asked = f"label {pinned} is asked for; " if pinned is not None else ""
        if variant is not None and variant.key:
            return f"{asked}best fit: {self._best(variant)}"
        rejected = (*self._refused, *self._unlisted, *self._misfits)
        variants = any(verdict.filename.label is not None for verdict in rejected)
        if winner.label is not None:
            what = f"{asked}the variant without properties ({winner.label})"
            return f"{what}: no other variant fits" if variants else f"{what} fits everywhere"
        if variants and not self._preferences.variants:
            return f"the plain wheel: {_NO_VARIANTS}"
        if variants and self._document is None:
            return "the plain wheel: the variants have no usable metadata"
        if variants:
            return "the plain wheel: no variant fits"
        return "the best fitting wheel" if len(fitting) > 1 else "the only wheel that fits"

    def _best(self, variant: RankedVariant) -> str:
        best = () if self._ranking is None else self._ranking.best(variant.key)
        return short((Feature(one.namespace, one.feature), (one.value,)) for one in best)


class _Comparison:
    """The reasons why wheels come after the chosen one."""

    def __init__(
        self,
        winner: WheelFilename,
        judge: _Judge,
        ranking: Ranking | None,
        better: WheelFilename | None,
    ) -> None:
        self._winner = winner
        self._is_installed = better is not None
        self._judge = judge
        self._ranking = ranking
        self._by_label: dict[Label, str] = {}

    def why_after(self, verdict: Verdict) -> str:
        return f"compatible; {self._difference(verdict.filename)}"

    def _difference(self, filename: WheelFilename) -> str:
        label = filename.label
        if label == self._winner.label:
            return self._same_label(filename)
        if self._is_installed:
            return f"{self._winner.label} is installed and stays"
        if label is None:
            return "plain wheels come after every compatible variant"  # F-67
        reason = self._by_label.get(label)
        if reason is None:
            reason = self._by_label[label] = self._other_label(filename)
        return reason

    def _same_label(self, filename: WheelFilename) -> str:
        # F-68
        winner = self._winner
        if self._judge.tag_rank(filename) != self._judge.tag_rank(winner):
            return f"{winner.text} has tags that fit better"
        if filename.build != winner.build:
            return f"{winner.text} has a higher build number"
        return f"{winner.text} is equally good and comes first by name"

    def _other_label(self, filename: WheelFilename) -> str:
        winner, loser = self._judge.variant(self._winner), self._judge.variant(filename)
        if winner is None or loser is None or self._ranking is None:
            return "another wheel is preferred"
        preferred = f"{winner.label} is preferred"
        # F-66: the first key that differs decides, and one key more is better than none.
        for better, worse in zip_longest(winner.key, loser.key):
            if better is None or better == worse:
                continue
            if worse is not None and better[:2] == worse[:2]:
                one, other = self._ranking.best((better, worse))
                return f"{preferred}: {one} before {other.value}"
            (extra,) = self._ranking.best((better,))
            also = "also " if loser.key and set(loser.key) < set(winner.key) else ""
            return f"{preferred}: it {also}has {extra}"
        return f"{preferred}: the same properties fit, and its label comes first"


def _rejected_last(verdict: Verdict) -> tuple[bool, str, str]:
    """Sort variants by label before plain wheels."""
    label = verdict.filename.label
    return label is None, label or "", verdict.filename.text
