"""Options of the commands for projects that build wheels."""

from __future__ import annotations

from wheelfit.cli.options.file_tables import TABLE
from wheelfit.cli.options.option import Option, OptionGroup, ProjectAccess
from wheelfit.cli.options.table.requirements import ALLOW_SOURCE, CONSTRAINT
from wheelfit.cli.options.values import (
    ANY_TEXTS,
    FILE,
    FILES,
    FLAG,
    FOLDER,
    OFF_FLAG,
    RELEASES,
    TEXT,
    TEXTS,
    OneOf,
)

INIT = OptionGroup(
    "",
    Option(
        "[DIR]",
        FOLDER,
        "the project (default: the current folder)",
        default=".",
        stored_as="folder",
    ),
    Option("--explain", FLAG, "list the known properties of machines, and stop"),
    Option("--dry-run", FLAG, "show the changes without writing them"),
)

INIT_TABLE = OptionGroup(
    "what is written",
    Option(
        "--provider NAMESPACE[=REQUIREMENT]",
        ANY_TEXTS,
        "add a namespace that wheelfit knows, or one whose plugin is that package",
    ),
    Option(
        "--plugin-api NAMESPACE=MODULE:ATTRIBUTE",
        ANY_TEXTS,
        "the plugin of a namespace, where it does not follow from the name of its package",
    ),
    Option(
        "--build-requires NAMESPACE=REQUIREMENT",
        ANY_TEXTS,
        "add a namespace whose plugin is asked when a wheel is built",
    ),
    Option(
        "--static NAMESPACE.FEATURE=VALUE,…",
        ANY_TEXTS,
        "add a namespace whose values are listed here, best first",
    ),
    Option("--variant LABEL=PROPERTY,…", ANY_TEXTS, "add a variant, as 'v3=x86_64 :: level :: v3'"),
    Option("--first NAMESPACE", ANY_TEXTS, "rank this namespace first; several in this order"),
    Option(
        "--remove-provider NAMESPACE",
        ANY_TEXTS,
        "remove a namespace; removing the last removes the table",
    ),
    Option("--remove-variant LABEL", ANY_TEXTS, "remove a variant"),
)

BUILD = OptionGroup(
    "",
    Option(
        "[PROJECT]",
        FILE,
        "the folder of a project, or its source distribution (default: the current folder)",
        default=".",
        stored_as="source",
    ),
    Option(
        "build",
        TABLE,
        "how wheels are built",
        default=None,
        stored_as="build_table",
        project=ProjectAccess.PROJECT_ONLY,
    ),
    Option(
        "matrix",
        TABLE,
        "which wheels a release has",
        default=None,
        stored_as="matrix_table",
        project=ProjectAccess.PROJECT_ONLY,
    ),
)

TEST = OptionGroup(
    "",
    Option(
        "[PATH ...]",
        FILE,
        "a wheel, or a folder of wheels (default: dist)",
        default=("dist",),
        stored_as="paths",
    ),
    Option("--project DIR", FOLDER, "the project (default: the current folder)", default="."),
    Option(
        "--tests PATH", TEXTS, "a file or folder of the project with tests (default: tests, test)"
    ),
    Option(
        "--command COMMAND",
        TEXT,
        "command that runs the tests, in a folder with a copy of them (default: pytest)",
        default="pytest",
    ),
    Option("--extra NAME", ANY_TEXTS, "install the wheel with this extra"),
    Option(
        "--group NAME",
        ANY_TEXTS,
        "install this dependency group of the project (default: test, else tests, if there is one)",
    ),
    Option(
        "--emulate auto|always|never",
        OneOf("auto", "always", "never"),
        "run wheels under QEMU; auto: those that this machine does not support; always: each, "
        "under a processor of the level that it needs; never: none",
        default="auto",
    ),
    Option(
        "--fake-drivers",
        FLAG,
        "run wheels for missing GPUs with simulated drivers, which are compiled on this machine, "
        "to test what needs no GPU",
    ),
)

