"""Have libraries in this process: chosen once per machine, loaded by path in each process.

The first call fetches what is not there yet. A later start of a program reads one small file, looks
whether driver and files are the same, and loads; a later call returns what was loaded.
"""

# A later start of a program comes here: nothing is imported that it could do without.
# ruff: noqa: PTH118, PTH123
from __future__ import annotations

import os
from _thread import RLock, get_ident

from wheelfit.runtime.libraries import settings
from wheelfit.runtime.libraries.families import family_named
from wheelfit.runtime.libraries.selections import name_of, read_selection
from wheelfit.runtime.libraries.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    from collections.abc import Sequence
    from typing import TypedDict, Unpack

    from wheelfit.runtime.driver import Driver
    from wheelfit.runtime.libraries.families import Family
    from wheelfit.runtime.libraries.selections import Chosen, Selection
    from wheelfit.runtime.mapped import Library

    class _Options(TypedDict, total=False):
        """Hold what `initialize` has besides."""

        scope: str
        offline: bool | None
        lock: str | os.PathLike[str] | None
        store: str | os.PathLike[str] | None
        index_url: str | None
        transport: str | None
        cap_to_driver: bool
        several_majors: bool
        progress: bool


__all__ = ["Libraries", "initialize", "initialize_cuda", "prepare"]


def __dir__() -> list[str]:
    return __all__


_DONE: dict[tuple[object, ...], Libraries] = {}
_LOCK = RLock()


_FORKING: set[int] = set()
"""Threads that hold the lock because they fork."""
_PATIENCE_OF_FORKS = 2.0
"""Seconds; whoever has the lock for longer is fetching, and a child may be made meanwhile."""


def _before_fork() -> None:
    # In a child a module that another thread was importing stays locked for ever, and so does
    # the loader of the system.
    if _LOCK.acquire(timeout=_PATIENCE_OF_FORKS):
        _FORKING.add(get_ident())


def _after_fork() -> None:
    if get_ident() in _FORKING:
        _FORKING.discard(get_ident())
        _LOCK.release()


def _in_child() -> None:
    global _LOCK  # noqa: PLW0603 - whoever held it does not exist in a child
    _LOCK = RLock()
    _FORKING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


class Libraries:
    """Hold what was loaded.

    :param family: name of the family.
    :param version: of the family, as ``12.9.1``.
    :param paths: by SONAME, in the order in which they were loaded.
    :param handles: the same, for `ctypes`.
    :param mains: by component: the SONAME of its library.
    :param strangers: by SONAME: files that were mapped already and are used in place of ours.
    :param store: where their wheels lie.
    :param wheels: their hashes.
    """

    __slots__ = (
        *("_handles", "_mains", "_store", "_wheels", "family", "paths", "strangers"),
        "version",
    )

    def __init__(
        self,
        family: str,
        version: str,
        paths: dict[str, str],
        handles: dict[str, ctypes.CDLL],
        mains: dict[str, str],
        strangers: dict[str, str],
        store: Store,
        wheels: tuple[str, ...],
    ) -> None:
        self.family = family
        self.version = version
        self.paths = paths
        self._handles = handles
        self._mains = mains
        self.strangers = strangers
        self._store = store
        self._wheels = wheels

    def __repr__(self) -> str:
        return f"<{self.family} {self.version}: {', '.join(self.paths)}>"

    def path(self, component: str) -> str:
        """Return the file of a component's library, as ``nvrtc``.

        :raises KeyError: it was not asked for.
        """
        return self.paths[self._main(component)]

    def handle(self, component: str) -> ctypes.CDLL:
        """Return a component's library to call functions of.

        :raises KeyError: it was not asked for.
        """
        return self._handles[self._main(component)]

    def _main(self, component: str) -> str:
        try:
            return self._mains[component]
        except KeyError:
            there = ", ".join(self._mains)
            raise KeyError(f"{component} was not asked for, but {there}") from None

    def root(self) -> str:
        """Return a folder with ``include``, ``lib`` and what else a toolkit has, as ``CUDA_PATH``.

        It is made of links when it is first asked for, of all wheels that belong to this.

        :raises StoreUnavailable: the store cannot be written, and it is not there yet.
        """
        from wheelfit.runtime.libraries.folders import joined  # noqa: PLC0415

        return joined(self._store, self._wheels)


