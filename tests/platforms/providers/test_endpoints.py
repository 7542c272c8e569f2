"""P-39: every provider of ours is reachable through PEP 850's plugin interface."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import wheelfit
from wheelfit.platforms.discovery import BUILT_IN, Machine
from wheelfit.platforms.facts import Capability, Cpu, NvidiaDriver, NvidiaGpu
from wheelfit.platforms.providers import aarch64, nvidia, x86_64
from wheelfit.platforms.providers.endpoint import as_plugin_features


@pytest.fixture(params=list(BUILT_IN))
def provider(request: pytest.FixtureRequest) -> Any:
    """Return each provider's module."""
    return importlib.import_module(BUILT_IN[request.param])


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
    detection = Machine().detect(provider.NAMESPACE)
    assert detection is not None
    assert provider.get_supported_configs() == as_plugin_features(detection.features)


def test_every_value_is_accepted_by_the_overrides(provider: Any) -> None:
    """P-28, P-73: the vocabulary can be written in an override."""
    for config in provider.get_all_configs():
        assert all(provider.accepts(config.name, value) for value in config.values)


def test_what_is_supported_is_a_part_of_the_vocabulary() -> None:
    """P-28: for every driver and device of the reference's vocabulary, and every flag."""
    everything = frozenset(config.name for config in x86_64.get_all_configs())
    abilities = frozenset(config.name for config in aarch64.get_all_configs())
    cases: list[tuple[Any, Any]] = [
        (x86_64, x86_64.supported(Cpu(everything))),
        (aarch64, aarch64.supported(Cpu(abilities))),
    ]
    for major in range(5, 13):
        for minor in range(10):
            gpu = NvidiaGpu(0, "", Capability(major, minor))
            driver = NvidiaDriver(cuda_version=Capability(11 + minor % 5, minor), gpus=(gpu,))
            cases.append((nvidia, nvidia.supported(driver)))
    for provider, detection in cases:
        valid = {config.name: set(config.values) for config in provider.get_all_configs()}
        for feature in detection.features:
            assert set(feature.values) <= valid[feature.name]


ASK = """
import json, sys
from variantlib.plugins.loader import DictPluginLoader
with DictPluginLoader({sys.argv[1]: sys.argv[2]}) as loader:
    valid = loader.get_all_configs()[sys.argv[1]].configs
    supported = loader.get_supported_configs().get(sys.argv[1])
print(json.dumps({
    "valid": [(one.name, one.values) for one in valid],
    "supported": [one.name for one in supported.configs] if supported else [],
}))
"""


@pytest.mark.network
def test_an_independent_tool_can_query_them(provider: Any, variantlib_python: Path) -> None:
    """P-39: variantlib takes our modules as plugins, and reads the same lists."""
    source = Path(wheelfit.__file__).parent.parent
    done = subprocess.run(
        [variantlib_python, "-c", ASK, provider.NAMESPACE, provider.__name__],
        capture_output=True, check=True, text=True, env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer == {
        "valid": [[one.name, one.values] for one in provider.get_all_configs()],
        "supported": [one.name for one in provider.get_supported_configs()],
    }
