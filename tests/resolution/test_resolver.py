"""From a request to pins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from error_codes import raises_code
from packaging.utils import canonicalize_name
from packaging.version import Version
from resolution.releases import add_release, installed_build

from wheelfit.core.core_metadata import CoreMetadata
from wheelfit.core.labels import Label
from wheelfit.core.ordering import Preferences
from wheelfit.core.properties import Property, PropertySet
from wheelfit.errors import NoSolution, SourceBuildNotAllowed
from wheelfit.resolution.candidates import ChoicePolicy
from wheelfit.resolution.listing import SourcePolicy, sort_page
from wheelfit.resolution.request import InstalledBuild, ResolutionRequest, direct_wheel
from wheelfit.resolution.resolution import Edge
from wheelfit.resolution.resolver import resolve
from wheelfit.sources.page import ProjectPage, Status
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.resolution_setup import NVIDIA, ResolutionSetup, linux_target, requested
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.errors import (
    HashMismatch,
    InvalidWheel,
    NoCompatibleWheel,
    ProjectNotFound,
    UserError,
    WheelfitError,
)

CUDA = {
    "null": {},
    "cu128": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
    "cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}},
}


def driver(*versions: str) -> FixedDetector:
    """Return a machine whose driver supports some CUDA versions."""
    return FixedDetector({"nvidia": {"cuda_version_lower_bound": versions}})


def add_torch(
    world: ResolutionSetup, version: str, labels: Sequence[str], *, plain: bool = False
) -> None:
    """Add a release with variants that need different things."""
    requires = [
        'cuda-runtime; "nvidia" in variant_namespaces',
        'cuda-new; "nvidia :: cuda_version_lower_bound :: 12.9" in variant_properties',
        'cpu-tools; variant_label == "null"',
        'plain-tools; variant_label == ""',
        "numbers",
    ]
    document = release_document(
        {label: CUDA[label] for label in labels}, providers={"nvidia": NVIDIA}
    )
    add_release(world.repository, f"torch {version}", document, requires, plain=plain)


def numbers_on_offer() -> ResolutionSetup:
    """Return a world with two old releases of something, and others that limit it."""
    world = ResolutionSetup()
    world.add("numbers 0.5", "numbers 1", "picky 1", "picky 2")
    world.add("old-numbers 1", requires=["numbers<1"])
    world.add("picky 3", requires=["numbers<2"])
    return world


@pytest.fixture
def world() -> ResolutionSetup:
    """Return a world with torch 2.8 in three variants and a plain wheel."""
    world = ResolutionSetup(machine=driver("12.8", "12.7"))
    world.add("cuda-runtime 1", "cuda-new 1", "cpu-tools 1", "plain-tools 1", "numbers 1")
    add_torch(world, "2.8", ["null", "cu128", "cu129"], plain=True)
    return world


class TestMarkersOfTheChosenWheel:
    """Dependencies are those of the wheel that was chosen (F-95, F-101)."""

    def test_a_variant(self, world: ResolutionSetup) -> None:
        """F-103: properties are those of the label that the target supports."""
        assert world.pins("torch") == {"torch": "2.8:cu128", "cuda-runtime": "1", "numbers": "1"}

    def test_a_better_machine(self, world: ResolutionSetup) -> None:
        """F-95: another label of the same release has other dependencies."""
        world.machine = driver("12.9", "12.8")
        assert world.pins("torch") == {
            "torch": "2.8:cu129", "cuda-runtime": "1", "cuda-new": "1", "numbers": "1",
        }  # fmt: skip

    def test_the_null_variant(self, world: ResolutionSetup) -> None:
        """F-104: the null variant has its label and no properties."""
        world.machine = FixedDetector()
        assert world.pins("torch") == {"torch": "2.8:null", "cpu-tools": "1", "numbers": "1"}

    def test_versions_spelled_differently(self, world: ResolutionSetup) -> None:
        """F-78: files of one release may spell its version in two ways; a pin has the wheel's."""
        world.repository.add_wheel("torch-3-py3-none-any.whl")
        add_torch(world, "3.0", ["cu128"])
        resolution = world.resolve("torch")
        assert str(resolution.pins[-1]) == "torch 3.0 (cu128)"

    def test_the_plain_wheel(self, world: ResolutionSetup) -> None:
        """F-104: a plain wheel has the empty label."""
        world.policy = ChoicePolicy(preferences=Preferences(variants=False))
        assert world.pins("torch") == {"torch": "2.8", "plain-tools": "1", "numbers": "1"}

    def test_options_do_not_change_what_markers_see(self, world: ResolutionSetup) -> None:
        """F-110: what the user forbids stays in the sets, so that no dependency vanishes."""
        code = ["80_real", "90_real"]
        world.machine = FixedDetector({"nvidia": {"sm_arch": ["90_real", "80_real"]}})
        document = release_document(
            {"both": {"nvidia": {"sm_arch": code}}}, providers={"nvidia": NVIDIA}
        )
        needs = ['numbers; "nvidia :: sm_arch :: 90_real" in variant_properties']
        add_release(world.repository, "gpu 1", document, needs)
        pins = {"gpu": "1:both", "numbers": "1"}
        assert world.pins("gpu") == pins
        for value in code:  # the wheel still fits, by the other value
            forbidden = Property("nvidia", "sm_arch", value)
            world.policy = ChoicePolicy(preferences=Preferences(forbid=(forbidden,)))
            assert world.pins("gpu") == pins

    def test_a_pin_says_what_markers_saw(self, world: ResolutionSetup) -> None:
        """F-103: whoever installs the wheel resolves the same markers again."""
        pin = world.resolve("torch").pin(canonicalize_name("torch"))
        assert pin is not None
        lower = PropertySet.of(Property("nvidia", "cuda_version_lower_bound", "12.8"))
        assert (pin.label, pin.properties, pin.supported) == ("cu128", lower, lower)
        assert pin.context.label == "cu128"
        assert pin.reason.startswith("best fit")
        assert pin.requested


