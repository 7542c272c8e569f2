"""Index files that mean harm: ``-variants.json`` beside a good plain wheel (F-30, F-130)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hostile.conftest import Site
from hostile.sampling import mostly_corpora
from hostile.shelf import Endless

from wheelfit.server.messages import Response
from wheelfit.testing.wheels import SCHEMA, build_wheel, release_document

INDEX_FILE = "demo-2-variants.json"
STATIC = {"blas": {"library": ["mkl", "openblas"]}}
DOCUMENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}, "null": {}},
    static=STATIC,
)
TEXT = json.dumps(DOCUMENT)


@pytest.fixture(autouse=True)
def flat(site: Site) -> None:
    """Be quick: nothing here depends on the kind of environment."""
    site.flat = True


@pytest.fixture
def release(site: Site) -> Site:
    """Put a release with a variant wheel and a plain one on the index."""
    site.shelf.put(build_wheel(site.wheels, "demo", "2", label="mkl", document=DOCUMENT))
    site.shelf.put(build_wheel(site.wheels, "demo", "2"))
    return site


def document(**changes: object) -> bytes:
    """Return the sound document with some keys changed."""
    return json.dumps({**DOCUMENT, **changes}).encode()


def nested(depth: int) -> bytes:
    """Return a document with something deep in it."""
    return TEXT[:-1].encode() + b',"x":' + b"[" * depth + b"]" * depth + b"}"


UNUSABLE: Mapping[str, bytes] = {
    "not JSON": b"{",
    "empty": b"",
    "HTML": b"<!DOCTYPE html><title>log in</title>",
    "a list": b"[]",
    "a number": b"1",
    "text behind": TEXT.encode() + b"{}",
    "two documents": TEXT.encode() * 2,
    "a byte order mark": b"\xef\xbb\xbf" + TEXT.encode(),
    "UTF-16": TEXT.encode("utf-16"),
    "not UTF-8": TEXT.encode().replace(b"openblas", b"\xff\xfe"),
    "a lone surrogate": TEXT.replace("openblas", "\\ud800").encode(),
    "NUL": TEXT.encode() + b"\0",
    "NaN": TEXT[:-1].encode() + b',"x":NaN}',
    "Infinity": TEXT[:-1].encode() + b',"x":-Infinity}',
    "a number without end": TEXT[:-1].encode() + b',"x":' + b"9" * 100_000 + b"}",
    "a label twice": TEXT.replace('"null": {}', '"mkl": {}').encode(),
    "a key twice at the top": TEXT[:-1].encode() + b',"variants":{}}',
    "a key twice, escaped": TEXT[:-1].encode() + b',"v\\u0061riants":{}}',
    "a key twice, deep": TEXT.replace(
        '{"library": ["mkl"]}', '{"library":[],"library":["mkl"]}'
    ).encode(),
    "depth 9": nested(8),
    "depth 100,000": nested(100_000),
    "depth 100,000, objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "depth without end": b"[" * 3_000_000,
    "200,000 labels": document(variants={f"l{n}": {} for n in range(200_000)}),
    "1,000,000 values": document(x=[["a"] * 1000] * 1000),
    "1,000,000 values of a property": document(
        variants={"mkl": {"blas": {"library": [f"v{n}" for n in range(250_000)]}}}
    ),
    "5 MiB": TEXT.encode() + b" " * (5 << 20),
    "no schema that is known": document(**{"$schema": "https://example.invalid/v0.2.0.json"}),
    "a schema on a foreign host": document(
        **{"$schema": SCHEMA.replace("wheelnext.dev", "wheelnext.dev.evil.invalid")}
    ),
    "a schema with a login": document(
        **{"$schema": SCHEMA.replace("https://", "https://variants-schema.wheelnext.dev@evil/")}
    ),
    "a schema over http": document(**{"$schema": SCHEMA.replace("https", "http")}),
    "a schema that is a file": document(**{"$schema": "file:///peps/850/v0.2.0.json"}),
    "an unknown major": document(**{"$schema": SCHEMA.replace("v0.2.0", "v9.0.0")}),
    "an unknown draft": document(**{"$schema": SCHEMA.replace("v0.2.0", "v0.9.0")}),
    "an endless major": document(
        **{"$schema": SCHEMA.replace("v0.2.0", "v" + "9" * 5000 + ".0.0")}
    ),
    "a schema that is a list": document(**{"$schema": [SCHEMA]}),
    "priorities that are text": document(**{"default-priorities": "blas"}),
    "variants that are a list": document(variants=["mkl"]),
    "no variants": json.dumps({k: v for k, v in DOCUMENT.items() if k != "variants"}).encode(),
}


@pytest.mark.parametrize("label", UNUSABLE)
def test_the_plain_wheel_is_taken(release: Site, label: str) -> None:
    """F-130: metadata that cannot be used costs the variants and nothing else, with a warning."""
    release.shelf.put(UNUSABLE[label], INDEX_FILE, metadata=False)
    result = release.run("install", "demo")
    assert release.installed() == {"demo": None}
    assert "warning: " in result.err
    assert "F-" in result.err or "variant wheels are ignored" in result.err
    assert len(result.err) < 4000
    assert {request.path for request in release.index.requests} <= {
        "/simple/demo/",
        f"/files/{INDEX_FILE}",
        "/files/demo-2-py3-none-any.whl",
        "/files/demo-2-py3-none-any.whl.metadata",
    }


@pytest.mark.parametrize("label", mostly_corpora(UNUSABLE))
def test_it_is_an_error_when_strict(release: Site, label: str) -> None:
    """F-130: with ``--strict`` it is an error (exit code 8), and nothing is installed."""
    release.shelf.put(UNUSABLE[label], INDEX_FILE, metadata=False)
    said = release.refused("--strict", "demo", code=8)
    assert INDEX_FILE in said.error["where"]
    assert len(said.out) < 20_000


def test_the_sound_one_counts(release: Site) -> None:
    """Without an attack the variant is taken: the fallbacks above are no accidents."""
    release.shelf.put(TEXT.encode(), INDEX_FILE, metadata=False)
    release.run("install", "demo")
    assert release.installed() == {"demo": "mkl"}


class TestSize:
    """What is too long is not read to its end (F-30)."""

    @pytest.mark.parametrize("promised", [True, False])
    def test_an_endless_body(self, release: Site, promised: bool) -> None:  # noqa: FBT001
        """Reading stops at a bound, whatever length is announced."""
        release.shelf.put(TEXT.encode(), INDEX_FILE, metadata=False, hashes=promised, size=False)
        place = f"/files/{INDEX_FILE}"
        release.shelf.answers[place] = Response(
            200, {"content-type": "application/json"}, Endless(), length=1 << 50
        )
        release.run("install", "demo")
        assert release.installed() == {"demo": None}
        assert release.index.bytes_sent(INDEX_FILE) < 12 << 20  # what lies in buffers counts too

    def test_longer_than_promised(self, release: Site) -> None:
        """F-79: a file that is not the one promised is not used."""
        release.shelf.put(TEXT.encode(), INDEX_FILE, metadata=False)
        release.shelf.bodies[f"/files/{INDEX_FILE}"] = TEXT.encode() + b" "
        release.run("install", "demo")
        assert release.installed() == {"demo": None}

    def test_a_bomb(self, release: Site) -> None:
        """A small body that unpacks to far more is given up at the bound."""
        import zlib

        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(40)) + packer.flush()
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        release.shelf.put(TEXT.encode(), INDEX_FILE, metadata=False, hashes=False, size=False)
        release.shelf.answers[f"/files/{INDEX_FILE}"] = Response.of(200, packed, headers)
        release.run("install", "demo")
        assert release.installed() == {"demo": None}


class TestPartly:
    """Documents of which a part is wrong (F-130)."""

    @pytest.mark.parametrize(
        "labels",
        [
            {"..": {}},
            {"x" * 300: {}},
            {"MKL": {}},
            {"a b": {}},
            {"a\u200bb": {}},
            {"a\nb": {}},
            {"\x1b[2J": {}},
            {"evil": "text"},
            {"evil": {"blas": {"library": []}}},
            {"evil": {"blas": {"library": ["m\u212al"]}}},
            {"evil": {"blas": {"library": ["mkl "]}}},
            {"evil": {"blas": {"library": ["../mkl"]}}},
            {"evil": {"blas": {"library": ["x" * 100_000]}}},
            {"evil": {"blas": {"library": [{"a": 1}]}}},
            {"evil": {"bl\u0430s": {"library": ["mkl"]}}},
            {"evil": {"BLAS": {"library": ["mkl"]}}},
            {"evil": {"blas :: library": {"mkl": ["mkl"]}}},
            {"evil": {"unlisted": {"library": ["mkl"]}}},
            {"evil": {"nvidia": {"cuda_version_lower_bound": ["9" * 5000]}}},
            {"evil": {"nvidia": {"cuda_version_lower_bound": ["12." + "9" * 5000]}}},
            {"evil": {"x86_64": {"level": ["v" + "9" * 5000]}}},
        ],
        ids=ascii,
    )
    def test_a_bad_label_costs_itself(self, release: Site, labels: dict[str, Any]) -> None:
        """F-130: a label that is wrong is not used; the others are."""
        changed = {**DOCUMENT, "variants": {**DOCUMENT["variants"], **labels}}  # type: ignore[dict-item]
        release.shelf.put(json.dumps(changed).encode(), INDEX_FILE, metadata=False)
        name = next(iter(labels))
        if name == "evil":
            wheel = build_wheel(release.wheels, "demo", "2", label="evil", document=changed)
            release.shelf.put(wheel)
        result = release.run("install", "demo")
        assert release.installed() == {"demo": "mkl"}
        assert "\x1b" not in result.out + result.err
        told = release.run("explain", "demo")
        assert "\x1b" not in told.out + told.err

    @pytest.mark.parametrize(
        "provider",
        [
            {},
            {"requires": "evil"},
            {"requires": ["evil @ file:///evil"], "plugin-api": "evil:Plugin"},
            {"requires": ["evil"], "plugin-api": "os:system"},
            {"requires": ["evil; " + "(" * 10_000], "plugin-api": "evil"},
            {"requires": ["evil==" + "9" * 5000], "plugin-api": "evil"},
            {"requires": ["evil"], "plugin-api": "../evil"},
            {"builtin": "nobody knows it"},
            {"builtin": {"a": 1}},
            {"static-properties": "library"},
            {"requires": ["evil"], "enable-if": "(" * 10_000},
            {"requires": ["evil"], "enable-if": 'python_version > "' + "9" * 5000 + '"'},
            [],
            None,
        ],
        ids=lambda value: ascii(value)[:60],
    )
    def test_a_bad_provider_costs_its_namespace(self, release: Site, provider: object) -> None:
        """P-14, F-130: what it needs is neither fetched nor run; other namespaces work."""
        changed = {
            **DOCUMENT,
            "default-priorities": {"namespace": ["evil", "blas"]},
            "providers": {**DOCUMENT["providers"], "evil": provider},  # type: ignore[dict-item]
            "variants": {**DOCUMENT["variants"], "evil": {"evil": {"a": ["b"]}}},  # type: ignore[dict-item]
        }
        release.shelf.put(json.dumps(changed).encode(), INDEX_FILE, metadata=False)
        release.shelf.put(build_wheel(release.wheels, "demo", "2", label="evil", document=changed))
        result = release.run("install", "demo")
        assert release.installed() == {"demo": "mkl"}
        assert "evil" in release.run("explain", "demo").out + result.err
        assert not release.index.requests_for("/simple/evil/")


class TestLabels:
    """Labels that would mean something as part of a path (F-3, F-4)."""

    @pytest.mark.parametrize("label", ["..", ".", "con", "nul.", "com1.txt", "...", "x" * 200])
    @pytest.mark.parametrize("kept", [True, False])
    def test_they_are_only_names(self, site: Site, label: str, *, kept: bool) -> None:
        """F-4: they are taken like any other, and no path is made of them."""
        made = release_document({label: {"blas": {"library": ["mkl"]}}}, static=STATIC)
        text = json.dumps(made).encode()
        own = build_wheel(site.wheels, "demo", "2", label="stub", document=text)
        site.shelf.put(own.read_bytes(), f"demo-2-py3-none-any-{label}.whl")
        site.shelf.put(build_wheel(site.wheels, "demo", "2"))
        site.shelf.put(text, INDEX_FILE, metadata=False)
        before = {path for path in site.folder.rglob("*") if site.library not in path.parents}
        site.run("install", "demo", *([] if kept else ["--no-cache-dir"]))
        assert site.installed() == {"demo": label}
        after = {path for path in site.folder.rglob("*") if site.library not in path.parents}
        fresh = {path for path in after - before if "cache" not in path.parts}
        assert fresh <= {site.library}
        assert not [path for path in after if label in {path.name, path.stem}]
        site.run("uninstall", "demo")
        assert site.installed() == {}

    def test_a_name_that_no_file_can_have(self, release: Site) -> None:
        """F-3: a label that makes the name longer than any file's costs its own wheel."""
        content = build_wheel(release.wheels, "demo", "2", label="mkl", document=DOCUMENT)
        release.shelf.put(content.read_bytes(), f"demo-2-py3-none-any-{'x' * 300}.whl")
        release.shelf.put(TEXT.encode(), INDEX_FILE, metadata=False)
        assert "not the name of a file" in release.run("explain", "demo").err
        release.run("install", "demo")
        assert release.installed() == {"demo": "mkl"}


