"""``wheelfit check``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner
from jsonschema import Draft202012Validator
from sampled_cases import sampled

from wheelfit.cli.render.check import FAULTS, INCOMPLETE
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
LIBRARY = {"blas": {"library": ["mkl"]}}
DOCUMENT = release_document({"mkl": LIBRARY, "null": {}}, static=LIBRARY)
INDEX_FILE = "fast-1.0-variants.json"
PARTS = "'blas :: library' has 2 parts, variant_properties has items of 3"
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
def spoilt(dist: Path) -> Path:
    """Spoil the release: an error in the index file, a warning in a wheel."""
    changed: Any = json.loads((dist / INDEX_FILE).read_text())
    changed["variants"]["mkl"]["blas"]["library"] = ["mkl", "mkl"]
    (dist / INDEX_FILE).write_text(json.dumps(changed, indent=1))
    requires = ['a; "blas :: library" in variant_properties']
    build_wheel(dist, "fast", "1.0", label="mkl", document=DOCUMENT, requires=requires)
    return dist


def test_nothing_found(dist: Path, run: Runner) -> None:
    """F-131: a sound release ends with 0 and one line."""
    result = run("check", dist)
    assert result.out == "no faults in 3 wheels, 1 index file, 1 release\n"
    assert result.err == ""


def test_faults(spoilt: Path, run: Runner) -> None:
    """F-131: every fault is said at once, by file, with place, rule and what to do."""
    result = run("check", spoilt, code=FAULTS)
    assert result.out.splitlines() == [
        str(spoilt / "fast-1.0-py3-none-any-mkl.whl"),
        "  warning marker-never-matches (F-106)  METADATA",
        f"          'a; \"blas :: library\" in variant_properties': {PARTS}",
        f"          → write {', '.join(SHAPES)}, in lower case",
        "",
        str(spoilt / INDEX_FILE),
        "  error   bad-values (F-23)  line 20, variants.mkl.blas.library",
        "          a value is there more than once",
        "          → sort the list by code point and name each value once",
        "",
        "1 error, 1 warning in 3 wheels, 1 index file, 1 release",
    ]


def test_exit_codes(spoilt: Path, run: Runner) -> None:
    """Errors count, warnings with ``--strict``; what could not be looked at counts most."""
    run("check", spoilt, "--ignore", "bad-values")
    run("check", spoilt, "--ignore", "bad-values", "--strict", code=FAULTS)
    both = ["--ignore", "bad-values", "--ignore", "marker-never-matches"]
    run("check", spoilt, *both, "--strict")
    result = run("check", spoilt, spoilt / "gone.whl", code=INCOMPLETE)
    assert "bad-values" in result.out
    assert "not checked: the file or folder does not exist [file-problem]" in result.out
    assert result.out.endswith("; 1 target could not be checked\n")


def test_json(spoilt: Path, run: Runner) -> None:
    """``--json`` follows its schema and says the same."""
    schema = json.loads((REFERENCE / "schemas" / "check.json").read_text())
    words = ("check", spoilt, "--json", "--profile", "uv", "--full")
    report = run(*words, spoilt / "gone.whl", code=INCOMPLETE).object
    Draft202012Validator(schema).validate(report)
    assert report["checked"] == {"wheels": 3, "index_files": 1, "releases": 1, "installed": 0}
    assert report["summary"] == {"errors": 2, "warnings": 1, "notes": 0}
    assert (report["profiles"], report["full"]) == (["uv"], True)
    assert report["findings"][-1] == {
        "severity": "error",
        "code": "bad-values",
        "rule": "F-23",
        "where": str(spoilt / INDEX_FILE),
        "member": None,
        "path": "variants.mkl.blas.library",
        "line": 20,
        "message": "a value is there more than once",
        "remedy": "sort the list by code point and name each value once",
    }
    assert [one["code"] for one in report["unchecked"]] == ["file-problem"]
    assert run(*words, code=FAULTS).object["unchecked"] == []


def test_sarif(spoilt: Path, run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--sarif`` prints the log; with ``--output`` people still get their report."""
    monkeypatch.chdir(spoilt.parent)
    log = json.loads(run("check", "dist", "--sarif", code=FAULTS).out)
    assert log["version"] == "2.1.0"
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == [
        "marker-never-matches",
        "bad-values",
    ]
    said = run("check", "dist", "--sarif", "--output", "wheels.sarif", code=FAULTS)
    assert json.loads((spoilt.parent / "wheels.sarif").read_text()) == log
    assert f"\ndist/{INDEX_FILE}\n  error   bad-values" in said.out


