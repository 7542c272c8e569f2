"""The differences between two host files: interpreter, platform, support.

Only data that can change a choice is compared; the author of a file, the overrides and the evidence
are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.features import status_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.core.host_file import HostFile, HostProvider
    from wheelfit.core.target import Target


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between two machines."""

    path: str
    """The path of the difference, such as ``interpreter`` or ``nvidia :: sm_arch``."""
    left: tuple[str, ...]
    """The values of the first machine, most preferred first."""
    right: tuple[str, ...]
    """The values of the second machine, most preferred first."""

    @property
    def only_left(self) -> tuple[str, ...]:
        """The items the second machine lacks, in the order of the first."""
        other = frozenset(self.right)
        return tuple(item for item in self.left if item not in other)

    @property
    def only_right(self) -> tuple[str, ...]:
        """The items the first machine lacks, in the order of the second."""
        other = frozenset(self.left)
        return tuple(item for item in self.right if item not in other)

    @property
    def is_reordered(self) -> bool:
        """Whether the common items are in another order."""
        common = frozenset(self.left) & frozenset(self.right)
        left = [item for item in self.left if item in common]
        return left != [item for item in self.right if item in common]

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, for ``--json``."""
        return {
            "path": self.path,
            "left": list(self.left),
            "right": list(self.right),
            "only_left": list(self.only_left),
            "only_right": list(self.only_right),
            "reordered": self.is_reordered,
        }


def host_differences(left: HostFile, right: HostFile, base: Target) -> tuple[Difference, ...]:
    """Return the differences between two machines; empty if there are none.

    If left and right are exchanged, so are the two sides of each difference.

    :param base: the target in use; used where a file states nothing.
    """
    differences = [*_target_differences(left.target(base, "left"), right.target(base, "right"))]
    namespaces = {entry.namespace for file in (left, right) for entry in file.providers}
    for namespace in sorted(namespaces):
        for path, *entries in _entry_pairs(namespace, left, right):
            differences += _entry_differences(path, *entries)
    return tuple(difference for difference in differences if difference.left != difference.right)


def _target_differences(left: Target, right: Target) -> Iterator[Difference]:
    yield Difference("interpreter", (_interpreter(left),), (_interpreter(right),))
    left_abis, left_platforms = _abis_and_platforms(left)
    right_abis, right_platforms = _abis_and_platforms(right)
    yield Difference("abi", left_abis, right_abis)
    yield Difference("platform", left_platforms, right_platforms)
    if left_abis == right_abis and left_platforms == right_platforms:
        yield Difference("tags", tuple(map(str, left.tags)), tuple(map(str, right.tags)))
    for name in sorted(left.environment.keys() | right.environment.keys()):
        if not name.startswith(("python_", "implementation_")):
            values = [target.environment.get(name) for target in (left, right)]
            first, second = (() if value is None else (value,) for value in values)
            yield Difference(f"environment.{name}", first, second)


def _interpreter(target: Target) -> str:
    return f"{target.environment['implementation_name']} {target.python_full_version}"


def _abis_and_platforms(target: Target) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ABI tags and the platform tags of a target, best first."""
    short = target.short_tags
    if short is not None:
        return short.abis, short.platforms
    abis = dict.fromkeys(tag.abi for tag in target.tags if tag.abi != "none")
    return tuple(abis), target.platforms


def _entry_pairs(
    namespace: str, left: HostFile, right: HostFile
) -> Iterator[tuple[str, HostProvider | None, HostProvider | None]]:
    """Yield the entries of a namespace to compare with each other, with their names."""
    entries = [
        [entry for entry in file.providers if entry.namespace == namespace]
        for file in (left, right)
    ]
    if all(len(listed) < 2 for listed in entries):
        first, second = (next(iter(listed), None) for listed in entries)
        yield namespace, first, second
        return
    # Several entries are for different plugins; of those for the same one the first counts.
    by_filters = [{_filters(entry): entry for entry in reversed(listed)} for listed in entries]
    for filters in sorted(by_filters[0].keys() | by_filters[1].keys()):
        path = f"{namespace} for {' '.join(filters)}" if filters else namespace
        yield path, by_filters[0].get(filters), by_filters[1].get(filters)


def _filters(entry: HostProvider) -> tuple[str, ...]:
    """Return the plugin and versions an entry applies to; empty: any."""
    return tuple(filter(None, (entry.plugin_api, *entry.resolved)))


def _entry_differences(
    path: str, left: HostProvider | None, right: HostProvider | None
) -> Iterator[Difference]:
    yield Difference(path, (_status(left),), (_status(right),))
    if left is not None and right is not None:
        yield Difference(f"{path} :: for plugins", _filters(left), _filters(right))
    features = [
        {feature.name: feature.values for feature in entry.features} if entry else {}
        for entry in (left, right)
    ]
    yield Difference(f"{path} :: features", tuple(features[0]), tuple(features[1]))
    for name in sorted(features[0].keys() | features[1].keys()):
        values = [values_by_name.get(name, ()) for values_by_name in features]
        is_flag = {*values[0], *values[1]} <= {"on"}
        is_on_both_sides = bool(values[0] and values[1])
        # The difference between features, above, shows that one side lacks a flag.
        if is_on_both_sides or not is_flag:
            yield Difference(f"{path} :: {name}", *values)
    yield Difference(f"{path} :: devices", _devices(left), _devices(right))


def _status(entry: HostProvider | None) -> str:
    if entry is None:
        return "not in the file"
    return str(status_of(entry.features))


def _devices(entry: HostProvider | None) -> tuple[str, ...]:
    if entry is None:
        return ()
    return tuple(
        f"{device.device}: {device.feature} {' '.join(sorted(device.values))}"
        for device in entry.devices
    )
