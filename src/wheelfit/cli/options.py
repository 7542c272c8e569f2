"""The options that several commands share, in groups a reader of ``--help`` recognises.

Spelled as pip spells them wherever pip has the same thing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.typed import (
    connections,
    count,
    device_policy,
    given,
    limit,
    seconds,
    size,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, _ArgumentGroup

__all__ = [
    "add_attestations",
    "add_bounds",
    "add_building",
    "add_changing",
    "add_choice",
    "add_consent",
    "add_environment",
    "add_groups",
    "add_interpreter",
    "add_lock",
    "add_machine",
    "add_output",
    "add_project",
    "add_proxying",
    "add_requirements",
    "add_sources",
]


def __dir__() -> list[str]:
    return __all__


def add_output(parser: ArgumentParser) -> None:
    """Add how the command speaks; every command has these."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON object, errors included")
    group.add_argument("-q", "--quiet", action="store_true", help="say only results and errors")
    group.add_argument("-v", "--verbose", action="store_true", help="say everything worth knowing")
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="default: on a terminal",
    )
    group.add_argument("--no-progress", action="store_true", help="draw no progress bars")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")


def add_requirements(parser: ArgumentParser) -> None:
    """Add what is asked for."""
    parser.add_argument(
        "requirements",
        nargs="*",
        metavar="REQUIREMENT",
        help="a requirement (torch, 'numpy>=2'); or the path or URL of a wheel, or of a project to "
        "be built: a folder, an archive, a repository (git+https://…)",
    )
    group = parser.add_argument_group("requirements")
    group.add_argument(
        "-r",
        "--requirement",
        type=given,
        action="append",
        default=[],
        metavar="FILE",
        help="read requirements from a file in pip's format, or from a pyproject.toml",
    )
    group.add_argument(
        "-c",
        "--constraint",
        type=given,
        action="append",
        default=[],
        metavar="FILE",
        help="limit versions by a file in pip's format",
    )
    group.add_argument(
        "--override",
        type=given,
        action="append",
        default=[],
        metavar="REQUIREMENT",
        help="what counts in place of what anybody needs of this project; or a file of such",
    )
    group.add_argument(
        "--exclude",
        type=given,
        action="append",
        default=[],
        metavar="NAME",
        help="leave this project out, whoever needs it",
    )
    # What files and variables say of these knows where it was written.
    parser.set_defaults(constraints=(), overrides=(), excludes=(), of_group=[])
    group.add_argument(
        "-e",
        "--editable",
        type=given,
        action="append",
        default=[],
        metavar="PATH",
        help="a project in a folder, used where it lies (PEP 660)",
    )
    group.add_argument("--pre", action="store_true", help="take pre-releases too")
    group.add_argument("--no-deps", action="store_true", help="leave dependencies alone")


def add_building(parser: ArgumentParser) -> None:
    """Add what may be built from source, and how; without consent nothing ever is."""
    group = parser.add_argument_group("building from source (runs code of the project)")
    group.add_argument(
        "--allow-source",
        type=given,
        action="append",
        default=[],
        metavar="NAME",
        help="build source distributions of this project where no wheel fits; :all: for any that "
        "has no variants",
    )
    group.add_argument(
        "--only-binary",
        type=given,
        action="append",
        default=[],
        metavar="NAMES",
        help="never build these, separated by commas; :all: for any not allowed by name",
    )
    group.add_argument(
        "-C",
        "--config-settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="tell this to build backends",
    )
    group.add_argument(
        "--no-build-isolation",
        action="store_true",
        help="build with what the environment has, and not in one made for that",
    )


def add_groups(parser: ArgumentParser) -> None:
    """Add dependency groups to what is asked for."""
    parser.add_argument(
        "--group",
        dest="of_group",
        type=given,
        action="append",
        default=[],
        metavar="[PATH:]NAME",
        help="a dependency group of a pyproject.toml (default: of the current folder)",
    )


