"""One release as a lock lists it: every wheel that some machine may choose (F-120).

The machine that locks has no influence. Support is decided when the lock is installed; until then
all labels stay, with the requirements of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wheelfit.core.metadata import WrittenLayout, losses, to_mapping, writing_faults
from wheelfit.core.providers import BrokenProvider
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import path_of
from wheelfit.core.unusable_metadata import Degradation
from wheelfit.core.variant_json_layouts.schema import KEY as SCHEMA
from wheelfit.locking.pruning import prune
from wheelfit.locking.source_entries import VERSIONED_KINDS, file_entry, source_entry, usable_hashes
from wheelfit.locking.validation import TOOL, VARIANT_DEPENDENCIES, VARIANTS
from wheelfit.resolution.release_metadata import ReleaseMetadata, raise_if_degraded
from wheelfit.sources.hash_check import WEAK_HASHES
from wheelfit.sources.urls import split_userinfo, without_fragment
from wheelfit_runtime.errors import Fault, NoCompatibleWheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.resolution.listing import Release, Wheel


@dataclass(frozen=True, slots=True)
class LockedRelease:
    """An entry of ``packages`` to write."""

    table: dict[str, Any]
    """The entry as plain data, its keys in the order of the file."""
    notes: tuple[str, ...] = ()
    """The parts left out, with the reasons, one sentence each (F-136)."""


def lock_release(
    release: Release,
    metadata: ReleaseMetadata,
    *,
    needs: Mapping[str, Iterable[str]] | None = None,
    marker: str | None = None,
    requires_python: str | None = None,
    index: str | None = None,
    folder: Path | None = None,
    strict: bool = False,
) -> LockedRelease:
    """Build the entry of a release.

    :param release: the wheels that may be listed, including those to build from a source.
    :param metadata: the result of ``wheelfit.resolution.release_metadata.read_release_metadata``
        for all its variant wheels; if it cannot be used, only plain wheels are listed (F-133).
    :param needs: the requirements of each label's wheel, without versions, the plain wheel's under
        the empty text (F-121).
    :param marker: the marker of the entry; None: it always applies.
    :param requires_python: the Pythons it is for; None: all.
    :param index: URL of its index; credentials are left out.
    :param folder: the folder of the lock; local wheels get paths relative to it.
    :param strict: whether wheels that cannot be locked are an error (F-133).
    :raises NoCompatibleWheel: no wheel is left.
    :raises BadMetadata: ``strict``, and a wheel cannot be locked.
    :raises InvalidDocument: ``strict``, and the metadata cannot be written without loss (F-56).
    """
    filtered = _ReleaseFilter(release, metadata, strict=strict)
    document = filtered.document()  # leaves out the wheels that it cannot describe, too
    wheels = [wheel for wheel in release.wheels if wheel.filename.text not in filtered.left_out]
    if not wheels:
        raise NoCompatibleWheel(
            f"no file of {release.name} {release.version} can be locked",
            note="\n".join(filtered.notes()) or None,
        )
    sources = dict(source_entry(wheel.file, folder) for wheel in wheels if wheel.is_from_source)
    table: dict[str, Any] = {"name": str(release.name)}
    if not sources or sources.keys() <= set(VERSIONED_KINDS):
        table["version"] = str(release.version)
    if marker is not None:
        table["marker"] = marker
    if requires_python is not None:
        table["requires-python"] = requires_python
    labels = {wheel.filename.label or "" for wheel in wheels}
    requirements_by_label = {
        label: sorted(set(texts))
        for label, texts in sorted((needs or {}).items())
        if label in labels
    }
    needed_names = sorted(
        {
            parse_requirement(text, allow_variant_markers=False).name
            for texts in requirements_by_label.values()
            for text in texts
        }
    )
    if needed_names:  # for auditors: installers must not use it (PEP 751)
        table["dependencies"] = [{"name": name} for name in needed_names]
    if index is not None:
        table["index"] = split_userinfo(without_fragment(index))[0]
    table |= sources
    published = [wheel for wheel in wheels if not wheel.is_from_source]
    if published:
        table["wheels"] = [
            file_entry(wheel.file, wheel.filename.text, folder) for wheel in published
        ]
    if document is not None:
        table[VARIANTS] = document
    if needs is not None:
        table["tool"] = {TOOL: {VARIANT_DEPENDENCIES: requirements_by_label}}
    return LockedRelease(table, tuple(filtered.notes()))


class _ReleaseFilter:
    """The selection of a release's wheels that can be locked, and of their document."""

    def __init__(self, release: Release, metadata: ReleaseMetadata, *, strict: bool) -> None:
        self.left_out: dict[str, str] = {}
        """The wheels left out, by file name, with the reason."""
        self._release = release
        self._metadata = metadata
        self._strict = strict
        self._extra_notes: list[str] = []
        for wheel in release.wheels:
            if wheel.is_named_source:
                continue
            if not usable_hashes(wheel.file.hashes):
                self._leave_out(wheel, "invalid-page", "the index lists no hash of it")
            elif wheel.filename.text in metadata.rejections:
                reason = metadata.rejections[wheel.filename.text]
                self._leave_out(wheel, "invalid-document", reason)
        self._warn_of_weak_hashes()

    def document(self) -> dict[str, Any] | None:
        """Return the table of variants; None if no variant wheel can be locked."""
        document = self._metadata.document
        if document is None:
            self._leave_out_all("invalid-document", "there is no usable variant metadata")
            return None
        for label in self._remaining_labels():
            properties = document.properties(label)
            if label in document.unusable:
                self._leave_out_label(label, "invalid-variant", document.unusable[label])
            elif properties is None:
                reason = "its label is not in the variant metadata"
                self._leave_out_label(label, "unlisted-variant", reason)
            elif (namespace := _namespace_without_provider(document, properties)) is not None:
                reason = f"the namespace {namespace} has no usable provider"
                self._leave_out_label(label, "missing-provider", reason)
        while labels := self._remaining_labels():
            pruned = prune(document, labels)
            layout: WrittenLayout = "825" if pruned.lacks_providers else "850"
            faults = writing_faults(pruned, layout)
            if not faults:
                return self._written(pruned, layout)
            for label in labels:
                fault_of_label = next((fault for fault in faults if _is_about(fault, label)), None)
                if fault_of_label is not None:
                    self._leave_out_label(label, "invalid-variant", str(fault_of_label))
            if self._remaining_labels() == labels:
                reason = f"its variant metadata may not be written: {faults[0]}"
                self._leave_out_all("invalid-document", reason)
        return None

    def _written(self, document: VariantDocument, layout: WrittenLayout) -> dict[str, Any]:
        for loss in losses(document):
            self._extra_notes.append(f"its variant metadata is of an old layout, and {loss}")
        written = to_mapping(document, layout, accept_losses=not self._strict)
        return {SCHEMA: written.pop(SCHEMA), **written}

    def _warn_of_weak_hashes(self) -> None:
        weak = [
            wheel.file.display_name
            for wheel in self._release.wheels
            if wheel.filename.text not in self.left_out
            and not wheel.is_named_source
            and usable_hashes(wheel.file.hashes).keys() <= WEAK_HASHES
        ]
        if weak:
            self._extra_notes.append(f"only a weak hash verifies {', '.join(weak)}")

    def notes(self) -> Iterable[str]:
        """Yield notes on the wheels left out, grouped by reason, and on the release."""
        reasons: dict[str, list[str]] = {}
        for text, reason in self.left_out.items():
            reasons.setdefault(reason, []).append(text)
        release = f"{self._release.name} {self._release.version}"
        for note in self._extra_notes:
            yield f"{release}: {note}"
        for reason, texts in reasons.items():
            yield f"{release}: {', '.join(texts)} not locked: {reason}"

    def _remaining_labels(self) -> tuple[Label, ...]:
        return tuple(
            dict.fromkeys(
                wheel.filename.label
                for wheel in self._release.wheels
                if wheel.filename.label is not None and wheel.filename.text not in self.left_out
            )
        )

    def _leave_out(self, wheel: Wheel, code: str, reason: str) -> None:
        text = wheel.filename.text
        if text in self.left_out:
            return
        if self._strict:
            raise_if_degraded(
                f"{text} cannot be locked", [Degradation("wheel", (text,), code, reason)]
            )
        self.left_out[text] = reason

    def _leave_out_label(self, label: Label, code: str, reason: str) -> None:
        for wheel in self._release.wheels:
            if wheel.filename.label == label:
                self._leave_out(wheel, code, reason)

    def _leave_out_all(self, code: str, reason: str) -> None:
        for label in self._remaining_labels():
            self._leave_out_label(label, code, reason)


def _namespace_without_provider(document: VariantDocument, properties: PropertySet) -> str | None:
    """Return a namespace of a label whose provider is missing or broken (F-130)."""
    if document.lacks_providers:
        return None
    for namespace in properties.namespaces:
        provider = document.providers.get(namespace)
        if provider is None or isinstance(provider, BrokenProvider):
            return namespace
    return None


def _is_about(fault: Fault, label: Label) -> bool:
    path = path_of("variants", label)
    return fault.path == path or fault.path.startswith((f"{path}.", f"{path}["))
