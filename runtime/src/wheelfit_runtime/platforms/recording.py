"""Captured machines: everything that a detection read, as a folder that can be sent.

A captured machine is a folder with

``root/``
    the files that probes look at, below a folder that stands for ``/``;
``environ.json``
    its environment variables (may be missing: none);
``machine.toml``
    ``description``, ``origin``, ``system``, ``architecture``; where they apply ``[cpuid]``
    (recorded answers of the instruction: ``"7.0" = "eax:ebx:ecx:edx"`` in hexadecimal,
    and ``xcr0``), ``[sysctl]`` (macOS) and ``processor-features`` (Windows: the numbers for
    which ``IsProcessorFeaturePresent`` returns true);
``answers.json``
    the answers of child processes, by the name of the question (may be missing: none):
    ``ending``, ``code``, ``output``, ``errors``; bytes that are not UTF-8 are
    ``{"base64": "…"}``;
``expected.json``
    the result of detection.

`record` writes one, and `open_recorded` opens one. Data that identifies the machine or its user is
replaced: see `wheelfit_runtime.platforms.scrubbing`.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.child_processes import Answer, Ending, from_mapping, to_mapping
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.facts import CpuidRegisters, CpuidTable
from wheelfit_runtime.platforms.probes import sysctl, windows_features
from wheelfit_runtime.platforms.providers.x86_64 import probes as x86_64_probes
from wheelfit_runtime.platforms.scrubbing import Scrubber, concerns_detection
from wheelfit_runtime.platforms.system_view import FILE_LIMIT, LOADER_CACHE, SystemView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit_runtime.platforms.child_processes import Processes, Question
    from wheelfit_runtime.platforms.features import Detection, FeatureConfig

_Value = TypeVar("_Value")

_MACHINE = "machine.toml"
_ANSWERS = "answers.json"
_ENVIRON = "environ.json"
_EXPECTED = "expected.json"
_ROOT = "root"
_PARTS = frozenset({_MACHINE, _ANSWERS, _ENVIRON, _EXPECTED, _ROOT})

_FEATURES = "processor-features"
"""Key of ``machine.toml``."""
_SECRET_FILE = re.compile(r"/proc/(?:self/|\d+/)?(?:cmdline|environ)\b.*")
_LISTED_FOLDERS = ("/proc/", "/sys/")
_NODES = ("dxg", *(name for family in providers.families() for name in family.nodes))
_DEVICE = re.compile(rf"/dev/(?:{'|'.join(map(re.escape, _NODES))})[^/]*")
_PATH_LISTS = ("PATH", "LD_LIBRARY_PATH")


class RecordedProcesses:
    """The recorded answers of child processes, none of which is started."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = MappingProxyType(dict(answers))

    def ask(self, question: Question) -> Answer:
        """Return the recorded answer; an unrecorded question fails as not started."""
        message = f"no answer to {question.name!r} was recorded"
        return self.answers.get(question.name, Answer(Ending.NOT_STARTED, errors=message.encode()))


class RecordingProcesses:
    """Processes whose answers are recorded."""

    def __init__(self, processes: Processes) -> None:
        self.answers: dict[str, Answer] = {}
        """The answers so far, by the name of the question."""
        self._processes = processes

    def ask(self, question: Question) -> Answer:
        """Run the question, record its answer and return it."""
        answer = self.answers[question.name] = self._processes.ask(question)
        return answer


def is_record(folder: Path) -> bool:
    """Return whether a folder has the files of a captured machine and no others."""
    names = {entry.name for entry in folder.iterdir()}
    return _MACHINE in names and names <= _PARTS


def description(folder: Path) -> dict[str, Any]:
    """Return the content of ``machine.toml``.

    :raises OSError: it cannot be read.
    :raises ValueError: it is not what `record` writes.
    """
    document = _checked_read(
        _MACHINE, lambda: tomllib.loads((folder / _MACHINE).read_text("utf-8"))
    )
    for name in ("description", "system", "architecture"):
        if not isinstance(document.get(name), str):
            raise ValueError(f"{name} in {_MACHINE} is not a string")  # noqa: TRY004 - of a file
    return document