class TestVendors:
    """Claims about hardware that this machine can be asked about (section 4 of the attacks)."""

    CLAIMS: Mapping[str, Mapping[str, list[str]]] = {
        "nvidia": {"sm_arch": ["20_real"]},
        "x86_64": {"level": ["v9"]},
        "aarch64": {"version": ["99a"]},
    }
    """What no machine has."""

    @pytest.mark.parametrize("namespace", CLAIMS)
    def test_a_list_in_the_wheel_is_no_hardware(self, site: Site, namespace: str) -> None:
        """P-20: a publisher's list is obeyed with a warning, or not at all if the user says so."""
        claim = self.CLAIMS[namespace]
        made = release_document({"evil": {namespace: claim}}, static={namespace: claim})
        site.shelf.put(build_wheel(site.wheels, "demo", "2", label="evil", document=made))
        site.shelf.put(build_wheel(site.wheels, "demo", "2"))
        site.shelf.put(json.dumps(made).encode(), INDEX_FILE, metadata=False)
        result = site.run("install", "--dry-run", "demo")
        assert "warning: " in result.err
        assert namespace in result.err
        site.run("install", "demo", "--ignore-static", namespace)
        assert site.installed() == {"demo": None}

    @pytest.mark.parametrize(
        "look", ["nvidi\u0430", "nvidia\u200b", "\uff4evidia", "NVIDIA", "nvidia "]
    )
    def test_a_name_that_only_looks_alike(self, site: Site, look: str) -> None:
        """A namespace in other letters is not the built-in one."""
        made = release_document(
            {"evil": {look: {"sm_arch": ["90_real"]}}}, static={look: {"sm_arch": ["90_real"]}}
        )
        site.shelf.put(build_wheel(site.wheels, "demo", "2", label="evil", document=made))
        site.shelf.put(build_wheel(site.wheels, "demo", "2"))
        site.shelf.put(json.dumps(made).encode(), INDEX_FILE, metadata=False)
        site.run("install", "demo")
        assert site.installed() == {"demo": None}


