"""A large file fetched in parts is the right one, or one stream, or an error."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from programs import until
from sampled_cases import sampled

from wheelfit.errors import TooLarge
from wheelfit.sources.download_limits import ConnectionLimits, DownloadBudget
from wheelfit.sources.downloads import Download
from wheelfit.sources.page import File
from wheelfit.sources.progress import Progress
from wheelfit.sources.segmented_download import MIN_SIZE, SegmentPolicy
from wheelfit_runtime.errors import (
    HashMismatch,
    IntegrityError,
    InvalidWheel,
    UnexpectedStatus,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit.wheels.bytes_source import ByteSource

MB = 1 << 20
BODY = b"PK" + random.Random(1).randbytes(9 * MB)
SIZE = len(BODY)
TAIL = 128 << 10
RIGHT = {"sha256": hashlib.sha256(BODY).hexdigest()}
SEVERAL = SegmentPolicy(segment_size=MB, sufficient_speed=float("inf"), measuring_time=0.0)
"""As if one connection were always too slow."""
ALONE = SegmentPolicy(segment_size=MB, sufficient_speed=0.0, measuring_time=0.0)
"""As if one were always enough."""


class Counted(Progress):
    """Remember what a transfer told."""

    def __init__(self) -> None:
        self.starts: list[int | None] = []
        self.count = 0
        self.ended = 0
        self._lock = threading.Lock()

    def start(self, total: int | None) -> None:
        """Begin."""
        self.starts.append(total)
        self.count = 0

    def advance(self, count: int) -> None:
        """Add."""
        with self._lock:
            self.count += count

    def done(self) -> None:
        """End well."""
        self.ended += 1


def wheel(server: Any, **known: Any) -> File:
    """Describe the file that the tests fetch."""
    known = {"hashes": RIGHT, "size": SIZE, **known}
    return File("a-1-py3-none-any.whl", f"{server.url}/f", source="x", **known)


def whole(source: ByteSource) -> bytes:
    """Read a file as an archive is read: the end first."""
    end = source.read_at(source.size - 100, 100)
    start = b"".join(source.read_at(at, 100_000) for at in range(0, source.size, 100_000))
    assert start.endswith(end)
    return start


def only(use: Callable[[ByteSource], Any]) -> Callable[..., Any]:
    """Return what reads a file and then has it checked."""

    def used(source: ByteSource, check: Callable[[], None]) -> Any:
        result = use(source)
        check()
        return result

    return used


@pytest.fixture
def fetch(make_client: Any, target: BinaryIO) -> Callable[..., tuple[Any, Counted]]:
    """Give a function that downloads a file while it is read."""

    def run(
        file: File,
        use: Callable[[ByteSource], Any] = whole,
        policy: SegmentPolicy = SEVERAL,
        **how: Any,
    ) -> tuple[Any, Counted]:
        progress = Counted()
        how = {"connections": ConnectionLimits(), **how}
        download = Download(make_client(), file, progress, policy=policy, **how)
        result = download.read_with(only(use), target)
        target.seek(0)
        assert target.read() == BODY
        return result, progress

    return run


def ranges(server: Any) -> list[str | None]:
    """Return which parts were asked for."""
    return [request.headers.get("range") for request in server.requests]


class Serving:
    """Serve the file in parts, and let a test change single answers."""

    def __init__(self, server: Any, etag: str = '"1"') -> None:
        server.serve_file("/f", BODY, etag=etag)
        self._right = server.replies["/f"]
        self._changes: dict[int, Callable[[Any, Any], Any]] = {}
        self._number = 0
        self._lock = threading.Lock()
        server.replies["/f"] = self._answer

    def change(self, number: int, change: Callable[[Any, Any], Any]) -> None:
        """Change the answer of that number; 0 is the end of the file, -1 every other."""
        self._changes[number] = change

    def _answer(self, request: Any) -> Any:
        with self._lock:
            number, self._number = self._number, self._number + 1
        reply = self._right(request)
        if number and "range" in request.headers and (change := self._changes.get(-1)):
            reply = change(request, reply)
        if change := self._changes.get(number):
            return change(request, reply)
        return reply


@pytest.fixture
def serving(server: Any) -> Serving:
    """Serve the file as a good server does."""
    return Serving(server)


# --- when all is well ---------------------------------------------------------------------


@pytest.mark.usefixtures("serving")
def test_one_connection(server: Any, fetch: Any) -> None:
    """The end comes first, the rest in order; one connection is kept as long as it is enough."""
    body, progress = fetch(wheel(server), policy=ALONE)
    assert body == BODY
    first, *rest = ranges(server)
    assert first == f"bytes=-{TAIL}"
    assert rest[0] == f"bytes=0-{MB - 1}"
    assert rest[-1] is not None
    assert rest[-1].endswith(f"-{SIZE - TAIL - 1}")
    assert {request.headers.get("if-range") for request in server.requests[1:]} == {'"1"'}
    assert server.connections == 1
    assert (progress.starts, progress.count, progress.ended) == ([SIZE], SIZE, 1)


@pytest.mark.usefixtures("serving")
def test_fast_connection(server: Any, fetch: Any) -> None:
    """What comes sooner than can be measured shows a fast connection, which is asked for more."""
    body, _ = fetch(
        wheel(server),
        policy=SegmentPolicy(segment_size=MB, sufficient_speed=1.0, clock=lambda: 0.0),
    )
    assert body == BODY
    rest = f"bytes={MB}-{SIZE - TAIL - 1}"
    assert ranges(server) == [f"bytes=-{TAIL}", f"bytes=0-{MB - 1}", rest]


@pytest.mark.usefixtures("serving")
def test_several_connections(server: Any, fetch: Any) -> None:
    """Where one is too slow there are four at most, and every byte comes once."""
    body, progress = fetch(wheel(server))
    assert body == BODY
    assert 2 <= server.connections <= 4
    assert progress.count == SIZE
    assert max(Counter(ranges(server)).values()) == 1


@pytest.mark.usefixtures("serving")
@pytest.mark.parametrize("most", [1, 2])
def test_bounded_connections(server: Any, fetch: Any, most: int) -> None:
    """There are never more than allowed."""
    fetch(wheel(server), connections=ConnectionLimits(most))
    assert server.connections <= most


def test_read_meanwhile(server: Any, serving: Serving, fetch: Any) -> None:
    """What has come can be read before the last byte is there."""
    going_on = threading.Event()

    def wait(_: Any, reply: Any) -> Any:
        assert going_on.wait(20)
        return reply

    serving.change(-1, wait)

    def use(source: ByteSource) -> bytes:
        end = source.read_at(SIZE - 10, 10)
        going_on.set()
        return end

    assert fetch(wheel(server), use)[0] == BODY[-10:]


@pytest.mark.usefixtures("serving")
def test_size_from_the_server(server: Any, fetch: Any) -> None:
    """Where the index tells no size, the head of the first answer does."""
    body, progress = fetch(wheel(server, size=None))
    assert body == BODY
    assert ranges(server)[:2] == [None, f"bytes=-{TAIL}"]
    assert (progress.starts, progress.count) == ([SIZE], SIZE)


@pytest.mark.usefixtures("serving")
def test_without_a_hash(server: Any, fetch: Any) -> None:
    """Where nothing can tell whether parts make up the file, it comes in one."""
    assert fetch(wheel(server, hashes={}))[0] == BODY
    assert ranges(server) == [None]


def test_not_large(server: Any, make_client: Any, target: BinaryIO) -> None:
    """A small file is not worth the effort."""
    body = BODY[: MIN_SIZE - 1]
    server.serve_file("/f", body)
    file = wheel(server, size=len(body), hashes={"sha256": hashlib.sha256(body).hexdigest()})
    assert Download(make_client(), file, Counted()).read_with(only(whole), target) == body
    assert ranges(server) == [None]


@pytest.mark.usefixtures("serving")
def test_several_readers(server: Any, fetch: Any) -> None:
    """Threads may read several places at once, each waiting for its own."""

    def use(source: ByteSource) -> list[bytes]:
        results: dict[int, bytes] = {}

        def read(start: int) -> None:
            results[start] = source.read_at(start, MB)

        threads = [threading.Thread(target=read, args=(at,)) for at in range(0, SIZE, MB)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        return [results[at] for at in sorted(results)]

    assert b"".join(fetch(wheel(server), use)[0]) == BODY


# --- servers that are not good ------------------------------------------------------------


@pytest.mark.usefixtures("serving")
def test_no_ranges(server: Any, fetch: Any) -> None:
    """A server that gives the whole file whatever was asked for is read in one stream."""
    server.replies["/f"] = server.reply(BODY, headers={"ETag": '"1"'})
    body, progress = fetch(wheel(server))
    assert body == BODY
    assert len(server.requests) == 2
    assert (progress.count, progress.ended) == (SIZE, 1)


@pytest.mark.usefixtures("serving")
def test_ranges_known_to_be_missing(server: Any, fetch: Any) -> None:
    """Where that is known it is not tried."""
    assert fetch(wheel(server), may_use_ranges=False)[0] == BODY
    assert ranges(server) == [None]


def test_ranges_declined(server: Any, fetch: Any) -> None:
    """Nor where the server says so."""
    server.replies["/f"] = server.reply(BODY, headers={"Accept-Ranges": "none"})
    assert fetch(wheel(server, size=None))[0] == BODY
    assert ranges(server) == [None]


def altered(reply: Any, body: bytes | None = None, **headers: str) -> Any:
    """Return an answer with another body, or with other headers."""
    changed = {name.replace("_", "-"): text for name, text in headers.items()}
    return type(reply)(reply.body if body is None else body, 206, {**reply.headers, **changed})


CHANGES: dict[str, Callable[[Any], Any]] = {
    "the whole file": lambda reply: type(reply)(BODY, 200, {"ETag": '"1"'}),
    "another place": lambda reply: altered(
        reply, Content_Range=reply.headers["Content-Range"].replace("bytes ", "bytes 1")
    ),
    "another size": lambda reply: altered(
        reply, Content_Range=reply.headers["Content-Range"] + "0"
    ),
    "another state": lambda reply: altered(reply, b"x" * len(reply.body), ETag='"2"'),
    "a compressed file": lambda reply: altered(reply, Content_Encoding="gzip"),
    "no place": lambda reply: type(reply)(
        reply.body,
        206,
        {key: text for key, text in reply.headers.items() if key != "Content-Range"},
    ),
    "refused": lambda reply: type(reply)(b"", 403, {}),
    "nothing more": lambda reply: type(reply)(b"", 416, {}),
    "too many bytes": lambda reply: altered(reply, reply.body + b"more"),
}


@pytest.mark.parametrize("number", sampled([0, 1, 3], fast={1}))
@pytest.mark.parametrize("name", CHANGES)
def test_disagreement(server: Any, serving: Serving, fetch: Any, name: str, number: int) -> None:
    """Parts that do not fit are no error: then it is one stream, from the first byte."""
    serving.change(number, lambda _, reply: CHANGES[name](reply))
    body, progress = fetch(wheel(server))
    assert body == BODY
    # A connection that is refused leaves the rest to the others. Bytes too many may be noticed
    # after the file has come, whole and right.
    is_late = name == "too many bytes" and number == 3
    assert ranges(server).count(None) == (name != "refused" or number < 3) or is_late
    assert (progress.count, progress.ended) == (SIZE, 1)


def test_changed_meanwhile(server: Any, serving: Serving, fetch: Any) -> None:
    """A file that is replaced on the server is never joined from two states."""
    old = b"PK" + bytes(SIZE - 2)

    def outdated(_: Any, reply: Any) -> Any:
        return type(reply)(old[-TAIL:], 206, {**reply.headers, "ETag": '"old"'})

    serving.change(0, outdated)
    seen: list[bytes] = []

    def use(source: ByteSource) -> bytes:
        seen.append(source.read_at(SIZE - 10, 10))
        return whole(source)

    assert fetch(wheel(server), use)[0] == BODY
    # The change may be noticed before anybody has read a byte of the old state.
    assert seen in ([bytes(10), BODY[-10:]], [BODY[-10:]])


@pytest.mark.parametrize("etag", ['W/"1"', ""])
def test_wrong_bytes_without_a_strong_validator(server: Any, fetch: Any, etag: str) -> None:
    """Where parts may be of different states unseen, a wrong whole is fetched once more."""
    serving = Serving(server, etag)
    serving.change(2, lambda _, reply: type(reply)(b"x" * len(reply.body), 206, reply.headers))
    assert fetch(wheel(server))[0] == BODY
    assert None in ranges(server)


def test_a_verdict_without_a_strong_validator(server: Any, fetch: Any) -> None:
    """The same where the reader noticed first."""
    serving = Serving(server, "")
    serving.change(0, lambda _, reply: type(reply)(b"x" * len(reply.body), 206, reply.headers))

    def use(source: ByteSource) -> bytes:
        if source.read_at(SIZE - 1, 1) == b"x":
            raise InvalidWheel("not an archive")
        return whole(source)

    assert fetch(wheel(server), use)[0] == BODY


@pytest.mark.usefixtures("serving")
def test_wrong_hash(server: Any, fetch: Any) -> None:
    """With a strong validator a wrong whole is an error, and what was read does not count."""
    with pytest.raises(HashMismatch):
        fetch(wheel(server, hashes={"sha256": "0" * 64}))
    assert None not in ranges(server)


@pytest.mark.usefixtures("serving")
def test_every_hash_counts(server: Any, fetch: Any) -> None:
    """All promised hashes must hold."""
    with pytest.raises(HashMismatch):
        fetch(wheel(server, hashes={**RIGHT, "md5": "0" * 32}))


@pytest.mark.usefixtures("serving")
def test_wrong_size(server: Any, fetch: Any) -> None:
    """A size that was promised wrongly is an error, not a reason to trust the server."""
    with pytest.raises(IntegrityError, match="another size"):
        fetch(wheel(server, size=SIZE + 1))


def test_missing(server: Any, fetch: Any) -> None:
    """A listed file that is not there says so."""
    with pytest.raises(UnexpectedStatus, match="404"):
        fetch(wheel(server))


# --- broken connections -------------------------------------------------------------------


def test_resumed(server: Any, serving: Serving, fetch: Any) -> None:
    """A part that breaks off goes on where it was."""

    def cut(_: Any, reply: Any) -> Any:
        reply.cut_after = 300_000
        return reply

    for number in (1, 2, 5):
        serving.change(number, cut)
    body, progress = fetch(wheel(server))
    assert body == BODY
    assert progress.count == SIZE
    assert "bytes=300000-1048575" in ranges(server)


def test_tail_breaks_off(server: Any, serving: Serving, fetch: Any) -> None:
    """If the end does not come, it is one stream."""

    def cut(_: Any, reply: Any) -> Any:
        reply.cut_after = 100
        return reply

    serving.change(0, cut)
    assert fetch(wheel(server))[0] == BODY


@pytest.mark.parametrize(("status", "tries"), [(None, 3), (429, 3), (503, 3), (403, 1)])
def test_starving_connections(
    server: Any, serving: Serving, fetch: Any, status: int | None, tries: int
) -> None:
    """A server that serves some connections only is not an obstacle."""

    def starve(_: Any, reply: Any) -> Any:
        if status is not None:
            return type(reply)(b"", status, {})
        reply.cut_after = 0
        return reply

    for number in range(2, 2 + tries):  # enough for one connection to give up
        serving.change(number, starve)
    assert fetch(wheel(server))[0] == BODY
    assert None not in ranges(server)


def test_given_up(server: Any, serving: Serving, fetch: Any) -> None:
    """A server that is gone for good is an error for whoever waits for bytes."""

    def cut(_: Any, reply: Any) -> Any:
        reply.cut_after = 0
        return reply

    serving.change(-1, cut)
    with pytest.raises(Unreachable):
        fetch(wheel(server))


# --- early ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [ALONE, SEVERAL])
def test_a_verdict_ends_it(
    server: Any, serving: Serving, fetch: Any, policy: SegmentPolicy
) -> None:
    """A reader that has seen enough ends the transfer at once, though the server is silent."""

    def silent(_: Any, reply: Any) -> Any:
        reply.silent_after = 1000
        return reply

    serving.change(-1, silent)
    before = set(threading.enumerate())

    def use(source: ByteSource) -> None:
        source.read_at(SIZE - 1, 1)
        source.read_at(0, 1000)
        raise InvalidWheel("not an archive")

    with pytest.raises(InvalidWheel, match="not an archive"):
        fetch(wheel(server), use, policy)
    # Looked for again and again: one that is about to end may just have started another.
    until(lambda: not any(one.name == "transfer" for one in set(threading.enumerate()) - before))


@pytest.mark.usefixtures("serving")
def test_budget(server: Any, fetch: Any) -> None:
    """What is too much is not begun."""
    with pytest.raises(TooLarge):
        fetch(wheel(server, size=None), budget=DownloadBudget(SIZE - 1))
    assert ranges(server) == [None]


@pytest.mark.usefixtures("serving")
def test_cancelled_by_progress(server: Any, make_client: Any, target: BinaryIO) -> None:
    """What whoever watches raises, ends it."""

    class Enough(Exception):
        pass

    class Impatient(Counted):
        def advance(self, count: int) -> None:
            super().advance(count)
            if self.count > 2 * MB:
                raise Enough

    download = Download(make_client(), wheel(server), Impatient(), policy=SEVERAL)
    with pytest.raises(Enough):
        download.read_with(only(whole), target)


@pytest.mark.usefixtures("serving")
def test_full_disk(server: Any, make_client: Any) -> None:
    """A disk that takes no more is an error of the system, told to whoever reads."""
    with open("/dev/full", "w+b", buffering=0) as full:  # noqa: PTH123
        download = Download(make_client(), wheel(server), Counted(), policy=SEVERAL)
        with pytest.raises(OSError, match="No space"):
            download.read_with(only(whole), full)
