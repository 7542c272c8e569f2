"""The example of a choice for another installer does what its page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from python_runs import run_python

from wheelfit.server.loopback import LoopbackIndex
from wheelfit.testing.wheels import build_wheel, release_document

CHOOSE = Path(__file__).parents[2] / "examples/other-installers/choose.py"
DOCUMENT = release_document(
    {"v3": {"x86_64": {"level": ["v3"]}}, "cuda": {"nvidia": {"sm_arch": ["90_real"]}}},
    namespaces=["nvidia", "x86_64"],
)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("host", "label"),
    [("cuda-12.8-sm90", "cuda"), ("cpu-x86_64-v3", "v3"), ("cpu-x86_64-v2", None)],
)
def test_the_best_wheel_for_a_host(tmp_path: Path, host: str, label: str | None) -> None:
    """The URL of the wheel that fits best is printed, and the others have a reason."""
    for name in (None, "v3", "cuda"):
        build_wheel(tmp_path, "spam", "1.0", label=name, document=DOCUMENT)
    build_wheel(tmp_path, "spam", "0.9")
    (tmp_path / "spam-1.0-variants.json").write_text(json.dumps(DOCUMENT))
    with LoopbackIndex(tmp_path) as index:
        completed = run_python(CHOOSE, index.url, "spam", host)
    assert completed.returncode == 0, completed.stderr
    ending = f"any-{label}.whl" if label else "any.whl"
    assert completed.stdout.strip().rpartition("/")[2] == f"spam-1.0-py3-none-{ending}"
    assert len(completed.stderr.splitlines()) == 3


def test_nothing_fits(tmp_path: Path) -> None:
    """Where nothing fits, the exit code says so."""
    build_wheel(tmp_path, "spam", "1.0", tag="py3-none-win_arm64")
    with LoopbackIndex(tmp_path) as index:
        completed = run_python(CHOOSE, index.url, "spam", "cuda-12.8-sm90")
    assert (completed.returncode, completed.stdout) == (3, "no wheel of spam fits\n")
