"""What the pages of an index cost whoever serves them."""

from __future__ import annotations

from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.server.messages import Request
from wheelfit.server.simple import SimpleIndex
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.reading import ReadsContent

_NAMES = tuple(canonicalize_name(f"some{number}") for number in range(3))


class Counting(ReadsContent):
    """Be an index that counts how often a page of it is made."""

    name = "counting"

    def __init__(self) -> None:
        self.made: list[str] = []
        self.generation = 0

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the projects."""
        return _NAMES

    def project(self, name: NormalizedName) -> ProjectPage:
        """Return a page of some 10 KB."""
        self.made.append(name)
        return ProjectPage(name, (File(f"{name}-1.tar.gz", "x" * 10_000),), "")

    def stamp(self, _: NormalizedName) -> int:
        """Return what a test sets."""
        return self.generation

    def content(self, _: str) -> None:
        """Have no files."""


def test_written_pages_are_kept_while_they_are_true() -> None:
    """A page is made once, and anew when it is another one."""
    index = Counting()
    simple = SimpleIndex(index)
    for generation in (0, 0, 1):
        index.generation = generation
        for name in _NAMES:
            assert simple(Request("GET", f"/simple/{name}/")).status == 200
    assert index.made == [*_NAMES, *_NAMES]


def test_written_pages_have_so_much_room() -> None:
    """However many projects there are, and however long their pages: what was used last stays."""
    index = Counting()
    simple = SimpleIndex(index, room=25_000)
    for name in (*_NAMES, *_NAMES[1:], _NAMES[0]):
        simple(Request("GET", f"/simple/{name}/"))
    assert index.made == [*_NAMES, _NAMES[0]]