def initialize_cuda(
    version: str = "12", components: Sequence[str] | None = None, **options: Unpack[_Options]
) -> Libraries:
    """Have NVIDIA's CUDA libraries in this process; `initialize` has the options.

    :param version: as ``12`` (the newest that the driver runs in full), ``12.8`` or ``13``.
    :param components: as ``nvrtc``, ``cublas``, ``cudnn``; by default ``cudart`` and ``nvrtc``.
    """
    return initialize("cuda", version, components, **options)


def initialize(
    family: str,
    version: str,
    components: Sequence[str] | None = None,
    *,
    scope: str = "local",
    offline: bool | None = None,
    lock: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    index_url: str | None = None,
    transport: str | None = None,
    cap_to_driver: bool = True,
    several_majors: bool = False,
    progress: bool = True,
) -> Libraries:
    """Have libraries of a family in this process, and return what was loaded.

    :param family: as ``cuda``.
    :param version: a major version, or one with its minor numbers.
    :param components: as ``nvrtc``; None: the usual ones.
    :param scope: ``local``, or ``global`` for extensions that were not linked to them.
    :param offline: fetch nothing; None: as ``WHEELFIT_OFFLINE`` says.
    :param lock: a ``pylock.toml`` to take the wheels from.
    :param store: the folder they are kept in; None: as ``WHEELFIT_LIBRARY_STORE`` says.
    :param index_url: where they come from; None: where the installer looks.
    :param transport: ``pip``, ``uv`` or ``http``; None: the first of them that there is.
    :param cap_to_driver: take nothing newer than the driver's own version.
    :param several_majors: load although another major version is loaded.
    :param progress: tell on standard error what takes longer than a second.
    :raises WheelfitError: it cannot be done; the reason is its class.
    """
    wanted = None if components is None else tuple(components)
    key = (family, version, wanted, scope, lock and str(lock), store and str(store), cap_to_driver)
    done = _DONE.get(key)
    if done is not None:
        return done
    try:
        with _LOCK:
            done = _DONE.get(key)
            if done is not None:
                return done
            _refuse_slips(version, components, scope)
            asked = _Asked(
                family, version, wanted, offline, lock, store, index_url, transport, cap_to_driver,
                progress,
            )  # fmt: skip
            doubts = asked.doubts()
            done = _DONE[key] = _loaded(asked, scope, several_majors=several_majors)
    except Exception as error:
        from wheelfit.errors import WheelfitError  # noqa: PLC0415 - mostly there is no error

        if isinstance(error, WheelfitError):
            error.in_full()
        raise
    if doubts:
        from wheelfit.runtime.telling import warn  # noqa: PLC0415 - mostly there is nothing to tell

        for words in doubts:
            warn(words)
    return done


def prepare(
    family: str,
    version: str,
    components: Sequence[str] | None = None,
    *,
    lock: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    index_url: str | None = None,
    transport: str | None = None,
    cap_to_driver: bool = True,
    progress: bool = True,
    driver: Driver | None = None,
    upgrade: bool = False,
) -> Selection:
    """Bring libraries into the store and load nothing; parameters as of `initialize`.

    :param driver: of the machine they are for; None: of this one.
    :param upgrade: look for newer ones although some are there.
    :raises WheelfitError: it cannot be done; the reason is its class.
    """
    wanted = None if components is None else tuple(components)
    asked = _Asked(
        family, version, wanted, False, lock, store, index_url, transport, cap_to_driver, progress,
        driver,
    )  # fmt: skip
    asked.doubts()
    return asked.selection(upgrade=upgrade)


def _refuse_slips(version: object, components: object, scope: str) -> None:
    """Refuse 12 for ``"12"`` and ``"nvrtc"`` for ``["nvrtc"]``, which would fail later, in riddles.

    :raises UserError: it is one of these.
    """
    is_scope = scope in ("local", "global")
    if isinstance(version, str) and not isinstance(components, str) and is_scope:
        return
    from wheelfit.errors import UserError  # noqa: PLC0415

    if not is_scope:
        raise UserError(f"the scope is local or global, not {scope!r}")
    if isinstance(version, str):
        words = f"components are a list of names, not {components!r}"
        raise UserError(words, hint=f'ask for ["{components}"]')
    raise UserError(f"a version is text, not {version!r}", hint=f'ask for "{version}"')


