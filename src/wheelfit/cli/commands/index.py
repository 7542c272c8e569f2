"""Publish wheels as an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each is a module beside this one, named after both words; only the chosen one is imported.
SUBCOMMANDS: Mapping[str, str] = {
    "generate": "make a static index of a folder of wheels, there or on an object store",
    "check": "find what is wrong with everything that an index has",
    "convert": "write an index of an old layout anew in the current one",
    "serve": "serve a live index that publishing tools upload to",
    "token": "make, list and revoke the tokens that allow uploads",
    "stage": "upload a release out of sight, and publish all of it at once",
    "yank": "keep installers from files of a live index, except where they are pinned",
    "unyank": "take back that files were yanked",
    "delete": "delete files of a live index for ever",
}
"""The subcommands with one line each."""
