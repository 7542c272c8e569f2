"""P-39: every provider of ours is reachable through PEP 850's plugin interface."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from platforms.detecting import detection_of
from programs import run_program

from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.facts import Cpu
from wheelfit_runtime.platforms.features import FeatureConfig
from wheelfit_runtime.platforms.providers import families, namespaces
from wheelfit_runtime.platforms.providers.aarch64 import provider as aarch64
from wheelfit_runtime.platforms.providers.amd import provider as amd
from wheelfit_runtime.platforms.providers.amd.probes import AmdDriver, AmdGpu
from wheelfit_runtime.platforms.providers.amd.tables import APPENDED_GFX, PUBLISHED_GFX
from wheelfit_runtime.platforms.providers.ascend import provider as ascend
from wheelfit_runtime.platforms.providers.ascend.probes import AscendCard, AscendDriver
from wheelfit_runtime.platforms.providers.intel import provider as intel
from wheelfit_runtime.platforms.providers.intel.files import IntelDriver, IntelGpu
from wheelfit_runtime.platforms.providers.intel.tables import DEVICES
from wheelfit_runtime.platforms.providers.nvidia import provider as nvidia
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaDriver, NvidiaGpu
from wheelfit_runtime.platforms.providers.tpu import provider as tpu
from wheelfit_runtime.platforms.providers.tpu.probes import TpuChip, TpuFiles
from wheelfit_runtime.platforms.providers.x86_64 import provider as x86_64
from wheelfit_runtime.platforms.system_view import SystemView

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(params=families(), ids=namespaces())
def provider(request: pytest.FixtureRequest) -> Any:
    """Return each provider."""
    return request.param.provider


def test_features_have_the_shape_of_the_interface(provider: Any) -> None:
    """P-26, P-27, P-28: objects with name, a list of values, and multi_value."""
    for config in (*provider.get_all_configs(), *provider.get_supported_configs()):
        assert re.fullmatch(r"[a-z0-9_]+", config.name)
        assert isinstance(config.values, list)
        assert isinstance(config.multi_value, bool)
        assert len(set(config.values)) == len(config.values) > 0
        assert all(re.fullmatch(r"[a-z0-9_.]+", value) for value in config.values)


def test_the_interface_says_what_detection_says(provider: Any) -> None:
    """P-26: same features, same values, same order."""
    detection = detection_of(provider.namespace, Machine())
    assert detection.features == tuple(
        FeatureConfig(config.name, tuple(config.values), config.multi_value)
        for config in provider.get_supported_configs()
    )


def test_every_value_is_accepted_by_the_overrides(provider: Any) -> None:
    """P-28, P-73: the vocabulary can be written in an override."""
    for config in provider.get_all_configs():
        assert all(provider.accepts(config.name, value) for value in config.values)


def test_what_is_supported_is_a_part_of_the_vocabulary() -> None:
    """P-28: for every driver and device of the reference's vocabulary, and every flag."""
    everything = frozenset(config.name for config in x86_64.PROVIDER.get_all_configs())
    abilities = frozenset(config.name for config in aarch64.PROVIDER.get_all_configs())
    cases: list[tuple[Any, Any]] = [
        (x86_64, x86_64.supported(Cpu(everything))),
        (aarch64, aarch64.supported(Cpu(abilities))),
    ]
    for major in range(5, 13):
        for minor in range(10):
            gpu = NvidiaGpu(0, "", Capability(major, minor))
            driver = NvidiaDriver(cuda_version=Capability(11 + minor % 5, minor), gpus=(gpu,))
            cases.append((nvidia, nvidia.supported(driver)))
    devices = tuple(IntelGpu(index, "", ip) for index, ip in enumerate(DEVICES))
    cases.append((intel, intel.supported(IntelDriver(devices))))
    chip = TpuChip("0000:00:05.0", 0x0063, "v5e")
    cases += [(tpu, tpu.supported(TpuFiles())), (tpu, tpu.supported(TpuFiles((chip,))))]
    gpus = tuple(AmdGpu(place, name) for place, name in enumerate((*PUBLISHED_GFX, *APPENDED_GFX)))
    for version in ((5, 0), (6, 4), (7, 10)):
        cases.append((amd, amd.supported(AmdDriver(gpus, version), same_major=True)))
    cards = tuple(AscendCard(place, chip) for place, chip in enumerate(("910b3", "310p3", "910")))
    cases.append((ascend, ascend.supported(AscendDriver(cards))))
    for provider, detection in cases:
        valid = {config.name: set(config.values) for config in provider.PROVIDER.get_all_configs()}
        for feature in detection.features:
            assert set(feature.values) <= valid[feature.name]


