"""Family files: their contents and their faults."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest
from error_codes import raises_code
from msgspec.structs import replace
from packaging.markers import Marker
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version
from sources.bridge_table import HEAD, PAGE, table

from wheelfit.core.bridge_file import parse_family
from wheelfit.core.bridges import BridgeFamily
from wheelfit.core.index_metadata import combine
from wheelfit.core.labels import Label
from wheelfit.core.metadata import read_document
from wheelfit.sources.bridges.catalogue import SHIPPED, SHIPPED_VERSION, shipped

SOUND = """
name = "acme"
source = "https://acme.example/install"
checked = 2026-11-22
says = "acme-gpu has the files of acme"
extras = ["plots"]

[[member]]
distribution = "acme-gpu"
label = "cuda12"
when.nvidia.cuda_version_lower_bound = ["12.0"]
versions = ">=2"

[[member]]
distribution = "acme"
"""


def faults(text: str) -> dict[str, str]:
    """Return the faults of a file by path."""
    with raises_code("invalid-bridge") as raised:
        parse_family(text.encode())
    return {fault.path: fault.message for fault in raised.value.faults}


def test_valid_file() -> None:
    """Every key of a file is read."""
    family = parse_family(SOUND.encode())
    gpu, plain = family.members
    assert (family.name, family.projects, family.extras) == ("acme", ("acme",), ("plots",))
    assert family.distributions == ("acme-gpu", "acme")
    assert (gpu.label, plain.label) == ("cuda12", None)
    assert gpu.condition == "nvidia :: cuda_version_lower_bound :: 12.0"
    assert plain.condition == "any machine"
    assert family.members_of(Version("1.9")) == (plain,)
    assert family.member_of(Label("cuda12"), Version("2")) == gpu
    assert family.member_of(Label("cuda12"), Version("1")) is None
    assert not family.by_default
    assert family.exclusive


@pytest.mark.parametrize(
    ("platforms", "tag", "here", "expected"),
    [
        ([], "py3-none-any", ["win_amd64"], True),
        (["linux_x86_64"], "py3-none-any", [], True),
        (["linux_x86_64"], "py3-none-any", ["manylinux_2_28_x86_64"], True),
        (["linux_x86_64"], "py3-none-any", ["win_amd64"], False),
        (["linux_x86_64"], "cp311-cp311-manylinux_2_28_x86_64", ["win_amd64"], True),
        (["linux_x86_64"], "cp311-cp311-manylinux_2_28_aarch64", [], False),
        (["linux_aarch64", "win_amd64"], "cp311-cp311-win_amd64", [], True),
        (["macosx_arm64"], "cp311-cp311-macosx_11_0_universal2", [], True),
    ],
)
def test_covered_platforms(
    platforms: list[str], tag: str, here: list[str], *, expected: bool
) -> None:
    """Platforms are those of wheels; for universal wheels that of the machine."""
    member = replace(parse_family(SOUND.encode()).members[0], platforms=tuple(platforms))
    assert member.covers_tags(parse_tag(tag), here) is expected


def test_marker() -> None:
    """The platforms of a member become a marker if a universal wheel needs one."""
    member = replace(
        parse_family(SOUND.encode()).members[0],
        platforms=("linux_aarch64", "win_amd64", "macosx_arm64"),
    )
    assert str(Marker(member.marker)) == (
        'sys_platform == "linux" and platform_machine == "aarch64" or '
        'sys_platform == "win32" and platform_machine == "AMD64" or '
        'sys_platform == "darwin" and platform_machine == "arm64"'
    )


def every_shipped() -> Iterator[BridgeFamily]:
    """Yield the shipped families."""
    for name in SHIPPED.names():
        family = shipped(name)
        assert family is not None
        yield family


def test_cuda_13_without_volta() -> None:
    """P-95: CUDA 13 has no code for a V100, whatever its driver."""
    for member in (member for family in every_shipped() for member in family.members):
        needs = {str(feature): values for feature, values in member.when.features()}
        (bound,) = needs.get("nvidia :: cuda_version_lower_bound", ("0",))
        if int(bound.partition(".")[0]) >= 13:
            places = [int(value.partition("_")[0]) for value in needs["nvidia :: sm_arch"]]
            assert min(places) >= 75, member


def test_notes() -> None:
    """Notes about a release name the distribution of each label."""
    family = parse_family(SOUND.encode())
    labels = {None, Label("cuda12")}
    assert family.notes(Version("2"), labels, family.name) == (
        "acme 2 is bridged: cuda12 is acme-gpu",
    )
    assert family.notes(Version("1"), labels, family.name) == ()
    assert family.notes(Version("2"), {None}, family.name) == ()


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        ('name = "acme"', "", "name", "is missing"),
        ('name = "acme"', 'name = "Ac_me"', "name", "must be spelled ac-me"),
        ("https://acme", "http://acme", "source", "must be an https address"),
        ("checked = 2026-11-22", 'checked = "soon"', "checked", "must be a date"),
        ("checked = 2026-11-22", "checked = 2026-11-22T10:00:00Z", "checked", "must be a date"),
        ("says = ", "sais = ", "sais", 'is an unknown key (did you mean "says"?)'),
        ('"acme-gpu has', '"acme-gpu\\u001b[2J has', "says", "must be one line"),
        ("extras = [", "extras = [1, ", "extras[0]", "must be a string"),
        ('"plots"', '"no/name"', "extras[0]", "is not a valid project name"),
        ('label = "cuda12"', "", "member[0].label", "is missing"),
        ('label = "cuda12"', 'label = "CUDA"', "member[0].label", "is not a valid variant label"),
        ('label = "cuda12"', 'label = "nul"', "member[0].label", "reserved device name"),
        ('label = "cuda12"', 'label = "null"', "member[0].label", "must be 'null' for a member"),
        ("when.nvidia.", "when.moon.", "member[0].when.moon", "is no known namespace"),
        ("12.0", "12 0", "member[0].when.nvidia.cuda_version_lower_bound", ""),
        ('">=2"', '"about 2"', "member[0].versions", "cannot be read"),
        ("versions =", "index =", "member[0]", "only a family of indexes"),
        ('versions = ">=2"', 'index = "a/../../b"', "member[0].index", "must not lead out"),
        ('versions = ">=2"', 'page = "http://a.example"', "member[0].page", "an https address"),
        ('"acme-gpu"', '"../../etc"', "member[0].distribution", "is not a valid project name"),
        ('distribution = "acme"', 'distribution = "other"', "member[1].label", "is missing"),
        ("[[member]]", "[member.x]", "", ""),
        ('says = "acme-gpu has the files of acme"', 'says = "x"\nprojects = ["y"]', "projects", ""),
        ('says = "acme-gpu has the files of acme"', 'says = "x"\nby-default = 1', "by-default", ""),
    ],
)
def test_faults(old: str, new: str, path: str, message: str) -> None:
    """A fault is reported with its place."""
    assert old in SOUND
    found = faults(SOUND.replace(old, new))
    assert path in found, found
    assert message in found[path]


def test_several_faults() -> None:
    """A file with several faults gives one error."""
    assert set(faults("")) == {"name", "member", "source", "checked", "says"}


def test_note_for_other_machines() -> None:
    """If every member has a condition, the file needs a note for other machines."""
    assert "no-fit" in faults(SOUND.rpartition("[[member]]")[0])


def test_shared_labels() -> None:
    """Members share a label only for different releases and with equal conditions."""
    again = SOUND.rpartition("[[member]]")[0].partition("[[member]]")[2]
    other = again.replace("12.0", "12.8")
    earlier = other.replace(">=2", "<2")
    assert len(parse_family(f"{SOUND}\n[[member]]{earlier}".encode()).members) == 3
    text = f"{SOUND}\n[[member]]{other}"
    assert "with other conditions" in faults(text)["member[2].label"]
    same = f"{SOUND}\n[[member]]{again.replace('>=2', '<2')}"
    assert len(parse_family(same.encode()).members) == 3


class TestShipped:
    """The shipped families."""

    def test_valid(self) -> None:
        """Its file has its name, a source and a note for everybody."""
        for name, family in zip(SHIPPED.names(), every_shipped(), strict=True):
            assert family.name == name
            assert len(family.members) > 1 or family.is_of_indexes or family.no_fit, name
            assert family.source.startswith("https://"), name

    def test_documents_agree(self) -> None:
        """F-65: the documents of single labels combine to the document of all."""
        for family in every_shipped():
            limits = {limit.version for member in family.members for limit in member.versions}
            releases = [Version(f"{limit}{more}") for limit in limits for more in ("", ".1", "a1")]
            together = {
                tuple(member for member in members if member.label is not None)
                for project in family.projects
                for release in [*releases, Version("0.1"), Version("99")]
                if (members := family.members_of(release, canonicalize_name(project)))
            }
            for labelled in together - {()}:
                whole = read_document(family.document(labelled), where=family.name)
                assert not whole.unusable, family.name
                alone = [
                    (str(one.label), read_document(family.document([one]), where=family.name))
                    for one in labelled
                ]
                assert combine([(family.name, whole), *alone]).variants == whole.variants


def test_trusted_by_default() -> None:
    """Only indexes of owners, and documented installation methods, need no consent."""
    names = [name for name in SHIPPED.names() if (one := shipped(name)) and one.by_default]
    own_names = [
        "cudf", "cugraph", "cuml", "cupy", "jax", "onnxruntime", "paddlepaddle", "sglang",
        "tensorflow", "xgboost",
    ]  # fmt: skip
    fetched_by_setup = ["causal-conv1d", "flash-attn", "mamba-ssm"]
    owners = [
        "flash-attn-3", "flashinfer", "paddle", "pyg", "pytorch", "pytorch-triton", "rocm-sdk",
        "vllm", "xformers",
    ]  # fmt: skip
    assert names == sorted([*own_names, *fetched_by_setup, *owners])


def test_edition() -> None:
    """The edition of the shipped files is not older than any of them."""
    families = [one for name in SHIPPED.names() if (one := shipped(name))]
    edition = date(*map(int, SHIPPED_VERSION.split(".")[:3]))
    assert edition >= max(family.checked for family in families)


def test_documentation() -> None:
    """The page lists exactly the shipped families."""
    assert PAGE.read_text(encoding="utf-8").partition(HEAD)[2] == table().removeprefix(HEAD)
