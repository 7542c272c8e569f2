"""Fixtures of the tests of servers: databases and storages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server.debian import Unavailable
from server.services import ObjectStorage, Postgresql, find_postgresql

from wheelfit.server.store.opening import Store, open_store


@pytest.fixture(scope="session")
def postgresql(request: pytest.FixtureRequest) -> Iterator[Postgresql]:
    """Yield a PostgreSQL server, or skip."""
    try:
        programs = find_postgresql()
    except Unavailable:
        # The registry has one too; its environment skips if it cannot be reached.
        python: Path = request.getfixturevalue("environment_with")("pgserver==0.1.4")
        found = sorted(python.parent.parent.glob("lib/python*/site-packages/pgserver/**/bin"))
        if not found:
            pytest.skip("neither Debian nor the package registry has a PostgreSQL for this machine")
        programs = found[0]
    try:
        server = Postgresql(programs)
    except Unavailable as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(scope="session")
def object_storage() -> Iterator[ObjectStorage]:
    """Yield an S3-compatible server, or skip."""
    pytest.importorskip("obstore", reason="needs the extra `server`")
    try:
        server = ObjectStorage()
    except Unavailable as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def records_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of new records, for each database."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/records.sqlite3"
    server: Postgresql = request.getfixturevalue("postgresql")
    return server.database()


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.integration)])
def blobs_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a new storage, for each kind."""
    if request.param == "folder":
        return f"file://{tmp_path}/blobs"
    server: ObjectStorage = request.getfixturevalue("object_storage")
    return server.bucket()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str | None, str | None], Store]]:
    """Give a function that opens a store, again and again; all are closed afterwards."""
    stores: list[Store] = []

    def open_(records: str | None = None, blobs: str | None = None) -> Store:
        store = open_store(tmp_path / "store", records=records, blobs=blobs)
        stores.append(store)
        return store

    yield open_
    for store in stores:
        store.close()


@pytest.fixture(
    params=["sqlite+folder", pytest.param("postgresql+s3", marks=pytest.mark.integration)]
)
def addresses(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Return the URLs of a new store: on one machine, and shared by several."""
    if request.param == "sqlite+folder":
        return f"sqlite://{tmp_path}/records.sqlite3", f"file://{tmp_path}/blobs"
    database: Postgresql = request.getfixturevalue("postgresql")
    storage: ObjectStorage = request.getfixturevalue("object_storage")
    return database.database(), storage.bucket()


@pytest.fixture
def store(addresses: tuple[str, str], opened: Callable[[str | None, str | None], Store]) -> Store:
    """Return a new, empty store."""
    return opened(*addresses)
