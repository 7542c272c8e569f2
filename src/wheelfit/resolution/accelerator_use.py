"""What a result brings for accelerators that the machine cannot use, and which it leaves idle."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from packaging.specifiers import SpecifierSet

from wheelfit.core import phrases
from wheelfit.core.accelerators import (
    ACCELERATORS,
    accelerators_of,
    concerned_extras,
    is_for_accelerator,
    libraries_in_words,
    library_major,
    library_needs,
    owner_of_libraries,
    platform_in_words,
)
from wheelfit.core.bridges import document_of
from wheelfit.core.properties import Feature
from wheelfit.core.sizes import size_in_words
from wheelfit_runtime.errors import WheelfitError
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.words import THIS_MACHINE
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.property_support import Support
    from wheelfit.core.requirements import Requirement
    from wheelfit.resolution.candidates import Candidates, ChoicePolicy
    from wheelfit.resolution.resolution import Pin, Resolution


_LEAVING_OUT = "leaving out --no-bridges"
"""What gets a family that counts by default, where that option was given."""


class Remedy(NamedTuple):
    """An option or a requirement that gets a build that suits the machine."""

    words: str
    """As it is typed: ``--bridge pytorch``, ``jax[cuda13]``."""
    build: str = ""
    """The build that it gets; empty: the same, with what it needs."""
    size: int | None = None
    """Bytes to download besides; None where they are not known."""
    has_no_libraries: bool = False
    """Whether the build is for any machine."""


class AcceleratorUse(NamedTuple):
    """Something that a result has to do with one kind of accelerator, and should not."""

    kind: str
    """``unusable-libraries``, or ``idle``: an accelerator is there that nothing uses."""
    namespace: str
    """Of the accelerator."""
    packages: tuple[str, ...]
    """The packages that need the libraries, or could use the accelerator."""
    libraries: tuple[str, ...]
    """Packages of libraries that come along for nothing."""
    size: int | None
    """Bytes of all of them; of an idle accelerator what the remedies bring. None: not known."""
    remedies: tuple[str, ...]
    """What helps, as it is typed."""
    line: str
    """All of it in words."""

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "packages": list(self.packages),
            "libraries": list(self.libraries),
            "size": self.size,
            "remedies": list(self.remedies),
            "message": self.line,
        }


class Surroundings(NamedTuple):
    """What is known of the machine, and what may be asked about what there is."""

    support_of: Callable[[VariantDocument, Iterable[str]], Support]
    """Returns what the machine supports of some namespaces."""
    policy: ChoicePolicy
    """What the user decided; nobody is told of what was wished."""
    bridge: Callable[[NormalizedName], BridgeFamily | None]
    """Returns the family that stands for a project already."""
    environment: Mapping[str, str]
    """The marker environment of the target."""
    there: Collection[NormalizedName] = ()
    """What is installed."""
    candidates: Candidates | None = None
    """What there is; None where only a lock is known, or where it is for several machines."""
    lock: str = ""
    """How remedies are typed that belong to a lock, as ``wheelfit lock``; empty: as they are."""


def accelerator_use(
    resolution: Resolution, arriving: Collection[NormalizedName], around: Surroundings
) -> Iterator[AcceleratorUse]:
    """Yield what should be told of a result, at most one of a kind for each kind of accelerator.

    Nothing is detected and no source is asked unless a package has something to do with an
    accelerator by its name, its needs or its extras.

    :param resolution: the result.
    :param arriving: what is new, libraries of which only the name is known included; of others
        nothing is told.
    :param around: what is known besides.
    """
    found = _Findings(resolution, arriving, around)
    yield from found.unusable()
    yield from found.idle()


class _Findings:
    """The findings about one result."""

    def __init__(
        self,
        resolution: Resolution,
        arriving: Collection[NormalizedName],
        around: Surroundings,
    ) -> None:
        self._resolution = resolution
        self._arriving = arriving
        self._around = around
        self._pins = {pin.name: pin for pin in resolution.pins}
        self._supports: dict[str, Support] = {}

    # --- libraries that the machine cannot use ------------------------------------------------

    def unusable(self) -> Iterator[AcceleratorUse]:
        """Yield which libraries come along in vain."""
        coming: dict[str, list[NormalizedName]] = {}
        for name in dict.fromkeys(self._arriving):
            owner, pin = owner_of_libraries(name), self._pins.get(name)
            if owner is not None and not (pin is not None and pin.requested):
                coming.setdefault(owner, []).append(name)
        for namespace, libraries in coming.items():
            if not self._is_wished(namespace):
                why = "are not wanted: wishes leave out builds, not what a wheel needs"
                yield self._unusable(namespace, libraries, why)
                continue
            names, why = self._useless(namespace, libraries)
            if names:
                why = f"{self._holder(namespace)} cannot use ({why})"
                yield self._unusable(namespace, names, why)

    def _useless(
        self, namespace: str, libraries: Sequence[NormalizedName]
    ) -> tuple[Sequence[NormalizedName], str]:
        """Return the libraries that the machine cannot use, and the reason."""
        support = self._support(namespace)
        if support is None:
            return (), ""
        if not _is_there(support, namespace):
            # A warning says that there is something, and why it will not do.
            warnings = support.detections[namespace].warnings
            return libraries, "; ".join(warnings) or f"no {_device(namespace)}"
        majors = {name: self._major(name) for name in libraries}
        reasons = {
            major: _lacking(support, namespace, major)
            for major in dict.fromkeys(majors.values())
            if major is not None
        }
        if not any(reasons.values()):
            return (), ""
        # What does not tell its major came with those that do.
        is_all = all(reasons.values())
        names = [name for name, major in majors.items() if (reasons[major] if major else is_all)]
        title = libraries_in_words(namespace)
        return names, "; ".join(f"{title} {major} {why}" for major, why in reasons.items() if why)

    def _major(self, name: NormalizedName) -> str | None:
        pin = self._pins.get(name)
        return library_major(name, "" if pin is None else str(pin.version))

    def _unusable(
        self, namespace: str, names: Sequence[NormalizedName], why: str
    ) -> AcceleratorUse:
        """Return the finding about libraries; the reason is a clause about them."""
        in_vain = set(names)
        bringing = dict.fromkeys(
            edge.needing
            for edge in self._resolution.edges
            if edge.needed in in_vain and owner_of_libraries(edge.needing) is None
        )
        sizes = [pin.file.size for name in names if (pin := self._pins.get(name)) is not None]
        known = [size for size in sizes if size is not None]
        size = sum(known) if known else None
        at_least = "at least " if size is not None and len(known) < len(names) else ""
        what = f"{at_least}{size_in_words(size)} of " if size is not None else ""
        # Of a lock of another tool nobody may know who needs them.
        needing = bringing or [name for name in self._pins if owner_of_libraries(name) is None]
        found = {name: self._bridge(name) for name in needing}
        remedies = [one for one in found.values() if one is not None]
        others = [name for name in bringing if found[name] is None]
        line = (
            f"{what}{libraries_in_words(namespace)} libraries come along that {why}; "
            f"{self._without(remedies, others, names)}"
        )
        words = dict.fromkeys(one.words for one in remedies)
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

        :param others: what needs them and has no remedy.
        :param names: of the libraries.
        """
        if not remedies:
            return self._without_bridge(others, names)
        options = self._typed(remedies)
        builds = listed(list(dict.fromkeys(one.build for one in remedies)))
        kind = "without them" if all(one.has_no_libraries for one in remedies) else "for it"
        several = len({one.words for one in remedies}) > 1
        are_typed = len({one.words for one in remedies} - {_LEAVING_OUT}) > 1
        takes = f"take{'' if are_typed else 's'} {'builds' if several else 'a build'}"
        return f"{options} {takes} {kind} ({builds}){_too(others)}"

    def _without_bridge(
        self, others: Sequence[NormalizedName], names: Sequence[NormalizedName]
    ) -> str:
        """Return the remedy where no bridge helps, in words."""
        owned = {name: found for name in others if (found := self._of_owner(name)) is not None}
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
            f"{'lock' if self._around.lock else 'take'} {what} "
            f"from an index with other builds, or leave a library out with --exclude {names[0]}"
        )

    def _extras_with_libraries(self) -> Iterator[str]:
        """Yield what was asked for with extras that are for accelerators, as it is typed."""
        for pin in self._resolution.pins:
            if not (pin.requested and pin.extras and pin.core and pin.name in self._with_libraries):
                continue
            concerned = _needs_of_extras(pin.core, self._around.environment).keys()
            for extra in sorted(pin.extras & concerned):
                yield f"{pin.name}[{extra}]"

    def _typed(self, remedies: Sequence[Remedy]) -> str:
        """Return the options to type for bridges."""
        words = dict.fromkeys(one.words for one in remedies if one.words != _LEAVING_OUT)
        if self._around.lock:
            return f"`{self._around.lock} {' '.join(words)}`"
        if self._around.policy.bridges_off == "option":
            return f"{' '.join(words)} in place of --no-bridges" if words else _LEAVING_OUT
        return " ".join(words)

    # --- accelerators that stay idle ----------------------------------------------------------

    def idle(self) -> Iterator[AcceleratorUse]:
        """Yield which accelerators are left idle though another build would use them."""
        if not self._around.policy.preferences.variants:
            return
        found: dict[str, dict[NormalizedName, Remedy]] = {}
        for name in self._arriving:
            pin = self._pins.get(name)
            if pin is not None and self._may_be_idle(pin):
                for namespace, remedy in self._uses(pin):
                    found.setdefault(namespace, {})[name] = remedy
        for namespace, remedies in found.items():
            yield self._idle(namespace, remedies)

    def _may_be_idle(self, pin: Pin) -> bool:
        """Return whether nothing says that a package uses an accelerator, or should not."""
        return (
            not accelerators_of(pin.properties)
            and pin.choice.metadata.document is None  # variants have cautions of their own
            and pin.version.local is None  # which says what it is: somebody chose that
            and not pin.is_given
            and owner_of_libraries(pin.name) is None
            and pin.name not in self._with_libraries
        )

    def _needs_libraries(self, pin: Pin) -> bool:
        """Return whether a wheel needs libraries of an accelerator, whether they come or not."""
        if pin.core is None:
            # Locks of other tools do not tell who needs what.
            return any(map(owner_of_libraries, self._pins))
        with suppress(WheelfitError):
            return any(
                owner_of_libraries(one.name) is not None
                and one.applies(self._around.environment, pin.extras or "", pin.context)
                for one in pin.core.requires
            )
        return False

    @cached_property
    def _with_libraries(self) -> frozenset[NormalizedName]:
        """What needs libraries of an accelerator, if only by others, and members of families."""
        needing: dict[NormalizedName, list[NormalizedName]] = {}
        members = set()
        for edge in self._resolution.edges:
            needing.setdefault(edge.needed, []).append(edge.needing)
            pin = self._pins.get(edge.needing)
            if pin is not None and pin.file.is_selector:
                members.add(edge.needed)
        left: list[NormalizedName] = [name for name in needing if owner_of_libraries(name)]
        found: set[NormalizedName] = set()
        while left:
            for name in needing.get(left.pop(), ()):
                if name not in found:
                    found.add(name)
                    left.append(name)
        return frozenset(found | members)

    def _uses(self, pin: Pin) -> Iterator[tuple[str, Remedy]]:
        """Yield the namespaces of what the machine has and a package would use, with how."""
        extras, families = list(self._extras(pin)), self._around.policy.families(pin.name)
        if not (extras or families) or _names_builds(pin.name) or self._needs_libraries(pin):
            return
        told = set()
        for extra, namespace, majors in extras:
            if namespace not in told and self._is_usable(namespace, majors):
                size = self._size_with(pin, extra)
                if size is not None:
                    told.add(namespace)
                    yield namespace, Remedy(f"{pin.name}[{extra}]", size=size)
        for family in families:
            # Of several projects the first is what the others are made for.
            if self._around.bridge(pin.name) is not None or pin.name != family.projects[0]:
                continue
            if not any(accelerators_of(one.when) for one in family.members):
                continue
            found = self._best(family, pin)
            if found is None:
                continue
            member, remedy = found
            for namespace in accelerators_of(member.when):
                if namespace not in told:
                    told.add(namespace)
                    yield namespace, remedy

    def _extras(self, pin: Pin) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield extras that bring what an accelerator needs: namespace and majors, newest first.

        :return: nothing for a package whose extras or name say that it is there already.
        """
        needs = _needs_of_extras(pin.core, self._around.environment) if pin.core else {}
        everything = {*self._pins, *self._around.there}
        rows: list[tuple[str, str, tuple[str, ...]]] = []
        for extra, found in needs.items():
            others = {one.name for one in found if owner_of_libraries(one.name) is None}
            if extra in pin.extras or others & everything:
                return
            owners = dict.fromkeys(filter(None, (owner_of_libraries(one.name) for one in found)))
            majors = dict.fromkeys(filter(None, map(_major_of, found)))
            rows += [(extra, owner, tuple(majors)) for owner in owners]
            build = None if owners else _build_of(extra)
            if build is not None:
                rows.append((extra, *build))
        yield from sorted(rows, key=lambda row: [*map(int, row[2])], reverse=True)

    def _size_with(self, pin: Pin, extra: str) -> int | None:
        """Return the bytes that an extra adds to the download; None: it is not available."""
        candidates = self._around.candidates
        if candidates is None:
            return None
        from wheelfit.core.requirements import Requirement  # noqa: PLC0415 - start-up
        from wheelfit.resolution.request import (  # noqa: PLC0415 - start-up
            RequestedRequirement,
            ResolutionRequest,
        )
        from wheelfit.resolution.resolver import resolve  # noqa: PLC0415 - start-up

        exactly = SpecifierSet(f"=={pin.version}")
        wanted = Requirement(pin.name, frozenset((extra,)), exactly)  # type: ignore[arg-type]
        asked = ResolutionRequest(
            (RequestedRequirement(wanted),), prereleases=pin.version.is_prerelease
        )
        try:
            with_extra = resolve(asked, candidates)
        except WheelfitError:
            return None
        return sum(
            one.file.size or 0
            for one in with_extra.pins
            if one.name not in self._pins
            and (owner_of_libraries(one.name) is not None or f"-{extra}-" in one.name)
        )

    def _idle(self, namespace: str, remedies: Mapping[NormalizedName, Remedy]) -> AcceleratorUse:
        several = len(remedies) > 1
        bridges = [one for one in remedies.values() if one.build]
        extras = [one for one in remedies.values() if not one.build]
        helps = []
        size = sum(one.size or 0 for one in extras) or None
        if extras:
            words = listed([one.words for one in extras])
            more = f" ({size_in_words(size)} more)" if size else ""
            helps.append(f"{words} {'use' if len(extras) > 1 else 'uses'} it{more}")
        if bridges:
            builds = listed(list(dict.fromkeys(one.build for one in bridges)))
            many = len({one.words for one in bridges}) > 1
            what = "take builds that use it" if many else "takes a build that uses it"
            helps.append(f"{self._typed(bridges)} {what} ({builds})")
        verb = "leave" if several else "leaves"
        line = (
            f"{listed(list(remedies))} {verb} the {_device(namespace)} of "
            f"{self._holder(namespace)} idle; {'; '.join(helps)}"
        )
        words_of_all = dict.fromkeys(one.words for one in remedies.values())
        return AcceleratorUse("idle", namespace, tuple(remedies), (), size, (*words_of_all,), line)

    # --- what there is ------------------------------------------------------------------------

    def _bridge(self, name: NormalizedName) -> Remedy | None:
        """Return the remedy by a family not yet in use that has a build for the machine."""
        pin = self._pins.get(name)
        is_possible = self._around.policy.preferences.variants and self._around.bridge(name) is None
        if pin is None or not is_possible:
            return None
        found = filter(
            None, (self._best(family, pin) for family in self._around.policy.families(name))
        )
        # One that uses another accelerator is better than one for any machine.
        remedies = (remedy for _, remedy in found)
        return min(remedies, key=lambda one: one.has_no_libraries, default=None)

    def _of_owner(self, name: NormalizedName) -> tuple[str, Remedy] | None:
        """Return the family of indexes that counts for a package, and its build for the machine.

        A plain wheel comes all the same where no index of it can be reached.
        """
        family, pin = self._around.bridge(name), self._pins.get(name)
        if family is None or pin is None or not family.is_of_indexes:
            return None
        found = self._best(family, pin)
        return None if found is None else (family.name, found[1])

    def _best(self, family: BridgeFamily, pin: Pin) -> tuple[FamilyMember, Remedy] | None:
        """Return the member of a family that the machine would get in place of a plain wheel.

        One that uses an accelerator goes before newer releases without, as a bridge decides.
        """
        project = pin.name if family.is_of_indexes else family.name
        members = [one for one in family.members if one.is_for(project)]
        members = [one for one in members if one.covers(pin.filename.tags)]
        document = _document(family.document(family.members))
        support = self._around.support_of(
            document, {name for one in members for name in one.when.namespaces}
        )
        fitting = [
            one
            for one in members
            if all(map(self._is_wished, accelerators_of(one.when)))
            and support.refusal(one.when) is None
        ]
        using = [one for one in fitting if accelerators_of(one.when)]
        others = [one for one in fitting if one not in using and one.has(project, pin.version)]
        for member in (*using, *others[:1]):
            remedy = self._remedy(family, pin.name, member)
            if remedy is not None:
                return member, remedy
        return None

    def _remedy(
        self, family: BridgeFamily, name: NormalizedName, member: FamilyMember
    ) -> Remedy | None:
        """Return the remedy that installs a member; None: no wheel of it fits, or the plain one."""
        if family.is_of_indexes:
            if member.is_of_registry:
                return None
            used = accelerators_of(member.when)
            build = platform_in_words(used[0], member.when) if used else member.place
            return Remedy(f"--bridge {family.name}", build, has_no_libraries=not used)
        if member.label is None or member.distribution == name:
            return None
        off = self._around.policy.bridges_off
        if family.by_default and not off:
            return None  # it would count if it could
        candidates = self._around.candidates
        if candidates is not None and not _has_wheel(candidates, member):
            return None
        option = f"--bridge {family.name}"
        if family.by_default:
            option = _LEAVING_OUT if off == "option" else "--bridge default"
        return Remedy(option, member.distribution, has_no_libraries=not member.when)

    def _is_usable(self, namespace: str, majors: Iterable[str]) -> bool:
        """Return whether the machine can use libraries of some majors, and the user lets it."""
        if not self._is_wished(namespace):
            return False
        support = self._support(namespace)
        if support is None or not _is_there(support, namespace):
            return False
        return not any(_lacking(support, namespace, major) for major in majors)

    def _is_wished(self, namespace: str) -> bool:
        return ACCELERATORS[namespace] not in self._around.policy.preferences.forbid

    def _support(self, namespace: str) -> Support | None:
        """Return the support of the machine for a namespace; None if unknown."""
        if namespace not in self._supports:
            document = _document(document_of((namespace,)))
            self._supports[namespace] = self._around.support_of(document, [namespace])
        support = self._supports[namespace]
        detection = support.detections.get(namespace)
        known = (Status.SUPPORTED, Status.NOTHING)
        return support if detection is not None and detection.status in known else None

    def _holder(self, namespace: str) -> str:
        support = self._support(namespace)
        return THIS_MACHINE if support is None else support.holders.get(namespace, THIS_MACHINE)


def _need(names: Sequence[str]) -> str:
    return f"{listed(names)} {'needs' if len(names) == 1 else 'need'}"


def _too(names: Sequence[str]) -> str:
    """Return the end of a line that tells who else needs libraries; empty: nobody."""
    return f"; {_need(names)} some of them too" if names else ""


def _device(namespace: str) -> str:
    """Return the name of a device, as ``NVIDIA GPU``."""
    family = providers.by_namespace(namespace)
    return namespace if family is None else family.device.partition(" ")[2]


def _is_there(support: Support, namespace: str) -> bool:
    """Return whether there is an accelerator with a driver, as far as is known."""
    features = support.detections[namespace].features
    return any(config.values and config.values != ("false",) for config in features)


def _lacking(support: Support, namespace: str, major: str) -> str:
    """Return the unmet need of libraries of a major version; empty: none is known."""
    for one in library_needs(namespace, major):
        feature = Feature(namespace, one.feature)
        if support.values(namespace, one.feature) and not support.supports(one):
            holder = support.holders.get(namespace, THIS_MACHINE)
            return phrases.lacking(feature, (one.value,), support.detections[namespace], holder)
    return ""


def _document(content: Mapping[str, object]) -> VariantDocument:
    """Return variant metadata, by which a machine is asked."""
    from wheelfit.core.metadata import read_document  # noqa: PLC0415 - start-up

    return read_document(json.dumps(content).encode(), where="accelerators")


def _has_wheel(candidates: Candidates, member: FamilyMember) -> bool:
    """Return whether a member has a wheel for the target; of one project the page is asked for."""
    listing = None
    with suppress(WheelfitError):
        listing = candidates.listing(member.distribution)
    return listing is not None and any(
        wheel.rejection is None and not wheel.is_yanked
        for version, release in listing.releases.items()
        if member.versions.contains(version)
        for wheel in release.wheels
    )


def _needs_of_extras(
    core: CoreMetadata, environment: Mapping[str, str]
) -> Mapping[str, list[Requirement]]:
    """Return extras that need something for an accelerator, each with these needs."""
    found: dict[str, list[Requirement]] = {}
    for extra in concerned_extras(core):
        with suppress(WheelfitError):  # what cannot be read is told by who needs it
            needs = [
                one
                for one in core.requires
                if is_for_accelerator(one.name, extra) and _is_of(one, extra, environment)
            ]
            if needs:
                found[extra] = needs
    return found


def _major_of(need: Requirement) -> str | None:
    """Return of which major the libraries are that a requirement asks for."""
    versions = [clause.version for clause in need.specifier if clause.operator != "!="]
    return library_major(need.name, versions[0] if versions else "")


def _is_of(requirement: Requirement, extra: str, environment: Mapping[str, str]) -> bool:
    """Return whether a requirement is one of an extra."""
    asked = frozenset((extra,))
    return not requirement.applies(environment) and requirement.applies(environment, asked)


def _names_builds(project: str) -> bool:
    """Return whether a name says itself which accelerator a project is for, or that none."""
    from wheelfit.core.shorthands import names_builds  # noqa: PLC0415 - start-up

    return names_builds(project)


def _build_of(extra: str) -> tuple[str, tuple[str, ...]] | None:
    """Return for which accelerator and major an extra is that is called as builds are."""
    from wheelfit.core.shorthands import find_shorthand, is_built_in  # noqa: PLC0415 - start-up

    if not is_built_in(extra):
        return None
    place = find_shorthand(extra).place
    wishes = find_shorthand(extra).require
    namespaces = [name for name, wish in ACCELERATORS.items() if wish in wishes]
    return (namespaces[0], tuple(place[1:2])) if namespaces else None
