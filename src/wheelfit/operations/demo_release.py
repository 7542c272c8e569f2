"""What `wheelfit demo` puts on its index: real wheels, made into variants on the spot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.building.index_file import write_index_files
from wheelfit.building.plain_wheel import write_plain_wheel
from wheelfit.building.variant_wheel import make_variant
from wheelfit.core.document import VariantDocument
from wheelfit.core.host_file import HostFile, HostProvider
from wheelfit.core.labels import parse_label
from wheelfit.core.properties import Property, PropertySet
from wheelfit.core.providers import PluginProvider
from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit.core.target import Target


@dataclass(frozen=True, slots=True)
class Family:
    """Hold one kind of processor: what its variants are called and what runs where."""

    namespace: str
    feature: str
    values: tuple[str, ...]
    """Best first; each also runs what comes after it."""
    provider: PluginProvider
    machines: tuple[tuple[str, str], ...]
    """Simulated machines: name of the host file, and the best value it supports."""

    def host_file(self, best: str) -> HostFile:
        """Describe a machine whose best value is ``best``."""
        values = self.values[self.values.index(best) :]
        feature = FeatureConfig(self.feature, values)
        return HostFile(providers=(HostProvider(self.namespace, features=(feature,)),))


_X86_64 = Family(
    "x86_64",
    "level",
    ("v4", "v3", "v2", "v1"),
    PluginProvider(requires=("x86-64-variant-provider>=0.2.1,<1",)),
    (
        ("server-with-avx512.toml", "v4"),
        ("laptop-of-2015.toml", "v3"),
        ("desktop-of-2009.toml", "v2"),
    ),
)
_AARCH64 = Family(
    "aarch64",
    "version",
    ("9.0a", "8.5a", "8.4a", "8.3a", "8.2a", "8.1a", "8a"),
    PluginProvider(requires=("aarch64-variant-provider>=0.2.0,<1",)),
    (
        ("grace-server.toml", "9.0a"),
        ("graviton3-server.toml", "8.4a"),
        ("single-board-computer.toml", "8a"),
    ),
)


def choose_family(target: Target) -> Family:
    """Return the kind of processor whose variants make sense on this machine."""
    arm = target.environment["platform_machine"].lower() in ("aarch64", "arm64")
    return _AARCH64 if arm else _X86_64


def own_wheel(folder: Path) -> Path:
    """Write a small wheel, for when there is no network."""
    source = '"""A package made by wheelfit demo."""\n\n__version__ = "1.0"\n'
    return write_plain_wheel(folder, "wheelfit-demo", "1.0", {"wheelfit_demo.py": source})


def stock_index(plain: Path, family: Family, folder: Path) -> list[Path]:
    """Put a wheel and a variant of it for every value into a folder, with the index file.

    The variants hold the same code: the demonstration is about choosing.

    :param plain: the wheel to start from; copied as it is.
    :param family: decides the variants.
    :param folder: an empty folder.
    :returns: the wheels, the plain one first.
    """
    copy = folder / plain.name
    copy.write_bytes(plain.read_bytes())
    sets = {
        parse_label(value): PropertySet.of(Property(family.namespace, family.feature, value))
        for value in family.values
    }
    document = VariantDocument(
        priorities=(family.namespace,),
        providers={family.namespace: family.provider},
        variants=sets,
    )
    wheels = [make_variant(copy, folder, label=label, document=document) for label in sets]
    write_index_files(folder)
    return [copy, *wheels]
