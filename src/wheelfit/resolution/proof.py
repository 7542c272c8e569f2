"""The proof that there is no solution: its steps, and their text.

A derivation is a graph of steps: facts, steps that follow from two others, and the conclusion that
the request cannot be met. It is written from the facts to the conclusion, each step once; a step
that is needed again gets a number.
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

    REQUESTED = "requested"
    """The user requested it."""
    NEEDS = "needs"
    """A release needs it."""
    UNAVAILABLE = "unavailable"
    """No such version is usable."""
    CONSTRAINED = "constrained"
    """A constraint excludes all versions."""
    HAS_BUILDS = "has-builds"
    """A release has several builds, of which one must be chosen."""
    BUILD_LIMITS = "limits"
    """A build was made for other versions of another package."""
    UNNEEDED = "unneeded"
    """A build was made for another package, which nothing else needs."""
    DERIVED = "derived"
    """It follows from its two causes."""


class Term(Struct, frozen=True):
    """The statement that a package is among some versions, or that it is not."""

    package: Package
    versions: VersionSet
    positive: bool = True
    """Whether it is among them; else it is another version or absent."""
    admitted_versions: tuple[Version, ...] = ()
    """Every version of the package that may be chosen, newest first; empty: not listed."""
    builds: tuple[str, ...] = ()
    """The labels of a release's builds, if the versions of the package are their numbers."""


class Step(Struct, frozen=True, eq=False):
    """Terms that cannot all be true, and the reason."""

    kind: StepKind
    terms: tuple[Term, ...]
    """The terms that cannot all be true; empty at the top of a proof."""
    text: str = ""
    """The requirement or the constraint as its author wrote it, if it is one."""
    causes: tuple[Step, ...] = ()
    """The two steps it follows from; none for a fact."""

    @property
    def version_count(self) -> int:
        """How many admitted versions of its first package it concerns."""
        if not self.terms:
            return 0
        return len(self.terms[0].versions.members(self.terms[0].admitted_versions))

    def facts(self) -> Iterator[Step]:
        """Yield the facts it is derived from, each once, in the order of the proof."""
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


class Explanations(Protocol):
    """Explanations why versions and builds are unusable."""

    def no_version(self, name: NormalizedName, versions: VersionSet) -> str:
        """Return a clause with the reason why none of some versions can be chosen.

        As ``no version of torch matches torch>=9`` or ``torch 2.8.0 has no wheel that fits``.
        """

    def no_build(self, name: NormalizedName, version: Version, *, others: bool) -> str:
        """Return a clause about a release without a usable build.

        :param others: whether some builds were examined and are unusable.
        """


_TOP = "your request cannot be met"


def write_proof(top: Step, explanations: Explanations, *, conclusion: str = _TOP) -> str:
    """Return a proof as sentences, one a line.

    A very long derivation is reduced to its facts.
    """
    words = _Words(explanations, conclusion)
    if len(_derived(top)) > _MAX_READABLE:
        return _facts_only(top, words)
    return "\n".join(_ProofWriter(words).write(top))


def write_proof_of_newest(
    newest: Step,
    whole: Step,
    name: NormalizedName,
    version: Version,
    explanations: Explanations,
) -> str:
    """Return a long proof that begins with the newest release, which users expect first.

    :param newest: the top of the proof that the newest release of a project is unusable.
    :param whole: the top of the proof that no release is usable.
    :param version: its newest release.
    """
    lines = [
        write_proof(
            newest, explanations, conclusion=f"{name} {version}, the newest, cannot be used"
        )
    ]
    words = _Words(explanations)
    already_written = {words.clause(fact) for fact in newest.facts()}
    older, unavailable = [], []
    for fact in sorted(_newest_first(whole), key=lambda fact: -fact.version_count):
        clause = words.clause(fact)
        if clause in already_written:
            continue
        if fact.kind in _ABOUT_RELEASES and fact.terms[0].package.name == name:
            older.append(f"  - {clause}")
        elif fact.kind is StepKind.UNAVAILABLE:
            unavailable.append(f"  - {clause}")
    if older:
        lines.append(f"older versions of {name} cannot be used either:")
    for clauses in (older, unavailable):
        lines += clauses[:_MAX_OLDER]
        if len(clauses) > _MAX_OLDER:
            lines.append(f"  - and {len(clauses) - _MAX_OLDER} more like these")
    return "\n".join(lines)


def main_cause(top: Step, explanations: Explanations) -> str:
    """Return the cause of a failure in one clause: the unusable package and what requires it."""
    words = _Words(explanations)
    facts = _newest_first(top)
    for fact in facts:
        if fact.kind is StepKind.UNAVAILABLE:
            name = fact.terms[0].package.name
            needs_of_package = [
                step
                for step in facts
                if step.kind is StepKind.NEEDS and step.terms[-1].package.name == name
            ]
            return " and ".join(words.clause(step) for step in (*needs_of_package[:1], fact))
    return " and ".join(words.clause(fact) for fact in facts[:2])


