"""Put the files of one wheel into a stage: linked where they stay as they are, else written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from installer.scripts import Script

from wheelfit.wheels.linking import Linker
from wheelfit.wheels.record import RecordRow, format_record, row_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from installer.scripts import LauncherKind, ScriptSection

    from wheelfit.install.checked_wheel import CheckedWheel, Part

__all__ = ["Destination"]


def __dir__() -> list[str]:
    return __all__


_SHEBANG = b"#!python"


class Destination:
    """Write a wheel below staged folders as if they were the final ones.

    :param stages: for each scheme, the folder that stands for the final one.
    :param runtime: for each scheme, the folder at run time, for the paths in RECORD.
    :param interpreter: what scripts name in their first line.
    :param launcher: kind of script launcher, as ``posix``.
    :param skip: final files, as (scheme, path), that are there already with this content:
        they are listed in RECORD and not written.
    :param advance: called with the number of bytes after each file.
    """

    def __init__(
        self,
        stages: Mapping[str, Path],
        runtime: Mapping[str, Path],
        *,
        interpreter: str,
        launcher: str,
        skip: frozenset[tuple[str, str]] = frozenset(),
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._stages = stages
        self._runtime = runtime
        self._interpreter = interpreter
        self._launcher = cast("LauncherKind", launcher)
        self._skip = skip
        self._advance = advance
        self._linker = Linker()

    def fill(self, wheel: CheckedWheel) -> None:
        """Write everything that a wheel consists of, RECORD last.

        :param wheel: what to write.
        :raises OSError: that is not possible.
        """
        prefixes = {scheme: self._prefix(scheme, wheel.root) for scheme in self._stages}
        rows = []
        for command in wheel.commands:
            script = Script(
                command.name,
                command.module,
                command.attribute,
                cast("ScriptSection", command.section),
            )
            name, data = script.generate(self._interpreter, self._launcher)
            row = self._write("scripts", name, data, executable=True)
            rows.append((prefixes["scripts"], row))
        rows += [(prefixes[part.scheme], self._place(part, wheel)) for part in wheel.parts]
        for name, data in wheel.generated.items():
            row = self._write(wheel.root, f"{wheel.dist_info}/{name}", data)
            rows.append(("", row))
        own = f"{wheel.dist_info}/RECORD"
        rows.append(("", RecordRow(own)))
        text = format_record(
            RecordRow(prefix + row.path, row.hash, row.size) for prefix, row in rows
        )
        self._write(wheel.root, own, text)

    def _prefix(self, scheme: str, root: str) -> str:
        """Return what leads from the library folder to that of a scheme (PEP 376)."""
        if scheme == root:
            return ""
        try:
            path = os.path.relpath(self._runtime[scheme], self._runtime[root])
        except ValueError:  # another drive
            path = str(self._runtime[scheme])
        return "" if path == "." else path.replace(os.sep, "/") + "/"

    def _place(self, part: Part, wheel: CheckedWheel) -> RecordRow:
        """Put one file of the wheel where it belongs, and return its row."""
        unpacked = wheel.unpacked
        changed = None
        if part.member == f"{wheel.dist_info}/METADATA":
            changed = wheel.metadata
        elif part.scheme == "scripts":
            changed = self._with_interpreter(unpacked.path_of(part.member))
        executable = unpacked.is_executable(part.member)
        if changed is not None:
            return self._write(part.scheme, part.path, changed, executable=executable)
        if (part.scheme, part.path) not in self._skip:
            target = self._stages[part.scheme] / part.path
            target.parent.mkdir(parents=True, exist_ok=True)
            self._linker.put(unpacked, part.member, target)
        self._advance(unpacked.files[part.member].size)
        return RecordRow(part.path, part.row.hash, part.row.size)

    def _with_interpreter(self, path: Path) -> bytes | None:
        """Return a script for "python" with the interpreter that it is for (PEP 427).

        None for any other file; it may be a large program, of which only the begin is read.
        """
        with path.open("rb") as file:
            if file.read(len(_SHEBANG)) != _SHEBANG:
                return None
            _, newline, rest = file.read().partition(b"\n")
        return f"#!{self._interpreter}".encode() + newline + rest

    def _write(self, scheme: str, path: str, data: bytes, *, executable: bool = False) -> RecordRow:
        if (scheme, path) not in self._skip:
            file = self._stages[scheme] / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as target:
                target.write(data)
            if executable:
                file.chmod(self._linker.executable_mode)
        self._advance(len(data))
        return row_for(path, data)
