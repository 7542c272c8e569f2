"""Signed files from the tests of pypi-attestations."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from wheelfit.operations.pip_rules import pip_config_locations
from wheelfit.sources.open import open_sources
from wheelfit.sources.pip_configuration import read_pip_configuration

_SOURCE = "pypi_attestations-0.0.30.tar.gz"


def signed_files(folder: Path) -> Path:
    """Fetch them, and return the folder they are in; or skip.

    :param folder: where to put them.
    """
    pytest.importorskip("pypi_attestations")
    settings = read_pip_configuration(pip_config_locations(os.environ, None))
    with open_sources(settings, cache_folder=None, environ=os.environ) as sources:
        page = sources.project(canonicalize_name("pypi-attestations"))
        files = [file for file in page.files if file.filename == _SOURCE] if page else []
        if not files:
            pytest.skip(f"the registry does not have {_SOURCE}")
        path = sources.download(files[0], folder)
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    return folder / _SOURCE.removesuffix(".tar.gz") / "test" / "assets"
