"""Publishing to running indexes: atomic in wheelfit's, file by file in others; then installers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import run_program
from server.running import RunningIndex, bearer, clean_environ
from server.signed import signed_files
from server.uploading import DOCUMENT
from web_servers import served

from wheelfit.building.publishing.publication import publish_as_one
from wheelfit.building.publishing.release_files import collect_files
from wheelfit.building.publishing.sessions import SessionIndex
from wheelfit.building.publishing.twine_sender import TwineSender
from wheelfit.server.hosting.client import ServerAdministration
from wheelfit.sources.credentials import Login
from wheelfit.sources.progress import Progress
from wheelfit.testing.wheels import build_large_wheel, build_wheel
from wheelfit_runtime.errors import NetworkError

pytest.importorskip("twine", reason="needs the extra `publish`")
pytest.importorskip("uvicorn", reason="needs the extra `server`")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux does")
JSON = "application/vnd.pypi.simple.v1+json"
PYPISERVER = ("pypiserver==2.4.2", "setuptools<81")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningIndex]:
    """Run an index."""
    with RunningIndex(tmp_path_factory.mktemp("index") / "store") as running:
        yield running
        assert running.stop() == 0
        assert not running.events("failure")


def release(folder: Path, name: str) -> list[Path]:
    """Build a release with two variants, the null variant and a wheel without label."""
    return [
        build_wheel(folder, name, "1.0", label=label, document=DOCUMENT if label else None)
        for label in ("null", "mkl", "open", None)
    ]


def environ_of(folder: Path, token: str) -> dict[str, str]:
    """Return an environment with a token, and without the user's settings."""
    return clean_environ(folder) | {
        "WHEELFIT_INDEX_TOKEN": token,
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    }


def publish(
    folder: Path, *words: str | Path, token: str = "", code: int | None = 0
) -> dict[str, object]:
    """Run ``wheelfit publish`` in its own process; return its result."""
    completed = run_program(
        sys.executable, "-m", "wheelfit", "publish", *map(str, words), "--json", code=None,
        env=environ_of(folder, token), cwd=folder,
    )  # fmt: skip
    assert code in (None, completed.returncode), completed.stdout + completed.stderr
    assert not token or token not in completed.stdout + completed.stderr
    report = json.loads(completed.stdout)
    assert isinstance(report, dict)
    return {**report, "code": completed.returncode}


def codes(said: dict[str, object]) -> set[str]:
    """Return the codes of the findings."""
    findings = said["findings"]
    assert isinstance(findings, list)
    return {finding["code"] for finding in findings}


def run(*words: str | Path, folder: Path) -> None:
    """Run an installer that succeeds."""
    run_program(*words, env=clean_environ(folder), cwd=folder)


def built(target: Path, name: str) -> str:
    """Return the installed build."""
    return (target / name / "__init__.py").read_text().split("__variant__ = ")[1].strip()


def install_everywhere(url: str, name: str, pip: Path, uv: Path, folder: Path) -> None:
    """Install the plain wheel with pip, and the best variant with uv and wheelfit."""
    pips, uvs, ours = folder / "pip", folder / "uv", folder / "ours"
    run(pip, "install", "--no-cache-dir", "--index-url", url, "--target", pips, name, folder=folder)
    assert built(pips, name) == "None"
    words = ("--preview-features", "wheel-variants", "--python", sys.executable)
    run(
        *(uv, "pip", "install", "--no-cache", "--index-url", url, *words, "--target", uvs, name),
        folder=folder,
    )
    assert built(uvs, name) == "'mkl'"
    install = (sys.executable, "-m", "wheelfit", "install", "-i", url, "--target", ours, name)
    run(*install, folder=folder)
    assert built(ours, name) == "'mkl'"


# --- an index of ours ---------------------------------------------------------------------------


def test_atomic_release(index: RunningIndex, pip: Path, uv: Path, tmp_path: Path) -> None:
    """B-52: no part is visible before the release, and afterwards every installer has it."""
    release(tmp_path / "dist", "shown")
    seen: set[int] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            _, _, page = index.get("/simple/shown/", accept="application/vnd.pypi.simple.v1+json")
            seen.add(page.count(b'"filename"'))

    thread = threading.Thread(target=look)
    thread.start()
    result = publish(tmp_path, "dist", "--to", index.origin, token=index.token)
    over.set()
    thread.join()
    assert (result["method"], result["published"]) == ("stage", True)
    assert seen <= {0, 5}
    for to in (index.url, index.upload_url, index.url.rstrip("/")):
        again = publish(tmp_path, "dist", "--to", to)  # nobody has to be known for nothing
        assert isinstance(again["files"], list)
        assert {file["state"] for file in again["files"]} == {"existing"}
    install_everywhere(index.url, "shown", pip, uv, tmp_path)


