"""Static indexes of a folder of wheels."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from cli.running import tree
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version
from server.generate.folders import DOCUMENT, Site, build_release

from wheelfit.core.filename import parse_index_file_name
from wheelfit.core.metadata import check_document
from wheelfit.errors import EnvironmentBusy, LinkRefused
from wheelfit.server.generate import collection
from wheelfit.server.generate.targets import FolderTarget
from wheelfit.testing.wheels import add_member, build_wheel, release_document
from wheelfit_runtime.errors import FileProblem, UserError

EMPTY_MANIFEST = {"version": 1, "projects": {}, "pages": {}, "files": {}, "unreferenced": []}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a folder with one release, in subfolders."""
    folder = tmp_path / "dist"
    build_release(folder / "variants", labels=("null", "mkl"))
    build_release(folder, labels=(None,))
    return Site(folder)


def release(name: str, version: str) -> tuple[NormalizedName, Version]:
    """Return the name and version of a release."""
    return canonicalize_name(name), Version(version)


def codes(site: Site, **wishes: bool) -> set[str]:
    """Return the codes of the refusals."""
    return {one.code for one in site.generate(**wishes).refused}


class TestPages:
    """Contents of pages."""

    def test_entries_match_the_files(self, site: Site) -> None:
        """F-70: wheels and the index file are listed with their digest, size and metadata."""
        done = site.generate()
        assert (done.projects, done.releases, done.files, done.hashed) == (1, 1, 4, 3)
        for name, entry in site.page().items():
            data = site.file(entry["url"]).read_bytes()
            assert entry["hashes"]["sha256"] == hashlib.sha256(data).hexdigest()
            assert entry["size"] == len(data)
            if parse_index_file_name(name) is None:
                metadata = Path(f"{site.file(entry['url'])}.metadata").read_bytes()
                digest = hashlib.sha256(metadata).hexdigest()
                assert entry["core-metadata"] == {"sha256": digest}
                assert entry["upload-time"].endswith("Z")

    def test_index_file_is_combined(self, site: Site) -> None:
        """F-74: the index file is valid and has exactly the labels of the wheels."""
        site.generate()
        entry = site.page()["fast-1.0-variants.json"]
        assert entry.keys() == {"filename", "url", "hashes", "size"}  # F-72
        data = site.file(entry["url"]).read_bytes()
        assert not check_document(data)
        assert json.loads(data)["variants"].keys() == {"null", "mkl"}

    def test_html_and_json_pages(self, site: Site) -> None:
        """F-71: HTML and JSON pages list the same files."""
        site.generate()
        html = (site.place / "simple/fast/index.html").read_text()
        assert all(f">{name}</a>" in html for name in site.page())

    def test_yanks(self, site: Site) -> None:
        """A file beside a wheel yanks it; a file named after a release yanks all (PEP 592)."""
        (site.folder / "fast-1.0-py3-none-any.whl.yanked").write_text("wrong\nbuild\n")
        site.generate()
        page = site.page()
        assert page["fast-1.0-py3-none-any.whl"]["yanked"] == "wrong build"
        assert "yanked" not in page["fast-1.0-py3-none-any-mkl.whl"]
        (site.folder / "variants" / "Fast-1.0.0.yanked").touch()
        site.generate()
        assert site.page()["fast-1.0-py3-none-any-mkl.whl"]["yanked"] is True

    def test_unused_files(self, site: Site) -> None:
        """Files without effect are reported."""
        (site.folder / "data.zip").touch()
        (site.folder / "fast-9.0.yanked").touch()
        (site.folder / "slow-1.0-py3-none-any.whl.provenance").touch()
        done = site.generate()
        assert done.is_published
        assert [note.split()[0] for note in done.notes] == [
            "data.zip",
            "slow-1.0-py3-none-any.whl.provenance",
            "fast-9.0.yanked",
        ]

    def test_source_distributions_are_listed(self, site: Site) -> None:
        """A source distribution is listed with its Requires-Python."""
        info = b"Metadata-Version: 2.2\nName: fast\nVersion: 1.0\nRequires-Python: >=3.9\n"
        with tarfile.open(site.folder / "fast-1.0.tar.gz", "w:gz") as archive:
            member = tarfile.TarInfo("fast-1.0/PKG-INFO")
            member.size = len(info)
            archive.addfile(member, BytesIO(info))
        site.generate()
        assert site.page()["fast-1.0.tar.gz"]["requires-python"] == ">=3.9"

    def test_removed_project(self, site: Site) -> None:
        """A removed project is no longer listed."""
        build_release(site.folder, "other", labels=(None,))
        site.generate()
        next(site.folder.glob("other-*.whl")).unlink()
        site.generate()
        assert not (site.place / "simple/other").exists()
        assert b"other" not in (site.place / "simple/index.json").read_bytes()


