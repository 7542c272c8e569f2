"""Lists and counts in sentences."""

from __future__ import annotations

from wheelfit_runtime.wording import count_of, listed


def test_lists() -> None:
    """A list has commas and one word before the last; a long one is cut."""
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(iter(["a", "b", "c"]), "or") == "a, b or c"
    assert listed(map(str, range(13))).endswith("9, 10 and 2 more")
    assert listed(map(str, range(13)), most=None).endswith("10, 11 and 12")


def test_counts() -> None:
    """Only one is singular."""
    assert [count_of(number, "wheel") for number in (0, 1, 2)] == [
        "0 wheels",
        "1 wheel",
        "2 wheels",
    ]
    assert count_of(2, "library", "libraries") == "2 libraries"
