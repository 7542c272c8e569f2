"""Gather the evidence for a decision: declarations, detections, loaded libraries, and demands."""

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
    """The evidence for a decision."""

    declarations: Declarations
    environ: Mapping[str, str]
    process: Process
    held: tuple[LoadedValue, ...]
    judged: tuple[Judgement, ...]

    def of(self, group: str) -> list[Judgement]:
        """Return the judgements of a group's installed implementations."""
        return [judgement for judgement in self.judged if judgement.implementation.group == group]

    def demanded(self, group: str) -> str:
        """Return the implementation the user forces for a group; empty: none."""
        return self.environ.get(variable_of(group), "").strip()


class MachineDetection(Protocol):
    """The function that detects the machine's support for this process."""

    def __call__(
        self, names: Sequence[str], environ: Mapping[str, str], *, devices: bool
    ) -> Process:
        """Return the detections of some namespaces, and the values of loaded libraries."""
        ...


class Sources:
    """The evidence about one process, for one thread at a time.

    Each namespace is detected once, while the environment stays the same.

    :param environ: returns the environment.
    :param paths: returns the search path of modules.
    :param look: detects the machine: called with namespaces, the environment, and whether devices
        are needed.
    :param folders: returns further folders with declarations.
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
        """Read the declarations, and detect the namespaces they name.

        :param known_of: groups whose known, uninstalled implementations are judged too; None: all.
        """
        environ = self._environ()
        declared = scan(self._paths(), self._table(), self._folders())
        everything = declared.implementations
        wanted = {item.feature for each in everything for item in each.properties}
        for group in declared.known if known_of is None else known_of:
            for known in declared.known.get(group, ()):
                wanted |= {item.feature for item in known.properties}
        process = self._process(
            {feature.namespace for feature in wanted}, environ, devices=_SM in wanted
        )
        free = {word.strip() for word in environ.get(MIX, "").split(",")} - {""}
        held = tuple(
            value for value in (*process.held, *claimed) if not free & {"all", value.dimension}
        )
        requirements = {feature for each in everything for feature in each.requirements}
        judged = []
        for implementation in everything:
            judgement = judge(implementation, process.detections, held, requirements)
            claims = {d: v for d, v in judgement.claims.items() if not free & {"all", d}}
            judgement = judgement._replace(claims=claims)
            judged.append(
                _as_demanded(
                    judgement, failed.get((implementation.group, implementation.name), ""), environ
                )
            )
        return Evidence(declared, environ, process, held, tuple(judged))

    def _process(
        self, namespaces: Iterable[str], environ: Mapping[str, str], *, devices: bool
    ) -> Process:
        """Detect namespaces not detected in this environment yet, and always loaded libraries."""
        if self._looked_by != environ:  # a mask or an override may be new
            self._looked_by = dict(environ)
            self._detections.clear()
        names = sorted(namespaces)
        missing = [name for name in names if (name, devices) not in self._detections]
        process = self._look(missing, environ, devices=devices)
        self._detections.update(
            ((n, devices), detections) for n, detections in process.detections.items()
        )
        detections = {
            name: self._detections[name, devices]
            for name in names
            if (name, devices) in self._detections
        }
        return replace(process, detections=detections)


def _as_demanded(judgement: Judgement, failed: str, environ: Mapping[str, str]) -> Judgement:
    """Add failed imports, and the user's demands, to a judgement.

    :param failed: why it could not be imported; empty: no import has failed.
    """
    implementation = judgement.implementation
    if failed:
        judgement = judgement._replace(reasons=(*judgement.reasons, failed), failed=True)
    variable = variable_of(implementation.group)
    name = environ.get(variable, "").strip()
    if not name:
        return judgement
    if name == implementation.name:
        return judgement._replace(forced=not failed)
    return judgement._replace(reasons=(f"{variable}={name}", *judgement.reasons))
