"""The flags that all processors have in ``/proc/cpuinfo`` (P-105)."""

# Imported when packages with several implementations are imported, so it imports nothing else.
from __future__ import annotations

PATH = "/proc/cpuinfo"

_ALIASES = {"pni": "sse3"}  # P-105


def common_flags(text: str, line_name: str) -> tuple[frozenset[str] | None, bool]:
    """Return the flags that all processors have, and whether the processors differ.

    :param line_name: ``flags`` on x86, ``Features`` on Arm.
    :return: None in place of the flags if there are none.
    """
    values: set[str] = set()  # a machine of 500 processors has one or two different lines
    for line in text.splitlines():
        if line_name in line:
            key, separator, value = line.partition(":")
            if separator and key.strip() == line_name:
                values.add(value)
    flag_sets = [{_ALIASES.get(flag, flag) for flag in value.split()} for value in values]
    common = frozenset(set.intersection(*flag_sets)) if flag_sets else None
    return common or None, len(values) > 1
