"""Numbers of bytes as people write them."""

from __future__ import annotations

import pytest

from wheelfit.core.sizes import parse_size, size_in_words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (18_200_000, "18.2 MB"),
        (905_000_000, "905.0 MB"),
        (999_950_000, "1.0 GB"),
        (2_500_000_000_000, "2500.0 GB"),
    ],
)
def test_in_words(count: int, words: str) -> None:
    """Sizes are decimal, with one digit after the point."""
    assert size_in_words(count) == words


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("500", 500),
        ("500B", 500),
        ("2GB", 2_000_000_000),
        (" 2 gb ", 2_000_000_000),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("500MB", 500_000_000),
        ("1.5MiB", 1_572_864),
        ("1.5GiB", 1_610_612_736),
        ("2TB", 2_000_000_000_000),
        ("0.1GB", 100_000_000),
        ("1.9", 1),
    ],
)
def test_sizes(text: str, size: int) -> None:
    """Decimal and binary units, any case, a blank between, or none at all."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "GB", "-1", "1e9", "2 G", "2 GBit", "1,5GB", ".5GB", "1.GB", "٣GB", "9" * 40, "inf"],
)
def test_no_sizes(text: str) -> None:
    """What is not a size is refused, and nothing is guessed."""
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1_500_000, 18_200_000, 905_000_000])
def test_what_is_written_can_be_read(count: int) -> None:
    """A size in words is a size again, to the precision that it shows."""
    assert abs(parse_size(size_in_words(count)) - count) <= count * 0.05
