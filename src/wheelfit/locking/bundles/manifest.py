"""The manifest of a bundle, ``bundle.json``: the hash of every file, the wheels of each host."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from wheelfit.core import strict_json
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.table_reader import Table
from wheelfit.errors import DamagedBundle, InvalidFilename
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping


MANIFEST = "bundle.json"
"""The name of the file."""
LOCK = "pylock.toml"
"""The name of the lock in a bundle."""
README = "README.txt"
"""The name of the file for users."""
VERSION = 1
"""The version of the format."""

_LIMITS = strict_json.JsonLimits(size=64 << 20, depth=8, labels=1_000_000, values=5_000_000)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FORBIDDEN = r"/\\:\x00-\x1f\x7f\ud800-\udfff"
# Some systems remove dots and blanks at the end of a name. Without them there is no ".." either.
_PATH_SEGMENT = re.compile(rf"[^{_FORBIDDEN}]*[^{_FORBIDDEN}. ]")


@dataclass(frozen=True, slots=True)
class BundledFile:
    """The expected size and hash of one file of a bundle."""

    sha256: str
    size: int
    """Bytes."""

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data."""
        return {"sha256": self.sha256, "size": self.size}


@dataclass(frozen=True, slots=True)
class BundledHost:
    """The files of a bundle for one machine."""

    name: str
    """The name of its host file, without folder and extension."""
    wheels: tuple[str, ...]
    """File names, sorted."""

    @property
    def file(self) -> str:
        """The path of its host file in the bundle."""
        return f"hosts/{self.name}.toml"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a bundle."""

    files: Mapping[str, BundledFile]
    """Every file but the manifest, by its path with slashes."""
    hosts: tuple[BundledHost, ...] = ()
    lock: str = ""
    """SHA-256 of the lock it was made from."""
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """The other options by which the wheels were chosen, as on the command line."""

    @property
    def wheels(self) -> Mapping[str, BundledFile]:
        """The wheels by their file names."""
        return {
            path.removeprefix("wheels/"): file
            for path, file in self.files.items()
            if path.startswith("wheels/") and path.endswith(".whl")
        }


def write_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of a manifest; equal manifests give equal bytes."""
    content = {
        "version": VERSION,
        "lock": {"sha256": manifest.lock},
        "extras": list(manifest.extras),
        "groups": list(manifest.groups),
        "options": list(manifest.options),
        "hosts": [
            {
                "name": host.name,
                "file": host.file,
                "wheels": list(host.wheels),
            }
            for host in manifest.hosts
        ],
        "files": {path: manifest.files[path].to_mapping() for path in sorted(manifest.files)},
    }
    return f"{json.dumps(content, indent=2, ensure_ascii=False)}\n".encode()


def read_manifest(data: bytes, *, where: str) -> Manifest:
    """Read a manifest; its content is not trusted.

    :raises DamagedBundle: it is not valid, or names files outside of the bundle.
    """

    def report(fault: Fault, hint: str | None = None) -> NoReturn:
        del hint  # a manifest is not meant for editing
        raise _damaged(f"{fault.path} {fault.message}", where)

    try:
        table = Table(strict_json.load(data, _LIMITS), report)
    except InvalidDocument as error:
        raise _damaged(error.message, where) from None
    version = table.integer("version")
    if version != VERSION:
        table.fault(f"is {version}, which is not supported", "version")
    for key in ("lock", "extras", "groups", "options", "hosts", "files"):
        if key not in table:
            table.fault("is missing", key)
    files = {path: _file(path, entry) for path, entry in table.named("files").items()}
    manifest = Manifest(
        MappingProxyType(files),
        tuple(_host(entry) for entry in table.tables("hosts")),
        table.table("lock").string("sha256") or "",
        table.strings("extras"),
        table.strings("groups"),
        table.strings("options"),
    )
    wheels = manifest.wheels
    for name in wheels:
        try:
            parse_wheel_filename(name)
        except InvalidFilename as error:
            raise _damaged(error.message, where) from None
    if not manifest.hosts:
        table.fault("is empty", "hosts")
    for host in manifest.hosts:
        unlisted = [name for name in host.wheels if name not in wheels]
        unlisted += [] if host.file in files else [host.file]
        if unlisted:
            raise _damaged(f"it has no entry for the file {unlisted[0]}", where)
    return manifest


def is_inside(path: str) -> bool:
    """Return whether a path of a manifest leads to a file in the bundle on every system.

    :param path: with slashes.
    """
    return all(map(_PATH_SEGMENT.fullmatch, path.split("/")))


def _damaged(problem: str, where: str) -> DamagedBundle:
    return DamagedBundle([(MANIFEST, "unreadable", problem)], where=where)


def _file(path: str, entry: Table) -> BundledFile:
    if not is_inside(path) or path == MANIFEST:
        entry.fault("is not a path in the folder")
    digest = entry.required("sha256")
    if not _DIGEST.fullmatch(digest):
        entry.must_be("a SHA-256", digest, "sha256")
    return BundledFile(digest, entry.integer("size"))


def _host(entry: Table) -> BundledHost:
    name = entry.required("name")
    if not is_inside(name) or "/" in name:
        entry.must_be("the name of a host", name, "name")
    return BundledHost(name, entry.strings("wheels"))
