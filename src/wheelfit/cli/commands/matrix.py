"""Show which wheels a release has, and write that for services that build them.

The matrix stands under [tool.wheelfit.matrix] of pyproject.toml: labels, Pythons, platforms, and
what is excluded or included. --for writes it as GitHub Actions or GitLab CI read it; each job there
carries the words for wheelfit build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.building import MATRIX

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from wheelfit.build.matrix import Job
    from wheelfit.cli.output import Output


OPTIONS = (MATRIX,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Read the matrix, and write it."""
    del environ
    from wheelfit.build.ci import github_matrix, gitlab_pipeline
    from wheelfit.cli.build_jobs import read_project_matrix
    from wheelfit.errors import UsageError

    if arguments.service is not None and arguments.json:
        raise UsageError("--for and --json are two forms of one result", hint="choose one")
    if arguments.template is not None and arguments.service != "gitlab":
        raise UsageError("--template goes with --for gitlab", hint="leave it out")
    if arguments.by is not None and arguments.service is None:
        raise UsageError("--by goes with --for", hint="leave it out, or name the service")
    name, matrix = read_project_matrix(arguments.project)
    jobs = matrix.only(pythons=arguments.only_python, platforms=arguments.only_platform)
    if not jobs:
        raise UsageError(
            "no wheel is left", hint="wheelfit matrix lists the Pythons and platforms there are"
        )
    by_target = arguments.by == "target"
    if arguments.service == "github":
        output.result(github_matrix(matrix, jobs, by_target=by_target))
    elif arguments.service == "gitlab":
        text = gitlab_pipeline(matrix, jobs, by_target=by_target, template=arguments.template)
        output.result(text.removesuffix("\n"))
    else:
        _tell(name, jobs, output)
    return 0


def _tell(name: str, jobs: Sequence[Job], output: Output) -> None:
    from wheelfit.cli.columns import columns
    from wheelfit.wording import count_of

    output.result_json(
        {
            "version": 1,
            "project": name,
            "jobs": [
                {
                    "label": job.label,
                    "python": job.python,
                    "platform": job.platform,
                    "identifier": job.identifier or None,
                }
                for job in jobs
            ],
        }
    )
    rows: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        rows.setdefault((job.platform, job.python), []).append(job.label or "(plain)")
    cells = [(*target, ", ".join(labels)) for target, labels in rows.items()]
    for line in columns(("Platform", "Python", "Wheels"), cells):
        output.result(line)
    output.say(f"{count_of(len(jobs), 'wheel')} of {name}")
