"""The choice among the wheels of one release, with a verdict and a reason for each (F-90).

The steps of F-90 are applied to values: tags, then variants, then the wheels of a label. The
document and the support, which depend on the network and the machine, are arguments.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from wheelfit.core.ordering import Preferences, RankedVariant, Ranking
from wheelfit.core.phrases import features_text
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
LazyReason: TypeAlias = "str | Callable[[Verdict], str]"
"""A reason, or a function that returns it, since few of a hundred thousand wheels are shown."""


class Verdict(Struct, frozen=True):
    """The verdict on one wheel."""

    filename: WheelFilename
    verdict: Outcome
    """``chosen``, ``compatible`` (it would run, but another one is better) or ``rejected``."""
    lazy_reason: LazyReason
    """Ignored in comparisons."""
    properties: PropertySet | None = None
    """The properties of its label; None for a plain wheel, or if they are unknown."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdict) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        return self.filename, self.verdict, self.properties

    @property
    def reason(self) -> str:
        """The reason, for users, without a final full stop."""
        reason = self.lazy_reason
        return reason if isinstance(reason, str) else reason(self)


class Selection(Struct, frozen=True):
    """The verdicts on all wheels of a release."""

    verdicts: tuple[Verdict, ...]
    """Best first: the chosen one, the compatible ones, the rejected ones."""
    better: WheelFilename | None = None
    """The wheel that is better than the chosen one, if that is kept because it is installed."""

    @property
    def chosen(self) -> WheelFilename | None:
        """The chosen wheel; None if none fits."""
        if self.verdicts and self.verdicts[0].verdict == "chosen":
            return self.verdicts[0].filename
        return None

    @property
    def fitting(self) -> tuple[WheelFilename, ...]:
        """The wheels that may be chosen, best first."""
        return tuple(verdict.filename for verdict in self.verdicts if verdict.verdict != "rejected")


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
    """Rank the wheels of one release, with a verdict on each (F-90, F-66 to F-68).

    :param document: the combined metadata; None: there is no usable one.
    :param support: the support of the target for the namespaces in use; None: none.
    :param tags: the compatible tags, best first.
    :param extra_rejections: wheels that are rejected for another reason, as yanked or
        ``Requires-Python``, by file name with the reason (F-94).
    :param installed: the label that is installed. It is chosen if it is compatible, even if another
        one is better, since a build is never replaced without a request.
    """
    support = support or Support()
    ranking = None if document is None else Ranking(document, support, preferences)
    judge = _Judge(document, support, tags, preferences, extra_rejections or {}, installed, ranking)
    for filename in filenames:
        judge.add(filename)
    return judge.selection()


_UNKNOWN_LABEL = "its label is not in the variant metadata of this release"
_NO_DOCUMENT = "there is no usable variant metadata for this release"
_NO_VARIANTS = "variant wheels are switched off"


