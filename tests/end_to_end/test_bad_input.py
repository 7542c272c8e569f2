"""Bad input for every command: a clear error, the right exit code, and no partial writes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cli.running import CommandResult, Runner, tree
from programs import run_program

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

DOCUMENT = release_document(
    {"null": {}, "mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)
SOME = "some-1.0-py3-none-any.whl"
PLAIN = "plain-1.0-py3-none-any.whl"
INDEX_FILE = "some-1.0-variants.json"


@dataclass(frozen=True)
class Bad:
    """A kind of bad input with its expected error."""

    what: str
    words: tuple[str, ...]
    """``{here}`` stands for the folder of the test, ``{index}`` for the URL of the index."""
    code: int
    reference: str
    said: str = ""
    """A part of message, place, note or hint."""
    faults: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    """Written into the folder of the test."""

    def __str__(self) -> str:
        return self.what


@dataclass
class Place:
    """An index, and a folder with an installed package."""

    here: Path
    index: RecordingIndex
    run: Runner

    @property
    def target(self) -> Path:
        """The folder."""
        return self.here / "target"

    @property
    def sources(self) -> list[str]:
        """The options that name only this index."""
        return ["-i", self.index.url, "--no-cache-dir", "--retries", "0"]

    def attempt(self, bad: Bad, command: str, *words: str | Path) -> CommandResult:
        """Run a command that must fail, and check its error."""
        result = self.run(command, *self.sources, *words, code=bad.code)
        check(result, bad)
        return result

    def prepare(self, bad: Bad) -> list[str]:
        """Set the faults, write the files, and return the arguments."""
        for name, value in bad.faults.items():
            setattr(self.index.faults, name, value)
        for name, content in bad.files.items():
            path = self.here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        known = {"here": str(self.here), "index": self.index.url, "files": self.index.file_url("")}
        return [_filled(word, known) for word in bad.words]


def _filled(word: str, known: Mapping[str, str]) -> str:
    for name, value in known.items():
        word = word.replace("{" + name + "}", value)
    return word


@pytest.fixture(autouse=True)
def no_retries(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not retry broken downloads."""
    del run
    monkeypatch.setenv("PIP_RESUME_RETRIES", "0")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a folder for temporary files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a few projects, and install one."""
    folder = tmp_path_factory.mktemp("stocked")
    index = folder / "index"
    for label in (None, "null", "mkl"):
        build_wheel(index, "some", "1.0", label=label, document=DOCUMENT if label else None)
    (index / INDEX_FILE).write_text(json.dumps(DOCUMENT))
    build_wheel(index, "plain", "1.0")
    build_wheel(index, "needs", "1.0", requires=["some", "absent"])
    build_wheel(index, "gone", "1.0", tag="cp27-none-any")
    build_wheel(index, "there", "1.0")
    words = ["install", "--no-index", "-f", index, "--no-cache-dir", "--target", folder / "target"]
    run_program(
        sys.executable, "-m", "wheelfit", *map(str, words), "there",
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PIP_CONFIG_FILE": os.devnull},
    )  # fmt: skip
    return folder


@pytest.fixture
def place(stocked: Path, tmp_path: Path, run: Runner) -> Iterator[Place]:
    """Serve the projects, beside what is installed."""
    shutil.copytree(stocked, tmp_path, dirs_exist_ok=True)
    with RecordingIndex(tmp_path / "index") as index:
        yield Place(tmp_path, index, run)


def check(said: CommandResult, bad: Bad) -> None:
    """Check the reference, exit code, and essential part of an error."""
    if said.out.startswith("{"):
        assert said.error["code"] == bad.reference
        assert said.error["exit_code"] == bad.code
        text = " ".join(str(part) for part in said.error.values())
    else:
        assert f"[{bad.reference}]" in said.err
        assert said.err.count("error: ") == 1
        text = said.err
    assert bad.said in text


MACHINES = pytest.mark.parametrize("more", [[], ["--json"]], ids=["people", "machines"])
HOST = '[metadata]\nversion = "0.1"\n'
TWO = hashlib.sha256(b"2").hexdigest()

CHOOSING = [
    Bad("malformed requirement", ("some ==",), 1, "invalid-requirement", "some =="),
    Bad("no requirement at all", ("?",), 1, "invalid-requirement"),
    Bad("marker of a variant", ("some; variant_label == 'a'",), 1, "invalid-requirement"),  # F-109
    Bad("malformed marker", ("some; nonsense > 1",), 1, "invalid-requirement", "nonsense"),
    Bad("malformed label", ("some", "--label", "some=NO"), 1, "invalid-label", "NO"),
    Bad("label of nothing", ("some", "--label", "mkl"), 2, "usage", "NAME=LABEL"),
    Bad("malformed preference", ("some", "--prefer", "a:b"), 1, "invalid-property", "a:b"),
    Bad("malformed need", ("some", "--require", "a :: B"), 1, "invalid-property", "'B'"),
    Bad("malformed ban", ("some", "--forbid", "a::b::c::d"), 1, "invalid-property"),
    Bad("nothing asked for", (), 2, "usage", "no requirements were given"),
    Bad("unknown option", ("some", "--what"), 2, "usage", "--what"),
    Bad("timeout of nothing", ("some", "--timeout", "0"), 2, "usage", "--timeout"),
    Bad("missing requirements", ("-r", "{here}/no.txt"), 1, "file-problem", "no.txt"),
    Bad("missing constraints", ("some", "-c", "{here}/no.txt"), 1, "file-problem", "no.txt"),
    Bad(
        "broken requirements", ("-r", "{here}/bad.txt"), 1, "invalid-requirement", "bad.txt:2",
        files={"bad.txt": "plain\nsome ==\n"},
    ),
    Bad(
        "editable requirement", ("-r", "{here}/bad.txt"), 1, "file-problem", "bad.txt:1",
        files={"bad.txt": "-e ./no-such-folder\n"},
    ),
    Bad(
        "requirements in a circle", ("-r", "{here}/bad.txt"), 1, "user-error", "includes itself",
        files={"bad.txt": "-r bad.txt\n"},
    ),
    Bad(
        "requirements that are no text", ("-r", "{here}/bad.txt"), 1, "file-problem", "UTF-8",
        files={"bad.txt": b"caf\xe9"},
    ),
    Bad("missing wheel", ("{here}/no-1.0-py3-none-any.whl",), 1, "file-problem", "no-1.0-py3"),
    Bad("no archive", ("https://host.invalid/some-1.0.rar",), 1, "user-error", "some-1.0.rar"),
    Bad("missing archive", ("{here}/some-1.0.tar.gz",), 1, "file-problem", "some-1.0.tar.gz"),
    Bad("folder without a project", ("{here}",), 1, "file-problem", "no project"),
    Bad("malformed repository", ("git+ext::sh://x",), 1, "user-error",
        "scheme ext is not supported"),
    Bad("impossible URL", ("http://[::1/",), 1, "user-error", "http://[::1/"),
    Bad("missing host file", ("some", "--for", "{here}/no.toml"), 1, "file-problem", "no.toml"),
    Bad(
        "host file that is not TOML", ("some", "--for", "{here}/bad.toml"), 1, "invalid-host-file",
        "bad.toml", files={"bad.toml": "a = ["},
    ),
    Bad(
        "host file of tomorrow", ("some", "--for", "{here}/bad.toml"), 1, "invalid-host-file",
        "'9'", files={"bad.toml": '[metadata]\nversion = "9"\n'},
    ),
    Bad(
        "host file with a slip", ("some", "--for", "{here}/bad.toml"), 1, "invalid-host-file",
        'did you mean "provider"?', files={"bad.toml": HOST + "[[provder]]\n"},
    ),
    Bad("unknown interpreter", ("some", "--python", "{here}/no"), 1, "unusable-interpreter", "/no"),
    Bad(
        "interpreter that is none", ("some", "--python", "{here}/bad"), 1, "unusable-interpreter",
        "/bad", files={"bad": "#!/bin/sh\n"},
    ),
    Bad("two places", ("some", "--prefix", "{here}/prefix"), 2, "usage", "--prefix"),
    Bad("unknown project", ("absent",), 3, "project-not-found", "absent"),
    Bad("no such version", ("some>9",), 3, "no-solution", "some>9"),
    Bad("server in trouble", ("some",), 5, "unexpected-status", "503",
        faults={"status": {"*": 503}}),
    Bad("login wanted", ("some",), 5, "unexpected-status", "401", faults={"login": ("me", "pw")}),
    Bad(
        "page that is none", ("some",), 5, "invalid-page", "/simple/some/",
        faults={"content": {"/simple/some/": b"\0\0\0"}},
    ),
    Bad(
        "page that is cut off", ("some",), 5, "unreachable", "broke off",
        faults={"truncate": {"/simple/some/": 20}},
    ),
    Bad("unreachable index", ("some", "-i", "http://127.0.0.1:1/"), 5, "unreachable", "refused"),
    Bad("unknown host", ("some", "-i", "https://host.invalid/"), 5, "unreachable", "host.invalid"),
    Bad("index that is no URL", ("some", "-i", "ftp://host/"), 1, "invalid-configuration", "ftp:"),
    Bad("missing certificates", ("some", "--cert", "{here}/no.pem"), 1, "invalid-configuration"),
    Bad("unknown projects offline", ("some", "--offline"), 5, "unreachable", "offline"),
]  # fmt: skip

INSTALLING = [
    Bad("unknown label", ("some", "--label", "some=nope"), 3, "unknown-label", "mkl, null"),
    Bad("label of a plain project", ("plain", "--label", "plain=mkl"), 3, "unknown-label", "plain"),
    Bad("no compatible wheel", ("gone",), 3, "no-compatible-wheel", "cp27"),
    Bad("dependency that nobody has", ("needs",), 3, "no-solution", "absent"),
    Bad("need that nothing has", ("some", "--require", "amd"), 3, "no-compatible-wheel", "amd"),
    Bad(
        "no plain wheel wanted", ("some", "--no-variants", "--require", "blas"), 3,
        "no-compatible-wheel", "blas",
    ),
    Bad("no hash", ("plain", "--require-hashes"), 1, "user-error", "--hash"),
    Bad(
        "hash of another file", ("-r", "{here}/bad.txt"), 4, "hash-mismatch", TWO,
        files={"bad.txt": f"plain==1.0 --hash=sha256:{TWO}"},
    ),
    Bad(
        "malformed hash", ("-r", "{here}/bad.txt"), 1, "invalid-requirement", "sha256:DIGEST",
        files={"bad.txt": "plain==1.0 --hash=md5:00"},
    ),
    Bad(
        "wrong metadata", ("plain",), 4, "hash-mismatch", f"{PLAIN}.metadata",
        faults={"wrong_metadata_hash": {PLAIN}},
    ),
]  # fmt: skip

FETCHING = [
    Bad("wrong hash", ("plain",), 4, "hash-mismatch", PLAIN, faults={"wrong_hash": {PLAIN}}),
    Bad(
        "wrong hash of a variant", ("some",), 4, "hash-mismatch", "-mkl.whl",
        faults={"wrong_hash": {"some-1.0-py3-none-any-mkl.whl"}, "metadata": False},
    ),
    Bad(
        "hash of another file, promised by nobody else", ("-r", "{here}/bad.txt"), 4,
        "hash-mismatch", TWO, files={"bad.txt": f"plain==1.0 --hash=sha256:{TWO}"},
        faults={"hashes": False},
    ),
    Bad(
        "wrong hash in a URL", ("{files}" + f"{PLAIN}#sha256={TWO}",), 4, "hash-mismatch", TWO,
    ),
    Bad(
        "download that breaks off", ("plain",), 5, "unreachable", "broke off",
        faults={"truncate": {PLAIN: 0}},
    ),
    Bad("wheel that went away", ("plain",), 5, "unexpected-status", "404",
        faults={"status": {PLAIN: 404}}),
    Bad(
        "longer than promised", ("plain",), 4, "integrity", "size",
        faults={"hashes": False, "content": {PLAIN: b"x" * 10_000}},
    ),
    Bad(
        "no archive", ("plain",), 4, "invalid-wheel", f"/files/{PLAIN}",
        faults={"hashes": False, "sizes": False, "content": {PLAIN: b"x" * 10_000}},
    ),
    Bad(
        "given wheel that is cut off", (f"{{here}}/{PLAIN}",), 4, "invalid-wheel", PLAIN,
        files={PLAIN: b"PK\3\4 and nothing more"},
    ),
    Bad(
        "given wheel of nothing", (f"{{here}}/{PLAIN}",), 4, "invalid-wheel", PLAIN,
        files={PLAIN: b""},
    ),
]  # fmt: skip


BOTH: tuple[list[str], ...] = ([], ["--json"])


@pytest.mark.parametrize("bad", CHOOSING, ids=str)
def test_invalid_requests(bad: Bad, place: Place) -> None:
    """Invalid requests for both commands that take requirements."""
    words = place.prepare(bad)
    before = tree(place.here)
    for command in ("install", "explain"):
        for more in BOTH:
            place.attempt(bad, command, "--target", place.target, *words, *more)
    assert tree(place.here) == before


@pytest.mark.parametrize("bad", INSTALLING, ids=str)
def test_unsolvable_requests(bad: Bad, place: Place) -> None:
    """An unsolvable request also fails in a dry run."""
    words = place.prepare(bad)
    before = tree(place.here)
    for more in BOTH:
        place.attempt(bad, "install", "--target", place.target, *words, *more)
        place.attempt(bad, "install", "--target", place.target, *words, *more, "--dry-run")
    assert tree(place.here) == before


@pytest.mark.parametrize("bad", FETCHING, ids=str)
def test_invalid_wheels(bad: Bad, place: Place, scratch: Path) -> None:
    """An invalid wheel leaves no installed, temporary or cached file."""
    words = place.prepare(bad)
    if "-r" not in words:  # a good wheel beside it does not go in either
        words += ["there==1.0", "--force-reinstall"]
    before = tree(place.here)
    for more in BOTH:
        result = place.attempt(bad, "install", "--target", place.target, *words, *more)
        assert str(scratch) not in result.out + result.err
    assert tree(place.here) == before


CORRUPT = {
    "not JSON": b"{nope",
    "nothing": b"",
    "no object": b"[1, 2]",
    "no text": b"\xff\xfe\xfd",
    "twice the same key": b'{"variants": {}, "variants": {}}',
    "too deep": b"[" * 50_000,
    "empty object": b"{}",
    "of tomorrow": json.dumps({**DOCUMENT, "$schema": "https://host.invalid/v9.json"}).encode(),
    "wrong types": json.dumps({**DOCUMENT, "variants": [1]}).encode(),
}


class TestCorruptMetadata:
    """F-130: invalid metadata costs only the variants."""

    @pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT)
    def test_inside_the_wheels(self, content: bytes, place: Place) -> None:
        """F-77: the same without an index file, when the wheels themselves are read."""
        folder = place.here / "index"
        (folder / INDEX_FILE).unlink()
        for label in ("null", "mkl"):
            build_wheel(folder, "some", "1.0", label=label, document=content)
        result = place.run("install", *place.sources, "--target", place.target, "some", "--json")
        assert [entry["filename"] for entry in result.object["install"]] == [SOME]
        warnings = [line for line in result.err.splitlines() if line.startswith("warning: ")]
        assert len(warnings) == 1, warnings
        assert "mkl, null: " in warnings[0]

    @pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT)
    def test_requested_variant_wheel(self, content: bytes, place: Place) -> None:
        """A variant wheel given by the user is refused, whatever else there is."""
        wheel = build_wheel(place.here / "given", "some", "1.0", label="mkl", document=content)
        before = tree(place.target)
        result = place.run(
            "install", *place.sources, "--target", place.target, wheel, "--json", code=4
        )
        assert result.error["code"] == "invalid-wheel"
        assert result.error["where"] == "some-1.0-py3-none-any-mkl.whl"
        assert tree(place.target) == before


class TestTheEnvironment:
    """Environments that cannot be changed."""

    @MACHINES
    @pytest.mark.parametrize("command", ["install", "uninstall"])
    def test_file_instead_of_a_folder(
        self,
        command: str,
        more: list[str],
        place: Place,
        environment: Callable[[], Path],
    ) -> None:
        """Even root cannot write there: exit code 6, before anything is fetched."""
        python = environment()
        (site,) = (python.parent.parent / "lib").glob("python*/site-packages")
        if command == "uninstall":
            place.run("install", *place.sources, "--python", python, "plain")
            moved = place.here / "moved"
            site.rename(moved)
            site.symlink_to(moved / "nowhere")
        else:
            site.rmdir()
            site.write_text("in the way")
        before = tree(python.parent.parent)
        place.index.clear_requests()
        words = [*place.sources, "plain"] if command == "install" else ["plain"]
        code, reference = (
            (6, "environment-read-only") if command == "install" else (1, "not-installed")
        )
        result = place.run(command, "--python", python, *words, *more, code=code)
        assert reference in result.out + result.err
        assert tree(python.parent.parent) == before
        assert not place.index.requests

    @MACHINES
    @pytest.mark.parametrize(
        ("where", "code", "words"),
        [("file", 2, "usage"), ("file/below", 6, "environment-"), ("link", 6, "environment-")],
    )
    def test_invalid_targets(
        self, where: str, code: int, words: str, more: list[str], place: Place
    ) -> None:
        """The same for a target folder; an obviously invalid target is a usage error."""
        (place.here / "file").write_text("in the way")
        (place.here / "link").symlink_to("nowhere")
        before = tree(place.here)
        result = place.run(
            "install", *place.sources, "--target", place.here / where, "plain", *more, code=code
        )
        assert words in result.out + result.err
        assert tree(place.here) == before

    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs the folder of processes")
    def test_full_file_system(self, place: Place) -> None:
        """A refusal by the system is an error of the environment, not an internal one."""
        words = ["install", *place.sources, "--target", "/proc/self/wheelfit", "plain", "--json"]
        assert place.run(*words, code=6).error["exit_code"] == 6

    @MACHINES
    @pytest.mark.parametrize("command", ["install", "uninstall"])
    def test_externally_managed(
        self, command: str, more: list[str], place: Place, managed: Path
    ) -> None:
        """PEP 668: exit code 7 with the message of the distributor, in a dry run too."""
        home = managed.parent.parent
        words = [*place.sources, "plain"] if command == "install" else ["here"]
        before = tree(home)
        place.index.clear_requests()
        for dry in ((), ("--dry-run",)):
            result = place.run(command, "--python", managed, *words, *more, *dry, code=7)
            assert "externally-managed" in result.out + result.err
            assert "Use apt." in result.out + result.err
        assert tree(home) == before
        assert not place.index.requests
        place.run(command, "--python", managed, *words, "--dry-run", "--break-system-packages")

    @MACHINES
    def test_busy(self, more: list[str], place: Place) -> None:
        """A change between plan and installation is detected: never two versions of a project."""
        info = place.target / "plain-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plain\nVersion: 0.1\n")
        before = tree(place.target)
        words = ["install", *place.sources, "--target", str(place.target), "-U", "plain"]
        result = place.run(*words, *more, code=1)
        assert "not-removable" in result.out + result.err
        assert tree(place.target) == before


OTHERS = [
    Bad("list: unknown option", ("list", "--what"), 2, "usage", "--what"),
    Bad("list: unknown interpreter", ("list", "--python", "{here}/no"), 1, "unusable-interpreter"),
    Bad("list: no environment", ("list", "--python", "{here}"), 1, "unusable-interpreter", "venv"),
    Bad("list: a name too many", ("list", "plain"), 2, "usage", "plain"),
    Bad("uninstall: nothing named", ("uninstall",), 2, "usage", "NAME"),
    Bad("uninstall: not there", ("uninstall", "plain"), 1, "not-installed", "plain"),
    Bad("uninstall: one not there", ("uninstall", "there", "plain"), 1, "not-installed", "plain"),
    Bad("uninstall: no name", ("uninstall", "there==1.0"), 1, "invalid-requirement", "there==1.0"),
    Bad("uninstall: unknown interpreter", ("uninstall", "there", "--python", "{here}/no"), 1,
        "unusable-interpreter", "/no"),
    Bad("probe: no namespace", ("probe", "X86"), 1, "invalid-property", "X86"),
    Bad("probe: missing host file", ("probe", "--for", "{here}/no"), 1, "file-problem", "/no"),
    Bad("probe: broken host file", ("probe", "--for", "{here}/bad"), 1, "invalid-host-file", "/bad",
        files={"bad": "["}),
    Bad("probe: no folder", ("probe", "-o", "{here}/no/host.toml"), 1, "file-problem", "/no/host"),
    Bad("probe: unknown interpreter", ("probe", "--python", "{here}/no"), 1,
        "unusable-interpreter", "/no"),
    Bad("demo: missing certificates", ("demo", "--cert", "{here}/no.pem"), 1,
        "invalid-configuration", "no.pem"),
    Bad("demo: index that is not a URL", ("demo", "-i", "ftp://host/"), 1, "invalid-configuration"),
    Bad("no such command", ("instal",), 2, "usage", "did you mean 'install'?"),
]  # fmt: skip


@pytest.mark.parametrize("bad", OTHERS, ids=str)
def test_other_commands(bad: Bad, place: Place, scratch: Path) -> None:
    """``list``, ``uninstall``, ``probe`` and ``demo``."""
    words = place.prepare(bad)
    if words[0] in ("list", "uninstall") and "--python" not in words:
        words += ["--target", str(place.target)]
    before = tree(place.here)
    for more in BOTH:
        check(place.run(*words, *more, code=bad.code), bad)
    assert tree(place.here) == before
    assert not list(scratch.iterdir())


@MACHINES
def test_unreadable_pip_configuration(
    more: list[str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that need an index name the file; the others work."""
    path = place.here / "pip.conf"
    path.write_text("[global]\ntimeout = soon\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(path))
    for words in (["install", "some", "--python", sys.executable], ["explain", "some"], ["demo"]):
        result = place.run(*words, *more, code=1)
        assert "invalid-configuration" in result.out + result.err
        assert str(path) in result.out + result.err
    place.run("list", "--target", place.target, *more)
    place.run("uninstall", "--target", place.target, "there", *more)
    place.run("probe", "aarch64", *more)


class TestCredentials:
    """Passwords of the user, which must not be disclosed."""

    SECRET = "s3cret-w0rd"

    @pytest.fixture
    def protected(self, place: Place) -> Place:
        """Serve the same with a login."""
        place.index.faults.login = ("me", self.SECRET)
        return place

    def look(self, said: CommandResult, place: Place) -> None:
        """Check that the password is in no output and in no file."""
        assert self.SECRET not in said.out + said.err
        for folder in (place.target, place.here / "cache"):
            for path in folder.rglob("*"):
                assert not path.is_file() or self.SECRET.encode() not in path.read_bytes(), path

    @pytest.mark.parametrize("more", [[], ["--json"], ["--debug", "-v"], ["--json", "--debug"]])
    def test_index(self, more: list[str], protected: Place) -> None:
        """The index works, and its login is in no output or file."""
        url = protected.index.url_with_login("me", self.SECRET)
        for words in (["explain", "some"], ["install", "some", "--target", str(protected.target)]):
            self.look(protected.run(*words, "-i", url, *more), protected)

    @pytest.mark.parametrize("form", ["{url}", "plain @ {url}", "{url}#sha256={digest}"])
    def test_wheel(self, form: str, protected: Place) -> None:
        """A wheel URL works with its login, which is not recorded (PEP 610)."""
        wheel = protected.here / "index" / PLAIN
        url = protected.index.file_url(PLAIN).replace("://", f"://me:{self.SECRET}@")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        words = ["install", "--no-index", "--target", str(protected.target), "--json"]
        result = protected.run(*words, form.format(url=url, digest=digest))
        self.look(result, protected)
        recorded = json.loads(
            (protected.target / "plain-1.0.dist-info" / "direct_url.json").read_text()
        )
        assert recorded["url"] == protected.index.file_url(PLAIN)
        assert recorded["archive_info"]["hashes"] == {"sha256": digest}

    def test_requirements_file(self, protected: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        """Logins may come from variables, as pip's documentation recommends."""
        monkeypatch.setenv("PASSWORD", self.SECRET)
        file = protected.here / "all.txt"
        url = protected.index.url_with_login("me", "${PASSWORD}")
        file.write_text(f"--index-url {url}\nplain\n")
        self.look(
            protected.run("install", "-r", file, "--target", protected.target, "-v"), protected
        )

    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (["install", "plain", "-i", "{right}wrong/"], 3),
            (["install", "plain", "-i", "{wrong}"], 5),
            (["explain", "plain", "-i", "{wrong}"], 5),
            (["install", "--no-index", "plain", "-f", "{wrong}"], 3),
            (["install", "plain", "--extra-index-url", "{wrong}", "-i", "{right}"], 0),
            (["install", "{wrong}plain-1.0-py3-none-any.whl"], 5),
            (["install", "{right}plain-2.0.tar.gz"], 5),
            (["install", "plain @ {right}plain-2.0.tar.gz"], 5),
            (["install", "plain @ git+{right}plain.git@main"], 5),
            (["install", "-e", "{right}plain-2.0.tar.gz"], 1),
            (["install", "plain @ {right}x.whl ; nonsense > 1"], 1),
            (["install", "plain {right}"], 1),
            (["install", "plain", "-i", "http://me:SECRET@127.0.0.1:1/"], 5),
            (["install", "plain", "-i", "ftp://me:SECRET@host.invalid/"], 1),
            (["install", "plain", "-i", "http://me:SECRET@host.invalid:port/"], 1),
            (["install", "plain", "--proxy", "http://me:SECRET@127.0.0.1:1/"], 5),
            (["install", "-r", "http://me:SECRET@host.invalid/all.txt"], 1),
            (["install", "-r", "{here}/unknown.txt"], 1),
            (["install", "-r", "{here}/broken.txt"], 1),
            (["install", "-r", "{here}/hash.txt"], 1),
            (["install", "--what", "{right}"], 2),
            (["list", "{right}"], 2),
            (["uninstall", "{right}"], 1),
            (["probe", "{right}"], 1),
            (["probe", "--for", "{right}"], 1),
            (["{right}"], 2),
        ],
    )
    def test_misplaced_urls(self, words: list[str], code: int, protected: Place) -> None:
        """A URL with a login in the wrong place is not repeated, not even in a traceback."""
        right = protected.index.url_with_login("me", self.SECRET)
        protected.index.faults.login = ("me", "another")
        if "--extra-index-url" in words or "{right}wrong/" in words:
            protected.index.faults.login = None
        wrong = protected.index.url_with_login("me", self.SECRET)
        for name, line in (
            ("unknown.txt", f"--bogus {right}"),
            ("broken.txt", f"plain @ {right} ; nonsense > 1"),
            ("hash.txt", f"plain @ {right}x.whl --hash=md5:00"),
        ):
            (protected.here / name).write_text(line + "\n")
        known = {"right": right, "wrong": wrong, "here": str(protected.here), "SECRET": self.SECRET}
        filled = [_filled(word, known).replace("SECRET", self.SECRET) for word in words]
        if words[0] == "install":
            filled += ["--target", str(protected.target), "--retries", "0", "--dry-run"]
        if words[0] == "explain":
            filled += ["--retries", "0"]
        for more in ([], ["--json"], ["--debug", "-v"], ["--json", "--debug"]):
            self.look(protected.run(*filled, *more, code=code), protected)
