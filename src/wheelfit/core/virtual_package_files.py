"""Parsing of platforms with virtual packages from files of conda, mamba and pixi.

There are three forms: the JSON of their ``info --json``, a printed list of virtual packages, and
manifests of pixi.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wheelfit.core import strict_json, strict_toml, virtual_packages
from wheelfit.core.virtual_packages import CondaPlatform, VirtualPackage
from wheelfit_runtime.errors import InvalidDocument, UserError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIST_START: Final = pattern(rb"\s*(?:#[^\n]*\n\s*)*(?:#\s*platform:|__[a-z])")
_MANIFEST_START: Final = pattern(
    rb"(?m)^[ \t]*\[[ \t]*(?:tool[ \t]*\.[ \t]*pixi[ \t]*\.[ \t]*)?(?:workspace|project)[ \t]*\]"
)
_NAME: Final = pattern(r"__[a-z0-9_]{1,60}")
_VERSION: Final = pattern(r"[0-9][0-9A-Za-z_.!+-]{0,60}")
_BUILD: Final = pattern(r"[0-9A-Za-z_.+-]{1,64}")
_LIST_LINE: Final = pattern(r"(__\S+?)\s*=+\s*([^\s=]+)(?:=([^\s=]*))?")
_HEADING: Final = pattern(r"#\s*platform:\s*(\S+)")


def read_platforms(data: bytes, where: str) -> tuple[CondaPlatform, ...] | None:
    """Return the platforms in a file of conda, mamba or pixi; None for other files.

    :raises UserError: ``invalid-host-file``; such a file has invalid values.
    """
    if data.lstrip()[:1] == b"{":
        return (_read_info(data, where),)
    if _LIST_START.match(data):
        return (_read_list(data.decode("utf-8", "replace"), where),)
    if _MANIFEST_START.search(data):
        try:
            document = strict_toml.load(data)
        except ValueError as error:
            _fail(f"the manifest is not TOML: {error}", where)
        return _read_manifest(document, where)
    return None


def _fail(message: str, where: str, hint: str | None = None) -> NoReturn:
    raise UserError(message, code="invalid-host-file", where=where, hint=hint)


# --- output of conda, mamba and pixi ------------------------------------------


def _read_info(data: bytes, where: str) -> CondaPlatform:
    try:
        document = strict_json.load(data)
    except InvalidDocument as error:
        _fail(f"the JSON cannot be read: {error.message}", where)
    # conda, pixi and mamba, in this order
    keys = ("virtual_pkgs", "virtual_packages", "virtual packages")
    listed = next((document[key] for key in keys if key in document), None)
    subdir = document.get("platform")
    if not isinstance(listed, list) or not isinstance(subdir, str):
        _fail(
            "the JSON is not that of `conda info --json`: platform or virtual_pkgs is missing",
            where,
            "write it with `conda info --json`, `mamba info --json` or `pixi info --json`",
        )
    packages = []
    for item in listed:
        words = item.split("=") if isinstance(item, str) else item
        if not isinstance(words, list) or not 0 < len(words) < 4:
            _fail(f"{str(item)[:80]!r} is not a virtual package", where, "write __cuda=12.8=0")
        packages.append(_package(where, *map(str, words)))
    return _platform(subdir, packages)


def _read_list(text: str, where: str) -> CondaPlatform:
    packages, subdir = [], ""
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        place = f"{where}, line {number}"
        if heading := _HEADING.fullmatch(line):
            subdir = heading[1]
        elif line and not line.startswith("#"):
            match = _LIST_LINE.fullmatch(line)
            if match is None:
                _fail(f"{line[:80]!r} is not a virtual package", place, "write __cuda=12.8=0")
            packages.append(_package(place, match[1], match[2], match[3] or "0"))
    if not subdir:
        _fail(
            "the list of virtual packages names no platform",
            where,
            "begin it with a line `# platform: linux-64`",
        )
    return _platform(subdir, packages)


def _package(where: str, name: str, version: str = "0", build: str = "0") -> VirtualPackage:
    for what, text, allowed in (
        ("name of a virtual package", name, _NAME),
        ("version", version, _VERSION),
        ("build string", build, _BUILD),
    ):
        if not allowed.fullmatch(text):
            _fail(f"{text[:80]!r} is not a {what}", where, "write __cuda=12.8=0")
    return VirtualPackage(name, version, build)


def _platform(subdir: str, packages: list[VirtualPackage], name: str = "") -> CondaPlatform:
    last = {package.name: package for package in packages}
    return CondaPlatform(subdir, tuple(sorted(last.values())), name)


# --- manifests of pixi ----------------------------------------------------------

_ALIASES: Final = {"osx": virtual_packages.OSX} | {
    key: name for name, key in virtual_packages.PIXI_KEYS.items()
}
_PARTS_OF_CUDA: Final = {"driver": virtual_packages.CUDA, "arch": virtual_packages.CUDA_ARCH}
_DEFAULTS: Final = {
    "linux": (("__glibc", "2.28"), ("__linux", "4.18")),
    "osx": (("__osx", "13.0"),),
}
"""The defaults of pixi for a platform, unless its entry overrides them."""


def _read_manifest(document: Mapping[str, Any], where: str) -> tuple[CondaPlatform, ...]:
    root: Any = document
    # In a pyproject.toml, [project] is another table, and the manifest is below [tool.pixi].
    if "workspace" not in root and "platforms" not in _table(root.get("project")):
        root = _table(_table(document.get("tool")).get("pixi"))
    workspace = _table(root.get("workspace")) or _table(root.get("project"))
    listed = workspace.get("platforms")
    if not isinstance(listed, list) or not listed:
        _fail(
            "the manifest has no platforms of a pixi workspace",
            where,
            'write [workspace] platforms = ["linux-64"], or name a host file',
        )
    # They would change the machines, so they are not ignored.
    if any(feature.get("system-requirements") for feature in _features(root)):
        _fail(
            "the manifest has system-requirements, which are not read",
            where,
            'write them as [workspace] platforms = [{ platform = "linux-64", cuda = "12.8" }], or '
            "name the output of `pixi info --json`",
        )
    return tuple(_read_entry(entry, where) for entry in listed)


def _features(root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the tables of a manifest that may have system requirements."""
    yield root
    yield from map(_table, _table(root.get("feature")).values())


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_entry(entry: object, where: str) -> CondaPlatform:
    if isinstance(entry, str):
        entry = {"platform": entry}
    if not isinstance(entry, Mapping):
        _fail(f"{entry!r} is not a platform of a pixi workspace", where)
    subdir = entry.get("platform", entry.get("name"))
    if not isinstance(subdir, str):
        _fail("a platform of the pixi workspace has neither name nor platform", where)
    stated = dict(_stated_packages(entry, where))
    packages = {
        name: VirtualPackage(name, version)
        for name, version in _DEFAULTS.get(subdir.partition("-")[0], ())
    }
    packages |= stated
    if virtual_packages.MUSL in stated:
        packages.pop(virtual_packages.GLIBC, None)
    name = entry.get("name") or _derived_name(subdir, stated, packages)
    return _platform(subdir, list(packages.values()), str(name))