class _Asked:
    """Hold one call, and find what it gets."""

    def __init__(
        self,
        family: str,
        version: str,
        components: tuple[str, ...] | None,
        offline: bool | None,  # noqa: FBT001
        lock: str | os.PathLike[str] | None,
        store: str | os.PathLike[str] | None,
        index_url: str | None,
        transport: str | None,
        cap_to_driver: bool,  # noqa: FBT001
        progress: bool,  # noqa: FBT001
        driver: Driver | None = None,
    ) -> None:
        environ = os.environ
        self.family: Family = family_named(family)
        self.version = version
        self.components = self.family.usual if components is None else components
        root = settings.store_folder(environ) if store is None else os.path.abspath(store)  # noqa: PTH100
        self.store = Store(root, settings.site_stores(environ))
        self.is_offline = settings.is_offline(environ) if offline is None else offline
        self.lock = None if lock is None else os.fspath(lock)
        self.index_url = index_url or settings.index_url(environ)
        self.transport = transport or environ.get("WHEELFIT_LIBRARY_TRANSPORT") or None
        self.cap_to_driver = cap_to_driver
        self.progress = progress
        self.driver = driver
        if driver is None and self.family.has_driver:
            from wheelfit.runtime.driver import read_driver  # noqa: PLC0415

            self.driver = read_driver()
        self.fingerprint = self.driver.fingerprint if self.driver else "any"
        source = b"" if cap_to_driver else b"uncapped"
        if self.lock is not None:
            source += _content(self.lock)
        self.name = name_of(self.family.name, version, self.components, self.fingerprint, source)

    def doubts(self) -> tuple[str, ...]:
        """Return what to warn of.

        :raises NoCompatibleWheel: no GPU of this machine can run any of it.
        """
        if self.driver is None or self.driver.cuda is None:
            return ()
        from wheelfit.runtime.libraries.doubts import doubts_about  # noqa: PLC0415

        return doubts_about(
            self.version, self.components, self.driver, os.environ, cap=self.cap_to_driver
        )

    def selection(
        self,
        *,
        distrusted: Selection | None = None,
        problem: OSError | None = None,
        upgrade: bool = False,
    ) -> Selection:
        """Return what to load, which is in the store then.

        :param distrusted: what could not be loaded, of which damaged files are fetched again.
        :param problem: what the loader said.
        :raises WheelfitError: it cannot be had.
        """
        self.store.refuse_unsafe()
        found = read_selection(self.store, self.name, self.fingerprint)
        if found is not None and distrusted is None and not upgrade and found.is_in(self.store):
            return found
        from wheelfit.runtime.libraries.again import choose  # noqa: PLC0415 - a first start

        return choose(
            self.store,
            found if distrusted is None else distrusted,
            problem,
            family=self.family,
            version=self.version,
            components=self.components,
            name=self.name,
            driver=self.driver,
            fingerprint=self.fingerprint,
            cap_to_driver=self.cap_to_driver,
            is_offline=self.is_offline,
            lock=self.lock,
            transport=self.transport,
            index_url=self.index_url,
            progress=self.progress,
            upgrade=upgrade,
        )


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        from wheelfit.errors import FileProblem  # noqa: PLC0415

        words = f"the lock file cannot be read: {error.strerror}"
        raise FileProblem(words, where=path) from None


# --- loading ----------------------------------------------------------------------------------


def _loaded(asked: _Asked, scope: str, *, several_majors: bool) -> Libraries:
    selection = asked.selection()
    try:
        return _load(asked, selection, scope, several_majors=several_majors)
    except OSError as error:
        # Of the size that it had, and yet not loaded: perhaps it is not what it was.
        selection = asked.selection(distrusted=selection, problem=error)
    try:
        return _load(asked, selection, scope, several_majors=several_majors)
    except OSError as again:
        raise _not_loadable(again) from None


