"""A bill of materials for one machine: CycloneDX 1.6, with the variant of each component.

Equal contents give equal documents: the serial number is derived from the content, and there is no
time unless the caller passes one.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from wheelfit.sources.urls import last_segment
from wheelfit_runtime import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit.locking.export.contents import Contents, ExportedPackage
    from wheelfit.locking.export.license import License
    from wheelfit.resolution.resolution import Pin

_SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_HASHES = {
    "md5": "MD5",
    "sha1": "SHA-1",
    "sha256": "SHA-256",
    "sha384": "SHA-384",
    "sha512": "SHA-512",
    "sha3_256": "SHA3-256",
    "sha3_384": "SHA3-384",
    "sha3_512": "SHA3-512",
    "blake2b": "BLAKE2b-512",
}
"""The format's names of hash algorithms."""
_DIGEST_LENGTHS = frozenset([32, 40, 64, 96, 128])
"""The numbers of hexadecimal digits that the format allows for a digest."""
_LOCK = "lock"


def cyclonedx_document(contents: Contents, *, epoch: int | None = None) -> dict[str, Any]:
    """Return a bill of materials as plain data.

    :param epoch: the time of its creation, in seconds since 1970 (``SOURCE_DATE_EPOCH``); None:
        left out.
    """
    references = {package.pin.name: _purl(package) for package in contents.packages}
    document: dict[str, Any] = {
        "$schema": _SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [{"type": "application", "name": "wheelfit", "version": __version__}]
            },
            "component": {
                "type": "application",
                "bom-ref": _LOCK,
                "name": contents.lock,
                "hashes": [{"alg": "SHA-256", "content": contents.digest}],
            },
            "properties": [
                _property(name, value) for name, value in _document_properties(contents)
            ],
        },
        "components": [_component(package) for package in contents.packages],
        "dependencies": [
            {
                "ref": _LOCK,
                "dependsOn": sorted(
                    references[package.pin.name]
                    for package in contents.packages
                    if package.pin.requested
                ),
            },
            *(
                {
                    "ref": references[package.pin.name],
                    "dependsOn": sorted(references[name] for name in package.needs),
                }
                for package in contents.packages
            ),
        ],
    }
    if epoch is not None:
        moment = datetime.fromtimestamp(epoch, UTC)
        document["metadata"]["timestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    # The same content always gives the same serial number.
    text = json.dumps(document, sort_keys=True, ensure_ascii=True)
    document["serialNumber"] = f"urn:uuid:{uuid5(NAMESPACE_URL, text)}"
    return document


def _document_properties(contents: Contents) -> Iterator[tuple[str, str]]:
    target = contents.target
    yield "wheelfit:target:name", target.name
    if target.description:
        yield "wheelfit:target:description", target.description
    yield "wheelfit:target:python", target.python
    yield "wheelfit:target:platform", target.platform
    for override in target.overrides:
        yield "wheelfit:target:override", override
    for note in contents.notes:
        yield "wheelfit:note", note


def _component(package: ExportedPackage) -> dict[str, Any]:
    pin = package.pin
    reference = _purl(package)
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference,
        "name": str(pin.name),
        "version": "" if package.version is None else str(package.version),
        "scope": "required",
        "hashes": _hashes(pin.file.hashes),
        "licenses": _licenses(package.license),
        "purl": reference,
    }
    if not _has_local_path(pin):
        kind = "vcs" if package.source == "vcs" else "distribution"
        component["externalReferences"] = [{"type": kind, "url": pin.file.url}]
    component["properties"] = [
        _property(name, value) for name, value in _package_properties(package)
    ]
    return {key: value for key, value in component.items() if value not in ([], "")}


def _package_properties(package: ExportedPackage) -> Iterator[tuple[str, str]]:
    pin = package.pin
    if package.source is None:
        yield "wheelfit:wheel:filename", pin.filename.text
    else:
        yield "wheelfit:source", package.source
    if pin.label is not None:
        yield "wheelfit:variant:label", pin.label
        for declared_property in pin.properties:
            yield "wheelfit:variant:property", str(declared_property)
    if pin.reason:
        yield "wheelfit:selection:reason", pin.reason
    yield "wheelfit:selection:requested", "true" if pin.requested else "false"
    for file in () if package.license is None else package.license.files:
        yield "wheelfit:license:file", file
    if package.read_failure:
        yield "wheelfit:license:unread", package.read_failure


def _licenses(declared: License | None) -> list[dict[str, Any]]:
    if declared is None or declared.kind == "unknown":
        return []
    if declared.kind == "expression":
        return [{"expression": declared.text, "acknowledgement": "declared"}]
    return [{"license": {"name": declared.text, "acknowledgement": "declared"}}]


def _hashes(hashes: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {"alg": _HASHES[name], "content": hashes[name]}
        for name in sorted(hashes)
        if name in _HASHES and len(hashes[name]) in _DIGEST_LENGTHS
    ]


def _purl(package: ExportedPackage) -> str:
    """Return the package URL; the file name distinguishes the variants of a release."""
    pin, version = package.pin, package.version
    name = f"pkg:pypi/{pin.name}" + ("" if version is None else f"@{quote(str(version), safe='')}")
    if pin.file.hashes:
        return f"{name}?file_name={quote(last_segment(pin.file.display_name), safe='')}"
    if package.source == "vcs" and not _has_local_path(pin):
        return f"{name}?vcs_url={quote(pin.file.url, safe='')}"
    return name


def _has_local_path(pin: Pin) -> bool:
    """Return whether a package has a local path, which is private and useless elsewhere."""
    return pin.file.is_local or pin.file.url.startswith("git+file:")


def _property(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}
