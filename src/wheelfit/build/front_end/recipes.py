"""How a project wants its wheels built: ``[tool.wheelfit.build]`` of its pyproject.toml.

The table says what holds for every wheel, and below ``variants`` what holds for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from wheelfit.build.front_end.dialects import DIALECTS
from wheelfit.core.labels import is_label
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import path_of, shown
from wheelfit.errors import Fault, InvalidProject, InvalidRequirement
from wheelfit.values import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.core.labels import Label
    from wheelfit.projects.backend import ConfigSettings

__all__ = ["Recipe", "Recipes", "read_recipes"]


def __dir__() -> list[str]:
    return __all__


_KEYS = ("config-settings", "environment", "flags", "hand-over")
_TOP = ("tool", "wheelfit", "build")
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hold how a wheel is built; plain data."""

    config_settings: ConfigSettings = field(default_factory=dict, hash=False)
    """What the backend is told."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Variables of the backend, besides those that are there."""
    flags: bool | None = None
    """Whether compilers get the flags that follow from the properties (B-26); None: not said."""
    words: tuple[str, ...] | None = None
    """Further flags for C and C++; None: not said."""
    hand_over: bool | None = None
    """Whether the build system gets the properties too; None: not said."""

    def under(self, other: Recipe) -> Recipe:
        """Return this with what another one says besides or instead.

        :param other: the one that counts more.
        """
        return Recipe(
            {**self.config_settings, **other.config_settings},
            {**self.environment, **other.environment},
            self.flags if other.flags is None else other.flags,
            self.words if other.words is None else other.words,
            self.hand_over if other.hand_over is None else other.hand_over,
        )


@dataclass(frozen=True, slots=True)
class Recipes:
    """Hold what a project says of all its wheels."""

    every: Recipe = Recipe()
    plain: Recipe = Recipe()
    variants: Mapping[Label, Recipe] = field(default_factory=dict, hash=False)
    dialect: str = "auto"
    """How variants are asked for; ``auto``: as what is installed understands it."""
    dependencies: tuple[str, ...] = ()
    """What every wheel needs besides; here markers may speak of variants, which few backends let
    pass."""

    def of(self, label: Label | None, more: Recipe = Recipe()) -> Recipe:
        """Return the recipe of one wheel.

        :param label: of the variant; None: the plain wheel.
        :param more: what counts more than the project.
        """
        own = self.plain if label is None else self.variants.get(label, Recipe())
        return self.every.under(own).under(more)


def read_recipes(pyproject: Mapping[str, Any], *, where: str = "pyproject.toml") -> Recipes:
    """Read ``[tool.wheelfit.build]``.

    :param pyproject: the parsed file.
    :param where: the file, for errors.
    :raises InvalidProject: it has faults; names all of them with their paths.
    """
    table: object = pyproject
    for key in _TOP:
        table = table.get(key, {}) if isinstance(table, Mapping) else {}
    reading = _Reading()
    found = reading.recipes(table)
    if reading.faults:
        raise InvalidProject(reading.faults, where=where)
    return found


class _Reading:
    """Read key after key, and remember what is wrong."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def recipes(self, table: object) -> Recipes:
        if not self._is_table(table, ()) or not isinstance(table, Mapping):
            return Recipes()
        self._known(table, (), (*_KEYS, "dependencies", "dialect", "plain", "variants"))
        dialect = table.get("dialect", "auto")
        if dialect not in ("auto", "none", *DIALECTS):
            words = ", ".join(["auto", "none", *DIALECTS])
            self._fault(("dialect",), f"is {shown(dialect)}, and none of {words}")
        variants = table.get("variants", {})
        if not self._is_table(variants, ("variants",)):
            variants = {}
        for label in variants:
            if not is_label(label):
                self._fault(("variants", label), "is no label")
        return Recipes(
            self._recipe({key: table[key] for key in _KEYS if key in table}, ()),
            self._recipe(table.get("plain", {}), ("plain",)),
            {label: self._recipe(one, ("variants", label)) for label, one in variants.items()},
            str(dialect),
            self._requirements(table.get("dependencies", [])),
        )

    def _requirements(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            self._fault(("dependencies",), f"expected a list of texts, found {shown(value)}")
            return ()
        found: list[str] = []
        for number, text in enumerate(value):
            try:
                if not isinstance(text, str) or "\n" in text or "\r" in text:
                    raise InvalidRequirement("is no text on one line", source=shown(text))  # noqa: TRY301
                parse_requirement(text, allow_variant_markers=True)
            except InvalidRequirement as error:
                self.faults.append(
                    Fault(path_of(*_TOP, "dependencies", number), error.message, "F-109")
                )
            else:
                found.append(text)
        return tuple(found)

    def _recipe(self, table: object, steps: tuple[str, ...]) -> Recipe:
        if not self._is_table(table, steps) or not isinstance(table, Mapping):
            return Recipe()
        self._known(table, steps, _KEYS)
        recipe = Recipe(
            self._settings(table.get("config-settings", {}), (*steps, "config-settings")),
            self._environment(table.get("environment", {}), (*steps, "environment")),
        )
        flags = table.get("flags")
        if isinstance(flags, bool):
            recipe = replace(recipe, flags=flags)
        elif flags is not None:
            recipe = replace(recipe, words=self._texts(flags, (*steps, "flags"), "a boolean"))
        hand_over = table.get("hand-over")
        if hand_over is not None and not isinstance(hand_over, bool):
            self._fault((*steps, "hand-over"), f"expected a boolean, found {shown(hand_over)}")
            hand_over = None
        return replace(recipe, hand_over=hand_over)

    def _settings(self, table: object, steps: tuple[str, ...]) -> dict[str, str | list[str]]:
        found: dict[str, str | list[str]] = {}
        for key, value in self._items(table, steps):
            if "variant" in key:
                self._fault((*steps, key), "what is a variant is not decided here")
            elif isinstance(value, str):
                found[key] = value
            else:
                found[key] = list(self._texts(value, (*steps, key), "a text"))
        return found

    def _environment(self, table: object, steps: tuple[str, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in self._items(table, steps):
            if not isinstance(value, str) or "\0" in value:
                self._fault((*steps, key), f"expected a text, found {shown(value)}")
            elif not key or "=" in key or "\0" in key:
                self._fault((*steps, key), "is no name of a variable")
            else:
                found[key] = value
        return found

    def _items(self, table: object, steps: tuple[str, ...]) -> Iterable[tuple[str, object]]:
        if not self._is_table(table, steps) or not isinstance(table, Mapping):
            return ()
        return table.items()

    def _texts(self, value: object, steps: tuple[str, ...], other: str) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        self._fault(steps, f"expected {other} or a list of texts, found {shown(value)}")
        return ()

    def _is_table(self, value: object, steps: tuple[str, ...]) -> bool:
        if isinstance(value, Mapping):
            return True
        self._fault(steps, f"expected a table, found {shown(value)}")
        return False

    def _known(
        self, table: Mapping[str, Any], steps: tuple[str, ...], known: tuple[str, ...]
    ) -> None:
        for key in table:
            if key not in known:
                self._fault((*steps, key), f"unknown key; there are {', '.join(known)}")

    def _fault(self, steps: tuple[str, ...], message: str) -> None:
        self.faults.append(Fault(path_of(*_TOP, *steps), message))
