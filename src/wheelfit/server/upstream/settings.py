"""What an operator decides about an index that is mirrored."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wheelfit.sources.bridges.catalogue import SHIPPED
from wheelfit.sources.urls import origin, redact
from wheelfit_runtime.errors import InvalidConfiguration, UserError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.core.table_reader import Table


_NAME = pattern(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*", re.IGNORECASE)
_PATTERN = pattern(r"[a-z0-9._*?-]+", re.IGNORECASE)
_FAMILY = pattern(r"([a-z0-9-]+)(?:@(https?://.+))?", re.DOTALL)
_NAMED = pattern(r"([^=:/?#]+)=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """The settings of one mirror."""

    url: str = field(default="", repr=False)
    """Of the index, usually ending with ``/simple/``; a login in it is for this index alone. Of a
    family: what its indexes lie below, if not where it says."""
    name: str = ""
    """What rules about owners call it; by default its host."""
    bridge: str = ""
    """The family whose indexes are mirrored, each at an address of its own; empty: none."""
    folders: tuple[str, ...] = ()
    """Of a family: which of its indexes, as ``cpu`` or ``cu13*``; empty: all."""
    redirect: bool = False
    """Send clients to the upstream's files instead of keeping them."""
    fresh: float = 60.0
    """Seconds in which a page counts without asking the upstream about it again."""
    missing: float = 60.0
    """Seconds in which a project that the upstream does not know is not asked for again."""
    stale: float = 7 * 86400.0
    """Seconds for which a page is served although the upstream is down."""
    most: int | None = None
    """Bytes of files that are kept; those used least recently go. None: as many as there are."""
    largest: int = 16 << 30
    """Bytes of the largest file that is fetched."""
    allow: tuple[str, ...] = ()
    """Projects that may come from there, as ``torch`` or ``nvidia-*``; empty: all."""
    deny: tuple[str, ...] = ()
    """Projects that may not, whatever is allowed."""
    hosts: tuple[str, ...] = ()
    """Hosts, as ``host`` or ``host:port``, that its pages may name although their addresses are
    private or their ports unusual."""
    lists_all: bool = False
    """List all projects of the upstream, not only those somebody has asked for."""
    documents: bool = False
    """Make the ``-variants.json`` that releases with variant wheels lack, from the wheels."""
    timeout: float = 15.0
    """Seconds to wait for a connection, and for the next bytes."""
    patience: float = 60.0
    """Seconds that a whole page may take."""
    trusted_hosts: tuple[str, ...] = ()
    """``host`` or ``host:port`` whose certificate is not checked, and that may use HTTP."""
    cert: str | None = None
    """File or folder of certificates to trust instead of the system's."""

    @property
    def label(self) -> str:
        """The name, or the host."""
        return self.name or origin(self.url).host

    def has_folder(self, folder: str) -> bool:
        """Return whether an index of the family is mirrored.

        :param folder: where it is below the base of a mirror.
        """
        return not self.folders or any(fnmatchcase(folder, one) for one in self.folders)

    def admits(self, project: NormalizedName) -> bool:
        """Return whether a project may come from there."""
        allowed = not self.allow or fits(project, self.allow)
        return allowed and not fits(project, self.deny)


def fits(project: NormalizedName, patterns: Iterable[str]) -> bool:
    """Tell whether a name fits one of several patterns, however those are spelled.

    >>> fits("acme-tools", ["Acme_*"])
    True

    :param patterns: with ``*`` for any characters, ``?`` for one.
    """
    return any(
        fnmatchcase(project, re.sub(r"[-_.]+", "-", pattern).lower()) for pattern in patterns
    )


def check_patterns(patterns: Iterable[str], *, where: str | None = None) -> None:
    """Refuse patterns that no name of a project fits: whoever reserves by one reserves nothing.

    :raises InvalidConfiguration: there is such a one.
    """
    for one in patterns:
        if _PATTERN.fullmatch(one) is None:
            raise InvalidConfiguration(
                f"no name of a project fits {one[:60]!r}",
                where=where,
                hint="as acme-*: letters, digits and dashes, * for any of them and ? for one",
            )


def mirror_of_text(text: str) -> MirrorSettings:
    """Read what an option says: ``URL`` or ``NAME=URL``; or a family, as ``FAMILY[@URL]``.

    >>> mirror_of_text("torch=https://index.example/whl/cu128").name
    'torch'

    :raises InvalidConfiguration: it is no such thing.
    """
    if (family := _FAMILY.fullmatch(text)) is not None:
        return _checked(MirrorSettings(family[2] or "", bridge=family[1]))
    named = _NAMED.fullmatch(text)
    name, url = (named[1], named[2]) if named else ("", text)
    return _checked(MirrorSettings(url, name))


def mirror_of_table(table: Table) -> MirrorSettings:
    """Read a table of a configuration file; the keys are the fields, with dashes.

    :param table: its faults raise `InvalidConfiguration`.
    :raises InvalidConfiguration: a key or a value is none that there is.
    """
    known = {one.name.replace("_", "-"): one for one in fields(MirrorSettings)}
    table.only(*known)
    if "bridge" not in table:
        table.required("url")
    values: dict[str, Any] = {}
    for key in table.content:
        kind = str(known[key].type)
        if kind.startswith("str"):
            values[known[key].name] = table.string(key)
        elif kind == "bool":
            values[known[key].name] = table.flag(key)
        elif kind.startswith("tuple"):
            values[known[key].name] = table.strings(key)
        else:
            values[known[key].name] = _number(table, key, is_whole=kind.startswith("int"))
    return _checked(MirrorSettings(**values))


def _number(table: Table, key: str, *, is_whole: bool) -> float:
    value = table.content[key]
    if is_whole or not isinstance(value, float):
        return table.integer(key)
    if not value >= 0:
        table.must_be("a number of at least 0", value, key)
    return value


def _checked(settings: MirrorSettings) -> MirrorSettings:
    if settings.bridge:
        family = _family(settings.bridge)
        settings = replace(settings, name=settings.name or family.name)
    elif settings.folders:
        raise InvalidConfiguration(
            "only the indexes of a bridge are in folders", where=redact(settings.url)
        )
    if settings.url or not settings.bridge:
        _check_url(settings)
    check_patterns((*settings.allow, *settings.deny), where=redact(settings.url) or settings.bridge)
    if settings.name and _NAME.fullmatch(settings.name) is None:
        raise InvalidConfiguration(
            f"{settings.name[:60]!r} is no name for a mirror",
            hint="letters, digits, and single dashes between them",
        )
    return settings


def _family(name: str) -> BridgeFamily:
    """Return a family of indexes.

    :raises InvalidConfiguration: there is no such one.
    """
    try:
        family = SHIPPED.find(name)
    except UserError as error:
        raise InvalidConfiguration(
            "what is mirrored is an http or https URL, or a bridge with indexes",
            where=name[:80],
            hint=error.hint,
        ) from None
    if not any(member.index for member in family.members):
        raise InvalidConfiguration(
            f"the bridge {family.name} has no indexes that could be mirrored", where=name[:80]
        )
    return family


def _check_url(settings: MirrorSettings) -> None:
    try:
        parts = urlsplit(settings.url)
        is_web = origin(settings.url).scheme in {"http", "https"}
        is_plain = not (parts.query or parts.fragment)
    except ValueError:
        is_web = is_plain = False
    if not (is_web and is_plain):
        raise InvalidConfiguration(
            "what is mirrored is an http or https URL", where=redact(settings.url)
        )
