"""A lock reduced to the wheels of a bundle and to its machines.

Only packages and wheels in the bundle stay, with the part of their variant metadata about these
wheels (F-116) and their requirements. All locations are paths in the bundle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wheelfit.core.filename import index_file_name, parse_wheel_filename
from wheelfit.core.metadata import WrittenLayout, to_mapping, write_document
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.variant_json_layouts.schema import KEY as SCHEMA
from wheelfit.errors import InconsistentDocuments
from wheelfit.locking.document import Lock, LockedPackage, LockedWheel
from wheelfit.locking.plain_entries import (
    effective_entries,
    entry_key,
    fallback_labels,
    plain_entry,
    put_entries,
)
from wheelfit.locking.pruning import prune
from wheelfit.locking.validation import TOOL, VARIANT_DEPENDENCIES, VARIANTS, file_name_of
from wheelfit.sources.urls import last_segment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.target import Target
    from wheelfit.locking.bundles.manifest import BundledFile


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """The part of a lock's entry that a bundle has."""

    package: LockedPackage
    filenames: frozenset[str]
    """The wheels that stay."""
    document: VariantDocument | None = None
    """The variant metadata of the whole entry."""

    @property
    def wheels(self) -> tuple[LockedWheel, ...]:
        """The wheels that stay, in the order of the lock."""
        return tuple(
            wheel for wheel in self.package.wheels if wheel.filename.text in self.filenames
        )

    @property
    def labels(self) -> frozenset[Label]:
        """The labels of the wheels that stay."""
        return frozenset(
            wheel.filename.label for wheel in self.wheels if wheel.filename.label is not None
        )


def reduce_lock(
    lock: Lock,
    entries: Mapping[int, KeptEntry],
    files: Mapping[str, BundledFile],
    *,
    extras: Iterable[str] = (),
    groups: Collection[str] = (),
    environments: Sequence[str] | None = None,
) -> Lock:
    """Return a lock with some entries and wheels of another, as files of a bundle.

    :param entries: the entries to keep, by their position in the lock.
    :param files: hash and size of each wheel, by its file name.
    :param extras: the extras that may still be requested.
    :param groups: dependency groups that may still be requested, and apply by default.
    :param environments: markers of the machines it is for; None: unchanged.
    """
    table = lock.to_mapping()
    names = {entry.package.name for entry in entries.values()}
    packages = [
        _reduced_entry(dict(entry), entries[index], files, names)
        for index, entry in enumerate(effective_entries(table))
        if index in entries
    ]
    # A release gets an entry for other tools if the lock has one. Members of a bridge have none.
    standard_keys = {entry_key(entry) for entry in table["packages"]}
    plain = (_plain_entry(entry) for entry in packages if entry_key(entry) in standard_keys)
    _set_or_remove(table, "extras", sorted(set(extras)))
    known = set(table.get("dependency-groups", ()))
    _set_or_remove(table, "dependency-groups", sorted(known.intersection(groups)))
    _set_or_remove(table, "default-groups", sorted(groups))
    if environments is not None:
        _set_or_remove(table, "environments", sorted(set(environments)))
    put_entries(table, packages, filter(None, plain))
    return Lock.of(table, where=lock.where)


def index_files(entries: Iterable[KeptEntry]) -> dict[NormalizedName, dict[str, bytes]]:
    """Return the index-level variant metadata of the releases in a bundle, by project and name.

    :param entries: the entries; those of one release share a file.
    :raises InconsistentDocuments: they contradict each other.
    """
    parts: dict[tuple[NormalizedName, str], list[VariantDocument]] = {}
    for entry in entries:
        if entry.document is None:
            continue
        labels: dict[str, set[Label]] = {}
        for wheel in entry.wheels:
            if wheel.filename.label is not None:  # builds may have versions of their own
                text = index_file_name(entry.package.name, wheel.filename.version)
                labels.setdefault(text, set()).add(wheel.filename.label)
        for text, release_labels in labels.items():
            key = entry.package.name, text
            parts.setdefault(key, []).append(prune(entry.document, frozenset(release_labels)))
    by_project: dict[NormalizedName, dict[str, bytes]] = {}
    for (name, filename), documents in sorted(parts.items()):
        merged_document = _merge_documents(filename, documents)
        data = write_document(merged_document, _layout(merged_document), accept_losses=True)
        by_project.setdefault(name, {})[filename] = data
    return by_project


