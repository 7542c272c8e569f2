"""Every check of the project: ``nox`` runs them all, ``nox -s tests`` one of them."""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True


def prepare(session: nox.Session) -> None:
    """Install the project and its development tools into the session's environment."""
    session.install("--upgrade", "pip>=25.1")  # the first pip that knows --group
    session.install("--editable", ".", "--group", "dev")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, the direction of imports and the docstrings of tests."""
    prepare(session)
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("lint-imports")
    session.run("interrogate", "--quiet", "tests")
    session.run("towncrier", "build", "--draft", silent=True)
    session.run("python", "tests/rules/coverage.py", silent=True)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; arguments after ``--`` go to pytest."""
    prepare(session)
    session.run("pytest", *(session.posargs or ["--numprocesses=2"]))


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Look for inputs that break a parser; see ``docs/how-to/fuzz.md`` for the arguments."""
    prepare(session)
    session.run("python", "fuzz/campaign.py", *session.posargs)
