"""Build orders and their results, as plain data; equal builds are done once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from wheelfit.building.front_end.flags import changes_processor_code, flags_of
from wheelfit.building.front_end.recipes import Recipe, Recipes
from wheelfit.building.front_end.toolchains.c_family import DEFAULT_FLAGS
from wheelfit.building.front_end.toolchains.rust import CompiledCrates
from wheelfit.building.index_file import read_wheel_document
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.index_metadata import combine
from wheelfit.errors import BuildFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from wheelfit.building.front_end.variants import WheelToBuild
    from wheelfit.core.labels import Label
    from wheelfit.core.project_table import TableProvider
    from wheelfit.core.properties import PropertySet
    from wheelfit.projects.backend import DistributionKind


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """An order for wheels that are built alike."""

    project: Path
    """The folder of the project, or an archive of it."""
    choices: tuple[WheelToBuild, ...]
    """The wheels, all made from a single build."""
    recipe: Recipe
    kind: DistributionKind = "wheel"
    providers: Mapping[str, TableProvider] = field(default_factory=dict, hash=False)
    """By namespace, for projects without a ``[variant]`` table (B-8)."""
    ask_plugins: bool = False
    """Whether every plugin that the wheels need is installed for validation (B-25)."""
    deadline: float = 10.0
    """The time limit of a plugin, in seconds (P-37)."""
    dependencies: tuple[str, ...] = ()
    """Dependencies of every wheel besides those of its backend; markers may use variants."""
    epoch: int | None = None
    """The modification time of archive members written here, in seconds since 1970."""
    repair: str | None = None
    """The command that repairs wheels for one platform; None: wheels are not repaired."""


@dataclass(frozen=True, slots=True)
class TunedParts:
    """The parts of a variant, by whether their compilation differs from that of the plain wheel."""

    changed: tuple[str, ...] = ()
    """The libraries whose machine code differs from that in the plain wheel."""
    unchanged: tuple[str, ...] = ()
    """The libraries whose machine code is the same."""
    crates: CompiledCrates | None = None
    """The crates that cargo compiled; None: it did not run."""

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> TunedParts:
        """Return the parts from plain data, as `to_mapping` returns it."""
        crates = data["crates"]
        return cls(
            tuple(data["changed"]),
            tuple(data["unchanged"]),
            crates and CompiledCrates(crates["tuned"], tuple(crates["others"])),
        )

    def to_mapping(self) -> dict[str, object]:
        """Return the parts as plain data, for ``--json``."""
        crates = self.crates
        return {
            "changed": list(self.changed),
            "unchanged": list(self.unchanged),
            "crates": None
            if crates is None
            else {"tuned": crates.tuned, "others": list(crates.others)},
        }


@dataclass(frozen=True, slots=True)
class BuiltWheel:
    """A built wheel."""

    path: Path
    label: Label | None
    """The label of the variant; None: it is a plain wheel."""
    properties: PropertySet
    backend: str
    """Name and version of the build backend."""
    flags: tuple[str, ...]
    """Further flags of the compilers."""
    validators: Mapping[str, str | None] = field(hash=False)
    """The validator of each namespace's properties; None: there was none (B-25)."""
    plugins: Mapping[str, str] = field(hash=False)
    """Name and version of the plugin for each namespace, where one ran (B-24)."""
    notes: tuple[str, ...]
    """Remarks about it, one sentence each."""
    content: str
    """A digest of all files in it, except those of its dist-info folder."""
    sha256: str
    size: int
    tuned: TunedParts = TunedParts()


def orders_for(
    order: BuildOrder,
    choices: Iterable[WheelToBuild],
    recipes: Recipes,
    overrides: Recipe = Recipe(),
) -> tuple[BuildOrder, ...]:
    """Return orders for wheels, as few as their recipes allow.

    :param overrides: the settings of the command line, which override those of the recipes.
    """
    orders: dict[str, BuildOrder] = {}
    for choice in choices:
        recipe = recipes.of(choice.label, overrides)
        key = _key(choice, recipe)
        if key in orders:
            earlier_choices = orders[key].choices
            orders[key] = replace(orders[key], choices=(*earlier_choices, choice))
        else:
            orders[key] = replace(order, choices=(choice,), recipe=recipe)
    return tuple(orders.values())


def compiles_alike(order: BuildOrder, other: BuildOrder) -> bool:
    """Return whether two orders compile code for processors with the same settings."""
    return _processor_key(order) == _processor_key(other)


def _processor_key(order: BuildOrder) -> str:
    """Return the key of a build; flags count only if they change code for processors."""
    choice, recipe = order.choices[0], order.recipe
    if not changes_processor_code(choice.properties):
        recipe = replace(recipe, flags=False)
    return _key(choice, recipe)


def _key(choice: WheelToBuild, recipe: Recipe) -> str:
    """Return the key of a build; wheels with equal keys are built once."""
    parts = (
        dict(recipe.config_settings),
        dict(recipe.environment),
        recipe.further_flags or (),
        # Flags are part of the key only if the recipe passes them to compilers.
        flags_of(choice.properties, {}) if recipe.flags else (),
        [str(choice.properties), choice.label is None] if recipe.pass_properties else None,
    )
    return json.dumps(parts, sort_keys=True)


def check_together(wheels: Sequence[BuiltWheel]) -> tuple[str, ...]:
    """Check that wheels are of one release; return remarks about them, one sentence each.

    :raises BuildFailed: they are of several releases.
    :raises InconsistentDocuments: they contradict each other, as when a plugin gave different
        answers to two builds (B-24).
    """
    releases = {}
    for wheel in wheels:
        filename = parse_wheel_filename(wheel.path.name)
        releases[filename.name, filename.version] = wheel.path.name
    if len(releases) > 1:
        raise BuildFailed(
            "the wheels are of several releases",
            note="\n".join(releases.values()),
            hint="a version that follows the clock or the state of the checkout changes between "
            "two builds; --sdist determines it once, before the builds",
        )
    variants = [wheel.path for wheel in wheels if wheel.label is not None]
    if variants:
        combine((path.name, read_wheel_document(path)) for path in variants)
    return tuple(_same_contents(wheels))


def _same_contents(wheels: Sequence[BuiltWheel]) -> Iterable[str]:
    """Yield a remark about each wheel with other flags and the same contents as an earlier one."""
    first: dict[str, BuiltWheel] = {}
    for wheel in wheels:
        other = first.setdefault(wheel.content, wheel)
        flags = [flag for flag in (*other.flags, *wheel.flags) if flag not in DEFAULT_FLAGS]
        if flags and other.flags != wheel.flags:
            yield (
                f"{other.path.name} and {wheel.path.name} have the same contents: "
                f"{' '.join(dict.fromkeys(flags))} made no difference"
            )
