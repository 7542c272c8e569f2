"""Machines: whatever files, variables and child processes say, detection answers (P-17, P-74)."""

from __future__ import annotations

import pkgutil
import tomllib
from importlib import import_module
from typing import TYPE_CHECKING

import tomli_w

from wheelfit.core.host_file import HostFile
from wheelfit.core.host_file_mapping import read_host_file, to_mapping
from wheelfit.core.properties import is_name, is_value
from wheelfit_runtime.platforms import probes, providers
from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.recording import RecordedProcesses
from wheelfit_runtime.platforms.scrubbing import Scrubber
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 6000
"""Bytes of an input."""

SYSTEMS = ("Linux", "Darwin", "Windows")
ARCHITECTURES = ("x86_64", "aarch64", "i686", "armv8l")
ENDINGS = tuple(Ending)
# All of them now: what is imported later is not watched by the fuzzer.
PROBES = [
    import_module(found.name)
    for package in (providers, probes)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
PROVIDERS = {one.namespace: one.provider for one in providers.families()}


class InMemory(SystemView):
    """A machine whose files are a mapping."""

    __slots__ = ("files",)

    files: Mapping[str, bytes]

    def exists(self, name: str) -> bool:
        """Say whether there is a file, or a folder with one."""
        return name in self.files or any(known.startswith(f"{name}/") for known in self.files)

    def read_bytes(self, name: str, limit: int = 1 << 20) -> bytes | None:
        """Return what the mapping has."""
        data = self.files.get(name)
        return None if data is None else data[:limit]

    def children(self, folder: str) -> tuple[str, ...]:
        """Return the names that the mapping has in a folder."""
        start = f"{folder}/"
        inside = (known.removeprefix(start) for known in self.files if known.startswith(start))
        return tuple(sorted({name.partition("/")[0] for name in inside}))


def machine(data: bytes, *, reference: bool = False) -> InMemory:
    """Read a machine: ``@system``, ``@environ``, ``@file NAME`` and ``@answer NAME``.

    What follows such a line belongs to it. The first word of an answer says how the
    child ended.
    """
    files: dict[str, bytes] = {}
    environ: dict[str, str] = {}
    answers: dict[str, Answer] = {}
    system, architecture = SYSTEMS[0], ARCHITECTURES[0]
    for part in data.split(b"\n@"):
        head, _, body = part.removeprefix(b"@").partition(b"\n")
        kind, _, name = head.decode("utf-8", "replace").partition(" ")
        if kind == "system":
            first, _, second = name.partition(" ")
            system = first if first in SYSTEMS else system
            architecture = second if second in ARCHITECTURES else architecture
        elif kind == "environ":
            for line in body.decode("utf-8", "replace").splitlines():
                variable, _, value = line.partition("=")
                environ[variable] = value
        elif kind == "file" and name.startswith("/"):
            files[name] = body
        elif kind == "answer":
            word, _, output = body.partition(b"\n")
            code = int(word) if word.isdigit() and len(word) < 4 else 0
            ending = ENDINGS[code % len(ENDINGS)] if word.startswith(b"0") else Ending.EXITED
            answers[name] = Answer(ending, code, output, output[-200:])
    seen = InMemory(
        root="/captured",
        environ=environ,
        system=system,
        architecture=architecture,
        interpreter="python",
        processes=RecordedProcesses(answers),
        replayed=True,
        reference=reference,
        rocm_same_major=len(data) % 2 == 1,
        tpu_generation=len(data) % 3 == 1,
    )
    object.__setattr__(seen, "files", files)
    return seen


def check(data: bytes) -> None:
    """Hold every provider to what its answer must be, for a machine made of some bytes."""
    seen, alike = machine(data), machine(data, reference=True)
    detections = []
    for namespace, provider in PROVIDERS.items():
        found: Detection = provider.detect(seen)
        check_answer(found, namespace)
        for config in found.features:
            assert all(provider.accepts(config.name, value) for value in config.values)
        for override in provider.overrides_in_effect(seen):
            assert isinstance(override, str)
        check_answer(provider.detect(alike), namespace)
        assert provider.detect(machine(data)) == found
        detections.append(found)
    check_written(detections)
    scrubber = Scrubber.of(seen)
    for found in detections:
        for evidence in found.evidence:
            assert isinstance(scrubber.text(evidence.value), str)


def check_answer(found: Detection, namespace: str) -> None:
    """Check that an answer can be used and shown (P-21, P-34)."""
    assert found.namespace == namespace
    assert found.source
    names = [config.name for config in found.features]
    assert len(set(names)) == len(names)
    for config in found.features:
        assert is_name(config.name)
        assert all(map(is_value, config.values))
        assert len(set(config.values)) == len(config.values)
    supported = any(config.values for config in found.features)
    assert supported == (found.status is Status.SUPPORTED)
    for device in found.devices:
        assert device.feature in names  # of values it may have none: an old GPU runs nothing
    for text in (*found.warnings, *(one.value for one in found.evidence)):
        assert isinstance(text, str)


def check_written(detections: list[Detection]) -> None:
    """Check that a host file says what was found, and reads back equal (P-44)."""
    file = HostFile.from_detections(detections)
    text = tomli_w.dumps(to_mapping(file), multiline_strings=False)
    again = read_host_file(tomllib.loads(text), "x")
    assert again == file
    kept = {one.namespace: one.features for one in again.providers}
    for found in detections:
        assert found.status is Status.FAILED or kept[found.namespace] == found.features
