"""Load libraries into this process, each by its path, and check which files were mapped."""

# Imported at every start of a program with libraries, so it imports as little as possible.
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

    :param version: the version of the family, such as ``12.9.1``.
    :param paths: by SONAME, in the order in which they were loaded.
    :param handles: the same, for `ctypes`.
    :param mains: the SONAME of each component's library.
    :param foreign_paths: by SONAME, files from elsewhere that are used instead of the store's.
    """

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
        """Return the file of a component's library, such as ``nvrtc``.

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
            names = ", ".join(self._mains)
            # It was not requested, or has only headers.
            raise KeyError(f"no library of {component} was requested, but of {names}") from None

    def root(self) -> str:
        """Return a folder laid out as a toolkit, with ``include`` and ``lib``, for ``CUDA_PATH``.

        It is created on first use, with links to the files of all wheels in this selection.

        :raises StoreUnavailable: it does not exist, and the store cannot be written.
        """
        from wheelfit_runtime.libraries.folders import toolkit_folder

        return toolkit_folder(self._store, self._wheels)


def load(
    request: LibraryRequest, selection: Selection, scope: str, *, several_majors: bool
) -> Libraries:
    """Load the chosen libraries, and return them.

    :param scope: ``local`` or ``global``: the visibility of the symbols.
    :param several_majors: whether another loaded major version is no conflict.
    :raises OSError: one cannot be loaded.
    :raises EnvironmentUnavailable: ``another-library-loaded``; it conflicts with a library loaded
        already.
    """
    import ctypes  # 3 ms

    mode = ctypes.RTLD_GLOBAL if scope == "global" else ctypes.RTLD_LOCAL
    paths = {library.soname: _path_of(request.store, library) for library in selection.libraries}
    mapped = _mapped_files()
    # Files from elsewhere, by name: loaded already, loaded instead of others, or needed by others.
    foreign_paths: dict[str, str] = {}
    if any(path.rpartition("/")[2].startswith(selection.stems) for path in mapped):
        foreign_paths = _loaded_from_elsewhere(request, paths, several_majors=several_majors)
    handles = {
        soname: ctypes.CDLL(foreign_paths.get(soname, path), mode) for soname, path in paths.items()
    }
    mapped_now = _mapped_files()
    foreign_paths |= _substituted(paths, foreign_paths, mapped_now)
    expected = {*map(os.path.realpath, paths.values()), *foreign_paths.values()}
    foreign_paths |= _foreign_needs(request, mapped_now - mapped - expected, selection.stems)
    return Libraries(
        selection.family,
        selection.version,
        {soname: foreign_paths.get(soname, path) for soname, path in paths.items()},
        handles,
        {library.component: library.soname for library in selection.libraries},
        foreign_paths,
        request.store,
        tuple(sha256 for sha256, _, _ in selection.wheels),
    )


def _loaded_from_elsewhere(
    request: LibraryRequest, paths: Mapping[str, str], *, several_majors: bool
) -> dict[str, str]:
    """Return the paths of libraries that are mapped already, by SONAME; they are used instead.

    Warn of those that are other builds.

    :param paths: the paths of the libraries to load, by SONAME.
    :raises EnvironmentUnavailable: ``another-library-loaded``; one conflicts with a mapped library.
    """
    from wheelfit_runtime.errors import EnvironmentUnavailable
    from wheelfit_runtime.loader import loaded_libraries
    from wheelfit_runtime.loader.caller_warnings import warn

    libraries = [loaded_libraries.read_library(path) for path in paths.values()]
    mapped = loaded_libraries.read_mapped()
    conflicts = loaded_libraries.find_conflicts(libraries, mapped)
    # "warn" is the level of another major version, "error" that of another build of a name.
    other_majors = [conflict for conflict in conflicts if conflict.level == "warn"]
    if other_majors and not several_majors:
        raise EnvironmentUnavailable(
            f"{request} was requested, but another major version is already loaded",
            code="another-library-loaded",
            note="\n".join(conflict.reason for conflict in other_majors),
            hint="use one major version in a process; several_majors=True loads both, and refuses "
            "only what has the same name in both",
        )
    same_names = [conflict for conflict in conflicts if conflict.level == "error"]
    accepts_any_minor = "." not in request.version  # then another build will do
    if same_names and (other_majors or not accepts_any_minor):
        raise EnvironmentUnavailable(
            f"{request} was requested, but other builds of its libraries are already loaded",
            code="another-library-loaded",
            note="\n".join(conflict.reason for conflict in same_names),
            # A name in two major versions conflicts in any order of loading.
            hint="use one major version in a process: both have libraries of this name"
            if other_majors
            else "load these first, or ask for the major version only, to use what is loaded",
        )
    for conflict in same_names:
        warn(f"{conflict.reason}; it is used as it is")
    return _same_builds(libraries, mapped) | {
        conflict.wanted.soname: conflict.mapped.path for conflict in same_names
    }


def _same_builds(libraries: list[Library], mapped: tuple[Library, ...]) -> dict[str, str]:
    """Return the paths of libraries that are already mapped from elsewhere in the same build."""
    wanted_paths = {
        library.soname: os.path.realpath(library.path) for library in libraries if library.soname
    }
    return {
        library.soname: library.path
        for library in mapped
        if library.soname in wanted_paths
        and not library.replaced
        and library.path != wanted_paths[library.soname]
    }


def _substituted(
    paths: dict[str, str], foreign: dict[str, str], mapped: set[str]
) -> dict[str, str]:
    """Return the files loaded instead of the requested ones, as by LD_PRELOAD or LD_AUDIT."""
    real_paths = {soname: os.path.realpath(path) for soname, path in paths.items()}
    if mapped.isdisjoint(real_paths.values()):
        return {}  # the system lists no files, or under other names
    return {
        soname: other
        for soname, path in real_paths.items()
        if soname not in foreign and path not in mapped
        for other in sorted(mapped)
        if other.rpartition("/")[2].startswith(soname)
    }


def _foreign_needs(
    request: LibraryRequest, new: set[str], stems: tuple[str, ...]
) -> dict[str, str]:
    """Return libraries of the family from elsewhere that loaded libraries need, and warn.

    No chosen wheel has them; the next machine may have another version, or none.
    """
    new = {path for path in new if path.rpartition("/")[2].startswith(stems)}
    if not new:
        return {}
    from wheelfit_runtime.loader.caller_warnings import warn

    stores = tuple(f"{os.path.realpath(root)}/" for root in request.store.roots)
    paths = {path.rpartition("/")[2]: path for path in sorted(new) if not path.startswith(stores)}
    for path in paths.values():
        warn(f"{request} loads {path}, which no wheel of the library store has")
    return paths


def _path_of(store: Store, library: ChosenLibrary) -> str:
    entry = store.find(library.sha256)
    if entry is None:
        raise OSError(f"{library.path} is not in the store any more")
    return os.path.join(entry.tree, library.path)


def _mapped_files() -> set[str]:
    """Return the mapped files; none if the system does not list them."""
    try:
        with open("/proc/self/maps", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return set()
    paths = {line[line.find(b"/") :] for line in lines if b"/" in line}
    return {os.fsdecode(path.replace(b"\\012", b"\n")) for path in paths}  # the kernel escapes it
