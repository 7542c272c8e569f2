"""The view through which detection reads a machine, be it real, captured or described.

Files are named by their absolute paths on that machine, as ``/proc/cpuinfo``, and read below a root
folder. The environment, the operating system and recorded answers of instructions and system calls
are values of the view as well (P-70). For the real machine the root is ``/``, and nothing is
recorded.
"""
# Paths are text with "/" on every system, since they are those of the described machine.
# ruff: noqa: PTH110, PTH113, PTH118, PTH208

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from wheelfit_runtime.platforms.child_processes import Answer, Processes, Question, RealProcesses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wheelfit_runtime.platforms.facts import CpuidTable

LOADER_CACHE = "/etc/ld.so.cache"
"""The cache of Linux's dynamic loader with the paths of libraries."""

_Result = TypeVar("_Result")

_CHUNK_SIZE = 64 * 1024
FILE_LIMIT = 16 * 1024 * 1024
"""Bytes read of one file; ``/proc/cpuinfo`` of 1,000 processors has 2 MiB."""


def open_without_blocking(name: str, flags: int) -> int:
    """Open a file; a pipe in its place does not block."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def system_of_this_process() -> str:
    """Return ``Linux``, ``Darwin``, ``Windows`` or ``sys.platform``."""
    return {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}.get(
        sys.platform, sys.platform
    )


def architecture_of_this_process() -> str:
    """Return the architecture of the running interpreter, such as ``x86_64``.

    That of the kernel may differ: a 32-bit Python on a 64-bit system loads 32-bit wheels (P-104).
    """
    if sys.platform == "win32":
        version = sys.version.lower()
        for mark, name in (("amd64", "x86_64"), ("arm64", "aarch64"), ("arm", "armv7l")):
            if f"({mark})" in version:
                return name
        return "i686"
    machine = os.uname().machine
    if sys.maxsize < 2**32:
        return {"x86_64": "i686", "aarch64": "armv8l"}.get(machine, machine)
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(machine, machine)


def interpreter_of_this_process() -> str | None:
    """Return the path of the running Python; None in a frozen application."""
    # Nuitka does not set sys.frozen, and its sys.executable does not exist.
    is_frozen = getattr(sys, "frozen", False) or "__compiled__" in globals()
    return None if is_frozen or not os.path.isfile(sys.executable or "") else sys.executable


@dataclass(frozen=True, slots=True)
class SystemView:
    """Everything that detection depends on."""

    root: str | os.PathLike[str] = "/"
    """The folder with the machine's ``/``."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    system: str = field(default_factory=system_of_this_process)
    """``Linux``, ``Darwin`` or ``Windows``."""
    architecture: str = field(default_factory=architecture_of_this_process)
    """The architecture of the interpreter that wheels are for, such as ``x86_64``."""
    interpreter: str | None = field(default_factory=interpreter_of_this_process)
    """The Python that runs isolated scripts; None if none can be started."""
    deadline: float = 10.0
    """Seconds that a child process may take (P-37)."""
    library_folders: tuple[str | os.PathLike[str], ...] = ()
    """Folders of this machine that are searched first for driver libraries."""
    processes: Processes = field(default_factory=RealProcesses)
    """The runner of child processes that answer questions (P-71)."""
    replayed: bool = False
    """Whether ``processes`` replays recorded answers."""
    recorded_cpuid: CpuidTable | None = None
    """Answers of the CPUID instruction; None queries the processor, if the root is real."""
    recorded_sysctl: Mapping[str, bytes] | None = None
    """Answers of ``sysctlbyname``; None queries the system, if the root is real."""
    recorded_features: frozenset[int] | None = None
    """Features that ``IsProcessorFeaturePresent`` reports; None queries the system, if the root is
    real.
    """
    reference: bool = False
    """Whether to answer exactly as the reference plugins do (P-43)."""
    rocm_same_major: bool = False
    """Whether older minor versions of the installed ROCm count as installed (P-123)."""
    tpu_generation: bool = False
    """Whether to report the generation of a TPU, which no published plugin does (P-153)."""
    _results: dict[str, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def is_real(self) -> bool:
        """Whether the root is that of the machine this process runs on."""
        return os.fspath(self.root) == "/"

    def path(self, name: str) -> str:
        """Return the path on this machine of a file of the described machine.

        :param name: absolute path with ``/``; below a root, ``C:/…`` is in ``C/…``, and the colon
            of a PCI address is ``_``, so that any system can store the file.
        """
        if self.is_real:
            return name
        drive, _, rest = name.lstrip("/").partition(":/")
        name = f"{drive}/{rest}" if rest and len(drive) == 1 else name.lstrip("/")
        return os.path.join(self.root, name.replace(":", "_"))

    def once(self, key: str, compute: Callable[[SystemView], _Result]) -> _Result:
        """Return the result of a function of this view, which is called for each key only once."""
        if key not in self._results:
            self._results[key] = compute(self)
        return cast(_Result, self._results[key])

    def program(self, name: str) -> str | None:
        """Return the path of a program on the machine's ``PATH``, or None.

        :param name: as ``nvidia-smi``; on Windows ``.exe`` is added.
        """
        windows = self.system == "Windows"
        name = f"{name}.exe" if windows else name
        for folder in self.environ.get("PATH", "").split(";" if windows else ":"):
            if not folder:
                continue  # an empty entry means the current folder, which is not searched
            program = f"{folder.replace(chr(92), '/') if windows else folder}/{name}"
            if not self.exists(program):
                continue
            # Captured machines have no permissions.
            if not self.is_real or os.access(self.path(program), os.X_OK):
                return self.path(program)
        return None

    def ask(self, name: str, *arguments: str, hidden: str, version: str = "") -> Answer:
        """Run a child process without the variables that hide devices from it (P-89).

        :param name: the question, as in `Question`; the other parameters are its fields.
        :param hidden: regular expression of the names of these variables.
        """
        import re

        environ = {
            variable: value
            for variable, value in self.environ.items()
            if not re.fullmatch(hidden, variable)
        }
        return self.processes.ask(Question(name, arguments, environ, self.deadline, version))

    def exists(self, name: str) -> bool:
        """Return whether the machine has a file, folder or device; False for a broken link."""
        return os.path.exists(self.path(name))

    def may_open(self, name: str) -> bool:
        """Return whether this user may read and write a device; True if the root is not real."""
        return not self.is_real or os.access(self.path(name), os.R_OK | os.W_OK)

    def read_bytes(self, name: str, limit: int = FILE_LIMIT) -> bytes | None:
        """Return the content of a file, or None when it cannot be read (P-74)."""
        data = b""
        try:
            opener = None if self.is_real else open_without_blocking
            with open(self.path(name), "rb", buffering=0, opener=opener) as stream:
                # In pieces: for some files the kernel reserves memory for all requested bytes, and
                # refuses large amounts.
                while piece := stream.read(min(_CHUNK_SIZE, limit - len(data))):
                    data += piece
        except OSError:
            return None
        return data

    def read_text(self, name: str) -> str | None:
        """Return the stripped text of a file; None if it cannot be read (P-74)."""
        data = self.read_bytes(name)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def loader_cache(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the paths that the cache of Linux's dynamic loader has for some libraries."""
        import re

        cache = self.read_bytes(LOADER_CACHE) or b""
        for name in names:
            ending = re.escape(name.encode())
            for path in re.findall(rb"(?<=\0)/[^\0]*/" + ending + rb"(?=\0)", cache):
                yield path.decode("utf-8", "replace")

    def children(self, folder: str) -> tuple[str, ...]:
        """Return the sorted names in a folder; empty if it cannot be read (P-74)."""
        try:
            return tuple(sorted(os.listdir(self.path(folder))))
        except OSError:
            return ()