def test_refusals(index: RunningIndex, tmp_path: Path) -> None:
    """A wrong token, and files that contradict published ones, change nothing."""
    release(tmp_path / "dist", "steady")
    error = publish(tmp_path, "dist", "--to", index.url, token="wheelfit-wrong", code=7)["error"]
    assert isinstance(error, dict)
    assert "token" in error["message"]
    result = publish(tmp_path, "dist", "--to", index.url, code=1)  # none at all
    assert "WHEELFIT_INDEX_TOKEN" in str(result["error"])
    assert index.get("/simple/steady/")[0] == 404
    plain = tmp_path / "dist" / "steady-1.0-py3-none-any.whl"
    mkl = tmp_path / "dist" / "steady-1.0-py3-none-any-mkl.whl"
    publish(tmp_path, plain, mkl, "--to", index.url, token=index.token)
    contrary = {**DOCUMENT, "variants": {"mkl": {"blas": {"library": ["openblas"]}}}}
    other = [
        build_wheel(tmp_path / "other", "steady", "1.0", tag="py2-none-any", label=label,
                    document=contrary if label else None)
        for label in (None, "mkl")
    ]  # fmt: skip
    before = index.get("/simple/steady/")[2]
    words: list[str | Path] = [*other, "--to", index.url]
    result = publish(tmp_path, *words, token=index.token, code=9)
    assert "inconsistent-release" in str(result["findings"])
    words += ["--ignore", "inconsistent-release"]  # the index says the same
    result = publish(tmp_path, *words, token=index.token, code=9)
    assert "inconsistent-variants" in str(result["findings"])
    assert index.get("/simple/steady/")[2] == before
    _, _, body = index.get("/-/api/stages", authorization=bearer(index.token))
    assert json.loads(body) == {"stages": []}


def waiting(index: RunningIndex) -> list[list[str]]:
    """Return the file names of each stage."""
    _, _, body = index.get("/-/api/stages", authorization=bearer(index.token))
    stages = json.loads(body)["stages"]
    return [[file["filename"] for file in stage["files"]] for stage in stages]


def test_killed_publisher(tmp_path: Path) -> None:
    """After a kill nothing is visible; the same command sends the rest, and publishes."""
    dist = tmp_path / "dist"
    release(dist, "killed")
    build_large_wheel(dist, "killed", "1.0", 80_000_000, label="open", tag="py3-none-win_amd64",
                      document=DOCUMENT)  # fmt: skip
    with RunningIndex(tmp_path / "store") as index:
        command = [sys.executable, "-m", "wheelfit", "publish", str(dist), "--to", index.url]
        process = subprocess.Popen(
            [*command, "-q"], env=environ_of(tmp_path, index.token), cwd=tmp_path
        )
        while process.poll() is None and sum(map(len, waiting(index))) < 3:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert index.get("/simple/killed/")[0] == 404
        (left,) = waiting(index)
        assert 3 <= len(left) < 5
        result = publish(tmp_path, dist, "--to", index.url, token=index.token)
        assert result["resumed"] is True
        _, _, page = index.get("/simple/killed/", accept="application/vnd.pypi.simple.v1+json")
        assert page.count(b'"filename"') == 6
        assert len([event for event in index.events("upload") if event.get("stage")]) <= 5
        assert waiting(index) == []


class Ending(Progress):
    """Stop a server after a number of sent bytes."""

    def __init__(self, index: RunningIndex, after: int) -> None:
        self._index = index
        self._left = after

    def advance(self, count: int) -> None:
        """Count, and stop the server."""
        self._left -= count
        if self._left < 0:
            self._index.stop(signal.SIGKILL)


def test_stopped_server(tmp_path: Path) -> None:
    """The error says what to do, and the restarted server continues."""
    release(tmp_path / "dist", "back")
    files = collect_files([tmp_path / "dist"]).files
    store = tmp_path / "store"

    def act(index: RunningIndex, progress: Progress, token: str) -> int:
        login = Login("__token__", token)
        act = publish_as_one(
            files,
            ServerAdministration(index.origin, token),
            lambda stage: TwineSender(
                f"{index.origin}/stage/{stage}/legacy/", login, pause=lambda _: None
            ),
            dict,
            progress,
        )
        assert act.is_resumed
        return len(act.sent)

    with RunningIndex(store) as index:
        token = index.token
        size = files[0].size + files[1].size
        with pytest.raises(NetworkError) as excinfo:
            act(index, Ending(index, size + 3000), token)
        assert "run the same command again" in str(excinfo.value.hint)
        assert token not in str(vars(excinfo.value))
    with RunningIndex(store) as index:
        assert index.get("/simple/back/")[0] == 404
        assert 0 < act(index, Progress(), token) < len(files)
        _, _, page = index.get("/simple/back/", accept="application/vnd.pypi.simple.v1+json")
        assert page.count(b'"filename"') == 5
    result = publish(tmp_path, "dist", "--to", index.origin, token=token, code=5)
    assert "cannot be reached" in str(result["error"])


