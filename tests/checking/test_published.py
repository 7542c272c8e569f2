"""What is found in every document that was published: the known oddities, and nothing untrue."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from checking.releases import check, codes, write

from wheelfit.checking.findings import Finding, Report

FOLDERS = (
    "variants-index",
    "mockhouse",
    "variant-abi-dependency-example",
    "variantlib-test-artifacts",
    "variant-repack",
)


@pytest.fixture(scope="module")
def reports(shared_data: Path) -> dict[str, Report]:
    """Check every folder of published data by itself."""
    return {name: check(shared_data / name) for name in FOLDERS}


@pytest.fixture(scope="module")
def findings(shared_data: Path, reports: dict[str, Report]) -> list[tuple[str, Finding]]:
    """Return every finding with the path of its file below the data."""
    root = f"{shared_data}/"
    return [
        (finding.where.removeprefix(root), finding)
        for report in reports.values()
        for finding in report.findings
    ]


def test_what_is_found(reports: dict[str, Report]) -> None:
    """F-131: the whole of it, by check; one more or less is a change of a check."""
    assert {name: dict(sorted(codes(report).items())) for name, report in reports.items()} == {
        "variants-index": {
            "bad-values": 8,
            "label-without-wheel": 5,
            "no-plain-wheel": 132,
            "old-layout": 132,
            "similar-label": 1,
            "unknown-value": 2,
            "unpublished-value": 5,
        },
        "mockhouse": {
            "missing-file": 18,
            "needs-trust": 32,
            "no-hash": 3,
            "old-layout": 16,
        },
        "variant-abi-dependency-example": {
            "bad-values": 6,
            "missing-file": 20,
            "no-hash": 8,
            "no-plain-wheel": 91,
            "old-layout": 101,
            "unselectable-variant": 12,
            "unused-list": 2,
        },
        "variantlib-test-artifacts": {"needs-trust": 18, "old-layout": 9, "same-properties": 2},
        "variant-repack": {"bad-values": 8, "old-layout": 6, "unpublished-value": 4},
    }
    assert not [one for report in reports.values() for one in report.unchecked]


ABI = "variant-abi-dependency-example/docs/v0.0.3/torch"
INDEX = "variants-index"

# Every oddity that is known of published data, with a file that has it.
ODDITIES = [
    (
        f"{ABI}/torch-2.9.0-variants.json",
        "unselectable-variant",
        'variants["cuda12.8"].priority.cuda',
        "the static list of priority has order, and not cuda",
    ),
    (
        f"{ABI}/torch-2.9.0-variants.json",
        "unused-list",
        "providers.priority",
        "no variant uses priority :: order, they use cuda",
    ),
    (
        f"{INDEX}/torch/torch-2.9.0-variants.json",
        "bad-values",
        'variants["cuda13.0"].nvidia.sm_arch',
        "the values are not in order",
    ),
    (
        f"{INDEX}/cupy/cupy-13.6.0-variants.json",
        "unknown-value",
        "variants.cu11.nvidia.sm_arch",
        "35_real, 37_real",
    ),
    (
        f"{INDEX}/torch/torch-2.10.0-variants.json",
        "unpublished-value",
        'variants["rocm7.1"].amd.gfx_arch',
        "gfx1150, gfx1151, gfx950",
    ),
    (
        f"{INDEX}/vllm-ascend/vllm_ascend-0.13.0rc1-variants.json",
        "unpublished-value",
        "variants.a3.ascend.npu_type",
        "910c",
    ),
    (
        f"{INDEX}/scikit-learn/scikit_learn-1.7.2-variants.json",
        "similar-label",
        "variants.x8664vv4_iomp5",
        "x8664vv4; its properties suggest x8664v4",
    ),
    (
        "variantlib-test-artifacts/test-package/test_package-0-variants.json",
        "same-properties",
        "variants.foo",
        "foo and 60567bd9 have the same properties",
    ),
    (
        f"{INDEX}/numpy/numpy-2.3.3-variants.json",
        "label-without-wheel",
        "variants.x8664v4_mkl",
        "no wheel has the label x8664v4_mkl",
    ),
    (f"{INDEX}/torch", "no-plain-wheel", "", "torch 2.10.0 has"),
]


@pytest.mark.parametrize(("where", "code", "path", "words"), ODDITIES)
def test_oddities(
    findings: list[tuple[str, Finding]], where: str, code: str, path: str, words: str
) -> None:
    """F-131, F-8, F-23: each is found in its file, at its place, on its line."""
    found = [
        one
        for file, one in findings
        if (file, one.code, one.path) == (where, code, path) and words in one.message
    ]
    assert len(found) == 1
    assert (found[0].line or 0) > 1 or not path


def test_lines_are_right(shared_data: Path, findings: list[tuple[str, Finding]]) -> None:
    """The line of a finding in a document has the last key of its path."""
    seen = 0
    for file, finding in findings:
        if finding.line is not None and finding.path.endswith((".sm_arch", ".cuda", ".gfx_arch")):
            line = (shared_data / file).read_text().splitlines()[finding.line - 1]
            assert f'"{finding.path.rpartition(".")[2]}"' in line
            seen += 1
    assert seen > 20


def test_a_namespace_that_is_another_ones(shared_data: Path, tmp_path: Path) -> None:
    """F-21: ``property :: order``, as a published configuration has it, meant ``priority``."""
    folder = shared_data / "variant-repack" / "configs" / "torch-2.9"
    table = tomllib.loads((folder / "torch_pyproject.toml").read_text())["variant"]
    config = tomllib.loads((folder / "torch_variant_config.toml").read_text())
    variants: dict[str, dict[str, dict[str, list[str]]]] = {}
    for label, one in config["variant_configs"].items():
        entry = variants.setdefault(label, {})
        for item in one["properties"]:
            features = entry.setdefault(item["namespace"], {})
            features.setdefault(item["feature"], []).append(item["value"])
    path = write(tmp_path / "torch-2.9.0-variants.json", {**table, "variants": variants})
    found = [finding for finding in check(path).findings if finding.code == "bad-priorities"]
    assert Counter(one.message for one in found) == {
        "the namespace 'property' is not in the priorities": 3
    }


def test_both_ways_of_reading(shared_data: Path) -> None:
    """F-131: a file is found alike by itself and in its folder."""
    path = shared_data / INDEX / "torch" / "torch-2.9.0-variants.json"
    alone = list(check(path).findings)
    beside = [finding for finding in check(path.parent).findings if finding.where == str(path)]
    assert alone == beside
    assert json.loads(json.dumps([one.to_mapping() for one in alone]))
