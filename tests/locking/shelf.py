"""A repository that takes releases in a few words, for the tests of locking."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from locking.entries import AMD, X86_64
from resolution.releases import add_release

from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import SCHEMA

ANY = "py3-none-any"


def document(variants: Mapping[str, object], **providers: object) -> dict[str, Any]:
    """Return the variant metadata of a release."""
    known: dict[str, object] = {"nvidia": NVIDIA, "x86_64": X86_64, "amd": AMD, **providers}
    used = {namespace for variant in variants.values() for namespace in variant}  # type: ignore[attr-defined]
    providers = {name: known[name] for name in known if name in used} or {"nvidia": NVIDIA}
    return {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": list(providers)},
        "providers": providers,
        "variants": dict(variants),
    }


def cuda(*majors: str) -> dict[str, object]:
    """Return one label for each CUDA major, and the null variant."""
    labels: dict[str, object] = {
        f"cu{major}": {"nvidia": {"cuda_version_lower_bound": [f"{major}.0"]}} for major in majors
    }
    return {**labels, "null": {}}


class Shelf(FakeRepository):
    """A repository that takes releases in a few words."""

    def add(self, *releases: str, tags: str = ANY, **more: Any) -> None:
        """Add releases with one plain wheel each.

        :param releases: ``name version``.
        :param tags: of the wheels.
        :param more: as for a wheel.
        """
        for text in releases:
            name, version = text.split()
            self.add_wheel(f"{name.replace('-', '_')}-{version}-{tags}.whl", **more)

    def add_variants(
        self,
        release: str,
        variants: Mapping[str, object],
        requires: Mapping[str, Collection[str]] | None = None,
        *,
        plain: bool = True,
        tags: str = ANY,
        **providers: object,
    ) -> None:
        """Add a release with variants.

        :param release: ``name version``.
        :param variants: properties by label.
        :param requires: needs by label; the plain wheel's under the empty text.
        :param plain: whether it has a plain wheel too.
        :param tags: of the wheels.
        :param providers: further ones.
        """
        whole = document(variants, **providers)
        add_release(self, release, whole, requires or {}, plain=plain, tags=tags)
