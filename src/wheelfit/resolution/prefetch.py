"""Ask ahead, so that many small answers travel at the same time.

The solver asks one question after the other. As soon as it learns what a release
needs, the listings of those projects, and the metadata of the release that will
probably be chosen from each, are fetched by a few threads; then what those need, and so
on, so that all of a tree travels in as many steps as it is deep. This only warms what
`Candidates` remembers: what is decided, and in which order, does not depend on it.

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
    """What a release will probably need; asked from any thread."""

_PATIENCE = 0.01
"""Seconds without a question, and without work, after which the solver seems to wait."""


class Prefetch:
    """A fetch in the background of what will probably be needed; a context manager.

    :param candidates: what to warm.
    :param threads: how many questions travel at once; 0: none, nothing is asked ahead.
    :param prereleases: whether pre-releases count like final releases.
    :param preferred: versions that are tried before newer ones.
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
        # Nobody waits for what is still under way: the threads are daemons, and
        # what they bring is not needed any more.
        with self._lock:
            self._closed = True
        for _ in self._started:
            self._queue.put(None)

    def announce(self, need: Need, following: Following) -> None:
        """Begin to fetch what a need will probably lead to, once per package.

        :param following: asked what the release that will probably be chosen needs.
        """
        self._begin(need.package, partial(self._fetch, need, following))

    def announce_release(self, name: NormalizedName, version: Version) -> None:
        """Begin to fetch what tells whether a release is usable."""
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
                # Whoever really needs it will meet the same error, in their own thread; also an
                # interruption, when this thread waited for work that the main one was doing.
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
        """Return whether a release is usable, as far as no build has to tell.

        Builds belong to the thread that decides: what they need is resolved meanwhile, and would
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
