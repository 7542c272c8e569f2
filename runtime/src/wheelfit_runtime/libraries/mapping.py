"""Map libraries into this process, each by its path, and verify the files really mapped."""

# A later start of a program comes here: nothing is imported that it could do without.
# ruff: noqa: PTH118, PTH123
from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    from collections.abc import Mapping

    from wheelfit_runtime.libraries.request import LibraryRequest
    from wheelfit_runtime.libraries.selections import ChosenLibrary, Selection
    from wheelfit_runtime.libraries.store import Store
    from wheelfit_runtime.loader.loaded_libraries import Library


class Libraries:
    """The loaded libraries.

    :param version: the version of the family, as ``12.9.1``.
    :param paths: by SONAME, in the order in which they were loaded.
    :param handles: the same, for `ctypes`.
    :param mains: by component: the SONAME of its library.
    :param foreign_paths: by SONAME: files that were mapped already and are used in place of ours.
    """

    __slots__ = (
        *("_handles", "_mains", "_store", "_wheels", "family", "paths", "foreign_paths"),
        "version",
    )

    def __init__(
        self,
        family: str,
        version: str,
        paths: dict[str, str],
        handles: dict[str, ctypes.CDLL],
        mains: dict[str, str],
        foreign_paths: dict[str, str],
        store: Store,
        wheels: tuple[str, ...],
    ) -> None:
        self.family = family
        self.version = version
        self.paths = paths
        self._handles = handles
        self._mains = mains
        self.foreign_paths = foreign_paths
        self._store = store
        self._wheels = wheels

    def __repr__(self) -> str:
        return f"<{self.family} {self.version}: {', '.join(self.paths)}>"

    def path(self, component: str) -> str:
        """Return the file of a component's library, as ``nvrtc``.

        :raises KeyError: it was not requested.
        """
        return self.paths[self._main(component)]

    def handle(self, component: str) -> ctypes.CDLL:
        """Return the `ctypes` handle of a component's library.

        :raises KeyError: it was not requested.
        """
        return self._handles[self._main(component)]

    def _main(self, component: str) -> str:
        try:
            return self._mains[component]
        except KeyError:
            there = ", ".join(self._mains)
            # It was not requested, or it has headers alone.
            raise KeyError(f"no library of {component} was asked for, but of {there}") from None

    def root(self) -> str:
        """Return a folder laid out as a toolkit, with ``include`` and ``lib``, for ``CUDA_PATH``.

        It is created on first use, with links to the files of all wheels in this selection.

        :raises StoreUnavailable: the store cannot be written, and it is not there yet.
        """
        from wheelfit_runtime.libraries.folders import toolkit_folder

        return toolkit_folder(self._store, self._wheels)


def load(
    request: LibraryRequest, selection: Selection, scope: str, *, several_majors: bool
) -> Libraries:
    """Load the chosen libraries, and return them.

    :param scope: ``local`` or ``global``: the visibility of the symbols.
    :raises OSError: one cannot be loaded.
    :raises EnvironmentUnavailable: ``another-library-loaded``; it conflicts with a library loaded
        already.
    """
    import ctypes  # 3 ms

    mode = ctypes.RTLD_GLOBAL if scope == "global" else ctypes.RTLD_LOCAL
    places = {library.soname: _place(request.store, library) for library in selection.libraries}
    mapped = _mapped()
    foreign_paths: dict[str, str] = {}
    if any(path.rpartition("/")[2].startswith(selection.stems) for path in mapped):
        foreign_paths = _conflicts_with_loaded(request, places, several_majors=several_majors)
    handles = {
        soname: ctypes.CDLL(foreign_paths.get(soname, path), mode)
        for soname, path in places.items()
    }
    now = _mapped()
    foreign_paths |= _taken_instead(places, foreign_paths, now)
    ours = {*map(os.path.realpath, places.values()), *foreign_paths.values()}
    foreign_paths |= _pulled_in(request, now - mapped - ours, selection.stems)
    return Libraries(
        selection.family,
        selection.version,
        {soname: foreign_paths.get(soname, path) for soname, path in places.items()},
        handles,
        {library.component: library.soname for library in selection.libraries},
        foreign_paths,
        request.store,
        tuple(sha256 for sha256, _, _ in selection.wheels),
    )


