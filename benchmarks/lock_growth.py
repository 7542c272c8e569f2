"""Lock ever more packages with wheelfit, uv, pip and nab; print and plot how the cost grows.

    python benchmarks/lock_growth.py                                  about 10 to 600 packages
    python benchmarks/lock_growth.py --tool uv --runs 5 --sizes 1 4
    python benchmarks/lock_growth.py --plot docs/explanation/locking.svg   needs --group benchmarks

A size is the number of roots taken from a list of popular projects whose newest releases go
together, up to 60 of them, without a search; what they need makes the packages.
The tools ask an index on the loopback interface that repeats the configured one from memory, with
METADATA beside the wheels, and have seen everything before; pages are fresh, except for pip, which
keeps nothing that comes over plain HTTP. Two kinds of lock are measured: for this machine alone,
and for four platforms (uv: for all of them). Runs are processes of their own, the tools in turn;
medians of processor time, wall time and the peak of memory are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from counting_index import CountingIndex
from measuring import OWN, in_turn, install, peak_memory, pyplot, save

from wheelfit.server.loopback import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PACKAGES = {
    "wheelfit": OWN,
    "uv": ("uv==0.13.9",),
    "pip": ("pip==26.3",),
    "nab": ("nab==0.0.23",),
}
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ROOTS = (
    "httpx[http2,socks]",
    *("jupyterlab", "scikit-learn", "pandas"),
    *("fastapi[standard]", "sqlalchemy[asyncio]", "alembic", "celery[redis]", "flower", "boto3"),
    *("google-cloud-storage", "google-cloud-bigquery", "azure-storage-blob", "azure-identity"),
    *("requests[socks]", "django", "djangorestframework", "django-filter", "flask-sqlalchemy"),
    *("flask-migrate", "gunicorn", "scrapy", "beautifulsoup4", "lxml", "matplotlib"),
    *("plotly", "bokeh", "seaborn", "statsmodels", "xarray[io]", "zarr", "geopandas", "rasterio"),
    *("pyarrow", "fastparquet", "polars", "duckdb", "openai", "tiktoken", "anthropic"),
    *("langchain", "langchain-openai", "langchain-community", "datasets", "optuna", "prefect"),
    *("streamlit", "dash", "panel", "sphinx", "furo"),
    *("myst-parser", "mkdocs-material", "mkdocstrings[python]", "pytest", "pytest-cov"),
    *("pytest-xdist", "pytest-asyncio", "hypothesis", "tox", "nox", "pre-commit", "ruff"),
    *("black", "pylint", "mypy", "isort", "flake8", "build", "twine", "hatch", "pip-tools"),
    *("ansible", "paramiko", "fabric", "kubernetes", "docker", "apache-airflow"),
    "apache-airflow-providers-amazon",
    "apache-airflow-providers-google",
    "apache-airflow-providers-microsoft-azure",
    "apache-airflow-providers-snowflake",
    "apache-airflow-providers-databricks",
)
SIZES = (1, 4, 41, 60, len(ROOTS))
PLATFORMS = ("linux-x86_64", "linux-aarch64", "macos-arm64", "windows-x86_64")
PYPROJECT = """\
[project]
name = "tree"
version = "1"
requires-python = "=={python}.*"
dependencies = {needs}

[tool.nab]
indexes = [{{name = "here", url = "{index}"}}]
"""


@dataclass(frozen=True)
class Bench:
    """The installed tools and the index."""

    folder: Path
    programs: dict[str, Path]
    index: str

    def cache(self, tool: str) -> str:
        """Return the cache folder of a tool."""
        return str(self.folder / f"cache-{tool}")


@dataclass
class Series:
    """The measurements of one tool at one size."""

    processor: list[float] = field(default_factory=list)
    """Seconds of processor time."""
    wall: list[float] = field(default_factory=list)
    """Seconds."""
    megabytes: list[float] = field(default_factory=list)
    """Peaks of memory."""
    packages: int = 0


Command = Callable[[Bench], list[str]]
"""From the bench to the words after the program, for a lock of ``tree.in``."""
Table = dict[str, dict[int, dict[str, Series]]]
"""By kind of lock, number of roots, and tool."""


def wheelfit(bench: Bench, *platforms: str) -> list[str]:
    """Lock with wheelfit for some platforms."""
    always = ["lock", "-q", "-r", "tree.in", "--index-url", bench.index, "--no-bridges"]
    chosen = [word for platform in platforms for word in ("--platform", platform)]
    return [*always, "--cache-dir", bench.cache("wheelfit"), *chosen]


def uv(bench: Bench, *words: str) -> list[str]:
    """Lock with uv."""
    always = ["pip", "compile", "-q", "tree.in", "--default-index", bench.index, "-p", PYTHON]
    output = ["--format", "pylock.toml", "-o", "pylock.toml", "--cache-dir", bench.cache("uv")]
    return [*always, *output, *words]


def pip(bench: Bench) -> list[str]:
    """Lock with pip."""
    words = ["lock", "-q", "-r", "tree.in", "--index-url", bench.index]
    return [*words, "--cache-dir", bench.cache("pip"), "-o", "pylock.toml"]


def nab(bench: Bench) -> list[str]:
    """Lock with nab, which reads index and requirements from the project."""
    return ["-q", "lock", "--cache-dir", bench.cache("nab"), "--output", "pylock.toml"]


KINDS: dict[str, dict[str, Command]] = {
    "one machine": {
        "wheelfit": lambda bench: wheelfit(bench, f"{sys.platform}-{platform.machine()}"),
        "uv": uv,
        "pip": pip,
        "nab": nab,
    },
    "four platforms": {
        "wheelfit": lambda bench: wheelfit(bench, *PLATFORMS),
        "uv": lambda bench: uv(bench, "--universal"),
    },
}


def run(bench: Bench, tool: str, command: Command, roots: Sequence[str], series: Series) -> None:
    """Lock once in a new folder."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
    environ |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(dir=bench.folder) as project:
        place = Path(project)
        (place / "tree.in").write_text("\n".join(roots) + "\n")
        needs = json.dumps(list(roots))
        text = PYPROJECT.format(python=PYTHON, needs=needs, index=bench.index)
        (place / "pyproject.toml").write_text(text)
        with (place / "output").open("w") as output:
            begin = time.perf_counter()
            process = subprocess.Popen(
                [str(bench.programs[tool]), *command(bench)],
                cwd=place,
                env=environ,
                stdout=output,
                stderr=output,
            )
            memory = 0  # not `ru_maxrss`, which begins at the memory of this process
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                memory = max(memory, peak_memory(process.pid))
                time.sleep(0.005)
            _, status, usage = ended
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{tool}: {process.returncode}\n{(place / 'output').read_text()}")
        series.wall.append(time.perf_counter() - begin)
        series.processor.append(usage.ru_utime + usage.ru_stime)
        series.megabytes.append(memory / 1e6)
        series.packages = (place / "pylock.toml").read_text().count("[[packages]]")


