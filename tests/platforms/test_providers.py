"""Each family of hardware is one folder: to add one is to add a folder, and nothing else."""

from __future__ import annotations

import ast
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from platforms.detecting import write_files
from python_runs import printed_by

import wheelfit
import wheelfit_runtime
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.hardware_family import HardwareFamily

PACKAGE = Path(wheelfit_runtime.__file__).parent
WHOLE = Path(wheelfit.__file__).parent
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-hardware.md"
BLOCK = re.compile(r'```python title="(\w+\.py)"\n(.*?)```', re.DOTALL)
VARIABLES = {
    "ABACUS_HOME": "/opt/abacus",
    "ABACUS_VISIBLE_RODS": "0",
    "ABACUS_VARIANT_PROVIDER_FORCE_KIND": "",
}


# --- a made-up family ----------------------------------------------------------------------------


def linked_package(folder: Path) -> Path:
    """Make the package anew of links to what it has, and return its folder of providers."""
    target, source = folder / PACKAGE.name, PACKAGE
    for inside in ("platforms", "providers", ""):
        target.mkdir()
        for entry in source.iterdir():
            if entry.name != inside:
                (target / entry.name).symlink_to(entry)
        target, source = target / inside, source / inside
    return target


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package as it is, and the family of the how-to."""
    folder = tmp_path_factory.mktemp("grown")
    added = linked_package(folder) / "abacus"
    added.mkdir()
    (added / "__init__.py").write_text('"""Abacuses."""\n')
    for name, text in BLOCK.findall(GUIDE.read_text("utf-8")):
        (added / name).write_text(text)
    return folder


ASKED = """
import json, sys
from wheelfit.building.provider_guide import guide_to
from wheelfit.checking.documents.document import VOCABULARIES
from wheelfit.core.accelerators import ACCELERATORS, owner_of_libraries
from wheelfit.core.agreements import AGREEMENTS
from wheelfit.core.phrases import describe_requirement, describe_unmet
from wheelfit.core.properties import Feature
from wheelfit.core.provider_table import EMULATED_PLUGINS, HARDWARE
from wheelfit.core.shorthands import NAMES, find_shorthand
from wheelfit.doctor.machine import Hardware
from wheelfit.doctor.settings import variables_in
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.accelerator_libraries import identify
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.presets import compose, preset_lines
from wheelfit_runtime.platforms.recording import _DEVICE
from wheelfit_runtime.platforms.scrubbing import concerns_detection
from wheelfit_runtime.platforms.system_view import SystemView
from wheelfit.server.site.machines import group_of

root, variables = sys.argv[1], json.loads(sys.argv[2])
kind = Feature("abacus", "kind")
linux = {"system": "Linux", "architecture": "x86_64"}
machine = Machine(SystemView(root, variables, **linux))
nowhere = Machine(SystemView("/nonexistent", {}, **linux))
said = Machine(SystemView(root, {"WHEELFIT_OVERRIDE_ABACUS_KIND": "suanpan"}))
found, nothing = machine.detect("abacus"), nowhere.detect("abacus")
preset = compose(["abacus-suanpan"]).detections()
library, driver = identify("libbeads.so.3"), identify("libabacus_driver.so.1")
print(json.dumps({
    "namespaces": providers.namespaces(),
    "detected": [list(one.values) for one in found.features],
    "overridden": said.overrides_in_effect(),
    "preset": [list(f.values) for one in preset if one.namespace == "abacus" for f in one.features],
    "lines": [one.pattern for one in preset_lines() if one.pattern.startswith("abacus")],
    "group": group_of("abacus-suanpan"),
    "shorthand": [str(one) for one in find_shorthand("beads").require],
    "others": [str(one) for one in find_shorthand("cpu").forbid],
    "names": NAMES,
    "known": VOCABULARIES["abacus"].features["kind"].is_known("soroban"),
    "wish": describe_requirement(kind, ("soroban",)),
    "missing": describe_unmet([(kind, ("soroban",))], nothing),
    "hardware": [ACCELERATORS["abacus"], "abacus" in HARDWARE],
    "plugins": [row.package for row in EMULATED_PLUGINS if row.namespace == "abacus"],
    "agreement": [one.title for one in AGREEMENTS if one.name == "beads"],
    "owner": owner_of_libraries("acme-beads-runtime"),
    "present": sorted(Hardware.of([found]).present),
    "variables": {one.name: one.meaning for one in variables_in(variables)},
    "leaves": [concerns_detection("ABACUS_HOME"), concerns_detection("OTHER_HOME")],
    "recorded": bool(_DEVICE.fullmatch("/dev/abacus0")),
    "library": [library.family, driver.family, driver.kind],
    "guide": guide_to("abacus").to_mapping(),
}))
"""


def run(grown: Path, *words: str, **environ: str) -> str:
    """Run Python with the grown package, and return what it prints."""
    # What is compiled would lie behind the links, in the package itself.
    own = {"PYTHONPATH": str(grown), "PYTHONDONTWRITEBYTECODE": "1"}
    return printed_by(*words, environ={**os.environ, **own, **environ})


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the root of a machine with an abacus."""
    root = tmp_path_factory.mktemp("machine")
    write_files(root, {"proc/driver/abacus/kind": "soroban\n"})
    return root


