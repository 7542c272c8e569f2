"""Options of a choice, written as words and read again."""

from __future__ import annotations

import pytest

from wheelfit.operations.machine import options_in_effect, read_options
from wheelfit.operations.requests import MachineOptions, VariantOptions


class ChoiceOptions(MachineOptions, VariantOptions):
    """All options that a choice depends on."""


@pytest.mark.parametrize(
    "options",
    [
        ChoiceOptions(),
        ChoiceOptions(prefer=("nvidia", "x86_64 :: level"), label=("torch=cu128",)),
        ChoiceOptions(devices="lowest", rocm_compat="same-major", no_variants=True),
        ChoiceOptions(disable_provider=("amd",), variant=("cpu",), tpu_generation=True),
    ],
)
def test_words_are_read_back(options: ChoiceOptions) -> None:
    """Options written as words have the same values when they are read."""
    words = [word for text in options_in_effect(options) for word in text.split(" ", 1)]
    assert ChoiceOptions(**read_options(words)) == options


@pytest.mark.parametrize(
    "words",
    [
        ["--no-such-option"],
        ["--help"],
        ["--prefer"],
        ["--devices"],
        ["--devices", "some"],
        ["word"],
        ["--no-variants", "word"],
    ],
)
def test_other_words(words: list[str]) -> None:
    """A word that is not an option of a choice, a value that does not exist, or none."""
    with pytest.raises(ValueError, match="is not an option of a choice"):
        read_options(words)
