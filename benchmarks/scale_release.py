"""Make one release with very many variant wheels: its index file and its listing page.

Standard library only, and the same for the same numbers, so that every tool is given
the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from itertools import product
from typing import Any

NAME, VERSION = "fastfft", "2.1"
PAGE_TYPE = "application/vnd.pypi.simple.v1+json"

LOWER_BOUNDS = [f"{major}.{minor}" for major in (11, 12, 13) for minor in range(10)]
ARCHITECTURES = [f"{number}_real" for number in (50, 60, 70, 75, 80, 86, 89, 90, 100, 103, 120)]
LEVELS = ["v4", "v3", "v2", "v1"]
LIBRARIES = ["mkl", "blis", "openblas", "netlib"]
RECIPES = [f"r{number}" for number in range(16)]

# What the target supports is listed in the document, because both tools read that. The
# machine is one with CUDA 12.8, a GPU of capability 8.6 and a CPU of level v3.
PROVIDERS: dict[str, Any] = {
    "nvidia": {
        "static-properties": {
            "cuda_version_lower_bound": LOWER_BOUNDS[LOWER_BOUNDS.index("12.8") :: -1],
            "sm_arch": ["86_real", "80_real"],
        },
        "feature-order": ["cuda_version_lower_bound", "sm_arch"],
    },
    "x86_64": {"static-properties": {"level": LEVELS[1:]}},
    "blas": {
        "static-properties": {"library": LIBRARIES[:3], "recipe": RECIPES},
        "feature-order": ["library", "recipe"],
    },
}

# Of nine wheels of a label, six fit CPython 3.13 on a new Linux.
TAGS = [
    "cp313-cp313-manylinux_2_28_x86_64",
    "cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64",
    "cp312-cp312-manylinux_2_28_x86_64",
    "cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64",
    "py3-none-manylinux_2_28_x86_64",
    "cp313-cp313-win_amd64",
    "py3-none-any",
    "cp313-cp313-macosx_11_0_arm64",
    "py2.py3-none-any",
]
BUILDS = ["", "-1", "-2", "-3_hot"]


@dataclass(frozen=True)
class Release:
    """The two files that an index serves of a release."""

    document: bytes
    """``fastfft-2.1-variants.json``."""
    page: bytes
    """The page of the project, as JSON."""


def make_release(labels: int, wheels: int) -> Release:
    """Make a release.

    :param labels: distinct labels, each with other properties.
    :param wheels: file names; not fewer than labels, at most 36 of each label.
    """
    variants = make_variants(labels)
    names_of_labels = list(variants)
    shapes = [f"{build}-{tag}" for build, tag in product(BUILDS, TAGS)]
    names = [f"{NAME}-{VERSION}-variants.json"]
    for number in range(wheels):
        # The first wheel of every label fits; the rest comes in the order of `shapes`.
        turn, place = divmod(number, labels)
        names.append(f"{NAME}-{VERSION}{shapes[turn]}-{names_of_labels[place]}.whl")
    page = {
        "meta": {"api-version": "1.1"},
        "name": NAME,
        "files": [
            {
                "filename": name,
                "url": f"../../files/{name}",
                "hashes": {"sha256": hashlib.sha256(name.encode()).hexdigest()},
                "requires-python": ">=3.11",
                "size": 1_000_000,
                "upload-time": "2026-11-01T00:00:00Z",
            }
            for name in names
            if not name.endswith(".json")
        ]
        + [{"filename": names[0], "url": f"../../files/{names[0]}", "hashes": {}}],
    }
    document = {
        "$schema": "https://variants-schema.wheelnext.dev/v0.2.0.json",
        "default-priorities": {"namespace": list(PROVIDERS)},
        "providers": PROVIDERS,
        "variants": variants,
    }
    return Release(json.dumps(document).encode(), json.dumps(page).encode())


def make_variants(labels: int) -> dict[str, Any]:
    """Make that many labels, ``null`` and others, of which no two have the same properties."""
    draw = random.Random("scale")
    seen: set[str] = set()
    variants: dict[str, Any] = {"null": {}}
    while len(variants) < labels:
        properties = {
            "nvidia": {
                "cuda_version_lower_bound": [draw.choice(LOWER_BOUNDS)],
                "sm_arch": sorted(draw.sample(ARCHITECTURES, draw.randint(1, 6))),
            },
            "x86_64": {"level": [draw.choice(LEVELS)]},
            "blas": {"library": [draw.choice(LIBRARIES)], "recipe": [draw.choice(RECIPES)]},
        }
        text = json.dumps(properties)
        if text not in seen:
            seen.add(text)
            variants[f"v{len(variants):05}"] = properties
    return variants
