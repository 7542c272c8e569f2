"""Requirements and bills of materials, from what a machine gets."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from locking.entries import TARGET, lock_table, lock_world, needing, plain_entry, world
from packaging.tags import Tag
from pip._internal.req.constructors import install_req_from_line

from wheelfit.core.target import Target
from wheelfit.locking.document import Lock
from wheelfit.locking.export.contents import Contents, TargetDescription, contents_of
from wheelfit.locking.export.cyclonedx import cyclonedx_document
from wheelfit.locking.export.requirements import requirements_text
from wheelfit.locking.selection import LockCandidates
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.repositories import FakeRepository
from wheelfit_runtime.errors import UnexpectedStatus, UserError

FASTFFT = "fastfft-2.1-cp311-cp311-manylinux_2_28_x86_64-cu12.8.whl"
CUDA = FixedDetector({"nvidia": {"cuda_version_lower_bound": ["12.8", "12.6"]}})
# The validator does not look at addresses: no blanks, no backslashes, nothing unescaped.
URI_REFERENCE = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")


def contents(
    lock: Lock | None = None, repository: FakeRepository | None = None, **fields: Any
) -> Contents:
    """Return what a machine with CUDA 12.8 gets."""
    repository = repository or world()
    candidates = LockCandidates(lock or lock_world(repository), TARGET, CUDA, files=repository)
    return contents_of(
        candidates.select(),
        candidates.candidates,
        replace(TargetDescription.of(TARGET, "node"), **fields),
        lock="pylock.toml",
        digest="0" * 64,
        with_licenses=True,
    )


def contents_of_one(**entry: Any) -> Contents:
    """Return what a machine gets from a lock of one release, a 1."""
    repository = FakeRepository()
    repository.add_wheel("a-1-py3-none-any.whl")
    return contents(Lock.of(lock_table({"name": "a", "version": "1", **entry})), repository)


def validated(document: dict[str, Any]) -> dict[str, Any]:
    """Hold a bill of materials against the schema of CycloneDX 1.6."""
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document))
    assert fault is None, fault
    for component in document["components"]:
        for reference in component.get("externalReferences", ()):
            assert URI_REFERENCE.fullmatch(reference["url"])
    return document


def values(properties: list[dict[str, str]], name: str) -> list[str]:
    """Return what properties of a name say."""
    return [one["value"] for one in properties if one["name"] == name]


def test_the_platform_that_says_most() -> None:
    """One that names a C library, also where tags begin with one that does not."""
    platforms = ("linux_x86_64", "manylinux_2_28_x86_64", "any")
    tags = [Tag("py3", "none", platform) for platform in platforms]
    target = Target.of("node", {"python_full_version": "3.13.1"}, tags)
    assert TargetDescription.of(target, "node").platform == "manylinux_2_28_x86_64"


class TestRequirements:
    """Files of requirements."""

    def test_each_wheel_with_its_hash(self) -> None:
        """Versions with the hash of the chosen wheel; a variant is a URL, and says for whom."""
        lines = requirements_text(contents(description="a machine")).splitlines()
        assert lines[:4] == [
            "# The packages of pylock.toml for node alone.",
            "# Machine: a machine",
            "# Python: CPython 3.11.7, platform: manylinux_2_28_x86_64",
            f"# Lock: sha256:{'0' * 64}",
        ]
        assert [line.partition("=")[0] for line in lines[4:]] == [
            "# fastfft: label cu12.8, for node",
            f"fastfft @ https://fake.invalid/{FASTFFT}#sha256",
            "gpu-lib",
            "numbers",
        ]
        assert all(" --hash=sha256:" in line for line in lines[6:])

    def test_a_copy_stands_for_a_variant(self) -> None:
        """With a copy under a plain name it is a version like any other."""
        found = contents()
        name = found.packages[0].pin.name
        text = requirements_text(found, {name: "ab" * 32}, "my wheels")
        assert "--find-links 'my wheels'\n" in text
        assert f"\nfastfft==2.1 --hash=sha256:{'ab' * 32}\n" in text

    def test_words_of_others_stay_in_comments(self) -> None:
        """A name that ends its line would write requirements of its own."""
        text = requirements_text(contents(name="x\nevil @ https://evil.invalid/x.whl\u202e"))
        assert not any(line.startswith("evil") for line in text.splitlines())
        assert "\u202e" not in text

    def test_weak_hashes_are_refused(self) -> None:
        """Pip takes no other; a file without a hash would let anything in."""
        wheel = {"url": "https://x.invalid/a-1-py3-none-any.whl", "hashes": {"md5": "00"}}
        with pytest.raises(UserError, match="no hash for a requirements file"):
            requirements_text(contents_of_one(wheels=[wheel]))

    def test_an_archive_is_its_url(self) -> None:
        """What the lock names by a URL has no index that it could be found in."""
        url = "https://x.invalid/a-1-py3-none-any.whl"
        found = contents_of_one(archive={"url": url, "hashes": {"sha512": "00"}})
        assert requirements_text(found).endswith(f"\na @ {url}#sha512=00\n")

    def test_no_variable_is_put_into_a_url(self) -> None:
        """Readers replace ${NAME} by what they have under that name, as a token."""
        url = "https://x.invalid/${TOKEN}/a-1-py3-none-any.whl"
        found = contents_of_one(archive={"url": url, "hashes": {"sha256": "00"}})
        assert "${" not in requirements_text(found)

    def test_no_marker_is_read_from_a_url(self) -> None:
        """A reader of requirements takes the text after a semicolon for a marker."""
        url = "https://x.invalid/v;1/a-1-py3-none-any.whl"
        found = contents_of_one(archive={"url": url, "hashes": {"sha256": "00"}})
        line = requirements_text(found).splitlines()[-1]
        requirement = install_req_from_line(line)
        assert requirement.link is not None
        assert requirement.link.filename == "a-1-py3-none-any.whl"
        assert requirement.markers is None


class TestBill:
    """Bills of materials."""

    def test_what_the_lock_does_not_have(self) -> None:
        """A need that was left out on purpose leads nowhere, and is not a component."""
        document = validated(cyclonedx_document(contents_of_one(**needing("a", "gone"))))
        assert [dependency["dependsOn"] for dependency in document["dependencies"]] == [[], []]

    def test_a_component_is_one_wheel(self) -> None:
        """Its file, hash, label and properties; and who needs whom."""
        document = validated(cyclonedx_document(contents()))
        fastfft, gpu_lib, _ = document["components"]
        assert fastfft["purl"] == f"pkg:pypi/fastfft@2.1?file_name={FASTFFT}"
        assert [digest["alg"] for digest in fastfft["hashes"]] == ["SHA-256"]
        assert values(fastfft["properties"], "wheelfit:variant:label") == ["cu12.8"]
        assert values(fastfft["properties"], "wheelfit:variant:property") == [
            "nvidia :: cuda_version_lower_bound :: 12.8"
        ]
        assert values(gpu_lib["properties"], "wheelfit:variant:label") == []
        needs = {
            dependency["ref"]: dependency["dependsOn"] for dependency in document["dependencies"]
        }
        assert needs["lock"] == [fastfft["purl"]]
        assert gpu_lib["purl"] in needs[fastfft["purl"]]
        target = document["metadata"]["properties"]
        assert values(target, "wheelfit:target:name") == ["node"]

    def test_equal_contents_give_equal_documents(self) -> None:
        """No clock and no chance; another machine is another document."""
        first, again = cyclonedx_document(contents()), cyclonedx_document(contents())
        assert first == again
        assert "timestamp" not in first["metadata"]
        other = cyclonedx_document(contents(name="other"))
        assert other["serialNumber"] != first["serialNumber"]
        dated = validated(cyclonedx_document(contents(), epoch=86400))
        assert dated["metadata"]["timestamp"] == "1970-01-02T00:00:00Z"

    def test_licenses_of_all_kinds(self) -> None:
        """An expression, a name, and nothing at all, in the places that the format has for them."""
        repository = FakeRepository()
        fields = {
            "a": "License-Expression: mit",
            "b": "License: Our \x07 own\nLicense-File: COPYING",
            "c": "Summary: nothing",
        }
        for name, line in fields.items():
            metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1\n{line}\n\n".encode()
            repository.add_wheel(f"{name}-1-py3-none-any.whl", metadata=metadata)
        lock = Lock.of(lock_table(*map(plain_entry, fields)))
        document = validated(cyclonedx_document(contents(lock, repository)))
        one, two, three = document["components"]
        assert one["licenses"] == [{"expression": "MIT", "acknowledgement": "declared"}]
        assert two["licenses"] == [{"license": {"name": "Our own", "acknowledgement": "declared"}}]
        assert values(two["properties"], "wheelfit:license:file") == ["COPYING"]
        assert "licenses" not in three

    def test_metadata_that_cannot_be_read_is_said(self) -> None:
        """F-136: the rest is exported, and what is not known is told."""
        repository = world()
        lock = lock_world(repository)
        page = repository.project("numbers")  # type: ignore[arg-type]
        assert page is not None
        error = UnexpectedStatus("the server answered 500", status=500)
        repository.break_file(page.files[0], error)
        found = contents(lock, repository)
        assert found.notes == (
            "the metadata of numbers-1-py3-none-any.whl cannot be read: the server answered 500",
        )
        document = validated(cyclonedx_document(found))
        assert values(document["metadata"]["properties"], "wheelfit:note") == list(found.notes)

    def test_odd_versions_and_hashes(self) -> None:
        """A local version is escaped, and digests that the format lacks are left out."""
        wheel = {
            "url": "https://x.invalid/a-1%2Bcu-py3-none-any.whl",
            "hashes": {"sha256": "ab" * 32, "sha224": "ab" * 28, "blake2s": "ab" * 32},
        }
        lock = Lock.of(lock_table({"name": "a", "version": "1+cu", "wheels": [wheel]}))
        repository = FakeRepository()
        repository.add_wheel("a-1+cu-py3-none-any.whl")
        (component,) = validated(cyclonedx_document(contents(lock, repository)))["components"]
        assert component["purl"] == "pkg:pypi/a@1%2Bcu?file_name=a-1%2Bcu-py3-none-any.whl"
        assert [digest["alg"] for digest in component["hashes"]] == ["SHA-256"]
