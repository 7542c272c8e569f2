"""A setup for tests of resolution: a repository, a machine and an interpreter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.tags import Tag
from packaging.utils import canonicalize_name

from wheelfit.core.requirements import parse_requirement
from wheelfit.core.target import Target
from wheelfit.resolution.candidates import Candidates, ChoicePolicy
from wheelfit.resolution.request import RequestedRequirement, ResolutionRequest
from wheelfit.resolution.resolver import resolve
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.repositories import FakeRepository

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit.core.provider_lookup import Detector
    from wheelfit.resolution.request import DirectWheel, InstalledBuild
    from wheelfit.resolution.resolution import Resolution


NVIDIA = {
    "requires": ["nvidia-variant-provider>=0.0.1,<1"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
}
"""A provider entry of a plugin that wheelfit emulates (P-60)."""


def linux_target(python: str = "3.11.7", *, name: str = "this machine") -> Target:
    """Return the target of a CPython on x86-64 Linux.

    :param python: its full version.
    """
    python_version = ".".join(python.split(".")[:2])
    cpython = f"cp{python_version.replace('.', '')}"
    return Target.of(
        name,
        {
            "implementation_name": "cpython",
            "implementation_version": python,
            "os_name": "posix",
            "platform_machine": "x86_64",
            "platform_python_implementation": "CPython",
            "platform_release": "6.1.0",
            "platform_system": "Linux",
            "platform_version": "#1 SMP",
            "python_full_version": python,
            "python_version": python_version,
            "sys_platform": "linux",
        },
        [
            Tag(cpython, cpython, "manylinux_2_28_x86_64"),
            Tag(cpython, cpython, "linux_x86_64"),
            Tag("py3", "none", "any"),
        ],
    )


def requested(*texts: str) -> tuple[RequestedRequirement, ...]:
    """Return requirements from texts as a user writes them."""
    return tuple(
        RequestedRequirement(parse_requirement(text, allow_variant_markers=False)) for text in texts
    )


@dataclass
class ResolutionSetup:
    """The inputs of a resolution, which can be changed before it."""

    repository: FakeRepository = field(default_factory=FakeRepository)
    machine: Detector | None = field(default_factory=FixedDetector)
    host_detector: Detector | None = None
    target: Target = field(default_factory=linux_target)
    policy: ChoicePolicy = field(default_factory=ChoicePolicy)

    def add(self, *releases: str, **options: Sequence[str]) -> None:
        """Add releases with one plain wheel each.

        :param releases: ``name version``.
        :param options: ``requires`` and ``extras`` of all these releases.
        """
        for text in releases:
            name, version = text.split()
            self.repository.add_wheel(
                f"{name.replace('-', '_')}-{version}-py3-none-any.whl",
                requires=options.get("requires", ()),
                extras=options.get("extras", ()),
            )

    def candidates(self) -> Candidates:
        """Return new candidates, without cached state."""
        return Candidates(
            self.repository,
            self.target,
            self.machine,
            self.policy,
            host_detector=self.host_detector,
        )

    def resolve(
        self,
        *requirements: str,
        constraints: Sequence[str] = (),
        overrides: Sequence[str] = (),
        excluded: Sequence[str] = (),
        wheels: Sequence[DirectWheel] = (),
        installed: Sequence[InstalledBuild] = (),
        candidates: Candidates | None = None,
        upgrade: bool = False,
        prereleases: bool = False,
        dependencies: bool = True,
        threads: int = 0,
    ) -> Resolution:
        """Resolve requirements, given as a user writes them."""
        request = ResolutionRequest(
            requirements=requested(*requirements),
            wheels=tuple(wheels),
            constraints=requested(*constraints),
            overrides=requested(*overrides),
            excluded=frozenset(map(canonicalize_name, excluded)),
            installed={build.name: build for build in installed},
            upgrade=upgrade,
            prereleases=prereleases,
            dependencies=dependencies,
        )
        return resolve(request, candidates or self.candidates(), threads=threads)

    def pins(self, *requirements: str, **options: object) -> dict[str, str]:
        """Resolve like `resolve`, and return versions by name, with ``:label`` for variants."""
        resolution = self.resolve(*requirements, **options)  # type: ignore[arg-type]
        return {
            pin.name: str(pin.version) + (f":{pin.label}" if pin.label else "")
            for pin in resolution.pins
        }
