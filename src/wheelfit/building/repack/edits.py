"""Edits of a wheel: its name, its version, and its dependencies.

This module reads and writes no file; METADATA goes in and comes out as bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core import core_metadata
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import shown
from wheelfit.core.versions import without_build
from wheelfit.wheels.dist_info import header_value
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.version import Version

    from wheelfit.core.abi_exports import AbiExports
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.markers import VariantContext

NOT_NEEDED = "it does not need {}, whose marker is false for it"
"""The note on a dependency that is dropped."""


@dataclass(frozen=True, slots=True)
class Edits:
    """The edits to a wheel; can be pickled."""

    name: str | None = None
    """The new name of the distribution, as spelled in METADATA; None: ``renames`` and
    ``suffixes`` decide.
    """
    renames: tuple[tuple[NormalizedName, str], ...] = ()
    """Old to new names, for wheels of several distributions (B-43)."""
    suffixes: tuple[str, ...] = ()
    """Endings that are removed from the name, such as ``-cu12``, one after another; only in
    configurations of variant-repack (B-44).
    """
    version: Version | None = None
    """The new version; None: ``strip_local`` decides."""
    strip_local: bool = False
    """Whether a local version as ``+cu126`` is removed (B-43)."""
    remove: frozenset[NormalizedName] = frozenset()
    """Names of dependencies to remove (B-42)."""
    add: tuple[str, ...] = ()
    """Dependencies to add, as written; they may have variant markers."""
    abi_exports: AbiExports | None = None
    """The exports that the library promises to packages that link with it (B-61); None: those of
    the wheel stay.
    """

    def new_name(self, name: str) -> str:
        """Return the new name of a distribution.

        >>> Edits(suffixes=("-cu12", "-cpu")).new_name("some-cu12")
        'some'
        """
        if self.name is not None:
            return self.name
        for old, new in self.renames:
            if canonicalize_name(name) == old:
                return new
        for suffix in self.suffixes:
            for ending in (suffix, suffix.replace("-", "_")):
                if name.endswith(ending) and len(name) > len(ending):
                    name = name[: -len(ending)]
        return name

    def new_version(self, version: Version) -> Version:
        """Return the new version of a release."""
        if self.version is not None:
            return self.version
        return without_build(version) if self.strip_local else version


NO_EDITS = Edits()
"""Edits that change nothing."""


@dataclass(frozen=True, slots=True)
class EditedMetadata:
    """METADATA after edits, and its release."""

    data: bytes
    name: NormalizedName
    version: Version
    notes: tuple[str, ...] = ()
    """The edits, one sentence each."""
    removed_dependencies: frozenset[NormalizedName] = frozenset()


def check_dependency(text: str) -> str:
    """Check a dependency that is to be added to METADATA, and return it unchanged.

    :raises ValueError: it is not a requirement on one line.
    """
    if "\n" in text or "\r" in text:
        raise ValueError(f"must be one line, not {shown(text)}")
    parse_requirement(text, allow_variant_markers=True)
    return text


def apply_edits(
    data: bytes,
    edits: Edits,
    filename: WheelFilename,
    *,
    where: str,
    context: VariantContext | None = None,
) -> EditedMetadata:
    """Edit METADATA line by line; unedited lines keep their bytes (B-42).

    :param context: the variant for which markers are resolved, also those of added dependencies
        (B-40, B-41); None: they stay.
    :raises InvalidWheel: METADATA cannot be read, or contradicts its file name.
    :raises InvalidRequirement: a dependency cannot be read.
    """
    core = core_metadata.read_metadata(data, where)
    if (core.name, core.version) != (filename.name, filename.version):
        raise InvalidWheel(
            f"METADATA is of {core.name} {core.version}, but the file name of "
            f"{filename.name} {filename.version}",
            where=where,
        )
    spelled = header_value(data, "Name") or ""
    new_name, version = edits.new_name(spelled), edits.new_version(core.version)
    notes: list[str] = []
    if new_name != spelled:
        notes.append(f"it is called {new_name} instead of {spelled}")
    if version != core.version:
        notes.append(f"it is version {version} instead of {core.version}")
    elif edits.version is not None and str(edits.version) != str(core.version):
        # Another spelling of an equal version, such as 1.0 of 1.0.0.
        notes.append(f"it stays version {core.version}, which equals {edits.version}")
    requested = tuple(dict.fromkeys(edits.add))
    if context is not None:
        dropped: list[str] = []
        data = core_metadata.without_variant_markers(
            data, context, where=where, filtered=False, report_removed=dropped.append
        )
        requested, useless = _resolve_markers(requested, context, where)
        notes += [NOT_NEEDED.format(text) for text in dict.fromkeys((*dropped, *useless))]
    removed: dict[str, NormalizedName] = {}
    kept: set[str] = set()

    def unless_removed(text: str) -> str | None:
        # A removed line that is added again stays in place, so that a second edit changes nothing.
        if edits.remove and text not in requested:
            requirement = parse_requirement(text, allow_variant_markers=True, where=where)
            if requirement.name in edits.remove:
                removed[text] = requirement.name
                return None
        kept.add(text)
        return text

    edited = core_metadata.edit_metadata(
        data,
        name=None if new_name == spelled else new_name,
        version=None if version == core.version else str(version),
        changed=unless_removed,
    )
    added = [text for text in requested if text not in kept]
    if added:
        edited = core_metadata.edit_metadata(edited, added=added)
    notes += [f"it no longer needs {text}" for text in removed]
    notes += [f"it needs {text}" for text in added]
    name, removed_names = canonicalize_name(new_name), frozenset(removed.values())
    return EditedMetadata(edited, name, version, tuple(notes), removed_names)


def _resolve_markers(
    texts: Iterable[str], context: VariantContext, where: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return dependencies with their variant markers resolved, and those that are not needed."""
    resolved = {
        text: core_metadata.resolve_requirement(text, context, where=where, filtered=False)
        for text in texts
    }
    needed = dict.fromkeys(text for text in resolved.values() if text is not None)
    return tuple(needed), tuple(old for old, text in resolved.items() if text is None)
