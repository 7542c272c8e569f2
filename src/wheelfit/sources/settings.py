"""The user's settings of sources, and of the connections to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.sources.cooldown import Cooldown
    from wheelfit.sources.merged import IndexStrategy

DEFAULT_INDEX = "https://pypi.org/simple"
"""The default index, as in pip."""

DEFAULT_CONNECTIONS = 4
"""Connections to one server: few enough for servers, and enough for most networks."""

KeyringChoice: TypeAlias = Literal["auto", "disabled", "import", "subprocess"]
"""The use of keyring for passwords, in pip's words."""


class NamedIndex(Struct, frozen=True):
    """An index that settings name, to which projects can be pinned."""

    name: str
    """The name in the settings, such as ``pytorch``."""
    url: str
    """URL, or path of a folder laid out like an index."""
    explicit: bool = False
    """Whether only projects that are pinned to it come from it."""
    default: bool = False
    """Whether it takes the place of ``index_url``, unless that is configured."""
    origin: str = ""
    """The file and line, or the variable, that configures it, for messages."""


class PinnedProject(Struct, frozen=True):
    """A project that comes from a named index only."""

    project: str
    """The name as the user wrote it."""
    index: str
    """The name of the index."""
    marker: str = ""
    """The environments in which the pin counts; empty: all."""


class FamilyHosts(NamedTuple):
    """The hosts that a family of indexes names, the only ones to contact for its files."""

    family: str
    names: tuple[str, ...]


class SourceSettings(Struct, frozen=True):
    """The settings of sources; the names are pip's.

    URLs may contain credentials, so ``repr`` must never be shown.
    """

    index_url: str = DEFAULT_INDEX
    """The main index: URL, or path of a folder laid out like one."""
    extra_index_urls: tuple[str, ...] = ()
    """More indexes, read in this order after the main one."""
    find_links: tuple[str, ...] = ()
    """Folders, files and pages with links; read before any index."""
    no_index: bool = False
    """Read no index at all, only ``find_links``."""
    cert: str | None = None
    """File or folder of the certificates to trust instead of the system's."""
    client_cert: str | None = None
    """PEM file with a private key and its certificate, sent to servers that request one."""
    proxy: str | None = None
    """None: the environment decides. Empty: no proxy. Otherwise for every server."""
    no_proxy_env: bool = False
    """Ignore the proxy variables of the environment."""
    trusted_hosts: tuple[str, ...] = ()
    """``host`` or ``host:port`` whose certificate is not checked, and that may use HTTP."""
    timeout: float = 15.0
    """Seconds to wait for a connection, and for the next bytes."""
    retries: int = 5
    """How often a failed request is repeated."""
    resume_retries: int = 5
    """How often a broken download is resumed."""
    connections: int = DEFAULT_CONNECTIONS
    """How many connections to one server may carry wheels at the same time."""
    keyring: KeyringChoice = "auto"
    """Whether and how keyring is queried when a server requires a password."""
    cache: bool = True
    """Whether anything is kept on disk."""
    hosts: FamilyHosts | None = None
    """The only hosts to contact, with https; None: any, with any protocol."""
    requires_pages_below_url: bool = False
    """Whether a page of an index counts only if it is below the URL of the index; a redirect may
    lead to another index."""
    index_strategy: IndexStrategy = "first-index"
    """The rule for the indexes that supply a project; in pip, all of them do."""
    indexes: tuple[NamedIndex, ...] = ()
    """Indexes with names; those that are not explicit are read before the main one."""
    pins: tuple[PinnedProject, ...] = ()
    """Projects that come from named indexes only; those of one project are read in this order."""

    cooldown: Cooldown | None = None
    """The cutoffs after which files of indexes are too new; None: no file is too new."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The files and variables of pip's configuration, by the fields that they set."""

    __repr__ = object.__repr__  # URLs have credentials

    def is_of_registry(self, project: str) -> bool:
        """Return whether the public registry is the only source of a project.

        :param project: normalised.
        """
        return not self.why_not_of_registry(project)

    def why_not_of_registry(self, project: str) -> str:
        """Return the reason that a project has another source than the registry, as a clause.

        :param project: normalised.
        :return: empty if the registry is the only source.
        """
        from packaging.utils import canonicalize_name

        from wheelfit.sources.urls import redact

        if self.no_index:
            return "no index is used"
        others = [index.url for index in self.indexes if not index.explicit]
        if self.index_url.rstrip("/") != DEFAULT_INDEX:
            others.append(self.index_url)
        urls = (*self.find_links, *others, *self.extra_index_urls)
        if urls:
            return f"{redact(urls[0])} is configured"
        for pin in self.pins:
            if canonicalize_name(pin.project) == project:
                return f"{project} comes from the index {redact(pin.index)}"
        return ""

    def with_options(self, **options: Any) -> SourceSettings:
        """Return the settings changed by options of a command line, by the names of fields.

        As in pip, a list is appended to the configured one, a switch cannot be turned back, and any
        other value replaces the configured one, unless it is None.
        """
        changed: dict[str, Any] = {}
        for name, value in options.items():
            default = getattr(_DEFAULTS, name)
            if isinstance(default, tuple):
                changed[name] = (*getattr(self, name), *value)
            elif value is not None and not (isinstance(default, bool) and value == default):
                changed[name] = value
        return replace(self, **changed)

    @property
    def index_urls(self) -> tuple[str, ...]:
        """The indexes in the order in which they are read; none under ``no_index``."""
        return tuple(index.url for index in self.ordered_indexes)

    @property
    def ordered_indexes(self) -> tuple[NamedIndex, ...]:
        """The indexes of `index_urls` with their origins; the name of an unnamed one is empty."""
        if self.no_index:
            return ()
        named = [index for index in self.indexes if not index.explicit]
        main = NamedIndex("", self.index_url, origin=self.origins.get("index_url", "default"))
        if main.url == DEFAULT_INDEX:
            main = next((index for index in named if index.default), main)
        extra_origin = self.origins.get("extra_index_urls", "")
        extra = [NamedIndex("", url, origin=extra_origin) for url in self.extra_index_urls]
        by_url: dict[str, NamedIndex] = {}
        for index in (*(index for index in named if not index.default), main, *extra):
            by_url.setdefault(index.url, index)
        return tuple(by_url.values())


_DEFAULTS = SourceSettings()
