"""Each way to find and fetch wheels, held against a real index on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runtime.libraries.stored import CUDART, SILENT, http

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import (
    HashMismatch,
    IntegrityError,
    InvalidLock,
    InvalidPage,
    NetworkError,
    NoCompatibleWheel,
    ProjectNotFound,
    UnexpectedStatus,
    Unreachable,
    UserError,
)
from wheelfit_runtime.libraries.listings import read_lock, read_page
from wheelfit_runtime.libraries.machine import Machine, this_machine
from wheelfit_runtime.libraries.transport_http import HttpTransport
from wheelfit_runtime.libraries.transports import (
    PipTransport,
    UvTransport,
    find_pip,
    find_uv,
    transport_for,
)
from wheelfit_runtime.libraries.verifying import sha256_of
from wheelfit_runtime.libraries.versions import Requirement
from wheelfit_runtime.libraries.wheels import ListedWheel

pytestmark = pytest.mark.integration

WANTED = [Requirement("cuda-toolkit", ("cudart",), ">=12,<12.9")]


def found_by(transport: HttpTransport | PipTransport | UvTransport) -> dict[str, str]:
    """Return versions by project of what a transport finds."""
    found = transport.resolve(WANTED, this_machine(), SILENT)
    return {one.project: one.version for one in found}


EXPECTED = {"cuda-toolkit": "12.4.1", CUDART: "12.4.7"}


@pytest.mark.parametrize("html_only", [False, True])
@pytest.mark.parametrize("metadata", [False, True])
def test_http_reads_what_the_index_offers(
    index: RecordingIndex, *, html_only: bool, metadata: bool
) -> None:
    """JSON or HTML, METADATA beside the table or only in it: the same is found."""
    index.faults.html_only, index.faults.metadata = html_only, metadata
    assert found_by(http(index.url)) == EXPECTED


def test_http_fetches_with_a_login(
    index: RecordingIndex, tmp_path: Path, cuda_wheels: Path
) -> None:
    """The login in the URL opens the index and its files, and no message shows it."""
    index.faults.login = ("me", "a secret")
    url = index.url_with_login("me", "a%20secret")
    transport = http(url)
    wheel = next(
        w for w in transport.resolve(WANTED, this_machine(), SILENT) if w.project == CUDART
    )
    path = Path(transport.fetch(wheel, str(tmp_path), SILENT))
    assert path.read_bytes() == (cuda_wheels / wheel.filename).read_bytes()
    with pytest.raises(UnexpectedStatus) as excinfo:
        http(index.url_with_login("me", "wrong")).resolve(WANTED, this_machine(), SILENT)
    assert "wrong" not in str(excinfo.value.parts())
    assert excinfo.value.status == 401


def test_http_keeps_a_login_from_other_servers(index: RecordingIndex, cuda_wheels: Path) -> None:
    """Where a page redirects to another server, the login does not go along."""
    with RecordingIndex(cuda_wheels) as other:
        index.faults.redirect["/simple/"] = other.url
        assert found_by(http(index.url_with_login("me", "secret"))) == EXPECTED
        assert other.requests
        assert all("authorization" not in request.headers for request in other.requests)
    assert all("authorization" in request.headers for request in index.requests)


def test_http_takes_a_login_of_netrc(index: RecordingIndex, tmp_path: Path) -> None:
    """A login of .netrc goes to the server it is for."""
    index.faults.login = ("me", "secret")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    assert found_by(HttpTransport(index.url, {"NETRC": str(netrc)}, attempts=1)) == EXPECTED


@pytest.mark.parametrize("url", ["http://index.example/simple/", "ftp://index.example/simple/"])
def test_http_wants_encryption(url: str) -> None:
    """An index elsewhere is asked over https only."""
    with pytest.raises(Unreachable, match="https"):
        http(url)


def test_http_follows_no_redirection_to_plain_places(index: RecordingIndex) -> None:
    """A redirection to another machine without encryption is refused."""
    index.faults.redirect["/simple/cuda-toolkit/"] = "http://index.example/simple/cuda-toolkit/"
    with pytest.raises(Unreachable):
        found_by(http(index.url))


def test_http_refuses_what_has_no_hash(index: RecordingIndex, tmp_path: Path) -> None:
    """What no sha256 is promised of is not fetched."""
    index.faults.hashes = False
    index.faults.metadata = True
    wheel = ListedWheel(CUDART, "12.4.7", "some.whl", index.file_url("some.whl"), "")
    with pytest.raises(IntegrityError, match="no sha256"):
        http(index.url).fetch(wheel, str(tmp_path), SILENT)
    assert not index.requests_for("some.whl")


def test_http_holds_metadata_against_its_hash(index: RecordingIndex, cuda_wheels: Path) -> None:
    """METADATA that is not what the page promised is refused."""
    index.faults.wrong_metadata_hash.add(next(cuda_wheels.glob("cuda_toolkit-12.4*")).name)
    with pytest.raises(HashMismatch):
        found_by(http(index.url))


def test_http_says_what_is_wrong(index: RecordingIndex) -> None:
    """A missing project, a server that fails, a body that is cut off: each is its own error."""
    machine = this_machine()
    with pytest.raises(ProjectNotFound):
        http(index.url).resolve([Requirement("not-there")], machine, SILENT)
    with pytest.raises(NoCompatibleWheel, match=r"cuda-toolkit.*>=14"):
        http(index.url).resolve([Requirement("cuda-toolkit", (), ">=14")], machine, SILENT)
    index.faults.truncate["/simple/cuda-toolkit/"] = 50
    with pytest.raises(Unreachable):
        found_by(http(index.url))
    index.faults.truncate.clear()
    index.faults.status["*"] = 503
    with pytest.raises(UnexpectedStatus):
        found_by(http(index.url))


def test_http_tries_again(index: RecordingIndex) -> None:
    """A connection that breaks twice is tried a third time."""
    index.faults.resets["/simple/cuda-toolkit/"] = 2
    assert found_by(HttpTransport(index.url, {"NETRC": os.devnull})) == EXPECTED


def test_yanked_versions_are_passed_over(index: RecordingIndex, cuda_wheels: Path) -> None:
    """A yanked table is not chosen."""
    index.faults.yanked[next(cuda_wheels.glob("cuda_toolkit-12.9*")).name] = "broken"
    found = http(index.url).resolve(
        [Requirement("cuda-toolkit", (), ">=12,<13")], this_machine(), SILENT
    )
    assert [one.version for one in found] == ["12.4.1"]


def test_http_takes_an_older_table(tmp_path: Path) -> None:
    """Where the newest table wants a wheel that this machine cannot use, an older one is taken."""
    for version, oldest in ("12.8", "2_17"), ("12.9", "2_27"):
        tag = f"py3-none-manylinux_{oldest}_x86_64"
        build_wheel(tmp_path, "nvidia-cublas-cu12", f"{version}.1", files={}, tag=tag)
        build_wheel(
            tmp_path,
            "cuda-toolkit",
            version,
            requires=[f"nvidia-cublas-cu12=={version}.*; extra == 'cublas'"],
            provides_extra=["cublas"],
            files={},
        )

    def found(span: str, glibc: tuple[int, int]) -> list[str]:
        asked = [Requirement("cuda-toolkit", ("cublas",), span)]
        machine = Machine("Linux", "x86_64", glibc)
        return [one.version for one in http(index.url).resolve(asked, machine, SILENT)]

    with RecordingIndex(tmp_path) as index:
        assert found(">=12,<13", (2, 27)) == ["12.9", "12.9.1"]
        assert found(">=12,<13", (2, 17)) == ["12.8", "12.8.1"]
        with pytest.raises(NoCompatibleWheel, match=r"no wheel of nvidia-cublas-cu12==12\.9"):
            found(">=12.9,<13", (2, 17))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{", "application/vnd.pypi.simple.v1+json"),
        (b'{"meta": {"api-version": "2.0"}, "files": []}', "application/json"),
        (b'{"files": [{}]}', "application/json"),
        (b"[]", "application/json"),
        (b"\xff", "text/html"),
        (b"x", "image/png"),
    ],
)
def test_pages_that_are_none(body: bytes, kind: str) -> None:
    """What is not a page is refused with its address."""
    with pytest.raises(InvalidPage) as excinfo:
        read_page(body, kind, "https://index.example/simple/x/")
    assert excinfo.value.where == "https://index.example/simple/x/"


def test_links_of_html() -> None:
    """A page of HTML may have a base, relative links, and hashes of other kinds."""
    page = (
        b'<base href="https://files.example/"><a href="some-1.0-py3-none-any.whl#sha256='
        + b"a" * 64
        + b'" data-core-metadata="true">x</a><a href="/b/some-2.0-py3-none-any.whl#md5=00"'
        b' data-yanked="">y</a><a href="some-1.0.tar.gz">z</a>'
    )  # fmt: skip
    one, two = read_page(page, "text/html; charset=utf-8", "https://index.example/simple/some/")
    assert (one.url, one.sha256) == ("https://files.example/some-1.0-py3-none-any.whl", "a" * 64)
    assert one.metadata_sha256 == ""
    assert (two.sha256, two.is_yanked, two.metadata_sha256) == ("", True, None)


# --- the user's installer ------------------------------------------------------------------------


@pytest.mark.usefixtures("bare_environment")
def test_pip_finds_and_fetches(index: RecordingIndex, tmp_path: Path) -> None:
    """Through pip the same is found, and fetched with the hash that was reported."""
    transport = PipTransport(sys.executable, dict(os.environ), index.url)
    found = transport.resolve(WANTED, this_machine(), SILENT)
    assert {one.project: one.version for one in found} == EXPECTED
    wheel = next(one for one in found if one.project == CUDART)
    path = Path(transport.fetch(wheel, str(tmp_path), SILENT))
    assert sha256_of(path) == wheel.sha256
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wheel.part"]
    wrong = ListedWheel(CUDART, wheel.version, wheel.filename, wheel.url, "0" * 64)
    # Nor does another index that is not reached hide what is wrong.
    environ = {**os.environ, "PIP_EXTRA_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0"}
    with pytest.raises(IntegrityError):
        PipTransport(sys.executable, environ, index.url).fetch(wrong, str(tmp_path), SILENT)
    with pytest.raises(NoCompatibleWheel):
        transport.resolve([Requirement("cuda-toolkit", (), ">=14")], this_machine(), SILENT)


@pytest.mark.usefixtures("bare_environment")
@pytest.mark.parametrize("name", ["pip", "uv"])
def test_an_installer_that_reaches_nobody(index: RecordingIndex, uv: Path, name: str) -> None:
    """An index that refuses, or is not there, is not an index without these libraries."""
    environ = {**os.environ, "PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0"}
    index.faults.login = ("me", "secret")
    refusing, missing = index.url_with_login("me", "wr0ng"), "http://me:wr0ng@127.0.0.1:9/simple/"
    for url, reason in (refusing, "401"), (missing, "refused"):
        transport: PipTransport | UvTransport = PipTransport(sys.executable, environ, url)
        if name == "uv":
            transport = UvTransport(str(uv), environ, http(index.url), url)
        with pytest.raises(NetworkError) as excinfo:
            found_by(transport)
        assert reason in str(excinfo.value.note)
        assert "store prefetch" in str(excinfo.value.hint)
        assert "wr0ng" not in str(excinfo.value.parts())


@pytest.mark.usefixtures("bare_environment")
def test_uv_finds(index: RecordingIndex, uv: Path) -> None:
    """Through uv the same is found."""
    transport = UvTransport(str(uv), dict(os.environ), http(index.url), index.url)
    assert found_by(transport) == EXPECTED


@pytest.mark.usefixtures("bare_environment")
def test_uv_takes_nothing_from_the_current_folder(
    index: RecordingIndex,
    uv: Path,
    cuda_wheels: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that runs in somebody else's folder asks no index and runs no program of it."""
    ran = tmp_path / "ran"
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ntouch "{ran}"\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / ".venv/pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\n")
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    monkeypatch.chdir(tmp_path)
    with RecordingIndex(cuda_wheels) as other:
        (tmp_path / "uv.toml").write_text(f'[[index]]\nurl = "{other.url}"\n')
        transport = UvTransport(str(uv), environ, http(index.url), index.url, python=sys.executable)
        assert found_by(transport) == EXPECTED
        assert not other.requests
    assert not ran.exists()


