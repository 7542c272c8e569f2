"""Processors that QEMU's user mode emulates, and Python environments that run on them."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.errors import UnusableInterpreter
from wheelfit.wheels.binaries.elf import MACHINES
from wheelfit_runtime.errors import FileProblem
from wheelfit_runtime.platforms.providers.aarch64.tables import VERSIONS
from wheelfit_runtime.platforms.providers.x86_64.tables import LEVELS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label


@dataclass(frozen=True, slots=True)
class Emulator:
    """QEMU for programs of an architecture, with processors of exactly some levels."""

    architecture: str
    """The name of the architecture, which is the namespace of its properties too."""
    feature: str
    """The feature whose values are levels, each a superset of the lower ones."""
    levels: tuple[str, ...]
    """The levels, lowest first."""
    processors: Mapping[str, str]
    """The processor of QEMU with exactly the features of a level."""

    @property
    def lowest(self) -> str:
        """The level that every machine of the architecture has."""
        return self.levels[0]

    def level_of(self, document: VariantDocument | None, label: Label | None) -> str | None:
        """Return the level that a wheel needs; None if it needs other properties, too."""
        if document is None or label is None:
            return self.lowest
        properties = tuple(document.variants.get(label, ()))
        key = (self.architecture, self.feature)
        levels = {item.value for item in properties if (item.namespace, item.feature) == key}
        if len(levels) < len(properties) or not levels <= set(self.levels):
            return None
        return max(levels, default=self.lowest, key=self.levels.index)

    def override(self, level: str) -> dict[str, str]:
        """Return the variable that describes a machine of a level."""
        names = self.levels[: self.levels.index(level) + 1]
        variable = f"WHEELFIT_OVERRIDE_{self.architecture}_{self.feature}".upper()
        return {variable: ",".join(reversed(names))}

    @property
    def program(self) -> str:
        """The name of QEMU's program."""
        return f"qemu-{self.architecture}-static"

    def find(self, environ: Mapping[str, str]) -> str | None:
        """Return the path of QEMU's program, from ``PATH``."""
        names = (self.program, self.program.removesuffix("-static"))
        paths = (shutil.which(name, path=environ.get("PATH")) for name in names)
        return next((path for path in paths if path), None)


EMULATORS = (
    Emulator(
        "x86_64",
        "level",
        tuple(level for level, _ in LEVELS),
        {"v1": "qemu64", "v2": "Nehalem", "v3": "Haswell"},  # none has AVX-512
    ),
    Emulator(
        "aarch64",
        "version",
        VERSIONS[::-1],
        {"8a": "cortex-a57", "8.2a": "cortex-a76"},
    ),
)


@dataclass(frozen=True, slots=True)
class EmulatedPython:
    """A Python that is not of this machine's architecture."""

    executable: Path
    emulator: Emulator

    @property
    def root(self) -> Path | None:
        """The root of the file system that it belongs to, by the loader in its ``lib`` folder."""
        name = f"ld-linux-{self.emulator.architecture.replace('_', '-')}.so.*"
        folders = self.executable.parents[:-1]
        return next((folder for folder in folders if any(folder.glob(f"lib*/{name}"))), None)

    def create_environment(
        self, folder: Path, environ: Mapping[str, str], processor: str | None = None
    ) -> Path:
        """Create a virtual environment that runs under QEMU; return its Python.

        :param folder: of the environment; it does not exist.
        :param processor: the processor, as QEMU names it; None: one of the lowest level.
        :raises FileProblem: QEMU is not on ``PATH``.
        :raises UnusableInterpreter: the Python does not start there.
        """
        qemu = self.emulator.find(environ)
        if qemu is None:
            raise FileProblem(
                f"{self.executable} is for {self.emulator.architecture}, but "
                f"{self.emulator.program} is not on PATH",
                where="--python",
                hint="install QEMU's user mode; Debian has it as qemu-user-static",
            )
        words = [qemu, *self._root_words, str(self.executable), "-I", "-m", "venv"]
        command = [*words, "--without-pip", str(folder)]
        process = subprocess.run(command, capture_output=True, check=False, env=dict(environ))
        if process.returncode:
            lines = process.stderr.decode("utf-8", "replace").strip().splitlines()
            raise UnusableInterpreter(
                "this Python cannot create a virtual environment under QEMU",
                where=str(self.executable),
                note="\n".join(lines[-5:]) or None,
                hint="keep it in the file system that it belongs to, with its loader and "
                "libraries, or name that with QEMU_LD_PREFIX",
            )
        python = folder / "bin/python"
        processor = processor or self.emulator.processors[self.emulator.lowest]
        emulate(python, (qemu, "-cpu", processor, *self._root_words))
        return python

    @property
    def _root_words(self) -> tuple[str, ...]:
        return () if self.root is None else ("-L", str(self.root))


def native_emulator() -> Emulator | None:
    """Return the emulator of this machine's architecture, for processors of lower levels."""
    return next((item for item in EMULATORS if item.architecture == platform.machine()), None)


def emulated_python(name: str | None) -> EmulatedPython | None:
    """Return the Python that a path names if it is of another architecture than this machine.

    :param name: as ``--python`` takes it.
    """
    path = Path(os.path.expanduser(name)) if name else None  # noqa: PTH111
    if path is None or not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:6] != b"\x7fELF\x02\x01":
        return None
    architecture = MACHINES.get(struct.unpack_from("<H", head, 18)[0])
    for emulator in EMULATORS:
        if emulator.architecture == architecture != platform.machine():
            return EmulatedPython(path.absolute(), emulator)
    return None


def emulate(python: Path, qemu: Sequence[str]) -> None:
    """Replace the Python of an environment by a script that runs it under QEMU.

    Programs that the tests start with ``sys.executable`` are emulated, too.

    :param python: the Python of a virtual environment, a link to the interpreter.
    :param qemu: QEMU's program and its options.
    """
    interpreter = python.resolve()
    script = f'#!/bin/sh\nexec {shlex.join(qemu)} -0 "$0" {shlex.quote(str(interpreter))} "$@"\n'
    for link in [path for path in python.parent.glob("python*") if path.resolve() == interpreter]:
        link.unlink()
        link.write_text(script, "utf-8")
        link.chmod(0o755)