class TestReleasesThatDoNotFit:
    """F-92: a release of which no wheel fits is passed over, and it is said."""

    def test_the_next_release_is_taken(self, world: ResolutionSetup) -> None:
        """F-92, F-136: the older release is taken and a note tells the missing property."""
        add_torch(world, "2.9", ["cu129"])
        resolution = world.resolve("torch")
        assert str(resolution.pins[-1]) == "torch 2.8 (cu128)"
        (old,) = resolution.held_back
        assert str(old).startswith("torch 2.8 (latest 2.9 has no wheel that fits")
        assert "needs CUDA driver >= 12.9, this machine has 12.8" in old.reason
        assert resolution.notes == ()

    def test_a_yanked_release(self, world: ResolutionSetup) -> None:
        """PEP 592: it is not among the available ones, and the hint selects it."""
        world.repository.add_wheel("old-2-py3-none-any.whl", yanked="broken")
        with pytest.raises(NoSolution, match="old 2 was yanked") as excinfo:
            world.resolve("old")
        assert (excinfo.value.note, excinfo.value.hint) == (None, "old==2 selects it")

    def test_a_project_that_needs_the_same_version(self, world: ResolutionSetup) -> None:
        """Of the releases of the other project, the chosen one is named as the reason."""
        world.add("app 1", "app 2", "app 3")
        for version in "12":
            world.add(f"web {version}", requires=[f"app=={version}"])
        resolution = world.resolve("app", "web")
        assert [str(pin) for pin in resolution.pins] == ["app 2", "web 2"]
        (old,) = resolution.held_back
        assert old.reason == "is unavailable: web 2 needs app==2"

    def test_an_accelerator_goes_before_a_newer_release(self, world: ResolutionSetup) -> None:
        """A release without a build for the accelerator gives way, and both ways are told."""
        add_torch(world, "2.9", ["cu129", "null"])
        resolution = world.resolve("torch")
        assert str(resolution.pins[-1]) == "torch 2.8 (cu128)"
        (old,) = resolution.held_back
        assert str(old) == (
            "torch 2.8 (latest 2.9 has no build for the accelerator of this machine; "
            "torch==2.9 selects it)"
        )
        other = world.resolve("torch==2.9")
        assert str(other.pins[-1]) == "torch 2.9 (null)"
        assert (
            "torch 2.9 (null) uses no accelerator; torch 2.8 has a build for that of this machine "
            "(torch==2.8 selects it)"
        ) in other.notes

    def test_nothing_is_left(self, world: ResolutionSetup) -> None:
        """F-92: the final error names every rejected label with what it misses."""
        add_torch(world, "2.9", ["cu129"])
        with pytest.raises(
            NoCompatibleWheel, match=r"torch 2\.9 has no wheel that fits"
        ) as excinfo:
            world.resolve("torch>=2.9")
        assert excinfo.value.note == (
            "torch 2.9:\n"
            "  cu129: needs CUDA driver >= 12.9, this machine has 12.8 "
            "(nvidia :: cuda_version_lower_bound :: 12.9)"
        )

    def test_what_needs_it_backtracks(self, world: ResolutionSetup) -> None:
        """F-92: a project that needs the release is taken in an older version."""
        add_torch(world, "2.9", ["cu129"])
        world.add("app 2", requires=["torch>=2.9"])
        world.add("app 1", requires=["torch"])
        assert world.pins("app")["app"] == "1"

    def test_a_long_proof_begins_with_the_newest_release(self, world: ResolutionSetup) -> None:
        """House plan: what people look for comes first, and older releases in short."""
        for number in range(1, 12):
            world.add(f"suite {number}", requires=[f"part=={number}"], extras=["x"])
            world.add(f"part {number}", requires=[f"gone{number}>=1"])
        with pytest.raises(NoSolution) as excinfo:
            world.resolve("suite[x]")
        assert str(excinfo.value.note).splitlines() == [
            (
                "because suite 11 needs part==11 and part 11 needs gone11>=1, "
                "suite 11 needs gone11>=1"
            ),
            (
                "and because gone11 was not found in any index and you require suite[x], "
                "suite 11, the newest, cannot be used"
            ),
            "older versions of suite cannot be used either:",
            "  - suite 10 needs part==10",
            "  - suite 9 needs part==9",
            "  - suite 8 needs part==8",
            "  - suite 7 needs part==7",
            "  - suite 6 needs part==6",
            "  - and 5 more like these",
            "  - gone10 was not found in any index",
            "  - gone9 was not found in any index",
            "  - gone8 was not found in any index",
            "  - gone7 was not found in any index",
            "  - gone6 was not found in any index",
            "  - and 5 more like these",
        ]

    def test_the_proof_has_the_reasons(self, world: ResolutionSetup) -> None:
        """F-92: a longer proof ends with the rejected labels."""
        add_torch(world, "2.9", ["cu129"])
        world.add("app 2", requires=["torch>=2.9"])
        with pytest.raises(NoSolution) as excinfo:
            world.resolve("app")
        assert (excinfo.value.note or "").splitlines() == [
            (
                "because torch 2.9 has no wheel that fits and app 2 needs torch>=2.9, "
                "app 2 cannot be used"
            ),
            "and because you require app, your request cannot be met",
            "torch 2.9:",
            (
                "  cu129: needs CUDA driver >= 12.9, this machine has 12.8 "
                "(nvidia :: cuda_version_lower_bound :: 12.9)"
            ),
        ]

    def test_only_sources(self, world: ResolutionSetup) -> None:
        """F-92: a release without wheels says that building it is off, and how to get a wheel."""
        world.repository.add_file("tool-1.0.tar.gz")
        with pytest.raises(SourceBuildNotAllowed) as excinfo:
            world.resolve("tool")
        assert "building from source is off" in (excinfo.value.note or "")
        assert "`wheelfit build tool-1.0.tar.gz -o wheels`" in (excinfo.value.hint or "")

    def test_sources_beside_wheels_for_others(self, world: ResolutionSetup) -> None:
        """F-92: a release whose wheels do not fit names its source distribution with them."""
        world.repository.add_wheel("tool-1.0-cp39-cp39-win32.whl")
        world.repository.add_file("tool-1.0.tar.gz")
        with pytest.raises(SourceBuildNotAllowed) as excinfo:
            world.resolve("tool")
        assert "source distribution: building from source is off" in (excinfo.value.note or "")

    def test_every_release_needs_another_python(self, world: ResolutionSetup) -> None:
        """F-94: where Requires-Python alone is the cause, it is named, with a Python that does."""
        for version in ("2", "3"):
            world.repository.add_wheel(
                f"tool-{version}-py3-none-any.whl", requires_python=">=3.12,<3.15"
            )
        world.add("app 1", requires=["tool"])
        with pytest.raises(NoCompatibleWheel) as alone:
            world.resolve("tool")
        assert "tool 2 to 3 need Python <3.15,>=3.12, not 3.11" in alone.value.message
        assert "`wheelfit venv --python 3.12`" in (alone.value.hint or "")
        with pytest.raises(NoSolution) as needed:
            world.resolve("app")
        assert "tool 2 to 3 need Python" in (needed.value.note or "")
        assert needed.value.hint == alone.value.hint

    def test_requirements_that_no_version_meets(self, world: ResolutionSetup) -> None:
        """They are cited once, as they are written."""
        url = "https://h.example/numbers-1-py3-none-any.whl"
        world.add("app 1", requires=["numbers>2,<1"])
        world.add("tool 1", requires=[f"numbers @ {url} ; extra == 'x'"], extras=["x"])
        for request, line in {
            "app": "because app 1 needs numbers<1,>2, which no version meets, app 1 cannot be used",
            "numbers>2,<1": "because you require numbers<1,>2, which no version meets, "
            "your request cannot be met",
            "tool[x]": f"because tool[x] 1 needs numbers @ {url} (only you may request a URL), "
            "which no version meets, tool[x] 1 cannot be used",
        }.items():
            with pytest.raises(NoSolution) as excinfo:
                world.resolve(request)
            assert str(excinfo.value.note).splitlines()[0] == line

    def test_releases_need_different_pythons(self, world: ResolutionSetup) -> None:
        """The Python of the newest release is not said of older ones."""
        for version, python in (("1", "<3.9"), ("2", ">=3.13")):
            world.repository.add_wheel(f"tool-{version}-py3-none-any.whl", requires_python=python)
        with pytest.raises(NoCompatibleWheel) as excinfo:
            world.resolve("tool")
        assert excinfo.value.message == (
            "tool 1 to 2 need other Pythons than 3.11.7, the newest >=3.13"
        )
        assert "Python 3.13 matches" in (excinfo.value.hint or "")

    def test_a_prerelease_of_python(self, world: ResolutionSetup) -> None:
        """As in pip and uv, a pre-release of Python counts as its release."""
        world.target = linux_target("3.15.0rc1")
        world.repository.add_wheel("tool-2-py3-none-any.whl", requires_python=">=3.15")
        world.repository.add_wheel("tool-1-py3-none-any.whl")
        assert world.pins("tool") == {"tool": "2"}
        world.repository.add_wheel("part-2-py3-none-any.whl", metadata_requires_python=">=3.15")
        world.repository.add_wheel("part-1-py3-none-any.whl")
        assert world.pins("part") == {"part": "2"}

    def test_some_releases_were_yanked(self, world: ResolutionSetup) -> None:
        """PEP 592: only yanked releases are called yanked; wheels of the others do not fit."""
        world.repository.add_wheel("tool-1-py3-none-any.whl", yanked="broken")
        world.repository.add_wheel("tool-2-cp39-cp39-win32.whl")
        with pytest.raises(NoCompatibleWheel) as excinfo:
            world.resolve("tool")
        assert "tool 2 (the others were yanked) has no wheel that fits" in excinfo.value.message
        assert "built for" in (excinfo.value.note or "")

    def test_the_python_of_some_wheels(self, world: ResolutionSetup) -> None:
        """The Python is no reason against a release if one of its wheels is for any Python."""
        world.repository.add_wheel("tool-2-cp39-cp39-win32.whl")
        world.repository.add_wheel("tool-2-py3-none-any.whl", requires_python=">=3.13")
        world.repository.add_file("tool-2.tar.gz")
        world.add("tool 1")
        world.policy = ChoicePolicy(sources=SourcePolicy(only_binary=frozenset(["tool"])))
        (old,) = world.resolve("tool").held_back
        assert "needs Python" not in old.reason

    def test_prereleases_that_are_not_asked_for(self, world: ResolutionSetup) -> None:
        """No hint at ``--pre`` where requirement or constraint admits no pre-release anyway."""
        world.add("app 1", "app 2rc1", requires=["absent"])
        with pytest.raises(NoSolution) as excinfo:
            world.resolve("app==1.*")
        assert "--pre" not in (excinfo.value.hint or "")
        with pytest.raises(NoSolution) as constrained:
            world.resolve("app>=1", constraints=["app==1"])
        assert "--pre" not in (constrained.value.hint or "")
        with pytest.raises(NoSolution) as open_end:
            world.resolve("app>=1")
        assert "--pre allows pre-releases of app" in (open_end.value.hint or "")

    def test_closest_wheels_are_named(self, world: ResolutionSetup) -> None:
        """F-92: of many wheels for others those of this platform are named, the newest first."""
        for tags in ("cp27-cp27m-win32", "cp39-cp39-linux_x86_64"):
            world.repository.add_wheel(f"tool-1-{tags}.whl")
        for minor in (7, 8, 10):
            world.repository.add_wheel(f"tool-1-cp3{minor}-cp3{minor}-macosx_11_0_arm64.whl")
        with pytest.raises(NoCompatibleWheel) as excinfo:
            world.resolve("tool")
        _, first, second, others = (excinfo.value.note or "").splitlines()
        assert "built for cp39, this is cp311" in first
        assert "cp310 on macOS" in second
        assert others.strip() == "and others for other Pythons or platforms"

    def test_another_python(self, world: ResolutionSetup) -> None:
        """F-94: a wheel for another Python is out before anything is fetched."""
        world.repository.add_wheel("tool-2-py3-none-any.whl", requires_python=">=3.13")
        world.repository.add_wheel("tool-1-py3-none-any.whl")
        assert world.pins("tool") == {"tool": "1"}
        assert "metadata tool-2-py3-none-any.whl" not in world.repository.requests

    def test_another_python_in_its_metadata(self, world: ResolutionSetup) -> None:
        """F-94: what only the metadata says counts as well."""
        world.repository.add_wheel("tool-2-py3-none-any.whl", metadata_requires_python=">=3.13")
        world.repository.add_wheel("tool-1-py3-none-any.whl")
        assert world.pins("tool") == {"tool": "1"}
        with pytest.raises(NoCompatibleWheel) as excinfo:
            world.resolve("tool>=2")
        assert "needs Python >=3.13, this is 3.11.7" in (excinfo.value.note or "")

    def test_unsound_metadata(self, world: ResolutionSetup) -> None:
        """A release whose metadata cannot be read is passed over."""
        world.repository.add_wheel("tool-2-py3-none-any.whl", requires=["== nonsense"])
        world.repository.add_wheel("tool-1-py3-none-any.whl")
        assert world.pins("tool") == {"tool": "1"}


