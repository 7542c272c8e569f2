"""Options about the machine for which wheels are chosen."""

from __future__ import annotations

from wheelfit.cli.options.file_tables import PROVIDERS
from wheelfit.cli.options.option import Option, OptionGroup, ProjectAccess
from wheelfit.cli.options.values import ANY_TEXTS, FILE, FILES, FLAG, SECONDS, OneOf

_ENABLE_PROVIDER = Option(
    "--enable-provider NAMESPACE",
    ANY_TEXTS,
    "use a provider that is off by default",
    project=ProjectAccess.NONE,
)

_DISABLE_PROVIDER = Option(
    "--disable-provider NAMESPACE",
    ANY_TEXTS,
    "treat a namespace as unsupported",
    project=ProjectAccess.NONE,
)

_PLUGIN_TIMEOUT = Option(
    "--plugin-timeout SECONDS",
    SECONDS,
    "time limit for an answer of a plugin (default: 10)",
    default=10.0,
    project=ProjectAccess.NONE,
)

_PROVIDER_TABLE = Option(
    "provider",
    PROVIDERS,
    "plugins that are recognised without being installed or run",
    stored_as="provider_table",
    project=ProjectAccess.NONE,
)

_SUPPORT = (
    Option(
        "--allow-incomplete",
        FLAG,
        "with --for: detect namespaces that the file leaves out on this machine",
    ),
    Option(
        "--devices",
        OneOf("all", "highest", "lowest", "any", aliases={"min": "lowest"}),
        "with different GPUs: a wheel must run on all, on the highest, on the lowest (also: min), "
        "or on any",
        default="all",
        project=ProjectAccess.SET,
    ),
    Option(
        "--rocm-compat",
        OneOf("exact", "same-major"),
        "the ROCm that a wheel may need: the installed one, or also older ones of its major",
        default="exact",
        project=ProjectAccess.NONE,
    ),
    Option(
        "--tpu-generation",
        FLAG,
        "distinguish wheels by TPU generation too, which published providers do not",
        project=ProjectAccess.NONE,
    ),
    _ENABLE_PROVIDER,
    _DISABLE_PROVIDER,
    Option(
        "--ignore-static NAMESPACE",
        ANY_TEXTS,
        "ignore a wheel's own list of values where a provider can detect them; :all: for "
        "every such namespace",
        project=ProjectAccess.NONE,
    ),
    Option(
        "--no-env-override",
        FLAG,
        "ignore variables of the environment that override detection",
        project=ProjectAccess.NONE,
    ),
    Option(
        "--no-plugins", FLAG, "run no plugin, even a trusted one", project=ProjectAccess.TIGHTEN
    ),
    Option(
        "--trust-all-plugins",
        FLAG,
        "install and run any plugin that a wheel names, of any publisher",
    ),
    _PLUGIN_TIMEOUT,
    Option(
        "--no-abi-dependency",
        FLAG,
        "exclude builds made for certain versions of another package",
        project=ProjectAccess.TIGHTEN,
    ),
    _PROVIDER_TABLE,
)
"""Options about the properties that the machine supports."""

MACHINE = OptionGroup(
    "machine",
    Option(
        "--for HOST",
        FILE,
        "a host file, as `wheelfit probe -o` writes it, or a preset as cuda-12.8-sm90 "
        "(`wheelfit host list`)",
        stored_as="host",
    ),
    *_SUPPORT,
    note="default: this one",
)

MACHINES = OptionGroup(
    "machine",
    Option(
        "--for HOST",
        FILES,
        "a host file or a preset, as for the other commands; may be given several times",
        stored_as="hosts",
    ),
    *_SUPPORT,
    note="default: this one",
    fixed_values={"host": None},
)

PROVIDER_SETTINGS = OptionGroup(
    "",
    _PROVIDER_TABLE,
    _ENABLE_PROVIDER.off_command_line(),
    _DISABLE_PROVIDER.off_command_line(),
    _PLUGIN_TIMEOUT.off_command_line(),
)
