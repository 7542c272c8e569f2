"""The build settings of a project's wheels: ``[tool.wheelfit.build]`` of its pyproject.toml.

The table applies to every wheel, and its tables below ``variants`` to a single variant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wheelfit.building.repack.edits import check_dependency
from wheelfit.core.labels import Label, is_label
from wheelfit.core.table_reader import FaultList, Table, section
from wheelfit_runtime.errors import InvalidDocument

if TYPE_CHECKING:
    from wheelfit.projects.backend import ConfigSettings

_KEYS = ("config-settings", "environment", "flags")
_BACKEND_KEYS = ("backend", "backend-path")
"""Keys that `wheelfit.backend` reads instead."""
_TABLE_PATH = ("tool", "wheelfit", "build")


@dataclass(frozen=True, slots=True)
class Recipe:
    """The build settings of one wheel; plain data."""

    config_settings: ConfigSettings = field(default_factory=dict, hash=False)
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Variables of the backend, besides those of the process."""
    flags: bool | None = None
    """Whether compilers get the flags that follow from the properties (B-26); None: not set."""
    further_flags: tuple[str, ...] | None = None
    """Further flags for C and C++; None: not set."""
    pass_properties: bool = False
    """Whether the build system gets the properties too."""

    def overridden_by(self, other: Recipe) -> Recipe:
        """Return this recipe extended and overridden by another."""
        return Recipe(
            {**self.config_settings, **other.config_settings},
            {**self.environment, **other.environment},
            self.flags if other.flags is None else other.flags,
            self.further_flags if other.further_flags is None else other.further_flags,
            self.pass_properties or other.pass_properties,
        )


@dataclass(frozen=True, slots=True)
class Recipes:
    """The build settings of all wheels of a project."""

    every: Recipe = Recipe()
    plain: Recipe = Recipe()
    variants: Mapping[Label, Recipe] = field(default_factory=dict, hash=False)
    dependencies: tuple[str, ...] = ()
    """Further dependencies of every wheel; their markers may use variants, which few backends
    accept.
    """
    repair: str | None = None
    """The command that repairs wheels, as auditwheel; None: wheels are not repaired."""

    def of(self, label: Label | None, overrides: Recipe = Recipe()) -> Recipe:
        """Return the recipe of one wheel.

        :param label: the variant; None: the plain wheel.
        :param overrides: the settings of the command line.
        """
        own = self.plain if label is None else self.variants.get(label, Recipe())
        return self.every.overridden_by(own).overridden_by(overrides)


def read_recipes(pyproject: Mapping[str, Any], *, where: str = "pyproject.toml") -> Recipes:
    """Read ``[tool.wheelfit.build]``.

    :raises InvalidDocument: ``invalid-project``, with all faults and their paths.
    """
    faults = FaultList()
    table = section(pyproject, faults, *_TABLE_PATH)
    recipes = Recipes() if table is None else _recipes(table)
    if faults:
        raise InvalidDocument(faults, code="invalid-project", where=where)
    return recipes


def _recipes(table: Table) -> Recipes:
    table.only(*_KEYS, "dependencies", "plain", "repair", "variants", *_BACKEND_KEYS)
    variants = table.named("variants")
    labels = table.content.get("variants", {})
    for label in labels if isinstance(labels, Mapping) else ():
        if not is_label(label):
            table.fault("is not a valid variant label", "variants", label)
    plain = table.table("plain")
    plain.only(*_KEYS)
    for recipe in variants.values():
        recipe.only(*_KEYS)
    return Recipes(
        _recipe(table),
        _recipe(plain),
        {Label(label): _recipe(recipe) for label, recipe in variants.items()},
        tuple(table.each("dependencies", check_dependency, rule="F-109")),
        table.string("repair") if "repair" in table else None,
    )


def _recipe(table: Table) -> Recipe:
    flags = table.content.get("flags")
    return Recipe(
        _settings(table.table("config-settings")),
        _environment(table.table("environment")),
        flags if isinstance(flags, bool) else None,
        None if flags is None or isinstance(flags, bool) else _flags(table),
    )


def _flags(table: Table) -> tuple[str, ...]:
    flags = table.content["flags"]
    if isinstance(flags, list):
        return table.strings("flags")
    table.must_be("true, false or a list of strings", flags, "flags")
    return ()


def _settings(table: Table) -> dict[str, str | list[str]]:
    settings: dict[str, str | list[str]] = {}
    for key, value in table.content.items():
        if "variant" in key:
            table.fault(
                "must not be set here: the [variant] table and --variant choose the variant",
                key,
            )
        else:
            texts = table.strings(key, single=True)
            settings[key] = value if isinstance(value, str) else list(texts)
    return settings


def _environment(table: Table) -> dict[str, str]:
    variables = {key: table.string(key) or "" for key in table.content}
    for key, value in variables.items():
        if not key or "=" in key or "\0" in key:
            table.fault("is not a valid name of a variable", key)
        elif "\0" in value:
            table.fault("must not have a NUL character", key)
    return variables