def test_what_the_source_says_of_a_project(world: ResolutionSetup) -> None:
    """PEP 792: that a project is archived is told of what is to be installed."""
    world.repository.add_project("tool", notes=["the project is archived"])
    world.add("tool 1", requires=["numbers"])
    assert world.resolve("tool").notes == ("tool: the project is archived",)


class TestWhatIsAsked:
    """Errors about the request itself."""

    def test_an_unknown_project(self, world: ResolutionSetup) -> None:
        """A project that nobody knows has its own error."""
        with pytest.raises(ProjectNotFound, match="nope"):
            world.resolve("nope")

    def test_an_unknown_project_further_down(self, world: ResolutionSetup) -> None:
        """One that only another project needs is part of the proof."""
        world.add("app 1", requires=["nope"])
        with pytest.raises(NoSolution) as excinfo:
            world.resolve("app")
        assert "nope was not found in any index" in (excinfo.value.note or "")

    def test_an_unknown_version(self, world: ResolutionSetup) -> None:
        """A version that does not exist is told with those that do."""
        message = r"no version of torch matches torch>=3 \(latest: 2\.8\)"
        with pytest.raises(NoSolution, match=message):
            world.resolve("torch>=3")

    def test_only_files_that_are_no_wheels(self, world: ResolutionSetup) -> None:
        """F-13: where every name breaks a rule, the rule is told and not that nothing is there."""
        world.repository.add_wheel("odd-1-py3-none-any-CUDA.whl")
        with pytest.raises(NoSolution, match="'CUDA' is not a valid label"):
            world.resolve("odd")

    def test_a_project_that_is_quarantined(self) -> None:
        """PEP 792: that is why nothing of it is there, and is told so."""
        status = Status("quarantined", "malware")
        page = ProjectPage(canonicalize_name("odd"), (), "index", status=status)
        assert sort_page(page, linux_target()).newest == "the project is quarantined: malware"

    def test_an_unknown_label(self, world: ResolutionSetup) -> None:
        """F-91: a label that does not exist is told with those that do."""
        world.policy = ChoicePolicy(preferences=Preferences(labels={"torch": Label("cu7")}))
        with raises_code("unknown-label") as excinfo:
            world.resolve("torch")
        assert excinfo.value.note == "its labels are cu128, cu129, null"

    def test_a_label_that_is_unsupported(self, world: ResolutionSetup) -> None:
        """F-91: asking for a label does not make it fit."""
        world.policy = ChoicePolicy(preferences=Preferences(labels={"torch": Label("cu129")}))
        with pytest.raises(NoCompatibleWheel) as excinfo:
            world.resolve("torch")
        assert "cu129: needs CUDA driver >= 12.9" in (excinfo.value.note or "")

    def test_a_marker_that_does_not_match(self, world: ResolutionSetup) -> None:
        """F-109: markers of the request are about the target alone."""
        resolution = world.resolve('tool; sys_platform == "win32"', "numbers")
        assert [pin.name for pin in resolution.pins] == ["numbers"]
        assert "its marker does not match" in resolution.details[0]
        assert resolution.notes == ()  # nothing is wrong with it

    @pytest.mark.parametrize("text", ["numbers[x]", "numbers @ https://host.invalid/n-1.zip"])
    def test_a_constraint_that_is_none(self, world: ResolutionSetup, text: str) -> None:
        """A constraint is a name with versions, or with the URL of a wheel."""
        with pytest.raises(UserError, match="cannot be a constraint"):
            world.resolve("torch", constraints=[text])

    def test_extras(self, world: ResolutionSetup) -> None:
        """Extras bring what they need; one that does not exist is only noted."""
        world.add("lib 1", requires=['cpu-tools; extra == "x"'], extras=["x"])
        assert world.pins("lib[x]") == {"lib": "1", "cpu-tools": "1"}
        resolution = world.resolve("lib[y]")
        assert resolution.notes == ("lib 1 has no extra named y",)
        assert resolution.pins[0].extras == {"y"}

    def test_notes_concern_the_result(self, world: ResolutionSetup) -> None:
        """What was noticed of a release that is not taken in the end is not told."""
        world.add("lib 2", requires=["absent"])
        world.add("lib 1", extras=["x"])
        resolution = world.resolve("lib[x]")
        assert [str(pin) for pin in resolution.pins] == ["lib 1"]
        assert resolution.notes == ()

    def test_a_required_property(self, world: ResolutionSetup) -> None:
        """F-91: what is required of one project is not required of those without variants."""
        world.policy = ChoicePolicy(preferences=Preferences(require=("nvidia",)))
        assert world.pins("torch")["torch"] == "2.8:cu128"
        world.machine = FixedDetector()
        with pytest.raises(NoCompatibleWheel):
            world.resolve("torch")

    def test_a_required_property_has_no_way_round(self, world: ResolutionSetup) -> None:
        """F-91: an older release without variants is no answer where a newer one has the wish."""
        world.add("torch 2.7")
        world.policy = ChoicePolicy(preferences=Preferences(require=("nvidia",)))
        assert world.pins("torch")["torch"] == "2.8:cu128"
        world.machine = FixedDetector()
        with pytest.raises(NoCompatibleWheel) as excinfo:
            world.resolve("torch")
        note = str(excinfo.value.note)
        assert "cu128: needs nvidia :: cuda_version_lower_bound :: 12.8" in note
        assert "torch 2.7:\n  plain wheel: nvidia is required" in note

    def test_no_dependencies(self, world: ResolutionSetup) -> None:
        """``--no-deps`` leaves dependencies alone."""
        assert world.pins("torch", dependencies=False) == {"torch": "2.8:cu128"}

    def test_hashes(self, world: ResolutionSetup) -> None:
        """F-94: a list of hashes decides before variants do."""
        world.repository.add_wheel("tool-2-py3-none-any.whl", hashes={"sha256": "22"})
        world.repository.add_wheel("tool-1-py3-none-any.whl", hashes={"sha256": "11"})
        name = canonicalize_name("tool")
        world.policy = ChoicePolicy(hashes={name: frozenset([("sha256", "11")])})
        assert world.pins("tool") == {"tool": "1"}

    @pytest.mark.parametrize("others", [(), ("numbers",)])
    def test_hashes_of_other_files(self, others: tuple[str, ...], world: ResolutionSetup) -> None:
        """F-94: wheels that fit but for their hashes are no lack; all digests are named."""
        for version, digest in (("1", "11"), ("2", "22")):
            world.repository.add_wheel(
                f"tool-{version}-py3-none-any.whl", hashes={"sha256": digest}
            )
        name = canonicalize_name("tool")
        allowed = frozenset([("sha256", "33"), ("sha256", "44")])
        world.policy = ChoicePolicy(hashes={name: allowed})
        with pytest.raises(HashMismatch) as excinfo:
            world.resolve("tool", *others)
        assert excinfo.value.exit_code == 4
        note = excinfo.value.note or ""
        assert "expected 33 or 44" in note
        assert "22 (tool-2-py3-none-any.whl)" in note
        assert "11 (tool-1-py3-none-any.whl)" in note
        with pytest.raises(HashMismatch) as excinfo:
            world.resolve("tool==1", *others)
        assert "22" not in (excinfo.value.note or "")

    def test_an_allowed_wheel_that_does_not_fit(self, world: ResolutionSetup) -> None:
        """Where an allowed wheel has another fault, that fault is the reason."""
        world.repository.add_wheel("tool-1-py3-none-any.whl", hashes={"sha256": "11"})
        world.repository.add_wheel(
            "tool-1-2-py3-none-any.whl", hashes={"sha256": "22"}, metadata_requires_python=">=4"
        )
        allowed = frozenset([("sha256", "22")])
        world.policy = ChoicePolicy(hashes={canonicalize_name("tool"): allowed})
        with pytest.raises(NoCompatibleWheel, match="tool 1"):
            world.resolve("tool")

    def test_hashes_for_all(self, world: ResolutionSetup) -> None:
        """Where hashes are required, every project has some."""
        world.add("tool 1", requires=["numbers"])
        hashes = {canonicalize_name("tool"): frozenset([("sha256", "11")])}
        world.policy = ChoicePolicy(hashes=hashes)
        with pytest.raises(UserError, match="numbers has none"):
            resolve(
                ResolutionRequest(requested("numbers"), require_hashes=True), world.candidates()
            )


