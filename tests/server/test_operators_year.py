"""The operators' guide, executed command by command on real servers."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from programs import run_program
from server.balancing import Balancer, documented_forwarding, find_nginx
from server.debian import Unavailable, find_or_install
from server.running import RunningIndex, basic, clean_environ
from server.services import ObjectStorage, Postgresql

from wheelfit.server.store.database import MIGRATIONS
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="mounts disks and sends signals"),
]
pytest.importorskip("uvicorn", reason="needs the extra `server`")
PAGE = Path(__file__).parents[2] / "docs/how-to/operate-an-index-for-years.md"
TWINE = "twine==7.0.0"
VARIANTS = 40
JSON = "application/vnd.pypi.simple.v1+json"


class Operator:
    """A person who follows the guide on this machine."""

    def __init__(self, folder: Path, programs: list[Path], uses: dict[str, str]) -> None:
        self.folder = folder
        self._sections = dict(
            re.findall(r"(?ms)^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"))
        )
        self._programs = programs
        self.uses = uses
        self._state = folder / "state"
        self._state.touch()
        self.played: set[str] = set()

    def blocks(self, section: str, language: str) -> list[str]:
        """Return the code blocks of a section, with local addresses."""
        self.played.add(section)
        blocks = re.findall(rf"```{language}\n(.*?)```", self._sections[section], re.DOTALL)
        return [self._here(block) for block in blocks]

    def _here(self, text: str) -> str:
        for name in sorted(self.uses, key=len, reverse=True):
            text = text.replace(name, self.uses[name])
        return text

    def commands(self, section: str) -> list[str]:
        """Return the commands of a section."""
        lines = "".join(self.blocks(section, "console")).splitlines()
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]

    def play(self, section: str) -> str:
        """Run the commands of a section except server starts; return their output."""
        return self.run(
            [
                command
                for command in self.commands(section)
                if not command.startswith("wheelfit index serve")
            ]
        )

    def run(self, commands: list[str]) -> str:
        """Run commands in one shell, which keeps its variables."""
        python = shlex.quote(sys.executable)
        script = [
            f'wheelfit() {{ {python} -m wheelfit "$@"; }}',
            f"source {self._state}",
            "set -e",
            *commands,
            f"declare -p stage WHEELFIT_INDEX_TOKEN > {self._state} 2>/dev/null || true",
        ]
        environ = clean_environ(self.folder)
        environ["PATH"] = ":".join([*map(str, self._programs), environ["PATH"]])
        words = ("bash", "-c", "\n".join(script))
        return str(run_program(*words, env=environ, cwd=self.folder, timeout=600).stdout)

    def options(self, section: str) -> list[str]:
        """Return the options of the server start in a section."""
        (command,) = [
            command
            for command in self.commands(section)
            if command.startswith("wheelfit index serve")
        ]
        return shlex.split(command)[4:]


@contextmanager
def one_server(
    operator: Operator, section: str, folder: str, **more: Any
) -> Iterator[RunningIndex]:
    """Run the server of a section at the public address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        configure(operator, listener)
        options = [*operator.options(section), "--fd", str(listener.fileno())]
        at = Path(operator.uses[folder])
        with RunningIndex(at, *options, pass_fds=[listener.fileno()], **more) as index:
            yield index


def configure(operator: Operator, listener: socket.socket) -> None:
    """Write the settings of the guide for a server at a socket."""
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    operator.uses["https://wheels.example.org"] = url
    (text,) = operator.blocks("Start on one machine", "toml")
    Path(operator.uses["/etc/wheelfit.toml"]).write_text(text)


def listing(index: RunningIndex, project: str, token: str = "") -> dict[str, Any]:
    """Return the entries of a page by file name."""
    headers = {"authorization": basic(token)} if token else {}
    status, _, page = index.get(f"/simple/{project}/", accept=JSON, **headers)
    assert status == 200, page
    return {file["filename"]: file for file in json.loads(page)["files"]}


def state(index: RunningIndex, token: str) -> dict[str, Any]:
    """Return what the index shows of the projects."""
    names = ("acme-tools", "acme-secret", "acme-big", "acme-fast")
    return {name: listing(index, name, token) for name in names}


def build_everything(dist: Path) -> None:
    """Build all wheels that are uploaded."""
    for version in ("1.0", "2.0", "3.0", "4.0"):
        build_wheel(dist, "acme_tools", version)
    build_wheel(dist, "acme_secret", "1.0")
    labels = [f"v{number}" for number in range(VARIANTS)]
    document = release_document(
        {label: {"acme": {"kind": [label]}} for label in labels}, static={"acme": {"kind": labels}}
    )
    for label in labels:
        build_wheel(dist, "acme_big", "1.0", label=label, document=document)


