"""The settings of a server, from flags, variables, a file, and defaults."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from packaging.utils import canonicalize_name

from wheelfit.core import strict_toml
from wheelfit.core.project_patterns import check_patterns, normalised
from wheelfit.core.sizes import parse_size
from wheelfit.core.table_reader import FirstFault, Table, describe_value
from wheelfit.server.asgi import FORM_SIZE, ClientLimits
from wheelfit.server.hosting.access import OPERATOR
from wheelfit.server.hosting.administration import HostingRules, parse_seconds
from wheelfit.server.hosting.trusted_publishing import TrustedPublisher, check_publisher
from wheelfit.server.hosting.webhooks import EVENTS, Webhook, check_webhook
from wheelfit.server.rebinding_guard import parse_host_name
from wheelfit.server.store.audit import ACTIONS
from wheelfit.server.store.project_rules import ProjectRules
from wheelfit.server.upstream.merged import OwnerRules
from wheelfit.server.upstream.settings import (
    UPLOADS_NAME,
    MirrorSettings,
    check_names,
    mirror_of_table,
    mirror_of_text,
    platforms_of,
    pythons_of,
)
from wheelfit.sources.bridges.catalogue import known_families
from wheelfit.sources.cooldown import parse_cutoff
from wheelfit.sources.urls import parse_public_url
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration, os_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wheelfit.server.forwarded import ForwardingHeaders


PREFIX = "WHEELFIT_SERVER_"
"""The prefix of variables: ``WHEELFIT_SERVER_PUBLIC_URL`` sets ``public-url``."""
_MAX_FILE_SIZE = 1 << 20
_MAX_SECONDS = 36_500 * 86400.0


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server."""

    folder: Path
    """The folder of data without an address of its own."""
    database: str | None
    """The address of the records; None: in the folder."""
    storage: str | None
    """The address of uploaded files; None: in the folder."""
    host: str
    port: int
    fd: int | None
    """A socket of another process to listen on; None: host and port, or a socket of systemd."""
    public_url: str | None
    """Without a slash at the end."""
    allowed_hosts: tuple[str, ...]
    """Host names to answer to, besides those of this machine and of the public URL."""
    trusted_proxies: tuple[str, ...]
    """Addresses and networks of servers in front, whose headers about clients are trusted."""
    proxy_headers: ForwardingHeaders
    """The headers in which they name the client."""
    log_format: Literal["auto", "json", "plain"]
    access_log: bool
    shutdown_timeout: int
    """Seconds."""
    limits: ClientLimits
    rules: HostingRules
    audit_retention: float = 365 * 86400.0
    """Seconds for which entries of the audit log are kept."""
    mirrors: tuple[MirrorSettings, ...] = ()
    """Other indexes whose projects are served too, the most important first."""
    owners: OwnerRules = OwnerRules()
    """Rules about the sources that may supply each project."""
    publishers: tuple[TrustedPublisher, ...] = ()
    """CI jobs that may upload by their identity."""
    webhooks: tuple[Webhook, ...] = ()
    """Servers that are notified of changes."""
    mirror_storage: str | None = None
    """The address of mirrored files; None: in the folder."""
    vulnerabilities: Path | None = None
    """A folder or archive of OSV records; None: vulnerabilities are not reported."""
    denies_vulnerable: bool = False
    """Whether mirrors do not offer releases with known vulnerabilities."""


