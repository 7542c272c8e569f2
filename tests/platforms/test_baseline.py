"""What is supported of a platform whose machine is elsewhere."""

from __future__ import annotations

import sys

import pytest

from wheelfit_runtime.platforms.discovery import Baseline
from wheelfit_runtime.platforms.features import FeatureConfig, Status


@pytest.mark.parametrize(
    ("architecture", "namespace", "features"),
    [
        ("x86_64", "x86_64", (FeatureConfig("level", ("v1",)),)),
        ("aarch64", "aarch64", (FeatureConfig("version", ("8a",)),)),
        ("x86_64", "aarch64", ()),
        ("aarch64", "x86_64", ()),
        ("aarch64", "nvidia", ()),
        ("i686", "x86_64", ()),
        ("", "x86_64", ()),
    ],
)
def test_baseline(architecture: str, namespace: str, features: tuple[FeatureConfig, ...]) -> None:
    """P-65: the lowest level of the architecture, nothing of another one or of accelerators."""
    detection = Baseline(architecture).detect(namespace)
    assert detection is not None
    assert detection.features == features
    assert detection.status is (Status.SUPPORTED if features else Status.NOTHING)


def test_nobody_is_asked() -> None:
    """P-65: this machine is not looked at: no file is opened, no process started, no library."""
    events: list[str] = []
    listening = True

    def listen(event: str, _: tuple[object, ...]) -> None:
        if listening:
            events.append(event)

    sys.addaudithook(listen)
    baseline = Baseline("x86_64")
    for namespace in baseline.namespaces:
        baseline.detect(namespace)
    listening = False
    assert [event for event in events if not event.startswith("object.")] == []


def test_other_namespaces() -> None:
    """Of a namespace without a provider of ours nothing is known."""
    assert Baseline("x86_64").detect("fictional_hw") is None
