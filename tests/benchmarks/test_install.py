"""The benchmark of installations: it runs, its server tells the truth, its figures add up."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from wheelfit.testing.wheels import build_wheel

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def scripts(*names: str) -> list[Any]:
    """Import scripts, and do not leave their folder where names like "lock" are looked for."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return [import_module(name) for name in names]
    finally:
        sys.path.remove(str(BENCHMARKS))


install_report, install_runs, throttled_server = scripts(
    "install_report", "install_runs", "throttled_server"
)


def test_quick_run(tmp_path: Path) -> None:
    """With tiny wheels it measures, prints every table and writes every run."""
    programs = Path(sys.executable).parent
    answer = tmp_path / "runs.json"
    command = [sys.executable, str(BENCHMARKS / "install.py"), "--quick", "--json", str(answer)]
    command += ["--scratch", str(tmp_path), "--on", "disk", "--tool", "pip"]
    command += [f"--wheelfit={programs / 'wheelfit'}", f"--pip={programs / 'pip'}"]
    command += ["cold-cublas", "exchange-cublas"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    assert "| cold-cublas | pip |" in completed.stdout
    assert "at most, MB/s" in completed.stdout
    runs = json.loads(answer.read_text())["runs"]
    cold, exchange = runs["cold-cublas"], runs["exchange-cublas"]
    assert {tool: len(each) for tool, each in cold.items()} == {"wheelfit": 1, "pip": 1}
    assert cold["wheelfit"][0]["sent"] > 5 << 20
    assert exchange["wheelfit"][0]["sent"] < 1 << 20
    assert not list(tmp_path.glob("wheelfit-bench-*"))
    again = [sys.executable, str(BENCHMARKS / "install.py"), "--from", str(answer)]
    repeated = subprocess.run(again, capture_output=True, text=True, check=True)
    assert repeated.stdout == completed.stdout


def ask(server: Any, path: str, **headers: str) -> tuple[int, bytes, str]:
    """Return status, body and content range of an answer."""
    host = server.origin.removeprefix("http://")
    with closing(HTTPConnection(host, timeout=10)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers.get("content-range", "")


def test_server_gives_files_and_ranges_and_counts(tmp_path: Path) -> None:
    """A wheel comes whole and in parts, under the folder's name, and both are counted."""
    shelf = tmp_path / "shelf"
    path = build_wheel(shelf, "some", "1.0")
    content = path.read_bytes()
    with throttled_server.Server([shelf]) as server:
        status, page, _ = ask(server, "/shelf/simple/some/")
        assert status == 200
        assert f'href="../../files/{path.name}#'.encode() in page
        server.reset()
        assert ask(server, f"/shelf/files/{path.name}") == (200, content, "")
        part = ask(server, f"/shelf/files/{path.name}", Range="bytes=-10")
        assert part == (
            206,
            content[-10:],
            f"bytes {len(content) - 10}-{len(content) - 1}/{len(content)}",
        )
        assert ask(server, "/other/simple/")[0] == 404
        count = server.count()
        assert count.requests == 3
        assert count.ranges == 1
        assert count.sent >= len(content) + 10
        server.reset(rate=1e9, delay=0.001)
        assert server.count() == throttled_server.Count()
        assert ask(server, f"/shelf/files/{path.name}")[1] == content


def run_of(seconds: float, *, others: float = 0.0) -> Any:
    """Make up a run."""
    return install_runs.Run(seconds, seconds, others, 1, 1, 1)


def test_disturbed_runs_do_not_count() -> None:
    """The median leaves out what was disturbed, as long as three calm runs are left."""
    calm = [run_of(1.0), run_of(2.0), run_of(3.0)]
    runs = install_runs.Runs([*calm, run_of(50.0, others=20.0)])
    assert runs.median("seconds") == 2.0
    assert install_runs.Runs(runs.runs[1:]).median("seconds") == 3.0


def test_ratio_pairs_the_rounds() -> None:
    """Each round gives one ratio, disturbed or not; a tool with fewer rounds fewer of them."""
    ours = install_runs.Runs([run_of(1.0), run_of(8.0, others=9.0), run_of(5.0)])
    theirs = install_runs.Runs([run_of(2.0), run_of(8.0)])
    assert install_runs.ratio(ours, theirs) == (0.75, 0.5, 1.0)


def test_putting_away_frees_space_but_not_what_is_shared(tmp_path: Path) -> None:
    """Large files are emptied in the trash; a link from a cache that stays keeps its content."""
    scratch = install_runs.Scratch(tmp_path)
    env, cache = tmp_path / "env", tmp_path / "cache"
    env.mkdir()
    cache.mkdir()
    (cache / "linked").write_bytes(bytes(install_runs.LARGE))
    (env / "linked").hardlink_to(cache / "linked")
    (env / "own").write_bytes(bytes(install_runs.LARGE))
    scratch.put_away(env, shared=True)
    assert not env.exists()
    assert (cache / "linked").stat().st_size == install_runs.LARGE
    assert [path.stat().st_size for path in (tmp_path / "trash").rglob("own")] == [0]
    scratch.put_away(cache)
    assert {path.stat().st_size for path in (tmp_path / "trash").rglob("linked")} == {0}


def test_goals_are_marked() -> None:
    """A figure that meets its goal is marked so, and one that does not otherwise."""
    runs = {"wheelfit": install_runs.Runs([run_of(2.0)]), "uv": install_runs.Runs([run_of(1.0)])}
    result = install_report.Result("machine", "versions", runs={"some": runs}, places={"some": "x"})
    text = "\n".join(install_report.report(result, {"some": {"uv": 2.0}}))
    assert "2.00 ✓ (goal 2)" in text
    text = "\n".join(install_report.report(result, {"some": {"uv": 1.5}}))
    assert "2.00 ✗ (goal 1.5)" in text


def test_tables_go_between_the_marks_of_a_page() -> None:
    """Old tables give way, the rest of a page stays; the page in the docs has the marks."""
    begin, end = install_report.BEGIN, install_report.END
    page = f"before\n{begin}\nold\nolder\n{end}\nafter\n"
    assert install_report.marked(page, "new") == f"before\n{begin}\nnew\n{end}\nafter\n"
    docs = (BENCHMARKS.parent / "docs" / "explanation" / "install-speed.md").read_text()
    assert "new" in install_report.marked(docs, "new")


def test_same_figures_give_the_same_plot(tmp_path: Path) -> None:
    """The plot depends on the figures only."""
    pytest.importorskip("matplotlib", reason="needs the group benchmarks")
    runs = {"wheelfit": install_runs.Runs([run_of(2.0)]), "uv": install_runs.Runs([run_of(1.0)])}
    result = install_report.Result("machine", "versions", runs={"some": runs}, places={"some": "x"})
    for name in ("one", "other"):
        install_report.draw(result, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
