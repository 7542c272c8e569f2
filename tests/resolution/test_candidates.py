"""Which wheel of a release fits."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.labels import parse_label
from wheelfit.core.properties import EMPTY
from wheelfit.errors import BadMetadata
from wheelfit.resolution.candidates import Candidates, ChoicePolicy
from wheelfit.resolution.choice_context import ChoiceContext
from wheelfit.resolution.listing import NO_SOURCES
from wheelfit.resolution.release_choice import ReleaseChoice
from wheelfit.resolution.release_metadata import MetadataPolicy
from wheelfit.sources.page import ProjectPage
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.resolution_setup import ResolutionSetup, linux_target
from wheelfit.testing.wheels import release_document
from wheelfit_runtime.errors import (
    HashMismatch,
    IntegrityError,
    InvalidWheel,
    UnexpectedStatus,
    Unreachable,
    WheelfitError,
)

VARIANTS: dict[str, dict[str, dict[str, list[str]]]] = {
    "null": {},
    "mkl": {"blas": {"library": ["mkl"]}},
    "openblas": {"blas": {"library": ["openblas"]}},
    "atlas": {"blas": {"library": ["atlas"]}},
}
BLAS = release_document(VARIANTS, static={"blas": {"library": ["openblas", "mkl"]}})
INDEX_FILE = "num-1-variants.json"


def wheel(label: str, tag: str = "py3-none-any") -> str:
    """Return the file name of a variant of num 1."""
    return f"num-1-{tag}-{label}.whl"


@pytest.fixture
def world() -> ResolutionSetup:
    """Return a world with num 1 in three variants, one that does not fit, and plain."""
    world = ResolutionSetup()
    for label in ("null", "mkl", "openblas", "atlas"):
        world.repository.add_wheel(wheel(label), document=BLAS)
    world.repository.add_wheel("num-1-py3-none-any.whl")
    return world


def choose(world: ResolutionSetup, version: str = "1") -> ReleaseChoice:
    """Return the choice among the wheels of num."""
    return world.candidates().choice(canonicalize_name("num"), Version(version))


def outcome(choice: ReleaseChoice) -> list[tuple[str, str]]:
    """Return label and verdict of every wheel, best first."""
    return [
        (str(verdict.filename.label or "plain"), verdict.verdict)
        for verdict in choice.selection.verdicts
    ]


def reason(choice: ReleaseChoice, label: str | None) -> str:
    """Return why the wheel of a label is where it is."""
    return next(v.reason for v in choice.selection.verdicts if v.filename.label == label)


class TestWithIndexFile:
    """F-70: the index file says what the labels are."""

    def test_everything_in_order(self, world: ResolutionSetup) -> None:
        """F-75, F-90: best variant first, then the others, the plain wheel, and what does not fit.

        Where the index file is there, it is read and no wheel.
        """
        world.repository.add_file(INDEX_FILE, BLAS)
        assert outcome(choose(world)) == [
            ("openblas", "chosen"),
            ("mkl", "compatible"),
            ("null", "compatible"),
            ("plain", "compatible"),
            ("atlas", "rejected"),
        ]
        assert world.repository.requests == ["project num", f"read {INDEX_FILE}"]

    def test_is_not_read_for_plain_wheels(self) -> None:
        """F-90, step 2: without a variant wheel nothing is read and nobody is asked."""
        world = ResolutionSetup()
        world.repository.add_file(INDEX_FILE, BLAS)
        world.repository.add_wheel("num-1-py3-none-any.whl")
        world.repository.add_wheel(wheel("mkl", "cp39-cp39-win32"))
        choice = choose(world)
        assert outcome(choice) == [("plain", "chosen"), ("mkl", "rejected")]
        assert world.repository.requests == ["project num"]
        assert choice.support is None

    def test_is_not_read_when_variants_are_off(self, world: ResolutionSetup) -> None:
        """F-91: without variants their metadata is not read."""
        from wheelfit.core.ordering import Preferences

        world.repository.add_file(INDEX_FILE, BLAS)
        world.policy = ChoicePolicy(preferences=Preferences(variants=False))
        assert outcome(choose(world))[0] == ("plain", "chosen")
        assert world.repository.requests == ["project num"]

    @pytest.mark.parametrize(
        "failure",
        [
            UnexpectedStatus("the server answered 404", status=404),
            HashMismatch(algorithm="sha256", expected=["0"], actual="1", where="x"),
            IntegrityError("the file has another size than promised"),
            Unreachable("no route to the host"),
        ],
    )
    def test_that_cannot_be_read(self, world: ResolutionSetup, failure: WheelfitError) -> None:
        """F-79: the variant wheels are out, the plain one stays, one note says so."""
        world.repository.break_file(world.repository.add_file(INDEX_FILE, BLAS), failure)
        choice = choose(world)
        assert outcome(choice)[0] == ("plain", "chosen")
        (note,) = choice.notes
        assert note.startswith(f"num 1: {INDEX_FILE} cannot be used: ")
        assert note.endswith("; its variant wheels are ignored")
        world.policy = ChoicePolicy(metadata=MetadataPolicy(strict=True))
        with pytest.raises(BadMetadata) as excinfo:
            choose(world)
        (lost,) = excinfo.value.details
        assert lost["scope"] == "release"
        assert lost["code"] == failure.reference
        assert lost["where"] == INDEX_FILE

    def test_that_is_broken(self, world: ResolutionSetup) -> None:
        """F-130, F-136: a syntax error takes the variants out, with one note."""
        world.repository.add_file(INDEX_FILE, b"{")
        choice = choose(world)
        assert outcome(choice)[0] == ("plain", "chosen")
        assert len(choice.notes) == 1
        world.policy = ChoicePolicy(metadata=MetadataPolicy(strict=True))
        with pytest.raises(BadMetadata):
            choose(world)

    def test_with_a_broken_label(self, world: ResolutionSetup) -> None:
        """F-130: one broken label is out, the others are not."""
        variants = {**VARIANTS, "openblas": {"blas": {"library": []}}}
        world.repository.add_file(INDEX_FILE, {**BLAS, "variants": variants})
        choice = choose(world)
        assert outcome(choice)[0] == ("mkl", "chosen")
        assert "is not valid" in reason(choice, "openblas")
        world.policy = ChoicePolicy(metadata=MetadataPolicy(strict=True))
        with pytest.raises(BadMetadata, match="at least one value is needed"):
            choose(world)

    @pytest.mark.parametrize(
        "change",
        [
            {"providers": {"blas": {"static-properties": {"library": ["mkl"]}, "odd": 1}}},
            {"providers": {}},
            {"default-priorities": {"namespace": []}},
        ],
    )
    def test_strictly(self, world: ResolutionSetup, change: dict[str, object]) -> None:
        """F-130: with ``--strict`` a part that cannot be used is an error, any part."""
        world.repository.add_file(INDEX_FILE, {**BLAS, **change})
        assert choose(world).notes
        world.policy = ChoicePolicy(metadata=MetadataPolicy(strict=True))
        with pytest.raises(BadMetadata):
            choose(world)

    def test_without_a_label(self, world: ResolutionSetup) -> None:
        """F-76: a remote wheel whose label is not listed is ignored, with a note."""
        variants = {"mkl": VARIANTS["mkl"]}
        world.repository.add_file(INDEX_FILE, {**BLAS, "variants": variants})
        choice = choose(world)
        assert outcome(choice)[:2] == [("mkl", "chosen"), ("null", "compatible")]
        assert reason(choice, "openblas") == f"not in {INDEX_FILE}"
        assert choice.notes == (f"num 1: atlas, openblas: ignored, not in {INDEX_FILE}",)

    @pytest.mark.parametrize("local", [False, True])
    def test_without_a_label_that_is_looked_up(self, *, local: bool) -> None:
        """F-76: a local folder, or an option, has the wheel looked into."""
        world = ResolutionSetup(
            repository=FakeRepository(base="file:///w/" if local else "https://w/")
        )
        world.policy = ChoicePolicy(metadata=MetadataPolicy(read_unlisted=not local))
        variants = VARIANTS
        for label in ("mkl", "openblas"):
            own = {**BLAS, "variants": {label: variants[label]}}
            world.repository.add_wheel(wheel(label), document=own)
        world.repository.add_file(INDEX_FILE, {**BLAS, "variants": {"mkl": variants["mkl"]}})
        assert outcome(choose(world))[0] == ("openblas", "chosen")
        assert f"document {wheel('openblas')}" in world.repository.requests
        assert f"document {wheel('mkl')}" not in world.repository.requests

    def test_without_a_label_that_contradicts(self) -> None:
        """F-76: a wheel that was looked into and contradicts the file is out, and no other."""
        world = ResolutionSetup(repository=FakeRepository(base="file:///w/"))
        for label in ("mkl", "openblas", "null"):
            own = {**BLAS, "variants": {label: VARIANTS[label]}}
            if label == "openblas":
                own["providers"] = {"blas": {"static-properties": {"library": ["openblas"]}}}
            world.repository.add_wheel(wheel(label), document=own)
        world.repository.add_file(INDEX_FILE, {**BLAS, "variants": {"mkl": VARIANTS["mkl"]}})
        choice = choose(world)
        assert outcome(choice) == [
            ("mkl", "chosen"),
            ("null", "compatible"),
            ("openblas", "rejected"),
        ]
        why = f"its own metadata contradicts {INDEX_FILE}"
        assert reason(choice, "openblas") == why
        assert choice.notes == (f"num 1: openblas: ignored, {why}",)

    def test_two_of_them(self, world: ResolutionSetup) -> None:
        """F-78: of two files the one spelled like the wheels counts, else none."""
        world.repository.add_file("num-1.0-variants.json", b"{", project="num")
        world.repository.add_file(INDEX_FILE, BLAS)
        assert outcome(choose(world))[0] == ("openblas", "chosen")
        odd = ResolutionSetup()
        odd.repository.add_wheel(wheel("mkl"), document=BLAS)
        odd.repository.add_wheel("num-1-py3-none-any.whl")
        odd.repository.add_file("num-1.0-variants.json", BLAS)
        odd.repository.add_file("num-1.0.0-variants.json", BLAS)
        choice = choose(odd)
        assert outcome(choice)[0] == ("plain", "chosen")
        assert "num-1.0.0-variants.json exist, and none" in choice.notes[0]
        odd.policy = ChoicePolicy(metadata=MetadataPolicy(strict=True))
        with pytest.raises(BadMetadata):
            choose(odd)

    def test_of_an_odd_name(self, world: ResolutionSetup) -> None:
        """F-78: versions are compared by value; the odd name is noted."""
        world.repository.add_file("num-1.0-variants.json", BLAS)
        choice = choose(world)
        assert outcome(choice)[0] == ("openblas", "chosen")
        assert choice.notes == ()
        note = f"num 1: num-1.0-variants.json should be named {INDEX_FILE}"
        assert choice.metadata.notes == (note,)


class TestWithoutIndexFile:
    """F-77: the wheels say what their labels are."""

    def single(self, label: str) -> dict[str, object]:
        """Return the document inside the wheel of one label."""
        return {**BLAS, "variants": {label: VARIANTS[label]}}

    def world(self, *labels: str) -> ResolutionSetup:
        """Return a world with some variants, two wheels of each label, and plain."""
        world = ResolutionSetup()
        for label in labels:
            for tag in ("cp311-cp311-linux_x86_64", "py3-none-any"):
                world.repository.add_wheel(wheel(label, tag), document=self.single(label))
        world.repository.add_wheel("num-1-py3-none-any.whl")
        return world

    def test_one_wheel_per_label_is_read(self) -> None:
        """F-77: one wheel of each label, the one with the best tags."""
        world = self.world("mkl", "openblas")
        assert outcome(choose(world))[0] == ("openblas", "chosen")
        best = "cp311-cp311-linux_x86_64"
        assert world.repository.requests == [
            "project num",
            f"document {wheel('mkl', best)}",
            f"document {wheel('openblas', best)}",
        ]

    def test_too_many_labels(self) -> None:
        """F-77: from more than 16 labels of a server nothing is read."""
        world = ResolutionSetup()
        for number in range(17):
            world.repository.add_wheel(wheel(f"l{number}"))
        world.repository.add_wheel("num-1-py3-none-any.whl")
        choice = choose(world)
        assert outcome(choice)[0] == ("plain", "chosen")
        assert "17 labels are too many" in choice.notes[0]
        world.policy = ChoicePolicy(metadata=MetadataPolicy(strict=True))
        with pytest.raises(BadMetadata):
            choose(world)

    def test_many_labels_in_a_folder(self) -> None:
        """F-77: in a folder of this machine every label is read, however many there are."""
        world = ResolutionSetup(repository=FakeRepository(base="file:///w/"))
        for number in range(20):
            own = {**BLAS, "variants": {f"l{number:02}": VARIANTS["mkl"]}}
            world.repository.add_wheel(wheel(f"l{number:02}"), document=own)
        choice = choose(world)
        assert outcome(choice)[0] == ("l00", "chosen")
        assert choice.notes == ()
        assert sum(each.startswith("document ") for each in world.repository.requests) == 20

    def test_too_costly(self) -> None:
        """F-77: a server without byte ranges costs too much."""
        world = self.world("mkl")
        world.repository.ranges = False
        choice = choose(world)
        assert outcome(choice)[0] == ("plain", "chosen")
        assert "without fetching the whole wheel" in choice.notes[0]

    def test_a_wheel_without_document(self) -> None:
        """F-27: a variant wheel without its document is invalid, the others are not."""
        world = self.world("mkl")
        world.repository.add_wheel(wheel("openblas"))
        choice = choose(world)
        assert outcome(choice)[0] == ("mkl", "chosen")
        assert reason(choice, "openblas") == "the wheel has no variant.json"
        assert choice.notes == ("num 1: openblas: ignored, the wheel has no variant.json",)
        world.policy = ChoicePolicy(metadata=MetadataPolicy(strict=True))
        with pytest.raises(BadMetadata):
            choose(world)

    def test_a_wheel_of_another_label(self) -> None:
        """F-24: a wheel must describe its own label."""
        world = self.world("mkl")
        world.repository.add_wheel(wheel("openblas"), document=self.single("atlas"))
        choice = choose(world)
        assert reason(choice, "openblas") == "the wheel of openblas describes atlas"
        assert choice.notes == ("num 1: openblas: ignored, the wheel of openblas describes atlas",)

    def test_unsound_wheels(self) -> None:
        """F-130: a wheel that cannot be opened takes its label out only."""
        world = self.world("mkl")
        file = world.repository.add_wheel(wheel("openblas"))
        world.repository.break_file(file, InvalidWheel("it is cut off"))
        choice = choose(world)
        assert outcome(choice)[0] == ("mkl", "chosen")
        assert "it is cut off" in reason(choice, "openblas")

    def test_contradicting_wheels(self) -> None:
        """F-60, F-130: wheels that contradict each other are all out."""
        world = self.world("mkl")
        other = {**self.single("openblas"), "default-priorities": {"namespace": ["other"]}}
        other["providers"] = {"other": {"static-properties": {"library": ["openblas"]}}}
        other["variants"] = {"openblas": {"other": {"library": ["openblas"]}}}
        world.repository.add_wheel(wheel("openblas"), document=other)
        choice = choose(world)
        assert outcome(choice)[0] == ("plain", "chosen")
        assert "contradict each other" in choice.notes[0]

    def test_a_wheel_that_is_not_there(self) -> None:
        """F-79, F-130: a listed wheel that answers 404 takes its label out only."""
        world = self.world("mkl")
        world.repository.break_file(world.repository.add_wheel(wheel("openblas")))
        choice = choose(world)
        assert outcome(choice)[0] == ("mkl", "chosen")
        assert choice.notes == ("num 1: openblas: ignored, the server answered 404",)

    def test_only_the_null_variant(self) -> None:
        """F-26, F-27: the null variant needs no entry, but its wheel needs a document."""
        world = ResolutionSetup()
        world.repository.add_wheel(wheel("null"), document={**BLAS, "variants": {}})
        choice = choose(world)
        assert outcome(choice) == [("null", "chosen")]
        assert choice.context().label == "null"
        assert choice.properties == EMPTY
        world = ResolutionSetup()
        world.repository.add_wheel(wheel("null"))
        assert outcome(choose(world)) == [("null", "rejected")]


class TestConfirmation:
    """F-93: the wheel is held against what it was chosen by."""

    def confirm(self, world: ResolutionSetup, data: object) -> str | None:
        """Choose among the wheels, and confirm with what is inside the wheel."""
        candidates = world.candidates()
        choice = candidates.choice(canonicalize_name("num"), Version("1"))
        return candidates.metadata_disagreement(
            choice, None if data is None else json.dumps(data).encode()
        )

    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            ({**BLAS, "variants": {"openblas": VARIANTS["openblas"]}}, None),
            (BLAS, "the wheel of openblas describes atlas, mkl, null"),
            (
                {**BLAS, "variants": {"openblas": VARIANTS["mkl"]}},
                (
                    "the properties of openblas differ: only the wheel has blas :: library :: mkl; "
                    "only the index has blas :: library :: openblas"
                ),
            ),
            (
                {},
                (
                    "variant.json of the wheel cannot be used: "
                    "default-priorities: the key is missing (F-20)"
                ),
            ),
            (None, "the wheel has no variant.json"),
        ],
    )
    def test_words(self, world: ResolutionSetup, data: object, expected: str | None) -> None:
        """A-72: another label, other properties, no document: the wheel is rejected, and why."""
        world.repository.add_file(INDEX_FILE, BLAS)
        assert self.confirm(world, data) == expected
        world.policy = ChoicePolicy(metadata=MetadataPolicy(strict=True))
        if expected is None:
            assert self.confirm(world, data) is None
        else:
            with pytest.raises(BadMetadata):
                self.confirm(world, data)

    def test_a_plain_wheel(self) -> None:
        """F-10: nothing inside a plain wheel matters."""
        world = ResolutionSetup()
        world.repository.add_wheel("num-1-py3-none-any.whl")
        assert self.confirm(world, {}) is None


class TestListing:
    """F-94: what the listing entry says counts first."""

    def test_yanked_files_of_a_release(self, world: ResolutionSetup) -> None:
        """PEP 592: of a release that is not yanked as a whole yanked files are out."""
        world.repository.add_file(INDEX_FILE, BLAS)
        world.repository.add_wheel(
            wheel("openblas", "cp311-cp311-linux_x86_64"), yanked="wrong flags"
        )
        choice = choose(world)
        assert choice.selection.chosen is not None
        assert choice.selection.chosen.text == wheel("openblas")
        reasons = {v.filename.text: v.reason for v in choice.selection.verdicts}
        assert reasons[wheel("openblas", "cp311-cp311-linux_x86_64")] == "yanked: wrong flags"

    def test_a_yanked_release(self) -> None:
        """PEP 592: a release whose wheels are all yanked is judged like any other."""
        world = ResolutionSetup()
        world.repository.add_wheel("num-1-py3-none-any.whl", yanked="")
        assert outcome(choose(world)) == [("plain", "chosen")]
        release = choose(world).release
        assert release.is_yanked

    def test_requires_python(self) -> None:
        """F-94: a wheel for another Python is out; a text that is no specifier limits nothing."""
        world = ResolutionSetup(target=linux_target("3.12.1"))
        world.repository.add_wheel("num-1-cp312-cp312-linux_x86_64.whl", requires_python=">=3.13")
        world.repository.add_wheel("num-1-py3-none-any.whl", requires_python="three")
        choice = choose(world)
        assert choice.selection.chosen is not None
        assert choice.selection.chosen.text == "num-1-py3-none-any.whl"
        assert choice.selection.verdicts[1].reason == "needs Python >=3.13, this is 3.12.1"

    def test_what_is_no_wheel(self) -> None:
        """Source distributions are listed with the reason; strange names are noted."""
        world = ResolutionSetup()
        world.repository.add_wheel("num-1-py3-none-any.whl")
        world.repository.add_wheel("num-1-3py-none-any.whl")
        world.repository.add_wheel("other-1-py3-none-any.whl", project="num")
        world.repository.add_file("num-1.tar.gz")
        listing = world.candidates().listing(canonicalize_name("num"))
        assert listing is not None
        release = listing.releases[Version("1")]
        assert [one.filename.text for one in release.wheels] == ["num-1-py3-none-any.whl"]
        assert release.ignored_sources == (("num-1.tar.gz", NO_SOURCES),)
        assert "3py" in listing.ignored[0]
        assert listing.ignored[1] == "other-1-py3-none-any.whl belongs to other"

    def test_hashes_that_nobody_promised(self) -> None:
        """F-94: where the index promises nothing, the one allowed digest is the promise."""
        world = ResolutionSetup()
        name = canonicalize_name("num")
        file = world.repository.add_wheel("num-1-py3-none-any.whl", hashes={"md5": "0"})
        world.policy = ChoicePolicy(hashes={name: frozenset([("sha256", "aa")])})
        chosen = choose(world).chosen
        assert chosen is not None
        assert chosen.file.hashes == {"md5": "0", "sha256": "aa"}
        assert chosen.file.url == file.url
        world.policy = ChoicePolicy(hashes={name: frozenset([("sha256", "aa"), ("sha256", "bb")])})
        assert choose(world).chosen is None

    def test_other_metadata_than_the_name_says(self) -> None:
        """A wheel whose metadata is that of another release is out."""
        world = ResolutionSetup()
        world.repository.add_wheel(
            "num-1-py3-none-any.whl", metadata=b"Metadata-Version: 2.1\nName: num\nVersion: 2\n\n"
        )
        choice = world.candidates().usable_choice(canonicalize_name("num"), Version("1"))
        assert outcome(choice) == [("plain", "rejected")]
        assert reason(choice, None) == "its metadata is that of num 2"


class TestContexts:
    """Verdicts belong to one context; what was read belongs to all."""

    NAME, VERSION = canonicalize_name("num"), Version("1")

    @pytest.fixture
    def candidates(self, world: ResolutionSetup) -> Candidates:
        """Return candidates for a release that was looked at."""
        world.repository.add_file(INDEX_FILE, BLAS)
        candidates = world.candidates()
        assert outcome(candidates.usable_choice(self.NAME, self.VERSION))[0] == (
            "openblas",
            "chosen",
        )
        world.repository.requests.clear()
        return candidates

    def best(self, candidates: Candidates) -> str | None:
        """Return the label that is taken."""
        return candidates.usable_choice(self.NAME, self.VERSION).chosen_label

    def test_one_does_not_change_another(
        self, world: ResolutionSetup, candidates: Candidates
    ) -> None:
        """A wheel excluded in one context is chosen in the others, in any order of questions."""
        without = candidates.context.with_excluded({wheel("openblas"): "it is not wanted"})
        narrowed = candidates.within(without)
        assert [self.best(one) for one in (narrowed, candidates, narrowed)] == [
            "mkl",
            "openblas",
            "mkl",
        ]
        assert reason(narrowed.choice(self.NAME, self.VERSION), "openblas") == "it is not wanted"
        assert world.repository.requests == [f"metadata {wheel('mkl')}"]

    def test_an_equal_context(self, candidates: Candidates) -> None:
        """Candidates in the context they are in are the same, with every verdict."""
        assert candidates.within(ChoiceContext()) is candidates

    def test_a_preferred_build(self, candidates: Candidates) -> None:
        """The build that is preferred goes before better ones, in that context alone."""
        preferred = {self.NAME: (parse_label("mkl"), EMPTY)}
        derived = candidates.within(replace(candidates.context, preferred_builds=preferred))
        assert (self.best(derived), self.best(candidates)) == ("mkl", "openblas")

    def test_a_rejected_wheel(self, candidates: Candidates) -> None:
        """F-93: a wheel that turned out unusable is rejected in contexts before and after."""
        before = candidates.within(candidates.context.with_excluded({wheel("mkl"): "unwanted"}))
        assert self.best(before) == "openblas"
        filename = before.choice(self.NAME, self.VERSION).selection.chosen
        assert filename is not None
        before.reject(filename, "it is broken")
        assert [self.best(one) for one in (before, candidates)] == ["null", "mkl"]
        after = candidates.within(candidates.context.with_excluded({wheel("null"): "unwanted"}))
        assert reason(after.choice(self.NAME, self.VERSION), "openblas") == "it is broken"

    def test_given_files(self, world: ResolutionSetup, candidates: Candidates) -> None:
        """F-125: files that stand for a project in one context leave its listing in others."""
        listing = candidates.listing(self.NAME)
        assert listing is not None
        files = (listing.releases[self.VERSION].wheels[-1].file,)
        page = ProjectPage(self.NAME, files, "the request")
        given = candidates.within(candidates.context.with_direct_files(page))
        assert [self.best(one) for one in (given, candidates)] == [None, "openblas"]
        assert world.repository.requests == ["metadata num-1-py3-none-any.whl"]

    def test_files_that_changed(self, world: ResolutionSetup, candidates: Candidates) -> None:
        """A project whose files are not what they were is read anew in every context."""
        derived = candidates.within(candidates.context.with_excluded({wheel("mkl"): "unwanted"}))
        assert self.best(derived) == "openblas"
        world.repository.add_wheel("num-2-py3-none-any.whl")
        derived.discard_listing(self.NAME)
        for one in (derived, candidates):
            listing = one.listing(self.NAME)
            assert listing is not None
            assert [str(version) for version in listing.releases] == ["2", "1"]


def test_only_namespaces_in_play_are_asked_about(world: ResolutionSetup) -> None:
    """P-22: nobody is asked about a namespace that only wheels with other tags name."""
    document = release_document(
        {"a": {"x86_64": {"level": ["v2"]}}, "b": {"nvidia": {"sm_arch": ["90_real"]}}},
        providers={
            "x86_64": {"requires": ["x86-64-variant-provider<1"]},
            "nvidia": {"requires": ["nvidia-variant-provider<1"]},
        },
    )
    world.repository = FakeRepository()
    world.repository.add_wheel(wheel("a"))
    world.repository.add_wheel(wheel("b", "cp39-cp39-win32"))
    world.repository.add_file(INDEX_FILE, document)
    world.machine = FixedDetector({"x86_64": {"level": ["v2", "v1"]}})
    assert outcome(choose(world))[0] == ("a", "chosen")
    assert world.machine.requests == ["x86_64"]


def test_everything_is_remembered(world: ResolutionSetup) -> None:
    """Asking twice costs nothing; an error is remembered as well."""
    world.repository.add_file(INDEX_FILE, BLAS)
    candidates = world.candidates()
    name = canonicalize_name("num")
    assert candidates.usable_choice(name, Version("1")) is candidates.usable_choice(
        name, Version("1")
    )
    assert len(world.repository.requests) == 3
    with pytest.raises(KeyError):
        candidates.choice(name, Version("7"))
    with pytest.raises(KeyError):
        candidates.choice(canonicalize_name("nothing"), Version("7"))
