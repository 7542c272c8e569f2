"""Options about the machine for which wheels are chosen."""

from __future__ import annotations

from wheelfit.cli.options.file_tables import PROVIDERS
from wheelfit.cli.options.option import Option, OptionGroup, ProjectMay
from wheelfit.cli.options.values import ANY_TEXTS, FILE, FILES, FLAG, SECONDS, OneOf

_ENABLE_PROVIDER = Option(
    "--enable-provider NAMESPACE",
    ANY_TEXTS,
    "use a provider that is off by default",
    project=ProjectMay.NOT_SET_IT,
)

_DISABLE_PROVIDER = Option(
    "--disable-provider NAMESPACE",
    ANY_TEXTS,
    "treat a namespace as unsupported",
    project=ProjectMay.NOT_SET_IT,
)

_PLUGIN_TIMEOUT = Option(
    "--plugin-timeout SECONDS",
    SECONDS,
    "time limit for an answer of a plugin (default: 10)",
    default=10.0,
    project=ProjectMay.NOT_SET_IT,
)

_PROVIDER_TABLE = Option(
    "provider",
    PROVIDERS,
    "plugins that are recognised without being installed or run",
    stored_as="provider_table",
    project=ProjectMay.NOT_SET_IT,
)

_SUPPORT = (
    Option(
        "--allow-incomplete",
        FLAG,
        "with --for: ask this machine about namespaces the file leaves out",
    ),
    Option(
        "--devices",
        OneOf("all", "highest", "lowest", "any", same={"min": "lowest"}),
        "with several unlike GPUs: a wheel must run on all, on the highest, on the lowest (min "
        "is the same), or on any",
        default="all",
        project=ProjectMay.SET_IT,
    ),
    Option(
        "--rocm-compat",
        OneOf("exact", "same-major"),
        "which ROCm a wheel may want: the installed one, or older ones of its major too",
        default="exact",
        project=ProjectMay.NOT_SET_IT,
    ),
    Option(
        "--tpu-generation",
        FLAG,
        "tell wheels of a TPU's generation apart too, which published providers do not",
        project=ProjectMay.NOT_SET_IT,
    ),
    _ENABLE_PROVIDER,
    _DISABLE_PROVIDER,
    Option(
        "--ignore-static NAMESPACE",
        ANY_TEXTS,
        "ignore a wheel's own list of values where a provider can detect them; :all: for "
        "every such namespace",
        project=ProjectMay.NOT_SET_IT,
    ),
    Option(
        "--no-env-override",
        FLAG,
        "ignore variables of the environment that override detection",
        project=ProjectMay.NOT_SET_IT,
    ),
    Option(
        "--no-plugins", FLAG, "ask no plugin, whatever is trusted", project=ProjectMay.TIGHTEN_IT
    ),
    Option(
        "--trust-all-plugins",
        FLAG,
        "install and run any plugin that a wheel names, whoever published it",
    ),
    _PLUGIN_TIMEOUT,
    Option(
        "--no-abi-dependency",
        FLAG,
        "exclude builds made for certain versions of another package",
        project=ProjectMay.TIGHTEN_IT,
    ),
    _PROVIDER_TABLE,
)
"""Options about the supported values of the machine."""

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
    absent={"host": None},
)

PROVIDER_SETTINGS = OptionGroup(
    "",
    _PROVIDER_TABLE,
    _ENABLE_PROVIDER.off_command_line(),
    _DISABLE_PROVIDER.off_command_line(),
    _PLUGIN_TIMEOUT.off_command_line(),
)
