"""Options of the commands about machines and providers."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.table.sources import CACHE_FOLDER, SHIPPED_BRIDGES
from wheelfit.cli.options.values import (
    ANY_FILE,
    ANY_TEXT,
    ANY_TEXTS,
    FILE,
    FLAG,
    FOLDER,
    TEXT,
    OneOf,
)

PROBE = OptionGroup(
    "",
    Option("[NAMESPACE ...]", ANY_TEXT, "detect these only (default: all)", stored_as="namespaces"),
    Option("-o, --output FILE", FILE, "write a host file; -: print it"),
    Option(
        "--python PYTHON",
        FILE,
        "the interpreter to write into the host file (default: the active one)",
    ),
    Option("--record DIR", FOLDER, "write a record of this machine, to be sent"),
    Option("--replay DIR", FOLDER, "examine a recorded machine instead"),
    *CACHE_FOLDER,
)

LISTED_HOSTS = OptionGroup(
    "", Option("[WORD ...]", ANY_TEXT, "a word to look for", stored_as="names")
)

_HOST = Option("HOST", ANY_FILE, "a host file, a file of conda or pixi, a preset, or `this`")

HOST = OptionGroup(
    "",
    _HOST,
    Option(
        "--format",
        OneOf("conda", "pixi"),
        "print conda's virtual packages of it, or an entry for the platforms of pixi",
        stored_as="form",
    ),
)

COMPARED_HOSTS = OptionGroup(
    "",
    _HOST,
    Option("OTHER", ANY_FILE, "the machine to compare it with"),
    Option("--exit-code", FLAG, "end with 30 if the machines differ"),
)

NEW_HOST = OptionGroup(
    "",
    Option(
        "[PART ...]",
        ANY_FILE,
        "presets, or one host file or file of conda or pixi",
        stored_as="names",
    ),
    Option("-o, --output FILE", FILE, "write the host file here; -: print it"),
    Option("--save NAME", TEXT, "keep it among your own host files instead"),
    Option("--force", FLAG, "overwrite an existing file"),
    Option(
        "--python VERSION",
        TEXT,
        "its Python, as 3.12, 3.12.4 or 3.13t (default: the one in use)",
    ),
    Option("--glibc VERSION", TEXT, "of Linux, as 2.28"),
    Option("--musl VERSION", TEXT, "of Alpine Linux, as 1.2"),
    Option("--macos VERSION", TEXT, "of a Mac, as 14.0"),
)

LISTED_PROVIDERS = OptionGroup("", *CACHE_FOLDER)

PROVIDER = OptionGroup("", Option("NAME", ANY_TEXT, "a namespace or a package"))

NAMESPACES = OptionGroup("", Option("NAMESPACE ...", ANY_TEXT, "a namespace", stored_as="names"))

UNTRUSTED = OptionGroup(
    "",
    Option("PACKAGE ...", ANY_TEXT, "the package of a plugin", stored_as="names"),
    *CACHE_FOLDER,
)

TRUST = OptionGroup(
    "",
    Option("REQUIREMENT ...", ANY_TEXT, "a plugin, as 'acme-provider>=1,<2'", stored_as="names"),
    Option("--python PYTHON", FILE, "the interpreter that will run the plugin"),
    Option("--namespace NAMESPACE", ANY_TEXT, "trust it for this namespace only"),
    Option("--plugin-api MODULE:ATTRIBUTE", ANY_TEXT, "trust it at this endpoint only"),
    Option("--hash sha256:DIGEST", ANY_TEXTS, "trust no file that has none of these"),
    Option("--keep", FLAG, "keep the files trusted before, such as those for another Python"),
    Option("-y, --yes", FLAG, "do not ask"),
)

CHECKED_BRIDGES = OptionGroup(
    "",
    Option(
        "[FAMILY ...]",
        ANY_FILE,
        "a name, or a FAMILY.toml (default: every family that wheelfit has)",
        stored_as="names",
    ),
)

FAMILY_DATA = OptionGroup("", SHIPPED_BRIDGES)

UPDATED_BRIDGES = OptionGroup(
    "",
    Option("--remove", FLAG, "return to the families that ship with wheelfit"),
)

BRIDGES = OptionGroup(
    "", Option("FAMILY ...", ANY_FILE, "a name, or a FAMILY.toml", stored_as="names")
)