BUILT_WHEELS = OptionGroup(
    "wheels",
    Option(
        "--variant LABEL",
        TEXTS,
        "build this variant of the table; with --property: the label of the variant",
        stored_as="labels",
    ),
    Option(
        "-p, --property PROPERTY",
        ANY_TEXTS,
        "build the variant with this property ('x86_64 :: level :: v3'), and others given; "
        "without --variant its label is derived",
        stored_as="properties",
    ),
    Option("--null", FLAG, "build the null variant"),
    Option("--all", FLAG, "build every variant of the table, and a plain wheel"),
    Option(
        "--plain",
        FLAG,
        "build a plain wheel beside the variants",
        default=None,
        alternative="plain",
    ),
    Option(
        "--no-plain",
        OFF_FLAG,
        "build no plain wheel beside them",
        alternative="plain",
        stored_as="plain",
    ),
    Option("--sdist", FLAG, "build a source distribution too, and every wheel from that"),
    Option(
        "--editable",
        FLAG,
        "build an editable wheel (PEP 660)",
        stored_as="is_editable",
    ),
    Option(
        "-o, --output DIR",
        FOLDER,
        "folder for the wheels; existing ones of the same name are replaced (default: dist)",
        default="dist",
        stored_as="folder",
    ),
    note="default: a plain one",
)

BUILD_WAYS = OptionGroup(
    "how they are built",
    Option(
        "-C, --config-setting, --config-settings KEY=VALUE",
        ANY_TEXTS,
        "pass a setting to the backend; variant, variant-name, variant-label and null-variant "
        "work with every backend",
        stored_as="config_settings",
    ),
    Option(
        "--flags",
        FLAG,
        "add compiler flags for the processor level and GPU architectures of the variant to "
        "those of the plain build; needs the extra `build`",
        default=None,
    ),
    Option(
        "--repair COMMAND",
        TEXT,
        "command to repair each platform wheel before it gets its label, as 'auditwheel "
        "repair -w {dest_dir} {wheel}'",
    ),
    Option(
        "--provider NAMESPACE[=REQUIREMENT]",
        ANY_TEXTS,
        "the plugin of a namespace (without REQUIREMENT: the one in wheelfit's list), for a "
        "project without a [variant] table; most important first",
        stored_as="namespace_providers",
    ),
    Option(
        "--ask-plugins",
        FLAG,
        "install the plugins of all providers for the build, and validate with them",
    ),
    Option(
        "--no-isolation",
        FLAG,
        "build without isolation, with the packages of the environment",
        stored_as="no_build_isolation",
    ),
    ALLOW_SOURCE,
    CONSTRAINT,
    note="runs code of the project",
)

BUILT_MATRIX = OptionGroup(
    "matrix",
    Option("--only-python VERSION", ANY_TEXTS, "leave out other Pythons"),
    Option("--rebuild", FLAG, "rebuild wheels that an earlier run has built"),
    note="with --all, and [tool.wheelfit.matrix]",
)

MATRIX = OptionGroup(
    "",
    Option("[PROJECT]", FILE, "the folder of the project (default: the current one)", default="."),
    Option(
        "--format",
        OneOf("github", "gitlab"),
        "write the format of the CI service: a line of JSON for fromJSON, or a pipeline in YAML",
        stored_as="service",
    ),
    Option(
        "--job-per",
        OneOf("wheel", "target"),
        "with --format: a job for each wheel, or for all wheels of a Python and platform "
        "(default: wheel)",
    ),
    Option(
        "--template FILE",
        FILE,
        "with --format gitlab: the file of the repository that defines .build-wheel",
    ),
    Option("--only-python VERSION", ANY_TEXTS, "leave out other Pythons"),
    Option("--only-platform PLATFORM", ANY_TEXTS, "leave out other platforms"),
)

ABI_BOUNDS = OptionGroup(
    "",
    Option(
        "CONSUMER", FILE, "a wheel, or a single library, that was built with one of the releases"
    ),
    Option(
        "--against LIBRARY",
        FILES,
        "a project (project:torch, torch>=2.5), a wheel, a folder of wheels, a library as "
        "VERSION=FILE, or python",
    ),
    Option(
        "--project NAME",
        TEXT,
        "the project of the libraries (default: that of the wheels)",
        stored_as="named",
    ),
    Option(
        "--exports FILE",
        FILE,
        "pyproject.toml of the library with [variant.abi-exports] (default: the exports in its "
        "wheels)",
    ),
    Option(
        "--namespace NAME",
        TEXT,
        "namespace of the properties (default: abi_dependency)",
        default="abi_dependency",
    ),
    Option("--label LABEL", TEXT, "examine the builds of the library with this label"),
    Option(
        "--newest N",
        RELEASES,
        "number of releases of a project to examine, newest first (default: 10; 0: all)",
        default=10,
    ),
    Option(
        "--built-with VERSION",
        TEXT,
        "the release that CONSUMER was built with: symbols that the release lacks belong to other "
        "libraries, and types are compared with it (default: the first with all symbols)",
    ),
)
