"""Take wheels from a lock file (``pylock.toml``, PEP 751) in place of asking an index."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from wheelfit_runtime.errors import Fault, InvalidLock
from wheelfit_runtime.libraries.versions import normalized
from wheelfit_runtime.libraries.wheels import ListedWheel, split_filename

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_lock(path: Path) -> list[ListedWheel]:
    """Return all wheels of a lock; one without a SHA-256 has an empty one.

    :raises InvalidLock: it cannot be read.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return list(_wheels(document, path))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        words = f"the lock file cannot be read: {error}"
        raise InvalidLock([Fault("", words)], where=str(path)) from None


def _wheels(document: dict[str, Any], path: Path) -> Iterator[ListedWheel]:
    told = str(document.get("lock-version", "1.0"))
    if told.partition(".")[0] != "1":
        raise ValueError(f"its version is {told}")
    # What only variants need stands in wheelfit's own entries, which replace those of a release.
    own = document.get("tool", {}).get("wheelfit", {}).get("packages", [])
    replaced = {(package["name"], package.get("version")) for package in own}
    others = (
        package
        for package in document["packages"]
        if (package["name"], package.get("version")) not in replaced
    )
    for package in (*others, *own):
        for wheel in package.get("wheels", ()):
            # A path counts from where the lock is.
            url = wheel.get("url") or Path(path.parent, wheel["path"]).absolute().as_uri()
            filename = wheel.get("name") or unquote(urlsplit(url).path.rpartition("/")[2])
            name = split_filename(filename)
            size = wheel.get("size")
            if name is not None:
                yield ListedWheel(
                    project=normalized(package["name"]),
                    version=str(package.get("version", name[1])),
                    filename=filename,
                    url=url,
                    sha256=str(wheel["hashes"].get("sha256", "")).lower(),
                    size=size if type(size) is int and size > 0 else None,
                )
