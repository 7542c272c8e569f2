"""What the guides and the template tell authors to write works when it is written."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import pytest
from python_runs import RUNTIME_SOURCE, plain_environ, run_python
from runtime.declaring import declare
from runtime.example_builds import EXAMPLES

from wheelfit_runtime.loader.declaration_files import FOLDER
from wheelfit_runtime.loader.declarations import scan
from wheelfit_runtime.platforms.system_view import architecture_of_this_process

SPLIT = EXAMPLES.parent / "docs" / "how-to" / "split-a-package.md"
TEMPLATE = EXAMPLES / "loader-c-extension"
LEVEL = "WHEELFIT_OVERRIDE_X86_64_LEVEL"

x86 = pytest.mark.skipif(architecture_of_this_process() != "x86_64", reason="it is about AVX2")


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}$\n(.*?)^```$", SPLIT.read_text(), re.MULTILINE | re.DOTALL)


def _write(folder: Path, **modules: str) -> None:
    for name, text in modules.items():
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text)


def _run(folder: Path, code: str, level: str) -> str:
    path = os.pathsep.join([str(folder), str(RUNTIME_SOURCE)])
    environ = {**plain_environ(), "PYTHONPATH": path, LEVEL: level}
    completed = run_python("-W", "ignore", "-c", code, environ=environ)
    return (completed.stdout + completed.stderr).strip()


@x86
def test_two_lines(tmp_path: Path) -> None:
    """The declarations and the two lines of the guide choose, and say what to install."""
    load = next(block for block in _blocks("python") if "import load" in block)
    _write(tmp_path, spam=load, spam_avx2="def dot(): return 'avx2'\n")
    for number, block in enumerate(_blocks("json")):
        declare(tmp_path, f"{number}.json", block)
    assert _run(tmp_path, "import spam; print(spam.dot())", "v3,v2,v1") == "avx2"
    refused = _run(tmp_path, "import spam", "v2,v1")
    shown = refused[refused.index("wheelfit_runtime.errors.NoImplementation") :]
    assert f"```\n{shown}\n```" in SPLIT.read_text()


@x86
def test_a_table(tmp_path: Path) -> None:
    """The table of the guide chooses among modules of one package."""
    (select,) = (block for block in _blocks("python") if "import select" in block)
    _write(tmp_path, spam=select)
    for name in ("avx512", "avx2", "generic"):
        (tmp_path / "spam" / f"_{name}.py").write_text(f"dot = {name!r}\n")
    for level, which in (("v4,v3,v2,v1", "avx512"), ("v3,v2,v1", "avx2"), ("v1", "generic")):
        assert _run(tmp_path, "import spam; print(spam.dot)", level) == which


def test_the_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy of the example has the new name everywhere, and declares what can be imported."""
    runpy.run_path(str(TEMPLATE / "copy_as.py"))["main"]("ham", str(tmp_path / "ham"))
    assert "ham-avx2" in capsys.readouterr().out
    files = [path for path in (tmp_path / "ham").rglob("*") if path.is_file()]
    for path in files:
        assert "sums" not in path.relative_to(tmp_path).as_posix()
        assert "sums" not in path.read_text().lower().replace("sums of many numbers", "")
    top = tmp_path / "ham"
    (top / "implementations" / "declarations").rename(top / "implementations" / FOLDER)
    found = scan([str(top / "implementations"), str(top / "ham" / "src")])
    assert not found.problems
    builds = ["avx2", "avx512", "generic"]
    assert [
        (implementation.group, implementation.module) for implementation in found.implementations
    ] == [("ham", f"ham_{build}") for build in builds]
    assert sorted(one.name for one in found.known["ham"]) == builds
    setup = (top / "implementations" / "setup.py").read_text()
    assert "HAM_BUILD" in setup
    assert 'f"ham_{build}"' in setup
