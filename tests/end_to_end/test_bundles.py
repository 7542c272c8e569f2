"""Bundles without any server: real installations by wheelfit, pip and uv."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.bundling import DOCUMENT
from programs import run_program
from web_servers import served

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.usefixtures("bare_environment")

NOWHERE = "http://127.0.0.1:9"
NO_NETWORK = {
    "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "http_proxy": NOWHERE, "https_proxy": NOWHERE,
}  # fmt: skip
"""Lets every connection to another machine fail."""

_GPU = """
[metadata]
created-by = "a test"
version = "0.1"

[[provider]]
namespace = "nvidia"
feature-order = ["cuda_version_lower_bound"]

[provider.properties]
cuda_version_lower_bound = [{values}]
"""
_LEVEL = """
[metadata]
created-by = "a test"
version = "0.1"

[[provider]]
namespace = "x86_64"
feature-order = ["level"]

[provider.properties]
level = ["v3"]
"""
HOSTS = {
    "new": _GPU.format(values='"12.9", "12.8", "11.8"'),
    "old": _GPU.format(values='"11.8"'),
    "v3": _LEVEL,
    "none": _LEVEL.replace('"v3"', '"v1"'),
}
CHOSEN = {"new": "cu12.8", "old": "cu11.8", "v3": "v3", "none": "null"}


@pytest.fixture
def bundle(
    wheelfit: Callable[..., str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a copy of a bundle for four machines, whose index is stopped."""
    made = tmp_path_factory.getbasetemp() / "bundle for four machines"
    if not made.exists():
        make_bundle(made, wheelfit, tmp_path / "making")
    return shutil.copytree(made, tmp_path / "elsewhere" / "the bundle")


def make_bundle(place: Path, wheelfit: Callable[..., str], folder: Path) -> None:
    """Make the bundle.

    :param place: where it goes.
    :param wheelfit: runs commands.
    :param folder: for everything else; it is gone in the end.
    """
    wheels, hosts = folder / "index", []
    requires = ["plain", 'gpu-lib; "nvidia" in variant_namespaces']
    for label in (None, *CHOSEN.values()):
        document = None if label is None else DOCUMENT
        build_wheel(wheels, "fast", "2.0", label=label, document=document, requires=requires)
    build_wheel(wheels, "plain", "1", requires_python=">=3.9")
    build_wheel(wheels, "gpu-lib", "1")
    for name, text in HOSTS.items():
        path = folder / f"{name}.toml"
        path.write_text(text)
        hosts += ["--for", str(path)]
    with RecordingIndex(wheels) as index:
        lock = folder / "pylock.toml"
        wheelfit("lock", "fast", "-i", index.url, *hosts, "-o", lock, "--no-cache-dir")
        wheelfit("bundle", lock, *hosts, "-o", place)
    shutil.rmtree(folder)


def variant_in(python: Path) -> str:
    """Return the build in an environment, according to the package itself."""
    completed = run_program(python, "-I", "-c", "import fast, plain; print(fast.__variant__)")
    return completed.stdout.strip()


def test_sync(bundle: Path, environment: Callable[[], Path], wheelfit: Callable[..., str]) -> None:
    """From the lock of the bundle, offline, each environment gets its build."""
    for host, label in CHOSEN.items():
        python = environment()
        words = ["--for", bundle / "hosts" / f"{host}.toml", "--python", python, "--no-cache-dir"]
        wheelfit("sync", bundle / "pylock.toml", *words, environ=NO_NETWORK)
        assert variant_in(python) == label
        names = {path.name for path in python.parent.parent.glob("lib/*/site-packages/*")}
        assert ("gpu_lib" in names) == label.startswith("cu")


def test_install_from_the_index(
    bundle: Path, environment: Callable[[], Path], wheelfit: Callable[..., str]
) -> None:
    """The same from its index, as a folder and as a ``file:`` URL."""
    for host, label in CHOSEN.items():
        python = environment()
        simple = bundle / "simple"
        wheelfit(
            "install", "--index-url", simple.as_uri() if host == "old" else simple,
            "--for", bundle / "hosts" / f"{host}.toml", "--python", python, "--no-cache-dir",
            "fast", environ=NO_NETWORK,
        )  # fmt: skip
        assert variant_in(python) == label


@pytest.fixture
def web(bundle: Path) -> Iterator[str]:
    """Serve the bundle with a static server; return the URL of its index."""
    with served(bundle) as origin:
        yield f"{origin}/simple/"


def test_static_server(
    web: str, bundle: Path, environment: Callable[[], Path], wheelfit: Callable[..., str]
) -> None:
    """Served by any static server, the folder is an index for wheelfit."""
    python = environment()
    host = bundle / "hosts" / "new.toml"
    wheelfit(
        "install", "--index-url", web, "--for", host, "--python", python, "--no-cache-dir", "fast",
        environ={"NO_PROXY": "127.0.0.1", **NO_NETWORK},
    )  # fmt: skip
    assert variant_in(python) == "cu12.8"


@pytest.mark.network
def test_pip(
    web: str,
    bundle: Path,
    environment: Callable[[], Path],
    pip: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pip installs only plain wheels from the index, as a folder and from a server."""
    for name, value in NO_NETWORK.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for url in ((bundle / "simple").as_uri(), web):
        words = ["--index-url", url, "--no-cache-dir", "--disable-pip-version-check"]
        python = environment()
        command = [str(pip), "--python", str(python), "install", *words]
        subprocess.run([*command, "plain", "gpu-lib"], check=True, capture_output=True)
        subprocess.run([python, "-I", "-c", "import plain, gpu_lib"], check=True)
        refused = subprocess.run([*command, "fast"], check=False, capture_output=True, text=True)
        assert "No matching distribution found for fast" in refused.stderr


@pytest.mark.network
def test_uv(
    web: str,
    bundle: Path,
    environment: Callable[[], Path],
    uv: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same with uv."""
    for name, value in NO_NETWORK.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for url in ((bundle / "simple").as_uri(), web):
        python = environment()
        words = ["--default-index", url, "--no-cache", "--no-config", "--python", str(python)]
        command = [str(uv), "pip", "install", *words]
        subprocess.run([*command, "plain", "gpu-lib"], check=True, capture_output=True)
        subprocess.run([python, "-I", "-c", "import plain, gpu_lib"], check=True)
        refused = subprocess.run([*command, "fast"], check=False, capture_output=True, text=True)
        assert "No solution found" in refused.stderr