def test_output(spoilt: Path, run: Runner, tmp_path: Path) -> None:
    """``--output`` writes the report as it is printed, or as JSON."""
    path = tmp_path / "report"
    result = run("check", spoilt, "-o", path, code=FAULTS)
    assert path.read_text() == result.out
    result = run("check", spoilt, "-o", path, "--json", code=FAULTS)
    assert json.loads(path.read_text()) == result.object
    error = run("check", spoilt, "-o", tmp_path / "no" / "where", "--json", code=1).error
    assert error["code"] == "file-problem"


def test_how_much_is_said(spoilt: Path, run: Runner) -> None:
    """``--verbose`` repeats advice and says what was not done, ``--quiet`` hides notes."""
    build_wheel(spoilt, "other", "1", files={"a.pth": "", "b.pth": ""})
    usual = run("check", spoilt, code=FAULTS)
    assert usual.out.count("→ make sure that this is intended") == 1
    assert usual.err == ""
    verbose = run("check", spoilt, "--verbose", code=FAULTS)
    assert verbose.out.count("→ make sure that this is intended") == 2
    assert "use --full to do that" in verbose.err
    quiet = run("check", spoilt, "--quiet", code=FAULTS)
    assert "a.pth" not in quiet.out
    assert "bad-values" in quiet.out


def test_published(spoilt: Path, run: Runner) -> None:
    """F-131, B-54: a published release has the findings that it had in its folder."""
    here = run("check", spoilt, "--json", code=FAULTS).object["findings"]
    with RecordingIndex(spoilt) as index:
        for target in ("fast", "fast==1.0", "Fast >= 1"):
            there = run("check", target, "-i", index.url, "--json", code=FAULTS).object
            keys = ("code", "severity", "member", "path", "line", "message")
            assert [[finding[key] for key in keys] for finding in there["findings"]] == [
                [one[key] for key in keys] for one in here
            ]
        result = run("check", index.file_url(INDEX_FILE), code=FAULTS)
        assert "bad-values" in result.out
        # A folder and a project together are one report.
        both = run("check", spoilt, "fast", "-i", index.url, "--json", code=FAULTS).object
    assert len(both["findings"]) == 2 * len(here)


def test_nothing_to_look_at(run: Runner, tmp_path: Path) -> None:
    """F-131: of a project without variants nothing was looked at, and that is said."""
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
def test_what_is_not_there_is_asked_of_nobody(
    run: Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    word: str,
    options: tuple[str, ...],
) -> None:
    """A slip of a folder's name ends with 10, though there is a project of that name."""
    monkeypatch.chdir(tmp_path)
    for name in ("dist", "build", "fast", "wheels"):
        build_wheel(tmp_path / "index", name, "1.0")
    with RecordingIndex(tmp_path / "index") as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        result = run("check", *options, word, code=INCOMPLETE)
        assert index.requests == []
    assert "the file or folder does not exist" in result.out
    assert "project:NAME" in result.out