def attestation(filename: str, sha256: str) -> bytes:
    """Return an unsigned provenance object of a file."""
    statement = {"subject": [{"name": filename, "digest": {"sha256": sha256}}]}
    envelope = {"statement": base64.b64encode(json.dumps(statement).encode()).decode()}
    bundle = {"publisher": {"kind": "GitHub"}, "attestations": [{"envelope": envelope}]}
    return json.dumps({"version": 1, "attestation_bundles": [bundle]}).encode()


class TestProvenance:
    """Attestations (PEP 740)."""

    @pytest.mark.parametrize("elsewhere", [False, True])
    def test_provenance_file(self, site: Site, tmp_path: Path, *, elsewhere: bool) -> None:
        """The provenance is published unchanged."""
        if elsewhere:
            site.place = tmp_path / "public"
        wheel = site.folder / "fast-1.0-py3-none-any.whl"
        data = attestation(wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest())
        Path(f"{wheel}.provenance").write_bytes(data)
        assert not site.generate().refused
        entry = site.page()[wheel.name]
        assert site.file(entry["provenance"]).read_bytes() == data

    @pytest.mark.parametrize("data", [b"", b"{}", b"[1]", attestation("other", "00")])
    def test_provenance_of_another_file(self, site: Site, data: bytes) -> None:
        """A provenance of another file refuses the file."""
        (site.folder / "fast-1.0-py3-none-any.whl.provenance").write_bytes(data)
        assert codes(site) == {"foreign-provenance"}


