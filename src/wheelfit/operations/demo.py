"""Demonstrations: an installation into a throw-away environment, and choices for machines."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit.building.index_file import write_index_files
from wheelfit.building.plain_wheel import write_plain_wheel
from wheelfit.building.variant_wheel import repack_wheel
from wheelfit.core.document import VariantDocument
from wheelfit.core.host_file import HostFile, HostProvider
from wheelfit.core.labels import parse_label
from wheelfit.core.properties import Property, PropertySet
from wheelfit.core.providers import PluginProvider
from wheelfit.errors import UnusableInterpreter
from wheelfit.installation.environment import open_environment
from wheelfit.operations.context import Context, Reporter, Transfers
from wheelfit.operations.download import DownloadRequest, download
from wheelfit.operations.explain import ExplainReport, ExplainRequest, explain
from wheelfit.operations.hosts import host_text, hosts_folder
from wheelfit.operations.install import InstallRequest, install
from wheelfit.operations.plain_data import PlainReport, plain_fields, plain_report
from wheelfit.operations.requests import SourceOptions, request_like
from wheelfit.operations.user_folders import VARIABLE
from wheelfit.operations.venv import VenvRequest, create_venv
from wheelfit.server.loopback import LoopbackIndex
from wheelfit_runtime.errors import NetworkError, NoFit
from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from wheelfit.core.target import Target
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.resolution.explain import Explanation


@dataclass(frozen=True, slots=True)
class ProcessorFamily:
    """A family of processors, with their levels and simulated machines."""

    namespace: str
    feature: str
    values: tuple[str, ...]
    """Best first; each also runs all later ones."""
    provider: PluginProvider
    machines: tuple[tuple[str, str], ...]
    """Simulated machines: name of the machine, and the best value it supports."""

    def host_file(self, best: str) -> HostFile:
        """Return the description of a machine whose best value is ``best``."""
        values = self.values[self.values.index(best) :]
        feature = FeatureConfig(self.feature, values)
        return HostFile(providers=(HostProvider(self.namespace, features=(feature,)),))


_X86_64 = ProcessorFamily(
    "x86_64",
    "level",
    ("v4", "v3", "v2", "v1"),
    PluginProvider(requires=("x86-64-variant-provider>=0.2.1,<1",)),
    (
        ("server-with-avx512", "v4"),
        ("laptop-of-2015", "v3"),
        ("desktop-of-2009", "v2"),
    ),
)
_AARCH64 = ProcessorFamily(
    "aarch64",
    "version",
    ("9.0a", "8.5a", "8.4a", "8.3a", "8.2a", "8.1a", "8a"),
    PluginProvider(requires=("aarch64-variant-provider>=0.2.0,<1",)),
    (
        ("grace-server", "9.0a"),
        ("graviton3-server", "8.4a"),
        ("single-board-computer", "8a"),
    ),
)


def choose_family(target: Target) -> ProcessorFamily:
    """Return the processor family of a machine; x86-64 for others than these two."""
    is_arm = target.environment["platform_machine"].lower() in ("aarch64", "arm64")
    return _AARCH64 if is_arm else _X86_64


def write_demo_wheel(folder: Path) -> Path:
    """Write a small wheel, for demonstrations without a network."""
    source = '"""A package made by `wheelfit demo`."""\n\n__version__ = "1.0"\n'
    return write_plain_wheel(folder, "wheelfit-demo", "1.0", {"wheelfit_demo.py": source})


def write_demo_index(plain: Path, family: ProcessorFamily, folder: Path) -> list[Path]:
    """Write a wheel, its variants for every value and the index file to a folder.

    The variants have the same code, since only the choice is demonstrated.

    :param plain: the wheel to start from; copied unchanged.
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


class DemoRequest(SourceOptions):
    """The source of the wheel that the demonstration starts with."""

    gpu: bool = False


@dataclass(frozen=True, slots=True)
class DemoStep:
    """A step of the demonstration: its title, or its result."""

    title: str = ""
    line: str = ""
    explained: ExplainReport | None = None


@dataclass(frozen=True, slots=True)
class DemoReport(PlainReport):
    """The steps of the demonstration."""

    package: str
    from_registry: bool
    """Whether the wheel comes from the package registry; otherwise it was built here."""
    explanations: tuple[ExplainReport, ...]
    installed: ChangeReport
    imported: str
    """The version that an import found."""


