"""Repair wheels with auditwheel, delocate, delvewheel or the like, and keep their labels.

None of these tools can read a file name with a label. So each gets the wheel under a plain name,
and its result gets the label back. It writes RECORD itself; ``variant.json`` must stay.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from wheelfit.core.filename import parse_wheel_filename, with_label
from wheelfit.errors import BuildFailed, InvalidFilename
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.rewrite import copy_wheel
from wheelfit_runtime.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.filename import WheelFilename

_LINES = 20


def needs_no_repair(wheel: Path) -> bool:
    """Return whether a wheel is for any platform, so that tools refuse it."""
    return {tag.platform for tag in parse_wheel_filename(wheel.name).tags} == {"any"}


def repair_wheel(
    wheel: Path, command: str, folder: Path, environ: Mapping[str, str] | None = None
) -> Path:
    """Repair a wheel with a command, and return the path of the result.

    :param command: as ``auditwheel repair -w {dest_dir} {wheel}``; no shell sees it.
    :raises BuildFailed: the command failed, or its result is not this wheel.
    """
    filename = parse_wheel_filename(wheel.name)
    with TemporaryDirectory(prefix="repair-", dir=folder) as scratch:
        given, results = Path(scratch, "wheel"), Path(scratch, "results")
        given.mkdir()
        results.mkdir()
        plain = given / filename.plain
        copy_wheel(wheel, plain, overwrite=False, sync=False)
        printed = _run(_words(command, plain, results), environ, filename.text)
        wheels = [path for path in results.iterdir() if path.suffix == ".whl"]
        if len(wheels) != 1:
            raise _failed(filename.text, f"{len(wheels)} wheels came of it, not one", printed)
        return _labelled(wheel, wheels[0], filename, folder)


def _words(command: str, wheel: Path, results: Path) -> list[str]:
    places = {"{wheel}": str(wheel), "{dest_dir}": str(results)}
    words = shlex.split(command, posix=os.name != "nt")
    for place, text in places.items():
        if not any(place in word for word in words):
            raise BuildFailed(
                f"the command that repairs wheels has no {place}",
                where=command,
                hint="write it as auditwheel repair -w {dest_dir} {wheel}",
            )
        words = [word.replace(place, text) for word in words]
    return words


def _run(words: list[str], environ: Mapping[str, str] | None, name: str) -> str:
    """Run a command, and return its output."""
    try:
        done = subprocess.run(
            words,
            env=None if environ is None else dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise _failed(name, f"{words[0]} cannot be run: {error.strerror}", "") from None
    printed = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        raise _failed(name, f"{words[0]} failed with {done.returncode}", printed)
    return printed


def _failed(name: str, why: str, printed: str) -> BuildFailed:
    is_about_level = "--disable-isa-ext-check" in printed or "ISA ext" in printed
    return BuildFailed(
        f"the wheel cannot be repaired: {why}",
        where=name,
        note="\n".join(printed.strip().splitlines()[-_LINES:]) or None,
        hint="auditwheel needs --disable-isa-ext-check for a variant that claims a level"
        if is_about_level
        else "the command must be found on PATH, and put one wheel into {dest_dir}",
    )


def _labelled(wheel: Path, result: Path, before: WheelFilename, folder: Path) -> Path:
    """Verify a repaired wheel, and move it to its folder under its label."""
    try:
        after = parse_wheel_filename(result.name)
        with WheelArchive(result, after) as archive, WheelArchive(wheel, before) as old:
            archive.verify()
            is_same = (after.name, after.version) == (before.name, before.version) and (
                before.label is None or archive.variant_document() == old.variant_document()
            )
    except (InvalidFilename, IntegrityError) as error:
        why = f"the result is not a sound wheel: {error.message}"
        raise _failed(before.text, why, "") from None
    if not is_same:
        raise _failed(before.text, f"the result is another wheel: {result.name}", "")
    place = folder / with_label(after, before.label).text
    result.replace(place)
    return place
