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
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from wheelfit.building.front_end.source import Source
    from wheelfit.building.front_end.toolchains.inputs import BuildInputs
    from wheelfit.building.front_end.variants import WheelToBuild
    from wheelfit.core.properties import PropertySet
    from wheelfit.projects.backend import ConfigSettings

_MOST_ABOVE = 8
"""Folders above a project in which its sources are expected at most."""
MARK = "variantlib"
"""The reference library, which every backend that writes variant wheels mentions in its source."""


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """The settings that request variants from a backend (B-11, and the table behind it)."""

    name: str
    backends: tuple[str, ...]
    """Its ``build-backend`` as projects name it."""
    naming: str | None
    """The setting for properties that end in metadata only; None: a label selects them."""
    handing: str | None = None
    """The setting for properties that the build system gets too."""
    label: str = "variant-label"
    null: tuple[str, str] | None = None
    """The setting for the null variant; None: its hooks have none."""
    switch: tuple[str, ...] = ()
    """The key of pyproject.toml that must be true for these settings to work."""
    calls: tuple[str, str] | None = None
    """A module and the name it must define for the backend: not every release has it."""

    def settings(self, choice: WheelToBuild, *, pass_properties: bool) -> ConfigSettings | None:
        """Return the settings that request a variant; None if there are none.

        :param pass_properties: whether the build system gets the properties too.
        """
        if choice.label is None:
            return None
        if self.naming is None:
            return {self.label: choice.label}
        if choice.label == NULL:
            return None if self.null is None else dict([self.null])
        key = self.handing if pass_properties else self.naming
        if key is None:
            return None
        return {key: [str(one) for one in choice.properties], self.label: choice.label}

    def is_switched_on(self, said: Callable[..., object], settings: ConfigSettings) -> bool:
        """Return whether a project enables variants in its build backend."""
        if not self.switch:
            return True
        return said(*self.switch) is True or settings.get(self.switch[-1]) == "true"


# As of November 2026.
DIALECTS: Mapping[str, BackendSettings] = {
    one.name: one
    for one in (
        BackendSettings("draft", (), naming=None),
        BackendSettings(
            "meson-python",
            ("mesonpy",),
            naming="variant-name",
            handing="variant",
            null=("null-variant", "true"),
        ),
        BackendSettings("hatchling", ("hatchling.build",), naming="variant-property"),
        BackendSettings(
            "scikit-build-core",
            ("scikit_build_core.build",),
            naming="variant-name",
            handing="variant",
            null=("null-variant", "true"),
            switch=("tool", "scikit-build", "experimental"),
            calls=("variantlib.api", "def get_variant_label("),
        ),
    )
}
"""By name. The hooks of flit's fork listen to no setting (B-18), so it has no entry."""


def dialect_of(backend: str) -> BackendSettings | None:
    """Return the dialect that a backend may speak."""
    return next((one for one in DIALECTS.values() if backend in one.backends), None)


def handed_to_meson(properties: PropertySet) -> str:
    """Return the argument by which Meson gets properties, as an option of type array."""
    return "-Dvariant=[{}]".format(", ".join(f"'{one}'" for one in properties))


def afresh(source: Source, folder: Path, inputs: BuildInputs) -> BuildInputs:
    """Return inputs that make a backend keep its objects in a folder of this build alone.

    Setuptools reuses an object file even if it was compiled with other flags, CMake reads
    ``CFLAGS`` only once, and cargo does not run scripts again that call make.

    :raises InvalidConfiguration: a file that ``DIST_EXTRA_CONFIG`` names cannot be read.
    """
    environ = inputs.environ
    # Backends of a project's own use setuptools too; other backends ignore it.
    parser = configparser.RawConfigParser()
    if own := environ.get("DIST_EXTRA_CONFIG"):
        try:
            parser.read(own, encoding="utf-8")
        except (configparser.Error, OSError, ValueError):
            raise InvalidConfiguration("DIST_EXTRA_CONFIG cannot be read", where=own) from None
    if not parser.has_section("build"):
        parser.add_section("build")
    # Objects of "../../x.c" lie two folders above the others; they must not leave this one.
    parser.set("build", "build_base", str(folder.joinpath(*["objects"] * _MOST_ABOVE)))
    with (folder / "extra.cfg").open("w", encoding="utf-8") as file:
        parser.write(file)
    environ = {**environ, "DIST_EXTRA_CONFIG": str(folder / "extra.cfg")}
    if inputs.calls_cargo:
        environ = {"CARGO_TARGET_DIR": str(folder / "cargo"), **environ}
    settings = inputs.settings
    if (
        source.backend == "scikit_build_core.build"
        and source.at("tool", "scikit-build", "build-dir") is not None
        and not {"build-dir", "skbuild.build-dir"} & settings.keys()
    ):
        settings = {**settings, "build-dir": str(folder / "cmake")}
    return replace(inputs, settings=settings, environ=environ)
