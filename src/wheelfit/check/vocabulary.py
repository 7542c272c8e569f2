"""Which features and values are offered in the namespaces of hardware (P-28).

Two circles for each: what the vendor's package offers, which every tool knows, and what
wheelfit offers beyond that (P-41). The names stand with their families, with their dates;
here is only what checking needs besides.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.platforms.families.aarch64 import tables as aarch64
from wheelfit.platforms.families.amd import tables as amd
from wheelfit.platforms.families.ascend import tables as ascend
from wheelfit.platforms.families.intel import tables as intel
from wheelfit.platforms.families.nvidia.cuda_values import every_bound, every_sm_value
from wheelfit.platforms.families.tpu import tables as tpu
from wheelfit.platforms.families.x86_64 import tables as x86_64
from wheelfit.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VOCABULARIES", "Offered", "Vocabulary"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class Offered:
    """Say what is offered of one feature."""

    published: frozenset[str] = frozenset()
    """Values of the vendor's package."""
    wider: frozenset[str] = frozenset()
    """Values that wheelfit offers besides."""
    pattern: re.Pattern[str] | None = None
    """How further values look, where the machine decides what there is."""
    multi_value: bool = False
    """Whether a wheel may list several (P-30)."""

    def is_known(self, value: str) -> bool:
        """Say whether a value is offered on any machine, by anybody."""
        return (
            value in self.published
            or value in self.wider
            or (self.pattern is not None and self.pattern.fullmatch(value) is not None)
        )


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Say what is offered in one namespace."""

    features: Mapping[str, Offered]
    misspelt: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the published package has by mistake, and the features it means (P-110)."""

    def is_disputed(self, feature: str) -> bool:
        """Say whether the published package spells a feature in another way than others do."""
        return feature in self.misspelt or any(feature in all_ for all_ in self.misspelt.values())


_BOUND = Offered(frozenset(every_bound()), pattern=re.compile(r"(1[1-9]|[2-9]\d)(\.\d{1,2})?"))
_SM = frozenset(every_sm_value())
# Those with a letter behind the number are wheelfit's (P-83).
_SM_PUBLISHED = frozenset(value for value in _SM if value.partition("_")[0].isdecimal())
_ON = frozenset(["on"])
_VERSION = re.compile(r"\d{1,3}\.\d{1,3}(\.\d{1,3})?(\.rc\d{1,2})?")


def _flags(published: tuple[str, ...], wider: tuple[str, ...]) -> dict[str, Offered]:
    return {
        **{name: Offered(_ON) for name in published},
        **{name: Offered(wider=_ON) for name in wider},
    }


VOCABULARIES: Mapping[str, Vocabulary] = MappingProxyType(
    {
        "nvidia": Vocabulary(
            {
                "cuda_version_lower_bound": _BOUND,
                "cuda_version_upper_bound": _BOUND,
                "sm_arch": Offered(
                    _SM_PUBLISHED,
                    _SM - _SM_PUBLISHED,
                    # Capabilities of the future, as PTX that they will run (P-83).
                    re.compile(r"1[3-9]\d[af]?_(real|virtual)"),
                    multi_value=True,
                ),
            }
        ),
        "x86_64": Vocabulary(
            {
                "level": Offered(frozenset(name for name, _ in x86_64.LEVELS)),
                **_flags(x86_64.FEATURES, x86_64.APPENDED),
            }
        ),
        "aarch64": Vocabulary(
            {
                "version": Offered(frozenset(aarch64.VERSIONS)),
                **_flags(aarch64.FEATURES, aarch64.APPENDED),
            },
            misspelt=aarch64.MISSPELT,
        ),
        # P-120, P-121
        "amd": Vocabulary(
            {
                "gfx_arch": Offered(
                    frozenset(amd.PUBLISHED_GFX), frozenset(amd.APPENDED_GFX), multi_value=True
                ),
                "rocm_version": Offered(
                    frozenset(amd.PUBLISHED_ROCM),
                    frozenset(amd.APPENDED_ROCM),
                    re.compile(r"\d{1,2}\.\d{1,2}"),
                ),
            }
        ),
        "intel": Vocabulary(  # P-130, P-132
            {
                "device_ip": Offered(
                    frozenset(intel.VALUES),
                    # The future's, as the device itself says.
                    pattern=re.compile(r"(3[5-9]|[4-9]\d)\.\d{1,3}\.\d{1,2}"),
                    multi_value=True,
                )
            }
        ),
        # P-140, P-141; the published package lists whatever the tool of the vendor prints.
        "ascend": Vocabulary(
            {
                "npu_type": Offered(
                    frozenset(ascend.PUBLISHED_TYPES), frozenset(ascend.APPENDED_TYPES)
                ),
                "driver_version": Offered(pattern=_VERSION),
                "cann_version": Offered(pattern=_VERSION),
            }
        ),
        "tpu": Vocabulary(  # P-150, P-153
            {
                "present": Offered(frozenset(tpu.PRESENT)),
                "generation": Offered(wider=frozenset(tpu.GENERATIONS)),
            }
        ),
    }
)
"""By namespace of hardware."""
