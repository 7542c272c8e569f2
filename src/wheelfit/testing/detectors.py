"""Detectors with fixed results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.features import Detection, FeatureConfig, status_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def supported(
    namespace: str, features: Mapping[str, Sequence[str]], *, source: str = "set by a test"
) -> Detection:
    """Return a detection of features with their values, most preferred first.

    :param features: values by feature; empty: nothing of the namespace is supported.
    """
    configs = tuple(FeatureConfig(name, tuple(values)) for name, values in features.items())
    return Detection(namespace, configs, status_of(configs), source)


class FixedDetector:
    """A detector that answers from a mapping, and records the requested namespaces.

    >>> detector = FixedDetector({"x86_64": {"level": ["v3", "v2", "v1"]}})
    >>> detector.detect("x86_64").features[0].values
    ('v3', 'v2', 'v1')

    :param answers: features with values, or a whole detection, by namespace; other namespaces are
        unknown.
    """

    def __init__(
        self, answers: Mapping[str, Mapping[str, Sequence[str]] | Detection] | None = None
    ) -> None:
        self._answers = {
            namespace: answer if isinstance(answer, Detection) else supported(namespace, answer)
            for namespace, answer in (answers or {}).items()
        }
        self.requests: list[str] = []
        """Requested namespaces, in order, with repetitions."""

    def detect(
        self, namespace: str, *, package: str | None = None, plugin_api: str | None = None
    ) -> Detection | None:
        """Return the fixed result of a namespace; None if it is unknown."""
        del package, plugin_api
        self.requests.append(namespace)
        return self._answers.get(namespace)
