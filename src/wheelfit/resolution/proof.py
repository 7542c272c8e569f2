"""The proof that there is no solution, as steps, and the steps as sentences.

A derivation is a graph: facts at the bottom, each other step following from two below it, and at
the top "the request cannot be met". It is written from the bottom up, every step once; a step
needed again later gets a number.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.problem import Package
    from wheelfit.resolution.version_set import VersionSet


class StepKind(Enum):
    """The origin of a step."""

    ASKED = "asked"
    """The user requested it."""
    NEEDS = "needs"
    """A release needs it."""
    NOTHING = "nothing"
    """No such version can be had."""
    CONSTRAINED = "constrained"
    """A constraint leaves none."""
    DIVIDED = "divided"
    """A release is one of its builds."""
    LIMITS = "limits"
    """A build was made for other versions."""
    IDLE = "idle"
    """A build was made for something that is not there."""
    FOLLOWS = "follows"
    """It follows from its two causes."""


class Term(Struct, frozen=True):
    """The statement that a package is among some versions, or that it is not."""

    package: Package
    versions: VersionSet
    positive: bool = True
    """Whether it is among them; if not, it is another version or absent."""
    known: tuple[Version, ...] = ()
    """Every version of the project that counts, newest first; empty: not listed."""
    builds: tuple[str, ...] = ()
    """The names of the known "versions", if they are the builds of a release."""


class Step(Struct, frozen=True, eq=False):
    """Terms that cannot all hold, and the reason."""

    kind: StepKind
    terms: tuple[Term, ...]
    """The terms that cannot hold together; empty at the top of a proof."""
    text: str = ""
    """The requirement or the constraint as its author wrote it, if it is one."""
    causes: tuple[Step, ...] = ()
    """The two steps it follows from; none for a fact."""

    @property
    def reach(self) -> int:
        """The number of known versions of its first package that it covers."""
        return len(self.terms[0].versions.members(self.terms[0].known)) if self.terms else 0

    def facts(self) -> Iterator[Step]:
        """Yield the facts below it, each once, in the order of the proof."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            step = pending.pop()
            if id(step) in seen:
                continue
            seen.add(id(step))
            if not step.causes:
                yield step
            pending.extend(reversed(step.causes))


class Knowledge(Protocol):
    """The reasons why something cannot be had."""

    def lack(self, name: NormalizedName, versions: VersionSet) -> str:
        """Return a clause with the reason why none of some versions can be chosen.

        As ``no version of torch matches torch>=9`` or ``torch 2.8.0 has no wheel that fits``.
        """

    def no_build(self, name: NormalizedName, version: Version, *, others: bool) -> str:
        """Return a clause about a release without a usable build.

        :param others: whether some were looked at that cannot be taken.
        """


_TOP = "your request cannot be met"


def tell(top: Step, knowledge: Knowledge, *, conclusion: str = _TOP) -> str:
    """Return a proof as sentences, one a line.

    A very long derivation is reduced to its facts.

    :param top: the step that concludes that the request cannot be met.
    :param knowledge: the reasons why releases are unusable.
    :param conclusion: the conclusion of the last sentence.
    """
    words = _Words(knowledge, conclusion)
    if len(_derived(top)) > _LONG:
        return _facts_only(top, words)
    return "\n".join(_Telling(words).tell(top))


def tell_newest(
    newest: Step,
    whole: Step,
    name: NormalizedName,
    version: Version,
    knowledge: Knowledge,
) -> str:
    """Return a long proof that begins with the newest release, which users look for first.

    :param newest: the top of the proof that the newest release of a project is unusable.
    :param whole: the top of the proof that no release is usable.
    :param name: the project.
    :param version: its newest release.
    :param knowledge: the reasons why releases are unusable.
    """
    lines = [tell(newest, knowledge, conclusion=f"{name} {version}, the newest, cannot be used")]
    words = _Words(knowledge)
    told = {words.clause(fact) for fact in newest.facts()}
    older, lacking = [], []
    for fact in sorted(_newest_first(whole), key=lambda one: -one.reach):
        clause = words.clause(fact)
        if clause in told:
            continue
        if fact.kind in _OF_RELEASES and fact.terms[0].package.name == name:
            older.append(f"  - {clause}")
        elif fact.kind is StepKind.NOTHING:
            lacking.append(f"  - {clause}")
    if older:
        lines.append(f"older versions of {name} are of no use either:")
    for clauses in (older, lacking):
        lines += clauses[:_OLDER]
        if len(clauses) > _OLDER:
            lines.append(f"  - and {len(clauses) - _OLDER} more of the kind")
    return "\n".join(lines)


def essence(top: Step, knowledge: Knowledge) -> str:
    """Return the cause of a failure in one clause: the unusable package and its dependent.

    :param top: the top of a proof.
    :param knowledge: the reasons why releases are unusable.
    """
    words = _Words(knowledge)
    facts = _newest_first(top)
    for fact in facts:
        if fact.kind is StepKind.NOTHING:
            name = fact.terms[0].package.name
            needs = [one for one in facts if one.kind is StepKind.NEEDS]
            needing = [need for need in needs if need.terms[-1].package.name == name]
            return " and ".join(words.clause(one) for one in (*needing[:1], fact))
    return " and ".join(words.clause(fact) for fact in facts[:2])


