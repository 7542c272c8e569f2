"""Static families: lists of values without detection, as dated data (P-160 to P-162).

Some properties describe a build and not the machine, as which BLAS it is linked with.
Every machine supports all their values; the list only ranks them. Nothing is detected:
a project copies a family into its ``pyproject.toml`` and is free to change it there.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA_VERSION = "2026-11"
"""The month in which the lists were last compared with the published packages."""


@dataclass(frozen=True, slots=True)
class StaticFamily:
    """A namespace of static properties with the values that are in use."""

    namespace: str
    """As ``openmp``."""
    purpose: str
    """The distinction its values make, one sentence."""
    features: tuple[FeatureConfig, ...]
    """Features and their values, most preferred first."""

    def template(self) -> str:
        """Return the table for ``pyproject.toml`` of a project that uses the family (P-162).

        The text is a whole ``[variant]`` table in TOML. If a project has that table already, add
        the namespace to its priorities, and the provider to its providers.

        >>> print(STATIC_FAMILIES["openmp"].template())
        # Which OpenMP runtime a build is linked with.
        [variant.default-priorities]
        namespace = ["openmp"]
        <BLANKLINE>
        [variant.providers.openmp]
        static-properties.provider = ["gnu", "intel", "llvm"]
        <BLANKLINE>
        """
        names = [feature.name for feature in self.features]
        lines = [
            f"# {self.purpose}",
            "[variant.default-priorities]",
            f"namespace = {_array([self.namespace])}",
            "",
            f"[variant.providers.{self.namespace}]",
        ]
        if len(names) > 1:  # P-5
            lines.append(f"feature-order = {_array(names)}")
        lines += [
            f"static-properties.{feature.name} = {_array(feature.values)}"
            for feature in self.features
        ]
        return "\n".join(lines) + "\n"


def _array(words: tuple[str, ...] | list[str]) -> str:
    # Names and values have no characters that TOML requires to be escaped (F-2).
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


STATIC_FAMILIES: Mapping[str, StaticFamily] = MappingProxyType(
    {
        family.namespace: family
        for family in (
            # P-160: as blas-lapack-variant-provider and openmp-variant-provider list them.
            StaticFamily(
                "blas_lapack",
                "Which library a build takes its linear algebra from.",
                (FeatureConfig("provider", ("accelerate", "openblas", "mkl")),),
            ),
            StaticFamily(
                "openmp",
                "Which OpenMP runtime a build is linked with.",
                (FeatureConfig("provider", ("gnu", "intel", "llvm")),),
            ),
            # P-161
            StaticFamily(
                "priority",
                "Which of several builds for the same hardware comes first.",
                (FeatureConfig("order", ("1", "2", "3")),),
            ),
        )
    }
)
