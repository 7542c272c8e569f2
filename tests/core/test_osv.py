"""Records of the OSV schema, and the versions that they affect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from packaging.version import Version

from wheelfit.core.osv import LARGEST_RECORD, read_record


def record(*events: dict[str, str], name: str = "some", **more: Any) -> bytes:
    """Return a record with one range of a project."""
    affected = {
        "package": {"ecosystem": "PyPI", "name": name},
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}] if events else [],
        "versions": more.pop("versions", []),
    }
    return json.dumps({"id": "PYSEC-2026-1", "affected": [affected], **more}).encode()


@pytest.mark.parametrize(
    ("events", "affected", "sound"),
    [
        ([{"introduced": "0"}, {"fixed": "2.2.18"}], "0.1.dev1 2.2.17 2.2.18rc1", "2.2.18 3"),
        ([{"introduced": "1"}, {"last_affected": "2.0"}], "1.0 2 2.0.0+cu128", "0.9 2.0.1"),
        # Intervals, in whatever order they are written.
        (
            [{"fixed": "1.5"}, {"introduced": "2.0"}, {"introduced": "1.0"}, {"fixed": "2.1"}],
            "1.0 1.4 2.0",
            "0.9 1.5 1.9 2.1",
        ),
        # One version alone; and what is fixed and begins again at once.
        ([{"introduced": "1.0"}, {"last_affected": "1.0"}], "1.0", "0.9 1.0.1"),
        ([{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "1.0"}], "0.5 1.0 2", ""),
        ([{"introduced": "0"}], "0.0.1 99", ""),
        ([{"introduced": "1"}, {"limit": "3"}], "1 2.9", "3 4"),
        # A bound that is no version makes a range larger, not smaller.
        ([{"introduced": "unknown"}, {"fixed": "2.0"}], "1.0", "2.0"),
        ([{"introduced": "1.0"}, {"fixed": "a commit"}], "1.0 9", "0.9"),
        ([{"introduced": "1"}, {"limit": "3"}, {"limit": "*"}], "1 2.9 4", "0.9"),
    ],
)
def test_ranges(events: list[dict[str, str]], affected: str, sound: str) -> None:
    """A version is affected or not as the schema evaluates events."""
    (vulnerability,) = read_record(record(*events))
    versions = vulnerability.affected()
    assert [text for text in affected.split() if Version(text) not in versions] == []
    assert [text for text in sound.split() if Version(text) in versions] == []


def test_listed_versions() -> None:
    """Versions that are listed count however they are spelled; what is no version does not."""
    (one,) = read_record(record(versions=["1.0", "2.0-final-ish", "1.1+local", "0"]))
    affected = one.affected()
    assert Version("0.0") in affected
    assert Version("1.0.0") in affected
    assert Version("1.0.0+cu128") in affected
    assert Version("1.1") not in affected


def test_what_a_record_says() -> None:
    """Names are normalised, other ecosystems and commits left out, texts bounded."""
    data = json.loads(record({"introduced": "0"}, {"fixed": "2"}, {"fixed": "10"}, name="So.Me"))
    data["affected"].append({"package": {"ecosystem": "npm", "name": "other"}, "versions": ["1"]})
    data["affected"].append({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]})
    data |= {"aliases": ["CVE-2026-1"], "summary": "a\nb", "details": "x" * 100_000}
    data |= {"withdrawn": None, "severity": [{"type": "CVSS_V3", "score": "9"}]}
    (one,) = read_record(json.dumps(data).encode())
    assert (one.project, one.aliases, one.summary) == ("so-me", ("CVE-2026-1",), "a b")
    assert one.fixed_in == ("2", "10")
    assert one.link == "https://osv.dev/vulnerability/PYSEC-2026-1"
    assert len(one.details) < 10_000
    assert one.withdrawn is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"id": ""}',
        b'{"id": 3}',
        b"\xff",
        b'{"id": "a", "affected": ' + b"[" * 100_000,
        b'{"id": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        record(versions=["1"] * 30_000),
        b" " * (LARGEST_RECORD + 1),
    ],
)
def test_what_is_no_record(data: bytes) -> None:
    """It is refused with a reason, whatever it is."""
    with pytest.raises(ValueError, match=r"\S"):
        read_record(data)
