"""Invalid metadata never costs the plain wheel, and its cost is visible (F-130 to F-136)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cli.running import CommandResult, Runner, tree

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import SCHEMA, build_release, build_wheel, release_document

STATIC = {"blas": {"library": ["openblas", "mkl"]}, "gpu": {"arch": ["a2", "a1"]}}
VARIANTS: dict[str, Any] = {
    "open": {"blas": {"library": ["openblas"]}},
    "mkl": {"blas": {"library": ["mkl"]}},
    "a2": {"gpu": {"arch": ["a2"]}},
}
DOCUMENT = release_document(VARIANTS, static=STATIC)
LABELS = sorted(VARIANTS)
INDEX_FILE = "some-1.0-variants.json"
BEST_MATCH = ("--index-strategy", "unsafe-best-match")


def document(**changes: Any) -> bytes:
    """Return the valid document with some keys changed."""
    return json.dumps({**DOCUMENT, **changes}).encode()


def variants(**changes: Any) -> bytes:
    """Return the valid document with other or further labels."""
    return document(variants={**VARIANTS, **changes})


def providers(**changes: Any) -> bytes:
    """Return the valid document with other or further providers; None removes one."""
    known: Any = DOCUMENT["providers"]
    return document(
        providers={name: one for name, one in {**known, **changes}.items() if one is not None}
    )


@dataclass(frozen=True)
class Case:
    """A kind of invalid metadata with its cost."""

    name: str
    content: bytes
    scope: str
    code: str
    lost: list[str]
    chosen: str | None
    """The label that is taken all the same; None is the plain wheel."""
    said: str
    """A part of the warning."""
    faults: Mapping[str, Any] = field(default_factory=dict)
    """How the server misbehaves."""


def whole(name: str, content: bytes, said: str, code: str = "invalid-document") -> Case:
    """Return a case that costs every variant wheel of the release."""
    return Case(name, content, "release", code, LABELS, None, said)


def server(name: str, code: str, said: str, **faults: Any) -> Case:
    """Return a case of a valid document that the server does not deliver."""
    return Case(name, document(), "release", code, LABELS, None, said, faults)


CASES = [
    whole("syntax", b"{", "is not JSON"),
    whole("empty", b"", "is not JSON"),
    whole("not UTF-8", b"\xff\xfe\xfd", "UTF-8"),
    whole("no keys", b"{}", "F-"),
    whole("byte order mark", b"\xef\xbb\xbf" + document(), "byte order mark (F-30)"),
    whole("NaN", document()[:-1] + b', "x": NaN}', "NaN is not JSON (F-30)"),
    whole("text behind", document() + b"x", "text after the end"),
    whole("a key twice", document()[:-1] + b', "variants": {}}', "the key is repeated (F-30)"),
    whole("too deep", document()[:-1] + b', "x": ' + b"[" * 9 + b"]" * 9 + b"}", "nested deeper"),
    whole("too many labels", variants(**{f"l{n}": {} for n in range(10_000)}), "more labels than"),
    whole("too many values", document(x=[1] * 200_001), "more list elements than"),
    whole("too large", document() + b" " * (4 << 20), "more than the limit of 4194304"),
    whole("no object", b"[]", "is a list, not an object"),
    whole(
        "unknown major",
        document(**{"$schema": SCHEMA.replace("v0.2.0", "v7.0.0")}),
        "major version 7",
        "unsupported-schema",
    ),
    whole(
        "foreign schema",
        document(**{"$schema": "https://evil.invalid/v1.0.0.json"}),
        "is not on a host that the format uses (F-40)",
        "unsupported-schema",
    ),
    whole(
        "unknown draft",
        document(**{"$schema": SCHEMA.replace("v0.2.0", "v0.9.0")}),
        "is a draft",
        "unsupported-schema",
    ),
    whole("no priorities", document(**{"default-priorities": {"namespace": []}}), "F-21"),
    whole("wrong type", document(variants=[]), "expected an object, found a list (F-32)"),
    server("404", "unexpected-status", "404", status={INDEX_FILE: 404}),
    server("403", "unexpected-status", "403", status={INDEX_FILE: 403}),
    server("500", "unexpected-status", "500", status={INDEX_FILE: 500}),
    server("503", "unexpected-status", "503", status={INDEX_FILE: 503}),
    server("wrong hash", "hash-mismatch", "hash does not match", wrong_hash={INDEX_FILE}),
    server("timeout", "unreachable", "cannot be read", delay={INDEX_FILE: 1.5}),
    server("reset", "unreachable", "cannot be read", resets={INDEX_FILE: 99}),
    server("cut off", "unreachable", "broke off", truncate={INDEX_FILE: 20}),
    Case(
        "a provider with an unknown key",
        providers(gpu={"static-properties": {"arch": ["a2"]}, "odd": 1}),
        "namespace", "invalid-provider", ["gpu"], "open", "the namespace gpu is unsupported",
    ),
    Case(
        "a provider of two kinds",
        providers(blas={"static-properties": {"library": ["mkl"]}, "builtin": "x"}),
        "namespace", "invalid-provider", ["blas"], "a2", "the namespace blas is unsupported",
    ),
    Case(
        "a provider of the wrong type",
        providers(blas=[]),
        "namespace", "invalid-provider", ["blas"], "a2", "expected an object, found a list",
    ),
    Case(
        "a namespace without provider",
        providers(gpu=None),
        "namespace", "missing-provider", ["gpu"], "open", "it has no provider (F-22)",
    ),
    Case(
        "a provider without namespace",
        providers(extra={"static-properties": {"a": ["b"]}}),
        "namespace", "unlisted-provider", ["extra"], "open", "it is not in the priorities (F-22)",
    ),
    Case(
        "a label without values",
        variants(open={"blas": {"library": []}}),
        "label", "invalid-variant", ["open"], "mkl", "open: ignored",
    ),
    Case(
        "a label with a value twice",
        variants(open={"blas": {"library": ["openblas", "openblas"]}}),
        "label", "invalid-variant", ["open"], "mkl", "more than once (F-23)",
    ),
    Case(
        "a label of an unlisted namespace",
        variants(open={"other": {"a": ["b"]}}),
        "label", "invalid-variant", ["open"], "mkl", "is not in the priorities (F-21)",
    ),
    Case(
        "a label of the wrong type",
        variants(open="openblas"),
        "label", "invalid-variant", ["open"], "mkl", "F-32",
    ),
    Case(
        "a bad name",
        variants(**{"Bad Name": {"blas": {"library": ["mkl"]}}}),
        "label", "invalid-variant", ["Bad Name"], "open", "is not a valid label (F-2)",
    ),
    Case(
        "null with properties",
        variants(null={"blas": {"library": ["mkl"]}}),
        "label", "invalid-variant", ["null"], "open", "the label null may not have properties",
    ),
    Case(
        "a label that is missing",
        document(variants={label: VARIANTS[label] for label in ("mkl", "a2")}),
        "label", "unlisted-variant", ["open"], "mkl", f"open: ignored, not in {INDEX_FILE}",
    ),
]  # fmt: skip


@dataclass
class Scene:
    """An index with one release of variants, and other projects."""

    folder: Path
    index: RecordingIndex
    target: Path
    run: Runner

    def prepare(self, case: Case) -> None:
        """Add the invalid metadata."""
        (self.folder / INDEX_FILE).write_bytes(case.content)
        for name, value in case.faults.items():
            setattr(self.index.faults, name, value)

    def command(self, name: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Run a command on this index only."""
        sources = ["-i", self.index.url, "--no-cache-dir", "--retries", "0", "--timeout", "0.7"]
        return self.run(name, *sources, *words, code=code)

    def explain(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Return the JSON explanation of ``some``."""
        result = self.command("explain", "--json", "some", *words, code=code)
        project: dict[str, Any] = result.object["projects"][0]
        return project

    def install(self, *words: str, code: int = 0) -> CommandResult:
        """Install into a folder."""
        return self.command("install", "--target", self.target, *words, code=code)


@pytest.fixture
def scene(
    tmp_path: Path, bare_environment: None, capsys: pytest.CaptureFixture[str]
) -> Iterator[Scene]:
    """Serve a release with three variants and a plain wheel, and another project."""
    del bare_environment
    folder = tmp_path / "index"
    for label in (*VARIANTS, None):
        own = {label: VARIANTS[label]} if label else None
        build_wheel(
            folder,
            "some",
            "1.0",
            label=label,
            document={**DOCUMENT, "variants": own} if own else None,
        )
    (folder / INDEX_FILE).write_bytes(document())
    other = release_document({"mkl": VARIANTS["mkl"]}, static={"blas": STATIC["blas"]})
    build_release(folder, "other", "1.0", other, ("mkl", None))
    with RecordingIndex(folder) as index:
        yield Scene(folder, index, tmp_path / "target", Runner(capsys))


def warnings(said: CommandResult) -> list[str]:
    """Return the warnings of a command."""
    return [line for line in said.err.splitlines() if line.startswith("warning: ")]


def test_valid_metadata(scene: Scene) -> None:
    """F-136: valid metadata costs nothing and causes no warning."""
    found = scene.explain()
    assert found["chosen"]["label"] == "open"
    assert found["degradations"] == []
    result = scene.install("--dry-run", "--strict", "some")
    assert warnings(result) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_costs(scene: Scene, case: Case) -> None:
    """Each case has its cost, one warning and a reason in JSON; strict mode is an error.

    (A-70, A-71, A-74, F-30, F-32, F-36, F-79, F-130, F-136)
    """
    scene.prepare(case)
    found = scene.explain()
    assert found["chosen"]["label"] == case.chosen
    (lost,) = found["degradations"]
    assert (lost["scope"], lost["code"], lost["names"]) == (case.scope, case.code, case.lost)
    assert lost["where"] == INDEX_FILE
    (warning,) = [text for text in found["warnings"] if text.startswith("some 1.0: ")]
    assert case.said in warning
    result = scene.install("--dry-run", "some")
    assert warnings(result) == [f"warning: {warning}"]
    answer = scene.install("--dry-run", "--json", "some").object
    assert answer["degradations"] == [{"name": "some", "version": "1.0", **lost}]
    error = scene.install("--dry-run", "--strict", "--json", "some", code=8).error
    assert error["code"] == "bad-metadata"
    assert error["degradations"] == [lost]


@pytest.mark.parametrize("case", [CASES[0], CASES[18], CASES[26], CASES[31]], ids=lambda c: c.name)
def test_explain_text(scene: Scene, case: Case) -> None:
    """F-136: the text has the warning, and the reason for each rejected wheel."""
    scene.prepare(case)
    result = scene.command("explain", "some")
    assert len(warnings(result)) == 1
    assert case.said in warnings(result)[0]
    rejected = [line for line in result.out.splitlines() if line.strip().startswith("rejected")]
    labels = LABELS if case.scope == "release" else case.lost
    if case.scope != "namespace":
        assert [line.split()[1] for line in rejected] == labels


def test_many_losses(scene: Scene) -> None:
    """F-136: many losses of a release are one warning, and ``explain`` names each."""
    broken: dict[str, Any] = {f"bad{n}": {"blas": {"library": []}} for n in range(7)}
    (scene.folder / INDEX_FILE).write_bytes(variants(**broken))
    result = scene.command("explain", "some")
    (warning,) = warnings(result)
    assert "and 4 more (`wheelfit explain` names them)" in warning
    for label in broken:
        assert result.err.count(f"{label}: ignored, ") == 1
    assert warnings(scene.install("--dry-run", "some")) == [warning]


def test_unknown_builtin(scene: Scene) -> None:
    """P-8, P-17: an unknown builtin makes only its namespace unsupported."""
    (scene.folder / INDEX_FILE).write_bytes(providers(blas={"builtin": "of_tomorrow"}))
    found = scene.explain()
    assert found["chosen"]["label"] == "a2"
    assert found["degradations"] == []
    steps = {
        provider["namespace"]: (provider["step"], provider["status"])
        for provider in found["providers"]
    }
    assert steps["blas"] == ("named-built-in", "unknown")
    reasons = {candidate["label"]: candidate["reason"] for candidate in found["candidates"]}
    assert "there is no built-in provider" in reasons["mkl"]


def test_two_documents(scene: Scene) -> None:
    """F-78, F-130: of two documents that are not spelled like the wheels neither is used."""
    (scene.folder / INDEX_FILE).unlink()
    for name in ("some-1.0.0-variants.json", "Some-1.00-variants.json"):
        (scene.folder / name).write_bytes(document())
    found = scene.explain()
    assert found["chosen"]["label"] is None
    assert [lost["code"] for lost in found["degradations"]] == ["ambiguous-document"]
    scene.install("--dry-run", "--strict", "some", code=8)


def planned(said: CommandResult) -> dict[str, str]:
    """Return version and label of what a dry run would install, by name."""
    _, _, *rows, _ = said.out.splitlines()
    cells = {row.split()[0]: re.split(r" {2,}", row) for row in rows}
    return {
        name: " ".join(word for word in some[1:3] if word[-1:] != "B")
        for name, some in cells.items()
    }


class TestWithoutDocument:
    """F-77: without an index file wheels are read, if that is cheap."""

    def test_from_the_wheels(self, scene: Scene) -> None:
        """A-73, F-77: the choice equals that with the file, remotely and from a folder."""
        (scene.folder / INDEX_FILE).unlink()
        assert scene.explain()["chosen"]["label"] == "open"
        report = scene.run(
            "explain", "--json", "--no-index", "--find-links", scene.folder, "some"
        ).object
        assert report["projects"][0]["chosen"]["label"] == "open"

    def test_too_many_labels(self, scene: Scene) -> None:
        """F-77: above a configurable number of labels no wheel is read."""
        (scene.folder / INDEX_FILE).unlink()
        found = scene.explain("--limit", "lookups=2")
        assert found["chosen"]["label"] is None
        (lost,) = found["degradations"]
        assert (lost["scope"], lost["code"], lost["names"]) == ("release", "too-costly", LABELS)
        assert scene.explain("--limit", "lookups=3")["degradations"] == []
        scene.install("--dry-run", "--strict", "--limit", "lookups=2", "some", code=8)

    def test_server_without_ranges(self, scene: Scene) -> None:
        """F-77: if whole wheels would be fetched, no variant is used."""
        (scene.folder / INDEX_FILE).unlink()
        scene.index.faults.ranges = False
        found = scene.explain()
        assert found["chosen"]["label"] is None
        assert [lost["code"] for lost in found["degradations"]] == ["too-costly"]

    def test_wheel_without_document(self, scene: Scene) -> None:
        """F-27, F-130: a wheel without its document costs only its label."""
        (scene.folder / INDEX_FILE).unlink()
        build_wheel(scene.folder, "some", "1.0", label="open", document=b"{")
        found = scene.explain()
        assert found["chosen"]["label"] == "mkl"
        (lost,) = found["degradations"]
        assert (lost["scope"], lost["code"], lost["names"]) == ("label", "invalid-wheel", ["open"])

    def test_unlisted_label(self, scene: Scene) -> None:
        """F-76: an unlisted label is read from its wheel in a folder, or with an option."""
        listed = {label: VARIANTS[label] for label in ("mkl", "a2")}
        (scene.folder / INDEX_FILE).write_bytes(document(variants=listed))
        assert scene.explain()["chosen"]["label"] == "mkl"
        found = scene.explain("--read-unlisted")
        assert (found["chosen"]["label"], found["degradations"]) == ("open", [])
        here = scene.run("explain", "--json", "--no-index", "-f", scene.folder, "some").object
        assert here["projects"][0]["chosen"]["label"] == "open"


class TestDisagreement:
    """F-93: wheels that disagree with the index file."""

    def swap(self, scene: Scene) -> None:
        """Give the best two wheels other documents than the index file has."""
        for label in ("open", "mkl"):
            own = {**DOCUMENT, "variants": {label: VARIANTS["a2"]}}
            build_wheel(scene.folder, "some", "1.0", label=label, document=own)

    def test_next_candidate(self, scene: Scene) -> None:
        """A-72, F-93, F-130: such wheels are rejected, and the next is chosen, with one line."""
        self.swap(scene)
        result = scene.install("some")
        assert "installed some 1.0 (a2)" in result.out
        (warning,) = warnings(result)
        for label in ("open", "mkl"):
            assert f"some-1.0-py3-none-any-{label}.whl is not used: " in warning

    def test_json(self, scene: Scene) -> None:
        """F-93, F-136: each rejected wheel is in the JSON of the installation."""
        self.swap(scene)
        answer = scene.install("--json", "some").object
        assert [one["label"] for one in answer["install"]] == ["a2"]
        for label, lost in zip(("mkl", "open"), answer["degradations"], strict=True):
            assert (lost["name"], lost["version"]) == ("some", "1.0")
            assert (lost["scope"], lost["code"]) == ("wheel", "metadata-disagreement")
            assert lost["names"] == [f"some-1.0-py3-none-any-{label}.whl"]

    def test_strict(self, scene: Scene) -> None:
        """F-130: with ``--strict`` nothing is installed, and the error names the wheel."""
        self.swap(scene)
        error = scene.install("--strict", "--json", "some", code=8).error
        (lost,) = error["degradations"]
        assert (lost["scope"], lost["code"]) == ("wheel", "metadata-disagreement")
        assert lost["names"] == ["some-1.0-py3-none-any-open.whl"]
        assert not scene.target.exists()

    def test_no_candidate(self, scene: Scene) -> None:
        """F-92: when no wheel is left, the error names every rejected one with its reason."""
        self.swap(scene)
        for name in ("some-1.0-py3-none-any.whl", "some-1.0-py3-none-any-a2.whl"):
            (scene.folder / name).unlink()
        listed = {label: VARIANTS[label] for label in ("mkl", "open")}
        (scene.folder / INDEX_FILE).write_bytes(document(variants=listed))
        error = scene.install("--json", "some", code=3).error
        assert "the properties of open differ" in error["message"] + str(error["note"])
        assert not scene.target.exists()


class TestOthers:
    """F-135: effects of invalid metadata on other releases and projects."""

    def test_other_project(self, scene: Scene) -> None:
        """F-135: another project of the index keeps its variants."""
        (scene.folder / INDEX_FILE).write_bytes(b"{")
        result = scene.install("--dry-run", "some", "other")
        assert planned(result) == {"other": "1.0 mkl", "some": "1.0"}
        assert len(warnings(result)) == 1

    def test_other_release(self, scene: Scene) -> None:
        """F-135: other releases of the project keep theirs, also in strict mode."""
        build_wheel(scene.folder, "some", "0.9", label="mkl", document=DOCUMENT)
        (scene.folder / "some-0.9-variants.json").write_bytes(b"{")
        result = scene.install("--dry-run", "--strict", "some")
        assert planned(result) == {"some": "1.0 open"}

    def test_swapped_documents(self, scene: Scene) -> None:
        """F-93: a document swapped with that of another release is detected."""
        old = {**DOCUMENT, "variants": {"open": VARIANTS["a2"], "mkl": VARIANTS["mkl"]}}
        (scene.folder / INDEX_FILE).write_text(json.dumps(old))
        result = scene.install("some", "--forbid", "blas :: library :: mkl")
        assert "some-1.0-py3-none-any-open.whl is not used" in result.err
        assert "installed some 1.0" in result.out

    def test_document_of_another_project(self, scene: Scene) -> None:
        """Another project's document under this name costs labels, never the plain wheel."""
        content = (scene.folder / "other-1.0-variants.json").read_bytes()
        (scene.folder / INDEX_FILE).write_bytes(content)
        found = scene.explain()
        assert found["chosen"]["label"] == "mkl"
        assert [lost["names"] for lost in found["degradations"]] == [["a2", "open"]]


class TestChanging:
    """Changes of the index during a command."""

    def test_changed_document(self, scene: Scene, tmp_path: Path) -> None:
        """F-73: after a mismatch page and document are requested again."""
        cache = ["--cache-dir", str(tmp_path / "cache")]
        words = ["explain", "-i", scene.index.url, "--json", *cache, "some"]
        assert scene.run(*words).object["projects"][0]["chosen"]["label"] == "open"
        (scene.folder / INDEX_FILE).write_bytes(document(variants={"mkl": VARIANTS["mkl"]}))
        assert scene.run(*words).object["projects"][0]["chosen"]["label"] == "mkl"

    def test_changed_wheel(self, scene: Scene) -> None:
        """A wheel with a wrong hash is not installed (exit code 4)."""
        scene.index.faults.content["some-1.0-py3-none-any-open.whl"] = b"PK other"
        scene.install("some", code=4)
        assert not scene.target.exists() or tree(scene.target) == {}


def test_unknown_draft(scene: Scene) -> None:
    """F-38: an unknown 0.x schema is read only with an explicit option, and reported."""
    future = {"$schema": SCHEMA.replace("v0.2.0", "v0.9.0"), "new-key": 1}
    (scene.folder / INDEX_FILE).write_bytes(document(**future))
    for label, properties in VARIANTS.items():
        own = {**DOCUMENT, **future, "variants": {label: properties}}
        build_wheel(scene.folder, "some", "1.0", label=label, document=own)
    assert scene.explain()["chosen"]["label"] is None
    found = scene.explain("--accept-unknown-drafts")
    assert found["chosen"]["label"] == "open"
    assert any("is an unknown draft" in note for note in found["notes"])
    assert any("new-key: unknown key" in note for note in found["notes"])
    assert "installed some 1.0 (open)" in scene.install("--accept-unknown-drafts", "some").out


def test_schema_is_not_fetched(scene: Scene) -> None:
    """F-31: a ``$schema`` URL on this index is not requested, whether refused or read."""
    for url in (f"{scene.index.origin}/v0.2.0.json", SCHEMA):
        (scene.folder / INDEX_FILE).write_bytes(document(**{"$schema": url}))
        scene.explain()
    assert not [
        request
        for request in scene.index.requests
        if "schema" in request.path or "v0" in request.path
    ]


def test_configured_limits(scene: Scene) -> None:
    """F-30: a raised limit accepts a larger document, and a lowered limit refuses it."""
    many = variants(**{f"l{number}": {} for number in range(10_000)})
    (scene.folder / INDEX_FILE).write_bytes(many)
    assert scene.explain()["chosen"]["label"] is None
    assert scene.explain("--limit", "labels=20000")["chosen"]["label"] == "open"
    (scene.folder / INDEX_FILE).write_bytes(document())
    for limit in ("size=100", "depth=2", "labels=2", "values=3"):
        (lost,) = scene.explain("--limit", limit)["degradations"]
        assert "limit" in lost["reason"], limit


def test_oversized_document(scene: Scene) -> None:
    """F-30: a document announced as too large is not requested, or not read."""
    (scene.folder / INDEX_FILE).write_bytes(document() + b" " * (48 << 20))
    for sizes in (True, False):
        scene.index.faults.sizes = sizes
        scene.index.clear_requests()
        assert scene.explain()["chosen"]["label"] is None
        assert len(scene.index.requests_for(INDEX_FILE)) == (0 if sizes else 1)
        assert scene.index.bytes_sent(INDEX_FILE) < 8 << 20  # what lies in buffers counts too


class TestTwoSources:
    """A-77: two indexes with the same release."""

    @pytest.fixture
    def second(self, tmp_path: Path) -> Iterator[RecordingIndex]:
        """Serve the same labels with another meaning, and a newer version."""
        folder = tmp_path / "second"
        for label in ("open", "other"):
            own = {**DOCUMENT, "variants": {label: VARIANTS["a2"]}}
            build_wheel(folder, "some", "1.0", tag="py2.py3-none-any", label=label, document=own)
        meaning = {"open": VARIANTS["a2"], "other": VARIANTS["a2"]}
        (folder / INDEX_FILE).write_bytes(document(variants=meaning))
        build_wheel(folder, "some", "2.0")
        with RecordingIndex(folder) as index:
            yield index

    def test_first_match(self, scene: Scene, second: RecordingIndex) -> None:
        """A-77, F-126: by default the first index supplies all, the second only warnings."""
        found = scene.explain("--extra-index-url", second.url)
        assert (found["version"], found["chosen"]["label"]) == ("1.0", "open")
        assert {request.path for request in second.requests} == {"/simple/some/"}

    def test_best_version(self, scene: Scene, second: RecordingIndex) -> None:
        """F-127: on request the best version of all indexes is chosen."""
        found = scene.explain("--extra-index-url", second.url, *BEST_MATCH)
        assert found["version"] == "2.0"
        assert found["source"] == second.url

    def test_contradiction(self, scene: Scene, second: RecordingIndex) -> None:
        """A-77, F-127: if compatible variants of both contradict, the error names the sources."""
        words = ["--json", *BEST_MATCH, "--extra-index-url", second.url, "some==1.0"]
        error = scene.command("explain", *words, code=1).error
        assert error["code"] == "inconsistent-documents"
        assert scene.index.url in error["message"]
        assert second.url in error["message"]

    def test_one_source_fits(self, scene: Scene, second: RecordingIndex) -> None:
        """F-127: if only one source has a compatible variant, it decides."""
        words = [*BEST_MATCH, "--extra-index-url", second.url, "--disable-provider", "gpu"]
        said = scene.command("explain", "--json", *words, "some==1.0").object["projects"][0]
        assert said["chosen"]["filename"] == "some-1.0-py3-none-any-open.whl"
        assert said["source"] == scene.index.url
        reasons = {candidate["filename"]: candidate["reason"] for candidate in said["candidates"]}
        foreign = reasons["some-1.0-py2.py3-none-any-other.whl"]
        assert foreign == f"no variant of {second.url} fits"

    def test_agreement(self, scene: Scene, second: RecordingIndex) -> None:
        """F-127: documents that agree are combined, including their order."""
        folder = scene.folder.parent / "second"
        (folder / "some-1.0-py2.py3-none-any-open.whl").unlink()
        (folder / INDEX_FILE).write_bytes(document(variants={"other": VARIANTS["a2"]}))
        words = ["--json", *BEST_MATCH, "--extra-index-url", second.url, "some==1.0"]
        said = scene.command("explain", *words).object["projects"][0]
        order = [
            candidate["label"]
            for candidate in said["candidates"]
            if candidate["verdict"] != "rejected"
        ]
        assert order == ["open", "mkl", "a2", "other", None]


class TestPolicy:
    """P-20, P-64: hardware claims of packages, and policies about them."""

    CLAIM: Mapping[str, list[str]] = {"level": ["v9"]}

    def claim(self, scene: Scene, **provider: Any) -> None:
        """Let the package itself claim an x86-64 level."""
        made = release_document({"v9": {"x86_64": self.CLAIM}}, providers={"x86_64": provider})
        build_wheel(scene.folder, "some", "3.0", label="v9", document=made)
        build_wheel(scene.folder, "some", "3.0")
        (scene.folder / "some-3.0-variants.json").write_text(json.dumps(made))

    def test_static_list(self, scene: Scene) -> None:
        """P-20: a static list is used, with a warning that the machine was not probed."""
        self.claim(scene, **{"static-properties": self.CLAIM})
        found = scene.explain()
        assert found["chosen"]["label"] == "v9"
        assert any("this machine was not examined" in text for text in found["warnings"])
        (provider,) = found["providers"]
        assert provider["step"] == "static-list"
        result = scene.install("--dry-run", "some")
        assert any("its own list states that x86_64 is supported" in w for w in warnings(result))

    @pytest.mark.parametrize("how", ["x86_64", ":all:", "file"])
    def test_ignored_by_policy(
        self, scene: Scene, how: str, user_settings: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """P-20: an option or the user's file has the machine probed instead, and says so."""
        self.claim(scene, **{"static-properties": self.CLAIM})
        words = ["--ignore-static", how]
        if how == "file":
            user_settings.write_text('ignore-static = [":all:"]\n')
            words = []
        monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v1")
        found = scene.explain(*words)
        assert found["chosen"]["label"] is None
        (provider,) = found["providers"]
        assert provider["step"] == "built-in"
        assert provider["source"].endswith("instead of the static list of the package")

    def test_table_row(
        self, scene: Scene, user_settings: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """P-63, P-64: a plugin in the user's table is replaced by the built-in provider."""
        self.claim(scene, requires=["acme-cpu>=1"], **{"plugin-api": "acme.cpu:Plugin"})
        found = scene.explain()
        assert found["chosen"]["label"] is None
        assert found["providers"][0]["step"] == "not-trusted"
        user_settings.write_text(
            '[[provider]]\nnamespace = "x86_64"\npackage = "Acme_CPU"\nversions = ["1.2"]\n'
            'plugin-api = ["acme.cpu : Plugin"]\n'
        )
        monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v9")
        (provider,) = scene.explain()["providers"]
        assert provider["step"] == "built-in"
        assert "stands in for acme-cpu 1.2 by the configured table" in provider["source"]
        assert not scene.index.requests_for("/simple/acme-cpu/")

    def test_overrides(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        """P-73: a variable is used visibly, or ignored by policy."""
        made = release_document(
            {"v1": {"x86_64": {"level": ["v1"]}}},
            providers={"x86_64": {"requires": ["x86-64-variant-provider<1"]}},
        )
        build_wheel(scene.folder, "some", "3.0", label="v1", document=made)
        build_wheel(scene.folder, "some", "3.0")
        (scene.folder / "some-3.0-variants.json").write_text(json.dumps(made))
        monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v3")
        result = scene.install("--dry-run", "some")
        line = "warning: the environment overrides detection: WHEELFIT_OVERRIDE_X86_64_LEVEL=v3"
        assert line in result.err
        assert planned(result) == {"some": "3.0"}
        free = scene.install("--dry-run", "--no-env-override", "some")
        assert "OVERRIDE" not in free.err
        told = scene.install("--dry-run", "--no-env-override", "-v", "some")
        assert "WHEELFIT_OVERRIDE_X86_64_LEVEL of the environment is ignored" in told.err

    def test_misspelt_override(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        """P-73: an unknown variable for a known namespace is named."""
        monkeypatch.setenv("WHEELFIT_OVERRIDE_NVIDA_SM_ARCH", "90_real")
        result = scene.install("--dry-run", "some")
        assert "warning: WHEELFIT_OVERRIDE_NVIDA_SM_ARCH has no effect" in result.err
