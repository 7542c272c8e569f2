from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from wheelfit.core.compatible_tags import tags_for
from wheelfit.core.document import VariantDocument
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.labels import NULL, Label
from wheelfit.core.ordering import Preferences, parse_preference
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.core.property_support import Support
from wheelfit.core.selection import Selection, select
from wheelfit.core.target import TagPreference
from wheelfit.testing.detectors import supported

if TYPE_CHECKING:
    from collections.abc import Mapping

TAGS = TagPreference(
    tags_for(
        "cpython",
        Version("3.13"),
        ["cp313"],
        ["manylinux_2_39_x86_64", "manylinux_2_28_x86_64", "manylinux_2_17_x86_64"],
    )
)
SUPPORT = Support(
    {
        "nvidia": supported("nvidia", {"bound": ["12.8", "12.7", "12.6"], "sm": ["89", "80"]}),
        "x86_64": supported("x86_64", {"level": ["v3", "v2", "v1"]}),
    }
)
NO_PREFERENCES = Preferences()
FASTFFT = canonicalize_name("fastfft")


def variants(**labels: Mapping[str, Mapping[str, list[str]]]) -> VariantDocument:
    """Write a document with labels as keywords."""
    return VariantDocument(
        ("nvidia", "x86_64"),
        variants={Label(label): PropertySet.from_mapping(told) for label, told in labels.items()},
    )


DOCUMENT = variants(
    cu128={"nvidia": {"bound": ["12.8"], "sm": ["80", "90"]}},
    cu128_v3={"nvidia": {"bound": ["12.8"], "sm": ["80"]}, "x86_64": {"level": ["v3"]}},
    cu126={"nvidia": {"bound": ["12.6"], "sm": ["89"]}},
    cu130={"nvidia": {"bound": ["13.0"], "sm": ["89"]}},
    v3={"x86_64": {"level": ["v3"]}},
    avx2={"x86_64": {"level": ["v1", "v3"]}},
    null={},
)


def choose(
    *names: str,
    document: VariantDocument | None = DOCUMENT,
    support: Support | None = SUPPORT,
    preferences: Preferences = NO_PREFERENCES,
    extra_rejections: Mapping[str, str] | None = None,
    installed: Label | None = None,
) -> Selection:
    """Select among wheels of fastfft 2.1, given by what follows the version."""
    return select(
        [parse_wheel_filename(f"fastfft-2.1-{name}.whl") for name in names],
        document=document,
        support=support,
        tags=TAGS,
        preferences=preferences,
        extra_rejections=extra_rejections,
        installed=installed,
    )


def told(selection: Selection) -> list[tuple[str, str, str]]:
    """Return short name, verdict and reason of each wheel."""
    return [
        (str(verdict.filename)[len("fastfft-2.1-") : -len(".whl")], verdict.verdict, verdict.reason)
        for verdict in selection.verdicts
    ]


def reason(selection: Selection, name: str) -> str:
    """Return why something became of one wheel."""
    return next(why for short, _, why in told(selection) if short == name)


def in_order(selection: Selection) -> list[str]:
    """Return the short names of the wheels that fit, best first."""
    return [short for short, verdict, _ in told(selection) if verdict != "rejected"]


ANY = "py3-none-any"