class TestRefusals:
    """F-131: files that an index refuses, with all reasons."""

    def test_broken_wheel(self, site: Site) -> None:
        """A broken wheel refuses everything, or is left out with keep_going."""
        (site.folder / "fast-2.0-py3-none-any.whl").write_bytes(b"no wheel")
        done = site.generate()
        assert not done.is_published
        assert site.page() == {}
        done = site.generate(keep_going=True)
        assert done.is_published
        assert done.excluded == ("fast-2.0-py3-none-any.whl",)
        assert [one.code for one in done.refused] == ["unsound-archive"]
        assert len(site.page()) == 4

    def test_variant_markers_in_a_plain_wheel(self, site: Site) -> None:
        """B-40: A plain wheel with variant markers is refused."""
        requires = ['x; "blas" in variant_namespaces']
        build_wheel(site.folder, "fast", "2.0", requires=requires)
        assert codes(site) == {"variant-marker-in-plain-wheel"}
        assert site.generate(keep_going=True).excluded == ("fast-2.0-py3-none-any.whl",)

    def test_inconsistent_variants(self, site: Site) -> None:
        """F-65: inconsistent variants of a release are left out; its plain wheel is listed."""
        other = release_document(
            {"open": {"blas": {"library": ["openblas"]}}},
            static={"blas": {"library": ["mkl", "openblas"]}},
        )
        build_wheel(site.folder, "fast", "1.0", label="open", document=other)
        done = site.generate(keep_going=True)
        assert {one.code for one in done.refused} == {"inconsistent-release"}
        assert site.page().keys() == {"fast-1.0-py3-none-any.whl"}

    def test_project_with_nothing_but_inconsistent_variants(self, site: Site) -> None:
        """Such a project has no page, and an index with no other one is not emptied."""
        shutil.rmtree(site.folder)
        for label, order in (("mkl", ["mkl", "openblas"]), ("open", ["openblas", "mkl"])):
            entry = {label: {"blas": {"library": order[:1]}}}
            document = release_document(entry, static={"blas": {"library": order}})
            build_wheel(site.folder, "other", "1.0", label=label, document=document)
        outside = Site(site.folder, site.folder.parent / "outside")
        assert outside.generate(keep_going=True).projects == 0
        assert outside.page("other") == {}
        build_wheel(site.folder, "fast", "1.0")
        outside.generate(keep_going=True)
        (site.folder / "fast-1.0-py3-none-any.whl").unlink()
        with pytest.raises(UserError, match="nothing to publish"):
            outside.generate(keep_going=True)

    def test_label_with_two_property_sets(self, site: Site) -> None:
        """F-61: A label has the same properties in every wheel of a release."""
        other = release_document(
            {"mkl": {"blas": {"library": ["openblas"]}}},
            static={"blas": {"library": ["openblas", "mkl"]}},
        )
        build_wheel(site.folder, "fast", "1.0", label="mkl", document=other, build="7")
        assert codes(site) == {"inconsistent-release"}

    def test_existing_index_file(self, site: Site) -> None:
        """F-74: an existing index file must match the wheels."""
        path = site.folder / "fast-1.0-variants.json"
        path.write_text(json.dumps(DOCUMENT))  # has a label more
        assert codes(site) == {"claims-disagree"}
        site.generate(keep_going=True)
        made = site.file(site.page()["fast-1.0-variants.json"]["url"])
        document = json.loads(made.read_bytes())
        path.write_text(json.dumps(document))  # written otherwise, and the same
        assert codes(site) == set()

    def test_index_file_without_wheels(self, site: Site) -> None:
        """F-128: an index file needs wheels with its labels."""
        build_release(site.folder, version="3.0", labels=(None,))
        (site.folder / "fast-3.0-variants.json").write_text(json.dumps(DOCUMENT))
        assert codes(site) == {"label-without-wheel"}

    def test_two_files_with_the_same_name(self, site: Site) -> None:
        """Names are compared without regard to case; equal files count once."""
        wheel = site.folder / "fast-1.0-py3-none-any.whl"
        (site.folder / "copy").mkdir()
        copy = site.folder / "copy" / wheel.name
        shutil.copy(wheel, copy)
        assert codes(site) == set()
        copy.unlink()
        build_wheel(site.folder / "copy", "fast", "1.0", description="another")
        assert codes(site, replace=True) == {"same-name"}

    def test_changed_file(self, site: Site) -> None:
        """A published file cannot be replaced by other content."""
        site.generate()
        build_wheel(site.folder, "fast", "1.0", description="changed")
        assert codes(site) == {"changed-file"}
        assert codes(site, replace=True) == set()
        data = (site.folder / "fast-1.0-py3-none-any.whl").read_bytes()
        entry = site.page()["fast-1.0-py3-none-any.whl"]
        assert entry["hashes"]["sha256"] == hashlib.sha256(data).hexdigest()
        metadata = Path(f"{site.file(entry['url'])}.metadata").read_bytes()
        assert entry["core-metadata"]["sha256"] == hashlib.sha256(metadata).hexdigest()

    def test_name_of_a_removed_file(self, site: Site) -> None:
        """The hash of a published file is remembered after its removal."""
        wheel = site.folder / "fast-1.0-py3-none-any.whl"
        data = wheel.read_bytes()
        site.generate()
        wheel.unlink()
        for _ in range(3):
            site.generate(prune=True)
        build_wheel(site.folder, "fast", "1.0", description="changed")
        assert codes(site) == {"changed-file"}
        wheel.write_bytes(data)
        assert codes(site) == set()
        assert wheel.name in site.page()

    @pytest.mark.parametrize(
        "name", ["fast-1.0-py3-none-any.whl", "variants/fast-1.0-py3-none-any-mkl.whl"]
    )
    def test_damaged_copy_of_a_published_file(self, site: Site, tmp_path: Path, name: str) -> None:
        """With keep_going a release remains published though its local copy is damaged."""
        site = Site(site.folder, tmp_path / "public")
        site.generate()
        before = site.page()
        (site.folder / name).write_bytes(b"no wheel")
        build_wheel(site.folder, "fast", "1.0", build="2")
        build_wheel(site.folder, "fast", "2.0")
        assert not site.generate().is_published
        done = site.generate(keep_going=True, prune=True)
        assert {one.code for one in done.refused} >= {"changed-file"}
        assert "fast==1.0 stays as it was published" in done.notes
        assert done.excluded == ("fast-1.0-2-py3-none-any.whl",)
        page = site.page()
        assert page.pop("fast-2.0-py3-none-any.whl")
        assert page == before
        assert all(site.file(entry["url"]).exists() for entry in page.values())

    def test_record_mismatch(self, site: Site) -> None:
        """B-38: the hashes of RECORD are compared when all content is checked."""
        wheel = build_wheel(site.folder, "bad", "1.0", files={"bad.py": "1"})
        with zipfile.ZipFile(wheel) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, content in contents.items():
                add_member(archive, name, b"2" if name == "bad.py" else content)
        assert codes(site) == set()
        assert codes(site, check_content=True) == {"damaged-content"}

    def test_upload_rules(self, site: Site) -> None:
        """The rules of a live index apply with full checks."""
        build_wheel(site.folder, "odd", "1.0", tag="py3-none-plan9_vax")
        assert codes(site) == set()
        assert codes(site, check_content=True) == {"unknown-platform"}

    def test_pages_of_other_tools(self, site: Site) -> None:
        """Pages that wheelfit did not write are not overwritten."""
        (site.place / "simple").mkdir()
        (site.place / "simple" / "index.html").write_text("mine")
        with pytest.raises(FileProblem, match="has not generated"):
            site.generate()

    def test_concurrent_run(self, site: Site) -> None:
        """A concurrent run is an error."""
        with FolderTarget(site.place).lock(), pytest.raises(EnvironmentBusy):
            site.generate()


