"""wheelfit and pip on the same index and in the same environment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner
from programs import run_program

from wheelfit.server.loopback import LoopbackIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("bare_environment", "registry")]

DOCUMENT = release_document(
    {
        "null": {},
        "mkl": {"blas": {"library": ["mkl"]}},
        "open": {"blas": {"library": ["openblas"]}},
    },
    static={"blas": {"library": ["openblas", "mkl"]}},
)
MARKER = "'blas :: library :: {}' in variant_properties"
NEEDS = [
    "always",
    f"openblas-runtime; {MARKER.format('openblas')}",
    f"mkl-runtime; {MARKER.format('mkl')}",
    "never; variant_label == 'other'",
    f"extra-runtime; extra == 'fast' and {MARKER.format('openblas')}",
]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LoopbackIndex]:
    """Serve a release with a plain wheel, a variant and an index file (B-40)."""
    folder = tmp_path / "index"
    build_wheel(folder, "fast-fft", "2.0", requires=["always"], provides_extra=["fast"])
    build_release(
        folder,
        "fast-fft",
        "2.0",
        DOCUMENT,
        ("null", "mkl", "open"),
        requires=NEEDS,
        provides_extra=["fast"],
        metadata_extra=[("Summary", "with; variant_label in it")],
    )
    build_wheel(folder, "fast-fft", "1.0")
    for name in ("always", "openblas-runtime", "mkl-runtime", "extra-runtime"):
        build_wheel(folder, name, "1.0")
    build_wheel(folder, "consumer", "1.0", requires=["fast-fft[fast]>=2"])
    # no plain wheel; A-3: markers of variants in the plain wheel.
    build_wheel(folder, "only-variants", "1.0", label="mkl", document=DOCUMENT)
    build_wheel(folder, "careless", "2.0", requires=NEEDS)
    build_wheel(folder, "careless", "1.0")
    with LoopbackIndex(folder) as server:
        yield server


Pip = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def stock_pip(pip: Path, environment: Callable[[], Path], index: LoopbackIndex) -> Pip:
    """Return a function that runs pip on an empty environment; ``.python`` is its interpreter."""
    python = environment()
    variables = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1"}

    def run(command: str, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        sources = ["--index-url", index.url] if command == "install" else []
        return run_program(
            pip, "--python", python, command, *sources, *words, code=code, timeout=120,
            env=variables,
        )  # fmt: skip

    run.python = python  # type: ignore[attr-defined]
    return run


@pytest.fixture
def python(stock_pip: Pip) -> Path:
    """Return the interpreter of the environment."""
    found: Path = stock_pip.python  # type: ignore[attr-defined]
    return found


def versions(stock_pip: Pip) -> dict[str, str]:
    """Return the versions that pip lists."""
    listed = json.loads(stock_pip("list", "--format", "json").stdout)
    return {entry["name"].lower().replace("_", "-"): entry["version"] for entry in listed}


def metadata(python: Path, folder: str) -> str:
    """Return METADATA of an installed distribution."""
    (path,) = (python.parent.parent / "lib").glob(f"python*/site-packages/{folder}/METADATA")
    return path.read_text()


def test_a1_pip_takes_the_plain_wheel(stock_pip: Pip, run: Runner, python: Path) -> None:
    """A-1: pip installs the plain wheel, and wheelfit lists it as plain."""
    done = stock_pip("install", "fast-fft")
    assert "WARNING" not in done.stderr
    assert versions(stock_pip) == {"fast-fft": "2.0", "always": "1.0"}
    assert run.labels("--python", python) == {"fast-fft": None, "always": None}


def test_a2_no_plain_wheel(stock_pip: Pip) -> None:
    """A-2: without a plain wheel pip finds no version."""
    done = stock_pip("install", "only-variants", code=1)
    assert "No matching distribution found for only-variants" in done.stderr


def test_a3_markers_in_the_plain_wheel(stock_pip: Pip) -> None:
    """A-3: pip skips a release whose plain wheel has markers that it does not know."""
    stock_pip("install", "careless")
    assert versions(stock_pip)["careless"] == "1.0"


@pytest.fixture
def exchanged(stock_pip: Pip, run: Runner, python: Path, index: LoopbackIndex) -> dict[str, Any]:
    """Install with pip, then upgrade with wheelfit."""
    stock_pip("install", "fast-fft[fast]==2.0")
    words = ["install", "-U", "--python", str(python), "-i", index.url, "--no-cache-dir", "--json"]
    return run(*words, "fast-fft[fast]").object


def test_upgrade_by_wheelfit(
    exchanged: dict[str, Any],
    stock_pip: Pip,
    run: Runner,
    python: Path,
    index: LoopbackIndex,
    uv: Path,
) -> None:
    """The best variant replaces the plain wheel, and `pip check` passes."""
    found = {"fast-fft": "open", "openblas-runtime": None, "extra-runtime": None}
    assert exchanged["remove"] == [
        {"name": "fast-fft", "version": "2.0", "label": None, "reason": None}
    ]
    assert {entry["name"]: entry["label"] for entry in exchanged["install"]} == found
    assert run.labels("--python", python) == {**found, "always": None}
    # F-103, B-42: what is installed says what holds for it; nothing else of it is changed.
    lines = metadata(python, "fast_fft-2.0.dist-info").splitlines()
    assert [line for line in lines if line.startswith("Requires-Dist")] == [
        "Requires-Dist: always",
        "Requires-Dist: openblas-runtime",
        'Requires-Dist: extra-runtime; extra == "fast"',
    ]
    assert "Summary: with; variant_label in it" in lines

    seen = {"fast-fft": "2.0", "always": "1.0", "openblas-runtime": "1.0", "extra-runtime": "1.0"}
    assert versions(stock_pip) == seen
    assert "No broken requirements found" in stock_pip("check").stdout
    listed = run_program(uv, "pip", "list", "--python", python, "--format", "json")
    assert {entry["name"]: entry["version"] for entry in json.loads(listed.stdout)} == seen
    subprocess.run([uv, "pip", "check", "--python", python], capture_output=True, check=True)

    words = ["install", "-U", "--python", str(python), "-i", index.url, "--no-cache-dir"]
    result = run(*words, "fast-fft[fast]")
    assert result.out == "nothing to do: the installed packages meet every requirement\n"


def test_pip_with_installed_variants(
    exchanged: dict[str, Any], stock_pip: Pip, run: Runner, python: Path
) -> None:
    """Pip resolves beside a variant, replaces it, and removes it completely."""
    assert exchanged["install"]
    stock_pip("install", "consumer")  # needs fast-fft[fast], which is kept as it is
    assert run.labels("--python", python)["fast-fft"] == "open"
    assert "No broken requirements found" in stock_pip("check").stdout
    stock_pip("install", "--force-reinstall", "--no-deps", "fast-fft")
    assert run.labels("--python", python)["fast-fft"] is None
    stock_pip("uninstall", "--yes", *versions(stock_pip))
    assert run.labels("--python", python) == {}
    (site,) = (python.parent.parent / "lib").glob("python*/site-packages")
    assert list(site.iterdir()) == []


def test_upgrade_by_pip(
    stock_pip: Pip, run: Runner, python: Path, index: LoopbackIndex, tmp_path: Path
) -> None:
    """A newer plain wheel installed by pip has no label."""
    run("install", "--python", python, "-i", index.url, "--no-cache-dir", "fast-fft")
    assert run.labels("--python", python)["fast-fft"] == "open"
    build_wheel(tmp_path / "index", "fast-fft", "3.0")
    stock_pip("install", "-U", "fast-fft")
    assert run.labels("--python", python)["fast-fft"] is None
    assert versions(stock_pip)["fast-fft"] == "3.0"
