"""The type of the record of one hardware family, in plain values.

A family is a folder of `wheelfit_runtime.platforms.providers`. Many commands import the records
(``record.py``) of all families; the modules ``provider``, ``vocabulary`` and ``presets`` beside it
take longer to import, and are imported when they are needed.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.provider import BuiltInProvider

_FOLDER = f"{__package__}.providers"
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Plugin(NamedTuple):
    """A published provider plugin that the built-in provider stands in for (P-60)."""

    package: str
    """Normalised name of the published package."""
    versions: tuple[str, ...]
    """Its versions that the built-in provider agrees with."""
    endpoints: tuple[str, ...]
    """Effective ``plugin-api`` values that identify its plugin (P-7)."""
    is_registered: bool = True
    """Whether the name was taken on PyPI at the date of the table (P-19)."""


class SharedRequirement(NamedTuple):
    """A property that must have one value in an environment, and in a process."""

    name: str
    """Its name, such as ``cuda``."""
    title: str
    """Its name in messages, such as ``CUDA``."""
    features: tuple[tuple[str, str], ...]
    """Namespace and name of the features whose values name the target of a build."""
    is_major: bool = False
    """Whether only the number before the first dot must be the same."""
    is_bound: bool = False
    """Whether the values are lower bounds: the lowest of several is the target of a build."""


class DevicePresets(NamedTuple):
    """The names of the accelerators of a family in presets."""

    name: str
    """Their prefix, such as ``cuda``."""
    platforms: tuple[str, ...]
    """The platforms that can have one, such as ``linux-x86_64``; the first is the default."""
    note: str = ""
    """The text after the heading of a list of them."""
    version_name: str = ""
    """The software whose version is in a name, such as ``CUDA``; empty: there is no version."""
    version_features: tuple[str, ...] = ()
    """Features whose values are such versions."""


class Shorthand(NamedTuple):
    """The short names of the builds of a family in ``--variant`` (F-91)."""

    name: str
    """As ``cuda``."""
    title: str
    """The name of these builds in messages, such as ``CUDA``."""
    aliases: tuple[str, ...] = ()
    """Other names; also before a version."""
    compact_prefix: str = ""
    """The prefix of a version without its dot, as ``cu`` in ``cu128``; empty: there is none."""
    feature: str = ""
    """The feature whose values are versions of the platform; empty: its builds do not distinguish
    versions.
    """
    majors: range = range(0)
    minors: range = range(0)
    """The numbers of existing and coming versions."""
    example: tuple[str, ...] = ()
    """Versions to show: a major, a minor."""


class HardwareFamily(NamedTuple):
    """The record of a family of hardware."""

    namespace: str
    """Its namespace, and the name of its folder."""
    rank: int
    """Its index in the order of all families: in lists, and if nothing else decides."""
    devices: str
    """Its devices in plural, such as ``NVIDIA GPUs``."""
    device: str
    """One of them with its article, such as ``an NVIDIA GPU``."""
    purpose: str
    """The meaning of its properties, a phrase for maintainers."""
    example: str
    """A property of a variant: for maintainers."""
    plugins: tuple[Plugin, ...] = ()
    """Published plugins that its provider stands in for."""

    # --- the kind of hardware ---
    baseline: tuple[str, str] | None = None
    """Of processors: a feature, and the value that every processor supports. None: an accelerator.
    """
    presence: str = ""
    """Of accelerators: feature whose values show that a device is present."""
    accelerated_property: tuple[str, str] | None = None
    """Of accelerators: the feature and value of builds that use one; None: any property."""
    cpu_only_property: tuple[str, str] | None = None
    """Of accelerators: the feature and value of builds for machines without one; None: none."""
    required_device: str = ""
    """Of accelerators: the required device, with its article; empty: one of the devices."""
    presets: DevicePresets | None = None
    """Of accelerators: their names in presets."""
    shorthand: Shorthand | None = None
    """Of accelerators: the short names of their builds in ``--variant``."""
    shared_requirements: tuple[SharedRequirement, ...] = ()
    """The values that packages using it must share."""
    is_part_of_processors: bool = False
    """Whether processors include such a device, even where it is not meant for computing."""

    # --- libraries ---
    drivers: tuple[str, ...] = ()
    """Names without ``lib`` of the libraries of its driver; with ``-`` at the end, prefixes."""
    runtimes: Mapping[str, str] = _EMPTY
    """Run-time libraries by name without ``lib``, each with the software it belongs to."""
    library_packages: tuple[str, ...] = ()
    """Prefixes of the names of packages that contain only libraries of its vendor."""
    library_suffix: str = ""
    """The text before the major at the end of the names of such packages, such as ``-cu``."""
    toolkit_packages: tuple[str, ...] = ()
    """Such packages whose own version begins with that major."""
    library_needs: Mapping[str, tuple[tuple[str, str], ...]] = _EMPTY
    """By major: the features and values that its libraries require."""

    # --- variables and programs ---
    masks: tuple[str, ...] = ()
    """Variables with a list of devices that programs may see."""
    homes: Mapping[str, str] = _EMPTY
    """Variables with the location of its software, each with its meaning, a phrase."""
    variables: Mapping[str, str] = _EMPTY
    """Further variables that matter to it, each with its meaning."""
    override_prefixes: Mapping[str, str] = _EMPTY
    """Prefixes of its vendor's variables for providers, each with its meaning."""
    overrides: tuple[str, ...] = ()
    """Further variables that replace detected values, besides ``…_PROVIDER_FORCE_…``; with ``_`` at
    the end, prefixes."""
    recorded_variables: tuple[str, ...] = ()
    """Prefixes of variables that are part of a machine's record; no others are."""
    steering_variables: tuple[str, ...] = ()
    """Prefixes of variables that may affect its driver or tools."""
    tools: tuple[str, ...] = ()
    """Programs on PATH that are useless without its hardware."""
    toolkit_tools: tuple[str, ...] = ()
    """Programs on PATH of its toolkit, which other machines may have as well."""

    # --- files and devices ---
    pci_vendor: int = 0
    """The number of its vendor on the PCI bus, as 0x10de; 0: the bus is not read."""
    nodes: tuple[str, ...] = ()
    """Prefixes of the names of its devices below ``/dev``."""
    driver_files: tuple[str, ...] = ()
    """Files whose content changes with its driver."""
    driver_folders: tuple[str, ...] = ()
    """Folders whose entries change with its driver or devices."""
    common_names: tuple[str, ...] = ()
    """Words in its files that are never taken for the name of a user or host."""

    @property
    def device_without_article(self) -> str:
        """The name of a device, such as ``NVIDIA GPU``."""
        return self.device.partition(" ")[2]

    @property
    def is_processor(self) -> bool:
        """Whether it is a kind of processor, and not an accelerator."""
        return self.baseline is not None

    @property
    def provider(self) -> BuiltInProvider:
        """Its provider, ``PROVIDER`` of the module."""
        return cast("BuiltInProvider", self.module("provider").PROVIDER)

    @property
    def plugin_api(self) -> str:
        """The address of its provider as a plugin of PEP 850."""
        return f"{_FOLDER}.{self.namespace}.provider:PROVIDER"

    def module(self, name: str) -> Any:
        """Return a module of its folder, imported on first use."""
        return import_module(f"{_FOLDER}.{self.namespace}.{name}")