def expected(folder: Path) -> dict[str, Any]:
    """Return the expected detection of a captured machine, the content of ``expected.json``.

    :raises OSError: it cannot be read.
    :raises ValueError: it is not what `record` writes.
    """
    return _checked_read(_EXPECTED, lambda: _read_object(folder / _EXPECTED))


def view_arguments(folder: Path) -> dict[str, Any]:
    """Return the arguments of a `SystemView` of a captured machine, by parameter.

    :raises OSError: it cannot be read.
    :raises ValueError: it is not what `record` writes.
    """
    document = description(folder)
    answers = _checked_read(_ANSWERS, lambda: _answers(folder / _ANSWERS))
    return {
        "root": folder / _ROOT,
        "environ": _checked_read(_ENVIRON, lambda: _environ(folder / _ENVIRON)),
        "system": document["system"],
        "architecture": document["architecture"],
        "recorded_cpuid": _read_key(document, "cpuid", _cpuid_table),
        "recorded_sysctl": _read_key(document, "sysctl", _sysctl_answers),
        "recorded_features": _read_key(
            document, _FEATURES, lambda numbers: frozenset(map(int, numbers))
        ),
        "interpreter": "python",  # never started
        "replayed": bool(answers),
        "processes": RecordedProcesses(answers),
    }


def _read_key(
    document: Mapping[str, Any], key: str, read: Callable[[Any], _Value]
) -> _Value | None:
    """Return the value of a key of ``machine.toml``; None if it is missing."""
    if key not in document:
        return None
    return _checked_read(f"{key} in {_MACHINE}", lambda: read(document[key]))