def demonstrate(request: DemoRequest, context: Context) -> Iterator[DemoStep | DemoReport]:
    """Yield the steps of the demonstration, and the report at the end; no file is left."""
    with tempfile.TemporaryDirectory(prefix="wheelfit-demo-") as scratch:
        folder = Path(scratch)
        for part in ("plain", "index"):
            (folder / part).mkdir()
        target = open_environment(None, environ=context.environ, may_be_own=True).target
        family = choose_family(target)
        yield DemoStep(f"fetching {_PACKAGE} from the package registry")
        plain = _fetch(request, folder / "plain", context)
        from_registry = plain is not None
        if plain is None:
            yield DemoStep(line="no network: continuing with a wheel that is built here")
            plain = write_demo_wheel(folder / "plain")
        else:
            yield DemoStep(line=plain.name)
        project = plain.name.partition("-")[0].replace("_", "-")
        yield DemoStep(f"making a variant of {plain.name} for each {family.feature}")
        wheels = write_demo_index(plain, family, folder / "index")
        with LoopbackIndex(folder / "index") as index:
            yield DemoStep(f"serving {len(wheels)} wheels at {index.url}")
            demo = Demo(folder, index.url, context)
            for name, best in family.machines:
                demo.add_machine(name, family.host_file(best))
            explanations = []
            for machine in (None, *(name for name, _ in family.machines)):
                explanations.append(demo.explain(project, machine))
                yield DemoStep(explained=explanations[-1])
            yield DemoStep("installing into a throw-away environment")
            installed, python = demo.install(project)
            for pin in installed.decision.planned.install:
                yield DemoStep(line=f"installed {pin}: {pin.reason}")
        imported = _import(project, python)
        yield DemoStep(line=f"import {project.replace('-', '_')}: version {imported} works")
    yield DemoStep("done; all files of the demo were removed")
    yield DemoReport(project, from_registry, tuple(explanations), installed, imported)


def _fetch(request: DemoRequest, folder: Path, context: Context) -> Path | None:
    """Return the wheel that would be installed today; None without a network."""
    download_request = request_like(
        DownloadRequest,
        request,
        requirements=(_PACKAGE,),
        no_deps=True,
        no_variants=True,
        dest=str(folder),
    )
    try:
        silent = Context(context.environ, _TransfersOnly(context.reporter))
        (file,) = download(download_request, silent).files
    except (NetworkError, NoFit) as error:
        context.reporter.warn(f"{_PACKAGE} cannot be downloaded ({error.message})")
        return None
    return folder / file.filename


