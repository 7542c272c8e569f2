"""What fuzzing has found stays repaired; each test is one finding in its shortest form."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from packaging.markers import Marker as PackagingMarker
from packaging.utils import canonicalize_name

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.marker_grammar import Comparison, Literal, Variable
from wheelfit.core.markers import Marker, VariantContext, parse_marker
from wheelfit.core.metadata import check_document, read_document
from wheelfit.core.properties import Feature
from wheelfit.errors import InvalidFilename, InvalidMarker
from wheelfit.locking.document import Lock, read_lock
from wheelfit.sources.page import ProjectPage
from wheelfit.sources.simple_api import parse_page
from wheelfit.sources.urls import origin
from wheelfit_runtime.errors import InvalidLock, InvalidPage

HOST = "https://variants-schema.wheelnext.dev"
DRAFTS = ["peps/9999/v0.2.0.json", "peps/825/v0.1.0.json", "v0.0.3.json", "v0.0.2.json"]


def document(draft: str, **more: Any) -> dict[str, Any]:
    """Make a small document."""
    return {
        "$schema": f"{HOST}/{draft}",
        "default-priorities": {"namespace": ["x"]},
        "providers": {"x": {"requires": ["x-plugin"]}},
        "variants": {"one": {"x": {"a": ["1"]}}},
        **more,
    }


class TestDocuments:
    """Documents."""

    @pytest.mark.parametrize("draft", DRAFTS)
    def test_a_preferred_feature_that_is_none(self, draft: str) -> None:
        """F-2, F-49, F-131: a prefix with a feature nobody can have is a fault, and no crash."""
        prefixes = {"x": {"Capital": ["1"], "a": ["2"]}}
        priorities = {"namespace": ["x"], "property": prefixes}
        made = document(draft, **{"default-priorities": priorities})
        path = "default-priorities.property.x.Capital"
        assert (path, "F-2") in [(fault.path, fault.rule) for fault in check_document(made)]
        read = read_document(made, where="x")
        assert read.value_priorities == {Feature("x", "a"): ("2",)}
        assert any(note.startswith(f"{path}: ") for note in read.notes)

    def test_an_unknown_built_in_provider(self) -> None:
        """P-8, F-136: the name of a stranger's provider fits into one line of a note."""
        name = "a\n" + "b" * 1000
        made = document("peps/850/v0.2.0.json", providers={"x": {"builtin": name}})
        (note,) = read_document(made, where="x").notes
        assert note.isprintable()
        assert len(note) < 200

    def test_a_long_key(self) -> None:
        """A key as long as the document allows does not fill the terminal."""
        made = document("peps/850/v0.2.0.json", variants={"A" * 100_000: {}})
        (fault,) = check_document(made)
        assert len(str(fault)) < 400
        (note,) = read_document(made, where="x").notes
        assert len(note) < 200


class TestMarkers:
    """Markers."""

    def test_a_long_word(self) -> None:
        """A word that is not a variable is quoted in part only."""
        with pytest.raises(InvalidMarker) as excinfo:
            parse_marker("a" * 9000)
        assert len(str(excinfo.value)) < 200

    def test_what_is_no_text(self) -> None:
        """A lone surrogate in a string is refused, as in packaging."""
        with pytest.raises(InvalidMarker):
            parse_marker("os_name == '\udc80'")

    def test_a_surrogate_is_written_as_an_escape(self) -> None:
        """B-40: what was read from an escape can be written into a metadata file."""
        marker = parse_marker(r"'nvidia' in variant_namespaces or os_name == '\ud800\n'")
        rest = marker.resolve_variants(VariantContext.PLAIN)
        assert str(rest).encode() == rb'os_name == "\ud800\n"'

    @pytest.mark.parametrize("value", ["\ud800", "\udfff'\"", "a\\\n\r\0"])
    def test_any_value_survives_writing(self, value: str) -> None:
        """Whatever a string holds is written as text, and reads back equal."""
        marker = Marker(Comparison(Variable("os_name"), "==", Literal(value)))
        assert parse_marker(str(marker)) == marker
        assert str(marker).encode()

    @pytest.mark.parametrize("extra", ["", "a-b"])
    @pytest.mark.parametrize(
        "text",
        ["'' == 'os_name'", "'nt' == 'os_name'", "'3' < 'python_version'", "'a-b' == 'extra'"],
    )
    def test_a_string_that_names_a_variable(self, text: str, extra: str) -> None:
        """F-100: two strings are compared as packaging does: the right one is looked up."""
        environment = {"os_name": "nt", "python_version": "3.13"}
        theirs = PackagingMarker(text).evaluate({**environment, "extra": extra})
        assert parse_marker(text).evaluate(environment, {extra, "c"}) == theirs

    def test_nul_before_a_digit(self) -> None:
        """B-40: what is written reads back equal, whatever stands behind an escape."""
        marker = parse_marker(r"os_name == '\x003'")
        assert parse_marker(str(marker)) == marker

    def test_octal_escapes_beyond_a_byte(self) -> None:
        """They mean what they mean in packaging, and nothing is said about them."""
        text = r"os_name == 'a\500\7774\18'"
        environment = {"os_name": "a\u0140\u01ff4\x018"}
        assert parse_marker(text).evaluate(environment)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # packaging lets Python speak
            assert PackagingMarker(text).evaluate(environment)


