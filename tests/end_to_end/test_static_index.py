"""A generated index behind a plain web server, with real clients."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import run_program
from web_servers import served

from wheelfit.testing.wheels import build_wheel, release_document

pytestmark = pytest.mark.usefixtures("bare_environment")

STATIC = {"blas": {"library": ["openblas", "mkl"]}}
DOCUMENT = release_document(
    {
        "null": {},
        "mkl": {"blas": {"library": ["mkl"]}},
        "open": {"blas": {"library": ["openblas"]}},
    },
    static=STATIC,
)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build two projects, of which one has variants that need the other."""
    folder = tmp_path_factory.mktemp("dist")
    for label in (None, "null", "mkl", "open"):
        document = DOCUMENT if label else None
        build_wheel(
            folder / "fast", "fast", "2.0", label=label, document=document, requires=["plain==1.0"]
        )
    build_wheel(folder, "plain", "1.0")
    build_wheel(folder, "plain", "3.0", requires_python=">=99")
    yanked = build_wheel(folder, "plain", "2.0")
    Path(f"{yanked}.yanked").write_text("broken")
    return folder


@pytest.fixture(scope="module", params=["in place", "elsewhere"])
def index(
    request: pytest.FixtureRequest, dist: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Generate the index, and serve it with the standard library's server."""
    place = dist if request.param == "in place" else tmp_path_factory.mktemp("public")
    words = ["index", "generate", str(dist)]
    words += [] if place == dist else ["--to", str(place)]
    subprocess.run([sys.executable, "-m", "wheelfit", *words], check=True)
    with served(place) as origin:
        yield f"{origin}/simple/"


def run(*words: str | Path) -> str:
    """Run a client that succeeds."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith("UV_")}
    completed = run_program(*words, env=environ)
    return completed.stdout + completed.stderr


def installed(target: Path) -> set[str]:
    """Return the installed packages."""
    return {path.name.removesuffix(".dist-info") for path in target.glob("*.dist-info")}


def variant(target: Path) -> str:
    """Return the installed build of the project."""
    return (target / "fast/__init__.py").read_text().split("__variant__ = ")[1].strip()


def test_pip(index: str, pip: Path, tmp_path: Path) -> None:
    """Pip installs the plain wheel, reads separate metadata, and respects yanks and Pythons."""
    result = run(
        pip, "install", "-v", "--no-cache-dir", "--index-url", index, "--target", tmp_path, "fast"
    )
    assert installed(tmp_path) == {"fast-2.0", "plain-1.0"}
    assert variant(tmp_path) == "None"
    assert "fast-2.0-py3-none-any.whl.metadata" in result
    other = tmp_path / "other"
    run(pip, "install", "--no-cache-dir", "--index-url", index, "--target", other, "plain")
    assert installed(other) == {"plain-1.0"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [([], "None"), (["--preview-features", "wheel-variants"], "'open'")],
    ids=["plain", "variants"],
)
def test_uv(index: str, uv: Path, tmp_path: Path, options: list[str], expected: str) -> None:
    """F-151: uv installs the plain wheel, and with its preview the best variant."""
    words: list[str | Path] = [
        uv,
        "pip",
        "install",
        "--no-config",
        "--no-cache",
        "--index-url",
        index,
    ]
    run(*words, *options, "--python", sys.executable, "--target", tmp_path, "fast")
    assert installed(tmp_path) == {"fast-2.0", "plain-1.0"}
    assert variant(tmp_path) == expected


def test_wheelfit(index: str, wheelfit: Callable[..., str], tmp_path: Path) -> None:
    """Wheelfit installs the best variant, and reports no faults of the index."""
    wheelfit("install", "-i", index, "--target", tmp_path, "fast")
    assert variant(tmp_path) == "'open'"
    wheelfit("check", "-i", index, "fast", "--full", "--profile", "uv", "--strict")


HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "publish-a-static-index.md"


@pytest.fixture(scope="module")
def nginx(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the index as in the how-to, or skip without nginx."""
    program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if program is None:
        pytest.skip("there is no nginx")
    folder = tmp_path_factory.mktemp("nginx")
    run(sys.executable, "-m", "wheelfit", "index", "generate", dist, "--to", folder / "public")
    folder.chmod(0o755)
    for parent in folder.parents:
        if parent.is_relative_to(tempfile.gettempdir()) and parent != Path(tempfile.gettempdir()):
            parent.chmod(0o755)
    (example,) = re.findall(r"```nginx\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    example = example.replace("listen 8080", f"listen 127.0.0.1:{port}")
    example = example.replace("/srv/wheels/public", str(folder / "public"))
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    settings = folder / "nginx.conf"
    settings.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/errors;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{example}}}\n"
    )
    with subprocess.Popen([program, "-c", str(settings), "-p", str(folder)]) as server:
        url = f"http://127.0.0.1:{port}/simple/"
        for _ in range(100):
            with contextlib.suppress(OSError), urllib.request.urlopen(url):
                break
            time.sleep(0.05)
        yield url
        server.terminate()


def test_nginx(nginx: str, uv: Path, pip: Path, tmp_path: Path) -> None:
    """The example of the how-to serves JSON or HTML by the Accept header."""
    for accept, kind in (
        ("application/vnd.pypi.simple.v1+json", "application/vnd.pypi.simple.v1+json"),
        ("text/html", "text/html"),
    ):
        request = urllib.request.Request(f"{nginx}fast/", headers={"Accept": accept})
        with urllib.request.urlopen(request) as answer:
            assert answer.headers["content-type"].partition(";")[0] == kind
            assert answer.headers["cache-control"] == "no-cache"
    words = ["--no-config", "--no-cache", "--index-url", nginx, "--python", sys.executable]
    run(uv, "pip", "install", *words, "--preview-features", "wheel-variants", "--target",
        tmp_path / "uv", "fast")  # fmt: skip
    assert variant(tmp_path / "uv") == "'open'"
    run(
        pip, "install", "--no-cache-dir", "--index-url", nginx, "--target", tmp_path / "pip", "fast"
    )
    assert installed(tmp_path / "pip") == {"fast-2.0", "plain-1.0"}