class TestDirectWheels:
    """F-125: a wheel named by path or URL."""

    URL = "https://fake.invalid/"

    def test_a_plain_one(self, world: ResolutionSetup) -> None:
        """F-125: without a label it is an ordinary wheel; no index is asked about it."""
        world.repository.add_wheel("tool-3-py3-none-any.whl", requires=["numbers"], project="x")
        wheel = direct_wheel(f"{self.URL}tool-3-py3-none-any.whl#sha256=AB")
        resolution = world.resolve(wheels=[wheel])
        assert [str(pin) for pin in resolution.pins] == ["numbers 1", "tool 3"]
        pin = resolution.pins[-1]
        assert (pin.is_direct, pin.requested, pin.file.hashes) == (True, True, {"sha256": "ab"})
        assert pin.file.url == f"{self.URL}tool-3-py3-none-any.whl"
        assert "project tool" not in world.repository.requests

    def test_a_requirement_with_a_url(self, world: ResolutionSetup) -> None:
        """F-125: the same as a requirement, with extras."""
        world.repository.add_wheel(
            "tool-3-py3-none-any.whl",
            requires=['numbers; extra == "n"'],
            extras=["n"],
            project="x",
        )
        url = f"{self.URL}tool-3-py3-none-any.whl"
        assert world.pins(f"tool[n] @ {url}") == {"numbers": "1", "tool": "3"}

    def test_a_constraint_with_a_url(self, world: ResolutionSetup) -> None:
        """As for pip and uv, it names the wheel of a project if anything requires that."""
        world.add("app 1", requires=["tool"])
        world.repository.add_wheel("tool-3-py3-none-any.whl", project="x")
        constraint = f"tool @ {self.URL}tool-3-py3-none-any.whl"
        resolution = world.resolve("app", constraints=[constraint])
        assert [str(pin) for pin in resolution.pins] == ["tool 3", "app 1"]
        pin = resolution.pins[0]
        assert (pin.is_direct, pin.requested) == (True, False)
        assert world.pins("numbers", constraints=[constraint]) == {"numbers": "1"}
        with pytest.raises(NoSolution):
            world.resolve("tool<3", constraints=[constraint])
        alone = world.resolve("app", constraints=[constraint], excluded=["tool"])
        assert [str(pin) for pin in alone.pins] == ["app 1"]

    def test_a_variant(self, world: ResolutionSetup) -> None:
        """F-125: the metadata is read from the wheel, the markers see its properties."""
        document = release_document({"cu128": CUDA["cu128"]}, providers={"nvidia": NVIDIA})
        world.repository.add_wheel(
            "tool-3-py3-none-any-cu128.whl",
            document=document,
            requires=['numbers; "nvidia" in variant_namespaces'],
            project="x",
        )
        wheel = direct_wheel(f"{self.URL}tool-3-py3-none-any-cu128.whl")
        assert world.pins(wheels=[wheel]) == {"numbers": "1", "tool": "3:cu128"}

    def test_a_variant_that_does_not_fit(self, world: ResolutionSetup) -> None:
        """F-125: it stops with the missing properties; nothing else is tried."""
        document = release_document({"cu129": CUDA["cu129"]}, providers={"nvidia": NVIDIA})
        world.repository.add_wheel(
            "torch-2.8-py3-none-any-cu129.whl", document=document, project="x"
        )
        wheel = direct_wheel(f"{self.URL}torch-2.8-py3-none-any-cu129.whl")
        with pytest.raises(NoCompatibleWheel, match="does not fit this machine") as excinfo:
            world.resolve(wheels=[wheel])
        assert "needs CUDA driver >= 12.9" in (excinfo.value.note or "")

    def test_behind_a_server_without_ranges(self, world: ResolutionSetup, tmp_path: Path) -> None:
        """F-125: what the user named is fetched as a whole where there is no other way."""
        document = release_document({"cu128": CUDA["cu128"]}, providers={"nvidia": NVIDIA})
        path = build_wheel(tmp_path, "tool", "3", label="cu128", document=document)
        world.repository.ranges = False
        world.repository.add_wheel(path.name, data=path.read_bytes(), project="x")
        assert world.pins(wheels=[direct_wheel(f"{self.URL}{path.name}")]) == {"tool": "3:cu128"}

    def test_one_that_is_not_sound(self, world: ResolutionSetup) -> None:
        """F-27, F-125: a variant without its document is an error, not a choice that is empty."""
        world.repository.add_wheel("tool-3-py3-none-any-cu128.whl", project="x")
        wheel = direct_wheel(f"{self.URL}tool-3-py3-none-any-cu128.whl")
        with pytest.raises(InvalidWheel, match=r"has no variant\.json"):
            world.resolve(wheels=[wheel])

    def test_other_tags(self, world: ResolutionSetup) -> None:
        """F-125: tags come first."""
        world.repository.add_wheel("tool-3-cp38-cp38-win32.whl", project="x")
        with pytest.raises(NoCompatibleWheel):
            world.resolve(wheels=[direct_wheel(f"{self.URL}tool-3-cp38-cp38-win32.whl")])

    def test_no_wheel(self) -> None:
        """Only wheels can be given."""
        with pytest.raises(UserError, match="is not a wheel file name"):
            direct_wheel("https://fake.invalid/tool-3.tar.gz")

    def test_two_versions(self, world: ResolutionSetup) -> None:
        """Two given versions of one project contradict each other."""
        wheels = [direct_wheel(f"{self.URL}tool-{n}-py3-none-any.whl") for n in (1, 2)]
        with pytest.raises(UserError, match="different versions of tool"):
            world.resolve(wheels=wheels)

    def test_the_wrong_project(self, world: ResolutionSetup) -> None:
        """The wheel behind a URL must belong to the project that is named."""
        with pytest.raises(UserError, match="belongs to tool"):
            world.resolve(f"other @ {self.URL}tool-1-py3-none-any.whl")

    def test_nobody_else_may_name_a_url(self, world: ResolutionSetup) -> None:
        """What a dependency takes from a URL is not taken; the credentials are not told."""
        world.add("app 1", requires=["tool @ https://me:secret@host.invalid/t-1-py3-none-any.whl"])
        with pytest.raises(NoCompatibleWheel) as excinfo:
            world.resolve("app")
        assert "only you may request a URL" in (excinfo.value.note or "")
        assert "secret" not in (excinfo.value.note or "")


