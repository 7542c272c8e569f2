"""Small pages and index files with the facts of published releases, from ``data/releases.toml``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_FACTS = Path(__file__).parent / "data" / "releases.toml"
_SCHEMA = "https://variants-schema.wheelnext.dev/v0.0.3.json"
_PYTHONS = ("cp311", "cp312", "cp313")
_PLUGINS = {
    "aarch64": ("provider-variant-aarch64", "AArch64Plugin"),
    "amd": ("amd-variant-provider", "AMDVariantPlugin"),
    "ascend": ("huawei-ascend-variant-provider", "AscendVariantPlugin"),
    "fictional_hw": ("provider-fictional-hw", "FictionalHWPlugin"),
    "fictional_tech": ("provider-fictional-tech", "FictionalTechPlugin"),
    "intel": ("intel-variant-provider", "IntelVariantPlugin"),
    "nvidia": ("nvidia-variant-provider", "NvidiaVariantPlugin"),
    "x86_64": ("provider-variant-x86-64", "X8664Plugin"),
}
_WHERE = {
    "aarch64": "platform_machine == 'aarch64' or 'arm' in platform_machine",
    "x86_64": "platform_machine == 'x86_64' or platform_machine == 'AMD64'",
}


def write_releases(folder: Path) -> None:
    """Write a page and index files for each project below a folder."""
    pages: dict[str, list[str]] = {}
    for release, facts in tomllib.loads(_FACTS.read_text("utf-8")).items():
        project, version = release.split()
        stem = f"{project.replace('-', '_')}-{version}"
        place = folder / project
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{stem}-variants.json").write_text(json.dumps(_document(facts)), "utf-8")
        pages.setdefault(project, []).extend([*_wheels(stem, facts), f"{stem}-variants.json"])
    for project, names in pages.items():
        links = "".join(f'<a href="{name}">{name}</a>\n' for name in names)
        page = f"<!DOCTYPE html>\n<title>{project}</title>\n{links}"
        (folder / project / "index.html").write_text(page, "utf-8")


def _document(facts: dict[str, Any]) -> dict[str, Any]:
    priorities = {"namespace": facts["namespaces"], "property": _tree(facts.get("priorities", ()))}
    return {
        "$schema": _SCHEMA,
        "default-priorities": priorities,
        "providers": {namespace: _provider(namespace) for namespace in facts["namespaces"]},
        "static-properties": _tree(facts.get("static", ())),
        "variants": {label: _tree(properties) for label, properties in facts["labels"].items()},
    }


def _provider(namespace: str) -> dict[str, Any]:
    if namespace not in _PLUGINS:
        return {"install-time": False, "requires": []}
    project, name = _PLUGINS[namespace]
    provider = {"requires": [project], "plugin-api": f"{project.replace('-', '_')}.plugin:{name}"}
    return provider | ({"enable-if": _WHERE[namespace]} if namespace in _WHERE else {})


def _tree(properties: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for one in properties:
        namespace, feature, values = one.split(" :: ")
        found.setdefault(namespace, {})[feature] = values.split()
    return found


def _wheels(stem: str, facts: dict[str, Any]) -> list[str]:
    found = []
    for platform, labels in facts["wheels"].items():
        tags = [f"{python}-{python}-{platform}" for python in _PYTHONS]
        for tag in [platform] if "-" in platform else tags:
            found += [
                f"{stem}-{tag}-{label}.whl".replace("-plain.", ".") for label in labels.split()
            ]
    return found