def _stated_packages(entry: Mapping[str, Any], where: str) -> Iterator[tuple[str, VirtualPackage]]:
    for key, value in entry.items():
        if key in ("name", "platform"):
            continue
        if key == "cuda" and isinstance(value, Mapping):
            if "driver" not in value:
                _fail("cuda of a platform has no driver", where, 'write { driver = "12.8" }')
            for part, name in _PARTS_OF_CUDA.items():
                if part in value:
                    yield name, _package(where, name, str(value[part]))
        elif not isinstance(value, str):
            _fail(f"{key} of a platform must be a string", where)
        elif key == "cuda":
            yield virtual_packages.CUDA, _package(where, virtual_packages.CUDA, value)
        elif key == "archspec":
            yield virtual_packages.ARCHSPEC, _package(where, virtual_packages.ARCHSPEC, "1", value)
        elif key in _ALIASES:
            yield _ALIASES[key], _package(where, _ALIASES[key], value)
        elif key.startswith("__"):
            version, _, build = value.partition("=")
            yield key, _package(where, key, version, build or "0")
        else:
            _fail(f"{key} is not a known key of a platform of the pixi workspace", where)


def _derived_name(
    subdir: str, stated: Mapping[str, VirtualPackage], packages: Mapping[str, VirtualPackage]
) -> str:
    """Return pixi's name of an unnamed platform, made of the additions in its entry."""
    default = dict(_DEFAULTS.get(subdir.partition("-")[0], ()))
    keys = {virtual_packages.CUDA: "cuda"} | virtual_packages.PIXI_KEYS
    order = [*keys, *sorted(stated.keys() - keys.keys())]
    parts = [subdir]
    for name in (name for name in order if name in stated):
        package = packages[name]
        value = package.build if name == virtual_packages.ARCHSPEC else package.version
        if value != default.get(name):
            key = keys.get(name, name.strip("_").replace("_", "-"))
            parts.append(f"{key}-{re.sub('[^0-9A-Za-z]+', '-', value).strip('-')}")
    return "-".join(parts)
