"""Libraries in a result for an accelerator that the machine cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.accelerators import libraries_in_words, library_major, owner_of_libraries
from wheelfit.core.sizes import size_in_words
from wheelfit.resolution.accelerator_remedies import (
    WITHOUT_OPTION,
    device_of,
    is_present,
    needs_of_extras,
    unmet_library_need,
)
from wheelfit.resolution.accelerator_use import AcceleratorRemark, Remedy
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.resolution.accelerator_remedies import Remedies


class UnusableLibraries:
    """The unusable libraries in a result, reported once for each kind of accelerator.

    :param new_packages: the names of new packages, also of those whose wheel is unknown. Only
        libraries among them are reported.
    """

    def __init__(self, new_packages: Collection[NormalizedName], remedies: Remedies) -> None:
        self._new_packages = new_packages
        self._remedies = remedies

    def remarks(self) -> Iterator[AcceleratorRemark]:
        """Yield the unusable libraries of the result."""
        by_namespace: dict[str, list[NormalizedName]] = {}
        for name in dict.fromkeys(self._new_packages):
            owner, pin = owner_of_libraries(name), self._remedies.pins.get(name)
            if owner is not None and not (pin is not None and pin.requested):
                by_namespace.setdefault(owner, []).append(name)
        for namespace, libraries in by_namespace.items():
            # The reason completes the sentence "libraries are included that …".
            if not self._remedies.is_allowed(namespace):
                reason = "your preferences exclude, which apply to builds, not to dependencies"
                yield self._remark(namespace, libraries, reason)
                continue
            names, reason = self._unusable_names(namespace, libraries)
            if names:
                reason = f"{self._remedies.machine_name(namespace)} cannot use ({reason})"
                yield self._remark(namespace, names, reason)

    def _unusable_names(
        self, namespace: str, libraries: Sequence[NormalizedName]
    ) -> tuple[Sequence[NormalizedName], str]:
        """Return the libraries that the machine cannot use, and the reason."""
        support = self._remedies.support(namespace)
        if support is None:
            return (), ""
        if not is_present(support, namespace):
            # A warning means that a device is present, and states why it is unusable.
            warnings = support.detections[namespace].warnings
            return libraries, "; ".join(warnings) or f"no {device_of(namespace)}"
        majors = {name: self._major(name) for name in libraries}
        reasons = {
            major: unmet_library_need(support, namespace, major)
            for major in dict.fromkeys(majors.values())
            if major is not None
        }
        if not any(reasons.values()):
            return (), ""
        # Libraries without a major version in their names belong to those with one.
        all_unusable = all(reasons.values())
        names = [
            name for name, major in majors.items() if (reasons[major] if major else all_unusable)
        ]
        title = libraries_in_words(namespace)
        return names, "; ".join(
            f"{title} {major} {reason}" for major, reason in reasons.items() if reason
        )

    def _major(self, name: NormalizedName) -> str | None:
        pin = self._remedies.pins.get(name)
        return library_major(name, "" if pin is None else str(pin.version))

    def _remark(
        self, namespace: str, names: Sequence[NormalizedName], reason: str
    ) -> AcceleratorRemark:
        unusable = set(names)
        dependents = dict.fromkeys(
            edge.needing
            for edge in self._remedies.resolution.edges
            if edge.needed in unusable and owner_of_libraries(edge.needing) is None
        )
        sizes = [
            pin.file.size for name in names if (pin := self._remedies.pins.get(name)) is not None
        ]
        known_sizes = [size for size in sizes if size is not None]
        size = sum(known_sizes) if known_sizes else None
        at_least = "at least " if size is not None and len(known_sizes) < len(names) else ""
        amount = f"{at_least}{size_in_words(size)} of " if size is not None else ""
        # A lock of another tool may not list their dependents.
        candidates = dependents or [
            name for name in self._remedies.pins if owner_of_libraries(name) is None
        ]
        remedy_of = {name: self._remedies.bridge_remedy(name) for name in candidates}
        remedies = [remedy for remedy in remedy_of.values() if remedy is not None]
        others = [name for name in dependents if remedy_of[name] is None]
        line = (
            f"{amount}{libraries_in_words(namespace)} libraries are included that {reason}; "
            f"{self._remedy_text(remedies, others, names)}"
        )
        texts = dict.fromkeys(remedy.text for remedy in remedies)
        return AcceleratorRemark(
            "unusable-libraries",
            namespace,
            tuple(dependents),
            tuple(names),
            size,
            tuple(texts),
            line,
        )

    def _remedy_text(
        self,
        remedies: Sequence[Remedy],
        others: Sequence[NormalizedName],
        names: Sequence[NormalizedName],
    ) -> str:
        """Return the sentence on the remedy against unusable libraries.

        :param others: the packages that need them and have no remedy.
        """
        if not remedies:
            return self._remedy_without_bridge(others, names)
        options = self._remedies.option_text(remedies)
        builds = listed(list(dict.fromkeys(remedy.build for remedy in remedies)))
        kind = "without them" if all(remedy.is_for_any_machine for remedy in remedies) else "for it"
        texts = {remedy.text for remedy in remedies}
        # Of several options the verb is plural; "leaving out --no-bridges" is not one.
        verb = "take" if len(texts - {WITHOUT_OPTION}) > 1 else "takes"
        noun = "builds" if len(texts) > 1 else "a build"
        return f"{options} {verb} {noun} {kind} ({builds}){_others_too(others)}"

    def _remedy_without_bridge(
        self, others: Sequence[NormalizedName], names: Sequence[NormalizedName]
    ) -> str:
        """Return the sentence on the remedy if no bridge has one."""
        owner_remedies = {
            name: owner_remedy
            for name in others
            if (owner_remedy := self._remedies.owner_remedy(name)) is not None
        }
        if owner_remedies:
            family, remedy = next(iter(owner_remedies.values()))
            kind = "without them" if remedy.is_for_any_machine else "for it"
            rest = _others_too([name for name in others if name not in owner_remedies])
            return (
                f"the index of {family} has a build {kind} ({remedy.build}), and was not used{rest}"
            )
        extras = list(self._extras_with_libraries())
        if extras:
            verb = "brings" if len(extras) == 1 else "bring"
            return f"the {'extra' if len(extras) == 1 else 'extras'} {listed(extras)} {verb} them"
        verb = "lock" if self._remedies.context.lock else "take"
        if others:
            pronoun = "it" if len(others) == 1 else "them"
            beginning = f"{_need(others)} them: {verb} {pronoun}"
        else:
            beginning = f"{verb} what needs them"
        return (
            f"{beginning} from an index with other builds, or leave a library out with "
            f"--exclude {names[0]}"
        )

    def _extras_with_libraries(self) -> Iterator[str]:
        """Yield requirements with extras for accelerators, as they are typed."""
        for pin in self._remedies.resolution.pins:
            if not (pin.requested and pin.core and pin.name in self._remedies.users_of_libraries):
                continue
            extras = needs_of_extras(pin.core, self._remedies.context.environment).keys()
            for extra in sorted(pin.extras & extras):
                yield f"{pin.name}[{extra}]"


def _need(names: Sequence[str]) -> str:
    return f"{listed(names)} {'needs' if len(names) == 1 else 'need'}"


def _others_too(names: Sequence[str]) -> str:
    """Return the end of a line about other dependents of libraries; empty without them."""
    return f"; {_need(names)} some of them too" if names else ""
