"""P-107: the few abilities that Windows itself tells of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wheelfit_runtime.platforms.probes import windows_features
from wheelfit_runtime.platforms.providers.aarch64 import tables as aarch64
from wheelfit_runtime.platforms.providers.x86_64 import tables as x86_64
from wheelfit_runtime.platforms.system_view import SystemView


@pytest.mark.parametrize(
    ("number", "flag"),
    [(36, "ssse3"), (37, "sse4_1"), (38, "sse4_2"), (39, "avx"), (40, "avx2"), (41, "avx512f")],
)
def test_numbers_mean_flags(number: int, flag: str) -> None:
    """P-107: the numbers of the rule."""
    assert windows_features.parse({number, 12}, x86_64.WINDOWS_FEATURES) == {flag}


def test_every_name_is_in_the_vocabulary() -> None:
    """P-100, P-110, P-111: nothing is found that could not be asked for."""
    assert {n for names in x86_64.WINDOWS_FEATURES.values() for n in names} <= set(x86_64.FEATURES)
    abilities = {name for names in aarch64.WINDOWS_FEATURES.values() for name in names}
    assert abilities <= set(aarch64.FEATURES + aarch64.APPENDED)


def test_no_level_can_be_told() -> None:
    """P-107: with everything affirmed v2 still lacks two flags."""
    everything = windows_features.parse(set(range(100)), x86_64.WINDOWS_FEATURES)
    assert x86_64.LEVELS[1][1] - everything == {"lahf_lm", "popcnt"}


def test_only_windows_is_asked(tmp_path: Path) -> None:
    """P-70: recorded answers count; a captured machine without any has none."""
    recorded = SystemView(root=str(tmp_path), recorded_features=frozenset({10}))
    assert windows_features.read(recorded) == frozenset({10})
    assert windows_features.read(SystemView(root=str(tmp_path))) is None
    if sys.platform != "win32":
        assert windows_features.read(SystemView()) is None