def test_a_frozen_program_has_no_pip() -> None:
    """A frozen program, or one with Python in it, is not called as if it were an interpreter."""
    assert find_pip(sys.executable, is_frozen=True) is None
    for program in ("/opt/app/app", "", None):
        assert find_pip(program, is_frozen=False) is None
    for program in ("/nowhere/python", "", None):
        assert find_uv(program, {"PATH": "/nowhere"}) is None


def test_which_transport_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The installer that is there, the one that is named, and in a frozen program none."""
    url = "https://index.example/simple/"
    assert isinstance(transport_for(None, url, {}), PipTransport)
    assert isinstance(transport_for("http", url, {}), HttpTransport)
    with pytest.raises(UserError, match="banana"):
        transport_for("banana", url, {})
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert isinstance(transport_for(None, None, {"PIP_INDEX_URL": url}), HttpTransport)
    with pytest.raises(UserError, match="pip was not found"):
        transport_for("pip", url, {})


# --- locks ---------------------------------------------------------------------------------------


def test_a_lock_of_uv(
    index: RecordingIndex,
    uv: Path,
    tmp_path: Path,
    environ: dict[str, str],
    program: Callable[..., Any],
) -> None:
    """A lock that uv writes is read, and a program takes its wheels from there."""
    (tmp_path / "asked").write_text("cuda-toolkit[cudart]==12.4.*\n")
    lock = tmp_path / "pylock.toml"
    command = [str(uv), "pip", "compile", "--default-index", index.url, "-o", str(lock)]
    subprocess.run([*command, str(tmp_path / "asked")], check=True, env=environ)
    assert {one.project for one in read_lock(lock)} == {"cuda-toolkit", CUDART}
    extra = {"WHEELFIT_LIBRARY_INDEX": "http://127.0.0.1:9/"}
    ask = "answer = tell(initialize_cuda({!r}, ['cudart'], lock={!r}))"
    assert program(ask.format("12", str(lock)), extra)["version"] == "12.4.1"
    assert program(ask.format("13", str(lock)), extra)["error"]["code"] == "no-compatible-wheel"
    assert program(ask.format("12.9", str(lock)), extra)["error"]["code"] == "user-error"


def test_what_only_variants_need(tmp_path: Path) -> None:
    """Libraries in the entries that a lock has for wheelfit alone are read, each once."""
    lock = tmp_path / "pylock.toml"
    wheel = "{ url = 'https://a.example/%s-1-py3-none-any.whl', hashes = { sha256 = '00' } }"
    plain, library = (
        f"name = '{name}'\nversion = '1'\nwheels = [{wheel % name}]\n" for name in ("a", "b")
    )
    lock.write_text(
        f"lock-version = '1.0'\n[[packages]]\n{plain}"
        f"[[tool.wheelfit.packages]]\n{plain}[[tool.wheelfit.packages]]\n{library}"
    )
    assert [one.project for one in read_lock(lock)] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "[[",
        "lock-version = '1.0'",
        "lock-version = '2.0'\npackages = []",
        "packages = 1",
        "packages = [1]",
        "packages = [{wheels = [{}]}]",
        "a = " + "[" * 50_000,
    ],
)
def test_locks_that_are_none(tmp_path: Path, text: str) -> None:
    """What is not a lock, or one of a later version, is refused."""
    path = tmp_path / "pylock.toml"
    path.write_text(text)
    with pytest.raises(InvalidLock):
        read_lock(path)
