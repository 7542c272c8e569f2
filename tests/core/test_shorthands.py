"""One word for several wishes about variants."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wheelfit.core import shorthands
from wheelfit.core.accelerators import ACCELERATORS, accelerators_of
from wheelfit.core.document import VariantDocument
from wheelfit.core.labels import NULL, Label
from wheelfit.core.ordering import Preferences, order_labels
from wheelfit.core.properties import EMPTY, Feature, Property, PropertySet, parse_property
from wheelfit.core.property_support import Support
from wheelfit.core.shorthands import NAMES, Shorthand, combine_preferences, find_shorthand
from wheelfit.errors import UnknownShorthand, UsageError
from wheelfit.testing.detectors import supported
from wheelfit_runtime.platforms.providers import accelerators, namespaces

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "variant-shorthands.md"

EVERYTHING = Support(
    {
        "nvidia": supported(
            "nvidia",
            {
                "cuda_version_lower_bound": ["13.0", "13", "12.9", "12.8", "12.6", "12", "11.8"],
                "sm_arch": ["90_real"],
            },
        ),
        "amd": supported("amd", {"rocm_version": ["7.0", "6.4", "6.3"], "gfx_arch": ["gfx942"]}),
        "intel": supported("intel", {"device_ip": ["12.60.7"]}),
        "ascend": supported("ascend", {"npu_type": ["910b"]}),
        "tpu": supported("tpu", {"present": ["true", "false"]}),
        "x86_64": supported("x86_64", {"level": ["v3", "v2", "v1"]}),
    }
)
"""A machine that nobody has."""

BUILDS = {
    "cu118": ["nvidia :: cuda_version_lower_bound :: 11.8"],
    "cu126": ["nvidia :: cuda_version_lower_bound :: 12.6"],
    "cu128": ["nvidia :: cuda_version_lower_bound :: 12.8"],
    "cu130": ["nvidia :: cuda_version_lower_bound :: 13.0"],
    "rocm63": ["amd :: rocm_version :: 6.3"],
    "rocm64": ["amd :: rocm_version :: 6.4"],
    "rocm70": ["amd :: rocm_version :: 7.0"],
    "xpu": ["intel :: device_ip :: 12.60.7"],
    "npu": ["ascend :: npu_type :: 910b"],
    "tpu": ["tpu :: present :: true"],
    "host": ["tpu :: present :: false"],
    "v3": ["x86_64 :: level :: v3"],
}
DOCUMENT = VariantDocument(
    priorities=namespaces(),
    providers={},
    variants={
        NULL: EMPTY,
        **{
            Label(label): PropertySet([parse_property(text) for text in texts])
            for label, texts in BUILDS.items()
        },
    },
)


def left(*names: str, own: Preferences | None = None) -> set[str]:
    """Return the labels that shorthands leave on a machine that runs all of them."""
    wishes = combine_preferences([find_shorthand(name) for name in names], own or Preferences())
    return {str(one.label) for one in order_labels(DOCUMENT, EVERYTHING, wishes)}


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("cpu", "null host v3"),
        ("cuda", "cu118 cu126 cu128 cu130"),
        ("cuda11", "cu118"),
        ("cuda12", "cu126 cu128"),
        ("cuda13", "cu130"),
        ("cuda12.8", "cu128"),
        ("rocm", "rocm63 rocm64 rocm70"),
        ("rocm6", "rocm63 rocm64"),
        ("rocm6.4", "rocm64"),
        ("xpu", "xpu"),
        ("ascend", "npu"),
        ("tpu", "tpu"),
    ],
)
def test_what_is_left(name: str, labels: str) -> None:
    """F-91: each word leaves the builds that it names."""
    assert left(name) == set(labels.split())


def test_auto_leaves_everything() -> None:
    """It takes back what is configured, and nothing else."""
    assert left("auto") == left()
    assert combine_preferences([find_shorthand("auto")], Preferences()) == Preferences()


def test_a_machine_without_it() -> None:
    """F-91: nothing becomes eligible; where the hardware is missing nothing is left."""
    nothing = Support({"x86_64": EVERYTHING.detections["x86_64"]})
    wishes = combine_preferences([find_shorthand("cuda")], Preferences())
    assert not order_labels(DOCUMENT, nothing, wishes)


@pytest.mark.parametrize(
    ("spelt", "name"),
    [
        ("cu12", "cuda12"),
        ("cu128", "cuda12.8"),
        ("cu12.8", "cuda12.8"),
        ("cuda-12.8", "cuda12.8"),
        ("cuda-12", "cuda12"),
        ("CPU", "cpu"),
        ("rocm-6.4", "rocm6.4"),
        ("intel", "xpu"),
        ("npu", "ascend"),
        ("cuda12.10", "cuda12.10"),
    ],
)
def test_spellings(spelt: str, name: str) -> None:
    """Names of presets, of uv's backends and of indexes are understood."""
    assert find_shorthand(spelt) == find_shorthand(name)
    assert find_shorthand(spelt).name == name


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("cdua", "did you mean cuda"),
        ("cuda99", "cuda"),
        ("cuda12.99", "did you mean cuda12"),
        ("cu", ""),
        ("cu1210", ""),
        ("xpu1", "did you mean xpu"),
        ("torch=cpu", "--label NAME=LABEL"),
        ("", ""),
        ("mkl", ""),
    ],
)
def test_unknown_names(name: str, suggested: str) -> None:
    """A word that stands for nothing is an error that names what is like it, and all there are."""
    with pytest.raises(UnknownShorthand) as excinfo:
        find_shorthand(name)
    assert suggested in (excinfo.value.hint or "")
    assert "cuda12.8" in (excinfo.value.hint or "")


