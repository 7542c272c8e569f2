"""What publishers sign (PEP 740), with real wheels, real signatures, and a lying index.

The wheel and its provenance are those that the source distribution of pypi-attestations has
for its own tests.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from hostile.conftest import Site
from server.signed import signed_files

from wheelfit.testing.wheels import build_wheel

pytestmark = [pytest.mark.network]

NAME = "circleci-sign-publish-example"
WHEEL = "circleci_sign_publish_example-0.0.1.dev137-py3-none-any.whl"
PUBLISHER = "circleci:github.com/circleci-public/sign-and-publish-examples"
PLACE = f"/integrity/{WHEEL}/provenance"


@dataclass(frozen=True)
class Signed:
    """A wheel, and what was signed about it."""

    wheel: bytes
    provenance: bytes


@pytest.fixture(scope="session")
def signed(registry: None, tmp_path_factory: pytest.TempPathFactory) -> Signed:
    """Get the two out of the source distribution of the library."""
    del registry
    assets = signed_files(tmp_path_factory.mktemp("source"))
    return Signed(*((assets / name).read_bytes() for name in (WHEEL, f"{WHEEL}.provenance")))


@pytest.fixture
def shop(site: Site, signed: Signed) -> Site:
    """Offer the wheel with its provenance."""
    site.flat = True
    site.shelf.put(signed.wheel, WHEEL)
    offer(site, signed.provenance)
    return site


def offer(site: Site, provenance: bytes) -> None:
    """Let the index have this provenance of the wheel."""
    site.shelf.bodies[PLACE] = provenance
    site.shelf.revise(WHEEL, provenance=PLACE)


def altered(provenance: bytes, change: str) -> bytes:
    """Change one thing in a provenance."""
    document: dict[str, Any] = json.loads(provenance)
    bundle = document["attestation_bundles"][0]
    match change:
        case "statement":
            envelope = bundle["attestations"][0]["envelope"]
            envelope["statement"] = "e30="
        case "signature":
            envelope = bundle["attestations"][0]["envelope"]
            envelope["signature"] = "A" * 8 + envelope["signature"][8:]
        case "publisher":
            bundle["publisher"]["project_id"] = "00000000-0000-0000-0000-000000000000"
        case "other kind":
            bundle["publisher"] = {
                "kind": "GitHub",
                "repository": "pypa/sampleproject",
                "workflow": "release.yml",
            }
        case "no attestation":
            bundle["attestations"] = []
        case "no bundle":
            document["attestation_bundles"] = []
        case "version":
            document["version"] = 9
        case "not JSON":
            return b"<html>"
    return json.dumps(document).encode()


@pytest.mark.parametrize("html", [False, True], ids=["json", "html"])
def test_what_holds_is_told(shop: Site, html: bool) -> None:  # noqa: FBT001
    """A sound signature lets the wheel in, and says who published it."""
    shop.index.faults.html_only = html
    result = shop.run("install", "--pre", "--verify-attestations", NAME)
    assert f"{WHEEL}: published by {PUBLISHER}" in result.err
    assert any(shop.library.glob("*.dist-info"))


@pytest.mark.parametrize(
    "change",
    [
        "statement",
        "signature",
        "publisher",
        "other kind",
        "no attestation",
        "no bundle",
        "version",
        "not JSON",
    ],
)
def test_what_does_not_hold_is_refused(shop: Site, signed: Signed, change: str) -> None:
    """Whatever is changed about the signature, the wheel is refused (exit code 4)."""
    offer(shop, altered(signed.provenance, change))
    said = shop.refused("--pre", "--verify-attestations", NAME, code=4)
    assert said.error["code"] == "attestation"
    assert said.error["where"] == WHEEL


def test_another_wheel(site: Site, signed: Signed) -> None:
    """A signature says nothing about other bytes of the same name, or of another name."""
    site.flat = True
    for name, version in ((NAME, "0.0.1.dev137"), ("demo", "1")):
        wheel = build_wheel(site.wheels, name, version)
        site.shelf.put(wheel)
        site.shelf.bodies[PLACE] = signed.provenance
        site.shelf.revise(wheel.name, provenance=PLACE)
        said = site.refused("--pre", "--verify-attestations", name, code=4)
        assert said.error["code"] == "attestation"


def test_another_publisher(shop: Site) -> None:
    """The user knows who may publish: everybody else is refused, however well it is signed."""
    said = shop.refused(
        "--pre", "--trusted-publisher", f"{NAME}=github:pypa/sampleproject", NAME, code=4
    )
    assert "not by github:pypa/sampleproject" in said.error["message"]
    shop.run("install", "--pre", "--trusted-publisher", f"{NAME}={PUBLISHER}", NAME)


@pytest.mark.parametrize("required", [":all:", NAME, "Circleci.Sign_publish.example"])
def test_none_although_required(shop: Site, required: str) -> None:
    """Without provenance a required package is refused, and any other is let in."""
    shop.shelf.revise(WHEEL, provenance=None)
    said = shop.refused("--pre", "--require-attestations", required, NAME, code=4)
    assert said.error["code"] == "attestation"
    shop.run("install", "--pre", "--require-attestations", "other", "--verify-attestations", NAME)


def test_a_file_of_ones_own(shop: Site, signed: Signed) -> None:
    """Nobody attests a file that the user names; it is refused only if that is required."""
    path = shop.wheels / WHEEL
    path.write_bytes(signed.wheel)
    shop.refused("--require-attestations", ":all:", path, code=4)
    shop.run("install", "--verify-attestations", path)


def test_a_setting_of_the_project(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What must be attested can be set for good."""
    monkeypatch.setenv("WHEELFIT_TRUSTED_PUBLISHER", f"{NAME}=github:pypa/sampleproject")
    shop.refused("--pre", NAME, code=4)
    monkeypatch.setenv("WHEELFIT_TRUSTED_PUBLISHER", f"{NAME}=nonsense:x")
    assert shop.attempt("install", "--pre", NAME).code == 1


