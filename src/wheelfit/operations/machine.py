"""The machine a command chooses for: this one, or one described by a host file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from wheelfit.core.abi_dependency import ABI_OVERRIDE, KnownVersion, KnownVersions, read_override
from wheelfit.core.property_support import Support, support_for
from wheelfit.core.provider_lookup import Detector, ProviderPolicy
from wheelfit.core.provider_table import EMULATED_PLUGINS, HARDWARE
from wheelfit.core.trust import PluginRules
from wheelfit.operations.context import Context
from wheelfit.operations.plugins import OnDemandPlugins, read_plugin_rules
from wheelfit.operations.trust_store import read_policies
from wheelfit_runtime.platforms import override_names, overrides
from wheelfit_runtime.platforms.discovery import Baseline, Machine
from wheelfit_runtime.platforms.features import Detection, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.target import Target
    from wheelfit.installation.environment import Environment
    from wheelfit.operations.hosts import Host
    from wheelfit.operations.requests import MachineOptions
    from wheelfit.sources.repository import Repository
    from wheelfit.sources.settings import SourceSettings
    from wheelfit_runtime.platforms.system_view import SystemView


class ChosenMachine(Struct, frozen=True):
    """The facts about the machine that a choice needs."""

    name: str
    """``this machine``, or the host file or preset as the user names it."""
    target: Target
    detector: Detector | None
    """The detector of supported values; None: only the host file is used."""
    host_detector: Detector | None
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
    description: str = ""
    """The description of a recorded machine, shown instead of interpreter and platform."""
    host: Host | None = None
    """The described machine, which is not detected; None: this one."""

    @property
    def all_overrides(self) -> tuple[str, ...]:
        """All overrides, with those of the detection that wrote the host file (P-73)."""
        of_host_file = () if self.host is None else self.host.file.overrides
        return tuple(dict.fromkeys((*of_host_file, *self.overrides)))

    def to_mapping(self) -> dict[str, object]:
        """Return the host and the overrides, for results."""
        return {
            "host": None if self.host is None else self.host.to_mapping(),
            "overrides": list(self.overrides),
        }

    def disabled_detection(self, namespace: str) -> Detection | None:
        """Return the detection of a namespace that the user or a site disabled, else None."""
        if namespace in self.policy.forbidden:
            source = f"switched off by {self.policy.forbidden[namespace]}"
        elif namespace in self.plugin_rules.trust.disabled:
            source = f"providers.toml; `wheelfit providers enable {namespace}` undoes it"
        elif namespace in self.policy.disabled:
            source = "--disable-provider"
        else:
            return None
        return Detection(namespace, status=Status.DISABLED, source=source)

    def detect(self, namespace: str) -> Detection | None:
        """Return the supported values of a namespace, independent of packages."""
        described = None if self.host_detector is None else self.host_detector.detect(namespace)
        is_described = described is not None and described.status is not Status.UNKNOWN
        if is_described or self.detector is None:
            return described
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
            host_detector=self.host_detector,
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
            environment.target,
            lambda: repository,
            request=request,
            context=self.context,
            keep_installed=lambda: settings.cache,
        )


def choose_machine(
    request: MachineOptions, current: Target, context: Context, *, use_probe_cache: bool = True
) -> ChosenMachine:
    """Return the machine of a request, and report its host file and overrides (P-44, P-73).

    :param use_probe_cache: whether cached answers of drivers may be used (P-22).
    :raises PolicyRefusal: a policy forbids an option, or is invalid.
    """
    site = read_policies(context.environ)
    rules = read_plugin_rules(request, site, context)
    if request.no_env_override or site.no_env_override is not None:
        option = "--no-env-override" if request.no_env_override else site.no_env_override
        override_variables = {ABI_OVERRIDE, *override_names.override_variables(context.environ)}
        for name in sorted(override_variables & context.environ.keys()):
            context.reporter.detail(f"{name} of the environment is ignored ({option})")
        environ = {
            name: value for name, value in context.environ.items() if name not in override_variables
        }
        context = Context(environ, context.reporter)
    request = _with_stored_decisions(request, rules)
    policy = _policy(request, rules, context)
    chosen = _choose(request, current, context, policy, use_probe_cache=use_probe_cache)
    return structs.replace(chosen, plugin_rules=rules, context=context)


def _with_stored_decisions(request: MachineOptions, rules: PluginRules) -> MachineOptions:
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
        ignore_static=_ignored_static(request.ignore_static),
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
    use_probe_cache: bool,
) -> ChosenMachine:
    """Return the machine of a request without its plugin rules, and report what is in effect."""
    this_machine = Machine(
        lambda: _system_view(
            request, current.architecture, context.environ, use_probe_cache=use_probe_cache
        )
    )
    options = options_in_effect(request)
    if options:
        context.reporter.note(f"in effect: {', '.join(options)}")
    declared_versions = (
        (f"{ABI_OVERRIDE}={context.environ[ABI_OVERRIDE]}",) if policy.abi_versions else ()
    )
    if request.host is None:
        target, conda_overrides = target_in_effect(current, context)
        in_effect = (
            *_overrides_in_effect(this_machine, context),
            *conda_overrides,
            *declared_versions,
            *options,
        )
        return ChosenMachine(
            "this machine", target, this_machine, None, policy, this_machine.namespaces, in_effect
        )
    # Imported only here: this takes as long as detecting this machine.
    from wheelfit.core.host_file import HostDetector
    from wheelfit.operations.hosts import open_host

    same_major = request.rocm_compat == "same-major"
    host = open_host(request.host, context.environ, rocm_same_major=same_major)
    file = host.file
    if host.kind == "preset":
        context.reporter.remark(f"choosing for preset {host.name}: {host.description}")
    else:
        context.reporter.remark(f"choosing for the machine in {request.host}")
    for note in (*host.notes, *file.notes):
        context.reporter.note(f"  {note}")
    if not request.allow_incomplete:
        for name in override_names.override_variables(context.environ):
            if overrides.value_of(context.environ, name) is not None:  # P-70
                context.reporter.note(f"  {name} of the environment counts for this machine only")
    for override in file.overrides:  # P-73
        context.reporter.warn(f"{host.name} was written while detection was overridden: {override}")
    namespaces = tuple(dict.fromkeys(provider.namespace for provider in file.providers))
    target = file.target(current, host.name)
    host_detector = HostDetector(file, host.name, host.kind)
    detector: Machine | Baseline | None = None
    in_effect = (*declared_versions, *options)
    if request.allow_incomplete:
        # P-65: for another platform, only what every machine of it supports can be added.
        detector = (
            Baseline(target.architecture) if _is_other_platform(target, current) else this_machine
        )
        namespaces = tuple(dict.fromkeys((*namespaces, *detector.namespaces)))
        in_effect = (*_overrides_in_effect(detector, context), *in_effect)
    return ChosenMachine(
        host.name, target, detector, host_detector, policy, namespaces, in_effect, host=host
    )


def _system_view(
    request: MachineOptions, architecture: str, environ: Mapping[str, str], *, use_probe_cache: bool
) -> SystemView:
    """Return the view of this machine; modules are imported once they are needed."""
    from wheelfit_runtime.platforms.cache import CachedProcesses
    from wheelfit_runtime.platforms.child_processes import RealProcesses
    from wheelfit_runtime.platforms.system_view import SystemView

    return SystemView(
        environ=environ,
        architecture=architecture,
        rocm_same_major=request.rocm_compat == "same-major",
        tpu_generation=request.tpu_generation,
        processes=CachedProcesses(
            RealProcesses(),
            lambda: _probe_cache_folder(request, environ),
            SystemView(environ=environ, architecture=architecture),
            use_cache=use_probe_cache,
        ),
    )


def _probe_cache_folder(request: MachineOptions, environ: Mapping[str, str]) -> str | None:
    """Return the folder for cached answers of drivers; None: there is no cache (P-22)."""
    from wheelfit.operations.cache_folder import cache_folder_in_use
    from wheelfit_runtime.platforms.cache_folder import unsafe_cache_folder

    folder = cache_folder_in_use(request, environ)
    if folder is None or unsafe_cache_folder(str(folder)):
        return None
    return str(folder / "probes")


def options_in_effect(request: MachineOptions) -> tuple[str, ...]:
    """Return the options that change detection or choice, as written on a command line.

    Options of the configuration file are included.
    """
    fields = vars(request)
    options = [f"{_option_of(key)} {value}" for key in _REPEATED for value in fields.get(key) or ()]
    for key, choices in _CHOICES.items():
        if fields.get(key, choices[0]) != choices[0]:
            options.append(f"{_option_of(key)} {fields[key]}")
    options += [_option_of(key) for key in _SWITCHES if fields.get(key)]
    return tuple(dict.fromkeys(options))


def read_options(words: Iterable[str]) -> dict[str, Any]:
    """Parse options as `options_in_effect` returns them; return values by field.

    :param words: each option, followed by its value if it takes one.
    :raises ValueError: a word is no such option, or no such value.
    """
    keys = {_option_of(key): key for key in (*_REPEATED, *_CHOICES, *_SWITCHES)}
    values: dict[str, Any] = {}
    remaining = iter(words)
    for option in remaining:
        key = keys.get(option)
        if key in _SWITCHES:
            values[key] = True
            continue
        value = next(remaining, None)
        if value is not None and key in _REPEATED:
            values[key] = (*values.get(key, ()), value)
        elif key is not None and value in _CHOICES.get(key, ()):
            values[key] = value
        else:
            raise ValueError(f"{option} is not an option of a choice, or has no such value")
    return values


def _option_of(key: str) -> str:
    """Return the option that sets a field."""
    return f"--{key.replace('_', '-')}"


_CHOICES = {
    "devices": ("all", "highest", "lowest", "any"),
    "rocm_compat": ("exact", "same-major"),
}
"""The values of fields with a choice; the first value is the default."""
_REPEATED = (
    "enable_provider", "disable_provider", "ignore_static", "variant", "prefer", "require",
    "forbid", "label", "allow_mixed",
)  # fmt: skip
"""Fields with several values, for each of which the option is given."""
_SWITCHES = ("no_abi_dependency", "no_variants", "tpu_generation")


def _ignored_static(namespaces: Iterable[str]) -> frozenset[str]:
    """Return the namespaces of which static lists are ignored if there is a provider (P-20)."""
    names = frozenset(namespaces)
    return (names | HARDWARE) - {":all:"} if ":all:" in names else names


def _is_other_platform(target: Target, current: Target) -> bool:
    """Return whether a target has another system or architecture than the current one."""
    return target.architecture != current.architecture or any(
        target.environment.get(name) != current.environment.get(name)
        for name in ("sys_platform", "platform_system")
    )


def _declared_versions(context: Context) -> Mapping[NormalizedName, KnownVersion]:
    """Return the versions of packages that the environment variable sets (P-57)."""
    versions, ignored = read_override(context.environ.get(ABI_OVERRIDE, ""))
    for reason in ignored:
        context.reporter.warn(f"{ABI_OVERRIDE}: {reason}")
    for name, declared in versions.items():
        context.reporter.warn(
            f"the environment overrides versions: {name} {declared.version} {declared.state}"
        )
    return versions


def target_in_effect(current: Target, context: Context) -> tuple[Target, tuple[str, ...]]:
    """Return a target changed by conda's variables, and the variables; warn of them (P-73)."""
    if not any(name in context.environ for name in overrides.CONDA_SYSTEM):
        return current, ()  # the import below takes time
    from wheelfit.core.conda_overrides import overridden_target

    target, in_effect, problems = overridden_target(current, context.environ)
    for problem in problems:
        context.reporter.warn(problem)
    for override in in_effect:
        context.reporter.warn(f"the environment overrides the system's version: {override}")
    return target, in_effect


def _overrides_in_effect(machine: Machine | Baseline, context: Context) -> tuple[str, ...]:
    """Return the overrides of detection, and warn of them and of those without effect (P-73)."""
    if not override_names.override_variables(context.environ):
        return ()  # without opening the view of the machine
    in_effect = machine.overrides_in_effect()
    for override in in_effect:
        context.reporter.warn(f"the environment overrides detection: {override}")
    for name in override_names.unknown_overrides(context.environ, machine.namespaces):
        context.reporter.warn(
            f"{name} has no effect: no provider of wheelfit has a namespace like that"
        )
    return in_effect
