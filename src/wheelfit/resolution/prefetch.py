"""Prefetch metadata, so that many small requests run at the same time.

The solver needs one answer after the other. As soon as it learns the requirements of a release, the
listings of those projects, and the metadata of the release that will probably be chosen from each,
are fetched by a few threads; then their requirements, and so on, so that a tree takes as many steps
as it is deep. This only fills the cache of `Candidates`: decisions and their order do not depend on
it.

Threads begin once the solver gets no further for a moment, as when it waits for a server.
Where a cache has all answers they would only stand in its way.
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
    from types import TracebackType

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.problem import Need, Package

    Following = Callable[[Package, Version], Iterable[Need]]
    """Returns the probable requirements of a release; called from any thread."""

_PATIENCE = 0.01
"""Seconds without a question, and without work, after which the solver seems to wait."""


class Prefetch:
    """A background fetch of data that will probably be needed; a context manager.

    :param candidates: the candidates whose cache to fill.
    :param threads: the number of concurrent requests; 0: nothing is prefetched.
    :param prereleases: whether pre-releases count like final releases.
    :param preferred: versions tried before newer ones.
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
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Running requests are not waited for: the threads are daemons, and their results are not
        # needed any more.
        with self._lock:
            self._closed = True
        for _ in self._started:
            self._queue.put(None)

    def announce(self, need: Need, following: Following) -> None:
        """Begin to fetch the data a need will probably lead to, once per package.

        :param following: returns the requirements of the release that will probably be chosen.
        """
        self._begin(need.package, partial(self._fetch, need, following))

    def announce_release(self, name: NormalizedName, version: Version) -> None:
        """Begin to fetch the data that decides whether a release is usable."""
        self._begin((name, version), partial(self._read, name, version))

    def _begin(
        self, key: Package | tuple[NormalizedName, Version], work: Callable[[], object]
    ) -> None:
        self._asked += 1
        if not self._threads:
            return
        with self._lock:
            if self._closed or key in self._announced:
                return
            self._announced.add(key)
            if not self._started:
                self._start(self._watch)
        self._queue.put(work)

    def _start(self, target: Callable[[], None]) -> None:
        thread = Thread(target=target, name="wheelfit-lookahead", daemon=True)
        self._started.append(thread)
        thread.start()

    def _watch(self) -> None:
        """Start the other transfers, and join them, once there is no progress for a moment."""
        is_waiting = False
        while not (is_waiting or self._closed):
            asked, used = self._asked, time.process_time()
            time.sleep(_PATIENCE)
            is_idle = time.process_time() - used < _PATIENCE / 2
            is_waiting = is_idle and asked == self._asked
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
                # The thread that really needs it will get the same error; also an interruption,
                # when this thread waited for work that the main one was doing.
                continue

    def _fetch(self, need: Need, following: Following) -> None:
        name = need.package.name
        listing = self._candidates.listing(name)
        if listing is None or self._closed:
            return
        version = self._guess(need, listing.possible())
        if version is None or not self._read(name, version):
            return
        for further in following(need.package, version):
            self.announce(further, following)

    def _read(self, name: NormalizedName, version: Version) -> bool:
        """Return whether a release is usable, as far as that is known without a build.

        Builds belong to the deciding thread: their requirements are resolved meanwhile, and would
        wait for these threads while these wait for the end of the build.
        """
        wheel = self._candidates.choice(name, version).chosen
        if wheel is None or wheel.is_unbuilt:
            return False
        return self._candidates.usable(name, version).chosen is not None

    def _guess(self, need: Need, versions: tuple[Version, ...]) -> Version | None:
        members = need.versions.members(versions)
        preferred = self._preferred.get(need.package.name)
        if preferred in members:
            return preferred
        finals = [version for version in members if not version.is_prerelease]
        if self._prereleases or not finals:
            return members[0] if members else None
        return finals[0]
