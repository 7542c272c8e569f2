"""Files that say how wheels are repacked."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from wheelfit.building.repack.configs import read_config
from wheelfit.building.repack.edits import Edits
from wheelfit.core.properties import parse_property
from wheelfit_runtime.errors import InvalidDocument

OWN = b"""
[metadata.torch]
rename = {torch-cu126 = "torch"}
version = "2.10.0"
strip-local-version = true
remove = ["Nvidia_Cublas.cu12"]
add = ["nvidia-cublas==12.6; 'nvidia' in variant_namespaces"]

[variants."cuda12.6"]
properties = ["nvidia :: sm_arch :: 90_real", "nvidia::sm_arch::80_real"]
metadata = "torch"

[variants.cpu]
label = "null"

[[wheels]]
match = "*+cu126-*"
variant = "cuda12.6"

[[wheels]]
match = "*"
metadata = "torch"
"""
THEIRS = b"""
[metadata_configs]
[metadata_configs.torch]
normalize_package_name = false
normalize_version = true
deps_remove_list = ["torch"]
deps_add_list = ["torch==2.10.0"]

[metadata_configs.cupy]
normalize_package_name = true

[metadata_configs.named]
normalize_package_name = true
rename_package_to = "other"

[variant_configs]
[variant_configs.cu126]
variant_label = "cuda12.6"
properties = [
  { namespace = "nvidia", feature = "sm_arch", value = "90_real" },
  { namespace = "nvidia", feature = "sm_arch", value = "80_real" },
]

[variant_configs.unnamed]
properties = [{ namespace = "nvidia", feature = "sm_arch", value = "90_real" }]

[variant_configs.nothing]
properties = []
"""


ONE = "{namespace='a', feature='b', value='c'}"


def test_own_shape() -> None:
    """B-43: names, versions, dependencies, variants, and which wheel is done how."""
    config = read_config(OWN, where="repack.toml")
    assert config.edits("torch") == Edits(
        renames=(("torch-cu126", "torch"),),  # type: ignore[arg-type]
        version=Version("2.10.0"),
        strip_local=True,
        remove=frozenset({"nvidia-cublas-cu12"}),  # type: ignore[arg-type]
        add=("nvidia-cublas==12.6; 'nvidia' in variant_namespaces",),
    )
    variant = config.variant("cuda12.6")
    assert (variant.label, variant.edits_name) == ("cuda12.6", "torch")
    assert list(variant.properties or ()) == [
        parse_property("nvidia :: sm_arch :: 80_real"),
        parse_property("nvidia :: sm_arch :: 90_real"),
    ]
    assert config.variant("cpu").label == "null"
    assert config.variant("cpu").properties is None
    rule = config.rule_for("torch-2.10.0+cu126-cp313-cp313-linux_x86_64.whl")
    assert rule is not None
    assert rule.variant == "cuda12.6"
    other = config.rule_for("torch-2.10.0+cpu-cp313-cp313-linux_x86_64.whl")
    assert other is not None
    assert (other.variant, other.edits_name) == (None, "torch")


def test_their_shape() -> None:
    """B-44: a file of variant-repack is read as it is."""
    config = read_config(THEIRS, where="config.toml")
    assert config.edits("torch") == Edits(
        strip_local=True,
        remove=frozenset({"torch"}),  # type: ignore[arg-type]
        add=("torch==2.10.0",),
    )
    assert config.edits("cupy").new_name("cupy-cuda12x") == "cupy"
    assert config.edits("named").new_name("cupy-cuda12x") == "other"
    assert config.variant("cu126").label == "cuda12.6"
    assert config.variant("unnamed").label is None
    assert config.variant("nothing").label == "null"
    assert not config.variant("nothing").properties
    assert config.rule_for("some-1-py3-none-any.whl") is None


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[metadata.a]\nrmeove = []", "metadata.a.rmeove"),
        ("[metadata.a]\nremove = 'torch'", "metadata.a.remove"),
        ("[metadata.a]\nremove = ['!']", "metadata.a.remove[0]"),
        ("[metadata.a]\nadd = ['a', 'b >> 1']", "metadata.a.add[1]"),
        ("[metadata.a]\nadd = ['a', \"b\\n\"]", "metadata.a.add[1]"),
        ("[metadata.a]\nversion = 'x'", "metadata.a.version"),
        ("[metadata.a]\nname = '-'", "metadata.a.name"),
        ("[metadata.a]\nname = 1", "metadata.a.name"),
        ("[metadata.a]\nrename = 'a'", "metadata.a.rename"),
        ("[metadata.a]\nstrip-local-version = 1", "metadata.a.strip-local-version"),
        ("metadata = 1", "metadata"),
        ("[metadata]\na = 1", "metadata.a"),
        ("[variants.a]\nproperties = ['a :: b']", "variants.a.properties[0]"),
        ("[variants.a]\nlabel = 'A'", "variants.a.label"),
        ("[variants.a]\nlabel = 1", "variants.a.label"),
        ("[variants.a]\nmetadata = 'b'", "variants.a.metadata"),
        ("[variants.a]\nmetadata = 1", "variants.a.metadata"),
        ("wheels = 1", "wheels"),
        ("wheels = [1]", "wheels[0]"),
        ("[[wheels]]\nvariant = 'a'", "wheels[0].match"),
        ("[[wheels]]\nmatch = '*'\nvariant = 'a'", "wheels[0].variant"),
        ("[[wheels]]\nmatch = '*'\nmetadata = 'a'", "wheels[0].metadata"),
        ("[metadata.a]\n[variant_configs.b]", "metadata"),
        ("[variant_configs.a]\nvariant_label = 'b'", "variant_configs.a.properties"),
        (
            f"[variant_configs.a]\nvariant_label = 'null'\nproperties = [{ONE}]",
            "variant_configs.a.variant_label",
        ),
        (
            "[variant_configs.a]\nproperties = [{namespace='a'}]",
            "variant_configs.a.properties[0].value",
        ),
        ("[variant_configs.a]\nproperties = 1", "variant_configs.a.properties"),
        (
            "[variant_configs.a]\nproperties = [{namespace='a', feature='b', value=1}]",
            "variant_configs.a.properties[0].value",
        ),
        ("[metadata_configs.a]\nnormalize_version = 'yes'", "metadata_configs.a.normalize_version"),
        ("=", ""),
    ],
)
def test_faults(text: str, path: str) -> None:
    """B-44: what is wrong is told with its place."""
    with pytest.raises(InvalidDocument) as excinfo:
        read_config(text.encode(), where="repack.toml")
    assert path in [fault.path for fault in excinfo.value.faults]
    assert excinfo.value.where == "repack.toml"


def test_names_that_are_not_there() -> None:
    """Who asks for a part that is not there learns which there are."""
    config = read_config(OWN, where="repack.toml")
    with pytest.raises(InvalidDocument, match="only: torch"):
        config.edits("vision")
    with pytest.raises(InvalidDocument, match=r"only: cpu, cuda12\.6"):
        config.variant("cuda13")
    assert config.edits(None) == Edits()


def test_published_configs(shared_data: Path) -> None:
    """B-44: every file that was published for variant-repack is read, with all its parts."""
    paths = sorted((shared_data / "variant-repack").rglob("*variant_config.toml"))
    assert len(paths) == 4
    for path in paths:
        config = read_config(path.read_bytes(), where=str(path))
        assert config.metadata
        assert all(variant.label for variant in config.variants.values())
    torch = read_config(paths[1].read_bytes(), where=str(paths[1]))
    assert "torch" in torch.edits("torchvision").remove
    assert torch.edits("torch").strip_local
