"""What installers would take of a release on described machines."""

from __future__ import annotations

from msgspec.structs import replace
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.building.publishing.tool_choices import (
    MACHINES,
    TOOLS,
    OfferedWheel,
    PlannedRelease,
    ReleaseChoices,
    tool_choices,
)
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.metadata import read_document
from wheelfit.core.variant_json_layouts.schema import PEP_825, PEP_850
from wheelfit.testing.wheels import release_document

LINUX = "cp313-cp313-manylinux_2_28_x86_64"
PROVIDERS: dict[str, dict[str, object]] = {
    "nvidia": {
        "requires": ["nvidia-variant-provider>=0.0.1,<1"],
        "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    },
    "amd": {
        "requires": ["amd-variant-provider>=0.0.2,<1"],
        "plugin-api": "amd_variant_provider.plugin:AMDVariantPlugin",
    },
    "x86_64": {"requires": ["x86-64-variant-provider>=0.2.1,<1"]},
}
VARIANTS = {
    "v3": {"x86_64": {"level": ["v3"]}},
    "cu128": {"nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["90_real"]}},
    "rocm": {"amd": {"gfx_arch": ["gfx942"]}},
}


def wheel(tags: str, label: str | None = None, **changes: object) -> OfferedWheel:
    """Return a wheel of a release."""
    ending = "" if label is None else f"-{label}"
    filename = parse_wheel_filename(f"fast-1.0-{tags}{ending}.whl")
    return OfferedWheel(filename, **changes)  # type: ignore[arg-type]  # by their names


def choices(
    *wheels: OfferedWheel, has_source: bool = False, schema: str = PEP_850
) -> ReleaseChoices:
    """Return what tools take of a release with some wheels."""
    labels = {one.filename.label for one in wheels}
    variants = {label: one for label, one in VARIANTS.items() if label in labels}
    used = {name for properties in variants.values() for name in properties}
    document = None
    if variants:
        written = release_document(
            variants, providers={name: one for name, one in PROVIDERS.items() if name in used}
        )
        document = replace(read_document(written, where="test"), schema=schema)
    offer = PlannedRelease(canonicalize_name("fast"), Version("1.0"), wheels, document, has_source)
    return tool_choices(offer)


def builds(found: ReleaseChoices, machine: str) -> tuple[str, ...]:
    """Return what the tools take on a machine."""
    (row,) = (one for one in found.machines if one.machine.startswith(machine))
    return tuple(choice.build for choice in row.choices)


def test_twelve_machines_are_asked_about_every_tool() -> None:
    """B-54: each machine has a row with what each tool takes, for the newest Python there is."""
    found = choices(wheel(LINUX))
    assert found.python == "3.13"
    assert len(found.machines) == len(MACHINES) == 12
    assert all([choice.tool for choice in row.choices] == list(TOOLS) for row in found.machines)
    assert builds(found, "cpu-x86_64-v1") == ("plain",) * 4
    assert builds(found, "macos-arm64") == ("nothing",) * 4
    assert any("nothing can be installed: cpu-aarch64-8.2a, musl" in warning for warning in
               found.warnings())  # fmt: skip


def test_who_silently_gets_less_is_called_out() -> None:
    """Pip and uv take the plain wheel where a variant runs; a driver that is too old, everybody."""
    found = choices(wheel(LINUX), wheel(LINUX, "v3"), wheel(LINUX, "cu128"), wheel(LINUX, "rocm"))
    assert builds(found, "cpu-x86_64-v2") == ("plain",) * 4
    assert builds(found, "cpu-x86_64-v4") == ("plain", "plain", "v3", "v3")
    assert builds(found, "cuda-13.0") == ("plain", "plain", "cu128", "cu128")
    assert builds(found, "cuda-11.8") == ("plain", "plain", "v3", "v3")
    # uv has no provider for it: its preview takes what is left.
    assert builds(found, "rocm") == ("plain", "plain", "v3", "rocm")
    said = list(found.warnings())
    slower = next(one for one in said if one.startswith("pip, uv: silently a slower build"))
    assert "cpu-x86_64-v3, cpu-x86_64-v4" in slower
    on = "cuda-11.8-sm70+cpu-x86_64-v3"
    assert f"wheelfit: silently a build without the accelerator: {on}" in said


def test_a_fault_in_the_document_costs_uv_the_release() -> None:
    """F-150: what uv's preview cannot read leaves it nothing, the plain wheel included."""
    found = choices(wheel(LINUX), wheel(LINUX, "v3"), schema=PEP_825)
    assert builds(found, "cpu-x86_64-v4")[2] == "nothing"


def test_variant_markers_cost_pip_and_uv_the_release() -> None:
    """F-154: a wheel whose dependencies have variant markers is for wheelfit alone."""
    found = choices(wheel(LINUX, has_variant_markers=True))
    assert builds(found, "cpu-x86_64-v1") == ("nothing", "nothing", "nothing", "plain")


def test_the_python_counts() -> None:
    """F-94: uv's preview chooses the label first, and wheelfit only among what fits the Python."""
    newer = SpecifierSet(">=3.14")
    found = choices(wheel(LINUX), wheel(LINUX, "v3", requires_python=newer))
    assert builds(found, "cpu-x86_64-v4") == ("plain", "plain", "nothing", "plain")


def test_a_source_distribution_is_what_is_left() -> None:
    """Where no wheel fits the source distribution is named, for it would be built there."""
    found = choices(wheel(LINUX), has_source=True)
    assert builds(found, "macos-arm64") == ("source",) * 4
    assert any("the source distribution is built: " in warning for warning in found.warnings())
