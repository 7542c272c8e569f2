"""Show what wheels say of themselves: label, properties, providers, sizes and markers.

A WHEEL is a file, a folder of them, or a URL, of which a few ranges of bytes are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.wheels import SHOW

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping
    from typing import Any

    from wheelfit.cli.output import Output
    from wheelfit.core.filename import WheelFilename


OPTIONS = (SHOW, SOURCES)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Show the wheels."""
    shown = list(_shown(arguments, output, environ))
    metadata = [one.pop("metadata") for one in shown]
    output.result_json({"version": 1, "wheels": shown})
    for one, text in zip(shown, metadata, strict=True):
        if len(shown) > 1 and (arguments.metadata or arguments.dependencies):
            output.result(f"# {one['wheel']}")
        if arguments.metadata:
            output.result(text.decode("utf-8", "replace").rstrip("\n"))
        elif arguments.dependencies:
            for requirement in one["requires"]:
                output.result(requirement)
        else:
            _print(one, output)
    return 0


def _shown(
    arguments: Namespace, output: Output, environ: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield what is known of each wheel."""
    from wheelfit.cli.wheel_work import find_wheels
    from wheelfit.wheels.archive import WheelArchive

    urls = [text for text in arguments.wheels if text.startswith(("https://", "http://"))]
    for path in find_wheels([text for text in arguments.wheels if text not in urls]):
        with WheelArchive(path) as wheel:
            yield _about(
                wheel.filename,
                str(path),
                wheel.metadata(),
                wheel.variant_document(),
                {
                    "size": wheel.size,
                    "unpacked_size": sum(member.size for member in wheel.members),
                    "files": len(wheel.names()),
                },
            )
    if urls:
        yield from _remote(arguments, urls, output, environ)


def _remote(
    arguments: Namespace, urls: list[str], output: Output, environ: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    from wheelfit.core.filename import parse_wheel_filename
    from wheelfit.operations.indexes import open_indexes, read_settings
    from wheelfit.sources.page import File
    from wheelfit.sources.urls import last_segment, redact, split_userinfo, without_fragment

    settings = read_settings(arguments, environ)
    with open_indexes(arguments, settings, environ, output, urls) as repository:
        for url in urls:
            bare = without_fragment(split_userinfo(url)[0])
            filename = parse_wheel_filename(last_segment(bare))
            file = File(filename.text, bare)
            size = repository.size(file, unpacked=True)
            yield _about(
                filename,
                redact(bare),
                repository.metadata(file),
                repository.variant_document(file),
                {"size": size.file, "unpacked_size": size.unpacked, "files": None},
            )


def _about(
    filename: WheelFilename,
    where: str,
    metadata: bytes,
    document: bytes | None,
    sizes: Mapping[str, int | None],
) -> dict[str, Any]:
    """Return what is known of a wheel as plain data."""
    from wheelfit.core.core_metadata import read_metadata

    core = read_metadata(metadata, where)
    return {
        "wheel": where,
        "name": core.name,
        "version": str(core.version),
        "tags": sorted(map(str, filename.tags)),
        **sizes,
        "requires_python": None if core.requires_python is None else str(core.requires_python),
        "requires": list(core.requires_texts),
        "variant_markers": [
            str(one) for one in core.requires if one.marker and one.marker.uses_variants
        ],
        "label": filename.label,
        **_variant(filename, where, document),
        "metadata": metadata,
    }


def _variant(filename: WheelFilename, where: str, data: bytes | None) -> dict[str, Any]:
    from wheelfit.core.index_metadata import read_wheel_document
    from wheelfit.core.labels import derive_label
    from wheelfit.core.properties import EMPTY
    from wheelfit.core.strict_json import load

    if filename.label is None:
        return dict.fromkeys(
            ("layout", "properties", "derived_label", "priorities", "providers", "document")
        )
    document = read_wheel_document(data, filename.label, where=where)
    properties = document.properties(filename.label) or EMPTY
    return {
        "layout": document.layout,
        "properties": [str(item) for item in properties],
        "derived_label": derive_label(properties),
        "priorities": list(document.priorities),
        "providers": {name: _provider(one) for name, one in document.providers.items()},
        "document": load(data or b""),
    }


def _provider(provider: object) -> str:
    """Say in words who knows about a namespace."""
    from wheelfit.core.providers import BuiltinProvider, PluginProvider, StaticProvider

    match provider:
        case StaticProvider(features):
            told = "; ".join(f"{one.name}: {', '.join(one.values)}" for one in features)
            return f"a list: {told}"
        case PluginProvider(requires, plugin_api):
            return f"a plugin: {', '.join(requires)}" + (f" ({plugin_api})" if plugin_api else "")
        case BuiltinProvider(name):
            return f"built in: {name}"
        case _:
            return "broken"


def _print(about: Mapping[str, Any], output: Output) -> None:
    from wheelfit.core.sizes import size_in_words

    output.result(about["wheel"], "strong")
    rows = [("release", f"{about['name']} {about['version']}")]
    if about["label"] is None:
        rows.append(("variant", "none: it is a plain wheel"))
    else:
        rows.append(("label", about["label"]))
        rows += [
            ("property" if index == 0 else "", text)
            for index, text in enumerate(about["properties"] or ["none: the null variant"])
        ]
        rows += [
            ("provider" if index == 0 else "", f"{name}: {about['providers'].get(name, 'none')}")
            for index, name in enumerate(about["priorities"])
        ]
        rows.append(("layout", about["layout"]))
    sizes = [
        f"{size_in_words(about[key])}{what}"
        for key, what in (("size", ""), ("unpacked_size", " unpacked"))
        if about[key] is not None
    ]
    rows.append(("size", ", ".join(sizes)))
    rows += [
        ("markers" if index == 0 else "", text)
        for index, text in enumerate(about["variant_markers"])
    ]
    for name, text in rows:
        output.result(f"  {name:<9} {text}")
