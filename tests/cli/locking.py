"""Locks of an index for the tests of commands that work from a lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from locking.entries import release_for
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.target import Target
from wheelfit.locking.document import write_lock
from wheelfit.locking.locking import new_lock
from wheelfit.locking.release import lock_release
from wheelfit.operations.hosts import open_host
from wheelfit.resolution.release_metadata import read_release_metadata
from wheelfit.sources.open import open_sources
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import linux_target


def write_lock_of(
    index: RecordingIndex,
    pins: Sequence[str],
    path: Path,
    *,
    needs: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    roots: Sequence[str] | None = None,
) -> Path:
    """Lock releases for Linux and for Macs, and return the path of the lock.

    :param index: where they are.
    :param pins: as ``fast==1.0``.
    :param path: of the lock.
    :param needs: by name: what the wheel of each label needs.
    :param roots: what the lock is made for; default: the first pin.
    """
    linux = linux_target()
    mac: Target = open_host("macos-arm64", {}).file.target(linux, "macos-arm64")
    settings = SourceSettings(index_url=index.url, keyring="disabled")
    repository = open_sources(settings, cache_folder=None, environ={})
    tables = []
    for pin in pins:
        name, version = pin.split("==")
        page = repository.project(canonicalize_name(name))
        assert page is not None
        release = release_for(page, Version(version), [linux, mac])
        assert release is not None
        variants = [wheel for wheel in release.wheels if wheel.filename.is_variant]
        metadata = read_release_metadata(release, variants, repository)
        listed = (needs or {}).get(name, {})
        tables.append(lock_release(release, metadata, needs=listed, index=index.url).table)
    lock = new_lock(tables, roots=[pins[0]] if roots is None else roots)
    path.write_bytes(write_lock(lock))
    return path
