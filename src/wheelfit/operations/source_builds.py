"""Builds from source for one operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wheelfit.errors import SourceBuildNotAllowed, UsageError
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.installation.builds.building import WheelBuilder
    from wheelfit.installation.builds.consent import Consent
    from wheelfit.installation.builds.environments import (
        IsolatedBuildEnvironments,
        SharedBuildEnvironment,
    )
    from wheelfit.installation.environment import Environment
    from wheelfit.installation.plan import Plan
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.operations.requests import BuildOptions, ResolutionBuildOptions
    from wheelfit.operations.requirements import RequestedRequirements
    from wheelfit.resolution.candidates import Candidates, ChoicePolicy
    from wheelfit.resolution.listing import SourcePolicy
    from wheelfit.resolution.request import DirectWheel, RequestedRequirement
    from wheelfit.resolution.resolution import Pin, Resolution
    from wheelfit.sources.page import File
    from wheelfit.sources.pip_configuration import InstallRules
    from wheelfit.sources.repository import Repository
    from wheelfit.sources.settings import SourceSettings


def open_builder(
    request: BuildOptions,
    context: Context,
    repository: Repository,
    build_requirements: Repository,
    settings: SourceSettings,
    environment: Environment,
    machine: ChosenMachine,
    policy: ChoicePolicy,
    requirement_set: RequestedRequirements,
    *,
    requires_hashes: bool = False,
    hashes_required_by: str = "",
    builds_named: bool = True,
) -> WheelBuilder:
    """Return the builder of wheels from source.

    :param repository: has the sources.
    :param build_requirements: has the packages that their backends require.
    :param requires_hashes: whether every file must have a given hash.
    :param hashes_required_by: the configuration that requires hashes, for errors; empty: none.
    :param builds_named: whether naming a project is consent to build it.
    :raises UsageError: a project is named and the machine is not this one, or a setting is not
        valid.
    """
    from wheelfit.installation.builds.building import WheelBuilder
    from wheelfit.installation.builds.cache import BuiltWheels
    from wheelfit.installation.builds.consent import BuildPolicy
    from wheelfit.operations.cache_folder import cache_folder
    from wheelfit.operations.temporary_folders import scratch_folder
    from wheelfit.sources.cache import Store

    interpreter, target = environment.interpreter, environment.target
    why_impossible = ""
    if tuple(machine.target.tags) != tuple(target.tags):
        why_impossible = "nothing can be built from source for another Python or system"
        if machine.host is not None:
            why_impossible = (
                f"nothing can be built from source for {machine.name}, which is another machine"
            )
        if requirement_set.sources:
            raise UsageError(
                why_impossible,
                hint="choose for this environment, or build a wheel there and name that",
            )
    environments = build_environments(
        request,
        context.environ,
        build_requirements,
        environment,
        machine,
        policy,
        requirement_set,
        requires_hashes=requires_hashes,
        hashes_required_by=hashes_required_by,
    )
    folder = cache_folder(request.cache_dir, context.environ) if settings.cache else None
    return WheelBuilder(
        repository,
        environments,
        BuiltWheels(Store(folder)),  # the sources have the same folder, and warn of its faults
        BuildPolicy(
            consent_of(request),
            why_impossible=why_impossible,
            settings=read_config_settings(request.config_settings),
            target=(
                interpreter.implementation,
                *map(str, (*interpreter.version, interpreter.tags[0])),
            ),
            requires_hashes=requires_hashes,
            offline=request.offline,
            builds_named=builds_named,
        ),
        environ=context.environ,
        scratch=scratch_folder,
        tell=context.reporter.note,
        echo=context.reporter.remark if context.reporter.wants_details else None,
    )


def build_environments(
    request: BuildOptions,
    environ: Mapping[str, str],
    repository: Repository,
    environment: Environment,
    machine: ChosenMachine,
    policy: ChoicePolicy,
    requirement_set: RequestedRequirements,
    *,
    requires_hashes: bool = False,
    hashes_required_by: str = "",
    build_from_url: Callable[[RequestedRequirement], DirectWheel | None] | None = None,
) -> IsolatedBuildEnvironments | SharedBuildEnvironment:
    """Return the environments in which build backends run.

    :param repository: has the build requirements.
    :param build_from_url: returns the wheel of a build requirement with a URL; None: such
        requirements are refused.
    """
    from wheelfit.installation.builds.environments import (
        IsolatedBuildEnvironments,
        SharedBuildEnvironment,
    )
    from wheelfit.resolution.candidates import Candidates, ChoicePolicy
    from wheelfit.resolution.request import ResolutionRequest

    if request.no_build_isolation:
        return SharedBuildEnvironment(environment.interpreter, environment.schemes.scripts, environ)
    # Preferences concern installed packages; rules about providers and metadata apply here too.
    backend_policy = ChoicePolicy(
        providers=policy.providers,
        metadata=policy.metadata,
        hashes=policy.hashes,
        sources=policy.sources,
    )
    return IsolatedBuildEnvironments(
        environment.interpreter,
        lambda: Candidates(
            repository,
            environment.target,
            machine.detector,
            backend_policy,
            host_detector=machine.host_detector,
        ),
        environ,
        ResolutionRequest(
            constraints=requirement_set.constraints,
            require_hashes=requires_hashes,
            hashes_required_by=hashes_required_by,
        ),
        build_from_url,
    )


def consent_of(request: BuildOptions) -> Consent:
    """Return the consent to builds.

    :param request: its ``allow_source`` has names of projects and words of `MODES`; the first of
        these words counts.
    :raises UsageError: one is neither a word of `MODES` nor a valid name.
    """
    from wheelfit.installation.builds.consent import MODES, Consent

    return Consent.of(
        word if word in MODES else _project_name(word, "--allow-source")
        for word in request.allow_source
    )


def source_policy(
    request: ResolutionBuildOptions, requirement_set: RequestedRequirements, rules: InstallRules
) -> SourcePolicy:
    """Return the policy on source distributions beside wheels.

    :param requirement_set: the requirements, whose files may restrict projects, too.
    :raises UsageError: a name is not valid for a project.
    """
    from wheelfit.resolution.listing import ALL, SourcePolicy

    only_binary = frozenset(
        name if name == ALL else _project_name(name, "--only-binary")
        for name in _only_binary(request, requirement_set, rules)
    )
    consent = consent_of(request)
    # As in pip, --no-binary for a project overrides --only-binary for all. Other names, such as
    # `:all:`, are keywords of pip.
    exceptions = consent.names.union(
        _project_name(name, "no-binary") for name in rules.no_binary if not name.startswith(":")
    )
    if consent.mode == "always":
        exceptions |= {ALL}
    prefer_binary = request.prefer_binary or rules.prefer_binary
    prefer_binary = prefer_binary or any(file.prefer_binary for file in requirement_set.files)
    return SourcePolicy(only_binary, exceptions, prefer_binary)


def _only_binary(
    request: ResolutionBuildOptions, requirement_set: RequestedRequirements, rules: InstallRules
) -> list[str]:
    """Return the projects restricted to wheels, with ``:all:`` and ``:none:`` as in pip."""
    names: list[str] = []
    for text in (*rules.only_binary, *requirement_set.only_binary, *request.only_binary):
        for name in map(str.strip, text.split(",")):
            names = [] if name == ":none:" else [*names, name]
    return [name for name in names if name]


def _project_name(text: str, where: str) -> str:
    from wheelfit.operations.requirements import project_name

    hint = "write always" if text == ":all:" else "name it alone"
    return project_name(text, where, hint)


def read_config_settings(texts: Sequence[str]) -> Mapping[str, str | Sequence[str]]:
    """Parse settings of a build backend; a key that occurs again has a list of values.

    :param texts: each ``KEY=VALUE``.
    :raises UsageError: one is not of that form.
    """
    settings: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f"--config-settings {text!r} sets nothing", hint="write KEY=VALUE")
        settings.setdefault(key.strip(), []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in settings.items()}


class Builds(Protocol):
    """The permitted builds, and the builder."""

    @property
    def mode(self) -> str:
        """The consent to build packages that the user has not named."""

    @property
    def why_impossible(self) -> str:
        """The reason why building is impossible; empty if it is possible."""

    def needs_consent(self, file: File) -> bool:
        """Return whether a wheel would have to be built, and may not be."""

    def has_requirements(self, file: File) -> bool:
        """Return whether the requirements of a wheel are known before it is built."""

    def allow(self, names: Iterable[NormalizedName]) -> None:
        """Permit builds of some projects."""

    def is_unbuilt(self, file: File) -> bool:
        """Return whether a wheel must be built before it can be installed."""

    def build(self, file: File) -> File:
        """Build a wheel, and return it as it is listed from then on."""


def build_planned(planned: Plan, builds: Builds, candidates: Candidates) -> bool:
    """Build missing wheels of a plan; return whether there were any.

    Afterwards wheels must be chosen again, since a built wheel may have other metadata.

    :param candidates: the candidates, whose assumptions about the wheels are dropped.
    :raises BuildFailed: a backend failed.
    """
    unbuilt = [pin for pin in planned.install if builds.is_unbuilt(pin.file)]
    for pin in unbuilt:
        builds.build(pin.file)
        candidates.discard_listing(pin.name)
    return bool(unbuilt)


# --- consent to builds -------------------------------------------------------------------------


def with_consent(
    choose: Callable[[], Resolution],
    builds: Builds,
    candidates: Candidates,
    reporter: Reporter,
    *,
    may_ask: bool,
    pins_without_consent: Callable[[Resolution], Sequence[Pin]] | None = None,
    has_older_releases: bool = True,
    exclude_hint: str = "",
) -> Resolution:
    """Return a resolution whose necessary builds are all permitted.

    After the user consents, the resolution runs again with the requirements from build backends.

    :param candidates: the candidates, whose assumptions about permitted builds are dropped.
    :param may_ask: whether the user may be asked for consent.
    :param pins_without_consent: returns the pins that must be built and may not be; default: all
        pins of the resolution for which ``builds`` needs consent.
    :param has_older_releases: whether older releases can be taken instead.
    :param exclude_hint: the hint for leaving out folders; empty where that is impossible.
    :raises SourceBuildNotAllowed: a package must be built, and may not be.
    """
    while True:
        resolution = choose()
        if pins_without_consent is not None:
            pins = pins_without_consent(resolution)
        else:
            pins = [pin for pin in resolution.pins if builds.needs_consent(pin.file)]
        if not pins:
            return resolution
        has_wheels = has_older_releases and all(_has_wheels(candidates, pin.name) for pin in pins)
        error = _not_allowed_error(
            pins,
            resolution,
            builds,
            candidates,
            has_older_releases=has_wheels,
            exclude_hint=exclude_hint,
        )
        can_ask = may_ask and builds.mode == "ask" and not builds.why_impossible
        question = f"{error.note}\nBuilding runs its code. Build from source?"
        if not can_ask or not reporter.confirm(question):
            raise error
        builds.allow(pin.name for pin in pins)
        for pin in pins:
            candidates.discard_listing(pin.name)


def _has_wheels(candidates: Candidates, name: NormalizedName) -> bool:
    """Return whether any release of a project has a wheel for this machine."""
    listing = candidates.listing(name)
    if listing is None:
        return False
    return bool(set(listing.releases.possible_versions) - listing.releases.without_wheels())


def _not_allowed_error(
    pins: Sequence[Pin],
    resolution: Resolution,
    builds: Builds,
    candidates: Candidates,
    *,
    has_older_releases: bool,
    exclude_hint: str,
) -> SourceBuildNotAllowed:
    """Return the error with all packages to build, their dependents, and the ways out."""
    from wheelfit.resolution.bridges import bridge_options

    names = [f"{pin.name} {pin.shown_version}".rstrip() for pin in pins]
    unknown = [pin for pin in pins if not builds.has_requirements(pin.file)]
    lines = [_pin_line(pin, resolution) for pin in pins]
    if unknown:
        lines.append(
            f"the requirements of {listed([pin.name for pin in unknown])} are known only to the "
            "build backend, and are ignored here"
        )
    consent = " ".join(f"--allow-source {pin.name}" for pin in pins)
    projects = ",".join(pin.name for pin in pins)
    hints = [f"add {consent}, which runs {code_in_words(_is_folder(pin) for pin in pins)}"]
    if builds.why_impossible:
        lines.append(builds.why_impossible)
        hints = ["build wheels there and name them"]
    hints += filter(None, (bridge_options(candidates, pin.name) for pin in pins))
    if has_older_releases:
        hints.append(f"--only-binary {projects} takes older releases that have wheels")
    if exclude_hint and any(map(_is_folder, pins)):
        hints.append(exclude_hint)
    hint = f"; {'' if builds.why_impossible else 'or '}".join(hints)
    return SourceBuildNotAllowed(
        f"{listed(names)} must be built from source, which is not allowed",
        note="\n".join(lines),
        hint=hint,
        details=[
            {
                "name": pin.name,
                "version": str(pin.version),
                "filename": pin.file.display_name,
                "needed_by": _dependents(pin.name, resolution),
                "needs_known": pin not in unknown,
            }
            for pin in pins
        ],
    )


def code_in_words(are_folders: Iterable[bool]) -> str:
    """Return the origin of the code that builds run, in words.

    :param are_folders: for each build, whether it is of a folder of the user.
    """
    return "the code in that folder" if all(are_folders) else "code of its publisher"


def _is_folder(pin: Pin) -> bool:
    return pin.file.origin is not None and pin.file.origin.is_folder


def _pin_line(pin: Pin, resolution: Resolution) -> str:
    dependents = _dependents(pin.name, resolution)
    reasons = [
        *(["requested"] if pin.requested else []),
        *(f"{dependent} needs it" for dependent in dependents),
    ]
    return ": ".join(filter(None, (pin.file.display_name, ", ".join(reasons))))


def _dependents(name: NormalizedName, resolution: Resolution) -> list[str]:
    """Return the dependents of a project, with their versions."""
    versions = {pin.name: str(pin) for pin in resolution.pins}
    versions |= {present.name: str(present) for present in resolution.kept}
    names = (edge.needing for edge in resolution.edges if edge.needed == name)
    return [versions.get(dependent, dependent) for dependent in dict.fromkeys(names)]
