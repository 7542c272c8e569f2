"""`wheelfit init`."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cli.running import Runner, tree
from sampled_cases import sampled

PROJECT = '# a project\r\n[project]\r\nname = "fast"\r\nversion = "1.0"\r\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the pyproject.toml of a project, in the current folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = folder / "pyproject.toml"
    path.write_bytes(PROJECT.encode())
    return path


def table(path: Path) -> dict[str, object]:
    """Return the variant table of a project."""
    found = tomllib.loads(path.read_text("utf-8"))["variant"]
    assert isinstance(found, dict)
    return found


def test_table_is_written_once(run: Runner, project: Path) -> None:
    """B-8: the table is written once, with a comment; the rest of the file is unchanged."""
    project.chmod(0o640)
    words = ("init", "--variant", "v3=x86_64 :: level :: v3", "--provider", "openmp")
    result = run(*words)
    assert "+x86_64.level" in result.out
    text = project.read_bytes().decode()
    assert text.startswith(PROJECT)
    assert text.count("\r\n") == text.count("\n")
    assert project.stat().st_mode & 0o777 == 0o640
    assert table(project) == {
        "default-priorities": {"namespace": ["openmp", "x86_64"]},
        "providers": {
            "openmp": {"static-properties": {"provider": ["gnu", "intel", "llvm"]}},
            "x86_64": {"requires": ["x86-64-variant-provider>=0.2.1,<1"]},
        },
        "variants": {"v3": {"x86_64": {"level": ["v3"]}}},
    }
    assert "is up to date" in run(*words).out
    assert project.read_bytes().decode() == text


def test_byte_order_mark(run: Runner, project: Path) -> None:
    """B-8: A byte order mark is removed, with a note."""
    project.write_bytes(b"\xef\xbb\xbf" + project.read_bytes())
    result = run("init", "--provider", "openmp")
    assert "byte order mark is removed" in result.err
    assert "builds the variants" not in result.err  # there are none yet
    assert "openmp" in str(table(project))


def test_project_without_pyproject(run: Runner, project: Path) -> None:
    """PEP 517: beside a ``setup.py``, which is not run, pyproject.toml names its backend."""
    project.unlink()
    script = project.with_name("setup.py")
    script.write_text("import numpy\nopen('executed', 'w').close()\n")
    words = ("init", "--variant", "v3=x86_64 :: level :: v3")
    assert '+requires = ["setuptools", "numpy"]' in run(*words, "--dry-run").out
    assert set(tree(project.parent)) == {"setup.py"}
    result = run(*words)
    assert "setup.py imports numpy" in result.err
    written = tomllib.loads(project.read_text())
    assert written["build-system"]["build-backend"] == "setuptools.build_meta:__legacy__"
    assert table(project)["variants"] == {"v3": {"x86_64": {"level": ["v3"]}}}
    assert set(tree(project.parent)) == {"setup.py", "pyproject.toml"}
    assert "is up to date" in run(*words).out


def test_all_options(run: Runner, project: Path) -> None:
    """B-20: every option writes its entries; removing the last provider removes the table."""
    run(
        *("init", "--provider", "acme=acme-plugin>=1,<2", "--plugin-api", "acme=acme.plugin:Acme"),
        *("--build-requires", "blas=blas-plugin", "--static", "flavour.taste=sweet, sour"),
        *("--static", "flavour.colour=red", "--first", "flavour"),
        *("--variant", "red = flavour::colour::red,flavour::taste::sour, acme::speed::fast"),
    )
    assert table(project) == {
        "default-priorities": {"namespace": ["flavour", "acme", "blas"]},
        "providers": {
            "acme": {"requires": ["acme-plugin>=1,<2"], "plugin-api": "acme.plugin:Acme"},
            "blas": {"build-requires": ["blas-plugin"]},
            "flavour": {
                "feature-order": ["taste", "colour"],
                "static-properties": {"taste": ["sweet", "sour"], "colour": ["red"]},
            },
        },
        "variants": {
            "red": {
                "flavour": {"colour": ["red"], "taste": ["sour"]},
                "acme": {"speed": ["fast"]},
            }
        },
    }
    run("init", "--remove-variant", "red", "--remove-provider", "acme", "--remove-provider", "blas")
    assert list(tomllib.loads(project.read_text())["variant"]["providers"]) == ["flavour"]
    run("init", "--remove-provider", "flavour")
    assert project.read_bytes().decode() == PROJECT


def test_dry_run(run: Runner, project: Path) -> None:
    """``--dry-run`` shows the change as a diff, also in JSON, and writes nothing."""
    report = run("init", "--dry-run", "--json", "--provider", "nvidia").object
    assert report["changed"] is True
    assert report["written"] is False
    assert '+requires = ["nvidia-variant-provider>=0.0.1,<1"]' in report["diff"]
    assert project.read_bytes().decode() == PROJECT


def test_explain(run: Runner, project: Path) -> None:
    """``--explain`` lists every provider with its features, values and an example."""
    stdout = run("init", "--explain").out
    assert "sm_arch, several at once: 50_real" in stdout
    assert "as x86_64 :: level :: v3" in stdout
    named = {
        namespace["namespace"]
        for namespace in run("init", "--explain", "--json").object["namespaces"]
    }
    assert {"nvidia", "x86_64", "openmp", "abi_dependency"} <= named
    assert project.read_bytes().decode() == PROJECT


@pytest.mark.parametrize(
    ("words", "code", "reference"),
    [
        (["--provider", "acme"], 2, "usage"),
        (["--provider", "Acme=x"], 1, "invalid-property"),
        (["--provider", "acme=no requirement"], 1, "invalid-requirement"),
        (["--provider", "acme="], 2, "usage"),
        (["--plugin-api", "acme=a:b"], 2, "usage"),
        (["--static", "acme=a"], 2, "usage"),
        (["--static", "acme.speed="], 2, "usage"),
        (["--variant", "v3=x86_64 :: level"], 1, "invalid-property"),
        (["--variant", "V3=x86_64 :: level :: v3"], 1, "invalid-label"),
        (["--variant", "v3="], 2, "usage"),
        (["--variant", "v3=x86_64::level::v9, nvidia::sm::1"], 1, "invalid-project"),
        (["--variant", "v3=x86_64::level::v2,x86_64::level::v3"], 1, "invalid-project"),
        (["--variant", "v3=acme::speed::fast"], 2, "usage"),
        (["--first", "acme"], 2, "usage"),
        (["--variant", "null=x86_64::level::v2"], 1, "invalid-document"),
        (["--remove-provider", "nvidia"], 1, "invalid-project"),
        ([], 2, "usage"),
    ],
)
def test_invalid_options(
    run: Runner, project: Path, words: list[str], code: int, reference: str
) -> None:
    """Invalid options are errors, and the file is unchanged."""
    before = tree(project.parent)
    assert run("init", *words, "--json", code=code).error["code"] == reference
    assert tree(project.parent) == before


@pytest.mark.parametrize(
    "content",
    [b"[project", b"\xff\xfe", b"[variant]\nproviders = 1\n", b"a = 1\na = 2\n"],
)  # fmt: skip
def test_invalid_files(run: Runner, project: Path, content: bytes) -> None:
    """A file that is not TOML, or has a faulty table, is refused and unchanged."""
    project.write_bytes(content)
    result = run("init", "--provider", "x86_64", code=1)
    assert "pyproject.toml" in result.err
    assert project.read_bytes() == content


def test_read_only_and_missing_files(run: Runner, project: Path, tmp_path: Path) -> None:
    """A read-only file and a missing one are errors."""
    project.chmod(0o444)
    assert "read-only" in run("init", "--provider", "x86_64", code=1).err
    assert project.read_bytes().decode() == PROJECT
    assert "cannot be read" in run("init", tmp_path, "--provider", "x86_64", code=1).err


@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
@pytest.mark.parametrize("agrees", sampled(["y", "n"], fast={0}))
def test_interactive(project: Path, agrees: str) -> None:
    """In a terminal, without options, it asks for the variants and for confirmation."""
    controller, terminal = os.openpty()
    answers = f"x86_64 openmp\nv3\nx86_64 :: level :: v3\n\n{agrees}\n"
    os.write(controller, answers.encode())
    completed = subprocess.run(
        [sys.executable, "-m", "wheelfit", "init"],
        stdin=terminal,
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(controller)
    os.close(terminal)
    assert completed.returncode == 0, completed.stderr
    assert "x86_64: the level of an x86-64 processor" in completed.stdout
    assert "Write it? [y/N]" in completed.stderr
    if agrees == "y":
        assert table(project)["variants"] == {"v3": {"x86_64": {"level": ["v3"]}}}
    else:
        assert project.read_bytes().decode() == PROJECT
        assert "nothing is written" in completed.stdout
