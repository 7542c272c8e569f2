"""Sources of a lock: source distributions, archives, directories and repositories (PEP 751)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.sources.hash_check import KNOWN_HASHES
from wheelfit.sources.page import File, time_of_upload
from wheelfit.sources.urls import file_path, relative_path, split_userinfo, without_fragment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


VERSIONED_KINDS = ("sdist", "archive")
"""The kinds of sources that always have the same version as the wheel built from them."""


def source_entry(file: File, folder: Path | None) -> tuple[str, dict[str, Any]]:
    """Return the key and the table of a source in an entry of ``packages``.

    :param file: the wheel that would be built from the source, which is its `origin`.
    :param folder: the folder of the lock file, to which paths of local sources are relative.
    """
    origin = file.origin
    if origin is None:
        raise ValueError(file)
    direct: Mapping[str, Any] | None = origin.direct_url
    if direct is None:
        return "sdist", file_entry(file, origin.name, folder)
    location = _location(direct["url"], folder)
    subdirectory = {"subdirectory": direct["subdirectory"]} if "subdirectory" in direct else {}
    if "dir_info" in direct:
        is_editable = bool(direct["dir_info"].get("editable"))
        path = {"path": location.get("path") or file_path(location["url"])}
        return "directory", {**path, **({"editable": True} if is_editable else {}), **subdirectory}
    if "vcs_info" in direct:
        entry = _repository_entry(direct["vcs_info"], location)
        return "vcs", {**entry, **subdirectory}
    hashes = direct["archive_info"]["hashes"]
    return "archive", {**location, "hashes": dict(hashes), **subdirectory}


def usable_hashes(hashes: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of known algorithms, in the order in which they are written."""
    return {name: hashes[name] for name in sorted(hashes) if name in KNOWN_HASHES}


def file_entry(file: File, name: str, folder: Path | None) -> dict[str, Any]:
    """Return the entry of a file, in the order of the standard.

    :param file: a wheel, or the wheel to build from a source distribution.
    :param name: the name of the listed file: the wheel, or the source distribution.
    """
    entry: dict[str, Any] = {"name": name}
    uploaded = time_of_upload(file)
    if uploaded is not None:
        entry["upload-time"] = uploaded
    entry |= _location(file.url, folder)
    if file.size is not None:
        entry["size"] = file.size
    return {**entry, "hashes": usable_hashes(file.hashes)}


def _repository_entry(info: Mapping[str, Any], location: Mapping[str, str]) -> dict[str, Any]:
    requested = info.get("requested_revision")
    revision = {} if requested is None else {"requested-revision": requested}
    return {"type": info["vcs"], **location, **revision, "commit-id": info["commit_id"]}


def _location(url: str, folder: Path | None) -> dict[str, str]:
    """Return the location of a source: its URL, or its path relative to the lock if it is local."""
    bare = split_userinfo(without_fragment(url))[0]
    if bare.startswith("file:") and folder is not None:
        return {"path": relative_path(file_path(bare), folder)}
    return {"url": bare}
