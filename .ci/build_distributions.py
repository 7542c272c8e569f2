"""Build every distribution twice, compare the bytes, and check the files as a registry would.

``nox -s build`` runs this. The second build starts from the unpacked source distribution, in
another time zone and with another umask: equal bytes show that this is complete, too.
"""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_REPOSITORY = Path(__file__).parents[1]
_PROJECTS = (".", "runtime")
# Its files come from the sources of wheelfit, so it has no source distribution of its own.
_FAMILIES = ("families", "--wheel")
# W004: PyInstaller finds its hooks by names that no module could have. W010: families are data.
_IGNORED = "W004,W010"


def build(root: Path, folder: Path, **differences: str) -> None:
    """Build the distributions of a source tree into a folder.

    :param differences: environment variables that this build has besides those of the process.
    """
    environ = {"SOURCE_DATE_EPOCH": "1577836800"} | os.environ | differences
    for project in (*((name,) for name in _PROJECTS), _FAMILIES):
        command = (sys.executable, "-m", "build", *project, "--outdir", str(folder.absolute()))
        subprocess.run(command, cwd=root, env=environ, check=True, stdout=subprocess.DEVNULL)


def main(dist: Path) -> None:
    """Build into a folder, which must be empty or absent, and check what was built."""
    build(_REPOSITORY, dist)
    with tempfile.TemporaryDirectory(prefix="build-") as name:
        scratch = Path(name)
        (source,) = dist.glob("wheelfit-*.tar.gz")
        with tarfile.open(source) as archive:
            archive.extractall(scratch, filter="data")
        umask = os.umask(0o077)
        try:
            build(scratch / source.name.removesuffix(".tar.gz"), scratch / "dist", TZ="Asia/Tokyo")
        finally:
            os.umask(umask)
        names = sorted({path.name for path in (*dist.iterdir(), *(scratch / "dist").iterdir())})
        _, different, missing = filecmp.cmpfiles(dist, scratch / "dist", names, shallow=False)
    if different or missing:
        sys.exit(f"two builds differ: {', '.join(different + missing)}")
    for command in (
        ("twine", "check", "--strict", *(str(dist / name) for name in names)),
        ("check_wheel_contents", "--ignore", _IGNORED, str(dist)),
        ("wheelfit", "check", "--full", "--strict", str(dist)),
    ):
        subprocess.run((sys.executable, "-m", *command), check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
