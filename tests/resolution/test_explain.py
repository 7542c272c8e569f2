"""Explanations of a choice."""

from __future__ import annotations

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version
from resolution.releases import add_release

from wheelfit.core.host_file import HostDetector, HostFile
from wheelfit.core.ordering import Preferences
from wheelfit.core.provider_lookup import ProviderPolicy
from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import NoSolution
from wheelfit.resolution.candidates import ChoicePolicy
from wheelfit.resolution.explain import Explanation, explain_project, explain_release
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.resolution_setup import NVIDIA, ResolutionSetup
from wheelfit.testing.wheels import release_document, single_label_document
from wheelfit_runtime.errors import ProjectNotFound
from wheelfit_runtime.platforms.features import Detection, Evidence, Status

CUDA = release_document(
    {
        "null": {},
        "cu128": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
        "cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}},
    },
    providers={"nvidia": NVIDIA},
)
NEWEST_CUDA = single_label_document(CUDA, "cu129")


def driver(*versions: str) -> FixedDetector:
    """Return a machine whose driver supports some CUDA versions."""
    return FixedDetector({"nvidia": {"cuda_version_lower_bound": versions}})


@pytest.fixture
def world() -> ResolutionSetup:
    """Return a world with torch 2.8 in three variants and a plain wheel."""
    world = ResolutionSetup(machine=driver("12.8", "12.7"))
    add_release(world.repository, "torch 2.8", CUDA, plain=True)
    return world


def explain(world: ResolutionSetup, text: str = "torch", *constraints: str) -> Explanation:
    """Explain one requirement."""
    limits = [parse_requirement(limit, allow_variant_markers=False) for limit in constraints]
    requirement = parse_requirement(text, allow_variant_markers=False)
    return explain_project(world.candidates(), requirement, constraints=limits)


def test_a_required_property_has_no_way_round(world: ResolutionSetup) -> None:
    """F-91: as on installation, an older release without variants is no answer."""
    world.add("torch 2.7")
    world.policy = ChoicePolicy(preferences=Preferences(require=("nvidia",)))
    world.machine = FixedDetector()
    explanation = explain(world)
    assert explanation.chosen is None
    assert str(explanation.version) == "2.8"


class TestContract:
    """The JSON of an explanation is documented and stable."""

    def test_a_choice(self, world: ResolutionSetup) -> None:
        """Winner, properties, and every other wheel with verdict and reason, best first."""
        assert explain(world).to_mapping() == {
            "name": "torch",
            "version": "2.8",
            "chosen": {
                "filename": "torch-2.8-py3-none-any-cu128.whl",
                "label": "cu128",
                "properties": ["nvidia :: cuda_version_lower_bound :: 12.8"],
                "built_for": [],
            },
            "candidates": [
                {
                    "filename": "torch-2.8-py3-none-any-cu128.whl",
                    "label": "cu128",
                    "verdict": "chosen",
                    "reason": "best fit: nvidia :: cuda_version_lower_bound :: 12.8",
                },
                {
                    "filename": "torch-2.8-py3-none-any-null.whl",
                    "label": "null",
                    "verdict": "compatible",
                    "reason": "compatible; cu128 is preferred: it has "
                    "nvidia :: cuda_version_lower_bound :: 12.8",
                },
                {
                    "filename": "torch-2.8-py3-none-any.whl",
                    "label": None,
                    "verdict": "compatible",
                    "reason": "compatible; plain wheels come after every compatible variant",
                },
                {
                    "filename": "torch-2.8-py3-none-any-cu129.whl",
                    "label": "cu129",
                    "verdict": "rejected",
                    "reason": "needs CUDA driver >= 12.9, this machine has 12.8 "
                    "(nvidia :: cuda_version_lower_bound :: 12.9)",
                },
            ],
            "warnings": [],
            "notes": [],
            "degradations": [],
            "providers": [
                {
                    "namespace": "nvidia",
                    "status": "supported",
                    "step": "built-in",
                    "source": "set by a test",
                    "warnings": [],
                    "plugin": None,
                }
            ],
            "source": "fake",
        }

    def test_nothing_fits(self, world: ResolutionSetup) -> None:
        """Without a winner version and choice are null, the candidates are still shown."""
        add_release(world.repository, "torch 3", NEWEST_CUDA)
        mapping = explain(world, "torch>=3").to_mapping()
        assert (mapping["version"], mapping["chosen"]) == (None, None)
        assert [candidate["label"] for candidate in mapping["candidates"]] == ["cu129"]


