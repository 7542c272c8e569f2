from __future__ import annotations

import pytest
from packaging.tags import Tag
from packaging.version import Version

from wheelfit.core.filename import (
    index_file_name,
    parse_index_file_name,
    parse_wheel_filename,
    project_of,
    release_of,
    with_label,
)
from wheelfit.core.labels import Label
from wheelfit.errors import InvalidFilename


@pytest.mark.parametrize(
    ("text", "build", "label"),
    [
        ("fastfft-2.1-cp313-cp313-manylinux_2_28_x86_64-cu128.whl", (), "cu128"),
        ("fastfft-2.1-7-cp313-cp313-win_amd64-cu128.whl", (7, ""), "cu128"),
        ("fastfft-2.1-7-cp313-cp313-win_amd64.whl", (7, ""), None),
        ("fastfft-2.1-py3-none-any-126.whl", (), "126"),
        ("fastfft-2.1-cp312.cp313-none-any-cpu.v3.whl", (), "cpu.v3"),
        ("fastfft-2.1-py3-none-any.whl", (), None),
        ("fastfft-2.1-07b_.x-py3-none-any-null.whl", (7, "b_.x"), "null"),
    ],
)
def test_the_parts_of_a_name(text: str, build: tuple[int, str], label: str | None) -> None:
    """F-10, F-12, F-14, F-15: the table of section 2, what is accepted."""
    filename = parse_wheel_filename(text)
    assert (filename.name, filename.version) == ("fastfft", Version("2.1"))
    assert filename.build == build
    assert filename.label == label
    assert filename.is_variant == (label is not None)
    assert str(filename) == filename.text == text


@pytest.mark.parametrize(
    "text",
    [
        "fastfft-2.1-3py-none-any.whl",  # F-11
        "fastfft-2.1-7-3py-none-any-null.whl",  # F-11
        "fastfft-2.1-py3.3py-none-any.whl",  # F-11, in a compressed set
        "fastfft-2.1-py3-none-any-.whl",  # F-13
        "fastfft-2.1-py3-none-any-CUDA.whl",  # F-13
        "fastfft-2.1-py3-none-any-cu-128.whl",  # F-12: seven parts, no build tag
        "fastfft-2.1-py3-none-any-cpu_!.whl",  # F-13
        "fastfft-2.1-x-py3-none-any-cu128.whl",  # F-13
        "fastfft-2.1--none-any.whl",  # F-13
        "fastfft-2.1-1-py3-none-any-cu128-x.whl",  # F-12: eight parts
        "fastfft-2.1-none-any.whl",  # F-12: four parts
        "fastfft-2.1-py3-none-any.WHL",  # F-16
        "fastfft-2.1-py3-none-any.zip",  # F-16
        "fastfft-2.1-1!-py3-none-any.whl",  # F-14: build tag
        "fastfft-two-py3-none-any.whl",  # F-14: version
        "fastfft- 2.1-py3-none-any.whl",  # F-14: version with a blank
        "-2.1-py3-none-any.whl",  # F-13: no name
        "fast__fft-2.1-py3-none-any.whl",  # F-14: name
        "../fastfft-2.1-py3-none-any.whl",
        "fastfft-2.1-py3-none-any/..whl",
        "fastfft-2.1-py3-none-any%2Ewhl.whl",  # F-16: decoding is not done here
        "fastfft-2.1-py3-none-any-cu128.whl\n",  # F-2
        "fastfft-2.1-py3-none-any-cu128\n.whl",  # F-2
        "fastfft-2.1-py3-none-" + ".".join(["any"] * 2000) + ".whl",  # a tag bomb
        ".whl",
        "",
    ],
)
def test_what_is_no_wheel_file_name(text: str) -> None:
    """What is rejected, with the rules beside each; the message names the text.

    F-11, F-12, F-13, F-14, F-16.
    """
    with pytest.raises(InvalidFilename) as excinfo:
        parse_wheel_filename(text)
    assert repr(text[:255])[:-1] in str(excinfo.value)