class _TransfersOnly(Reporter):
    """A reporter that forwards the progress of transfers, and nothing else."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def transfers(self, cancel: Callable[[], None]) -> AbstractContextManager[Transfers]:
        """Return the progress of transfers."""
        return self._reporter.transfers(cancel)


class Demo:
    """Commands against the index of a demonstration, without other sources, cache or plugins.

    :param folder: for temporary files.
    :param index: its URL, or a folder.
    :param bridge: its family of distributions, with the base of their indexes.
    """

    def __init__(self, folder: Path, index: str, context: Context, bridge: str = "") -> None:
        environ = {
            name: value for name, value in context.environ.items() if not name.startswith("PIP_")
        }
        environ |= {"PIP_CONFIG_FILE": os.devnull, VARIABLE: str(folder / "wheelfit.toml")}
        self._folder = folder
        self._context = Context(environ, context.reporter)
        self._silent = Context(environ)
        self._options: dict[str, Any] = {
            "index_url": index,
            "no_cache_dir": True,
            "no_plugins": True,
            "bridge": (bridge,) if bridge else (),
            "no_bridges": not bridge,
        }

    def add_machine(self, name: str, file: HostFile) -> None:
        """Write a host file for a machine of the demo."""
        folder = hosts_folder(self._context.environ)
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.toml").write_text(host_text(file), "utf-8")

    def explain(self, project: str, machine: str | None) -> ExplainReport:
        """Return the choice for a machine; None: this one."""
        # What is reported about a machine is in the steps already.
        context = self._context if machine is None else self._silent
        return explain(
            ExplainRequest(requirements=(project,), host=machine, **self._options), context
        )

    def install(self, project: str) -> tuple[ChangeReport, str]:
        """Install into a new environment; return the report and its Python."""
        path = str(self._folder / "environment")
        python = create_venv(VenvRequest(path=path), self._silent).python
        request = InstallRequest(requirements=(project,), python=python, **self._options)
        return install(request, self._silent), python


def _import(project: str, python: str) -> str:
    """Import the installed package in the environment's own Python, and return its version."""
    module = project.replace("-", "_")
    program = f"import {module}; print({module}.__version__)"
    process = subprocess.run(
        [python, "-I", "-c", program], capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise UnusableInterpreter(
            f"{module} was installed but cannot be imported", note=process.stderr.strip()[-2000:]
        )
    return process.stdout.strip()


# --- machines -------------------------------------------------------------------------------------


_PROJECT = "torch"
_FAMILY = "pytorch"
_BUILDS = {
    "2.13.0": ("cpu", "cu126", "cu130", "cu132", "rocm7.2"),
    "2.14.1": ("cpu", "cu126", "cu130", "cu132"),
    "2.15.0": ("cpu", "cu130", "cu132"),
}
"""The builds of each release in the index, as of November 2026."""
_PLATFORMS = ("manylinux_2_28_x86_64", "win_amd64")
_MAC = "macosx_14_0_arm64"
_MACHINES = (
    "cpu-linux", "h100-580", "v100-535", "rtx5090-windows", "mi300x-rocm7", "mac-m3",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MachineBuild:
    """The build that is chosen for a machine."""

    machine: str
    """The name of a preset."""
    description: str
    explanation: Explanation

    @property
    def build(self) -> str:
        """The version with its build, such as ``2.15.0+cpu``; empty if none is compatible."""
        return "" if self.explanation.chosen is None else str(self.explanation.chosen.version)


@dataclass(frozen=True, slots=True)
class MachinesReport:
    """The build for each machine."""

    builds: tuple[MachineBuild, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        machines = [
            plain_fields(row, "machine description explanation", build=row.build or None)
            for row in self.builds
        ]
        return plain_report(self, project=_PROJECT, machines=machines)


def demonstrate_machines(context: Context) -> Iterator[DemoStep | MachinesReport]:
    """Yield the steps of the demonstration, and the report at the end; no file is left."""
    with tempfile.TemporaryDirectory(prefix="wheelfit-demo-") as name:
        folder = Path(name)
        yield DemoStep(f"copying the layout of {_PROJECT}'s own index, with small wheels")
        count = sum(_write_release(folder, version) for version in _BUILDS)
        yield DemoStep(line=f"{count} wheels of {len(_BUILDS)} releases")
        yield DemoStep(f"choosing {_PROJECT} for {len(_MACHINES)} machines, without an option")
        builds = []
        demo = Demo(folder, str(folder), context, bridge=f"{_FAMILY}@{folder}")
        for machine in _MACHINES:
            report = demo.explain(_PROJECT, machine)
            description = "" if report.machine.host is None else report.machine.host.description
            builds.append(MachineBuild(machine, description, report.explanations[0]))
            yield DemoStep(line=f"{machine}: {builds[-1].build or 'nothing'}")
            yield DemoStep(line=f"  {builds[-1].description}")
    yield DemoStep("done; all files of the demo were removed")
    yield MachinesReport(tuple(builds))


def _write_release(folder: Path, version: str) -> int:
    """Write the wheels of a release in the layout of the index, and return their number."""
    count = 0
    for build in _BUILDS[version]:
        project_folder = folder / build / _PROJECT
        project_folder.mkdir(parents=True, exist_ok=True)
        platforms = _PLATFORMS[:1] if build.startswith("rocm") else _PLATFORMS
        wheels = [(f"{version}+{build}", platform) for platform in platforms]
        if build == "cpu":
            wheels.append((version, _MAC))
        for wheel_version, platform in wheels:
            path = write_plain_wheel(project_folder, _PROJECT, wheel_version, {"torch.py": ""})
            path.rename(project_folder / path.name.replace("-any.whl", f"-{platform}.whl"))
        count += len(wheels)
    return count