LOCK = 'lock-version = "1.0"\ncreated-by = "x"\n'


class TestLocks:
    """Lock files."""

    @pytest.mark.parametrize("version", ["1.7rc1.post0", "1+x", "2.0.dev1", " 1.1 "])
    def test_odd_versions(self, version: str, caplog: pytest.LogCaptureFixture) -> None:
        """F-136: that a lock is newer is said in a note, and by no library on the terminal."""
        lock = Lock.of({"lock-version": version, "created-by": "x", "packages": []})
        (note,) = lock.notes
        assert version.strip() in note
        assert note.isprintable()
        assert not caplog.records

    def test_unknown_escapes(self) -> None:
        """F-136: a marker with an escape that Python does not know makes nobody speak."""
        text = LOCK + "environments = [\"sys_platform == 'l\\\\inux'\"]\npackages = []\n"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read_lock(text.encode(), where="x").notes == ()

    def test_a_marker_that_is_none(self) -> None:
        """F-136: what is wrong with one is said in a line."""
        text = LOCK + 'environments = ["sys_platform == \'linux"]\npackages = []\n'
        with pytest.raises(InvalidLock) as excinfo:
            read_lock(text.encode(), where="x")
        (fault,) = excinfo.value.faults
        assert fault.path == "environments[0]"
        assert fault.message.isprintable()

    def test_a_long_name(self) -> None:
        """F-12: a name that cannot be one is quoted in part only."""
        with pytest.raises(InvalidFilename) as excinfo:
            parse_wheel_filename(f"{'a' * 9000}-{'b' * 9000}-py3-none-any.whl")
        assert len(str(excinfo.value)) < 700


def page(*entries: dict[str, str]) -> ProjectPage:
    """Parse a JSON page."""
    body = json.dumps({"files": entries}).encode()
    return parse_page(body, "application/json", "https://h/simple/a/", canonicalize_name("a"))


class TestPages:
    """Pages of the Simple API."""

    @pytest.mark.parametrize("character", ["\x85", "\x9b", "\u2028", "\u202e", "\u200b"])
    def test_names_that_cannot_be_shown(self, character: str) -> None:
        """F-136: a name with a character that is not printed is ignored with a note."""
        name = f"a-1{character}-py3-none-any.whl"
        found = page({"filename": name, "url": "a.whl"})
        assert found.files == ()
        (note,) = found.notes
        assert note.isprintable()

    def test_words_that_cannot_be_shown(self) -> None:
        """PEP 592, PEP 792: what a stranger says stands in one line and steers no terminal."""
        body = {
            "files": [{"filename": "a-1.zip", "url": "a-1.zip", "yanked": "a\n\x1b[2Jb\u202e"}],
            "project-status": {"status": "quarantined\x9b", "reason": "c\x7fd"},
        }
        name = canonicalize_name("a")
        found = parse_page(json.dumps(body).encode(), "application/json", "https://h/a/", name)
        assert found.files[0].yanked == "a \ufffd[2Jb\ufffd"
        assert found.notes == ("the project is quarantined\ufffd: c\ufffdd",)

    def test_a_base_without_a_meaning(self) -> None:
        """PEP 503: links of a page that starts them nowhere are no URLs, and ignored."""
        body = b"<base href='t:x'><a href='//h/a-1.tar.gz'>a-1.tar.gz</a>"
        found = parse_page(body, "text/html", "https://h/simple/a/", canonicalize_name("a"))
        assert found.files == ()
        assert found.notes == ("ignored a link that is not a URL",)
        with pytest.raises(ValueError, match="no scheme"):
            origin("//h/a-1.tar.gz")

    def test_a_link_that_is_a_host(self) -> None:
        """PEP 503: two slashes begin a host, whatever the name of the host looks like."""
        urls = ["//a-1.tar.gz", "https://a-1.tar.gz", "HTTPS://a-1.tar.gz"]
        found = page(*({"filename": "a-1.tar.gz", "url": url} for url in urls))
        assert {file.url for file in found.files} == {"https://a-1.tar.gz"}

    def test_a_version_is_quoted(self) -> None:
        """PEP 629: what the page says of its version cannot break the line of the error."""
        body = json.dumps({"meta": {"api-version": "2\n\x9b"}, "files": []}).encode()
        with pytest.raises(InvalidPage, match="uses version '2") as excinfo:
            parse_page(body, "application/json", "https://h/", canonicalize_name("a"))
        assert str(excinfo.value).isprintable()
