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
    (
        Option(
            "NAMESPACE",
            ANY_TEXT,
            "look at these only (default: all)",
            number="*",
            stored_as="namespaces",
        ),
        Option("--output", FILE, "write a host file; -: print it", short="-o", metavar="FILE"),
        Option(
            "--python",
            FILE,
            "the interpreter to write into the host file (default: the active one)",
            metavar="PYTHON",
        ),
        Option("--record", FOLDER, "write a record of this machine, to be sent", metavar="DIR"),
        Option("--replay", FOLDER, "look at a recorded machine instead", metavar="DIR"),
        *CACHE_FOLDER,
    ),
)

LISTED_HOSTS = OptionGroup(
    "", (Option("WORD", ANY_TEXT, "a word to look for", number="*", stored_as="names"),)
)

_HOST = Option("HOST", ANY_FILE, "a host file, a file of conda or pixi, a preset, or this")

HOST = OptionGroup(
    "",
    (
        _HOST,
        Option(
            "--format",
            OneOf("conda", "pixi"),
            "print conda's virtual packages of it, or an entry for the platforms of pixi",
            stored_as="form",
        ),
    ),
)

COMPARED_HOSTS = OptionGroup(
    "",
    (
        _HOST,
        Option("OTHER", ANY_FILE, "the one to compare it with"),
        Option("--exit-code", FLAG, "end with 30 if the machines differ"),
    ),
)

NEW_HOST = OptionGroup(
    "",
    (
        Option(
            "PART",
            ANY_FILE,
            "presets, or one host file or file of conda or pixi",
            number="*",
            stored_as="names",
        ),
        Option(
            "--output", FILE, "write the host file here; -: print it", short="-o", metavar="FILE"
        ),
        Option("--save", TEXT, "keep it among your own host files instead", metavar="NAME"),
        Option("--force", FLAG, "replace a file that is there"),
        Option(
            "--python",
            TEXT,
            "its Python, as 3.12, 3.12.4 or 3.13t (default: the one in use counts)",
            metavar="VERSION",
        ),
        Option("--platform", TEXT, "as linux-x86_64 or macos-arm64", metavar="PLATFORM"),
        Option("--glibc", TEXT, "of Linux, as 2.28", metavar="VERSION"),
        Option("--musl", TEXT, "of Alpine Linux, as 1.2", metavar="VERSION"),
        Option("--macos", TEXT, "of a Mac, as 14.0", metavar="VERSION"),
        Option(
            "--level",
            TEXT,
            "of the processor: v1 to v4, or an Arm version as 8.2a",
            metavar="LEVEL",
        ),
        Option("--cuda", TEXT, "of NVIDIA's driver, as 12.8", metavar="VERSION"),
        Option("--sm", TEXT, "of an NVIDIA GPU, as 90", metavar="NN"),
        Option("--rocm", TEXT, "as 6.4", metavar="VERSION"),
        Option("--gfx", TEXT, "of an AMD GPU, as gfx942", metavar="NAME"),
    ),
)

LISTED_PROVIDERS = OptionGroup(
    "",
    (
        Option("--python", FILE, "the interpreter whose packages are looked at", metavar="PYTHON"),
        *CACHE_FOLDER,
    ),
)

PROVIDER = OptionGroup("", (Option("NAME", ANY_TEXT, "a namespace or a package"),))

NAMESPACES = OptionGroup(
    "", (Option("NAMESPACE", ANY_TEXT, "a namespace", number="+", stored_as="names"),)
)

UNTRUSTED = OptionGroup(
    "",
    (
        Option("PACKAGE", ANY_TEXT, "the package of a plugin", number="+", stored_as="names"),
        *CACHE_FOLDER,
    ),
)

TRUST = OptionGroup(
    "",
    (
        Option(
            "REQUIREMENT",
            ANY_TEXT,
            "a plugin, as 'acme-provider>=1,<2'",
            number="+",
            stored_as="names",
        ),
        Option("--python", FILE, "the interpreter that will run the plugin", metavar="PYTHON"),
        Option("--namespace", ANY_TEXT, "trust it for this namespace only", metavar="NAMESPACE"),
        Option(
            "--plugin-api", ANY_TEXT, "trust it at this endpoint only", metavar="MODULE:ATTRIBUTE"
        ),
        Option(
            "--hash", ANY_TEXTS, "trust no file that has none of these", metavar="sha256:DIGEST"
        ),
        Option("--keep", FLAG, "keep the files trusted so far, as those for another Python"),
        Option(
            "--try",
            FLAG,
            "then install the plugin in an environment of its own, and show what it says",
            stored_as="attempt",
        ),
        Option("--yes", FLAG, "do not ask", short="-y"),
    ),
)

CHECKED_BRIDGES = OptionGroup(
    "",
    (
        Option(
            "FAMILY",
            ANY_FILE,
            "a name, or a FAMILY.toml (default: every family that wheelfit has)",
            number="*",
            stored_as="names",
        ),
    ),
)

FAMILY_DATA = OptionGroup("", (SHIPPED_BRIDGES,))

UPDATED_BRIDGES = OptionGroup(
    "",
    (Option("--remove", FLAG, "go back to the families that ship with wheelfit"),),
)

BRIDGES = OptionGroup(
    "", (Option("FAMILY", ANY_FILE, "a name, or a FAMILY.toml", number="+", stored_as="names"),)
)
