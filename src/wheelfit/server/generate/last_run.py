"""A cache of the last run's input and result, so that a run with the same input ends at once."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import ValidationError, convert

from wheelfit.server.generate.collection import walk
from wheelfit.server.generate.manifest import MANIFEST
from wheelfit.server.generate.request import GenerateOptions, GenerateResult
from wheelfit.server.generate.targets import PublishedFile, Target
from wheelfit_runtime import __version__

if TYPE_CHECKING:
    from pathlib import Path


_VERSION = 2
_RESULT = ("projects", "releases", "files", "unreferenced", "notes")


def fingerprint(
    folder: Path, options: GenerateOptions, *, in_place: bool, excluded: frozenset[Path]
) -> str:
    """Return a digest of everything that the result of a run depends on."""
    releases = sorted(f"{name}=={version}" for name, version in options.releases)
    flags = (options.keep_going, options.replace, options.prune, options.check_content, in_place)
    files = [(file.name, file.signature) for file in walk(folder, excluded=excluded)]
    text = repr((_VERSION, __version__, releases, flags, files))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class LastRun:
    """The record of the last run.

    :param facts_path: the cache file of facts; the record is beside it, and valid only with it.
    :param fingerprint: the `fingerprint` of this run, taken before it starts.
    """

    def __init__(self, facts_path: Path, fingerprint: str) -> None:
        self._facts_path = facts_path
        self._path = facts_path.with_name(f"{facts_path.name}.last")
        self._fingerprint = fingerprint

    def reusable_result(self, target: Target) -> GenerateResult | None:
        """Return the result of the last run if this one would have the same.

        :param target: the target, which is not locked yet.
        """
        try:
            last = json.loads(self._path.read_bytes())
            if last["fingerprint"] != self._fingerprint or not self._facts_path.exists():
                return None
            files = [  # only looked for on the target, so the path of the content does not matter
                PublishedFile(path, digest, size, self._path)
                for path, digest, size in convert(last["files"], list[tuple[str, str, int]])
            ]
            manifest, pages = last["manifest"], convert(last["pages"], dict[str, str])
            counts = dict(last["result"])
            notes = convert(counts.pop("notes"), tuple[str, ...])
            counts = convert(counts, dict[str, int])
            result = GenerateResult(is_published=True, notes=notes, **counts)
        except (OSError, ValueError, LookupError, TypeError, ValidationError):
            return None
        with target.lock():
            data = target.read(MANIFEST)
            if data is None or hashlib.sha256(data).hexdigest() != manifest:
                return None
            if not all(target.has_page(path, digest) for path, digest in pages.items()):
                return None
            if target.missing(files, [(file.path, file.sha256) for file in files]):
                return None
        return result

    def save(self, result: GenerateResult, *, prune: bool) -> None:
        """Record the result of a run, under the lock of the target.

        :param prune: whether the next run may remove unreferenced files.
        """
        from wheelfit.server.generate.file_facts import write_cache

        state = result.state
        if state is None or result.refused or (prune and result.unreferenced):
            return
        data = {
            "fingerprint": self._fingerprint,
            "manifest": state.manifest,
            "pages": dict(state.pages),
            "files": state.files,
            "result": {name: getattr(result, name) for name in _RESULT},
        }
        with suppress(OSError):
            write_cache(self._path, data)
