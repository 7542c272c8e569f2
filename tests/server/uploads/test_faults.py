"""Uploads with kills, full disks, little memory, and bodies of any size."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from programs import run_program
from server.uploading import BOUNDARY, CONTENT_TYPE, DOCUMENT, NOW, fields_of, form, upload

from wheelfit.errors import StorageUnavailable, UploadRefused
from wheelfit.server.messages import Disconnect
from wheelfit.server.store.opening import Store, clean, open_store
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.uploads.accepting import AcceptedUpload
from wheelfit.server.uploads.form import FormLimits, read_form
from wheelfit.testing.wheels import build_large_wheel, build_wheel

pytestmark = pytest.mark.integration

SOME = canonicalize_name("some")
TESTS = str(Path(__file__).parents[2])


def run_script(script: str, store: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script that gets the folders of tests and store, and arguments."""
    words = (sys.executable, "-c", textwrap.dedent(script), TESTS, store, *arguments)
    return run_program(*words, code=None)


KILLED = """
    import os, signal, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    from server.uploading import upload
    from wheelfit.server.store.opening import Store, open_store

    class Dying:
        \"\"\"Blobs or records that take their process with them at one method.\"\"\"

        def __init__(self, inner, method, *, after):
            self._inner, self._method, self._after = inner, method, after

        def __getattr__(self, name):
            inner = getattr(self._inner, name)
            if name != self._method:
                return inner
            def method(*arguments, **named):
                if self._after:
                    inner(*arguments, **named)
                os.kill(os.getpid(), signal.SIGKILL)
            return method

    _, _, folder, records, blobs, wheel, moment = sys.argv
    store = open_store(Path(folder), records=records, blobs=blobs)
    when, kind, method = moment.split()
    parts = store._asdict()
    parts[kind] = Dying(parts[kind], method, after=when == "after")
    upload(Store(**parts), Path(wheel))
"""


@pytest.mark.parametrize(
    ("moment", "is_there"),
    [
        ("before blobs save", False),
        ("after blobs save", False),
        ("before records add", False),
        ("after records add", True),
    ],
)
def test_kill_between_bytes_and_record(
    moment: str,
    is_there: bool,  # noqa: FBT001 - of the table above
    addresses: tuple[str, str],
    opened: Callable[..., Store],
    tmp_path: Path,
) -> None:
    """After a kill a file is complete or missing; unused bytes are removed later."""
    wheel = build_wheel(tmp_path, "some", "1.0")
    completed = run_script(KILLED, tmp_path / "store", *addresses, wheel, moment)
    assert completed.returncode == -signal.SIGKILL
    store = opened(*addresses)
    page = StoredIndex(store).project(SOME)
    assert (page is not None) is is_there
    if not is_there:
        clean(store, now=NOW + timedelta(days=9999), grace=timedelta(hours=1))
        assert list(store.blobs.all_blobs()) == []
    assert not list(tmp_path.rglob("*.part")) or is_there
    again = upload(store, wheel)
    assert isinstance(again, AcceptedUpload)
    assert again.is_new is not is_there
    content = StoredIndex(store).content(wheel.name)
    assert content is not None
    assert b"".join(content.parts(0, content.size)) == wheel.read_bytes()


