"""Stored selections of libraries, so that later starts of a program need no request."""

# Every later start of a program imports this module, so it imports as little as possible.
# ruff: noqa: PTH118
from __future__ import annotations

import os

from wheelfit_runtime.libraries.files import (
    make_folder,
    names_in,
    read_fields,
    stays_below,
    write_fields,
)
from wheelfit_runtime.libraries.store import Store, is_hash

_FORMAT = "1"
_SAFE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-"


class ChosenLibrary:
    """A library of a selection.

    :param path: the path below the ``tree`` of the wheel.
    :param size: the size in bytes.
    """

    def __init__(self, sha256: str, path: str, size: int, soname: str, component: str) -> None:
        self.sha256 = sha256
        self.path = path
        self.size = size
        self.soname = soname
        self.component = component


class Selection:
    """The chosen libraries.

    :param fingerprint: the fingerprint of the driver it was chosen for.
    :param span: the versions among which the newest was chosen.
    :param wheels: SHA-256, project and version of each wheel.
    :param libraries: in the order in which they are loaded.
    :param stems: the prefixes of the family's library names.
    """

    def __init__(
        self,
        *,
        family: str,
        requested_version: str,
        components: tuple[str, ...],
        fingerprint: str,
        span: str,
        version: str,
        wheels: tuple[tuple[str, str, str], ...],
        libraries: tuple[ChosenLibrary, ...],
        stems: tuple[str, ...],
        is_locked: bool = False,
    ) -> None:
        self.family = family
        self.requested_version = requested_version
        self.components = components
        self.fingerprint = fingerprint
        self.span = span
        self.version = version
        self.wheels = wheels
        self.libraries = libraries
        self.stems = stems
        self.is_locked = is_locked

    def for_fingerprint(self, fingerprint: str, requested_version: str) -> Selection:
        """Return a copy for another machine or request."""
        from copy import copy

        other = copy(self)
        other.fingerprint = fingerprint
        other.requested_version = requested_version
        return other

    def is_in(self, store: Store) -> bool:
        """Return whether all its libraries are in a store, with unchanged size."""
        for library in self.libraries:
            entry = store.find(library.sha256)
            try:
                if entry is None or os.stat(f"{entry.tree}/{library.path}").st_size != library.size:  # noqa: PTH116
                    return False
            except OSError:
                return False
        return True


def selection_name(
    family: str, version: str, components: tuple[str, ...], fingerprint: str, source: bytes = b""
) -> str:
    """Return the name of the file of a selection.

    It depends on the machine, because machines with different drivers may share a home folder.

    :param source: further input of the selection, as the content of a lock.
    """
    from zlib import crc32

    text = f"{family}-{version}-{'+'.join(components)}"
    number = crc32(f"{text}\n{fingerprint}\n{_machine()}".encode() + source)
    return "".join(char if char in _SAFE else "_" for char in text)[:120] + f"-{number:08x}"


def _machine() -> str:
    return os.uname().machine if hasattr(os, "uname") else ""


def read_selection(store: Store, name: str, fingerprint: str) -> Selection | None:
    """Return a selection that was made for this machine; None: there is none."""
    for root in store.roots:
        selection = _read(os.path.join(root, "selections", f"{name}.txt"))
        if selection is not None and selection.fingerprint == fingerprint:
            return selection
    return None


def read_all(store: Store) -> list[Selection]:
    """Return all selections that were made for machines of this architecture."""
    selections = (_read(path) for path in selection_files(store))
    return [selection for selection in selections if selection is not None]


def selection_files(store: Store) -> list[str]:
    """Return the paths of all selections, for all machines."""
    paths = []
    for root in store.roots:
        folder = os.path.join(root, "selections")
        paths += [os.path.join(folder, name) for name in names_in(folder) if name.endswith(".txt")]
    return paths


def chosen_hashes(path: str) -> set[str]:
    """Return the SHA-256 of each wheel in a selection file, even in a later format."""
    return {field for line in read_fields(path) or () for field in line if is_hash(field)}


def write_selection(store: Store, name: str, selection: Selection) -> None:
    """Store a selection."""
    folder = os.path.join(store.root, "selections")
    make_folder(folder)
    lines: list[tuple[str, ...]] = [
        ("selection", _FORMAT),
        ("machine", _machine()),
        ("family", selection.family),
        ("asked", selection.requested_version),
        ("components", *selection.components),
        ("fingerprint", selection.fingerprint),
        ("span", selection.span),
        ("version", selection.version),
        ("stems", *selection.stems),
        *([("locked",)] if selection.is_locked else ()),
        *(("wheel", *wheel) for wheel in selection.wheels),
        *(
            (
                "load",
                library.sha256,
                library.path,
                str(library.size),
                library.soname,
                library.component,
            )
            for library in selection.libraries
        ),
    ]
    write_fields(os.path.join(folder, f"{name}.txt"), lines)


def _read(path: str) -> Selection | None:
    lines = read_fields(path)
    if lines is None or lines[:1] != [["selection", _FORMAT]]:
        return None
    try:
        fields = {line[0]: line[1:] for line in lines}
        if fields["machine"] != [_machine()]:
            return None
        return Selection(
            family=fields["family"][0],
            requested_version=fields["asked"][0],
            components=tuple(fields["components"]),
            fingerprint=fields["fingerprint"][0],
            span=fields["span"][0],
            version=fields["version"][0],
            stems=tuple(fields["stems"]),
            is_locked="locked" in fields,
            wheels=tuple(
                (sha256, project, version)
                for _, sha256, project, version in _lines_of(lines, "wheel")
            ),
            libraries=tuple(
                ChosenLibrary(sha256, _checked_path(path), int(size), soname, component)
                for _, sha256, path, size, soname, component in _lines_of(lines, "load")
            ),
        )
    except (KeyError, IndexError, ValueError):
        return None


def _lines_of(lines: list[list[str]], key: str) -> list[list[str]]:
    return [line for line in lines if line[0] == key]


def _checked_path(path: str) -> str:
    if not stays_below(path):
        raise ValueError(f"{path} leads out of the store")
    return path
