"""What the proxy lists, for whom, and what it hands on as it came."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.proxy.behind import JSON, PIP, UV, Behind, body, target_of, user_agent

from wheelfit.core.compatible_tags import macos_platforms
from wheelfit.server.folder import FolderIndex
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Request, Response
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

NV = {
    "requires": ["nvidia-variant-provider"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
}
CUDA = {"cuda_version_lower_bound": ["12.9", "12.8", "12.6"]}
LINUX_TAG, OLD_TAG = "cp313-cp313-manylinux_2_28_x86_64", "cp313-cp313-manylinux_2_17_x86_64"
MAC_TAG = "cp313-cp313-macosx_11_0_arm64"


def release(folder: Path, name: str, wheels: dict[str | None, list[str]], **more: Any) -> None:
    """Put a release with variants of CUDA into a folder: tags by label."""
    labels = [label for label in wheels if label is not None]
    variants = {
        label: {}
        if label == "null"
        else {"nvidia": {"cuda_version_lower_bound": [f"{label[2:4]}.{label[4:]}"]}}
        for label in labels
    }
    document = release_document(variants, providers={"nvidia": NV})
    for label, tags in wheels.items():
        for tag in tags:
            build_wheel(folder, name, "1.0", label=label, document=document, tag=tag, **more)
    (folder / f"{name}-1.0-variants.json").write_text(json.dumps(document))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the folder of the index."""
    folder = tmp_path / "index"
    folder.mkdir()
    return folder


@pytest.fixture
def index(folder: Path) -> Iterator[RecordingIndex]:
    """Serve the folder."""
    with RecordingIndex(folder) as index:
        yield index


@pytest.fixture
def behind(index: RecordingIndex) -> Iterator[Behind]:
    """Give a proxy for a machine with CUDA 12.9, that answers for every project."""
    behind = Behind(index.url, supported={"nvidia": CUDA}, mode="full")
    yield behind
    behind.close()


