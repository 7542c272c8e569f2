"""What a family looks like to whoever asks a repository for it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from wheelfit.core.bridges import BridgeFamily
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.bridges import catalogue
from wheelfit.sources.bridges.catalogue import SHIPPED, BridgeCatalogue, KnownFamilies, shipped
from wheelfit.sources.bridges.repository import BridgedRepository
from wheelfit.sources.merged import Pool
from wheelfit.sources.page import File, ProjectPage
from wheelfit.testing.repositories import FakeRepository
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import FileProblem, HashMismatch, InvalidDocument, UserError

CUPY = "cupy_cuda13x-14.2.0-cp313-cp313-manylinux_2_28_x86_64.whl"
NUMPY = """
name = "numpy"
by-default = true
source = "https://numpy.example"
checked = 2026-11-22
says = "evil-numpy is better"

[[member]]
distribution = "evil-numpy"
label = "better"
when.nvidia.cuda_version_lower_bound = ["12.0"]

[[member]]
distribution = "numpy"
"""
SELECTOR = "cupy-14.2.0-cp313-cp313-manylinux_2_28_x86_64-cuda13.whl"


@pytest.fixture
def repository() -> FakeRepository:
    """Return a repository with some members."""
    repository = FakeRepository()
    repository.add_wheel(CUPY, requires_python=">=3.10", yanked="broken")
    repository.add_wheel("cupy_cuda12x-14.2.0-1-cp313-cp313-manylinux_2_28_x86_64.whl")
    repository.add_wheel("cupy_cuda12x-14.2.0-2-cp313-cp313-manylinux_2_28_x86_64.whl")
    repository.add_file("cupy-14.2.0.tar.gz", b"")
    repository.add_wheel("onnxruntime-1.32.0-cp313-cp313-win_amd64.whl")
    repository.add_wheel("xgboost-3.4.1-py3-none-manylinux_2_28_x86_64.whl")
    return repository


def bridged(repository: FakeRepository, *families: str) -> BridgedRepository:
    """Return the repository with some families."""
    return BridgedRepository(repository, BridgeCatalogue(families))


def page(repository: BridgedRepository, name: str) -> ProjectPage:
    """Return a page that is there."""
    found = repository.project(canonicalize_name(name))
    assert found is not None
    return found


def names(found: ProjectPage) -> list[str]:
    """Return the names of the files of a page."""
    return [file.filename for file in found.files]


def of(found: ProjectPage, filename: str) -> File:
    """Return a file of a page."""
    return next(file for file in found.files if file.filename == filename)


class TestPages:
    """What is listed."""

    def test_selectors(self, repository: FakeRepository) -> None:
        """A selector stands for each wheel, with its tags, Python and yank; sources are none."""
        found = page(bridged(repository), "cupy")
        assert names(found) == [
            SELECTOR,
            "cupy-14.2.0-cp313-cp313-manylinux_2_28_x86_64-cuda12.whl",
            "cupy-14.2.0-variants.json",
        ]
        selector = of(found, SELECTOR)
        assert selector.is_selector
        assert (selector.requires_python, selector.yanked) == (">=3.10", "broken")

    def test_a_member_of_that_name(self, repository: FakeRepository) -> None:
        """A member that has the family's name is listed as itself, and under its label."""
        found = page(bridged(repository, "xgboost"), "xgboost")
        plain, labelled, _ = found.files
        assert labelled.filename == "xgboost-3.4.1-py3-none-manylinux_2_28_x86_64-cuda13.whl"
        assert labelled == replace(
            plain,
            filename=labelled.filename,
            declared_document=labelled.declared_document,
            added_requirements=(),
            source=labelled.source,
        )
        assert list(json.loads(labelled.declared_document or b"{}")["variants"]) == ["cuda13"]

    def test_a_member_for_some_machines_only(self, repository: FakeRepository) -> None:
        """Plain wheels of the project itself are there if it is a member for any machine."""
        repository.add_wheel("nvidia_npp-13.0-py3-none-any.whl")
        found = page(bridged(repository, "nvidia-npp"), "nvidia-npp")
        assert names(found) == [
            "nvidia_npp-13.0-py3-none-any-cuda13.whl",
            "nvidia_npp-13.0-variants.json",
        ]

    def test_what_nobody_agreed_to(self, repository: FakeRepository) -> None:
        """A family that does not count is asked for nothing."""
        unbridged = BridgedRepository(repository, BridgeCatalogue(["none"]))
        found = page(unbridged, "xgboost")
        assert names(found) == ["xgboost-3.4.1-py3-none-manylinux_2_28_x86_64.whl"]
        assert repository.requests == ["project xgboost"]
        assert unbridged.project(canonicalize_name("nix")) is None
        assert BridgeCatalogue().of(canonicalize_name("faiss")) is None

    def test_a_project_with_variants(self, repository: FakeRepository) -> None:
        """A project that has variants itself says itself which."""
        repository.add_file("onnxruntime-2.0-variants.json", {})
        found = page(bridged(repository), "onnxruntime")
        assert found.bridge is None
        assert len(found.files) == 2

    def test_nobody_has_it(self) -> None:
        """A family without any page does not exist."""
        assert bridged(FakeRepository()).project(canonicalize_name("cupy")) is None

    def test_members_elsewhere(self, repository: FakeRepository) -> None:
        """F-126: who has the name in one source gets no members of another."""
        own = FakeRepository(name="company", base="https://company.invalid/")
        own.add_wheel("onnxruntime-9-py3-none-any.whl")
        repository.add_wheel("onnxruntime_gpu-1.31.1-cp313-cp313-manylinux_2_28_x86_64.whl")
        found = page(BridgedRepository(Pool([own, repository]), BridgeCatalogue()), "onnxruntime")
        assert names(found) == ["onnxruntime-9-py3-none-any.whl"]
        assert found.bridge is None


