"""Pages of the proxy for each client."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.proxy.behind import (
    CUDA,
    JSON,
    LINUX_TAG,
    MAC_TAG,
    OLD_TAG,
    PIP,
    UV,
    Behind,
    body,
    release,
    target_of,
    user_agent,
)

from wheelfit.core.compatible_tags import macos_platforms
from wheelfit.server.folder import FolderIndex
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Request, Response
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel


class TestVariants:
    """Projects with variants."""

    def test_newer_formats(self, folder: Path) -> None:
        """A labelled wheel of a newer format is left out; a plain one is listed."""
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

        with (
            LoopbackServer(answer) as server,
            Behind(f"{server.origin}/simple/", supported={"nvidia": CUDA}, mode="full") as behind,
        ):
            assert set(behind.page("some")) == {
                f"some-1.0-{LINUX_TAG}.whl",
                f"some-1.0-0_cu129-{LINUX_TAG}.whl",
                f"some-1.0-{LINUX_TAG}.whlx",
            }

    def test_best_variant_has_a_build_tag(self, folder: Path, behind: Behind) -> None:
        """The best variant has a build tag, and the plain wheel is listed unchanged."""
        release(folder, "some", {"cu126": [LINUX_TAG], "cu129": [LINUX_TAG], None: [LINUX_TAG]})
        files = behind.page("some")
        assert set(files) == {
            f"some-1.0-0_cu129-{LINUX_TAG}.whl",
            f"some-1.0-{LINUX_TAG}.whl",
        }
        assert files[f"some-1.0-{LINUX_TAG}.whl"]["url"].startswith("http://127.0.0.1")
        assert next(iter(files)) == f"some-1.0-0_cu129-{LINUX_TAG}.whl"  # pdm takes the first

    def test_build_numbers(self, folder: Path, behind: Behind) -> None:
        """The build tag of a variant starts with the highest build number of the release."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        build_wheel(folder, "some", "1.0", tag=LINUX_TAG, build="7")
        assert f"some-1.0-7_cu129-{LINUX_TAG}.whl" in behind.page("some")

    def test_variant_without_markers(
        self, folder: Path, index: RecordingIndex, behind: Behind
    ) -> None:
        """A wheel without variant markers is redirected to, and keeps its hash."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        (file,) = behind.page("some").values()
        wheel = f"some-1.0-{LINUX_TAG}-cu129.whl"
        assert file["hashes"]["sha256"] == hashlib.sha256((folder / wheel).read_bytes()).hexdigest()
        answer = behind.ask(behind.path_of(file))
        assert (answer.status, answer.headers["location"]) == (302, index.file_url(wheel))
        assert "immutable" in answer.headers["cache-control"]
        metadata = body(behind.ask(behind.path_of(file) + ".metadata"))
        assert hashlib.sha256(metadata).hexdigest() == file["core-metadata"]["sha256"]

    def test_unfit_variants(self, folder: Path, index: RecordingIndex) -> None:
        """A machine without a GPU gets the null variant or plain wheels."""
        release(folder, "some", {"cu129": [LINUX_TAG], "null": [LINUX_TAG], None: [LINUX_TAG]})
        release(folder, "other", {"cu129": [LINUX_TAG], None: [LINUX_TAG]})
        with Behind(index.url, supported={"nvidia": {}}) as behind:
            assert f"some-1.0-0_null-{LINUX_TAG}.whl" in behind.page("some")
            assert set(behind.page("other")) == {f"other-1.0-{LINUX_TAG}.whl"}

    def test_variants_precede_tags(self, folder: Path, behind: Behind) -> None:
        """F-90: wheels whose tags would precede the best variant are left out."""
        release(folder, "some", {"cu126": [LINUX_TAG], "cu129": [OLD_TAG], None: [LINUX_TAG]})
        assert set(behind.page("some", PIP)) == {f"some-1.0-0_cu129-{OLD_TAG}.whl"}
        assert len(behind.page("some")) == 3  # who says nothing sees what there is for each tag

    def test_python_of_the_client(self, folder: Path, behind: Behind) -> None:
        """The client's Python decides."""
        other = LINUX_TAG.replace("313", "312")
        release(folder, "some", {"cu126": [other], "cu129": [LINUX_TAG], None: [other]})
        agent = {"user-agent": user_agent("pip", python="3.12.4")}
        listed = behind.page("some", agent)
        assert f"some-1.0-0_cu126-{other}.whl" in listed

    def test_named_machine(self, folder: Path, index: RecordingIndex) -> None:
        """/for/NAME/ selects for another machine."""
        release(folder, "some", {"cu126": [LINUX_TAG], "cu129": [LINUX_TAG]})
        old = {"nvidia": {"cuda_version_lower_bound": ["12.6"]}}
        with Behind(index.url, supported={"nvidia": CUDA}, others={"old": old}) as behind:
            (file,) = behind.page("some", before="/for/old").values()
            assert "cu126" in file["filename"]
            assert behind.ask(behind.path_of(file, before="/for/old")).status == 302

    def test_unknown_machine(self, behind: Behind) -> None:
        """An unknown machine is a 404 with the reason."""
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
    def test_url_without_simple(self, behind: Behind, path: str, location: str) -> None:
        """A URL without /simple/ is redirected."""
        answer = behind.ask(path)
        assert (answer.status, answer.headers["location"]) == (301, location)
        assert "/simple/" in body(behind.ask("/some")).decode()

    def test_catalogue(self, folder: Path, behind: Behind) -> None:
        """The catalogue has all variants with build tags and the hashes of the index."""
        release(folder, "some", {"cu130": [LINUX_TAG], "cu129": [LINUX_TAG], None: [LINUX_TAG]})
        files = behind.page("some", before="/all-variants")
        assert len(files) == 3
        assert all(file["hashes"] for file in files.values())
        assert behind.page("some").keys() < files.keys()

    def test_html(self, folder: Path, behind: Behind) -> None:
        """The page is available as HTML."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        answer = behind.ask("/simple/some/", {"accept": "text/html"})
        assert answer.headers["content-type"].startswith("text/html")
        assert b"some-1.0-0_cu129" in body(answer)

    def test_entity_tags(self, folder: Path, behind: Behind) -> None:
        """Pages have no-cache and an entity tag, which allows 304 responses."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        first = behind.ask("/simple/some/", PIP)
        assert first.headers["cache-control"] == "no-cache"
        again = behind.ask("/simple/some/", {**PIP, "if-none-match": first.headers["etag"]})
        assert again.status == 304

    def test_equal_metadata_is_read_once(
        self, folder: Path, index: RecordingIndex, behind: Behind
    ) -> None:
        """METADATA is requested once for each distinct hash."""
        tags = [f"cp3{minor}-cp3{minor}-manylinux_2_28_x86_64" for minor in range(10, 14)]
        release(folder, "some", {"cu129": tags, "null": tags, None: tags})
        behind.page("some")
        assert (
            len([request for request in index.requests if request.path.endswith(".metadata")]) == 1
        )

    def test_unreadable_document(self, folder: Path, index: RecordingIndex) -> None:
        """A temporary error of the index is a 502, not a page without variants."""
        release(folder, "some", {"cu129": [LINUX_TAG], None: [LINUX_TAG]})
        index.faults.status["some-1.0-variants.json"] = 503
        with Behind(index.url, supported={"nvidia": CUDA}) as behind:
            answer = behind.ask("/simple/some/")
        assert answer.status == 502
        index.faults.status["some-1.0-variants.json"] = 404
        assert set(Behind(index.url).page("some")) == {f"some-1.0-{LINUX_TAG}.whl"}


