"""What is supported of a namespace, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.features import Detection


def detection_json(detection: Detection) -> dict[str, object]:
    """Return what is supported of a namespace as plain data.

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
