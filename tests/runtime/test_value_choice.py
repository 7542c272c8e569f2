"""Tables of conditions and values."""

from __future__ import annotations

import itertools

import pytest
from error_codes import raises_code
from hypothesis import given
from hypothesis import strategies as st
from python_runs import printed_by

from wheelfit_runtime.errors import UserError
from wheelfit_runtime.loader.value_choice import Cases, select
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status

V2, V3, V4 = (f"x86_64 :: level :: v{number}" for number in (2, 3, 4))
HOPPER, AMPERE = (f"nvidia :: sm_arch :: {arch}_real" for arch in (90, 80))


def supporting(*properties: str) -> dict[str, Detection]:
    """Return what a machine supports; the best values first."""
    found: dict[str, dict[str, list[str]]] = {}
    for text in properties:
        namespace, feature, value = text.split(" :: ")
        found.setdefault(namespace, {}).setdefault(feature, []).append(value)
    return {
        namespace: Detection(
            namespace,
            tuple(FeatureConfig(name, tuple(values)) for name, values in features.items()),
            status=Status.SUPPORTED,
            source="test",
        )
        for namespace, features in found.items()
    }


NEW = supporting(V4, V3, V2)
OLD = supporting(V2)
HOPPER_NEW = supporting(V4, V3, V2, HOPPER, AMPERE)


def test_one_holds() -> None:
    """The value of the condition that holds is chosen, else the default."""
    table = {V3: "fast", AMPERE: "gpu"}
    assert select(table, default="any", detections=NEW) == "fast"
    assert select(table, default="any", detections=OLD) == "any"
    assert select(table, default=None, detections={}) is None


@pytest.mark.parametrize("order", list(itertools.permutations([V2, V3, V4])))
def test_better_value(order: tuple[str, ...]) -> None:
    """Of several values of a feature the provider's first wins, however the table is ordered."""
    table = {condition: condition[-2:] for condition in order}
    assert select(table, detections=NEW) == "v4"
    assert select(table, detections=OLD) == "v2"


def test_more_features() -> None:
    """A condition that names one feature more is more special."""
    table = {V3: "cpu", (HOPPER, V4, V3): "both", AMPERE: "gpu"}
    with raises_code("ambiguous-cases"):
        select({V3: "cpu", AMPERE: "gpu"}, detections=HOPPER_NEW)
    assert select(table, detections=HOPPER_NEW) == "both"
    assert select(table, detections=NEW) == "cpu"


def test_more_is_not_better() -> None:
    """A condition with more features and a worse value is not more special: it is ambiguous."""
    with raises_code("ambiguous-cases") as excinfo:
        select({V2: "old", V4: "cpu", (HOPPER, V3): "gpu"}, detections=HOPPER_NEW)
    # The author is not told of what is beaten anyway.
    assert excinfo.value.note == (
        "x86_64 :: level :: v4: 'cpu'\n"
        "nvidia :: sm_arch :: 90_real and x86_64 :: level :: v3: 'gpu'"
    )
    assert select({V4: "cpu", (HOPPER, V3, V4): "gpu"}, detections=HOPPER_NEW) == "gpu"


def test_fewer_alternatives() -> None:
    """If the best values are the same, fewer alternatives are more special."""
    table = {(V3, V2): "either", V3: "one"}
    assert select(table, detections=supporting(V3, V2)) == "one"
    assert select(table, detections=OLD) == "either"


def test_same_value() -> None:
    """Nothing is ambiguous about one and the same value."""
    assert select({V3: "same", AMPERE: "same"}, detections=HOPPER_NEW) == "same"


def test_no_match() -> None:
    """Without a default the author's words are told, and why each condition does not hold."""
    cases = Cases({V3: 1, AMPERE: 2}, no_match="spam needs a processor with AVX2")
    with raises_code("no-case-fits", match="needs a processor with AVX2") as excinfo:
        cases.choose(OLD)
    assert excinfo.value.note == (
        "x86_64 :: level :: v3: needs x86_64 :: level :: v3; here it is v2\n"
        "nvidia :: sm_arch :: 80_real: no provider detects nvidia :: sm_arch"
    )
    # Nobody renders what ends an import.
    assert excinfo.value.__notes__ == [excinfo.value.note]
    with raises_code("no-case-fits", match="it has no default"):
        select({V3: 1}, detections=OLD)


@pytest.mark.parametrize(
    "text", ["x86_64", "x86_64 :: level", "X86 :: level :: v3", "", "a::b::c::d"]
)
def test_no_property(text: str) -> None:
    """A condition that is not a property is refused, also on machines it would not matter to."""
    with raises_code("invalid-property") as excinfo:
        select({V2: 1, text: 2}, default=0, detections=OLD)
    assert excinfo.value.__notes__ == ["hint: write namespace :: feature :: value"]


