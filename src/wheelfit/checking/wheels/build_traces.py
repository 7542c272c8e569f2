"""Check what a build leaves behind in binaries: debug information, and paths of its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import Severity, some_of
from wheelfit.core.sizes import size_in_words
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.checking.findings import CheckedFile, Finding
    from wheelfit.wheels.binaries.facts import Binaries

_MOST_DEBUG = 1_000_000  # bytes
_HOME = pattern(r"(?:/home|/Users|[A-Za-z]:\\Users)[/\\]([^/\\]+)[/\\]")
_NOBODY = frozenset(
    """
    administrator appveyor azure-pipelines azureuser bot build buildbot builder buildkite buildozer
    ci circleci cloudtest conda containeradministrator containeruser distiller docker ec2-user
    github gitlab-runner iojs jenkins root travis ubuntu user vagrant vcpkg vsts vssadministrator
    """.split()  # noqa: SIM905  # a list of words is read more easily as text
)
"""Names of accounts that belong to machines and not to people."""


def trace_findings(binaries: Binaries, place: CheckedFile) -> Iterator[Finding]:
    """Yield what a release has no use for."""
    debug = {one.member: one.debug for one in binaries if one.debug}
    if sum(debug.values()) > _MOST_DEBUG:
        largest = sorted(debug, key=lambda member: -debug[member])
        size = size_in_words(sum(debug.values()))
        yield place.found(checks.DEBUG_SYMBOLS, f"{size} in {some_of(largest)}")
    paths = [(path, one.member) for one in binaries for path in one.build_paths or ()]
    people = [(path, member) for path, member in paths if _is_of_person(path)]
    if shown := people or paths:
        path, member = shown[0]
        names = len({path for path, _ in paths})
        more = f", and {count_of(names - 1, 'more path')}" if names > 1 else ""
        yield place.found(
            checks.BUILD_PATH,
            f"{member} names {path}{more}",
            severity=Severity.WARNING if people else None,
        )


def _is_of_person(path: str) -> bool:
    """Return whether a path is in the home folder of a person."""
    match = _HOME.match(path)
    if match is None:
        return False
    name = match[1].lower()
    return name not in _NOBODY and not name.startswith(("runner", "task_"))