def test_provenance_that_is_not_there(shop: Site) -> None:
    """An index that promises provenance and has none is at fault, not the wheel (exit code 5)."""
    del shop.shelf.bodies[PLACE]
    shop.refused("--pre", "--verify-attestations", NAME, code=5)
    shop.shelf.revise(WHEEL, provenance="file:///etc/passwd")
    shop.run("install", "--pre", "--verify-attestations", NAME)


def test_without_the_library(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has not installed the extra is told how (exit code 1), before anything is changed."""
    monkeypatch.setitem(sys.modules, "pypi_attestations", None)
    said = shop.refused("--pre", "--verify-attestations", NAME, code=1)
    assert ".[attestations]" in said.error["hint"]


@pytest.mark.parametrize(
    "text", ["", "demo", "demo=", "demo=svn:x/y", "demo=github:a b", "=a/b", ":all:=a/b", "a b=a/b"]
)
def test_what_names_no_publisher(site: Site, text: str) -> None:
    """A publisher that cannot be read is the user's mistake."""
    site.flat = True
    site.shelf.put(build_wheel(site.wheels, "demo", "1"))
    assert site.attempt("install", "--trusted-publisher", text, "demo").code in {1, 2}
    words = ("--dry-run", "--trusted-publisher", text, "demo")
    assert site.attempt("install", *words).code in {1, 2}, "before anything is planned"


@pytest.mark.parametrize("text", ["demo,other", "demo ", "demo==1", ":ALL:"])
def test_what_names_no_package(site: Site, text: str) -> None:
    """A demand that would hold for nothing is the user's mistake, and lets nothing in."""
    site.flat = True
    site.shelf.put(build_wheel(site.wheels, "demo", "1"))
    said = site.refused("--require-attestations", text, "demo", code=1)
    assert "not a valid package name" in said.error["message"]


def test_the_library_takes_part(signed: Signed) -> None:
    """The data of the test is what it is thought to be: the library itself accepts it."""
    import hashlib

    from pypi_attestations import Distribution, Provenance

    provenance = Provenance.model_validate_json(signed.provenance)
    digest = hashlib.sha256(signed.wheel).hexdigest()
    for bundle in provenance.attestation_bundles:
        for attestation in bundle.attestations:
            attestation.verify(
                bundle.publisher, Distribution(name=WHEEL, digest=digest), offline=True
            )
