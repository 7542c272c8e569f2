"""The client with servers that are not wheelfit's, or do not work."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from wheelfit.server.hosting.client import ServerAdministration, is_index_server
from wheelfit.server.hosting.error_responses import error_response
from wheelfit.server.messages import Request
from wheelfit_runtime.errors import InvalidConfiguration, InvalidPage, Unreachable, UserError


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Answer one request with these bytes; yield the URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.0\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
def test_other_protocols(answer: bytes) -> None:
    """A port with another protocol is reported as unreachable."""
    with answering(answer) as url, pytest.raises(Unreachable, match=r"cannot be reached: .+"):
        is_index_server(url)
    with answering(answer) as url, pytest.raises(Unreachable):
        ServerAdministration(url, "token").stages()


@pytest.mark.parametrize(
    "body",
    ["null", "{}", '{"stages": 1}', '{"stages": [1]}', '{"stages": [{}]}',
     '{"stages": [{"id": "a", "files": [{}]}]}', '{"stages": [{"id": 1, "files": []}]}',
     "[" * 100_000],
)  # fmt: skip
def test_malformed_responses(body: str) -> None:
    """Values of a response must be present and of the right type."""
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with answering(answer) as url, pytest.raises(InvalidPage):
        ServerAdministration(url, "token").stages()


@pytest.mark.parametrize("hint", ["delete it first", None])
def test_hints(hint: str | None) -> None:
    """The hint of an error is in the response and in the client's error."""
    error = UserError("the stage is open", where="stage 1", hint=hint)
    request = Request("GET", "/-/api/stages", {"accept": "application/json"})
    body = b"".join(error_response(request, 400, error).body)
    assert json.loads(body)["errors"][0].get("hint") == hint
    head = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with answering(head + body) as url, pytest.raises(UserError, match="the stage is open") as told:
        ServerAdministration(url, "token").stages()
    assert (told.value.where, told.value.hint) == ("stage 1", hint)
    plain = b"".join(error_response(Request("GET", "/"), 400, error).body).decode()
    assert plain == "stage 1: the stage is open\n" + (f"{hint}\n" if hint else "")


@pytest.mark.parametrize("token", ["wheelfit-x\n", "wheelfit x", "wheelfit-\u0444"])
def test_malformed_token(token: str) -> None:
    """A token that no header can have is reported as such, before any request."""
    with pytest.raises(InvalidConfiguration, match="token"):
        ServerAdministration("http://127.0.0.1:9", token).stages()


def test_long_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response that is cut is not reported as that of another server."""
    monkeypatch.setattr("wheelfit.server.hosting.client._MAX_SIZE", 10)
    body = b'{"stages": []}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with answering(answer) as url, pytest.raises(InvalidPage, match="response is too long"):
        ServerAdministration(url, "token").stages()