def clause_of(fact: Step, knowledge: Knowledge) -> str:
    """Return a fact in a clause.

    :param fact: a fact of a proof.
    :param knowledge: why something cannot be had.
    """
    return _Words(knowledge).clause(fact)


def is_long(top: Step) -> bool:
    """Return whether a proof is better begun with the newest release.

    :param top: its top.
    """
    return steps(top) > _SHORT


def steps(top: Step) -> int:
    """Return the number of conclusions of a proof, up to a limit.

    :param top: its top.
    """
    return len(_derived(top))


_SHORT = 6
"""Derived steps that are read without trouble."""
_LONG = 40
"""Derived steps beyond which a proof is no longer read."""
_FACTS = 30
_OLDER = 5
_OF_RELEASES = (StepKind.NEEDS, StepKind.LIMITS, StepKind.IDLE)


def _newest_first(top: Step) -> list[Step]:
    """Return the facts: those of the request, then by the age of their releases, newest first."""

    def age(fact: Step) -> int:
        known = fact.terms[0].known
        inside = fact.terms[0].versions.members(known)
        return known.index(inside[0]) if inside else len(known)

    facts = list(top.facts())
    asked = [fact for fact in facts if fact.kind is StepKind.ASKED]
    # Where nothing else decides: the release tried last, the oldest, comes last.
    others = [fact for fact in reversed(facts) if fact.kind is not StepKind.ASKED]
    return [*asked, *sorted(others, key=age)]


def _derived(top: Step) -> list[Step]:
    seen: dict[int, Step] = {}
    pending = [top]
    while pending and len(seen) <= _LONG:
        step = pending.pop()
        if step.causes and id(step) not in seen:
            seen[id(step)] = step
            pending.extend(step.causes)
    return list(seen.values())


def _facts_only(top: Step, words: _Words) -> str:
    order = list(dict.fromkeys(words.clause(fact) for fact in _newest_first(top)))
    lines = ["these cannot all hold:", *(f"  - {clause}" for clause in order[:_FACTS])]
    if len(order) > _FACTS:
        lines.append(f"  - and {len(order) - _FACTS} more of the kind")
    return "\n".join(lines)


class _Telling:
    """Walk a derivation and write its lines."""

    def __init__(self, words: _Words) -> None:
        self.words = words
        self.lines: list[str] = []
        self.numbers: dict[int, int] = {}

    def tell(self, top: Step) -> list[str]:
        self._uses = _uses(top)
        if top.causes:
            self._derive(top)
        else:
            self._write(top, f"{self.words.clause(top)}, so {self.words.top}")
        return self.lines

    def _derive(self, step: Step) -> None:
        left, right = step.causes
        if left.causes and right.causes:
            self._from_two(step, left, right)
        elif left.causes or right.causes:
            self._from_one(step, *((left, right) if left.causes else (right, left)))
        else:
            self._write(step, f"because {self._cite(left)} and {self._cite(right)}")

    def _from_two(self, step: Step, left: Step, right: Step) -> None:
        if self._is_told(left) and self._is_told(right):
            self._write(step, f"because {self._cite(left)} and {self._cite(right)}")
        elif self._is_told(left) or self._is_told(right):
            told, new = (left, right) if self._is_told(left) else (right, left)
            self._derive(new)
            self._write(step, f"and because {self._cite(told)}")
        else:
            # The simpler one last: less stands between it and its use.
            first, second = (left, right) if _is_simple(right) else (right, left)
            self._derive(first)
            self._number(first)
            self._derive(second)
            self._write(step, f"and because {self._cite(first)}")

    def _from_one(self, step: Step, derived: Step, fact: Step) -> None:
        if self._is_told(derived):
            self._write(step, f"because {self._cite(fact)} and {self._cite(derived)}")
            return
        inner = [cause for cause in derived.causes if cause.causes]
        outer = [cause for cause in derived.causes if not cause.causes]
        if len(inner) == 1 and self._uses[id(derived)] == 1 and not self._is_told(inner[0]):
            # Two facts in one sentence; the step between is obvious.
            self._derive(inner[0])
            self._write(step, f"and because {self._cite(outer[0])} and {self._cite(fact)}")
        else:
            self._derive(derived)
            self._write(step, f"and because {self._cite(fact)}")

    def _write(self, step: Step, reason: str) -> None:
        conclusion = self.words.conclusion(step)
        line = f"{reason}, {conclusion}" if step.causes else reason
        self.lines.append(line)
        if self._uses.get(id(step), 0) > 1:
            self._number(step)

    def _number(self, step: Step) -> None:
        if id(step) not in self.numbers:
            self.numbers[id(step)] = len(self.numbers) + 1
            self.lines[-1] += f" ({self.numbers[id(step)]})"

    def _is_told(self, step: Step) -> bool:
        return id(step) in self.numbers

    def _cite(self, step: Step) -> str:
        number = self.numbers.get(id(step))
        return f"{self.words.clause(step)}" + (f" ({number})" if number else "")


