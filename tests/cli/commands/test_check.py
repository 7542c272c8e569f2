"""``wheelfit check``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner
from sampled_cases import sampled

from wheelfit.cli.render.check import FAULTS, INCOMPLETE
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document, single_label_document

LIBRARY = {"blas": {"library": ["mkl"]}}
DOCUMENT = release_document({"mkl": LIBRARY, "null": {}}, static=LIBRARY)
INDEX_FILE = "fast-1.0-variants.json"
PARTS = "'blas :: library' has 2 parts; items of variant_properties have 3"
SHAPES = ("namespace", "namespace :: feature or namespace :: feature :: value")


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """Write a sound release."""
    folder = tmp_path / "dist"
    for label in (None, "mkl", "null"):
        build_wheel(folder, "fast", "1.0", label=label, document=DOCUMENT if label else None)
    (folder / INDEX_FILE).write_text(json.dumps(DOCUMENT, indent=1))
    return folder


@pytest.fixture
def faulty_dist(dist: Path) -> Path:
    """Add an error to the index file and a warning to a wheel."""
    changed: Any = json.loads((dist / INDEX_FILE).read_text())
    changed["variants"]["mkl"]["blas"]["library"] = ["mkl", "mkl"]
    (dist / INDEX_FILE).write_text(json.dumps(changed, indent=1))
    requires = ['a; "blas :: library" in variant_properties']
    build_wheel(dist, "fast", "1.0", label="mkl", document=DOCUMENT, requires=requires)
    return dist


def test_sound_release(dist: Path, run: Runner) -> None:
    """F-131: A sound release exits with 0 and one line."""
    result = run("check", dist)
    assert result.out == "no faults in 3 wheels, 1 index file, 1 release\n"
    assert result.err == ""


@pytest.mark.parametrize("name", ["pyproject.toml", "variant.json"])
def test_a_metadata_file_without_faults(tmp_path: Path, run: Runner, name: str) -> None:
    """The summary counts files that are checked by themselves."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'fast'\nversion = '1.0'\n")
    (tmp_path / "variant.json").write_text(json.dumps(single_label_document(DOCUMENT, "mkl")))
    assert run("check", tmp_path / name).out == "no faults in 1 metadata file\n"


def test_text_report(faulty_dist: Path, run: Runner) -> None:
    """F-131: all faults are listed by file, with place, rule and remedy."""
    result = run("check", faulty_dist, code=FAULTS)
    assert result.out.splitlines() == [
        str(faulty_dist / "fast-1.0-py3-none-any-mkl.whl"),
        "  warning marker-never-matches (F-106)  METADATA",
        f"          'a; \"blas :: library\" in variant_properties': {PARTS}",
        f"          → write {', '.join(SHAPES)}, in lower case",
        "",
        str(faulty_dist / INDEX_FILE),
        "  error   bad-values (F-23)  line 20, variants.mkl.blas.library",
        "          a value is listed more than once",
        "          → sort the list by code point and name each value once",
        "",
        "1 error, 1 warning in 3 wheels, 1 index file, 1 release",
    ]


def test_exit_codes(faulty_dist: Path, run: Runner) -> None:
    """Errors decide the exit code, warnings with ``--strict``, unchecked targets before both."""
    run("check", faulty_dist, "--ignore", "bad-values")
    run("check", faulty_dist, "--ignore", "bad-values", "--strict", code=FAULTS)
    both = ["--ignore", "bad-values", "--ignore", "marker-never-matches"]
    run("check", faulty_dist, *both, "--strict")
    result = run("check", faulty_dist, faulty_dist / "gone.whl", code=INCOMPLETE)
    assert "bad-values" in result.out
    assert "not checked: the file or folder does not exist [file-problem]" in result.out
    assert result.out.endswith("; 1 target could not be checked\n")