def read_settings(
    flags: Mapping[str, str | None], environ: Mapping[str, str], file: str | None = None
) -> ServerSettings:
    """Read the settings from flags, variables and a file, in that order of precedence.

    :param flags: the values of flags by key; None where a flag is absent.
    :param file: a TOML file with the same keys.
    :raises InvalidConfiguration: a setting is invalid.
    :raises FileProblem: the file cannot be read.
    """
    content = _read_file(file)
    tables = Table(
        {key: content.pop(key) for key in list(content) if _is_table(key, content[key])},
        FirstFault(InvalidConfiguration, str(file)),
    )
    texts = {key: (str(value), f"file {file}") for key, value in content.items()}
    for key in _KEYS:
        variable = PREFIX + key.upper().replace("-", "_")
        if environ.get(variable):
            texts[key] = (environ[variable], variable)
        if (flag := flags.get(key)) is not None:
            texts[key] = (flag, f"--{key}")
    values: dict[str, Any] = {}
    for key, (parse, default) in _KEYS.items():
        text, origin = texts.get(key, (default, key))
        with _with_origin(origin):
            values[key] = None if text is None else parse(text)
    mirrors = _mirrors(values, texts, tables, environ)
    return ServerSettings(
        folder=values["folder"],
        database=values["database"],
        storage=values["storage"],
        host=values["host"],
        port=values["port"],
        fd=values["fd"],
        public_url=values["public-url"],
        allowed_hosts=values["allowed-host"],
        trusted_proxies=values["trusted-proxy"],
        proxy_headers=values["proxy-headers"],
        log_format=values["log-format"],
        access_log=values["access-log"],
        shutdown_timeout=values["shutdown-timeout"],
        limits=ClientLimits(
            body_size=values["max-file-size"] + FORM_SIZE, connections=values["max-connections"]
        ),
        rules=HostingRules(
            deletes=values["delete"],
            file_size=values["max-file-size"],
            stage_lifetime=values["stage-lifetime"],
            metrics=values["metrics"],
            private=_private(values, tables),
            projects=tuple(map(_project_rules, tables.tables("project"))),
        ),
        audit_retention=values["audit-retention"],
        mirrors=mirrors,
        owners=_owners(values["reserved"], tables, mirrors),
        publishers=_publishers(tables, values["public-url"]),
        webhooks=_webhooks(tables),
        mirror_storage=values["mirror-storage"],
        vulnerabilities=values["vulnerabilities"],
        denies_vulnerable=_deny_vulnerable(values, texts),
    )


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return variables that resemble settings, but are not: most likely typing errors.

    >>> unknown_variables({"WHEELFIT_SERVER_PORT": "1", "WHEELFIT_SERVER_PROT": "1"})
    ('WHEELFIT_SERVER_PROT',)
    """
    variables = {PREFIX + key.upper().replace("-", "_") for key in _KEYS}
    return tuple(
        sorted(name for name in environ if name.startswith(PREFIX) and name not in variables)
    )


def _mirrors(
    values: Mapping[str, Any],
    texts: Mapping[str, tuple[str, str]],
    file: Table,
    environ: Mapping[str, str],
) -> tuple[MirrorSettings, ...]:
    """Return the mirrors that flags name, or the tables of a file."""
    named = values["mirror"]
    if named is None and not file.tables("mirror"):
        return ()
    families = known_families(environ, shipped_bridges=False)
    if named is None:
        mirrors = [mirror_of_table(mirror, families) for mirror in file.tables("mirror")]
    else:
        with _with_origin(texts["mirror"][1]):
            mirrors = [mirror_of_text(text, families) for text in named]
    check_names(mirrors)
    max_size = values["mirror-max-size"]
    return tuple(
        replace(
            mirror,
            max_size=mirror.max_size if max_size is None else max_size,
            python=mirror.python or values["mirror-python"],
            platforms=mirror.platforms or values["mirror-platform"],
            uploaded_prior_to=mirror.uploaded_prior_to or values["uploaded-prior-to"],
        )
        for mirror in mirrors
    )


def _deny_vulnerable(values: Mapping[str, Any], texts: Mapping[str, tuple[str, str]]) -> bool:
    if values["deny-vulnerable"] and values["vulnerabilities"] is None:
        raise InvalidConfiguration(
            "deny-vulnerable needs records of vulnerabilities",
            where=texts["deny-vulnerable"][1],
            hint="name a folder or a zip of OSV records with --vulnerabilities",
        )
    return bool(values["deny-vulnerable"])


@contextmanager
def _with_origin(origin: str) -> Iterator[None]:
    """Add the origin of a setting to errors about it.

    :param origin: a flag, a variable or a file.
    """
    try:
        yield
    except InvalidConfiguration as error:
        error.where = f"{origin}: {error.where}" if error.where else origin
        raise
    except ValueError as error:
        raise InvalidConfiguration(str(error), where=origin) from None


def _owners(
    reserved: tuple[str, ...] | None, file: Table, mirrors: Iterable[MirrorSettings]
) -> OwnerRules:
    """Return the rules about owners."""
    patterns = file.strings("reserved") if reserved is None else reserved
    check_patterns(patterns, where="reserved")
    table = file.table("owners")
    sources = [UPLOADS_NAME, *(mirror.label for mirror in mirrors if not mirror.bridge)]
    for project, name in table.content.items():
        if name not in sources:
            hint = f"name one source: {', '.join(sources)}"
            table.fault(f"must be a source, not {describe_value(name)}", project, hint=hint)
    owners: dict[str, str] = {
        canonicalize_name(project): name for project, name in table.content.items()
    }
    return OwnerRules(owners, patterns)


def _private(values: Mapping[str, Any], tables: Table) -> tuple[str, ...]:
    """Return the patterns of projects that need a token for reading."""
    if values["read"] == "tokens":
        return ("*",)
    patterns = tables.strings("private") if values["private"] is None else values["private"]
    check_patterns(patterns, where="private")
    return tuple(patterns)


def _publishers(tables: Table, public_url: str | None) -> tuple[TrustedPublisher, ...]:
    publishers = tuple(map(_publisher, tables.tables("trusted-publisher")))
    if publishers and public_url is None:
        raise InvalidConfiguration(
            "trusted publishers need public-url, by which their tokens name this index and no other"
        )
    return publishers


def _publisher(table: Table) -> TrustedPublisher:
    """Read a table ``[[trusted-publisher]]``."""
    table.only("projects", "issuer", "claims", "owner")
    claims = table.table("claims")
    projects = table.strings("projects")
    check_patterns(projects, where="trusted-publisher.projects")
    publisher = TrustedPublisher(
        frozenset(map(normalised, projects)),
        table.required("issuer"),
        {name: claims.required(name) for name in claims.content},
        table.string("owner") or OPERATOR,
    )
    check_publisher(publisher)
    return publisher


def _project_rules(table: Table) -> ProjectRules:
    """Read a table ``[[project]]``."""
    table.only("names", *_PROJECT_KEYS)
    names = table.strings("names")
    check_patterns(names, where="project.names")
    if not names:
        table.fault("is missing", "names")
    values = {}
    for key, parse in _PROJECT_KEYS.items():
        value = table.content.get(key)
        if type(value) is int or isinstance(value, str):
            values[key.replace("-", "_")] = table.parsed(parse, str(value), key)
        elif value is not None:
            table.must_be("a string or a number", value, key)
    return ProjectRules(names, **values)


def _webhooks(tables: Table) -> tuple[Webhook, ...]:
    """Read the tables ``[[webhook]]``."""
    webhooks = []
    for table in tables.tables("webhook"):
        table.only("url", "secret", "events", "projects", "private-address")
        events, projects = table.strings("events"), table.strings("projects")
        check_patterns(projects, where="webhook.projects")
        if unknown := [event for event in events if event not in ACTIONS]:
            table.fault(f"is none of {', '.join(ACTIONS)}", "events", events.index(unknown[0]))
        webhook = Webhook(
            url=table.required("url"),
            secret=table.required("secret"),
            events=events or EVENTS,
            projects=projects or ("*",),
            may_be_private=table.flag("private-address"),
        )
        check_webhook(webhook)
        webhooks.append(webhook)
    if len({webhook.id for webhook in webhooks}) < len(webhooks):
        raise InvalidConfiguration("two webhooks have the same url")
    return tuple(webhooks)


def _read_file(file: str | None) -> dict[str, object]:
    """Return the content of a settings file: tables, and other values as flags have them."""
    if file is None:
        return {}
    path = Path(file)
    try:
        if path.stat().st_size > _MAX_FILE_SIZE:
            raise InvalidConfiguration("the settings file is too large", where=file)
        content = strict_toml.load(path.read_bytes())
    except OSError as error:
        raise FileProblem(f"the file cannot be read: {os_reason(error)}", where=file) from None
    except ValueError as error:
        raise InvalidConfiguration(f"the file is not TOML: {error}", where=file) from None
    for key, value in content.items():
        if _is_table(key, value):
            continue
        if key not in _KEYS:
            known_keys = dict.fromkeys((*_KEYS, *_TABLES))
            raise InvalidConfiguration(
                f"unknown setting {key!r}", where=file, hint=f"there are {', '.join(known_keys)}"
            )
        if isinstance(value, bool):
            content[key] = "yes" if value else "no"
        elif key in _LISTS and isinstance(value, list):
            content[key] = " ".join(map(str, value))
        elif not isinstance(value, (str, int)):
            kinds = "a string or a list of strings" if key in _LISTS else "a string or a number"
            raise InvalidConfiguration(f"{key} must be {kinds}", where=file)
    return content


def _is_table(key: str, value: object) -> bool:
    """Return whether a value of a file is read as a table or a list, not as that of a flag."""
    is_value_of_flag = key in _KEYS and isinstance(value, str)  # a key may be in both
    return key in _TABLES and not is_value_of_flag


def _choice(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text[:40]!r} is none of {', '.join(words)}")
        return text

    return parse


def _number(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= 20
        if not (is_number and minimum <= int(text) <= maximum):
            raise ValueError(f"{text[:40]!r} is not a number from {minimum} to {maximum}")
        return int(text)

    return parse


def _duration(text: str) -> float:
    seconds = parse_seconds(text)
    if seconds > _MAX_SECONDS:
        raise ValueError(f"{text[:40]!r} is longer than a hundred years")
    return seconds


def _deletes(text: str) -> str | timedelta:
    if text in ("never", "admin"):
        return text
    try:
        return timedelta(seconds=_duration(text))
    except (InvalidConfiguration, ValueError):
        raise ValueError(f"{text[:40]!r} is none of never, admin, and a time as 72h") from None


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise ValueError(f"{text[:80]!r} is neither an address nor a network") from None


def _cutoff(text: str) -> str:
    if text:
        parse_cutoff(text)
    return text


def _flag(text: str) -> bool:
    return _choice("yes", "no", "true", "false", "1", "0")(text.lower()) in ("yes", "true", "1")


_PROJECT_KEYS: Mapping[str, Callable[[str], Any]] = {
    "max-size": parse_size,
    "max-files": _number(0, 1 << 40),
    "max-file-size": parse_size,
    "keep-releases": _number(1, 1 << 20),
    "prerelease-retention": lambda text: timedelta(seconds=_duration(text)),
    "dev-release-retention": lambda text: timedelta(seconds=_duration(text)),
}
"""The rules for projects, with the reader of each."""
_TABLES = (
    "mirror", "owners", "reserved", "private", "trusted-publisher", "webhook", "project",
)  # fmt: skip
"""Keys of tables and lists in a file; of these, only ``mirror``, ``reserved`` and ``private`` can
be set elsewhere too.
"""
_LISTS = ("allowed-host", "trusted-proxy", "mirror-python", "mirror-platform")
"""Keys with several values: a list, or a string with spaces between them."""
_KEYS = cast(
    "Mapping[str, tuple[Callable[[str], object], str | None]]",
    {
        "folder": (Path, "."),
        "database": (str, None),
        "storage": (str, None),
        "host": (str, "127.0.0.1"),
        "port": (_number(0, 65535), "8942"),
        "fd": (_number(0, 1 << 20), None),
        "public-url": (parse_public_url, None),
        "allowed-host": (lambda text: tuple(map(parse_host_name, text.split())), ""),
        "trusted-proxy": (lambda text: tuple(map(_network, text.split())), ""),
        "proxy-headers": (_choice("x-forwarded", "forwarded"), "x-forwarded"),
        "log-format": (_choice("auto", "json", "plain"), "auto"),
        "access-log": (_flag, "yes"),
        "metrics": (_choice("operator", "everybody"), "operator"),
        "read": (_choice("everybody", "tokens"), "everybody"),
        "private": (lambda text: tuple(text.split()), None),
        "delete": (_deletes, "admin"),
        "max-file-size": (parse_size, "10GiB"),
        "max-connections": (_number(1, 1 << 20), "2000"),
        "shutdown-timeout": (_number(0, 86400), "60"),
        "stage-lifetime": (_duration, "7d"),
        "audit-retention": (_duration, "365d"),
        "mirror": (lambda text: tuple(text.split()), None),
        "mirror-max-size": (parse_size, None),
        "mirror-python": (lambda text: pythons_of(text.split()), ""),
        "mirror-platform": (lambda text: platforms_of(text.split()), ""),
        "mirror-storage": (str, None),
        "vulnerabilities": (Path, None),
        "deny-vulnerable": (_flag, "no"),
        "uploaded-prior-to": (_cutoff, ""),
        "reserved": (lambda text: tuple(text.split()), None),
    },
)
"""Each key with its reader and its default."""
