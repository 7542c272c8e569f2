"""The first start of a server: one operator token, and private files."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from server.running import RunningIndex, bearer
from server.uploading import store_bytes

from wheelfit.server.store.opening import open_database, open_store
from wheelfit.server.store.sql_records import Records
from wheelfit.server.store.tokens import issue_first_token, valid_token
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration

for _name in ("uvicorn", "prometheus_client", "python_multipart", "jinja2"):
    pytest.importorskip(_name, reason="needs the extra `server`")
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
AT_ONCE = 8


def test_concurrent_first_tokens(records_url: str) -> None:
    """Of concurrent starts one makes the token, and stores it before it is valid."""
    kept: list[str] = []
    together = threading.Barrier(AT_ONCE)

    def first(_: int) -> bool:
        with closing(Records(open_database(records_url))) as records:
            together.wait(60)
            return issue_first_token(records, "admin", ["admin"], now=NOW, save=kept.append)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert sorted(pool.map(first, range(AT_ONCE))) == [False] * (AT_ONCE - 1) + [True]
    with closing(Records(open_database(records_url))) as records:
        assert len(records.tokens()) == len(kept) == 1
        assert valid_token(records, kept[0], now=NOW) == records.tokens()[0]


def test_token_that_cannot_be_stored(records_url: str) -> None:
    """A token that cannot be stored is not made, and the next start makes one."""

    def fail(_: str) -> None:
        raise OSError("no space left")

    with closing(Records(open_database(records_url))) as records:
        with pytest.raises(OSError, match="no space"):
            issue_first_token(records, "admin", ["admin"], now=NOW, save=fail)
        assert records.tokens() == ()
        assert issue_first_token(records, "admin", ["admin"], now=NOW, save=lambda _: None)


@pytest.mark.parametrize("place", ["one folder", "sqlite", "postgresql"])
def test_two_servers_on_a_new_database(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Two servers on a new database name one token file, valid at both."""
    folders, options = [tmp_path / "one", tmp_path / "two"], []
    if place == "one folder":
        folders = [tmp_path / "one"] * 2
    elif place == "sqlite":
        options = ["--database", f"sqlite://{tmp_path}/shared.sqlite3"]
    else:
        options = ["--database", request.getfixturevalue("postgresql").database()]
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        running = list(pool.map(lambda folder: RunningIndex(folder, *options), folders))
        for one in running:
            stack.enter_context(one)
        (file,) = [path for one in running if (path := one.said["token_file"]) is not None]
        found = {folder / "admin-token" for folder in folders if (folder / "admin-token").exists()}
        assert found == {Path(file)}
        me = bearer(Path(file).read_text().strip())
        assert [one.get("/-/metrics", authorization=me)[0] for one in running] == [200, 200]


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask, which child processes inherit."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def loose(folder: Path) -> list[str]:
    """Return the paths in a folder that others can access or the group can write."""
    found = []
    for path in (folder, *folder.rglob("*")):
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:  # of a draft by which the server sees whether there is room
            continue
        if mode & ~(0o750 if path.is_dir() else 0o640):
            found.append(f"{path.relative_to(folder)} {mode:o}")
    return found


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_file_permissions(mask: int, tmp_path: Path) -> None:
    """Only the operator can read the files of an index, whatever the umask."""
    build_wheel(tmp_path / "wheels", "mirrored", "1.0")
    folder = tmp_path / "new" / "index"
    with (
        RecordingIndex(tmp_path / "wheels") as upstream,
        umask(mask),
        RunningIndex(folder, "--mirror", upstream.url) as index,
    ):
        assert index.upload(build_wheel(tmp_path / "dist", "some", "1.0")) == 200
        assert index.get("/simple/mirrored/")[0] == 200
        assert index.get("/files/mirrored-1.0-py3-none-any.whl")[0] == 200
        assert (folder / "index.sqlite3-wal").exists()
        # What the test has made itself.
        folder.chmod(0o750)
        next(folder.glob("log-*")).chmod(0o600)
        assert loose(folder) == []
        assert stat.S_IMODE((folder / "admin-token").stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
@pytest.mark.parametrize("mask", [0, 0o022])
def test_file_permissions_of_a_store(
    mask: int, tmp_path: Path, object_storage_url: Callable[[], str]
) -> None:
    """The same holds for a store that a command makes in a folder."""
    with umask(mask):
        for number, blobs in enumerate((None, object_storage_url())):
            folder = tmp_path / f"store{number}"
            with open_store(folder, blobs=blobs) as store:
                store_bytes(store.blobs, [b"some"])
                issue_first_token(store.records, "admin", ["admin"], now=NOW, save=lambda _: None)
                with store.blobs.draft() as draft:
                    draft.write(b"more")
                    assert loose(folder) == []
                    assert len(list(folder.rglob("*"))) > 2


@pytest.fixture
def object_storage_url() -> Callable[[], str]:
    """Return the URL of a storage other than a folder."""
    pytest.importorskip("obstore", reason="needs the extra `server`")
    return lambda: "memory://"
