"""What is supported of a namespace, as text."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wheelfit.cli.output import Output, Style
    from wheelfit_runtime.platforms.features import Detection, Evidence

_SHOWN = 6
"""How many values of a long list are shown without ``--verbose``."""
_WIDTH = 72
"""How many characters of a piece of evidence are shown without ``--verbose``."""
_NUMBER = re.compile(r"\b[\da-f]{2}\b|\d")
"""What tells the names of several devices apart: numbers, and addresses on a bus."""
_LABEL = len("decided by")
"""Columns that the names of values, of evidence and of who decided have at least."""


def show_detections(
    detections: Sequence[Detection], output: Output, *, versions: bool = False
) -> None:
    """Print what is supported of each namespace, and how that was found.

    Where there is nothing, one line says why.

    :param detections: the answers.
    :param output: where to; unless it is verbose, long lists are cut.
    :param versions: whether to name the version of each provider.
    """
    short = [one for one in detections if output.verbosity <= 0 and _is_plain_nothing(one)]
    for detection in detections:
        if detection not in short:
            _print_detection(detection, output, versions=versions)
    if short:
        output.result()
        output.result("nothing of these:", "dim")
    width = max((len(one.namespace) for one in short), default=0)
    for one in short:
        output.result(f"  {one.namespace:<{width}}  {_reason(one, output)}", "dim")


def _is_plain_nothing(detection: Detection) -> bool:
    """Return whether one line is enough."""
    return (
        str(detection.status) == "nothing"
        and not detection.warnings
        and len(detection.evidence) < 2
        and detection.plugin is None
    )


def _reason(detection: Detection, output: Output) -> str:
    for one in detection.evidence:
        value = _clipped(one.value, output)
        # What a preset or the built-in providers say of files is enough by itself.
        enough = one.source in ("files", detection.source)
        return value if enough else f"{one.source}: {value}"
    return detection.source


def _print_detection(detection: Detection, output: Output, *, versions: bool) -> None:
    styles: dict[str, Style] = {"supported": "good", "failed": "bad", "disabled": "warning"}
    output.result()
    output.result(
        f"{detection.namespace}: {detection.status}", styles.get(str(detection.status), "dim")
    )
    output.result(f"  {'decided by':<{_LABEL}}  {detection.source}")
    if versions and detection.version:
        output.result(f"  {'provider':<{_LABEL}}  {detection.version}")
    # One feature per CPU flag would fill the screen; together they are one line.
    flags = [feature.name for feature in detection.features if feature.values == ("on",)]
    shown = [feature for feature in detection.features if feature.name not in flags]
    width = max([_LABEL, *(len(feature.name) for feature in shown)])
    for feature in shown:
        output.result(f"  {feature.name:<{width}}  {shortened(feature.values, output)}")
    if flags:
        output.result(f"  {'on':<{width}}  {shortened(flags, output)}")
    order = {feature.name: feature.values for feature in detection.features}
    for device in detection.devices:
        values = [value for value in order.get(device.feature, ()) if value in device.values]
        output.result(f"  {device.device}: {device.feature}  {shortened(values, output)}")
    for source, value in _observations(detection, output):
        output.result(f"  {'evidence':<{_LABEL}}  {source}: {value}", "dim")
    warn_of_detection(detection, output)


def _observations(detection: Detection, output: Output) -> Iterator[tuple[str, str]]:
    """Yield the evidence; what is the same of several numbered things comes once."""

    def kind(one: Evidence) -> object:
        return one if output.verbosity > 0 else (_NUMBER.sub("", one.source), one.value)

    for _, alike in groupby(detection.evidence, key=kind):
        first, *others = alike
        source = f"{first.source} … {others[-1].source}" if others else first.source
        count = f" ({len(others) + 1} in all)" if others else ""
        yield source, f"{_clipped(first.value, output)}{count}"


def warn_of_detection(detection: Detection, output: Output) -> None:
    """Print the warnings of a provider.

    :param detection: the answer.
    :param output: where to.
    """
    for warning in detection.warnings:
        output.warn(f"{detection.namespace}: {warning}")


def shortened(values: Sequence[str], output: Output) -> str:
    """Return a list on one line; a long one with its beginning, end and length.

    :param values: the list.
    :param output: all of it is returned when that is verbose.
    """
    if len(values) <= _SHOWN + 2 or output.verbosity > 0:
        return ", ".join(values)
    return f"{', '.join(values[:_SHOWN])}, … {values[-1]} ({len(values)} in all)"


def _clipped(text: str, output: Output) -> str:
    if output.verbosity > 0:
        return text
    first, *rest = text.splitlines() or [""]
    first = " ".join(first.split())
    return f"{first[:_WIDTH]} …" if rest or len(first) > _WIDTH else first
