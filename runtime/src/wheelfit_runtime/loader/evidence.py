"""Gather the evidence for a choice: declarations, detections, loaded libraries, and variables."""

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
"""The variable with dimensions that may have several values, as ``cuda,openmp``, or ``all``."""

_SM_ARCH = Feature("nvidia", "sm_arch")


class Evidence(NamedTuple):
    """The evidence for a choice."""

    declarations: Declarations
    environ: Mapping[str, str]
    process: Process
    loaded_values: tuple[LoadedValue, ...]
    judgements: tuple[Judgement, ...]

    def judgements_of(self, group: str) -> list[Judgement]:
        """Return the judgements of a group's installed implementations."""
        return [
            judgement for judgement in self.judgements if judgement.implementation.group == group
        ]

    def forced_name(self, group: str) -> str:
        """Return the name of the implementation that the user forces for a group; empty: none."""
        return self.environ.get(variable_of(group), "").strip()


class MachineDetection(Protocol):
    """The function that detects the machine's support for this process."""

    def __call__(
        self, names: Sequence[str], environ: Mapping[str, str], *, devices: bool
    ) -> Process:
        """Return the detections of some namespaces, and the values of loaded libraries."""
        ...


class EvidenceGatherer:
    """A gatherer of the evidence about one process, for one thread at a time.

    Each namespace is detected once, unless the environment changes.

    :param table: returns the declarations that a frozen application has as a module.
    """

    def __init__(
        self,
        *,
        environ: Callable[[], Mapping[str, str]],
        paths: Callable[[], Iterable[object]],
        detect: MachineDetection,
        folders: Callable[[], Iterable[str]] = tuple,
        table: Callable[[], Mapping[str, object] | None] = lambda: None,
    ) -> None:
        self._environ = environ
        self._paths = paths
        self._detect = detect
        self._folders = folders
        self._table = table
        self._environ_of_detections: dict[str, str] = {}
        self._detections: dict[tuple[str, bool], Detection] = {}

    def gather(
        self,
        claimed: Iterable[LoadedValue],
        failed: Mapping[tuple[str, str], str],
        known_groups: Iterable[str] | None = (),
    ) -> Evidence:
        """Read the declarations, and detect the namespaces they name.

        :param claimed: the values that groups already imported use.
        :param failed: the reasons of failed imports, by group and implementation.
        :param known_groups: groups of which uninstalled implementations count as well; None: all.
        """
        environ = self._environ()
        declared = scan(self._paths(), self._table(), self._folders())
        implementations = declared.implementations
        features = {
            property_.feature
            for implementation in implementations
            for property_ in implementation.properties
        }
        for group in declared.known if known_groups is None else known_groups:
            for known in declared.known.get(group, ()):
                features |= {property_.feature for property_ in known.properties}
        process = self._process(
            {feature.namespace for feature in features}, environ, devices=_SM_ARCH in features
        )
        mixed = {word.strip() for word in environ.get(MIX, "").split(",")} - {""}
        loaded_values = tuple(
            value
            for value in (*process.loaded_values, *claimed)
            if not mixed & {"all", value.dimension}
        )
        single_valued = {
            feature
            for implementation in implementations
            for feature in implementation.single_valued_features
        }
        judgements = []
        for implementation in implementations:
            judgement = judge(implementation, process.detections, loaded_values, single_valued)
            claims = {
                dimension: values
                for dimension, values in judgement.claims.items()
                if not mixed & {"all", dimension}
            }
            failure = failed.get((implementation.group, implementation.name), "")
            judgement = judgement._replace(claims=claims)
            judgements.append(_with_user_choice(judgement, failure, environ))
        return Evidence(declared, environ, process, loaded_values, tuple(judgements))

    def _process(
        self, namespaces: Iterable[str], environ: Mapping[str, str], *, devices: bool
    ) -> Process:
        """Read the loaded libraries, and detect namespaces that are new in this environment."""
        if self._environ_of_detections != environ:  # a mask or an override may have changed
            self._environ_of_detections = dict(environ)
            self._detections.clear()
        names = sorted(namespaces)
        missing = [name for name in names if (name, devices) not in self._detections]
        process = self._detect(missing, environ, devices=devices)
        self._detections.update(
            ((name, devices), detection) for name, detection in process.detections.items()
        )
        detections = {
            name: self._detections[name, devices]
            for name in names
            if (name, devices) in self._detections
        }
        return replace(process, detections=detections)


def _with_user_choice(judgement: Judgement, failure: str, environ: Mapping[str, str]) -> Judgement:
    """Add a failed import, and the user's choice, to a judgement.

    :param failure: the reason it could not be imported; empty: no import has failed.
    """
    implementation = judgement.implementation
    if failure:
        judgement = judgement._replace(reasons=(*judgement.reasons, failure), has_failed=True)
    variable = variable_of(implementation.group)
    name = environ.get(variable, "").strip()
    if not name:
        return judgement
    if name == implementation.name:
        return judgement._replace(is_forced=not failure)
    return judgement._replace(reasons=(f"{variable}={name}", *judgement.reasons))
