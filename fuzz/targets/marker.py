"""Environment markers: standard ones as packaging has them, variant ones by F-100 to F-107."""

from __future__ import annotations

import warnings
from typing import Any

from packaging.markers import InvalidMarker as PackagingInvalidMarker
from packaging.markers import Marker as PackagingMarker
from packaging.markers import UndefinedComparison, UndefinedEnvironmentName

from wheelfit.core.marker_grammar import VARIANT_VARIABLES
from wheelfit.core.markers import Marker, VariantContext, parse_marker
from wheelfit.core.properties import PropertySet
from wheelfit.core.versions import has_too_many_digits
from wheelfit.errors import InvalidMarker

LONGEST = 1000
"""Bytes of an input."""

ENVIRONMENTS: list[dict[str, Any]] = [
    {
        "implementation_name": "cpython",
        "implementation_version": "3.11.7",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "5.15.0-91-generic",
        "platform_system": "Linux",
        "platform_version": "#1 SMP",
        "python_full_version": "3.11.7",
        "python_version": "3.11",
        "sys_platform": "linux",
    },
    {
        "implementation_name": "pypy",
        "implementation_version": "7.3.13",
        "os_name": "nt",
        "platform_machine": "",
        "platform_python_implementation": "PyPy",
        "platform_release": "10",
        "platform_system": "Windows",
        "platform_version": "",
        "python_full_version": "3.14.0+",
        "python_version": "3.14",
        "sys_platform": "win32",
        "extras": frozenset(["a-b", "A.b"]),
        "dependency_groups": frozenset(["linux"]),
    },
]
EXTRAS = ["", "A_b"]
DECLARED = PropertySet.from_mapping(
    {"nvidia": {"sm_arch": ["80_real", "90_real"]}, "x86_64": {"level": ["v3"]}}
)
KEPT = PropertySet.from_mapping({"nvidia": {"sm_arch": ["90_real"]}, "x86_64": {"level": ["v3"]}})
CU128 = VariantContext("cu128", KEPT)
CONTEXTS = [VariantContext.PLAIN, VariantContext.NULL, CU128]
REFUSED = "refused"
"""Instead of a truth value: the values cannot be compared."""
DEEPEST = 100


def check(data: bytes) -> None:
    """Hold the parser of markers and what it returns to their rules for one text."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        marker = parse_marker(text)
    except InvalidMarker as error:
        assert 0 <= error.position <= len(text)
        assert error.message.isprintable()
        marker = None
    if marker is not None:
        check_writing(marker)
        check_variants(marker)
    if not any(name in text for name in VARIANT_VARIABLES):
        check_standard(text, marker)


def evaluated(
    marker: Marker | bool,  # noqa: FBT001 - that is what resolving returns
    environment: dict[str, Any],
    extra: str,
    context: VariantContext = VariantContext.PLAIN,
) -> bool | str:
    """Return whether a marker holds, or that it cannot be said."""
    if isinstance(marker, bool):
        return marker
    try:
        return marker.evaluate(environment, extra, context)
    except InvalidMarker:
        return REFUSED


def check_writing(marker: Marker) -> None:
    """Check that a marker reads back equal after writing."""
    text = str(marker)
    again = parse_marker(text)
    assert again == marker
    assert str(again) == text


def check_variants(marker: Marker) -> None:
    """Check that resolving variant variables keeps the meaning (B-40, B-41)."""
    assert marker.uses_variants == (not marker.variables.isdisjoint(VARIANT_VARIABLES))
    resolutions = [(context, marker.resolve_variants(context)) for context in CONTEXTS]
    built = marker.resolve_variants(VariantContext("cu128", DECLARED), filtered=False)
    for context, resolved in [*resolutions, (CU128, built)]:
        if isinstance(resolved, Marker):
            assert resolved is built or not resolved.uses_variants
            check_writing(resolved)
        for environment in ENVIRONMENTS:
            for extra in EXTRAS:
                expected = evaluated(marker, environment, extra, context)
                # What is decided without it is no longer compared.
                if expected != REFUSED:
                    assert evaluated(resolved, environment, extra, context) == expected


def check_standard(text: str, marker: Marker | None) -> None:
    """Check that without variant variables a marker is what packaging says it is (F-100)."""
    if has_too_many_digits(text) or text.count("(") > DEEPEST:
        return  # refused, where packaging fails
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes that Python does not know
        try:
            theirs = PackagingMarker(text)
        except PackagingInvalidMarker:
            assert marker is None
            return
        assert marker is not None
        for environment in ENVIRONMENTS:
            for extra in EXTRAS:
                try:
                    expected: bool | str = theirs.evaluate({**environment, "extra": extra})
                except (UndefinedComparison, UndefinedEnvironmentName):
                    expected = REFUSED
                assert evaluated(marker, environment, extra) == expected