def clause_of(fact: Step, explanations: Explanations) -> str:
    """Return a fact in a clause."""
    return _Words(explanations).clause(fact)


def is_long(top: Step) -> bool:
    """Return whether a proof should begin with the newest release."""
    return count_steps(top) > _MAX_SHORT


def count_steps(top: Step) -> int:
    """Return the number of conclusions of a proof, up to a limit."""
    return len(_derived(top))


_MAX_SHORT = 6
"""Derived steps of a proof that is easy to read."""
_MAX_READABLE = 40
"""Derived steps of a proof that is still readable."""
_MAX_FACTS = 30
"""Facts that are listed in place of a proof that is not readable."""
_MAX_OLDER = 5
"""Facts about older versions, or about unavailable packages, that are listed."""
_ABOUT_RELEASES = (StepKind.NEEDS, StepKind.BUILD_LIMITS, StepKind.UNNEEDED)


def _newest_first(top: Step) -> list[Step]:
    """Return the facts: those of the request, then the others, newest release first."""

    def age(fact: Step) -> int:
        admitted = fact.terms[0].admitted_versions
        members = fact.terms[0].versions.members(admitted)
        return admitted.index(members[0]) if members else len(admitted)

    facts = list(top.facts())
    requested = [fact for fact in facts if fact.kind is StepKind.REQUESTED]
    # In the proof, facts about the newest release come last. Reversed, they come first among facts
    # of the same age, whose order `sorted` keeps.
    others = [fact for fact in reversed(facts) if fact.kind is not StepKind.REQUESTED]
    return [*requested, *sorted(others, key=age)]


def _derived(top: Step) -> list[Step]:
    seen: dict[int, Step] = {}
    pending = [top]
    while pending and len(seen) <= _MAX_READABLE:
        step = pending.pop()
        if step.causes and id(step) not in seen:
            seen[id(step)] = step
            pending.extend(step.causes)
    return list(seen.values())


def _facts_only(top: Step, words: _Words) -> str:
    order = list(dict.fromkeys(words.clause(fact) for fact in _newest_first(top)))
    lines = ["these cannot all be met:", *(f"  - {clause}" for clause in order[:_MAX_FACTS])]
    if len(order) > _MAX_FACTS:
        lines.append(f"  - and {len(order) - _MAX_FACTS} more like these")
    return "\n".join(lines)


class _ProofWriter:
    """A writer of a derivation as lines."""

    def __init__(self, words: _Words) -> None:
        self.words = words
        self.lines: list[str] = []
        self.numbers: dict[int, int] = {}

    def write(self, top: Step) -> list[str]:
        self._uses = _uses(top)
        if top.causes:
            self._derive(top)
        else:
            self._write(top, f"{self.words.clause(top)}, so {self.words.top}")
        return self.lines

    def _derive(self, step: Step) -> None:
        left, right = step.causes
        if left is right and not left.causes:
            self._write(step, f"because {self._cite(left)}, which no version meets")
        elif left.causes and right.causes:
            self._from_two(step, left, right)
        elif left.causes or right.causes:
            self._from_one(step, *((left, right) if left.causes else (right, left)))
        else:
            self._write(step, f"because {self._cite(left)} and {self._cite(right)}")

    def _from_two(self, step: Step, left: Step, right: Step) -> None:
        if self._is_numbered(left) and self._is_numbered(right):
            self._write(step, f"because {self._cite(left)} and {self._cite(right)}")
        elif self._is_numbered(left) or self._is_numbered(right):
            numbered, other = (left, right) if self._is_numbered(left) else (right, left)
            self._derive(other)
            self._write(step, f"and because {self._cite(numbered)}")
        else:
            # The simpler one comes last, next to the step that follows from it.
            first, second = (left, right) if _is_simple(right) else (right, left)
            self._derive(first)
            self._number(first)
            self._derive(second)
            self._write(step, f"and because {self._cite(first)}")

    def _from_one(self, step: Step, derived: Step, fact: Step) -> None:
        if self._is_numbered(derived):
            self._write(step, f"because {self._cite(fact)} and {self._cite(derived)}")
            return
        derived_causes = [cause for cause in derived.causes if cause.causes]
        facts = [cause for cause in derived.causes if not cause.causes]
        can_skip_derived = len(derived_causes) == 1 and self._uses[id(derived)] == 1
        if can_skip_derived and not self._is_numbered(derived_causes[0]):
            # One sentence has both facts, and leaves out the step between them.
            self._derive(derived_causes[0])
            self._write(step, f"and because {self._cite(facts[0])} and {self._cite(fact)}")
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

    def _is_numbered(self, step: Step) -> bool:
        return id(step) in self.numbers

    def _cite(self, step: Step) -> str:
        number = self.numbers.get(id(step))
        return f"{self.words.clause(step)}" + (f" ({number})" if number else "")


