"""Files that say how wheels are repacked: our own shape, and that of variant-repack (B-44)."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion

from wheelfit.build.repack.edits import NOTHING, Edits
from wheelfit.core import strict_toml
from wheelfit.core.labels import NULL, OLD_NULL, parse_label
from wheelfit.core.properties import Property, PropertySet, parse_property
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import path_of, shown
from wheelfit.core.versions import parse_version
from wheelfit.errors import (
    Fault,
    InvalidDocument,
    InvalidLabel,
    InvalidProperty,
    InvalidRequirement,
)
from wheelfit.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.labels import Label


__all__ = ["NamedVariant", "RepackConfig", "WheelRule", "read_config"]


def __dir__() -> list[str]:
    return __all__


_Value = TypeVar("_Value")

# What variant-repack 0.0.1 takes from the end of names, in its order (November 2026).
_SUFFIXES = tuple(
    f"-{word}"
    for word in (
        "cu11", "cu12", "cu13", "cu118", "cu126", "cu128", "cu129",
        "cuda11x", "cuda12x", "cuda13x", "cpu",
    )
)  # fmt: skip
_OWN = frozenset({"metadata", "variants", "wheels"})
_THEIRS = frozenset({"metadata_configs", "variant_configs", "wheels"})


@dataclass(frozen=True, slots=True)
class NamedVariant:
    """Hold what a file says of one variant."""

    label: Label | None = None
    """How it is called; None: derived from the properties (F-141)."""
    properties: PropertySet | None = None
    """What it needs; None: what the project's table or a document says of the label."""
    metadata: str | None = None
    """The name of the edits that go with it; None: none do."""


@dataclass(frozen=True, slots=True)
class WheelRule:
    """Say what is done with the wheels of a release whose names fit a pattern."""

    match: str
    """Pattern of the shell for file names, as ``*+cu126-*``."""
    variant: str | None = None
    """The name of a variant; None: a plain wheel stays plain."""
    metadata: str | None = None
    """The name of edits; None: those of the variant."""

    def applies(self, filename: str) -> bool:
        """Say whether the rule is for a wheel."""
        return fnmatchcase(filename, self.match)


