"""The machine a command chooses for: this one, or one described by a host file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field, structs

from wheelfit.core.abi_dependency import OVERRIDE, read_override
from wheelfit.core.property_support import support_for
from wheelfit.core.provider_lookup import ProviderPolicy
from wheelfit.core.provider_table import EMULATED_PLUGINS, HARDWARE
from wheelfit.core.trust import PluginRules
from wheelfit.operations.context import Context
from wheelfit.operations.plugins import OnDemandPlugins, read_rules_about_plugins
from wheelfit.operations.trust_store import read_policies
from wheelfit_runtime.platforms import override_names, overrides
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.abi_dependency import KnownVersion, KnownVersions
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.property_support import Support
    from wheelfit.core.provider_lookup import Detector
    from wheelfit.core.target import Target
    from wheelfit.installation.environment import Environment
    from wheelfit.operations.hosts import Host
    from wheelfit.operations.requests import MachineOptions
    from wheelfit.sources.repository import Repository
    from wheelfit.sources.settings import SourceSettings
    from wheelfit_runtime.platforms.discovery import Baseline
    from wheelfit_runtime.platforms.system_view import SystemView


_Request = TypeVar("_Request", bound="MachineOptions")


class ChosenMachine(Struct, frozen=True):
    """The facts about the machine that a choice needs."""

    name: str
    """In words: ``this machine``, or the host file or preset as the user calls it."""
    target: Target
    detector: Detector | None
    """The detector of supported values; None: only the host file is used."""
    user_lists: Detector | None
    """The host file, which takes precedence."""
    policy: ProviderPolicy
    namespaces: tuple[str, ...]
    """Namespaces that can be detected without a package."""
    overrides: tuple[str, ...]
    """Overrides and limits of detection: ``NAME=value`` of the environment, and options as given or
    configured.
    """
    plugin_rules: PluginRules = PluginRules()
    """The rules by which a plugin may run (P-14)."""
    context: Context = field(default_factory=Context)
    """The context, without ignored overrides."""
    words: str = ""
    """The description shown for the machine instead of interpreter and platform."""
    host: Host | None = None
    """The described machine, which is not detected; None: this one."""

    @property
    def in_effect(self) -> tuple[str, ...]:
        """Return every override, those with which the host file was written included (P-73)."""
        written = () if self.host is None else self.host.file.overrides
        return tuple(dict.fromkeys((*written, *self.overrides)))

    def to_mapping(self) -> dict[str, object]:
        """Return the host and the overrides, for results."""
        return {
            "host": None if self.host is None else self.host.to_mapping(),
            "overrides": list(self.overrides),
        }

    def switched_off(self, namespace: str) -> Detection | None:
        """Return the answer for a namespace that the user or a site switched off, else None."""
        source = "--disable-provider"
        if namespace in self.policy.forbidden:
            source = f"switched off by {self.policy.forbidden[namespace]}"
        elif namespace in self.plugin_rules.trust.disabled:
            source = f"providers.toml; `wheelfit providers enable {namespace}` takes it back"
        elif namespace not in self.policy.disabled:
            return None
        return Detection(namespace, status=Status.DISABLED, source=source)

    def detect(self, namespace: str) -> Detection | None:
        """Return the supported values of a namespace, independent of packages."""
        listed = None if self.user_lists is None else self.user_lists.detect(namespace)
        if self.detector is None or (listed is not None and listed.status is not Status.UNKNOWN):
            return listed
        return self.detector.detect(namespace)

    def support(
        self, document: VariantDocument, namespaces: frozenset[str], known: KnownVersions
    ) -> Support:
        """Return the supported values of some namespaces of a document.

        :param document: names the provider of each.
        :param known: versions of installed distributions.
        """
        return support_for(
            document,
            self.detector,
            environment=self.target.environment,
            user_lists=self.user_lists,
            policy=self.policy,
            namespaces=namespaces,
            known=known,
        )

    def plugins(
        self,
        environment: Environment,
        repository: Repository,
        settings: SourceSettings,
        request: MachineOptions,
    ) -> OnDemandPlugins:
        """Return the client of plugins for the machine."""
        return OnDemandPlugins(
            self.plugin_rules,
            environment.interpreter,
            environment.target(),
            lambda: repository,
            request=request,
            context=self.context,
            keep=lambda: settings.cache,
        )


def choose_machine(
    request: MachineOptions,
    current: Target,
    context: Context,
    *,
    recall: bool = True,
) -> ChosenMachine:
    """Open the machine that the options name, and report the overrides in effect.

    :param context: gets the host file and the overrides in use (P-44, P-73).
    :param recall: whether cached answers of drivers may be used (P-22).
    :raises PolicyRefusal: a policy forbids an option, or is invalid.
    """
    site = read_policies(context.environ)
    rules = read_rules_about_plugins(request, site, context)
    if request.no_env_override or site.no_env_override is not None:
        said_by = "--no-env-override" if request.no_env_override else site.no_env_override
        replacing = {OVERRIDE, *override_names.names_in(context.environ)}
        for name in sorted(replacing & context.environ.keys()):
            context.reporter.detail(f"{name} of the environment is ignored ({said_by})")
        kept = {name: value for name, value in context.environ.items() if name not in replacing}
        context = Context(kept, context.reporter)
    request = _with_decisions(request, rules)
    policy = _policy(request, rules, context)
    chosen = _choose(request, current, context, policy, recall=recall)
    return structs.replace(chosen, plugin_rules=rules, context=context)


def _with_decisions(request: _Request, rules: PluginRules) -> _Request:
    """Add providers switched on or off permanently to those switched for this command (P-10)."""
    return request.with_options(
        enable_provider=(*request.enable_provider, *sorted(rules.trust.enabled)),
        disable_provider=(*request.disable_provider, *sorted(rules.trust.disabled)),
        ignore_static=(*request.ignore_static, *sorted(rules.policy.ignore_static)),
    )


def _policy(request: MachineOptions, rules: PluginRules, context: Context) -> ProviderPolicy:
    return ProviderPolicy(
        enabled=frozenset(request.enable_provider),
        disabled=frozenset(request.disable_provider),
        forbidden=rules.policy.disabled,
        ignore_static=_without_list(request.ignore_static),
        table=(*request.provider_table, *EMULATED_PLUGINS),
        device_policy=request.devices,
        abi_dependency=not request.no_abi_dependency,
        abi_versions=_declared_versions(context),
    )


def _choose(
    request: MachineOptions,
    current: Target,
    context: Context,
    policy: ProviderPolicy,
    *,
    recall: bool,
) -> ChosenMachine:
    same_major = request.rocm_compat == "same-major"
    here = Machine(
        lambda: _system_view(request, current.architecture, context.environ, recall=recall)
    )
    options = options_in_effect(request)
    if options:
        context.reporter.note(f"in effect: {', '.join(options)}")
    declared = tuple(f"{OVERRIDE}={context.environ[OVERRIDE]}" for _ in policy.abi_versions)[:1]
    if request.host is None:
        target, of_system = target_in_effect(current, context)
        in_effect = (*_overrides(here, context), *of_system, *declared, *options)
        return ChosenMachine("this machine", target, here, None, policy, here.namespaces, in_effect)
    # Modules for another machine take as long to import as all of its detection.
    from wheelfit.core.host_file import HostDetector
    from wheelfit.operations.hosts import open_host
    from wheelfit_runtime.platforms.discovery import Baseline

    host = open_host(request.host, context.environ, rocm_same_major=same_major)
    file = host.file
    if host.kind == "preset":
        context.reporter.say(f"choosing for preset {host.name}: {host.words}")
    else:
        context.reporter.say(f"choosing for the machine in {request.host}")
    for note in (*host.notes, *file.notes):
        context.reporter.note(f"  {note}")
    for name in override_names.names_in(context.environ) if not request.allow_incomplete else ():
        if overrides.value_of(context.environ, name) is not None:  # P-70
            context.reporter.note(f"  {name} of the environment counts for this machine only")
    for override in file.overrides:  # P-73
        context.reporter.warn(f"{host.name} was written while detection was overridden: {override}")
    named = tuple(dict.fromkeys(provider.namespace for provider in file.providers))
    target = file.target(current, host.name)
    described = HostDetector(file, host.name, host.kind)
    asked: Machine | Baseline | None = None
    in_effect = (*declared, *options)
    namespaces = named
    if request.allow_incomplete:
        # P-65: for another platform this machine knows only what all machines have there.
        asked = Baseline(target.architecture) if _elsewhere(target, current) else here
        namespaces = tuple(dict.fromkeys((*named, *asked.namespaces)))
        in_effect = (*_overrides(asked, context), *in_effect)
    return ChosenMachine(
        host.name, target, asked, described, policy, namespaces, in_effect, host=host
    )


def _system_view(
    request: MachineOptions, architecture: str, environ: Mapping[str, str], *, recall: bool
) -> SystemView:
    """Return the view of this machine; only what something is asked of is imported."""
    from wheelfit_runtime.platforms.cache import RememberingProcesses
    from wheelfit_runtime.platforms.child_processes import RealProcesses
    from wheelfit_runtime.platforms.system_view import SystemView

    return SystemView(
        environ=environ,
        architecture=architecture,
        rocm_same_major=request.rocm_compat == "same-major",
        tpu_generation=request.tpu_generation,
        processes=RememberingProcesses(
            RealProcesses(),
            lambda: _memory(request, environ),
            SystemView(environ=environ, architecture=architecture),
            recall=recall,
        ),
    )


def _memory(request: MachineOptions, environ: Mapping[str, str]) -> str | None:
    """Return the folder for cached answers of drivers; None where there is no cache (P-22)."""
    from wheelfit.operations.cache_folder import cache_folder_in_use
    from wheelfit_runtime.platforms.cache_folder import unsafe_cache_folder

    folder = cache_folder_in_use(request, environ)
    if folder is None or unsafe_cache_folder(str(folder)):
        return None
    return str(folder / "probes")


def options_in_effect(request: MachineOptions) -> tuple[str, ...]:
    """Return the options that change detection or choice, as they are typed.

    Options of the configuration file are included.
    """
    known = vars(request)
    options = [
        f"{option} {value}" for option, key in _REPEATED.items() for value in known.get(key) or ()
    ]
    for option, (key, choices) in _CHOICES.items():
        if known.get(key, choices[0]) != choices[0]:
            options.append(f"{option} {known[key]}")
    options += [option for option, key in _SWITCHES.items() if known.get(key)]
    return tuple(dict.fromkeys(options))


def read_options(words: Iterable[str]) -> dict[str, Any]:
    """Return the values of options that `options_in_effect` wrote, by the names of their fields.

    :param words: each option, followed by its value if it takes one.
    :raises ValueError: a word is no such option, or no such value.
    """
    values: dict[str, Any] = {}
    left = iter(words)
    for option in left:
        if option in _SWITCHES:
            values[_SWITCHES[option]] = True
            continue
        value = next(left, None)
        if value is not None and option in _REPEATED:
            key = _REPEATED[option]
            values[key] = (*values.get(key, ()), value)
        elif option in _CHOICES and value in _CHOICES[option][1]:
            values[_CHOICES[option][0]] = value
        else:
            raise ValueError(f"{option} is not an option of a choice, or has no such value")
    return values


_CHOICES = {
    "--devices": ("devices", ("all", "highest", "lowest", "any")),
    "--rocm-compat": ("rocm_compat", ("exact", "same-major")),
}
"""Fields and values; the first value is the default."""
_REPEATED = {
    "--enable-provider": "enable_provider",
    "--disable-provider": "disable_provider",
    "--ignore-static": "ignore_static",
    "--variant": "variant",
    "--prefer": "prefer",
    "--require": "require",
    "--forbid": "forbid",
    "--label": "label",
    "--allow-mixed": "allow_mixed",
}
_SWITCHES = {
    "--no-abi-dependency": "no_abi_dependency",
    "--no-variants": "no_variants",
    "--tpu-generation": "tpu_generation",
}


def _without_list(namespaces: Iterable[str]) -> frozenset[str]:
    """Return the namespaces in which a list of the package is used last (P-20)."""
    named = set(namespaces)
    return frozenset(named - {":all:"} | (HARDWARE if ":all:" in named else set()))


def _elsewhere(target: Target, current: Target) -> bool:
    """Return whether a target has another system or architecture than the current one."""
    return target.architecture != current.architecture or any(
        target.environment.get(name) != current.environment.get(name)
        for name in ("sys_platform", "platform_system")
    )


def _declared_versions(context: Context) -> Mapping[NormalizedName, KnownVersion]:
    """Return the versions that the environment declares for builds to fit (P-57)."""
    versions, ignored = read_override(context.environ.get(OVERRIDE, ""))
    for reason in ignored:
        context.reporter.warn(f"{OVERRIDE}: {reason}")
    for name, known in versions.items():
        context.reporter.warn(
            f"the environment overrides versions: {name} {known.version} {known.how}"
        )
    return versions


def target_in_effect(current: Target, context: Context) -> tuple[Target, tuple[str, ...]]:
    """Return a target as conda's variables describe its system, and those in effect.

    :param context: gets a warning of them (P-73).
    """
    if not any(name in context.environ for name in overrides.CONDA_SYSTEM):
        return current, ()  # without an import that few need
    from wheelfit.core.conda_overrides import overridden_target

    target, in_effect, problems = overridden_target(current, context.environ)
    for problem in problems:
        context.reporter.warn(problem)
    for override in in_effect:  # P-73
        context.reporter.warn(f"the environment overrides the system's version: {override}")
    return target, in_effect


def _overrides(machine: Machine | Baseline, context: Context) -> tuple[str, ...]:
    if not override_names.names_in(context.environ):
        return ()  # the view of the machine stays closed
    in_effect = machine.overrides_in_effect()
    for override in in_effect:  # P-73
        context.reporter.warn(f"the environment overrides detection: {override}")
    for name in override_names.strays_in(context.environ, machine.namespaces):
        context.reporter.warn(
            f"{name} has no effect: no provider of wheelfit has a namespace like that"
        )
    return in_effect