class TestSwapped:
    """The document of another release, or of another project."""

    @pytest.mark.parametrize("filename", ["demo-1-variants.json", "other-2-variants.json"])
    def test_under_its_own_name(self, release: Site, filename: str) -> None:
        """F-70: a file for another release says nothing; the wheels are asked (F-77)."""
        wrong = release_document({"mkl": {}}, static=STATIC)
        release.shelf.put(json.dumps(wrong).encode(), filename, project="demo", metadata=False)
        release.run("install", "demo")
        assert release.installed() == {"demo": "mkl"}

    def test_under_a_wrong_name(self, release: Site) -> None:
        """F-93: the wheel is held against it, found to differ, and the next one is taken."""
        wrong = release_document({"mkl": {"blas": {"library": ["openblas"]}}}, static=STATIC)
        release.shelf.put(json.dumps(wrong).encode(), INDEX_FILE, metadata=False)
        result = release.run("install", "demo")
        assert release.installed() == {"demo": None}
        assert "demo-2-py3-none-any-mkl.whl is not used" in result.err

    def test_a_file_that_is_gone(self, release: Site) -> None:
        """F-79: a listed file that is not there costs the variants."""
        release.shelf.put(TEXT.encode(), INDEX_FILE, metadata=False)
        release.index.faults.status[INDEX_FILE] = 404
        release.run("install", "demo")
        assert release.installed() == {"demo": None}

    def test_two_files(self, release: Site) -> None:
        """F-78: two files for one release are one too many."""
        release.shelf.put(TEXT.encode(), "demo-2.0-variants.json", metadata=False)
        release.shelf.put(TEXT.encode(), "Demo-2.0.0-variants.json", metadata=False)
        release.run("install", "demo")
        assert release.installed() == {"demo": None}
