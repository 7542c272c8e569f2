"""Operations on live indexes, called without the command line."""

from __future__ import annotations

import os
from getpass import getuser
from pathlib import Path

import pytest
from error_codes import raises_code
from server.uploading import upload

from wheelfit.operations.context import Context
from wheelfit.operations.import_index import ImportIndexRequest, import_live_index
from wheelfit.operations.live_index import (
    AuditRequest,
    CleanIndexRequest,
    CreateTokenRequest,
    DeleteRequest,
    FilesRequest,
    LiveIndexRequest,
    MoveIndexRequest,
    OpenedStage,
    OpenStageRequest,
    StageRequest,
    TokenRequest,
    YankRequest,
    clean_index,
    create_token,
    delete,
    drop_stage,
    export_live_index,
    list_stages,
    list_tokens,
    open_stage,
    read_audit_log,
    revoke_token,
    unyank,
    yank,
)
from wheelfit.server.store.opening import open_store
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import FileProblem

FILE = "some-1.0-py3-none-any.whl"


@pytest.fixture
def at(tmp_path: Path) -> str:
    """Return the folder of an index with a release."""
    with open_store(tmp_path / "store") as store:
        upload(store, build_wheel(tmp_path, "some", "1.0"))
    return str(tmp_path / "store")


def test_files(at: str) -> None:
    """Files are yanked, restored and, with consent, deleted."""
    what = ("some==1.0",)
    assert yank(YankRequest(at=at, what=what, reason="broken"), Context()).files == (FILE,)
    assert unyank(FilesRequest(at=at, what=what), Context()).files == (FILE,)
    with raises_code("no-consent"):
        delete(DeleteRequest(at=at, what=what), Context())
    assert delete(DeleteRequest(at=at, what=what, yes=True), Context()).files == (FILE,)


def test_move(at: str, tmp_path: Path) -> None:
    """An index is exported, and imported into a store that is new."""
    there, new = str(tmp_path / "there"), tmp_path / "new"
    report = export_live_index(MoveIndexRequest(at=at, folder=there), Context())
    assert (report.files, report.copied) == (1, 1)
    with raises_code("file-problem"):
        import_live_index(ImportIndexRequest(at=str(new), source=at), Context())
    assert not new.exists()
    assert import_live_index(ImportIndexRequest(at=str(new), source=there), Context()).files == 1
    assert yank(YankRequest(at=str(new), what=("some",)), Context()).files == (FILE,)


def test_move_a_server() -> None:
    """Only a store is moved."""
    server = "https://wheels.example.org/"
    with raises_code("usage"):
        export_live_index(MoveIndexRequest(at=server, folder="there"), Context())
    with raises_code("usage"):
        import_live_index(ImportIndexRequest(at=server, source="there"), Context())


def test_audit(at: str, tmp_path: Path) -> None:
    """What was done here has the user of this machine; an import is the last entry."""
    what = ("some",)
    yank(YankRequest(at=at, what=what, reason="broken"), Context())
    (entry,) = read_audit_log(AuditRequest(at=at, project="Some", action="yank"), Context()).entries
    assert (entry.owner, entry.subject, entry.detail) == ("local", FILE, "broken")
    assert entry.note == getuser()
    assert read_audit_log(AuditRequest(at=at, refused=True), Context()).entries == ()
    folder, new = str(tmp_path / "export"), str(tmp_path / "new")
    export_live_index(MoveIndexRequest(at=at, folder=folder), Context())
    import_live_index(ImportIndexRequest(at=new, source=folder), Context())
    moved = read_audit_log(AuditRequest(at=new), Context()).entries
    assert [one.action for one in moved] == ["import", "yank", "upload"]
    with raises_code("invalid-configuration"):
        read_audit_log(AuditRequest(at=at, since="soon"), Context())


def test_clean(at: str, tmp_path: Path) -> None:
    """The room of deleted files is free at once; what may be an upload stays."""
    size = (tmp_path / FILE).stat().st_size
    delete(DeleteRequest(at=at, what=("some",), yes=True), Context())
    assert clean_index(CleanIndexRequest(at=at), Context()).files == 0
    for path in Path(at).rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    report = clean_index(CleanIndexRequest(at=at), Context())
    assert (report.files, report.size) == (1, size)
    assert clean_index(CleanIndexRequest(at=at), Context()).files == 0


