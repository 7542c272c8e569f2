"""One release as a lock lists it: every wheel that some environment could want (F-120).

Nothing here looks at the machine that locks. What a machine supports decides when the lock
is installed; until then all labels stay, with all that any of them needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wheelfit.core.metadata import losses, to_mapping, writing_faults
from wheelfit.core.providers import BrokenProvider
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import path_of
from wheelfit.core.unusable_metadata import Degradation
from wheelfit.core.variant_json_layouts.schema import KEY as SCHEMA
from wheelfit.locking.pruning import prune
from wheelfit.locking.source_entries import STABLE, file_entry, source_entry, usable_hashes
from wheelfit.locking.validation import TOOL, VARIANT_DEPENDENCIES, VARIANTS
from wheelfit.resolution.release_metadata import strictly
from wheelfit.sources.hash_check import WEAK_HASHES
from wheelfit.sources.urls import split_userinfo, without_fragment
from wheelfit_runtime.errors import NoCompatibleWheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.metadata import WrittenLayout
    from wheelfit.resolution.listing import Release, Wheel
    from wheelfit.resolution.release_metadata import ReleaseMetadata
    from wheelfit_runtime.errors import Fault


@dataclass(frozen=True, slots=True)
class LockedRelease:
    """An entry of ``packages`` that is to be written."""

    table: dict[str, Any]
    """The entry as plain data, in the order in which it is written."""
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

    :param release: with the wheels that may be in it, one of a source among them.
    :param metadata: its variant metadata, as ``wheelfit.resolution.release_metadata.obtain``
        gives it for all of its variant wheels; one that cannot be used leaves the plain
        wheels (F-133).
    :param needs: the requirements of each label's wheel, without versions, the plain wheel's under
        the empty text (F-121).
    :param marker: when the package counts.
    :param requires_python: the Pythons it is for.
    :param index: URL of the index it is from; credentials are left out.
    :param folder: the folder of the lock; wheels of this machine get paths relative to it.
    :param strict: whether wheels that cannot be locked are an error (F-133).
    :raises NoCompatibleWheel: no wheel is left.
    :raises BadMetadata: strictness is wanted, and a wheel cannot be locked.
    :raises InvalidDocument: strictness is wanted, and writing the metadata anew loses
        something (F-56).
    """
    locking = _Locking(release, metadata, strict=strict)
    document = locking.document()
    wheels = [wheel for wheel in release.wheels if wheel.filename.text not in locking.out]
    if not wheels:
        raise NoCompatibleWheel(
            f"{release.name} {release.version} has no file that can be locked",
            note="\n".join(locking.notes()) or None,
        )
    sources = dict(source_entry(one.file, folder) for one in wheels if one.is_from_source)
    table: dict[str, Any] = {"name": str(release.name)}
    if not sources or sources.keys() <= set(STABLE):
        table["version"] = str(release.version)
    if marker is not None:
        table["marker"] = marker
    if requires_python is not None:
        table["requires-python"] = requires_python
    labels = {wheel.filename.label or "" for wheel in wheels}
    listed = {label: sorted(set(texts)) for label, texts in (needs or {}).items()}
    listed = {label: listed[label] for label in sorted(listed) if label in labels}
    union = sorted(
        {
            parse_requirement(text, allow_variant_markers=False).name
            for each in listed.values()
            for text in each
        }
    )
    if union:  # for auditors: the standard forbids to install by it
        table["dependencies"] = [{"name": name} for name in union]
    if index is not None:
        table["index"] = split_userinfo(without_fragment(index))[0]
    table |= sources
    published = [wheel for wheel in wheels if not wheel.is_from_source]
    if published:
        table["wheels"] = [file_entry(one.file, one.filename.text, folder) for one in published]
    if document is not None:
        table[VARIANTS] = document
    if needs is not None:
        table["tool"] = {TOOL: {VARIANT_DEPENDENCIES: listed}}
    return LockedRelease(table, tuple(locking.notes()))