class TestVariants:
    """Projects with variants."""

    def test_newer_formats(self, folder: Path) -> None:
        """A labelled wheel of a newer format is left out, and a plain one stays as it is."""
        release(folder, "some", {"cu129": [LINUX_TAG], None: [LINUX_TAG]})
        newer = {f"some-1.0-{LINUX_TAG}-cu129.whlx", f"some-1.0-{LINUX_TAG}.whlx"}
        index = FolderIndex(folder)

        def answer(request: Request) -> Response:
            page = index(request)
            if request.path != "/simple/some/":
                return page
            listed = json.loads(body(page))
            listed["files"] += [
                {"filename": one, "url": f"../../{one}", "hashes": {}} for one in newer
            ]
            return Response.of(200, json.dumps(listed).encode(), {"content-type": JSON})

        with LoopbackServer(answer) as server:
            behind = Behind(f"{server.origin}/simple/", supported={"nvidia": CUDA}, mode="full")
            assert set(behind.page("some")) == {
                f"some-1.0-{LINUX_TAG}.whl",
                f"some-1.0-0_cu129-{LINUX_TAG}.whl",
                f"some-1.0-{LINUX_TAG}.whlx",
            }
            behind.close()

    def test_the_best_build_goes_before_the_plain_wheel(self, folder: Path, behind: Behind) -> None:
        """R1: the label is a build tag, and the plain wheel stays listed as it is."""
        release(folder, "some", {"cu126": [LINUX_TAG], "cu129": [LINUX_TAG], None: [LINUX_TAG]})
        files = behind.page("some")
        assert set(files) == {
            f"some-1.0-0_cu129-{LINUX_TAG}.whl",
            f"some-1.0-{LINUX_TAG}.whl",
        }
        assert files[f"some-1.0-{LINUX_TAG}.whl"]["url"].startswith("http://127.0.0.1")
        assert next(iter(files)) == f"some-1.0-0_cu129-{LINUX_TAG}.whl"  # pdm takes the first

    def test_build_numbers_do_not_beat_it(self, folder: Path, behind: Behind) -> None:
        """The build tag of a variant begins with the highest number of the release."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        build_wheel(folder, "some", "1.0", tag=LINUX_TAG, build="7")
        assert f"some-1.0-7_cu129-{LINUX_TAG}.whl" in behind.page("some")

    def test_its_url_leads_to_the_original_with_its_hash(
        self, folder: Path, index: RecordingIndex, behind: Behind
    ) -> None:
        """R4, R7: without variant markers nothing is rewritten, and the hash is the original's."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        (file,) = behind.page("some").values()
        wheel = f"some-1.0-{LINUX_TAG}-cu129.whl"
        assert file["hashes"]["sha256"] == hashlib.sha256((folder / wheel).read_bytes()).hexdigest()
        answer = behind.ask(behind.path_of(file))
        assert (answer.status, answer.headers["location"]) == (302, index.file_url(wheel))
        assert "immutable" in answer.headers["cache-control"]
        metadata = body(behind.ask(behind.path_of(file) + ".metadata"))
        assert hashlib.sha256(metadata).hexdigest() == file["core-metadata"]["sha256"]

    def test_what_does_not_fit_is_not_listed(self, folder: Path, index: RecordingIndex) -> None:
        """A machine without GPU gets the null variant; where nothing fits, plain wheels."""
        release(folder, "some", {"cu129": [LINUX_TAG], "null": [LINUX_TAG], None: [LINUX_TAG]})
        release(folder, "other", {"cu129": [LINUX_TAG], None: [LINUX_TAG]})
        behind = Behind(index.url, supported={"nvidia": {}})
        assert f"some-1.0-0_null-{LINUX_TAG}.whl" in behind.page("some")
        assert set(behind.page("other")) == {f"other-1.0-{LINUX_TAG}.whl"}
        behind.close()

    def test_the_variant_decides_before_the_tags(self, folder: Path, behind: Behind) -> None:
        """F-90: what tags of a known client would put before the best variant is left out."""
        release(folder, "some", {"cu126": [LINUX_TAG], "cu129": [OLD_TAG], None: [LINUX_TAG]})
        assert set(behind.page("some", PIP)) == {f"some-1.0-0_cu129-{OLD_TAG}.whl"}
        assert len(behind.page("some")) == 3  # who says nothing sees what there is for each tag

    def test_the_client_has_another_python(self, folder: Path, behind: Behind) -> None:
        """The Python that asks counts, as it says itself."""
        other = LINUX_TAG.replace("313", "312")
        release(folder, "some", {"cu126": [other], "cu129": [LINUX_TAG], None: [other]})
        agent = {"user-agent": user_agent("pip", python="3.12.4")}
        listed = behind.page("some", agent)
        assert f"some-1.0-0_cu126-{other}.whl" in listed

    def test_another_machine_by_its_name(self, folder: Path, index: RecordingIndex) -> None:
        """/for/NAME/ chooses for another machine, whose files lie there too."""
        release(folder, "some", {"cu126": [LINUX_TAG], "cu129": [LINUX_TAG]})
        old = {"nvidia": {"cuda_version_lower_bound": ["12.6"]}}
        behind = Behind(index.url, supported={"nvidia": CUDA}, others={"old": old})
        (file,) = behind.page("some", before="/for/old").values()
        assert "cu126" in file["filename"]
        assert behind.ask(behind.path_of(file, before="/for/old")).status == 302
        behind.close()

    def test_an_unknown_machine_is_told_of(self, behind: Behind) -> None:
        """A slip in the name of a machine is a 404 that says what is wrong."""
        answer = behind.ask("/for/cuda-99/simple/some/")
        assert answer.status == 404
        assert "'cuda-99' is not a preset" in body(answer).decode()
        assert behind.ask("/for//simple/some/").status == 404

    @pytest.mark.parametrize(
        ("path", "location"),
        [
            ("/", "simple/"),
            ("/for/old/", "simple/"),
            ("/Some/", "../simple/some/"),
            ("/full/for/old/some/", "../simple/some/"),
        ],
    )
    def test_a_url_without_simple_leads_there(
        self, behind: Behind, path: str, location: str
    ) -> None:
        """Whoever left /simple/ out gets pages all the same, not those of other indexes."""
        answer = behind.ask(path)
        assert (answer.status, answer.headers["location"]) == (301, location)
        assert "/simple/" in body(behind.ask("/some")).decode()

    def test_a_catalogue_lists_every_variant(self, folder: Path, behind: Behind) -> None:
        """All variants under build tags, whatever the machine, with the hashes of the index."""
        release(folder, "some", {"cu130": [LINUX_TAG], "cu129": [LINUX_TAG], None: [LINUX_TAG]})
        files = behind.page("some", before="/all-variants")
        assert len(files) == 3
        assert all(file["hashes"] for file in files.values())
        assert behind.page("some").keys() < files.keys()

    def test_html_for_whoever_wants_it(self, folder: Path, behind: Behind) -> None:
        """The same page as HTML."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        answer = behind.ask("/simple/some/", {"accept": "text/html"})
        assert answer.headers["content-type"].startswith("text/html")
        assert b"some-1.0-0_cu129" in body(answer)

    def test_pages_are_asked_for_anew_and_cheaply(self, folder: Path, behind: Behind) -> None:
        """R3: no-cache and an entity tag; the same page again is "not modified"."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        first = behind.ask("/simple/some/", PIP)
        assert first.headers["cache-control"] == "no-cache"
        again = behind.ask("/simple/some/", {**PIP, "if-none-match": first.headers["etag"]})
        assert again.status == 304

    def test_metadata_of_equal_hash_is_read_once(
        self, folder: Path, index: RecordingIndex, behind: Behind
    ) -> None:
        """One small request for each distinct METADATA, however many wheels have it."""
        tags = [f"cp3{minor}-cp3{minor}-manylinux_2_28_x86_64" for minor in range(10, 14)]
        release(folder, "some", {"cu129": tags, "null": tags, None: tags})
        behind.page("some")
        assert (
            len([request for request in index.requests if request.path.endswith(".metadata")]) == 1
        )

    def test_a_document_that_cannot_be_read_is_no_plain_page(
        self, folder: Path, index: RecordingIndex
    ) -> None:
        """A passing fault of the index must not look like "no variant fits"."""
        release(folder, "some", {"cu129": [LINUX_TAG], None: [LINUX_TAG]})
        index.faults.status["some-1.0-variants.json"] = 503
        behind = Behind(index.url, supported={"nvidia": CUDA})
        answer = behind.ask("/simple/some/")
        behind.close()
        assert answer.status == 502
        index.faults.status["some-1.0-variants.json"] = 404
        assert set(Behind(index.url).page("some")) == {f"some-1.0-{LINUX_TAG}.whl"}