def _is_simple(step: Step) -> bool:
    return not any(cause.causes for cause in step.causes)


def _uses(top: Step) -> dict[int, int]:
    """Return how many steps follow from each step, by its id."""
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
    """The clauses for steps and terms.

    :param conclusion: the clause for the top of the proof.
    """

    def __init__(self, explanations: Explanations, conclusion: str = _TOP) -> None:
        self._explanations = explanations
        self.top = conclusion

    def clause(self, step: Step) -> str:
        match step.kind:
            case StepKind.REQUESTED:
                return f"you require {step.text or self._required_text(step.terms[0])}"
            case StepKind.NEEDS:
                needed = step.text or self._required_text(step.terms[-1])
                return f"{self._subject_with_need(step.terms[0])} {needed}"
            case StepKind.UNAVAILABLE:
                (term,) = step.terms
                name, release = term.package.name, term.package.release
                if release is not None:
                    others = not all(number in term.versions for number in term.admitted_versions)
                    return self._explanations.no_build(name, release, others=others)
                return self._explanations.no_version(name, term.versions)
            case StepKind.CONSTRAINED:
                (term,) = step.terms
                return f"the constraint {step.text} excludes {self._subject_text(term)}"
            case StepKind.HAS_BUILDS:
                return f"{self._subject_text(step.terms[0])} comes as {_labels(step.terms[1])}"
            case StepKind.BUILD_LIMITS:
                subject, is_plural = self._subject(step.terms[0])
                return f"{subject} {'are' if is_plural else 'is'} built for {step.text}"
            case StepKind.UNNEEDED:
                subject, is_plural = self._subject(step.terms[0])
                verb = "are" if is_plural else "is"
                return f"{subject} {verb} built for {step.text}, which nothing else needs"
            case _:
                return self.conclusion(step)

    def conclusion(self, step: Step) -> str:
        positive = [term for term in step.terms if term.positive]
        negative = [term for term in step.terms if not term.positive]
        needed = " or ".join(self._required_text(term) for term in negative)
        if not step.terms:
            return self.top
        if not positive:
            return f"{needed} is needed"
        if not negative and len(positive) == 1:
            return f"{self._subject_text(positive[0])} cannot be used"
        if not negative:
            together = " and ".join(self._subject_text(term) for term in positive)
            return f"{together} cannot be used together"
        if len(positive) == len(negative) == 1 and _is_one_release(positive[0], negative[0]):
            return f"of {self._subject_text(positive[0])} only {_labels(negative[0])} is left"
        if len(positive) == 1:
            return f"{self._subject_with_need(positive[0])} {needed}"
        both = " with ".join(self._subject_text(term) for term in positive)
        return f"{both} needs {needed}"

    def _required_text(self, term: Term) -> str:
        if term.package.release is not None:
            return self._subject_text(term)
        text = term.versions.specifiers()
        return self._subject_text(term) if text is None else f"{term.package}{text}"

    def _subject_with_need(self, term: Term) -> str:
        """Return the subject of a clause with the verb need."""
        subject, is_plural = self._subject(term)
        return f"{subject} {'need' if is_plural else 'needs'}"

    def _subject_text(self, term: Term) -> str:
        return self._subject(term)[0]

    def _subject(self, term: Term) -> tuple[str, bool]:
        versions, package = term.admitted_versions, term.package
        members = term.versions.members(versions)
        if package.release is not None:
            return _builds(term, members)
        if not members:
            return f"{package}{term.versions}", False
        if len(members) == 1:
            return f"{package} {members[0]}", False
        if len(members) == len(versions):
            return f"every version of {package}", False
        if len(members) == 2:
            return f"{package} {members[1]} and {members[0]}", True
        start = versions.index(members[0])
        if versions[start : start + len(members)] == tuple(members):
            return f"{package} {members[-1]} to {members[0]}", True
        if len(members) <= _MAX_LISTED:
            names = ", ".join(str(version) for version in reversed(members[1:]))
            return f"{package} {names} and {members[0]}", True
        return f"{len(members)} of the {len(versions)} versions of {package}", True


_MAX_LISTED = 5
"""Versions that a clause lists."""


def _is_one_release(project: Term, build: Term) -> bool:
    """Return whether the terms are about a release and its builds."""
    return build.package.release is not None and build.package.name == project.package.name


def _builds(term: Term, members: Sequence[Version]) -> tuple[str, bool]:
    """Return builds as the subject of a clause, and whether it is plural."""
    if not members or (len(members) == len(term.admitted_versions) > 1):
        return str(term.package), False
    return f"{term.package} ({_labels(term)})", False


def _labels(term: Term) -> str:
    names = dict(zip(term.admitted_versions, term.builds, strict=True))
    labels = dict.fromkeys(
        names[number] for number in term.versions.members(term.admitted_versions)
    )
    return listed(list(labels), "or") if labels else "another build"
