"""What every machine of a platform supports, when the machine itself is elsewhere (P-65)."""

from __future__ import annotations

from typing import Final

from wheelfit.platforms.discovery import BUILT_IN
from wheelfit.platforms.features import Detection, FeatureConfig, Status
from wheelfit.values import dataclass

__all__ = ["Baseline"]


def __dir__() -> list[str]:
    return __all__


_LOWEST: Final = {
    "x86_64": FeatureConfig("level", ("v1",)),
    "aarch64": FeatureConfig("version", ("8a",)),
}
"""By architecture, which is the namespace too."""


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
        return tuple(BUILT_IN)

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
        """Return the baseline of the architecture, or None when there is no provider of ours.

        :param namespace: the namespace, as ``x86_64``.
        :param package: the package of the plugin.
        :param plugin_api: the endpoint of the plugin.
        """
        if namespace not in BUILT_IN:
            return None
        source = f"baseline of {self.architecture or 'another platform'}"
        if namespace != self.architecture:
            return Detection(namespace, status=Status.NOTHING, source=source)
        return Detection(namespace, (_LOWEST[namespace],), Status.SUPPORTED, source=source)
