"""The glossary explains the nouns of public names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import wheelfit
import wheelfit_runtime
from wheelfit.cli.commands import working_commands

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
VERBS = """
accept add added allow ask at attest break broken built changed checked clean clear convert
copied create created damaged debug delete deny diff disable drop edits emulate enable exclude
excluded expires explain failed fake fetched find forbid force freeze frozen generate going hashed
held ignore import imported initialize inspect install installed invert keep left load losses lost
make missing mixed open outdated owned prefer prefetch probe prune publish published quiet raw read
rebuild recover refit refused reinstall relabel remove removed rename repair replace replay require
requires reserved resolve restricted resumed revoke revoked rewrite save select
serve set shared shipped show skip split strip sync truncated trusted uninstall unmake
untrust unyank update upgrade uploaded validate verify warn with written
"""
QUALITIES = """
compat dev empty existing first full incompatible incomplete inexact local max newer newest offline
older optional private public strict unchecked unknown unlisted unmatched unreadable
unreferenced verbose vulnerable
"""
EVERYDAY = """
against all back bar by choices count demo depth for from here info init list method name new no
note notes one only out overwrite per pip prior python reason results seconds since size sizes
than to until uv wheelfit why yes
"""
PLAIN = {*VERBS.split(), *QUALITIES.split(), *EVERYDAY.split()}
"""Words that are no terms, or programs' names."""


def words_of(name: str) -> Iterator[str]:
    """Yield the words of a name, in lower case."""
    for word in re.findall(r"[A-Z]+(?![a-z])|[A-Za-z][a-z0-9]*", name):
        yield word.lower()


def public_names() -> Iterator[str]:
    """Yield the names of the Python API, commands, options, and keys of JSON documents."""
    yield from (*wheelfit.__all__, *wheelfit_runtime.__all__)
    for name, command in working_commands().items():
        yield name
        for option in command.command_line_options():
            yield from (name for name in option.names if name.startswith("--"))
    for path in REFERENCE.glob("schemas/*.json"):
        yield from json.loads(path.read_bytes()).get("properties", ())


def explained_words() -> set[str]:
    """Return the words that the tables of the glossary explain, in lower case."""
    page = (REFERENCE / "glossary.md").read_text(encoding="utf-8")
    terms, usual = page.split("\n## ")
    columns = re.findall(r"^\| ([^|]+) \|", terms, re.MULTILINE)
    columns += re.findall(r"^\| [^|]+ \| ([^|]+) \|$", usual, re.MULTILINE)
    return {word.lower() for text in columns for word in re.findall(r"[\w-]+", text)}


def forms(word: str) -> set[str]:
    """Return a word as it is, and in the singular."""
    endings = {"ies": "y", "es": "", "s": ""}
    return {word} | {
        word.removesuffix(plural) + single
        for plural, single in endings.items()
        if word.endswith(plural)
    }


def test_nouns_of_public_names_are_explained() -> None:
    """Each word of a public name that is a term stands in the glossary."""
    explained = explained_words()
    named = {word: name for name in public_names() for word in words_of(name)}
    assert len(named) > 300
    unexplained = {
        word: name
        for word, name in named.items()
        if word not in PLAIN and not forms(word) & explained
    }
    assert not unexplained, f"add to glossary.md, or here to the words of no term: {unexplained}"
    assert PLAIN - named.keys() == set(), "words that no name has any more"


def test_terms_are_in_order_and_have_a_source() -> None:
    """The terms are sorted, each stands once, and each has a meaning and a source."""
    page = (REFERENCE / "glossary.md").read_text(encoding="utf-8").partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+) \| (.+) \|$", page, re.MULTILINE)[1:]
    terms = [term.lower() for term, _, _ in rows]
    assert len(terms) > 100
    assert terms == sorted(set(terms))
    assert page.count("\n| ") == len(rows) + 1