@pytest.fixture(scope="module")
def told(grown: Path, machine: Path) -> dict[str, Any]:
    """Return what everything that knows of hardware tells of the made-up family."""
    answer = run(grown, "-c", ASKED, str(machine), json.dumps(VARIABLES))
    return dict(json.loads(answer))


def test_it_is_detected_after_all_others(told: dict[str, Any]) -> None:
    """By its rank it is the last; a file tells its kind, and a variable of ours replaces that."""
    assert told["namespaces"] == [*providers.namespaces(), "abacus"]
    assert told["detected"] == [["soroban"]]
    assert told["overridden"] == ["WHEELFIT_OVERRIDE_ABACUS_KIND=suanpan"]


def test_presets_name_it(told: dict[str, Any]) -> None:
    """A preset has it, the list shows it, and the pages of an index have a group of its own."""
    assert told["preset"] == [["suanpan"]]
    assert told["lines"] == ["abacus-soroban", "abacus-suanpan"]
    assert told["group"] == "Acme abacuses"


def test_wishes_name_it(told: dict[str, Any]) -> None:
    """``--variant`` knows both of its words; builds for it are none for the CPU alone."""
    assert told["shorthand"] == ["abacus"]
    assert "abacus" in told["others"]
    assert "abacus" in told["names"]


def test_checks_and_explanations_know_it(told: dict[str, Any]) -> None:
    """``check`` knows its values, and what is missing is said in its words."""
    assert told["known"] is True
    assert told["wish"] == "needs abacus :: kind :: soroban"
    assert told["missing"] == "needs an abacus; none was found (abacus :: kind :: soroban)"


def test_packages_for_it_are_known(told: dict[str, Any]) -> None:
    """Its plugin, what its packages agree on, and who owns packages of its libraries."""
    assert told["hardware"] == ["abacus", True]
    assert told["plugins"] == ["abacus-variant-provider"]
    assert told["agreement"] == ["beads"]
    assert told["owner"] == "abacus"
    assert told["library"] == ["beadwork", "driver", "abacus"]


def test_doctor_knows_its_devices_and_variables(told: dict[str, Any]) -> None:
    """A device counts as hardware, and variables are told with their meaning."""
    assert told["present"] == ["abacus"]
    assert told["variables"] == {
        "ABACUS_HOME": "where beadwork is looked for",
        "ABACUS_VARIANT_PROVIDER_FORCE_KIND": "replaces what is detected",
        "ABACUS_VISIBLE_RODS": "programs see Acme abacuses 0 only",
    }


def test_records_take_its_variables_and_nodes(told: dict[str, Any]) -> None:
    """Its variables leave the machine with a record and others do not; its nodes are listed."""
    assert told["leaves"] == [True, False]
    assert told["recorded"] is True


def test_maintainers_are_guided(told: dict[str, Any]) -> None:
    """The build guide says what it is for, and which entry every tool understands."""
    guide = told["guide"]
    assert guide["purpose"] == "which kind of abacus there is"
    assert guide["features"] == [
        {"feature": "kind", "values": ["soroban", "suanpan"], "multi_value": False}
    ]
    assert guide["entry"] == {
        "requires": ["abacus-variant-provider>=1.0,<1"],
        "plugin-api": "abacus_provider:Plugin",
    }