def test_clean_keeps_what_is_needed(at: str) -> None:
    """Files of the index stay, however old they are."""
    for path in Path(at).rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    assert clean_index(CleanIndexRequest(at=at), Context()).files == 0
    what = ("some",)
    assert yank(YankRequest(at=at, what=what), Context()).files == (FILE,)


def test_clean_expired_releases(at: str, tmp_path: Path) -> None:
    """Releases go by the rules of the settings, after a dry run that lists the same."""
    with open_store(Path(at)) as store:
        for version in ("2.0", "3.0", "4.0"):
            upload(store, build_wheel(tmp_path, "some", version))
        for version in ("1.0", "2.0"):
            upload(store, build_wheel(tmp_path, "other", version))
        store.records.yank(["some-4.0-py3-none-any.whl"], "broken")
    settings = tmp_path / "serve.toml"
    settings.write_text('[[project]]\nnames = ["some"]\nkeep-releases = 2\n')
    request = CleanIndexRequest(at=at, settings=str(settings), dry_run=True)
    listed = clean_index(request, Context())
    assert [(release.project, release.version) for release in listed.releases] == [("some", "1.0")]
    assert clean_index(request, Context()) == listed  # nothing has gone
    done = clean_index(CleanIndexRequest(at=at, settings=str(settings)), Context())
    assert done.releases == listed.releases
    with open_store(Path(at)) as store:
        assert store.records.file(FILE) is None
        assert len(store.records.projects()) == 2
        assert isinstance(upload(store, tmp_path / FILE), tuple)  # its name never comes back
    (entry,) = read_audit_log(AuditRequest(at=at, action="delete"), Context()).entries
    assert (entry.subject, entry.detail) == (FILE, "older than the newest 2 releases")
    assert clean_index(CleanIndexRequest(at=at, settings=str(settings)), Context()).releases == ()
    with raises_code("usage"):
        clean_index(CleanIndexRequest(at=at, dry_run=True), Context())


def test_clean_a_server() -> None:
    """A server cleans its own store."""
    with raises_code("usage"):
        clean_index(CleanIndexRequest(at="https://wheels.example.org/"), Context())


def test_tokens(at: str) -> None:
    """A token is listed until it is revoked."""
    before = list_tokens(LiveIndexRequest(at=at), Context()).tokens
    token = create_token(CreateTokenRequest(at=at, note="for CI"), Context())
    assert "for CI" in {
        token["note"] for token in list_tokens(LiveIndexRequest(at=at), Context()).tokens
    }
    request = TokenRequest(at=at, token=token.id)
    assert revoke_token(request, Context()).revoked == token.id
    assert list_tokens(LiveIndexRequest(at=at), Context()).tokens == before
    with pytest.raises(FileProblem, match="the token does not exist"):
        revoke_token(request, Context())


def test_stages(at: str) -> None:
    """A stage is listed until it is dropped; only a server has URLs for it."""
    stage = open_stage(OpenStageRequest(at=at), Context())
    assert stage.server is None
    (listed,) = list_stages(LiveIndexRequest(at=at), Context()).stages
    assert listed["id"] == stage.id
    assert drop_stage(StageRequest(at=at, stage=listed["id"]), Context()).count == 0
    assert list_stages(LiveIndexRequest(at=at), Context()).stages == ()


def test_urls_of_a_stage() -> None:
    """Uploads need the token of their owner; readers have the secret in their URL."""
    stage = OpenedStage("ab", "2027-01-01T00:00:00Z", "cd", "https://index.example")
    assert stage.upload_url == "https://index.example/stage/ab/legacy/"
    assert stage.index_url == "https://__token__:cd@index.example/stage/ab/simple/"


def test_no_index(tmp_path: Path) -> None:
    """A folder without a store is refused, and nothing is written there."""
    with pytest.raises(FileProblem, match="no index"):
        list_tokens(LiveIndexRequest(at=str(tmp_path)), Context())
    assert not list(tmp_path.iterdir())
