"""Write the parts of one wheel into a stage; what PyPA's ``installer`` calls a destination."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, BinaryIO, cast

from installer.destinations import WheelDestination
from installer.records import Hash, RecordEntry
from installer.scripts import Script
from installer.utils import Scheme, construct_record_file, copyfileobj_with_hashing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from installer.scripts import LauncherKind, ScriptSection

__all__ = ["StagedDestination"]


def __dir__() -> list[str]:
    return __all__


_SHEBANG = b"#!python"


class StagedDestination(WheelDestination):
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
        umask = os.umask(0)
        os.umask(umask)
        self._executable = 0o777 & ~umask | 0o111

    def write_script(
        self, name: str, module: str, attr: str, section: ScriptSection
    ) -> RecordEntry:
        """Write the script of an entry point."""
        script = Script(name, module, attr, section)
        file_name, data = script.generate(self._interpreter, self._launcher)
        return self._write("scripts", file_name, io.BytesIO(data), is_executable=True)

    def write_file(
        self,
        scheme: Scheme,
        path: str | os.PathLike[str],
        stream: BinaryIO,
        is_executable: bool,  # noqa: FBT001  # the interface has it so
    ) -> RecordEntry:
        """Write one file; a script for "python" gets the interpreter that it is for."""
        if scheme == "scripts":
            stream = self._with_interpreter(stream)
        return self._write(scheme, os.fspath(path), stream, is_executable=is_executable)

    def finalize_installation(
        self,
        scheme: Scheme,
        record_file_path: str,
        records: Iterable[tuple[Scheme, RecordEntry]],
    ) -> None:
        """Write RECORD; its paths are relative to the library folder (PEP 376)."""

        def prefix(of: str) -> str | None:
            if of == scheme:
                return None
            try:
                path = os.path.relpath(self._runtime[of], self._runtime[scheme])
            except ValueError:  # another drive
                path = str(self._runtime[of])
            return "" if path == "." else path + "/"

        # An empty prefix is refused by RecordEntry.to_row; such a scheme is the same folder.
        with construct_record_file(records, lambda of: prefix(of) or None) as stream:
            self._write(scheme, record_file_path, stream, is_executable=False)

    def _with_interpreter(self, stream: BinaryIO) -> BinaryIO:
        # PEP 427: the first line ``#!python`` stands for the target's interpreter. Other
        # scripts may be large programs; only their first bytes are held.
        head = stream.read(len(_SHEBANG))
        if head != _SHEBANG:
            return cast("BinaryIO", _Chained(head, stream))
        _, newline, rest = stream.read().partition(b"\n")
        return io.BytesIO(f"#!{self._interpreter}".encode() + newline + rest)

    def _write(
        self, scheme: str, path: str, stream: BinaryIO, *, is_executable: bool
    ) -> RecordEntry:
        if (scheme, path) in self._skip:
            digest, size = copyfileobj_with_hashing(stream, cast("BinaryIO", _Nowhere()), "sha256")
        else:
            file = self._stages[scheme] / path
            try:
                target = file.open("xb")
            except FileNotFoundError:
                file.parent.mkdir(parents=True, exist_ok=True)
                target = file.open("xb")
            with target:
                digest, size = copyfileobj_with_hashing(stream, target, "sha256")
            if is_executable:
                file.chmod(self._executable)
        self._advance(size)
        return RecordEntry(path, Hash("sha256", digest), size)


class _Chained:
    """Read some bytes and then a stream."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int = -1) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            return head
        return self._rest.read(size)


class _Nowhere:
    """Take bytes and keep none."""

    def write(self, data: bytes) -> int:
        return len(data)
