"""Every published document that has one of the layouts is read, mistakes included."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from wheelfit.core.document import VariantDocument
from wheelfit.core.filename import parse_index_file_name, parse_wheel_filename
from wheelfit.core.index_metadata import combine, disagreement
from wheelfit.core.labels import Label
from wheelfit.core.metadata import check_document, losses, read_document, write_document
from wheelfit.core.properties import EMPTY, Feature
from wheelfit.core.providers import (
    BrokenProvider,
    BuiltinProvider,
    PluginProvider,
    StaticProvider,
    recognise,
)
from wheelfit.errors import InconsistentDocuments
from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = (
    "variants-index",
    "mockhouse",
    "variant-abi-dependency-example",
    "variantlib-test-artifacts",
    "variant-repack",
)
LINUX = {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": "x86_64"}


@pytest.fixture(scope="module")
def published(shared_data: Path) -> dict[str, bytes]:
    """Give the bytes of every published document by its path."""
    return {
        path.relative_to(shared_data).as_posix(): path.read_bytes()
        for folder in FOLDERS
        for path in sorted((shared_data / folder).rglob("*.json"))
        if path.name == "variant.json" or path.name.endswith("-variants.json")
    }


@pytest.fixture(scope="module")
def read(published: dict[str, bytes]) -> dict[str, VariantDocument]:
    """Give the model of every published document by its path."""
    return {path: read_document(data, where=path) for path, data in published.items()}


def test_all_are_read(read: dict[str, VariantDocument]) -> None:
    """F-45, F-130: each is read completely; no label and no provider is broken."""
    assert len(read) > 250
    layouts = Counter(document.layout for document in read.values())
    assert set(layouts) == {"L1", "L2", "L3"}
    for path, document in read.items():
        assert not document.unusable, path
        assert document.variants, path
        assert not [
            name for name, item in document.providers.items() if isinstance(item, BrokenProvider)
        ], path
        assert set(document.providers) == set(document.priorities), path


# What docs/reference/documents.md says of them: layout and end of the schema, of index files
# and of documents inside wheels, how many there are.
COUNTS = {
    ("L1", "", "index"): 2,
    ("L2", "v0.0.2.json", "index"): 89,
    ("L2", "v0.0.3.json", "index"): 43,
    ("L3", "v0.0.3.json", "index"): 101,
    ("L2", "v0.0.2.json", "wheel"): 2,
    ("L2", "v0.0.3.json", "wheel"): 21,
    ("L3", "v0.0.3.json", "wheel"): 6,
}


def test_how_many_there_are_of_each_layout(
    published: dict[str, bytes], read: dict[str, VariantDocument]
) -> None:
    """F-45, F-130: each is counted as read, degraded or refused; none is refused.

    The layout is told by shape, so that one schema stands for two of them.
    """
    counts = Counter(
        (
            document.layout,
            document.schema.rsplit("/", 1)[-1],
            "index" if path.endswith("-variants.json") else "wheel",
        )
        for path, document in read.items()
    )
    assert counts == COUNTS
    index = {path: data for path, data in published.items() if path.endswith("-variants.json")}
    assert len(index) == len({(path.rsplit("/", 1)[-1], data) for path, data in index.items()})
    assert (len(index), len(published), len(set(published.values()))) == (235, 264, 68)
    # Read with a note, of which there is one kind, and nothing of it is lost.
    noted = {note for document in read.values() for note in document.notes}
    assert noted == {"abi_dependency is used without a provider; read as the built-in one (F-54)"}


def test_only_the_order_of_values_is_at_fault(published: dict[str, bytes]) -> None:
    """F-23, F-131: unsorted value lists are the one violation that is published."""
    rules = {fault.rule for data in published.values() for fault in check_document(data)}
    assert rules == {"F-23"}


def test_all_can_be_converted(read: dict[str, VariantDocument]) -> None:
    """F-56: as PEP 850 they keep their meaning; what is lost is announced."""
    with_losses = 0
    for path, document in read.items():
        with_losses += bool(losses(document))
        data = write_document(document, accept_losses=True)
        assert check_document(data) == (), path
        again = read_document(data, where=path)
        assert again.layout == "L7"
        assert again.variants == document.variants, path
        assert again.priorities == document.priorities, path
        assert again.providers.keys() == document.providers.keys(), path
        assert write_document(again) == data, path  # F-29: nothing more is lost
        assert losses(again) == (), path
    assert with_losses == 1  # an example of variantlib; the index itself loses nothing


def test_index_files_have_the_name_of_their_release(
    shared_data: Path, read: dict[str, VariantDocument]
) -> None:
    """F-70: index files are named as the wheels beside them."""
    for path in read:
        name = path.rsplit("/", 1)[1]
        if name.startswith("variant.json"):
            folder = (shared_data / path).parent.name
            assert parse_wheel_filename(folder).label is not None
        else:
            assert parse_index_file_name(name) is not None


def test_the_index_declares_providers_we_know(read: dict[str, VariantDocument]) -> None:
    """P-60, P-62: every plugin for hardware that the index names is recognised."""
    unknown = {
        (namespace, provider.requires)
        for path, document in read.items()
        if path.startswith("variants-index/")
        for namespace, provider in document.providers.items()
        if isinstance(provider, PluginProvider)
        and recognise(namespace, provider, LINUX).builtin is None
    }
    assert not unknown


def test_wheels_agree_with_their_index(read: dict[str, VariantDocument]) -> None:
    """F-60, F-61, F-62, F-93: the wheels of the demo indexes combine to their index files."""
    for wheels, index in [
        (
            "mockhouse/wheel_dist_info/dummy_project_flit-0.0.1",
            "mockhouse/pep-xxx-variants/dummy-project-flit/dummy_project_flit-0.0.1",
        ),
        (
            "variant-abi-dependency-example/wheel_dist_info/flash_attn-2.8.0",
            "variant-abi-dependency-example/docs/v0.0.3/flash_attn/flash_attn-2.8.0",
        ),
    ]:
        documents = [(path, item) for path, item in read.items() if path.startswith(wheels + "-")]
        assert len(documents) > 2
        whole = read[f"{index}-variants.json"]
        combined = combine(documents)
        assert combined.variants == whole.variants
        assert combined.priorities == whole.priorities
        for path, document in documents:
            label = parse_wheel_filename(path.split("/")[-2]).label
            assert label is not None
            assert disagreement(document, whole, label) is None


# --- the known oddities of published data (end of section 5) --------------------


def test_the_old_null(read: dict[str, VariantDocument]) -> None:
    """F-53: torch 2.8 calls its null variant 00000000, and keeps doing so."""
    torch = read["variants-index/torch/torch-2.8.0-variants.json"]
    assert torch.variants[Label("00000000")] == EMPTY
    assert read["variant-repack/configs/torch-2.8/torch-2.8.0-variants.json"].layout == "L1"


def test_static_values_that_no_variant_uses(read: dict[str, VariantDocument]) -> None:
    """F-48: static 'order' while variants use 'cuda': readable, and 'cuda' is unsupported."""
    torch = read["variant-abi-dependency-example/docs/v0.0.3/torch/torch-2.9.0-variants.json"]
    assert torch.providers["priority"] == StaticProvider((FeatureConfig("order", ("1", "2", "3")),))
    for properties in torch.variants.values():
        assert Feature("priority", "cuda") in dict(properties.features())


def test_static_values_of_torch(read: dict[str, VariantDocument]) -> None:
    """F-48: the same list from the priorities (L2) and from the top level (L3)."""
    expected = StaticProvider((FeatureConfig("order", ("1", "2", "3")),))
    index = read["variants-index/torch/torch-2.9.0-variants.json"]
    repack = read["variant-repack/configs/torch-2.9/torch-2.9.0-variants.json"]
    assert (index.layout, repack.layout) == ("L3", "L2")
    assert index.providers["priority"] == repack.providers["priority"] == expected


def test_abi_dependency(read: dict[str, VariantDocument]) -> None:
    """F-54: listed in one snapshot, unlisted in the next, the same built-in provider."""
    folder = "variant-abi-dependency-example/docs"
    for version in ("v0.0.2", "v0.0.3"):
        document = read[f"{folder}/{version}/flash_attn/flash_attn-2.8.0-variants.json"]
        assert document.priorities == ("nvidia", "abi_dependency")
        assert document.providers["abi_dependency"] == BuiltinProvider("abi_dependency")


def test_unsorted_values(read: dict[str, VariantDocument]) -> None:
    """F-23: a list in another order is the same set."""
    torch = read["variants-index/torch/torch-2.9.0-variants.json"]
    values = dict(torch.variants[Label("cuda12.8")].features())[Feature("nvidia", "sm_arch")]
    assert values == tuple(sorted(values))
    assert "100_real" in values


def test_values_that_no_provider_offers(read: dict[str, VariantDocument]) -> None:
    """F-130: values like 35_real, gfx950 and 910c are ordinary values to a reader."""
    values = {
        value
        for path, document in read.items()
        if path.startswith("variants-index/")
        for properties in document.variants.values()
        for _, listed in properties.features()
        for value in listed
    }
    assert {"35_real", "gfx950", "910c"} <= values


def test_labels_with_typing_errors(read: dict[str, VariantDocument]) -> None:
    """A misspelt label is a label: nothing says how labels are made up."""
    labels = {
        label
        for path, document in read.items()
        if path.startswith("variants-index/")
        for label in document.variants
    }
    assert [label for label in labels if label.startswith("x8664vv4")]


def test_every_wheel_of_the_index_has_a_name(shared_data: Path) -> None:
    """F-12: every file name on the published pages is read, variant or plain."""
    variants = plain = 0
    for page in (shared_data / "variants-index").rglob("index.html"):
        for part in page.read_text("utf-8").split("<a ")[1:]:
            name = part.split(">", 1)[1].split("<", 1)[0].strip()
            if name.endswith(".whl"):
                filename = parse_wheel_filename(name)
                variants += filename.is_variant
                plain += not filename.is_variant
    assert (variants, plain) == (1085, 9983 - 1085)


def test_snapshots_that_contradict_each_other(read: dict[str, VariantDocument]) -> None:
    """F-62, F-65: what changed between two snapshots is found, and both files are named."""
    folder = "variant-abi-dependency-example/docs"
    old = f"{folder}/v0.0.2/torch/torch-2.9.0-variants.json"
    new = f"{folder}/v0.0.3/torch/torch-2.9.0-variants.json"
    with pytest.raises(InconsistentDocuments) as excinfo:
        combine([(path, read[path]) for path in (old, new)])
    assert (
        excinfo.value.message == f"{old} and {new} contradict each other about providers.priority"
    )


def test_facts(releases: Path, shared_data: Path) -> None:
    """The facts of releases that tests are made of are those of the published documents."""
    published = {file.name: file for file in shared_data.rglob("*-variants.json")}
    published |= {file.name: file for file in (shared_data / "variants-index").rglob("*.json")}
    for file in sorted(releases.rglob("*-variants.json")):
        ours, theirs = (
            read_document(one.read_bytes(), where=file.name) for one in (file, published[file.name])
        )
        assert (ours.variants, set(ours.providers)) == (theirs.variants, set(theirs.providers))