class TestCombinedMetadata:
    """R5: all wheels of a release have the same metadata."""

    NEEDS = ('gpu-lib; "nvidia" in variant_namespaces', 'cpu-lib; variant_label == "null"', "both")

    @pytest.fixture
    def listed(self, folder: Path, behind: Behind) -> dict[str, Any]:
        """Return the page of a release for two platforms, one without a GPU."""
        wheels: dict[str | None, list[str]] = {"cu129": [LINUX_TAG], "null": [LINUX_TAG, MAC_TAG]}
        release(folder, "some", wheels, requires=self.NEEDS)
        return behind.page("some", PIP)

    def dependencies(self, behind: Behind, file: Any) -> list[str]:
        """Return the dependencies in the METADATA file of a wheel."""
        text = body(behind.ask(behind.path_of(file) + ".metadata")).decode()
        return [line[15:] for line in text.splitlines() if line.startswith("Requires-Dist: ")]

    def test_markers_by_platform(self, behind: Behind, listed: dict[str, Any]) -> None:
        """The METADATA has the dependencies of each platform with a marker."""
        assert set(listed) == {
            f"some-1.0-0_cu129-{LINUX_TAG}.whl",
            f"some-1.0-0_null-{MAC_TAG}.whl",
        }
        one, other = (self.dependencies(behind, file) for file in listed.values())
        assert one == other
        linux = "sys_platform == 'linux' and platform_machine == 'x86_64'"
        mac = "sys_platform == 'darwin' and platform_machine == 'arm64'"
        assert sorted(one) == sorted([f"gpu-lib ; {linux}", f"cpu-lib ; {mac}", "both"])

    def test_one_platform(self, folder: Path, behind: Behind) -> None:
        """With one platform, or equal dependencies, there is no marker."""
        release(folder, "one", {"cu129": [LINUX_TAG]}, requires=self.NEEDS)
        (file,) = behind.page("one", PIP).values()
        text = body(behind.ask(behind.path_of(file) + ".metadata")).decode()
        assert "Requires-Dist: gpu-lib\n" in text
        assert "cpu-lib" not in text

    def test_plain_wheels(self, folder: Path, behind: Behind) -> None:
        """A plain wheel is left out where the variant has other dependencies."""
        wheels: dict[str | None, list[str]] = {"cu129": [LINUX_TAG], None: [LINUX_TAG, MAC_TAG]}
        release(folder, "some", wheels, requires=self.NEEDS)
        files = behind.page("some", PIP)
        assert set(files) == {f"some-1.0-0_cu129-{LINUX_TAG}.whl", f"some-1.0-{MAC_TAG}.whl"}
        assert all("core-metadata" in file and not file["hashes"] for file in files.values())

    def test_catalogue_with_variant_dependencies(self, folder: Path, behind: Behind) -> None:
        """Variants with differing dependencies are not in the catalogue."""
        release(folder, "some", {"cu129": [LINUX_TAG], None: [LINUX_TAG]}, requires=self.NEEDS)
        files = behind.page("some", before="/all-variants")
        assert set(files) == {f"some-1.0-{LINUX_TAG}.whl"}
        assert "depend on the variant" in behind.notes[0]

    def test_metadata_after_a_restart(
        self, index: RecordingIndex, behind: Behind, listed: dict[str, Any]
    ) -> None:
        """A metadata URL works after a restart of the proxy."""
        with Behind(index.url, supported={"nvidia": CUDA}, mode="full") as other:
            for file in listed.values():
                path = behind.path_of(file) + ".metadata"
                assert body(other.ask(path, PIP)) == body(behind.ask(path, PIP))


