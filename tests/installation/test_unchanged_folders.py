"""Claims about installing anew what is there already: what is the same file stays in its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from installation.bench import Install, Tree
from sampled_cases import sampled

from wheelfit.installation.apply import apply
from wheelfit.installation.environment import Environment, open_environment
from wheelfit.installation.plan import plan
from wheelfit.resolution.resolution import Pin, Resolution
from wheelfit.sources.cache import Store
from wheelfit.sources.wheel_store import WheelStore
from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.linking import Linker, LinkMode
from wheelfit.wheels.unpacking import VerifiedFile

if TYPE_CHECKING:
    from wheelfit.wheels.record import RecordRow
    from wheelfit.wheels.unpacking import FindVerified

FILES = {
    "demo/__init__.py": "import demo.part\n",
    "demo/part/__init__.py": "",
    "demo/part/x.py": "x = 1\n",
    "other/__init__.py": "other = True\n",
    "common/demo.py": "",
    "common/deep/demo.py": "",
    "alone.py": "",
    "demo-1.data/data/share/demo/text": "text\n",
    "demo-1.data/scripts/tool": "#!/bin/sh\n",
}
ONE_OF_EACH = {
    "demo": "demo/__init__.py",
    "demo/part": "demo/part/x.py",
    "other": "other/__init__.py",
    "common/deep": "common/deep/demo.py",
    "share": "../../../share/demo/text",
}
"""By folder that may stay as it is, a file in it."""


@pytest.fixture
def wheels(home: Path) -> list[Path]:
    """Return the wheels of a project, and of another one that has a folder with it."""
    demo = build_wheel(home, "demo", "1", files=FILES, executables=["demo-1.data/scripts/tool"])
    near = {"near/__init__.py": "", "common/near.py": ""}
    return [demo, build_wheel(home, "near", "1", files=near)]


def looks(environment: Environment) -> dict[str, object]:
    """Return for each folder what changes when a file in it is linked, or unlinked, anew."""
    found: dict[str, object] = {}
    for folder, name in ONE_OF_EACH.items():
        path = environment.schemes.purelib / name
        status = path.lstat() if path.exists() else None
        found[folder] = status and (status.st_ino, status.st_ctime_ns)
    return found


def edit(path: Path) -> None:
    """Change a file in place, as some editors do, and with it what it is linked from."""
    with path.open("a") as file:
        file.write("# edited\n")


def replaced(path: Path) -> None:
    """Change a file as most editors do."""
    content = path.read_text()
    path.unlink()
    path.write_text(content)


def lost_row(site: Path) -> None:
    """Let RECORD forget a file."""
    record = site / "demo-1.dist-info/RECORD"
    rows = record.read_text().splitlines(keepends=True)
    record.unlink()
    record.write_text("".join(row for row in rows if "demo/part/x.py" not in row))


def link_folder(site: Path) -> None:
    """Put a link to it into the place of a folder."""
    (site / "other").rename(site / "elsewhere")
    (site / "other").symlink_to("elsewhere")


def write(path: Path) -> None:
    """Write a file that nobody knows."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("")


ALL, DEMO = set(ONE_OF_EACH), {"demo", "demo/part"}
ACCIDENTS: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "nothing": (lambda site: site, set()),
    "edited in place": (lambda site: edit(site / "demo/part/x.py"), ALL),
    "replaced": (lambda site: replaced(site / "demo/part/x.py"), DEMO),
    "removed": (lambda site: (site / "demo/part/__init__.py").unlink(), DEMO),
    "removed in the upper one": (lambda site: (site / "demo/__init__.py").unlink(), DEMO),
    "unrecorded": (lost_row, ALL - {"demo/part"}),  # which has the right content already
    "a link": (link_folder, {"other"}),
    "bytecode": (lambda site: write(site / "demo/part/__pycache__/x.cpython-311.pyc"), DEMO),
    "strange bytecode": (lambda site: write(site / "demo/__pycache__/y.cpython-311.pyc"), {"demo"}),
    "a strange file": (lambda site: write(site / "demo/part/strange.py"), DEMO),
    "a strange folder": (lambda site: write(site / "demo/strange/strange.py"), {"demo"}),
    "an empty folder": (lambda site: (site / "other/empty").mkdir(), {"other"}),
    "in a common folder": (lambda site: replaced(site / "common/deep/demo.py"), {"common/deep"}),
    "no folder": (lambda site: shutil.rmtree(site / "demo/part"), DEMO),
}


