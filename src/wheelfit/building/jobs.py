"""The results of the jobs of a matrix, and the record that a repeated run reuses."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit.building.batch_record import digest_of
from wheelfit.building.front_end.build_orders import BuildOrder, BuiltWheel, TunedParts
from wheelfit.building.matrix import ANY, Job
from wheelfit.core.labels import Label
from wheelfit.core.properties import PropertySet
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit_runtime.errors import WheelfitError

_COMPILER_VARIABLES = ("CC", "CXX", "CPP", "LD", "AR", "ARCHFLAGS", "MACOSX_DEPLOYMENT_TARGET")
"""Environment variables that change what compilers produce."""
_COMPILER_VARIABLE_PARTS = (
    "FLAGS", "CMAKE", "CUDA", "HIP", "NVCC", "ROCM", "SKBUILD", "SETUPTOOLS", "DIST_EXTRA",
    "SOURCE_DATE",
)  # fmt: skip
"""Parts of the names of further such variables."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of one job."""

    job: Job
    status: str
    """``built``, ``kept`` from an earlier run, ``failed``, or ``skipped``: for another platform."""
    wheel: BuiltWheel | None = None
    error: WheelfitError | None = None
    seconds: float = 0.0
    """The duration of the build; of wheels built together, that of all of them."""

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, for ``--json``."""
        return {
            "label": self.job.label,
            "python": self.job.python,
            "platform": self.job.platform,
            "status": self.status,
            "filename": None if self.wheel is None else self.wheel.path.name,
            "seconds": round(self.seconds, 3),
            "error": None if self.error is None else self.error.parts(),
        }


def runs_on(job: Job, platform: str) -> bool:
    """Return whether a job can run on a platform.

    >>> from wheelfit.building.matrix import Job
    >>> runs_on(Job(None, "3.13", "macosx_universal2"), "macosx_arm64")
    True

    :param platform: as `wheelfit.building.matrix.platform_of` returns it; empty if it has no name.
    """
    if job.platform == "macosx_universal2":
        return platform.startswith("macosx_")
    return job.platform in (ANY, platform)


def notes_on_repeated_builds(results: Iterable[JobResult]) -> Iterator[str]:
    """Yield a note on each wheel that several jobs built under the same file name."""
    jobs_by_file: dict[str, list[Job]] = {}
    for result in results:
        if result.wheel is not None:
            jobs_by_file.setdefault(result.wheel.path.name, []).append(result.job)
    for name, jobs in jobs_by_file.items():
        if len(jobs) > 1:
            targets = ", ".join(f"Python {job.python} on {job.platform}" for job in jobs)
            yield f"several jobs built {name}, and the matrix needs only one of them: {targets}"


def source_digest(archive: Path) -> str:
    """Return a digest of the files in a source distribution.

    Times are ignored: they differ each time the same files are packed.
    """
    import tarfile

    if not archive.name.endswith((".tar.gz", ".tgz")):
        return digest_of(archive)
    parts: list[str | bytes] = []
    with tarfile.open(archive) as packed:
        for member in packed:
            file = packed.extractfile(member) if member.isfile() else None
            content = b"" if file is None else file.read()
            kind = member.type.decode() + ("x" if member.mode & 0o100 else "")
            parts += [member.name, kind, member.linkname, content]
    return digest_of(*parts)


def order_digest(
    order: BuildOrder, project: str, python: str, arguments: str, environ: Mapping[str, str]
) -> str:
    """Return a digest of the inputs of an order's wheels.

    Versions of build requirements are not among them, so a new release does not cause a rebuild.
    """
    variables = {
        name: value
        for name, value in environ.items()
        if name in _COMPILER_VARIABLES or any(part in name for part in _COMPILER_VARIABLE_PARTS)
    }
    recipe = order.recipe
    parts = {
        "choices": [[choice.label, choice.properties.to_mapping()] for choice in order.choices],
        "settings": dict(recipe.config_settings),
        "environment": dict(recipe.environment),
        "flags": [recipe.flags, recipe.further_flags, recipe.pass_properties],
        "kind": order.kind,
        "providers": repr(dict(order.providers)),
        "ask": order.ask_plugins,
        "epoch": order.epoch,
        "repair": order.repair,
        "variables": variables,
        "python": python,
        "arguments": arguments,
        "wheelfit": __version__,
    }
    return digest_of(project, json.dumps(parts, sort_keys=True))


def record_of_wheels(wheels: Sequence[BuiltWheel]) -> dict[str, Any]:
    """Return wheels as plain data, for the record of a run."""
    return {"wheels": [_to_mapping(wheel) for wheel in wheels]}


def _to_mapping(wheel: BuiltWheel) -> dict[str, Any]:
    return {
        **{field.name: getattr(wheel, field.name) for field in fields(wheel)},
        "path": wheel.path.name,
        "properties": wheel.properties.to_mapping(),
        "tuned": wheel.tuned.to_mapping(),
    }


def wheels_of_record(data: Mapping[str, Any], folder: Path) -> tuple[BuiltWheel, ...] | None:
    """Return the recorded wheels; None if they are missing or have changed.

    :raises LookupError: the data has another form; TypeError and ValueError are raised as well.
    :raises OSError: a wheel cannot be read.
    """
    wheels = []
    for record in data["wheels"]:
        path = folder / Path(record["path"]).name
        if sha256_of_file(path) != record["sha256"]:
            return None
        parsed = {
            "path": path,
            "label": None if record["label"] is None else Label(record["label"]),
            "properties": PropertySet.from_mapping(record["properties"]),
            "flags": tuple(record["flags"]),
            "notes": tuple(record["notes"]),
            "tuned": TunedParts.from_mapping(record["tuned"]),
        }
        wheels.append(BuiltWheel(**{**record, **parsed}))
    return tuple(wheels)
