"""A demonstration in a throw-away environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.building.index_file import write_index_files
from wheelfit.building.plain_wheel import write_plain_wheel
from wheelfit.building.variant_wheel import repack_wheel
from wheelfit.core.document import VariantDocument
from wheelfit.core.host_file import HostFile, HostProvider
from wheelfit.core.labels import parse_label
from wheelfit.core.properties import Property, PropertySet
from wheelfit.core.providers import PluginProvider
from wheelfit.operations.requests import SourceOptions, frozen_request
from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wheelfit.core.target import Target
    from wheelfit.installation.plan import Plan
    from wheelfit.operations.context import Context
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolution.explain import Explanation
    from wheelfit.sources.memoized import MemoizedRepository


@dataclass(frozen=True, slots=True)
class ProcessorFamily:
    """One kind of processor: the names of its variants, and what runs where."""

    namespace: str
    feature: str
    values: tuple[str, ...]
    """Best first; each also runs what comes after it."""
    provider: PluginProvider
    machines: tuple[tuple[str, str], ...]
    """Simulated machines: name of the host file, and the best value it supports."""

    def host_file(self, best: str) -> HostFile:
        """Describe a machine whose best value is ``best``."""
        values = self.values[self.values.index(best) :]
        feature = FeatureConfig(self.feature, values)
        return HostFile(providers=(HostProvider(self.namespace, features=(feature,)),))


_X86_64 = ProcessorFamily(
    "x86_64",
    "level",
    ("v4", "v3", "v2", "v1"),
    PluginProvider(requires=("x86-64-variant-provider>=0.2.1,<1",)),
    (
        ("server-with-avx512.toml", "v4"),
        ("laptop-of-2015.toml", "v3"),
        ("desktop-of-2009.toml", "v2"),
    ),
)
_AARCH64 = ProcessorFamily(
    "aarch64",
    "version",
    ("9.0a", "8.5a", "8.4a", "8.3a", "8.2a", "8.1a", "8a"),
    PluginProvider(requires=("aarch64-variant-provider>=0.2.0,<1",)),
    (
        ("grace-server.toml", "9.0a"),
        ("graviton3-server.toml", "8.4a"),
        ("single-board-computer.toml", "8a"),
    ),
)


def choose_family(target: Target) -> ProcessorFamily:
    """Return the kind of processor whose variants make sense on this machine."""
    arm = target.environment["platform_machine"].lower() in ("aarch64", "arm64")
    return _AARCH64 if arm else _X86_64


def own_wheel(folder: Path) -> Path:
    """Write a small wheel, for when there is no network."""
    source = '"""A package made by `wheelfit demo`."""\n\n__version__ = "1.0"\n'
    return write_plain_wheel(folder, "wheelfit-demo", "1.0", {"wheelfit_demo.py": source})


def stock_index(plain: Path, family: ProcessorFamily, folder: Path) -> list[Path]:
    """Put a wheel and a variant of it for every value into a folder, with the index file.

    The variants hold the same code: the demonstration is about choosing.

    :param plain: the wheel to start from; copied as it is.
    :param folder: an empty folder.
    :returns: the wheels, the plain one first.
    """
    copy = folder / plain.name
    copy.write_bytes(plain.read_bytes())
    sets = {
        parse_label(value): PropertySet.of(Property(family.namespace, family.feature, value))
        for value in family.values
    }
    document = VariantDocument(
        priorities=(family.namespace,),
        providers={family.namespace: family.provider},
        variants=sets,
    )
    wheels = [repack_wheel(copy, folder, label=label, document=document) for label in sets]
    write_index_files(folder)
    return [copy, *wheels]


_PACKAGE = "numpy"


@frozen_request
class DemoRequest(SourceOptions):
    """Where the wheel comes from that the demonstration starts with."""

    gpu: bool = False


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One step of the demonstration: its title, or what came of it."""

    title: str = ""
    line: str = ""
    explained: tuple[ChosenMachine, Explanation] | None = None


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the demonstration did."""

    package: str
    from_registry: bool
    """Whether the wheel comes from the package registry; otherwise it was built on the spot."""
    explanations: tuple[tuple[ChosenMachine, Explanation], ...]
    installed: Mapping[str, object]
    """The plan that was carried out, as plain data."""
    imported: str
    """The version that an import found."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "package": self.package,
            "from_registry": self.from_registry,
            "explanations": [
                {
                    "version": 1,
                    "target": machine.name,
                    **machine.to_mapping(),
                    "projects": [explanation.to_mapping()],
                    "agreements": [],
                    "accelerators": [],
                }
                for machine, explanation in self.explanations
            ],
            "installed": {
                "version": 1,
                "dry_run": False,
                "seconds": {},
                "host": None,
                "overrides": [],
                **self.installed,
                "variant_changes": [],
                "misfits": [],
                "agreements": [],
                "accelerators": [],
                "breaks": [],
                "plugins": [],
                "degradations": [],
                "held_back": [],
            },
            "imported": self.imported,
        }