class TestReleases:
    """Publication of whole releases."""

    def test_named_releases(self, site: Site) -> None:
        """Only named releases are published; published ones are kept."""
        site.place = site.folder.parent / "public"
        site.generate(releases=frozenset({release("fast", "1.0")}))
        for path in site.folder.rglob("*.whl"):
            path.unlink()
        build_release(site.folder, version="2.0")
        build_release(site.folder, version="3.0")
        done = site.generate(releases=frozenset({release("fast", "2.0")}))
        assert done.hashed == 3
        assert done.releases == 2
        versions = {name.split("-")[1] for name in site.page()}
        assert versions == {"1.0", "2.0"}
        for entry in site.page().values():
            assert site.file(entry["url"]).exists()

    def test_refused_wheel_of_a_release(self, site: Site) -> None:
        """If one wheel of a release is refused, none is published."""
        (site.folder / "fast-1.0-py3-none-any-cu.whl").write_bytes(b"")
        build_release(site.folder, "other", labels=(None,))
        wanted = frozenset({release("fast", "1.0"), release("other", "1.0")})
        done = site.generate(releases=wanted, keep_going=True)
        assert site.page() == {}
        assert site.page("other")
        assert len(done.excluded) == 4

    def test_incomplete_release(self, site: Site) -> None:
        """A folder without a published file of the release changes nothing."""
        wanted = frozenset({release("fast", "1.0")})
        site.generate(releases=wanted)
        next(site.folder.rglob("*-mkl.whl")).unlink()
        done = site.generate(releases=wanted)
        assert [one.code for one in done.refused] == ["incomplete-release"]
        assert len(site.page()) == 4

    def test_unknown_release(self, site: Site) -> None:
        """A named release must exist."""
        with pytest.raises(UserError, match="no file of fast==9"):
            site.generate(releases=frozenset({release("fast", "9")}))

    def test_old_index_file_is_kept(self, site: Site) -> None:
        """F-73: the previous index file remains for readers of the previous page."""
        site.generate()
        old = site.page()["fast-1.0-variants.json"]
        build_release(site.folder, labels=("open",))
        done = site.generate()
        new = site.page()["fast-1.0-variants.json"]
        assert site.file(old["url"]).exists()
        assert site.file(new["url"]) != site.file(old["url"])
        assert done.unreferenced == 1
        assert site.generate(prune=True).removed  # nor did the last change name it
        assert not site.file(old["url"]).exists()
        assert site.file(new["url"]).exists()


