"""Host files: the support of a machine, as a file (P-44).

``probe`` writes one, and commands that choose wheels read it. Files of uv's experiment
(``variant-lock.toml``) have the same shape and can be read.

A host file may also state the machine's interpreter and platform. By default those of the current
target are used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from msgspec import structs
from packaging.utils import canonicalize_name

from wheelfit.core.compatible_tags import interpreter_values, platform_values, tags_for
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.target import Target
from wheelfit_runtime.platforms.features import (
    Detection,
    DeviceValues,
    Evidence,
    FeatureConfig,
    Status,
    status_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packaging.tags import Tag
    from packaging.version import Version

FILE_VERSION: Final = "0.1"
"""The version of the file format that is written."""


@dataclass(frozen=True, slots=True)
class HostProvider:
    """The support of a machine for one namespace: one ``[[provider]]``."""

    namespace: str
    features: tuple[FeatureConfig, ...] = ()
    """Most preferred first; empty: nothing is supported."""
    plugin_api: str | None = None
    """The effective ``plugin-api`` of the provider it is for; None: any."""
    resolved: tuple[str, ...] = ()
    """The first requirements of the providers it is for; empty: any."""
    evidence: tuple[Evidence, ...] = ()
    """The observations that led to it."""
    devices: tuple[DeviceValues, ...] = ()
    """The values supported by each of several unlike devices (P-88)."""
    version: str = ""
    """Version of the provider, such as ``2026-11``; empty: not stated."""
    warnings: tuple[str, ...] = ()

    def applies(self, package: str | None, plugin_api: str | None) -> bool:
        """Return whether the entry answers for a provider of its namespace (P-44).

        A filter is ignored if there is nothing to compare it with.
        """
        if self.plugin_api and plugin_api and self.plugin_api != plugin_api:
            return False
        if self.resolved and package:
            names = {
                parse_requirement(text, allow_variant_markers=False).name for text in self.resolved
            }
            return canonicalize_name(package) in names
        return True


@dataclass(frozen=True, slots=True)
class HostInterpreter:
    """The Python of a machine: ``[interpreter]``."""

    version: Version
    """The full version, as 3.13.1."""
    implementation: str = "cpython"
    """As ``sys.implementation.name``."""
    abis: tuple[str, ...] = ()
    """ABI tags, best first; empty: those of a usual build."""
    tags: tuple[Tag, ...] = ()
    """Every wheel tag, best first, if they do not follow from the other fields."""


@dataclass(frozen=True, slots=True)
class HostFile:
    """A host file."""

    providers: tuple[HostProvider, ...] = ()
    created_by: str = ""
    """Program that wrote it, such as ``wheelfit 0.1``."""
    version: str = FILE_VERSION
    """Version of the file format."""
    interpreter: HostInterpreter | None = None
    """None: the current interpreter."""
    platforms: tuple[str, ...] = ()
    """Platform tags, best first; empty: those of the current platform."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Marker values that do not follow from interpreter and platform."""
    origin: str = ""
    """The machine it describes, such as ``this machine`` or ``preset cuda-12.8-sm90``; empty: not
    stated.
    """
    overrides: tuple[str, ...] = ()
    """The overrides of detection when it was written: ``NAME=value``, or an option."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """The parts ignored on reading."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", MappingProxyType(dict(self.environment)))

    @classmethod
    def from_detections(
        cls,
        detections: Iterable[Detection],
        target: Target | None = None,
        *,
        created_by: str = "",
        origin: str = "",
        overrides: Iterable[str] = (),
        scrub: Callable[[str], str] = str,
    ) -> HostFile:
        """Build a host file from detections.

        Unknown namespaces, or those whose detection failed, get no entry: an empty one would claim
        that nothing is supported.

        :param target: interpreter and platform to include; None: leave them out.
        :param scrub: removes data that identifies the machine or its user from a text; users share
            these files.
        """
        answered = (detection for detection in detections if detection.status not in _UNANSWERED)
        file = cls(
            providers=tuple(
                HostProvider(
                    detection.namespace,
                    features=detection.features,
                    # The answer of a plugin does not apply to another one.
                    resolved=(f"{detection.plugin.name}=={detection.plugin.version}",)
                    if detection.plugin
                    else (),
                    evidence=tuple(
                        Evidence(scrub(item.source), scrub(item.value))
                        for item in detection.evidence
                    ),
                    devices=tuple(
                        device._replace(device=scrub(device.device)) for device in detection.devices
                    ),
                    version=detection.version
                    or (detection.plugin.version if detection.plugin else ""),
                    warnings=tuple(dict.fromkeys(map(scrub, detection.warnings))),
                )
                for detection in answered
            ),
            created_by=created_by,
            origin=origin,
            overrides=tuple(dict.fromkeys(map(scrub, overrides))),
        )
        return file if target is None else file.with_target(target)

    def with_target(self, target: Target) -> HostFile:
        """Return the host file with interpreter and platform.

        Marker values are included only where the others do not imply them.
        """
        implementation = target.environment["implementation_name"]
        version = target.python_full_version
        short = target.short_tags
        platforms = target.platforms
        implied = interpreter_values(implementation, version)
        if platforms:
            implied |= platform_values(platforms[0])
        return replace(
            self,
            interpreter=HostInterpreter(
                version,
                implementation,
                abis=short.abis if short else (),
                tags=() if short else target.tags.tags,
            ),
            platforms=platforms,
            environment={
                name: value
                for name, value in target.environment.items()
                if implied.get(name) != value
            },
        )

    def target(self, base: Target, name: str) -> Target:
        """Return the target the file describes.

        :param base: the current target; used where the file states nothing.
        """
        if self.interpreter is None and not self.platforms and not self.environment:
            return structs.replace(base, name=name)
        environment = dict(base.environment)
        if self.platforms:
            environment |= platform_values(self.platforms[0])
        if self.interpreter is not None:
            environment |= interpreter_values(
                self.interpreter.implementation, self.interpreter.version
            )
        environment |= self.environment
        return Target.of(name, environment, self._tags(base))

    def _tags(self, base: Target) -> tuple[Tag, ...]:
        if self.interpreter is not None and self.interpreter.tags:
            return self.interpreter.tags
        if self.interpreter is None:
            if not self.platforms:
                return base.tags.tags
            current = base.short_tags
            abis = current.abis if current else ()
            implementation = base.environment["implementation_name"]
            return tags_for(implementation, base.python_full_version, abis, self.platforms)
        return tags_for(
            self.interpreter.implementation,
            self.interpreter.version,
            self.interpreter.abis,
            self.platforms or base.platforms,
        )


