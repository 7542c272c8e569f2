"""A layout that nobody publishes: as unlike the others as the rules of the format allow.

It stands for the final version 1.0.0. This module is all that such a version needs, besides one
entry in the table of stable versions (F-41).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wheelfit.core.labels import Label
from wheelfit.core.properties import PropertySet, parse_property
from wheelfit.core.providers import StaticProvider
from wheelfit.core.variant_json_layouts.findings import Findings
from wheelfit.core.variant_json_layouts.layout import Parts
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.platforms.features import FeatureConfig

KEYS = {"$schema", "knows", "builds"}


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Read documents with a list of builds, and with priorities by the order of ``knows``."""

    name: str = "L8"
    title: str = "the made-up version 1.0.0"

    def read(self, document: Mapping[str, Any], findings: Findings, *, tolerant: bool) -> Parts:
        """Read a document; see `Layout.read`."""
        unknown = [key for key in document if key not in KEYS]
        findings.add_ignored_keys((), unknown, rule="F-20", is_fault=not tolerant)
        if "knows" not in document:
            findings.add_fatal_fault(("knows",), "the key is missing", "F-20")
            return Parts((), {}, {})
        knows = document["knows"]  # a list of [namespace, [feature, [value, ...]], ...]
        providers = {
            namespace: StaticProvider(
                tuple(FeatureConfig(feature, tuple(values)) for feature, values in features)
            )
            for namespace, *features in knows
        }
        variants: dict[Label, PropertySet] = {}
        for index, (label, *needs) in enumerate(document["builds"]):
            try:
                variants[Label(label)] = PropertySet(map(parse_property, needs))
            except UserError as error:
                fault = findings.add_fault(("builds", index), error.message, "F-2")
                findings.unusable[label] = str(fault)
        return Parts(tuple(providers), providers, variants)
