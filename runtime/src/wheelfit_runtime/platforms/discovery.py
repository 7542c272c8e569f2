"""Detection of a machine by the built-in providers, on first use of a namespace, and only once.

A provider is imported on the first detection of its namespace.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.platforms import override_names, providers
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit_runtime.platforms.hardware_family import HardwareFamily
    from wheelfit_runtime.platforms.system_view import SystemView


class Machine:
    """The features that one machine supports, by namespace.

    Each namespace is detected on first use, and once (P-22). A provider that fails makes its own
    namespace unsupported and nothing else (P-17). Safe to use from several threads.

    :param view: the view of the machine, or a function that opens it, which is called on first use;
        default: that of this process.
    """

    def __init__(self, view: SystemView | Callable[[], SystemView] | None = None) -> None:
        self._view = view
        self._opening = threading.RLock()
        self._detections: dict[str, Detection] = {}
        self._locks: dict[str, threading.Lock] = {}

    @property
    def view(self) -> SystemView:
        """The view of the machine."""
        with self._opening:
            if self._view is None:
                # Imported late, since it takes part of the time that a program needs to start.
                from wheelfit_runtime.platforms.system_view import SystemView

                self._view = SystemView()
            elif callable(self._view):
                self._view = self._view()
            return self._view

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that can be detected."""
        return providers.namespaces()

    def detect(
        self,
        namespace: str,
        *,
        package: str | None = None,  # noqa: ARG002
        plugin_api: str | None = None,  # noqa: ARG002
    ) -> Detection | None:
        """Return the detection; None if there is no built-in provider.

        :param package: unused: the caller has decided whether the built-in provider may replace
            this package (P-60).
        """
        family = providers.by_namespace(namespace)
        if family is None:
            return None
        with self._locks.setdefault(namespace, threading.Lock()):
            if namespace not in self._detections:
                self._detections[namespace] = self._run_provider(family)
            return self._detections[namespace]

    def overrides_in_effect(self) -> tuple[str, ...]:
        """Return the variables that replace detected values, as ``NAME=value`` (P-73)."""
        if not override_names.override_variables(self.view.environ):
            return ()  # without importing any provider
        return tuple(
            text
            for family in providers.families()
            for text in family.provider.overrides_in_effect(self.view)
        )

    def _run_provider(self, family: HardwareFamily) -> Detection:
        namespace = family.namespace
        view = self.view
        started = time.perf_counter()
        try:
            provider = family.provider
            detection = provider.detect(view)
            seconds = time.perf_counter() - started
            return detection._replace(version=provider.data_version, seconds=seconds)
        except Exception as error:  # noqa: BLE001  # P-17: an error is a result
            words = f"{type(error).__name__}: {error}"
            return Detection(
                namespace,
                status=Status.FAILED,
                source=f"built-in {namespace} provider",
                evidence=(Evidence(f"built-in {namespace} provider", words),),
                warnings=(f"detection of {namespace} failed: {words}",),
            )


class Baseline(NamedTuple):
    """The guaranteed features of an unknown machine, by its architecture.

    It may have no accelerator, so none is supported.
    """

    architecture: str
    """As ``x86_64``."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that can be detected."""
        return providers.namespaces()

    def overrides_in_effect(self) -> tuple[str, ...]:
        """Return nothing: variables of this process do not apply to another machine."""
        return ()

    def detect(
        self,
        namespace: str,
        *,
        package: str | None = None,  # noqa: ARG002 - the shape of a detector
        plugin_api: str | None = None,  # noqa: ARG002 - the shape of a detector
    ) -> Detection | None:
        """Return the baseline of the architecture; None if there is no built-in provider."""
        family = providers.by_namespace(namespace)
        if family is None:
            return None
        source = f"baseline of {self.architecture or 'another platform'}"
        if namespace != self.architecture or family.baseline is None:
            return Detection(namespace, status=Status.NOTHING, source=source)
        feature, value = family.baseline
        config = FeatureConfig(feature, (value,))
        return Detection(namespace, (config,), Status.SUPPORTED, source=source)