_UNANSWERED: Final = frozenset([Status.UNKNOWN, Status.FAILED])


_KINDS: Final = {"file": "host file ", "preset": "preset ", "machine": ""}


@dataclass(frozen=True, slots=True)
class HostDetector:
    """A detector that reads a host file: a user's list of supported properties (P-12)."""

    file: HostFile
    name: str
    kind: Literal["file", "preset", "machine"] = "file"
    """Its kind, for messages; ``machine``: the current machine."""

    def detect(
        self, namespace: str, *, package: str | None = None, plugin_api: str | None = None
    ) -> Detection:
        """Return the file's entry for a namespace.

        :returns: ``Status.UNKNOWN`` when the file has no entry that applies (P-44).
        """
        name = f"{_KINDS[self.kind]}{self.name}"
        entries = [entry for entry in self.file.providers if entry.namespace == namespace]
        for entry in entries:
            if entry.applies(package, plugin_api):
                return Detection(
                    namespace,
                    features=entry.features,
                    status=status_of(entry.features),
                    source=name,
                    evidence=entry.evidence,
                    warnings=entry.warnings,
                    devices=entry.devices,
                    version=entry.version,
                )
        source = (
            f"{name} has {namespace} for another provider only" if entries else f"not in {name}"
        )
        return Detection(namespace, status=Status.UNKNOWN, source=source)
