"""Write the pages of the Simple API, in JSON and in HTML (PEP 503, 691, 700, 714)."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from wheelfit.core.filename import parse_index_file_name, release_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.sources.page import File, ProjectPage, Status


API_VERSION = "1.1"
_WITH_PROVENANCE = "1.3"
"""The API version for pages with provenance (PEP 740)."""
_WITH_STATUS = "1.4"
"""The API version for pages with a status of the project (PEP 792)."""

JSON = "application/vnd.pypi.simple.v1+json"
HTML = "application/vnd.pypi.simple.v1+html"
LEGACY_HTML = "text/html"
PAGE_TYPES = {"index.html": HTML, "index.json": JSON}
"""The media type of each file of a page in a static index."""

# For equal qualities. A client that accepts anything may be a browser, or an installer that reads
# HTML only.
_WILDCARD_ORDER = (LEGACY_HTML, JSON, HTML)
_EXPLICIT_ORDER = (JSON, HTML, LEGACY_HTML)


def choose_type(accept: str | None) -> str | None:
    """Return the media type of a page for an ``Accept`` header (PEP 691).

    >>> choose_type("text/html;q=0.1, application/vnd.pypi.simple.v1+json")
    'application/vnd.pypi.simple.v1+json'

    :param accept: the value of the header; None: there is none.
    :return: None if no type is acceptable.
    """
    qualities: dict[str, float] = {}
    for item in (accept or "*/*").lower().split(","):
        media_type, *parameters = (part.strip() for part in item.split(";"))
        qualities[media_type.replace(".latest+", ".v1+")] = _quality(parameters)
    explicit = {
        media_type: qualities[media_type]
        for media_type in _EXPLICIT_ORDER
        if media_type in qualities
    }
    implied = {
        media_type: qualities.get(f"{media_type.partition('/')[0]}/*", qualities.get("*/*", 0.0))
        for media_type in _WILDCARD_ORDER
        if media_type not in explicit
    }
    all_qualities = explicit | implied
    best = max(all_qualities, key=all_qualities.__getitem__)  # the first of equal ones
    return best if all_qualities[best] > 0 else None


def _quality(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def write_projects(names: Iterable[str], media_type: str) -> bytes:
    """Write the list of all projects."""
    if media_type == JSON:
        meta = {"api-version": API_VERSION}
        return _json({"meta": meta, "projects": [{"name": name} for name in names]})
    return _html("Simple index", (_anchor(f"{name}/", {}, name) for name in names))


def write_project(page: ProjectPage, media_type: str) -> bytes:
    """Write the page of a project."""
    status, version = page.status, _version(page)
    if media_type != JSON:
        metas = []
        if status:
            metas.append(("pypi:project-status", status.marker))
        if status and status.reason:
            metas.append(("pypi:project-status-reason", status.reason))
        return _html(f"Links for {page.name}", map(_link, page.files), metas, version)
    content = {
        "meta": {"api-version": version},
        "name": page.name,
        **({"project-status": _status(status)} if status else {}),
        "versions": _versions(page.files),
        "files": [_entry(file) for file in page.files],
        # Keys with an underscore are the server's own (PEP 691).
        **({"_withheld": dict(page.withheld)} if page.withheld else {}),
    }
    return _json(content)


def write_static_index(pages: Iterable[ProjectPage]) -> dict[str, bytes]:
    """Return all pages of an index as files for any static server.

    :param pages: one for each project; their URLs may be relative to the project's folder.
    :return: by path: ``index.html`` and ``index.json`` (PEP 691) in the folder of the index and in
        that of each project.
    """
    by_name = {page.name: page for page in pages}
    names = sorted(by_name)
    site = {file: write_projects(names, media_type) for file, media_type in PAGE_TYPES.items()}
    for name in names:
        for file, media_type in PAGE_TYPES.items():
            site[f"{name}/{file}"] = write_project(by_name[name], media_type)
    return site


def _entry(file: File) -> dict[str, object]:
    entry: dict[str, object] = {
        "filename": file.filename,
        "url": file.url,
        "hashes": dict(file.hashes),
    }
    if file.size is not None:
        entry["size"] = file.size
    if parse_index_file_name(file.filename) is not None:
        return entry  # F-72: nothing but the identity of the file
    if file.upload_time is not None:
        entry["upload-time"] = file.upload_time
    if file.requires_python is not None:
        entry["requires-python"] = file.requires_python
    if file.yanked is not None:
        entry["yanked"] = file.yanked or True
    if file.metadata_hashes is not None:
        # PEP 714: under both names, for clients of either age.
        entry["core-metadata"] = entry["dist-info-metadata"] = dict(file.metadata_hashes) or True
    if file.provenance is not None:
        entry["provenance"] = file.provenance
    return entry


def _link(file: File) -> str:
    fragment = "".join(f"#{name}={digest}" for name, digest in list(file.hashes.items())[:1])
    attributes: dict[str, str] = {}
    if parse_index_file_name(file.filename) is None:  # F-72
        if file.requires_python is not None:
            attributes["data-requires-python"] = file.requires_python
        if file.yanked is not None:
            attributes["data-yanked"] = file.yanked
        if file.metadata_hashes is not None:
            digests = [f"{name}={digest}" for name, digest in file.metadata_hashes.items()]
            value = digests[0] if digests else "true"
            attributes["data-core-metadata"] = attributes["data-dist-info-metadata"] = value
        if file.provenance is not None:
            attributes["data-provenance"] = file.provenance
    return _anchor(file.url + fragment, attributes, file.filename)


def _version(page: ProjectPage) -> str:
    """Return the oldest version of the API with all fields of a page."""
    if page.status:
        return _WITH_STATUS
    if any(file.provenance is not None for file in page.files):
        return _WITH_PROVENANCE
    return API_VERSION


def _status(status: Status) -> dict[str, str]:
    reason = {"reason": status.reason} if status.reason else {}
    return {"status": status.marker, **reason}


def _versions(files: Iterable[File]) -> list[str]:
    """Return the versions with files (PEP 700)."""
    releases = map(release_of, (file.filename for file in files))
    return [
        str(version)
        for version in sorted({release[1] for release in releases if release is not None})
    ]


def _json(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def _anchor(url: str, attributes: Mapping[str, str], text: str) -> str:
    shown = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f'<a href="{escape(url)}"{shown}>{escape(text)}</a><br>'


def _html(
    title: str,
    lines: Iterable[str],
    metas: Sequence[tuple[str, str]] = (),
    version: str = API_VERSION,
) -> bytes:
    meta_tags = "".join(f'<meta name="{name}" content="{escape(text)}">\n' for name, text in metas)
    head = (
        "<!DOCTYPE html>\n<html>\n<head>\n"
        '<meta charset="utf-8">\n'
        f'<meta name="pypi:repository-version" content="{version}">'
        f"\n{meta_tags}<title>{escape(title)}</title>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
    )
    return "".join([head, *(f"{line}\n" for line in lines), "</body>\n</html>\n"]).encode("utf-8")