class TestInstalled:
    """F-96: what is installed stays if it will do."""

    def test_it_stays(self, world: ResolutionSetup) -> None:
        """F-96: what satisfies is not looked up, and is not a pin."""
        resolution = world.resolve("numbers", installed=[installed_build("numbers 0.5")])
        assert resolution.pins == ()
        assert [str(kept) for kept in resolution.kept] == ["numbers 0.5"]
        assert world.repository.requests == []

    def test_its_needs_count(self, world: ResolutionSetup) -> None:
        """What stays needs what it needs."""
        resolution = world.resolve(
            "app", installed=[installed_build("app 1", requires=["cpu-tools"])]
        )
        assert [str(pin) for pin in resolution.pins] == ["cpu-tools 1"]
        assert Edge(canonicalize_name("app"), canonicalize_name("cpu-tools")) in resolution.edges

    def test_upgrading(self, world: ResolutionSetup) -> None:
        """``--upgrade`` looks up what is asked for, not what that needs."""
        installed = [installed_build("torch 2.7"), installed_build("numbers 0.5")]
        resolution = world.resolve("torch", installed=installed, upgrade=True)
        assert {str(pin) for pin in resolution.pins} == {"torch 2.8 (cu128)", "cuda-runtime 1"}
        assert [str(kept) for kept in resolution.kept] == ["numbers 0.5"]

    @pytest.mark.parametrize(
        ("there", "words", "pins"),
        [
            ("numbers 9.0", ["numbers"], {}),
            ("numbers 9.0", ["numbers>=1"], {}),
            ("numbers 9.0rc1", ["numbers"], {}),
            ("numbers 9.0.dev3", ["numbers"], {}),
            ("numbers 1.0+local", ["numbers"], {}),
            ("numbers 9.0", ["numbers<9"], {"numbers": "1"}),
            ("numbers 9.0", ["numbers==0.5"], {"numbers": "0.5"}),
            ("numbers 9.0", ["numbers", "old-numbers"], {"numbers": "0.5", "old-numbers": "1"}),
            ("numbers 0.5", ["numbers"], {"numbers": "1"}),
        ],
    )
    def test_an_upgrade_never_goes_back(
        self, there: str, words: list[str], pins: dict[str, str]
    ) -> None:
        """What is older than what is there is taken only where what is asked for demands it."""
        world = numbers_on_offer()
        assert world.pins(*words, installed=[installed_build(there)], upgrade=True) == pins
        resolution = world.resolve(*words, installed=[installed_build(there)], upgrade=True)
        assert [str(kept) for kept in resolution.kept] == ([] if pins else [there])
        said = f"{there} is kept: it is newer than numbers 1, the newest available"
        assert any(note.startswith(said) for note in resolution.notes) is (not pins)

    @pytest.mark.parametrize("order", [["numbers", "picky"], ["picky", "numbers"]])
    def test_an_upgrade_goes_back_for_no_other_upgrade(self, order: list[str]) -> None:
        """Of what is named together, one does not get newer at the cost of the other."""
        world = numbers_on_offer()
        installed = [installed_build("numbers 9.0"), installed_build("picky 1")]
        assert world.pins(*order, installed=installed, upgrade=True) == {"picky": "2"}

    @pytest.mark.parametrize(("supported", "stays"), [("12.9", True), ("12.8", False)])
    def test_a_variant_that_fits(
        self, world: ResolutionSetup, supported: str, *, stays: bool
    ) -> None:
        """F-96: an installed variant that no longer fits is exchanged, with the reason."""
        world.machine = driver(supported)
        document = release_document({"cu129": CUDA["cu129"]}, providers={"nvidia": NVIDIA})
        installed = installed_build("torch 2.8", "cu129", document)
        resolution = world.resolve("torch", installed=[installed])
        assert bool(resolution.kept) is stays
        assert any("needs CUDA driver >= 12.9" in note for note in resolution.notes) is not stays

    def test_the_markers_of_a_variant(self, world: ResolutionSetup) -> None:
        """F-103: markers of what stays see the supported properties, as on installation."""
        variants = {"cu": {"nvidia": {"cuda_version_lower_bound": ["12.8", "13.0"]}}}
        document = release_document(variants, providers={"nvidia": NVIDIA})
        marker = '"nvidia :: cuda_version_lower_bound :: {}" in variant_properties'
        needs = [f"numbers; {marker.format('12.8')}", f"cpu-tools; {marker.format('13.0')}"]
        installed = installed_build("app 1", "cu", document, needs)
        assert world.pins("app", installed=[installed]) == {"numbers": "1"}

    def test_another_label_is_asked_for(self, world: ResolutionSetup) -> None:
        """F-96: asking for a label exchanges an installed variant."""
        world.policy = ChoicePolicy(preferences=Preferences(labels={"torch": Label("null")}))
        installed = installed_build(
            "torch 2.8",
            "cu128",
            release_document({"cu128": CUDA["cu128"]}, providers={"nvidia": NVIDIA}),
        )
        resolution = world.resolve("torch", installed=[installed])
        assert "torch 2.8 (null)" in [str(pin) for pin in resolution.pins]

    def test_unreadable(self, world: ResolutionSetup) -> None:
        """An installation whose metadata cannot be read is exchanged."""

        def fail() -> CoreMetadata:
            raise WheelfitError("the metadata is missing")

        broken = InstalledBuild(canonicalize_name("numbers"), Version("0.5"), fail)
        resolution = world.resolve("numbers", installed=[broken])
        assert [str(pin) for pin in resolution.pins] == ["numbers 1"]
        assert "the metadata is missing" in resolution.notes[0]


