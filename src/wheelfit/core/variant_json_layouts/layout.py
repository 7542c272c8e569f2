"""The type of a layout: a current or former form of documents (F-41)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.labels import Label
    from wheelfit.core.properties import Feature, PropertySet
    from wheelfit.core.providers import Provider
    from wheelfit.core.variant_json_layouts.findings import Findings


class Parts(Struct, frozen=True):
    """The parts that a layout reads; `VariantDocument` explains the fields."""

    priorities: tuple[str, ...]
    providers: Mapping[str, Provider]
    variants: Mapping[Label, PropertySet]
    feature_priorities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    value_priorities: Mapping[Feature, tuple[str, ...]] = field(default_factory=dict)


class Layout(Protocol):
    """A reader of documents of one layout.

    To add a layout: write a class with these members and name it in the registry of
    `wheelfit.core.variant_json_layouts`.
    """

    @property
    def name(self) -> str:
        """The name in section 5 of the format rules, such as ``L7``."""

    @property
    def title(self) -> str:
        """The name for users, such as ``PEP 850 v0.2.0``."""

    def read(self, document: Mapping[str, Any], findings: Findings, *, tolerant: bool) -> Parts:
        """Read a document leniently, and record its faults.

        It raises no error for a bad document: faults that make all of it unusable go to
        ``findings.refusals``, and the parts returned are then to be ignored.

        :param document: plain data within the limits of F-30; any type anywhere.
        :param tolerant: the document may be newer than the layout, so unknown keys
            are ignored with a note and are no faults (F-37).
        """
