"""A requirements file with hashes, for pip and uv, of exactly the wheels of one machine."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, cast

from wheelfit.sources.urls import file_path, relative_path
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.locking.export.contents import Contents
    from wheelfit.resolution.resolution import Pin

# pip and uv expand ${NAME}; the others begin a marker, a comment or an option.
_UNREADABLE = re.compile(r"\$\{|;| [#-]")
_SHELL_CHARACTERS = frozenset(" '\"\\")
_STRONG_HASHES = ("sha256", "sha384", "sha512")
"""The hash algorithms that pip accepts in a requirements file, the usual one first."""


def requirements_text(
    contents: Contents,
    copies: Mapping[NormalizedName, str] | None = None,
    folder: str | None = None,
    start: Path = Path(),
) -> str:
    """Return a requirements file.

    A plain wheel or source distribution is listed by version and hash, for any index with the file.
    pip does not find a variant wheel by its version, so it is listed by URL; a copy of it under the
    name of a plain wheel is listed by version and hash. If there is a folder or repository, which
    has no hash, pip refuses ``--hash`` options; then all other packages are listed by URL and hash.

    :param copies: SHA-256 of copies of variant wheels, by project.
    :param folder: the folder of the copies, for the tool that reads the file.
    :param start: the base of relative paths.
    :raises UserError: a file has no hash that pip accepts, or a folder cannot be named.
    """
    lines = [f"# {line}" for line in _comments(contents)]
    if folder is not None:
        lines.append(f"--find-links {quote(_checked_folder(folder))}")
    is_hashed = all(
        package.pin.file.hashes or package.pin.file.is_selector for package in contents.packages
    )
    for package in contents.packages:
        pin = package.pin
        if pin.label is not None:
            lines.append(f"# {pin.name}: label {pin.label}, for {_printable(contents.target.name)}")
        if pin.file.is_selector and pin.name not in (copies or {}):
            continue  # generated, not published; the wheel that it requires has its own line
        if pin.file.hashes:
            lines.append(_line(pin, (copies or {}).get(pin.name), is_hashed=is_hashed))
        else:
            lines.append(_unhashed_line(pin, start))
    return "\n".join((*lines, ""))


def _comments(contents: Contents) -> Iterator[str]:
    target = contents.target
    yield f"The packages of {_printable(contents.lock)} for {_printable(target.name)} alone."
    if target.description:
        yield f"Machine: {_printable(target.description)}"
    yield f"Python: {_printable(target.python)}, platform: {_printable(target.platform)}"
    for override in target.overrides:
        yield f"In effect: {_printable(override)}"
    yield f"Lock: sha256:{contents.digest}"


def _line(pin: Pin, copied: str | None, *, is_hashed: bool) -> str:
    if copied is not None:
        return f"{pin.name}=={pin.version}" + (f" --hash=sha256:{copied}" if is_hashed else "")
    algorithm, digest = _hash(pin)
    is_named_source = pin.file.origin is not None and bool(pin.file.origin.direct_url)
    is_on_index = not (pin.is_direct or pin.file.is_local or is_named_source)
    if pin.label is None and is_on_index and is_hashed:
        return f"{pin.name}=={pin.version} --hash={algorithm}:{digest}"
    url, _, fragment = _escaped(pin.file.url).partition("#")
    return f"{pin.name} @ {url}#{fragment}{'&' if fragment else ''}{algorithm}={digest}"


def _unhashed_line(pin: Pin, start: Path) -> str:
    """Return the line of a folder or repository."""
    direct_url = {} if pin.file.origin is None else pin.file.origin.direct_url or {}
    if "vcs_info" in direct_url:
        return f"{pin.name} @ {_escaped(pin.file.url)}"
    path = _checked_folder(relative_path(file_path(pin.file.url), start))
    if path[:1] != "." and not Path(path).is_absolute():
        path = f"./{path}"
    dir_info = cast("Mapping[str, object]", direct_url.get("dir_info", {}))
    if not dir_info.get("editable"):
        return path
    # pip splits options as a shell does, so a path with one of these characters needs quotes.
    return f"-e {path if _SHELL_CHARACTERS.isdisjoint(path) else quote(path)}"


def _escaped(url: str) -> str:
    # pip and uv expand ${NAME}, and a semicolon begins a marker for pip.
    return url.replace("{", "%7B").replace(";", "%3B")


def _checked_folder(folder: str) -> str:
    """Check that a requirements file can name a folder, and return it.

    :raises UserError: it cannot.
    """
    if not folder.isprintable() or _UNREADABLE.search(folder):
        raise UserError(
            "a requirements file cannot name this folder",
            where=folder,
            hint="name a folder without ${, ;, line breaks, and # or - after a space",
        )
    return folder


def _hash(pin: Pin) -> tuple[str, str]:
    for algorithm in _STRONG_HASHES:
        if algorithm in pin.file.hashes:
            return algorithm, pin.file.hashes[algorithm]
    raise UserError(
        f"{pin.file.display_name} has no hash for a requirements file",
        note=f"the lock has {', '.join(sorted(pin.file.hashes))}",
        hint="lock again from an index that lists sha256",
    )


def _printable(text: str) -> str:
    """Replace unprintable characters, such as line breaks, which would begin a requirement."""
    return "".join(character if character.isprintable() else "�" for character in text)