def _checked_read(part: str, read: Callable[[], _Value]) -> _Value:
    """Read a part of a record, which may be invalid in any way.

    :param part: its name in messages.
    :raises ValueError: it is not what `record` writes.
    """
    try:
        return read()
    except UnicodeDecodeError:
        raise ValueError(f"{part} is not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{part} cannot be read: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise ValueError(f"{part} is not what a recording writes") from None


def open_recorded(folder: Path) -> Machine:
    """Return the captured machine in a folder, which starts no child process.

    :raises OSError: it cannot be read.
    :raises ValueError: it is not what `record` writes.
    """
    return Machine(SystemView(**view_arguments(folder)))


def _read_object(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text("utf-8"))
    if not isinstance(document, dict):
        raise TypeError
    return document


def _environ(path: Path) -> dict[str, str]:
    document = _read_object(path) if path.is_file() else {}
    if not all(isinstance(value, str) for value in document.values()):
        raise TypeError
    return document


def _answers(path: Path) -> dict[str, Answer]:
    document = _read_object(path) if path.is_file() else {}
    return {name: from_mapping(answer) for name, answer in document.items()}


def _cpuid_table(document: Mapping[str, Any]) -> CpuidTable:
    leaves = {}
    for name, registers in document.items():
        if name != "xcr0":
            leaf, subleaf = (int(number, 16) for number in name.split("."))
            leaves[leaf, subleaf] = CpuidRegisters(
                *(int(register, 16) for register in registers.split(":"))
            )
    return CpuidTable(leaves, int(document["xcr0"]) if "xcr0" in document else None)


def _sysctl_answers(document: Mapping[str, int | str]) -> dict[str, bytes]:
    return {
        name: value.encode() + b"\0" if isinstance(value, str) else value.to_bytes(4, "little")
        for name, value in document.items()
    }


def as_expected(machine: Machine) -> dict[str, Any]:
    """Return the whole detection of a machine in the form of ``expected.json``.

    The values of a feature are one string, separated by spaces, so that differences are readable.
    """
    folders = [os.fspath(folder) for folder in machine.view.library_folders]
    detections = {namespace: machine.detect(namespace) for namespace in machine.namespaces}
    return {
        "overrides": list(machine.overrides_in_effect()),
        **{
            namespace: _plain(detection, folders)
            for namespace, detection in detections.items()
            if detection is not None
        },
    }


def write_expected(folder: Path) -> None:
    """Write the detection of a captured machine into its folder."""
    _write_json(folder / _EXPECTED, as_expected(open_recorded(folder)))


def _plain(detection: Detection, library_folders: Sequence[str]) -> dict[str, Any]:
    def portable(text: str) -> str:
        for folder in library_folders:
            text = text.replace(folder, "{driver}")
        return text

    return {
        "status": str(detection.status),
        "features": _feature_lines(detection.features),
        "devices": {
            device.device: f"{device.feature}: {' '.join(sorted(device.values))}"
            for device in detection.devices
        },
        "warnings": list(detection.warnings),
        "evidence": [
            f"{portable(entry.source)}: {portable(entry.value)}" for entry in detection.evidence
        ],
    }


def _feature_lines(features: Sequence[FeatureConfig]) -> list[str]:
    """Return one line for each feature; adjacent ones with the one value ``on`` share a line."""
    lines: list[str] = []
    for feature in features:
        if feature.values != ("on",):
            several = " (several)" if feature.multi_value else ""
            lines.append(f"{feature.name}{several}: {' '.join(feature.values)}")
        elif lines and lines[-1].startswith("on: "):
            lines[-1] += f" {feature.name}"
        else:
            lines.append(f"on: {feature.name}")
    return lines


@dataclass(frozen=True, slots=True)
class _RecordingView(SystemView):
    """A view that copies everything that probes read."""

    files: dict[str, bytes] = field(default_factory=dict)
    """The content read, by the machine's path; empty for files that were only tested to exist."""
    listed_paths: dict[str, None] = field(default_factory=dict)

    # With slots the class is created twice, and super() without arguments refers to the first one.

    def exists(self, name: str) -> bool:
        exists = SystemView.exists(self, name)
        if exists:
            self.files.setdefault(name, b"")
        return exists

    def read_bytes(self, name: str, limit: int = FILE_LIMIT) -> bytes | None:
        data = SystemView.read_bytes(self, name, limit)
        if data is not None and not _SECRET_FILE.fullmatch(name):
            self.files[name] = data
        return data

    def children(self, folder: str) -> tuple[str, ...]:
        names = SystemView.children(self, folder)
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            # In other folders only files that are read are recorded: names may identify a user.
            if path.startswith(_LISTED_FOLDERS) or _DEVICE.fullmatch(path):
                self.listed_paths[path] = None
        return names

    def loader_cache_of_found_libraries(self) -> bytes | None:
        """Return the loader's cache, reduced to the libraries that the probes found."""
        data = self.files.get(LOADER_CACHE)
        if data is None:
            return None
        names = re.findall(rb"(?<=\0)/[^\0]*(?=\0)", data)
        found_names = [name for name in names if name.decode("utf-8", "replace") in self.files]
        return b"\0" + b"".join(name + b"\0" for name in dict.fromkeys(found_names))


def record(folder: Path, machine: Machine, *, description: str = "") -> tuple[str, ...]:
    """Write a captured machine: detect everything again, and save all data read.

    The folder is written completely or not at all.

    :param folder: the folder of the record; an earlier record there is replaced.
    :param description: one line for ``machine.toml``; default: system and architecture.
    :return: the namespaces whose detection from the record differs from the machine's, because
        identifying data was left out.
    :raises FileExistsError: the folder has other content.
    :raises OSError: it cannot be written.
    """
    if folder.exists() and any(folder.iterdir()) and not is_record(folder):
        raise FileExistsError(f"{folder} is neither empty nor an earlier record")
    view, detections, answers = _detect_again(machine)
    if folder.is_symlink():
        folder = folder.resolve()  # the link stays
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        new_folder = Path(temporary, "made")
        # `machine.view` has the name of the host, to be removed; `view` never read it.
        scrubber = Scrubber.of(machine.view, view.files)
        _write(new_folder, view, answers, scrubber, _machine_toml(view, description))
        write_expected(new_folder)
        if folder.exists():
            folder.rename(Path(temporary, "old"))
        new_folder.rename(folder)
    replayed = open_recorded(folder)
    return tuple(
        namespace
        for namespace, detection in detections.items()
        if (replayed_detection := replayed.detect(namespace)) is None
        or (replayed_detection.features, replayed_detection.status)
        != (detection.features, detection.status)
    )


def _detect_again(
    machine: Machine,
) -> tuple[_RecordingView, dict[str, Detection], dict[str, Answer]]:
    """Detect everything; return the view with the files read, the detections and the answers."""
    source = machine.view
    processes = RecordingProcesses(source.processes)
    arguments = {item.name: getattr(source, item.name) for item in fields(source) if item.init}
    # A record describes the machine, independent of the options of this run.
    default_options = {"reference": False, "rocm_same_major": False, "tpu_generation": False}
    watched = _RecordingView(**arguments | default_options | {"processes": processes})
    watched_machine = Machine(watched)
    results = {
        namespace: watched_machine.detect(namespace) for namespace in watched_machine.namespaces
    }
    detections = {namespace: detection for namespace, detection in results.items() if detection}
    return watched, detections, processes.answers


def _write(
    folder: Path,
    view: _RecordingView,
    answers: Mapping[str, Answer],
    scrubber: Scrubber,
    machine: str,
) -> None:
    root = folder / _ROOT
    root.mkdir(parents=True)
    files = dict.fromkeys(view.listed_paths, b"") | view.files
    cache = view.loader_cache_of_found_libraries()
    if cache is not None:
        files[LOADER_CACHE] = cache
    root_view = SystemView(str(root), {})
    # Deepest first: a name that is the parent of another one is a folder.
    for name in sorted(files, key=lambda name: (-name.count("/"), name)):
        path = Path(root_view.path(scrubber.text(name)))
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(scrubber.data(files[name]))
    environ = {
        name: scrubber.text(_with_used_folders(name, value, view))
        for name, value in sorted(view.environ.items())
        if concerns_detection(name)
    }
    _write_json(folder / _ENVIRON, environ)
    if answers:
        document = {
            name: to_mapping(
                Answer(
                    answer.ending,
                    answer.code,
                    scrubber.data(answer.output),
                    scrubber.data(answer.errors),
                )
            )
            for name, answer in answers.items()
        }
        _write_json(folder / _ANSWERS, document)
    (folder / _MACHINE).write_text(machine, "utf-8")


def _with_used_folders(name: str, value: str, view: _RecordingView) -> str:
    """Return the value of a variable, a path list without folders in which probes found no file."""
    if name not in _PATH_LISTS:
        return value
    separator = ";" if view.system == "Windows" else ":"
    folders = []
    for folder in value.split(separator):
        prefix = folder.replace("\\", "/").rstrip("/") + "/"
        if folder and any(path.startswith(prefix) for path in view.files):
            folders.append(folder)
    return separator.join(folders)


def _machine_toml(view: SystemView, description: str) -> str:
    document: dict[str, Any] = {
        "description": description or f"{view.system} on {view.architecture}",
        "origin": "recorded",
        "system": view.system,
        "architecture": view.architecture,
    }
    table = x86_64_probes.read_cpuid(view)
    if table is not None:
        document["cpuid"] = {
            f"{leaf:x}.{subleaf:x}": ":".join(f"{register:08x}" for register in registers)
            for (leaf, subleaf), registers in table.leaves.items()
        }
        if table.xcr0 is not None:
            document["cpuid"]["xcr0"] = table.xcr0
    names = tuple(
        name for family in providers.processors() for name in family.module("probes").MACOS_NAMES
    )
    answers = sysctl.read(view, names)
    if answers:
        document["sysctl"] = {name: _sysctl_value(raw) for name, raw in answers.items()}
    numbers = windows_features.read(view)
    if numbers is not None:
        document[_FEATURES] = sorted(numbers)
    return _as_toml(document)


def _sysctl_value(raw: bytes) -> int | str:
    if raw.endswith(b"\0") and raw[:-1].isascii() and raw[:1].isalpha():
        return raw.rstrip(b"\0").decode()
    return int.from_bytes(raw, "little")


def _as_toml(document: Mapping[str, Any]) -> str:
    """Return plain data as TOML, tables last; strings, numbers and lists are as in JSON."""
    lines = [
        f"{_quoted_key(name)} = {_quoted(value)}"
        for name, value in document.items()
        if not isinstance(value, dict)
    ]
    for name, table in document.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]"]
            lines += [f"{_quoted_key(key)} = {_quoted(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _quoted(value: str | int | list[int]) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _quoted_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
