"""Storage of files by digest, in folders and S3."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from server.services import ObjectStorage
from server.uploading import store_bytes

from wheelfit.errors import StorageUnavailable
from wheelfit.server.store.blobs import Blobs, remove_drafts_before
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.store.opening import open_blobs
from wheelfit_runtime.errors import InvalidConfiguration

CONTENT = random.Random(7).randbytes(3_000_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def blobs(blobs_url: str, tmp_path: Path) -> Blobs:
    """Return an empty storage of each kind."""
    return open_blobs(blobs_url, spool=tmp_path / "spool")


def pieces(content: bytes) -> list[bytes]:
    """Return bytes in pieces."""
    return [content[start : start + 70_000] for start in range(0, len(content), 70_000)]


def test_put_and_get(blobs: Blobs) -> None:
    """Stored bytes are read by digest, completely and in parts."""
    assert blobs.size(DIGEST) is None
    blob = store_bytes(blobs, pieces(CONTENT))
    assert (blob.sha256, blob.size) == (DIGEST, len(CONTENT))
    assert blobs.size(DIGEST) == len(CONTENT)
    assert b"".join(blobs.parts(DIGEST, 0, len(CONTENT))) == CONTENT
    assert b"".join(blobs.parts(DIGEST, 1000, 2_500_001)) == CONTENT[1000:2_500_001]
    assert b"".join(blobs.parts(DIGEST, 5, 5)) == b""
    assert max(map(len, blobs.parts(DIGEST, 0, len(CONTENT)))) < len(CONTENT)


def test_empty_file(blobs: Blobs) -> None:
    """An empty file can be stored."""
    blob = store_bytes(blobs, [])
    assert blobs.size(blob.sha256) == 0
    assert list(blobs.parts(blob.sha256, 0, 0)) == []


def test_multipart_upload(blobs: Blobs) -> None:
    """A file larger than one multipart part is stored completely."""
    content = random.Random(8).randbytes(1 << 20) * 20
    blob = store_bytes(blobs, pieces(content))
    seen = hashlib.sha256()
    for piece in blobs.parts(blob.sha256, 0, blob.size):
        seen.update(piece)
    assert seen.hexdigest() == blob.sha256 == hashlib.sha256(content).hexdigest()


def test_store_again(blobs: Blobs) -> None:
    """Equal bytes are stored once, also by concurrent writers."""
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(partial(store_bytes, blobs), [pieces(CONTENT)] * 6))
    assert [(one.sha256, one.size) for one in blobs.all_blobs()] == [(DIGEST, len(CONTENT))]
    assert b"".join(blobs.parts(DIGEST, 0, len(CONTENT))) == CONTENT


def test_keep_a_draft_again(blobs: Blobs) -> None:
    """A draft can be stored again after the removal of its bytes."""
    with blobs.draft() as draft:
        draft.write(b"wheel")
        blobs.save(draft)
        blobs.delete(draft.sha256)
        assert blobs.size(draft.sha256) is None
        blobs.save(draft)
        assert blobs.size(draft.sha256) == 5


def test_unkept_draft(blobs: Blobs, tmp_path: Path) -> None:
    """A draft that is not kept is deleted."""
    with blobs.draft() as draft:
        draft.write(b"wheel")
    assert list(blobs.all_blobs()) == []
    store_bytes(blobs, [b"wheel"])
    assert not list(tmp_path.rglob("*.part"))


def test_delete_twice(blobs: Blobs) -> None:
    """Deleting twice has the effect of deleting once."""
    store_bytes(blobs, pieces(CONTENT))
    blobs.delete(DIGEST)
    blobs.delete(DIGEST)
    assert blobs.size(DIGEST) is None
    with pytest.raises(StorageUnavailable):
        list(blobs.parts(DIGEST, 0, 1))


@pytest.mark.parametrize("digest", ["../../../etc/passwd", "", "A" * 64, f"{'0' * 64}\n", "é" * 64])
def test_invalid_digests(blobs: Blobs, digest: str) -> None:
    """Only a SHA-256 digest is accepted."""
    with pytest.raises(ValueError, match="no SHA-256"):
        blobs.size(digest)


def test_abandoned_drafts(blobs_url: str, tmp_path: Path) -> None:
    """Abandoned drafts are deleted, active ones kept."""
    child = """
        import os, signal, sys
        from pathlib import Path
        from wheelfit.server.store.opening import open_blobs
        with open_blobs(sys.argv[1], spool=Path(sys.argv[2])).draft() as draft:
            draft.write(b"half a wh")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    arguments = [sys.executable, "-c", textwrap.dedent(child), blobs_url, str(tmp_path / "spool")]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.rglob("*.part")
    blobs = open_blobs(blobs_url, spool=tmp_path / "spool")
    assert list(blobs.all_blobs()) == []
    modified = left.stat().st_mtime
    assert blobs.remove_old_drafts(modified - 1) == 0
    with blobs.draft() as draft:
        draft.write(b"x")
        os.utime(draft.path, (modified + 9, modified + 9))
        assert blobs.remove_old_drafts(modified + 5) == 1
        assert draft.path.exists()
    assert not left.exists()


def test_drafts_that_others_remove(tmp_path: Path) -> None:
    """Old drafts are removed although another process removes some at the same time."""
    for number in range(9):
        (tmp_path / f"{number}.part").touch()
        # Listed but not found, as a file that was just removed.
        (tmp_path / f"gone-{number}.part").symlink_to(tmp_path / "nothing")
    assert remove_drafts_before(tmp_path, time.time() + 60) == 9


def test_full_disk(tmp_path: Path) -> None:
    """A full disk is an error that leaves neither blob nor draft."""
    blobs = FolderBlobs(tmp_path)
    store_bytes(blobs, [b"before"])
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        with pytest.raises(StorageUnavailable, match="File too large"):
            store_bytes(blobs, pieces(CONTENT))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert [one.size for one in blobs.all_blobs()] == [6]
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_links(tmp_path: Path) -> None:
    """Links out of the folder are not followed."""
    folder, victim = tmp_path / "blobs", tmp_path / "victim"
    blobs = FolderBlobs(folder)
    victim.mkdir()
    (victim / DIGEST).write_text("precious")
    folder.mkdir()
    (folder / DIGEST[:2]).symlink_to(victim)
    with pytest.raises(StorageUnavailable, match="link"):
        blobs.delete(DIGEST)
    (victim / DIGEST).rename(tmp_path / "precious")
    with pytest.raises(StorageUnavailable, match="link"):
        store_bytes(blobs, pieces(CONTENT))
    assert not list(victim.iterdir())
    (folder / DIGEST[:2]).unlink()
    store_bytes(blobs, pieces(CONTENT))
    blobs.delete(DIGEST)
    assert blobs.size(DIGEST) is None


@pytest.mark.integration
def test_unreachable_storage() -> None:
    """An unreachable storage is named without credentials."""
    storage = ObjectStorage()
    url = storage.bucket()
    storage.close()
    with pytest.raises(StorageUnavailable) as excinfo:
        open_blobs(url).size(DIGEST)
    assert "secret" not in str(excinfo.value)


@pytest.mark.parametrize("url", ["ftp://host/x", "s3:///nothing?endpoint=x", "files", "gs://"])
def test_invalid_urls(url: str) -> None:
    """An invalid URL is a configuration error."""
    with pytest.raises(InvalidConfiguration):
        open_blobs(url)
