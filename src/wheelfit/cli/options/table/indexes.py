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
    FILES,
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
    Option(
        "--database URL",
        TEXT,
        "where records are: sqlite:///FILE or postgresql://USER@HOST/NAME (default: in DIR)",
    ),
    Option(
        "--storage URL",
        TEXT,
        "where files are: file:///FOLDER or s3://BUCKET/PREFIX (default: in DIR)",
    ),
)

PLACE = OptionGroup(
    "",
    Option(
        "--at PLACE",
        ADDRESS_OF_INDEX,
        "the index: the URL of its server, which asks for a token in WHEELFIT_INDEX_TOKEN; "
        "or the DIR of its store (default: the current folder)",
        default=".",
    ),
)

EXPORT_FOLDER = OptionGroup("", Option("FOLDER", FOLDER, "the folder of the export"))

IMPORT = OptionGroup(
    "",
    Option(
        "SOURCE",
        FILE,
        "the folder of an export of wheelfit or devpi, a folder of packages, or the URL of an "
        "index",
    ),
    Option("--project NAME", TEXTS, "import this project only", stored_as="projects"),
    Option("--owner NAME", TEXT, "the owner of new projects (default: admin)", default="admin"),
    Option("--dry-run", FLAG, "show how many files and bytes would be imported, without importing"),
)

FILES_OF_INDEX = OptionGroup(
    "",
    Option("WHAT ...", TEXT, "the name of a file, a release as NAME==VERSION, or a project"),
)

GENERATE = OptionGroup(
    "",
    Option("DIR", FOLDER, "the folder with the wheels", stored_as="folder"),
    Option(
        "--to TARGET",
        FILE,
        "a folder, or a URL as s3://bucket/prefix, that gets pages and files (default: pages "
        "into DIR, which keeps the files)",
    ),
    Option(
        "--release NAME==VERSION",
        ANY_TEXTS,
        "publish this release only, all of it or nothing, and leave others as they are",
    ),
    Option("--keep-going", FLAG, "publish the valid files although others are refused"),
    Option("--full", FLAG, "compare all content of new wheels with RECORD"),
    Option(
        "--replace", FLAG, "accept files that were published with other content under the same name"
    ),
    Option("--prune", FLAG, "remove files that no page names, now and before the last change"),
    Option("--allow-empty", FLAG, "remove all projects of the index if DIR has nothing to publish"),
    Option("--site", FLAG, "write pages for people beside the index (needs the extra `server`)"),
    Option(
        "--public-url URL",
        TEXT,
        "the URL of the published index, for the commands on the pages of --site",
    ),
)

CHECK_INDEX = OptionGroup(
    "",
    Option("INDEX", FILE, "the index: a URL or a folder"),
    Option("--project NAME", ANY_TEXTS, "check this project only", stored_as="only"),
    Option("--full", FLAG, "compare all content with RECORD and with the hashes on pages"),
)

CONVERT_INDEX = OptionGroup(
    "",
    Option("SOURCE", FILE, "the old index, as a URL or a folder"),
    Option(
        "--to TARGET",
        FILE,
        "a folder, or a URL as s3://bucket/prefix, that gets the new index",
        is_required=True,
    ),
    Option("--accept-losses", FLAG, "drop what the current layout cannot express"),
    Option(
        "--keep-going", FLAG, "publish the converted files although others could not be converted"
    ),
)

SERVE = OptionGroup(
    "",
    Option(
        "[DIR]", FOLDER, "the folder of the index (default: the current one)", stored_as="folder"
    ),
    Option("--settings FILE", FILE, "read settings from a TOML file"),
)