def test_operators_year(
    postgresql: Postgresql,
    object_storage: ObjectStorage,
    environment_with: Callable[..., Path],
    uv: Path,
    tmp_path: Path,
) -> None:
    """From the first start to the move back no file, owner, token or yank is lost."""
    pytest.importorskip("jwt", reason="needs the extra `server`")
    from server.ci_service import Issuer

    try:
        nginx = find_nginx()
    except Unavailable as error:
        pytest.skip(str(error))
    places = ("/var/lib/wheelfit", "/var/lib/wheelfit-2", "/var/lib/wheelfit-3", "/var/lib/lost",
              "/var/lib/last", "/backup/wheels", "/backup/last", "/etc/wheelfit.toml")  # fmt: skip
    uses = {place: str(tmp_path / place.strip("/").replace("/", "-")) for place in places}
    uses |= {
        "postgresql://wheelfit@db.internal/wheelfit": shlex.quote(postgresql.database()),
        "postgresql://wheelfit@db.internal/restored": shlex.quote(postgresql.database()),
        "s3://wheels/files": shlex.quote(object_storage.bucket()),
        "/opt/wheelfit/bin/wheelfit": "wheelfit",
    }
    build_everything(tmp_path / "dist")
    build_wheel(tmp_path / "upstream", "some", "1.0")
    with ExitStack() as stack:
        issuer = stack.enter_context(Issuer())
        upstream = stack.enter_context(RecordingIndex(tmp_path / "upstream"))
        uses["https://token.actions.githubusercontent.com"] = issuer.url
        uses["https://index.example.org/simple/"] = upstream.url
        programs = [environment_with(TWINE).parent, uv.parent]
        operator = Operator(tmp_path, programs, uses)
        before, token = first_months(operator, issuer, upstream)
        restored(operator, before, token)
        grown(operator, before, token, nginx)
        upgraded(operator, before, token)
        moved_back(operator, before, token)
        told = {name for name, text in operator._sections.items() if "```console" in text}
        assert told <= operator.played


def first_months(
    operator: Operator, issuer: Any, upstream: RecordingIndex
) -> tuple[dict[str, Any], str]:
    """Run one machine: tokens, uploads by people and CI, many variants, a mirror."""
    dist = operator.folder / "dist"
    with one_server(operator, "Start on one machine", "/var/lib/wheelfit") as index:
        operator.play("Create tokens")
        operator.play("Upload with any tool")
        identity = issuer.identity(json.loads(index.get("/_/oidc/audience")[2])["audience"])
        body = json.dumps({"token": identity}).encode()
        status, _, minted = index.ask("POST", "/_/oidc/mint-token", body)
        assert status == 200, minted
        of_ci = json.loads(minted)["token"]
        assert index.upload(build_wheel(dist, "acme_fast", "1.0"), token=of_ci) == 200
        assert index.upload(dist / "acme_secret-1.0-py3-none-any.whl", token=of_ci) == 403
        operator.play("Publish many variants at once")
        assert len(listing(index, "acme-big")) == VARIANTS + 1  # and the document of the release
        reader = (operator.folder / "reader-token").read_text().strip()
        assert listing(index, "acme-secret", reader)
        assert index.get("/simple/acme-secret/")[0] == 401
        operator.play("Fill the mirror ahead of time")
        upstream.faults.status["*"] = 503
        assert index.get("/files/some-1.0-py3-none-any.whl")[0] == 200
        assert "acme_tools-2.0" in operator.play("Maintain it")
        tools = listing(index, "acme-tools")
        assert {name.split("-")[1] for name in tools} == {"3.0", "4.0"}
        service, _ = operator.blocks("Back it up each night", "ini")
        (export,) = re.findall(r"^ExecStart=(.*)$", service, re.MULTILINE)
        assert "the others already existed" not in operator.run([export])
        assert "0 copied, the others already existed" in operator.run([export])
        return state(index, index.token), index.token


def restored(operator: Operator, before: dict[str, Any], token: str) -> None:
    """Delete all but the backup, and restore the index from it."""
    Path(operator.uses["/var/lib/wheelfit"], "index.sqlite3").unlink()
    operator.play("Restore it")
    with one_server(operator, "Restore it", "/var/lib/wheelfit") as index:
        assert index.token == token
        assert state(index, token) == before
        of_acme = (operator.folder / "acme-token").read_text().strip()
        wheel = operator.folder / "dist/acme_tools-2.0-py3-none-any.whl"
        assert index.upload(wheel, token=of_acme) == 409  # the name of a deleted file


