"""What names and URLs say."""

from __future__ import annotations

import pytest

from wheelfit.core.filename import sdist_release
from wheelfit.projects.names import is_archive, is_repository_url


@pytest.mark.parametrize(
    ("name", "holds"),
    [("a-1.tar.gz", True), ("A-1.ZIP", True), ("a.txt", False), ("a-1-py3-none-any.whl", False)],
)
def test_archives(name: str, holds: bool) -> None:  # noqa: FBT001
    """The ending decides, and nothing else."""
    assert is_archive(name) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("git+https://h/x", True),
        ("hg+ssh://h/x", True),
        ("https://h/git+x", False),
        ("git+x", False),
        ("foo+https://h/x", False),
    ],
)
def test_repositories(text: str, holds: bool) -> None:  # noqa: FBT001
    """Only the scheme counts."""
    assert is_repository_url(text) is holds


@pytest.mark.parametrize(
    "name", ["v1.0.tar.gz", "main.zip", "a-b.tar.gz", "a-1.0.txt", "-1.tar.gz"]
)
def test_no_release(name: str) -> None:
    """Archives that servers make of repositories promise no release."""
    assert sdist_release(name) is None
