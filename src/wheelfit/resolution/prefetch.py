"""Prefetch of metadata by threads, so that many small requests run at the same time.

The solver reads one release after the other. When it reads the requirements of a release, threads
fetch the listings of these projects and the metadata of the releases that will probably be chosen,
then the same for their requirements, and so on. This only fills the cache of `Candidates`:
decisions do not depend on it.

The threads start once the solver makes no progress for a moment, as when it waits for a server. As
long as the cache has all answers, threads would only take processor time from the solver.
"""

from __future__ import annotations

import time
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.problem import Dependency, Package

    ReadDependencies = Callable[[Package, Version], Iterable[Dependency]]
    """Returns the probable dependencies of a release; called from any thread."""

_IDLE_TIME = 0.01
"""Seconds without a new announcement, and without processor time, after which the solver seems to
wait."""


class Prefetch:
    """A background fetch of data that will probably be needed; a context manager.

    :param threads: the number of concurrent requests; 0 turns it off.
    """

    def __init__(
        self,
        candidates: Candidates,
        *,
        threads: int = 12,
        prereleases: bool = False,
        preferred: Mapping[NormalizedName, Version] = MappingProxyType({}),
    ) -> None:
        self._candidates = candidates
        self._preferred = preferred
        self._prereleases = prereleases
        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads = threads
        self._started: list[Thread] = []
        self._announced: set[Package | tuple[NormalizedName, Version]] = set()
        self._lock = Lock()
        self._closed = False
        self._announcements = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        # The results of running requests are not needed any more, and the threads are daemons.
        with self._lock:
            self._closed = True
        for _ in self._started:
            self._queue.put(None)

    def prefetch(self, dependency: Dependency, read_dependencies: ReadDependencies) -> None:
        """Queue the listing of a package, its probable release, and those of its requirements."""
        self._submit(dependency.package, partial(self._fetch, dependency, read_dependencies))

    def prefetch_release(self, name: NormalizedName, version: Version) -> None:
        """Queue the data that decides whether a release is usable."""
        self._submit((name, version), partial(self._read_release, name, version))

    def _submit(
        self, key: Package | tuple[NormalizedName, Version], work: Callable[[], object]
    ) -> None:
        """Queue work, only once for a key."""
        self._announcements += 1
        if not self._threads:
            return
        with self._lock:
            if self._closed or key in self._announced:
                return
            self._announced.add(key)
            if not self._started:
                self._start(self._wait_and_work)
        self._queue.put(work)

    def _start(self, target: Callable[[], None]) -> None:
        thread = Thread(target=target, name="wheelfit-prefetch", daemon=True)
        self._started.append(thread)
        thread.start()

    def _wait_and_work(self) -> None:
        """Wait until the solver makes no progress, then start the other threads, and work."""
        is_solver_waiting = False
        while not (is_solver_waiting or self._closed):
            announcements, processor_time = self._announcements, time.process_time()
            time.sleep(_IDLE_TIME)
            is_idle = time.process_time() - processor_time < _IDLE_TIME / 2
            is_solver_waiting = is_idle and announcements == self._announcements
        with self._lock:
            if self._closed:
                return
            for _ in range(1, self._threads):
                self._start(self._work)
        self._work()

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            if self._closed:
                return
            try:
                work()
            except BaseException:  # noqa: BLE001, S112
                # The solver gets the same error when it needs the result. If this thread waits for
                # a result of the main thread, a KeyboardInterrupt there is raised here, too.
                continue

    def _fetch(self, dependency: Dependency, read_dependencies: ReadDependencies) -> None:
        name = dependency.package.name
        listing = self._candidates.listing(name)
        if listing is None or self._closed:
            return
        version = self._guess(dependency, listing.releases.possible_versions)
        if version is None or not self._read_release(name, version):
            return
        for next_dependency in read_dependencies(dependency.package, version):
            self.prefetch(next_dependency, read_dependencies)

    def _read_release(self, name: NormalizedName, version: Version) -> bool:
        """Read a release; return whether it is usable, as far as that is known without a build.

        Only the solver's thread builds: a build resolves its own requirements, and would wait for
        these threads, while these wait for the build.
        """
        wheel = self._candidates.choice(name, version).chosen
        if wheel is None or wheel.is_unbuilt:
            return False
        return self._candidates.usable_choice(name, version).chosen is not None

    def _guess(self, dependency: Dependency, versions: tuple[Version, ...]) -> Version | None:
        """Return the version that will probably be chosen; None if none matches."""
        members = dependency.versions.members(versions)
        preferred = self._preferred.get(dependency.package.name)
        if preferred in members:
            return preferred
        finals = [version for version in members if not version.is_prerelease]
        choices = members if self._prereleases else finals or members
        return next(iter(choices), None)
