"""See it all work, without touching anything of yours.

Takes a real wheel from the package registry (numpy), makes a variant of it for every level of this
kind of processor, serves them from a small index on this machine, explains the choice for this
machine and three simulated ones, installs into a throw-away environment, imports the result, and
cleans up. Without a network it uses a wheel it builds itself, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.sources import SOURCES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping
    from pathlib import Path

    from wheelfit.cli.demonstration import Family
    from wheelfit.cli.output import Output
    from wheelfit.core.target import Target
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolve.explain import Explanation
    from wheelfit.sources.remembered import Remembered

_PACKAGE = "numpy"


OPTIONS = (SOURCES,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Demonstrate."""
    import tempfile
    from pathlib import Path

    from wheelfit.cli.demonstration import choose_family, stock_index
    from wheelfit.install.environment import open_environment
    from wheelfit.server.loopback import LoopbackIndex

    with tempfile.TemporaryDirectory(prefix="wheelfit-demo-") as name:
        folder = Path(name)
        for part in ("plain", "index"):
            (folder / part).mkdir()
        target = open_environment(None, environ=environ).target()
        family = choose_family(target)
        plain, from_registry = _plain_wheel(arguments, environ, target, folder / "plain", output)
        project = plain.name.partition("-")[0].replace("_", "-")

        _step(output, f"making a variant of {plain.name} for each {family.feature}")
        wheels = stock_index(plain, family, folder / "index")
        with LoopbackIndex(folder / "index") as index:
            _step(output, f"serving {len(wheels)} wheels at {index.url}")
            explanations = []
            for machine in _machines(family, target, folder, environ, output):
                explanation = _explain(project, machine, index.url, environ, output)
                explanations.append((machine, explanation))
            installed = _install(project, index.url, folder / "environment", environ, output)
        imported = _import(project, folder / "environment", output)
    _step(output, "done; everything the demo made is gone")
    output.result_json(
        {
            "version": 1,
            "package": project,
            "from_registry": from_registry,
            "explanations": [
                {
                    "version": 1,
                    "target": machine.name,
                    **machine.to_mapping(),
                    "projects": [explanation.to_mapping()],
                    "agreements": [],
                }
                for machine, explanation in explanations
            ],
            "installed": {
                "version": 1,
                "dry_run": False,
                "host": None,
                "overrides": [],
                **installed,
                "variant_changes": [],
                "misfits": [],
                "agreements": [],
                "breaks": [],
                "plugins": [],
                "degradations": [],
            },
            "imported": imported,
        }
    )
    return 0


def _step(output: Output, text: str) -> None:
    if not output.json:
        output.result()
        output.result(text, "strong")


def _plain_wheel(
    arguments: Namespace,
    environ: Mapping[str, str],
    target: Target,
    folder: Path,
    output: Output,
) -> tuple[Path, bool]:
    """Fetch the wheel that would be installed today; or make one, without a network."""
    from wheelfit.cli.demonstration import own_wheel
    from wheelfit.cli.progress import Bars
    from wheelfit.core.ordering import Preferences
    from wheelfit.core.requirements import parse_requirement
    from wheelfit.errors import NetworkError, NoFit
    from wheelfit.operations.indexes import open_indexes, read_settings
    from wheelfit.platforms.discovery import Machine
    from wheelfit.resolve.candidates import Candidates, ChoicePolicy
    from wheelfit.resolve.request import Asked, Request
    from wheelfit.resolve.resolver import resolve

    settings = read_settings(arguments, environ)
    policy = ChoicePolicy(preferences=Preferences(variants=False))
    requirement = parse_requirement(_PACKAGE, allow_variant_markers=False)
    request = Request((Asked(requirement),), dependencies=False)
    _step(output, f"fetching {_PACKAGE} from the package registry")
    try:
        with (
            open_indexes(arguments, settings, environ, output) as repository,
            Bars(output, repository.cut) as bars,
        ):
            candidates = Candidates(repository, target, Machine(environ=environ), policy)
            resolution = resolve(request, candidates)
            (pin,) = resolution.pins
            path = repository.download(pin.file, folder, bars.transfer(pin.file.filename))
    except (NetworkError, NoFit) as error:
        output.warn(f"{_PACKAGE} cannot be had here ({error.message})")
        output.result("  no network: going on with a wheel built on the spot")
        return own_wheel(folder), False
    output.result(f"  {path.name}")
    return path, True


