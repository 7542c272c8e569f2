"""The policies of manylinux and musllinux tags: what every system provides (PEP 600, PEP 656).

``linux_policies.json`` has the facts of auditwheel that checks need;
`tests/checking/wheels/write_linux_policies.py` writes that file.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

Numbers = tuple[int, ...]

_FILE = Path(__file__).with_suffix(".json")
_SYMBOL = pattern(r"(CXXABI|GCC|GLIBCXX|ZLIB)_(\d+(?:\.\d+){0,4})")
_LOADER = pattern(r"ld(?:-linux.*|-musl-.*|64)\.so(?:\.\d+)?")
_MUSL = pattern(r"libc\.musl-\w+\.so\.1")


class LinuxPolicy(Struct, frozen=True):
    """The policy of a manylinux or musllinux tag for one machine."""

    libraries: frozenset[str]
    """The libraries that every system has."""
    symbols: Mapping[str, Numbers]
    """The newest symbol version that every system has, by kind, such as ``GLIBCXX``."""

    def has_library(self, name: str) -> bool:
        """Return whether every system has a library.

        :param name: as binaries name it, such as ``libc.so.6``.
        """
        if _LOADER.fullmatch(name) or name in self.libraries:
            return True
        # Policies name the library of musl libc.so; binaries name its file, libc.musl-x86_64.so.1.
        return "libc.so" in self.libraries and _MUSL.fullmatch(name) is not None

    def is_too_new(self, symbol: str) -> bool:
        """Return whether some systems lack a version of symbols.

        :param symbol: as ``GLIBCXX_3.4.29``; symbols of other kinds are not judged.
        """
        match = _SYMBOL.fullmatch(symbol)
        if match is None or (newest := self.symbols.get(match[1])) is None:
            return False
        return _numbers(match[2]) > newest


def linux_policy(kind: str, version: tuple[int, int], machine: str) -> LinuxPolicy:
    """Return the policy of a tag.

    :param kind: ``manylinux`` or ``musllinux``.
    :param version: the version of the C library, as (2, 28). For a version without a policy, that
        of the next one is used.
    :param machine: as tags name it, such as ``x86_64``.
    """
    keys = [key for key in _policies() if key[0] == kind]
    chosen = next((key for key in keys if key[1] >= version), keys[-1])
    data = _policies()[chosen]
    symbols = data["symbols"].get(machine, {})
    return LinuxPolicy(
        frozenset(data["libraries"]), {key: _numbers(text) for key, text in symbols.items()}
    )


@cache
def _policies() -> dict[tuple[str, tuple[int, int]], Any]:
    """Return all policies, of each kind the oldest first."""
    text = _FILE.read_text("utf-8")
    policies = {}
    for name, policy in json.loads(text).items():
        kind, _, version = name.partition("_")
        if version:
            major, _, minor = version.partition("_")
            policies[kind, (int(major), int(minor))] = policy
    return dict(sorted(policies.items()))


def _numbers(text: str) -> Numbers:
    return tuple(int(part) for part in text.split("."))