STATEMENTS = """
    import contextlib, json, os, signal, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    from server.uploading import upload
    from wheelfit.server.store.opening import Store, open_blobs, open_database, open_store
    from wheelfit.server.store.sessions import Sessions
    from wheelfit.server.store.sql_records import Records

    class Dying:
        \"\"\"A database that takes its process with it before a certain statement.\"\"\"

        def __init__(self, inner, count):
            self._inner, self._left = inner, count
            self.column_types, self.reading, self.close = (
                inner.column_types, inner.reading, inner.close
            )

        @contextlib.contextmanager
        def writing(self):
            with self._inner.writing() as execute:
                def counted(*arguments):
                    self.die()
                    return execute(*arguments)
                yield counted
                self.die()  # before it is made final

        def die(self):
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    _, _, folder, records, blobs, wheel = sys.argv
    seen = []
    while True:
        child = os.fork()
        if not child:
            dying = Dying(open_database(records), len(seen))
            store = Store(Records(dying), Sessions(dying), open_blobs(blobs))
            upload(store, Path(wheel))
            os._exit(0)
        was_killed = os.waitpid(child, 0)[1] == signal.SIGKILL
        with open_store(Path(folder), records=records, blobs=blobs) as store:
            listing = store.records.listing("some")
            (listed,) = listing.documents
            document = store.records.release_document(listed.filename)
            assert (listed.sha256, listed.size) == (document.sha256, len(document.content))
            labels = list(json.loads(document.content)["variants"])
            seen.append([len(listing.files), labels, store.records.serial("some")])
        if not was_killed:
            break
    print(json.dumps(seen))
"""


def test_kill_at_any_statement(addresses: tuple[str, str], tmp_path: Path) -> None:
    """F-74: wherever a transaction ends, files, document and number are all old or all new."""
    if addresses[1].startswith("s3"):  # which is not what is looked at here
        addresses = (addresses[0], f"file://{tmp_path}/blobs")
    with open_store(tmp_path / "store", records=addresses[0], blobs=addresses[1]) as store:
        upload(store, build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT))
    wheel = build_wheel(tmp_path, "some", "1.0", label="open", document=DOCUMENT)
    completed = run_script(STATEMENTS, tmp_path / "store", *addresses, wheel)
    *killed, last = json.loads(completed.stdout or "[[]]")
    assert last == [2, ["mkl", "open"], 2], completed.stderr
    assert len(killed) > 10
    assert all(one == [1, ["mkl"], 1] for one in killed)


LARGE = """
    import hashlib, io, resource, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    from server.uploading import CONTENT_TYPE, NOW, fields_of, form
    from wheelfit.server.store.opening import open_store
    from wheelfit.server.uploads.accepting import accept_upload
    from wheelfit.server.uploads.form import read_form

    _, _, folder, records, blobs, wheel = sys.argv
    store = open_store(Path(folder), records=records, blobs=blobs)

    class Body:
        \"\"\"A form around a file that is never in memory as a whole.\"\"\"

        def __init__(self, path, fields):
            before, after = form(path.name, b"|", fields).split(b"|")
            self._parts = [io.BytesIO(before), path.open("rb"), io.BytesIO(after)]

        def read(self, size=-1):
            while self._parts:
                if data := self._parts[0].read(size):
                    return data
                self._parts.pop(0).close()
            return b""

    def most():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    path = Path(wheel)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    fields = {**fields_of(path.name, b""), "sha256_digest": digest, "blake2_256_digest": ""}
    small = Path(wheel).with_name("small-1.0-py3-none-any.whl")
    before = None
    for path, one in ((small, None), (path, fields)):
        if one is None:
            one = fields_of(path.name, path.read_bytes())
        with read_form(Body(path, one), CONTENT_TYPE, store.blobs.draft()) as upload:
            response = accept_upload(upload, store, now=NOW)
        assert not isinstance(response, tuple), response
        if before is None:
            before = most()
    print(most() - before)
"""


def test_memory_of_a_large_wheel(addresses: tuple[str, str], tmp_path: Path) -> None:
    """A large wheel is read, checked and stored in pieces."""
    size = 128 << 20
    wheel = build_large_wheel(tmp_path, "some", "1.0", size)
    build_wheel(tmp_path, "small", "1.0")
    completed = run_script(LARGE, tmp_path / "store", *addresses, wheel)
    assert completed.returncode == 0, completed.stderr
    assert int(completed.stdout) * 1024 < size // 2


