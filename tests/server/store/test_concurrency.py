"""Concurrent threads and replicas."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Barrier, Event

import pytest
from packaging.utils import canonicalize_name
from server.uploading import DOCUMENT, NOW, refused, upload

from wheelfit.server.store.opening import Store, clean
from wheelfit.server.store.sqlite import SqliteDatabase
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.uploads.accepting import AcceptedUpload
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration

SOME = canonicalize_name("some")
MANY = 6

REPLICA = """
    import json, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    from server.uploading import upload
    from wheelfit.server.store.opening import open_store
    from wheelfit.server.uploads.accepting import AcceptedUpload

    _, _, folder, records, blobs, *wheels = sys.argv
    with open_store(Path(folder), records=records, blobs=blobs) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        answers = []
        for wheel in wheels:
            answer = upload(store, Path(wheel))
            if isinstance(answer, AcceptedUpload):
                answers.append("new" if answer.is_new else "there")
            else:
                answers.append(",".join(one.reference for one in answer))
        print(json.dumps(answers), flush=True)
"""


def upload_concurrently(
    folder: Path, addresses: tuple[str, str], wheels: list[list[Path]]
) -> list[list[str]]:
    """Upload from several processes at the same time; return their results."""
    command = [sys.executable, "-c", textwrap.dedent(REPLICA), str(Path(__file__).parents[2])]
    running = [
        subprocess.Popen(
            [*command, str(folder / str(number)), *addresses, *map(str, own)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, own in enumerate(wheels)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    answers = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        said, _ = process.communicate()
        answers.append(json.loads(said))
    return answers


def build_conflicting_wheels(folder: Path, count: int) -> list[Path]:
    """Build wheels with the same name and different contents."""
    return [
        build_wheel(folder / str(number), "some", "1.0", files={"some.py": f"n = {number}"})
        for number in range(count)
    ]


def assert_consistent(store: Store) -> None:
    """Check that every listed file has its bytes."""
    index = StoredIndex(store)
    for project in index.projects():
        page = index.project(project)
        assert page is not None
        for file in page.files:
            content = index.content(file.filename)
            assert content is not None
            data = b"".join(content.parts(0, content.size))
            assert hashlib.sha256(data).hexdigest() == file.hashes["sha256"] == content.sha256
            assert len(data) == file.size


def test_conflicting_uploads_in_threads(store: Store, tmp_path: Path) -> None:
    """Of conflicting uploads exactly one succeeds."""
    barrier = Barrier(MANY)

    def send(path: Path) -> AcceptedUpload | tuple[object, ...]:
        barrier.wait()
        return upload(store, path)

    with ThreadPoolExecutor(MANY) as pool:
        answers = list(pool.map(send, build_conflicting_wheels(tmp_path, MANY)))
    winners = [answer for answer in answers if isinstance(answer, AcceptedUpload)]
    assert [winner.is_new for winner in winners] == [True]
    losers = [refused(answer) for answer in answers if not isinstance(answer, AcceptedUpload)]  # type: ignore[arg-type]
    assert losers == [{"name-taken"}] * (MANY - 1)
    assert_consistent(store)


def test_equal_uploads_in_threads(store: Store, tmp_path: Path) -> None:
    """Equal uploads are stored once, and all succeed."""
    (path,) = build_conflicting_wheels(tmp_path, 1)
    barrier = Barrier(MANY)

    def send(_: int) -> bool:
        barrier.wait()
        answer = upload(store, path)
        assert isinstance(answer, AcceptedUpload)
        return answer.is_new

    with ThreadPoolExecutor(MANY) as pool:
        assert sorted(pool.map(send, range(MANY))) == [False] * (MANY - 1) + [True]
    assert_consistent(store)


def test_conflicting_uploads_in_processes(
    addresses: tuple[str, str], opened: Callable[..., Store], tmp_path: Path
) -> None:
    """Of conflicting uploads to two replicas exactly one succeeds."""
    first, second = build_conflicting_wheels(tmp_path, 2)
    answers = upload_concurrently(tmp_path, addresses, [[first], [second]])
    assert sorted(answers) == [["name-taken"], ["new"]]
    store = opened(*addresses)
    assert_consistent(store)
    page = StoredIndex(store).project(SOME)
    assert page is not None
    assert len(page.files) == 1
    # What the loser sent is nobody's, and goes.
    assert len(list(store.blobs.all_blobs())) in (1, 2)
    clean(store, now=NOW + timedelta(days=9999), grace=timedelta(days=1))
    assert [one.sha256 for one in store.blobs.all_blobs()] == [page.files[0].hashes["sha256"]]


def test_one_release_in_two_processes(
    addresses: tuple[str, str], opened: Callable[..., Store], tmp_path: Path
) -> None:
    """F-70, F-74: the document of a release has the wheels from both replicas."""

    def wheels(tag: str) -> list[Path]:
        return [
            build_wheel(tmp_path / tag, "some", "1.0", label=label, document=DOCUMENT, tag=tag)
            for label in ("mkl", "open", "null")
        ]

    own = [wheels("py3-none-any"), wheels("py2-none-any")]
    answers = upload_concurrently(tmp_path, addresses, own)
    assert answers == [["new"] * 3] * 2
    store = opened(*addresses)
    assert_consistent(store)
    document = store.records.release_document("some-1.0-variants.json")
    assert document is not None
    assert set(json.loads(document.content)["variants"]) == {"mkl", "null", "open"}
    assert store.records.serial() == 6


def test_cleaning_during_uploads(store: Store, tmp_path: Path) -> None:
    """Cleaning deletes no bytes of recorded files."""
    paths = [
        build_wheel(tmp_path, "some", f"{number}.0", files={"some.py": "same"})
        for number in range(8)
    ]
    is_done = Event()

    def remove_old_drafts() -> int:
        count = 0
        while not is_done.is_set():
            kept = [one.sha256 for one in store.blobs.all_blobs()]
            count += len(store.records.delete_unused(kept, store.blobs.delete))
        return count

    with ThreadPoolExecutor(4) as pool:
        cleaner = pool.submit(remove_old_drafts)
        try:
            answers = list(pool.map(partial(upload, store), paths))
        finally:
            is_done.set()
        cleaner.result()
    assert all(isinstance(answer, AcceptedUpload) for answer in answers), answers
    page = StoredIndex(store).project(SOME)
    assert page is not None
    assert len(page.files) == len(paths)
    assert_consistent(store)


def test_new_database_opened_at_once(tmp_path: Path) -> None:
    """Servers that start together on a new SQLite file all open it."""
    with ThreadPoolExecutor(6) as pool:
        for number in range(40):
            path = tmp_path / str(number) / "records.sqlite3"
            start = Barrier(6)

            def open_at_once(path: Path = path, start: Barrier = start) -> None:
                start.wait()
                SqliteDatabase(path).close()

            for opened in [pool.submit(open_at_once) for _ in range(6)]:
                opened.result()
