"""The presets that matter for a release."""

from __future__ import annotations

import json

from wheelfit.core.metadata import read_document
from wheelfit.resolution.preset_hosts import presets_for
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import release_document


def test_versions_of_the_labels() -> None:
    """Versions in properties become those of presets; a number that is no version is ignored."""
    bounds = {"cuda_version_lower_bound": ["12.9", "9" * 5000]}
    document = release_document({"cu": {"nvidia": bounds}}, providers={"nvidia": NVIDIA})
    names = list(presets_for(read_document(json.dumps(document).encode(), where="variants.json")))
    versions = {name.split("-")[1] for name in names if name.startswith("cuda-")}
    assert versions == {"12.9"}
