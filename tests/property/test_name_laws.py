"""Names: parsing and printing are inverses."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st
from packaging.utils import InvalidWheelFilename, canonicalize_name
from packaging.utils import parse_wheel_filename as packaging_parse
from packaging.version import Version

from wheelfit.core.filename import (
    index_file_name,
    parse_index_file_name,
    parse_wheel_filename,
    with_label,
)
from wheelfit.core.labels import Label, derive_label, is_label, parse_label
from wheelfit.core.properties import (
    Feature,
    Property,
    PropertySet,
    is_name,
    is_value,
    parse_feature,
    parse_property,
)
from wheelfit.errors import InvalidFilename
from wheelfit_runtime.errors import UserError

NAMES = st.from_regex(r"[a-z0-9_]{1,6}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9_.]{1,6}", fullmatch=True)
LABELS = st.from_regex(r"[0-9a-z_.]{1,20}", fullmatch=True)
PROJECTS = st.from_regex(r"[A-Za-z0-9]+([-_.][A-Za-z0-9]+){0,3}", fullmatch=True)
VERSIONS = st.sampled_from(
    ["1", "1.0", "2024.1.2", "1!2.0", "1.0rc1", "1.0.post1.dev2", "2.8.0+cu128", "0.0.1.post2"]
)
TAGS = st.sampled_from(
    [
        "py3-none-any",
        "py2.py3-none-any",
        "cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64",
        "cp39-abi3-macosx_11_0_arm64",
        "cp312.cp313-none-win_amd64",
    ]
)
BUILDS = st.from_regex(r"(-[0-9]{1,3}[0-9A-Za-z_.]{0,3})?", fullmatch=True)
PROPERTIES = st.builds(Property, NAMES, NAMES, VALUES)


@given(PROJECTS, VERSIONS, BUILDS, TAGS, st.none() | LABELS)
def test_file_names(project: str, version: str, build: str, tags: str, label: str | None) -> None:
    """F-12, F-17: a name made of parts has those parts, and a normalised one is kept."""
    name = canonicalize_name(project).replace("-", "_")
    end = "" if label is None else f"-{label}"
    text = f"{name}-{version}{build}-{tags}{end}.whl"
    filename = parse_wheel_filename(text)
    assert str(filename) == text
    assert filename.name == canonicalize_name(project)
    assert filename.version == Version(version)
    assert filename.label == label
    assert (filename.build != ()) == bool(build)
    assert with_label(filename, None).text == filename.plain
    assert with_label(parse_wheel_filename(filename.plain), filename.label) == filename


@given(PROJECTS, VERSIONS, BUILDS, TAGS)
def test_plain_names_agree_with_packaging(
    project: str, version: str, build: str, tags: str
) -> None:
    """F-10: a name without a label means what it always meant."""
    assume("__" not in project)
    text = f"{project.replace('-', '_')}-{version}{build}-{tags}.whl"
    filename = parse_wheel_filename(text)
    assert (filename.name, filename.version, filename.build, filename.tags) == packaging_parse(text)


PARTS = st.sampled_from(
    ["a", "A.b", "1", "1.0", "7", "7a", "x", "py3", "3py", "none", "any", "cu128", "CU", "", "1!2"]
)


@given(st.lists(PARTS, min_size=4, max_size=8).map(lambda parts: "-".join(parts) + ".whl"))
def test_any_text_is_decided(text: str) -> None:
    """F-12, F-13, F-14: what packaging reads is plain here; what only we read has a label."""
    try:
        expected = packaging_parse(text)
    except InvalidWheelFilename:
        expected = None
    if expected is not None and "!" in "".join(map(str, expected[2])):
        expected = None  # F-14: packaging takes any text that begins with a digit
    try:
        filename = parse_wheel_filename(text)
    except InvalidFilename:
        assert expected is None
        return
    assert str(parse_wheel_filename(str(filename))) == str(filename)
    if expected is None:
        assert filename.label is not None
        assert is_label(filename.label)
        plain = packaging_parse(filename.plain)
        assert (filename.name, filename.version, filename.build, filename.tags) == plain
    else:
        assert filename.label is None


@given(PROJECTS, VERSIONS)
def test_index_file_names(project: str, version: str) -> None:
    """F-70, F-78: the name of an index file gives its release back."""
    text = index_file_name(project, Version(version))
    assert parse_index_file_name(text) == (canonicalize_name(project), Version(version))


@given(PROPERTIES, st.sampled_from(["", " ", "\t", "  "]))
def test_properties(item: Property, blanks: str) -> None:
    """F-5: a property is read from what it prints, whatever blanks are around '::'."""
    assert parse_property(str(item)) == item
    assert parse_property(str(item).replace(" ", blanks)) == item
    feature = Feature(item.namespace, item.feature)
    assert parse_feature(str(feature).replace(" ", blanks)) == feature


@given(st.lists(PROPERTIES, max_size=8))
def test_property_sets(items: list[Property]) -> None:
    """F-23, F-141: a set does not know in which order it was built."""
    properties = PropertySet(items)
    assert list(properties) == sorted(set(items))
    assert len(properties) == len(set(items))
    assert all(item in properties for item in items)
    again = PropertySet.from_mapping(properties.to_mapping())
    assert again == properties
    assert hash(again) == hash(properties)
    assert derive_label(properties) == derive_label(PropertySet(reversed(items)))
    assert parse_label(derive_label(properties))
    rows = list(properties.features())
    assert PropertySet.from_rows(reversed(rows)) == properties


@given(st.text(max_size=6) | st.text("ab_.9Z \n", max_size=4))
def test_character_sets(text: str) -> None:
    """F-2: a text is a name or a value exactly when its characters are those of the rule."""
    letters = set("0123456789abcdefghijklmnopqrstuvwxyz_")
    assert is_name(text) == (text != "" and set(text) <= letters)
    assert is_value(text) == (text != "" and set(text) <= letters | {"."})
    with suppress(UserError):
        assert Feature(text, "a").namespace == text
        assert is_name(text)
    with suppress(UserError):
        assert Feature("a", text).name == text
        assert is_name(text)
    with suppress(UserError):
        assert Property("a", "b", text).value == text
        assert is_value(text)


@given(st.lists(PROPERTIES, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_labels_by_hash(items: list[Property], random: Random) -> None:
    """F-141: a label is eight digits of the hash of the sorted lines, however they came."""
    lines = {f"{item.namespace} :: {item.feature} :: {item.value}\n" for item in items}
    ascending = sorted(lines, key=lambda line: [part.strip() for part in line.split("::")])
    expected = hashlib.sha256("".join(ascending).encode()).hexdigest()[:8]
    random.shuffle(items)
    assert derive_label(PropertySet(items)) == expected
    # Sets are equal exactly when their lines are, so the label says which set it is.
    fewer = PropertySet(items[1:])
    assert (fewer == PropertySet(items)) == (items[0] in items[1:])
    assert (derive_label(fewer) == expected) == (items[0] in items[1:])


@given(st.text(max_size=6))
def test_labels(text: str) -> None:
    """F-2: a text is a label exactly when its characters are those of the rule."""
    allowed = set("0123456789abcdefghijklmnopqrstuvwxyz_.")
    assert is_label(text) == (text != "" and set(text) <= allowed)
    if is_label(text):
        assert parse_label(text) == Label(text)
