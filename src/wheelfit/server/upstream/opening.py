"""The opening of an operator's mirrors, and their merge with a server's uploads into one index."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.bridges import BridgeFamily, path_in_mirror
from wheelfit.server.allowed_addresses import UrlRules
from wheelfit.server.backing_services import Dependency, upstream_dependency
from wheelfit.server.offering import OfferRules
from wheelfit.server.store.blobs import Blobs, GuardedBlobs
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.store.opening import open_blobs
from wheelfit.server.upstream.listings import LinksPage, MirrorListing, UnlistedFiles
from wheelfit.server.upstream.merged import MergedIndex, MergedSource, OwnerRules
from wheelfit.server.upstream.mirrored import MAX_THREADS, MirroredIndex
from wheelfit.server.upstream.pulled_files import PulledFiles
from wheelfit.server.upstream.settings import UPLOADS_NAME, MirrorSettings, check_names
from wheelfit.sources.open import is_protected_index, open_web
from wheelfit.sources.settings import SourceSettings
from wheelfit.sources.urls import origin, redact
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.sources.advisories import Advisories
    from wheelfit.sources.repository import Index


_RETRIES = 2
"""Fewer than those of installers: a client waits, and a stale page can be served."""
_DOWNLOADS = 8
"""Threads that may use the storage of mirrored files at once."""
_ABANDONED = 86400.0
"""Seconds after which a partial file is abandoned."""
_NO_HOME = Path("/nonexistent")


@dataclass(frozen=True, slots=True)
class MirroredFamily:
    """A family of distributions with mirrors of its indexes."""

    family: BridgeFamily
    folders: Mapping[str, MirroredIndex] = field(hash=False)
    """The mirrors of indexes, by path below the base."""
    pages: Mapping[str, MirroredIndex] = field(hash=False)
    """The mirrors of pages with links to all wheels, by path below the base."""
    files: Mapping[str, MirroredIndex] = field(hash=False)
    """The mirror of files that no page lists, for the path of each file below the base."""

    def mirrors(self) -> Iterable[MirroredIndex]:
        """Return all mirrors, each once."""
        unlisted = list(self.files.values())[:1]  # all have the same mirror
        return (*self.folders.values(), *self.pages.values(), *unlisted)


@dataclass(frozen=True, slots=True)
class Mirrors:
    """The mirrors of an operator, the most important first."""

    indexes: tuple[MirroredIndex, ...]
    families: Mapping[str, MirroredFamily] = field(default_factory=dict, hash=False)
    """Families whose indexes are mirrored too, by the names in the operator's settings."""

    def merge_with_uploads(
        self,
        uploads: Index,
        *,
        owners: OwnerRules = OwnerRules(),
        owns_name: Callable[[NormalizedName], bool] = lambda _name: False,
    ) -> MergedIndex:
        """Return one index of the server's uploads, named ``own``, followed by the mirrors.

        A project with uploads comes from the uploads alone, even if a mirror has it too.

        :param owners: the operator's rules about the source of each project.
        :param owns_name: returns whether a project belongs to the uploads although it has no page
            at the moment.
        :raises ValueError: a rule names a mirror that does not exist.
        """
        first = MergedSource(UPLOADS_NAME, uploads, is_own=True, owns_name=owns_name)
        return MergedIndex(
            (first, *(MergedSource(index.name, index) for index in self.indexes)), owners
        )

    def cancel(self) -> None:
        """Abort transfers in progress; nothing more is fetched."""
        for mirror in self.all_mirrors():
            mirror.cancel()

    def close(self) -> None:
        """Abort transfers in progress, and close every connection."""
        for mirror in self.all_mirrors():
            mirror.close()

    def all_mirrors(self) -> Iterable[MirroredIndex]:
        """Yield all mirrors, those of families too."""
        yield from self.indexes
        for family in self.families.values():
            yield from family.mirrors()


def open_mirrors_in(
    folder: Path,
    settings: Iterable[MirrorSettings],
    storage: str | None,
    *,
    environ: Mapping[str, str],
    note: Callable[[str], None] = lambda _text: None,
    advisories: Advisories | None = None,
) -> Mirrors:
    """Open the mirrors of a live index.

    :param storage: the address of the storage for mirrored files; None: the folder of the index.
    :param advisories: vulnerabilities whose releases are not offered; None: all releases are.
    :raises InvalidConfiguration: a setting is invalid; no upstream is requested yet.
    :raises StorageUnavailable: the storage cannot be read.
    """
    mirror_folder = folder / "mirrored"
    # Apart from the uploads: mirrored files are removed when there are too many.
    if storage is None:
        blobs: Blobs = FolderBlobs(mirror_folder / "files")
    else:
        blobs = open_blobs(storage, spool=mirror_folder / "incoming")
    guarded = GuardedBlobs(blobs, Dependency("storage of mirrored files", max_threads=_DOWNLOADS))
    cache = mirror_folder / "pages"
    return open_mirrors(settings, guarded, cache, environ=environ, note=note, advisories=advisories)


