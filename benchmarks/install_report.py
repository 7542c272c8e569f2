"""The tables and the plot of `install.py`."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from install_runs import Run, Runs, ratio
from measuring import pyplot, save

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

START_GOALS = {"wheelfit --help": 0.070, "wheelfit dry run": 0.150}
BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"
BARE = "bare interpreter"
COLOURS = {"wheelfit": "#1b6ca8", "pip": "#c0561b"}


@dataclass
class Result:
    """Everything that was measured."""

    machine: str
    versions: str
    limits: dict[str, dict[str, float]] = field(default_factory=dict)
    runs: dict[str, dict[str, Runs]] = field(default_factory=dict)
    """By scenario and tool."""
    places: dict[str, str] = field(default_factory=dict)
    """The file system of each scenario."""
    starts: dict[str, list[float]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            **vars(self),
            "runs": {
                name: {tool: runs.as_json() for tool, runs in tools.items()}
                for name, tools in self.runs.items()
            },
        }

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> Result:
        """Read what `as_json` returned."""
        runs = {
            name: {tool: Runs([Run(**run) for run in runs]) for tool, runs in tools.items()}
            for name, tools in data["runs"].items()
        }
        return cls(**{**data, "runs": runs})


def report(result: Result, goals: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield the lines of all tables.

    :param goals: by scenario and tool, the most that the ratio may be; ``MB`` for memory.
    """
    yield f"{result.machine}; {result.versions}"
    if result.runs:
        yield ""
        yield from ratios(result, goals)
        yield ""
        yield from costs(result)
    if result.starts:
        yield ""
        yield from starts(result)
    if result.limits:
        yield ""
        yield from limits(result)


def marked(page: str, text: str, begin: str = BEGIN, end: str = END) -> str:
    """Put text between two marks of a page, in place of what is there."""
    before, _, rest = page.partition(f"{begin}\n")
    _, found_end, after = rest.partition(end)
    assert found_end, f"the page needs {begin} and {end}"
    return f"{before}{begin}\n{text}\n{end}{after}"


def row(*cells: object) -> str:
    """Write a line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def seconds(runs: Runs) -> str:
    """Write the median with its spread."""
    times = [run.seconds for run in runs.calm]
    return f"{statistics.median(times):.3f} ({min(times):.3f} to {max(times):.3f})"


def mark(value: float, goal: float | None, text: str) -> str:
    """Write a figure, and whether it meets its goal."""
    if goal is None:
        return text
    return f"{text} {'✓' if value <= goal else '✗'} (goal {goal:g})"


def ratios(result: Result, goals: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield the table of times and ratios."""
    others = [tool for tool in ("uv", "pip") if any(tool in each for each in result.runs.values())]
    heads = ["scenario", "on", "wheelfit (s)", *(f"{tool} (s)" for tool in others)]
    heads += [f"wheelfit/{tool}{by}" for tool in others for by in ("", " by rounds")]
    heads += ["peak MB", "runs (disturbed)"]
    yield row(*heads)
    yield "|---|---|" + "--:|" * (len(heads) - 2)
    for name, tools in result.runs.items():
        ours, goal = tools["wheelfit"], goals.get(name, {})
        cells = [name, result.places[name], seconds(ours)]
        cells += [seconds(tools[tool]) if tool in tools else "" for tool in others]
        for tool in others:
            if tool not in tools:
                cells += ["", ""]
                continue
            plain = ours.median("seconds") / tools[tool].median("seconds")
            middle, least, most = ratio(ours, tools[tool])
            cells.append(mark(plain, goal.get(tool), f"{plain:.2f}"))
            cells.append(f"{middle:.2f} ({least:.2f} to {most:.2f})")
        peak = ours.median("memory") / 1e6
        cells.append(mark(peak, goal.get("MB"), f"{peak:.0f}"))
        disturbed = sum(run.is_disturbed for runs in tools.values() for run in runs.runs)
        cells.append(f"{len(ours.runs)} ({disturbed})")
        yield row(*cells)


def costs(result: Result) -> Iterator[str]:
    """Yield the table of what else was spent."""
    heads = ["processor s", "peak MB", "written MB", "kept MB", "fetched MB", "requests"]
    yield row("scenario", "tool", *heads)
    yield "|---|---|" + "--:|" * len(heads)
    for name, tools in result.runs.items():
        in_memory = result.places[name] == "tmpfs"
        for tool, runs in tools.items():
            fetched = runs.median("sent") / 1e6
            yield row(
                name,
                tool,
                f"{runs.median('processor'):.2f}",
                f"{runs.median('memory') / 1e6:.0f}",
                "" if in_memory else f"{runs.median('written') / 1e6:.0f}",
                f"{runs.median('kept') / 1e6:.0f}",
                f"{fetched:.0f}" if fetched >= 1 else f"{fetched:.3f}",
                f"{runs.median('requests'):.0f}",
            )


def starts(result: Result) -> Iterator[str]:
    """Yield the table of starts."""
    bare = statistics.median(result.starts[BARE])
    yield row("start", "median ms", "least ms", "over a bare interpreter")
    yield "|---|--:|--:|--:|"
    for name, times in result.starts.items():
        median = statistics.median(times)
        over = "" if name == BARE else f"{(median - bare) * 1000:.0f}"
        goal = START_GOALS.get(name)
        if goal is not None:
            over = mark(median - bare, goal, over).replace(f"{goal:g}", f"{goal * 1000:.0f}")
        yield row(name, f"{median * 1000:.0f}", f"{min(times) * 1000:.0f}", over)


def limits(result: Result) -> Iterator[str]:
    """Yield the table of what the machine can do."""
    names = list(dict.fromkeys(name for each in result.limits.values() for name in each))
    yield row("at most, MB/s, one thread", *names)
    yield "|---|" + "--:|" * len(names)
    for project, each in result.limits.items():
        yield row(project, *(f"{each[name]:.0f}" if name in each else "" for name in names))


def draw(result: Result, path: Path) -> None:
    """Draw the times relative to uv's."""
    shown = {name: tools for name, tools in result.runs.items() if "uv" in tools}
    figure, axes = pyplot().subplots(figsize=(6.5, 0.8 + 0.42 * len(shown)))
    places = range(len(shown))
    for shift, tool, shape in ((-0.18, "wheelfit", "o"), (0.18, "pip", "s")):
        points = [
            (place + shift, tools[tool].median("seconds") / tools["uv"].median("seconds"))
            for place, tools in zip(places, shown.values(), strict=True)
            if tool in tools
        ]
        for height, value in points:
            axes.hlines(height, min(1, value), max(1, value), COLOURS[tool], linewidth=2)
            side, where = (-6, "right") if value < 1 else (6, "left")
            axes.annotate(
                f"{value:.2f}",
                (value, height),
                (side, 0),
                textcoords="offset points",
                ha=where,
                va="center",
                fontsize=7,
            )
        if points:
            heights, values = zip(*points, strict=True)
            axes.plot(values, heights, shape, color=COLOURS[tool], markersize=4, label=tool)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(list(places), list(shown))
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="time, as a multiple of uv's (less is faster)")
    axes.margins(x=0.15)
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    save(figure, path)
