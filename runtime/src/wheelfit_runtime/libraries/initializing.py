"""Load libraries into this process: chosen once per machine, loaded by path in each process.

The first call fetches missing libraries. A later start of a program reads one small file, checks
whether driver and files are the same, and loads them; a later call returns the loaded libraries.
"""

# Imported at every start of a program with libraries, so it imports as little as possible.
from __future__ import annotations

import os
from _thread import RLock, get_ident

from wheelfit_runtime.libraries.mapping import Libraries, load
from wheelfit_runtime.libraries.request import LibraryRequest
from wheelfit_runtime.libraries.selections import Selection, read_selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypedDict, Unpack

    from wheelfit_runtime.loader.driver import Driver

    class _Options(TypedDict, total=False):
        lock: str | os.PathLike[str] | None
        store: str | os.PathLike[str] | None
        index_url: str | None
        transport: str | None
        cap_to_driver: bool
        progress: bool

    class _PrefetchOptions(_Options, total=False):
        driver: Driver | None
        upgrade: bool

    class _LoadOptions(_Options, total=False):
        scope: str
        offline: bool | None
        several_majors: bool


_LOADED: dict[tuple[object, ...], Libraries] = {}
_LOCK = RLock()
_FORKING: set[int] = set()
"""Threads that have the lock because they fork."""
_MAX_WAIT_OF_FORKS = 2.0
"""Seconds; a thread that has the lock for longer is fetching, and forking is safe meanwhile."""


def _before_fork() -> None:
    # Wait until no thread imports or loads: the import lock, or that of the system's loader, would
    # stay locked in the child.
    if _LOCK.acquire(timeout=_MAX_WAIT_OF_FORKS):
        _FORKING.add(get_ident())


def _after_fork_in_parent() -> None:
    if get_ident() in _FORKING:
        _FORKING.discard(get_ident())
        _LOCK.release()


def _after_fork_in_child() -> None:
    global _LOCK  # noqa: PLW0603 - the thread that has it does not exist in a child
    _LOCK = RLock()
    _FORKING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def initialize_cuda(
    version: str = "12", components: Sequence[str] | None = None, **options: Unpack[_LoadOptions]
) -> Libraries:
    """Load NVIDIA's CUDA libraries into this process; `initialize` has the options.

    :param version: as ``12`` (the newest that the driver fully supports), ``12.8`` or ``13``.
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
    """Load libraries of a family into this process, and return them.

    :param family: as ``cuda``.
    :param version: a major version, or one with its minor numbers.
    :param components: as ``nvrtc``; None: the default ones.
    :param scope: ``local``, or ``global`` for extensions that were not linked to them.
    :param offline: fetch nothing; None: the value of ``WHEELFIT_OFFLINE``.
    :param lock: a ``pylock.toml`` to take the wheels from; None: the index decides.
    :param store: the folder they are kept in; None: the value of ``WHEELFIT_LIBRARY_STORE``.
    :param index_url: the index; None: the value of ``WHEELFIT_LIBRARY_INDEX``, or else the
        installer's index.
    :param transport: ``pip``, ``uv`` or ``http``; None: the value of
        ``WHEELFIT_LIBRARY_TRANSPORT``, or else the first available one.
    :param cap_to_driver: take nothing newer than the driver's own version.
    :param several_majors: load although another major version is loaded.
    :param progress: report operations longer than a second on standard error.
    :raises WheelfitError: the libraries are not available; the class is the reason.
    """
    names = None if components is None else tuple(components)
    key = (
        family,
        version,
        names,
        scope,
        lock and str(lock),
        store and str(store),
        cap_to_driver,
    )
    loaded = _LOADED.get(key)
    if loaded is not None:
        return loaded
    try:
        with _LOCK:
            loaded = _LOADED.get(key)
            if loaded is not None:
                return loaded
            _check_arguments(version, components, scope)
            request = LibraryRequest(
                family,
                version,
                names,
                os.environ,
                offline=offline,
                lock=lock,
                store=store,
                index_url=index_url,
                transport=transport,
                cap_to_driver=cap_to_driver,
                progress=progress,
            )
            warnings = request.warnings()
            loaded = _LOADED[key] = _load(request, scope, several_majors=several_majors)
            if request.lock is not None:
                warnings = request.warnings(loaded.version)  # which the lock decided
    except Exception as error:
        from wheelfit_runtime.errors import WheelfitError

        if isinstance(error, WheelfitError):
            error.with_parts_as_notes()
        raise
    if warnings:
        from wheelfit_runtime.loader.caller_warnings import warn

        for warning in warnings:
            warn(warning)
    return loaded


def prepare(
    family: str,
    version: str,
    components: Sequence[str] | None = None,
    **options: Unpack[_PrefetchOptions],
) -> Selection:
    """Fetch libraries into the store, without loading them; parameters as of `LibraryRequest`.

    :raises WheelfitError: the libraries are not available; the class is the reason.
    """
    _check_arguments(version, components)
    names = None if components is None else tuple(components)
    request = LibraryRequest(
        family, version, names, os.environ, offline=False, is_prefetch=True, **options
    )
    request.warnings()  # raises if the version has no code for any GPU of this machine
    return _select(request)


def _check_arguments(version: object, components: object, scope: str = "local") -> None:
    """Check the types of arguments: 12 for ``"12"`` and ``"nvrtc"`` for ``["nvrtc"]`` are refused.

    :raises UserError: an argument has the wrong type.
    """
    is_scope = scope in ("local", "global")
    if isinstance(version, str) and not isinstance(components, str) and is_scope:
        return
    from wheelfit_runtime.errors import UserError

    if not is_scope:
        raise UserError(f"the scope must be local or global, not {scope!r}")
    if isinstance(version, str):
        message = f"components must be a list of names, not {components!r}"
        raise UserError(message, hint=f'ask for ["{components}"]')
    raise UserError(f"a version must be a string, not {version!r}", hint=f'ask for "{version}"')


def _select(
    request: LibraryRequest, distrusted: Selection | None = None, problem: OSError | None = None
) -> Selection:
    """Return the libraries to load, after fetching missing ones into the store.

    :param distrusted: a selection that could not be loaded; its damaged files are fetched again.
    :param problem: the reason it could not be loaded.
    """
    request.store.check_safe()
    previous = distrusted or read_selection(
        request.store, request.selection_name, request.fingerprint
    )
    if previous and not distrusted and not request.upgrade and previous.is_in(request.store):
        return previous
    from wheelfit_runtime.libraries.selecting import choose

    return choose(request, previous, problem)


def _load(request: LibraryRequest, scope: str, *, several_majors: bool) -> Libraries:
    selection = _select(request)
    try:
        return load(request, selection, scope, several_majors=several_majors)
    except OSError as error:
        # A file may be damaged although its size is right.
        selection = _select(request, selection, error)
    try:
        return load(request, selection, scope, several_majors=several_majors)
    except OSError as error:
        from wheelfit_runtime.errors import EnvironmentUnavailable

        message = f"the loader of this system refuses a library: {error}"
        raise EnvironmentUnavailable(message, code="library-not-loadable") from None