def open_mirrors(
    settings: Iterable[MirrorSettings],
    blobs: Blobs,
    cache_folder: Path | None,
    *,
    environ: Mapping[str, str],
    note: Callable[[str], None] = lambda _text: None,
    advisories: Advisories | None = None,
) -> Mirrors:
    """Open several mirrors that share one storage.

    :param settings: the settings of each, the most important first; the smallest size limit
        applies.
    :param blobs: the storage of files; for mirrors only, since unused files are removed.
    :param cache_folder: the folder of pages; None: in memory only.
    :param advisories: vulnerabilities whose releases are not offered; None: all releases are.
    :raises InvalidConfiguration: a setting is invalid; no upstream is requested yet.
    :raises StorageUnavailable: the storage cannot be read.
    """
    all_settings = tuple(settings)
    limits = [mirror.max_size for mirror in all_settings if mirror.max_size is not None]
    blobs.remove_old_drafts(time.time() - _ABANDONED)  # of processes that were killed
    pulled = PulledFiles(blobs, min(limits) if limits else None)
    check_names(all_settings)
    # Each mirror gets a part of the server's threads, so that a slow upstream blocks no others.
    threads = max(1, MAX_THREADS // max(1, len(all_settings)))
    open_with_shared = partial(
        open_mirror,
        pulled=pulled,
        cache_folder=cache_folder,
        environ=environ,
        note=note,
        advisories=advisories,
    )
    indexes: list[MirroredIndex] = []
    families: dict[str, MirroredFamily] = {}
    for mirror in all_settings:
        if mirror.family is not None:
            families[mirror.label] = _open_family(mirror, mirror.family, threads, open_with_shared)
        elif not mirror.bridge:
            indexes.append(
                open_with_shared(mirror, upstream=upstream_dependency(mirror.url, threads))
            )
    return Mirrors(tuple(indexes), families)


def _open_family(
    settings: MirrorSettings,
    family: BridgeFamily,
    threads: int,
    open_with_shared: Callable[..., MirroredIndex],
) -> MirroredFamily:
    """Open a mirror of each index and page of a family, and a mirror of unlisted files.

    :param settings: the common settings of these mirrors.
    :param threads: the number of threads that may use these mirrors at once.
    """
    base = settings.url.rstrip("/")
    upstream = upstream_dependency(base or family.base, threads)

    def url_of(location: str) -> str:
        if base or "://" not in location:
            return f"{base or family.base}/{path_in_mirror(location)}"
        return location

    def mirror(folder: str, url: str, listing: MirrorListing | None = None) -> MirroredIndex:
        family_settings = replace(
            settings,
            url=url,
            name=f"{settings.label}/{folder}",
            allow=settings.allow or family.projects,
            list_all=settings.list_all or listing is not None,
        )
        hosts = () if base else family.only_hosts
        return open_with_shared(
            family_settings, upstream=upstream, only_hosts=hosts, listing=listing
        )

    folders: dict[str, MirroredIndex] = {}
    pages: dict[str, MirroredIndex] = {}
    files: dict[str, str] = {}
    for member in family.members:
        if member.files:
            files |= {path_in_mirror(file): url_of(file) for file in member.files}
        elif member.page and member.folder not in pages and settings.has_folder(member.folder):
            url = url_of(member.page)
            pages[member.folder] = mirror(member.folder, url, LinksPage(url))
        elif member.index and member.folder not in folders and settings.has_folder(member.folder):
            folders[member.folder] = mirror(member.folder, url_of(member.index))
    files = {
        path: url for path, url in files.items() if settings.has_folder(path.rpartition("/")[0])
    }
    unlisted = mirror("files", base or family.base, UnlistedFiles(tuple(files.values())))
    return MirroredFamily(family, folders, pages, dict.fromkeys(files, unlisted))


def open_mirror(
    settings: MirrorSettings,
    pulled: PulledFiles,
    cache_folder: Path | None,
    *,
    environ: Mapping[str, str],
    note: Callable[[str], None] = lambda _text: None,
    clock: Callable[[], float] = time.time,
    upstream: Dependency | None = None,
    only_hosts: Iterable[str] = (),
    listing: MirrorListing | None = None,
    advisories: Advisories | None = None,
) -> MirroredIndex:
    """Open one mirror.

    Only the login in the URL is ever sent, and to the origin of that URL alone: logins in this
    machine's netrc and keyring belong to its users and are not used.

    :param note: called with messages for the operator.
    :param upstream: limits the threads that wait for the upstream; None: one of its own.
    :param only_hosts: the only hosts that may be requested, with https; empty: any.
    :param listing: how the upstream lists its files; None: on a page for each project.
    :param advisories: vulnerabilities whose releases are not offered; None: all releases are.
    :raises InvalidConfiguration: a setting is invalid; the upstream is not requested yet.
    """
    sources = SourceSettings(
        index_url=settings.url,
        cert=settings.cert,
        trusted_hosts=settings.trusted_hosts,
        timeout=settings.timeout,
        retries=_RETRIES,
        resume_retries=_RETRIES,
        keyring="disabled",
    )
    if not is_protected_index(settings.url, sources):
        host = origin(settings.url).host
        raise InvalidConfiguration(
            "the upstream uses plain HTTP, so it can be changed on the way",
            where=redact(settings.url),
            hint=f"trusted-hosts = [{host!r}] mirrors it anyway",
        )
    try:
        url_rules = UrlRules.of(settings.url, settings.hosts, only_hosts)
    except ValueError:
        raise InvalidConfiguration(
            "a host that pages may name is written as HOST or HOST:PORT",
            where=redact(settings.url),
        ) from None
    web = open_web(
        sources,
        cache_folder=cache_folder,
        environ={name: value for name, value in environ.items() if name != "NETRC"},
        home=_NO_HOME,
        note=note,
        max_download=0,
        is_allowed_address=url_rules.address_rules,
        is_allowed_url=url_rules,
        response_timeout=settings.page_timeout,
        unreachable_pause=0,  # its `Dependency` limits the tries
    )
    return MirroredIndex(
        settings,
        web,
        pulled,
        is_allowed_url=url_rules,
        note=note,
        clock=clock,
        upstream=upstream,
        listing=listing,
        rules=OfferRules(settings.cooldown, advisories),
    )
