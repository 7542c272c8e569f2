"""Claims about versions and specifiers out of texts that a stranger wrote."""

from __future__ import annotations

import pytest
from packaging.specifiers import InvalidSpecifier
from packaging.version import InvalidVersion

from wheelfit.core.core_metadata import read_metadata
from wheelfit.core.filename import parse_index_file_name, parse_wheel_filename
from wheelfit.core.markers import parse_marker
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.versions import has_too_many_digits, parse_specifiers, parse_version
from wheelfit.errors import InvalidFilename, InvalidRequirement
from wheelfit_runtime.errors import InvalidWheel

LONG = "9" * 5000
"""More digits than Python reads as a number."""


@pytest.mark.parametrize("text", [LONG, f"1.{LONG}", f"1!{LONG}", f"1+{LONG}", f"1.post{LONG}"])
def test_an_endless_number_is_no_version(text: str) -> None:
    """Python refuses to read it, sooner or later: here it is refused at once."""
    assert has_too_many_digits(text)
    with pytest.raises(InvalidVersion):
        parse_version(text)
    with pytest.raises(InvalidSpecifier):
        parse_specifiers(f"=={text}")
    with pytest.raises(InvalidRequirement):
        parse_requirement(f"demo>={text}", allow_variant_markers=True)
    with pytest.raises(InvalidWheel):
        read_metadata(f"Name: demo\nVersion: {text}\n".encode(), "demo")
    with pytest.raises(InvalidFilename):
        parse_wheel_filename(f"demo-{text}-py3-none-any.whl")
    assert parse_index_file_name(f"demo-{text}-variants.json") is None


def test_endless_specifiers() -> None:
    """A text of some megabytes takes gigabytes of memory once it is read: it is not."""
    assert len(parse_specifiers(",".join(f"!={number}" for number in range(1000)))) == 1000
    with pytest.raises(InvalidSpecifier):
        parse_specifiers(",".join([">=1"] * 1_000_000))


def test_an_endless_build_is_no_file_name() -> None:
    """F-13: a build tag starts with a number that can be compared."""
    with pytest.raises(InvalidFilename):
        parse_wheel_filename(f"demo-1-{LONG}-py3-none-any.whl")


def test_an_endless_number_in_a_marker() -> None:
    """It is compared as text, as whatever else is not a version."""
    marker = parse_marker(f"python_version == '{LONG}'")
    assert marker.evaluate({"python_version": "3.11"}, "") is False


def test_a_url_may_have_long_numbers() -> None:
    """They are part of no version."""
    text = f"demo @ https://files.example/{LONG}/demo-1-py3-none-any.whl"
    assert parse_requirement(text, allow_variant_markers=False).url


@pytest.mark.parametrize("number", [1, 100_000])
def test_blanks_cost_no_time(number: int) -> None:
    """A text that does not match is given up at once: otherwise this test would take days."""
    blanks = " " * number
    for text in (
        f"demo{blanks}!",
        f"demo[a{blanks}!",
        f"demo @ x{blanks}; {blanks}",
        f"a{blanks}@",
    ):
        with pytest.raises(InvalidRequirement):
            parse_requirement(text, allow_variant_markers=True)
    read_metadata(f"Name: demo\nVersion: 1\nSummary: a{blanks}b\n {blanks}c\n".encode(), "demo")