def demonstrate(request: DemoRequest, context: Context) -> Iterator[DemoStep | DemoReport]:
    """Yield each step while it is done, and the report at the end; leave nothing behind.

    :param request: where the wheel comes from.
    :raises WheelfitError: a step failed.
    """
    import tempfile
    from pathlib import Path

    from wheelfit.installation.environment import open_environment
    from wheelfit.server.loopback import LoopbackIndex

    with tempfile.TemporaryDirectory(prefix="wheelfit-demo-") as name:
        folder = Path(name)
        for part in ("plain", "index"):
            (folder / part).mkdir()
        target = open_environment(None, environ=context.environ, may_be_own=True).target()
        family = choose_family(target)
        yield DemoStep(f"fetching {_PACKAGE} from the package registry")
        plain = _fetch(request, target, folder / "plain", context)
        from_registry = plain is not None
        if plain is None:
            yield DemoStep(line="no network: going on with a wheel built on the spot")
            plain = own_wheel(folder / "plain")
        else:
            yield DemoStep(line=plain.name)
        project = plain.name.partition("-")[0].replace("_", "-")
        yield DemoStep(f"making a variant of {plain.name} for each {family.feature}")
        wheels = stock_index(plain, family, folder / "index")
        with LoopbackIndex(folder / "index") as index:
            yield DemoStep(f"serving {len(wheels)} wheels at {index.url}")
            explanations = []
            for machine in _machines(family, target, folder, context):
                explanation = _explain(project, machine, index.url, context)
                explanations.append((machine, explanation))
                yield DemoStep(explained=(machine, explanation))
            yield DemoStep("installing into a throw-away environment")
            planned = _install(project, index.url, folder / "environment", context)
            for pin in planned.install:
                yield DemoStep(line=f"installed {pin}: {pin.reason}")
        imported = _import(project, folder / "environment")
        yield DemoStep(line=f"import {project.replace('-', '_')}: version {imported} works")
    yield DemoStep("done; everything the demo made is gone")
    yield DemoReport(project, from_registry, tuple(explanations), planned.to_mapping(), imported)


def _fetch(request: DemoRequest, target: Target, folder: Path, context: Context) -> Path | None:
    """Return the wheel that would be installed today; None without a network."""
    from wheelfit.core.ordering import Preferences
    from wheelfit.core.requirements import parse_requirement
    from wheelfit.operations.indexes import open_indexes, read_settings
    from wheelfit.resolution.candidates import Candidates, ChoicePolicy
    from wheelfit.resolution.request import RequestedRequirement, ResolutionRequest
    from wheelfit.resolution.resolver import resolve
    from wheelfit_runtime.errors import NetworkError, NoFit
    from wheelfit_runtime.platforms.discovery import Machine
    from wheelfit_runtime.platforms.system_view import SystemView

    settings = read_settings(request, context.environ)
    policy = ChoicePolicy(preferences=Preferences(variants=False))
    requirement = parse_requirement(_PACKAGE, allow_variant_markers=False)
    try:
        with (
            open_indexes(request, settings, context) as repository,
            context.reporter.transfers(repository.cut) as transfers,
        ):
            candidates = Candidates(
                repository, target, Machine(SystemView(environ=context.environ)), policy
            )
            resolution = resolve(
                ResolutionRequest((RequestedRequirement(requirement),), dependencies=False),
                candidates,
            )
            (pin,) = resolution.pins
            path = repository.download(pin.file, folder, transfers.transfer(pin.file.filename))
    except (NetworkError, NoFit) as error:
        context.reporter.warn(f"{_PACKAGE} cannot be had here ({error.message})")
        return None
    return path