def _merge_documents(filename: str, documents: Sequence[VariantDocument]) -> VariantDocument:
    """Merge the documents of a release's entries, each pruned to its labels.

    Each may lack namespaces of the others, so their orders are merged (F-60).

    :raises InconsistentDocuments: they contradict each other.
    """
    # Each order is merged into `priorities`. A new namespace is inserted at `position`, which is
    # after the one before it; a known one must not be in front of `position`.
    priorities: list[str] = []
    parts: dict[str, dict[Any, Any]] = {}
    for document in documents:
        position = 0
        for name in document.priorities:
            if name not in priorities:
                priorities.insert(position, name)
            elif priorities.index(name) < position:
                raise InconsistentDocuments(
                    "entries of one release order their namespaces differently", where=filename
                )
            position = priorities.index(name) + 1
        for key in ("providers", "variants", "feature_priorities", "value_priorities"):
            part = parts.setdefault(key, {})
            for name, value in getattr(document, key).items():
                if part.setdefault(name, value) != value:
                    raise InconsistentDocuments(
                        f"entries of one release have different data for {name}", where=filename
                    )
    providers, variants = parts["providers"], parts["variants"]
    return replace(
        documents[0],
        priorities=tuple(priorities),
        providers={name: providers[name] for name in priorities if name in providers},
        variants={label: variants[label] for label in sorted(variants)},
        feature_priorities=parts["feature_priorities"],
        value_priorities=parts["value_priorities"],
    )


def marker_of(target: Target) -> str:
    """Return a marker that holds on machines with the system and Python of a target."""
    names = ("implementation_name", "platform_machine", "python_version", "sys_platform")
    clauses = []
    for name in names:
        value = target.environment.get(name)
        # A host file may have any value; markers have no escapes.
        if value and value.isprintable() and not set(value) & set("\\'"):
            clauses.append(f"{name} == '{value}'")
    return " and ".join(clauses)


def _plain_entry(entry: dict[str, Any]) -> dict[str, Any] | None:
    if "wheels" not in entry:
        return entry
    filenames = [file_name_of(wheel) or "" for wheel in entry["wheels"]]
    labels = {filename: parse_wheel_filename(filename).label for filename in filenames}
    plain_labels = fallback_labels(labels.values(), is_chosen=True)
    return plain_entry(entry, {name for name, label in labels.items() if label in plain_labels})


def _reduced_entry(
    entry: dict[str, Any],
    kept_entry: KeptEntry,
    files: Mapping[str, BundledFile],
    names: set[NormalizedName],
) -> dict[str, Any]:
    """Reduce an entry to its kept wheels, with paths in the bundle."""
    entry.pop("sdist", None)
    if "archive" in entry:  # a wheel that is the whole package
        entry["archive"] = _bundled_file(entry["archive"], files)
    if "wheels" in entry:
        wheels = [wheel for wheel in entry["wheels"] if file_name_of(wheel) in kept_entry.filenames]
        _set_or_remove(entry, "wheels", [_bundled_file(wheel, files) for wheel in wheels])
    tool = entry.get("tool", {}).get(TOOL, {})
    requirements = tool.get(VARIANT_DEPENDENCIES)  # by label
    labels = {wheel.filename.label or "" for wheel in kept_entry.wheels}
    if requirements is not None:
        requirements = {label: texts for label, texts in requirements.items() if label in labels}
        tool[VARIANT_DEPENDENCIES] = requirements
    if "dependencies" in entry:
        remaining = {str(name) for name in names}
        # Only if they are listed for every kept wheel.
        if requirements is not None and requirements.keys() >= labels:
            remaining &= {
                parse_requirement(text, allow_variant_markers=False).name
                for texts in requirements.values()
                for text in texts
            }
        dependencies = [
            dependency
            for dependency in entry["dependencies"]
            if dependency.get("name") in remaining
        ]
        _set_or_remove(entry, "dependencies", dependencies)
    if kept_entry.document is not None and kept_entry.labels and "wheels" in entry:
        pruned = prune(kept_entry.document, kept_entry.labels)
        written = to_mapping(pruned, _layout(pruned), accept_losses=True)
        entry[VARIANTS] = {SCHEMA: written.pop(SCHEMA), **written}
    elif not kept_entry.labels:
        entry.pop(VARIANTS, None)
    return entry


def _bundled_file(file: Mapping[str, Any], files: Mapping[str, BundledFile]) -> dict[str, Any]:
    """Return the entry of a file with its path in the bundle, keys in the order of the standard."""
    filename = file_name_of(file) or ""
    rewritten_keys = ("name", "url", "path", "size", "hashes")
    others = {key: value for key, value in file.items() if key not in rewritten_keys}
    hashes = {name.lower(): digest for name, digest in file["hashes"].items()}
    hashes["sha256"] = files[filename].sha256
    url = str(file.get("url", ""))
    # A wheel whose URL ends with another name got its label from a bridge: its own metadata lacks
    # it. The URL is kept, since readers recognise such a wheel by it.
    is_bridged = bool(url) and last_segment(url) != filename
    return {
        **({"name": file["name"]} if "name" in file else {}),
        **others,
        **({"url": url} if is_bridged else {}),
        "path": f"wheels/{filename}",
        "size": files[filename].size,
        "hashes": {name: hashes[name] for name in sorted(hashes)},
    }


def _layout(document: VariantDocument) -> WrittenLayout:
    return "825" if document.lacks_providers else "850"


def _set_or_remove(table: dict[str, Any], key: str, value: list[Any]) -> None:
    """Set a list, or remove the key if the list is empty."""
    if value:
        table[key] = value
    else:
        table.pop(key, None)
