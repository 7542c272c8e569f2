"""Draw the figures of the explanation pages; the floors come from ``pyproject.toml``.

With ``--check`` nothing is written; the exit code is 1 if a figure is not as it would be drawn.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "explanation"
_WIDTH = 760
_MARGIN = 20
_GAP = 12
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" role="img" aria-label="{title}">
<style>
text {{ font: 14px sans-serif; text-anchor: middle; fill: #1f2328; }}
.name {{ font-weight: bold; }} .small {{ font-size: 12px; fill: #57606a; }}
.box {{ fill: #f6f8fa; stroke: #8c959f; }} .ours {{ fill: #ddf4ff; stroke: #54aeff; }}
.risk {{ fill: #fff8c5; stroke: #d4a72c; }} .done {{ fill: #dafbe1; stroke: #4ac26b; }}
.arrow {{ fill: none; stroke: #57606a; marker-end: url(#head); }}
.life {{ stroke: #8c959f; stroke-dasharray: 4 4; }}
</style>
<defs>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
 orient="auto">
<path d="M 0 0 L 8 4 L 0 8 z" fill="#57606a"/>
</marker>
</defs>
<rect width="760" height="{height}" fill="#ffffff"/>"""


@dataclass
class Drawing:
    """A picture that grows downwards."""

    title: str
    height: int = _MARGIN
    parts: list[str] = field(default_factory=list)

    def box(
        self, left: float, top: float, width: float, lines: tuple[str, ...], *, kind: str = ""
    ) -> None:
        """Draw a box of 20 units for each line and 20 more, the first line in bold."""
        height = 20 * len(lines) + 20
        self.parts.append(
            f'<rect class="box {kind}" x="{left:g}" y="{top:g}" width="{width:g}" '
            f'height="{height}" rx="6"/>'
        )
        for number, line in enumerate(lines):
            style = "" if number else "name"
            self.text(left + width / 2, top + 25 + 20 * number, line, style)

    def row(
        self, *boxes: tuple[str, ...], kind: str = "", width: float = _WIDTH - 2 * _MARGIN
    ) -> None:
        """Draw boxes of one height beside each other, below all that is there."""
        each = (width - _GAP * (len(boxes) - 1)) / len(boxes)
        for number, lines in enumerate(boxes):
            self.box(_MARGIN + number * (each + _GAP), self.height, each, lines, kind=kind)
        self.height += 20 * max(map(len, boxes)) + 20

    def text(self, left: float, top: float, words: str, style: str = "") -> None:
        """Write a line, centred at a place."""
        self.parts.append(f'<text class="{style}" x="{left:g}" y="{top:g}">{escape(words)}</text>')

    def arrow(self, *points: tuple[float, float], label: str = "") -> None:
        """Draw a line along points that ends in a head, with words above its middle."""
        path = " L ".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path class="arrow" d="M {path}"/>')
        if label:
            (x, y), (end_x, end_y) = points[0], points[-1]
            self.text((x + end_x) / 2, (y + end_y) / 2 - 6, label, "small")

    def down(self, *, width: float = _WIDTH - 2 * _MARGIN) -> None:
        """Draw an arrow to the next row."""
        middle = _MARGIN + width / 2
        self.arrow((middle, self.height + 2), (middle, self.height + 24))
        self.height += 28

    def svg(self) -> str:
        """Return the picture as a document."""
        height = self.height + _MARGIN
        return "\n".join(
            (_HEAD.format(height=height, title=escape(self.title)), *self.parts, "</svg>\n")
        )


def draw_floors() -> Drawing:
    """Draw the floors of both distributions, as the import contracts have them."""
    settings = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    drawing = Drawing("The floors of wheelfit: each imports only from those below it")
    contracts = settings["tool"]["importlinter"]["contracts"]
    for name, kind in (("wheelfit", ""), ("wheelfit_runtime", "ours")):
        (layers,) = (one["layers"] for one in contracts if one.get("containers") == [name])
        drawing.text(_WIDTH / 2, drawing.height + 12, name, "small")
        drawing.height += 20
        for layer in layers:
            drawing.row(*((floor.strip(),) for floor in layer.split("|")), kind=kind)
            drawing.height += 6
        drawing.height += 10
    return drawing


