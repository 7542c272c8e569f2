"""Requirements with hashes, as pip and uv read them: exactly the wheels of one machine."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, cast

from wheelfit.sources.urls import file_path
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.locking.export.contents import Contents
    from wheelfit.resolution.resolution import Pin

_STRONG_HASHES = ("sha256", "sha384", "sha512")
"""The algorithms that pip takes in a file of requirements, the usual one first."""


def requirements_text(
    contents: Contents,
    copies: Mapping[NormalizedName, str] | None = None,
    folder: str | None = None,
    start: Path = Path(),
) -> str:
    """Return a file of requirements.

    A plain wheel is a version with its hash, for any index that has the file, and so is a source
    distribution. A variant wheel has no name but its own, so it is a URL; a copy under the name of
    a plain wheel is a version with the hash of the copy. Folders and repositories have no hash, and
    pip takes none beside one that has; so the others are URLs with a hash then.

    :param contents: the packages of the machine.
    :param copies: SHA-256 of copies of variant wheels, by project.
    :param folder: the folder of the copies, for the tool that reads the file.
    :param start: the folder from which paths lead.
    :raises UserError: a file has no hash that pip takes, or a folder cannot be named.
    """
    lines = [f"# {line}" for line in _head(contents)]
    if folder is not None:
        lines.append(f"--find-links {quote(_readable(folder))}")
    is_hashed = all(one.pin.file.hashes or one.pin.file.is_selector for one in contents.packages)
    for package in contents.packages:
        pin = package.pin
        if pin.label is not None:
            lines.append(f"# {pin.name}: label {pin.label}, for {_visible(contents.target.name)}")
        if pin.file.is_selector and pin.name not in (copies or {}):
            continue  # it exists nowhere; what it stands for has a line of its own
        if pin.file.hashes:
            lines.append(_line(pin, (copies or {}).get(pin.name), is_hashed=is_hashed))
        else:
            lines.append(_unhashed(pin, start))
    return "\n".join((*lines, ""))


def _head(contents: Contents) -> Iterator[str]:
    target = contents.target
    yield f"What {_visible(target.name)} gets from {_visible(contents.lock)}, and no other machine."
    if target.words:
        yield f"Machine: {_visible(target.words)}"
    yield f"Python: {_visible(target.python)}, platform: {_visible(target.platform)}"
    for override in target.overrides:
        yield f"In effect: {_visible(override)}"
    yield f"Lock: sha256:{contents.digest}"


def _line(pin: Pin, copied: str | None, *, is_hashed: bool) -> str:
    if copied is not None:
        return f"{pin.name}=={pin.version}" + (f" --hash=sha256:{copied}" if is_hashed else "")
    algorithm, digest = _hash(pin)
    is_listed = pin.label is None and not pin.is_given and not pin.file.is_local
    if is_listed and is_hashed and (pin.file.origin is None or not pin.file.origin.direct_url):
        return f"{pin.name}=={pin.version} --hash={algorithm}:{digest}"
    url, _, fragment = _escaped(pin.file.url).partition("#")
    return f"{pin.name} @ {url}#{fragment}{'&' if fragment else ''}{algorithm}={digest}"


def _unhashed(pin: Pin, start: Path) -> str:
    """Return the line of a folder or repository."""
    about = {} if pin.file.origin is None else pin.file.origin.direct_url or {}
    if "vcs_info" in about:
        return f"{pin.name} @ {_escaped(pin.file.url)}"
    path = Path(os.path.relpath(file_path(pin.file.url), start)).as_posix()
    is_editable = bool(cast("Mapping[str, object]", about.get("dir_info", {})).get("editable"))
    return ("-e " if is_editable else "") + _readable(path if path[:1] == "." else f"./{path}")


def _escaped(url: str) -> str:
    return url.replace("{", "%7B")  # who reads ${NAME} puts a variable there


def _readable(folder: str) -> str:
    """Return a folder that a file of requirements can lead to.

    :raises UserError: it cannot.
    """
    if not folder.isprintable() or "${" in folder:  # readers would put a variable there
        raise UserError(
            "a requirements file cannot lead to this folder",
            where=folder,
            hint="name a folder without ${ and without line breaks",
        )
    return folder


def _hash(pin: Pin) -> tuple[str, str]:
    for algorithm in _STRONG_HASHES:
        if algorithm in pin.file.hashes:
            return algorithm, pin.file.hashes[algorithm]
    raise UserError(
        f"{pin.file.shown} has no hash for a requirements file",
        note=f"the lock has {', '.join(sorted(pin.file.hashes))}",
        hint="lock again from an index that lists sha256",
    )


def _visible(text: str) -> str:
    """Keep words of others on their line: the next one would be read as a requirement."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
