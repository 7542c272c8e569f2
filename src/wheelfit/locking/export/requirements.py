"""Requirements with hashes, as pip and uv read them: exactly the wheels of one machine."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

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
) -> str:
    """Return a file of requirements.

    A plain wheel is a version with its hash, for any index that has the file. A variant wheel
    has no name but its own, so it is a URL; a copy under the name of a plain wheel is a version
    with the hash of the copy.

    :param contents: what the machine gets.
    :param copies: SHA-256 of copies of variant wheels, by project.
    :param folder: where the copies lie, for the tool that reads the file.
    :raises UserError: a wheel has no hash that pip takes, or the folder cannot be named.
    """
    lines = [f"# {line}" for line in _head(contents)]
    if folder is not None:
        if not folder.isprintable() or "${" in folder:  # readers would put a variable there
            raise UserError(
                "a file of requirements cannot lead to this folder",
                where=folder,
                hint="name a folder without ${ and without line breaks",
            )
        lines.append(f"--find-links {quote(folder)}")
    for package in contents.packages:
        pin = package.pin
        if pin.label is not None:
            lines.append(f"# {pin.name}: label {pin.label}, for {_visible(contents.target.name)}")
        if pin.file.is_selector and pin.name not in (copies or {}):
            continue  # it exists nowhere; what it stands for has a line of its own
        lines.append(_line(pin, (copies or {}).get(pin.name)))
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


def _line(pin: Pin, copied: str | None) -> str:
    if copied is not None:
        return f"{pin.name}=={pin.version} --hash=sha256:{copied}"
    algorithm, digest = _hash(pin)
    if pin.label is None and not pin.is_given and not pin.file.is_local:
        return f"{pin.name}=={pin.version} --hash={algorithm}:{digest}"
    url = pin.file.url.replace("{", "%7B")  # who reads ${NAME} puts a variable there
    return f"{pin.name} @ {url}#{algorithm}={digest}"


def _hash(pin: Pin) -> tuple[str, str]:
    for algorithm in _STRONG_HASHES:
        if algorithm in pin.file.hashes:
            return algorithm, pin.file.hashes[algorithm]
    raise UserError(
        f"{pin.filename.text} has no hash that a file of requirements may have",
        note=f"the lock has {', '.join(sorted(pin.file.hashes))}",
        hint="lock it again from an index that promises sha256",
    )


def _visible(text: str) -> str:
    """Keep words of others on their line: the next one would be read as a requirement."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
