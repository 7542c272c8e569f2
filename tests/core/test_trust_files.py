"""What is trusted and allowed, as TOML."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from error_codes import raises_code
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from wheelfit.core.trust import PolicyFile, Trust, TrustedFile, TrustEntry
from wheelfit.core.trust_files import format_trust, read_policy, read_trust
from wheelfit_runtime.error_codes import Code
from wheelfit_runtime.errors import InvalidConfiguration

DIGEST = "0123456789abcdef" * 4
FILE = f'{{ filename = "acme_provider-1.2-py3-none-any.whl", sha256 = "{DIGEST}" }}'
ENTRY = f'[[trusted]]\npackage = "Acme.Provider"\nfiles = [{FILE}]\n'


def entry() -> TrustEntry:
    """Make what `ENTRY` says."""
    file = TrustedFile("acme_provider-1.2-py3-none-any.whl", DIGEST)
    return TrustEntry(canonicalize_name("acme-provider"), SpecifierSet(), (file,))


def test_reading() -> None:
    """P-18: every key is understood; names are normalised."""
    text = (
        'version = 1\nenable-provider = ["a"]\ndisable-provider = ["b"]\n'
        '[[trusted]]\npackage = "Acme.Provider"\nversions = ">=1,<2"\nnamespace = "acme"\n'
        'plugin-api = "acme_provider : Plugin"\nsource = "https://x"\nadded = 2026-11-22\n'
        f"files = [{FILE}]\n"
    )
    expected = structs.replace(
        entry(),
        versions=SpecifierSet(">=1,<2"),
        namespace="acme",
        plugin_api="acme_provider:Plugin",
        source="https://x",
        added="2026-11-22",
    )
    assert read_trust(text.encode(), "f") == Trust((expected,), frozenset({"a"}), frozenset({"b"}))


def test_an_empty_file_trusts_nothing() -> None:
    """P-18: as does one with comments only."""
    assert read_trust(b"# nothing\n", "f") == Trust()


POLICY = b'version = 1\nplugins = "listed"\ndisable-provider = ["a"]\nignore-static = [":all:"]\n'


def test_reading_a_policy() -> None:
    """P-18: every key is understood."""
    text = POLICY + b"no-env-override = true\nforbid-trust-all = true\n" + ENTRY.encode()
    assert read_policy(text, "p", grants_trust=True) == PolicyFile(
        "p",
        "listed",
        (entry(),),
        frozenset({"a"}),
        frozenset({":all:"}),
        no_env_override=True,
        forbid_trust_all=True,
        grants_trust=True,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version =", "is not TOML"),
        ("plugins = 1", "plugins"),
        ('enable-provider = ["a"]', "version must be 1"),
        ("version = 2", "version must be 1"),
        ("version = true", "version must be 1"),
        ("version = 1\ntrust = 1", "trust is an unknown key"),
        ("version = 1\ntrusted = 1", "trusted must be a list of tables"),
        ('version = 1\ndisable-provider = "a"', "disable-provider must be a list of strings"),
        ('version = 1\ndisable-provider = ["A-B"]', "disable-provider[0] is not a valid namespace"),
        ("version = 1\n[[trusted]]\nfiles = []", "trusted[0].package is missing"),
        ('version = 1\n[[trusted]]\npackage = "a"', "trusted[0].files has no wheel of a"),
        (f'version = 1\n{ENTRY}hash = "x"', "trusted[0].hash is an unknown key"),
        (f'version = 1\n{ENTRY}versions = "one"', "trusted[0].versions is not a version specifier"),
        (f'version = 1\n{ENTRY}versions = ""', "trusted[0].versions must not be empty"),
        (f'version = 1\n{ENTRY}namespace = "A"', "trusted[0].namespace is not a valid namespace"),
        (f'version = 1\n{ENTRY}plugin-api = "a b"', "trusted[0].plugin-api must be of the form"),
        (f"version = 1\n{ENTRY.replace(DIGEST, 'abc')}", "sha256 must be a SHA-256"),
        (f"version = 1\n{ENTRY.replace('any.whl', 'any-label.whl')}", "is a variant wheel"),
        (f"version = 1\n{ENTRY.replace('any.whl', 'any.zip')}", "is not the name of a wheel"),
        (f"version = 1\n{ENTRY.replace('Acme.Provider', 'other')}", "has no wheel of other"),
        (f"version = 1\n{ENTRY.replace(FILE, f'{FILE}, {FILE}')}", "is listed more than once"),
        (f"version = 1\n{ENTRY.replace('sha256', 'sha512')}", "sha512 is an unknown key"),
    ],
)
@pytest.mark.parametrize(
    ("read", "code"),
    [
        (read_trust, "invalid-configuration"),
        (lambda data, where: read_policy(data, where, grants_trust=True), "unusable-policy"),
    ],
)
def test_refused(read: Callable[[bytes, str], object], code: Code, text: str, words: str) -> None:
    """P-18: what is misspelt is an error that names the file and the key, never a note."""
    if words == "plugins" and code == "unusable-policy":
        words = "version must be 1"
    if text.startswith("enable") and code == "unusable-policy":
        words = "enable-provider is an unknown key"
    with raises_code(code) as excinfo:
        read(text.encode(), "file.toml")
    assert words in excinfo.value.message
    assert str(excinfo.value.where).startswith("file.toml")


def test_the_line_is_told() -> None:
    """P-18: whoever wrote a long policy finds the place."""
    with raises_code("unusable-policy") as excinfo:
        read_policy(b'version = 1\n\nplugins = "nevr"\n', "p.toml", grants_trust=True)
    assert excinfo.value.where == "p.toml, line 3"
    assert excinfo.value.exit_code == 7


def test_twice_the_same() -> None:
    """P-18: two entries for one package and namespace would contradict each other."""
    with pytest.raises(InvalidConfiguration, match="acme-provider more than once"):
        read_trust(f"version = 1\n{ENTRY}{ENTRY}".encode(), "f")


NAMES = st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
FILES = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}-[0-9]{1,2}-py3-none-any\.whl", fullmatch=True),
    st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
    max_size=3,
)


@st.composite
def trusts(draw: st.DrawFn) -> Trust:
    """Draw any trust there can be."""
    entries: dict[str, TrustEntry] = {}
    for package in draw(st.sets(st.from_regex(r"[a-z]{1,6}", fullmatch=True), max_size=3)):
        files = {f"{package}-1-py3-none-any.whl": DIGEST, **draw(FILES)}
        entries[package] = TrustEntry(
            canonicalize_name(package),
            SpecifierSet(draw(st.sampled_from(["", ">=1,<2", "==1.0", "!=3"]))),
            tuple(TrustedFile(name, digest) for name, digest in sorted(files.items())),
            draw(st.none() | NAMES),
            draw(st.none() | st.just("some.module:Plugin")),
            source=draw(TEXTS),
            added=draw(st.sampled_from(["", "2026-11-22"])),
        )
    ordered = tuple(entries[package] for package in sorted(entries))
    return Trust(ordered, draw(st.frozensets(NAMES)), draw(st.frozensets(NAMES)))


@given(trusts())
def test_written_and_read(trust: Trust) -> None:
    """P-18: whatever is written is read again as the same."""
    assert read_trust(format_trust(trust).encode(), "f") == trust


def test_what_is_no_text() -> None:
    """P-18: a source with bytes that are no text, as folders can have, is written readably."""
    trust = Trust((structs.replace(entry(), source="/wheels\udcff"),))
    assert read_trust(format_trust(trust).encode(), "f").entries[0].source == "/wheels\\udcff"