class TestOrder:
    """Which wheel comes first."""

    def test_every_wheel_gets_a_verdict(self) -> None:
        """F-90: chosen, then compatible, then rejected; each with its reason."""
        selection = choose(ANY, *(f"{ANY}-{label}" for label in DOCUMENT.variants))
        assert told(selection) == [
            (
                f"{ANY}-cu128_v3",
                "chosen",
                "best fit: nvidia :: bound :: 12.8, sm :: 80, x86_64 :: level :: v3",
            ),
            (
                f"{ANY}-cu128",
                "compatible",
                "compatible; cu128_v3 is preferred: it also has x86_64 :: level :: v3",
            ),
            (
                f"{ANY}-cu126",
                "compatible",
                "compatible; cu128_v3 is preferred: nvidia :: bound :: 12.8 before 12.6",
            ),
            (
                f"{ANY}-avx2",
                "compatible",
                "compatible; cu128_v3 is preferred: it also has nvidia :: bound :: 12.8",
            ),
            (
                f"{ANY}-v3",
                "compatible",
                "compatible; cu128_v3 is preferred: it also has nvidia :: bound :: 12.8",
            ),
            (
                f"{ANY}-null",
                "compatible",
                "compatible; cu128_v3 is preferred: it has nvidia :: bound :: 12.8",
            ),
            (ANY, "compatible", "compatible; plain wheels come after every compatible variant"),
            (
                f"{ANY}-cu130",
                "rejected",
                "needs nvidia :: bound :: 13.0; this machine supports 12.8, 12.7 and 12.6",
            ),
        ]
        assert selection.chosen is selection.verdicts[0].filename

    def test_tags_before_build(self) -> None:
        """F-68: better tags without a build number beat build 2."""
        selection = choose(f"2-{ANY}-cu128", "cp313-cp313-manylinux_2_28_x86_64-cu128")
        assert in_order(selection)[0] == "cp313-cp313-manylinux_2_28_x86_64-cu128"
        assert reason(selection, f"2-{ANY}-cu128") == (
            "compatible; fastfft-2.1-cp313-cp313-manylinux_2_28_x86_64-cu128.whl has tags that "
            "fit better"
        )

    def test_builds_only_break_ties(self) -> None:
        """A-75, F-68, F-80: the label decides before the build number; a build beats none."""
        selection = choose(f"{ANY}-cu128", f"2-{ANY}-cu126", f"5-{ANY}", f"1-{ANY}-cu128")
        assert in_order(selection) == [
            f"1-{ANY}-cu128",
            f"{ANY}-cu128",
            f"2-{ANY}-cu126",
            f"5-{ANY}",
        ]
        assert reason(selection, f"{ANY}-cu128") == (
            "compatible; fastfft-2.1-1-py3-none-any-cu128.whl has a higher build number"
        )

    def test_builds_are_numbers(self) -> None:
        """F-14, F-68: leading digits as an integer, the rest as text; the higher build first."""
        selection = choose(f"9-{ANY}", f"10-{ANY}", f"10a-{ANY}", ANY)
        assert in_order(selection) == [f"10a-{ANY}", f"10-{ANY}", f"9-{ANY}", ANY]

    def test_variants_before_better_tags(self) -> None:
        """A-76, F-67: a py3-none-any variant beats a plain wheel made for cp313."""
        selection = choose("cp313-cp313-manylinux_2_39_x86_64", f"{ANY}-null")
        assert in_order(selection)[0] == f"{ANY}-null"

    def test_file_names_make_it_total(self) -> None:
        """F-68: what is equal otherwise is in the order of file names."""
        selection = choose("py3.py30-none-any-v3", "py3-none-any-v3")
        assert in_order(selection) == ["py3-none-any-v3", "py3.py30-none-any-v3"]
        assert reason(selection, "py3.py30-none-any-v3").endswith("comes first by name")

    def test_equal_keys(self) -> None:
        """F-66: with equal keys the label decides, and that is said."""
        selection = choose(f"{ANY}-v3", f"{ANY}-avx2")
        assert in_order(selection) == [f"{ANY}-avx2", f"{ANY}-v3"]
        assert reason(selection, f"{ANY}-v3") == (
            "compatible; avx2 is preferred: the same properties fit, and its label comes first"
        )

    def test_what_the_other_lacks(self) -> None:
        """F-66: it *also* has something only if it has everything that the other has."""
        first = choose(f"{ANY}-cu128_v3", f"{ANY}-v3")
        assert reason(first, f"{ANY}-v3").endswith("it also has nvidia :: bound :: 12.8")
        second = choose(f"{ANY}-cu128", f"{ANY}-v3")
        assert reason(second, f"{ANY}-v3").endswith("it has nvidia :: bound :: 12.8")


