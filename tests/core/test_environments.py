"""Properties of all environments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit.core.environments import first_everywhere, representatives
from wheelfit.core.markers import parse_marker
from wheelfit.core.requirements import parse_requirement


def first(*requires: str) -> set[str | None] | None:
    """Say which projects may come first."""
    found = first_everywhere(
        [parse_requirement(text, allow_variant_markers=False) for text in requires]
    )
    return None if found is None else set(found)


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        (["a", "b"], {"a"}),
        (["a; os_name == 'nt'"], {"a", None}),
        (["a; os_name == 'nt'", "b"], {"a", "b"}),
        (["a; os_name == 'nt'", "b; os_name != 'nt'"], {"a", "b"}),
        (["a; os_name == 'nt'", "a>1; os_name != 'nt'"], {"a"}),
        (["a; os_name == 'nt'", "b; os_name == 'nt'"], {"a", None}),
        (["a; sys_platform in 'linux darwin'", "b; sys_platform == 'win32'"], {"a", "b", None}),
        (["a; sys_platform not in 'linux'", "b; 'linux' in sys_platform"], {"a", "b"}),
        (["a; python_version >= '3.11'", "b; python_version < '3.11'"], {"a", "b"}),
        (["a; python_version > '3.11'", "b; python_version < '3.11'"], {"a", "b", None}),
        (["a; python_version == '3.11.*'", "b; python_version != '3.11'"], {"a", "b"}),
        (["a; python_full_version >= '3.11'", "b; python_version < '3.11'"], {"a", "b"}),
        (["a; python_full_version > '3.11.2'", "b; python_version <= '3.11'"], {"a", "b"}),
        (["a; python_full_version > '3.11.2'", "b; python_version < '3.11'"], {"a", "b", None}),
        (["a; python_version ~= '3.11'", "b; python_version < '3.11'"], {"a", "b", None}),
        (["a; extra == 'x'"], {None}),
        (["a; extra == 'x'", "b"], {"b"}),
        (["a; platform_release >= '6'", "b; platform_release < '6'"], {"a", "b", None}),
    ],
)
def test_first_projects(requires: list[str], expected: set[str | None]) -> None:
    """P-6, P-7: the projects that can be first after marker filtering."""
    assert first(*requires) == expected


def test_limit() -> None:
    """A query that is too expensive returns no answer."""
    names = ["os_name", "sys_platform", "platform_machine", "platform_system", "platform_version"]
    marker = " and ".join(f"{name} in 'a b c d e'" for name in names)
    assert representatives([parse_marker(marker)]) is None
    assert first(f"a; {marker}") is None


ATOMS = st.sampled_from(
    [
        f"{name} {operator} '{version}'"
        for name, versions in (
            ("python_version", ["3.9", "3.11"]),
            ("python_full_version", ["3.11.2", "3.11"]),
        )
        for operator in ("<", "<=", "==", "!=", ">=", ">", "~=")
        for version in versions
    ]
    + ["os_name == 'nt'", "os_name != 'nt'", "'n' in os_name", "sys_platform == 'linux'"]
)
REAL: list[dict[str, Any]] = [
    {
        "python_version": version.rpartition(".")[0],
        "python_full_version": version,
        "os_name": name,
        "sys_platform": platform,
    }
    for version in ["2.7.18", "3.8.0", "3.9.0", "3.9.7", "3.10.1", "3.11.0", "3.11.2", "3.11.3",
                    "3.12.0", "4.0.0"]
    for name, platform in [("nt", "win32"), ("posix", "linux"), ("posix", "darwin"), ("n", "x")]
]  # fmt: skip


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(st.lists(ATOMS, min_size=1, max_size=2).map(" and ".join), max_size=3))
def test_representatives(markers: list[str]) -> None:
    """P-6: markers of every real environment evaluate like those of a representative."""
    parsed = [parse_marker(text) for text in markers]
    found = representatives(parsed)
    if found is None:
        return
    needed = {"os_name": "x", "sys_platform": "x", "python_version": "3", "python_full_version": ""}
    ways = {
        tuple(marker.evaluate({**needed, **environment}) for marker in parsed)
        for environment in found
    }
    assert {tuple(marker.evaluate(real) for marker in parsed) for real in REAL} <= ways
