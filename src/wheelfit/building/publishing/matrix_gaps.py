"""Which wheels of a project's matrix a release lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.building.matrix import ANY
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packaging.tags import Tag

    from wheelfit.building.matrix import Job
    from wheelfit.core.filename import WheelFilename

_INTERPRETER = pattern(r"(py|cp)(3)([0-9]*)")
_MACOS = {
    "macosx_arm64": ("arm64", "universal2"),
    "macosx_x86_64": ("x86_64", "universal2", "intel"),
    "macosx_universal2": ("universal2",),
}


def missing_jobs(jobs: Iterable[Job], wheels: Iterable[WheelFilename]) -> Iterator[Job]:
    """Yield the jobs of a matrix whose wheel is not there.

    A label of which there is no wheel at all is left out: that is said in another way.
    """
    by_label: dict[str | None, list[WheelFilename]] = {}
    for wheel in wheels:
        by_label.setdefault(wheel.label, []).append(wheel)
    for job in jobs:
        found = by_label.get(job.label, ())
        if found and not any(does(wheel, job) for wheel in found):
            yield job


def does(wheel: WheelFilename, job: Job) -> bool:
    """Say whether a wheel is for Python and platform of a job."""
    return any(_for_python(tag, job.python) and _for_platform(tag, job) for tag in wheel.tags)


def _for_python(tag: Tag, python: str) -> bool:
    parsed = _INTERPRETER.fullmatch(tag.interpreter)
    if parsed is None:
        return False
    is_free = python.endswith("t")
    wanted = int(python.removesuffix("t").partition(".")[2])
    minor = int(parsed[3]) if parsed[3] else 0
    if tag.abi == "none":
        return minor <= wanted
    if tag.abi == "abi3":
        return minor <= wanted and not is_free
    return tag.abi == f"cp3{wanted}{'t' * is_free}"


def _for_platform(tag: Tag, job: Job) -> bool:
    if tag.platform == "any":
        return True
    if job.platform == ANY:
        return False
    system, _, machine = job.platform.partition("_")
    if system in ("manylinux", "musllinux"):
        return tag.platform.startswith((system, "linux_")) and tag.platform.endswith(f"_{machine}")
    if job.platform in _MACOS:
        return tag.platform.startswith("macosx_") and tag.platform.endswith(
            tuple(f"_{one}" for one in _MACOS[job.platform])
        )
    return tag.platform == job.platform
