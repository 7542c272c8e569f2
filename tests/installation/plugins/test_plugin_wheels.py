"""Which wheels a plugin consists of."""

from __future__ import annotations

import os

import pytest

from wheelfit.core.requirements import parse_requirement
from wheelfit.core.target import Target
from wheelfit.installation.environment import open_environment
from wheelfit.installation.plugins.plugin_wheels import TrustedFiles, resolve_plugin
from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.wheels import release_document
from wheelfit_runtime.errors import NoFit

A, B, C = "a" * 64, "b" * 64, "c" * 64
ACME = parse_requirement("acme-provider>=1", allow_variant_markers=False)


@pytest.fixture
def target() -> Target:
    """Return the running interpreter."""
    return open_environment(
        None, environ={"PATH": os.environ.get("PATH", "")}, may_be_own=True
    ).target


@pytest.fixture
def repository() -> FakeRepository:
    """Offer two versions of a plugin, and what it needs."""
    found = FakeRepository()
    for version, digest in (("1.2", A), ("1.3", C)):
        name = f"acme_provider-{version}-py3-none-any.whl"
        found.add_wheel(name, hashes={"sha256": digest}, requires=["tables>=3"])
    found.add_wheel("tables-3-py3-none-any.whl", hashes={"sha256": B})
    return found


def test_with_what_it_needs(repository: FakeRepository, target: Target) -> None:
    """P-33, P-38: a plugin is installed with its dependencies."""
    pins = resolve_plugin([ACME], repository, target)
    assert [pin.filename.text for pin in pins] == [
        "tables-3-py3-none-any.whl",
        "acme_provider-1.3-py3-none-any.whl",
    ]


def test_only_what_is_trusted(repository: FakeRepository, target: Target) -> None:
    """P-18, P-38: a newer file that is not trusted does not exist, nor does another project."""
    only = TrustedFiles(
        repository, {"acme_provider-1.2-py3-none-any.whl": A, "tables-3-py3-none-any.whl": B}
    )
    pins = resolve_plugin([ACME], only, target)
    assert [str(pin.version) for pin in pins] == ["3", "1.2"]
    assert only.changed == {}
    alone = TrustedFiles(repository, {"acme_provider-1.2-py3-none-any.whl": A})
    with pytest.raises(NoFit):
        resolve_plugin([ACME], alone, target)


def test_another_hash(repository: FakeRepository, target: Target) -> None:
    """P-19, P-38: a file under a trusted name with another hash is noticed and not taken."""
    only = TrustedFiles(repository, {"acme_provider-1.2-py3-none-any.whl": B})
    with pytest.raises(NoFit):
        resolve_plugin([ACME], only, target)
    assert only.changed == {"acme_provider-1.2-py3-none-any.whl": A}


def test_a_hash_that_nobody_promises(target: Target) -> None:
    """P-38: the trusted hash is then what the download is held against."""
    repository = FakeRepository()
    repository.add_wheel("acme_provider-1.2-py3-none-any.whl", hashes={"md5": "0" * 32})
    only = TrustedFiles(repository, {"acme_provider-1.2-py3-none-any.whl": A})
    (pin,) = resolve_plugin([ACME], only, target)
    assert pin.file.hashes["sha256"] == A


def test_plain_wheels_only(target: Target) -> None:
    """P-33: a variant wheel is passed over, even where it is the newer one."""
    repository = FakeRepository()
    repository.add_wheel("acme_provider-1.2-py3-none-any.whl")
    document = release_document({"x": {"acme": {"a": ["b"]}}}, static={"acme": {"a": ["b"]}})
    repository.add_wheel("acme_provider-1.3-py3-none-any-x.whl", document=document)
    (pin,) = resolve_plugin([ACME], repository, target)
    assert pin.filename.text == "acme_provider-1.2-py3-none-any.whl"