def _is_simple(step: Step) -> bool:
    return not any(cause.causes for cause in step.causes)


def _uses(top: Step) -> dict[int, int]:
    uses = {id(top): 1}
    pending = [top]
    while pending:
        for cause in pending.pop().causes:
            if id(cause) not in uses:
                uses[id(cause)] = 0
                pending.append(cause)
            uses[id(cause)] += 1
    return uses


class _Words:
    """The clauses for steps and terms."""

    def __init__(self, knowledge: Knowledge, top: str = _TOP) -> None:
        self._knowledge = knowledge
        self.top = top

    def clause(self, step: Step) -> str:
        match step.kind:
            case StepKind.ASKED:
                return f"you ask for {step.text or self._wanted(step.terms[0])}"
            case StepKind.NEEDS:
                needed = step.text or self._wanted(step.terms[-1])
                return f"{self._some(step.terms[0])} {needed}"
            case StepKind.NOTHING:
                (term,) = step.terms
                name, release = term.package.name, term.package.release
                if release is not None:
                    others = not all(number in term.versions for number in term.known)
                    return self._knowledge.no_build(name, release, others=others)
                return self._knowledge.lack(name, term.versions)
            case StepKind.CONSTRAINED:
                (term,) = step.terms
                return f"the constraint {step.text} excludes {self._these(term)}"
            case StepKind.DIVIDED:
                return f"{self._these(step.terms[0])} comes as {_labels(step.terms[1])}"
            case StepKind.LIMITS:
                subject, many = self._subject(step.terms[0])
                return f"{subject} {'are' if many else 'is'} built for {step.text}"
            case StepKind.IDLE:
                subject, many = self._subject(step.terms[0])
                verb = "are" if many else "is"
                return f"{subject} {verb} built for {step.text}, which nothing else needs"
            case _:
                return self.conclusion(step)

    def conclusion(self, step: Step) -> str:
        positive = [term for term in step.terms if term.positive]
        negative = [term for term in step.terms if not term.positive]
        wanted = " or ".join(self._wanted(term) for term in negative)
        if not step.terms:
            return self.top
        if not positive:
            return f"{wanted} is needed"
        if not negative and len(positive) == 1:
            return f"{self._these(positive[0])} cannot be used"
        if not negative:
            together = " and ".join(self._these(term) for term in positive)
            return f"{together} cannot be used together"
        if len(positive) == len(negative) == 1 and _is_one_release(positive[0], negative[0]):
            return f"of {self._these(positive[0])} only {_labels(negative[0])} is left"
        if len(positive) == 1:
            return f"{self._some(positive[0])} {wanted}"
        both = " with ".join(self._these(term) for term in positive)
        return f"{both} needs {wanted}"

    def _wanted(self, term: Term) -> str:
        if term.package.release is not None:
            return self._these(term)
        text = term.versions.specifiers()
        return self._these(term) if text is None else f"{term.package}{text}"

    def _some(self, term: Term) -> str:
        """Return a subject with its verb."""
        subject, many = self._subject(term)
        return f"{subject} {'need' if many else 'needs'}"

    def _these(self, term: Term) -> str:
        return self._subject(term)[0]

    def _subject(self, term: Term) -> tuple[str, bool]:
        listed, package = term.known, term.package
        inside = term.versions.members(listed)
        if package.release is not None:
            return _builds(term, inside)
        if not inside:
            return f"{package}{term.versions}", False
        if len(inside) == 1:
            return f"{package} {inside[0]}", False
        if len(inside) == len(listed):
            return f"every version of {package}", False
        if len(inside) == 2:
            return f"{package} {inside[1]} and {inside[0]}", True
        start = listed.index(inside[0])
        if listed[start : start + len(inside)] == tuple(inside):
            return f"{package} {inside[-1]} to {inside[0]}", True
        if len(inside) <= _FEW:
            names = ", ".join(str(version) for version in reversed(inside[1:]))
            return f"{package} {names} and {inside[0]}", True
        return f"{len(inside)} of the {len(listed)} versions of {package}", True


_FEW = 5


def _is_one_release(project: Term, build: Term) -> bool:
    """Return whether the terms speak of a release and of its builds."""
    return build.package.release is not None and build.package.name == project.package.name


def _builds(term: Term, inside: Sequence[Version]) -> tuple[str, bool]:
    """Return builds as a subject: all of them, or their labels."""
    if not inside or (len(inside) == len(term.known) > 1):
        return str(term.package), False
    return f"{term.package} ({_labels(term)})", False


def _labels(term: Term) -> str:
    """Return the labels of builds, as ``a, b or c``."""
    names = dict(zip(term.known, term.builds, strict=True))
    labels = dict.fromkeys(names[number] for number in term.versions.members(term.known))
    return listed(list(labels), "or") if labels else "another build"
