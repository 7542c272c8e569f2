"""The machine a command chooses for: this one, or one described by a host file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.cli.plugins import read_rules_about_plugins
from wheelfit.cli.trust_store import read_policies
from wheelfit.core import strict_toml
from wheelfit.core.abi_dependency import OVERRIDE, read_override
from wheelfit.core.host_file import HostDetector
from wheelfit.core.host_file_mapping import read_host_file
from wheelfit.core.provider_table import EMULATED_PLUGINS, HARDWARE
from wheelfit.core.support import ProviderPolicy
from wheelfit.core.trust import PluginRules
from wheelfit.errors import FileProblem, InvalidHostFile
from wheelfit.platforms import overrides
from wheelfit.platforms.baseline import Baseline
from wheelfit.platforms.discovery import Machine
from wheelfit.platforms.features import Status

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.cli.output import Output
    from wheelfit.core.abi_dependency import KnownVersion
    from wheelfit.core.host_file import HostFile
    from wheelfit.core.support import Detector
    from wheelfit.core.target import Target
    from wheelfit.platforms.features import Detection

__all__ = ["ChosenMachine", "choose_machine", "load_host_file"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class ChosenMachine:
    """Hold everything a choice needs to know of the machine."""

    name: str
    """In words: ``this machine``, or the host file."""
    target: Target
    detector: Detector | None
    """Who knows what is supported; None: only the host file is asked."""
    user_lists: Detector | None
    """The host file; asked first, whatever else is."""
    policy: ProviderPolicy
    namespaces: tuple[str, ...]
    """Namespaces the machine can be asked about without a package at hand."""
    overrides: tuple[str, ...]
    """Variables of the environment that replace what would be detected, as ``NAME=value``."""
    plugin_rules: PluginRules = PluginRules()  # noqa: RUF009 - frozen
    """What decides whether a plugin may be asked (P-14)."""
    environ: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The environment of the process, without overrides where they do not count."""

    def detect(self, namespace: str) -> Detection | None:
        """Return what is supported of a namespace, whatever package may ask."""
        listed = None if self.user_lists is None else self.user_lists.detect(namespace)
        if self.detector is None or (listed is not None and listed.status is not Status.UNKNOWN):
            return listed
        return self.detector.detect(namespace)


def load_host_file(name: str) -> HostFile:
    """Read a host file.

    :param name: its path.
    :raises FileProblem: it cannot be read.
    :raises InvalidHostFile: it is not TOML, or says something a host file cannot say.
    """
    try:
        with Path(name).open("rb") as file:
            data = file.read(strict_toml.DEFAULT_LIMITS.size + 1)
    except OSError as error:
        raise FileProblem(
            f"the host file cannot be read: {error.strerror}",
            where=name,
            hint="write one on the machine it describes: wheelfit probe -o FILE",
        ) from None
    try:
        table = strict_toml.load(data)
    except ValueError as error:
        raise InvalidHostFile(f"the host file is not TOML: {error}", where=name) from None
    return read_host_file(table, name)


def choose_machine(
    arguments: Namespace, current: Target, environ: Mapping[str, str], output: Output
) -> ChosenMachine:
    """Open the machine that the options name, and say which overrides are in effect.

    :param arguments: the options of `wheelfit.cli.options.add_machine`.
    :param current: the target of the interpreter in use.
    :param environ: the environment of the process.
    :param output: told of the host file and the overrides in use (P-44, P-73).
    :raises PolicyRefusal: a policy forbids an option, or cannot be understood.
    """
    site = read_policies(environ)
    rules = read_rules_about_plugins(arguments, environ, site, output)
    if arguments.no_env_override or site.no_env_override is not None:
        said_by = "--no-env-override" if arguments.no_env_override else site.no_env_override
        replacing = {OVERRIDE, *overrides.names_in(environ)}
        for name in sorted(replacing & environ.keys()):
            output.detail(f"{name} of the environment is ignored ({said_by})")
        environ = {name: value for name, value in environ.items() if name not in replacing}
    policy = _policy(arguments, environ, rules, output)
    chosen = _choose(arguments, current, environ, output, policy)
    return replace(chosen, plugin_rules=rules, environ=environ)


def _policy(
    arguments: Namespace, environ: Mapping[str, str], rules: PluginRules, output: Output
) -> ProviderPolicy:
    return ProviderPolicy(
        enabled=rules.trust.enabled.union(arguments.enable_provider),
        disabled=rules.trust.disabled.union(arguments.disable_provider),
        forbidden=rules.policy.disabled,
        ignore_static=_without_list([*arguments.ignore_static, *rules.policy.ignore_static]),
        table=(*arguments.provider_table, *EMULATED_PLUGINS),
        device_policy=arguments.devices,
        abi_dependency=not arguments.no_abi_dependency,
        abi_versions=_declared_versions(environ, output),
    )


def _choose(
    arguments: Namespace,
    current: Target,
    environ: Mapping[str, str],
    output: Output,
    policy: ProviderPolicy,
) -> ChosenMachine:
    here = Machine(
        environ=environ,
        architecture=current.architecture,
        rocm_same_major=arguments.rocm_compat == "same-major",
    )
    if arguments.host is None:
        in_effect = _overrides(here, environ, output)
        return ChosenMachine(
            "this machine", current, here, None, policy, here.namespaces, in_effect
        )
    file = load_host_file(arguments.host)
    output.say(f"choosing for the machine in {arguments.host}")
    for note in file.notes:
        output.say(f"  {note}", "dim")
    named = tuple(dict.fromkeys(provider.namespace for provider in file.providers))
    target = file.target(current, arguments.host)
    described = HostDetector(file, arguments.host)
    if not arguments.allow_incomplete:
        return ChosenMachine(arguments.host, target, None, described, policy, named, ())
    # P-65: of another platform this machine knows nothing but what all machines have there.
    asked = Baseline(target.architecture) if _elsewhere(target, current) else here
    namespaces = tuple(dict.fromkeys((*named, *asked.namespaces)))
    in_effect = _overrides(asked, environ, output)
    return ChosenMachine(arguments.host, target, asked, described, policy, namespaces, in_effect)


def _without_list(namespaces: Iterable[str]) -> frozenset[str]:
    """Return the namespaces in which a list of the package counts last (P-20)."""
    named = set(namespaces)
    return frozenset(named - {":all:"} | (HARDWARE if ":all:" in named else set()))


def _elsewhere(target: Target, current: Target) -> bool:
    """Say whether a target has another system or architecture than the current one."""
    return target.architecture != current.architecture or any(
        target.environment.get(name) != current.environment.get(name)
        for name in ("sys_platform", "platform_system")
    )


def _declared_versions(
    environ: Mapping[str, str], output: Output
) -> Mapping[NormalizedName, KnownVersion]:
    """Return the versions that the environment declares for builds to fit (P-57)."""
    versions, ignored = read_override(environ.get(OVERRIDE, ""))
    for reason in ignored:
        output.warn(f"{OVERRIDE}: {reason}")
    for name, known in versions.items():
        output.warn(f"the environment overrides versions: {name} {known.version} {known.how}")
    return versions


def _overrides(
    machine: Machine | Baseline, environ: Mapping[str, str], output: Output
) -> tuple[str, ...]:
    in_effect = machine.overrides_in_effect()
    for override in in_effect:  # P-73
        output.warn(f"the environment overrides detection: {override}")
    for name in overrides.strays_in(environ, machine.namespaces):
        output.warn(f"{name} changes nothing: no provider of wheelfit has a namespace like that")
    return in_effect
