"""A folder of wheels, and its generated index."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wheelfit.server.generate.file_facts import FactsCache
from wheelfit.server.generate.generation import generate
from wheelfit.server.generate.request import GenerateOptions, GenerateResult
from wheelfit.server.generate.targets import FolderTarget
from wheelfit.testing.wheels import build_wheel, release_document

STATIC = {"blas": {"library": ["openblas", "mkl"]}}
DOCUMENT = release_document(
    {
        "null": {},
        "mkl": {"blas": {"library": ["mkl"]}},
        "open": {"blas": {"library": ["openblas"]}},
    },
    static=STATIC,
)


def build_release(
    folder: Path,
    name: str = "fast",
    version: str = "1.0",
    labels: Iterable[str | None] = (None, "null", "mkl"),
) -> list[Path]:
    """Build the wheels of a release."""
    return [
        build_wheel(folder, name, version, label=label, document=DOCUMENT if label else None)
        for label in labels
    ]


class Site:
    """Generate an index, and read what it says.

    :param folder: with the wheels.
    :param place: where the pages go; the folder itself by default.
    """

    def __init__(self, folder: Path, place: Path | None = None) -> None:
        self.folder = folder
        self.place = place or folder

    def generate(self, target: Any = None, **wishes: Any) -> GenerateResult:
        """Generate the index in this process."""
        in_place = self.place == self.folder
        return generate(
            self.folder,
            target or FolderTarget(self.place),
            FactsCache(
                self.place / "simple" / ".facts.json",
                check_content=wishes.get("check_content", False),
            ),
            GenerateOptions(**wishes),
            in_place=in_place and target is None,
            excluded=frozenset(
                {self.folder / "simple", self.place / "simple", self.place / "files"}
            ),
        )

    def page(self, project: str = "fast") -> dict[str, dict[str, Any]]:
        """Return the entries of a page by file name; empty without a page."""
        path = self.place / "simple" / project / "index.json"
        if not path.exists():
            return {}
        return {file["filename"]: file for file in json.loads(path.read_bytes())["files"]}

    def file(self, url: str, project: str = "fast") -> Path:
        """Return the file of an entry."""
        return (self.place / "simple" / project / url).resolve()