class TestUnchangedPages:
    """R6: projects without variants."""

    @pytest.fixture
    def static(self) -> Iterator[tuple[dict[str, Any], list[Request], RecordingIndex]]:
        """Yield an index whose pages the test sets."""
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
        """Return a response of the index."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Response.of(200, content, {"content-type": kind, **named})

    def test_bytes_are_unchanged(self, static: Any) -> None:
        """Pages are passed on unchanged, compressed or not."""
        pages, requests, index = static
        text = b'{"files": [ ], "meta":{"api-version":"1.4"},"name":"some","odd":1}'
        packed = gzip.compress(text)
        pages["/simple/some/"] = self.page_of(packed, content_encoding="gzip", etag='"1"')
        with Behind(index.url, mode="full") as behind:
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

    @pytest.mark.parametrize("form", [JSON, "text/html"])
    def test_quarantined_project(self, static: Any, tmp_path: Path, form: str) -> None:
        """PEP 792: no file of a quarantined project is listed, from any page or cache."""
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
            with Behind(index.url, mode="full", cache=tmp_path) as behind:
                got = body(behind.ask("/simple/some/", {"accept": form}))
            assert b"quarantined" in got
            assert b"some-1.0" not in got

    def test_fresh_pages(self, static: Any, tmp_path: Path) -> None:
        """max-age applies to the proxy, in memory and on disk, but not to clients."""
        pages, requests, index = static
        fresh = {"cache_control": "max-age=600"}
        pages["/simple/some/"] = self.page_of(b'{"files": []}', **fresh)
        for _ in range(2):  # the second one knows it from disk
            with Behind(index.url, mode="full", cache=tmp_path / "cache") as behind:
                for _ in range(2):
                    answer = behind.ask("/simple/some/")
                    assert answer.headers["cache-control"] == "no-cache"
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
    def test_relative_links(self, static: Any, kind: str, text: bytes) -> None:
        """Relative links have the same targets."""
        pages, _, index = static
        pages["/root/simple/a/"] = self.page_of(text, kind)
        url = f"{index.origin}/root/simple/"
        with Behind(url, mode="full") as behind:
            answer = behind.ask("/simple/a/", {"accept": f"{JSON}, text/html;q=0.1"})
            from wheelfit.sources.simple_api import parse_page

            page = parse_page(body(answer), kind, "http://proxy.example/secret/simple/a/", "a")  # type: ignore[arg-type]
            assert page.files[0].url == f"{index.origin}/root/f/a-1.tar.gz"
            if kind == JSON:
                assert json.loads(body(answer))["files"][0]["x"] == 1

    def test_additive_mode(self, folder: Path, index: RecordingIndex) -> None:
        """In additive mode only projects with variants are listed."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        build_wheel(folder, "plain", "1")
        with Behind(index.url, supported={"nvidia": CUDA}) as behind:
            assert behind.ask("/simple/some/").status == 200
            assert behind.ask("/simple/plain/").status == 404
            assert behind.ask("/simple/none/").status == 404
            assert behind.ask("/full/simple/plain/").status == 200

    def test_uv_lock(self, folder: Path, index: RecordingIndex) -> None:
        """`uv lock` finds no variants, unless enabled."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        for wanted, status in ((False, 404), (True, 200)):
            with Behind(index.url, supported={"nvidia": CUDA}, allows_uv_locks=wanted) as behind:
                for command in ("lock", "sync", "add x", "run", "export"):
                    agent = {"accept": JSON, "user-agent": user_agent("uv", command)}
                    assert behind.ask("/simple/some/", agent).status == status
                assert behind.ask("/simple/some/", UV).status == 200

    def test_several_indexes(self, tmp_path: Path) -> None:
        """F-126: files of two indexes never meet, and an outage is no way to be asked."""
        for name, version in (("first", "1"), ("second", "2")):
            build_wheel(tmp_path / name, "some", version)
        build_wheel(tmp_path / "second", "other", "2")
        with (
            RecordingIndex(tmp_path / "first") as one,
            RecordingIndex(tmp_path / "second") as two,
            Behind(one.url, two.url, mode="full") as behind,
        ):
            assert set(behind.page("some")) == {"some-1-py3-none-any.whl"}
            assert set(behind.page("other")) == {"other-2-py3-none-any.whl"}
            one.faults.status["/simple/other/"] = 500
            assert behind.ask("/simple/other/").status == 502

    def test_all_projects(self, folder: Path, behind: Behind) -> None:
        """The root lists the projects of the indexes; nothing in additive mode."""
        build_wheel(folder, "Some", "1")
        projects = json.loads(body(behind.ask("/simple/")))["projects"]
        assert projects == [{"name": "some"}]
        assert json.loads(body(behind.ask("/additive/simple/")))["projects"] == []


def test_client_on_another_system(folder: Path, index: RecordingIndex) -> None:
    """A client on another system than the machine's gets its own platform."""
    release(folder, "some", {"cu129": [LINUX_TAG], "cu126": [LINUX_TAG], None: [MAC_TAG]})
    with Behind(index.url, supported={"nvidia": CUDA}) as behind:
        mac: dict[str, Any] = {
            "cpu": "arm64",
            "distro": {"version": "14.5"},
            "system": {"name": "Darwin"},
        }
        assert f"some-1.0-0_cu129-{LINUX_TAG}.whl" in behind.page(
            "some", {"user-agent": user_agent("pip", **mac)}
        )
    with Behind(
        index.url, supported={"nvidia": {}}, target=target_of(macos_platforms("arm64", 14))
    ) as on_mac:
        assert f"some-1.0-{MAC_TAG}.whl" in on_mac.page("some", PIP)