@pytest.mark.parametrize(
    "names",
    [
        ("cpu", "cuda"),
        ("cuda", "rocm"),
        ("cuda12", "cuda13"),
        ("cuda12.8", "cuda12.6"),
        ("auto", "cpu"),
        ("xpu", "cpu"),
    ],
)
def test_contradictions(names: tuple[str, str]) -> None:
    """No build is two things at once, and whoever asks for both has made a mistake."""
    for one, other in (names, names[::-1]):
        with pytest.raises(UsageError, match=f"--variant {one} and --variant {other} contradict"):
            left(one, other)


def test_what_narrows_does_not_contradict() -> None:
    """The finer of two words counts."""
    assert left("cuda", "cuda12", "cuda12.8") == left("cuda12.8")
    assert left("cuda12.8", "cuda12.8") == left("cuda12.8")


def test_wishes_beside_a_shorthand() -> None:
    """Wishes in so many words narrow further, or contradict."""
    forbidden = Property("nvidia", "cuda_version_lower_bound", "12.8")
    assert left("cuda12", own=Preferences(forbid=(forbidden,))) == {"cu126"}
    with pytest.raises(UsageError, match="--require nvidia and --variant cpu contradict"):
        left("cpu", own=Preferences(require=("nvidia",)))
    with pytest.raises(UsageError, match="nvidia :: cuda_version_lower_bound would be required"):
        left("cpu", own=Preferences(require=(Feature("nvidia", "cuda_version_lower_bound"),)))
    with pytest.raises(UsageError, match="--variant cuda12 and --forbid nvidia contradict"):
        left("cuda12", own=Preferences(forbid=("nvidia",)))
    with pytest.raises(UsageError, match=r"nvidia :: cuda_version_lower_bound :: 12\.8 would be"):
        left("cuda12.8", own=Preferences(forbid=(forbidden,)))


