"""A static index of a folder of wheels."""

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
from wheelfit.errors import EnvironmentBusy
from wheelfit.server.generate.targets import FolderTarget
from wheelfit.testing.wheels import add_member, build_wheel, release_document
from wheelfit_runtime.errors import FileProblem, UserError


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Give a folder with one release, in folders."""
    folder = tmp_path / "dist"
    build_release(folder / "variants", labels=("null", "mkl"))
    build_release(folder, labels=(None,))
    return Site(folder)


def release(name: str, version: str) -> tuple[NormalizedName, Version]:
    """Return a release as it is named."""
    return canonicalize_name(name), Version(version)


def codes(site: Site, **wishes: bool) -> set[str]:
    """Return what is refused."""
    return {one.code for one in site.generate(**wishes).refused}


class TestPages:
    """What pages say."""

    def test_every_file_is_what_its_entry_says(self, site: Site) -> None:
        """F-70: wheels and index file are listed with digest, size and metadata that are true."""
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

    def test_the_index_file_is_combined_from_the_wheels(self, site: Site) -> None:
        """F-74: it is valid, has the labels of the wheels, and no other of the document."""
        site.generate()
        entry = site.page()["fast-1.0-variants.json"]
        assert entry.keys() == {"filename", "url", "hashes", "size"}  # F-72
        data = site.file(entry["url"]).read_bytes()
        assert not check_document(data)
        assert json.loads(data)["variants"].keys() == {"null", "mkl"}

    def test_html_and_json_list_the_same(self, site: Site) -> None:
        """F-71: the index file is on both forms of the page."""
        site.generate()
        html = (site.place / "simple/fast/index.html").read_text()
        assert all(f">{name}</a>" in html for name in site.page())

    def test_yanks_and_their_reasons(self, site: Site) -> None:
        """A file beside a wheel yanks it, one named after a release all of it (PEP 592)."""
        (site.folder / "fast-1.0-py3-none-any.whl.yanked").write_text("wrong\nbuild\n")
        site.generate()
        page = site.page()
        assert page["fast-1.0-py3-none-any.whl"]["yanked"] == "wrong build"
        assert "yanked" not in page["fast-1.0-py3-none-any-mkl.whl"]
        (site.folder / "variants" / "Fast-1.0.0.yanked").touch()
        site.generate()
        assert site.page()["fast-1.0-py3-none-any-mkl.whl"]["yanked"] is True

    def test_what_is_there_for_nothing_is_told(self, site: Site) -> None:
        """A slip in a name costs nothing else, and is not passed over."""
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
        """A source distribution is listed with the Python it wants, from its PKG-INFO."""
        info = b"Metadata-Version: 2.2\nName: fast\nVersion: 1.0\nRequires-Python: >=3.9\n"
        with tarfile.open(site.folder / "fast-1.0.tar.gz", "w:gz") as archive:
            member = tarfile.TarInfo("fast-1.0/PKG-INFO")
            member.size = len(info)
            archive.addfile(member, BytesIO(info))
        site.generate()
        assert site.page()["fast-1.0.tar.gz"]["requires-python"] == ">=3.9"

    def test_a_project_that_is_gone_has_no_page(self, site: Site) -> None:
        """What is no longer in the folder is no longer listed."""
        build_release(site.folder, "other", labels=(None,))
        site.generate()
        next(site.folder.glob("other-*.whl")).unlink()
        site.generate()
        assert not (site.place / "simple/other").exists()
        assert b"other" not in (site.place / "simple/index.json").read_bytes()


def attestation(filename: str, sha256: str) -> bytes:
    """Return a provenance object about a file, signed by nobody."""
    statement = {"subject": [{"name": filename, "digest": {"sha256": sha256}}]}
    envelope = {"statement": base64.b64encode(json.dumps(statement).encode()).decode()}
    bundle = {"publisher": {"kind": "GitHub"}, "attestations": [{"envelope": envelope}]}
    return json.dumps({"version": 1, "attestation_bundles": [bundle]}).encode()


class TestProvenance:
    """What was attested (PEP 740)."""

    @pytest.mark.parametrize("elsewhere", [False, True])
    def test_it_is_passed_on(self, site: Site, tmp_path: Path, *, elsewhere: bool) -> None:
        """The very bytes are where the entry says."""
        if elsewhere:
            site.place = tmp_path / "public"
        wheel = site.folder / "fast-1.0-py3-none-any.whl"
        data = attestation(wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest())
        Path(f"{wheel}.provenance").write_bytes(data)
        assert not site.generate().refused
        entry = site.page()[wheel.name]
        assert site.file(entry["provenance"]).read_bytes() == data

    @pytest.mark.parametrize("data", [b"", b"{}", b"[1]", attestation("other", "00")])
    def test_one_about_another_file_is_refused(self, site: Site, data: bytes) -> None:
        """What is not a provenance of the file keeps the file out."""
        (site.folder / "fast-1.0-py3-none-any.whl.provenance").write_bytes(data)
        assert codes(site) == {"foreign-provenance"}


class TestRefusals:
    """F-131: what an index refuses, with all reasons."""

    def test_nothing_is_published_unless_it_is_kept_going(self, site: Site) -> None:
        """A wheel that is not sound stops everything, or is left out."""
        (site.folder / "fast-2.0-py3-none-any.whl").write_bytes(b"no wheel")
        done = site.generate()
        assert not done.is_published
        assert site.page() == {}
        done = site.generate(keep_going=True)
        assert done.is_published
        assert done.excluded == ("fast-2.0-py3-none-any.whl",)
        assert [one.code for one in done.refused] == ["unsound-archive"]
        assert len(site.page()) == 4

    def test_a_plain_wheel_that_nobody_can_install(self, site: Site) -> None:
        """B-40: a plain wheel with variant markers stops everything, or is left out."""
        requires = ['x; "blas" in variant_namespaces']
        build_wheel(site.folder, "fast", "2.0", requires=requires)
        assert codes(site) == {"variant-marker-in-plain-wheel"}
        assert site.generate(keep_going=True).excluded == ("fast-2.0-py3-none-any.whl",)

    def test_wheels_that_contradict_each_other(self, site: Site) -> None:
        """F-65: the variants of the release are left out, its plain wheel stays."""
        other = release_document(
            {"open": {"blas": {"library": ["openblas"]}}},
            static={"blas": {"library": ["mkl", "openblas"]}},
        )
        build_wheel(site.folder, "fast", "1.0", label="open", document=other)
        done = site.generate(keep_going=True)
        assert {one.code for one in done.refused} == {"inconsistent-release"}
        assert site.page().keys() == {"fast-1.0-py3-none-any.whl"}

    def test_one_label_with_two_property_sets(self, site: Site) -> None:
        """F-61: a label means the same in every wheel of a release."""
        other = release_document(
            {"mkl": {"blas": {"library": ["openblas"]}}},
            static={"blas": {"library": ["openblas", "mkl"]}},
        )
        build_wheel(site.folder, "fast", "1.0", label="mkl", document=other, build="7")
        assert codes(site) == {"inconsistent-release"}

    def test_a_written_index_file_that_says_something_else(self, site: Site) -> None:
        """F-74: one that differs from the wheels is refused, an equal one is taken silently."""
        path = site.folder / "fast-1.0-variants.json"
        path.write_text(json.dumps(DOCUMENT))  # has a label more
        assert codes(site) == {"claims-disagree"}
        site.generate(keep_going=True)
        made = site.file(site.page()["fast-1.0-variants.json"]["url"])
        document = json.loads(made.read_bytes())
        path.write_text(json.dumps(document))  # written otherwise, and the same
        assert codes(site) == set()

    def test_an_index_file_without_wheels(self, site: Site) -> None:
        """F-128: an index never invents what no wheel backs."""
        build_release(site.folder, version="3.0", labels=(None,))
        (site.folder / "fast-3.0-variants.json").write_text(json.dumps(DOCUMENT))
        assert codes(site) == {"label-without-wheel"}

    def test_two_files_of_one_name(self, site: Site) -> None:
        """Names that differ in case only are one name; equal files are one file."""
        wheel = site.folder / "fast-1.0-py3-none-any.whl"
        (site.folder / "copy").mkdir()
        copy = site.folder / "copy" / wheel.name
        shutil.copy(wheel, copy)
        assert codes(site) == set()
        copy.unlink()
        build_wheel(site.folder / "copy", "fast", "1.0", description="another")
        assert codes(site, replace=True) == {"same-name"}

    def test_a_file_that_was_published_with_other_content(self, site: Site) -> None:
        """Locks have the hash of a file, so another one under its name is refused."""
        site.generate()
        build_wheel(site.folder, "fast", "1.0", description="changed")
        assert codes(site) == {"changed-file"}
        assert codes(site, replace=True) == set()
        data = (site.folder / "fast-1.0-py3-none-any.whl").read_bytes()
        entry = site.page()["fast-1.0-py3-none-any.whl"]
        assert entry["hashes"]["sha256"] == hashlib.sha256(data).hexdigest()
        metadata = Path(f"{site.file(entry['url'])}.metadata").read_bytes()
        assert entry["core-metadata"]["sha256"] == hashlib.sha256(metadata).hexdigest()

    def test_a_name_is_known_after_the_file_has_left(self, site: Site) -> None:
        """The hash of what was ever published stays, also when nothing is left of the file."""
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
    def test_what_is_published_stays_if_its_copy_is_damaged(
        self, site: Site, tmp_path: Path, name: str
    ) -> None:
        """Who keeps going takes nothing sound from the index: the release stays as it was."""
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

    def test_content_that_differs_from_the_record(self, site: Site) -> None:
        """B-38: the hashes of RECORD count where all content is compared."""
        wheel = build_wheel(site.folder, "bad", "1.0", files={"bad.py": "1"})
        with zipfile.ZipFile(wheel) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, content in contents.items():
                add_member(archive, name, b"2" if name == "bad.py" else content)
        assert codes(site) == set()
        assert codes(site, full=True) == {"damaged-content"}

    def test_the_rules_of_uploads(self, site: Site) -> None:
        """What a live index refuses is refused where everything is to be looked at."""
        build_wheel(site.folder, "odd", "1.0", tag="py3-none-plan9_vax")
        assert codes(site) == set()
        assert codes(site, full=True) == {"unknown-platform"}

    def test_pages_of_others_stay(self, site: Site) -> None:
        """A folder of pages that wheelfit has not made is not written over."""
        (site.place / "simple").mkdir()
        (site.place / "simple" / "index.html").write_text("mine")
        with pytest.raises(FileProblem, match="did not generate"):
            site.generate()

    def test_one_at_a_time(self, site: Site) -> None:
        """A second run meanwhile is told that somebody publishes there."""
        with FolderTarget(site.place).opened(), pytest.raises(EnvironmentBusy):
            site.generate()


class TestReleases:
    """Releases that appear as one act."""

    def test_only_what_is_named(self, site: Site) -> None:
        """Others in the folder stay hidden, and others that are published stay."""
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

    def test_all_or_nothing(self, site: Site) -> None:
        """If one wheel of a release is refused, nothing of it is published."""
        (site.folder / "fast-1.0-py3-none-any-cu.whl").write_bytes(b"")
        build_release(site.folder, "other", labels=(None,))
        wanted = frozenset({release("fast", "1.0"), release("other", "1.0")})
        done = site.generate(releases=wanted, keep_going=True)
        assert site.page() == {}
        assert site.page("other")
        assert len(done.excluded) == 4

    def test_a_release_does_not_lose_files(self, site: Site) -> None:
        """A folder that lacks a published file of the release changes nothing."""
        wanted = frozenset({release("fast", "1.0")})
        site.generate(releases=wanted)
        next(site.folder.rglob("*-mkl.whl")).unlink()
        done = site.generate(releases=wanted)
        assert [one.code for one in done.refused] == ["incomplete-release"]
        assert len(site.page()) == 4

    def test_there_is_no_such_release(self, site: Site) -> None:
        """What is named has to be there."""
        with pytest.raises(UserError, match="no file of fast==9"):
            site.generate(releases=frozenset({release("fast", "9")}))

    def test_a_new_variant_changes_the_index_file_beside_the_old_one(self, site: Site) -> None:
        """F-73: who read the old page still finds the file that it promised."""
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


class TestAgain:
    """A second run."""

    def test_nothing_is_read_or_written_twice(self, site: Site) -> None:
        """What has not changed is neither hashed nor written."""
        site.generate()
        before = {path: path.stat().st_mtime_ns for path in site.place.rglob("*")}
        done = site.generate()
        assert (done.hashed, done.written, done.removed) == (0, (), ())
        assert {path: path.stat().st_mtime_ns for path in site.place.rglob("*")} == before

    def test_only_what_changed_is_looked_at(self, site: Site) -> None:
        """A new file costs itself and its page."""
        site.generate()
        build_release(site.folder, "other", labels=(None,))
        done = site.generate()
        assert done.hashed == 1
        assert all("fast" not in path for path in done.written)

    def test_the_first_upload_time_stays(self, site: Site) -> None:
        """The time is that of the file when it was first published, whatever happens to it."""
        site.generate()
        times = {name: one.get("upload-time") for name, one in site.page().items()}
        for path in site.folder.rglob("*.whl"):
            os.utime(path, (1, 1))
        (site.place / "simple/.facts.json").unlink()
        assert site.generate().hashed == 3
        assert {name: one.get("upload-time") for name, one in site.page().items()} == times

    def test_pages_that_somebody_damaged_are_mended(self, site: Site) -> None:
        """A page that is not what was written is written again."""
        site.generate()
        page = site.place / "simple/fast/index.html"
        good = page.read_bytes()
        page.write_bytes(b"")
        site.generate()
        assert page.read_bytes() == good

    @pytest.mark.parametrize("data", [b"", b"[]", b'{"version": 2}', b'{"version": 1}'])
    def test_what_was_published_must_be_readable(self, site: Site, data: bytes) -> None:
        """Nothing is published over what cannot be understood."""
        site.generate()
        (site.place / "simple/wheelfit.json").write_bytes(data)
        with pytest.raises(FileProblem, match="cannot be read"):
            site.generate()

    @pytest.mark.parametrize("data", [b"", b"[]", b'{"version": 1}', b"\xff"])
    def test_a_damaged_memory_costs_time_only(self, site: Site, data: bytes) -> None:
        """What is remembered of files is a cache."""
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
def test_equal_files_give_equal_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    releases: list[tuple[str, str, str | None]],
    order: random.Random,
) -> None:
    """F-63: neither the order of building, nor folders, nor earlier runs show in the pages."""
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