class TestSelectors:
    """Wheels that contain nothing."""

    def test_content(self, repository: FakeRepository, tmp_path: Path) -> None:
        """A selector is a sound wheel that needs the member, with each extra."""
        source = bridged(repository)
        selector = of(page(source, "cupy"), SELECTOR)
        path = source.download(selector, tmp_path)
        with WheelArchive(path, parse_wheel_filename(SELECTOR)) as wheel:
            wheel.verify()
            metadata = wheel.metadata().decode()
            document = wheel.variant_document()
        assert metadata.encode() == source.metadata(selector)
        assert document == source.variant_document(selector)
        assert "Requires-Dist: cupy-cuda13x[ctk]==14.2.0\n" in metadata
        assert "Requires-Dist: cupy-cuda13x[ctk]==14.2.0 ; extra == 'ctk'" in metadata
        assert "Requires-Python" not in metadata

    def test_hashes_are_known_before(self, repository: FakeRepository, tmp_path: Path) -> None:
        """Equal names give equal bytes, so a page can promise them."""
        source = bridged(repository)
        selector = of(page(source, "cupy"), SELECTOR)
        data = source.download(selector, tmp_path).read_bytes()
        assert dict(selector.hashes) == {"sha256": hashlib.sha256(data).hexdigest()}
        assert selector.hashes.get("md5") is None
        size = source.size(selector, unpacked=True)
        assert size.is_on_disk
        assert (size.file, (size.unpacked or 0) < len(data)) == (len(data), True)

    def test_without_a_page(self, tmp_path: Path) -> None:
        """The address says everything, as in a lock; what is promised there is compared."""
        source = bridged(FakeRepository())
        file = File(SELECTOR, f"bridge:cupy/{SELECTOR}", {"sha256": "0" * 64})
        assert b"cupy-cuda13x[ctk]==14.2.0" in source.metadata(file)
        with pytest.raises(HashMismatch):
            source.download(file, tmp_path)
        with pytest.raises(HashMismatch):
            source.unpacked(file, tmp_path)
        wheel = source.unpacked(replace(file, hashes={}), tmp_path)
        assert wheel.dist_info == "cupy-14.2.0.dist-info"

    @pytest.mark.parametrize(
        ("address", "filename", "message"),
        [
            (f"bridge:nobody/{SELECTOR}", SELECTOR, "unknown bridge 'nobody'"),
            (f"bridge:../x/{SELECTOR}", SELECTOR, "unknown bridge"),
            ("bridge:cupy/x", SELECTOR.replace("cuda13", "cuda99"), "has no cuda99 build"),
        ],
    )
    def test_of_nothing(self, address: str, filename: str, message: str) -> None:
        """An address that no family knows is refused."""
        with pytest.raises(FileProblem, match=message):
            bridged(FakeRepository()).metadata(File(filename, address))

    def test_the_index_file(self, repository: FakeRepository) -> None:
        """F-70: the document of a release has every label that counts for it."""
        source = bridged(repository)
        file = of(page(source, "cupy"), "cupy-14.2.0-variants.json")
        document = json.loads(source.read(file))
        assert {"cuda11", "cuda12", "cuda13"} < document["variants"].keys()


