"""A download is whole and right, or an error."""

from __future__ import annotations

import gzip
import hashlib
import io
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest

from wheelfit.errors import TooLarge
from wheelfit.sources.download_limits import DownloadBudget
from wheelfit.sources.downloads import Download
from wheelfit.sources.page import File
from wheelfit.sources.progress import Progress
from wheelfit_runtime.errors import HashMismatch, IntegrityError, UnexpectedStatus, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = bytes(range(256)) * 4000
RIGHT = {"sha256": hashlib.sha256(BODY).hexdigest()}


class NotedProgress(Progress):
    """Remember what a transfer told."""

    def __init__(self) -> None:
        self.starts: list[int | None] = []
        self.count = 0
        self.ended = False

    def start(self, total: int | None) -> None:
        """Begin."""
        self.starts.append(total)
        self.count = 0

    def advance(self, count: int) -> None:
        """Add."""
        self.count += count

    def done(self) -> None:
        """End."""
        self.ended = True


def wheel(server: Any, **known: Any) -> File:
    """Describe the file that the tests fetch."""
    return File("a-1-py3-none-any.whl", f"{server.url}/f", source="x", **known)


@pytest.fixture
def fetch(make_client: Any) -> Callable[..., tuple[bytes, NotedProgress]]:
    """Give a function that downloads a file."""

    def run(file: File) -> tuple[bytes, NotedProgress]:
        progress = NotedProgress()
        target = io.BytesIO()
        Download(make_client(), file, progress).read_with(lambda _, check: check(), target)
        return target.getvalue(), progress

    return run


def breaking(
    server: Any, pieces: list[int], *, etag: str | None = '"1"', honest: bool = True
) -> None:
    """Serve the file so that it breaks off after so many bytes, each time."""

    def answer(request: Any) -> Any:
        asked = request.headers.get("range", "bytes=0-").removeprefix("bytes=").removesuffix("-")
        start = int(asked) if honest else 0
        headers = {"ETag": etag} if etag else {}
        if "range" in request.headers and honest:
            headers["Content-Range"] = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
        cut = pieces.pop(0) if pieces else None
        status = 206 if "Content-Range" in headers else 200
        return server.reply(BODY[start:], status, headers, cut)

    server.replies["/f"] = answer


def test_whole(server: Any, fetch: Any) -> None:
    """A file arrives, is checked, and every byte is told of."""
    server.serve_file("/f", BODY)
    body, progress = fetch(wheel(server, hashes=RIGHT, size=len(BODY)))
    assert body == BODY
    assert (progress.starts, progress.count, progress.ended) == ([len(BODY)], len(BODY), True)


def test_resume(server: Any, fetch: Any) -> None:
    """A download that breaks off goes on where it was, if the file is still the same."""
    breaking(server, [300_000, 200_000, 100_000])
    body, progress = fetch(wheel(server, hashes=RIGHT))
    assert body == BODY
    assert [request.headers.get("range") for request in server.requests] == [
        None,
        "bytes=300000-",
        "bytes=500000-",
        "bytes=600000-",
    ]
    assert {request.headers.get("if-range") for request in server.requests[1:]} == {'"1"'}
    assert (len(progress.starts), progress.count) == (1, len(BODY))


def test_resume_many_times(server: Any, fetch: Any) -> None:
    """As long as bytes come, it is never too often."""
    breaking(server, [100_000] * 10)
    assert fetch(wheel(server, hashes=RIGHT))[0] == BODY


def test_no_new_bytes(server: Any, fetch: Any, waits: list[float]) -> None:
    """Without new bytes it is given up after some tries, with growing pauses."""
    breaking(server, [1000] + [0] * 10)
    with pytest.raises(Unreachable, match="broke off"):
        fetch(wheel(server, hashes=RIGHT))
    assert waits == [0.25, 0.5]


def test_server_without_ranges(server: Any, fetch: Any) -> None:
    """A server that starts again from the first byte is listened to from the first byte."""
    breaking(server, [300_000], honest=False)
    body, progress = fetch(wheel(server, hashes=RIGHT))
    assert body == BODY
    assert (len(progress.starts), progress.count) == (2, len(BODY))


def test_file_changed_meanwhile(server: Any, fetch: Any) -> None:
    """Halves of two different files are never joined."""
    replies = [
        server.reply(b"old" * 1000, headers={"ETag": '"old"'}, cut_after=1500),
        server.reply(BODY, headers={"ETag": '"new"'}),
    ]
    server.replies["/f"] = lambda _request: replies.pop(0)
    assert fetch(wheel(server))[0] == BODY
    assert server.requests[1].headers["if-range"] == '"old"'


