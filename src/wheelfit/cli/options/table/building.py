"""Options of the commands for projects that build wheels."""

from __future__ import annotations

from wheelfit.cli.options.file_tables import TABLE
from wheelfit.cli.options.option import Option, OptionGroup, ProjectMay
from wheelfit.cli.options.table.requirements import ALLOW_SOURCE, CONSTRAINT
from wheelfit.cli.options.values import (
    ANY_TEXT,
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
    (
        Option(
            "DIR",
            FOLDER,
            "the project (default: the current folder)",
            default=".",
            number="?",
            stored_as="folder",
        ),
        Option("--explain", FLAG, "tell what can be known of machines, and stop"),
        Option("--dry-run", FLAG, "show what would change, and stop"),
    ),
)

INIT_TABLE = OptionGroup(
    "what is written",
    (
        Option(
            "--provider",
            ANY_TEXTS,
            "add a namespace that wheelfit knows, or one whose plugin is that package",
            metavar="NAMESPACE[=REQUIREMENT]",
        ),
        Option(
            "--plugin-api",
            ANY_TEXTS,
            "where the plugin of a namespace is, if not where its package is called like it",
            metavar="NAMESPACE=MODULE:ATTRIBUTE",
        ),
        Option(
            "--build-requires",
            ANY_TEXTS,
            "add a namespace whose plugin is asked when a wheel is built",
            metavar="NAMESPACE=REQUIREMENT",
        ),
        Option(
            "--static",
            ANY_TEXTS,
            "add a namespace whose values are listed here, best first",
            metavar="NAMESPACE.FEATURE=VALUE,…",
        ),
        Option(
            "--variant",
            ANY_TEXTS,
            "add a variant, as 'v3=x86_64 :: level :: v3'",
            metavar="LABEL=PROPERTY,…",
        ),
        Option(
            "--first",
            ANY_TEXTS,
            "let this namespace matter most; several in their order",
            metavar="NAMESPACE",
        ),
        Option(
            "--remove-provider",
            ANY_TEXTS,
            "take a namespace out; with the last one goes the table",
            metavar="NAMESPACE",
        ),
        Option("--remove-variant", ANY_TEXTS, "take a variant out", metavar="LABEL"),
    ),
)

BUILD = OptionGroup(
    "",
    (
        Option(
            "PROJECT",
            FILE,
            "the folder of a project, or its source distribution (default: the current folder)",
            default=".",
            number="?",
            stored_as="source",
        ),
        Option(
            "build",
            TABLE,
            "how wheels are built",
            default=None,
            stored_as="build_table",
            project=ProjectMay.ALONE_SET_IT,
        ),
        Option(
            "matrix",
            TABLE,
            "which wheels a release has",
            default=None,
            stored_as="matrix_table",
            project=ProjectMay.ALONE_SET_IT,
        ),
    ),
)

TEST = OptionGroup(
    "",
    (
        Option(
            "PATH",
            FILE,
            "a wheel, or a folder of wheels (default: dist)",
            default=("dist",),
            number="*",
            stored_as="paths",
        ),
        Option(
            "--project",
            FOLDER,
            "the project (default: the current folder)",
            metavar="DIR",
            default=".",
        ),
        Option(
            "--tests",
            TEXTS,
            "a file or folder of the project with tests (default: tests, test)",
            metavar="PATH",
        ),
        Option(
            "--command",
            TEXT,
            "what runs the tests, in a folder with a copy of them (default: pytest)",
            metavar="COMMAND",
            default="pytest",
        ),
        Option("--extra", ANY_TEXTS, "install the wheel with this extra", metavar="NAME"),
        Option(
            "--group",
            ANY_TEXTS,
            "install this dependency group of the project (default: test, else tests, if there is "
            "one)",
            metavar="NAME",
        ),
        Option(
            "--emulate",
            OneOf("auto", "always", "never"),
            "run wheels under QEMU: those that this machine does not support, each under a "
            "processor of the very level that it needs, or none",
            metavar="auto|always|never",
            default="auto",
        ),
        Option(
            "--fake-drivers",
            FLAG,
            "run wheels for GPUs that are not here beside drivers that show one, and are compiled "
            "for it: to test what needs no GPU",
        ),
        Option(
            "--time-limit",
            TEXTS,
            "end the tests of a wheel after this time, as 30m; of one label: v3=30m, plain=30m",
            metavar="[LABEL=]TIME",
        ),
    ),
)

