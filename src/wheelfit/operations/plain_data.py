"""Reports as plain data, which ``--json`` prints (docs/reference/json.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field
    from typing import ClassVar

    from wheelfit_runtime.platforms.features import Detection


class PlainFields:
    """A dataclass whose plain data have its fields."""

    __slots__ = ()
    if TYPE_CHECKING:  # msgspec reads the annotations of reports
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return plain_fields(self, " ".join(self.__dataclass_fields__))


class PlainReport(PlainFields):
    """A report whose fields are those of the object of ``--json``."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {"version": 1, **super().to_json()}


def plain_report(report: object, names: str = "", **more: object) -> dict[str, Any]:
    """Return the object of a report: its version, and the result of `plain_fields`."""
    return {"version": 1, **plain_fields(report, names, **more)}


def plain_fields(value: object, names: str, **more: object) -> dict[str, Any]:
    """Return attributes of a value as plain data.

    :param names: the attributes, with blanks between them; entries are named like them.
    :param more: further entries.
    """
    values = {name: getattr(value, name) for name in names.split()}
    return {name: plain(item) for name, item in (values | more).items()}


def plain(value: Any) -> Any:
    """Return a value as plain data; other types become their text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    for method in ("to_json", "to_mapping"):
        if hasattr(value, method):
            return getattr(value, method)()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value)


def detection_json(detection: Detection, scrub: Callable[[str], str] = str) -> dict[str, Any]:
    """Return the detection of a namespace as plain data.

    :param scrub: removes data that identifies the machine; default: texts are kept.
    """
    return plain_fields(
        detection,
        "status plugin",
        source=scrub(detection.source),
        provider_version=detection.version,
        warnings=list(map(scrub, detection.warnings)),
        features=[plain_fields(feature, "name values") for feature in detection.features],
        evidence=[
            {"source": scrub(observation.source), "value": scrub(observation.value)}
            for observation in detection.evidence
        ],
        devices=[
            {
                "device": scrub(device.device),
                "feature": device.feature,
                "values": sorted(device.values),
            }
            for device in detection.devices
        ],
    )
