"""Bytes under their digest: the same promises for a folder and for a storage like S3."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from server.services import ObjectStorage

from wheelfit.errors import StorageUnavailable
from wheelfit.server.store.blobs import Blobs, put
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.store.opening import open_blobs
from wheelfit_runtime.errors import InvalidConfiguration

CONTENT = random.Random(7).randbytes(3_000_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def blobs(blobs_url: str, tmp_path: Path) -> Blobs:
    """Give an empty storage of each kind."""
    return open_blobs(blobs_url, spool=tmp_path / "spool")


def pieces(content: bytes) -> list[bytes]:
    """Cut bytes into pieces."""
    return [content[start : start + 70_000] for start in range(0, len(content), 70_000)]


def test_what_is_put_can_be_had(blobs: Blobs) -> None:
    """Bytes that came in pieces are found by their digest, whole and in parts."""
    assert blobs.size(DIGEST) is None
    blob = put(blobs, pieces(CONTENT))
    assert (blob.sha256, blob.size) == (DIGEST, len(CONTENT))
    assert blobs.size(DIGEST) == len(CONTENT)
    assert b"".join(blobs.parts(DIGEST, 0, len(CONTENT))) == CONTENT
    assert b"".join(blobs.parts(DIGEST, 1000, 2_500_001)) == CONTENT[1000:2_500_001]
    assert b"".join(blobs.parts(DIGEST, 5, 5)) == b""
    assert max(map(len, blobs.parts(DIGEST, 0, len(CONTENT)))) < len(CONTENT)


def test_nothing_is_a_content_too(blobs: Blobs) -> None:
    """The empty file can be kept."""
    blob = put(blobs, [])
    assert blobs.size(blob.sha256) == 0
    assert list(blobs.parts(blob.sha256, 0, 0)) == []


def test_large_ones_come_in_parts(blobs: Blobs) -> None:
    """What is larger than one part of a multipart upload arrives whole."""
    content = random.Random(8).randbytes(1 << 20) * 20
    blob = put(blobs, pieces(content))
    seen = hashlib.sha256()
    for piece in blobs.parts(blob.sha256, 0, blob.size):
        seen.update(piece)
    assert seen.hexdigest() == blob.sha256 == hashlib.sha256(content).hexdigest()


def test_keeping_again_changes_nothing(blobs: Blobs) -> None:
    """The same bytes are kept once, however often and by however many at once."""
    threads = [threading.Thread(target=put, args=(blobs, pieces(CONTENT))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(one.sha256, one.size) for one in blobs.stored()] == [(DIGEST, len(CONTENT))]
    assert b"".join(blobs.parts(DIGEST, 0, len(CONTENT))) == CONTENT


def test_what_was_kept_can_be_kept_again_from_its_draft(blobs: Blobs) -> None:
    """A draft outlives the removal of what was kept of it."""
    with blobs.draft() as draft:
        draft.write(b"wheel")
        blobs.keep(draft)
        blobs.delete(draft.sha256)
        assert blobs.size(draft.sha256) is None
        blobs.keep(draft)
        assert blobs.size(draft.sha256) == 5


def test_a_draft_that_was_not_kept_is_gone(blobs: Blobs, tmp_path: Path) -> None:
    """What was not kept is nowhere, and what was kept has no second name."""
    with blobs.draft() as draft:
        draft.write(b"wheel")
    assert list(blobs.stored()) == []
    put(blobs, [b"wheel"])
    assert not list(tmp_path.rglob("*.part"))


def test_deleting_what_is_not_there(blobs: Blobs) -> None:
    """To delete twice is as good as once."""
    put(blobs, pieces(CONTENT))
    blobs.delete(DIGEST)
    blobs.delete(DIGEST)
    assert blobs.size(DIGEST) is None
    with pytest.raises(StorageUnavailable):
        list(blobs.parts(DIGEST, 0, 1))


@pytest.mark.parametrize("digest", ["../../../etc/passwd", "", "A" * 64, f"{'0' * 64}\n", "é" * 64])
def test_only_digests_become_paths(blobs: Blobs, digest: str) -> None:
    """What is not a SHA-256 names no file."""
    with pytest.raises(ValueError, match="no SHA-256"):
        blobs.size(digest)


def test_drafts_of_the_dead_are_removed(blobs_url: str, tmp_path: Path) -> None:
    """A draft that nobody writes any more goes, one that is written stays."""
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
    assert list(blobs.stored()) == []
    modified = left.stat().st_mtime
    assert blobs.tidy(modified - 1) == 0
    with blobs.draft() as draft:
        draft.write(b"x")
        os.utime(draft.path, (modified + 9, modified + 9))
        assert blobs.tidy(modified + 5) == 1
        assert draft.path.exists()
    assert not left.exists()


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """When there is no room, the error says so, and neither a digest nor a draft is left."""
    blobs = FolderBlobs(tmp_path)
    put(blobs, [b"before"])
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        with pytest.raises(StorageUnavailable, match="File too large"):
            put(blobs, pieces(CONTENT))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert [one.size for one in blobs.stored()] == [6]
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_link_in_the_folder(tmp_path: Path) -> None:
    """Nothing is kept or removed where a link leads out of the folder."""
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
        put(blobs, pieces(CONTENT))
    assert not list(victim.iterdir())
    (folder / DIGEST[:2]).unlink()
    put(blobs, pieces(CONTENT))
    blobs.delete(DIGEST)
    assert blobs.size(DIGEST) is None


@pytest.mark.integration
def test_a_storage_that_does_not_answer() -> None:
    """Who cannot be reached is named without credentials."""
    storage = ObjectStorage()
    url = storage.bucket()
    storage.close()
    with pytest.raises(StorageUnavailable) as excinfo:
        open_blobs(url).size(DIGEST)
    assert "secret" not in str(excinfo.value)


@pytest.mark.parametrize("url", ["ftp://host/x", "s3:///nothing?endpoint=x", "files", "gs://"])
def test_addresses_that_name_no_storage(url: str) -> None:
    """A wrong address is an error of configuration."""
    with pytest.raises(InvalidConfiguration):
        open_blobs(url)
