"""Ask the built-in providers what a machine supports: lazily, and once.

Nothing of a provider is imported before its namespace is asked for.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import families, override_names
from wheelfit_runtime.platforms.children import RealProcesses
from wheelfit_runtime.platforms.features import Detection, Evidence, Status
from wheelfit_runtime.platforms.surroundings import (
    Surroundings,
    architecture_of_this_process,
    interpreter_of_this_process,
    system_of_this_process,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.children import Processes
    from wheelfit_runtime.platforms.facts import CpuidTable
    from wheelfit_runtime.platforms.family import Family


class Machine:
    """Answer for one machine which features of a namespace it supports.

    Each namespace is looked at when it is first asked for, and once (P-22). A
    provider that fails makes its own namespace unsupported and nothing else
    (P-17). Safe to use from several threads.

    :param root: folder that stands for ``/``; another one is a captured machine.
    :param environ: environment variables; default: those of this process.
    :param interpreter: Python that runs the isolated scripts; None: a thread does.
    :param deadline: seconds that a child process may take.
    :param library_folders: folders in which driver libraries are looked for first.
    :param system: ``Linux``, ``Darwin`` or ``Windows``; default: this process's.
    :param architecture: what the interpreter that will use the wheels was built
        for, as ``x86_64``; default: this process's.
    :param recorded_cpuid: recorded answers of the CPUID instruction.
    :param recorded_sysctl: recorded answers of macOS, by name.
    :param recorded_features: recorded answers of Windows, the numbers of what it affirms.
    :param reference: answer exactly as the reference plugins do (P-43).
    :param rocm_same_major: count older minors of the installed ROCm's major as installed
        too (P-123).
    :param tpu_generation: tell of a TPU's generation too (P-153).
    :param processes: who answers what only child processes may find out; default:
        real ones.
    :param replayed: whether those only play back.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = "/",
        environ: Mapping[str, str] | None = None,
        *,
        interpreter: str | None = interpreter_of_this_process(),
        deadline: float = 10.0,
        library_folders: tuple[str | os.PathLike[str], ...] = (),
        system: str | None = None,
        architecture: str | None = None,
        recorded_cpuid: CpuidTable | None = None,
        recorded_sysctl: Mapping[str, bytes] | None = None,
        recorded_features: frozenset[int] | None = None,
        reference: bool = False,
        rocm_same_major: bool = False,
        tpu_generation: bool = False,
        processes: Processes | None = None,
        replayed: bool = False,
    ) -> None:
        self.surroundings = Surroundings(
            root=os.fspath(root),
            environ=dict(os.environ if environ is None else environ),
            system=system or system_of_this_process(),
            architecture=architecture or architecture_of_this_process(),
            interpreter=interpreter,
            deadline=deadline,
            library_folders=tuple(os.fspath(folder) for folder in library_folders),
            recorded_cpuid=recorded_cpuid,
            recorded_sysctl=recorded_sysctl,
            recorded_features=recorded_features,
            reference=reference,
            rocm_same_major=rocm_same_major,
            tpu_generation=tpu_generation,
            processes=processes or RealProcesses(),
            replayed=replayed,
        )
        self._known: dict[str, Detection] = {}
        self._locks: dict[str, threading.Lock] = {}

    @classmethod
    def over(cls, surroundings: Surroundings) -> Machine:
        """Return the machine that surroundings show."""
        machine = cls(environ={})
        machine.surroundings = surroundings
        return machine

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that can be asked for."""
        return families.namespaces()

    def detect(
        self,
        namespace: str,
        *,
        package: str | None = None,  # noqa: ARG002
        plugin_api: str | None = None,  # noqa: ARG002
    ) -> Detection | None:
        """Return what is supported, or None when there is no provider of ours.

        :param package: the provider's package; whether ours may stand in for it
            has been decided before (P-60).
        """
        family = families.by_namespace(namespace)
        if family is None:
            return None
        with self._locks.setdefault(namespace, threading.Lock()):
            if namespace not in self._known:
                self._known[namespace] = self._look(family)
            return self._known[namespace]

    def overrides_in_effect(self) -> tuple[str, ...]:
        """Return the variables that replace detected values, as ``NAME=value`` (P-73)."""
        if not override_names.names_in(self.surroundings.environ):
            return ()  # without looking into any provider
        return tuple(
            text
            for family in families.every()
            for text in family.provider.overrides_in_effect(self.surroundings)
        )

    def _look(self, family: Family) -> Detection:
        namespace = family.namespace
        started = time.perf_counter()
        try:
            provider = family.provider
            found = provider.detect(self.surroundings)
            seconds = time.perf_counter() - started
            return replace(found, version=provider.DATA_VERSION, seconds=seconds)
        except Exception as error:  # noqa: BLE001  # P-17: whatever it is, it is data
            words = f"{type(error).__name__}: {error}"
            return Detection(
                namespace,
                status=Status.FAILED,
                source=f"built-in {namespace} provider",
                evidence=(Evidence(f"built-in {namespace} provider", words),),
                warnings=(f"detection of {namespace} failed: {words}",),
            )
