"""Locks of made-up projects, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.core_metadata import CoreMetadata, read_metadata
from wheelfit.core.markers import VariantContext
from wheelfit.core.properties import EMPTY
from wheelfit.core.target import Target
from wheelfit.locking.document import Lock
from wheelfit.locking.listed_wheels import possible_needs
from wheelfit.locking.locking import new_lock
from wheelfit.locking.release import LockedRelease, lock_release
from wheelfit.resolution.listing import Release, Wheel, sort_page
from wheelfit.resolution.release_metadata import MetadataPolicy, read_release_metadata
from wheelfit.sources.page import ProjectPage
from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.resolution_setup import NVIDIA, linux_target
from wheelfit.testing.wheels import SCHEMA

TARGET = linux_target()
X86_64 = {"requires": ["x86-64-variant-provider<1"]}
AMD = {
    "requires": ["amd-variant-provider"],
    "plugin-api": "amd_variant_provider.plugin:AMDVariantPlugin",
}
TAGS = "cp311-cp311-manylinux_2_28_x86_64"

DOCUMENT: dict[str, Any] = {
    "$schema": SCHEMA,
    "default-priorities": {"namespace": ["nvidia", "x86_64", "amd"]},
    "providers": {"nvidia": NVIDIA, "x86_64": X86_64, "amd": AMD},
    "variants": {
        "cu12.6": {"nvidia": {"cuda_version_lower_bound": ["12.6"]}},
        "cu12.8": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
        "v3": {"x86_64": {"level": ["v3"]}},
        "v4": {"x86_64": {"level": ["v4"]}},
        "rocm": {"amd": {"gfx_arch": ["gfx942"]}},
        "null": {},
    },
}
LABELS = ("cu12.6", "cu12.8", "v3", "v4", "null", None)

REQUIRES = (
    'gpu-lib; "nvidia" in variant_namespaces',
    'cpu-lib; variant_label == "v4"',
    "numbers",
)


def wheel_name(name: str, version: str, label: str | None = None, tags: str = TAGS) -> str:
    """Return the file name of a wheel."""
    return "-".join(part for part in (name, version, tags, label) if part) + ".whl"


def world(labels: Iterable[str | None] = LABELS) -> FakeRepository:
    """Return a repository with a project of many variants, and what they need."""
    repository = FakeRepository()
    for label in labels:
        repository.add_wheel(
            wheel_name("fastfft", "2.1", label),
            requires=REQUIRES,
            document=_own(label),
        )
    repository.add_file("fastfft-2.1-variants.json", DOCUMENT)
    for name in ("gpu_lib", "cpu_lib", "numbers"):
        repository.add_wheel(wheel_name(name, "1", tags="py3-none-any"))
    return repository


def _own(label: str | None) -> dict[str, object] | None:
    if label is None:
        return None
    return {**DOCUMENT, "variants": {label: DOCUMENT["variants"][label]}}


def release_for(
    page: ProjectPage, version: Version, environments: Sequence[Target]
) -> Release | None:
    """Return a release with the wheels that fit at least one of several environments.

    What makes a wheel fit: its tags, ``requires-python`` of its listing entry, and that
    it was not taken back - unless all of the release was.
    """
    found: dict[str, Wheel] = {}
    releases = [sort_page(page, target).releases.get(version) for target in environments]
    for release in releases:
        for wheel in () if release is None else release.wheels:
            if wheel.rejection is None:
                found.setdefault(wheel.filename.text, wheel)
    first = next((release for release in releases if release is not None), None)
    if first is None:
        return None
    wheels = tuple(found[text] for text in sorted(found))
    left = tuple(wheel for wheel in wheels if not wheel.is_yanked)
    return replace(first, wheels=left or wheels)


def locked(
    repository: FakeRepository,
    name: str,
    version: str,
    *,
    targets: Sequence[Target] = (TARGET,),
    strict: bool = False,
    with_needs: bool = True,
    **options: Any,
) -> LockedRelease:
    """Lock one release of a repository."""
    page = repository.project(name)  # type: ignore[arg-type]
    assert page is not None
    release = release_for(page, Version(version), targets)
    assert release is not None
    variants = [wheel for wheel in release.wheels if wheel.filename.is_variant]
    metadata = read_release_metadata(release, variants, repository, MetadataPolicy(strict=strict))
    needs = {}
    for wheel in release.wheels:
        label = wheel.filename.label or ""
        properties = metadata.document.properties(label) if metadata.document and label else EMPTY
        core = read_metadata(repository.metadata(wheel.file), wheel.filename.text)
        context = VariantContext(label, properties or EMPTY)
        needs[label] = needed_names(core, context, targets)
    return lock_release(
        release, metadata, needs=needs if with_needs else None, strict=strict, **options
    )


def needed_names(
    core: CoreMetadata,
    context: VariantContext,
    targets: Sequence[Target],
    *,
    extras: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the names of what a wheel may need on any of some targets."""
    asked = [canonicalize_name(extra) for extra in extras]
    found = (possible_needs(core, context, target, asked) for target in targets)
    return tuple(sorted({one.name for needs in found for _, one in needs}))


def lock_world(
    repository: FakeRepository | None = None,
    *,
    roots: Sequence[str] | None = ("fastfft",),
    with_needs: bool = True,
    **options: Any,
) -> Lock:
    """Lock everything of `world`."""
    repository = repository or world()
    pins = [("fastfft", "2.1"), ("gpu-lib", "1"), ("cpu-lib", "1"), ("numbers", "1")]
    tables = [
        locked(repository, name, version, with_needs=with_needs).table for name, version in pins
    ]
    return new_lock(tables, roots=roots, where="pylock.toml", **options)


def plain_entry(name: str, version: str = "1", **more: Any) -> dict[str, Any]:
    """Return an entry with one plain wheel."""
    wheel = wheel_name(name.replace("-", "_"), version, tags="py3-none-any")
    return {
        "name": name,
        "version": version,
        "wheels": [{"url": f"https://fake.invalid/{wheel}", "hashes": {"sha256": "00"}}],
        **more,
    }


def lock_table(*packages: object, **more: Any) -> dict[str, Any]:
    """Return a lock as plain data."""
    return {"lock-version": "1.0", "created-by": "test", "packages": list(packages), **more}


def needing(name: str, *needed: str, version: str = "1", **more: Any) -> dict[str, Any]:
    """Return an entry whose plain wheel needs something."""
    own = {"wheelfit": {"variant-dependencies": {"": list(needed)}}}
    return plain_entry(name, version, tool=own, **more)


def lock_for(root: str, *packages: object) -> Lock:
    """Return a lock of entries that is made for one requirement."""
    return Lock.of(lock_table(*packages, tool={"wheelfit": {"roots": [root]}}))
