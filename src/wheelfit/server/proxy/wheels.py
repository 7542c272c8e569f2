"""Wheels with another METADATA, sent while the original is received.

Two hashes are computed: that of the sent bytes, for later pages; and that of the received bytes,
so that the end is sent only if the original matches its hash on the index page. An interrupted
transfer is resumed, and fails if the file has changed meanwhile.
"""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.server.messages import Disconnect, FilePart
from wheelfit.server.proxy.choosing import fingerprint
from wheelfit.sources.client import Client, unexpected
from wheelfit.sources.local_files import path_of
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit.sources.ranged_file import FIRST_REQUEST, RangedFile
from wheelfit.sources.repository import Content
from wheelfit.sources.transport import Interrupted
from wheelfit.sources.urls import redact
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.bytes_source import ByteSource, open_local
from wheelfit.wheels.remote import RangeUnsupported, Span, announced_extent
from wheelfit.wheels.virtual_wheel import VirtualWheel, with_metadata
from wheelfit_runtime.errors import HashMismatch, UnexpectedStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.server.proxy.upstream import Upstream
    from wheelfit.sources.page import File


_STORE_KIND = "members"
"""The kind of cache entries for these hashes, which is that of parts of wheels."""
_MAX_IN_MEMORY = 64 << 20
"""Bytes of the ends of wheels in memory; the end of a large wheel has 2 MB."""


class ServedWheel:
    """A wheel to send.

    :param original: its digest is the one on the index page, if there is one.
    :param wheel: the original with another METADATA; None: it is sent unchanged.
    """

    def __init__(self, original: Content, wheel: VirtualWheel | None = None) -> None:
        self._original = original
        self._wheel = wheel
        self.size = original.size if wheel is None else wheel.size
        """Bytes of the whole."""
        self.sha256: str | None = None
        """The digest of the sent bytes, once all were sent."""

    @property
    def cost(self) -> int:
        """Bytes of memory that it takes."""
        tail_size = 0 if self._wheel is None else len(self._wheel.tail)
        removed_parts = () if self._wheel is None else self._wheel.removed_parts
        return tail_size + sum(len(data) for _, data in removed_parts) + 1024

    def parts(self, start: int, stop: int) -> Iterable[bytes]:
        """Yield the bytes between two positions.

        :raises Disconnect: the original does not match its hash.
        """
        if self._wheel is None:
            yield from self._original.parts(start, stop)
        elif (start, stop) == (0, self.size):
            yield from self._whole(self._wheel)
        else:
            for first, last, data in self._wheel.ranges_between(start, stop):
                if data is None:
                    yield from self._original.parts(first, last)
                else:
                    yield data

    def _whole(self, wheel: VirtualWheel) -> Iterator[bytes]:
        sent, received = hashlib.sha256(), hashlib.sha256()
        removed_parts = dict(wheel.removed_parts)
        position = 0

        def hash_removed_parts() -> None:
            nonlocal position
            while (data := removed_parts.get(position)) is not None:
                received.update(data)
                position += len(data)

        for start, stop in wheel.kept_ranges:
            hash_removed_parts()
            for piece in self._original.parts(start, stop):
                sent.update(piece)
                received.update(piece)
                yield piece
            position = stop
        hash_removed_parts()
        if self._original.sha256 not in (None, received.hexdigest()):
            raise Disconnect  # a wheel without its end is invalid
        sent.update(wheel.tail)
        yield wheel.tail
        self.sha256 = sent.hexdigest()