SERVER = OptionGroup(
    "server",
    Option(
        "--host ADDRESS", TEXT, "listen at this address (default: 127.0.0.1: this machine only)"
    ),
    Option("--port N", TEXT, "listen at this port (default: 8942; 0: any that is free)"),
    Option("--fd N", TEXT, "accept connections from this open socket, which outlives the server"),
    Option(
        "--public-url URL",
        TEXT,
        "URL under which clients reach the server, if behind a reverse proxy",
    ),
    Option("--max-file-size SIZE", TEXT, "largest upload (default: 10GiB)"),
    Option("--max-connections N", TEXT, "maximum number of connections (default: 2000)"),
    Option(
        "--read WHO",
        TEXT,
        "readers of pages and files: everybody (default), or tokens: clients with a token",
    ),
    Option(
        "--private PATTERN",
        TEXTS,
        "projects that only a token for them can read, as acme-*",
        default=None,
    ),
    Option(
        "--delete WHO",
        TEXT,
        "who may delete files: never, admin (tokens of that scope; default), or for a time such as "
        "72h also their uploader",
    ),
    Option("--stage-lifetime TIME", TEXT, "how long a stage waits to be published (default: 7d)"),
    Option("--audit-retention TIME", TEXT, "time to keep entries of the audit log (default: 365d)"),
    Option("--metrics WHO", TEXT, "who sees the metrics: operator (default) or everybody"),
    Option(
        "--log-format FORMAT",
        TEXT,
        "json, plain, or auto (default): words on a terminal, else JSON",
    ),
    Option("--access-log yes/no", TEXT, "log every request (default: yes)"),
    Option(
        "--shutdown-timeout SECONDS",
        TEXT,
        "time to finish running requests when it stops (default: 60)",
    ),
    Option(
        "--allowed-host HOST",
        HOSTS,
        "answer requests for this host name (default: any; on a loopback address, the names "
        "of this machine and the host of --public-url)",
        default=None,
    ),
    Option(
        "--trusted-proxy ADDRESS",
        TEXTS,
        "trust the forwarding headers of a proxy at this address or network (default: none)",
        default=None,
    ),
    Option(
        "--proxy-headers KIND",
        TEXT,
        "the headers of trusted proxies: x-forwarded (X-Forwarded-For, -Proto and -Host; default) "
        "or forwarded (RFC 7239)",
    ),
)

MIRRORS = OptionGroup(
    "mirrors",
    Option(
        "--mirror [NAME=]URL|FAMILY",
        TEXTS,
        "mirror this index too, after uploads and earlier mirrors; or the indexes of a "
        "bridge, as pytorch, at an address of their own",
        default=None,
    ),
    Option(
        "--mirror-python VERSION",
        TEXTS,
        "mirror wheels for this Python only, as 3.12",
        default=None,
    ),
    Option(
        "--mirror-platform PLATFORM",
        TEXTS,
        "mirror wheels for this platform only, as linux_x86_64",
        default=None,
    ),
    Option(
        "--vulnerabilities PATH",
        TEXT,
        "show the known vulnerabilities of releases, from a folder or zip of OSV records",
    ),
    Option(
        "--deny-vulnerable yes/no",
        TEXT,
        "do not offer mirrored releases with known vulnerabilities (default: no)",
    ),
    Option(
        "--uploaded-prior-to TIME",
        TEXT,
        "offer mirrored files uploaded before this date or, as P7D, at least this long ago",
    ),
    Option(
        "--reserved PATTERN", TEXTS, "projects that no mirror may supply, as acme-*", default=None
    ),
    Option("--mirror-max-size SIZE", TEXT, "most space for mirrored files (default: unlimited)"),
    Option(
        "--mirror-storage URL",
        TEXT,
        "where mirrored files are kept, as --storage (default: in DIR)",
    ),
)

PREFETCH = OptionGroup(
    "",
    Option(
        "[REQUIREMENT ...]",
        ANY_TEXT,
        "a project, or the releases of one, as torch or 'torch>=2.8'",
        stored_as="requirements",
    ),
    Option("-r, --requirement FILE", FILES, "read requirements from a file in pip's format"),
    Option("--lock FILE", FILE, "fetch the files that this pylock.toml names"),
    Option("--family NAME", TEXTS, "fetch from the mirrored indexes of this bridge, as pytorch"),
    Option(
        "--accelerator PATTERN",
        ANY_TEXTS,
        "only variant wheels with a matching label, and matching folders of a family, as cpu or "
        "'cu13*'",
    ),
    Option("--dry-run", FLAG, "count the files that would be fetched, and stop"),
    Option(
        "--at DIR",
        FOLDER,
        "the folder of the index (default: the current one)",
        default=".",
    ),
    Option("--settings FILE", FILE, "read the settings of the server from a TOML file"),
)

TOKEN = OptionGroup("", Option("ID", ANY_TEXT, "the ID of a token in `list`", stored_as="token"))

NEW_TOKEN = OptionGroup(
    "",
    Option(
        "--project NAME",
        TEXTS,
        "valid for this project only, or for those with a prefix, as acme-*; also for reading",
    ),
    Option(
        "--scope",
        OneOf("read", "upload", "admin"),
        "read private projects only; upload, yank and publish (default); or also delete and manage",
        default="upload",
    ),
    Option(
        "--owner NAME",
        TEXT,
        "the owner of the projects that it is for, and of new ones (default: admin)",
        default="admin",
    ),
    Option("--expires TIME", TEXT, "time for which it is valid, as 90d (default: for ever)"),
    Option("--note TEXT", ANY_TEXT, "description shown in lists", default=""),
)