def test_json_report(faulty_dist: Path, run: Runner) -> None:
    """``--json`` has the same findings."""
    words = ("check", faulty_dist, "--json", "--profile", "uv", "--full")
    report = run(*words, faulty_dist / "gone.whl", code=INCOMPLETE).object
    assert report["checked"] == {"wheels": 3, "index_files": 1, "releases": 1}
    assert report["summary"] == {"errors": 2, "warnings": 1, "notes": 0}
    assert (report["profiles"], report["full"]) == (["uv"], True)
    assert report["findings"][-1] == {
        "severity": "error",
        "code": "bad-values",
        "rule": "F-23",
        "where": str(faulty_dist / INDEX_FILE),
        "member": None,
        "path": "variants.mkl.blas.library",
        "line": 20,
        "message": "a value is listed more than once",
        "remedy": "sort the list by code point and name each value once",
    }
    assert [one["code"] for one in report["unchecked"]] == ["file-problem"]
    assert run(*words, code=FAULTS).object["unchecked"] == []


def test_sarif_report(faulty_dist: Path, run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--sarif`` prints the log; with ``--output`` the text is printed too."""
    monkeypatch.chdir(faulty_dist.parent)
    log = json.loads(run("check", "dist", "--sarif", code=FAULTS).out)
    assert log["version"] == "2.1.0"
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == [
        "marker-never-matches",
        "bad-values",
    ]
    said = run("check", "dist", "--sarif", "--output", "wheels.sarif", code=FAULTS)
    assert json.loads((faulty_dist.parent / "wheels.sarif").read_text()) == log
    assert f"\ndist/{INDEX_FILE}\n  error   bad-values" in said.out


def test_output_file(faulty_dist: Path, run: Runner, tmp_path: Path) -> None:
    """``--output`` writes the report as text or as JSON."""
    path = tmp_path / "report"
    result = run("check", faulty_dist, "-o", path, code=FAULTS)
    assert path.read_text() == result.out
    result = run("check", faulty_dist, "-o", path, "--json", code=FAULTS)
    assert json.loads(path.read_text()) == result.object
    error = run("check", faulty_dist, "-o", tmp_path / "no" / "where", "--json", code=1).error
    assert error["code"] == "file-problem"


def test_verbosity(faulty_dist: Path, run: Runner) -> None:
    """``--verbose`` repeats advice and names skipped checks; ``--quiet`` hides notes."""
    build_wheel(faulty_dist, "other", "1", files={"a.pth": "", "b.pth": ""})
    usual = run("check", faulty_dist, code=FAULTS)
    assert usual.out.count("→ make sure that this is intended") == 1
    assert usual.err == ""
    verbose = run("check", faulty_dist, "--verbose", code=FAULTS)
    assert verbose.out.count("→ make sure that this is intended") == 2
    assert "use --full to do that" in verbose.err
    quiet = run("check", faulty_dist, "--quiet", code=FAULTS)
    assert "a.pth" not in quiet.out
    assert "bad-values" in quiet.out


def test_published_release(faulty_dist: Path, run: Runner) -> None:
    """F-131, B-54: A published release has the same findings as its folder."""
    here = run("check", faulty_dist, "--json", code=FAULTS).object["findings"]
    with RecordingIndex(faulty_dist) as index:
        for target in ("fast", "fast==1.0", "Fast >= 1"):
            there = run("check", target, "-i", index.url, "--json", code=FAULTS).object
            keys = ("code", "severity", "member", "path", "line", "message")
            assert [[finding[key] for key in keys] for finding in there["findings"]] == [
                [one[key] for key in keys] for one in here
            ]
        result = run("check", index.file_url(INDEX_FILE), code=FAULTS)
        assert "bad-values" in result.out
        # A folder and a project together are one report.
        both = run("check", faulty_dist, "fast", "-i", index.url, "--json", code=FAULTS).object
    assert len(both["findings"]) == 2 * len(here)


def test_project_without_variants(run: Runner, tmp_path: Path) -> None:
    """F-131: A project without variants was not checked."""
    build_wheel(tmp_path, "plain", "1.0")
    with RecordingIndex(tmp_path) as index:
        result = run("check", "plain", "-i", index.url, code=INCOMPLETE)
        assert "no release of plain has variants, so none was checked" in result.out
        run("check", "plain>=0", "-i", index.url)


@pytest.mark.parametrize("options", [(), ("--strict",), ("--full", "--strict")])
@pytest.mark.parametrize(
    "word",
    ["dist", "Dist", "build", "wheelhouse", "wheels", "out", "my/wheels", "a.whl", "a.tar.gz",
     "pylock.toml", "fast", "fast-wheels", "fast==1.0"],
)  # fmt: skip
def test_missing_path_is_not_a_project(
    run: Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    word: str,
    options: tuple[str, ...],
) -> None:
    """A missing path exits with 10 and contacts no index, though a project has its name."""
    monkeypatch.chdir(tmp_path)
    for name in ("dist", "build", "fast", "wheels"):
        build_wheel(tmp_path / "index", name, "1.0")
    with RecordingIndex(tmp_path / "index") as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        result = run("check", *options, word, code=INCOMPLETE)
        assert index.requests == []
    assert "the file or folder does not exist" in result.out
    assert "project:NAME" in result.out


def test_project_by_name(
    dist: Path, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``project:`` uses the configured index; with an explicit index a bare name is enough."""
    monkeypatch.chdir(tmp_path / "..")
    build_wheel(dist, "wheels", "1.0")
    with RecordingIndex(dist) as index:
        run("check", "fast", "-i", index.url, "--strict", "--ignore", "no-index-file")
        result = run("check", "wheels", "-i", index.url, code=INCOMPLETE)
        assert "the file or folder does not exist" in result.out
        run("check", "project:wheels>=0", "-i", index.url)
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        run("check", "project:fast", "--strict", "--ignore", "no-index-file")
        run("check", "project:wheels==1.0")
        run("check", "project:slow", code=INCOMPLETE)
    assert "names no project" in run("check", "project:../x", code=2).err
    error = run("check", "project:torch[gpu]", "--json", code=2).error
    assert error["hint"] == "as project:torch or project:torch==2.8.0"


def test_empty_folder(run: Runner, tmp_path: Path) -> None:
    """A folder without files to check is incomplete."""
    (tmp_path / "dist").mkdir()
    for command in (["check"], ["wheel", "check"], ["index", "check"]):
        result = run(*command, tmp_path / "dist", code=INCOMPLETE)
        assert "the folder has no files to check" in result.out


def test_folder_of_another_host(dist: Path, run: Runner) -> None:
    """The URL of an index in a folder names this machine, to read it and to publish to it."""
    for command in (["index", "check"], ["publish", dist, "--to"]):
        error = run(*command, "file://server/simple", "--json", code=1).error
        assert error["message"] == "a file: URL may not name another host"


def test_unreachable_index(dist: Path, run: Runner) -> None:
    """An unreachable index is not a fault of the wheels."""
    with RecordingIndex(dist) as index:
        pass
    result = run("check", "fast", dist, "-i", index.url, "--retries", "0", code=INCOMPLETE)
    assert "[unreachable]" in result.out
    assert "no faults in 3 wheels" in result.out
    with RecordingIndex(dist) as index:
        result = run("check", "slow", "-i", index.url, code=INCOMPLETE)
    assert "[project-not-found]" in result.out


def test_invalid_url(run: Runner) -> None:
    """A URL that cannot be read is named, and the other targets are checked."""
    for url in ("https://h:99999/fast-1.0-py3-none-any.whl", "http:///fast-1.0-py3-none-any.whl"):
        result = run("check", url, code=INCOMPLETE)
        assert "this URL cannot be read" in result.out
        assert "this URL cannot be read" in run("wheel", "show", url, code=1).err


def test_credentials_are_not_shown(dist: Path, run: Runner) -> None:
    """Neither the report nor the file contains the credentials of an index."""
    with RecordingIndex(dist) as index:
        index.faults.login = ("joe", "s3cret")
        index.faults.wrong_hash.add(INDEX_FILE)
        url = index.url_with_login("joe", "s3cret")
        result = run("check", "fast", "-i", url, "--json", code=FAULTS)
        name = url.replace("/simple/", f"/files/{INDEX_FILE}")
        more = run("check", name, "--json")
    assert "s3cret" not in result.out + result.err + more.out + more.err
    assert [finding["code"] for finding in result.object["findings"]] == ["wrong-hash"]


@pytest.mark.parametrize(
    ("words", "code", "reference"),
    [
        ([], 2, "usage"),
        (["x.whl", "--ignore", "no-plain-wheels"], 2, "usage"),
        (["x.whl", "--sarif", "--json"], 2, "usage"),
        (["project:fast[extra]"], 2, "usage"),
        (["fast @ https://x/y.whl"], 10, None),
        (["x.whl", "--profile", "conda"], 2, "usage"),
        ([""], 2, "usage"),
    ],
)
def test_usage_errors(run: Runner, words: list[str], code: int, reference: str | None) -> None:
    """Wrong options and targets are errors before any check."""
    result = run("check", *words, "--json", code=code)
    if reference:
        assert result.error["code"] == reference
    if "no-plain-wheels" in words:
        assert result.error["hint"] == "did you mean 'no-plain-wheel'?"


@pytest.mark.skipif(os.name != "posix", reason="names are Unicode there")
def test_file_names_with_control_characters(run: Runner, tmp_path: Path) -> None:
    """Names that are not UTF-8 or have control characters are escaped in every form."""
    names = (
        b"\xff-1-py3-none-any.whl",
        b"\x1b[2J-1-py3-none-any.whl",
        b"a\nno faults in 1 wheel\n-1-py3-none-any.whl",
        "\u202ea-1-py3-none-any.whl".encode(),
    )
    for name in names:
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_bytes(b"")
    report = tmp_path / "report"
    for words in ((), ("--json",), ("--sarif",)):
        result = run("check", tmp_path, *words, "-o", report, code=FAULTS)
        for shown in (result.out, report.read_text()):
            assert "\x1b" not in shown
            assert words or "\u202e" not in shown
            assert "no faults in 1 wheel" not in shown.splitlines()
        assert "invalid-filename" in report.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of Unix")
def test_progress_bar(dist: Path) -> None:
    """A terminal shows a progress bar, which is cleared at the end."""
    from cli.terminal import in_terminal, screen

    session = in_terminal(["-m", "wheelfit", "check", str(dist)], {"CI": ""})
    assert session.code == 0
    assert "checking" in session.shown
    assert "".join(screen(session.shown)).strip() == ""
    assert session.out == "no faults in 3 wheels, 1 index file, 1 release\n"


def test_profile_of_a_tool(dist: Path, run: Runner) -> None:
    """F-155, B-53: the rules of a tool apply with its profile."""
    report = run("check", dist, "--profile", "pypi", "--json", code=FAULTS).object
    assert {finding["code"] for finding in report["findings"]} == {
        "pypi-variant-wheel",
        "pypi-index-file",
    }


@pytest.mark.parametrize(
    "options", sampled([["-j", "1"], ["-j", "2"], ["--executor", "processes"]], fast={0})
)
def test_executors_give_the_same_report(
    faulty_dist: Path, run: Runner, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """The report is the same for any number of processes and any executor."""
    (faulty_dist / "broken-1.0-py3-none-any.whl").write_bytes(b"no archive")
    (faulty_dist / "other-1.0-py3-none-any.whl").symlink_to(faulty_dist / "missing")
    (faulty_dist / "index.html").write_text(
        '<a href="fast-1.0-py3-none-any-null.whl#sha256=00">fast-1.0-py3-none-any-null.whl</a>'
    )
    monkeypatch.chdir(faulty_dist.parent)
    alone = run("check", "--json", "--full", faulty_dist.name, code=INCOMPLETE)
    others = run("check", "--json", "--full", *options, faulty_dist.name, code=INCOMPLETE)
    assert others.out == alone.out
    assert {"wrong-hash", "unsound-archive"} <= {
        finding["code"] for finding in alone.object["findings"]
    }


def test_invalid_executor(dist: Path, run: Runner) -> None:
    """An invalid number of processes or executor URL is a usage error."""
    for words in (["-j", "0"], ["-j", "two"], ["--executor", "spark://here:1"]):
        assert run("check", dist, *words, code=2).err
