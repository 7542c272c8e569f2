"""Options about environments: their selection, their changes, and protection from changes."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup, ProjectAccess
from wheelfit.cli.options.values import BYTES, FILE, FLAG, FOLDER, NAMES_OR_ALL, PUBLISHERS, OneOf

ENVIRONMENT = OptionGroup(
    "environment",
    Option(
        "--python PYTHON",
        FILE,
        "an interpreter, or the folder of a virtual environment",
        alternative="interpreter",
    ),
    Option(
        "--system",
        FLAG,
        "the first Python on PATH outside of virtual environments",
        alternative="interpreter",
    ),
    Option("--prefix DIR", FOLDER, "install below this prefix", alternative="place"),
    Option("-t, --target DIR", FOLDER, "install into this folder, flat", alternative="place"),
    Option("--root DIR", FOLDER, "treat this folder as the root of the system"),
    note="default: the active one, else .venv here or in a folder above",
)

INTERPRETER = OptionGroup(
    "environment",
    Option(
        "--python PYTHON",
        FILE,
        "an interpreter, or the folder of a virtual environment, whose Python version is used if "
        "none is given",
    ),
    note="default: the active one, else .venv here or in a folder above",
    fixed_values={"system": False, "prefix": None, "target": None, "root": None},
)

VENV = OptionGroup(
    "",
    Option("[PATH]", FOLDER, "the folder of the environment (default: .venv)", default=".venv"),
    Option(
        "-p, --python PYTHON",
        FILE,
        "its Python: an interpreter, a command or a version (default: that of the active "
        "environment, else of wheelfit)",
    ),
    Option("--clear", FLAG, "replace an existing virtual environment"),
)

CHANGES = (
    Option("--dry-run", FLAG, "show what would be done, without doing it"),
    Option("--compile", FLAG, "write bytecode files too"),
    Option("--replace-files", FLAG, "overwrite files that no package owns"),
    Option(
        "--link-mode",
        OneOf("auto", "reflink", "hardlink", "copy"),
        "how files get from the cache into the environment",
        default="auto",
        project=ProjectAccess.NONE,
    ),
    Option(
        "--startup-files",
        OneOf("warn", "allow", "deny"),
        "how to treat wheels with files that run code whenever Python starts",
        default="warn",
        project=ProjectAccess.NONE,
    ),
    Option("--break-system-packages", FLAG, "even in a managed environment"),
)
"""Options of the commands that change an environment, on how files get into it."""

CONSENT = OptionGroup(
    "installed variants",
    Option(
        "--allow-variant-change",
        FLAG,
        "allow replacing installed variants by better builds",
        project=ProjectAccess.NONE,
        refusal_reason="only the user of the command can agree to that",
    ),
    Option(
        "--refit",
        FLAG,
        "replace exactly the installed variants that no longer fit this machine",
    ),
)

ATTESTATIONS = OptionGroup(
    "attestations",
    Option(
        "--verify-attestations",
        FLAG,
        "verify attestations of publishers, wherever the index has them",
        project=ProjectAccess.TIGHTEN,
    ),
    Option(
        "--require-attestations NAME",
        NAMES_OR_ALL,
        "refuse this package without a valid attestation (:all: for every package)",
        default=None,
        project=ProjectAccess.SET,
    ),
    Option(
        "--trusted-publisher NAME=PUBLISHER",
        PUBLISHERS,
        "require that this publisher (github:OWNER/REPO) signed the package",
        default=None,
        project=ProjectAccess.SET,
    ),
    note="need wheelfit[attestations]",
)

_REQUIRE_ACCELERATOR = Option(
    "--require-accelerator",
    FLAG,
    "fail if an accelerated build exists but a CPU-only one would be chosen",
    project=ProjectAccess.TIGHTEN,
)

BOUNDS = OptionGroup(
    "bounds",
    _REQUIRE_ACCELERATOR,
    Option(
        "--max-download SIZE",
        BYTES,
        "refuse to download more than this: 500MB, 2GB, 1.5GiB",
        project=ProjectAccess.TIGHTEN,
    ),
)

BOUNDS_WITHOUT_DOWNLOADS = OptionGroup("bounds", _REQUIRE_ACCELERATOR)