def test_wrong_tables() -> None:
    """A default with no_match, the same twice, and no condition are refused."""
    with raises_code("invalid-cases", match="or no_match, not both") as excinfo:
        Cases({V2: 1}, default=0, no_match="none")
    assert excinfo.value.__notes__[0].startswith("hint: give a default, or a message")
    with raises_code("invalid-cases", match="the same condition"):
        Cases({(V2, HOPPER): 1, (HOPPER, " x86_64::level::v2"): 2})
    with raises_code("invalid-cases", match="not \\(\\)"):
        Cases({(): 1})


def test_explained() -> None:
    """A choice says of each case whether it held, and why not."""
    cases = Cases({V2: "old", V3: "new", HOPPER: "gpu"}, default="any")
    assert str(cases.choose(NEW)) == (
        "also: x86_64 :: level :: v2\n"
        "chosen: x86_64 :: level :: v3\n"
        "no: nvidia :: sm_arch :: 90_real (no provider detects nvidia :: sm_arch)"
    )
    assert str(Cases({V3: 1}, default=0).choose(OLD)).endswith("\nchosen: the default")


def test_what_is_asked() -> None:
    """Only what conditions name is asked of the machine, and GPUs only where they matter."""
    assert Cases({V2: 1}).namespaces == ("x86_64",)
    assert not Cases({"nvidia :: cuda_version_lower_bound :: 12.0": 1}).needs_devices
    assert Cases({HOPPER: 1, V2: 0}).needs_devices


def test_values_that_cannot_be_compared() -> None:
    """A value may be anything: two that cannot be compared are different, one is itself."""

    class Array:
        def __eq__(self, other: object) -> bool:
            raise ValueError("the truth of an array is ambiguous")

        __hash__ = object.__hash__

    array = Array()
    with raises_code("ambiguous-cases"):
        select({V3: array, AMPERE: Array()}, detections=HOPPER_NEW)
    assert select({V3: array, AMPERE: array}, detections=HOPPER_NEW) is array


def test_what_the_environment_says_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is set between two calls counts, and so does its absence."""
    table = {"x86_64 :: level :: v4": "v4", "x86_64 :: level :: v2": "v2"}
    for level in ("v4", "v2", "v4"):
        monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", level)
        assert select(table) == level


def test_this_machine_once() -> None:
    """The machine is looked at once in a process: a later call opens no file."""
    code = (
        "import sys\nfrom wheelfit_runtime import select\n"
        f"table = {{{V3!r}: 1, {HOPPER!r}: 2}}\nselect(table, default=0)\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(args) if event == 'open' else None)\n"
        "select(table, default=0)\nassert not opened, opened"
    )
    printed_by("-c", code)


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without being told, it finds out itself; what the user overrides counts."""
    monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert select({V4: "new", HOPPER: "gpu"}, default="any") == "new"


_VALUES = st.sets(st.sampled_from("abc"), min_size=1)
_CONDITIONS = st.dictionaries(st.sampled_from(["f", "g"]), _VALUES, min_size=1)


def _written(condition: dict[str, set[str]]) -> tuple[str, ...]:
    return tuple(
        sorted(f"n :: {feature} :: {v}" for feature, values in condition.items() for v in values)
    )


@given(st.lists(_CONDITIONS, min_size=1, max_size=4), st.data())
def test_order_of_the_table(conditions: list[dict[str, set[str]]], data: st.DataObject) -> None:
    """A table means the same in any order, and is ambiguous in any order."""
    table = {_written(condition): number for number, condition in enumerate(conditions)}
    cases = Cases(table, default=None)
    features = tuple(
        FeatureConfig(
            name, tuple(data.draw(st.permutations("abc"))[: data.draw(st.integers(0, 3))])
        )
        for name in "fg"
    )
    machine = {"n": Detection("n", features, status=Status.SUPPORTED, source="test")}
    turned = Cases(dict(reversed(table.items())), default=None)
    try:
        chosen = cases.choose(machine).value
    except UserError:
        with raises_code("ambiguous-cases"):
            turned.choose(machine)
    else:
        assert turned.choose(machine).value == chosen


def test_a_third_case_that_settles_nothing() -> None:
    """A case with more alternatives settles no ambiguity where all values are equally good."""
    # Each has fewer alternatives than the third, where all values are equally good.
    first, second = (V2, HOPPER, AMPERE), (V2, V3, AMPERE)
    third = (V2, V3, HOPPER, AMPERE)
    with raises_code("ambiguous-cases"):
        select({first: 1, second: 2, third: 3}, detections=supporting(V2, AMPERE))
