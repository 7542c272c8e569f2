"""Options about the places where files come from."""

from __future__ import annotations

from wheelfit.cli.options.file_tables import INDEXES, PINS
from wheelfit.cli.options.option import Option, OptionGroup, ProjectAccess
from wheelfit.cli.options.values import (
    ANY_TEXT,
    ANY_TEXTS,
    CONNECTIONS,
    COUNT,
    FAMILIES,
    FILE,
    FILES,
    FLAG,
    FOLDER,
    SECONDS,
    TEXT,
    TEXTS,
    OneOf,
)

CACHE_FOLDER = (
    Option("--cache-dir DIR", FOLDER, "keep downloads and pages here"),
    Option("--no-cache-dir", FLAG, "do not use a cache"),
)

UPLOADS = OptionGroup(
    "time of upload",
    Option(
        "--uploaded-prior-to, --exclude-newer TIME",
        TEXT,
        "leave out files of indexes uploaded since: a date or time, or how long ago, as P7D "
        "or '7 days'",
        project=ProjectAccess.NONE,
    ),
    Option(
        "--uploaded-prior-to-package, --exclude-newer-package NAME=TIME",
        ANY_TEXTS,
        "another time for one package, or false for none",
        project=ProjectAccess.NONE,
    ),
)

NAMED_INDEXES = (
    Option(
        "index",
        INDEXES,
        "indexes with names: name, url, and explicit if only pinned projects come from it",
        stored_as="index_table",
        project=ProjectAccess.SET,
    ),
    Option(
        "sources",
        PINS,
        "projects that come from one named index only",
        stored_as="pin_table",
        project=ProjectAccess.SET,
    ),
)

BRIDGES = Option(
    "--bridge FAMILY",
    FAMILIES,
    "present the members of this family as variants: a name of `wheelfit bridges`, "
    "NAME@URL with its indexes elsewhere, a file FAMILY.toml, or all-known; none drops "
    "the default families and those named before, default restores the default families",
    setting="bridges",
    project=ProjectAccess.EMPTY,
    refusal_reason="a bridge decides which packages stand for a name",
)

SHIPPED_BRIDGES = Option(
    "--shipped-bridges",
    FLAG,
    "use the families shipped with wheelfit, not those of `wheelfit bridges update`",
    project=ProjectAccess.TIGHTEN,
)

# Settings of sources that `wheelfit doctor` examines; it has no options for them.
SOURCES_EXAMINED = OptionGroup(
    "",
    *NAMED_INDEXES,
    BRIDGES.off_command_line(),
    SHIPPED_BRIDGES.off_command_line(),
)

SOURCES = OptionGroup(
    "sources",
    Option("-i, --index-url URL", TEXT, "the index"),
    Option(
        "--extra-index-url URL",
        TEXTS,
        "additional index URL; the first index that has a package supplies it",
        default=None,
    ),
    Option(
        "--index-strategy STRATEGY",
        OneOf("first-index", "unsafe-first-match", "unsafe-best-match"),
        "first-index (default): the first that has a project supplies it; "
        "unsafe-first-match: versions of earlier ones go first; unsafe-best-match: the best "
        "version of all; the last two allow dependency confusion",
        default="first-index",
        project=ProjectAccess.NONE,
    ),
    *NAMED_INDEXES,
    Option(
        "-f, --find-links PLACE",
        FILES,
        "a folder of wheels, or a page that links to them, beside the indexes",
        default=None,
    ),
    Option("--no-index", FLAG, "use --find-links only"),
    BRIDGES,
    Option("--no-bridges", FLAG, "present no distribution as a variant"),
    SHIPPED_BRIDGES,
    Option("--proxy URL", ANY_TEXT, "proxy for every request"),
    Option("--cert FILE", FILE, "certificate authorities to trust"),
    Option("--client-cert FILE", FILE, "client certificate with its key"),
    Option(
        "--trusted-host HOST",
        ANY_TEXTS,
        "do not verify the certificate of this host (HOST or HOST:PORT)",
        default=None,
    ),
    Option("--timeout SECONDS", SECONDS, "timeout for a server"),
    Option("--retries N", COUNT, "try a failing request again"),
    Option(
        "--connections N",
        CONNECTIONS,
        "connections to one server that may carry wheels at the same time (default: 4)",
        default=4,
        project=ProjectAccess.NONE,
    ),
    *CACHE_FOLDER,
    Option("--offline", FLAG, "use the cache and folders only"),
    note="defaults: pip's configuration",
)
