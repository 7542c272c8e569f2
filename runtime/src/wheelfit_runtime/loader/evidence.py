"""Gather what a decision is made of: what is declared, supported, loaded, and demanded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wheelfit_runtime.loader.declarations import Declarations, Feature, scan
from wheelfit_runtime.loader.planning import Judgement, LoadedValue, judge
from wheelfit_runtime.loader.quick_choice import variable_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wheelfit_runtime.loader.process import Process
    from wheelfit_runtime.platforms.features import Detection

MIX = "WHEELFIT_MIX"
"""The variable with what a process may have several values of, as ``cuda,openmp``, or ``all``."""

_SM = Feature("nvidia", "sm_arch")


class Evidence(NamedTuple):
    """What a decision is made of."""

    declarations: Declarations
    environ: Mapping[str, str]
    process: Process
    held: tuple[LoadedValue, ...]
    judged: tuple[Judgement, ...]

    def of(self, group: str) -> list[Judgement]:
        """Return what is installed of a group."""
        return [one for one in self.judged if one.implementation.group == group]

    def demanded(self, group: str) -> str:
        """Return the implementation that somebody demands of a group; empty: none."""
        return self.environ.get(variable_of(group), "").strip()


class MachineDetection(Protocol):
    """The detection of what the machine supports for this process."""

    def __call__(
        self, names: Sequence[str], environ: Mapping[str, str], *, devices: bool
    ) -> Process:
        """Return what is known of some namespaces, and what the process has loaded."""
        ...


class Sources:
    """The evidence about one process, for one thread at a time.

    Of the machine each thing is looked at once, as long as the environment stays the same.

    :param environ: returns the environment.
    :param paths: returns where modules are looked for.
    :param look: finds out what the machine supports: given namespaces, the environment, and
        whether devices are asked for.
    :param folders: returns folders with declarations beside those that ``paths`` lead to.
    :param table: returns the declarations of an application that has them as a module.
    """

    def __init__(
        self,
        *,
        environ: Callable[[], Mapping[str, str]],
        paths: Callable[[], Iterable[object]],
        look: MachineDetection,
        folders: Callable[[], Iterable[str]] = tuple,
        table: Callable[[], Mapping[str, object] | None] = lambda: None,
    ) -> None:
        self._environ = environ
        self._paths = paths
        self._look = look
        self._folders = folders
        self._table = table
        self._looked_by: dict[str, str] = {}
        self._detections: dict[tuple[str, bool], Detection] = {}

    def gather(
        self,
        claimed: Iterable[LoadedValue],
        failed: Mapping[tuple[str, str], str],
        known_of: Iterable[str] | None = (),
    ) -> Evidence:
        """Read the declarations, and detect what they name of the machine.

        :param known_of: groups of which what is known and not installed is looked at too;
            None: all.
        """
        environ = self._environ()
        declared = scan(self._paths(), self._table(), self._folders())
        everything = declared.implementations
        wanted = {one.feature for each in everything for one in each.properties}
        for group in declared.known if known_of is None else known_of:
            for known in declared.known.get(group, ()):
                wanted |= {one.feature for one in known.properties}
        process = self._process({one.namespace for one in wanted}, environ, devices=_SM in wanted)
        free = {word.strip() for word in environ.get(MIX, "").split(",")} - {""}
        held = tuple(one for one in (*process.held, *claimed) if not free & {"all", one.dimension})
        requirements = {one for each in everything for one in each.requirements}
        judged = []
        for it in everything:
            one = judge(it, process.detections, held, requirements)
            claims = {d: v for d, v in one.claims.items() if not free & {"all", d}}
            one = one._replace(claims=claims)
            judged.append(_as_demanded(one, failed.get((it.group, it.name), ""), environ))
        return Evidence(declared, environ, process, held, tuple(judged))

    def _process(
        self, namespaces: Iterable[str], environ: Mapping[str, str], *, devices: bool
    ) -> Process:
        """Look at what was not looked at yet in this environment; at what is loaded always."""
        if self._looked_by != environ:  # a mask or an override may be new
            self._looked_by = dict(environ)
            self._detections.clear()
        names = sorted(namespaces)
        missing = [name for name in names if (name, devices) not in self._detections]
        process = self._look(missing, environ, devices=devices)
        self._detections.update(((n, devices), found) for n, found in process.detections.items())
        found = {
            name: self._detections[name, devices]
            for name in names
            if (name, devices) in self._detections
        }
        return replace(process, detections=found)


def _as_demanded(one: Judgement, failed: str, environ: Mapping[str, str]) -> Judgement:
    """Add to what the machine says what has failed, and what somebody demands.

    :param failed: why it could not be imported; empty: it could, or nobody has tried.
    """
    it = one.implementation
    if failed:
        one = one._replace(reasons=(*one.reasons, failed), failed=True)
    variable = variable_of(it.group)
    name = environ.get(variable, "").strip()
    if not name:
        return one
    if name == it.name:
        return one._replace(forced=not failed)
    return one._replace(reasons=(f"{variable}={name}", *one.reasons))
