"""Laws of bundles: each machine gets what it got before, and nothing is there in vain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from locking.entries import AMD, TARGET, X86_64, lock_table, wheel_name

from wheelfit.core.host_file import HostDetector, HostFile, HostProvider
from wheelfit.locking.bundles.manifest import BundledFile
from wheelfit.locking.bundles.reduction import KeptEntry, reduce_lock
from wheelfit.locking.document import Lock
from wheelfit.locking.selection import LockCandidates
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import SCHEMA
from wheelfit_runtime.errors import NoCompatibleWheel
from wheelfit_runtime.platforms.features import FeatureConfig

FEATURES = {
    "nvidia": ("cuda_version_lower_bound", ("12.8", "12.6", "11.8")),
    "x86_64": ("level", ("v4", "v3", "v2")),
    "amd": ("gfx_arch", ("gfx942", "gfx90a", "gfx1100")),
}
PROVIDERS = {"nvidia": NVIDIA, "x86_64": X86_64, "amd": AMD}

values = st.lists(st.sampled_from(range(3)), min_size=1, max_size=3, unique=True)
properties = st.dictionaries(st.sampled_from(sorted(FEATURES)), values, max_size=3)
hosts = st.lists(properties, min_size=1, max_size=4)
releases = st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e"]), properties, max_size=5)
orders = st.permutations(sorted(FEATURES))


def lock_of(variants: Mapping[str, Mapping[str, list[int]]], order: list[str]) -> Lock:
    """Return a lock with one release: some variants, and a plain wheel."""
    entries: dict[str, Any] = {
        label: {
            namespace: {
                FEATURES[namespace][0]: sorted(FEATURES[namespace][1][index] for index in indexes)
            }
            for namespace, indexes in found.items()
        }
        for label, found in variants.items()
        if found
    }
    wheels = [
        {"url": f"https://fake.invalid/{name}", "hashes": {"sha256": "00"}}
        for name in (wheel_name("some", "1", label) for label in (None, *entries))
    ]
    document = {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": order},
        "providers": PROVIDERS,
        "variants": entries,
    }
    more = {"variants-json": document} if entries else {}
    return Lock.of(lock_table({"name": "some", "version": "1", "wheels": wheels, **more}))


def chosen(lock: Lock, host: Mapping[str, list[int]]) -> str:
    """Return what a host gets."""
    providers = tuple(
        HostProvider(
            namespace,
            (FeatureConfig(name, tuple(known[index] for index in host.get(namespace, ()))),),
        )
        for namespace, (name, known) in FEATURES.items()
    )
    lists = HostDetector(HostFile(providers), "host")
    chooser = LockCandidates(lock, TARGET, None, host_detector=lists, folder=Path("/bundle"))
    (pin,) = chooser.select().resolution().pins
    return pin.filename.text


def with_only(lock: Lock, names: frozenset[str]) -> Lock:
    """Return a lock with some of the wheels."""
    (package,) = lock.packages
    files = {name: BundledFile("00" * 32, 1) for name in names}
    return reduce_lock(lock, {0: KeptEntry(package, names, package.document)}, files)


@given(releases, orders, hosts)
def test_each_host_gets_what_it_got(
    variants: dict[str, dict[str, list[int]]],
    order: list[str],
    machines: list[dict[str, list[int]]],
) -> None:
    """F-116: cutting a lock down to what some hosts get changes nothing for any of them."""
    lock = lock_of(variants, order)
    before = [chosen(lock, host) for host in machines]
    less = with_only(lock, frozenset(before))
    assert [chosen(less, host) for host in machines] == before


@given(releases, orders, hosts)
def test_nothing_is_there_in_vain(
    variants: dict[str, dict[str, list[int]]],
    order: list[str],
    machines: list[dict[str, list[int]]],
) -> None:
    """Whichever wheel is missing, some host does not get what it got."""
    lock = lock_of(variants, order)
    before = [chosen(lock, host) for host in machines]
    names = frozenset(before)
    for name in names:
        left = names - {name}
        if not left:
            continue  # a bundle has something
        try:
            assert [chosen(with_only(lock, left), host) for host in machines] != before
        except NoCompatibleWheel:
            continue
