"""A hosted index that tests call without a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from server.hosting.hosts import Host

from wheelfit.server.hosting.administration import HostingRules
from wheelfit.server.store.opening import open_store


@pytest.fixture
def rules() -> HostingRules:
    """Return the rules of the index; tests override them."""
    return HostingRules()


@pytest.fixture
def host(tmp_path: Path, rules: HostingRules) -> Iterator[Host]:
    """Return a hosted index."""
    with open_store(tmp_path / "store") as store:
        host = Host(store, rules)
        yield host
        host.log.close()
