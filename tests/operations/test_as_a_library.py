"""Operations without a command line: requests in, reports out, nothing printed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from wheelfit.operations.bundle import BundleRequest, VerifyRequest, bundle, verify
from wheelfit.operations.context import Context
from wheelfit.operations.explain import ExplainRequest, explain, overview
from wheelfit.operations.export import ExportRequest, export
from wheelfit.operations.list import ListRequest, list_installed
from wheelfit.operations.lock import LockRequest, lock
from wheelfit.operations.tree import TreeRequest, tree
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

DOCUMENT = release_document(
    {"v3": {"x86_64": {"level": ["v3"]}}, "null": {}},
    providers={"x86_64": {"requires": ["x86-64-variant-provider<1"]}},
)
V3, V1 = "cpu-x86_64-v3", "linux-x86_64"


@pytest.mark.usefixtures("bare_environment")
def test_from_requirements_to_a_bundle(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A lock, what is in it, and what machines get from it; output belongs to the caller."""
    folder = tmp_path / "index"
    for label in ("v3", "null", None):
        build_wheel(
            folder, "fast", "1.0", label=label, document=DOCUMENT if label else None,
            requires=["plain"],
        )  # fmt: skip
    build_wheel(folder, "plain", "1.0")
    context = Context({**os.environ, "WHEELFIT_CACHE_DIR": str(tmp_path / "cache")})
    path = tmp_path / "pylock.toml"
    with RecordingIndex(folder) as index:
        explained = explain(
            ExplainRequest(
                requirements=("fast",), index_url=index.url, python=sys.executable, host=V3
            ),
            context,
        )
        labels = overview(
            ExplainRequest(requirements=("fast",), index_url=index.url, python=sys.executable),
            context,
        )
        locked = lock(
            LockRequest(
                requirements=("fast",),
                index_url=index.url,
                python=sys.executable,
                hosts=(V3, V1),
                output=str(path),
            ),
            context,
        )
        exported = export(
            ExportRequest(lock=str(path), python=sys.executable, hosts=(V3, V1)), context
        )
        bundled = bundle(
            BundleRequest(
                lock=str(path),
                python=sys.executable,
                hosts=(V3,),
                output=str(tmp_path / "bundle"),
                prefer=("x86_64",),
            ),
            context,
        )
    assert [str(explanation.chosen) for explanation in explained.explanations] == [
        "fast-1.0-py3-none-any-v3.whl"
    ]
    assert not explained.refused
    assert [row.label for row in labels.overviews[0].rows] == ["v3", "null", None]
    assert [one.path for one in locked.locks] == [path]
    assert [one.path for one in exported.exports] == [None, None]  # the report has the texts
    assert all("--hash=sha256:" in one.text for one in exported.exports)
    assert [pin.name for pin in bundled.hosts[0].packages] == ["fast", "plain"]
    request = VerifyRequest(verify=str(tmp_path / "bundle"), python=sys.executable)
    assert verify(request, context).manifest == bundled.manifest
    shown = tree(TreeRequest(lock=str(path), invert="plain"), context)
    assert shown.inverted == "plain"
    assert shown.machine is None
    assert list_installed(ListRequest(python=sys.executable), context).packages
    assert capfd.readouterr() == ("", "")