class TestRejections:
    """F-90, F-94, F-130: what is out, and why."""

    def test_tags(self) -> None:
        """F-90 step 1: in words, with the properties of the label (A-25)."""
        selection = choose("cp312-cp312-win_amd64", "cp312-cp312-win_amd64-v3")
        assert reason(selection, "cp312-cp312-win_amd64") == (
            "no wheel tag fits: built for cp312 on Windows x86_64, this is cp313 on Linux x86_64"
        )
        assert reason(selection, "cp312-cp312-win_amd64-v3").endswith(
            "this is cp313 on Linux x86_64 (v3: x86_64 :: level :: v3)"
        )
        assert selection.chosen is None

    def test_extra(self) -> None:
        """F-94: what its listing entry forbids is out before variants are ordered."""
        selection = choose(
            f"{ANY}-cu128",
            f"{ANY}-cu126",
            extra_rejections={f"fastfft-2.1-{ANY}-cu128.whl": "was yanked: broken"},
        )
        assert in_order(selection) == [f"{ANY}-cu126"]
        assert reason(selection, f"{ANY}-cu128") == "was yanked: broken"

    def test_unlisted_label(self) -> None:
        """F-76, A-74: a label that is not in the document is out."""
        selection = choose(f"{ANY}-new", f"{ANY}-v3")
        assert reason(selection, f"{ANY}-new") == (
            "its label is not in the variant metadata of this release"
        )

    def test_null_needs_no_entry(self) -> None:
        """F-26: the null variant is usable without an entry."""
        selection = choose(f"{ANY}-null", ANY, document=variants(v3={"x86_64": {"level": ["v3"]}}))
        assert in_order(selection) == [f"{ANY}-null", ANY]

    def test_broken_label(self) -> None:
        """F-130: one broken label is unusable, the others stay."""
        document = VariantDocument(
            ("x86_64",), variants={NULL: EMPTY}, unusable={"odd": "an empty list of values"}
        )
        selection = choose(f"{ANY}-odd", f"{ANY}-null", document=document)
        assert in_order(selection) == [f"{ANY}-null"]
        assert reason(selection, f"{ANY}-odd") == (
            "its label is not valid in the variant metadata: an empty list of values"
        )

    def test_no_document(self) -> None:
        """F-130, A-70: without usable metadata every variant is out and plain wheels stay."""
        selection = choose(f"{ANY}-v3", f"{ANY}-null", ANY, document=None, support=None)
        assert in_order(selection) == [ANY]
        assert reason(selection, f"{ANY}-null") == (
            "there is no usable variant metadata for this release"
        )

    def test_unsupported(self) -> None:
        """F-28: nobody was asked, so nothing is supported; properties are named (A-39)."""
        selection = choose(f"{ANY}-v3", ANY, support=None)
        assert in_order(selection) == [ANY]
        assert reason(selection, f"{ANY}-v3") == (
            "needs x86_64 :: level :: v3; no provider answered"
        )

    def test_rejected_last_and_sorted(self) -> None:
        """What came farthest is told first: variants, listing entries, tags."""
        selection = choose(
            "cp312-cp312-win32",
            f"{ANY}-zzz",
            "cp312-cp312-win32-v3",
            f"{ANY}-cu130",
            f"1-{ANY}",
            extra_rejections={f"fastfft-2.1-1-{ANY}.whl": "was yanked"},
        )
        assert [short for short, _, _ in told(selection)] == [
            f"{ANY}-cu130",
            f"{ANY}-zzz",
            f"1-{ANY}",
            "cp312-cp312-win32-v3",
            "cp312-cp312-win32",
        ]


class TestPreferences:
    """F-91: the user narrows or reorders."""

    NAMES = (ANY, f"{ANY}-cu128", f"{ANY}-cu126", f"{ANY}-v3", f"{ANY}-null", f"{ANY}-cu130")

    def choose(self, preferences: Preferences) -> Selection:
        """Select among the usual wheels."""
        return choose(*self.NAMES, preferences=preferences)

    def test_no_variants(self) -> None:
        """F-91: without variants the plain wheel is taken."""
        selection = self.choose(Preferences(variants=False))
        assert in_order(selection) == [ANY]
        assert selection.verdicts[0].reason == "the plain wheel: variant wheels are switched off"
        assert reason(selection, f"{ANY}-cu128") == "variant wheels are switched off"

    def test_label(self) -> None:
        """F-91: a pinned label is the only one; other projects are not affected."""
        selection = self.choose(Preferences(labels={FASTFFT: Label("cu126")}))
        assert in_order(selection) == [f"{ANY}-cu126"]
        assert selection.verdicts[0].reason == (
            "the label cu126 is requested; best fit: nvidia :: bound :: 12.6, sm :: 89"
        )
        assert reason(selection, ANY) == "only the label cu126 is requested"
        other = Preferences(labels={NormalizedName("other"): Label("cu126")})
        assert in_order(self.choose(other))[0] == f"{ANY}-cu128"

    def test_an_unsupported_label_stays_out(self) -> None:
        """F-91: an option never selects a variant with unsupported properties."""
        selection = self.choose(Preferences(labels={FASTFFT: Label("cu130")}))
        assert selection.chosen is None
        assert "nvidia :: bound :: 13.0" in reason(selection, f"{ANY}-cu130")

    def test_require(self) -> None:
        """F-91: a required property excludes plain wheels and the null variant too."""
        selection = self.choose(Preferences(require=(parse_preference("nvidia"),)))
        assert in_order(selection) == [f"{ANY}-cu128", f"{ANY}-cu126"]
        for name in (ANY, f"{ANY}-null", f"{ANY}-v3"):
            assert reason(selection, name) == (
                "nvidia is required, and this wheel does not have it"
            )

    def test_forbid(self) -> None:
        """F-91: a forbidden namespace, feature or property narrows."""
        selection = self.choose(Preferences(forbid=(parse_preference("nvidia :: bound :: 12.8"),)))
        assert in_order(selection) == [f"{ANY}-cu126", f"{ANY}-v3", f"{ANY}-null", ANY]
        assert reason(selection, f"{ANY}-cu128") == "nvidia :: bound :: 12.8 is forbidden"

    def test_prefer(self) -> None:
        """F-69: a preferred namespace decides first."""
        selection = self.choose(Preferences(prefer=(parse_preference("x86_64"),)))
        assert in_order(selection)[0] == f"{ANY}-v3"

    @pytest.mark.parametrize("name", NAMES)
    def test_one_wheel_alone(self, name: str) -> None:
        """A reason is given for every wheel, also when there is no other."""
        (verdict,) = choose(name).verdicts
        assert verdict.reason
        assert verdict.verdict == ("rejected" if "cu130" in name else "chosen")