ASK = """
import json, sys
from variantlib.plugins.loader import PluginLoader
from variantlib.variants_json import VariantsJson
document = VariantsJson(json.load(sys.stdin))
with PluginLoader(document, include_aot_plugins=True) as loader:
    valid, supported = loader.get_all_configs(), loader.get_supported_configs()
def plain(found):
    return {
        name: [[one.name, one.values, one.multi_value] for one in provider.configs]
        for name, provider in found.items()
    }
print(json.dumps([plain(valid), plain(supported)]))
"""

# So that most of them support something, whatever machine this is.
FORCED = {
    "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": "12.8",
    "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "9.0",
    "WHEELFIT_OVERRIDE_AARCH64_VERSION": "8.2a,8.1a,8a",
    "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH": "gfx942",
    "INTEL_VARIANT_PROVIDER_FORCE_DEVICE_IP": "20.2.0",
    "ASCEND_VARIANT_PROVIDER_FORCE_NPU_TYPE": "910b",
    "TPU_VARIANT_PROVIDER_FORCE_PRESENT": "true",
}


@pytest.fixture(scope="session")
def installed(pip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the distribution of the providers installed in it, alone."""
    folder = tmp_path_factory.mktemp("installed")
    words = (pip, "install", "--quiet", "--no-deps", "--target", folder, REPOSITORY / "runtime")
    completed = run_program(*words, code=None)
    if "No matching distribution found for hatchling" in completed.stderr:
        pytest.skip(f"cannot be built without the package registry: {completed.stderr}")
    assert completed.returncode == 0, completed.stderr
    return folder


@pytest.mark.network
def test_an_independent_tool_can_query_them(installed: Path, variantlib_python: Path) -> None:
    """P-26, P-28, P-39: variantlib asks all of them as the plugins of a document."""
    document = {
        "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
        "default-priorities": {"namespace": list(namespaces())},
        "providers": {
            family.namespace: {"requires": ["wheelfit-runtime"], "plugin-api": family.plugin_api}
            for family in families()
        },
        "variants": {"null": {}},
    }
    kept = {name: value for name, value in os.environ.items() if "PROVIDER" not in name}
    environ = {**kept, **FORCED, "PYTHONPATH": str(installed)}
    question = json.dumps(document)
    completed = run_program(variantlib_python, "-c", ASK, input=question, env=environ)
    valid, supported = json.loads(completed.stdout)
    here = Machine(SystemView(environ=environ))
    for family in families():
        name = family.namespace
        configs = family.provider.get_all_configs()
        assert valid[name] == [
            [config.name, config.values, config.multi_value] for config in configs
        ]
        detection = detection_of(name, here)
        # An empty list means that nothing is supported (P-26); variantlib leaves it out.
        assert supported.get(name, []) == [
            [feature.name, list(feature.values), feature.multi_value]
            for feature in detection.features
        ]
    assert supported.keys() >= set(namespaces()) - {"x86_64"}


def test_no_plugin_is_registered() -> None:
    """P-32: an installer is not a plugin; tools that list plugins would write it into projects."""
    found = set()
    for file in (REPOSITORY / "pyproject.toml", REPOSITORY / "runtime" / "pyproject.toml"):
        found |= set(tomllib.loads(file.read_text("utf-8"))["project"].get("entry-points", ()))
    # PyInstaller finds by this how it freezes what chooses at run time.
    assert found == {"pyinstaller40"}
