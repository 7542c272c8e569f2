"""Make the releases of cases: tiny wheels, an index file, and an index that serves them."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import sys
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

__all__ = ["Index", "Release", "build_wheel", "label_of"]

_DATE = (2020, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Listed:
    """Hold one file with what a page says of it."""

    filename: str
    content: bytes
    status: int = 200
    """How a request for it is answered."""
    sha256: str = ""
    """The hash on the page."""
    requires_python: str | None = None
    yanked: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Hold the files of one release."""

    name: str
    files: tuple[Listed, ...] = field(repr=False)
    page: str = "html"
    """Or ``json``."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Release:
        """Make the release that a ``select`` question describes.

        :param given: the input of the question.
        """
        entries = [one if isinstance(one, dict) else {"filename": one} for one in given["wheels"]]
        files = [_wheel(entry, given.get("document")) for entry in entries]
        name = entries[0]["filename"].split("-")[0]
        index = given.get("index", given.get("document"))
        if index is not None:
            text = index if isinstance(index, str) else json.dumps(index)
            version = entries[0]["filename"].split("-")[1]
            entry = {"filename": f"{name}-{version}-variants.json", **given.get("index_entry", {})}
            files.append(_listed(entry, text.encode()))
        for extra in given.get("further_index_files", ()):
            content = json.dumps(extra["document"]).encode()
            files.append(_listed({"filename": extra["filename"]}, content))
        return cls(name.lower().replace("_", "-"), tuple(files), given.get("page", "html"))

    def write(self, folder: Path) -> None:
        """Write the files into a folder.

        :param folder: that exists.
        """
        for file in self.files:
            (folder / file.filename).write_bytes(file.content)


def _wheel(entry: Mapping[str, Any], document: Mapping[str, Any] | None) -> Listed:
    filename = entry["filename"]
    label = label_of(filename)
    own = None
    if "document" in entry:
        own = entry["document"]
    elif label is not None and document is not None:
        own = {**document, "variants": {label: document.get("variants", {}).get(label, {})}}
    content = build_wheel(
        filename,
        document=own,
        requires=entry.get("requires", ()),
        requires_python=entry.get("requires-python"),
    )
    return _listed(entry, content)


def _listed(entry: Mapping[str, Any], content: bytes) -> Listed:
    right = hashlib.sha256(content).hexdigest()
    return Listed(
        entry["filename"],
        content,
        status=entry.get("status", 200),
        sha256="0" * 64 if entry.get("hash") == "wrong" else right,
        requires_python=entry.get("requires-python"),
        yanked=entry.get("yanked", False),
    )


def label_of(filename: str) -> str | None:
    """Return the label in the name of a wheel (F-12).

    :param filename: of a wheel; valid.
    """
    parts = filename.removesuffix(".whl").split("-")
    plain = 6 if parts[2][0].isdigit() else 5
    return parts[plain] if len(parts) > plain else None


def build_wheel(
    filename: str,
    *,
    document: object = None,
    requires: Iterable[str] = (),
    requires_python: str | None = None,
) -> bytes:
    """Make a wheel that installs one file ``{name}/filename``, which holds the wheel's name.

    :param filename: what it is called.
    :param document: its ``variant.json``, as JSON or as text; None: it has none.
    :param requires: values of ``Requires-Dist``.
    :param requires_python: value of ``Requires-Python``.
    """
    name, version, *rest = filename.removesuffix(".whl").split("-")
    tags = rest[1:4] if rest[0][0].isdigit() else rest[:3]
    headers = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    headers += [f"Requires-Dist: {one}" for one in requires]
    headers += [f"Requires-Python: {requires_python}"] if requires_python else []
    expanded = [
        f"Tag: {python}-{abi}-{platform}"
        for python in tags[0].split(".")
        for abi in tags[1].split(".")
        for platform in tags[2].split(".")
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: conformance", "Root-Is-Purelib: true", *expanded]
    info = f"{name}-{version}.dist-info"
    members = {
        f"{name}/filename": filename,
        f"{info}/METADATA": "\n".join(headers) + "\n\n",
        f"{info}/WHEEL": "\n".join(wheel) + "\n\n",
    }
    if document is not None:
        members[f"{info}/variant.json"] = (
            document if isinstance(document, str) else json.dumps(document, indent=2)
        )
    rows = [_row(path, content.encode()) for path, content in members.items()]
    members[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"])
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for path, content in members.items():
            archive.writestr(zipfile.ZipInfo(path, _DATE), content.encode())
    return target.getvalue()


def _row(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Index:
    """Serve releases on the loopback interface, for as long as the ``with`` block lasts.

    :param releases: each is a project of its own.
    """

    def __init__(self, releases: Iterable[Release]) -> None:
        self._projects = {release.name: release for release in releases}
        self.hidden: set[str] = set()
        """Names of wheels that are left out from now on."""
        index = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # headers and content in one packet

            def do_GET(self) -> None:
                index._answer(self)

            def do_HEAD(self) -> None:
                index._answer(self)

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Where the simple API is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/simple/"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        kind, name, *rest = [*unquote(request.path).strip("/").split("/"), ""]
        release = self._projects.get(name)
        files = {} if release is None else {file.filename: file for file in release.files}
        if kind == "simple" and release is not None:
            page, media = self._page(release)
            _send(request, 200, page, media)
        elif kind == "files" and rest[0] in files:
            file = files[rest[0]]
            _send_file(request, file)
        else:
            _send(request, 404, b"not here", "text/plain")

    def _page(self, release: Release) -> tuple[bytes, str]:
        files = [file for file in release.files if file.filename not in self.hidden]
        if release.page == "json":
            content = {
                "meta": {"api-version": "1.1"},
                "name": release.name,
                "versions": sorted({file.filename.split("-")[1] for file in files}),
                "files": [_json_entry(release.name, file) for file in files],
            }
            return json.dumps(content).encode(), "application/vnd.pypi.simple.v1+json"
        links = "\n".join(_link(release.name, file) for file in files)
        text = f"<!DOCTYPE html><html><body>\n{links}\n</body></html>\n"
        return text.encode(), "text/html; charset=utf-8"


def _json_entry(name: str, file: Listed) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "filename": file.filename,
        "url": f"/files/{name}/{quote(file.filename)}",
        "hashes": {"sha256": file.sha256},
        "size": len(file.content),
        "yanked": file.yanked,
    }
    if file.requires_python is not None:
        entry["requires-python"] = file.requires_python
    return entry


def _link(name: str, file: Listed) -> str:
    attributes = f'href="/files/{name}/{quote(file.filename)}#sha256={file.sha256}"'
    if file.requires_python is not None:
        attributes += f' data-requires-python="{html.escape(file.requires_python)}"'
    if file.yanked:
        attributes += ' data-yanked="not good"'
    return f"<a {attributes}>{file.filename}</a><br>"


def _send_file(request: BaseHTTPRequestHandler, file: Listed) -> None:
    if file.status != 200:
        _send(request, file.status, b"not for you", "text/plain")
        return
    size = len(file.content)
    wanted = request.headers.get("Range", "")
    if not wanted.startswith("bytes=") or "," in wanted:
        _send(request, 200, file.content, "application/octet-stream")
        return
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    start = max(0, size - int(last)) if not first else int(first)
    stop = min(size, int(last) + 1) if first and last else size
    if start >= size:
        _send(request, 416, b"", "text/plain", **{"Content-Range": f"bytes */{size}"})
        return
    place = f"bytes {start}-{stop - 1}/{size}"
    part = file.content[start:stop]
    _send(request, 206, part, "application/octet-stream", **{"Content-Range": place})


def _send(
    request: BaseHTTPRequestHandler, status: int, content: bytes, media: str, **headers: str
) -> None:
    request.send_response(status)
    request.send_header("Content-Type", media)
    request.send_header("Content-Length", str(len(content)))
    request.send_header("Accept-Ranges", "bytes")
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(content)
