"""`wheelfit run` and `wheelfit proxy`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from cli.running import Runner

from wheelfit.server.proxy.environment import proxy_environment
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

pytestmark = pytest.mark.integration

X86_64 = {"requires": ["x86-64-variant-provider<1"]}
PRINT = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a project with variants, and one without."""
    folder = tmp_path / "index"
    document = release_document(
        {"v3": {"x86_64": {"level": ["v3"]}}, "v4": {"x86_64": {"level": ["v4"]}}},
        providers={"x86_64": X86_64},
    )
    build_release(folder, "some", "1.0", document, ("v3", "v4", None))
    build_wheel(folder, "plain", "1")
    with RecordingIndex(folder) as index:
        yield index


def wheelfit(
    *words: str | Path,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run the program in a separate process."""
    hidden = ("PIP_", "UV_", "WHEELFIT_", "PDM_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    variables |= {"PIP_CONFIG_FILE": os.devnull, "WHEELFIT_CONFIG_FILE": os.devnull}
    return subprocess.run(
        [sys.executable, "-m", "wheelfit", *words],
        env={**variables, **(environ or {}), **more},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


class TestRun:
    """`wheelfit run`."""

    def test_variables_of_the_command(self, index: RecordingIndex) -> None:
        """Pip and uv get the proxy besides other indexes, pdm instead; nothing else changes."""
        done = wheelfit(
            *("run", "--index-url", index.url, "--no-cache-dir", "--", sys.executable, "-c", PRINT),
            UV_INDEX="https://own.example/simple",
            PIP_EXTRA_INDEX_URL="https://more.example/simple",
            NO_PROXY="intern.example",
        )
        told = json.loads(done.stdout)
        assert done.stderr == ""
        more, url = told["PIP_EXTRA_INDEX_URL"].split()
        assert more == "https://more.example/simple"
        for_uv = url.replace("/pip/", "/uv/")
        assert told["UV_INDEX"].split() == [for_uv, "https://own.example/simple"]
        assert told["PDM_PYPI_URL"] == url.replace("/pip/simple/", "/pdm/full/simple/")
        assert told["NO_PROXY"] == "intern.example,127.0.0.1,localhost"
        assert told["PIP_INDEX_URL"] == told["UV_INDEX_URL"] == index.url
        assert len(url.split("/")[3]) >= 32

    @pytest.mark.parametrize("named_by", ["option", "configuration"])
    @pytest.mark.parametrize("installer", ["pip", "uv"])
    def test_index_option_replaces_the_default_index(
        self, index: RecordingIndex, tmp_path: Path, installer: str, named_by: str, uv: Path
    ) -> None:
        """With an explicit index pip and uv contact no public one."""
        build_wheel(tmp_path / "public", "plain", "9")
        words = {
            "pip": [sys.executable, "-m", "pip", "download", "--no-deps", "--dest"],
            "uv": [str(uv), "pip", "install", "--no-cache", "--no-deps", "--target"],
        }[installer]
        with RecordingIndex(tmp_path / "public") as public:
            # What pip asks by default lies far away; uv's default can be set, as if it did.
            is_option = named_by == "option"
            more = {"UV_INDEX_URL": public.url} if is_option else {"PIP_INDEX_URL": index.url}
            named = ("--index-url", index.url) if is_option else ()
            if is_option:
                more["PIP_INDEX_URL"] = public.url
            done = wheelfit(
                *("run", *named, "--no-cache-dir", "--for", "cpu-x86_64-v3", "--"),
                *words,
                *(tmp_path / "got", "plain"),
                environ=more,
            )
            assert public.requests == []
        assert done.returncode == 0, done.stderr
        (got, *_) = (tmp_path / "got").glob("plain-*")
        assert got.name.startswith("plain-1-") or got.name == "plain-1.dist-info"

    @pytest.mark.parametrize(
        "told_by",
        ["uv.toml", "pyproject.toml", "UV_INDEX", "--default-index", "folder", "-r", "pip"],
    )
    def test_private_index_takes_precedence(
        self, index: RecordingIndex, tmp_path: Path, told_by: str, uv: Path
    ) -> None:
        """A project of a private index comes from there, wherever the index is configured."""
        build_wheel(tmp_path / "private", "some", "0.5")
        work = tmp_path / "work"
        work.mkdir()
        more: dict[str, str] = {}
        words: list[str] = []
        name = "some"
        with RecordingIndex(tmp_path / "private") as private:
            url = private.url
            if told_by == "uv.toml":
                (work / "uv.toml").write_text(f'[[index]]\nurl = "{url}"\n')
            elif told_by == "pyproject.toml":
                (work / "pyproject.toml").write_text(f'[tool.uv]\nextra-index-url = ["{url}"]\n')
            elif told_by == "UV_INDEX":
                more["UV_INDEX"] = f"own={url}"
            elif told_by == "folder":
                local = tmp_path / "local" / "some"
                local.mkdir(parents=True)
                wheel = build_wheel(local, "some", "0.5").name
                (local / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
                more["UV_INDEX"] = local.parent.as_uri()
            elif told_by == "-r":
                (work / "r.txt").write_text(f"--index-url {url}\nsome\n")
                name = "-rr.txt"
            else:
                words = ["--index-url" if told_by == "pip" else told_by, url]
            target = ["--no-deps", "--target", str(tmp_path / "got"), *words, name]
            installer = (
                [sys.executable, "-m", "pip", "install", *target]
                if told_by == "pip"
                else [str(uv), "pip", "install", "--no-cache", *target]
            )
            # The public one is what is configured, not what is named to us.
            public = {"PIP_INDEX_URL": index.url}
            done = wheelfit(
                *("run", "--no-cache-dir", "--for", "cpu-x86_64-v3", "--", *installer),
                folder=work,
                environ={**public, **more},
            )
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "got" / "some-0.5.dist-info").is_dir()
        asked = [request.path for request in index.requests]
        assert not any("some" in path for path in asked), asked

    def test_credentials_are_not_passed_on(self, index: RecordingIndex, tmp_path: Path) -> None:
        """Credentials in uv's files are used by the proxy, and neither printed nor passed on."""
        url = index.url.replace("http://", "http://me:s3cret@")
        (tmp_path / "uv.toml").write_text(f'[[index]]\nurl = "{url}"\ndefault = true\n')
        program = (
            "import os, urllib.request as u\n"
            "print(u.urlopen(os.environ['UV_EXTRA_INDEX_URL'] + 'some/').read().decode())\n"
            "print(dict(os.environ))\n"
        )
        done = wheelfit(
            *("run", "-v", "--no-cache-dir", "--for", "cpu-x86_64-v3", "--"),
            *(sys.executable, "-c", program),
            folder=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        assert "some-1.0-0_v3" in done.stdout
        assert "s3cret" not in done.stdout + done.stderr
        assert {request.headers.get("authorization") for request in index.requests} != {None}

    def test_index_without_a_url(self, run: Runner, bare_environment: None) -> None:
        """An index that is not a URL is an error."""
        del bare_environment
        result = run("run", "--index-url", "notaurl", "--", "true", code=1)
        assert "notaurl is not a URL" in result.err

    def test_default_index_of_uv(self, index: RecordingIndex) -> None:
        """The default index in uv's variables, and the one of pip's configuration, are kept."""
        own = "https://own.example/simple"
        done = wheelfit(
            *("run", "--no-cache-dir", "--", sys.executable, "-c", PRINT),
            PIP_INDEX_URL=index.url,
            UV_DEFAULT_INDEX=own,
        )
        told = json.loads(done.stdout)
        assert (told["PIP_INDEX_URL"], told["UV_DEFAULT_INDEX"]) == (index.url, own)
        assert "UV_INDEX_URL" not in told

    @pytest.mark.parametrize("own", [False, True])
    def test_uv_add_does_not_record_the_proxy(
        self, index: RecordingIndex, tmp_path: Path, uv: Path, *, own: bool
    ) -> None:
        """`uv add` does not write the proxy into pyproject.toml."""
        (tmp_path / "pyproject.toml").write_text(
            '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.11"\n'
        )
        named = {"UV_INDEX": index.url} if own else {}
        done = wheelfit(
            *("run", "--no-cache-dir", "--", str(uv), "add", "--no-cache", "plain"),
            folder=tmp_path,
            environ={**named, "PIP_INDEX_URL": index.url},
        )
        assert done.returncode == 0, done.stderr
        for name in ("pyproject.toml", "uv.lock"):
            text = (tmp_path / name).read_text().replace(index.origin, "")
            assert "127.0.0.1" not in text

    def test_proxy_ends_with_the_command(self, index: RecordingIndex) -> None:
        """The port is closed when the command ends."""
        done = wheelfit(
            *("run", "--index-url", index.url, "--no-cache-dir", "--", sys.executable, "-c", PRINT)
        )
        port = int(json.loads(done.stdout)["PDM_PYPI_URL"].split(":")[2].partition("/")[0])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)

    def test_secret_path(self, index: RecordingIndex) -> None:
        """Without the secret path every request gets 404."""
        program = (
            "import os, urllib.request as u, urllib.error as e\n"
            "url = os.environ['UV_EXTRA_INDEX_URL']\n"
            "print(u.urlopen(url + 'some/').status)\n"
            "try: u.urlopen('/'.join(url.split('/')[:3]) + '/simple/some/')\n"
            "except e.HTTPError as error: print(error.code)\n"
        )
        done = wheelfit(
            *("run", "--index-url", index.url, "--no-cache-dir", "--for", "cpu-x86_64-v3"),
            *("--", sys.executable, "-c", program),
        )
        assert done.stdout.split() == ["200", "404"]

    @pytest.mark.parametrize(
        ("program", "code"),
        [("raise SystemExit(23)", 23), ("import os; os.kill(os.getpid(), 9)", 137)],
    )
    def test_exit_code(self, index: RecordingIndex, program: str, code: int) -> None:
        """The exit code is that of the command, or of its signal as in a shell."""
        done = wheelfit("run", "--index-url", index.url, "--", sys.executable, "-c", program)
        assert done.returncode == code

    def test_signals_are_forwarded(self, index: RecordingIndex) -> None:
        """A termination signal is forwarded to the command."""
        program = (
            "import signal, sys, time\n"
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
            "print('ready', flush=True)\n"
            "time.sleep(60)\n"
        )
        words = ["run", "--index-url", index.url, "--", sys.executable, "-c", program]
        with subprocess.Popen(
            [sys.executable, "-m", "wheelfit", *words],
            env={**os.environ, "PIP_CONFIG_FILE": os.devnull},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 7

    def test_usage_errors(self, run: Runner, bare_environment: None, tmp_path: Path) -> None:
        """A missing command or program, an unknown host, and --json are errors."""
        del bare_environment
        assert "no command was given" in run("run", code=2).err
        assert (
            "the program was not found" in run("run", "--", "no-such-program-anywhere", code=1).err
        )
        assert "may be run" in run("run", "--", tmp_path, code=1).err
        assert "not a preset" in run("run", "--for", "cuda-99.9-sm1", "--", "true", code=1).err
        assert "wheelfit run -- uv" in run("run", "uv", "--version", code=2).err
        assert "usage" in run("run", "--json", "--", "true", code=2).out


class TestProxy:
    """`wheelfit proxy`."""

    def test_proxy_for_other_machines(self, index: RecordingIndex) -> None:
        """It prints its address, serves presets and shorthands, and ends on Ctrl-C."""
        with subprocess.Popen(
            [sys.executable, "-m", "wheelfit", "proxy", "--port", "0", "--index-url", index.url],
            env={**os.environ, "PIP_CONFIG_FILE": os.devnull, "WHEELFIT_CONFIG_FILE": os.devnull},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            root = url.removesuffix("simple/")
            for profile, label in (("cpu-x86_64-v3", "v3"), ("cpu-x86_64-v4", "v4")):
                with urlopen(f"{root}for/{profile}/simple/some/") as answer:
                    assert f"some-1.0-0_{label}-py3".encode() in answer.read()
            with urlopen(f"{root}full/for/cpu/simple/plain/") as answer:
                assert b"plain-1-py3" in answer.read()
            with pytest.raises(HTTPError) as excinfo:
                urlopen(f"{root}for/..%2Fpasswd/simple/some/")
            assert excinfo.value.code == 404
            excinfo.value.close()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0

    def test_port_in_use(self, run: Runner, bare_environment: None) -> None:
        """A port in use and a foreign address are errors."""
        del bare_environment
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = run("proxy", "--port", str(port), code=1)
        assert f"127.0.0.1:{port}" in result.err
        assert "another --port" in result.err
        result = run("proxy", "--port", "0", "--host", "192.0.2.1", code=1)
        assert "--host is an address of this machine" in result.err

    def test_invalid_secret(
        self, run: Runner, bare_environment: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A secret that is short or not a path segment is refused."""
        del bare_environment
        for secret in ("short", "with/slash/in/the/middle"):
            monkeypatch.setenv("WHEELFIT_PROXY_SECRET", secret)
            assert "WHEELFIT_PROXY_SECRET" in run("proxy", "--port", "0", code=1).err


class TestEnvironment:
    """Variables for the command."""

    def test_full_replaces_all_indexes(self) -> None:
        """With --full the proxy replaces every other index."""
        environ = {"UV_INDEX": "x", "UV_INDEX_URL": "y", "UV_EXTRA_INDEX_URL": "z", "HOME": "/h"}
        changed = proxy_environment(environ, "http://127.0.0.1:1/s/", replaces_indexes=True)
        base = "http://127.0.0.1:1/s"
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
            assert changed[name] == f"{base}/pip/simple/"
        for name in ("UV_EXTRA_INDEX_URL", "UV_INDEX_URL"):  # uv's own files are asked in between
            assert changed[name] == f"{base}/uv/simple/"
        assert changed["PDM_PYPI_URL"] == f"{base}/pdm/full/simple/"
        assert not {"UV_INDEX", "UV_DEFAULT_INDEX"} & changed.keys()
        assert changed["HOME"] == "/h"