def add_project(parser: ArgumentParser) -> None:
    """Add which project is worked on, and which of its extras and groups."""
    group = parser.add_argument_group("project (default: that of the current folder)")
    group.add_argument(
        "--project", type=given, metavar="PATH", help="a pyproject.toml, or the folder of one"
    )
    for what, word in (("extra", "extra"), ("group", "dependency group")):
        group.add_argument(
            f"--{what}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"this {word} only (default: all of them)",
        )
        group.add_argument(
            f"--no-{what}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"without this {word}; :all: for none",
        )
    parser.set_defaults(default_groups=())  # only the project can say it


def add_lock(parser: ArgumentParser) -> None:
    """Add which lock file is meant, and which parts of it."""
    parser.add_argument(
        "lock",
        nargs="?",
        default="pylock.toml",
        type=given,
        metavar="LOCK",
        help="the lock file (default: pylock.toml in the current folder)",
    )
    group = parser.add_argument_group("parts of the lock")
    group.add_argument(
        "--extra", action="append", default=[], metavar="NAME", help="with this extra"
    )
    group.add_argument(
        "--group",
        action="append",
        metavar="NAME",
        help="with this dependency group, in place of the default ones",
    )


def add_sources(parser: ArgumentParser) -> None:
    """Add where files come from; pip's configuration supplies the defaults."""
    group = parser.add_argument_group("sources (defaults: pip's configuration)")
    group.add_argument("-i", "--index-url", type=given, metavar="URL", help="the index")
    group.add_argument(
        "--extra-index-url",
        type=given,
        action="append",
        metavar="URL",
        help="further indexes; the first that knows a project supplies it",
    )
    group.add_argument(
        "--compare-sources",
        action="store_true",
        help="take the best version of all sources; stop where their variants contradict",
    )
    group.add_argument(
        "-f",
        "--find-links",
        type=given,
        action="append",
        metavar="PLACE",
        help="a folder of wheels, or a page that links to them; searched first",
    )
    group.add_argument("--no-index", action="store_true", help="use --find-links only")
    group.add_argument(
        "--bridge",
        action="append",
        default=[],
        metavar="FAMILY",
        help="present the members of this family as variants: a name of wheelfit bridges, "
        "NAME@URL with its indexes elsewhere, a file FAMILY.toml, or all-known",
    )
    group.add_argument("--no-bridges", action="store_true", help="take every project as what it is")
    group.add_argument("--proxy", metavar="URL", help="proxy for every request")
    group.add_argument(
        "--cert", type=given, metavar="FILE", help="certificate authorities to trust"
    )
    group.add_argument(
        "--client-cert", type=given, metavar="FILE", help="client certificate with its key"
    )
    group.add_argument(
        "--trusted-host",
        action="append",
        metavar="HOST",
        help="do not verify the certificate of this host (HOST or HOST:PORT)",
    )
    group.add_argument("--timeout", type=seconds, metavar="SECONDS", help="wait for a server")
    group.add_argument("--retries", type=count, metavar="N", help="try a failing request again")
    group.add_argument(
        "--connections",
        type=connections,
        default=4,
        metavar="N",
        help="connections to one server that may carry wheels at the same time (default: 4)",
    )
    group.add_argument(
        "--cache-dir", type=given, metavar="DIR", help="keep downloads and pages here"
    )
    group.add_argument("--no-cache-dir", action="store_true", help="keep nothing")
    group.add_argument("--offline", action="store_true", help="use the cache and folders only")


def add_environment(parser: ArgumentParser) -> None:
    """Add which environment is meant; as pip means them."""
    group = parser.add_argument_group("environment (default: the active one)")
    group.add_argument(
        "--python",
        type=given,
        metavar="PYTHON",
        help="an interpreter, or the folder of a virtual environment",
    )
    place = group.add_mutually_exclusive_group()
    place.add_argument("--prefix", type=given, metavar="DIR", help="install below this prefix")
    place.add_argument(
        "-t", "--target", type=given, metavar="DIR", help="install into this folder, flat"
    )
    group.add_argument(
        "--root", type=given, metavar="DIR", help="treat this folder as the root of the system"
    )


