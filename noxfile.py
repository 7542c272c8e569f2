"""Every check of the project: ``nox`` runs the fast ones, ``nox -s slow`` the others."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True

_PROCESSES = ("--numprocesses=2", "--dist=worksteal")
_FAST = ("-m", "not integration")
# They often wait, for disks and time limits: a third process keeps two processors busy.
_FAST_PROCESSES = ("--numprocesses=3", "--dist=worksteal")


def prepare(session: nox.Session, *groups: str) -> None:
    """Install the project and some groups of development tools into the session's environment."""
    # Thousands of processes import the project: what it compiles must be kept.
    session.env["PYTHONDONTWRITEBYTECODE"] = None
    session.install("--upgrade", "pip>=25.1")  # the first pip that knows --group
    chosen = [word for group in groups for word in ("--group", group)]
    # Most of what comes along is never imported, so it is compiled where it is.
    session.install("--no-compile", "--editable", "runtime", "--editable", ".", *chosen)


def look(session: nox.Session, *more: tuple[str, ...]) -> None:
    """Run every check but the tests, and ``more`` commands, while mypy runs beside them."""
    with ThreadPoolExecutor(1) as beside:
        types = beside.submit(session.run, "mypy", silent=True)
        session.run("ruff", "check")
        session.run("ruff", "format", "--check")
        session.run("lint-imports")
        session.run("interrogate", "--quiet", "tests")
        session.run("towncrier", "build", "--draft", silent=True)
        session.run("python", "tests/rules/coverage.py", silent=True)
        for command in more:
            session.run(*command, silent=True)
        types.result()


@nox.session
def checks(session: nox.Session) -> None:
    """Run the style checks and the fast tests, in one environment."""
    prepare(session, "test", "lint")
    # This compiles the tests once, where each process would do it, while a processor is idle.
    look(session, ("pytest", "--collect-only", "--quiet", *_FAST))
    session.run("pytest", *_FAST_PROCESSES, *_FAST)


@nox.session(default=False)
def slow(session: nox.Session) -> None:
    """Run the tests with real tools, whole programs and accidents."""
    prepare(session, "test", "integration")
    session.run("pytest", *_PROCESSES, "-m", "integration")


@nox.session(default=False)
def lint(session: nox.Session) -> None:
    """Check style, types, the direction of imports and the docstrings of tests."""
    prepare(session, "test", "lint")
    look(session)


@nox.session(default=False)
def tests(session: nox.Session) -> None:
    """Run all tests but long corpora; arguments after ``--`` go to pytest instead."""
    prepare(session, "test", "integration")
    session.run("pytest", *(session.posargs or _PROCESSES))


# tests-3.12 and so on: the same on each Python that pyproject.toml declares.
for _python in nox.project.python_versions(nox.project.load_toml("pyproject.toml")):
    nox.session(tests.func, name=f"tests-{_python}", python=_python, default=False)


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build the distributions into ``dist`` twice, compare the bytes, and check them."""
    session.install("--no-compile", "./runtime", ".", "twine", "check-wheel-contents")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", ".ci/build_distributions.py", "dist")


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Rehearse a release with ``-- --dry-run``: build, sign, publish and install here."""
    if session.posargs != ["--dry-run"]:
        session.error("a pushed tag releases (CONTRIBUTING.md); rehearse it with -- --dry-run")
    build(session)
    session.install("--no-compile", ".[attestations,publish,server]")
    session.run("python", ".ci/rehearse_release.py", "dist")


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation site into ``site``, with its search."""
    prepare(session, "docs")
    session.run("sphinx-build", "--fail-on-warning", "--keep-going", "--quiet", "docs", "site")


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Look for inputs that break a parser; see ``docs/how-to/fuzz.md`` for the arguments."""
    prepare(session, "test", "fuzz")
    session.run("python", "fuzz/campaign.py", *session.posargs)
