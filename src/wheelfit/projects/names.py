"""Recognition of project archives by file name, and of repositories by URL."""

from __future__ import annotations

ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
_VERSION_CONTROL_SYSTEMS = ("git", "hg", "svn", "bzr")


def is_archive(name: str) -> bool:
    """Return whether a file has the name of a project archive.

    >>> is_archive("demo-1.0.tar.gz"), is_archive("demo-1.0-py3-none-any.whl")
    (True, False)
    """
    return name.lower().endswith(ARCHIVE_SUFFIXES)


def is_repository_url(text: str) -> bool:
    """Return whether a URL is that of a repository, as pip writes it.

    >>> is_repository_url("git+https://example.org/x"), is_repository_url("https://example.org/x")
    (True, False)
    """
    system, plus, _ = text.partition("://")[0].partition("+")
    return bool(plus) and "://" in text and system.lower() in _VERSION_CONTROL_SYSTEMS
