"""Options of the commands that publish wheels and run indexes."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.table.checking import COUNTING
from wheelfit.cli.options.values import (
    ADDRESS_OF_INDEX,
    ANY_TEXT,
    ANY_TEXTS,
    BYTES,
    FILE,
    FLAG,
    FOLDER,
    HOSTS,
    PATIENCE,
    TEXT,
    TEXTS,
    OneOf,
)

STORE = OptionGroup(
    "store",
    (
        Option(
            "--database",
            TEXT,
            "where records are: sqlite:///FILE or postgresql://USER@HOST/NAME (default: in DIR)",
            metavar="URL",
        ),
        Option(
            "--storage",
            TEXT,
            "where files are: file:///FOLDER or s3://BUCKET/PREFIX (default: in DIR)",
            metavar="URL",
        ),
    ),
)

PLACE = OptionGroup(
    "",
    (
        Option(
            "--at",
            ADDRESS_OF_INDEX,
            "the index: the URL of its server, which asks for a token in WHEELFIT_INDEX_TOKEN; "
            "or the DIR of its store (default: the current folder)",
            metavar="PLACE",
            default=".",
        ),
    ),
)

FILES_OF_INDEX = OptionGroup(
    "",
    (
        Option(
            "WHAT", TEXT, "the name of a file, a release as NAME==VERSION, or a project", number="+"
        ),
    ),
)

GENERATE = OptionGroup(
    "",
    (
        Option("DIR", FOLDER, "the folder with the wheels", stored_as="folder"),
        Option(
            "--to",
            FILE,
            "a folder, or a URL as s3://bucket/prefix, that gets pages and files (default: pages "
            "into DIR, which keeps the files)",
            metavar="TARGET",
        ),
        Option(
            "--release",
            ANY_TEXTS,
            "publish this release only, all of it or nothing, and leave others as they are",
            metavar="NAME==VERSION",
        ),
        Option("--keep-going", FLAG, "publish what is sound although something is refused"),
        Option("--full", FLAG, "compare all content of new wheels with RECORD"),
        Option(
            "--replace",
            FLAG,
            "take files that were published with other content under the same name",
        ),
        Option(
            "--prune",
            FLAG,
            "remove files that no page names, nor did when the index was last changed",
        ),
        Option(
            "--allow-empty", FLAG, "remove all projects of the index if DIR has nothing to publish"
        ),
        Option(
            "--tracks",
            TEXTS,
            "say that this project adds to the one of that page (PEP 708)",
            metavar="PROJECT=URL",
        ),
        Option(
            "--alternate",
            TEXTS,
            "say that the project of that page on another index is the same (PEP 708)",
            metavar="PROJECT=URL",
        ),
        Option(
            "--site", FLAG, "write pages for people beside the index (needs the extra `server`)"
        ),
        Option(
            "--public-url",
            TEXT,
            "where the index will be found, for the commands on the pages of --site",
            metavar="URL",
        ),
        Option(
            "--memory",
            FILE,
            "remember here what was learnt of the files (default: beside the pages; for a URL "
            "hidden in DIR)",
            metavar="FILE",
        ),
    ),
)

CHECK_INDEX = OptionGroup(
    "",
    (
        Option("INDEX", FILE, "the index: a URL or a folder"),
        Option(
            "--project", ANY_TEXTS, "look at this project only", metavar="NAME", stored_as="only"
        ),
        Option("--full", FLAG, "compare all content with RECORD and with the hashes on pages"),
    ),
)

CONVERT_INDEX = OptionGroup(
    "",
    (
        Option("SOURCE", FILE, "the old index: a URL, or the folder of it"),
        Option(
            "--to",
            FILE,
            "a folder, or a URL as s3://bucket/prefix, that gets the new index",
            metavar="TARGET",
            is_required=True,
        ),
        Option(
            "--rewrite-wheels",
            FLAG,
            "write wheels of this machine anew whose variant.json has an old layout",
        ),
        Option("--accept-losses", FLAG, "let go what the current layout cannot say"),
        Option(
            "--keep-going", FLAG, "publish what could be converted although something could not"
        ),
        Option(
            "--replace",
            FLAG,
            "take files that were published with other content under the same name",
        ),
    ),
)

SERVE = OptionGroup(
    "",
    (
        Option(
            "DIR",
            FOLDER,
            "the folder of the index (default: the current one)",
            number="?",
            stored_as="folder",
        ),
        Option("--settings", FILE, "read settings from a TOML file", metavar="FILE"),
    ),
)

SERVER = OptionGroup(
    "server",
    (
        Option(
            "--host",
            TEXT,
            "listen at this address (default: 127.0.0.1: this machine only)",
            metavar="ADDRESS",
            stored_as="serve_host",
        ),
        Option(
            "--port",
            TEXT,
            "listen at this port (default: 8942; 0: any that is free)",
            metavar="N",
            stored_as="serve_port",
        ),
        Option(
            "--fd",
            TEXT,
            "take connections from this open socket, which outlives the server",
            metavar="N",
            stored_as="serve_fd",
        ),
        Option(
            "--public-url",
            TEXT,
            "where clients find the server, if another one stands in front",
            metavar="URL",
            stored_as="serve_public_url",
        ),
        Option(
            "--max-file",
            TEXT,
            "take no larger files (default: 10GiB)",
            metavar="SIZE",
            stored_as="serve_max_file",
        ),
        Option(
            "--max-connections",
            TEXT,
            "hold at most so many connections (default: 2000)",
            metavar="N",
            stored_as="serve_max_connections",
        ),
        Option(
            "--read",
            TEXT,
            "who sees pages and files: everybody (default), or tokens: who shows one",
            metavar="WHO",
            stored_as="serve_read",
        ),
        Option(
            "--delete",
            TEXT,
            "never, admin (tokens of that scope; default), or for how long whoever uploaded may "
            "too",
            metavar="WHO",
            stored_as="serve_delete",
        ),
        Option(
            "--stage-lasts",
            TEXT,
            "how long a stage waits to be published (default: 7d)",
            metavar="TIME",
            stored_as="serve_stage_lasts",
        ),
        Option(
            "--metrics",
            TEXT,
            "who sees the metrics: operator (default) or everybody",
            metavar="WHO",
            stored_as="serve_metrics",
        ),
        Option(
            "--log",
            TEXT,
            "json, plain, or auto (default): words on a terminal, else JSON",
            metavar="FORM",
            stored_as="serve_log",
        ),
        Option(
            "--log-requests",
            TEXT,
            "write down every request (default: yes)",
            metavar="yes/no",
            stored_as="serve_log_requests",
        ),
        Option(
            "--stop-within",
            TEXT,
            "time for what is under way when it ends (default: 60)",
            metavar="SECONDS",
            stored_as="serve_stop_within",
        ),
        Option(
            "--mirror-most",
            TEXT,
            "keep so much of mirrored files (default: as much as there is)",
            metavar="SIZE",
            stored_as="serve_mirror_most",
        ),
        Option(
            "--mirror-storage",
            TEXT,
            "where mirrored files are kept, as --storage (default: in DIR)",
            metavar="URL",
            stored_as="serve_mirror_storage",
        ),
        Option(
            "--answer-to",
            HOSTS,
            "answer requests for this host name (default: any; on a loopback address, the names "
            "of this machine and the host of --public-url)",
            metavar="HOST",
            default=None,
        ),
        Option(
            "--mirror",
            TEXTS,
            "serve what this index has too; uploads and earlier ones count more; or the indexes "
            "of a bridge, as pytorch, at an address of their own",
            metavar="[NAME=]URL|FAMILY",
            default=None,
        ),
        Option(
            "--reserved",
            TEXTS,
            "projects that no mirror may supply, as acme-*",
            metavar="PATTERN",
            default=None,
        ),
    ),
)

TOKEN = OptionGroup("", (Option("ID", ANY_TEXT, "what `list` calls it", stored_as="token"),))

NEW_TOKEN = OptionGroup(
    "",
    (
        Option("--project", TEXTS, "good for this project only", metavar="NAME"),
        Option(
            "--scope",
            OneOf("read", "upload", "admin"),
            "only to read an index with --read tokens; to upload, yank and publish (default); or "
            "also to delete and manage",
            default="upload",
        ),
        Option(
            "--owner",
            TEXT,
            "whose projects it is for, and who owns new ones (default: admin)",
            metavar="NAME",
            default="admin",
        ),
        Option("--expires", TEXT, "good for so long, as 90d (default: always)", metavar="TIME"),
        Option("--note", ANY_TEXT, "what it is for, in lists", metavar="TEXT", default=""),
    ),
)

STAGE = OptionGroup("", (Option("STAGE", ANY_TEXT, "what `open` called it"),))

NEW_STAGE = OptionGroup(
    "",
    (
        Option(
            "--lasts",
            TEXT,
            "how long it may wait to be published (default: 7d)",
            metavar="TIME",
            default="7d",
        ),
        Option("--owner", TEXT, "whose it is (default: admin)", metavar="NAME", default="admin"),
    ),
)

YANK = OptionGroup(
    "", (Option("--reason", ANY_TEXT, "why, which installers show", metavar="TEXT", default=""),)
)

DELETE = OptionGroup("", (Option("--yes", FLAG, "delete without being asked again"),))

PUBLISH = OptionGroup(
    "",
    (
        Option(
            "PATH",
            FILE,
            "a wheel, a source distribution, or a folder of them (default: `dist` of the project)",
            number="*",
            stored_as="paths",
        ),
        Option(
            "--to",
            FILE,
            "the URL of an index, its name in .pypirc, or the folder or object store of a static "
            "one",
            metavar="PLACE",
            is_required=True,
        ),
        Option(
            "--dry-run",
            FLAG,
            "check everything, say what would be sent and what installers would take, and stop",
        ),
        Option(
            "--check-url",
            TEXT,
            "where the index lists what it has (default: found out from --to)",
            metavar="URL",
        ),
        Option(
            "--session-url",
            TEXT,
            "the root of the index's publishing sessions (PEP 694), which show all files at once",
            metavar="URL",
        ),
        Option(
            "--one-by-one",
            FLAG,
            "let every file be seen as soon as it is sent, also where the index could wait",
        ),
        Option(
            "--attest",
            FLAG,
            "sign files with the identity of this CI job (PEP 740), and send that",
        ),
        Option(
            "--sigstore",
            FILE,
            "sign with another sigstore than the public one: its client trust configuration",
            metavar="FILE",
        ),
        Option(
            "--patience",
            PATIENCE,
            "how long the index is asked whether it lists what it was sent (default: 15)",
            metavar="SECONDS",
            default=15.0,
        ),
        Option(
            "--project",
            FOLDER,
            "the project, whose pyproject.toml says which labels a release has (default: the "
            "current folder)",
            metavar="DIR",
            default=".",
        ),
    ),
)

UPLOAD_CHECKS = OptionGroup(
    "checks",
    (
        *COUNTING,
        Option(
            "--file-limit",
            BYTES,
            "how large a file the index takes, as 300MB (default: what is known of it)",
            metavar="SIZE",
        ),
        Option(
            "--project-limit",
            BYTES,
            "how much the index takes of a project, as 20GB (default: what is known of it)",
            metavar="SIZE",
        ),
    ),
)

UPLOAD_NETWORK = OptionGroup(
    "network",
    (
        Option(
            "--trusted-publishing",
            OneOf("automatic", "always", "never"),
            "upload as the CI job that this is, if the index trusts it (default: automatic, "
            "where no login is found)",
            default="automatic",
        ),
        Option("--cert", FILE, "certificates to trust instead of the system's", metavar="PATH"),
        Option("--client-cert", FILE, "private key and certificate in one file", metavar="PATH"),
    ),
)
