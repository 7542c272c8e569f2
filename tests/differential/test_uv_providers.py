"""The lists of uv 0.13.8's built-in providers, held against ours as a black box.

uv prints no lists. But of a release with two labels, one for each of two values, it takes the
better one: so neighbours in our list are put before it, and everything that is not in our list
in one label that must not be taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from differential.releases import PROVIDERS, Release, Shelves, Wheel
from differential.side_by_side import FORCED_CAPABILITY, FORCED_DRIVER, Tools
from platforms.detecting import detection_of, values_of

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import SCHEMA
from wheelfit_runtime.platforms.discovery import Baseline, Machine
from wheelfit_runtime.platforms.providers.aarch64.tables import VERSIONS
from wheelfit_runtime.platforms.providers.nvidia import provider as nvidia
from wheelfit_runtime.platforms.providers.x86_64 import provider as x86_64
from wheelfit_runtime.platforms.providers.x86_64.tables import LEVELS
from wheelfit_runtime.platforms.system_view import SystemView

pytestmark = pytest.mark.network

TAG = "py3-none-any"


def release(
    name: str, namespace: str, feature: str, labels: Mapping[str, Sequence[str]]
) -> Release:
    """Make a release whose labels name values of one feature."""
    document: dict[str, Any] = {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": [namespace]},
        "providers": {namespace: PROVIDERS[namespace][0]},
        "variants": {
            label: {namespace: {feature: sorted(values)}} for label, values in labels.items()
        },
    }
    wheels = tuple(
        Wheel(f"{name}-1.0-{TAG}-{label}.whl", label, TAG, build=None, yanked=False)
        for label in labels
    )
    return Release(name, document, document, wheels)


@dataclass(slots=True)
class Asked:
    """Hold what uv is asked, and what it must take."""

    releases: list[Release] = field(default_factory=list)
    expected: dict[str, str] = field(default_factory=dict)

    def feature(
        self, namespace: str, feature: str, supported: Sequence[str], valid: Sequence[str]
    ) -> None:
        """Ask for the whole list of a feature, in its order."""
        for better, worse in zip_longest(supported, supported[1:]):
            # The better value has the label that comes later by itself (F-66).
            labels = {"z": [better]} if worse is None else {"z": [better], "a": [worse]}
            self._put(namespace, feature, labels, "z")
        others = [value for value in valid if value not in supported]
        if others:
            self._put(namespace, feature, {"z": others}, None)

    def _put(
        self, namespace: str, feature: str, labels: Mapping[str, Sequence[str]], taken: str | None
    ) -> None:
        name = f"p{len(self.releases)}"
        self.releases.append(release(name, namespace, feature, labels))
        self.expected[name] = (
            f"{name}-0.1-{TAG}.whl" if taken is None else f"{name}-1.0-{TAG}-{taken}.whl"
        )


def lists(machine: Machine, namespace: str) -> dict[str, tuple[str, ...]]:
    """Return what our provider supports, by feature."""
    return values_of(detection_of(namespace, machine))


def taken_by_uv(
    uv: Path,
    folder: Path,
    asked: Asked,
    environment: Mapping[str, str],
    options: Sequence[str] = (),
) -> dict[str, str]:
    """Return the wheel that uv takes of each release."""
    shelves = Shelves(folder / "shelves")
    for one in asked.releases:
        shelves.add(one)
    with RecordingIndex(shelves) as index:
        tools = Tools(uv, folder, index.url, environment)
        return tools.uv_install(*asked.expected, options=options)


@pytest.mark.parametrize(
    ("driver", "capability"),
    [("12.8", "9.0"), ("13.1", "8.6"), ("11.0", "5.2"), ("15.20", "12.0")],
)
def test_same_bounds_and_code_as_uv(uv: Path, tmp_path: Path, driver: str, capability: str) -> None:
    """P-40, P-43, P-80, P-81, P-82, P-85: each list of values, in its order and no value more."""
    environment = {FORCED_DRIVER: driver, FORCED_CAPABILITY: capability}
    machine = Machine(SystemView(tmp_path, environment, reference=True))
    valid = {config.name: config.values for config in nvidia.PROVIDER.get_all_configs()}
    asked = Asked()
    for feature, values in lists(machine, "nvidia").items():
        asked.feature("nvidia", feature, values, valid[feature])
    assert taken_by_uv(uv, tmp_path, asked, environment) == asked.expected


@pytest.mark.parametrize(
    ("architecture", "feature", "highest"),
    [("x86_64", "level", "v2"), ("aarch64", "version", "8a")],
)
def test_another_platform_has_its_baseline(
    uv: Path, tmp_path: Path, architecture: str, feature: str, highest: str
) -> None:
    """P-65: on aarch64 it is the same one; of x86-64 uv assumes v2, which nobody promised."""
    ordered = {
        "x86_64": [name for name, _ in reversed(LEVELS)],
        "aarch64": list(VERSIONS),
    }[architecture]
    assumed = ordered[ordered.index(highest) :]
    asked = Asked()
    asked.feature(architecture, feature, assumed, ordered)
    options = ["--python-platform", f"{architecture}-manylinux_2_28", "--python-version", "3.12"]
    assert taken_by_uv(uv, tmp_path, asked, {}, options) == asked.expected
    detection = Baseline(architecture).detect(architecture)
    assert detection is not None
    assert detection.features[0].values == (ordered[-1],)
    assert (ordered[-1] == highest) == (architecture == "aarch64")


def test_same_level_as_uv(uv: Path, tmp_path: Path) -> None:
    """P-40, P-100, P-102: the level of this machine is the same; uv knows no flags, we do."""
    found = lists(Machine(SystemView(environ={}, reference=True)), "x86_64")
    if not found:
        pytest.skip("needs an x86-64 interpreter")
    asked = Asked()
    asked.feature("x86_64", "level", found["level"], x86_64.PROVIDER.get_all_configs()[0].values)
    asked.feature("x86_64", "sse2", [], ["on"])
    assert found["sse2"] == ("on",)
    assert taken_by_uv(uv, tmp_path, asked, {}) == asked.expected