def add_changing(group: _ArgumentGroup) -> None:
    """Add how an environment is changed, to a group of options."""
    group.add_argument("--dry-run", action="store_true", help="only say what would be done")
    group.add_argument("--compile", action="store_true", help="write bytecode files too")
    group.add_argument(
        "--replace-files", action="store_true", help="overwrite files that no package owns"
    )
    group.add_argument(
        "--link-mode",
        choices=("auto", "reflink", "hardlink", "copy"),
        default="auto",
        help="how files get from the cache into the environment",
    )
    group.add_argument(
        "--startup-files",
        choices=("warn", "allow", "deny"),
        default="warn",
        help="what to do about wheels with files that run code whenever Python starts",
    )
    group.add_argument(
        "--break-system-packages", action="store_true", help="even in a managed environment"
    )


def add_attestations(parser: ArgumentParser) -> None:
    """Add what must be attested about wheels (PEP 740)."""
    group = parser.add_argument_group("attestations (need wheelfit[attestations])")
    group.add_argument(
        "--verify-attestations",
        action="store_true",
        help="verify what publishers signed, wherever the index has it",
    )
    group.add_argument(
        "--require-attestations",
        action="append",
        metavar="NAME",
        help="refuse this package without a valid attestation (:all: for every package)",
    )
    group.add_argument(
        "--trusted-publisher",
        action="append",
        metavar="NAME=PUBLISHER",
        help="require that this publisher (github:OWNER/REPO) signed the package",
    )


def add_consent(parser: ArgumentParser) -> None:
    """Add what may happen to installed variants; nothing is ever exchanged unasked."""
    group = parser.add_argument_group("installed variants")
    group.add_argument(
        "--allow-variant-change",
        action="store_true",
        help="let an installed variant give way to another build, and take the best one",
    )
    group.add_argument(
        "--refit",
        action="store_true",
        help="exchange exactly the installed variants that do not fit this machine any more",
    )


def add_interpreter(parser: ArgumentParser) -> None:
    """Add which Python counts, for commands that change no environment."""
    group = parser.add_argument_group("environment (default: the active one)")
    group.add_argument(
        "--python",
        type=given,
        metavar="PYTHON",
        help="an interpreter, or the folder of a virtual environment, whose version counts "
        "where none is named",
    )
    parser.set_defaults(prefix=None, target=None, root=None)


def add_machine(parser: ArgumentParser, *, several: bool = False) -> None:
    """Add for which machine the choice is made.

    :param several: whether it may be several, in ``hosts``; ``host`` is none of them then.
    """
    group = parser.add_argument_group("machine (default: this one)")
    if several:
        group.add_argument(
            "--for",
            dest="hosts",
            type=given,
            action="append",
            default=[],
            metavar="HOST",
            help="a host file or a preset, as for the other commands; may be given several times",
        )
        parser.set_defaults(host=None)
    else:
        group.add_argument(
            "--for",
            dest="host",
            type=given,
            metavar="HOST",
            help="a host file, as `wheelfit probe -o` writes it, or a preset as cuda-12.8-sm90 "
            "(`wheelfit host list`)",
        )
    group.add_argument(
        "--allow-incomplete",
        action="store_true",
        help="with --for: ask this machine about namespaces the file leaves out",
    )
    group.add_argument(
        "--devices",
        type=device_policy,
        choices=("all", "highest", "lowest", "any"),
        default="all",
        help="with several unlike GPUs: a wheel must run on all, on the highest, on the lowest "
        "(min is the same), or on any",
    )
    group.add_argument(
        "--rocm-compat",
        choices=("exact", "same-major"),
        default="exact",
        help="which ROCm a wheel may want: the installed one, or older ones of its major too",
    )
    group.add_argument(
        "--tpu-generation",
        action="store_true",
        help="tell wheels of a TPU's generation apart too, which published providers do not",
    )
    group.add_argument(
        "--enable-provider",
        action="append",
        default=[],
        metavar="NAMESPACE",
        help="use a provider that is off by default",
    )
    group.add_argument(
        "--disable-provider",
        action="append",
        default=[],
        metavar="NAMESPACE",
        help="treat a namespace as unsupported",
    )
    group.add_argument(
        "--ignore-static",
        action="append",
        default=[],
        metavar="NAMESPACE",
        help="do not believe a wheel's own list where this machine can be asked; "
        ":all: for every such namespace",
    )
    group.add_argument(
        "--no-env-override",
        action="store_true",
        help="ignore variables of the environment that override detection",
    )
    group.add_argument(
        "--no-plugins", action="store_true", help="ask no plugin, whatever is trusted"
    )
    group.add_argument(
        "--trust-all-plugins",
        action="store_true",
        help="install and run any plugin that a wheel names, whoever published it",
    )
    group.add_argument(
        "--plugin-deadline",
        type=seconds,
        default=10.0,
        metavar="SECONDS",
        help="how long a plugin may take to answer (default: 10)",
    )
    parser.set_defaults(provider_table=())  # only a file can set it
    group.add_argument(
        "--no-abi-dependency",
        action="store_true",
        help="take no build that was made for certain versions of another package",
    )


