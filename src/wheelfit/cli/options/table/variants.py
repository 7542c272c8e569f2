"""Options about the choice among variants."""

from __future__ import annotations

from wheelfit.cli.options.file_tables import AGREEMENTS, SHORTHANDS
from wheelfit.cli.options.option import Option, OptionGroup, ProjectAccess
from wheelfit.cli.options.values import ANY_TEXTS, FLAG, LABELS, LIMITS, PREFERENCES, REPLACED_TEXTS

_ALLOW_MIXED = Option(
    "--allow-mixed FEATURE",
    ANY_TEXTS,
    "allow packages with different values of this: cuda, rocm, blas, openmp, mpi, a feature "
    "of one of them, or :all:",
    project=ProjectAccess.SET,
)

_AGREEMENT = Option(
    "agreement",
    AGREEMENTS,
    "require the same value of this in all packages, too",
    stored_as="agreement_table",
    project=ProjectAccess.SET,
)

VARIANTS = OptionGroup(
    "variants",
    Option(
        "--variant NAME",
        REPLACED_TEXTS,
        "a shorthand for several preferences, for every package: cpu, cuda, cuda12, rocm, xpu, ... "
        "(in place of a configured one)",
        project=ProjectAccess.SET,
    ),
    Option("--prefer PROPERTY", PREFERENCES, "rank first", project=ProjectAccess.SET),
    Option(
        "--require PROPERTY",
        PREFERENCES,
        "take only wheels with this property, from projects that offer it",
        project=ProjectAccess.SET,
    ),
    Option("--forbid PROPERTY", PREFERENCES, "never take", project=ProjectAccess.SET),
    Option("--label NAME=LABEL", LABELS, "take this variant of NAME", project=ProjectAccess.SET),
    _ALLOW_MIXED,
    Option("--no-variants", FLAG, "take plain wheels only", project=ProjectAccess.TIGHTEN),
    Option(
        "--strict",
        FLAG,
        "fail on invalid metadata instead of skipping it",
        project=ProjectAccess.TIGHTEN,
    ),
    Option(
        "--accept-unknown-drafts",
        FLAG,
        "read metadata of a 0.x schema that wheelfit does not know",
        project=ProjectAccess.NONE,
    ),
    Option(
        "--read-unlisted",
        FLAG,
        "read wheels whose label is not in the -variants.json",
        project=ProjectAccess.NONE,
    ),
    Option(
        "--limit NAME=N",
        LIMITS,
        "bound size, depth, labels or values of metadata, or lookups in wheels of a release",
        project=ProjectAccess.TIGHTEN,
    ),
    _AGREEMENT,
    Option(
        "shorthand",
        SHORTHANDS,
        "words of your own for --variant",
        stored_as="shorthands",
        project=ProjectAccess.SET,
    ),
    description="PROPERTY is 'namespace', 'namespace :: feature' or "
    "'namespace :: feature :: value'",
)

AGREEMENT_SETTINGS = OptionGroup(
    "",
    _ALLOW_MIXED.off_command_line(),
    _AGREEMENT,
)
