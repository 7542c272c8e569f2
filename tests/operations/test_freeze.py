"""Lines of a requirements file for packages from URLs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from wheelfit.installation.installed import scan
from wheelfit.operations.freeze import requirement_line


@pytest.mark.parametrize(
    ("direct_url", "line"),
    [
        (
            {"url": "https://h/x.whl\n--index-url=evil", "archive_info": {}},
            "some @ https://h/x.whl%0A--index-url=evil",
        ),
        (
            {"url": "https://h/x", "vcs_info": {"vcs": "git", "commit_id": "c\n-i evil"}},
            "some @ git+https://h/x@c%0A-i%20evil",
        ),
        (
            {"url": "file:///a\r-i ${B}", "dir_info": {"editable": True}},
            "-e file:///a%0D-i%20%24{B}",
        ),
        ({"url": "file:///é", "archive_info": {}}, "some @ file:///é"),
    ],
)
def test_a_url_stays_in_its_line(direct_url: Mapping[str, Any], line: str, tmp_path: Path) -> None:
    """A hostile ``direct_url.json`` adds no option to the requirements, and reads no variable."""
    info = tmp_path / "some-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some\nVersion: 1.0\n\n")
    (info / "direct_url.json").write_text(json.dumps(direct_url))
    (entry,) = scan([tmp_path]).installed
    assert requirement_line(entry) == line