def add_choice(parser: ArgumentParser) -> None:
    """Add wishes about variants; they reorder or narrow, and never widen (F-91)."""
    group = parser.add_argument_group(
        "variants",
        "WISH is 'namespace', 'namespace :: feature' or 'namespace :: feature :: value'",
    )
    parser.set_defaults(shorthands=())  # only a file can set it
    group.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="NAME",
        help="one word for several wishes, for every package: cpu, cuda, cuda12, rocm, xpu, ... "
        "(in place of a configured one)",
    )
    group.add_argument("--prefer", action="append", default=[], metavar="WISH", help="rank first")
    group.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="WISH",
        help="take only wheels that have it, of projects that offer it",
    )
    group.add_argument("--forbid", action="append", default=[], metavar="WISH", help="never take")
    group.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="NAME=LABEL",
        help="take this variant of NAME",
    )
    parser.set_defaults(agreement_table=())  # only a file can set it
    group.add_argument(
        "--allow-mixed",
        action="append",
        default=[],
        metavar="FEATURE",
        help="let packages disagree on this: cuda, rocm, blas, openmp, mpi, a feature that one of "
        "them is about, or :all:",
    )
    group.add_argument("--no-variants", action="store_true", help="take plain wheels only")
    group.add_argument(
        "--strict", action="store_true", help="stop where bad metadata would only be skipped"
    )
    group.add_argument(
        "--accept-unknown-drafts",
        action="store_true",
        help="read metadata of a 0.x schema that wheelfit does not know",
    )
    group.add_argument(
        "--read-unlisted",
        action="store_true",
        help="look into wheels whose label the -variants.json lacks",
    )
    group.add_argument(
        "--limit",
        action="append",
        default=[],
        type=limit,
        metavar="NAME=N",
        help="bound size, depth, labels or values of metadata, or lookups in wheels of a release",
    )


def add_bounds(parser: ArgumentParser, *, downloads: bool = True) -> None:
    """Add what no result may go beyond.

    :param parser: of the command.
    :param downloads: whether the command downloads what it chooses.
    """
    group = parser.add_argument_group("bounds")
    group.add_argument(
        "--require-accelerator",
        action="store_true",
        help="refuse builds without an accelerator where others have one",
    )
    if downloads:
        group.add_argument(
            "--max-download",
            type=size,
            metavar="SIZE",
            help="refuse to download more than this: 500MB, 2GB, 1.5GiB",
        )


def add_proxying(parser: ArgumentParser) -> None:
    """Add what is proxied, and for whom."""
    group = parser.add_argument_group("proxy")
    group.add_argument(
        "--full",
        action="store_true",
        help="answer for every project; by default only for those with variants, so that "
        "installers get all others where they always do",
    )
    group.add_argument(
        "--catalogue",
        action="store_true",
        help="list every variant, whatever the machine: for locks and hashes that hold on others",
    )
    group.add_argument(
        "--in-uv-locks",
        action="store_true",
        help="answer uv lock, sync, add and run too, so that variants get into uv.lock",
    )
    group.add_argument(
        "--link-host",
        type=given,
        action="append",
        default=[],
        metavar="HOST",
        help="let pages of an index name this host, although its address is a private one",
    )
    add_interpreter(parser)
    add_sources(parser)
    add_machine(parser)
    add_choice(parser)
