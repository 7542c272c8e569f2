"""A target: the Python that will run the installed packages.

The support of the hardware is not part of it; a detector returns that.
"""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import force_setattr
from packaging.version import InvalidVersion, Version

from wheelfit.core.versions import parse_version
from wheelfit.errors import InvalidMarker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packaging.tags import Tag

    from wheelfit.core.compatible_tags import ShortTags

_ARCHITECTURES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "i686": "i686",
    "win32": "i686",
    "armv7l": "armv7l",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
}
"""Architectures by the ending of platform tags."""


class TagPreference(Struct, frozen=True, dict=True):
    """The wheel tags a target can use, best first.

    >>> from packaging.tags import Tag
    >>> tags = TagPreference((Tag("cp313", "cp313", "linux_x86_64"), Tag("py3", "none", "any")))
    >>> tags.best(frozenset([Tag("py3", "none", "any"), Tag("py2", "none", "any")]))
    1
    """

    tags: tuple[Tag, ...]
    """Best first, distinct."""

    @cached_property
    def _ranks(self) -> Mapping[Tag, int]:
        # `best` is called for every file of every release.
        return {tag: rank for rank, tag in reversed(list(enumerate(self.tags)))}

    def best(self, tags: frozenset[Tag]) -> int | None:
        """Return the rank of the best of a wheel's tags, 0 for the most preferred.

        :returns: None if no tag is compatible (F-90, step 1).
        """
        ranks = self._ranks
        return min((ranks[tag] for tag in tags if tag in ranks), default=None)

    def __iter__(self) -> Iterator[Tag]:
        return iter(self.tags)

    def __len__(self) -> int:
        return len(self.tags)

    def __contains__(self, tag: object) -> bool:
        return tag in self._ranks


class Target(Struct, frozen=True):
    """The interpreter and platform that wheels are chosen for."""

    name: str
    """The name in messages: the path of an interpreter or of a host file."""
    environment: Mapping[str, str]
    """The values of the standard marker variables, read-only."""
    tags: TagPreference
    """The compatible wheel tags, best first."""
    python_full_version: Version
    """For ``Requires-Python``."""

    def __post_init__(self) -> None:
        frozen = MappingProxyType(dict(self.environment))
        force_setattr(self, "environment", frozen)

    def __hash__(self) -> int:
        return hash((self.name, self.tags, self.python_full_version))

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags, best first; without ``any``."""
        return tuple(dict.fromkeys(tag.platform for tag in self.tags if tag.platform != "any"))

    @property
    def short_tags(self) -> ShortTags | None:
        """The ABI and platform tags from which all tags follow; None if they do not."""
        from wheelfit.core.compatible_tags import shorten  # not needed by most commands

        implementation = self.environment["implementation_name"]
        return shorten(self.tags.tags, implementation, self.python_full_version)

    @property
    def architecture(self) -> str:
        """The architecture of the interpreter, such as ``x86_64``, ``aarch64`` or ``i686``.

        It is read from the tags; ``platform_machine`` may be that of the kernel, which runs 32-bit
        interpreters too.
        """
        platform = next((tag.platform for tag in self.tags if tag.platform != "any"), "")
        for ending, architecture in _ARCHITECTURES.items():
            if platform.endswith(ending):
                return architecture
        return self.environment.get("platform_machine", "")

    @classmethod
    def of(cls, name: str, environment: Mapping[str, str], tags: Iterable[Tag]) -> Target:
        """Build a target whose version is the one of its marker environment.

        :raises InvalidMarker: ``python_full_version`` is missing or no version.
        """
        text = environment.get("python_full_version", "")
        try:
            # A build from a checkout has "3.14.0+".
            version = parse_version(f"{text}local" if text.endswith("+") else text)
        except InvalidVersion:
            raise InvalidMarker(
                f"python_full_version is not a version: {text!r}", source=text, where=name
            ) from None
        return cls(name, environment, TagPreference(tuple(tags)), version)
