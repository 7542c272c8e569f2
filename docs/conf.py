"""Configuration of the documentation site: ``nox -s docs`` builds it."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "wheelfit"
author = "the wheelfit authors"
copyright = author  # noqa: A001 - the name that Sphinx reads
release = metadata.version("wheelfit")

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
master_doc = "index"
exclude_patterns = ["reference/schemas"]

# Headings are links of the form that code hosts give them: `page.md#some-heading`.
myst_heading_anchors = 4
myst_enable_extensions = ["fieldlist"]
# Pages lead to files of the repository beside the documentation; those open there.
suppress_warnings = ["myst.xref_missing"]

html_theme = "furo"
html_title = f"wheelfit {release}"
html_show_sphinx = False

_PARTS = {
    "Tutorial": "tutorial",
    "How-to guides": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
}


def setup(app: Sphinx) -> None:
    """Add the contents of the side bar, which code hosts would show as code."""
    app.connect("source-read", _add_contents)


def _add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    del app
    if name == "index":
        for title, folder in _PARTS.items():
            options = f":hidden:\n:glob:\n:caption: {title}"
            source[0] += f"\n```{{toctree}}\n{options}\n\n{folder}/*\n```\n"