def grown(operator: Operator, before: dict[str, Any], token: str, nginx: Path) -> None:
    """Run replicas on PostgreSQL and S3: clocks jump, the database is lost."""
    section = "Move it to PostgreSQL and S3"
    commands = operator.commands(section)
    operator.run(commands[:2])
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        configure(operator, listener)
        options = [*operator.options(section), "--allowed-host=replicas"]
        replicas = []
        for name, environ in (("one", {}), ("two", clock("+1y")), ("three", clock("-1y"))):
            own = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            index = stack.enter_context(
                RunningIndex(
                    operator.folder / name,
                    *(*options, "--fd", str(own.fileno())),
                    environ=environ,
                    pass_fds=[own.fileno()],
                )
            )
            index.address = own.getsockname()  # and not that of the balancer
            if environ:
                year = time.gmtime().tm_year
                assert not index.log.startswith(f'{{"time": "{year}-'), index.log
            replicas.append(index)
        stack.enter_context(
            Balancer(
                nginx,
                operator.folder / "nginx",
                *(replica.address for replica in replicas),
                forwarding=documented_forwarding("x-forwarded"),
                listener=listener,
            )
        )
        for index in replicas:
            assert state(index, token) == before
        url = operator.uses["https://wheels.example.org"]
        operator.run(['export WHEELFIT_INDEX_TOKEN="$(cat acme-token)"'])
        for act in ("yank", "unyank"):  # by any of them
            operator.run([f"wheelfit index {act} acme-tools==3.0 --at {url}"])
        for number, index in enumerate(replicas):
            wheel = build_wheel(operator.folder / "clocks", "acme_clock", f"{number}.0")
            assert index.upload(wheel, token=token) == 200
        assert len(listing(replicas[0], "acme-clock")) == len(replicas)
        for index in replicas:
            assert state(index, token) == before
            assert index.stop() == 0
            assert not index.events("failure")
    operator.run(commands[3:])
    restored_url = shlex.split(operator.uses["postgresql://wheelfit@db.internal/restored"])[0]
    storage = shlex.split(operator.uses["s3://wheels/files"])[0]
    place = ("--database", restored_url, "--storage", storage)
    with RunningIndex(operator.folder / "four", *place, "--private", "acme-secret") as index:
        assert state(index, token) == before


def clock(shift: str) -> dict[str, str]:
    """Return the environment of a process with a wrong clock; empty where unsupported."""

    def look() -> Path | None:
        found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        return found[0] if found else None

    try:
        library = find_or_install("libfaketime", look)
    except Unavailable:
        return {}
    return {"LD_PRELOAD": str(library), "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def upgraded(operator: Operator, before: dict[str, Any], token: str) -> None:
    """Start on a database of the first version: it gets current tables and keeps its data."""
    now = Path(operator.uses["/var/lib/wheelfit"])
    old = operator.folder / "old"
    shutil.copytree(now / "files", old / "files")
    with sqlite3.connect(old / "index.sqlite3") as database:
        for statement in MIGRATIONS[0]:
            database.execute(statement.format(number="INTEGER", bytes="BLOB"))
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master "
                                                       "WHERE type = 'table'")]  # fmt: skip
        database.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
        database.execute("INSERT INTO schema_version VALUES (1)")
        database.execute("ATTACH ? AS now", (str(now / "index.sqlite3"),))
        for table in tables:
            columns = ", ".join(row[1] for row in database.execute(f"PRAGMA table_info({table})"))
            database.execute(f"DELETE FROM main.{table}")
            database.execute(
                f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM now.{table}"
            )
    with RunningIndex(old, "--private", "acme-secret") as index:
        assert state(index, token) == before
    with sqlite3.connect(old / "index.sqlite3") as database:
        assert database.execute("SELECT version FROM schema_version").fetchone() == (
            len(MIGRATIONS),
        )


def moved_back(operator: Operator, before: dict[str, Any], token: str) -> None:
    """Move from PostgreSQL and S3 back to one folder, with the new data."""
    operator.play("Move it back to one machine")
    with one_server(operator, "Move it back to one machine", "/var/lib/last") as index:
        assert state(index, token) == before
        assert len(listing(index, "acme-clock")) == 3
        of_acme = (operator.folder / "acme-token").read_text().strip()
        wheel = build_wheel(operator.folder / "dist", "acme_tools", "5.0")
        assert index.upload(wheel, token=of_acme) == 200
        assert index.upload(build_wheel(operator.folder / "dist", "acme_big", "2.0"),
                            token=of_acme) == 403  # fmt: skip
