"""Plugins of PEP 850 in wheels for tests: simple ones, and two demos of the PEP.

>>> plugin = fictional_hw()
>>> plugin.endpoint
'provider_fictional_hw.plugin:FictionalHWPlugin'
>>> plugin.provider["requires"]
['provider-fictional-hw==1.0.0']
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.testing.wheels import build_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Values = Mapping[str, Sequence[str]]


_SOURCE = '''\
"""A plugin made by wheelfit.testing."""


class Feature:
    """One feature with its values."""

    def __init__(self, name, values, multi_value):
        self.name = name
        self.values = values
        self.multi_value = multi_value


class {class_name}:
    """Return supported and valid values."""

    @classmethod
    def get_supported_configs(cls):
        """Return what is supported, most preferred first."""
        return [Feature(*feature) for feature in {supported!r}]

    @classmethod
    def get_all_configs(cls):
        """Return everything that is valid."""
        return [Feature(*feature) for feature in {valid!r}]
'''


@dataclass(frozen=True, slots=True)
class Plugin:
    """The source of a plugin."""

    name: str
    """The name of its distribution."""
    version: str
    namespace: str
    """The namespace that it is meant for; only documents assign one to a plugin (P-31)."""
    endpoint: str
    """The ``plugin-api`` of its package."""
    files: Mapping[str, str] = field(hash=False)
    """Path below ``site-packages`` to content."""

    @property
    def provider(self) -> dict[str, object]:
        """The entry of ``providers`` in a document that requires exactly this version."""
        return {"requires": [f"{self.name}=={self.version}"], "plugin-api": self.endpoint}

    def wheel(self, folder: Path) -> Path:
        """Write the wheel and return its path.

        :param folder: the folder of the wheel; created if missing.
        """
        entry_points = {
            "variant_plugins": {str(canonicalize_name(self.name)): self.endpoint}
        }  # P-32
        return build_wheel(
            folder, self.name, self.version, files=self.files, entry_points=entry_points
        )

    def write_to(self, site_packages: Path) -> None:
        """Write the files into a folder without an installation, for direct imports."""
        for path, content in self.files.items():
            (site_packages / path).parent.mkdir(parents=True, exist_ok=True)
            (site_packages / path).write_text(content, encoding="utf-8")


def simple_plugin(
    namespace: str,
    supported: Values,
    *,
    valid: Values | None = None,
    multi_value: Sequence[str] = (),
    name: str | None = None,
    version: str = "1.0.0",
    class_name: str = "Plugin",
) -> Plugin:
    """Return a plugin with fixed results.

    >>> simple_plugin("gpu", {"arch": ["90", "80"]}).endpoint
    'gpu_provider.plugin:Plugin'

    :param supported: values by feature, most preferred first.
    :param valid: the same for all valid values; default: the supported ones.
    :param multi_value: features of which a wheel may list several values.
    :param name: the name of the distribution; default: ``{namespace}-provider``.
    :param class_name: the name of the class in its module ``plugin``.
    """
    name = name or f"{namespace}-provider".replace("_", "-")
    package = canonicalize_name(name).replace("-", "_")
    source = _SOURCE.format(
        class_name=class_name,
        supported=_features(supported, multi_value),
        valid=_features(supported if valid is None else valid, multi_value),
    )
    files = {f"{package}/__init__.py": "", f"{package}/plugin.py": source}
    return Plugin(name, version, namespace, f"{package}.plugin:{class_name}", files)


def _features(features: Values, multi_value: Sequence[str]) -> list[tuple[str, list[str], bool]]:
    return [(name, list(values), name in multi_value) for name, values in features.items()]


def fictional_tech() -> Plugin:
    """Return the demo plugin for fictional technology (P-170)."""
    supported = {
        "technology": ["auto_chef"],
        "quantum": ["foam", "superposition"],
        "risk_exposure": ["25"],
    }
    return simple_plugin(
        "fictional_tech",
        supported,
        valid={
            **supported,
            "technology": ["auto_chef", "improb_drive"],
            "risk_exposure": ["25", "1000000000"],
        },
        name="provider-fictional-tech",
        class_name="FictionalTechPlugin",
    )


def fictional_hw(*, humor: bool = False) -> Plugin:
    """Return the demo plugin for computers out of books (P-171).

    :param humor: whether it has the feature ``humor``, as another version of its source does.
    """
    supported = {
        "architecture": ["deepthought", "hal9000"],
        "compute_capability": ["10", "6", "2"],
        **({"humor": ["0", "2"]} if humor else {}),
        "compute_accuracy": ["1000", "0", "10"],
    }
    return simple_plugin(
        "fictional_hw",
        supported,
        valid={**supported, "architecture": ["deepthought", "hal9000", "mother", "tars"]},
        name="provider-fictional-hw",
        class_name="FictionalHWPlugin",
    )
