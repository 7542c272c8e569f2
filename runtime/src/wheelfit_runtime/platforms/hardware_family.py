"""The type of the record of one hardware family, in plain values.

A family is a folder of `wheelfit_runtime.platforms.providers`. Its record (``record.py``) is light,
for many commands read all; the parts that take longer to import are in modules beside it, imported
when they are needed: ``provider``, ``vocabulary`` and ``presets``.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.provider import BuiltInProvider

_FOLDER = f"{__package__}.providers"
_NONE: Mapping[str, Any] = MappingProxyType({})


class Plugin(NamedTuple):
    """A published provider plugin that the built-in provider stands in for (P-60)."""

    package: str
    """Normalised name of the published package."""
    versions: tuple[str, ...]
    """Its versions that the built-in provider agrees with."""
    endpoints: tuple[str, ...]
    """Effective ``plugin-api`` values that mean its plugin (P-7)."""
    is_registered: bool = True
    """Whether the name was taken on PyPI at the date of the table (P-19)."""


class SharedRequirement(NamedTuple):
    """Something of which there is one value in an environment, and in a process."""

    name: str
    """The name users know it by, as ``cuda``."""
    title: str
    """How messages call it, as ``CUDA``."""
    features: tuple[tuple[str, str], ...]
    """Namespace and name of the features whose values name the target of a build."""
    is_major: bool = False
    """Whether only the number before the first dot must be the same."""
    is_bound: bool = False
    """Whether the values are lower bounds: the lowest of several is the target of a build."""


class DevicePresets(NamedTuple):
    """How presets of machines name the accelerators of a family."""

    name: str
    """How their names begin, as ``cuda``."""
    platforms: tuple[str, ...]
    """Where there can be one, as ``linux-x86_64``; the first is meant when none is named."""
    note: str = ""
    """The text after the heading of a list of them."""
    version_name: str = ""
    """The name of the software whose version is in a name, as ``CUDA``; empty: names have none."""
    version_features: tuple[str, ...] = ()
    """Features whose values are such versions."""


class Shorthand(NamedTuple):
    """The words of ``--variant`` for the builds of a family (F-91)."""

    name: str
    """As ``cuda``."""
    words: str
    """How messages call these builds, as ``CUDA``."""
    aliases: tuple[str, ...] = ()
    """Other names; also before a version."""
    squeezed: str = ""
    """The prefix of a version without its dot, as ``cu`` in ``cu128``; empty: nothing."""
    feature: str = ""
    """The feature whose values are versions of the platform; empty: its builds do not distinguish
    versions.
    """
    majors: range = range(0)
    minors: range = range(0)
    """The versions that there are or may come."""
    example: tuple[str, ...] = ()
    """Versions to show: a major, a minor."""


class HardwareFamily(NamedTuple):
    """The record of a family of hardware."""

    namespace: str
    """Its namespace, and the name of its folder."""
    rank: int
    """Place among all families, from 0: in lists, and where nothing else decides."""
    devices: str
    """Its devices in plural, as ``NVIDIA GPUs``."""
    device: str
    """One of them with its article, as ``an NVIDIA GPU``."""
    purpose: str
    """The meaning of its properties, a phrase for maintainers."""
    example: str
    """A property of a variant: for maintainers."""
    plugins: tuple[Plugin, ...] = ()
    """Published plugins that its provider stands in for."""

    # --- the kind of hardware ---
    lowest: tuple[str, str] | None = None
    """Of processors: feature and value that every one has. None: it is an accelerator."""
    presence: str = ""
    """Of accelerators: feature whose values show that a device is present."""
    used_by: tuple[str, str] | None = None
    """Of accelerators: feature and value that builds have which use one; None: any of them."""
    unused_by: tuple[str, str] | None = None
    """Of accelerators: feature and value of builds for machines without one; None: no such."""
    needed: str = ""
    """Of accelerators: the required device, with its article; empty: one of the devices."""
    presets: DevicePresets | None = None
    """Of accelerators: how presets name them."""
    shorthand: Shorthand | None = None
    """Of accelerators: the short names of their builds in ``--variant``."""
    shared_requirements: tuple[SharedRequirement, ...] = ()
    """The values that packages using it must share."""
    is_part_of_processors: bool = False
    """Whether processors include such a device, even where it is not meant for computing."""

    # --- libraries ---
    drivers: tuple[str, ...] = ()
    """Libraries that come with its driver, by name without ``lib``; ``-`` at the end: beginning."""
    runtimes: Mapping[str, str] = _NONE
    """Run-time libraries by name without ``lib``, each with the software that it is of."""
    library_packages: tuple[str, ...] = ()
    """How the names of packages begin that contain nothing but its vendor's libraries."""
    library_suffix: str = ""
    """The text before the major at the end of the names of such packages, as ``-cu``."""
    toolkit_packages: tuple[str, ...] = ()
    """Such packages whose own version begins with that major."""
    library_needs: Mapping[str, tuple[tuple[str, str], ...]] = _NONE
    """The requirements of the libraries of a major, each a feature with a value of it."""

    # --- variables and programs ---
    masks: tuple[str, ...] = ()
    """Variables with a list of devices that programs may see."""
    homes: Mapping[str, str] = _NONE
    """Variables with the location of its software, each with its meaning, a phrase."""
    variables: Mapping[str, str] = _NONE
    """Further variables that matter to it, each with its meaning."""
    override_prefixes: Mapping[str, str] = _NONE
    """Beginnings of its vendor's variables for providers, each with its meaning."""
    overrides: tuple[str, ...] = ()
    """Further variables that replace what is detected, besides ``…_PROVIDER_FORCE_…``;
    with ``_`` at the end: their beginnings."""
    recorded_variables: tuple[str, ...] = ()
    """Beginnings of variables that a record of a machine takes along; no other leaves it."""
    steering_variables: tuple[str, ...] = ()
    """Beginnings of variables that its driver or tools may heed."""
    tools: tuple[str, ...] = ()
    """Programs on PATH that are of no use without its hardware."""
    toolkit_tools: tuple[str, ...] = ()
    """Programs on PATH of its toolkit, which other machines may have as well."""

    # --- files and devices ---
    pci_vendor: int = 0
    """The number of its maker on the PCI bus, as 0x10de; 0: it is not looked for there."""
    nodes: tuple[str, ...] = ()
    """Prefixes of the names of its devices below ``/dev``."""
    driver_texts: tuple[str, ...] = ()
    """Files whose text changes with its driver."""
    driver_lists: tuple[str, ...] = ()
    """Folders whose names change with its driver or devices."""
    common_names: tuple[str, ...] = ()
    """Words in its files that identify no user or host, even where one has that name."""

    @property
    def is_processor(self) -> bool:
        """Whether it is a kind of processor, and not an accelerator."""
        return self.lowest is not None

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
