"""The settings of build backends for variants, as a table.

Support for variants is detected in the installed backend, not by its name: of most only forks have
it. Without it, a plain wheel is built and converted (B-17).
"""

from __future__ import annotations

import configparser
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit.core.labels import NULL
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wheelfit.building.front_end.source import Source
    from wheelfit.building.front_end.toolchains.inputs import BuildInputs
    from wheelfit.building.front_end.variants import WheelToBuild
    from wheelfit.core.properties import PropertySet
    from wheelfit.projects.backend import ConfigSettings

_MAX_PARENTS = 8
"""The maximum number of parent folders of a project that may have its sources."""
REFERENCE_LIBRARY = "variantlib"
"""The reference library, which every backend that writes variant wheels mentions in its source."""


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """The settings that request variants from a backend (B-11, and the table behind it)."""

    name: str
    backends: tuple[str, ...]
    """The values of ``build-backend`` for it."""
    metadata_setting: str | None
    """The setting for properties that are only written into metadata; None: the label selects them.
    """
    build_setting: str | None = None
    """The setting for properties that are passed to the build system too."""
    label_setting: str = "variant-label"
    null: tuple[str, str] | None = None
    """The setting for the null variant, with its value; None: it cannot be requested."""
    switch: tuple[str, ...] = ()
    """The key of pyproject.toml that must be true for these settings to work."""
    called_function: tuple[str, str] | None = None
    """A function that the backend calls, and some releases of its module lack: the module, and the
    text that defines the function.
    """

    def settings(self, choice: WheelToBuild, *, pass_properties: bool) -> ConfigSettings | None:
        """Return the settings that request a variant; None if there are none.

        :param pass_properties: whether the build system gets the properties too.
        """
        if choice.label is None:
            return None
        if self.metadata_setting is None:
            return {self.label_setting: choice.label}
        if choice.label == NULL:
            return None if self.null is None else dict([self.null])
        key = self.build_setting if pass_properties else self.metadata_setting
        if key is None:
            return None
        properties = [str(property_) for property_ in choice.properties]
        return {key: properties, self.label_setting: choice.label}

    def is_switched_on(self, source: Source, settings: ConfigSettings) -> bool:
        """Return whether a project enables variants in its build backend."""
        if not self.switch:
            return True
        return source.value(*self.switch) is True or settings.get(self.switch[-1]) == "true"


# As of November 2026.
DIALECTS: Mapping[str, BackendSettings] = {
    dialect.name: dialect
    for dialect in (
        BackendSettings("draft", (), metadata_setting=None),
        BackendSettings(
            "meson-python",
            ("mesonpy",),
            metadata_setting="variant-name",
            build_setting="variant",
            null=("null-variant", "true"),
        ),
        BackendSettings("hatchling", ("hatchling.build",), metadata_setting="variant-property"),
        BackendSettings(
            "scikit-build-core",
            ("scikit_build_core.build",),
            metadata_setting="variant-name",
            build_setting="variant",
            null=("null-variant", "true"),
            switch=("tool", "scikit-build", "experimental"),
            called_function=("variantlib.api", "def get_variant_label("),
        ),
    )
}
"""By name; without flit's fork, whose hooks read no settings (B-18)."""


def dialect_of(backend: str) -> BackendSettings | None:
    """Return the dialect of a backend, if it may have one."""
    return next((dialect for dialect in DIALECTS.values() if backend in dialect.backends), None)


def meson_argument(properties: PropertySet) -> str:
    """Return the argument of Meson for properties, as an option of type array."""
    return "-Dvariant=[{}]".format(", ".join(f"'{property_}'" for property_ in properties))


def with_separate_objects(source: Source, folder: Path, inputs: BuildInputs) -> BuildInputs:
    """Return inputs by which a backend writes object files into a folder of this build only.

    Setuptools reuses an object file even if it was compiled with other flags, CMake reads
    ``CFLAGS`` only once, and cargo does not run scripts again that call make.

    :raises InvalidConfiguration: a file that ``DIST_EXTRA_CONFIG`` names cannot be read.
    """
    environ = inputs.environ
    # Set for all: in-tree backends may use setuptools, and other backends ignore the variable.
    parser = configparser.RawConfigParser()
    if config_file := environ.get("DIST_EXTRA_CONFIG"):
        try:
            parser.read(config_file, encoding="utf-8")
        except (configparser.Error, OSError, ValueError):
            raise InvalidConfiguration(
                "DIST_EXTRA_CONFIG cannot be read", where=config_file
            ) from None
    if not parser.has_section("build"):
        parser.add_section("build")
    # Setuptools puts objects of "../../x.c" two folders up; they must stay in this one.
    parser.set("build", "build_base", str(folder.joinpath(*["objects"] * _MAX_PARENTS)))
    with (folder / "extra.cfg").open("w", encoding="utf-8") as file:
        parser.write(file)
    environ = {**environ, "DIST_EXTRA_CONFIG": str(folder / "extra.cfg")}
    if inputs.calls_cargo:
        environ = {"CARGO_TARGET_DIR": str(folder / "cargo"), **environ}
    settings = inputs.settings
    if (
        source.backend == "scikit_build_core.build"
        and source.value("tool", "scikit-build", "build-dir") is not None
        and not {"build-dir", "skbuild.build-dir"} & settings.keys()
    ):
        settings = {**settings, "build-dir": str(folder / "cmake")}
    return replace(inputs, settings=settings, environ=environ)
