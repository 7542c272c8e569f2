"""The folders of an environment, one for each part of a wheel, and the form of paths in a journal.

A journal stays valid if the environment is copied or moved, and cannot name a path outside of it: a
path is the name of one of the five folders and the rest below it.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from wheelfit.installation.change_signatures import OF_THIS_PROCESS, Signer

if TYPE_CHECKING:
    from collections.abc import Mapping


LOCK_FILE: Final = ".wheelfit.locking"
"""The name of the lock in the library folder of the environment, while a process holds it."""
WORKPLACE: Final = ".wheelfit-change"
"""The folder in which a change is prepared, beside what it changes; there is one at a time."""


class Schemes(NamedTuple):
    """A folder for each part of a wheel (the keys of a ``.data`` folder)."""

    purelib: Path
    """Modules of wheels that are the same on every platform."""
    platlib: Path
    """Modules of wheels with compiled code; mostly the same folder."""
    headers: Path
    """Parent of the folder of C headers that each distribution has."""
    scripts: Path
    data: Path
    """Everything else; mostly the prefix itself."""

    def folders(self) -> dict[str, Path]:
        """Return the folders by scheme name."""
        return self._asdict()

    def libraries(self) -> tuple[Path, ...]:
        """Return the folders in which distributions are found, each once."""
        return tuple(dict.fromkeys((self.purelib, self.platlib)))

    def with_one_library(self) -> Schemes:
        """Return the schemes with one name for the library folder, if it has two.

        On some systems ``lib64`` is a link to ``lib``; a file would have two paths.
        """
        if self.platlib != self.purelib and os.path.realpath(self.platlib) == os.path.realpath(
            self.purelib
        ):
            return self._replace(platlib=self.purelib)
        return self

    def moved(self, old: str, new: Path) -> Schemes:
        """Return the schemes with a leading folder replaced."""
        return Schemes(
            **{name: new / folder.relative_to(old) for name, folder in self.folders().items()}
        )

    def below(self, root: Path) -> Schemes:
        """Return the schemes as they lie below another root folder (``--root``)."""
        return Schemes(
            **{
                name: root / folder.relative_to(folder.anchor)
                for name, folder in self.folders().items()
            }
        )


class EnvironmentFolders:
    """The folders of an environment.

    :param roots: the five folders by the name of the scheme, absolute and without links.
    :param signer: signs the journal of a change.
    """

    def __init__(self, roots: Mapping[str, str], signer: Signer = OF_THIS_PROCESS) -> None:
        self.roots = roots
        self.signer = signer

    @classmethod
    def of(cls, schemes: Schemes, signer: Signer = OF_THIS_PROCESS) -> EnvironmentFolders:
        """Return the folders of an environment, links followed, wherever these lead.

        Before a change, `Environment.real_folders` refuses links that lead out of it.
        """
        folders = schemes.folders().items()
        return cls({name: os.path.realpath(folder) for name, folder in folders}, signer)

    def has(self, path: str) -> bool:
        """Return whether a path lies below one of the folders."""
        return any(path != root and is_below(path, root) for root in self.roots.values())

    @property
    def library(self) -> str:
        """The folder in which the journal and the lock lie."""
        return self.roots["purelib"]

    @property
    def workplace(self) -> str:
        """The folder in which the journal lies while there is a change."""
        return os.path.join(self.library, WORKPLACE)  # noqa: PTH118

    @property
    def is_changing(self) -> bool:
        """Whether a change was begun and is not finished; it may be in progress."""
        return os.path.lexists(self.workplace)

    @property
    def is_locked(self) -> bool:
        """Whether a process holds the lock, or was killed while it did."""
        return os.path.lexists(os.path.join(self.library, LOCK_FILE))  # noqa: PTH118

    @cached_property
    def unmovable(self) -> frozenset[str]:
        """The folders of the environment and those above, which no change moves."""
        unmovable: set[str] = set()
        for root in self.roots.values():
            for path in map(Path, (root, os.path.realpath(root))):
                unmovable.update(map(str, (path, *path.parents)))
        return frozenset(unmovable)

    @cached_property
    def layout(self) -> Mapping[str, str]:
        """The relative positions of the folders, independent of the environment's place."""
        layout = {}
        for name, root in self.roots.items():
            try:
                layout[name] = os.path.relpath(root, self.library).replace(os.sep, "/")
            except ValueError:  # another drive
                layout[name] = root
        return layout

    def outermost(self, scheme: str) -> str:
        """Return the scheme of the outermost folder that contains the folder of a scheme.

        It is the scheme itself if no other folder contains its folder.
        """
        outer = scheme
        for name, root in self.roots.items():
            if root != self.roots[outer] and is_below(self.roots[outer], root):
                outer = name
        # If several schemes have this folder, the first is returned for each of them.
        return next(name for name, root in self.roots.items() if root == self.roots[outer])

    def encode(self, path: str) -> str:
        """Return the form of a path in a journal.

        :raises ValueError: the path is in none of the folders.
        """
        for name, root in self.roots.items():
            if is_below(path, root):
                rest = path[len(root) :].strip(os.sep)
                return f"{name}/{rest.replace(os.sep, '/')}" if rest else name
        raise ValueError(path)

    def decode(self, text: str) -> str:
        """Return the path in a journal.

        :param text: the result of `encode`, or any other text.
        :raises ValueError: it names no path in these folders, or leads out through a link.
        """
        name, *names = text.split("/")
        if name not in self.roots or any(map(_is_invalid_name, names)):
            raise ValueError(text)
        path = os.path.join(self.roots[name], *names)  # noqa: PTH118
        # The path itself may be a link, which is moved as such; the folder it is in may not lead
        # out.
        folder = os.path.realpath(os.path.dirname(path) if names else path)  # noqa: PTH120
        if not any(is_below(folder, os.path.realpath(root)) for root in self.roots.values()):
            raise ValueError(text)
        return path


def _is_invalid_name(text: str) -> bool:
    return (
        text in {"", ".", ".."}
        or os.sep in text
        or "\0" in text
        or (os.sep == "\\" and ":" in text)
    )


def is_below(path: str, root: str) -> bool:
    """Return whether a path is a folder or lies in it; neither has links."""
    # Never by characters alone: /env-other is not below /env (GHSA-6vgw-5pg2-w6jp).
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