class TestWhichRelease:
    """The newest release that has a wheel that fits is shown."""

    def test_one_that_does_not_fit_is_passed_over(self, world: ResolutionSetup) -> None:
        """F-92: the older release is shown, with a note on the newer one."""
        add_release(world.repository, "torch 3", NEWEST_CUDA)
        explanation = explain(world)
        assert explanation.version == Version("2.8")
        assert explanation.notes[0].startswith(
            "torch 3 is passed over because no wheel of it fits: cu129: needs CUDA driver >= 12.9"
        )

    def test_several_for_one_reason_share_a_line(self, world: ResolutionSetup) -> None:
        """F-92: releases that are passed over for the same reason are one note."""
        for version in ("3", "4", "5"):
            add_release(world.repository, f"torch {version}", NEWEST_CUDA)
        (note,) = [note for note in explain(world).notes if "passed over" in note]
        assert note.startswith(
            "torch 5, 4 and 3 are passed over because no wheel of them fits: cu129: needs CUDA"
        )

    def test_one_that_needs_a_url_is_passed_over(self, world: ResolutionSetup) -> None:
        """What could not be installed is not shown as the choice."""
        world.repository.add_wheel(
            "torch-3-py3-none-any.whl", requires=["cuda @ https://elsewhere.invalid/cuda-1.whl"]
        )
        explanation = explain(world)
        assert explanation.version == Version("2.8")
        assert "only you may request a URL" in explanation.notes[0]

    def test_constraints_count(self, world: ResolutionSetup) -> None:
        """A constraint on the project limits what is shown."""
        world.repository.add_wheel("torch-3-py3-none-any.whl")
        assert explain(world).version == Version("3")
        assert explain(world, "torch", "torch<3", "other<1").version == Version("2.8")

    def test_an_unknown_project(self, world: ResolutionSetup) -> None:
        """A project that nobody knows is an error."""
        with pytest.raises(ProjectNotFound):
            explain(world, "nope")

    def test_an_unknown_version(self, world: ResolutionSetup) -> None:
        """A requirement that no release fits is an error that names the newest."""
        with pytest.raises(NoSolution) as excinfo:
            explain(world, "torch>=9")
        assert excinfo.value.note == "latest: 2.8"

    def test_an_excluding_constraint(self, world: ResolutionSetup) -> None:
        """The error shows the versions that requirement and constraints name."""
        with pytest.raises(NoSolution, match=r"matches torch<2,==2\.8$"):
            explain(world, "torch==2.8", "torch<2")

    def test_a_yanked_release(self, world: ResolutionSetup) -> None:
        """PEP 592: a pinned release that was yanked is shown with a note."""
        world.repository.add_wheel("old-1-py3-none-any.whl", yanked="broken")
        (note,) = explain(world, "old==1").notes
        assert note == "old 1 is yanked: broken"

    def test_only_a_pin_selects_a_yanked_release(self, world: ResolutionSetup) -> None:
        """PEP 592: as on installation, a yanked release is not chosen without a pin."""
        world.repository.add_wheel("old-2-py3-none-any.whl", yanked="broken")
        with pytest.raises(NoSolution, match="old 2 was yanked"):
            explain(world, "old")
        world.repository.add_wheel("old-1-cp39-cp39-win32.whl")
        explanation = explain(world, "old")
        assert (str(explanation.version), explanation.chosen) == ("1", None)


