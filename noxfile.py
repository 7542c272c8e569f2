"""Every check of the project: ``nox`` runs them all, ``nox -s tests`` one of them."""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True

_PROCESSES = "--numprocesses=2"


def prepare(session: nox.Session) -> None:
    """Install the project and its development tools into the session's environment."""
    # Thousands of processes import the project: what it compiles must be kept.
    session.env["PYTHONDONTWRITEBYTECODE"] = None
    session.install("--upgrade", "pip>=25.1")  # the first pip that knows --group
    # Most of what comes along is never imported, so it is compiled where it is.
    session.install("--no-compile", "--editable", ".", "--group", "dev")


def look(session: nox.Session) -> None:
    """Run every check but the tests."""
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("lint-imports")
    session.run("interrogate", "--quiet", "tests")
    session.run("towncrier", "build", "--draft", silent=True)
    session.run("python", "tests/rules/coverage.py", silent=True)


@nox.session
def checks(session: nox.Session) -> None:
    """Check everything, in one environment."""
    prepare(session)
    look(session)
    session.run("pytest", _PROCESSES)


@nox.session(default=False)
def lint(session: nox.Session) -> None:
    """Check style, types, the direction of imports and the docstrings of tests."""
    prepare(session)
    look(session)


@nox.session(default=False)
def tests(session: nox.Session) -> None:
    """Run the tests; arguments after ``--`` go to pytest."""
    prepare(session)
    session.run("pytest", *(session.posargs or [_PROCESSES]))


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Look for inputs that break a parser; see ``docs/how-to/fuzz.md`` for the arguments."""
    prepare(session)
    session.run("python", "fuzz/campaign.py", *session.posargs)