def _machines(
    family: ProcessorFamily, target: Target, folder: Path, context: Context
) -> list[ChosenMachine]:
    """Return this machine and the simulated ones, each from a host file as ``--for`` takes it."""
    import tomli_w

    from wheelfit.core.host_file import HostDetector
    from wheelfit.core.host_file_mapping import to_mapping
    from wheelfit.core.provider_lookup import ProviderPolicy
    from wheelfit.operations.hosts import load_host_file
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit_runtime.platforms.discovery import Machine
    from wheelfit_runtime.platforms.system_view import SystemView

    here = Machine(SystemView(environ=context.environ, architecture=target.architecture))
    overrides = here.overrides_in_effect()
    for override in overrides:
        context.reporter.warn(f"the environment overrides detection: {override}")
    policy = ProviderPolicy()
    machines = [
        ChosenMachine("this machine", target, here, None, policy, here.namespaces, overrides)
    ]
    for name, best in family.machines:
        path = folder / name
        path.write_text(tomli_w.dumps(to_mapping(family.host_file(best))))
        described = HostDetector(load_host_file(str(path)), name)
        machines.append(
            ChosenMachine(name, target, None, described, policy, (family.namespace,), ())
        )
    return machines


def _explain(
    project: str,
    machine: ChosenMachine,
    url: str,
    context: Context,
) -> Explanation:
    from wheelfit.core.requirements import parse_requirement
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.explain import explain_project

    with _demo_index(url, context) as repository:
        candidates = Candidates(
            repository, machine.target, machine.detector, user_lists=machine.user_lists
        )
        requirement = parse_requirement(project, allow_variant_markers=False)
        return explain_project(candidates, requirement)


def _demo_index(url: str, context: Context) -> MemoizedRepository:
    """Open the demo's own index and nothing else, with no cache: nothing of it may stay."""
    from wheelfit.sources.open import open_sources
    from wheelfit.sources.settings import SourceSettings

    return open_sources(SourceSettings(index_url=url), cache_folder=None, environ=context.environ)


def _install(project: str, url: str, folder: Path, context: Context) -> Plan:
    """Make an environment and install into it, as ``wheelfit install`` does."""
    import tempfile
    import venv
    from pathlib import Path

    from wheelfit.core.requirements import parse_requirement
    from wheelfit.installation.apply import apply
    from wheelfit.installation.environment import open_environment
    from wheelfit.installation.plan import plan
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.request import RequestedRequirement, ResolutionRequest
    from wheelfit.resolution.resolver import resolve
    from wheelfit_runtime.platforms.discovery import Machine
    from wheelfit_runtime.platforms.system_view import SystemView

    venv.create(folder, with_pip=False)
    environment = open_environment(str(folder), environ=context.environ)
    requirement = parse_requirement(project, allow_variant_markers=False)
    with (
        _demo_index(url, context) as repository,
        tempfile.TemporaryDirectory(prefix="wheelfit-") as downloads,
        context.reporter.transfers(repository.cut) as transfers,
    ):
        candidates = Candidates(
            repository, environment.target(), Machine(SystemView(environ=context.environ))
        )
        resolution = resolve(ResolutionRequest((RequestedRequirement(requirement),)), candidates)
        planned = plan(resolution, environment.installed())
        wheels = {
            pin.name: repository.unpacked(
                pin.file, Path(downloads), transfers.transfer(pin.file.filename)
            )
            for pin in planned.install
        }
        apply(planned, environment, wheels, progress=transfers.transfer("1 wheel", "unpacked"))
    return planned


def _import(project: str, folder: Path) -> str:
    """Import the result, in the environment's own interpreter."""
    import subprocess

    from wheelfit.errors import UnusableInterpreter

    module = project.replace("-", "_")
    python = next(
        path for path in (folder / "bin/python", folder / "Scripts/python.exe") if path.exists()
    )
    program = f"import {module}; print({module}.__version__)"
    done = subprocess.run(
        [str(python), "-I", "-c", program], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UnusableInterpreter(
            f"{module} was installed but cannot be imported", note=done.stderr.strip()[-2000:]
        )
    return done.stdout.strip()
