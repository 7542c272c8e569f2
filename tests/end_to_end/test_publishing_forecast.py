"""The choices that a dry run predicts, compared with the real pip and uv."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import run_program
from server.running import RunningIndex, clean_environ

from wheelfit.building.publishing.release_files import collect_files, index_files_of
from wheelfit.building.publishing.tool_choices import MACHINES, tool_choices
from wheelfit.operations.release_checks import planned_releases
from wheelfit.resolution.preset_hosts import platforms_of_preset
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.platforms.presets import compose

pytest.importorskip("twine", reason="needs the extra `publish`")
pytest.importorskip("uvicorn", reason="needs the extra `server`")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts processes as Linux does")

LEVELS = [f"v{number}" for number in range(1, 5)]
DOCUMENT = release_document(
    {
        "cu118": {"nvidia": {"cuda_version_lower_bound": ["11.8"], "sm_arch": ["70_real"]}},
        "cu128": {"nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["90_real"]}},
        "v2": {"x86_64": {"level": ["v2"]}},
        "v4": {"x86_64": {"level": ["v4"]}},
    },
    providers={
        "nvidia": {
            "requires": ["nvidia-variant-provider>=0.0.1,<1"],
            "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        },
        "x86_64": {"requires": ["x86-64-variant-provider>=0.2.1,<1"]},
    },
)
UV_PLATFORMS = {
    "cpu-x86_64-v1": "x86_64-manylinux_2_28",
    "cpu-aarch64-8.2a": "aarch64-manylinux_2_28",
    "macos-arm64": "aarch64-apple-darwin",
    "windows-x86_64+cpu-x86_64-v3": "x86_64-pc-windows-msvc",
}
FORCED = {("11.8", "7.0"): "cuda-11.8-sm70", ("13.0", "9.0"): "cuda-13.0-sm90"}
"""Driver and capability that uv is made to believe in, and the preset of the same."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningIndex]:
    """Run an index."""
    with RunningIndex(tmp_path_factory.mktemp("index") / "store") as running:
        yield running


def build(folder: Path) -> None:
    """Build a release for Linux and macOS, with variants on one of them."""
    tag = "py3-none-manylinux_2_17_x86_64"
    for label in (*map(str, ["cu118", "cu128", "v2", "v4"]), None):
        document = DOCUMENT if label else None
        build_wheel(folder, "fast", "1.0", label=label, document=document, tag=tag)
    build_wheel(folder, "fast", "1.0", tag="py3-none-macosx_11_0_arm64")


def publish(folder: Path, index: RunningIndex, *words: str) -> dict[str, Any]:
    """Publish the files of a folder, or only report."""
    command = [sys.executable, "-m", "wheelfit", "publish", str(folder), "--to", index.url]
    completed = run_program(
        *command, *words, "--json",
        env=clean_environ(folder.parent) | {"WHEELFIT_INDEX_TOKEN": index.token},
        cwd=folder.parent,
    )  # fmt: skip
    report = json.loads(completed.stdout)
    assert isinstance(report, dict)
    return report


def pip_takes(pip: Path, url: str, machine: str, folder: Path) -> str | None:
    """Return the wheel that pip downloads for a machine; None if there is none."""
    platforms = platforms_of_preset(compose([machine]))
    folder.mkdir()
    completed = run_program(
        pip, "download", "--no-cache-dir", "--index-url", url, "--no-deps", "--dest", folder,
        "--only-binary", ":all:", "--python-version", "3.14",
        *(word for platform in platforms for word in ("--platform", platform)), "fast", code=None,
        env=clean_environ(folder),
    )  # fmt: skip
    found = [path.name for path in folder.glob("*.whl")]
    assert bool(found) == (completed.returncode == 0), completed.stderr
    return found[0] if found else None


def uv_takes(uv: Path, folder: Path, *words: str, **variables: str) -> str | None:
    """Return the build that uv installs; None if there is none."""
    completed = run_program(
        uv, "pip", "install", "--no-config", "--no-cache", "--python", sys.executable, "--target",
        folder, *words, "fast", code=None, env={**clean_environ(folder.parent), **variables},
    )  # fmt: skip
    if completed.returncode:
        assert "No solution found" in completed.stderr, completed.stderr
        return None
    return (folder / "fast" / "__init__.py").read_text().split("__variant__ = ")[1].strip()


def test_pip_and_uv(index: RunningIndex, pip: Path, uv: Path, tmp_path: Path) -> None:
    """B-54: both choose as a dry run before the upload predicted."""
    dist = tmp_path / "dist"
    build(dist)
    foretold = publish(dist, index, "--dry-run")
    assert index.get("/simple/fast/")[0] == 404
    (choices,) = foretold["choices"]
    rows = {row["machine"]: {tool["tool"]: tool for tool in row["tools"]}
            for row in choices["machines"]}  # fmt: skip
    assert list(rows) == list(MACHINES)
    assert any("nothing can be installed" in warning for warning in choices["warnings"])
    publish(dist, index)
    for number, (machine, tools) in enumerate(rows.items()):
        taken = pip_takes(pip, index.url, machine, tmp_path / f"pip{number}")
        assert taken == tools["pip"]["filename"], machine
    for machine, platform in UV_PLATFORMS.items():
        words = ("--index-url", index.url, "--python-platform", platform)
        taken = uv_takes(uv, tmp_path / f"uv-{platform}", *words)
        assert (taken is None) == (rows[machine]["uv"]["outcome"] == "nothing"), machine
        assert taken in (None, "None")


def test_uv_preview(index: RunningIndex, uv: Path, tmp_path: Path) -> None:
    """B-54, P-60: uv's preview chooses as predicted, on this machine with two simulated drivers."""
    dist = tmp_path / "dist"
    build(dist)
    publish(dist, index)
    outgoing = collect_files([dist])
    (offer,) = planned_releases(outgoing, {}, index_files_of(outgoing, {}, lambda _: None))
    probed = subprocess.run(
        [sys.executable, "-m", "wheelfit", "probe", "x86_64", "--json"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    level = next((level for level in reversed(LEVELS) if f'"{level}"' in probed), "v1")
    for (driver, capability), preset in FORCED.items():
        (row,) = tool_choices(offer, [f"{preset}+cpu-x86_64-{level}"]).machines
        (foretold,) = (choice for choice in row.choices if choice.tool == "uv --preview")
        taken = uv_takes(
            uv, tmp_path / preset,
            "--index-url", index.url, "--preview-features", "wheel-variants",
            NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION=driver,
            NV_VARIANT_PROVIDER_FORCE_SM_ARCH=capability,
        )  # fmt: skip
        assert taken == repr(foretold.build)