def draw_choice() -> Drawing:
    """Draw the way from a request to wheels."""
    drawing = Drawing("From a request to wheels")
    width = _WIDTH - 2 * _MARGIN - 120
    steps = (
        (
            ("your request", "requirements, options, lock"),
            ("the host", "this machine, preset or host file"),
        ),
        (("listings", "the files of each project: indexes, folders, bridges"),),
        (
            (
                "candidates",
                "which wheels of a release fit the host, best first",
                "why every other one does not",
            ),
        ),
        (
            (
                "solver",
                "one version of each project, newest first",
                "needs: those of the wheel that won",
            ),
        ),
        (("joint choice", "one CUDA major, one BLAS, … for all"),),
    )
    tops = []
    for number, boxes in enumerate(steps):
        if number:
            drawing.down(width=width)
        tops.append(drawing.height)
        drawing.row(*boxes, kind="" if number == 0 else "ours", width=width)
    side = _MARGIN + width
    turn = side + 30
    drawing.arrow(
        (side, tops[4] + 30), (turn, tops[4] + 30), (turn, tops[3] + 40), (side + 2, tops[3] + 40)
    )
    for number, words in enumerate(("they disagree:", "once more for", "each value")):
        drawing.text(turn + 50, tops[3] + 60 + 16 * number, words, "small")
    drawing.down(width=width)
    last = drawing.height
    drawing.row(("install",), ("lock",), ("explain",), ("download",), kind="done", width=width)
    drawing.arrow(
        (side, last + 20),
        (side + 14, last + 20),
        (side + 14, tops[2] + 40),
        (side + 2, tops[2] + 40),
    )
    for number, words in enumerate(
        ("a wheel is not", "what its index", "promised: once", "more without it")
    ):
        drawing.text(turn + 50, tops[2] - 6 + 16 * number, words, "small")
    return drawing


def draw_transaction() -> Drawing:
    """Draw the steps of a change of an environment, and what an interruption leaves."""
    drawing = Drawing("The steps of a change, and what an interruption at each leaves")
    width = 470
    phases = (
        ("", "Nothing has changed:", "what was staged is removed", (
            ("1 look", "every wheel is verified"),
            ("2 lock", "one change at a time"),
            ("3 compare", "no file of another package is overwritten"),
            ("4 stage", "new files beside their places"),
            ("5 plan", "every rename, before the first"),
        )),
        ("risk", "The journal undoes it:", "the old environment", (
            ("6 journal", "the plan is on the disk"),
            ("7 switch", "the renames"),
        )),
        ("done", "The next command finishes it:", "the new environment", (
            ("8 commit", "the journal is renamed"),
            ("9 clean up", "old files are deleted"),
        )),
    )  # fmt: skip
    for kind, outcome, result, steps in phases:
        top = drawing.height
        for step in steps:
            drawing.row(step, kind=kind, width=width)
            drawing.height += 6
        middle = (top + drawing.height) / 2
        drawing.text(_MARGIN + width + 130, middle - 6, outcome, "name")
        drawing.text(_MARGIN + width + 130, middle + 14, result)
        drawing.height += 8
    return drawing


def draw_proxy() -> Drawing:
    """Draw the exchanges of an installer, the proxy and an index."""
    drawing = Drawing("What an installer gets through the proxy")
    centres = {"installer": 120, "proxy": 380, "index": 640}
    for (name, centre), more in zip(
        centres.items(),
        ("pip, uv, pdm, Poetry", "chooses for one host", "of the project"),
        strict=True,
    ):
        drawing.box(
            centre - 90, drawing.height, 180, (name, more), kind="ours" if name == "proxy" else ""
        )
    top = drawing.height + 60
    exchanges = (
        ("installer", "proxy", "page of torch"),
        ("proxy", "index", "page, variant document"),
        ("index", "proxy", "all wheels of all variants"),
        ("proxy", "installer", "the best variant, with a build tag"),
        ("installer", "proxy", "METADATA"),
        ("proxy", "installer", "markers resolved for the variant"),
        ("installer", "proxy", "wheel"),
        ("proxy", "installer", "redirect to the index, or"),
        ("index", "proxy", "bytes, as they arrive"),
        ("proxy", "installer", "the same with that METADATA"),
    )
    bottom = top + 36 * len(exchanges) + 16
    for centre in centres.values():
        drawing.parts.append(f'<path class="life" d="M {centre} {top} L {centre} {bottom}"/>')
    for number, (start, end, words) in enumerate(exchanges):
        height = top + 36 * (number + 1)
        drawing.arrow((centres[start], height), (centres[end], height), label=words)
    drawing.height = bottom
    return drawing


FIGURES = {
    "floors.svg": draw_floors,
    "choice.svg": draw_choice,
    "transaction.svg": draw_transaction,
    "proxy.svg": draw_proxy,
}


def main() -> int:
    """Draw the figures, or check them."""
    old = 0
    for name, draw in FIGURES.items():
        path = FOLDER / name
        drawn = draw().svg()
        if "--check" not in sys.argv[1:]:
            path.write_text(drawn, encoding="utf-8")
        elif not path.exists() or drawn != path.read_text(encoding="utf-8"):
            sys.stderr.write(f"{path} is not up to date: run {Path(__file__).name}\n")
            old += 1
    return int(old > 0)


if __name__ == "__main__":
    sys.exit(main())