BUILT_WHEELS = OptionGroup(
    "wheels",
    (
        Option(
            "--variant",
            TEXTS,
            "build this variant of the table; with --property: call the variant so",
            metavar="LABEL",
            stored_as="labels",
        ),
        Option(
            "--property",
            ANY_TEXTS,
            "build the variant that needs this ('x86_64 :: level :: v3') and what else is given; "
            "without --variant its label is derived",
            short="-p",
            metavar="PROPERTY",
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
            "build a wheel that leads to the project where it lies (PEP 660)",
            stored_as="is_editable",
        ),
        Option(
            "--output",
            FOLDER,
            "where wheels go; those of the same name give way (default: dist)",
            short="-o",
            metavar="DIR",
            default="dist",
            stored_as="folder",
        ),
    ),
    note="default: a plain one",
)

BUILD_WAYS = OptionGroup(
    "how they are built",
    (
        Option(
            "--config-setting",
            ANY_TEXTS,
            "tell this to the backend; variant, variant-name, variant-label and null-variant are "
            "understood whatever the backend",
            short="-C",
            alias="--config-settings",
            metavar="KEY=VALUE",
            stored_as="config_settings",
        ),
        Option(
            "--flags",
            FLAG,
            "give compilers what follows from levels of processors and architectures of GPUs, "
            "besides the flags of the plain build; needs the extra build",
            default=None,
        ),
        Option(
            "--repair",
            TEXT,
            "let this repair each wheel for one platform before it gets its label, as "
            "'auditwheel repair -w {dest_dir} {wheel}'",
            metavar="COMMAND",
        ),
        Option(
            "--hand-over",
            FLAG,
            "give the properties to the build system too, which Meson takes as its option variant",
            default=None,
        ),
        Option(
            "--dialect",
            ANY_TEXT,
            "how variants are asked for: draft, meson-python, hatchling, scikit-build-core; "
            "none: always convert (default: as the backend that is installed understands it)",
            metavar="NAME",
        ),
        Option(
            "--provider",
            ANY_TEXTS,
            "who knows about a namespace, for a project without a [variant] table; most "
            "important first",
            metavar="NAMESPACE=REQUIREMENT",
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
            "build with what the environment has, and not in one made for that",
            stored_as="no_build_isolation",
        ),
        ALLOW_SOURCE,
        CONSTRAINT,
    ),
    note="runs code of the project",
)

BUILT_MATRIX = OptionGroup(
    "matrix",
    (
        Option("--only-python", ANY_TEXTS, "leave out other Pythons", metavar="VERSION"),
        Option("--rebuild", FLAG, "build again what an earlier run has built"),
    ),
    note="with --all, and [tool.wheelfit.matrix]",
)

MATRIX = OptionGroup(
    "",
    (
        Option(
            "PROJECT",
            FILE,
            "the folder of the project (default: the current one)",
            default=".",
            number="?",
        ),
        Option(
            "--for",
            OneOf("github", "gitlab"),
            "write what the service reads: a line of JSON for fromJSON, or a pipeline in YAML",
            stored_as="service",
        ),
        Option(
            "--by",
            OneOf("wheel", "target"),
            "with --for: what is one job there: a wheel, or all wheels of a Python and platform "
            "(default: wheel)",
        ),
        Option(
            "--template",
            FILE,
            "with --for gitlab: the file of the repository that says what .build-wheel does",
            metavar="FILE",
        ),
        Option("--only-python", ANY_TEXTS, "leave out other Pythons", metavar="VERSION"),
        Option("--only-platform", ANY_TEXTS, "leave out other platforms", metavar="PLATFORM"),
    ),
)

ABI_BOUNDS = OptionGroup(
    "",
    (
        Option(
            "CONSUMER",
            FILE,
            "a wheel, or a library by itself, that was built with one of the releases",
        ),
        Option(
            "--against",
            FILES,
            "a project (project:torch, torch>=2.5), a wheel, a folder of wheels, a library as "
            "VERSION=FILE, or python",
            metavar="LIBRARY",
        ),
        Option(
            "--project",
            TEXT,
            "which project the libraries are of (default: as the wheels say)",
            metavar="NAME",
            stored_as="named",
        ),
        Option(
            "--exports",
            FILE,
            "pyproject.toml of the library with [variant.abi-exports], what it promises "
            "(default: what its wheels carry)",
            metavar="FILE",
        ),
        Option(
            "--namespace",
            TEXT,
            "namespace of the properties (default: abi_dependency)",
            metavar="NAME",
            default="abi_dependency",
        ),
        Option("--label", TEXT, "look at the builds of the library so called", metavar="LABEL"),
        Option(
            "--newest",
            RELEASES,
            "how many releases of a project to look at, newest first (default: 10; 0: all)",
            metavar="N",
            default=10,
        ),
        Option(
            "--built-with",
            TEXT,
            "it was built with this release: what that lacks is of other libraries, and types are "
            "compared with its own (default: the first that has all symbols)",
            metavar="VERSION",
        ),
    ),
)