@dataclass(frozen=True, slots=True)
class RepackConfig:
    """Hold what a file says; the mappings cannot be changed."""

    metadata: Mapping[str, Edits] = field(default_factory=dict)
    """Edits by name."""
    variants: Mapping[str, NamedVariant] = field(default_factory=dict)
    """Variants by name."""
    rules: tuple[WheelRule, ...] = ()
    """Which wheel is done how; the first that fits counts."""
    where: str = ""
    """The file, for errors."""

    def __post_init__(self) -> None:
        for name in ("metadata", "variants"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def edits(self, name: str | None) -> Edits:
        """Return edits by name.

        :param name: None: nothing is edited.
        :raises InvalidDocument: there are none of that name.
        """
        return NOTHING if name is None else self._of(self.metadata, "metadata", name)

    def variant(self, name: str) -> NamedVariant:
        """Return a variant by name.

        :raises InvalidDocument: there is none of that name.
        """
        found: NamedVariant = self._of(self.variants, "variants", name)
        return found

    def rule_for(self, filename: str) -> WheelRule | None:
        """Return the rule for a wheel; None if there is none.

        :param filename: of the wheel.
        """
        return next((rule for rule in self.rules if rule.applies(filename)), None)

    def _of(self, there: Mapping[str, Any], what: str, name: str) -> Any:
        if name not in there:
            known = ", ".join(sorted(there)) or "none"
            raise InvalidDocument(
                [Fault(what, f"there is no {name!r}; there are: {known}")], where=self.where
            )
        return there[name]


def read_config(data: bytes, *, where: str) -> RepackConfig:
    """Read a file that says how wheels are repacked.

    :param data: its bytes, in TOML.
    :param where: the file, for errors.
    :raises InvalidDocument: it has faults; names all of them with their paths.
    """
    try:
        document = strict_toml.load(data)
    except ValueError as error:
        raise InvalidDocument([Fault("", str(error))], where=where) from None
    reader = _Reader()
    config = reader.read(document, where)
    if reader.faults:
        raise InvalidDocument(reader.faults, where=where)
    return config


class _Reader:
    """Read a parsed file; collect everything that is wrong."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def read(self, document: Mapping[str, Any], where: str) -> RepackConfig:
        theirs = bool(document.keys() & (_THEIRS - {"wheels"}))
        known = _THEIRS if theirs else _OWN
        self._unknown(document, known, ())
        first, second = (
            ("metadata_configs", "variant_configs")
            if theirs
            else (
                "metadata",
                "variants",
            )
        )
        read_edits = self._their_edits if theirs else self._edits
        read_variant = self._their_variant if theirs else self._variant
        metadata = {
            name: read_edits(table, (first, name)) for name, table in self._tables(document, first)
        }
        variants = {
            name: read_variant(name, table, (second, name))
            for name, table in self._tables(document, second)
        }
        rules = self._rules(document.get("wheels", []))
        for name, variant in variants.items():
            self._known(variant.metadata, metadata, (second, name, "metadata"))
        for index, rule in enumerate(rules):
            self._known(rule.variant, variants, ("wheels", index, "variant"))
            self._known(rule.metadata, metadata, ("wheels", index, "metadata"))
        return RepackConfig(metadata, variants, tuple(rules), where)

    # --- parts ----------------------------------------------------------------------------

    def _edits(self, table: Mapping[str, Any], steps: tuple[str | int, ...]) -> Edits:
        known = {"name", "rename", "version", "strip-local-version", "remove", "add"}
        self._unknown(table, known, steps)
        renames = table.get("rename", {})
        if not isinstance(renames, Mapping):
            self._fault((*steps, "rename"), f"expected a table, found {shown(renames)}")
            renames = {}
        return Edits(
            name=self._name(table.get("name"), (*steps, "name")),
            renames=tuple(
                (canonicalize_name(old), new)
                for old, given in renames.items()
                if (new := self._name(given, (*steps, "rename", old))) is not None
            ),
            version=self._version(table.get("version"), (*steps, "version")),
            strip_local=self._flag(table, "strip-local-version", steps),
            remove=self._removed(table, "remove", steps),
            add=self._added(table, "add", steps),
        )

    def _their_edits(self, table: Mapping[str, Any], steps: tuple[str | int, ...]) -> Edits:
        known = {
            "normalize_package_name", "rename_package_to", "normalize_version",
            "deps_remove_list", "deps_add_list",
        }  # fmt: skip
        self._unknown(table, known, steps)
        name = table.get("rename_package_to") or None  # empty or false: not wanted
        normalised = self._flag(table, "normalize_package_name", steps)
        return Edits(
            name=self._name(name, (*steps, "rename_package_to")),
            suffixes=_SUFFIXES if normalised and name is None else (),
            strip_local=self._flag(table, "normalize_version", steps),
            remove=self._removed(table, "deps_remove_list", steps),
            add=self._added(table, "deps_add_list", steps),
        )

    def _variant(
        self, name: str, table: Mapping[str, Any], steps: tuple[str | int, ...]
    ) -> NamedVariant:
        self._unknown(table, {"label", "properties", "metadata"}, steps)
        label = self._label(table.get("label", name), (*steps, "label"))
        properties = None
        if "properties" in table:
            texts = self._texts(table, "properties", steps)
            properties = PropertySet(
                item
                for index, text in enumerate(texts)
                if (item := self._property(text, (*steps, "properties", index))) is not None
            )
        metadata = table.get("metadata")
        if metadata is not None and not isinstance(metadata, str):
            self._fault((*steps, "metadata"), f"expected a text, found {shown(metadata)}")
            metadata = None
        return NamedVariant(label, properties, metadata)

    def _their_variant(
        self, name: str, table: Mapping[str, Any], steps: tuple[str | int, ...]
    ) -> NamedVariant:
        del name  # theirs is no label
        self._unknown(table, {"variant_label", "properties"}, steps)
        given = table.get("variant_label")
        label = None if given is None else self._label(given, (*steps, "variant_label"))
        items: list[Property] = []
        rows = table.get("properties", [])
        if not isinstance(rows, list):
            self._fault((*steps, "properties"), f"expected a list, found {shown(rows)}")
            rows = []
        for index, row in enumerate(rows):
            place = (*steps, "properties", index)
            if not isinstance(row, Mapping) or row.keys() != {"namespace", "feature", "value"}:
                self._fault(place, "expected a table with namespace, feature and value")
            elif not all(isinstance(text, str) for text in row.values()):
                self._fault(place, "expected texts")
            else:
                text = f"{row['namespace']} :: {row['feature']} :: {row['value']}"
                if (item := self._property(text, place)) is not None:
                    items.append(item)
        if label in (NULL, OLD_NULL) or not items:
            if items:
                self._fault((*steps, "variant_label"), "null may not have properties", "F-6")
            elif label not in (None, NULL, OLD_NULL):
                self._fault((*steps, "properties"), "at least one is needed", "F-7")
            label = NULL
        return NamedVariant(label, PropertySet(items))

    def _rules(self, given: object) -> list[WheelRule]:
        if not isinstance(given, list):
            self._fault(("wheels",), f"expected a list of tables, found {shown(given)}")
            return []
        rules = []
        for index, table in enumerate(given):
            steps = ("wheels", index)
            if not isinstance(table, Mapping):
                self._fault(steps, f"expected a table, found {shown(table)}")
                continue
            self._unknown(table, {"match", "variant", "metadata"}, steps)
            texts = {key: table.get(key) for key in ("match", "variant", "metadata")}
            for key, value in texts.items():
                if not isinstance(value, str) and (value is not None or key == "match"):
                    self._fault((*steps, key), f"expected a text, found {shown(value)}")
                    texts[key] = None
            if texts["match"]:
                rules.append(WheelRule(texts["match"], texts["variant"], texts["metadata"]))
        return rules

    # --- values ---------------------------------------------------------------------------

    def _tables(
        self, document: Mapping[str, Any], key: str
    ) -> Iterable[tuple[str, Mapping[str, Any]]]:
        tables = document.get(key, {})
        if not isinstance(tables, Mapping):
            self._fault((key,), f"expected a table, found {shown(tables)}")
            return
        for name, table in tables.items():
            if isinstance(table, Mapping):
                yield name, table
            else:
                self._fault((key, name), f"expected a table, found {shown(table)}")

    def _texts(
        self, table: Mapping[str, Any], key: str, steps: tuple[str | int, ...]
    ) -> tuple[str, ...]:
        given = table.get(key, [])
        if _are_texts(given):
            return tuple(given)
        self._fault((*steps, key), f"expected a list of texts, found {shown(given)}")
        return ()

    def _flag(self, table: Mapping[str, Any], key: str, steps: tuple[str | int, ...]) -> bool:
        given = table.get(key, False)
        if not isinstance(given, bool):
            self._fault((*steps, key), f"expected true or false, found {shown(given)}")
            return False
        return given

    def _removed(
        self, table: Mapping[str, Any], key: str, steps: tuple[str | int, ...]
    ) -> frozenset[NormalizedName]:
        names = set()
        for index, text in enumerate(self._texts(table, key, steps)):
            if (name := self._name(text, (*steps, key, index))) is not None:
                names.add(canonicalize_name(name))
        return frozenset(names)

    def _added(
        self, table: Mapping[str, Any], key: str, steps: tuple[str | int, ...]
    ) -> tuple[str, ...]:
        texts = self._texts(table, key, steps)
        for index, text in enumerate(texts):
            self._guarded(
                lambda text=text: parse_requirement(text, allow_variant_markers=True),  # type: ignore[misc]
                (*steps, key, index),
            )
            if "\n" in text or "\r" in text:
                self._fault((*steps, key, index), "a dependency is one line", "B-42")
        return texts

    def _name(self, given: object, steps: tuple[str | int, ...]) -> str | None:
        if given is None:
            return None
        if not isinstance(given, str):
            self._fault(steps, f"expected a text, found {shown(given)}")
            return None
        try:
            canonicalize_name(given, validate=True)
        except InvalidName:
            self._fault(steps, f"{given!r} is not a valid project name")
            return None
        return given

    def _version(self, given: object, steps: tuple[str | int, ...]) -> Version | None:
        if given is None:
            return None
        try:
            return parse_version(given if isinstance(given, str) else "")
        except InvalidVersion:
            self._fault(steps, f"{shown(given)} is not a valid version")
            return None

    def _label(self, given: object, steps: tuple[str | int, ...]) -> Label | None:
        if not isinstance(given, str):
            self._fault(steps, f"expected a text, found {shown(given)}")
            return None
        return self._guarded(lambda: parse_label(given), steps)

    def _property(self, text: str, steps: tuple[str | int, ...]) -> Property | None:
        return self._guarded(lambda: parse_property(text), steps)

    def _guarded(self, read: Callable[[], _Value], steps: tuple[str | int, ...]) -> _Value | None:
        try:
            return read()
        except (InvalidLabel, InvalidProperty, InvalidRequirement) as error:
            self._fault(steps, error.message)
            return None

    # --- faults ---------------------------------------------------------------------------

    def _known(
        self, name: str | None, there: Mapping[str, object], steps: tuple[str | int, ...]
    ) -> None:
        if name is not None and name not in there:
            known = ", ".join(sorted(there)) or "none"
            self._fault(steps, f"there is no {name!r}; there are: {known}")

    def _unknown(
        self, table: Mapping[str, Any], known: Iterable[str], steps: tuple[str | int, ...]
    ) -> None:
        for key in table.keys() - set(known):
            self._fault((*steps, key), f"unknown key; there are {', '.join(sorted(known))}")

    def _fault(self, steps: tuple[str | int, ...], message: str, rule: str = "B-44") -> None:
        self.faults.append(Fault(path_of(*steps), message, rule))


def _are_texts(given: object) -> TypeGuard[list[str]]:
    return isinstance(given, list) and all(isinstance(text, str) for text in given)
