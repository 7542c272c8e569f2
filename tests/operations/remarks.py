"""A reporter that keeps the remarks of an operation."""

from __future__ import annotations

from wheelfit.operations.context import Reporter


class Remarks(Reporter):
    """The remarks of an operation, in order; warnings are marked."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @property
    def text(self) -> str:
        """All remarks, one a line."""
        return "".join(f"{line}\n" for line in self.lines)

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.lines.append(f"warning: {text}")

    def remark(self, text: str) -> None:
        """Keep a remark."""
        self.lines.append(text)

    def note(self, text: str) -> None:
        """Keep a remark of less weight."""
        self.lines.append(text)
