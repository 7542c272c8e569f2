"""Counters of mirrors in the metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from server.upstream.mirroring import Mirroring

from wheelfit.server.hosting.metrics import Metrics
from wheelfit.testing.index import RecordingIndex

SMALL, LARGE = "small-1.0-py3-none-any.whl", "large-1.0-py3-none-any.whl"


def test_counts(
    mirror: Callable[..., Mirroring], upstream: RecordingIndex, wheels: Path, tmp_path: Path
) -> None:
    """Files, pages and bytes are counted by outcome, and disk usage is measured."""
    pytest.importorskip("prometheus_client", reason="needs the extra `server`")
    one = mirror(max_age=10.0)
    metrics = Metrics()
    metrics.watch([one.index.counts], {"mirrors": tmp_path, "none": tmp_path / "a" / "b"})
    size = len(one.file(SMALL))
    one.kept()
    assert len(one.file(SMALL)) == size
    one.clock.now += 60.0
    assert one.page("small")
    assert one.ask("/simple/nosuch/").status == 404
    upstream.faults.content[f"/files/{LARGE}"] = b"wrong"
    assert one.ask(f"/files/{LARGE}").status == 502
    one.kept()
    upstream.close()
    one.clock.now += 60.0
    assert one.page("small")
    lines = metrics.exposition().decode().splitlines()
    label = one.index.name
    for line in (
        f'wheelfit_mirror_files_total{{mirror="{label}",outcome="hit"}} 1.0',
        f'wheelfit_mirror_files_total{{mirror="{label}",outcome="miss"}} 2.0',
        f'wheelfit_mirror_files_total{{mirror="{label}",outcome="failed"}} 1.0',
        f'wheelfit_mirror_pages_total{{mirror="{label}",outcome="fetched"}} 2.0',
        f'wheelfit_mirror_pages_total{{mirror="{label}",outcome="revalidated"}} 1.0',
        f'wheelfit_mirror_pages_total{{mirror="{label}",outcome="missing"}} 1.0',
        f'wheelfit_mirror_pages_total{{mirror="{label}",outcome="failed"}} 1.0',
        f'wheelfit_mirror_bytes_total{{direction="served",mirror="{label}"}} {2.0 * size}',
    ):
        assert line in lines
    assert size == (wheels / SMALL).stat().st_size
    disks = [line for line in lines if line.startswith("wheelfit_disk_bytes{")]
    assert [float(line.split()[1]) > 0 for line in disks] == [True] * 4
