"""What travels to an index, and what is made of its answers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from server.legacy import LegacyIndex
from server.uploading import DOCUMENT

from wheelfit.building.publishing.release_files import collect_files
from wheelfit.building.publishing.twine_sender import TwineSender, read_attestations, read_pypirc
from wheelfit.errors import AttestationProblem, UploadRefused
from wheelfit.server.messages import Response
from wheelfit.sources.certificates import verifying_context
from wheelfit.sources.credentials import Login
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import (
    InvalidConfiguration,
    NetworkError,
    PolicyRefusal,
    UnexpectedStatus,
    Unreachable,
)

pytest.importorskip("twine", reason="needs the extra `publish`")
pytest.importorskip("python_multipart", reason="needs the extra `server`")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LegacyIndex]:
    """Give an index that takes uploads."""
    with LegacyIndex(tmp_path / "index") as running:
        yield running


@pytest.fixture
def pauses() -> list[float]:
    """Give the list of the pauses that were made."""
    return []


def send(index: LegacyIndex, path: Path, pauses: list[float] | None = None) -> int:
    """Send a file; return how many bytes were told in the end."""
    (file,) = collect_files([path]).files
    told: list[int] = []
    paused = [] if pauses is None else pauses
    sender = TwineSender(index.url, Login("me", "secret"), pause=paused.append)
    try:
        sender.send(file, told.append)
    finally:
        sender.close()
    return sum(told)


def refusing(reference: str) -> Response:
    """Return the response of a wheelfit index to an upload that a rule of the project forbids."""
    errors = [{"reference": reference, "message": "no", "where": "fast-1.0-py3-none-any.whl"}]
    return Response.of(403, json.dumps({"errors": errors}).encode(), {})


def test_a_variant_goes_with_everything_its_metadata_says(
    index: LegacyIndex, tmp_path: Path
) -> None:
    """B-54: fields are as twine sends them, for dependencies with variant markers too."""
    wheel = build_wheel(
        tmp_path, "Fast.FFT", "1.0", label="mkl", document=DOCUMENT,
        requires=['mkl; "blas" in variant_namespaces', "numpy"], requires_python=">=3.11",
        metadata_extra=[("Keywords", "a,b"), ("Project-URL", "Home, https://example.org"),
                        ("Classifier", "Topic :: Utilities"), ("Classifier", "Typing :: Typed")],
        description="ä\n",
    )  # fmt: skip
    (tmp_path / f"{wheel.name}.publish.attestation").write_text('{"version": 1}')
    assert send(index, wheel) > wheel.stat().st_size
    fields = index.fields[wheel.name]
    assert fields["name"] == ("Fast.FFT",)
    assert fields["requires_dist"] == ('mkl; "blas" in variant_namespaces', "numpy")
    assert fields["classifiers"] == ("Topic :: Utilities", "Typing :: Typed")
    assert fields["project_urls"] == ("Home, https://example.org",)
    assert fields["keywords"] == ("a, b",)
    assert fields["filetype"] == ("bdist_wheel",)
    assert fields["pyversion"] == ("py3",)
    assert json.loads(fields["attestations"][0]) == [{"version": 1}]
    assert (index.folder / wheel.name).read_bytes() == wheel.read_bytes()


def test_failures_are_tried_again(index: LegacyIndex, tmp_path: Path, pauses: list[float]) -> None:
    """A server that fails, or cuts the connection, is asked again, each time from the beginning."""
    wheel = build_wheel(tmp_path, "fast", "1.0")
    index.answers[wheel.name] = [Response.text(503, "later"), Response.text(502, "later")]
    index.dropped[wheel.name] = 1
    size = send(index, wheel, pauses)
    assert pauses == [1.0, 2.0, 4.0]
    assert (index.folder / wheel.name).read_bytes() == wheel.read_bytes()
    assert size < 2 * wheel.stat().st_size + 5000  # what went in vain does not count


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (Response.text(400, "<b>no</b> such name"), UploadRefused, "no such name"),
        (Response.of(400, b"x", {}), UploadRefused, "is refused"),
        (Response.text(401, "who are you"), PolicyRefusal, "from you"),
        (Response.text(403, "go away"), PolicyRefusal, "go away"),
        (refusing("not-an-owner"), PolicyRefusal, "from you: no"),
        (refusing("over-quota"), UploadRefused, "is refused: no"),
        (refusing("closed-project"), UploadRefused, "is refused: no"),
        (Response.text(409, "Conflict"), UploadRefused, "is refused: Conflict"),
        (Response.text(403, "Not enough permissions to overwrite artifact"), UploadRefused,
         "overwrite"),
        (Response.text(404, "nobody here"), UnexpectedStatus, "does not accept uploads"),
        (Response.text(405, "not so"), UnexpectedStatus, "does not accept uploads"),
        (Response.of(301, b"", {"location": "https://x:y@other.example/"}), UnexpectedStatus,
         "redirects with"),
        (Response.of(500, b"", {}), UnexpectedStatus, "fast-1.0-py3-none-any.whl with 500: "),
        (Response.of(400, b'{"errors": [{"reference": "bad", "message": "a", "where": "b"}]}', {}),
         UploadRefused, "fast-1.0-py3-none-any.whl is refused: a"),
    ],
)  # fmt: skip
def test_answers_become_errors(
    index: LegacyIndex, tmp_path: Path, answer: Response, error: type[Exception], words: str
) -> None:
    """Each refusal is said in the words of the index, and no secret is in it."""
    wheel = build_wheel(tmp_path, "fast", "1.0")
    index.answers[wheel.name] = [answer] * 4
    with pytest.raises(error, match=words) as excinfo:
        send(index, wheel)
    assert "secret" not in str(vars(excinfo.value))
    assert ":y@" not in str(vars(excinfo.value))
    assert len(index.uploads) == (4 if answer.status == 500 else 1)


def test_a_page_in_html_is_one_line(index: LegacyIndex, tmp_path: Path) -> None:
    """A page of a gateway is told without scripts, styles, menus and markup."""
    wheel = build_wheel(tmp_path, "fast", "1.0")
    page = (
        b"<!DOCTYPE html>\n<html><head><title>413 Request Entity Too Large</title>"
        b"<style>body { color: red }</style><script>alert('<b>')</script></head>\n"
        b"<body><nav>Home Help</nav><h1>413</h1>\n<p>at most <b>1&nbsp;MB</b> &amp; no more</p>"
    )
    index.answers[wheel.name] = [Response.of(413, page, {"content-type": "text/html"})]
    with pytest.raises(UploadRefused) as excinfo:
        send(index, wheel)
    said = "413 Request Entity Too Large 413 at most 1 MB & no more"
    assert excinfo.value.message == f"{wheel.name} is refused: {said}"


def test_of_an_answer_without_end_the_beginning_is_read(index: LegacyIndex, tmp_path: Path) -> None:
    """A server that answers for ever fills no memory."""
    wheel = build_wheel(tmp_path, "fast", "1.0")
    pieces = itertools.repeat(b"no " * 10_000)
    index.answers[wheel.name] = [Response(400, {}, pieces, length=1 << 40)]
    with pytest.raises(UploadRefused, match="is refused: no no") as excinfo:
        send(index, wheel)
    assert len(excinfo.value.message) < 1000


def test_a_login_of_minutes_is_renewed_in_time(index: LegacyIndex, tmp_path: Path) -> None:
    """Between files a login that may run out is exchanged for a new one, and not too often."""
    wheels = [build_wheel(tmp_path / "dist", "fast", f"{number}.0") for number in range(4)]
    logins = iter([Login("me", "second"), Login("me", "third")])
    now = [0.0]
    index.login = ("me", "first")
    sender = TwineSender(
        index.url, Login("me", "first"), renew=lambda: next(logins), clock=lambda: now[0]
    )
    for seconds, password in ((0, "first"), (299, "first"), (301, "second"), (302, "second")):
        now[0], index.login = seconds, ("me", password)
        sender.send(collect_files([wheels.pop()]).files[0], lambda _: None)
    sender.close()
    assert len(index.names) == 4


def test_what_is_gone_cannot_be_reached(tmp_path: Path, pauses: list[float]) -> None:
    """Nobody listens: that is told after some attempts, with the address and without the login."""
    wheel = build_wheel(tmp_path, "fast", "1.0")
    with LegacyIndex(tmp_path / "index") as index:
        pass
    with pytest.raises(Unreachable, match="to send fast") as excinfo:
        send(index, wheel, pauses)
    assert excinfo.value.where == index.url
    assert isinstance(excinfo.value, NetworkError)
    assert len(pauses) == 3


def test_certificates_do_not_become_better_by_asking_again(
    tmp_path: Path, pauses: list[float]
) -> None:
    """Whoever is not trusted is asked once, and gets neither file nor login."""
    wheel = build_wheel(tmp_path, "fast", "1.0")
    (file,) = collect_files([wheel]).files
    certificates = Path(__file__).parents[2] / "sources" / "certificates"
    trusting = verifying_context(str(certificates / "authority.pem"), None, environ={})
    with LegacyIndex(tmp_path / "index", certificates / "server.pem") as index:
        for context in (verifying_context(None, None, environ={}), None):
            sender = TwineSender(index.url, Login("me", "secret"), context, pause=pauses.append)
            with pytest.raises(Unreachable):
                sender.send(file, lambda _: None)
            sender.close()
        assert pauses == []
        assert index.asked == []
        sender = TwineSender(index.url, None, trusting, pause=pauses.append)
        sender.send(file, lambda _: None)
        sender.close()
        assert index.names == {wheel.name}


def test_attestations_have_to_be_objects(tmp_path: Path) -> None:
    """What is not a JSON object is named before anything is sent."""
    wheel = build_wheel(tmp_path, "fast", "1.0")
    for content in ("[]", "{", "\udcff"):
        beside = tmp_path / f"{wheel.name}.publish.attestation"
        beside.write_bytes(content.encode("utf-8", "surrogateescape"))
        (file,) = collect_files([wheel]).files
        assert file.attestations == (beside,)
        with pytest.raises(AttestationProblem, match="not an attestation"):
            read_attestations(file)


def test_pypirc_names_indexes(tmp_path: Path) -> None:
    """Indexes of ``.pypirc`` have their login; two are known without; a broken file is named."""
    path = tmp_path / ".pypirc"
    known = read_pypirc(path)
    assert known.keys() == {"pypi", "testpypi"}
    assert all(one["repository"].startswith("https://") for one in known.values())
    path.write_text(
        "[distutils]\nindex-servers = ours\n[ours]\nrepository = https://x.example/\n"
        "username = me\npassword = secret\n"
    )
    known = read_pypirc(path)
    assert known["ours"] == {
        "repository": "https://x.example/", "username": "me", "password": "secret"
    }  # fmt: skip
    assert "pypi" in known
    path.write_text("password = secret\n")
    with pytest.raises(InvalidConfiguration) as excinfo:
        read_pypirc(path)
    assert "secret" not in str(vars(excinfo.value))
    assert excinfo.value.where == str(path)
    path.write_bytes(b"[ours]\nusername = \xff\n")
    with pytest.raises(InvalidConfiguration, match="not UTF-8"):
        read_pypirc(path)
