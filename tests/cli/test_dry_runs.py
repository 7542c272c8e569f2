"""Dry runs, which fail with the same code as the real command."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner, tree
from cli.workplace import Workplace
from projects.writing import write_project, write_sdist

from wheelfit.installation.locking import locked
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

Words = tuple[str | Path, ...]


@pytest.fixture
def setup(run: Runner, tmp_path: Path) -> Workplace:
    """Return folders with one package."""
    build_wheel(tmp_path / "wheels", "demo", "1.0", files={"demo.py": b"x = 1\n"})
    return Workplace(run, tmp_path)


def common_code(
    install: Callable[..., CommandResult], words: Words, setup: Workplace, code: int
) -> str:
    """Return the code with which the dry run and the real one fail."""
    before = tree(setup.target)
    dry = install(*words, "--dry-run", "--json", code=code).error
    real = install(*words, "--json", code=code).error
    assert dry == real
    assert tree(setup.target) == before
    return str(real["code"])


def test_file_of_another_package(setup: Workplace) -> None:
    """A file of another distribution is not overwritten."""
    setup.install("demo")
    build_wheel(setup.wheels, "other", "1.0", files={"demo.py": b"x = 2\n"})
    assert common_code(setup.install, ("other",), setup, 4) == "file-conflict"


def test_unowned_file(setup: Workplace) -> None:
    """An unowned file is not overwritten without --replace-files."""
    setup.target.mkdir()
    (setup.target / "demo.py").write_text("mine\n")
    assert common_code(setup.install, ("demo",), setup, 4) == "file-conflict"
    assert "Would install" in setup.install("demo", "--replace-files", "--dry-run").out
    setup.install("demo", "--replace-files")


def test_startup_file(setup: Workplace) -> None:
    """A local wheel with a startup file is refused."""
    build_wheel(setup.wheels, "early", "1.0", files={"early.pth": b"import early\n"})
    words = ("early", "--startup-files", "deny")
    assert common_code(setup.install, words, setup, 7) == "startup-file"


def test_damaged_wheel(setup: Workplace) -> None:
    """A damaged local wheel is refused."""
    wheel = build_wheel(setup.wheels, "bad", "1.0", files={"bad.py": b"x = 1\n" * 99})
    data = wheel.read_bytes()
    middle = data.index(b"bad.py") + 9
    wheel.write_bytes(data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])
    common_code(setup.install, ("bad",), setup, 4)


def test_wrong_hash_in_the_url(setup: Workplace) -> None:
    """A local wheel with a wrong hash is refused."""
    wheel = next(setup.wheels.glob("demo-*.whl"))
    url = f"{wheel.as_uri()}#sha256={'0' * 64}"
    assert common_code(setup.install, (url,), setup, 4) == "hash-mismatch"


def test_source_distribution(setup: Workplace, run: Runner) -> None:
    """A build without consent is refused."""
    write_sdist(setup.wheels, write_project(setup.folder / "source", "source"), "source")
    with RecordingIndex(setup.wheels) as index:
        words = ("-i", index.url, "--target", setup.target, "source", "--no-input")

        def install(*more: str | Path, code: int = 0) -> CommandResult:
            return run("install", *more, code=code)

        common_code(install, words, setup, 3)


def test_read_only_folder(setup: Workplace, read_only: Callable[[Path], None]) -> None:
    """A read-only environment is refused."""
    setup.target.mkdir()
    read_only(setup.target)
    assert common_code(setup.install, ("demo",), setup, 6) == "environment-read-only"


def test_file_in_place_of_a_folder(setup: Workplace) -> None:
    """A file in place of a scripts folder is refused."""
    setup.target.mkdir()
    (setup.target / "bin").write_text("mine\n")
    build_wheel(
        setup.wheels, "tool", "1.0", entry_points={"console_scripts": {"tool": "tool:main"}}
    )
    assert common_code(setup.install, ("tool",), setup, 6) == "environment-read-only"


def test_link_out_of_the_environment(setup: Workplace) -> None:
    """A link out of the environment is refused."""
    setup.target.mkdir()
    (setup.target / "bin").symlink_to(setup.folder)
    assert common_code(setup.install, ("demo",), setup, 1) == "link-refused"


@pytest.mark.integration
def test_busy_environment(setup: Workplace) -> None:
    """An environment that another process changes is refused."""
    setup.install("demo")
    build_wheel(setup.wheels, "other", "1.0")
    with locked(setup.target):
        assert common_code(setup.install, ("other",), setup, 6) == "environment-busy"


def test_offline_without_a_cached_wheel(setup: Workplace, run: Runner) -> None:
    """Offline, a wheel that is not cached is refused."""
    with RecordingIndex(setup.wheels) as index:
        where = ("-i", index.url, "--target", setup.target)

        def install(*words: str | Path, code: int = 0) -> CommandResult:
            return run("install", *where, *words, code=code)

        install("demo", "--dry-run")
        common_code(install, ("demo", "--offline"), setup, 5)
        install("demo")
    assert "nothing to do" in install("demo", "--offline", "--dry-run").out


@pytest.mark.skipif(sys.platform == "win32", reason="files with holes")
def test_no_space(setup: Workplace) -> None:
    """An installation larger than the free disk space is refused."""
    wheel = build_wheel(setup.wheels, "huge", "1.0", files={"huge.bin": b""})
    enlarge(wheel, "huge.bin")
    error = setup.install("huge", "--dry-run", "--link-mode", "copy", "--json", code=6).error
    assert error["message"].startswith("there is not enough space on the disk at ")


def enlarge(wheel: Path, name: str) -> None:
    """Set the size of an archive member to a petabyte."""
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.getinfo(name).file_size = 1 << 50
        archive.writestr("more.txt", b"")  # so that the directory is written anew