def test_a_declared_wheel_is_read_by_its_own_name(repository: FakeRepository) -> None:
    """Whoever has the wheel is asked for it as he knows it."""
    source = bridged(repository, "xgboost")
    labelled = page(source, "xgboost").files[1]
    assert b"Name: xgboost" in source.metadata(labelled)
    assert source.variant_document(labelled) == labelled.declared_document
    assert repository.requests[-1].endswith(
        "metadata xgboost-3.4.1-py3-none-manylinux_2_28_x86_64.whl"
    )


class TestShelf:
    """Which families count."""

    @pytest.mark.parametrize("text", ["cupi", "../cupy", "cupy@https://x.example/"])
    def test_that_is_none(self, text: str) -> None:
        """What is not a family, or has no indexes, is refused."""
        with pytest.raises(UserError):
            BridgeCatalogue([text])

    def test_spelling(self) -> None:
        """A name may be spelled in any way."""
        family = BridgeCatalogue(["RAPIDS_SingleCell"]).of(canonicalize_name("rapids-singlecell"))
        assert family is not None

    def test_projects_of_indexes(self) -> None:
        """A family of indexes stands for all of its projects."""
        shelf = BridgeCatalogue(["pytorch@https://mirror.example/whl/"])
        assert shelf.of(canonicalize_name("torchvision")) is not None
        assert shelf.of(canonicalize_name("pytorch")) is None
        assert shelf.bases == {"pytorch": "https://mirror.example/whl"}

    def test_all_known(self) -> None:
        """``all-known`` are the families of names."""
        shelf = BridgeCatalogue(["all-known"])
        assert shelf.of(canonicalize_name("cudf")) is not None
        assert shelf.of(canonicalize_name("torch")) is None


def test_large_file_of_a_family(tmp_path: Path) -> None:
    """A file that is too large is refused, and is not read in part."""
    path = tmp_path / "cupy.toml"
    (shipped_path,) = Path(catalogue.__file__).with_name("definitions").glob(path.name)
    path.write_text(shipped_path.read_text(encoding="utf-8") + f"# {'x' * (1 << 20)}\n")
    with pytest.raises(InvalidDocument, match="it has more than 1048576 bytes"):
        BridgeCatalogue([str(path)])


def changed(name: str, old: str, new: str) -> KnownFamilies:
    """Return the families with an update that changes a shipped file."""
    folder = Path(catalogue.__file__).with_name("definitions")
    (path,) = folder.rglob(f"{name}.toml")
    text = path.read_text(encoding="utf-8")
    assert old in text
    return KnownFamilies({name: text.replace(old, new, 1)}, "2999.1.1")


