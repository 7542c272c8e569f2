"""``wheelfit freeze``: an environment as requirements that recreate it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

BLAS = {"blas": {"library": ["openblas", "mkl"]}}
DOCUMENT = release_document(
    {
        "null": {},
        "mkl": {"blas": {"library": ["mkl"]}},
        "open": {"blas": {"library": ["openblas"]}},
    },
    static=BLAS,
    providers={},
    namespaces=["blas"],
)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a project with variants and plain projects."""
    place = tmp_path / "index"
    build_release(place, "fast", "2.0", DOCUMENT, (None, "null", "mkl", "open"), requires=["plain"])
    build_wheel(place, "plain", "1.0")
    build_wheel(place, "other", "3.0+local.1")
    with RecordingIndex(place) as server:
        yield server


def test_round_trip(
    run: Runner, index: RecordingIndex, environment: Callable[[], Path], tmp_path: Path
) -> None:
    """An environment installed from the output has the same output, including variants."""
    first, second = environment(), environment()
    url = index.file_url("other-3.0+local.1-py3-none-any.whl")
    sources = ["-i", index.url]
    run("install", "--python", first, *sources, "--label", "fast=mkl", "fast", f"other @ {url}")
    result = run("freeze", "--python", first)
    lines = result.out.splitlines()
    assert lines[0] == "fast==2.0  # wheelfit: label mkl"
    assert lines[1].startswith("other @ http://127.0.0.1:")
    assert "#sha256=" in lines[1]
    assert lines[2:] == ["plain==1.0"]
    packages = run("freeze", "--python", first, "--json").object["packages"]
    assert [package["label"] for package in packages] == ["mkl", None, None]
    file = tmp_path / "requirements.txt"
    file.write_text(result.out)
    run("install", "--python", second, *sources, "-r", file)
    assert run("freeze", "--python", second).out == result.out
    # The best build, were it not for the comment.
    file.write_text("fast\n")
    run("install", "--python", second, *sources, "-r", file, "--force-reinstall")
    assert run("freeze", "--python", second).out != result.out


def test_constraints(
    run: Runner, index: RecordingIndex, environment: Callable[[], Path], tmp_path: Path
) -> None:
    """The output as constraints chooses the same build of a dependency."""
    file = tmp_path / "constraints.txt"
    file.write_text("fast==2.0 # wheelfit: label mkl\nunneeded==1.0  # wheelfit: label zzz\n")
    python = environment()
    run("install", "--python", python, "-i", index.url, "-c", file, "fast")
    assert run.labels("--python", python) == {"fast": "mkl", "plain": None}


def test_label_option(
    run: Runner, index: RecordingIndex, environment: Callable[[], Path], tmp_path: Path
) -> None:
    """``--label`` overrides the label in a file."""
    file = tmp_path / "requirements.txt"
    file.write_text("fast==2.0 # wheelfit: label mkl\n")
    python = environment()
    run("install", "--python", python, "-i", index.url, "-r", file, "--label", "fast=open")
    assert "label open" in run("freeze", "--python", python).out


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("fast # wheelfit: label UPPER", "'UPPER' is not a valid variant label"),
        ("fast # wheelfit: lable open", "unknown comment"),
        ("fast # wheelfit: label mkl\nfast>1  # wheelfit: label open", "two lines name the labels"),
    ],
)
def test_invalid_comments(
    run: Runner, index: RecordingIndex, environment: Callable[[], Path], tmp_path: Path, line: str,
    part: str,
) -> None:  # fmt: skip
    """An invalid comment for wheelfit is an error with its line."""
    file = tmp_path / "requirements.txt"
    file.write_text(f"# wheelfit is a tool\n{line}\n")
    words: list[str | Path] = ["-i", index.url, "-r", file, "--json"]
    error = run("install", "--python", environment(), *words, code=1).error
    assert part in error["message"]
    assert error["where"].startswith(f"{file}:")


def test_selected_packages(
    run: Runner, index: RecordingIndex, environment: Callable[[], Path]
) -> None:
    """Pip is omitted as by pip, and so are named packages; ``--all`` includes pip."""
    python = environment()
    run("install", "--python", python, "-i", index.url, "plain")
    library = next(python.parent.parent.glob("lib/python3*/site-packages"))
    for name, url, info in (
        ("pip", None, None),
        ("here", "file:///tmp/here", {"dir_info": {"editable": True}}),
        (
            "from-git",
            "https://host/x.git",
            {"vcs_info": {"vcs": "git", "commit_id": "abc"}, "subdirectory": "sub"},
        ),
        ("from-folder", "file:///tmp/x", {"dir_info": {}}),
        ("old-record", "https://host/a.zip", {"archive_info": {"hash": "sha256=12"}}),
    ):
        folder = library / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        if info is not None:
            (folder / "direct_url.json").write_text(json.dumps({"url": url, **info}))
    frozen = [
        "from-folder @ file:///tmp/x",
        "from-git @ git+https://host/x.git@abc#subdirectory=sub",
        "-e file:///tmp/here",
        "old-record @ https://host/a.zip#sha256=12",
        "plain==1.0",
    ]
    assert run("freeze", "--python", python).out.splitlines() == frozen
    with_pip = run("freeze", "--python", python, "--all").out.splitlines()
    assert sorted(with_pip) == sorted([*frozen, "pip==1.0"])
    words = ["--exclude", "Plain", "--exclude-editable", "--local", "--json"]
    packages = run("freeze", "--python", python, *words).object["packages"]
    assert [package["name"] for package in packages] == ["from-folder", "from-git", "old-record"]


def test_plain_wheel_by_option(
    run: Runner, index: RecordingIndex, environment: Callable[[], Path]
) -> None:
    """If variants were excluded, a comment has the option."""
    python = environment()
    run("install", "--python", python, "-i", index.url, "--no-variants", "fast")
    line = run("freeze", "--python", python).out.splitlines()[0]
    assert line == "fast==2.0  # installed with --no-variants"
