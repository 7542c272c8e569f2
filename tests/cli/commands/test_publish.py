"""`wheelfit publish`: what it finds, where it goes, and whose login it uses."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli.running import Runner, tree
from projects.writing import write_archive
from server.legacy import LegacyIndex
from server.uploading import DOCUMENT

from wheelfit.operations.publish_destinations import find_login
from wheelfit.server.messages import Response
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.wheels import build_large_wheel, build_wheel
from wheelfit_runtime.errors import InvalidConfiguration

pytest.importorskip("twine", reason="needs the extra `publish`")
pytest.importorskip("python_multipart", reason="needs the extra `server`")

CERTIFICATES = Path(__file__).parents[2] / "sources" / "certificates"
PROJECT = """\
[project]
name = "fast"
[variant.default-priorities]
namespace = ["blas"]
[variant.providers.blas]
static-properties.library = ["mkl", "openblas"]
[variant.variants.mkl]
blas.library = ["mkl"]
[variant.variants.open]
blas.library = ["openblas"]
"""


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let no login of whoever runs the tests be found."""
    for name in ("USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"TWINE_{name}", raising=False)
        monkeypatch.delenv(f"UV_PUBLISH_{name}", raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.delenv("NETRC", raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """Give a release with three variants."""
    folder = tmp_path / "dist"
    for label in ("null", "mkl", "open", None):
        build_wheel(folder, "fast", "1.0", label=label, document=DOCUMENT if label else None)
    return folder


@pytest.fixture
def source(dist: Path) -> Path:
    """Add a source distribution to the release."""
    metadata = "Metadata-Version: 2.1\nName: fast\nVersion: 1.0\n"
    return write_archive(dist / "fast-1.0.tar.gz", {"fast-1.0/PKG-INFO": metadata})


@pytest.fixture
def legacy(tmp_path: Path) -> Iterator[LegacyIndex]:
    """Give an index that shows every file as it comes."""
    with LegacyIndex(tmp_path / "index") as running:
        yield running


def codes(said: dict[str, object]) -> list[str]:
    """Return which checks found something."""
    findings = said["findings"]
    assert isinstance(findings, list)
    return sorted({str(finding["code"]) for finding in findings})


# --- an index that shows every file as it comes ------------------------------------------------


def test_a_release_is_sent_in_order(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """B-52: plain wheel, variants, index file; afterwards there is nothing to do."""
    result = run("publish", dist, "--to", legacy.url)
    assert "4 files published" in result.out
    assert "one by one" in result.out
    assert legacy.uploads[0] == "fast-1.0-py3-none-any.whl"
    assert legacy.uploads[-1] == "fast-1.0-variants.json"
    run("check", "-i", legacy.simple, "fast", "--full", "--strict", "--profile", "uv")
    count = len(legacy.uploads)
    assert "already has all files" in run("publish", dist, "--to", legacy.url).out
    assert len(legacy.uploads) == count
    result = run("publish", dist, "--to", legacy.url, "--dry-run", "--json")
    assert {file["state"] for file in result.object["files"]} == {"existing"}


def test_a_source_distribution_goes_first(run: Runner, source: Path, legacy: LegacyIndex) -> None:
    """B-52: it is looked at as an index does, goes before all wheels, and leaves nothing beside."""
    before = tree(source.parent)
    run("publish", source.parent, "--to", legacy.url, "--strict")
    assert legacy.uploads[0] == source.name
    assert legacy.fields[source.name]["filetype"] == ("sdist",)
    assert tree(source.parent) == before
    write_archive(source, {"slow-1.0/PKG-INFO": "Metadata-Version: 2.1\nName: slow\nVersion: 1\n"})
    report = run("publish", source, "--to", legacy.url, "--json", code=9).object
    assert {"wrong-folder", "wrong-metadata", "name-taken"} <= set(codes(report))


def test_drafts(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """A schema before 1.0 is a draft, of which one line warns."""
    result = run("publish", "--to", legacy.url, dist)
    assert result.err.count("is a draft and not for production") == 1
    assert "/peps/850/v0.2.0.json" in result.err


def test_a_dry_run_sends_nothing(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """``--dry-run`` says what would be sent, and with how much the project ends up."""
    report = run("publish", dist, "--to", legacy.url, "--dry-run", "--json").object
    assert (report["method"], report["published"], report["dry_run"]) == ("one-by-one", False, True)
    assert [file["label"] for file in report["files"]] == [None, "mkl", "null", "open"]
    size = sum(path.stat().st_size for path in dist.iterdir())
    assert report["forecast"][0]["total_size"] == size
    assert legacy.uploads == []


def test_wrong_files_keep_all_from_being_sent(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """B-54: every fault of every file is told at once, with exit code 9, and nothing is sent."""
    build_wheel(dist, "fast", "1.0", tag="py3-none-beos_5_x86_64")
    strange = {"mkl": {"blas": {"library": ["other"]}}}
    build_wheel(dist, "fast", "1.0", label="mkl", tag="py2-none-any",
                document={**DOCUMENT, "variants": strange})  # fmt: skip
    (dist / "fast-1.1-py3-none-any.whl").write_bytes(b"no archive")
    report = run("publish", dist, "--to", legacy.url, "--json", code=9).object
    assert {"unknown-platform", "unsound-archive", "inconsistent-release"} <= set(codes(report))
    assert report["published"] is False
    assert legacy.uploads == []
    assert "nothing was sent" in run("publish", dist, "--to", legacy.url, code=9).out


def test_a_plain_wheel_that_nobody_can_install_is_not_sent(
    run: Runner, dist: Path, legacy: LegacyIndex
) -> None:
    """B-40: variant markers in a plain wheel are an error before anything is sent."""
    build_wheel(dist, "fast", "1.0", requires=['x; "blas" in variant_namespaces'])
    report = run("publish", dist, "--to", legacy.url, "--json", code=9).object
    assert "variant-marker-in-plain-wheel" in codes(report)
    assert (report["published"], legacy.uploads) == (False, [])


def test_other_content_under_a_name_is_found_first(
    run: Runner, dist: Path, legacy: LegacyIndex
) -> None:
    """F-131: a name that the index has with other content is named before anything is sent."""
    build_wheel(legacy.folder, "fast", "1.0", label="open", document=DOCUMENT, requires=["x"])
    report = run("publish", dist, "--to", legacy.url, "--json", code=9).object
    assert codes(report) == ["name-taken"]
    assert legacy.uploads == []


def test_a_release_has_all_labels_of_its_table(
    run: Runner, dist: Path, legacy: LegacyIndex, tmp_path: Path
) -> None:
    """B-52: what the project's table lists has to be there; --ignore lets a part go."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT)
    (dist / "fast-1.0-py3-none-any-open.whl").unlink()
    words = ("publish", dist, "--to", legacy.url, "--project", project, "--json")
    assert codes(run(*words, code=9).object) == ["missing-variant"]
    run(*words, "--ignore", "missing-variant", "--dry-run")
    assert run(*words, "--ignore", "mising-variant", code=2).error["code"] == "usage"
    (dist / "fast-1.0-py3-none-any.whl").unlink()
    assert "no-plain-wheel" in codes(run(*words, code=9).object)


def test_limits_can_be_named(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """B-53: --file-limit and --project-limit hold for any index, in decimal units or bytes."""
    words = ("publish", dist, "--to", legacy.url, "--dry-run", "--json")
    assert codes(run(*words, "--file-limit", "1kB", code=9).object) == ["file-too-large"]
    assert codes(run(*words, "--project-limit", "2000", code=9).object) == ["project-too-large"]
    report = run(*words, "--project-limit", "9kB").object
    assert codes(report) == ["project-too-large"]  # a warning: there is no room for another one
    assert report["forecast"][0]["further_releases"] == 0
    run(*words, "--project-limit", "9kB", "--strict", code=9)


@pytest.mark.integration
def test_the_limits_of_the_registry_are_known(
    run: Runner, tmp_path: Path, legacy: LegacyIndex
) -> None:
    """B-53: with ``--profile pypi`` 100 MB and labels count; a granted limit replaces 100 MB."""
    dist = tmp_path / "large"
    wheel = build_large_wheel(dist, "fast", "1.0", 100_000_001)
    build_wheel(dist, "fast", "1.0", label="mkl", document=DOCUMENT)
    words = ("publish", dist, "--to", legacy.url, "--dry-run", "--json", "--profile", "pypi")
    assert codes(run(*words, code=9).object) == ["file-too-large", "pypi-variant-wheel"]
    run(*words, "--ignore", "pypi-variant-wheel", "--file-limit", "101MB")
    wheel.unlink()


def test_an_old_release_is_closed(run: Runner, dist: Path, tmp_path: Path) -> None:
    """B-53: a release that is older than 14 days on the index takes no more files."""
    old = (datetime.now(UTC) - timedelta(days=15)).isoformat()
    file = {
        "filename": "fast-1.0.tar.gz", "url": "fast-1.0.tar.gz", "hashes": {}, "upload-time": old
    }  # fmt: skip
    page = {"meta": {"api-version": "1.1"}, "name": "fast", "files": [file], "versions": ["1.0"]}
    folder = tmp_path / "pages"
    with LegacyIndex(folder) as index:
        kind = {"content-type": "application/vnd.pypi.simple.v1+json"}
        index.pages["/simple/fast/"] = Response.of(200, json.dumps(page).encode(), kind)
        words = ("publish", dist, "--to", index.url, "--dry-run", "--json")
        assert "pypi-closed-release" in codes(run(*words, "--profile", "pypi", code=9).object)
        run(*words)


def test_an_index_that_takes_no_index_files_is_named(
    run: Runner, dist: Path, legacy: LegacyIndex
) -> None:
    """The wheels are published, the warning says what is missing, and --strict minds it."""
    name = "fast-1.0-variants.json"
    legacy.answers[name] = [Response.text(400, "no such type")] * 2
    result = run("publish", dist, "--to", legacy.url)
    assert "no such type; without it installers may not find the variants" in result.err
    result = run("publish", dist, "--to", legacy.url, "--strict", "--json", code=9)
    assert result.object["published"] is True
    assert result.object["refused_index_files"]


def test_an_index_that_keeps_nothing_is_found_out(
    run: Runner, dist: Path, legacy: LegacyIndex
) -> None:
    """B-52: a file that was taken and is not listed is not a published one; others are."""
    lost = "fast-1.0-py3-none-any-open.whl"
    legacy.swallows = frozenset({lost})
    words = ("publish", dist, "--to", legacy.url, "--publish-timeout", "0")
    report = run(*words, "--json", code=9).object
    assert report["published"] is False
    assert codes(report) == ["not-listed"]
    states = {file["filename"]: file["state"] for file in report["files"]}
    assert states.pop(lost) == "not-listed"
    assert set(states.values()) == {"published"}
    assert "which does not list 1" in run(*words, code=9).out
    legacy.swallows = frozenset()
    run(*words)


def test_an_index_that_cannot_be_asked_afterwards(
    run: Runner, dist: Path, legacy: LegacyIndex
) -> None:
    """B-52: if the index cannot be read after sending, nothing is claimed."""
    legacy.after_uploads["/simple/fast/"] = Response.text(200, "no")
    words = ("publish", dist, "--to", legacy.url, "--publish-timeout", "0")
    report = run(*words, "--json", code=10).object
    assert report["published"] is False
    assert {file["state"] for file in report["files"]} == {"sent"}
    assert report["unchecked"]


def test_contradictions_with_what_is_there_are_found_first(
    run: Runner, dist: Path, legacy: LegacyIndex
) -> None:
    """F-65: a label that means something else in a wheel of the index keeps all from being sent."""
    other = release_of_another_mind(legacy.folder)
    legacy.uploads.clear()
    report = run("publish", dist, "--to", legacy.url, "--dry-run", "--json", code=9).object
    assert codes(report) == ["inconsistent-release"]
    assert other.name in str(report["findings"])
    assert legacy.uploads == []


def test_a_redirect_to_another_index_says_nothing_of_this_one(
    run: Runner, dist: Path, legacy: LegacyIndex, tmp_path: Path
) -> None:
    """What another index has under these names, to which this one leads, is not there."""
    with LegacyIndex(tmp_path / "elsewhere") as other:
        release_of_another_mind(other.folder)
        away = Response.of(302, b"", {"location": f"{other.simple}fast/"})
        legacy.pages["/simple/fast/"] = away
        words = ("publish", dist, "--to", legacy.url, "--dry-run")
        result = run(*words)
        assert "counts as missing" in result.err
        assert {file["state"] for file in run(*words, "--json").object["files"]} == {"new"}


def test_what_an_index_refuses_while_files_are_sent_is_a_finding(
    run: Runner, dist: Path, legacy: LegacyIndex
) -> None:
    """A refusal ends with 9 as one that is found before; the states say what is there."""
    first, *_ = sorted(path.name for path in dist.glob("*.whl"))
    refused = "fast-1.0-py3-none-any-open.whl"
    legacy.answers[refused] = [Response.text(400, "no such name for you")]
    report = run("publish", dist, "--to", legacy.url, "--json", code=9).object
    assert codes(report) == ["refused-by-index"]
    assert report["published"] is False
    states = {file["filename"]: file["state"] for file in report["files"]}
    assert states[refused] == "new"
    assert states[first] == "existing"
    legacy.answers[refused] = [Response.text(409, "Conflict")]
    assert codes(run("publish", dist, "--to", legacy.url, "--json", code=9).object) == [
        "name-taken"
    ]


def test_certificates_are_those_that_are_named(run: Runner, dist: Path, tmp_path: Path) -> None:
    """Over TLS the authority of --cert counts, for pages and uploads; else nobody is believed."""
    with LegacyIndex(tmp_path / "tls", CERTIFICATES / "server.pem") as index:
        result = run("publish", dist, "--to", index.url, "--json", code=5)
        assert result.error["code"] == "unreachable"
        assert index.uploads == index.asked == []
        run("publish", dist, "--to", index.url, "--cert", CERTIFICATES / "authority.pem")
        assert len(index.uploads) == 5
    with LegacyIndex(tmp_path / "strange", CERTIFICATES / "stranger.pem") as index:
        words = ("publish", dist, "--to", index.url, "--cert", CERTIFICATES / "authority.pem")
        assert run(*words, "--json", code=5).error["code"] == "unreachable"
        assert index.uploads == []


# --- whose login -------------------------------------------------------------------------------


def test_logins_come_from_where_tools_have_them(
    run: Runner, dist: Path, legacy: LegacyIndex, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """URL, variables of twine and uv, .pypirc and netrc are tried in this order; none is shown."""
    legacy.login = ("__token__", "good-secret")
    bare, user = legacy.url, "__token__"
    host = bare.removeprefix("http://").rstrip("/")

    def publish(to: str, code: int) -> str:
        for path in legacy.folder.glob("fast*"):
            path.unlink()
        result = run("publish", dist, "--to", to, "-v", code=code)
        assert "secret" not in result.out + result.err
        return result.err

    assert "wrong user" in publish(bare, 7)
    netrc = own_home / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login {user} password good-secret\n")
    netrc.chmod(0o600)
    assert "that of netrc" in publish(bare, 0)
    pypirc = own_home / ".pypirc"
    entry = f"[distutils]\nindex-servers = ours\n[ours]\nrepository = {bare}\n"
    pypirc.write_text(f"{entry}username = {user}\npassword = bad-secret\n")
    assert "from you" in publish(bare, 7)
    pypirc.write_text(f"{entry}username = {user}\npassword = good-secret\n")
    assert "that of .pypirc" in publish("ours", 0)
    monkeypatch.setenv("UV_PUBLISH_TOKEN", "bad-secret")
    assert "that of UV_PUBLISH_TOKEN" in publish(bare, 7)
    monkeypatch.setenv("TWINE_PASSWORD", "good-secret")
    assert "that of TWINE_PASSWORD" in publish(bare, 0)
    monkeypatch.setenv("TWINE_USERNAME", "other")
    assert "wrong user" in publish(bare, 7)
    assert "that of the URL" in publish(f"http://{user}:good-secret@{host}/", 0)
    monkeypatch.setenv("WHEELFIT_INDEX_TOKEN", "good-secret")
    assert "that of TWINE_PASSWORD" in publish(bare, 7)  # the token is for our own indexes


def test_a_job_that_the_index_trusts_needs_no_login(
    run: Runner, dist: Path, legacy: LegacyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The identity of a CI job is exchanged for a token before sending, and in no dry run."""
    claims = base64.urlsafe_b64encode(json.dumps({"aud": "wheels"}).encode()).decode().rstrip("=")
    monkeypatch.setenv("WHEELFIT_OIDC_TOKEN", f"e30.{claims}.signature")
    kind = {"content-type": "application/json"}
    legacy.login = ("__token__", "minted-secret")
    legacy.pages["/_/oidc/audience"] = Response.of(200, b'{"audience": "wheels"}', kind)
    legacy.pages["POST /_/oidc/mint-token"] = Response.of(200, b'{"token": "minted-secret"}', kind)
    run("publish", dist, "--to", legacy.url, "--dry-run")
    assert not [path for path in legacy.asked if "oidc" in path]
    run("publish", dist, "--to", legacy.url, "--trusted-publishing", "never", code=7)
    assert not [path for path in legacy.asked if "oidc" in path]
    result = run("publish", dist, "--to", legacy.url, "-v")
    assert "that of this CI job's identity" in result.err
    assert "minted-secret" not in result.out + result.err
    legacy.pages.clear()
    words = ("publish", dist, "--to", legacy.url, "--trusted-publishing", "always", "--json")
    assert "no trusted publishing" in str(run(*words, code=1).error)


def test_a_login_is_for_the_server_that_takes_uploads(
    run: Runner, dist: Path, legacy: LegacyIndex, tmp_path: Path
) -> None:
    """Where an index lists what it has on another server, that one is shown nothing."""
    host = legacy.url.removeprefix("http://")
    with LegacyIndex(tmp_path / "other") as other:
        words = ("--to", f"http://me:secret@{host}", "--check-url", other.simple)
        run("publish", dist, *words, "--publish-timeout", "0", code=9)  # which lists other files
        assert other.asked == ["/simple/fast/"] * len(other.asked)
        assert set(other.logins) == {None}
    assert legacy.logins[-1] is not None
    run("publish", dist, "--to", f"http://me:secret@{host}")
    pages = zip(legacy.asked, legacy.logins, strict=True)
    assert all(login for path, login in pages if path.startswith("/simple/"))


def test_the_token_of_our_indexes_is_for_them(tmp_path: Path) -> None:
    """``WHEELFIT_INDEX_TOKEN`` counts where an index is one of ours, and nowhere else."""
    environ = {"WHEELFIT_INDEX_TOKEN": "ours", "TWINE_PASSWORD": "theirs"}

    def found(*, is_live_index: bool) -> str:
        login, place = find_login(
            "https://x.example/legacy/", {}, SourceSettings(keyring="disabled"), environ, tmp_path,
            is_live_index=is_live_index, note=print,
        )  # fmt: skip
        assert login is not None
        assert "theirs" not in repr(login)
        return f"{login.password} {place}"

    assert found(is_live_index=True) == "ours WHEELFIT_INDEX_TOKEN"
    assert found(is_live_index=False) == "theirs TWINE_PASSWORD"


def test_no_login_travels_in_the_open(tmp_path: Path) -> None:
    """Over plain HTTP a login is shown to this machine only."""
    environ = {"TWINE_PASSWORD": "secret"}
    settings = SourceSettings(keyring="disabled")
    with pytest.raises(InvalidConfiguration, match="not sent over plain HTTP") as excinfo:
        find_login(
            "http://x.example/", {}, settings, environ, tmp_path, is_live_index=False, note=print
        )
    assert "secret" not in str(vars(excinfo.value))


def test_keyring_is_asked_last(tmp_path: Path) -> None:
    """The program ``keyring`` is asked for the address when nothing else has a login."""
    program = tmp_path / "bin" / "keyring"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\ncase "$*" in *x.example/legacy*) '
        'echo \'{"username": "me", "password": "kept"}\';; *) exit 1;; esac\n'
    )
    program.chmod(0o755)
    environ = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    login, place = find_login(
        "https://x.example/legacy/", {}, SourceSettings(keyring="subprocess"), environ, tmp_path,
        is_live_index=False, note=print,
    )  # fmt: skip
    assert login is not None
    assert (login.user, login.password, place) == ("me", "kept", "keyring")


# --- what cannot be meant ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "reference"),
    [
        (["{dist}", "--to", "nowhere"], 2, "usage"),
        (["{dist}", "--to", "http://"], 1, "invalid-configuration"),
        (["{dist}", "--to", "http://127.0.0.1:1/"], 5, "unreachable"),
        (["{dist}", "--to", "http://127.0.0.1:x/"], 1, "invalid-configuration"),
        (["{dist}", "--to", "http://127.0.0.1:1/", "--check-url", "x"], 1, "invalid-configuration"),
        (["{dist}", "--to", "./public/simple"], 2, "usage"),
        (["{dist}", "--to", "./public", "--one-by-one"], 2, "usage"),
        (["{dist}/none", "--to", "./public"], 1, "file-problem"),
        (["{dist}", "--to", "./public", "--file-limit", "many"], 2, "usage"),
        (["{dist}"], 2, "usage"),
    ],
)
def test_what_cannot_be_meant_is_named(
    run: Runner, dist: Path, words: list[str], code: int, reference: str
) -> None:
    """Places that are none, and options that do not go together, are refused; nothing is made."""
    before = tree(dist.parent)
    result = run("publish", *(word.replace("{dist}", str(dist)) for word in words), "--json",
               code=code)  # fmt: skip
    assert result.error["code"] == reference
    assert tree(dist.parent) == before


# --- a static index ----------------------------------------------------------------------------


def test_a_static_index_gets_a_release_at_once(run: Runner, dist: Path, tmp_path: Path) -> None:
    """A folder becomes an index, keeps other releases, and is not changed by the same again."""
    public = tmp_path / "public"
    older = build_wheel(tmp_path / "older", "fast", "0.9")
    run("publish", older, "--to", public)
    result = run("publish", dist, "--to", public)
    assert "4 files published" in result.out
    assert "all at once" in result.out
    run("check", "-i", public / "simple", "fast", "--full", "--strict")
    before = tree(public)
    assert "already has all files" in run("publish", dist, "--to", public).out
    assert tree(public) == before
    result = run("publish", dist, older, "--to", public, "--dry-run", "--json")
    assert {file["state"] for file in result.object["files"]} == {"existing"}


def test_a_release_of_a_static_index_can_grow(run: Runner, dist: Path, tmp_path: Path) -> None:
    """Files of a release that are there stay listed, with their yanks, when another one comes."""
    public = tmp_path / "public"
    late = tmp_path / "late" / "fast-1.0-py3-none-any-open.whl"
    late.parent.mkdir()
    (dist / late.name).rename(late)
    yanked = dist / "fast-1.0-py3-none-any-mkl.whl.yanked"
    yanked.write_text("slow")
    run("index", "generate", dist, "--to", public)
    run("publish", late, "--to", public)
    page = json.loads((public / "simple/fast/index.json").read_text())
    listed = {file["filename"]: file.get("yanked") for file in page["files"]}
    assert len(listed) == 5
    assert listed["fast-1.0-py3-none-any-mkl.whl"] == "slow"
    document = next((public / "simple/fast").glob("*/fast-1.0-variants.json"))
    assert '"open"' in max(
        path.read_text() for path in (public / "simple/fast").glob(f"*/{document.name}")
    )


def test_a_static_index_keeps_what_it_has(run: Runner, dist: Path, tmp_path: Path) -> None:
    """F-131: other content under a published name, and faults, change nothing of the folder."""
    public = tmp_path / "public"
    run("publish", dist, "--to", public)
    before = tree(public)
    other = build_wheel(tmp_path / "other", "fast", "1.0", requires=["something"])
    assert codes(run("publish", other, "--to", public, "--json", code=9).object) == ["name-taken"]
    contrary = release_of_another_mind(tmp_path / "contrary")
    run("publish", contrary, "--to", public, code=9)
    assert tree(public) == before
    (public / "index.sqlite3").touch()
    assert "store of a live index" in run("publish", dist, "--to", public, code=1).err


def release_of_another_mind(folder: Path) -> Path:
    """Build a wheel whose label means something else."""
    document = {**DOCUMENT, "variants": {"mkl": {"blas": {"library": ["openblas"]}}}}
    return build_wheel(folder, "fast", "1.0", label="mkl", document=document, tag="py2-none-any")
