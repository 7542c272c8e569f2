"""Read which flags every processor lists in the text of ``/proc/cpuinfo`` (P-105)."""

# An import of a split package comes here: nothing is imported that it could do without.
from __future__ import annotations

PATH = "/proc/cpuinfo"

_ALIASES = {"pni": "sse3"}  # P-105


def common_flags(text: str, line_name: str) -> tuple[frozenset[str] | None, bool]:
    """Return the flags that every processor lists, and whether the processors differ.

    :param line_name: ``flags`` on x86, ``Features`` on Arm.
    :returns: None for the flags where there are none.
    """
    lists: set[str] = set()  # a machine of 500 processors has one or two different lines
    for line in text.splitlines():
        if line_name in line:
            key, separator, value = line.partition(":")
            if separator and key.strip() == line_name:
                lists.add(value)
    names = [{_ALIASES.get(word, word) for word in line.split()} for line in lists]
    flags = frozenset(set.intersection(*names)) if names else None
    return flags or None, len(lists) > 1
