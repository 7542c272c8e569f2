"""The five places into which the parts of a wheel go."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Schemes(NamedTuple):
    """A folder for each part of a wheel (the keys of a ``.data`` folder)."""

    purelib: Path
    """Modules of wheels that are the same on every platform."""
    platlib: Path
    """Modules of wheels with compiled code; mostly the same folder."""
    headers: Path
    """Parent of the folder of C headers that each distribution has."""
    scripts: Path
    """Commands."""
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
        """Return the schemes with a leading folder replaced.

        :param old: the first part of every path, as written there.
        :param new: what stands for it.
        """
        return Schemes(
            **{name: new / folder.relative_to(old) for name, folder in self.folders().items()}
        )

    def below(self, root: Path) -> Schemes:
        """Return the schemes as they lie below another root folder (``--root``).

        :param root: what takes the place of ``/``, or of the drive on Windows.
        """
        return Schemes(
            **{
                name: root / folder.relative_to(folder.anchor)
                for name, folder in self.folders().items()
            }
        )