class _Judge(Struct, eq=False):
    """The verdicts on the wheels of a release, while wheels are added."""

    document: VariantDocument | None
    support: Support
    tags: TagPreference
    preferences: Preferences
    extra_rejections: Mapping[str, str]
    installed: Label | None
    ranking: Ranking | None
    tag_phrases: TagPhrases | None = None
    tag_ranks: dict[frozenset[Tag], int | None] = field(default_factory=dict)
    labels: dict[Label, RankedVariant | LazyReason] = field(default_factory=dict)
    """The rank of each examined label, or the reason to reject it."""
    candidates: list[WheelFilename] = field(default_factory=list)
    rejected_by_variant: list[Verdict] = field(default_factory=list)
    rejected_by_listing: list[Verdict] = field(default_factory=list)
    rejected_by_tags: list[Verdict] = field(default_factory=list)

    # --- one wheel (F-90, steps 1 to 5) ---------------------------------------------

    def add(self, filename: WheelFilename) -> None:
        """Add a wheel to the candidates, or its verdict to the rejected ones."""
        if self.tag_rank(filename) is None:
            self._reject(filename, self._tag_reason, self.rejected_by_tags)
        elif (extra := self.extra_rejections.get(filename.text)) is not None:
            # F-94: before variants are ordered
            self._reject(filename, extra, self.rejected_by_listing)
        elif (reason := self._variant_rejection(filename)) is not None:
            self._reject(filename, reason, self.rejected_by_variant)
        else:
            self.candidates.append(filename)

    def _reject(self, filename: WheelFilename, reason: LazyReason, rejected: list[Verdict]) -> None:
        rejected.append(Verdict(filename, "rejected", reason, self._declared(filename)))

    def tag_rank(self, filename: WheelFilename) -> int | None:
        tags = filename.tags
        if tags not in self.tag_ranks:  # many wheels share few sets of tags
            self.tag_ranks[tags] = self.tags.best(tags)
        return self.tag_ranks[tags]

    def variant(self, filename: WheelFilename) -> RankedVariant | None:
        variant = None if filename.label is None else self.labels.get(filename.label)
        return variant if isinstance(variant, RankedVariant) else None

    def _declared(self, filename: WheelFilename) -> PropertySet | None:
        if filename.label is None or self.document is None:
            return None
        return self.document.properties(filename.label)

    def _tag_reason(self, verdict: Verdict) -> str:
        if self.tag_phrases is None:
            from wheelfit.core.tag_phrases import TagPhrases

            self.tag_phrases = TagPhrases(self.tags)
        reason = self.tag_phrases.why_none_fits(verdict.filename.tags)
        if not verdict.properties:
            return reason
        # Its properties were not examined; name them, since they describe it.
        return (
            f"{reason} ({verdict.filename.label}: {features_text(verdict.properties.features())})"
        )

    def _variant_rejection(self, filename: WheelFilename) -> LazyReason | None:
        """Return the reason to reject a wheel for its label; None if there is none."""
        label = filename.label
        if label is not None and not self.preferences.variants:
            return _NO_VARIANTS
        pinned = self.preferences.labels.get(filename.name)
        if pinned is not None and label != pinned:
            return f"only the label {pinned} is requested"
        if label is None:
            return self.preferences.objection(EMPTY, self.support)
        ranked = self.labels.get(label)
        if ranked is None:
            ranked = self.labels[label] = self._rank_label(label)
        return None if isinstance(ranked, RankedVariant) else ranked

    def _rank_label(self, label: Label) -> RankedVariant | LazyReason:
        """Return the rank of a label, or the reason to reject it."""
        document, ranking = self.document, self.ranking
        if document is None or ranking is None:
            return _NO_DOCUMENT
        broken = document.unusable.get(label)
        if broken is not None:  # F-130
            return f"its label is not valid in the variant metadata: {broken}"
        properties = document.properties(label)
        if properties is None:  # F-76
            return _UNKNOWN_LABEL
        ranked = ranking.rank(label, properties)
        return ranked or self._refusal

    def _refusal(self, verdict: Verdict) -> str:
        properties = verdict.properties or EMPTY
        refusal = self.support.refusal(properties)
        if refusal is not None:  # F-28, P-88
            return refusal
        objection = self.preferences.objection(properties, self.support)  # F-91
        return objection or "the preferences exclude it"

    # --- all wheels together (steps 6 to 8) -----------------------------------------

    def selection(self) -> Selection:
        fitting = self._ordered_candidates()
        better = self._put_installed_first(fitting)
        verdicts: list[Verdict] = []
        if fitting:
            reason = self._reason_of_choice(fitting)
            if better is not None:
                reason = f"{fitting[0].label} is installed and still fits"
            verdicts.append(Verdict(fitting[0], "chosen", reason, self._declared(fitting[0])))
            comparison = _Comparison(fitting[0], better is not None, self)
            verdicts += [
                Verdict(filename, "compatible", comparison.reason, self._declared(filename))
                for filename in fitting[1:]
            ]
        for rejected in self._rejected:
            rejected.sort(key=_rejection_sort_key)
            verdicts += rejected
        return Selection(tuple(verdicts), better)

    @property
    def _rejected(self) -> tuple[list[Verdict], ...]:
        """The rejected wheels, those that came furthest first."""
        return self.rejected_by_variant, self.rejected_by_listing, self.rejected_by_tags

    def _put_installed_first(self, fitting: list[WheelFilename]) -> WheelFilename | None:
        """Put the wheels of the installed label first; return the best one if displaced."""
        if self.installed is None or not fitting or fitting[0].label == self.installed:
            return None
        better = fitting[0]
        fitting.sort(key=lambda filename: filename.label != self.installed)
        return None if fitting[0] is better else better

    def _ordered_candidates(self) -> list[WheelFilename]:
        """Return the wheels that may be chosen, best first (F-66 to F-68)."""
        ranked = [label for label in self.labels.values() if isinstance(label, RankedVariant)]
        ranked.sort(key=lambda variant: variant.sort_key)
        label_ranks: dict[Label | None, int] = {
            variant.label: rank for rank, variant in enumerate(ranked)
        }
        label_ranks[None] = len(ranked)  # F-67
        # F-68, from the least important key to the most, since sorting is stable.
        fitting = sorted(self.candidates, key=lambda candidate: candidate.text)
        fitting.sort(key=lambda filename: filename.build, reverse=True)
        fitting.sort(
            key=lambda filename: (label_ranks[filename.label], self.tag_ranks[filename.tags])
        )
        return fitting

    def _reason_of_choice(self, fitting: Sequence[WheelFilename]) -> str:
        winner, variant = fitting[0], self.variant(fitting[0])
        pinned = self.preferences.labels.get(winner.name)
        requested = f"the label {pinned} is requested; " if pinned is not None else ""
        if variant is not None and variant.key:
            return f"{requested}best fit: {self._best(variant)}"
        rejects_variants = any(
            verdict.filename.label is not None
            for rejected in self._rejected
            for verdict in rejected
        )
        if winner.label is not None:
            null_variant = f"{requested}the variant without properties ({winner.label})"
            if rejects_variants:
                return f"{null_variant}: no other variant fits"
            return f"{null_variant} fits everywhere"
        if rejects_variants and not self.preferences.variants:
            return f"the plain wheel: {_NO_VARIANTS}"
        if rejects_variants and self.document is None:
            return "the plain wheel: the variants have no usable metadata"
        if rejects_variants:
            return "the plain wheel: no variant fits"
        return "the best fitting wheel" if len(fitting) > 1 else "the only wheel that fits"

    def _best(self, variant: RankedVariant) -> str:
        best = () if self.ranking is None else self.ranking.best_properties(variant.key)
        return features_text(
            (Feature(item.namespace, item.feature), (item.value,)) for item in best
        )


