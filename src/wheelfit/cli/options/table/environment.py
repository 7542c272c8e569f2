"""Options about environments: their selection, their changes, and protection from changes."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup, ProjectMay
from wheelfit.cli.options.values import (
    BYTES,
    FILE,
    FLAG,
    FOLDER,
    NAMES_OR_ALL,
    PUBLISHERS,
    OneOf,
)

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
        "an interpreter, or the folder of a virtual environment, whose version counts where "
        "none is named",
    ),
    note="default: the active one, else .venv here or in a folder above",
    absent={"system": False, "prefix": None, "target": None, "root": None},
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
        project=ProjectMay.NOT_SET_IT,
    ),
    Option(
        "--startup-files",
        OneOf("warn", "allow", "deny"),
        "how to treat wheels with files that run code whenever Python starts",
        default="warn",
        project=ProjectMay.NOT_SET_IT,
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
        project=ProjectMay.NOT_SET_IT,
        why="to agree is up to whoever runs the command",
    ),
    Option(
        "--refit",
        FLAG,
        "exchange exactly the installed variants that do not fit this machine any more",
    ),
)

ATTESTATIONS = OptionGroup(
    "attestations",
    Option(
        "--verify-attestations",
        FLAG,
        "verify attestations of publishers, wherever the index has them",
        project=ProjectMay.TIGHTEN_IT,
    ),
    Option(
        "--require-attestations NAME",
        NAMES_OR_ALL,
        "refuse this package without a valid attestation (:all: for every package)",
        default=None,
        project=ProjectMay.SET_IT,
    ),
    Option(
        "--trusted-publisher NAME=PUBLISHER",
        PUBLISHERS,
        "require that this publisher (github:OWNER/REPO) signed the package",
        default=None,
        project=ProjectMay.SET_IT,
    ),
    note="need wheelfit[attestations]",
)

_REQUIRE_ACCELERATOR = Option(
    "--require-accelerator",
    FLAG,
    "refuse builds without an accelerator where others have one",
    project=ProjectMay.TIGHTEN_IT,
)

BOUNDS = OptionGroup(
    "bounds",
    _REQUIRE_ACCELERATOR,
    Option(
        "--max-download SIZE",
        BYTES,
        "refuse to download more than this: 500MB, 2GB, 1.5GiB",
        project=ProjectMay.TIGHTEN_IT,
    ),
)

BOUNDS_WITHOUT_DOWNLOADS = OptionGroup("bounds", _REQUIRE_ACCELERATOR)