@pytest.mark.integration
def test_commands_show_it(grown: Path, tmp_path: Path) -> None:
    """`host list`, `providers` and `probe` need to be told nothing."""
    environ = {"HOME": str(tmp_path), "WHEELFIT_CACHE_DIR": str(tmp_path / "cache")}
    listed = run(grown, "-m", "wheelfit", "host", "list", "abacus", **environ)
    assert "Acme abacuses, by kind:" in listed
    assert "abacus-soroban" in listed
    shown = json.loads(run(grown, "-m", "wheelfit", "providers", "list", "--json", **environ))
    assert "abacus" in [one["namespace"] for one in shown["built_in"]]
    words = ("probe", "--json", "--for", "abacus-soroban")
    probed = json.loads(run(grown, "-m", "wheelfit", *words, **environ))
    features = probed["namespaces"]["abacus"]["features"]
    assert [feature["values"] for feature in features] == [["soroban"]]


def test_it_is_found_in_an_archive_too(grown: Path, tmp_path: Path) -> None:
    """A zipapp has no folder to list (`zipimport`)."""
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for folder, _, names in os.walk(grown, followlinks=True):
            for path in (Path(folder) / name for name in names if name.endswith(".py")):
                target.write(path, path.relative_to(grown))
    code = "from wheelfit_runtime.platforms import providers; print(*providers.namespaces())"
    assert run(archive, "-c", code).split() == [*providers.namespaces(), "abacus"]


# --- what each family has ------------------------------------------------------------------------

EVERY = pytest.mark.parametrize("family", providers.families(), ids=providers.namespaces())


@EVERY
def test_a_family_has_all_its_modules(family: HardwareFamily) -> None:
    """What others ask for is there, in the form that they expect."""
    folder = PACKAGE / "platforms" / "providers" / family.namespace
    names = {path.stem for path in folder.glob("*.py")}
    assert names >= {"record", "provider", "vocabulary", "presets"}
    assert family.module("probes").MACOS_NAMES if family.is_processor else family.shorthand
    assert providers.by_namespace(family.namespace) is family
    feature = family.baseline[0] if family.baseline else family.presence or "present"
    assert feature in family.module("vocabulary").VOCABULARY.features


def test_ranks_are_distinct() -> None:
    """The order of families does not depend on their names."""
    ranks = [family.rank for family in providers.families()]
    assert sorted(set(ranks)) == ranks


def test_what_is_no_family_is_none() -> None:
    """A namespace is a text of a document: no text leads to anything but a family."""
    for name in ("", "record", "family", "__init__", "__pycache__", "os", "nvidia.record", "../x"):
        assert providers.by_namespace(name) is None


def test_the_remains_of_a_folder_are_no_family(tmp_path: Path) -> None:
    """A folder with nothing but compiled modules stays behind where another version was."""
    (linked_package(tmp_path) / "gone" / "__pycache__").mkdir(parents=True)
    code = "from wheelfit_runtime.platforms import providers; print(*providers.namespaces())"
    assert run(tmp_path, "-c", code).split() == list(providers.namespaces())


def test_one_record_imports_no_other() -> None:
    """P-22: who asks about one family imports neither the others nor any provider."""
    code = (
        "import sys; from wheelfit_runtime.platforms import providers\n"
        "providers.by_namespace('ascend')\n"
        "print(*(n for n in sys.modules if n.startswith('wheelfit_runtime.platforms.providers.')))"
    )
    assert run(PACKAGE.parent, "-c", code, PYTHONPYCACHEPREFIX="").split() == [
        "wheelfit_runtime.platforms.providers.ascend",
        "wheelfit_runtime.platforms.providers.ascend.record",
    ]


# --- nowhere else --------------------------------------------------------------------------------

