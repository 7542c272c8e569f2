"""Commands that change a live index through its store or its server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import Runner
from sampled_cases import sampled
from server.running import RunningIndex
from server.uploading import upload

from wheelfit.server.store.opening import open_store
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

pytestmark = pytest.mark.usefixtures("bare_environment")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return the folder of an index with two releases."""
    folder = tmp_path / "store"
    with open_store(folder) as opened:
        for version in ("1.0", "2.0"):
            upload(opened, build_wheel(tmp_path / "wheels", "some", version))
    return folder


@pytest.fixture(params=["store", pytest.param("server", marks=pytest.mark.integration)])
def place(
    request: pytest.FixtureRequest, store: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield an index by its folder, and by its server."""
    if request.param == "store":
        yield str(store)
        return
    pytest.importorskip("uvicorn", reason="needs the extra `server`")
    with RunningIndex(store) as index:
        monkeypatch.setenv("WHEELFIT_INDEX_TOKEN", index.token)
        yield index.origin


def names(store: Path) -> dict[str, str | None]:
    """Return the published files with the reasons of yanks."""
    with open_store(store) as opened:
        listing = opened.records.listing("some")  # type: ignore[arg-type]
        return {} if listing is None else {file.filename: file.yanked for file in listing.files}


def test_yank_and_delete(run: Runner, place: str, store: Path) -> None:
    """Files are yanked, unyanked and deleted, through store and server."""
    one, two = (f"some-{version}-py3-none-any.whl" for version in ("1.0", "2.0"))
    assert run("index", "yank", "--at", place, "some==1.0", "--reason", "bad").out == f"{one}\n"
    assert names(store) == {one: "bad", two: None}
    report = run("index", "unyank", "--at", place, one, "--json").object
    assert report == {"version": 1, "files": [one]}
    assert names(store) == {one: None, two: None}
    assert "cannot be used again" in run("index", "delete", "--at", place, one, code=7).err
    run("index", "delete", "--at", place, one, "--yes")
    assert names(store) == {two: None}
    refused = run("index", "yank", "--at", place, "some>=2", code=1).err
    assert "a release as NAME==VERSION" in refused


def test_project_status(run: Runner, place: str, store: Path) -> None:
    """A status is set with its reason; unknown statuses and projects are refused."""
    result = run("index", "status", "some", "archived", "--at", place, "--reason", "old", "--json")
    assert result.object == {"version": 1, "project": "some", "status": "archived", "reason": "old"}
    with open_store(store) as opened:
        assert str(opened.records.status("some")) == "archived: old"  # type: ignore[arg-type]
    assert run("index", "status", "some", "active", "--at", place).out == "some is active\n"
    assert "no such project" in run("index", "status", "x", "active", "--at", place, code=1).err
    run("index", "status", "some", "closed", "--at", place, code=2)


def test_prefetch(run: Runner, tmp_path: Path) -> None:
    """Prefetching reports fetched files, and projects that no mirror has."""
    build_wheel(tmp_path / "wheels", "some", "1.0")
    with RecordingIndex(tmp_path / "wheels") as upstream:
        place = ("--at", str(tmp_path / "index"), "--mirror", f"up={upstream.url}")
        words = ("index", "prefetch", "some", *place)
        assert "1 file (" in run(*words, "--dry-run").out
        assert "fetched 1 file (" in run(*words).out
        found = run(*words, "other", "--json", code=3).object
        newer = ("index", "prefetch", "some>=2", *place)
        assert "no mirror has some as requested" in run(*newer, code=3).err
        reserved = run(*words, "acme-x", "--reserved", "acme-*", code=3)
        assert "acme-x comes from uploads alone, so no mirror keeps it" in reserved.err
    assert (found["missing"], found["fetched"]) == (["other"], 0)
    assert (found["files"], found["existing"]) == (1, 1)


def test_tokens(run: Runner, place: str) -> None:
    """A token is shown once, listed without its secret, and revoked."""
    options = ("--project", "some", "--expires", "90d", "--note", "CI")
    made = run("index", "token", "create", "--at", place, *options, "--json").object
    assert made["secret"].startswith("wheelfit-")
    if place.startswith("http"):
        # What installers are given names the server too.
        assert made["id"] in run("index", "token", "list", "--at", f"{place}/simple/").out
    assert made["projects"] == ["some"]
    listed = run("index", "token", "list", "--at", place).out
    assert made["id"] in listed
    assert made["secret"] not in listed
    run("index", "token", "revoke", made["id"], "--at", place)
    assert made["id"] not in run("index", "token", "list", "--at", place).out
    run("index", "token", "revoke", made["id"], "--at", place, code=1)


@pytest.mark.parametrize("lifetime", ["0s", "999999w"])
@pytest.mark.parametrize("what", ["token create", "stage open"])
def test_impossible_lifetimes(run: Runner, place: str, what: str, lifetime: str) -> None:
    """A token or stage that never is valid, or that outlives the calendar, is not created."""
    refused = run("index", *what.split(), "--at", place, "--expires", lifetime, code=1)
    assert "more than 0 seconds and less than 300 years" in refused.err


def test_audited_status(run: Runner, place: str) -> None:
    """An entry about a status names the project."""
    run("index", "status", "some", "deprecated", "--at", place)
    (entry,) = run("index", "audit", "--at", place, "--action", "status").out.splitlines()[2:]
    assert "some deprecated" in entry


def test_stages(run: Runner, place: str, store: Path, tmp_path: Path) -> None:
    """A stage is published completely, or dropped."""
    for act in ("publish", "drop"):
        stage = run("index", "stage", "open", "--at", place, "--json").object
        assert stage["id"] in run("index", "stage", "list", "--at", place).out
        with open_store(store) as opened:
            wheel = build_wheel(tmp_path / act, "some", "3.0" if act == "publish" else "4.0")
            upload(opened, wheel, stage=stage["id"])
        assert wheel.name not in names(store)
        run("index", "stage", act, stage["id"], "--at", place)
        assert (wheel.name in names(store)) == (act == "publish")
        run("index", "stage", "publish", stage["id"], "--at", place, code=1)
    assert json.loads(run("index", "stage", "list", "--at", place, "--json").out)["stages"] == []


@pytest.mark.parametrize("fault", sampled(["other-spelling", "inconsistent-variants"], fast={1}))
def test_conflicting_stages(
    run: Runner, place: str, store: Path, tmp_path: Path, fault: str
) -> None:
    """F-131: A conflict with a stage published meanwhile is refused and named."""
    stages = []
    for number, library in enumerate(("mkl", "openblas")):
        stage = run("index", "stage", "open", "--at", place, "--json").object["id"]
        stages.append(stage)
        folder = tmp_path / str(number)
        if fault == "other-spelling":
            path = build_wheel(folder, "other", f"1.0{'.0' * number}", build=f"{number}")
        else:
            properties = {"blas": {"library": [library]}}
            document = release_document({"own": properties}, static=properties)
            path = build_wheel(
                folder, "other", "1.0", label="own", document=document, build=f"{number}"
            )
        with open_store(store) as opened:
            upload(opened, path, stage=stage)
    run("index", "stage", "publish", stages[0], "--at", place)
    refused = run("index", "stage", "publish", stages[1], "--at", place, "--json", code=9).object
    assert {violation["reference"] for violation in refused["error"]["violations"]} == {fault}
    assert refused["error"]["code"] == "upload-refused"
    assert stages[1] in run("index", "stage", "list", "--at", place).out


def test_usage_errors(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing index or token, a token over plain HTTP, and wrong actions are errors."""
    assert "no index" in run("index", "token", "list", "--at", tmp_path, code=1).err
    assert not list(tmp_path.iterdir())
    refused = run("index", "yank", "x", "--at", "https://h.invalid", "--json", code=1).object
    assert refused["error"]["message"] == "the server of the index needs a token"
    assert refused["error"]["where"] == "h.invalid"
    assert "WHEELFIT_INDEX_TOKEN" in refused["error"]["hint"]
    monkeypatch.setenv("WHEELFIT_INDEX_TOKEN", "wheelfit-x")
    assert "plain HTTP" in run("index", "yank", "x", "--at", "http://h.invalid", code=1).err
    run("index", "stage", "publish", "--at", tmp_path, code=2)
    run("index", "token", "make", "--at", tmp_path, code=2)
    run("index", "token", "create", "--at", tmp_path, "--scope", "all", code=2)


def test_misspelt_variable(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt variable causes a warning, in addition to other errors."""
    monkeypatch.setenv("WHEELFIT_SERVER_PROT", "1")
    result = run("index", "serve", tmp_path, "--port", "none", code=1)
    assert "WHEELFIT_SERVER_PROT has no effect" in result.err


def test_import(run: Runner, store: Path, tmp_path: Path) -> None:
    """Folders and exports are imported, with a dry run and errors."""
    wheels = tmp_path / "wheels"
    words = ("index", "import", wheels, "--at", tmp_path / "new")
    assert "2 files" in run(*words, "--dry-run").out
    assert not (tmp_path / "new").exists()
    result = run(*words, "--project", "some", "--project", "absent", "--owner", "acme", code=3)
    assert "imported 2 files" in result.out
    assert "no project absent" in result.err
    (wheels / "bad-1.0-py3-none-any.whl").write_bytes(b"PK")
    result = run(*words, code=9)
    assert "0 files (0 B); 2 of 3 already existed, 1 refused" in result.out
    assert "[unsound-archive]" in result.out
    (refused,) = run(*words, "--json", code=9).object["refused"]
    assert refused["filename"] == "bad-1.0-py3-none-any.whl"
    run("index", "export", tmp_path / "export", "--at", store)
    whole = ("index", "import", tmp_path / "export", "--at", tmp_path / "newer")
    assert run(*whole, "--dry-run", "--json").object["files"] == 2
    run(*whole, "--project", "some", code=2)
    assert "2 files" in run(*whole).out