def measure(bench: Bench, sizes: Sequence[int], runs: int, limit: float) -> Table:
    """Measure all sizes; a tool beyond the limit of seconds is not asked for larger ones."""
    table: Table = {}
    for kind, commands in KINDS.items():
        tools = [tool for tool in commands if tool in bench.programs]
        for size in sizes:
            row = table.setdefault(kind, {}).setdefault(size, {})
            for tool in tools:  # the first run fills the caches
                run(bench, tool, commands[tool], ROOTS[:size], Series())
            for turn in range(runs):
                for tool in in_turn(tools, turn):
                    series = row.setdefault(tool, Series())
                    run(bench, tool, commands[tool], ROOTS[:size], series)
            print(f"measured {kind}, {size} roots", file=sys.stderr, flush=True)
            tools = [tool for tool in tools if statistics.median(row[tool].processor) <= limit]
    return table


def lines(table: Table) -> Iterator[str]:
    """Yield the lines of a table of medians."""
    yield "| lock for | packages | tool | processor (s) | wall (s) | ms a package | MB | to uv |"
    yield "|---|--:|---|--:|--:|--:|--:|--:|"
    for kind, sizes in table.items():
        for row in sizes.values():
            for tool, series in row.items():
                processor = statistics.median(series.processor)
                wall, memory = map(statistics.median, (series.wall, series.megabytes))
                cells = [kind, str(series.packages), tool, f"{processor:.2f}", f"{wall:.2f}"]
                cells += [f"{1000 * processor / max(series.packages, 1):.1f}", f"{memory:.0f}"]
                beside = row.get("uv")
                cells.append(
                    f"{processor / statistics.median(beside.processor):.1f}" if beside else ""
                )
                yield f"| {' | '.join(cells)} |"


def plot(table: Table, path: Path) -> None:
    """Draw processor time over packages."""
    figure, axes = pyplot().subplots(figsize=(6, 3.8))
    colours = {"wheelfit": "#1b6ca8", "uv": "#c0561b", "pip": "#5a8f29", "nab": "#7a4f9a"}
    for kind, mark in (("one machine", "o-"), ("four platforms", "s:")):
        for tool, colour in colours.items():
            points = [
                (row[tool].packages, statistics.median(row[tool].processor))
                for row in table.get(kind, {}).values()
                if tool in row
            ]
            if points:
                packages, seconds = zip(*points, strict=True)
                label = f"{tool}, {kind}"
                axes.plot(packages, seconds, mark, color=colour, markersize=4, label=label)
    axes.set(xscale="log", yscale="log", xlabel="packages", ylabel="seconds of processor time")
    axes.minorticks_off()
    axes.grid(visible=True, which="major", linewidth=0.3)
    axes.legend(frameon=False)
    save(figure, path)


def main() -> None:
    """Measure, print, and plot if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="counted runs of each tool (default 3)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="roots")
    parser.add_argument("--tool", action="append", choices=PACKAGES, help="besides wheelfit")
    parser.add_argument("--limit", type=float, default=60, help="processor seconds for one run")
    parser.add_argument("--index", help="URL of the index to ask, which is up already")
    parser.add_argument("--plot", type=Path, help="write the plot here, as SVG")
    arguments = parser.parse_args()
    tools = list(dict.fromkeys(["wheelfit", *(arguments.tool or ["uv", "pip", "nab"])]))
    with (
        tempfile.TemporaryDirectory(prefix="wheelfit-bench-") as folder,
        LoopbackServer(CountingIndex(has_metadata=True, fresh=3600)) as server,
    ):
        index = arguments.index or f"{server.origin}/simple/"
        programs = {
            tool: install(Path(folder) / f"tool-{tool}", *PACKAGES[tool]) / tool for tool in tools
        }
        bench = Bench(Path(folder), programs, index)
        table = measure(bench, arguments.sizes, arguments.runs, arguments.limit)
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    print("\n".join(lines(table)))
    if arguments.plot is not None:
        plot(table, arguments.plot)


if __name__ == "__main__":
    main()