def test_reasons_name_the_shorthand() -> None:
    """Who reads why a wheel is out finds the word that was typed."""
    wishes = combine_preferences([find_shorthand("cpu")], Preferences(forbid=("x86_64",)))
    objections = {
        label: wishes.objection(DOCUMENT.variants[Label(label)], EVERYTHING)
        for label in ("cu128", "v3", "tpu", "host")
    }
    assert objections == {
        "cu128": "nvidia is forbidden (--variant cpu)",
        "v3": "x86_64 is forbidden",
        "tpu": "tpu :: present :: true is forbidden (--variant cpu)",
        "host": None,
    }
    wishes = combine_preferences([find_shorthand("cu128")], Preferences())
    assert wishes.objection(EMPTY, EVERYTHING) == (
        "nvidia is required (--variant cuda12.8), and this wheel does not have it"
    )


def test_a_shorthand_is_not_in_vain() -> None:
    """What it requires concerns whatever may be needed; what is typed must come true."""
    wishes = combine_preferences([find_shorthand("cuda")], Preferences(require=("blas",)))
    assert list(wishes.unmet([EMPTY])) == ["blas", "nvidia"]
    assert list(wishes.unmet_user_requirements([EMPTY])) == ["blas"]


def test_own_shorthands() -> None:
    """A user's own is found by its name, and goes together with any other that it suits."""
    mine = Shorthand("lean", "small builds", forbid=("x86_64",))
    assert find_shorthand("lean", [mine]) is mine
    wishes = combine_preferences([mine, find_shorthand("cuda12")], Preferences())
    assert "x86_64" in wishes.forbid
    assert "nvidia" in wishes.require
    with pytest.raises(UnknownShorthand, match="'leen' stands for no builds") as excinfo:
        find_shorthand("leen", [mine])
    assert "did you mean lean?" in (excinfo.value.hint or "")
    with pytest.raises(UsageError, match="--variant cuda and --variant odd contradict"):
        combine_preferences(
            [Shorthand("odd", "", forbid=("nvidia",)), find_shorthand("cuda")], Preferences()
        )


def test_every_accelerator_has_a_word() -> None:
    """A new provider of an accelerator needs a row here."""
    required = {wish for name in NAMES for wish in find_shorthand(name).require}
    assert set(ACCELERATORS.values()) <= required
    assert set(ACCELERATORS) == set(namespaces()) - {"aarch64", "x86_64"}


@pytest.mark.parametrize(
    ("texts", "used"),
    [
        ([], ()),
        (["x86_64 :: level :: v3", "blas :: library :: mkl"], ()),
        (["nvidia :: sm_arch :: 90_real", "x86_64 :: level :: v3"], ("nvidia",)),
        (["tpu :: present :: false"], ()),
        (["tpu :: present :: true"], ("tpu",)),
    ],
)
def test_accelerators_of_a_build(texts: list[str], used: tuple[str, ...]) -> None:
    """P-150: a build for machines without a TPU uses none."""
    assert accelerators_of(PropertySet([parse_property(text) for text in texts])) == used


def test_the_reference_has_every_row() -> None:
    """The page shows the table as it is, with spellings that are understood, and its date."""
    text = PAGE.read_text()
    rows = re.findall(r"^\| `(.+)` \| (.*) \| (.+) \|$", text, re.MULTILINE)
    assert [name for name, *_ in rows] == list(NAMES)
    for name, also, meaning in rows:
        assert find_shorthand(name).meaning == meaning
        assert not meaning.endswith(".")
        for spelling in re.findall("`(.+?)`", also):
            assert find_shorthand(spelling) == find_shorthand(name)
    spellings = {name: set(re.findall("`(.+?)`", also)) for name, also, _ in rows}
    for family in accelerators():
        row = family.shorthand
        if row is None:
            continue
        assert spellings[row.name] == set(row.aliases)
        for version in row.example:
            expected = {f"{row.name}-{version}"} if "." in version else set()
            if row.compact_prefix:
                expected.add(f"{row.compact_prefix}{version.replace('.', '')}")
            assert spellings[f"{row.name}{version}"] == expected
    assert f"Data of {shorthands.DATA_VERSION}." in text
