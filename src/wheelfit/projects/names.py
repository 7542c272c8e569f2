"""The kinds of names: file names of project archives, and URLs of repositories."""

from __future__ import annotations

ENDINGS = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
"""How the names of archives end."""
_SYSTEMS = ("git", "hg", "svn", "bzr")


def is_archive(name: str) -> bool:
    """Return whether a file is an archive of a project by its name.

    >>> is_archive("demo-1.0.tar.gz"), is_archive("demo-1.0-py3-none-any.whl")
    (True, False)
    """
    return name.lower().endswith(ENDINGS)


def is_repository_url(text: str) -> bool:
    """Return whether a URL names a repository.

    >>> is_repository_url("git+https://example.org/x"), is_repository_url("https://example.org/x")
    (True, False)
    """
    system, plus, _ = text.partition("://")[0].partition("+")
    return bool(plus) and "://" in text and system.lower() in _SYSTEMS