def test_conflicting_content(index: RunningIndex, tmp_path: Path) -> None:
    """F-131: other content for a name is ``name-taken`` and 9, published or staged."""
    build_wheel(tmp_path / "first", "taken", "1.0")
    build_wheel(tmp_path / "second", "taken", "1.0", requires=["something"])
    publish(tmp_path, "first", "--to", index.url, token=index.token)
    before = publish(tmp_path, "second", "--to", index.url, token=index.token, code=9)
    assert [finding["code"] for finding in before["findings"]] == ["name-taken"]  # type: ignore[attr-defined]
    build_wheel(tmp_path / "third", "raced", "1.0")
    build_wheel(tmp_path / "fourth", "raced", "1.0", requires=["something"])
    # Another publisher has sent it, and has not shown it yet.
    stages = ServerAdministration(index.origin, index.token)
    stage = stages.open_stage(3600)
    sender = TwineSender(f"{index.origin}/stage/{stage}/legacy/", Login("__token__", index.token))
    sender.send(collect_files([tmp_path / "third"]).files[0], lambda _: None)
    sender.close()
    raced = publish(tmp_path, "fourth", "--to", index.url, token=index.token, code=9)
    assert [finding["code"] for finding in raced["findings"]] == ["name-taken"]  # type: ignore[attr-defined]
    assert "stage drop" in str(raced["findings"])
    assert waiting(index) == [["raced-1.0-py3-none-any.whl"]]
    stages.drop(stage)


def test_publishing_session(index: RunningIndex, pip: Path, tmp_path: Path) -> None:
    """PEP 694: a session is installable by its address, and the client resumes it."""
    plain = release(tmp_path / "dist", "staged")[-1]
    root = str(index.said["sessions"])
    files = collect_files([tmp_path / "dist"]).files
    client = SessionIndex(root, Login("__token__", index.token))
    session, _ = client.open(files[0].release, {})
    (own,) = (file for file in files if file.path == plain)
    client.send(session, own, Progress())
    client.close()
    stage, target = session["links"]["stage"], tmp_path / "preview"
    run(pip, "install", "--no-cache-dir", "-i", stage, "--target", target, "staged",
        folder=tmp_path)  # fmt: skip
    assert built(target, "staged") == "None"
    assert index.get("/simple/staged/")[0] == 404
    words = ("dist", "--to", index.url, "--session-url", root)
    result = publish(tmp_path, *words, token=index.token)
    assert (result["method"], result["published"]) == ("session", True)
    assert len([event for event in index.events("upload") if event["file"] == plain.name]) == 1
    names = {file.filename for file in files} | {"staged-1.0-variants.json"}
    page = json.loads(index.get("/simple/staged/", accept=JSON)[2])
    assert {file["filename"] for file in page["files"]} == names
    assert publish(tmp_path, *words, token=index.token)["published"] is True  # all was there
    build_wheel(tmp_path / "other" / "dist", "staged", "1.0", requires=["more"])
    result = publish(tmp_path / "other", *words, token=index.token, code=9)
    assert codes(result) == {"name-taken"}
    more = build_wheel(tmp_path / "more" / "dist", "staged", "1.1")
    more.with_name(f"{more.name}.publish.attestation").write_text("{}")
    ignore = ("--ignore", "bad-attestation")
    result = publish(tmp_path / "more", *words, *ignore, token=index.token, code=9)
    assert codes(result) == {"bad-attestation"}  # as it says by the form for uploads
    result = publish(
        tmp_path / "more", "dist", "--to", index.url, *ignore, token=index.token, code=9
    )
    assert codes(result) == {"bad-attestation"}
    assert session["session-token"] not in index.log


