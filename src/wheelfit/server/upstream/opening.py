"""Put mirrors together: from settings to one index.

What serves an index of its own calls `open_mirrors` with its index and what the operator said::

    mirrors = open_mirrors([mirror_of_text(text) for text in options], blobs, folder / "cache",
                           environ=os.environ, note=log)
    index = mirrors.with_own(StoredIndex(store), owners=Owners(reserved=("acme-*",)),
                             claims=store.records.claims)
    ...
    mirrors.close()
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.server.allowed_addresses import UrlRules
from wheelfit.server.backing_services import upstream_of
from wheelfit.server.upstream.merged import Merged, Owners, Source
from wheelfit.server.upstream.mirrored import MOST, Mirrored
from wheelfit.server.upstream.pulled_files import Pulled
from wheelfit.sources.bridges.catalogue import SHIPPED
from wheelfit.sources.open import is_protected, open_web
from wheelfit.sources.settings import SourceSettings
from wheelfit.sources.urls import origin, redact
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.server.backing_services import Dependency
    from wheelfit.server.store.blobs import Blobs
    from wheelfit.server.upstream.settings import MirrorSettings
    from wheelfit.sources.repository import Index


_RETRIES = 2
"""Somebody is waiting, and an old page may do: seldomer than installers repeat requests."""
_ABANDONED = 86400.0
"""Seconds after which a file that came only in part belongs to nobody."""
_NOWHERE = Path("/nonexistent")
OWN = "own"
"""How rules about owners call the index with uploads."""


@dataclass(frozen=True, slots=True)
class MirroredFamily:
    """A family of distributions with mirrors of its indexes."""

    family: BridgeFamily
    folders: Mapping[str, Mirrored] = field(hash=False)
    """By their places below the base."""


@dataclass(frozen=True, slots=True)
class Mirrors:
    """The mirrors of an operator, the most important first."""

    indexes: tuple[Mirrored, ...]
    families: Mapping[str, MirroredFamily] = field(default_factory=dict, hash=False)
    """Families whose indexes are mirrored beside them, by the names that the operator gives."""

    def with_own(
        self,
        own: Index,
        *,
        owners: Owners | None = None,
        claims: Callable[[NormalizedName], bool] = lambda _name: False,
    ) -> Index:
        """Return them behind an index with uploads, which is called ``own``.

        What is uploaded there comes from there alone, whatever a mirror has.

        :param claims: tells whether a project belongs to the own index although it has no page
            at the moment.
        :raises InvalidConfiguration: a rule names a mirror that is not there.
        """
        first = Source(OWN, own, is_own=True, claims=claims)
        try:
            return Merged((first, *(Source(one.name, one) for one in self.indexes)), owners)
        except ValueError as error:
            raise InvalidConfiguration(str(error)) from None

    def cut(self) -> None:
        """Break off what is under way; nothing more is fetched."""
        for one in self._all():
            one.cut()

    def close(self) -> None:
        """Stop what is under way, and close every connection."""
        for one in self._all():
            one.close()

    def _all(self) -> Iterable[Mirrored]:
        yield from self.indexes
        for family in self.families.values():
            yield from family.folders.values()


def open_mirrors(
    settings: Iterable[MirrorSettings],
    blobs: Blobs,
    cache_folder: Path | None,
    *,
    environ: Mapping[str, str],
    note: Callable[[str], None] = lambda _text: None,
) -> Mirrors:
    """Open several mirrors that keep their files in one place.

    :param settings: of each, the most important first. The smallest limit counts for the place.
    :param blobs: where files are kept; of mirrors alone, for what was not used for long goes.
    :param cache_folder: where pages are kept; None: in memory only.
    :raises InvalidConfiguration: a setting cannot be; no upstream is asked yet.
    :raises StorageUnavailable: the place cannot be read.
    """
    each = tuple(settings)
    limits = [one.most for one in each if one.most is not None]
    blobs.tidy(time.time() - _ABANDONED)  # of processes that were killed
    pulled = Pulled(blobs, min(limits) if limits else None)
    names = [one.label for one in each]
    for name in names:
        if names.count(name) > 1 or name == OWN:
            raise InvalidConfiguration(f"two sources are called {name}", hint="name them: NAME=URL")
    # Threads are the server's, so all share in them; each has its own, and takes no other's.
    most = max(1, MOST // max(1, len(each)))
    open_ = partial(
        open_mirror, pulled=pulled, cache_folder=cache_folder, environ=environ, note=note
    )
    return Mirrors(
        tuple(open_(one, upstream=upstream_of(one.url, most)) for one in each if not one.bridge),
        {one.label: _open_family(one, most, open_) for one in each if one.bridge},
    )


def _open_family(
    settings: MirrorSettings, most: int, open_: Callable[..., Mirrored]
) -> MirroredFamily:
    """Open a mirror of each index of a family.

    :param settings: of all of them.
    :param most: threads that may use all of them together.
    :param open_: opens one.
    """
    family = SHIPPED.find(settings.bridge)
    base = settings.url.rstrip("/")
    url_of = {
        member.folder: f"{base or family.base}/{member.folder}"
        if base or not member.is_elsewhere
        else member.place
        for member in family.members
        if member.index and settings.has_folder(member.folder)
    }
    if not url_of:
        raise InvalidConfiguration(
            f"the bridge {family.name} has no folder {' or '.join(settings.folders)[:80]}",
            hint=f"`wheelfit bridges show {family.name}` lists them",
        )
    upstream = upstream_of(base or family.base, most)
    return MirroredFamily(
        family,
        {
            folder: open_(
                replace(
                    settings,
                    url=url,
                    name=f"{settings.label}/{folder}",
                    allow=settings.allow or family.projects,
                ),
                upstream=upstream,
                only_hosts=() if base else family.only_hosts,
            )
            for folder, url in url_of.items()
        },
    )


def open_mirror(
    settings: MirrorSettings,
    pulled: Pulled,
    cache_folder: Path | None,
    *,
    environ: Mapping[str, str],
    note: Callable[[str], None] = lambda _text: None,
    clock: Callable[[], float] = time.time,
    upstream: Dependency | None = None,
    only_hosts: Iterable[str] = (),
) -> Mirrored:
    """Open one mirror.

    Only the login in the URL is ever sent, and to the origin of that URL alone: what this
    machine's netrc and keyring know is its users' and no business of an index.

    :param only_hosts: the only ones that may be asked, with https; empty: any.
    :raises InvalidConfiguration: a setting cannot be; the upstream is not asked yet.
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
    if not is_protected(settings.url, sources):
        host = origin(settings.url).host
        raise InvalidConfiguration(
            "the upstream is not https, so anybody on the way could change it",
            where=redact(settings.url),
            hint=f"trusted-hosts = [{host!r}] mirrors it all the same",
        )
    try:
        reach = UrlRules.of(settings.url, settings.hosts, only_hosts)
    except ValueError:
        raise InvalidConfiguration(
            "a host that pages may name is written as HOST or HOST:PORT",
            where=redact(settings.url),
        ) from None
    web = open_web(
        sources,
        cache_folder=cache_folder,
        environ={name: text for name, text in environ.items() if name != "NETRC"},
        home=_NOWHERE,
        note=note,
        most=0,
        admits=reach.admits,
        may_ask=reach,
        patience=settings.patience,
    )
    return Mirrored(
        settings,
        web,
        pulled,
        reach=reach,
        note=note,
        clock=clock,
        upstream=upstream,
    )