@pytest.mark.parametrize(
    ("accident", "touched"), sampled(ACCIDENTS.values(), fast=range(0, 100, 3)), ids=ACCIDENTS
)
def test_result(
    environment: Environment,
    wheels: list[Path],
    again: Install,
    tree: Tree,
    tmp_path: Path,
    accident: Callable[[Path], object],
    touched: set[str],
) -> None:
    """What was changed is put right, all else is let alone, and the result is the same."""
    again(environment, *wheels)
    site = environment.schemes.purelib
    accident(site)
    # No file of a copy is a link, so everything in it is installed anew.
    copy = tmp_path / "copy"
    shutil.copytree(environment.schemes.data, copy, symlinks=True)
    before = looks(environment)
    again(environment, wheels[0])
    after = looks(environment)
    assert {folder for folder in ALL if before[folder] != after[folder]} == touched
    again(open_environment(str(copy), environ=os.environ), wheels[0])
    assert tree(environment.schemes.data) == tree(copy)
    assert (site / "demo/part/x.py").read_text() == FILES["demo/part/x.py"]


@pytest.mark.parametrize("case", ["copy", "reflink", "bytecode", "umask"])
def test_the_long_way(
    environment: Environment, wheels: list[Path], again: Install, case: str
) -> None:
    """What would not be a link is written, and with bytecode nothing stays as it is."""
    again(environment, *wheels)
    module = environment.schemes.purelib / "demo/part/x.py"
    before = module.stat().st_ino
    folder = module.parent.stat().st_ino
    old = os.umask(0o027 if case == "umask" else 0o022)
    try:
        options: dict[str, object] = {}
        if case in {"copy", "reflink"}:
            options["linker"] = Linker(LinkMode(case))
        again(environment, *wheels, compile_bytecode=case == "bytecode", **options)
    finally:
        os.umask(old)
    assert module.parent.stat().st_ino != folder
    assert (module.stat().st_ino == before) == (case == "bytecode")
    assert (module.stat().st_mode & 0o077 == 0o040) == (case == "umask")
    assert (module.parent / "__pycache__").is_dir() == (case == "bytecode")


def test_shared_files(environment: Environment, home: Path, again: Install, tree: Tree) -> None:
    """A file that two projects have is there once more when both are installed anew."""
    files = {"one": "common/__init__.py", "two": "common/__init__.py"}
    paths = [
        build_wheel(home, name, "1", files={path: "", f"{name}/__init__.py": name})
        for name, path in files.items()
    ]
    again(environment, *paths)
    before = tree(environment.schemes.purelib)
    for some in (paths, paths[:1], paths[1:], paths[::-1]):
        again(environment, *some)
        assert tree(environment.schemes.purelib) == before


def test_siblings(
    environment: Environment, home: Path, pin: Callable[..., Pin], tmp_path: Path
) -> None:
    """Of another build whose files are linked from the first, only folders that differ come."""
    first = build_wheel(
        home, "demo", "1", files={"demo/a.py": "1\n", "same/b.py": "", "same/c": ""}
    )
    second = build_wheel(
        home, "demo", "2", files={"demo/a.py": "2\n", "same/b.py": "", "same/c": ""}
    )
    store = WheelStore(Store(tmp_path / "cache"))

    def install(path: Path, find_verified: FindVerified | None = None) -> None:
        made = pin(path)
        wheel = store.unpacked(
            path,
            made.filename,
            made.file.hashes["sha256"],
            tmp_path,
            where="here",
            find_verified=find_verified,
        )
        found = plan(Resolution((made,)), environment.installed(), reinstall=True)
        apply(found, environment, {made.name: wheel})

    install(first)
    site = environment.schemes.purelib
    before = {name: (site / name).stat().st_ino for name in ("demo", "same")}

    def known(_: object, row: RecordRow) -> VerifiedFile | None:
        path = site / row.path
        if not row.path.startswith("same/"):
            return None
        return VerifiedFile(str(path), path.stat().st_mtime_ns)

    install(second, known)
    after = {name: (site / name).stat().st_ino for name in before}
    assert [name for name in before if before[name] == after[name]] == ["same"]
    assert (site / "demo/a.py").read_text() == "2\n"
    assert sorted(path.name for path in site.iterdir()) == ["demo", "demo-2.dist-info", "same"]
    assert "same/b.py,sha256=" in (site / "demo-2.dist-info/RECORD").read_text()
