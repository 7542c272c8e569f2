"""Repairs of wheels with auditwheel, delocate, delvewheel or similar, which keep their labels.

None of these tools can read a file name with a label. So each gets the wheel under a plain name,
and its result gets the label back. The tool writes RECORD, and must not change ``variant.json``.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from wheelfit.core.filename import WheelFilename, parse_wheel_filename, with_label
from wheelfit.errors import BuildFailed, InvalidFilename
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.rewrite import copy_wheel
from wheelfit_runtime.errors import IntegrityError, os_reason

if TYPE_CHECKING:
    from collections.abc import Mapping


_MAX_LINES = 20


def is_for_any_platform(wheel: Path) -> bool:
    """Return whether a wheel is for any platform, which repair tools refuse."""
    return {tag.platform for tag in parse_wheel_filename(wheel.name).tags} == {"any"}


def repair_wheel(
    wheel: Path, command: str, folder: Path, environ: Mapping[str, str] | None = None
) -> Path:
    """Repair a wheel with a command, and return the path of the result.

    :param command: as ``auditwheel repair -w {dest_dir} {wheel}``; it is not run by a shell.
    :raises BuildFailed: the command failed, or its result is not this wheel.
    """
    filename = parse_wheel_filename(wheel.name)
    with TemporaryDirectory(prefix="repair-", dir=folder) as scratch:
        input_folder, result_folder = Path(scratch, "wheel"), Path(scratch, "results")
        input_folder.mkdir()
        result_folder.mkdir()
        plain = input_folder / filename.plain
        copy_wheel(wheel, plain, overwrite=False, sync=False)
        output = _run(_command_words(command, plain, result_folder), environ, filename.text)
        wheels = [path for path in result_folder.iterdir() if path.suffix == ".whl"]
        if len(wheels) != 1:
            raise _failed(filename.text, f"it made {len(wheels)} wheels, not one", output)
        return _take_result(wheel, wheels[0], filename, folder)


def _command_words(command: str, wheel: Path, result_folder: Path) -> list[str]:
    replacements = {"{wheel}": str(wheel), "{dest_dir}": str(result_folder)}
    try:
        words = shlex.split(command, posix=os.name != "nt")
    except ValueError as error:
        raise BuildFailed(f"the repair command cannot be read: {error}", where=command) from None
    for placeholder, text in replacements.items():
        if not any(placeholder in word for word in words):
            raise BuildFailed(
                f"the repair command has no {placeholder}",
                where=command,
                hint="write it as auditwheel repair -w {dest_dir} {wheel}",
            )
        words = [word.replace(placeholder, text) for word in words]
    return words


def _run(words: list[str], environ: Mapping[str, str] | None, name: str) -> str:
    """Run a command, and return its output."""
    try:
        process = subprocess.run(
            words,
            env=None if environ is None else dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL character
        raise _failed(name, f"{words[0]} cannot be run: {os_reason(error)}", "") from None
    output = process.stdout.decode("utf-8", "replace")
    if process.returncode:
        raise _failed(name, f"{words[0]} failed with {process.returncode}", output)
    return output


def _failed(name: str, reason: str, output: str) -> BuildFailed:
    is_about_cpu_level = "--disable-isa-ext-check" in output or "ISA ext" in output
    return BuildFailed(
        f"the wheel cannot be repaired: {reason}",
        where=name,
        note="\n".join(output.strip().splitlines()[-_MAX_LINES:]) or None,
        hint="auditwheel needs --disable-isa-ext-check for a variant that claims an x86-64 level"
        if is_about_cpu_level
        else "the command must be found on PATH, and put one wheel into {dest_dir}",
    )


def _take_result(wheel: Path, result: Path, before: WheelFilename, folder: Path) -> Path:
    """Verify a repaired wheel, and move it to its folder under its label."""
    try:
        after = parse_wheel_filename(result.name)
        with WheelArchive(result, after) as archive, WheelArchive(wheel, before) as old:
            archive.verify()
            is_same = (after.name, after.version) == (before.name, before.version) and (
                before.label is None or archive.variant_document() == old.variant_document()
            )
    except (InvalidFilename, IntegrityError) as error:
        reason = f"the result is not a valid wheel: {error.message}"
        raise _failed(before.text, reason, "") from None
    if not is_same:
        raise _failed(before.text, f"the result is another wheel: {result.name}", "")
    destination = folder / with_label(after, before.label).text
    result.replace(destination)
    return destination
