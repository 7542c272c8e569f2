"""File names of wheels and of index files: any text is one or is refused (F-10 to F-17, F-78)."""

from __future__ import annotations

import math
import re
from contextlib import suppress

from packaging.utils import InvalidWheelFilename
from packaging.utils import parse_wheel_filename as packaging_parse

from wheelfit.core.filename import (
    WheelFilename,
    index_file_name,
    parse_index_file_name,
    parse_wheel_filename,
    with_label,
)
from wheelfit.core.labels import Label, is_label
from wheelfit.core.versions import has_too_many_digits
from wheelfit.errors import InvalidFilename

LONGEST = 600
"""Bytes of an input."""

USUAL = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9._]*[A-Za-z0-9])?-[A-Za-z0-9_.+!]+(-[A-Za-z0-9_.]+){3,4}\.whl"
)
"""Whose parts are made of what the standards allow; packaging is not as strict."""

MOST_TAGS = 1024
"""More are refused before they are made."""


def parts(filename: WheelFilename) -> tuple[object, ...]:
    """Return everything but the text."""
    return (
        filename.name,
        filename.version,
        str(filename.version),
        filename.build,
        filename.tags,
        filename.label,
    )


def check(data: bytes) -> None:
    """Hold the parsers of file names to their rules for one text."""
    text = data.decode("utf-8", "surrogateescape")
    check_index_file_name(text)
    try:
        filename = parse_wheel_filename(text)
    except InvalidFilename as error:
        assert error.message.isprintable()  # stands in one line of a terminal
        check_refused(text)
        return
    assert filename.text == text
    check_writing(filename)
    check_labels(filename)
    if filename.label is None:
        check_plain(filename)


def check_writing(filename: WheelFilename) -> None:
    """Check that what is written reads back as the same, and stays as it is (F-17)."""
    written = str(filename)
    again = parse_wheel_filename(written)
    assert parts(again) == parts(filename)
    assert str(again) == written


def check_labels(filename: WheelFilename) -> None:
    """Check that labels come and go without changing the rest (F-10, F-12)."""
    assert filename.is_variant == (filename.label is not None)
    plain = parse_wheel_filename(filename.plain)
    assert plain.label is None
    assert parts(plain)[:-1] == parts(filename)[:-1]
    if filename.label is not None:
        assert is_label(filename.label)
        assert filename.text == f"{filename.plain[:-4]}-{filename.label}.whl"
    for label in (filename.label, None, Label("null")):
        with suppress(InvalidFilename):  # longer than a file name may be (F-3)
            other = with_label(filename, label)
            assert other.label == label
            assert parts(other)[:-1] == parts(filename)[:-1]


def check_plain(filename: WheelFilename) -> None:
    """Check that a plain wheel is what packaging says it is (F-14)."""
    with suppress(InvalidWheelFilename):
        name, version, build, tags = packaging_parse(filename.text)
        assert (name, version, build, tags) == (
            filename.name,
            filename.version,
            filename.build,
            filename.tags,
        )


def check_refused(text: str) -> None:
    """Check that what packaging reads is refused for reasons of ours only (F-12 to F-14)."""
    try:
        packaging_parse(text)
    except InvalidWheelFilename:
        return
    tags = text.removesuffix(".whl").split("-")[-3:]
    combinations = math.prod(len(part.split(".")) for part in tags)
    assert has_too_many_digits(text) or combinations > MOST_TAGS or not USUAL.fullmatch(text)


def check_index_file_name(text: str) -> None:
    """Check that an index file name reads back from its parts (F-70, F-78)."""
    found = parse_index_file_name(text)
    if found is not None:
        name, version = found
        written = index_file_name(name, version)
        assert parse_index_file_name(written) == found
        assert index_file_name(*found) == written
