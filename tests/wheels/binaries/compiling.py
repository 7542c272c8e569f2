"""A small library in several versions, and something that uses it, made by a real compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from wheelfit.testing.wheels import build_wheel

FAST = {
    "1.0": "int fast_new(struct point *p) { return p->x; }\nint fast_gone(void) { return 1; }\n",
    "1.1": "int fast_new(struct point *p) { return p->x; }\nint fast_gone(void) { return 1; }\n"
    "int fast_scale(int by) { return by; }\n",
    "1.2": "int fast_new(struct point *p) { return p->x; }\n"
    "int fast_scale(int by) { return by; }\n",
}
POINT = "struct point { int x; int y; };\n"
USER = """
struct point { int x; int y; };
int fast_new(struct point *);
int fast_scale(int);
int use(void) { struct point p = {1, 2}; return fast_new(&p) + fast_scale(2); }
"""


class Workshop:
    """Compile libraries in a folder.

    :param folder: where they go, each version in a folder of its own.
    """

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            pytest.skip("needs a C compiler")
        self._compiler = compiler
        self._folder = folder

    def library(
        self, version: str, source: str, *, soname: str = "libfast.so.1", debug: bool = False
    ) -> Path:
        """Compile one version of the library."""
        place = self._folder / f"fast-{version}"
        place.mkdir()
        path = place / soname
        return self._compile(path, source, f"-Wl,-soname,{soname}", debug=debug)

    def user(self, library: Path, source: str = USER, *, debug: bool = False) -> Path:
        """Compile what uses a version of the library."""
        return self._compile(self._folder / "libuser.so", source, str(library), debug=debug)

    def _compile(self, path: Path, source: str, *options: str, debug: bool) -> Path:
        text = path.with_suffix(".c")
        text.write_text(source)
        debugging = ["-g"] if debug else []
        command = [self._compiler, *debugging, "-shared", "-fPIC", "-o", str(path), str(text)]
        subprocess.run([*command, *options], check=True)
        return path


def versions_of_fast(workshop: Workshop, *, debug: bool = False) -> dict[str, Path]:
    """Compile all versions: 1.1 adds a symbol, 1.2 drops one, 2.0 is called otherwise."""
    found = {
        version: workshop.library(version, POINT + source, debug=debug)
        for version, source in FAST.items()
    }
    found["2.0"] = workshop.library("2.0", POINT + FAST["1.2"], soname="libfast.so.2", debug=debug)
    return found


def as_wheel(folder: Path, name: str, version: str, library: Path, tag: str) -> Path:
    """Put a library into a wheel."""
    files = {f"{name}/{library.name}": library.read_bytes()}
    return build_wheel(folder, name, version, files=files, tag=tag)