class TestUpdates:
    """What newer files may do where the user does not name a family."""

    @pytest.mark.parametrize(
        ("name", "old", "new"),
        [
            ("pytorch", "https://download.pytorch.org/whl", "https://evil.example/whl"),
            ("pytorch", "hosts = [", 'hosts = ["evil.example", '),
            ("pytorch", 'index = "cu129"', 'index = "https://evil.example/cu129"'),
            ("pytorch", 'index = "cu129"', 'page = "https://evil.example/cu129.html"'),
            ("pytorch", 'index = "cu129"', 'files = ["https://evil.example/torch.whl"]'),
            ("pytorch", 'index = "cu129"', 'index = "cu129"\nrequires = ["evil"]'),
            ("rocm-sdk", "[[member]]", '[[member]]\nlabel = "null"\n\n[[member]]'),
            ("cupy", '"cupy-cuda13x"', '"evil-cuda13x"'),
            ("cupy", "[[member]]", '[[member]]\nrequires = ["evil @ https://evil.example/e.whl"]'),
        ],
    )
    def test_nobody_is_sent_anywhere_new(self, name: str, old: str, new: str) -> None:
        """What names other hosts, indexes, packages or needs counts once it is named only."""
        families = changed(name, old, new)
        project = canonicalize_name({"pytorch": "torch", "rocm-sdk": "rocm"}.get(name, name))
        as_default = BridgeCatalogue(is_of_registry=lambda _project: True, families=families)
        assert as_default.of(project) == shipped(name)
        assert BridgeCatalogue([name], families=families).of(project) == families.named(name)
        assert families.named(name) != shipped(name)

    def test_which_build_is_best_may_change(self) -> None:
        """Rules about builds from the same places count as the newest file has them."""
        families = changed("pytorch", 'versions = ">=2.9"', 'versions = ">=2.10"')
        shelf = BridgeCatalogue(is_of_registry=lambda _project: True, families=families)
        assert shelf.of(canonicalize_name("torch")) == families.named("pytorch")
        assert shelf.of(canonicalize_name("torch")) != shipped("pytorch")

    def test_further_projects(self) -> None:
        """A project that is new in a family of indexes comes from there once that is named only."""
        families = changed("pytorch", '"torch",', '"torch", "numpy",')
        name = canonicalize_name("numpy")
        shelf = BridgeCatalogue(is_of_registry=lambda _project: True, families=families)
        assert shelf.of(name) is None
        assert shelf.of(canonicalize_name("torch")) is not None
        assert BridgeCatalogue(["pytorch"], families=families).of(name) is not None

    def test_on_and_off(self) -> None:
        """An update may turn a family off, and none on."""

        def found(families: KnownFamilies, project: str, *wanted: str) -> BridgeFamily | None:
            shelf = BridgeCatalogue(wanted, is_of_registry=lambda _name: True, families=families)
            return shelf.of(canonicalize_name(project))

        for name, project in (("cupy", "cupy"), ("pytorch", "torch")):
            off = changed(name, "by-default = true", "by-default = false")
            assert found(off, project) is None
        on = changed("faiss", "\nsays =", "\nby-default = true\nsays =")
        assert found(on, "faiss") is None
        assert found(on, "faiss", "faiss") is not None
        new = KnownFamilies({"numpy": NUMPY}, "2999.1.1")
        assert found(new, "numpy") is None
        assert found(new, "numpy", "all-known") is None
        assert found(new, "numpy", "numpy") is not None


def test_owners() -> None:
    """The index of an owner stands for exactly the projects that its file names, if it may."""
    families = [one for name in SHIPPED.names() if (one := shipped(name)) and one.is_of_indexes]
    shelf = BridgeCatalogue(is_of_registry=lambda _project: True)
    assert families
    for family in families:
        for project in family.projects:
            name = canonicalize_name(project.replace("*", "some-part"))
            found = shelf.of(name)
            assert (found is not None and found.name == family.name) is family.by_default, project
            assert BridgeCatalogue().of(name) is None
    assert shelf.of(canonicalize_name("numpy")) is None


def test_families_that_stand_for_other_names() -> None:
    """Those of indexes are found by each of their projects, all others by their own name."""
    families = [family for name in SHIPPED.names() if (family := shipped(name)) is not None]
    for family in families:
        for project in family.projects:
            if not project.endswith("*"):
                assert family in SHIPPED.standing_for(canonicalize_name(project))
    assert [one.name for one in SHIPPED.standing_for(canonicalize_name("torch"))] == ["pytorch"]
    assert SHIPPED.standing_for(canonicalize_name("numpy")) == ()