class TestOrder:
    """What others need is installed first."""

    def test_needed_first(self, world: ResolutionSetup) -> None:
        """A pin comes after everything it needs."""
        world.add("a 1", requires=["b", "c"])
        world.add("b 1", requires=["c"])
        world.add("c 1")
        assert [pin.name for pin in world.resolve("a").pins] == ["c", "b", "a"]

    def test_circles(self, world: ResolutionSetup) -> None:
        """A circle of needs has an order too, always the same."""
        world.add("a 1", requires=["b"])
        world.add("b 1", requires=["a", "c"])
        world.add("c 1")
        assert [pin.name for pin in world.resolve("a").pins] == ["c", "b", "a"]


class TestAskingAgain:
    """F-93: a wheel that turns out wrong is rejected and the next one is taken."""

    def test_the_next_candidate(self, world: ResolutionSetup) -> None:
        """F-93: after a rejection the next best wheel of the release is taken."""
        candidates = world.candidates()
        first = world.resolve("torch", candidates=candidates).pins[-1]
        world.repository.requests.clear()
        candidates.reject(first.filename, "the wheel is not what was promised")
        second = world.resolve("torch", candidates=candidates).pins[-1]
        assert (first.label, second.label) == ("cu128", "null")
        assert world.repository.requests == [
            "metadata torch-2.8-py3-none-any-null.whl",
            "project cpu-tools",
            "metadata cpu_tools-1-py3-none-any.whl",
        ]


@pytest.mark.parametrize("threads", [1, 8])
def test_asking_ahead_changes_nothing(threads: int) -> None:
    """Questions that travel at the same time have the answers they would have had."""
    world = ResolutionSetup()
    for index in range(40):
        for version in (1, 2, 3):
            needs = [f"p{other}>={version - 1}" for other in range(index + 1, min(index + 4, 40))]
            world.add(f"p{index} {version}", requires=needs)
    expected = world.resolve("p0")
    found = world.resolve("p0", threads=threads)
    assert [str(pin) for pin in found.pins] == [str(pin) for pin in expected.pins]
    assert found.edges == expected.edges
