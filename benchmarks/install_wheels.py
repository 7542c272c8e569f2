"""The wheels that `install.py` installs: real ones, fetched once and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from wheelfit.building.index_file import write_index_files
from wheelfit.building.variant_wheel import repack_wheel
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.labels import parse_label
from wheelfit.core.metadata import read_document
from wheelfit.testing.wheels import build_large_wheel, build_wheel, release_document
from wheelfit.wheels.rewrite import RewriteOptions

LARGE = ("nvidia-cublas-cu12", "torch", "onnxruntime-gpu")
TREE = ("jupyterlab", "scikit-learn", "pandas")
LABELS = ("cu128", "cu129")
SIBLINGS = ("nvidia-cublas-cu12", "torch")
"""Of these, two variants are made that differ in their label and document only."""


def kept_folder() -> Path:
    """Return where wheels are kept between runs unless told otherwise."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wheelfit-benchmarks"


@dataclass(frozen=True)
class Wheels:
    """Folders of wheels, each of which is served as an index."""

    large: Path
    """One wheel of each large project."""
    tree: Path
    """Everything that the tree needs."""
    siblings: Path
    """Two variants of some projects."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """All of them."""
        return (self.large, self.tree, self.siblings)

    def of(self, project: str) -> Path:
        """Return the one large wheel of a project."""
        wheels = [
            path
            for path in self.large.glob("*.whl")
            if parse_wheel_filename(path.name).name == project
        ]
        if len(wheels) != 1:
            sys.exit(f"{self.large} should hold one wheel of {project}, but has {len(wheels)}")
        return wheels[0]


def fetched(folder: Path) -> Wheels:
    """Fetch what is not there yet, and make the siblings."""
    wheels = Wheels(folder / "large", folder / "tree", folder / "siblings")
    if not wheels.large.exists():
        fetch(wheels.large, LARGE, "--no-deps")
    if not wheels.tree.exists():
        fetch(wheels.tree, TREE)
    if not wheels.siblings.exists():
        make_siblings(wheels, SIBLINGS)
    return wheels


def tiny(folder: Path) -> Wheels:
    """Build small wheels under the same names, for a smoke run."""
    wheels = Wheels(folder / "large", folder / "tree", folder / "siblings")
    for place in (wheels.large, wheels.tree):
        place.mkdir(parents=True)
    for project in LARGE:
        build_large_wheel(wheels.large, project.replace("-", "_"), "1.0", 5 << 20)
    for project in TREE:
        build_wheel(wheels.tree, project.replace("-", "_"), "1.0")
    make_siblings(wheels, SIBLINGS)
    return wheels


def fetch(folder: Path, requirements: tuple[str, ...], *words: str) -> None:
    """Download wheels from the configured index; all of them, or none."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    print(f"fetching {', '.join(requirements)} into {folder}", file=sys.stderr)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
    subprocess.run([*command, *words, "--dest", part, *requirements], check=True)
    part.rename(folder)


def make_siblings(wheels: Wheels, projects: tuple[str, ...]) -> None:
    """Make two variants of some wheels that share all but their label and document."""
    part = wheels.siblings.with_name(f"{wheels.siblings.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    values = {"cu128": "12.8", "cu129": "12.9"}
    document = read_document(
        release_document(
            {label: {"nvidia": {"toolkit": [values[label]]}} for label in LABELS},
            static={"nvidia": {"toolkit": sorted(values.values())}},
        ),
        where="the document of the siblings",
    )
    for project in projects:
        for label in LABELS:
            repack_wheel(
                wheels.of(project),
                part,
                label=parse_label(label),
                document=document,
                options=RewriteOptions(verify_content=False),
            )
    write_index_files(part)
    part.rename(wheels.siblings)