class TestReasonsForPlainAndNull:
    """The chosen one has no property to name."""

    def test_only_wheel(self) -> None:
        """A release without variants is as it always was (F-90 step 2)."""
        selection = choose(ANY, document=None, support=None)
        assert selection.verdicts[0].reason == "the only wheel that fits"

    def test_best_of_several(self) -> None:
        """Plain wheels compete by tags."""
        selection = choose(ANY, "cp313-cp313-manylinux_2_17_x86_64", document=None, support=None)
        assert in_order(selection)[0] == "cp313-cp313-manylinux_2_17_x86_64"
        assert selection.verdicts[0].reason == "the best fitting wheel"

    def test_plain_because_nothing_fits(self) -> None:
        """A-27: the plain wheel, and why."""
        assert choose(ANY, f"{ANY}-cu130").verdicts[0].reason == (
            "the plain wheel: no variant fits"
        )

    def test_null_because_nothing_fits(self) -> None:
        """F-67, A-13: null before plain."""
        selection = choose(ANY, f"{ANY}-null", f"{ANY}-cu130")
        assert selection.verdicts[0].reason == (
            "the variant without properties (null): no other variant fits"
        )
        assert choose(f"{ANY}-null").verdicts[0].reason == (
            "the variant without properties (null) fits everywhere"
        )

    def test_nothing_at_all(self) -> None:
        """A release without wheels has no verdicts."""
        assert choose() == Selection(())
        assert choose().chosen is None


class TestInstalled:
    """A label that is installed is not given up for a better one."""

    NAMES = (ANY, f"{ANY}-cu128_v3", f"{ANY}-cu126", f"2-{ANY}-cu126", f"{ANY}-cu130")

    def test_it_goes_first(self) -> None:
        """F-96: it is chosen where it fits, by the best of its wheels; the better one is named."""
        selection = choose(*self.NAMES, installed=Label("cu126"))
        assert in_order(selection) == [f"2-{ANY}-cu126", f"{ANY}-cu126", f"{ANY}-cu128_v3", ANY]
        assert reason(selection, f"2-{ANY}-cu126") == "cu126 is installed and still fits"
        assert "2-" in reason(selection, f"{ANY}-cu126")
        for other in (ANY, f"{ANY}-cu128_v3"):
            assert reason(selection, other) == "compatible; cu126 is installed and kept"
        assert selection.better is not None
        assert selection.better.label == "cu128_v3"

    @pytest.mark.parametrize("label", ["cu128_v3", "cu130", "gone"])
    def test_it_is_the_best_or_does_not_fit(self, label: str) -> None:
        """Then everything is as if nothing were installed."""
        selection = choose(*self.NAMES, installed=Label(label))
        assert told(selection) == told(choose(*self.NAMES))
        assert selection.better is None

    def test_where_nothing_fits(self) -> None:
        """Nothing is chosen then, installed or not."""
        assert choose(f"{ANY}-cu130", installed=Label("cu130")).chosen is None
