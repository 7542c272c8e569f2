"""`docker build` with kernel means: a separate root, network and process space."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from end_to_end.clients import stock
from packaging.utils import canonicalize_name
from programs import run_program

pytestmark = pytest.mark.network

_NAME = f"wheelfit{os.getpid() % 10_000}"
_PLACE = os.getpid() % 60
_HOST, _INSIDE = f"10.231.{_PLACE}.1", f"10.231.{_PLACE}.2"
_NETWORK = (
    f"ip netns add {_NAME}",
    f"ip link add {_NAME}h type veth peer name {_NAME}c",
    f"ip link set {_NAME}c netns {_NAME}",
    f"ip addr add {_HOST}/30 dev {_NAME}h",
    f"ip link set {_NAME}h up",
    f"ip netns exec {_NAME} ip addr add {_INSIDE}/30 dev {_NAME}c",
    f"ip netns exec {_NAME} ip link set {_NAME}c up",
)
# Nothing of the machine is there but programs and libraries, and nothing of that can be changed.
_ROOT = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs {root}
mkdir -p {root}/tmp {root}/proc {root}/dev {root}/etc {root}/home
for place in {places}; do mkdir -p {root}$place; mount --bind $place {root}$place; done
for place in {places}; do mount -o remount,bind,ro {root}$place; done
for one in /dev/null /dev/zero /dev/urandom; do touch {root}$one; mount --bind $one {root}$one; done
mount -t proc proc {root}/proc
echo '{host} wheelfit' > {root}/etc/hosts
exec chroot {root} /usr/bin/env -i HOME=/home PATH=/usr/bin:/bin UV_CACHE_DIR=/tmp/uv \
    UV_PYTHON_DOWNLOADS=never PIP_DISABLE_PIP_VERSION_CHECK=1 sh -ec {script}
"""


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    """Make a network of this machine and a container."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("only root can make a network of its own, by `ip`")
    try:
        for command in _NETWORK:
            completed = run_program(*shlex.split(command), code=None)
            if completed.returncode:
                pytest.skip(f"no network can be made here: {completed.stderr.strip()}")
        yield _NAME
    finally:
        for command in (f"ip netns del {_NAME}", f"ip link del {_NAME}h"):
            subprocess.run(shlex.split(command), capture_output=True, check=False)


@contextmanager
def proxy(folder: Path, home: Path) -> Iterator[str]:
    """Run a proxy for a folder in the container's network; return its port."""
    words = ("--host", _HOST, "--port", "0", "--index-url", str(folder), "--no-cache-dir")
    process = subprocess.Popen(
        [sys.executable, "-m", "wheelfit", "proxy", *words],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PIP_CONFIG_FILE": os.devnull},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split(":")[2].partition("/")[0]
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("profile", "label", "needs"),
    [("cuda-12.9-sm90", "cu129", "cuda_lib"), ("cpu-x86_64-v3", "null", "cpu_lib")],
)
@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_profile_in_the_url(
    tool: str,
    profile: str,
    label: str,
    needs: str,
    network: str,
    pip: Path,
    uv: Path,
    tmp_path: Path,
) -> None:
    """Without GPU, configuration, other indexes or internet the profile alone decides."""
    flat = stock(tmp_path / "flat")
    for wheel in flat.iterdir():
        folder = tmp_path / "index" / canonicalize_name(wheel.name.partition("-")[0])
        folder.mkdir(parents=True, exist_ok=True)
        wheel.rename(folder / wheel.name)
    root = tmp_path / "root"
    root.mkdir()
    programs = {str(Path(one).resolve().parent) for one in (pip.parent, uv)}
    places = [
        *(one for one in ("/usr", "/bin", "/lib", "/lib64") if Path(one).exists()),
        *(one for one in {sys.base_prefix, *programs} if not one.startswith("/usr")),
    ]
    with proxy(tmp_path / "index", tmp_path) as port:
        url = f"http://wheelfit:{port}/full/for/{profile}/simple/"
        install = {
            "pip": f"{pip} --python /tmp/env install --index-url {url} --trusted-host wheelfit",
            "uv": f"{uv} pip install --python /tmp/env --default-index {url}"
            " --allow-insecure-host wheelfit",
        }[tool]
        script = (
            "! ls /dev/nvidia0 2> /dev/null\n"
            f"{sys.base_prefix}/bin/python3 -m venv --without-pip /tmp/env\n"
            f"{install} demodep 1>&2\ncat /tmp/env/lib/python3*/site-packages/*/__init__.py\n"
        )
        commands = _ROOT.format(
            root=root, places=" ".join(places), host=_HOST, script=shlex.quote(script)
        )
        apart = ["unshare", "--mount", "--pid", "--fork", "--ipc", "--uts", "sh", "-c", commands]
        completed = run_program("ip", "netns", "exec", network, *apart, timeout=120)
    assert f"__variant__ = '{label}'" in completed.stdout
    assert needs in completed.stderr.replace("-", "_")
