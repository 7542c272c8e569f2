"""What plugins answer, right and wrong."""

from __future__ import annotations

import pytest

from wheelfit.core.labels import Label
from wheelfit.core.plugin_answer import PluginAnswer, read_report, vocabulary_faults
from wheelfit.core.properties import PropertySet
from wheelfit_runtime.platforms.features import FeatureConfig


def config(name: object, *values: object, multi: object = False) -> dict[str, object]:
    """Make a feature as it comes out of a plugin's process."""
    return {"name": name, "values": list(values), "multi_value": multi}


def read(*configs: object, **flags: object) -> PluginAnswer:
    """Read what a plugin with some flags returned."""
    return read_report(list(configs), flags)


def test_features() -> None:
    """P-26, P-27: any objects with name, values and multi_value, best first; order stays."""
    answer = read(config("b", "2", "1"), config("a", "x", multi=True))
    assert answer == PluginAnswer(
        (FeatureConfig("b", ("2", "1")), FeatureConfig("a", ("x",), multi_value=True))
    )
    assert read() == PluginAnswer()  # nothing is supported, and that is an answer


def test_odd_features() -> None:
    """P-27: a missing multi_value is false with a note; no values are allowed, others stay."""
    answer = read({"name": "a", "values": []}, config("b", "1"))
    assert answer.features == (FeatureConfig("a", ()), FeatureConfig("b", ("1",)))
    assert answer.failure is None
    (warning,) = answer.warnings
    assert warning.startswith("a: multi_value is not set")
    answer = read({"name": "a", "values": []}, config("b", "1", multi="no"), config("c", "1"))
    (warning,) = answer.warnings  # however many there are of a plugin for an older draft
    assert warning.startswith("a, b: multi_value is not set")
    (warning,) = read(*({"name": f"flag{n}", "values": ["on"]} for n in range(40))).warnings
    assert warning.startswith(
        "flag0, flag1, flag2, flag3, flag4, flag5, 40 in all: multi_value is not set"
    )


@pytest.mark.parametrize(
    ("item", "left", "warning"),
    [
        (config("A", "1"), (), "'A' is not a valid feature name and is dropped"),
        (config("a-b", "1"), (), "'a-b' is not a valid feature name and is dropped"),
        (config(None, "1"), (), "null is not a valid feature name and is dropped"),
        (config("good", "1"), (), "the feature good is listed more than once"),
        (
            {"name": "a", "values": "12", "multi_value": False},
            (),
            "a: expected a list of values, found '12'; it is dropped",
        ),
        (config("a", "1", "B", "2"), ("1", "2"), "a: 'B' is not a valid value and is dropped"),
        (config("a", 1, "2"), ("2",), "a: a number is not a valid value and is dropped"),
        (config("a", "1\n", "2"), ("2",), "a: '1\\n' is not a valid value and is dropped"),
        (
            config("a", {"kind": "a bytes"}, "2"),
            ("2",),
            "a: a bytes is not a valid value and is dropped",
        ),
        (
            {"name": "a", "values": {"kind": "a generator"}},
            (),
            "a: expected a list of values, found a generator; it is dropped",
        ),
        (7, (), "null is not a valid feature name and is dropped"),
        (config("a", "1", "1", "2"), ("1", "2"), "a: 1 is listed more than once"),
    ],
)
def test_bad_items(item: object, left: tuple[str, ...], warning: str) -> None:
    """P-34: a bad or repeated name or value is dropped with a warning; the rest counts."""
    answer = read(config("good", "v"), item)
    assert answer.features[0] == FeatureConfig("good", ("v",))
    assert [feature.values for feature in answer.features[1:]] == ([left] if left else [])
    assert answer.warnings == (warning,)


def test_limits() -> None:
    """P-34: more than 64 features or 100,000 values are no answer; that many are."""
    many = [config(f"f{number}", "1") for number in range(65)]
    assert len(read(*many[:64]).features) == 64
    assert "the limit of 64" in (read(*many).failure or "")
    values = [str(number) for number in range(100_000)]
    assert len(read(config("a", *values)).features[0].values) == 100_000
    too_many = read(config("b", "1"), config("a", *values))
    assert "100000 values" in (too_many.failure or "")
    assert too_many.features == ()


@pytest.mark.parametrize("configs", [None, {}, "text", 7])
def test_no_answer(configs: object) -> None:
    """P-17: an answer of another shape is a failure with its reason, never an exception."""
    answer = read_report(configs, {})
    assert answer.failure
    assert answer.features == ()


def test_the_flag() -> None:
    """P-29: false unless said; the older names mean the same, with a note."""
    assert not read().all_compatible
    assert read(all_properties_compatible=True).all_compatible
    assert not read(all_properties_compatible=False).all_compatible
    assert read(all_properties_compatible=True).warnings == ()
    for older in ("is_aot_plugin", "is_build_plugin"):
        answer = read(**{older: True})
        assert answer.all_compatible
        assert answer.warnings == (f"{older} is an older name of all_properties_compatible",)
        assert not read(all_properties_compatible=False, **{older: True}).all_compatible
    assert not read(all_properties_compatible="yes").all_compatible
    assert read(all_properties_compatible="yes").warnings


def test_other_attributes() -> None:
    """P-31: a namespace of the plugin, and anything else it has, changes nothing."""
    plain = read(config("a", "1"))
    assert read(config("a", "1"), namespace="other", name=3, unknown=[]) == plain
    assert read({**config("a", "1"), "namespace": "x", "new": 1}) == plain


VOCABULARY = {
    "gpu": [
        FeatureConfig("arch", ("80", "90"), multi_value=True),
        FeatureConfig("level", ("1", "2")),
    ]
}


def faults(**features: list[str]) -> list[tuple[str, str]]:
    """Return path and rule of what the provider does not know."""
    properties = PropertySet.from_mapping({"gpu": features, "other": {"x": ["1", "2"]}})
    found = vocabulary_faults(Label("cu12.8"), properties, VOCABULARY)
    return [(fault.path, fault.rule) for fault in found]


def test_vocabulary() -> None:
    """P-28, P-30: unknown features and values, and several values where one is allowed."""
    assert faults(arch=["80", "90"], level=["1"]) == []
    assert faults(level=["1", "2"]) == [('variants["cu12.8"].gpu.level', "P-30")]
    assert faults(level=["3"]) == [('variants["cu12.8"].gpu.level', "P-28")]
    assert faults(arch=["70", "75", "80"]) == [('variants["cu12.8"].gpu.arch', "P-28")] * 2
    assert faults(size=["1"]) == [('variants["cu12.8"].gpu.size', "P-28")]
