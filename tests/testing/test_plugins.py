"""The builder of plugins for tests."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hostile.plugins import HOSTILE, hostile

from wheelfit.core.metadata import check_document
from wheelfit.testing.plugins import fictional_hw, fictional_tech, simple_plugin
from wheelfit.testing.wheels import build_wheel, release_document


def test_wheels(tmp_path: Path) -> None:
    """P-32: a plugin is a plain wheel with its endpoint in the entry points; equal each time."""
    path = simple_plugin("my_gpu", {"arch": ["90"]}).wheel(tmp_path / "one")
    again = simple_plugin("my_gpu", {"arch": ["90"]}).wheel(tmp_path / "two")
    assert path.name == "my_gpu_provider-1.0.0-py3-none-any.whl"
    assert path.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(path) as archive:
        points = archive.read("my_gpu_provider-1.0.0.dist-info/entry_points.txt").decode()
    assert points == "[variant_plugins]\nmy-gpu-provider = my_gpu_provider.plugin:Plugin\n"


def test_names() -> None:
    """P-170, P-171: the demo plugins have the names that demo wheels ask for."""
    assert fictional_tech().provider == {
        "requires": ["provider-fictional-tech==1.0.0"],
        "plugin-api": "provider_fictional_tech.plugin:FictionalTechPlugin",
    }
    assert fictional_hw().provider == {
        "requires": ["provider-fictional-hw==1.0.0"],
        "plugin-api": "provider_fictional_hw.plugin:FictionalHWPlugin",
    }


def test_documents(tmp_path: Path) -> None:
    """P-6, P-7: what a plugin says of itself fits into a sound document."""
    plugin = fictional_hw()
    document = release_document(
        {"deep": {"fictional_hw": {"architecture": ["deepthought"]}}},
        providers={plugin.namespace: plugin.provider},
    )
    assert check_document(document) == ()
    build_wheel(tmp_path, "demo", "1", label="deep", document=document)


def test_hostile(tmp_path: Path) -> None:
    """Each kind has a name, says what it does, and is a wheel of its own."""
    names = set()
    for kind, words in HOSTILE.items():
        plugin = hostile(kind)
        assert words.endswith(".")
        assert plugin.endpoint == f"hostile_{kind}:{kind}"
        names.add(plugin.wheel(tmp_path).name)
    assert len(names) == len(HOSTILE) >= 50
    with pytest.raises(ValueError, match="there is no hostile plugin 'kind'"):
        hostile("kind")