def test_tags_are_expanded() -> None:
    """F-15: a compressed set stands for every combination; the label never does."""
    filename = parse_wheel_filename("a-1-cp312.cp313-none-any-cpu.v3.whl")
    assert filename.tags == {Tag("cp312", "none", "any"), Tag("cp313", "none", "any")}
    assert filename.label == "cpu.v3"


def test_builds_are_ordered() -> None:
    """F-14: digits count as a number, then the rest as text, and none is lowest."""
    builds = [
        parse_wheel_filename(f"a-1{build}-py3-none-any.whl").build
        for build in ("", "-2", "-10", "-10a", "-10b")
    ]
    assert builds == sorted(builds)


def test_output_is_normalised() -> None:
    """F-17: name and version are normalised, the rest stays as it is."""
    text = "Foo.Bar_Baz-1.0.RC1-007-py2.py3-none-any-cpu.v3.whl"
    filename = parse_wheel_filename(text)
    assert filename.name == "foo-bar-baz"
    assert str(filename) == "foo_bar_baz-1.0rc1-007-py2.py3-none-any-cpu.v3.whl"
    assert filename.text == text


def test_the_name_without_label() -> None:
    """F-10: the plain name of a variant is what an unaware tool could read."""
    filename = parse_wheel_filename("Foo-1-1-py3-none-any-cpu.v3.whl")
    assert filename.plain == "Foo-1-1-py3-none-any.whl"
    plain = parse_wheel_filename(filename.plain)
    assert plain.plain == plain.text


def test_giving_another_label() -> None:
    """F-3, F-10: a label is added, replaced and removed; too long a name is refused."""
    plain = parse_wheel_filename("Foo-1.00-py3-none-any.whl")
    labelled = with_label(plain, Label("cu128"))
    assert labelled.text == "foo-1.0-py3-none-any-cu128.whl"
    assert with_label(labelled, Label("cu129")).text == "foo-1.0-py3-none-any-cu129.whl"
    assert with_label(labelled, None).text == "foo-1.0-py3-none-any.whl"
    assert len(with_label(plain, Label("a" * 230)).text) == 255
    with pytest.raises(InvalidFilename):
        with_label(plain, Label("a" * 231))


def test_the_name_of_the_index_file() -> None:
    """F-70: name and version are spelled as in wheel file names."""
    name = index_file_name("Foo.Bar-baz", Version("1.0.RC1+local.1"))
    assert name == "foo_bar_baz-1.0rc1+local.1-variants.json"
    assert parse_index_file_name(name) == ("foo-bar-baz", Version("1.0rc1+local.1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("foo_bar-1.0-variants.json", ("foo-bar", Version("1"))),
        ("Foo.Bar-1.0-variants.json", ("foo-bar", Version("1.0.0"))),
        ("foo-bar-1.0-variants.json", None),
        ("foo-1.0-1-variants.json", ("foo", Version("1.0.post1"))),
        ("foo-variants.json", None),
        ("foo-1.0.json", None),
        ("-1.0-variants.json", None),
        ("foo--variants.json", None),
        ("foo-1.0-variants.JSON", None),
        ("foo- 1.0-variants.json", None),
        ("../foo-1.0-variants.json", None),
    ],
)
def test_reading_the_name_of_an_index_file(text: str, expected: tuple[str, Version] | None) -> None:
    """F-78: split at the first hyphen, normalise the name, compare versions by value."""
    assert parse_index_file_name(text) == expected


def test_whose_file_it_is() -> None:
    """What an index lists is decided by names alone."""
    assert release_of("Some.Thing-1.0-py3-none-any-cu128.whl") == ("some-thing", Version("1"))
    assert release_of("some_thing-1.0-variants.json") == ("some-thing", Version("1"))
    assert release_of("some_thing-1.0.tar.gz") == ("some-thing", Version("1"))
    assert project_of("some_thing-1.0.zip") == "some-thing"
    for name in ("some.whl", "index.html", f"some-{'1' * 5000}.tar.gz"):
        assert release_of(name) is None
        assert project_of(name) is None
