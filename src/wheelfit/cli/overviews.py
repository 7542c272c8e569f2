"""Releases with all of their labels as people read them, and who is asked what it would take."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from wheelfit.cli.output import in_one_line
from wheelfit.core.host_file import HostDetector
from wheelfit.core.sizes import size_in_words
from wheelfit.core.tag_phrases import platforms_in_words, pythons_in_words
from wheelfit.errors import UserError
from wheelfit.operations.hosts import open_host, own_hosts
from wheelfit.resolve.overview import Onlooker
from wheelfit.resolve.preset_hosts import presets_for
from wheelfit.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.target import Target
    from wheelfit.resolve.overview import LabelRow, Overview

_MOST = 4
"""Machines, or Pythons and platforms, that a line names unless everything is wanted."""


def onlookers(
    document: VariantDocument | None,
    current: Target,
    environ: Mapping[str, str],
    output: Output,
    *,
    rocm_same_major: bool = False,
    known: dict[str, Onlooker] | None = None,
) -> Iterator[Onlooker]:
    """Yield the machines that may be asked about a release: the user's own, then presets.

    Of the presets those that differ in what the labels ask for, with the versions of CUDA and
    ROCm that the labels name.

    :param document: what the labels ask for; None: nothing.
    :param current: the target in use, for what descriptions leave out.
    :param environ: the environment of the process.
    :param output: told which of the user's own files cannot be read.
    :param rocm_same_major: of presets with ROCm, whether older minors of its major count (P-123).
    :param known: keeps them from one document to the next.
    """
    known = {} if known is None else known
    own = own_hosts(environ)
    for name in (*own, *(one for one in presets_for(document) if one not in own)):
        if name in known:
            yield known[name]
            continue
        try:
            host = open_host(name, environ, rocm_same_major=rocm_same_major)
        except UserError as error:
            if name in own:  # a preset that cannot be is none
                output.warn(in_one_line(f"{name} is not asked: {error.message}"))
            continue
        known[name] = Onlooker(
            name,
            host.words,
            host.file.target(current, name),
            HostDetector(host.file, name, host.kind),
            any_python=host.file.interpreter is None,
        )
        yield known[name]


def print_overview(overview: Overview, output: Output) -> None:
    """Print every label: what it asks for, what there is of it, and who takes it.

    :param overview: what to print.
    :param output: where to.
    """
    wheels = sum(len(row.wheels) for row in overview.rows)
    labels = sum(row.label is not None for row in overview.rows)
    if not labels:
        count = count_of(wheels, "plain wheel")
    elif labels < len(overview.rows):
        count = f"{count_of(wheels, 'wheel')}, {count_of(labels, 'label')} and plain wheels"
    else:
        count = f"{count_of(wheels, 'wheel')} of {count_of(labels, 'label')}"
    output.result(f"{overview.name} {overview.version} for all machines: {count}", "strong")
    if overview.source:
        output.result(in_one_line(f"  from {overview.source}"), "dim")
    for row in overview.rows:
        output.result(in_one_line(f"  {row.label or 'plain wheel'}"), "good")
        for what, text in _lines(row, output, asked=bool(overview.machines)):
            _print(what, text, output)
    if overview.without:
        _print("nothing for", _some(overview.without, output), output, margin="  ")
    for note in overview.notes:
        output.say(in_one_line(f"  note: {note}"), "dim")


def _lines(row: LabelRow, output: Output, *, asked: bool) -> Iterator[tuple[str, str]]:
    yield "machine", row.condition
    if row.properties:
        yield (
            "properties",
            "; ".join(
                f"{feature} :: {', '.join(values)}" for feature, values in row.properties.features()
            ),
        )
    tags = {tag for wheel in row.wheels for tag in wheel.filename.tags}
    pythons = _some(pythons_in_words(tags), output)
    yield "built for", f"{pythons} on {_some(platforms_in_words(tags), output)}"
    yield "wheels", f"{len(row.wheels)}{_sizes(row)}"
    if output.verbosity > 0:
        for wheel in row.wheels:
            yield "", wheel.filename.text
    if asked:
        yield "taken by", _some(row.takers, output) if row.takers else "none of the machines asked"


def _sizes(row: LabelRow) -> str:
    sizes = [wheel.file.size for wheel in row.wheels if wheel.file.size is not None]
    if not sizes:
        return ""
    least, most = size_in_words(min(sizes)), size_in_words(max(sizes))
    return f", {most}" if least == most else f", {least} to {most}"


def _some(items: Sequence[str], output: Output) -> str:
    if len(items) <= _MOST + 1 or output.verbosity > 0:
        return ", ".join(items)
    return f"{', '.join(items[:_MOST])} and {len(items) - _MOST} more"


def _print(what: str, text: str, output: Output, margin: str = "    ") -> None:
    head = f"{margin}{what:<12}"
    joined = in_one_line(text).replace(" :: ", _JOINED)
    filled = textwrap.fill(
        joined,
        width=100,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    output.result(filled.replace(_JOINED, " :: "))


_JOINED = "\xa0::\xa0"
"""Keeps a property on one line."""