def test_concurrent_publishers(index: RunningIndex, tmp_path: Path) -> None:
    """Four equal runs succeed or report taken names; the release is complete."""
    release(tmp_path / "dist", "crowd")
    command = [sys.executable, "-m", "wheelfit", "publish", "dist", "--to", index.url, "--json"]
    processes = [
        subprocess.Popen(
            command, env=environ_of(tmp_path, index.token), cwd=tmp_path, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    outputs = [process.communicate()[0] for process in processes]
    ended = [process.returncode for process in processes]
    assert 0 in ended
    for code, output in zip(ended, outputs, strict=True):
        found = [one["code"] for one in json.loads(output).get("findings", ())]
        assert code == 0 or (code == 9 and found == ["name-taken"]), output
    _, _, page = index.get("/simple/crowd/", accept="application/vnd.pypi.simple.v1+json")
    assert page.count(b'"filename"') == 5
    publish(tmp_path, "dist", "--to", index.url)
    assert waiting(index) == []


@pytest.mark.network
def test_attestations(index: RunningIndex, registry: None, tmp_path: Path) -> None:
    """PEP 740: attestations beside a file are verified, sent, and served by either index."""
    del registry
    assets = signed_files(tmp_path)
    dist = tmp_path / "dist"
    dist.mkdir()
    name = "pypi_attestations-0.0.19.tar.gz"
    for one in (name, f"{name}.publish.attestation"):
        shutil.copy(assets / one, dist)
    result = publish(tmp_path, dist, "--to", index.url, token=index.token)
    assert result["files"][0]["attestations"] == 1  # type: ignore[index]  # it is a list
    status, _, provenance = index.get(f"/files/{name}.provenance")
    assert status == 200
    publish(tmp_path, dist, "--to", "./public")
    (path,) = (tmp_path / "public/files").glob(f"*/{name}.provenance")
    bundles = json.loads(path.read_bytes())["attestation_bundles"]
    assert bundles == json.loads(provenance)["attestation_bundles"]
    other = "gitlab_oidc_project-0.0.3.tar.gz.publish.attestation"
    shutil.copy(assets / other, dist / f"{name}.publish.attestation")
    result = publish(tmp_path, dist, "--to", "./other", code=9)
    assert "bad-attestation" in str(result["findings"])


# --- others -------------------------------------------------------------------------------------


@pytest.fixture
def pypiserver(environment_with: Callable[..., Path], tmp_path: Path) -> Iterator[str]:
    """Run pypiserver, which takes uploads of one user, and no index files."""
    python = environment_with(*PYPISERVER)
    passwords = tmp_path / "passwords"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    packages = tmp_path / "packages"
    packages.mkdir()
    passwords.touch()
    process = subprocess.Popen(
        [python.parent / "pypi-server", "run", "-i", "127.0.0.1", "-p", str(port), "-P", ".", "-a",
         ".", "--overwrite", "--server", "wsgiref", packages],
        env=clean_environ(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/"
    process.terminate()
    process.wait()


def test_pypiserver(pypiserver: str, pip: Path, tmp_path: Path) -> None:
    """Another product's index gets the wheels in order, and is asked for existing files."""
    release(tmp_path / "dist", "elsewhere")
    result = publish(tmp_path, "dist", "--to", pypiserver)
    assert (result["method"], result["published"]) == ("one-by-one", True)
    assert "elsewhere-1.0-variants.json is refused" in str(result["refused_index_files"])
    again = publish(tmp_path, "dist", "--to", pypiserver)
    assert isinstance(again["files"], list)
    assert {file["state"] for file in again["files"]} == {"existing"}
    url = f"{pypiserver}simple/"
    target = tmp_path / "target"
    words = ("install", "--no-cache-dir", "--index-url", url, "--target", target, "elsewhere")
    run(pip, *words, folder=tmp_path)
    assert built(target, "elsewhere") == "None"
    ours = tmp_path / "ours"
    install = (sys.executable, "-m", "wheelfit", "install", "-i", url, "--target", ours)
    run(*install, "--read-unlisted", "elsewhere", folder=tmp_path)
    assert built(ours, "elsewhere") == "'mkl'"
    build_wheel(tmp_path / "other", "elsewhere", "1.0", requires=["x"])
    result = publish(tmp_path, "other", "--to", pypiserver, code=9)
    assert "name-taken" in str(result["findings"])


def test_static_index(pip: Path, uv: Path, tmp_path: Path) -> None:
    """Every installer installs the release from a folder behind a plain web server."""
    release(tmp_path / "dist", "still")
    publish(tmp_path, "dist", "--to", "./public")
    with served(tmp_path / "public") as origin:
        install_everywhere(f"{origin}/simple/", "still", pip, uv, tmp_path)


def test_concurrent_static_releases(tmp_path: Path) -> None:
    """Of two concurrent releases into a folder both succeed, or one is told to wait."""
    for name in ("one", "two"):
        release(tmp_path / name, name)
    command = [sys.executable, "-m", "wheelfit", "publish", "--to", "./public", "--json"]
    processes = [
        subprocess.Popen(
            [*command, name], env=environ_of(tmp_path, ""), cwd=tmp_path, stdout=subprocess.PIPE
        )
        for name in ("one", "two")
    ]
    for name, process in zip(("one", "two"), processes, strict=True):
        output, _ = process.communicate()
        if process.returncode:
            assert json.loads(output)["error"]["code"] == "environment-busy"
            publish(tmp_path, name, "--to", "./public")
    for name in ("one", "two"):
        page = json.loads((tmp_path / "public/simple" / name / "index.json").read_text())
        assert len(page["files"]) == 5
    assert not os.path.lexists(tmp_path / "public/simple/.staging")
