"""The contents of wheels, as far as installers read them: label, properties, sizes, metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.core.core_metadata import CoreMetadata, read_metadata
from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.core.labels import derive_label
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.core.providers import BuiltinProvider, PluginProvider, StaticProvider
from wheelfit.core.strict_json import load
from wheelfit.operations.indexes import open_indexes, read_settings
from wheelfit.operations.plain_data import PlainReport, plain_fields
from wheelfit.operations.requests import SourceOptions
from wheelfit.operations.rewriting import find_wheels
from wheelfit.sources.page import file_of_url
from wheelfit.sources.urls import redact
from wheelfit.wheels.archive import WheelArchive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit.core.document import VariantDocument
    from wheelfit.operations.context import Context


class WheelContentsRequest(SourceOptions):
    """The wheels to show: files, folders and URLs."""

    wheels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownWheel:
    """The contents of one wheel."""

    where: str
    """Its path or URL."""
    filename: WheelFilename
    metadata: bytes
    core: CoreMetadata
    variant_json: bytes | None
    size: int | None
    """Bytes; None where unknown."""
    unpacked_size: int | None
    files: int | None
    """The number of files in it; None where unknown."""
    document: VariantDocument | None
    """The variant document; None for a plain wheel."""

    @property
    def properties(self) -> list[str]:
        """The properties of its variant."""
        return [] if self.document is None else list(map(str, self._properties(self.document)))

    @property
    def variant_markers(self) -> list[str]:
        """The dependencies whose markers use variants."""
        return [
            str(requirement)
            for requirement in self.core.requires
            if requirement.marker and requirement.marker.uses_variants
        ]

    @property
    def providers(self) -> Mapping[str, str]:
        """The providers of its variant by namespace, in words."""
        if self.document is None:
            return {}
        providers = self.document.providers
        return {name: _provider_in_words(provider) for name, provider in providers.items()}

    def _properties(self, document: VariantDocument) -> PropertySet:
        label = self.filename.label
        return (None if label is None else document.properties(label)) or EMPTY

    def to_json(self) -> dict[str, object]:
        """Return the object of one wheel in ``--json``."""
        return {
            **plain_fields(self.core, "name version requires_python"),
            **plain_fields(self, "size unpacked_size files variant_markers"),
            "wheel": self.where,
            "tags": sorted(map(str, self.filename.tags)),
            "requires": list(self.core.requires_texts),
            "label": self.filename.label,
            **self._variant(),
        }

    def _variant(self) -> dict[str, object]:
        document = self.document
        if document is None:
            return dict.fromkeys(
                ("layout", "properties", "derived_label", "priorities", "providers", "document")
            )
        return {
            "layout": document.layout,
            "properties": self.properties,
            "derived_label": derive_label(self._properties(document)),
            "priorities": list(document.priorities),
            "providers": self.providers,
            "document": load(self.variant_json or b""),
        }


@dataclass(frozen=True, slots=True)
class WheelContentsReport(PlainReport):
    """The contents of wheels."""

    wheels: tuple[ShownWheel, ...]


def read_contents(request: WheelContentsRequest, context: Context) -> WheelContentsReport:
    """Read wheels; of remote ones only a few ranges of bytes are fetched.

    :raises UserError: a URL cannot be read, or does not end in the name of a wheel.
    """
    return WheelContentsReport(tuple(_read_wheels(request, context)))


def _read_wheels(request: WheelContentsRequest, context: Context) -> Iterator[ShownWheel]:
    urls = [text for text in request.wheels if text.startswith(("https://", "http://"))]
    for path in find_wheels([text for text in request.wheels if text not in urls]):
        with WheelArchive(path) as wheel:
            yield _parse_wheel(
                wheel.filename,
                str(path),
                wheel.metadata(),
                wheel.variant_document(),
                size=wheel.size,
                unpacked_size=sum(member.size for member in wheel.members),
                files=len(wheel.names()),
            )
    if urls:
        yield from _read_remote(request, urls, context)


def _read_remote(
    request: WheelContentsRequest, urls: list[str], context: Context
) -> Iterator[ShownWheel]:
    settings = read_settings(request, context.environ)
    files = list(map(file_of_url, urls))
    with open_indexes(request, settings, context, urls) as repository:
        for file in files:
            filename = parse_wheel_filename(file.filename)
            size = repository.size(file, unpacked=True)
            yield _parse_wheel(
                filename,
                redact(file.url),
                repository.metadata(file),
                repository.variant_document(file),
                size=size.file,
                unpacked_size=size.unpacked,
            )


def _parse_wheel(
    filename: WheelFilename,
    where: str,
    metadata: bytes,
    variant_json: bytes | None,
    *,
    size: int | None,
    unpacked_size: int | None,
    files: int | None = None,
) -> ShownWheel:
    """Return the contents of a wheel by its METADATA and ``variant.json``."""
    core = read_metadata(metadata, where)
    document = None
    if filename.label is not None:
        document = read_wheel_document(variant_json, filename.label, where=where)
    return ShownWheel(
        where, filename, metadata, core, variant_json, size, unpacked_size, files, document
    )


def _provider_in_words(provider: object) -> str:
    match provider:
        case StaticProvider(features):
            lists = "; ".join(
                f"{feature.name}: {', '.join(feature.values)}" for feature in features
            )
            return f"a list: {lists}"
        case PluginProvider(requires, plugin_api):
            return f"a plugin: {', '.join(requires)}" + (f" ({plugin_api})" if plugin_api else "")
        case BuiltinProvider(name):
            return f"built in: {name}"
        case _:
            return "broken"