def _machines(
    family: Family, target: Target, folder: Path, environ: Mapping[str, str], output: Output
) -> list[ChosenMachine]:
    """Return this machine and the simulated ones, each from a host file as ``--for`` takes it."""
    import tomli_w

    from wheelfit.core.host_file import HostDetector
    from wheelfit.core.host_file_mapping import to_mapping
    from wheelfit.core.provider_steps import ProviderPolicy
    from wheelfit.operations.hosts import load_host_file
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.platforms.discovery import Machine

    here = Machine(environ=environ, architecture=target.architecture)
    overrides = here.overrides_in_effect()
    for override in overrides:
        output.warn(f"the environment overrides detection: {override}")
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
    environ: Mapping[str, str],
    output: Output,
) -> Explanation:
    from wheelfit.cli.explanations import print_explanation
    from wheelfit.core.requirements import parse_requirement
    from wheelfit.resolve.candidates import Candidates
    from wheelfit.resolve.explain import explain_project

    with _demo_index(url, environ) as repository:
        candidates = Candidates(
            repository, machine.target, machine.detector, user_lists=machine.user_lists
        )
        requirement = parse_requirement(project, allow_variant_markers=False)
        explanation = explain_project(candidates, requirement)
    if not output.json:
        output.result()
        print_explanation(explanation, machine, output)
    return explanation


def _demo_index(url: str, environ: Mapping[str, str]) -> Remembered:
    """Open the demo's own index and nothing else, with no cache: nothing of it may stay."""
    from wheelfit.sources.open import open_sources
    from wheelfit.sources.settings import SourceSettings

    return open_sources(SourceSettings(index_url=url), cache_folder=None, environ=environ)


def _install(
    project: str, url: str, folder: Path, environ: Mapping[str, str], output: Output
) -> dict[str, object]:
    """Make an environment and install into it, as ``wheelfit install`` does."""
    import tempfile
    import venv
    from pathlib import Path

    from wheelfit.cli.progress import Bars
    from wheelfit.core.requirements import parse_requirement
    from wheelfit.install.apply import apply
    from wheelfit.install.environment import open_environment
    from wheelfit.install.plan import plan
    from wheelfit.platforms.discovery import Machine
    from wheelfit.resolve.candidates import Candidates
    from wheelfit.resolve.request import Asked, Request
    from wheelfit.resolve.resolver import resolve

    _step(output, "installing into a throw-away environment")
    venv.create(folder, with_pip=False)
    environment = open_environment(str(folder), environ=environ)
    requirement = parse_requirement(project, allow_variant_markers=False)
    with (
        _demo_index(url, environ) as repository,
        tempfile.TemporaryDirectory(prefix="wheelfit-") as downloads,
        Bars(output, repository.cut) as bars,
    ):
        candidates = Candidates(repository, environment.target(), Machine(environ=environ))
        resolution = resolve(Request((Asked(requirement),)), candidates)
        planned = plan(resolution, environment.installed())
        wheels = {
            pin.name: repository.unpacked(
                pin.file, Path(downloads), bars.transfer(pin.file.filename)
            )
            for pin in planned.install
        }
        apply(planned, environment, wheels, progress=bars.transfer("1 wheel", "unpacked"))
    for pin in planned.install:
        output.result(f"  installed {pin}: {pin.reason}")
    return planned.to_mapping()


def _import(project: str, folder: Path, output: Output) -> str:
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
    version = done.stdout.strip()
    output.result(f"  import {module}: version {version} works")
    return version
