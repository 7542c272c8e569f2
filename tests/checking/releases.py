"""Releases on disk that are sound, and ways to spoil them."""

from __future__ import annotations

import copy
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wheelfit.checking.findings import Finding, Report
from wheelfit.checking.targets.paths import check_paths
from wheelfit.checking.tool_profiles import CheckOptions, Profile
from wheelfit.testing.wheels import add_member, build_wheel, release_document

NVIDIA = {
    "requires": ["nvidia-variant-provider>=0.0.1,<1"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
}
GPU = {"nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["80_real", "90_real"]}}
DOCUMENT = release_document(
    {"null": {}, "cu128": GPU, "mkl": {"blas": {"library": ["mkl"]}}},
    static={"blas": {"library": ["openblas", "mkl"]}},
    providers={"nvidia": NVIDIA},
    namespaces=["nvidia", "blas"],
)
DOCUMENT["providers"]["blas"]["static-properties"]["library"] = ["mkl"]  # type: ignore[index]
INDEX_FILE = "fast-1.0-variants.json"


def document(edit: Callable[[dict[str, Any]], object] = lambda _: None) -> dict[str, Any]:
    """Return the sound document, edited."""
    whole: dict[str, Any] = copy.deepcopy(DOCUMENT)
    edit(whole)
    return whole


def write(path: Path, content: Mapping[str, object] | bytes) -> Path:
    """Write a document, and return its path."""
    data = content if isinstance(content, bytes) else json.dumps(content, indent=2).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def sound_release(folder: Path, whole: Mapping[str, object] | None = None) -> Path:
    """Write a release in which nothing is wrong: three variants, a plain wheel, the index file."""
    whole = whole or DOCUMENT
    for label in whole["variants"]:  # type: ignore[attr-defined]
        build_wheel(folder, "fast", "1.0", label=label, document=whole)
    build_wheel(folder, "fast", "1.0")
    write(folder / INDEX_FILE, whole)
    return folder


def check(
    *paths: Path,
    full: bool = False,
    binaries: bool = False,
    instructions: bool = False,
    profiles: str = "",
) -> Report:
    """Check paths."""
    named = frozenset(map(Profile, profiles.split()))
    return check_paths(paths, CheckOptions(full, binaries, instructions, named))


def codes(report: Report) -> Counter[str]:
    """Return how often each check found something."""
    return Counter(finding.code for finding in report.findings)


def only(report: Report, code: str) -> Finding:
    """Return the one finding of a check."""
    (finding,) = [finding for finding in report.findings if finding.code == code]
    return finding


def rewritten(
    path: Path,
    changes: Mapping[str, bytes | None] | None = None,
    additions: Mapping[str, bytes] | None = None,
) -> Path:
    """Replace members of a wheel by their last part, without telling RECORD; None removes."""
    with zipfile.ZipFile(path) as old:
        members = [(name, old.read(name)) for name in old.namelist()]
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members:
            changed = (changes or {}).get(name.rpartition("/")[2], content)
            if changed is not None:
                add_member(new, name, changed)
        for name, content in (additions or {}).items():
            add_member(new, name, content)
    return path