# The names of processors are those of architectures as well, which tags and compilers have.
NAMED = re.compile(
    r"(?<![a-z0-9])(nvidia|amd|rocm|intel|xpu|ascend|cann|huawei|npu|tpu)(?![a-z0-9])",
    re.IGNORECASE,
)
EXCEPTIONS = {
    # What the name means there is something else.
    "building/ci.py": "names of runners of a CI service",
    "building/publishing/completeness.py": "macOS's tags for Intel's processors",
    "building/publishing/tool_choices.py": "presets of the machines that are asked",
    "operations/bridge_checks.py": "the CUDA major of requirements",
    "operations/demo.py": "builds and presets of the demonstration",
    "checking/wheels/platform_tags.py": "macOS's tags for Intel's processors",
    "server/uploads/rules.py": "macOS's tags for Intel's processors",
    "wheelfit_runtime/platforms/known_platforms.py": "macOS on Intel's processors",
    "wheelfit_runtime/platforms/presets.py": "machines that presets name whole",
    "core/static_families.py": "an OpenMP run-time library",
    "wheelfit_runtime/platforms/accelerator_libraries.py": "an OpenMP run-time library",
    "wheelfit_runtime/platforms/scrubbing.py": "how tools of several makers write identifiers",
    # A process of its own, in which nothing of ours can be imported.
    "wheelfit_runtime/platforms/isolated/confinement.py": "what a confined plugin may read",
    # An option that belongs to one provider, on its way from the command line.
    "operations/machine.py": "--rocm-compat, --tpu-generation",
    "cli/options/table/machine.py": "--rocm-compat, --tpu-generation",
    "cli/options/table/variants.py": "examples of shorthands",
    "wheelfit_runtime/platforms/recording.py": "--rocm-compat, --tpu-generation",
    # What another tool knows.
    "core/virtual_packages.py": "conda's virtual packages of CUDA",
    "resolution/virtual_package_hosts.py": "conda's virtual packages of CUDA",
    "checking/tool_profiles.py": "the providers that uv brings",
    # CUDA and ROCm, of which wheels contain code that is read, and processes have libraries.
    "checking/wheels/binaries.py": "GPU code in wheels",
    "operations/wheels.py": "GPU code in wheels",
    "wheels/binaries/offload.py": "GPU code in wheels",
    "checking/wheels/loading.py": "libraries of drivers, which no wheel brings",
    # What compilers for GPUs are told.
    "building/jobs.py": "variables of GPU compilers",
    "building/front_end/finishing.py": "GPU code that was asked for",
    "building/front_end/toolchains/gpus.py": "variables of GPU compilers",
    "wheels/binaries/properties.py": "GPU code in wheels",
    "cli/render/diagnosis.py": "versions of CUDA and ROCm of installed packages",
    "operations/diagnosis.py": "versions of CUDA and ROCm of installed packages",
    "doctor/diagnoses.py": "diagnoses of NVIDIA's driver",
    "doctor/accelerators.py": "versions of CUDA and ROCm of installed packages",
    "doctor/machine.py": "diagnoses of NVIDIA's driver, and versions of it and its GPUs",
    "doctor/packages.py": "versions of CUDA and ROCm of installed packages",
    "doctor/process.py": "versions of CUDA and ROCm of installed packages",
    "doctor/settings.py": "diagnoses of NVIDIA's tools",
    "wheelfit_runtime/loader/value_choice.py": "CUDA in this process",
    "wheelfit_runtime/loader/evidence.py": "CUDA in this process",
    "wheelfit_runtime/loader/planning.py": "CUDA in this process",
    "wheelfit_runtime/loader/process.py": "CUDA in this process",
    "wheelfit_runtime/libraries/toolkits/cuda.py": "wheels with CUDA's libraries",
    "wheelfit_runtime/libraries/toolkits/oneapi.py": "wheels with oneAPI's libraries",
    "wheelfit_runtime/libraries/folders.py": "wheels with CUDA's libraries",
}
"""Modules that name hardware outside of its folder, each with its reason."""


def _naming() -> set[str]:
    """Return the modules that name hardware in a text that is not a documentation."""
    found = set()
    own = [(path, path.relative_to(WHOLE)) for path in WHOLE.rglob("*.py")]
    below = [(path, path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py")]
    for path, place in [*own, *below]:
        name = place.as_posix()
        if name.startswith(("wheelfit_runtime/platforms/providers/", "testing/")):
            continue
        text = path.read_text("utf-8")
        if not NAMED.search(text):
            continue
        tree = ast.parse(text)
        documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        if any(
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documentation
            and NAMED.search(node.value)
            for node in ast.walk(tree)
        ):
            found.add(name)
    return found


def test_hardware_is_named_in_its_folder_alone() -> None:
    """A fact stands once: what is said of a family elsewhere has a reason in the list above."""
    assert _naming() == set(EXCEPTIONS)
