"""Libraries that a result brings for an accelerator that the machine cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.accelerators import libraries_in_words, library_major, owner_of_libraries
from wheelfit.core.sizes import size_in_words
from wheelfit.resolution.accelerator_remedies import (
    LEAVING_OUT,
    device_of,
    is_there,
    lacking_for,
    needs_of_extras,
)
from wheelfit.resolution.accelerator_use import AcceleratorUse
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.resolution.accelerator_remedies import Remedies
    from wheelfit.resolution.accelerator_use import Remedy


def unusable_libraries(
    arriving: Collection[NormalizedName], remedies: Remedies
) -> Iterator[AcceleratorUse]:
    """Yield the unusable libraries that come along, once for each kind of accelerator.

    :param arriving: the new packages, including libraries of which only the name is known; others
        are not reported.
    :param remedies: the result, with builds that would suit the machine better.
    """
    yield from _Unusable(arriving, remedies).found()


class _Unusable:
    """The search for such libraries in one result."""

    def __init__(self, arriving: Collection[NormalizedName], remedies: Remedies) -> None:
        self._arriving = arriving
        self._remedies = remedies

    def found(self) -> Iterator[AcceleratorUse]:
        """Yield the unusable libraries that come along."""
        coming: dict[str, list[NormalizedName]] = {}
        for name in dict.fromkeys(self._arriving):
            owner, pin = owner_of_libraries(name), self._remedies.pins.get(name)
            if owner is not None and not (pin is not None and pin.requested):
                coming.setdefault(owner, []).append(name)
        for namespace, libraries in coming.items():
            if not self._remedies.is_allowed(namespace):
                why = "are not wanted: wishes leave out builds, not what a wheel needs"
                yield self._unusable(namespace, libraries, why)
                continue
            names, why = self._useless(namespace, libraries)
            if names:
                why = f"{self._remedies.holder(namespace)} cannot use ({why})"
                yield self._unusable(namespace, names, why)

    def _useless(
        self, namespace: str, libraries: Sequence[NormalizedName]
    ) -> tuple[Sequence[NormalizedName], str]:
        """Return the libraries that the machine cannot use, and the reason."""
        support = self._remedies.support(namespace)
        if support is None:
            return (), ""
        if not is_there(support, namespace):
            # A warning means that a device is there, and has the reason it is unusable.
            warnings = support.detections[namespace].warnings
            return libraries, "; ".join(warnings) or f"no {device_of(namespace)}"
        majors = {name: self._major(name) for name in libraries}
        reasons = {
            major: lacking_for(support, namespace, major)
            for major in dict.fromkeys(majors.values())
            if major is not None
        }
        if not any(reasons.values()):
            return (), ""
        # Libraries without a major in their names came with those that have one.
        is_all = all(reasons.values())
        names = [name for name, major in majors.items() if (reasons[major] if major else is_all)]
        title = libraries_in_words(namespace)
        return names, "; ".join(f"{title} {major} {why}" for major, why in reasons.items() if why)

    def _major(self, name: NormalizedName) -> str | None:
        pin = self._remedies.pins.get(name)
        return library_major(name, "" if pin is None else str(pin.version))

    def _unusable(
        self, namespace: str, names: Sequence[NormalizedName], why: str
    ) -> AcceleratorUse:
        """Return the finding about libraries; the reason is a clause about them."""
        in_vain = set(names)
        bringing = dict.fromkeys(
            edge.needing
            for edge in self._remedies.resolution.edges
            if edge.needed in in_vain and owner_of_libraries(edge.needing) is None
        )
        sizes = [
            pin.file.size for name in names if (pin := self._remedies.pins.get(name)) is not None
        ]
        known = [size for size in sizes if size is not None]
        size = sum(known) if known else None
        at_least = "at least " if size is not None and len(known) < len(names) else ""
        what = f"{at_least}{size_in_words(size)} of " if size is not None else ""
        # A lock of another tool may not list their dependents.
        needing = bringing or [
            name for name in self._remedies.pins if owner_of_libraries(name) is None
        ]
        remedy_of = {name: self._remedies.by_bridge(name) for name in needing}
        remedies = [one for one in remedy_of.values() if one is not None]
        others = [name for name in bringing if remedy_of[name] is None]
        line = (
            f"{what}{libraries_in_words(namespace)} libraries come along that {why}; "
            f"{self._without(remedies, others, names)}"
        )
        words = dict.fromkeys(remedy.words for remedy in remedies)
        return AcceleratorUse(
            "unusable-libraries", namespace, tuple(bringing), tuple(names), size, tuple(words), line
        )

    def _without(
        self,
        remedies: Sequence[Remedy],
        others: Sequence[NormalizedName],
        names: Sequence[NormalizedName],
    ) -> str:
        """Return the remedy against libraries that cannot be used, in words.

        :param others: the packages that need them and have no remedy.
        :param names: the names of the libraries.
        """
        if not remedies:
            return self._without_bridge(others, names)
        options = self._remedies.typed(remedies)
        builds = listed(list(dict.fromkeys(remedy.build for remedy in remedies)))
        kind = "without them" if all(remedy.has_no_libraries for remedy in remedies) else "for it"
        several = len({remedy.words for remedy in remedies}) > 1
        are_typed = len({remedy.words for remedy in remedies} - {LEAVING_OUT}) > 1
        takes = f"take{'' if are_typed else 's'} {'builds' if several else 'a build'}"
        return f"{options} {takes} {kind} ({builds}){_too(others)}"

    def _without_bridge(
        self, others: Sequence[NormalizedName], names: Sequence[NormalizedName]
    ) -> str:
        """Return the remedy where no bridge helps, in words."""
        owned = {
            name: remedy for name in others if (remedy := self._remedies.of_owner(name)) is not None
        }
        for family, one in owned.values():
            kind = "without them" if one.has_no_libraries else "for it"
            rest = _too([name for name in others if name not in owned])
            return f"the index of {family} has a build {kind} ({one.build}), and was not used{rest}"
        extras = list(self._extras_with_libraries())
        if extras:
            verb = "brings" if len(extras) == 1 else "bring"
            return f"the {'extra' if len(extras) == 1 else 'extras'} {listed(extras)} {verb} them"
        what = "what needs them" if not others else "it" if len(others) == 1 else "them"
        return (
            f"{f'{_need(others)} them: ' if others else ''}"
            f"{'lock' if self._remedies.context.lock else 'take'} {what} "
            f"from an index with other builds, or leave a library out with --exclude {names[0]}"
        )

    def _extras_with_libraries(self) -> Iterator[str]:
        """Yield requirements with extras for accelerators, as they are typed."""
        for pin in self._remedies.resolution.pins:
            if not (
                pin.requested
                and pin.extras
                and pin.core
                and pin.name in self._remedies.with_libraries
            ):
                continue
            concerned = needs_of_extras(pin.core, self._remedies.context.environment).keys()
            for extra in sorted(pin.extras & concerned):
                yield f"{pin.name}[{extra}]"


def _need(names: Sequence[str]) -> str:
    return f"{listed(names)} {'needs' if len(names) == 1 else 'need'}"


def _too(names: Sequence[str]) -> str:
    """Return the end of a line with the other dependents of libraries; empty: none."""
    return f"; {_need(names)} some of them too" if names else ""
