"""Builders of small real wheels.

The wheels are complete and valid: metadata, RECORD with hashes, dist-info last. Equal arguments
give equal bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.filename import index_file_name
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.unpacking import unpack
from wheelfit.wheels.zip_directory import STORED, Member
from wheelfit.wheels.zip_writing import encode_end, encode_entry, encode_local_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.wheels.unpacked import UnpackedWheel

    Properties = Mapping[str, Mapping[str, Sequence[str]]]


SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
"""The ``$schema`` of documents made here (F-35)."""

_DATE = (2026, 1, 1, 0, 0, 0)
_DEFLATE_LEVEL = 6


def build_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    label: str | None = None,
    document: Mapping[str, object] | bytes | None = None,
    requires: Iterable[str] = (),
    requires_python: str | None = None,
    provides_extra: Iterable[str] = (),
    files: Mapping[str, bytes | str] | None = None,
    tag: str = "py3-none-any",
    build: str | None = None,
    entry_points: Mapping[str, Mapping[str, str]] | None = None,
    metadata_extra: Iterable[tuple[str, str]] = (),
    description: str = "",
    executables: Iterable[str] = (),
) -> Path:
    """Write a wheel and return its path.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     build_wheel(pathlib.Path(folder), "Fast.FFT", "2.1", label="cu128").name
    'fast_fft-2.1-py3-none-any-cu128.whl'

    :param folder: the folder for the wheel; it is created if it does not exist.
    :param label: the label of a variant wheel; None: a plain wheel.
    :param document: ``variant.json``. The document of a whole release is reduced to the entry of
        ``label`` (F-24); bytes are written unchanged, valid or not. With a label and no document
        the wheel is invalid (F-27).
    :param files: content by path; default: a package with a ``__version__``.
    :param tag: compressed tag set, such as ``cp312.cp313-none-any``.
    :param build: build tag, such as ``7``.
    :param entry_points: object references by group and name.
    :param metadata_extra: further headers of METADATA.
    :param executables: paths among ``files`` with the executable bit.
    """
    stem = f"{canonicalize_name(name).replace('-', '_')}-{Version(version)}"
    dist_info = f"{stem}.dist-info"
    if files is None:
        package = canonicalize_name(name).replace("-", "_")
        files = {f"{package}/__init__.py": f'__version__ = "{version}"\n__variant__ = {label!r}\n'}
    contents = {path: _encode(content) for path, content in files.items()}
    headers = [("Metadata-Version", "2.1"), ("Name", name), ("Version", version)]
    headers += [("Requires-Python", requires_python)] if requires_python is not None else []
    headers += [("Provides-Extra", extra) for extra in provides_extra]
    headers += [("Requires-Dist", requirement) for requirement in requires]
    headers += metadata_extra
    contents[f"{dist_info}/METADATA"] = _encode(_header_text(headers) + description)
    is_pure = "true" if tag.endswith("-none-any") else "false"
    wheel_headers = [
        ("Wheel-Version", "1.0"),
        ("Generator", "wheelfit.testing"),
        ("Root-Is-Purelib", is_pure),
    ]
    wheel_headers += [("Build", build)] if build is not None else []
    wheel_headers += [("Tag", expanded) for expanded in _expand(tag)]
    contents[f"{dist_info}/WHEEL"] = _encode(_header_text(wheel_headers))
    if entry_points:
        contents[f"{dist_info}/entry_points.txt"] = _encode(_ini_text(entry_points))
    if isinstance(document, bytes):
        contents[f"{dist_info}/variant.json"] = document
    elif document is not None:
        reduced = document if label is None else single_label_document(document, label)
        contents[f"{dist_info}/variant.json"] = _json(reduced)
    record = f"{dist_info}/RECORD"
    contents[record] = _record(contents, record)

    parts = [stem, build, tag, label]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("-".join(part for part in parts if part is not None) + ".whl")
    executable = set(executables)
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in contents.items():
            add_member(archive, member, content, executable=member in executable)
    return path


def build_release(
    folder: Path,
    name: str,
    version: str,
    document: Mapping[str, Any],
    labels: Iterable[str | None] | None = None,
    **arguments: Any,
) -> None:
    """Write a wheel for each label of a release, and its index file.

    :param document: the document of the release.
    :param labels: the labels of the wheels, with None for a plain wheel; default: those of the
        document.
    :param arguments: further arguments of `build_wheel`.
    """
    for label in document["variants"] if labels is None else labels:
        own_document = None if label is None else document
        build_wheel(folder, name, version, label=label, document=own_document, **arguments)
    (folder / index_file_name(name, Version(version))).write_text(json.dumps(document))


def add_member(
    archive: zipfile.ZipFile,
    name: str,
    content: bytes,
    *,
    executable: bool = False,
    method: int = zipfile.ZIP_DEFLATED,
) -> None:
    """Add a member with a fixed date and mode.

    :param executable: whether its mode is 0755 instead of 0644.
    :param method: the compression method, as a constant of `zipfile`.
    """
    info = zipfile.ZipInfo(name, _DATE)
    info.create_system = 3
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    archive.writestr(info, content, method, _DEFLATE_LEVEL)


def build_large_wheel(folder: Path, name: str, version: str, size: int, **arguments: Any) -> Path:
    """Write a wheel with a large file of zeros, sparse where the file system supports that.

    The file ``{name}/zeros.bin`` is stored without compression, so the wheel is larger than it.

    :param size: bytes of the file.
    """
    package = canonicalize_name(name).replace("-", "_")
    path = build_wheel(folder, name, version, **arguments)
    with zipfile.ZipFile(path) as archive:
        contents = {member: archive.read(member) for member in archive.namelist()}
    zeros = f"{package}/zeros.bin"
    digest, crc, remaining = hashlib.sha256(), 0, size
    while remaining:
        chunk = bytes(min(remaining, 1 << 20))
        digest.update(chunk)
        crc = zlib.crc32(chunk, crc)
        remaining -= len(chunk)
    record = next(member for member in contents if member.endswith(".dist-info/RECORD"))
    row = (
        f"{zeros},sha256={base64.urlsafe_b64encode(digest.digest()).decode().rstrip('=')},{size}\n"
    )
    contents[record] = row.encode() + contents[record]
    clock, date = 0, (_DATE[0] - 1980) << 9 | _DATE[1] << 5 | _DATE[2]

    def member_of(name: str, crc: int, size: int, offset: int) -> Member:
        return Member(
            name=name,
            method=STORED,
            flags=0,
            time=clock,
            date=date,
            crc=crc,
            compressed_size=size,
            size=size,
            offset=offset,
            system=3,
            attributes=0o100644 << 16,
        )

    members = [member_of(zeros, crc, size, 0)]
    with path.open("wb") as file:
        file.write(encode_local_header(members[0]))
        file.seek(size, os.SEEK_CUR)
        for member, content in contents.items():
            members.append(member_of(member, zlib.crc32(content), len(content), file.tell()))
            file.write(encode_local_header(members[-1]) + content)
        offset = file.tell()
        directory = b"".join(map(encode_entry, members))
        file.write(directory + encode_end(len(members), len(directory), offset))
    return path


def release_document(
    variants: Mapping[str, Properties],
    *,
    static: Properties | None = None,
    providers: Mapping[str, Mapping[str, object]] | None = None,
    namespaces: Sequence[str] | None = None,
) -> dict[str, object]:
    """Return the document of a whole release, in the layout of PEP 850.

    >>> release_document(
    ...     {"null": {}, "mkl": {"blas": {"library": ["mkl"]}}},
    ...     static={"blas": {"library": ["openblas", "mkl"]}},
    ... )["default-priorities"]
    {'namespace': ['blas']}

    :param static: namespaces with a static list: values by feature, best first.
    :param providers: providers of the other namespaces, as JSON objects.
    :param namespaces: the order of namespaces; default: as in ``static``, then ``providers``.
    """
    entries: dict[str, Mapping[str, object]] = {}
    for namespace, features in (static or {}).items():
        entry: dict[str, object] = {
            "static-properties": {feature: list(values) for feature, values in features.items()}
        }
        if len(features) > 1:
            entry["feature-order"] = list(features)
        entries[namespace] = entry
    entries |= providers or {}
    return {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": list(namespaces or entries)},
        "providers": entries,
        "variants": {
            label: {
                namespace: {feature: sorted(values) for feature, values in features.items()}
                for namespace, features in properties.items()
            }
            for label, properties in variants.items()
        },
    }


def single_label_document(document: Mapping[str, object], label: str) -> dict[str, object]:
    """Return the document of a release reduced to one label, as in ``variant.json`` (F-24).

    :param label: a label; if the document lacks it, its entry has no properties.
    """
    variants = document.get("variants", {})
    entry = variants.get(label, {}) if isinstance(variants, dict) else {}
    return {**document, "variants": {label: entry}}


def stub_wheels_for(
    folder: Path,
    filenames: Iterable[str],
    document: Mapping[str, object] | None = None,
    *,
    requires: Iterable[str] = (),
    requires_python: str | None = None,
) -> tuple[Path, ...]:
    """Write a tiny wheel for each file name, for pages whose wheels are not available.

    :param document: the document of the release; variant wheels get the entry of their label.
    :param requires: values of ``Requires-Dist`` of every wheel.
    :param requires_python: value of ``Requires-Python`` of every wheel.
    """
    requires = tuple(requires)
    paths = []
    for filename in filenames:
        name, version, *parts = filename.removesuffix(".whl").split("-")
        build = parts.pop(0) if parts[0][0].isdigit() else None  # F-12
        label = parts[3] if len(parts) > 3 else None
        path = build_wheel(
            folder,
            name,
            version,
            label=label,
            document=None if label is None else document,
            requires=requires,
            requires_python=requires_python,
            tag="-".join(parts[:3]),
            build=build,
        )
        destination = folder / filename
        if path != destination:
            path.replace(destination)  # a name that is not normalised stays as requested
        paths.append(destination)
    return tuple(paths)


def unpack_wheel(path: Path) -> UnpackedWheel:
    """Unpack a wheel beside itself.

    :raises InvalidWheel: it is invalid.
    """
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    folder = Path(tempfile.mkdtemp(prefix="unpacked-", dir=path.parent))
    with WheelArchive(path) as archive:
        return unpack(archive, folder, sha256=digest)


def _encode(content: bytes | str) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content


def _json(document: Mapping[str, object]) -> bytes:
    """Return canonical JSON (F-29)."""
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
    return (text + "\n").encode("utf-8")


def _header_text(headers: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in headers) + "\n"


def _ini_text(groups: Mapping[str, Mapping[str, str]]) -> str:
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in groups.items()
    )


def _expand(tag: str) -> list[str]:
    pythons, abis, platforms = (part.split(".") for part in tag.split("-"))
    return [
        f"{python}-{abi}-{platform}" for python in pythons for abi in abis for platform in platforms
    ]


def _record(contents: Mapping[str, bytes], record: str) -> bytes:
    """Return RECORD, independently of the real writer, so that tests can compare both."""
    lines = []
    for path, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        quoted = '"' + path.replace('"', '""') + '"' if set(path) & set(',"') else path
        lines.append(f"{quoted},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{record},,\n"]).encode("utf-8")
