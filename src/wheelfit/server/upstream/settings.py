"""The operator's settings of a mirrored index."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from packaging.tags import compatible_tags, cpython_tags

from wheelfit.core.bridges import BridgeFamily, is_tag_of_platform, path_in_mirror
from wheelfit.core.durations import parse_duration
from wheelfit.core.filename import wheel_filename_of
from wheelfit.core.project_patterns import check_patterns, fits
from wheelfit.core.sizes import parse_size
from wheelfit.sources.bridges.catalogue import SHIPPED, KnownFamilies
from wheelfit.sources.cooldown import Cooldown, parse_cutoff
from wheelfit.sources.urls import origin, redact
from wheelfit_runtime.errors import InvalidConfiguration, UserError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.table_reader import Table


_NAME = pattern(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*", re.IGNORECASE)
_FAMILY = pattern(r"([a-z0-9-]+)(?:(@)(.*))?", re.IGNORECASE | re.DOTALL)
_PYTHON = pattern(r"3\.[0-9]{1,2}t?")
_PLATFORM = pattern(r"(?:linux|macosx|win)_[a-z0-9_]+")
_NAMED = pattern(r"([^=:/?#]+)=(.+)", re.DOTALL)

_NO_CUTOFF = "no"
UPLOADS_NAME = "own"
"""The name of the index with the server's own uploads, in rules about owners."""


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """The settings of one mirror."""

    url: str = field(default="", repr=False)
    """Of the index, usually ending with ``/simple/``; a login in it is for this index alone. Of a
    family: the base of its indexes; by default the family's own.
    """
    name: str = ""
    """Its name in rules about owners; by default its host."""
    bridge: str = ""
    """The family whose indexes are mirrored, each at an address of its own; empty: none."""
    family: BridgeFamily | None = field(default=None, repr=False)
    """The family of that name."""
    folders: tuple[str, ...] = ()
    """Of a family: the indexes, pages and folders of files that are mirrored, as ``cpu`` or
    ``cu13*``; empty: all."""
    python: tuple[str, ...] = ()
    """Pythons whose wheels are mirrored, such as ``3.12`` or ``3.13t``; empty: all."""
    platforms: tuple[str, ...] = ()
    """Platforms whose wheels are mirrored, such as ``linux_x86_64``; empty: all."""
    max_age: float = 60.0
    """Seconds in which a page is served without revalidation."""
    not_found_max_age: float = 60.0
    """Seconds in which a project that the upstream lacks is not requested again."""
    stale_if_error: float = 7 * 86400.0
    """Seconds for which a page is served although the upstream is down."""
    max_size: int | None = None
    """Bytes of stored files; those used least recently are deleted. None: no limit."""
    max_file_size: int = 16 << 30
    """Bytes of the largest file that is fetched."""
    allow: tuple[str, ...] = ()
    """Projects that are mirrored, such as ``torch`` or ``nvidia-*``; empty: all."""
    deny: tuple[str, ...] = ()
    """Projects that are denied even if allowed otherwise."""
    hosts: tuple[str, ...] = ()
    """Hosts, as ``host`` or ``host:port``, that its pages may name although their addresses are
    private or their ports unusual."""
    list_all: bool = False
    """List all projects of the upstream, not only the requested ones."""
    timeout: float = 15.0
    """Seconds to wait for a connection, and for the next bytes."""
    page_timeout: float = 60.0
    """Seconds that a whole page may take."""
    trusted_hosts: tuple[str, ...] = ()
    """``host`` or ``host:port`` whose certificate is not checked, and that may use HTTP."""
    cert: str | None = None
    """File or folder of certificates to trust instead of the system's."""

    uploaded_prior_to: str = ""
    """Offer files that were uploaded before this date, or longer ago than this duration;
    ``no``: all; empty: by the server's setting.
    """

    @property
    def cooldown(self) -> Cooldown:
        """The point in time before which files must have been uploaded."""
        is_set = self.uploaded_prior_to not in ("", _NO_CUTOFF)
        return Cooldown(parse_cutoff(self.uploaded_prior_to) if is_set else None)

    @property
    def label(self) -> str:
        """The name, or the host."""
        return self.name or origin(self.url).host

    def has_folder(self, folder: str) -> bool:
        """Return whether an index of the family is mirrored.

        :param folder: its path below the base of a mirror.
        """
        return not self.folders or any(fnmatchcase(folder, pattern) for pattern in self.folders)

    def admits_file(self, filename: str) -> bool:
        """Return whether a file is for one of the Pythons and platforms, or a source archive."""
        if not (self.python or self.platforms) or not filename.endswith(".whl"):
            return True
        wheel = wheel_filename_of(filename)
        if wheel is None:
            return False
        accepted = frozenset().union(*map(_interpreters, self.python))
        return any(
            (not self.python or (tag.interpreter, tag.abi) in accepted)
            and (
                not self.platforms
                or tag.platform == "any"
                or any(is_tag_of_platform(tag.platform, platform) for platform in self.platforms)
            )
            for tag in wheel.tags
        )

    def admits(self, project: NormalizedName) -> bool:
        """Return whether a project is mirrored."""
        allowed = not self.allow or fits(project, self.allow)
        return allowed and not fits(project, self.deny)


