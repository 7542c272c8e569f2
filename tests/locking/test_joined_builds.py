"""Builds of one release whose versions differ, joined for a lock."""

from __future__ import annotations

from packaging.utils import canonicalize_name

from wheelfit.locking.solving import JoinedRepository
from wheelfit.sources.bridges.catalogue import known_families
from wheelfit.sources.file_readers import AllFiles, SinglePageRepository
from wheelfit.sources.page import File, ProjectPage


def test_later_build_counts() -> None:
    """Of two builds for one platform the later one counts; an invalid version is the earliest."""
    name = canonicalize_name("torch-scatter")
    builds = ("+no~version", "+rocm7.2", "+rocm7.13", "+rocm7.9")
    files = tuple(File(f"torch_scatter-2.1{build}-py3-none-any.whl", "x:") for build in builds)
    family = known_families({}, shipped_bridges=True).named("pyg")
    page = ProjectPage(name, files, "pyg", bridge=family)
    joined = JoinedRepository(SinglePageRepository(page, AllFiles())).project(name)
    assert joined is not None
    assert [file.filename for file in joined.files] == [files[2].filename]
