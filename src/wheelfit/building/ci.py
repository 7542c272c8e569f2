"""The jobs of a matrix in the formats of GitHub Actions and GitLab CI.

Each job has the arguments for `wheelfit build`, so a workflow needs no conditions of its own.
"""

from __future__ import annotations

import json
import shlex
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING

from wheelfit.building.matrix import PLATFORMS, Job, Matrix
from wheelfit.core.labels import NULL, Label
from wheelfit.errors import UsageError
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_GITHUB_MAX_JOBS = 256
"""Jobs of one matrix, on GitHub."""
_GITLAB_MAX_JOBS = 200
"""Jobs of one ``parallel:matrix``, on GitLab."""
_GITLAB_MAX_NAME = 255
"""Characters of the name of a job, which lists all its variants."""


# As of November 2026; `runners` in the table of the project overrides it.
_RUNNERS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "github": (
        ("any *linux_x86_64 *linux_i686", "ubuntu-24.04"),
        ("*linux_aarch64 *linux_armv7l", "ubuntu-24.04-arm"),
        ("macosx_arm64 macosx_universal2", "macos-15"),
        ("macosx_x86_64", "macos-15-intel"),
        ("win_amd64 win32", "windows-2025"),
        ("win_arm64", "windows-11-arm"),
    ),
    "gitlab": (
        ("any *linux_x86_64 *linux_i686", "saas-linux-small-amd64"),
        ("*linux_aarch64 *linux_armv7l", "saas-linux-small-arm64"),
        ("macosx_arm64 macosx_universal2", "saas-macos-medium-m1"),
        ("win_amd64 win32", "saas-windows-medium-amd64"),
    ),
}
"""Patterns of platforms with their runner, by service; 64-bit runners build 32-bit wheels, too."""


def github_matrix(
    matrix: Matrix, jobs: Sequence[Job], *, by_target: bool = False, project: str = "."
) -> str:
    """Return the JSON for ``strategy.matrix: ${{ fromJSON(...) }}``, in one line.

    :param by_target: whether all wheels of a Python and platform are one job.
    :param project: its folder, relative to the folder in which jobs run.
    :raises UsageError: there are more jobs than GitHub runs.
    :raises InvalidDocument: ``invalid-project``; no runner is known for a platform.
    """
    entries = []
    for group in _grouped(jobs, by_target=by_target):
        runners = _runners(matrix, "github", group[0].platform)
        runner = runners[0] if len(runners) == 1 else runners
        entries.append({**_entry(group, project), "runner": runner})
    if len(entries) > _GITHUB_MAX_JOBS:
        raise UsageError(
            f"the matrix has {len(entries)} jobs; GitHub allows {_GITHUB_MAX_JOBS}",
            hint="give --job-per target, or one matrix for each --platform",
        )
    return json.dumps({"include": entries}, separators=(",", ":"))


def gitlab_pipeline(
    matrix: Matrix,
    jobs: Sequence[Job],
    *,
    by_target: bool = False,
    project: str = ".",
    template: str | None = None,
) -> str:
    """Return a pipeline for ``trigger: include: artifact``, in YAML.

    :param template: a file of the repository that defines a job ``.build-wheel``; None: a job for a
        Linux runner.
    :raises UsageError: the name of a job would be too long.
    """
    lines = ["# Written by `wheelfit matrix --format gitlab` from pyproject.toml."]
    if template is not None:
        lines += ["include:", f"  - local: {_yaml(template)}"]
    else:
        lines += [
            ".build-wheel:",
            '  image: "python:$PYTHON"',
            "  script:",
            "    - python -m pip install -r ci/wheelfit.txt",
            "    - wheelfit build $ARGUMENTS -o dist",
            "  artifacts:",
            "    paths: [dist/]",
        ]
    groups = _grouped(jobs, by_target=by_target)
    chunks = [groups[n : n + _GITLAB_MAX_JOBS] for n in range(0, len(groups), _GITLAB_MAX_JOBS)]
    for number, chunk in enumerate(chunks, 1):
        name = "build-wheel" if len(chunks) == 1 else f"build-wheel-{number}"
        runner_count = max(len(_runners(matrix, "gitlab", group[0].platform)) for group in chunk)
        tags = [f"RUNNER_{n}" if n else "RUNNER" for n in range(runner_count)]
        lines += [f"{name}:", "  extends: .build-wheel"]
        lines += [f"  tags: [{', '.join(f'${tag}' for tag in tags)}]"]
        lines += ["  parallel:", "    matrix:"]
        for group in chunk:
            runners = _runners(matrix, "gitlab", group[0].platform)
            variables = _entry(group, project).items()
            entry = {key.upper(): text for key, text in variables if key != "name"}
            # Every entry must set all tags of its chunk. The last runner is repeated for those left
            # over: GitLab ignores a repeated tag.
            padded_runners = [*runners, *[runners[-1]] * (len(tags) - len(runners))]
            entry |= zip(tags, padded_runners, strict=True)
            if len(f"{name}: [{', '.join(entry.values())}]") > _GITLAB_MAX_NAME:
                raise UsageError(
                    f"the name of a job would have more than {_GITLAB_MAX_NAME} characters",
                    hint="leave out --job-per target",
                )
            pairs = [f"{key}: {_yaml(value)}" for key, value in entry.items()]
            lines += [f"      - {pairs[0]}", *(f"        {pair}" for pair in pairs[1:])]
    return "\n".join(lines) + "\n"


def _grouped(jobs: Sequence[Job], *, by_target: bool) -> list[tuple[Job, ...]]:
    if not by_target:
        return [(job,) for job in jobs]
    ordered = sorted(jobs, key=lambda job: (PLATFORMS.index(job.platform), job.python))
    return [tuple(group) for _, group in groupby(ordered, lambda job: (job.platform, job.python))]


def _entry(group: Sequence[Job], project: str) -> dict[str, str]:
    """Return the variables of the CI job that builds a group of wheels."""
    labels = ["plain" if job.label is None else str(job.label) for job in group]
    return {
        "name": f"{', '.join(labels)} on {group[0].identifier or f'Python {group[0].python}'}",
        "arguments": _arguments(project, (job.label for job in group)),
        # A hyphen stands for the plain wheel, since a label may be "plain".
        "labels": " ".join(job.label or "-" for job in group),
        "python": group[0].python,
        "platform": group[0].platform,
        "identifier": group[0].identifier,
    }


def _arguments(project: str, labels: Iterable[Label | None]) -> str:
    """Return the arguments of `wheelfit build` for exactly these wheels."""
    options: dict[Label | None, str] = {None: "--plain", NULL: "--null"}
    folder = [] if project == "." else [shlex.quote(project)]
    return " ".join([*folder, *(options.get(label) or f"--variant {label}" for label in labels)])


def _runners(matrix: Matrix, service: str, platform: str) -> tuple[str, ...]:
    if configured := matrix.runners.get(service, {}).get(platform):
        return configured
    for patterns, runner in _RUNNERS[service]:
        if any(fnmatchcase(platform, pattern) for pattern in patterns.split()):
            return (runner,)
    path = f"tool.wheelfit.matrix.runners.{service}.{platform}"
    message = "the service has no runner for this platform; name one of your own"
    raise InvalidDocument([Fault(path, message)], code="invalid-project")


def _yaml(text: str) -> str:
    """Return a text as a string of YAML."""
    return json.dumps(text, ensure_ascii=True)