@cache
def _interpreters(python: str) -> frozenset[tuple[str, str]]:
    """Return the interpreters and ABIs of wheels that a CPython can use."""
    major, _, minor = python.removesuffix("t").partition(".")
    version, name = (int(major), int(minor)), f"cp{major}{minor}"
    abi = f"{name}t" if python.endswith("t") else name
    tags = (
        *cpython_tags(version, abis=[abi], platforms=["any"]),
        *compatible_tags(version, interpreter=name, platforms=["any"]),
    )
    return frozenset((tag.interpreter, tag.abi) for tag in tags)


def pythons_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the Pythons of wheels.

    :param texts: as ``3.12`` or ``3.13t``.
    :raises InvalidConfiguration: a text has another form.
    """
    return _check_tags(texts, _PYTHON, "3.12 or 3.13t")


def platforms_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the platforms of wheels.

    :param texts: as ``linux_x86_64``.
    :raises InvalidConfiguration: a text has another form.
    """
    return _check_tags(texts, _PLATFORM, "linux_x86_64 or win_amd64")


def _check_tags(texts: Iterable[str], accepted: re.Pattern[str], example: str) -> tuple[str, ...]:
    checked = tuple(texts)
    for text in checked:
        if accepted.fullmatch(text) is None:
            raise InvalidConfiguration(
                f"{text[:40]!r} is not a Python or platform of wheels", hint=f"as {example}"
            )
    return checked


def mirror_of_text(text: str, families: KnownFamilies = SHIPPED) -> MirrorSettings:
    """Read a mirror from an option: ``URL`` or ``NAME=URL``; or a family as ``FAMILY[@URL]``.

    >>> mirror_of_text("torch=https://index.example/whl/cu128").name
    'torch'

    :raises InvalidConfiguration: it has another form.
    """
    if (family := _FAMILY.fullmatch(text)) is not None:
        if family[2] and not family[3]:
            raise InvalidConfiguration(
                f"{text[:80]!r} has no URL of the indexes after the @",
                hint=f"{family[1]}@https://wheels.example.org/bridges/{family[1]}, or {family[1]} "
                "alone",
            )
        return _checked(MirrorSettings(family[3] or "", bridge=family[1]), families)
    named = _NAMED.fullmatch(text)
    name, url = (named[1], named[2]) if named else ("", text)
    return _checked(MirrorSettings(url, name), families)


def mirror_of_table(table: Table, families: KnownFamilies = SHIPPED) -> MirrorSettings:
    """Read a table of a configuration file; the keys are the fields, with dashes.

    :param table: its faults raise `InvalidConfiguration`.
    :raises InvalidConfiguration: a key or a value is unknown.
    """
    table.only(*_READERS)
    if "bridge" not in table:
        table.required("url")
    values: dict[str, Any] = {
        key.replace("-", "_"): _READERS[key](table, key) for key in table.content
    }
    return _checked(MirrorSettings(**values), families)


