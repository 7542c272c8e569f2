"""What is supported of a namespace, as people and programs read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit.cli.output import Output, Style
    from wheelfit.platforms.features import Detection

__all__ = ["detection_mapping", "print_detection", "shortened", "warn_of_detection"]


def __dir__() -> list[str]:
    return __all__


_SHOWN = 6
"""How many values of a long list are shown without ``--verbose``."""
_WIDTH = 72
"""How many characters of a piece of evidence are shown without ``--verbose``."""


def detection_mapping(detection: Detection) -> dict[str, object]:
    """Return what is supported of a namespace as plain data, for ``--json``.

    :param detection: the answer.
    """
    return {
        "features": [
            {"name": feature.name, "values": list(feature.values)} for feature in detection.features
        ],
        "status": str(detection.status),
        "source": detection.source,
        "provider_version": detection.version,
        "evidence": [{"source": one.source, "value": one.value} for one in detection.evidence],
        "warnings": list(detection.warnings),
        "plugin": None if detection.plugin is None else detection.plugin.to_mapping(),
        "devices": [
            {"device": one.device, "feature": one.feature, "values": sorted(one.values)}
            for one in detection.devices
        ],
    }


def print_detection(detection: Detection, output: Output) -> None:
    """Print what is supported of a namespace, and how that was found.

    :param detection: the answer.
    :param output: where to; long lists are cut unless it is verbose.
    """
    styles: dict[str, Style] = {"supported": "good", "failed": "bad", "disabled": "warning"}
    output.result()
    output.result(
        f"{detection.namespace}: {detection.status}", styles.get(str(detection.status), "dim")
    )
    output.result(f"  decided by  {detection.source}")
    # One feature per CPU flag would fill the screen; together they are one line.
    flags = [feature.name for feature in detection.features if feature.values == ("on",)]
    for feature in detection.features:
        if feature.name not in flags:
            output.result(f"  {feature.name}  {shortened(feature.values, output)}")
    if flags:
        output.result(f"  on  {shortened(flags, output)}")
    for device in detection.devices:
        values = shortened(sorted(device.values), output)
        output.result(f"  {device.device}: {device.feature}  {values}")
    for one in detection.evidence:
        output.result(f"  evidence  {one.source}: {_clipped(one.value, output)}", "dim")
    warn_of_detection(detection, output)


def warn_of_detection(detection: Detection, output: Output) -> None:
    """Pass on the warnings of a provider.

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
    return f"{first[:_WIDTH]} …" if rest or len(first) > _WIDTH else first
