"""Options that name packages to install or lock: requirements, projects, lock files."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup, ProjectAccess
from wheelfit.cli.options.values import (
    ANY_FILE,
    ANY_TEXTS,
    CONSENT,
    CONSTRAINTS,
    EXCLUDES,
    FILE,
    FILES,
    FLAG,
    NAMES,
    OVERRIDES,
    TEXTS,
)

ALLOW_SOURCE = Option(
    "--allow-source NAME",
    CONSENT,
    "build source distributions of this project where a release has no wheel that fits; or "
    "always (any without variants), never, ask (on a terminal)",
    project=ProjectAccess.NONE,
    refusal_reason="building from source runs code",
)

CONSTRAINT = Option("-c, --constraint FILE", FILES, "limit versions by a file in pip's format")

PRE = Option("--pre", FLAG, "allow pre-releases", project=ProjectAccess.SET)

_DEPENDENCY_GROUP = Option(
    "--group [PATH:]NAME",
    TEXTS,
    "a dependency group of a pyproject.toml (default: of the current folder)",
    stored_as="dependency_group",
)

REQUIREMENTS = OptionGroup(
    "requirements",
    Option(
        "[REQUIREMENT ...]",
        ANY_FILE,
        "a requirement (torch, 'numpy>=2'); or the path or URL of a wheel, or of a project "
        "to be built: a folder, an archive, a repository (git+https://…)",
        stored_as="requirements",
    ),
    Option(
        "-r, --requirement FILE",
        FILES,
        "read requirements from a file in pip's format, or from a pyproject.toml",
    ),
    CONSTRAINT,
    Option(
        "--override REQUIREMENT",
        FILES,
        "override every requirement on this package; or a file with overrides",
    ),
    Option("--exclude NAME", TEXTS, "leave this project out, even if another needs it"),
    Option("-e, --editable PATH", FILES, "install a project folder as editable (PEP 660)"),
    PRE,
    Option("--no-deps", FLAG, "do not install dependencies"),
    # Unlike the options, which name files too, these are lists of requirements and names.
    Option(
        "constraints",
        CONSTRAINTS,
        "limit the version of a package, if it is installed at all",
        stored_as="constraint_lines",
        project=ProjectAccess.SET,
    ),
    Option(
        "overrides",
        OVERRIDES,
        "override every requirement on a package",
        stored_as="override_lines",
        project=ProjectAccess.SET,
    ),
    Option(
        "excludes",
        EXCLUDES,
        "projects that are left out, even if others need them",
        stored_as="excluded_names",
        project=ProjectAccess.SET,
    ),
    _DEPENDENCY_GROUP.off_command_line(),
)

DEPENDENCY_GROUPS = OptionGroup("", _DEPENDENCY_GROUP)

_BACKENDS = (
    Option("-C, --config-settings KEY=VALUE", ANY_TEXTS, "pass a setting to build backends"),
    Option(
        "--no-build-isolation",
        FLAG,
        "build without isolation, with the packages of the environment",
    ),
)

LOCKED_BUILDS = OptionGroup(
    "building from source", ALLOW_SOURCE, *_BACKENDS, note="runs code of the project"
)

SOURCE_BUILDS = OptionGroup(
    "building from source",
    ALLOW_SOURCE,
    Option(
        "--only-binary NAMES",
        TEXTS,
        "use only wheels of these packages, separated by commas; :all: for every package "
        "not allowed by name",
    ),
    Option("--prefer-binary", FLAG, "prefer an older release with a wheel to a newer one without"),
    *_BACKENDS,
    note="runs code of the project",
)

PROJECT = OptionGroup(
    "project",
    Option("--project PATH", FILE, "a pyproject.toml, or the folder of one"),
    Option("--extra NAME", ANY_TEXTS, "this extra only (default: all of them)"),
    Option("--no-extra NAME", ANY_TEXTS, "without this extra; :all: for none"),
    Option("--group NAME", ANY_TEXTS, "this dependency group only (default: all of them)"),
    Option("--no-group NAME", ANY_TEXTS, "without this dependency group; :all: for none"),
    Option(
        "default-groups",
        NAMES,
        "dependency groups that are installed from a lock by default",
        project=ProjectAccess.PROJECT_ONLY,
    ),
    note="default: that of the current folder",
)

LOCK_FILE = OptionGroup(
    "parts of the lock",
    Option(
        "[LOCK]",
        FILE,
        "the lock file (default: pylock.toml in the current folder)",
        default="pylock.toml",
    ),
    Option("--extra NAME", ANY_TEXTS, "with this extra"),
    Option(
        "--group NAME",
        ANY_TEXTS,
        "with this dependency group, in place of the default ones",
        default=None,
    ),
)
