"""`wheelfit publish`: checks, uploads and credentials."""

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
    """Use an empty home without credentials."""
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
    """Build a release with three variants."""
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
    """Yield an index that lists every upload at once."""
    with LegacyIndex(tmp_path / "index") as running:
        yield running


def codes(said: dict[str, object]) -> list[str]:
    """Return the codes of the findings."""
    findings = said["findings"]
    assert isinstance(findings, list)
    return sorted({str(finding["code"]) for finding in findings})


# --- an index that shows every file as it comes ------------------------------------------------


def test_upload_order(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """B-52: the plain wheel, the variants and the index file are uploaded in this order, once."""
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


def test_source_distribution_is_first(run: Runner, source: Path, legacy: LegacyIndex) -> None:
    """B-52: A source distribution is checked and uploaded before all wheels."""
    before = tree(source.parent)
    run("publish", source.parent, "--to", legacy.url, "--strict")
    assert legacy.uploads[0] == source.name
    assert legacy.fields[source.name]["filetype"] == ("sdist",)
    assert tree(source.parent) == before
    write_archive(source, {"slow-1.0/PKG-INFO": "Metadata-Version: 2.1\nName: slow\nVersion: 1\n"})
    report = run("publish", source, "--to", legacy.url, "--json", code=9).object
    assert {"wrong-folder", "wrong-metadata", "name-taken"} <= set(codes(report))


def test_draft_schema(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """A draft schema causes one warning."""
    result = run("publish", "--to", legacy.url, dist)
    assert result.err.count("a draft of the schema is not for production") == 1
    assert "/peps/850/v0.2.0.json" in result.err


def test_dry_run(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """``--dry-run`` lists the files and the resulting size of the project."""
    report = run("publish", dist, "--to", legacy.url, "--dry-run", "--json").object
    assert (report["method"], report["published"], report["dry_run"]) == ("one-by-one", False, True)
    assert [file["label"] for file in report["files"]] == [None, "mkl", "null", "open"]
    size = sum(path.stat().st_size for path in dist.iterdir())
    assert report["forecast"][0]["total_size"] == size
    assert legacy.uploads == []


def test_faults_prevent_the_upload(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """B-54: faults of all files are reported at once, with exit code 9, and nothing is uploaded."""
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


def test_variant_markers_in_a_plain_wheel(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """B-40: variant markers in a plain wheel prevent the upload."""
    build_wheel(dist, "fast", "1.0", requires=['x; "blas" in variant_namespaces'])
    report = run("publish", dist, "--to", legacy.url, "--json", code=9).object
    assert "variant-marker-in-plain-wheel" in codes(report)
    assert (report["published"], legacy.uploads) == (False, [])


def test_name_with_other_content(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """F-131: A name that the index has with other content prevents the upload."""
    build_wheel(legacy.folder, "fast", "1.0", label="open", document=DOCUMENT, requires=["x"])
    report = run("publish", dist, "--to", legacy.url, "--json", code=9).object
    assert codes(report) == ["name-taken"]
    assert legacy.uploads == []


def test_missing_labels(run: Runner, dist: Path, legacy: LegacyIndex, tmp_path: Path) -> None:
    """B-52: missing labels of the project's table prevent the upload, unless ignored."""
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


def test_size_limits(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """B-53: --file-limit and --project-limit apply to any index, in decimal units or bytes."""
    words = ("publish", dist, "--to", legacy.url, "--dry-run", "--json")
    assert codes(run(*words, "--file-limit", "1kB", code=9).object) == ["file-too-large"]
    assert codes(run(*words, "--project-limit", "2000", code=9).object) == ["project-too-large"]
    report = run(*words, "--project-limit", "9kB").object
    assert codes(report) == ["project-too-large"]  # a warning: there is no room for another one
    assert report["forecast"][0]["further_releases"] == 0
    run(*words, "--project-limit", "9kB", "--strict", code=9)


@pytest.mark.integration
def test_limits_of_the_pypi_profile(run: Runner, tmp_path: Path, legacy: LegacyIndex) -> None:
    """B-53: ``--profile pypi`` limits files to 100 MB and forbids labels."""
    dist = tmp_path / "large"
    wheel = build_large_wheel(dist, "fast", "1.0", 100_000_001)
    build_wheel(dist, "fast", "1.0", label="mkl", document=DOCUMENT)
    words = ("publish", dist, "--to", legacy.url, "--dry-run", "--json", "--profile", "pypi")
    assert codes(run(*words, code=9).object) == ["file-too-large", "pypi-variant-wheel"]
    run(*words, "--ignore", "pypi-variant-wheel", "--file-limit", "101MB")
    wheel.unlink()


def test_closed_release(run: Runner, dist: Path, tmp_path: Path) -> None:
    """B-53: A release older than 14 days accepts no more files on PyPI."""
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


def test_refused_index_file(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """A refused index file causes a warning, and an error with --strict."""
    name = "fast-1.0-variants.json"
    legacy.answers[name] = [Response.text(400, "no such type")] * 2
    result = run("publish", dist, "--to", legacy.url)
    assert "no such type; without it installers may not find the variants" in result.err
    result = run("publish", dist, "--to", legacy.url, "--strict", "--json", code=9)
    assert result.object["published"] is True
    assert result.object["refused_index_files"]


def test_accepted_but_unlisted_file(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """B-52: A file that the index accepts and does not list was not published."""
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


def test_unreadable_index_after_the_upload(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """B-52: if the index cannot be read after the upload, the files count as sent only."""
    legacy.after_uploads["/simple/fast/"] = Response.text(200, "no")
    words = ("publish", dist, "--to", legacy.url, "--publish-timeout", "0")
    report = run(*words, "--json", code=10).object
    assert report["published"] is False
    assert {file["state"] for file in report["files"]} == {"sent"}
    assert report["unchecked"]


def test_label_with_other_properties(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """F-65: A label with other properties than in the index prevents the upload."""
    other = mismatched_release(legacy.folder)
    legacy.uploads.clear()
    report = run("publish", dist, "--to", legacy.url, "--dry-run", "--json", code=9).object
    assert codes(report) == ["inconsistent-release"]
    assert other.name in str(report["findings"])
    assert legacy.uploads == []


def test_redirect_to_another_index(
    run: Runner, dist: Path, legacy: LegacyIndex, tmp_path: Path
) -> None:
    """Files of another index to which the page redirects do not count."""
    with LegacyIndex(tmp_path / "elsewhere") as other:
        mismatched_release(other.folder)
        away = Response.of(302, b"", {"location": f"{other.simple}fast/"})
        legacy.pages["/simple/fast/"] = away
        words = ("publish", dist, "--to", legacy.url, "--dry-run")
        result = run(*words)
        assert "counts as missing" in result.err
        assert {file["state"] for file in run(*words, "--json").object["files"]} == {"new"}


def test_refused_upload(run: Runner, dist: Path, legacy: LegacyIndex) -> None:
    """A refused upload exits with 9; the states show the uploaded files."""
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


def test_certificate_option(run: Runner, dist: Path, tmp_path: Path) -> None:
    """Only the authority of --cert is trusted for pages and uploads."""
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


def test_sources_of_credentials(
    run: Runner, dist: Path, legacy: LegacyIndex, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """URL, variables of twine and uv, .pypirc and netrc are tried in this order, in secret."""
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


def test_trusted_publishing(
    run: Runner, dist: Path, legacy: LegacyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The identity of a CI job is exchanged for a token, except in a dry run."""
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


def test_credentials_for_the_upload_server_only(
    run: Runner, dist: Path, legacy: LegacyIndex, tmp_path: Path
) -> None:
    """Credentials are not sent to another server that lists the files."""
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


def test_index_token(tmp_path: Path) -> None:
    """``WHEELFIT_INDEX_TOKEN`` is used for wheelfit's own indexes only."""
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


def test_no_credentials_over_plain_http(tmp_path: Path) -> None:
    """Over plain HTTP credentials are sent to this machine only."""
    environ = {"TWINE_PASSWORD": "secret"}
    settings = SourceSettings(keyring="disabled")
    with pytest.raises(InvalidConfiguration, match="not sent over plain HTTP") as excinfo:
        find_login(
            "http://x.example/", {}, settings, environ, tmp_path, is_live_index=False, note=print
        )
    assert "secret" not in str(vars(excinfo.value))


def test_keyring(tmp_path: Path) -> None:
    """``keyring`` is used when there are no other credentials."""
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
        (["{dist}", "--to", f"https://{'a' * 300}/"], 1, "invalid-configuration"),
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
def test_usage_errors(run: Runner, dist: Path, words: list[str], code: int, reference: str) -> None:
    """Invalid targets and conflicting options are refused; nothing is created."""
    before = tree(dist.parent)
    result = run("publish", *(word.replace("{dist}", str(dist)) for word in words), "--json",
               code=code)  # fmt: skip
    assert result.error["code"] == reference
    assert tree(dist.parent) == before


# --- a static index ----------------------------------------------------------------------------


def test_static_index(run: Runner, dist: Path, tmp_path: Path) -> None:
    """A folder becomes an index, keeps other releases, and is unchanged by a second run."""
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


def test_additional_wheel_in_a_static_index(run: Runner, dist: Path, tmp_path: Path) -> None:
    """A later wheel of a release keeps the listed files and their yanks."""
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


def test_static_index_refuses_changes(run: Runner, dist: Path, tmp_path: Path) -> None:
    """F-131: other content under a published name, and faults, do not change the folder."""
    public = tmp_path / "public"
    run("publish", dist, "--to", public)
    before = tree(public)
    other = build_wheel(tmp_path / "other", "fast", "1.0", requires=["something"])
    assert codes(run("publish", other, "--to", public, "--json", code=9).object) == ["name-taken"]
    contrary = mismatched_release(tmp_path / "contrary")
    run("publish", contrary, "--to", public, code=9)
    assert tree(public) == before
    (public / "index.sqlite3").touch()
    assert "store of a live index" in run("publish", dist, "--to", public, code=1).err


def mismatched_release(folder: Path) -> Path:
    """Build a wheel whose label has other properties."""
    document = {**DOCUMENT, "variants": {"mkl": {"blas": {"library": ["openblas"]}}}}
    return build_wheel(folder, "fast", "1.0", label="mkl", document=document, tag="py2-none-any")
