"""Claims about reading what is installed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from wheelfit.core.labels import Label
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.installation.choice_record import (
    HostAndOverrides,
    RecordedChoice,
    format_choice,
    parse_choice,
)
from wheelfit.installation.installed import Installed, scan
from wheelfit.testing.wheels import release_document, single_label_document
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from pathlib import Path

X86 = {"x86_64": {"level": ["v3"]}}
V3 = Label("v3")
DOCUMENT = single_label_document(release_document({"v3": X86}, static=X86), "v3")


def dist_info(
    folder: Path,
    name: str = "demo",
    version: str = "1.0",
    *,
    metadata: str | None = None,
    **files: str,
) -> Path:
    """Write a .dist-info folder; ``__`` in names of further files stands for a dot."""
    path = folder / f"{name}-{version}.dist-info"
    path.mkdir(parents=True)
    if metadata is None:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText\n"
    if metadata:
        (path / "METADATA").write_text(metadata)
    for file, content in files.items():
        (path / file.replace("__", ".")).write_text(content)
    return path


def only(folder: Path) -> Installed:
    """Return the one distribution of a folder."""
    (entry,) = scan([folder]).installed
    return entry


class TestScan:
    """Finding distributions."""

    def test_distribution(self, tmp_path: Path) -> None:
        """PEP 376: name, version, installer and REQUESTED are read."""
        path = dist_info(tmp_path, "Foo.Bar", "1.0rc1", INSTALLER="pip\n", REQUESTED="")
        entry = only(tmp_path)
        assert (entry.name, str(entry.version)) == ("foo-bar", "1.0rc1")
        assert (entry.path, entry.location) == (path, tmp_path)
        assert entry.installer == "pip"
        assert entry.requested
        assert (entry.editable, entry.legacy, entry.outside) == (False, False, False)
        assert (entry.label, entry.properties, entry.direct_url) == (None, EMPTY, None)
        assert str(entry) == "foo-bar 1.0rc1"

    def test_nothing(self, tmp_path: Path) -> None:
        """A folder that does not exist, or is none, counts as empty."""
        (tmp_path / "file").write_text("")
        assert scan([tmp_path / "gone", tmp_path / "file"]).installed == ()

    def test_order(self, tmp_path: Path) -> None:
        """By name; of one name, what Python finds first comes first, the rest is outside."""
        own, base = tmp_path / "own", tmp_path / "base"
        dist_info(base, "b", "1")
        dist_info(own, "b", "2")
        dist_info(own, "c", "1")
        dist_info(base, "a", "1")
        found = scan([own, base], own=[own]).installed
        assert [(e.name, str(e.version), e.outside) for e in found] == [
            ("a", "1", True),
            ("b", "2", False),
            ("b", "1", True),
            ("c", "1", False),
        ]

    def test_one_folder_twice(self, tmp_path: Path) -> None:
        """Lib64 is often a link to lib; what lies there is found once."""
        dist_info(tmp_path / "lib")
        (tmp_path / "lib64").symlink_to("lib")
        assert len(scan([tmp_path / "lib", tmp_path / "lib64"]).installed) == 1

    def test_long_metadata(self, tmp_path: Path) -> None:
        """Headers are found however long they are; a description is never mistaken for one."""
        metadata = "Name: demo\n" + "Keywords: x\n" * 5000 + "Version: 1.0\n\nVersion: 2.0\n"
        dist_info(tmp_path, metadata=metadata)
        assert str(only(tmp_path).version) == "1.0"

    @pytest.mark.parametrize(
        ("metadata", "reason"),
        [
            ("", "missing"),
            ("\n", "has the invalid name ''"),
            ("Name: a b\nVersion: 1\n", "has the invalid name 'a b'"),
            ("Name: demo\n", "has the invalid version ''"),
            ("Name: demo\nVersion: one\n", "has the invalid version 'one'"),
        ],
    )
    def test_broken(self, tmp_path: Path, metadata: str, reason: str) -> None:
        """What cannot be read is reported, and the rest is read all the same."""
        path = dist_info(tmp_path, metadata=metadata)
        dist_info(tmp_path, "other")
        found = scan([tmp_path])
        assert [entry.name for entry in found.installed] == ["other"]
        assert [broken.path for broken in found.broken] == [path]
        assert reason in found.broken[0].reason

    def test_leftover_of_pip(self, tmp_path: Path) -> None:
        """A folder that pip renamed and did not finish with is named as such."""
        dist_info(tmp_path, "~emo")
        (broken,) = scan([tmp_path]).broken
        assert "interrupted" in broken.reason

    def test_killed(self, tmp_path: Path) -> None:
        """What a change left that was killed is reported, with what puts it right."""
        (tmp_path / ".wheelfit-change").mkdir()
        (tmp_path / ".wheelfit.locking").touch()
        (broken,) = scan([tmp_path]).broken
        assert "wheelfit recover" in broken.reason

    def test_unreadable_details(self, tmp_path: Path) -> None:
        """Damaged further files become notes."""
        dist_info(tmp_path, direct_url__json="{", variant__json="{", wheelfit__json="[]")
        entry = only(tmp_path)
        assert len(entry.notes) == 3
        assert (entry.label, entry.direct_url) == (None, None)

    def test_direct_url(self, tmp_path: Path) -> None:
        """PEP 610: where it came from, and whether it is editable (PEP 660)."""
        content = {"url": "file:///src", "dir_info": {"editable": True}}
        dist_info(tmp_path, direct_url__json=json.dumps(content))
        entry = only(tmp_path)
        assert entry.direct_url == content
        assert entry.editable

    def test_metadata(self, tmp_path: Path) -> None:
        """Dependencies are read when asked for."""
        dist_info(tmp_path, metadata="Name: demo\nVersion: 1.0\nRequires-Dist: other>=2\n")
        (requirement,) = only(tmp_path).metadata().requires
        assert requirement.name == "other"

    def test_metadata_gone(self, tmp_path: Path) -> None:
        """METADATA that went away meanwhile is an error of ours."""
        path = dist_info(tmp_path)
        entry = only(tmp_path)
        (path / "METADATA").unlink()
        with pytest.raises(FileProblem, match="missing"):
            entry.metadata()

    def test_for_the_resolver(self, tmp_path: Path) -> None:
        """The resolver gets name, version, label and how to read the rest."""
        dist_info(tmp_path, variant__json=json.dumps(DOCUMENT))
        present = only(tmp_path).for_resolver()
        assert (present.name, present.label) == ("demo", "v3")
        assert present.document is not None
        assert present.read().name == "demo"


class TestLegacy:
    """What came before .dist-info can be listed."""

    def test_egg_info_folder(self, tmp_path: Path) -> None:
        """A folder with PKG-INFO."""
        path = tmp_path / "demo-1.0-py3.11.egg-info"
        path.mkdir()
        (path / "PKG-INFO").write_text("Name: demo\nVersion: 1.0\n")
        assert only(tmp_path).legacy

    def test_egg_info_file(self, tmp_path: Path) -> None:
        """A single file, as distutils wrote it."""
        (tmp_path / "demo-1.0.egg-info").write_text("Name: demo\nVersion: 1.0\n")
        assert only(tmp_path).legacy
        assert only(tmp_path).metadata().name == "demo"

    def test_egg_link(self, tmp_path: Path) -> None:
        """``setup.py develop`` left a pointer to a source tree."""
        info = tmp_path / "src" / "demo.egg-info"
        info.mkdir(parents=True)
        (info / "PKG-INFO").write_text("Name: demo\nVersion: 1.0\n")
        site = tmp_path / "site"
        site.mkdir()
        (site / "demo.egg-link").write_text(f"{tmp_path / 'src'}\n.")
        assert only(site).editable
        assert only(site).legacy
        (info / "PKG-INFO").unlink()
        assert scan([site]).broken


class TestChoice:
    """F-96: what was chosen."""

    def test_ours(self, tmp_path: Path) -> None:
        """Our record and variant.json together say label, properties and hashes."""
        choice = RecordedChoice("demo-1.0-py3-none-any-v3.whl", V3, {"sha256": "00"})
        dist_info(
            tmp_path,
            variant__json=json.dumps(DOCUMENT),
            wheelfit__json=format_choice(choice).decode(),
        )
        entry = only(tmp_path)
        assert entry.label == "v3"
        assert entry.properties == PropertySet.from_mapping(X86)
        assert entry.hashes == {"sha256": "00"}
        assert str(entry) == "demo 1.0 (v3)"

    def test_of_another_tool(self, tmp_path: Path) -> None:
        """Without our record, the one label of variant.json counts."""
        dist_info(tmp_path, variant__json=json.dumps(DOCUMENT))
        entry = only(tmp_path)
        assert entry.label == "v3"
        assert entry.properties == PropertySet.from_mapping(X86)

    def test_old_layout(self, tmp_path: Path) -> None:
        """Wheels of 2025 keep label and properties in another layout; it is read too."""
        old = {
            "$schema": "https://variants-schema.wheelnext.dev/v0.0.3.json",
            "default-priorities": {"namespace": ["x86_64"]},
            "providers": {"x86_64": {"requires": ["p"], "plugin-api": "p:P"}},
            "variants": {"00000000": {}},
        }
        dist_info(tmp_path, variant__json=json.dumps(old))
        assert only(tmp_path).label == "00000000"

    def test_plain_with_document(self, tmp_path: Path) -> None:
        """F-10: a plain wheel that contains a variant.json is plain."""
        choice = RecordedChoice("demo-1.0-py3-none-any.whl", None)
        dist_info(
            tmp_path,
            variant__json=json.dumps(DOCUMENT),
            wheelfit__json=format_choice(choice).decode(),
        )
        assert only(tmp_path).label is None

    def test_document_of_a_release(self, tmp_path: Path) -> None:
        """A document with several labels does not say which one was chosen."""
        document = release_document({"v3": X86, "null": {}}, static=X86)
        dist_info(tmp_path, variant__json=json.dumps(document))
        assert only(tmp_path).label is None

    def test_round_trip(self) -> None:
        """Writing and reading are inverses."""
        choice = RecordedChoice("demo-1.0-py3-none-any-v3.whl", V3, {"sha256": "ab"})
        assert parse_choice(format_choice(choice)) == choice
        forced = replace(
            choice, host_and_overrides=HostAndOverrides("cuda-12.8-sm90", ("A=1", "--label b=c"))
        )
        assert parse_choice(format_choice(forced)) == forced

    def test_a_record_of_before(self) -> None:
        """A record that does not know of hosts and overrides is read as it was."""
        data = b'{"version": 1, "filename": "x.whl", "label": null, "hashes": {}}'
        assert parse_choice(data) == RecordedChoice("x.whl", None)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"null",
            b"[" * 100_000,
            b'{"version": 2, "filename": "x", "label": null, "hashes": {}}',
            b'{"version": 1, "filename": 1, "label": null, "hashes": {}}',
            b'{"version": 1, "filename": "x", "label": "A B", "hashes": {}}',
            b'{"version": 1, "filename": "x", "label": null, "hashes": {"a": 1}}',
            b'{"version": 1, "filename": "x", "label": null, "hashes": 1}',
            b'{"version": 1, "filename": "x", "label": null, "hashes": {}, "host": 1}',
            b'{"version": 1, "filename": "x", "label": null, "hashes": {}, "overrides": "x"}',
        ],
    )
    def test_nonsense(self, data: bytes) -> None:
        """A record that is damaged, or of a later version, is not believed."""
        assert parse_choice(data) is None