class _Comparison(Struct, eq=False):
    """The reasons why wheels come after the chosen one."""

    winner: WheelFilename
    is_installed: bool
    judge: _Judge
    by_label: dict[Label, str] = field(default_factory=dict)

    def reason(self, verdict: Verdict) -> str:
        """Return the reason why a compatible wheel comes after the chosen one."""
        return f"compatible; {self._difference(verdict.filename)}"

    def _difference(self, filename: WheelFilename) -> str:
        label = filename.label
        if label == self.winner.label:
            return self._same_label(filename)
        if self.is_installed:
            return f"{self.winner.label} is installed and kept"
        if label is None:
            return "plain wheels come after every compatible variant"  # F-67
        reason = self.by_label.get(label)
        if reason is None:
            reason = self.by_label[label] = self._other_label(filename)
        return reason

    def _same_label(self, filename: WheelFilename) -> str:
        # F-68
        winner = self.winner
        if self.judge.tag_rank(filename) != self.judge.tag_rank(winner):
            return f"{winner.text} has tags that fit better"
        if filename.build != winner.build:
            return f"{winner.text} has a higher build number"
        return f"{winner.text} is equally good and comes first by name"

    def _other_label(self, filename: WheelFilename) -> str:
        winner, loser = self.judge.variant(self.winner), self.judge.variant(filename)
        ranking = self.judge.ranking
        if winner is None or loser is None or ranking is None:
            return "another wheel is preferred"
        preferred = f"{winner.label} is preferred"
        # F-66: the first key that differs decides, and one key more is better than none.
        for better, worse in zip_longest(winner.key, loser.key):
            if better is None or better == worse:
                continue
            # The same feature, with another value.
            if worse is not None and better[:2] == worse[:2]:
                better_property, worse_property = ranking.best_properties((better, worse))
                return f"{preferred}: {better_property} before {worse_property.value}"
            (additional,) = ranking.best_properties((better,))
            also = "also " if loser.key and set(loser.key) < set(winner.key) else ""
            return f"{preferred}: it {also}has {additional}"
        return f"{preferred}: the same properties fit, and its label comes first"


def _rejection_sort_key(verdict: Verdict) -> tuple[bool, str, str]:
    """Return a sort key of rejected wheels: variants by label, then plain wheels."""
    label = verdict.filename.label
    return label is None, label or "", verdict.filename.text