class TestOneMetadata:
    """R5: what is read of one wheel is true of all of them."""

    NEEDS = ('gpu-lib; "nvidia" in variant_namespaces', 'cpu-lib; variant_label == "null"', "both")

    @pytest.fixture
    def listed(self, folder: Path, behind: Behind) -> dict[str, Any]:
        """List a release for two platforms, of which one has no GPU."""
        wheels: dict[str | None, list[str]] = {"cu129": [LINUX_TAG], "null": [LINUX_TAG, MAC_TAG]}
        release(folder, "some", wheels, requires=self.NEEDS)
        return behind.page("some", PIP)

    def needed(self, behind: Behind, file: Any) -> list[str]:
        """Return the dependencies in the METADATA beside a wheel."""
        text = body(behind.ask(behind.path_of(file) + ".metadata")).decode()
        return [line[15:] for line in text.splitlines() if line.startswith("Requires-Dist: ")]

    def test_every_platform_has_its_marker(self, behind: Behind, listed: dict[str, Any]) -> None:
        """All wheels have one METADATA, which says what is needed where."""
        assert set(listed) == {
            f"some-1.0-0_cu129-{LINUX_TAG}.whl",
            f"some-1.0-0_null-{MAC_TAG}.whl",
        }
        one, other = (self.needed(behind, file) for file in listed.values())
        assert one == other
        linux = "sys_platform == 'linux' and platform_machine == 'x86_64'"
        mac = "sys_platform == 'darwin' and platform_machine == 'arm64'"
        assert sorted(one) == sorted([f"gpu-lib ; {linux}", f"cpu-lib ; {mac}", "both"])

    def test_one_platform_needs_no_marker(self, folder: Path, behind: Behind) -> None:
        """Where all wheels are for one platform, or need the same, nothing is added."""
        release(folder, "one", {"cu129": [LINUX_TAG]}, requires=self.NEEDS)
        (file,) = behind.page("one", PIP).values()
        text = body(behind.ask(behind.path_of(file) + ".metadata")).decode()
        assert "Requires-Dist: gpu-lib\n" in text
        assert "cpu-lib" not in text

    def test_plain_wheels_are_listed_where_they_are_taken(
        self, folder: Path, behind: Behind
    ) -> None:
        """A plain wheel of a platform whose variant needs something else is left out there."""
        wheels: dict[str | None, list[str]] = {"cu129": [LINUX_TAG], None: [LINUX_TAG, MAC_TAG]}
        release(folder, "some", wheels, requires=self.NEEDS)
        files = behind.page("some", PIP)
        assert set(files) == {f"some-1.0-0_cu129-{LINUX_TAG}.whl", f"some-1.0-{MAC_TAG}.whl"}
        assert all("core-metadata" in file and not file["hashes"] for file in files.values())

    def test_a_catalogue_has_plain_wheels_only(self, folder: Path, behind: Behind) -> None:
        """No lock of another tool can say what depends on the variant, so none is listed."""
        release(folder, "some", {"cu129": [LINUX_TAG], None: [LINUX_TAG]}, requires=self.NEEDS)
        files = behind.page("some", before="/all-variants")
        assert set(files) == {f"some-1.0-{LINUX_TAG}.whl"}
        assert "depend on the variant" in behind.notes[0]

    def test_metadata_is_found_without_a_cache_and_without_the_page(
        self, index: RecordingIndex, behind: Behind, listed: dict[str, Any]
    ) -> None:
        """R2: a URL of an older page leads to its bytes, though the proxy was started anew."""
        other = Behind(index.url, supported={"nvidia": CUDA}, mode="full")
        for file in listed.values():
            path = behind.path_of(file) + ".metadata"
            assert body(other.ask(path, PIP)) == body(behind.ask(path, PIP))
        other.close()