def test_without_validator_the_hash_decides(server: Any, fetch: Any) -> None:
    """Without an ETag the rest is taken, and if the whole is wrong, fetched once more."""
    replies = [
        server.reply(b"old" * 1000, cut_after=1500),
        server.reply(
            BODY[1500:], 206, {"Content-Range": f"bytes 1500-{len(BODY) - 1}/{len(BODY)}"}
        ),
        server.reply(BODY),
    ]
    server.replies["/f"] = lambda _request: replies.pop(0)
    assert fetch(wheel(server, hashes=RIGHT))[0] == BODY
    assert [request.headers.get("range") for request in server.requests] == [
        None,
        "bytes=1500-",
        None,
    ]


def test_without_validator_and_hash_it_starts_again(server: Any, fetch: Any) -> None:
    """If nothing could tell two files apart, nothing is joined."""
    breaking(server, [300_000], etag=None)
    assert fetch(wheel(server))[0] == BODY
    assert [request.headers.get("range") for request in server.requests] == [None, None]


@pytest.mark.parametrize("offset", [0, 299_999, 300_001])
def test_other_offset(server: Any, fetch: Any, offset: int) -> None:
    """A server that gives other bytes than asked for cannot put them in the wrong place."""
    replies = [
        server.reply(BODY, headers={"ETag": '"1"'}, cut_after=300_000),
        server.reply(
            BODY[offset:],
            206,
            {"ETag": '"1"', "Content-Range": f"bytes {offset}-{len(BODY) - 1}/{len(BODY)}"},
        ),
    ]
    server.replies["/f"] = lambda _request: replies.pop(0)
    with pytest.raises(UnexpectedStatus):
        fetch(wheel(server, hashes=RIGHT))


def test_nothing_more(server: Any, fetch: Any) -> None:
    """A server that has fewer bytes than it gave before is asked from the start."""
    replies = [
        server.reply(BODY, headers={"ETag": '"1"'}, cut_after=300_000),
        server.reply(status=416),
        server.reply(BODY),
    ]
    server.replies["/f"] = lambda _request: replies.pop(0)
    assert fetch(wheel(server, hashes=RIGHT))[0] == BODY


def test_announces_more_than_it_has(server: Any, fetch: Any) -> None:
    """A server that says each time that there is more, and never has it, is given up."""
    replies = [
        server.reply(BODY, headers={"ETag": '"1"'}, cut_after=len(BODY) - 1),
        server.reply(status=416),
    ]
    answers = cycle(replies)
    server.replies["/f"] = lambda _request: next(answers)
    with pytest.raises(UnexpectedStatus, match="416"):
        fetch(wheel(server, hashes=RIGHT))


def test_wrong_hash(server: Any, fetch: Any) -> None:
    """A file that is not the promised one is an error, not tried again."""
    server.serve_file("/f", b"evil")
    with pytest.raises(HashMismatch):
        fetch(wheel(server, hashes=RIGHT))
    assert len(server.requests) == 1


@pytest.mark.parametrize("size", [10, len(BODY) + 1])
def test_wrong_size(server: Any, fetch: Any, size: int) -> None:
    """So is one that is shorter or longer, even with the right beginning."""
    server.serve_file("/f", BODY)
    with pytest.raises(IntegrityError, match="another size"):
        fetch(wheel(server, size=size))


def test_missing(server: Any, fetch: Any) -> None:
    """A listed file that is not there says so."""
    with pytest.raises(UnexpectedStatus, match="404"):
        fetch(wheel(server))


def test_compressed_unasked(server: Any, fetch: Any) -> None:
    """A file that comes compressed though nobody asked for that is refused with the reason."""
    packed = gzip.compress(BODY)
    server.replies["/f"] = server.reply(packed, headers={"Content-Encoding": "gzip"})
    with pytest.raises(UnexpectedStatus, match="encoded as 'gzip'"):
        fetch(wheel(server, hashes=RIGHT))


def test_said_to_be_compressed(server: Any, fetch: Any) -> None:
    """Some servers say so of every file; an archive that begins like one is taken as it is."""
    body = b"PK" + BODY
    hashes = {"sha256": hashlib.sha256(body).hexdigest()}
    server.replies["/f"] = server.reply(body, headers={"Content-Encoding": "gzip"})
    assert fetch(wheel(server, hashes=hashes))[0] == body


def test_too_large_by_its_head(server: Any, make_client: Any) -> None:
    """Nothing of a file is read of which the head of the answer says that it is too large."""
    server.serve_file("/f", BODY)
    progress = NotedProgress()
    with pytest.raises(TooLarge):
        Download(make_client(), wheel(server), progress, DownloadBudget(1000)).read_with(
            lambda _, check: check(), io.BytesIO()
        )
    assert progress.count == 0


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
def test_source_distribution_said_to_be_compressed(server: Any, fetch: Any, encoding: str) -> None:
    """Web servers call a .tar.gz itself encoded; its hash is that of the bytes as sent (as pip)."""
    body = gzip.compress(BODY)
    file = File("a-1.tar.gz", f"{server.url}/f", {"sha256": hashlib.sha256(body).hexdigest()})
    server.replies["/f"] = server.reply(body, headers={"Content-Encoding": encoding})
    assert fetch(file)[0] == body