def check_names(mirrors: Iterable[MirrorSettings]) -> None:
    """Raise on mirrors with the same name, or with the name of the index with uploads.

    :raises InvalidConfiguration: two sources have the same name.
    """
    names = [UPLOADS_NAME, *(mirror.label for mirror in mirrors)]
    for name in names:
        if names.count(name) > 1:
            raise InvalidConfiguration(
                f"two sources are called {name}",
                hint="leave one out, or name it: NAME=URL, or name in a table [[mirror]]",
            )


def _read_size(table: Table, key: str) -> int | None:
    """Read a number of bytes, or a text as ``10GiB``."""
    value = table.content[key]
    return table.parsed(parse_size, value, key) if isinstance(value, str) else table.integer(key)


def _read_duration(table: Table, key: str) -> float | None:
    """Read a number of seconds, or a text as ``5m``."""
    value = table.content[key]
    if isinstance(value, str):
        return table.parsed(parse_duration, value, key)
    if not isinstance(value, float):
        return table.integer(key)
    if not value >= 0:
        table.must_be("a number of at least 0", value, key)
    return value


_READERS: Mapping[str, Callable[[Table, str], Any]] = {
    **dict.fromkeys(
        ("url", "name", "bridge", "cert", "uploaded-prior-to"), lambda table, key: table.string(key)
    ),
    "list-all": lambda table, key: table.flag(key),
    **dict.fromkeys(
        ("folders", "python", "platforms", "allow", "deny", "hosts", "trusted-hosts"),
        lambda table, key: table.strings(key),
    ),
    **dict.fromkeys(("max-size", "max-file-size"), _read_size),
    **dict.fromkeys(
        ("max-age", "not-found-max-age", "stale-if-error", "timeout", "page-timeout"),
        _read_duration,
    ),
}
"""The reader of each key of a table ``[[mirror]]``; the keys are the fields of `MirrorSettings`."""


def _checked(settings: MirrorSettings, families: KnownFamilies) -> MirrorSettings:
    where = redact(settings.url) or settings.bridge
    if settings.bridge:
        family = _family(settings.bridge, families)
        settings = replace(settings, name=settings.name or family.name, family=family)
        if not any(map(settings.has_folder, folders_of(family))):
            raise InvalidConfiguration(
                f"the bridge {family.name} has no folder {' or '.join(settings.folders)[:80]}",
                hint=f"`wheelfit bridges show {family.name}` lists them",
            )
    elif settings.folders:
        raise InvalidConfiguration("only the mirror of a bridge can have folders", where=where)
    if settings.url or not settings.bridge:
        _check_url(settings)
    check_patterns((*settings.allow, *settings.deny), where=where)
    pythons_of(settings.python)
    platforms_of(settings.platforms)
    try:
        _ = settings.cooldown
    except ValueError as error:
        raise InvalidConfiguration(f"uploaded-prior-to: {error}", where=where) from None
    if settings.name and _NAME.fullmatch(settings.name) is None:
        raise InvalidConfiguration(
            f"{settings.name[:60]!r} is not a valid mirror name",
            hint="use letters, digits, and single dashes between them",
        )
    return settings


def folders_of(family: BridgeFamily) -> tuple[str, ...]:
    """Return the paths of indexes, pages and files of a family below the base of a mirror."""
    folders = (
        place.rpartition("/")[0] if member.files else place
        for member in family.members
        for place in map(path_in_mirror, member.locations)
    )
    return tuple(dict.fromkeys(folders))


def _family(name: str, families: KnownFamilies) -> BridgeFamily:
    """Return a family of indexes.

    :raises InvalidConfiguration: there is no such family.
    """
    try:
        family = families.find(name)
    except UserError as error:
        raise InvalidConfiguration(
            f"{error.message}; a mirror needs an http or https URL, or a bridge with indexes",
            hint=error.hint,
        ) from None
    if not any(member.locations for member in family.members):
        raise InvalidConfiguration(
            f"the bridge {family.name} has no indexes that could be mirrored",
            hint="its members are projects of a registry; mirror the URL of that registry instead",
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
            f"{redact(settings.url)[:80]!r} is not an http or https URL without a query",
            hint="as https://index.example.org/simple/, or a bridge with indexes, as pytorch",
        )