class TestHandedOn:
    """R6: projects without variants."""

    @pytest.fixture
    def static(self) -> Iterator[tuple[dict[str, Any], list[Request], RecordingIndex]]:
        """Serve whatever a test puts under a path."""
        pages: dict[str, Any] = {}
        requests: list[Request] = []

        def answer(request: Request) -> Response:
            requests.append(request)
            if request.path not in pages:
                return Response.text(404, "no")
            found: Response = pages[request.path]
            if request.headers.get("if-none-match") == found.headers.get("etag", "-"):
                return Response(304, found.headers)
            return found

        with RecordingIndex(answer) as index:
            yield pages, requests, index

    def page_of(self, content: bytes, kind: str = JSON, **headers: str) -> Response:
        """Return the answer of an index."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Response.of(200, content, {"content-type": kind, **named})

    def test_bytes_are_those_of_the_index(self, static: Any) -> None:
        """Packed or not, what the index sent is sent on, and never unpacked for nothing."""
        pages, requests, index = static
        text = b'{"files": [ ], "meta":{"api-version":"1.4"},"name":"some","odd":1}'
        packed = gzip.compress(text)
        pages["/simple/some/"] = self.page_of(packed, content_encoding="gzip", etag='"1"')
        behind = Behind(index.url, mode="full")
        asked = {"accept": JSON, "accept-encoding": "gzip, deflate"}
        answer = behind.ask("/simple/some/", asked)
        assert body(answer) == packed
        assert answer.headers["content-encoding"] == "gzip"
        plain = behind.ask("/simple/some/", {"accept": JSON})
        assert body(plain) == text
        assert plain.headers["etag"] != answer.headers["etag"]
        assert requests[1].headers["if-none-match"] == '"1"'
        conditional = {**asked, "if-none-match": answer.headers["etag"]}
        assert behind.ask("/simple/some/", conditional).status == 304
        behind.close()

    @pytest.mark.parametrize("form", [JSON, "text/html"])
    def test_what_is_quarantined_is_withheld(self, static: Any, tmp_path: Path, form: str) -> None:
        """PEP 792: no file is offered, from whatever page, nor from one that was kept."""
        pages, _, index = static
        page = (
            b'{"meta":{"api-version":"1.4"},"name":"some","project-status":{"status":"quarantined"}'
            b',"files":[{"filename":"some-1.0.tar.gz","url":"some-1.0.tar.gz","hashes":{}}]}'
            if form == JSON
            else b'<meta name="pypi:project-status" content="quarantined">'
            b'<a href="some-1.0.tar.gz">some-1.0.tar.gz</a>'
        )
        pages["/simple/some/"] = self.page_of(page, form, cache_control="max-age=600")
        for _ in range(2):  # the second one knows it from disk
            behind = Behind(index.url, mode="full", cache=tmp_path)
            got = body(behind.ask("/simple/some/", {"accept": form}))
            behind.close()
            assert b"quarantined" in got
            assert b"some-1.0" not in got

    def test_what_is_fresh_is_not_asked_for_again(self, static: Any, tmp_path: Path) -> None:
        """max-age of the index holds for the proxy, in memory and from disk; not for clients."""
        pages, requests, index = static
        fresh = {"cache_control": "max-age=600"}
        pages["/simple/some/"] = self.page_of(b'{"files": []}', **fresh)
        for _ in range(2):  # the second one knows it from disk
            behind = Behind(index.url, mode="full", cache=tmp_path / "cache")
            for _ in range(2):
                answer = behind.ask("/simple/some/")
                assert answer.headers["cache-control"] == "no-cache"
            behind.close()
        assert len(requests) == 1

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            (JSON, b'{"files": [{"filename": "a-1.tar.gz", "url": "../../f/a-1.tar.gz", "x": 1}]}'),
            ("text/html", b'<html><head><title>a</title></head><a href="../../f/a-1.tar.gz">a</a>'),
            ("text/html", b'<a href="/root/f/a-1.tar.gz">a-1.tar.gz</a>'),
            (
                "text/html",
                b'<head><base href="../../f/"></head><a href="a-1.tar.gz">a-1.tar.gz</a>',
            ),
            ("text/html", b"<a href=../../f/a-1.tar.gz>a-1.tar.gz</a>"),
        ],
    )
    def test_links_lead_where_they_led(self, static: Any, kind: str, text: bytes) -> None:
        """Relative links of a page mean the same from another address."""
        pages, _, index = static
        pages["/root/simple/a/"] = self.page_of(text, kind)
        url = f"{index.origin}/root/simple/"
        behind = Behind(url, mode="full")
        answer = behind.ask("/simple/a/")
        from wheelfit.sources.simple_api import parse_page

        page = parse_page(body(answer), kind, "http://proxy.example/secret/simple/a/", "a")  # type: ignore[arg-type]
        assert page.files[0].url == f"{index.origin}/root/f/a-1.tar.gz"
        if kind == JSON:
            assert json.loads(body(answer))["files"][0]["x"] == 1
        behind.close()

    def test_additive_knows_projects_with_variants_only(
        self, folder: Path, index: RecordingIndex
    ) -> None:
        """Beside another index, the proxy leaves everything else to it."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        build_wheel(folder, "plain", "1")
        behind = Behind(index.url, supported={"nvidia": CUDA})
        assert behind.ask("/simple/some/").status == 200
        assert behind.ask("/simple/plain/").status == 404
        assert behind.ask("/simple/none/").status == 404
        assert behind.ask("/full/simple/plain/").status == 200
        behind.close()

    def test_uv_writes_no_variants_into_its_lock(self, folder: Path, index: RecordingIndex) -> None:
        """Uv lock and its like find nothing, unless that is wanted."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        for wanted, status in ((False, 404), (True, 200)):
            behind = Behind(index.url, supported={"nvidia": CUDA}, in_locks_of_uv=wanted)
            for command in ("lock", "sync", "add x", "run", "export"):
                agent = {"accept": JSON, "user-agent": user_agent("uv", command)}
                assert behind.ask("/simple/some/", agent).status == status
            assert behind.ask("/simple/some/", UV).status == 200
            behind.close()

    def test_the_first_index_that_knows_a_project_supplies_it(self, tmp_path: Path) -> None:
        """F-126: files of two indexes never meet, and an outage is no way to be asked."""
        for name, version in (("first", "1"), ("second", "2")):
            build_wheel(tmp_path / name, "some", version)
        build_wheel(tmp_path / "second", "other", "2")
        with RecordingIndex(tmp_path / "first") as one, RecordingIndex(tmp_path / "second") as two:
            behind = Behind(one.url, two.url, mode="full")
            assert set(behind.page("some")) == {"some-1-py3-none-any.whl"}
            assert set(behind.page("other")) == {"other-2-py3-none-any.whl"}
            one.faults.status["/simple/other/"] = 500
            assert behind.ask("/simple/other/").status == 502
            behind.close()

    def test_all_projects(self, folder: Path, behind: Behind) -> None:
        """The root lists what the indexes list; beside others, nothing."""
        build_wheel(folder, "Some", "1")
        projects = json.loads(body(behind.ask("/simple/")))["projects"]
        assert projects == [{"name": "some"}]
        assert json.loads(body(behind.ask("/additive/simple/")))["projects"] == []


def test_a_mac_asks_for_a_linux_machine(folder: Path, index: RecordingIndex) -> None:
    """Who asks from another system than that of the machine is not the one it is chosen for."""
    release(folder, "some", {"cu129": [LINUX_TAG], "cu126": [LINUX_TAG], None: [MAC_TAG]})
    behind = Behind(index.url, supported={"nvidia": CUDA})
    mac: dict[str, Any] = {
        "cpu": "arm64",
        "distro": {"version": "14.5"},
        "system": {"name": "Darwin"},
    }
    assert f"some-1.0-0_cu129-{LINUX_TAG}.whl" in behind.page(
        "some", {"user-agent": user_agent("pip", **mac)}
    )
    behind.close()
    on_mac = Behind(
        index.url, supported={"nvidia": {}}, target=target_of(macos_platforms("arm64", 14))
    )
    assert f"some-1.0-{MAC_TAG}.whl" in on_mac.page("some", PIP)
    on_mac.close()


@pytest.mark.parametrize("form", ["json", "html"])
@pytest.mark.parametrize("project", ["some", "plain"])
def test_what_a_page_says_of_others_stays(project: str, form: str) -> None:
    """PEP 708: tracks and alternate locations arrive as they were, rewritten or handed on."""
    tracks, other = "https://tracked.example/simple/x/", "https://other.example/simple/x/"
    wheel = f"{project}-1.0-{LINUX_TAG}.whl"
    variant = f"{project}-1.0-{LINUX_TAG}-cu129.whl"
    document = release_document(
        {"cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}}}, providers={"nvidia": NV}
    )
    names = [wheel, variant, f"{project}-1.0-variants.json"] if project == "some" else [wheel]
    page = {
        "meta": {"api-version": "1.2", "tracks": [tracks]},
        "name": project,
        "alternate-locations": [other],
        "files": [{"filename": name, "url": f"../../f/{name}", "hashes": {}} for name in names],
    }
    html = (
        '<!doctype html><head><meta name="pypi:repository-version" content="1.2">'
        f'<meta name="pypi:tracks" content="{tracks}">'
        f'<meta name="pypi:alternate-locations" content="{other}"></head>'
        + "".join(f'<a href="../../f/{name}">{name}</a>' for name in names)
    )

    def answer(request: Request) -> Response:
        if request.path.endswith("variants.json"):
            return Response.of(200, json.dumps(document).encode(), {"content-type": JSON})
        if request.path.startswith("/f/"):
            text = f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n".encode()
            return (
                Response.of(200, text, {}) if request.path.endswith(".metadata") else Response(404)
            )
        if form == "html":
            return Response.of(200, html.encode(), {"content-type": "text/html"})
        return Response.of(200, json.dumps(page).encode(), {"content-type": JSON})

    with RecordingIndex(answer) as index:
        behind = Behind(index.url, supported={"nvidia": CUDA}, mode="full")
        try:
            accept = JSON if form == "json" else "text/html"
            got = body(behind.ask(f"/simple/{project}/", {**PIP, "accept": accept})).decode()
        finally:
            behind.close()
    assert (f"{project}-1.0-0_cu129" in got) == (project == "some")
    if form == "json":
        report = json.loads(got)
        assert (report["meta"]["tracks"], report["alternate-locations"]) == ([tracks], [other])
    else:
        assert f'<meta name="pypi:tracks" content="{tracks}">' in got
        assert f'<meta name="pypi:alternate-locations" content="{other}">' in got
