"""Every label of a release, and which machines would take it."""

from __future__ import annotations

import pytest
from packaging.version import Version

from wheelfit.core.ordering import Preferences
from wheelfit.core.provider_lookup import ProviderPolicy
from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import NoSolution
from wheelfit.resolution.candidates import Candidates, ChoicePolicy
from wheelfit.resolution.overview import Overview, OverviewHost, newest_release, overview
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.resolution_setup import NVIDIA, linux_target
from wheelfit.testing.wheels import release_document
from wheelfit_runtime.errors import ProjectNotFound

DOCUMENT = release_document(
    {
        "null": {},
        "cu130": {"nvidia": {"cuda_version_lower_bound": ["13.0"]}},
        "cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}},
    },
    providers={"nvidia": NVIDIA},
)
TAGS = ("cp310-cp310-manylinux_2_28_x86_64", "cp313-cp313-manylinux_2_28_x86_64")


def candidates() -> Candidates:
    """Return a world in which this machine takes nothing at all of the newest release."""
    repository = FakeRepository()
    for label in ("cu130", "cu129", "null", "stray"):
        for tags in TAGS if label != "cu130" else TAGS[1:]:
            repository.add_wheel(f"torch-2.0-{tags}-{label}.whl", requires_python=">=3.10")
    repository.add_wheel("torch-2.0-py3-none-any.whl")
    repository.add_file("torch-2.0-variants.json", DOCUMENT)
    repository.add_wheel("torch-1.0-py3-none-any.whl")
    repository.add_wheel("torch-3.0rc1-py3-none-any.whl")
    repository.add_wheel("torch-2.5-py3-none-any.whl", yanked="broken")
    repository.add_wheel("early-1.0a1-py3-none-any.whl")
    repository.add_file("bare-1.0.tar.gz")
    return Candidates(repository, linux_target(), None)


def newest(requirement: str, *, prereleases: bool = False) -> str:
    """Return the version that a requirement leads to."""
    wanted = parse_requirement(requirement, allow_variant_markers=False)
    return str(newest_release(candidates(), wanted, prereleases=prereleases).version)


def onlooker(name: str, *versions: str, python: str | None = None) -> OverviewHost:
    """Return a described machine with some driver."""
    detector = FixedDetector({"nvidia": {"cuda_version_lower_bound": list(versions)}})
    target = linux_target(python or "3.11.7", name=name)
    return OverviewHost(name, "", target, detector, any_python=python is None)


def seen(
    *overview_hosts: OverviewHost, source: Candidates | None = None, requirement: str = "torch"
) -> Overview:
    """Return what machines see of the newest release."""
    source = source or candidates()
    wanted = parse_requirement(requirement, allow_variant_markers=False)
    return overview(source, newest_release(source, wanted), None, overview_hosts)


def test_which_release() -> None:
    """The newest that a requirement allows, whatever Python or platform this is."""
    assert newest("torch") == "2.0"
    assert newest("torch<2") == "1.0"
    assert newest("torch", prereleases=True) == "3.0rc1"
    assert newest("early") == "1.0a1"
    assert newest("torch==2.5") == "2.5"
    with pytest.raises(ProjectNotFound):
        newest("nowhere")
    for nothing in ("torch>9", "bare"):
        with pytest.raises(NoSolution, match="with wheels"):
            newest(nothing)


def test_limits_of_others_do_not_count() -> None:
    """A constraint limits the project that it names."""
    limits = [parse_requirement(one, allow_variant_markers=False) for one in ("lib<1", "torch<2")]
    wanted = parse_requirement("torch", allow_variant_markers=False)
    for constraints, version in ((limits[:1], "2.0"), (limits, "1.0")):
        found = newest_release(candidates(), wanted, constraints=constraints)
        assert str(found.version) == version


def test_every_label_is_told() -> None:
    """By label, the one without properties and the plain wheel last; what is broken is said."""
    found = seen()
    assert [(row.label, row.condition, len(row.wheels)) for row in found.rows] == [
        ("cu129", "needs CUDA driver >= 12.9", 2),
        ("cu130", "needs CUDA driver >= 13.0", 1),
        ("stray", "never chosen: its label is not in the variant metadata", 2),
        ("null", "fits every machine", 2),
        (None, "fits every machine with its tags; compatible variants are preferred", 1),
    ]
    assert found.version == Version("2.0")
    assert [degradation.code for degradation in found.degradations] == ["unlisted-variant"]


def test_who_takes_it() -> None:
    """A machine whose Python is open takes any Python's wheel; others only their own."""
    found = seen(
        onlooker("new", "13.0", "12.9"),
        onlooker("old", "12.9"),
        onlooker("none"),
        onlooker("new with Python 3.10", "13.0", "12.9", python="3.10.1"),
        onlooker("new with Python 3.9", "13.0", "12.9", python="3.9.1"),
    )
    assert {row.label: row.selected_by for row in found.rows if row.selected_by} == {
        "cu129": ("old", "new with Python 3.10"),
        "cu130": ("new",),
        "null": ("none",),
        None: ("new with Python 3.9",),
    }
    assert found.unmatched_machines == ()


def test_what_is_taken_back_or_for_another_python() -> None:
    """A file may be out by what its page says of it, and a release as a whole only when named."""
    repository = FakeRepository()
    repository.add_wheel("torch-2.0-2-py3-none-any.whl", yanked="broken")
    repository.add_wheel("torch-2.0-1-py3-none-any.whl", requires_python=">=3.12")
    repository.add_wheel("torch-1.0-py3-none-any.whl", yanked="broken")
    source = Candidates(repository, linux_target(), None)
    old, new = (onlooker(python, python=f"{python}.0") for python in ("3.11", "3.12"))
    for text, without in (("torch", ("3.11",)), ("torch==1.0", ())):
        assert seen(old, new, source=source, requirement=text).unmatched_machines == without


def test_wishes_count() -> None:
    """What the user forbids or switches off is taken by nobody."""
    cuda = onlooker("cuda", "12.9")
    for policy in (
        ChoicePolicy(preferences=Preferences(forbid=("nvidia",))),
        ChoicePolicy(providers=ProviderPolicy(disabled=frozenset(["nvidia"]))),
    ):
        source = Candidates(candidates().repository, linux_target(), None, policy)
        found = seen(cuda, source=source)
        assert [row.label for row in found.rows if row.selected_by] == ["null"]


def test_a_label_that_is_not_usable() -> None:
    """F-130: the reason stands in place of a condition."""
    repository = FakeRepository()
    repository.add_wheel("torch-2.0-py3-none-any-cu.whl")
    broken = {**DOCUMENT, "variants": {"cu": {"nvidia": {"sm_arch": []}}}}
    repository.add_file("torch-2.0-variants.json", broken)
    (row,) = seen(source=Candidates(repository, linux_target(), None)).rows
    assert row.condition.startswith("never chosen: ")
    assert "at least one value is needed" in row.condition


def test_without_metadata_only_plain_wheels_are_left() -> None:
    """F-133: nobody can take a label that nothing is said of."""
    repository = FakeRepository()
    repository.add_wheel("torch-2.0-py3-none-any-cu.whl")
    repository.add_file("torch-2.0-variants.json", b"{")
    found = seen(onlooker("any"), source=Candidates(repository, linux_target(), None))
    assert found.rows[0].condition == "never chosen: there is no usable variant metadata"
    assert found.unmatched_machines == ("any",)
