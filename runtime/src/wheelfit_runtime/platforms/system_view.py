"""The view of a system for probes: one object, through which every read goes.

Every file is named absolutely, as the machine names it (``/proc/cpuinfo``), and
looked up below a root that is given in; the environment, the kind of system and
recorded answers of instructions and system calls are given in too (P-70). On the
real machine the root is ``/`` and nothing is recorded.
"""
# The names are the machine's, not ours: text, with / on every system.
# ruff: noqa: PTH110, PTH113, PTH118, PTH208

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from wheelfit_runtime.platforms.child_processes import Question, RealProcesses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wheelfit_runtime.platforms.child_processes import Answer, Processes
    from wheelfit_runtime.platforms.facts import CpuidTable

LOADER_CACHE = "/etc/ld.so.cache"
"""Where Linux's loader keeps which libraries lie where."""

_Kept = TypeVar("_Kept")

_PIECE = 64 * 1024
_FILE_LIMIT = 16 * 1024 * 1024
"""Bytes read from one file at most; ``/proc/cpuinfo`` of 1,000 processors is 2 MiB."""


def open_at_once(name: str, flags: int) -> int:
    """Open a file without blocking, which a pipe in its place would do."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def system_of_this_process() -> str:
    """Return ``Linux``, ``Darwin``, ``Windows`` or ``sys.platform``."""
    return {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}.get(
        sys.platform, sys.platform
    )


def architecture_of_this_process() -> str:
    """Return the architecture of the running interpreter, as ``x86_64``.

    The interpreter counts, not the kernel: a 32-bit Python on a 64-bit system
    loads 32-bit wheels (P-104).
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
    """Return the running Python; None in a frozen application, whose program is not a Python."""
    # Nuitka sets no sys.frozen, and names a program that does not exist.
    is_frozen = getattr(sys, "frozen", False) or "__compiled__" in globals()
    return None if is_frozen or not os.path.isfile(sys.executable or "") else sys.executable


@dataclass(frozen=True, slots=True)
class SystemView:
    """Everything detection may depend on."""

    root: str | os.PathLike[str] = "/"
    """Folder that stands for the machine's ``/``."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    system: str = field(default_factory=system_of_this_process)
    """``Linux``, ``Darwin`` or ``Windows``."""
    architecture: str = field(default_factory=architecture_of_this_process)
    """The architecture of the interpreter in question: ``x86_64``, ``aarch64``, ``i686`` …"""
    interpreter: str | None = field(default_factory=interpreter_of_this_process)
    """Python that runs the isolated scripts; None where none can be started."""
    deadline: float = 10.0
    """Seconds that a child process may take (P-37)."""
    library_folders: tuple[str | os.PathLike[str], ...] = ()
    """Folders, not below the root, in which driver libraries are looked for first."""
    processes: Processes = field(default_factory=RealProcesses)
    """The runner of questions that only a child process may answer (P-71)."""
    replayed: bool = False
    """Whether ``processes`` only plays back: then a question may have any name, for nothing of the
    machine this runs on is reached.
    """
    recorded_cpuid: CpuidTable | None = None
    """Answers of the CPUID instruction; None: query the processor, if the root is real."""
    recorded_sysctl: Mapping[str, bytes] | None = None
    """Answers of ``sysctlbyname``; None: query the system, if the root is real."""
    recorded_features: frozenset[int] | None = None
    """Numbers that ``IsProcessorFeaturePresent`` affirms; None: query the system, if the root is
    real.
    """
    reference: bool = False
    """Whether to answer exactly as the reference plugins do (P-43)."""
    rocm_same_major: bool = False
    """Whether older minors of the installed ROCm's major count as installed too (P-123)."""
    tpu_generation: bool = False
    """Whether to report a TPU's generation too, which no published plugin does (P-153)."""
    _kept: dict[str, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def is_real(self) -> bool:
        """Return whether the root is the machine this process runs on."""
        return os.fspath(self.root) == "/"

    def path(self, name: str) -> str:
        """Return the path here of the machine's file ``name``.

        :param name: absolute path with ``/``; below a root, ``C:/…`` lies in ``C/…``, and
            the colon of a PCI address is ``_``, so that any system can hold the file.
        """
        if self.is_real:
            return name
        drive, _, rest = name.lstrip("/").partition(":/")
        name = f"{drive}/{rest}" if rest and len(drive) == 1 else name.lstrip("/")
        return os.path.join(self.root, name.replace(":", "_"))

    def once(self, name: str, look: Callable[[SystemView], _Kept]) -> _Kept:
        """Return the result of a function of this view, called only once."""
        if name not in self._kept:
            self._kept[name] = look(self)
        return cast(_Kept, self._kept[name])

    def program(self, name: str) -> str | None:
        """Return the path of a program on the machine's ``PATH``, or None.

        :param name: as ``nvidia-smi``; on Windows ``.exe`` is added.
        """
        windows = self.system == "Windows"
        name = f"{name}.exe" if windows else name
        for folder in self.environ.get("PATH", "").split(";" if windows else ":"):
            if not folder:
                continue  # an empty entry means the current folder, which is not meant
            path = f"{folder.replace(chr(92), '/') if windows else folder}/{name}"
            # Whether it may be run is known of the real machine only.
            if self.exists(path) and (not self.is_real or os.access(self.path(path), os.X_OK)):
                return self.path(path)
        return None

    def ask(self, name: str, *arguments: str, hidden: str, version: str = "") -> Answer:
        """Run a child process without the variables that hide devices from it (P-89).

        :param hidden: regular expression of those variables.
        """
        import re

        environ = {k: v for k, v in self.environ.items() if not re.fullmatch(hidden, k)}
        return self.processes.ask(Question(name, arguments, environ, self.deadline, version))

    def exists(self, name: str) -> bool:
        """Return whether the machine has a file, folder or device of this name."""
        return os.path.exists(self.path(name))  # follows links: a dangling one is not a library

    def may_open(self, name: str) -> bool:
        """Return whether this user may read and write a device; below another root always true."""
        return not self.is_real or os.access(self.path(name), os.R_OK | os.W_OK)

    def read_bytes(self, name: str, limit: int = _FILE_LIMIT) -> bytes | None:
        """Return the content of a file, or None when it cannot be read (P-74)."""
        data = b""
        try:
            opener = None if self.is_real else open_at_once
            with open(self.path(name), "rb", buffering=0, opener=opener) as stream:
                # In pieces: a kernel reserves memory for all requested bytes, and refuses large
                # amounts.
                while piece := stream.read(min(_PIECE, limit - len(data))):
                    data += piece
        except OSError:
            return None
        return data

    def read_text(self, name: str) -> str | None:
        """Return the text of a file without blanks around it, or None (P-74)."""
        data = self.read_bytes(name)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def loader_cache(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the paths of libraries in the cache of Linux's loader."""
        import re

        cache = self.read_bytes(LOADER_CACHE) or b""
        for name in names:
            ending = re.escape(name.encode())
            for path in re.findall(rb"(?<=\0)/[^\0]*/" + ending + rb"(?=\0)", cache):
                yield path.decode("utf-8", "replace")

    def children(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder in order; empty when it cannot be read (P-74)."""
        try:
            return tuple(sorted(os.listdir(self.path(folder))))
        except OSError:
            return ()