def test_a_project_that_is_named(
    dist: Path, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``project:`` asks the index in use; with an index that is named a name alone will do."""
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


def test_an_empty_folder(run: Runner, tmp_path: Path) -> None:
    """Where nothing was checked nothing is well."""
    (tmp_path / "dist").mkdir()
    for command in (["check"], ["wheel", "check"], ["index", "check"]):
        result = run(*command, tmp_path / "dist", code=INCOMPLETE)
        assert "the folder has no files to check" in result.out


def test_an_index_that_is_away(dist: Path, run: Runner) -> None:
    """An index that cannot be reached is no fault of the wheels."""
    with RecordingIndex(dist) as index:
        pass
    result = run("check", "fast", dist, "-i", index.url, "--retries", "0", code=INCOMPLETE)
    assert "[unreachable]" in result.out
    assert "no faults in 3 wheels" in result.out
    with RecordingIndex(dist) as index:
        result = run("check", "slow", "-i", index.url, code=INCOMPLETE)
    assert "[project-not-found]" in result.out


def test_logins_are_not_shown(dist: Path, run: Runner) -> None:
    """Neither report nor file has the login of an index."""
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
def test_wrong_words(run: Runner, words: list[str], code: int, reference: str | None) -> None:
    """What is asked wrongly is refused before anything is looked at."""
    result = run("check", *words, "--json", code=code)
    if reference:
        assert result.error["code"] == reference
    if "no-plain-wheels" in words:
        assert result.error["hint"] == "did you mean 'no-plain-wheel'?"


@pytest.mark.skipif(os.name != "posix", reason="names are Unicode there")
def test_strange_names(run: Runner, tmp_path: Path) -> None:
    """Names that are not UTF-8, or steer terminals, are shown harmlessly in every form."""
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
def test_progress(dist: Path) -> None:
    """On a terminal a bar shows how far the check is, and leaves nothing behind."""
    from cli.terminal import in_terminal, screen

    session = in_terminal(["-m", "wheelfit", "check", str(dist)], {"CI": ""})
    assert session.code == 0
    assert "checking" in session.shown
    assert "".join(screen(session.shown)).strip() == ""
    assert session.out == "no faults in 3 wheels, 1 index file, 1 release\n"


def test_profiles(dist: Path, run: Runner) -> None:
    """F-155, B-53: the rules of a tool count when it is named."""
    report = run("check", dist, "--profile", "pypi", "--json", code=FAULTS).object
    assert {finding["code"] for finding in report["findings"]} == {
        "pypi-variant-wheel",
        "pypi-index-file",
    }


class TestEnvironment:
    """``--environment`` looks at what is installed."""

    @pytest.fixture
    def target(self, tmp_path: Path, run: Runner) -> Path:
        """Install a GPU build and one for torch 2.8, on a machine that can run them."""
        shop = tmp_path / "shop"
        needs = {
            "gpu": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
            "t28": {"abi": {"torch": ["2.8"]}},
        }
        providers: dict[str, dict[str, object]] = {
            "nvidia": {
                "requires": ["nvidia-variant-provider>=0.0.1,<1"],
                "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
            },
            "abi": {"builtin": "abi_dependency"},
        }
        document = release_document(needs, providers=providers)
        build_wheel(shop, "fast", "1.0", label="gpu", document=document)
        build_wheel(shop, "attn", "1.0", label="t28", document=document, requires=["torch"])
        for version in ("2.8.0", "2.9.0"):
            build_wheel(shop, "torch", version)
        self.host(tmp_path, '["12.8", "12"]')
        run(
            "install", "--no-index", "-f", shop, "--target", tmp_path / "site",
            "--for", tmp_path / "host.toml", "fast", "attn", "torch<2.9",
        )  # fmt: skip
        return tmp_path / "site"

    def host(self, folder: Path, bounds: str) -> Path:
        """Describe the machine."""
        path = folder / "host.toml"
        path.write_text(
            '[metadata]\ncreated-by = "a test"\nversion = "0.1"\n\n[[provider]]\n'
            f'namespace = "nvidia"\nproperties = {{cuda_version_lower_bound = {bounds}}}\n'
        )
        return path

    def test_all_fits(self, target: Path, run: Runner) -> None:
        """F-96: nothing is found while machine and packages are as they were."""
        words = ("check", "--environment", "--target", target)
        result = run(*words, "--for", target.parent / "host.toml")
        assert result.out == "no faults in 2 installed variants\n"

    def test_the_machine_changed(self, target: Path, run: Runner) -> None:
        """F-96: a variant that the machine no longer supports is named, with the reason."""
        host = self.host(target.parent, '["12.6", "12"]')
        words = ("check", "--environment", "--target", target, "--for", host, "--json")
        (finding,) = run(*words, code=FAULTS).object["findings"]
        assert finding["code"] == "unsupported-here"
        assert finding["where"] == str(target / "fast-1.0.dist-info")
        assert "fast 1.0 (gpu)" in finding["message"]
        assert "12.8" in finding["message"]

    def test_a_dependency_changed(self, target: Path, run: Runner) -> None:
        """P-56: an upgrade of the package that a build was made for is found."""
        dist_info = target / "torch-2.8.0.dist-info"
        changed = (dist_info / "METADATA").read_text().replace("2.8.0", "2.9.0")
        (dist_info / "METADATA").write_text(changed)
        words = ("check", "--environment", "--target", target, "--json")
        report = run(*words, "--for", target.parent / "host.toml", code=FAULTS).object
        (finding,) = report["findings"]
        assert finding["code"] == "broken-by-dependency"
        assert "attn 1.0 (t28)" in finding["message"]
        assert "torch 2.9.0 is installed" in finding["message"]
        assert report["checked"]["installed"] == 2

    def test_nobody_to_ask(self, target: Path, run: Runner) -> None:
        """A namespace that the host file leaves out is not checked, and nothing is claimed."""
        host = self.host(target.parent, "[]")
        host.write_text(host.read_text().replace('"nvidia"', '"other"'))
        words = ("check", "--environment", "--target", target, "--for", host)
        result = run(*words, code=INCOMPLETE)
        assert "fast 1.0 (gpu) needs nvidia, for which no provider is available here" in result.out

    def test_what_is_broken(self, target: Path, run: Runner) -> None:
        """Records that cannot be read are named, and a lost document is too."""
        (target / "broken-1.0.dist-info").mkdir()
        (target / "fast-1.0.dist-info" / "variant.json").write_text("{")
        words = ("check", "--environment", "--target", target)
        result = run(*words, "--for", target.parent / "host.toml", code=INCOMPLETE)
        assert "its metadata file is missing, or may not be read" in result.out
        assert "fast 1.0 (gpu)" in result.out


@pytest.mark.parametrize(
    "options", sampled([["-j", "1"], ["-j", "2"], ["--executor", "processes"]], fast={0})
)
def test_who_works_makes_no_difference(
    spoilt: Path, run: Runner, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """The report is the same whoever looks, also for relative paths, and what cannot be read."""
    (spoilt / "broken-1.0-py3-none-any.whl").write_bytes(b"no archive")
    (spoilt / "other-1.0-py3-none-any.whl").symlink_to(spoilt / "missing")
    (spoilt / "index.html").write_text(
        '<a href="fast-1.0-py3-none-any-null.whl#sha256=00">fast-1.0-py3-none-any-null.whl</a>'
    )
    monkeypatch.chdir(spoilt.parent)
    alone = run("check", "--json", "--full", spoilt.name, code=INCOMPLETE)
    others = run("check", "--json", "--full", *options, spoilt.name, code=INCOMPLETE)
    assert others.out == alone.out
    assert {"wrong-hash", "unsound-archive"} <= {
        finding["code"] for finding in alone.object["findings"]
    }


def test_wrong_executors(dist: Path, run: Runner) -> None:
    """Who works is a number of processes, or a URL that somebody answers to."""
    for words in (["-j", "0"], ["-j", "two"], ["--executor", "spark://here:1"]):
        assert run("check", dist, *words, code=2).err