def _load(asked: _Asked, selection: Selection, scope: str, *, several_majors: bool) -> Libraries:
    """Load what was chosen, each by its path.

    :raises OSError: one cannot be loaded.
    """
    import ctypes  # noqa: PLC0415 - 3 ms, and only here

    mode = ctypes.RTLD_GLOBAL if scope == "global" else ctypes.RTLD_LOCAL
    places = {one.soname: _place(asked.store, one) for one in selection.libraries}
    mapped = _mapped()
    strangers: dict[str, str] = {}
    if any(path.rpartition("/")[2].startswith(selection.stems) for path in mapped):
        strangers = _strangers(asked, places, several_majors=several_majors)
    handles = {
        soname: ctypes.CDLL(strangers.get(soname, path), mode) for soname, path in places.items()
    }
    mains = {one.component: one.soname for one in selection.libraries}
    # A loader may have been told to take others (LD_PRELOAD, a hook of LD_AUDIT): see what it took.
    now = _mapped()
    real = {soname: os.path.realpath(path) for soname, path in places.items()}
    if not now.isdisjoint(real.values()):
        for soname, path in real.items():
            if soname not in strangers and path not in now:
                strangers[soname] = next(
                    (one for one in now if one.rpartition("/")[2].startswith(soname)), path
                )
    strangers |= _pulled_in(asked, now - mapped, selection.stems, {*real.values()})
    paths = {soname: strangers.get(soname, path) for soname, path in places.items()}
    wheels = tuple(sha256 for sha256, _, _ in selection.wheels)
    return Libraries(
        selection.family, selection.version, paths, handles, mains, strangers, asked.store, wheels
    )


def _pulled_in(
    asked: _Asked, new: set[str], stems: tuple[str, ...], ours: set[str]
) -> dict[str, str]:
    """Return libraries of the family that came from elsewhere, as ours need them, and warn.

    No wheel that was chosen has them; the next machine may have another version, or none.
    """
    new = {one for one in new - ours if one.rpartition("/")[2].startswith(stems)}
    if not new:
        return {}
    from wheelfit.runtime.telling import warn  # noqa: PLC0415

    below = tuple(f"{os.path.realpath(root)}/" for root in asked.store.roots)
    found = {one.rpartition("/")[2]: one for one in sorted(new) if not one.startswith(below)}
    for path in found.values():
        title = f"{asked.family.title} {asked.version}"
        warn(f"{title} loads {path}, which no wheel of the library store has")
    return found


def _place(store: Store, one: Chosen) -> str:
    entry = store.find(one.sha256)
    if entry is None:
        raise OSError(f"{one.path} is not in the store any more")
    return os.path.join(entry.tree, one.path)


def _mapped() -> set[str]:
    """Return the files that are mapped; where nobody tells, none."""
    try:
        with open("/proc/self/maps", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return set()
    found = {line[line.find(b"/") :] for line in lines if b"/" in line}
    return {os.fsdecode(path.replace(b"\\012", b"\n")) for path in found}  # as it is written there


def _strangers(asked: _Asked, places: dict[str, str], *, several_majors: bool) -> dict[str, str]:
    """Return the libraries that are mapped already under the names of ours.

    :raises AnotherLibraryLoaded: ours cannot be loaded beside what is mapped.
    """
    from wheelfit.errors import AnotherLibraryLoaded  # noqa: PLC0415
    from wheelfit.runtime import mapped  # noqa: PLC0415
    from wheelfit.runtime.telling import warn  # noqa: PLC0415

    ours = [mapped.read_library(path) for path in places.values()]
    here = mapped.read_mapped()
    conflicts = mapped.find_conflicts(ours, here)
    title = asked.family.title
    others = [one for one in conflicts if one.level == "warn"]
    if others and not several_majors:
        raise AnotherLibraryLoaded(
            f"{title} {asked.version} was asked for, and another major version is loaded already",
            note="\n".join(one.reason for one in others),
            hint="use one major version in a process; several_majors=True loads both, and refuses "
            "only what has the same name in both",
        )
    same = [one for one in conflicts if one.level == "error"]
    if same and (others or "." in asked.version):
        raise AnotherLibraryLoaded(
            f"{title} {asked.version} was asked for, and other builds of its libraries are loaded",
            note="\n".join(one.reason for one in same),
            hint="load these first, or ask for the major version only, to use what is loaded",
        )
    for one in same:
        warn(f"{one.reason}; it is used as it is")
    return _same_builds(ours, here) | {one.wanted.soname: one.mapped.path for one in same}


def _same_builds(ours: list[Library], here: tuple[Library, ...]) -> dict[str, str]:
    """Return what is mapped from elsewhere and not ours by path only: loaded twice, it is two."""
    names = {one.soname: os.path.realpath(one.path) for one in ours if one.soname}
    return {
        one.soname: one.path
        for one in here
        if one.soname in names and not one.replaced and one.path != names[one.soname]
    }


def _not_loadable(error: OSError) -> Exception:
    from wheelfit.errors import LibraryNotLoadable  # noqa: PLC0415

    return LibraryNotLoadable(f"the loader of this system refuses a library: {error}")
