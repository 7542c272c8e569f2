"""Options of the commands that make wheels of wheels."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.values import ANY_TEXTS, FILE, FLAG, FOLDER, OFF_FLAG, TEXT, OneOf

WHEELS = OptionGroup(
    "",
    Option(
        "WHEEL ...",
        FILE,
        "a wheel, or a folder: all wheels in it and in the folders in it",
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
        "how the properties are called, or without any, which entry of the table or document "
        "is meant (default: derived from the properties)",
    ),
    Option("--null", FLAG, "the variant without properties"),
)

FROM_BINARY = OptionGroup(
    "properties from binaries",
    Option(
        "--from-binary",
        FLAG,
        "add what the binaries in each wheel show; a feature of --property stays as it is given",
    ),
    Option("--no-ptx", FLAG, "with --from-binary: no values of sm_arch that rely on PTX"),
)

DOCUMENT = OptionGroup(
    "providers and priorities",
    Option(
        "--project PATH",
        FILE,
        "take them from the [variant] table of this project: its folder or pyproject.toml",
        alternative="source",
        stored_as="table",
    ),
    Option(
        "--document FILE",
        FILE,
        "take them from a *-variants.json or variant.json",
        alternative="source",
    ),
    Option(
        "--provider NAMESPACE[=REQUIREMENT]",
        ANY_TEXTS,
        "who knows about a namespace: a plugin; alone: the plugin that wheelfit knows for it",
    ),
    Option(
        "--static 'NAMESPACE :: FEATURE :: VALUES'",
        ANY_TEXTS,
        "a namespace whose values no machine decides: values by commas, best first",
    ),
    Option(
        "--priority NAMESPACE",
        ANY_TEXTS,
        "order of the namespaces, most important first (default: as they are named)",
    ),
    Option(
        "--layout",
        OneOf("850", "825"),
        "layout of variant.json; 825 knows no providers (default: 850)",
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
        "that do not know them",
    ),
)

RESULTS = OptionGroup(
    "results",
    Option("-o, --output DIR", FOLDER, "where the results go (default: beside each wheel)"),
    Option("--overwrite", FLAG, "replace existing files of the same names"),
    Option(
        "--keep-going",
        FLAG,
        "keep each wheel that succeeds although others fail (default: all or none)",
    ),
    Option("--dry-run", FLAG, "do all of it, but give no result its name"),
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
        "compare what is copied unchanged never (default: up to 64 MB of content)",
        alternative="verification",
        stored_as="verify_content",
    ),
    Option(
        "--accept-record-errors",
        FLAG,
        "rewrite RECORD where it is wrong, from the contents of the wheel",
    ),
    Option(
        "--no-fsync", FLAG, "do not wait until the disk has the results; a power cut may cost them"
    ),
)

RELABEL = OptionGroup(
    "",
    Option("--label LABEL", TEXT, "the new label (default: derived from the properties of each)"),
)

UNMAKE = OptionGroup("", Option("--skip-plain", FLAG, "leave wheels alone that are plain already"))

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
        "write what a library promises, [variant.abi-exports] of a file, into its wheels",
    ),
    Option("--config FILE", FILE, "read edits and variants from a file in TOML"),
    Option("--edits NAME", TEXT, "which edits of the file (default: its rules)"),
    Option("--variant NAME", TEXT, "which variant of the file (default: its rules)"),
    Option(
        "--plan",
        FLAG,
        "write nothing: show which releases of several projects can be joined as one, and how",
    ),
    Option("--skip-unmatched", FLAG, "leave wheels out that no rule of the file is for"),
    Option("--index-file", FLAG, "write the *-variants.json of the folder of the results as well"),
)

SHOW = OptionGroup(
    "",
    Option("WHEEL ...", FILE, "a wheel, a folder, or a URL", stored_as="wheels"),
    Option("--metadata", FLAG, "print METADATA as it is, alone", alternative="part"),
    Option("--dependencies", FLAG, "print the dependencies, alone", alternative="part"),
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
    Option("--no-ptx", FLAG, "propose no values of sm_arch that rely on PTX"),
)