FULL = """
    import resource, signal, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    from server.uploading import upload
    from wheelfit.errors import StorageUnavailable
    from wheelfit.server.store.opening import open_store
    from wheelfit.server.store.stored_index import StoredIndex

    _, _, folder, records, blobs, wheel = sys.argv
    store = open_store(Path(folder), records=records, blobs=blobs)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    try:
        upload(store, Path(wheel))
    except StorageUnavailable as error:
        print(error.reference)
    print(StoredIndex(store).projects())
    store.close()
"""


def test_full_disk(
    addresses: tuple[str, str], opened: Callable[..., Store], tmp_path: Path
) -> None:
    """On a full disk an upload fails with that reason, leaves nothing, and works later."""
    import random

    content = random.Random(1).randbytes(1_000_000)
    wheel = build_wheel(tmp_path, "some", "1.0", files={"some.bin": content})
    completed = run_script(FULL, tmp_path / "store", *addresses, wheel)
    assert completed.stdout.splitlines() == ["storage-unavailable", "()"], completed.stderr
    assert not list(tmp_path.rglob("*.part"))
    store = opened(*addresses)
    assert list(store.blobs.all_blobs()) == []
    assert isinstance(upload(store, wheel), AcceptedUpload)


def test_full_disk_of_the_database(opened: Callable[..., Store], tmp_path: Path) -> None:
    """If only the record does not fit, there is no such file."""
    wheel = build_wheel(tmp_path, "some", "1.0")
    opened().close()
    addresses = (f"sqlite://{tmp_path}/store/index.sqlite3", f"file://{tmp_path}/store/files")
    script = FULL.replace("300_000", "5_000")
    completed = run_script(script, tmp_path / "store", *addresses, wheel)
    assert completed.stdout.splitlines()[0] == "storage-unavailable", completed.stderr
    store = opened()
    assert StoredIndex(store).projects() == ()
    assert isinstance(upload(store, wheel), AcceptedUpload)


class Endless:
    """A body whose file never ends."""

    def __init__(self, start: bytes) -> None:
        self._start = start
        self.sent = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return more of it."""
        piece, self._start = self._start or b"x" * size, b""
        self.sent += len(piece)
        return piece


def test_endless_body(opened: Callable[..., Store], tmp_path: Path) -> None:
    """A too large file is refused at the first byte beyond the limit, and leaves nothing."""
    store = opened()
    start = form("some-1.0-py3-none-any.whl", b"", fields_of("some-1.0-py3-none-any.whl", b""))
    body = Endless(start.removesuffix(f"\r\n--{BOUNDARY}--\r\n".encode()))
    limits = FormLimits(file=1_000_000)
    with (
        pytest.raises(UploadRefused, match="1000000") as excinfo,
        read_form(body, CONTENT_TYPE, store.blobs.draft(), limits=limits),
    ):
        pass
    assert [detail["reference"] for detail in excinfo.value.details] == ["too-large"]
    assert body.sent < 2_000_000
    assert not list(tmp_path.rglob("*.part"))


class Leaving(io.BytesIO):
    """A body whose client disconnects in the middle."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Return some bytes, then nothing."""
        return super().read(min(size or 0, 100)) if self.tell() < 2000 else self._gone()

    def _gone(self) -> bytes:
        raise Disconnect


def test_disconnected_client(opened: Callable[..., Store], tmp_path: Path) -> None:
    """What was received of an aborted upload is removed."""
    store = opened()
    name = "some-1.0-py3-none-any.whl"
    body = Leaving(form(name, b"y" * 9000, fields_of(name, b"")))
    with pytest.raises(Disconnect), read_form(body, CONTENT_TYPE, store.blobs.draft()):
        pass
    assert not list(tmp_path.rglob("*.part"))


def test_closed_store(opened: Callable[..., Store], tmp_path: Path) -> None:
    """A file that cannot be recorded is an error, and not in the index."""
    store = opened()
    wheel = build_wheel(tmp_path, "some", "1.0")
    store.close()
    with pytest.raises(StorageUnavailable):
        upload(store, wheel)