def _conflicts_with_loaded(
    request: LibraryRequest, places: Mapping[str, str], *, several_majors: bool
) -> dict[str, str]:
    """Return the libraries that are mapped already under the names of ours.

    :raises EnvironmentUnavailable: ``another-library-loaded``; ours conflicts with a mapped
        library.
    """
    from wheelfit_runtime.errors import EnvironmentUnavailable
    from wheelfit_runtime.loader import loaded_libraries
    from wheelfit_runtime.loader.caller_warnings import warn

    ours = [loaded_libraries.read_library(path) for path in places.values()]
    here = loaded_libraries.read_mapped()
    conflicts = loaded_libraries.find_conflicts(ours, here)
    others = [conflict for conflict in conflicts if conflict.level == "warn"]
    if others and not several_majors:
        raise EnvironmentUnavailable(
            f"{request} was requested, but another major version is already loaded",
            code="another-library-loaded",
            note="\n".join(conflict.reason for conflict in others),
            hint="use one major version in a process; several_majors=True loads both, and refuses "
            "only what has the same name in both",
        )
    same = [conflict for conflict in conflicts if conflict.level == "error"]
    if same and (others or "." in request.version):
        raise EnvironmentUnavailable(
            f"{request} was requested, but other builds of its libraries are already loaded",
            code="another-library-loaded",
            note="\n".join(conflict.reason for conflict in same),
            # What two major versions have under one name, no order of loading makes go together.
            hint="use one major version in a process: both have libraries of this name"
            if others
            else "load these first, or ask for the major version only, to use what is loaded",
        )
    for conflict in same:
        warn(f"{conflict.reason}; it is used as it is")
    return _same_builds(ours, here) | {
        conflict.wanted.soname: conflict.mapped.path for conflict in same
    }


def _same_builds(ours: list[Library], here: tuple[Library, ...]) -> dict[str, str]:
    """Return the paths of libraries that are mapped from elsewhere; ours would be second copies."""
    names = {library.soname: os.path.realpath(library.path) for library in ours if library.soname}
    return {
        library.soname: library.path
        for library in here
        if library.soname in names
        and not library.replaced
        and library.path != names[library.soname]
    }


def _taken_instead(places: dict[str, str], known: dict[str, str], now: set[str]) -> dict[str, str]:
    """Return the files loaded in place of ours, as LD_PRELOAD or LD_AUDIT may cause."""
    real = {soname: os.path.realpath(path) for soname, path in places.items()}
    if now.isdisjoint(real.values()):
        return {}  # not listed, or under other names
    return {
        soname: other
        for soname, path in real.items()
        if soname not in known and path not in now
        for other in sorted(now)
        if other.rpartition("/")[2].startswith(soname)
    }


def _pulled_in(request: LibraryRequest, new: set[str], stems: tuple[str, ...]) -> dict[str, str]:
    """Return libraries of the family that came from elsewhere, as ours need them, and warn.

    No wheel that was chosen has them; the next machine may have another version, or none.
    """
    new = {path for path in new if path.rpartition("/")[2].startswith(stems)}
    if not new:
        return {}
    from wheelfit_runtime.loader.caller_warnings import warn

    below = tuple(f"{os.path.realpath(root)}/" for root in request.store.roots)
    paths = {path.rpartition("/")[2]: path for path in sorted(new) if not path.startswith(below)}
    for path in paths.values():
        warn(f"{request} loads {path}, which no wheel of the library store has")
    return paths


def _place(store: Store, library: ChosenLibrary) -> str:
    entry = store.find(library.sha256)
    if entry is None:
        raise OSError(f"{library.path} is not in the store any more")
    return os.path.join(entry.tree, library.path)


def _mapped() -> set[str]:
    """Return the mapped files; none where the system does not list them."""
    try:
        with open("/proc/self/maps", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return set()
    paths = {line[line.find(b"/") :] for line in lines if b"/" in line}
    return {os.fsdecode(path.replace(b"\\012", b"\n")) for path in paths}  # as it is written there