class TestSecondRun:
    """A second run."""

    def test_unchanged_folder(self, site: Site) -> None:
        """Unchanged files are neither hashed nor written."""
        site.generate()
        before = {path: path.stat().st_mtime_ns for path in site.place.rglob("*")}
        done = site.generate()
        assert (done.hashed, done.written, done.removed) == (0, (), ())
        assert {path: path.stat().st_mtime_ns for path in site.place.rglob("*")} == before

    def test_new_file(self, site: Site) -> None:
        """A new file needs only its hash and its page."""
        site.generate()
        build_release(site.folder, "other", labels=(None,))
        done = site.generate()
        assert done.hashed == 1
        assert all("fast" not in path for path in done.written)

    def test_upload_times_are_kept(self, site: Site) -> None:
        """The upload time is that of the first publication."""
        site.generate()
        times = {name: one.get("upload-time") for name, one in site.page().items()}
        for path in site.folder.rglob("*.whl"):
            os.utime(path, (1, 1))
        (site.place / "simple/.facts.json").unlink()
        assert site.generate().hashed == 3
        assert {name: one.get("upload-time") for name, one in site.page().items()} == times

    def test_time_that_pages_cannot_express(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Some file systems have times after the year 9999."""
        monkeypatch.setattr(
            collection, "_signature", lambda status: (1, 1, status.st_size, 10**21, 1)
        )
        site.generate()
        assert {
            one["upload-time"][:10] for one in site.page().values() if "upload-time" in one
        } == {"9999-12-31"}

    def test_damaged_page(self, site: Site) -> None:
        """A damaged page is written again."""
        site.generate()
        page = site.place / "simple/fast/index.html"
        good = page.read_bytes()
        page.write_bytes(b"")
        site.generate()
        assert page.read_bytes() == good

    @pytest.mark.parametrize(
        "data",
        [
            "",
            "[]",
            '{"version": 2}',
            '{"version": 1}',
            json.dumps({**EMPTY_MANIFEST, "removed": {"a": 1}}),
            json.dumps(
                {**EMPTY_MANIFEST, "projects": {"a": [{"filename": 1, "url": "", "hashes": {}}]}}
            ),
        ],
    )
    def test_damaged_manifest(self, site: Site, data: str) -> None:
        """An unreadable manifest is an error."""
        site.generate()
        (site.place / "simple/wheelfit.json").write_text(data)
        with pytest.raises(FileProblem, match="cannot be read"):
            site.generate()

    @pytest.mark.parametrize("data", [b"", b"[]", b'{"version": 1}', b"\xff"])
    def test_damaged_cache(self, site: Site, data: bytes) -> None:
        """A damaged cache is ignored."""
        site.generate()
        (site.place / "simple/.facts.json").write_bytes(data)
        assert site.generate().hashed == 3


RELEASES = st.lists(
    st.tuples(
        st.sampled_from(["alpha", "beta"]),
        st.sampled_from(["1.0", "2.0"]),
        st.sampled_from([None, "null", "mkl", "open"]),
    ),
    min_size=1,
    max_size=6,
    unique=True,
)


@settings(max_examples=15)
@given(releases=RELEASES, order=st.randoms(use_true_random=False))
def test_reproducible_pages(
    tmp_path_factory: pytest.TempPathFactory,
    releases: list[tuple[str, str, str | None]],
    order: random.Random,
) -> None:
    """F-63: pages do not depend on the order of builds, on folders or on earlier runs."""
    base = tmp_path_factory.mktemp("equal")
    trees = []
    for number in range(2):
        site = Site(base / f"dist{number}", base / f"public{number}")
        shuffled = list(releases)
        order.shuffle(shuffled)
        for count, (name, version, label) in enumerate(shuffled):
            folder = site.folder / (f"part{count}" if number else "")
            (wheel,) = build_release(folder, name, version, [label])
            os.utime(wheel, (1_700_000_000, 1_700_000_000))
            if number and count % 2:
                site.generate()
        site.generate()
        trees.append(tree(site.place / "simple"))
    for name in (".facts.json", "wheelfit.json", ".lock"):
        trees[0].pop(name, None)
        trees[1].pop(name, None)
    # What an earlier run left behind is not a page.
    pages = [{k: v for k, v in one.items() if k.endswith(("html", "index.json"))} for one in trees]
    assert pages[0] == pages[1]


def test_linked_page(tmp_path: Path) -> None:
    """A link in the target is refused, not followed, and not taken for a missing file."""
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "index"
    (folder / "simple").mkdir(parents=True)
    (folder / "simple" / "index.html").symlink_to(tmp_path / "secret")
    target = FolderTarget(folder)
    with pytest.raises(LinkRefused):
        target.read("simple/index.html")
    with pytest.raises(LinkRefused):
        target.fetch("simple/index.html", tmp_path / "copy")
    assert not target.fetch("../secret", tmp_path / "copy")


def test_unreadable_page(tmp_path: Path) -> None:
    """The error for a file of the target that cannot be read does not mention writing."""
    (tmp_path / "simple" / "index.html").mkdir(parents=True)
    target = FolderTarget(tmp_path)
    with pytest.raises(FileProblem, match="the file cannot be read: "):
        target.read("simple/index.html")
    with pytest.raises(FileProblem, match="the file cannot be copied: "):
        target.fetch("simple/index.html", tmp_path / "copy")
