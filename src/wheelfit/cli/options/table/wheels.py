"""Options of the commands that make wheels from existing wheels."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.values import ANY_TEXTS, FILE, FLAG, FOLDER, OFF_FLAG, TEXT, OneOf

WHEELS = OptionGroup(
    "",
    Option(
        "WHEEL ...",
        FILE,
        "a wheel, or a folder with all wheels in it and below it",
        stored_as="wheels",
    ),
)

VARIANT = OptionGroup(
    "variant",
    Option(
        "-p, --property 'NAMESPACE :: FEATURE :: VALUE'", ANY_TEXTS, "a property of the variant"
    ),
    Option(
        "--label LABEL",
        TEXT,
        "label of the properties, or, without --property, an entry of the table or document "
        "(default: derived from the properties)",
    ),
    Option("--null", FLAG, "the variant without properties"),
)

FROM_BINARY = OptionGroup(
    "properties from binaries",
    Option(
        "--from-binary",
        FLAG,
        "add properties read from the binaries of each wheel; --property overrides a feature",
    ),
    Option("--no-ptx", FLAG, "with --from-binary: no values of sm_arch that rely on PTX"),
)

DOCUMENT = OptionGroup(
    "providers and priorities",
    Option(
        "--project PATH",
        FILE,
        "read them from the [variant] table of this project: its folder or pyproject.toml",
        alternative="source",
        stored_as="table",
    ),
    Option(
        "--document FILE",
        FILE,
        "read them from a *-variants.json or variant.json",
        alternative="source",
    ),
    Option(
        "--provider NAMESPACE[=REQUIREMENT]",
        ANY_TEXTS,
        "the plugin of a namespace (without REQUIREMENT: the one in wheelfit's list)",
    ),
    Option(
        "--static 'NAMESPACE :: FEATURE :: VALUES'",
        ANY_TEXTS,
        "a namespace with static values: separated by commas, best first",
    ),
    Option(
        "--priority NAMESPACE",
        ANY_TEXTS,
        "order of the namespaces, most important first (default: as they are named)",
    ),
    Option(
        "--layout",
        OneOf("850", "825"),
        "layout of variant.json; 825 has no providers (default: 850)",
        default="850",
    ),
    Option(
        "--no-validate", FLAG, "write properties that the provider of their namespace does not know"
    ),
)

RESOLVING = OptionGroup(
    "",
    Option(
        "--resolve-markers",
        FLAG,
        "resolve variant markers of dependencies as far as the label decides them, for tools "
        "without support for them",
    ),
)

RESULTS = OptionGroup(
    "results",
    Option("-o, --output DIR", FOLDER, "folder of the results (default: that of each wheel)"),
    Option("--overwrite", FLAG, "replace existing files of the same names"),
    Option(
        "--keep-going",
        FLAG,
        "keep each wheel that succeeds although others fail (default: all or none)",
    ),
    Option("--dry-run", FLAG, "do everything except writing the results"),
    Option(
        "--verify-content",
        FLAG,
        "compare every byte with RECORD, however large a wheel is",
        default=None,
        alternative="verification",
    ),
    Option(
        "--no-verify-content",
        OFF_FLAG,
        "never compare content that is copied unchanged (default: up to 64 MB are compared)",
        alternative="verification",
        stored_as="verify_content",
    ),
    Option(
        "--accept-record-errors",
        FLAG,
        "rewrite RECORD where it is wrong, from the contents of the wheel",
    ),
    Option(
        "--no-fsync", FLAG, "do not wait until the results are on disk; a power cut may lose them"
    ),
)

RELABEL = OptionGroup(
    "",
    Option("--label LABEL", TEXT, "the new label (default: derived from the properties of each)"),
)

UNMAKE = OptionGroup(
    "",
    Option("--skip-plain", FLAG, "accept wheels that are plain already; with -o they are copied"),
)

REPAIR = OptionGroup(
    "",
    Option(
        "--command COMMAND",
        TEXT,
        "command to repair a plain wheel, as 'auditwheel repair -w {dest_dir} {wheel}'",
    ),
)

CONVERT = OptionGroup(
    "", Option("--accept-losses", FLAG, "drop what the current layout cannot express")
)

REPACK = OptionGroup(
    "",
    Option(
        "SOURCE ...",
        FILE,
        "a wheel, a folder of wheels, or a release of an index (name==version)",
        stored_as="wheels",
    ),
)

EDITS = OptionGroup(
    "edits",
    Option("--name NAME", TEXT, "the new name of the distribution"),
    Option("--rename OLD=NEW", ANY_TEXTS, "the new name of one of several distributions"),
    Option("--set-version VERSION", TEXT, "the new version"),
    Option("--strip-local-version", FLAG, "strip local versions as +cu126"),
    Option("--remove-dependency NAME", ANY_TEXTS, "remove the dependencies on this project"),
    Option(
        "--add-dependency REQUIREMENT", ANY_TEXTS, "add a dependency; it may have variant markers"
    ),
    Option(
        "--exports FILE",
        FILE,
        "write the [variant.abi-exports] table of a file into the wheels",
    ),
    Option("--config FILE", FILE, "read edits and variants from a file in TOML"),
    Option("--edits NAME", TEXT, "apply these edits of the file (default: its rules)"),
    Option("--variant NAME", TEXT, "use this variant of the file (default: its rules)"),
    Option(
        "--plan",
        FLAG,
        "write nothing: show which releases of several projects can be joined as one, and how",
    ),
    Option("--skip-unmatched", FLAG, "skip wheels that match no rule of the file"),
    Option("--index-file", FLAG, "write the *-variants.json of the results as well"),
)

SHOW = OptionGroup(
    "",
    Option("WHEEL ...", FILE, "a wheel, a folder, or a URL", stored_as="wheels"),
    Option("--metadata", FLAG, "print only METADATA, unchanged"),
)

INSPECT = OptionGroup(
    "",
    Option(
        "WHEEL ...", FILE, "a wheel, a folder of wheels, or a library by itself", stored_as="wheels"
    ),
    Option(
        "--instructions",
        FLAG,
        "count the x86-64 instructions of each level too; 10 MB of code take some seconds",
    ),
)