class TestWarnings:
    """What somebody who only glances should still see."""

    def test_hardware_that_is_not_used(self, world: ResolutionSetup) -> None:
        """A GPU is there and a CPU build is chosen: a warning with the reason."""
        world.machine = driver("12.7")
        (warning,) = explain(world).warnings
        assert warning == (
            "torch: nvidia hardware is present, but the chosen build (null) does not use it; "
            "cu128: needs CUDA driver >= 12.8, this machine has 12.7 "
            "(nvidia :: cuda_version_lower_bound :: 12.8)"
        )

    def test_no_hardware(self, world: ResolutionSetup) -> None:
        """Without a GPU a CPU build is not a surprise."""
        world.machine = FixedDetector({"nvidia": {}})
        assert explain(world).warnings == ()

    def test_a_list_of_the_package(self, world: ResolutionSetup) -> None:
        """P-20: a package that says itself that a GPU is supported is believed, with a warning."""
        document = release_document(
            {"gpu": {"nvidia": {"sm_arch": ["90_real"]}}},
            static={"nvidia": {"sm_arch": ["90_real"]}},
        )
        add_release(world.repository, "claim 1", document)
        explanation = explain(world, "claim")
        assert explanation.chosen is not None
        assert "its own list states that nvidia is supported" in explanation.warnings[0]

    def test_a_list_that_is_not_believed(self, world: ResolutionSetup) -> None:
        """P-20: the user may have the machine asked instead."""
        document = release_document(
            {"null": {}, "gpu": {"nvidia": {"sm_arch": ["90_real"]}}},
            static={"nvidia": {"sm_arch": ["90_real"]}},
        )
        add_release(world.repository, "claim 1", document)
        world.policy = ChoicePolicy(providers=ProviderPolicy(ignore_static=frozenset({"nvidia"})))
        explanation = explain(world, "claim")
        assert explanation.chosen is not None
        assert explanation.chosen.label == "null"

    def test_a_detection_that_failed(self, world: ResolutionSetup) -> None:
        """P-17: a failed detection is told, not taken for "nothing there"."""
        failed = Detection(
            "nvidia", status=Status.FAILED, evidence=(Evidence("libcuda.so.1", "it hung"),)
        )
        world.machine = FixedDetector({"nvidia": failed})
        assert explain(world).warnings == (
            "detection of nvidia failed, so its builds count as unsupported: libcuda.so.1: it hung",
        )


def test_what_detection_has_to_say_is_told(world: ResolutionSetup) -> None:
    """P-21: warnings of a detection are in the notes."""
    odd = Detection("nvidia", status=Status.DISABLED, warnings=("NV_FORCE='abc' is not a version",))
    world.machine = FixedDetector({"nvidia": odd})
    assert "nvidia: NV_FORCE='abc' is not a version" in explain(world).notes


def test_degradations_are_told(world: ResolutionSetup) -> None:
    """F-136: what made variants unusable is a warning."""
    for file in world.repository.project(canonicalize_name("torch")).files:  # type: ignore[union-attr]
        if file.filename.endswith(".json"):
            world.repository.break_file(file)
    candidates = world.candidates()
    explanation = explain_release(candidates, canonicalize_name("torch"), Version("2.8"))
    assert "its variant wheels are ignored" in explanation.warnings[0]
    assert explanation.chosen is not None
    assert explanation.chosen.label is None


def test_what_a_host_file_leaves_out_is_told(world: ResolutionSetup) -> None:
    """P-44, F-136: one note for a release, whatever the number of wheels."""
    world.machine = None
    world.host_detector = HostDetector(HostFile(), "node.toml")
    explanation = explain(world)
    assert explanation.notes == ("torch 2.8: nvidia: not in host file node.toml, so unsupported",)
    assert [detection.source for detection in explanation.detections] == [
        "not in host file node.toml"
    ]
    assert explanation.chosen is not None
    assert explanation.chosen.label == "null"
