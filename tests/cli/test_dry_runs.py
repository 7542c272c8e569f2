"""A dry run refuses what the real one would refuse, with the same code."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner, tree
from projects.writing import write_project, write_sdist

from wheelfit.installation.locking import locked
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

Words = tuple[str | Path, ...]


class Place:
    """A folder of wheels, and one to install into."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.wheels = folder / "wheels"
        self.target = folder / "target"
        self.folder = folder

    def install(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Install from the folder of wheels."""
        sources = ("--no-index", "-f", self.wheels, "--target", self.target)
        return self._run("install", *sources, *words, code=code)


@pytest.fixture
def place(run: Runner, tmp_path: Path) -> Place:
    """Offer one package."""
    build_wheel(tmp_path / "wheels", "demo", "1.0", files={"demo.py": b"x = 1\n"})
    return Place(run, tmp_path)


def refused(install: Callable[..., CommandResult], words: Words, place: Place, code: int) -> str:
    """Return the reference code with which a dry run and a real one are refused."""
    before = tree(place.target)
    dry = install(*words, "--dry-run", "--json", code=code).error
    real = install(*words, "--json", code=code).error
    assert dry == real
    assert tree(place.target) == before
    return str(real["code"])


def test_a_file_of_another(place: Place) -> None:
    """Files that another distribution owns are not overwritten."""
    place.install("demo")
    build_wheel(place.wheels, "other", "1.0", files={"demo.py": b"x = 2\n"})
    assert refused(place.install, ("other",), place, 4) == "file-conflict"


def test_a_file_of_nobody(place: Place) -> None:
    """Nor those that nobody owns, unless it is allowed."""
    place.target.mkdir()
    (place.target / "demo.py").write_text("mine\n")
    assert refused(place.install, ("demo",), place, 4) == "file-conflict"
    assert "Would install" in place.install("demo", "--replace-files", "--dry-run").out


def test_a_startup_file(place: Place) -> None:
    """A wheel at hand is looked at for files that run whenever Python starts."""
    build_wheel(place.wheels, "early", "1.0", files={"early.pth": b"import early\n"})
    words = ("early", "--startup-files", "deny")
    assert refused(place.install, words, place, 7) == "startup-file"


def test_a_wheel_that_is_not_sound(place: Place) -> None:
    """A wheel at hand is verified."""
    wheel = build_wheel(place.wheels, "bad", "1.0", files={"bad.py": b"x = 1\n" * 99})
    data = wheel.read_bytes()
    middle = data.index(b"bad.py") + 9
    wheel.write_bytes(data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])
    refused(place.install, ("bad",), place, 4)


def test_a_hash(place: Place) -> None:
    """A wheel that was named must be what was promised."""
    wheel = next(place.wheels.glob("demo-*.whl"))
    url = f"{wheel.as_uri()}#sha256={'0' * 64}"
    assert refused(place.install, (url,), place, 4) == "hash-mismatch"


def test_a_hash_on_the_page(place: Place) -> None:
    """What no allowed hash fits is known from pages alone."""
    file = place.folder / "requirements.txt"
    file.write_text(f"demo==1.0 --hash=sha256:{'0' * 64}\n")
    assert refused(place.install, ("-r", file), place, 4) == "hash-mismatch"


def test_hashes_are_missing(place: Place) -> None:
    """So is that a hash is required."""
    refused(place.install, ("demo", "--require-hashes"), place, 1)


def test_a_source(place: Place, run: Runner) -> None:
    """Nothing is built without consent."""
    write_sdist(place.wheels, write_project(place.folder / "source", "source"), "source")
    with RecordingIndex(place.wheels) as index:
        words = ("-i", index.url, "--target", place.target, "source", "--no-input")

        def install(*more: str | Path, code: int = 0) -> CommandResult:
            return run("install", *more, code=code)

        refused(install, words, place, 3)


@pytest.mark.integration
def test_a_package_manager(place: Place, run: Runner, managed: Path) -> None:
    """PEP 668: not even a plan is made for what belongs to another package manager."""
    words = ("--no-index", "-f", place.wheels, "--python", managed, "demo")

    def install(*more: str | Path, code: int = 0) -> CommandResult:
        return run("install", *more, code=code)

    assert refused(install, words, place, 7) == "externally-managed"
    assert "Would install" in run("install", *words, "--break-system-packages", "--dry-run").out
    for more in ((), ("--dry-run",)):
        error = run("uninstall", "--python", managed, "here", *more, "--json", code=7).error
        assert error["code"] == "externally-managed"


def test_a_folder_that_cannot_be_written(place: Place, read_only: Callable[[Path], None]) -> None:
    """A read-only environment is found out before anything is asked."""
    place.target.mkdir()
    read_only(place.target)
    assert refused(place.install, ("demo",), place, 6) == "environment-read-only"


def test_a_file_in_the_place_of_a_folder(place: Place) -> None:
    """So is one that is in the way."""
    place.target.mkdir()
    (place.target / "bin").write_text("mine\n")
    build_wheel(
        place.wheels, "tool", "1.0", entry_points={"console_scripts": {"tool": "tool:main"}}
    )
    assert refused(place.install, ("tool",), place, 6) == "environment-read-only"


def test_a_link_that_leads_out(place: Place) -> None:
    """And a link that leads out of the environment."""
    place.target.mkdir()
    (place.target / "bin").symlink_to(place.folder)
    assert refused(place.install, ("demo",), place, 1) == "link-in-the-way"


@pytest.mark.integration
def test_an_environment_that_is_in_use(place: Place) -> None:
    """Another process changes it, and does not finish in time."""
    place.install("demo")
    build_wheel(place.wheels, "other", "1.0")
    with locked(place.target):
        assert refused(place.install, ("other",), place, 6) == "environment-busy"


def test_no_copy_offline(place: Place, run: Runner) -> None:
    """A wheel that nobody has a copy of cannot be installed offline, whatever pages are kept."""
    with RecordingIndex(place.wheels) as index:
        where = ("-i", index.url, "--target", place.target)

        def install(*words: str | Path, code: int = 0) -> CommandResult:
            return run("install", *where, *words, code=code)

        install("demo", "--dry-run")
        refused(install, ("demo", "--offline"), place, 5)
        install("demo")
    assert "nothing to do" in install("demo", "--offline", "--dry-run").out


@pytest.mark.skipif(sys.platform == "win32", reason="files with holes")
def test_no_space(place: Place) -> None:
    """More than the disk has left is refused before anything is unpacked."""
    wheel = build_wheel(place.wheels, "huge", "1.0", files={"huge.bin": b""})
    enlarge(wheel, "huge.bin")
    error = place.install("huge", "--dry-run", "--link-mode", "copy", "--json", code=6).error
    assert error["message"].startswith("there is not enough space on the disk at ")


def enlarge(wheel: Path, name: str) -> None:
    """Say in the directory of an archive that a member has a petabyte."""
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.getinfo(name).file_size = 1 << 50
        archive.writestr("more.txt", b"")  # so that the directory is written anew