class _Locking:
    """The selection of a release's wheels that can be locked, and of their document."""

    def __init__(self, release: Release, metadata: ReleaseMetadata, *, strict: bool) -> None:
        self.out: dict[str, str] = {}
        """Wheels that are left out, by file name, with the reason."""
        self._release = release
        self._metadata = metadata
        self._strict = strict
        self._more: list[str] = []
        for wheel in release.wheels:
            if wheel.is_named_source:
                continue
            if not usable_hashes(wheel.file.hashes):
                self._leave_out(wheel, "invalid-page", "the index promises no hash of it")
            elif wheel.filename.text in metadata.rejections:
                reason = metadata.rejections[wheel.filename.text]
                self._leave_out(wheel, "invalid-document", reason)
        self._warn_of_weak_hashes()

    def document(self) -> dict[str, Any] | None:
        """Return the table of variants; None if none is needed or none can be had."""
        document = self._metadata.document
        if document is None:
            self._leave_out_all("invalid-document", "there is no usable variant metadata")
            return None
        for label in self._labels():
            if label in document.unusable:
                self._leave_out_label(label, "invalid-variant", document.unusable[label])
            elif document.properties(label) is None:
                reason = "its label is not in the variant metadata"
                self._leave_out_label(label, "unlisted-variant", reason)
            elif (namespace := self._unanswerable(document, label)) is not None:
                reason = f"nobody says what is supported of {namespace}"
                self._leave_out_label(label, "missing-provider", reason)
        while labels := self._labels():
            pruned = prune(document, labels)
            layout: WrittenLayout = "825" if pruned.lacks_providers else "850"
            faults = writing_faults(pruned, layout)
            if not faults:
                return self._written(pruned, layout)
            for label in labels:
                fault_of_label = next((fault for fault in faults if _is_about(fault, label)), None)
                if fault_of_label is not None:
                    self._leave_out_label(label, "invalid-variant", str(fault_of_label))
            if self._labels() == labels:
                reason = f"its variant metadata may not be written: {faults[0]}"
                self._leave_out_all("invalid-document", reason)
        return None

    def _written(self, document: VariantDocument, layout: WrittenLayout) -> dict[str, Any]:
        for loss in losses(document):
            self._more.append(f"its variant metadata is of an old layout, and {loss}")
        written = to_mapping(document, layout, accept_losses=not self._strict)
        return {SCHEMA: written.pop(SCHEMA), **written}

    def _warn_of_weak_hashes(self) -> None:
        weak = [
            wheel.file.shown
            for wheel in self._release.wheels
            if wheel.filename.text not in self.out
            and not wheel.is_named_source
            and usable_hashes(wheel.file.hashes).keys() <= WEAK_HASHES
        ]
        if weak:
            self._more.append(f"{', '.join(weak)} can be checked by a weak hash only")

    def notes(self) -> Iterable[str]:
        """Yield notes on wheels left out, those with equal reasons together."""
        reasons: dict[str, list[str]] = {}
        for text, reason in self.out.items():
            reasons.setdefault(reason, []).append(text)
        release = f"{self._release.name} {self._release.version}"
        for note in self._more:
            yield f"{release}: {note}"
        for reason, texts in reasons.items():
            yield f"{release}: {', '.join(texts)} not locked, {reason}"

    def _labels(self) -> tuple[Label, ...]:
        return tuple(
            dict.fromkeys(
                wheel.filename.label
                for wheel in self._release.wheels
                if wheel.filename.label is not None and wheel.filename.text not in self.out
            )
        )

    @staticmethod
    def _unanswerable(document: VariantDocument, label: Label) -> str | None:
        """Return a namespace of a label whose provider is missing or broken (F-130)."""
        if document.lacks_providers:
            return None
        for namespace in document.variants[label].namespaces if label in document.variants else ():
            provider = document.providers.get(namespace)
            if provider is None or isinstance(provider, BrokenProvider):
                return namespace
        return None

    def _leave_out(self, wheel: Wheel, code: str, reason: str) -> None:
        text = wheel.filename.text
        if text in self.out:
            return
        if self._strict:
            strictly(f"{text} cannot be locked", [Degradation("wheel", (text,), code, reason)])
        self.out[text] = reason

    def _leave_out_label(self, label: Label, code: str, reason: str) -> None:
        for wheel in self._release.wheels:
            if wheel.filename.label == label:
                self._leave_out(wheel, code, reason)

    def _leave_out_all(self, code: str, reason: str) -> None:
        for label in self._labels():
            self._leave_out_label(label, code, reason)


def _is_about(fault: Fault, label: Label) -> bool:
    path = path_of("variants", label)
    return fault.path == path or fault.path.startswith((f"{path}.", f"{path}["))
