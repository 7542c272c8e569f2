"""Rewritten wheels, and the contents of wheels, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.text import size_words
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.cli.output import Output
    from wheelfit.operations.inspection import InspectedFile
    from wheelfit.operations.rewriting import RewriteReport
    from wheelfit.operations.wheel_contents import ShownWheel, WheelContentsReport
    from wheelfit.wheels.binaries.facts import Binary


FAILURES = 9
"""The exit code if some wheels could not be written."""
LOSSES = 32
"""The exit code if content was lost, which the user had accepted (F-56)."""


def show_rewrite(report: RewriteReport, output: Output) -> int:
    """Print the results, and return the exit code."""
    for wheel in report.wheels:
        if not wheel.is_new:
            output.remark(f"{wheel.source}: nothing to do", "dim")
            continue
        output.report(str(wheel.path), "good")
        for text in wheel.notes:
            output.remark(f"  {text}")
    if report.failed and not output.json:
        for _, error in report.failed:
            output.error(error)
        count = count_of(len(report.failed), "wheel")
        output.remark(f"{count} could not be written; the others were", "bad")
    if report.dry_run:
        output.remark("nothing was written: this was a dry run", "dim")
    if report.failed:
        return FAILURES
    return LOSSES if report.lost else 0


def show_wheels(report: WheelContentsReport, output: Output) -> None:
    """Print the contents of wheels."""
    for wheel in report.wheels:
        output.result(wheel.where, "strong")
        for name, text in _rows(wheel):
            output.result(f"  {name:<9} {text}")


def show_metadata(report: WheelContentsReport, output: Output) -> None:
    """Print the METADATA of wheels unchanged."""
    for wheel in report.wheels:
        if len(report.wheels) > 1:
            output.result(f"# {wheel.where}")
        output.result(wheel.metadata.decode("utf-8", "replace").rstrip("\n"))


def show_inspected(file: InspectedFile, output: Output) -> None:
    """Print the binaries of one file; nothing under ``--json``."""
    for line in _lines(file):
        output.result(line)


def _rows(wheel: ShownWheel) -> Iterator[tuple[str, str]]:
    yield "release", f"{wheel.core.name} {wheel.core.version}"
    if wheel.document is None:
        yield "variant", "none: it is a plain wheel"
    else:
        yield "label", str(wheel.filename.label)
        yield from _titled("property", wheel.properties or ["none: the null variant"])
        providers = wheel.providers
        yield from _titled(
            "provider",
            (f"{name}: {providers.get(name, 'none')}" for name in wheel.document.priorities),
        )
        yield "layout", wheel.document.layout
    sizes = ((wheel.size, ""), (wheel.unpacked_size, " unpacked"))
    known_sizes = [f"{size_words(size)}{suffix}" for size, suffix in sizes if size is not None]
    yield "size", ", ".join(known_sizes)
    yield from _titled("markers", wheel.variant_markers)


def _titled(name: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield texts, the first of which has a name."""
    for index, text in enumerate(texts):
        yield name if index == 0 else "", text


def _lines(file: InspectedFile) -> Iterator[str]:
    yield str(file.path)
    if not file.binaries.members:
        yield "  no binaries"
    for binary in file.binaries:
        yield from _binary_lines(binary)
    if properties := list(file.binary_properties.properties):
        yield "  properties that the binaries show:"
        yield from (f"    {property_}" for property_ in properties)
    yield from (f"  note: {note}" for note in file.binary_properties.notes)


def _binary_lines(binary: Binary) -> Iterator[str]:
    kind = ", ".join([binary.format.value, *binary.machines, size_words(binary.size)])
    yield f"  {binary.member} ({kind})"
    levels = binary.levels
    rows: list[tuple[str, Iterable[str]]] = [
        ("soname", [binary.soname] if binary.soname else []),
        ("needs", binary.needed),
        ("rpath", binary.rpath),
        ("versions", binary.newest_versions()),
        (
            "x86-64",
            [
                *([f"needs {levels.needed}"] if levels.needed else []),
                *(f"{count:,} of {level}" for level, count in levels.instructions or ()),
            ],
        ),
        (
            "made for",
            [
                f"{least.system} {least.version[0]}.{least.version[1]} on {least.machine}"
                for least in binary.minimum_systems
            ],
        ),
        ("GPUs", [*map(str, binary.code), *binary.targets]),
        # Device code left over from separate compilation.
        ("unlinked", map(str, binary.unlinked)),
        ("unknown", binary.faults),
    ]
    for title, items in rows:
        if text := ", ".join(items):
            yield f"    {title:<13}{text}"