CLEAN = OptionGroup(
    "",
    Option(
        "--settings FILE",
        FILE,
        "also remove the releases that the rules for projects in the server's settings name",
    ),
    Option("--dry-run", FLAG, "list those releases, and remove nothing"),
)

AUDIT = OptionGroup(
    "",
    Option("--project NAME", TEXT, "only changes of this project"),
    Option(
        "--actor WHO",
        TEXT,
        "changes by this owner, token or address, or with this in their note",
    ),
    Option("--action ACTION", TEXT, "only this action, as yank or create-token"),
    Option("--refused", FLAG, "only refused changes"),
    Option("--since TIME", TEXT, "changes from this date or time on, or of the last 7d"),
    Option("--until TIME", TEXT, "changes before this date or time, or older than 7d"),
    Option("--max-count N", TEXT, "the N newest entries (default: 100)"),
)

STAGE = OptionGroup("", Option("STAGE", ANY_TEXT, "the ID that `open` printed"))

NEW_STAGE = OptionGroup(
    "",
    Option(
        "--expires TIME", TEXT, "how long it may wait to be published (default: 7d)", default="7d"
    ),
    Option("--owner NAME", TEXT, "its owner (default: that of the token; with a store, admin)"),
)

YANK = OptionGroup(
    "", Option("--reason TEXT", ANY_TEXT, "the reason, which installers show", default="")
)

PROJECT_STATUS = OptionGroup(
    "",
    Option("PROJECT", TEXT, "the project"),
    Option(
        "STATUS",
        OneOf("active", "archived", "deprecated", "quarantined"),
        "the new status: archived and quarantined projects accept no uploads, and quarantined "
        "ones serve no files",
    ),
    Option("--reason TEXT", ANY_TEXT, "the reason, which installers show", default=""),
)

DELETE = OptionGroup("", Option("--yes", FLAG, "delete without confirmation"))

PUBLISH = OptionGroup(
    "",
    Option(
        "[PATH ...]",
        FILE,
        "a wheel, a source distribution, or a folder of them (default: `dist` of the project)",
        stored_as="paths",
    ),
    Option(
        "--to PLACE",
        FILE,
        "the URL of an index, its name in .pypirc, or the folder or object store of a static one",
        is_required=True,
    ),
    Option(
        "--dry-run",
        FLAG,
        "check everything and show what would be uploaded and chosen by installers, "
        "without uploading",
    ),
    Option("--check-url URL", TEXT, "URL of the index's pages (default: derived from --to)"),
    Option(
        "--session-url URL",
        TEXT,
        "the root of the index's publishing sessions (PEP 694), which show all files at once",
    ),
    Option(
        "--one-by-one",
        FLAG,
        "publish every file as soon as it is sent, also where the index supports sessions",
    ),
    Option("--attest", FLAG, "sign files with the identity of this CI job, and send it (PEP 740)"),
    Option(
        "--sigstore FILE",
        FILE,
        "sign with another sigstore than the public one: its client trust configuration",
    ),
    Option(
        "--publish-timeout SECONDS",
        PATIENCE,
        "time to wait until the index lists the files (default: 15)",
        default=15.0,
    ),
    Option(
        "--project DIR",
        FOLDER,
        "the project, whose pyproject.toml lists the labels of a release (default: the "
        "current folder)",
        default=".",
    ),
)

UPLOAD_CHECKS = OptionGroup(
    "checks",
    *COUNTING,
    Option(
        "--file-limit SIZE",
        BYTES,
        "largest file that the index accepts, as 300MB (default: known limits of the index)",
    ),
    Option(
        "--project-limit SIZE",
        BYTES,
        "most space that the index gives a project, as 20GB (default: known limits of the index)",
    ),
)

UPLOAD_NETWORK = OptionGroup(
    "network",
    Option(
        "--trusted-publishing",
        OneOf("automatic", "always", "never"),
        "upload with the identity of this CI job, if the index trusts it (default: automatic: only "
        "if no login is given)",
        default="automatic",
    ),
    Option("--cert PATH", FILE, "certificates to trust instead of the system's"),
    Option("--client-cert PATH", FILE, "private key and certificate in one file"),
)
