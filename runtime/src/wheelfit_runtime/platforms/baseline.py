"""What every machine of a platform supports, when the machine itself is elsewhere (P-65)."""

from __future__ import annotations

from dataclasses import dataclass

from wheelfit_runtime.platforms import families
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status


@dataclass(frozen=True, slots=True)
class Baseline:
    """Answer for a machine of which only the architecture is known; look at nothing.

    An accelerator may be there or not, so nothing of one is supported.
    """

    architecture: str
    """As ``x86_64``."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that can be asked for."""
        return families.namespaces()

    def overrides_in_effect(self) -> tuple[str, ...]:
        """Return nothing: variables here say nothing of a machine elsewhere."""
        return ()

    def detect(
        self,
        namespace: str,
        *,
        package: str | None = None,  # noqa: ARG002 - the shape of a detector
        plugin_api: str | None = None,  # noqa: ARG002 - the shape of a detector
    ) -> Detection | None:
        """Return the baseline of the architecture, or None when there is no provider of ours."""
        family = families.by_namespace(namespace)
        if family is None:
            return None
        source = f"baseline of {self.architecture or 'another platform'}"
        if namespace != self.architecture or family.lowest is None:
            return Detection(namespace, status=Status.NOTHING, source=source)
        feature, value = family.lowest
        config = FeatureConfig(feature, (value,))
        return Detection(namespace, (config,), Status.SUPPORTED, source=source)