class RewrittenWheels:
    """A cache of wheels with another METADATA, and of their hashes."""

    def __init__(self) -> None:
        self._served: MemoryCache[ServedWheel] = MemoryCache(
            _MAX_IN_MEMORY, lambda served: served.cost
        )
        self._hashes: dict[str, str] = {}
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.hash_count = 0
        """The number of new hashes so far; pages made with fewer are outdated."""

    def close(self) -> None:
        """Remove temporary files."""
        if self._scratch is not None:
            self._scratch.cleanup()

    def hash_of(self, upstream: Upstream, file: File, digest: str) -> str | None:
        """Return the SHA-256 of a wheel with another METADATA, if it was sent before.

        :param digest: SHA-256 of the METADATA.
        """
        key = _hash_key(file, digest)
        sha256 = self._hashes.get(key)
        if sha256 is None and "sha256" in file.hashes:
            entry = upstream.web.store.read(_STORE_KIND, key)
            if entry is not None:
                sha256 = self._hashes[key] = entry.body.decode("ascii")
        return sha256

    def unchanged_wheel(self, upstream: Upstream, file: File) -> ServedWheel:
        """Return a wheel that is sent unchanged through the proxy."""

        def make() -> ServedWheel:
            original, source = self._open_original(upstream, file)
            with closing(source):
                _check_small(source, file)
            return ServedWheel(original)

        return self._served.get((file.url, fingerprint(file)), make)

    def with_metadata(self, upstream: Upstream, file: File, metadata: bytes) -> ServedWheel:
        """Return a wheel with another METADATA.

        :raises HashMismatch: it is small, and does not match its hash.
        :raises InvalidWheel: it is not valid.
        """
        digest = hashlib.sha256(metadata).hexdigest()

        def make() -> ServedWheel:
            original, source = self._open_original(upstream, file)
            with closing(source):
                _check_small(source, file)
                filename = parse_wheel_filename(file.filename)
                with WheelArchive(source, filename, where=redact(file.url)) as archive:
                    return ServedWheel(original, with_metadata(archive, metadata))

        return self._served.get((file.url, fingerprint(file), digest), make)

    def send(
        self, upstream: Upstream, file: File, metadata: bytes, start: int, stop: int
    ) -> Iterator[bytes]:
        """Yield the bytes of a wheel with another METADATA, and store its hash at the end."""
        served = self.with_metadata(upstream, file, metadata)
        yield from served.parts(start, stop)
        if served.sha256 is not None:
            self._store_hash(upstream, file, hashlib.sha256(metadata).hexdigest(), served.sha256)

    def _store_hash(self, upstream: Upstream, file: File, digest: str, sha256: str) -> None:
        key = _hash_key(file, digest)
        if self._hashes.get(key) == sha256:
            return
        self._hashes[key] = sha256
        if "sha256" in file.hashes:
            upstream.web.store.write(_STORE_KIND, key, {}, sha256.encode("ascii"))
        self.hash_count += 1

    def _open_original(self, upstream: Upstream, file: File) -> tuple[Content, ByteSource]:
        """Return the content of the original, and a source to read its members from."""
        sha256 = file.hashes.get("sha256")
        path = upstream.web.store.wheel(sha256) if sha256 is not None else None
        if path is None and file.is_local:  # in a folder; pages of servers cannot name such files
            path = path_of(file)
        if path is None and not file.is_selector:  # a selector wheel is on no server
            client = upstream.web.client
            with suppress(RangeUnsupported):
                source = RangedFile(partial(client.get_range, file.url), where=redact(file.url))
                parts = partial(_remote_parts, client, file.url, source.size, source.validator)
                return Content(source.size, sha256, parts), source
        if path is None:
            if self._scratch is None:
                self._scratch = tempfile.TemporaryDirectory(prefix="wheelfit-proxy-")
            folder = Path(self._scratch.name, fingerprint(file))
            folder.mkdir(exist_ok=True)
            path = upstream.download(file, folder)
        return Content(path.stat().st_size, sha256, partial(FilePart, path)), open_local(path)


def _remote_parts(
    client: Client, url: str, size: int, validator: str | None, start: int, stop: int
) -> Iterator[bytes]:
    """Yield the bytes between two positions of a file on its server."""
    attempt = 0
    while start < stop:
        span = Span(start, stop)
        headers = {"Range": span.header, "Accept-Encoding": "identity"}
        before = start
        try:
            with client.stream(url, headers=headers) as (response, where):
                if response.status in {401, 403, 404, 410}:
                    raise unexpected(response.status, where)
                extent = announced_extent(
                    span, response.status, response.headers, where=redact(where)
                )
                if (extent.total, extent.validator) != (size, validator):
                    raise UnexpectedStatus(
                        "the file changed on the server while it was read",
                        status=206,
                        where=redact(url),
                        hint="try again",
                    )
                for piece in response.chunks():
                    data = piece[: stop - start]
                    start += len(data)
                    yield data
                    if start == stop:
                        break
        except Interrupted as interrupted:
            attempt = attempt + 1 if start == before else 1
            client.wait_after(attempt, interrupted, url)


def _check_small(source: ByteSource, file: File) -> None:
    """Compare a file that is read whole anyway with its hash, before anything is sent.

    :raises HashMismatch: it does not match.
    """
    expected = file.hashes.get("sha256")
    if expected is None or source.size > FIRST_REQUEST:
        return
    actual = hashlib.sha256(source.read_at(0, source.size)).hexdigest()
    if actual != expected:
        raise HashMismatch(
            algorithm="sha256", expected=[expected], actual=actual, where=redact(file.url)
        )


def _hash_key(file: File, digest: str) -> str:
    return f"with other METADATA 1\n{file.hashes.get('sha256') or fingerprint(file)}\n{digest}"
