"""Bad metadata never costs the plain wheel, and whatever it costs is seen (F-130 to F-136)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cli.running import CommandResult, Runner, tree

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import SCHEMA, build_wheel, release_document

STATIC = {"blas": {"library": ["openblas", "mkl"]}, "gpu": {"arch": ["a2", "a1"]}}
VARIANTS: dict[str, Any] = {
    "open": {"blas": {"library": ["openblas"]}},
    "mkl": {"blas": {"library": ["mkl"]}},
    "a2": {"gpu": {"arch": ["a2"]}},
}
DOCUMENT = release_document(VARIANTS, static=STATIC)
LABELS = sorted(VARIANTS)
INDEX_FILE = "some-1.0-variants.json"
SCHEMAS = Path(__file__).parents[2] / "docs" / "reference" / "schemas"


def document(**changes: Any) -> bytes:
    """Return the sound document with some keys changed."""
    return json.dumps({**DOCUMENT, **changes}).encode()


def variants(**changes: Any) -> bytes:
    """Return the sound document with other or further labels."""
    return document(variants={**VARIANTS, **changes})


def providers(**changes: Any) -> bytes:
    """Return the sound document with other or further providers; None removes one."""
    known: Any = DOCUMENT["providers"]
    return document(
        providers={name: one for name, one in {**known, **changes}.items() if one is not None}
    )


@dataclass(frozen=True)
class Case:
    """Hold one kind of bad metadata, and what it costs."""

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
    """Return a case of a sound document that the server does not give."""
    return Case(name, document(), "release", code, LABELS, None, said, faults)


CASES = [
    whole("syntax", b"{", "is not JSON"),
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
    """Hold an index with one release of variants, and others beside it."""

    folder: Path
    index: RecordingIndex
    target: Path
    run: Runner

    def prepare(self, case: Case) -> None:
        """Put the bad metadata in place."""
        (self.folder / INDEX_FILE).write_bytes(case.content)
        for name, value in case.faults.items():
            setattr(self.index.faults, name, value)

    def command(self, name: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Run a command on this index and nothing else."""
        sources = ["-i", self.index.url, "--no-cache-dir", "--retries", "0", "--timeout", "0.7"]
        return self.run(name, *sources, *words, code=code)

    def explain(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Explain ``some`` for programs; the object is as documented."""
        result = self.command("explain", "--json", "some", *words, code=code)
        jsonschema.validate(result.object, json.loads((SCHEMAS / "explain.json").read_text()))
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
    for label in ("mkl", None):
        build_wheel(folder, "other", "1.0", label=label, document=other if label else None)
    (folder / "other-1.0-variants.json").write_text(json.dumps(other))
    with RecordingIndex(folder) as index:
        yield Scene(folder, index, tmp_path / "target", Runner(capsys))


def warnings(said: CommandResult) -> list[str]:
    """Return the warnings of a command."""
    return [line for line in said.err.splitlines() if line.startswith("warning: ")]


def test_without_fault(scene: Scene) -> None:
    """Sound metadata costs nothing and says nothing: what follows is not an accident (F-136)."""
    found = scene.explain()
    assert found["chosen"]["label"] == "open"
    assert found["degradations"] == []
    result = scene.install("--dry-run", "--strict", "some")
    assert warnings(result) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_it_costs(scene: Scene, case: Case) -> None:
    """It costs what it describes; one warning and a reason for programs say so, strict is an error.

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
    jsonschema.validate({"error": error}, json.loads((SCHEMAS / "error.json").read_text()))


@pytest.mark.parametrize("case", [CASES[0], CASES[15], CASES[23], CASES[28]], ids=lambda c: c.name)
def test_explain_in_words(scene: Scene, case: Case) -> None:
    """A reader of ``explain`` sees the warning, and why each wheel is out (F-136)."""
    scene.prepare(case)
    result = scene.command("explain", "some")
    assert len(warnings(result)) == 1
    assert case.said in warnings(result)[0]
    rejected = [line for line in result.out.splitlines() if line.strip().startswith("rejected")]
    labels = LABELS if case.scope == "release" else case.lost
    if case.scope != "namespace":
        assert [line.split()[1] for line in rejected] == labels


def test_many_losses(scene: Scene) -> None:
    """However much a release lost, it is one warning, and ``explain`` names each loss (F-136)."""
    broken: dict[str, Any] = {f"bad{n}": {"blas": {"library": []}} for n in range(7)}
    (scene.folder / INDEX_FILE).write_bytes(variants(**broken))
    result = scene.command("explain", "some")
    (warning,) = warnings(result)
    assert "and 4 more (`wheelfit explain` names them)" in warning
    for label in broken:
        assert result.err.count(f"{label}: ignored, ") == 1
    assert warnings(scene.install("--dry-run", "some")) == [warning]


def test_an_unknown_builtin(scene: Scene) -> None:
    """A builtin that nobody knows makes its namespace unsupported and nothing else (P-8, P-17)."""
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
    """Of two documents, none spelled like the wheels, neither is used (F-78, F-130)."""
    (scene.folder / INDEX_FILE).unlink()
    for name in ("some-1.0.0-variants.json", "Some-1.00-variants.json"):
        (scene.folder / name).write_bytes(document())
    found = scene.explain()
    assert found["chosen"]["label"] is None
    assert [lost["code"] for lost in found["degradations"]] == ["ambiguous-document"]
    scene.install("--dry-run", "--strict", "some", code=8)


def planned(said: CommandResult) -> dict[str, str]:
    """Return what a dry run would install: version and label by name."""
    _, _, *rows, _ = said.out.splitlines()
    cells = {row.split()[0]: re.split(r" {2,}", row) for row in rows}
    return {
        name: " ".join(word for word in some[1:3] if word[-1:] != "B")
        for name, some in cells.items()
    }


class TestWithoutDocument:
    """No index file: the wheels are read, if that costs little (F-77)."""

    def test_from_the_wheels(self, scene: Scene) -> None:
        """The choice is the same as with the file, remotely and from a folder (A-73, F-77)."""
        (scene.folder / INDEX_FILE).unlink()
        assert scene.explain()["chosen"]["label"] == "open"
        report = scene.run(
            "explain", "--json", "--no-index", "--find-links", scene.folder, "some"
        ).object
        assert report["projects"][0]["chosen"]["label"] == "open"

    def test_too_many_labels(self, scene: Scene) -> None:
        """More labels than allowed are not looked up; the limit can be changed (F-77)."""
        (scene.folder / INDEX_FILE).unlink()
        found = scene.explain("--limit", "lookups=2")
        assert found["chosen"]["label"] is None
        (lost,) = found["degradations"]
        assert (lost["scope"], lost["code"], lost["names"]) == ("release", "too-costly", LABELS)
        assert scene.explain("--limit", "lookups=3")["degradations"] == []
        scene.install("--dry-run", "--strict", "--limit", "lookups=2", "some", code=8)

    def test_a_server_without_ranges(self, scene: Scene) -> None:
        """Where looking costs whole wheels, no variant is used (F-77)."""
        (scene.folder / INDEX_FILE).unlink()
        scene.index.faults.ranges = False
        found = scene.explain()
        assert found["chosen"]["label"] is None
        assert [lost["code"] for lost in found["degradations"]] == ["too-costly"]

    def test_one_bad_wheel(self, scene: Scene) -> None:
        """A wheel without its document costs its label only (F-27, F-130)."""
        (scene.folder / INDEX_FILE).unlink()
        build_wheel(scene.folder, "some", "1.0", label="open", document=b"{")
        found = scene.explain()
        assert found["chosen"]["label"] == "mkl"
        (lost,) = found["degradations"]
        assert (lost["scope"], lost["code"], lost["names"]) == ("label", "invalid-wheel", ["open"])

    def test_an_unlisted_label_is_looked_up(self, scene: Scene) -> None:
        """With an option, and in a folder always, a label the file lacks is looked up (F-76)."""
        listed = {label: VARIANTS[label] for label in ("mkl", "a2")}
        (scene.folder / INDEX_FILE).write_bytes(document(variants=listed))
        assert scene.explain()["chosen"]["label"] == "mkl"
        found = scene.explain("--read-unlisted")
        assert (found["chosen"]["label"], found["degradations"]) == ("open", [])
        here = scene.run("explain", "--json", "--no-index", "-f", scene.folder, "some").object
        assert here["projects"][0]["chosen"]["label"] == "open"


class TestDisagreement:
    """A wheel that is not what the index file says of it (F-93)."""

    def swap(self, scene: Scene) -> None:
        """Let the best two wheels contain something else than the index file says."""
        for label in ("open", "mkl"):
            own = {**DOCUMENT, "variants": {label: VARIANTS["a2"]}}
            build_wheel(scene.folder, "some", "1.0", label=label, document=own)

    def test_the_next_one_is_taken(self, scene: Scene) -> None:
        """Each such wheel is out, the next is taken; one line tells of all (A-72, F-93, F-130)."""
        self.swap(scene)
        result = scene.install("some")
        assert "installed some 1.0 (a2)" in result.out
        (warning,) = warnings(result)
        for label in ("open", "mkl"):
            assert f"some-1.0-py3-none-any-{label}.whl is not used: " in warning

    def test_for_programs(self, scene: Scene) -> None:
        """Each wheel that was refused stands in the JSON of the installation (F-93, F-136)."""
        self.swap(scene)
        answer = scene.install("--json", "some").object
        jsonschema.validate(answer, json.loads((SCHEMAS / "install.json").read_text()))
        assert [one["label"] for one in answer["install"]] == ["a2"]
        for label, lost in zip(("mkl", "open"), answer["degradations"], strict=True):
            assert (lost["name"], lost["version"]) == ("some", "1.0")
            assert (lost["scope"], lost["code"]) == ("wheel", "metadata-disagreement")
            assert lost["names"] == [f"some-1.0-py3-none-any-{label}.whl"]

    def test_strictly(self, scene: Scene) -> None:
        """With ``--strict`` nothing is installed, and the error says which wheel (F-130)."""
        self.swap(scene)
        error = scene.install("--strict", "--json", "some", code=8).error
        (lost,) = error["degradations"]
        assert (lost["scope"], lost["code"]) == ("wheel", "metadata-disagreement")
        assert lost["names"] == ["some-1.0-py3-none-any-open.whl"]
        assert not scene.target.exists()

    def test_nothing_is_left(self, scene: Scene) -> None:
        """When no wheel is left, the error names every one that was refused and why (F-92)."""
        self.swap(scene)
        for name in ("some-1.0-py3-none-any.whl", "some-1.0-py3-none-any-a2.whl"):
            (scene.folder / name).unlink()
        listed = {label: VARIANTS[label] for label in ("mkl", "open")}
        (scene.folder / INDEX_FILE).write_bytes(document(variants=listed))
        error = scene.install("--json", "some", code=3).error
        assert "the properties of open differ" in error["message"] + str(error["note"])
        assert not scene.target.exists()


class TestOthers:
    """What is bad in one place is bad in no other (F-135)."""

    def test_another_project(self, scene: Scene) -> None:
        """Another project of the same index keeps its variants (F-135)."""
        (scene.folder / INDEX_FILE).write_bytes(b"{")
        result = scene.install("--dry-run", "some", "other")
        assert planned(result) == {"other": "1.0 mkl", "some": "1.0"}
        assert len(warnings(result)) == 1

    def test_another_release(self, scene: Scene) -> None:
        """The other releases of the same project keep theirs, strictly too (F-135)."""
        build_wheel(scene.folder, "some", "0.9", label="mkl", document=DOCUMENT)
        (scene.folder / "some-0.9-variants.json").write_bytes(b"{")
        result = scene.install("--dry-run", "--strict", "some")
        assert planned(result) == {"some": "1.0 open"}

    def test_documents_of_two_releases_swapped(self, scene: Scene) -> None:
        """Labels mean what their own release says: a swapped document is found out (F-93)."""
        old = {**DOCUMENT, "variants": {"open": VARIANTS["a2"], "mkl": VARIANTS["mkl"]}}
        (scene.folder / INDEX_FILE).write_text(json.dumps(old))
        result = scene.install("some", "--forbid", "blas :: library :: mkl")
        assert "some-1.0-py3-none-any-open.whl is not used" in result.err
        assert "installed some 1.0" in result.out

    def test_the_document_of_another_project(self, scene: Scene) -> None:
        """A document of another project under this name costs labels, never the plain wheel."""
        content = (scene.folder / "other-1.0-variants.json").read_bytes()
        (scene.folder / INDEX_FILE).write_bytes(content)
        found = scene.explain()
        assert found["chosen"]["label"] == "mkl"
        assert [lost["names"] for lost in found["degradations"]] == [["a2", "open"]]


class TestChanging:
    """The index changes while we work."""

    def test_the_document_changes_after_the_choice(self, scene: Scene, tmp_path: Path) -> None:
        """A stale document is not believed: page and document are asked for again (F-73)."""
        cache = ["--cache-dir", str(tmp_path / "cache")]
        words = ["explain", "-i", scene.index.url, "--json", *cache, "some"]
        assert scene.run(*words).object["projects"][0]["chosen"]["label"] == "open"
        (scene.folder / INDEX_FILE).write_bytes(document(variants={"mkl": VARIANTS["mkl"]}))
        assert scene.run(*words).object["projects"][0]["chosen"]["label"] == "mkl"

    def test_the_wheel_changes_after_the_choice(self, scene: Scene) -> None:
        """A wheel that is not the promised one is not installed (exit code 4)."""
        scene.index.faults.content["some-1.0-py3-none-any-open.whl"] = b"PK other"
        scene.install("some", code=4)
        assert not scene.target.exists() or tree(scene.target) == {}


def test_an_unknown_draft(scene: Scene) -> None:
    """Only an explicit option has an unknown 0.x schema read, and it is noted (F-38)."""
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


def test_the_schema_is_never_fetched(scene: Scene) -> None:
    """A ``$schema`` on this very index is not asked for, whether it is refused or read (F-31)."""
    for url in (f"{scene.index.origin}/v0.2.0.json", SCHEMA):
        (scene.folder / INDEX_FILE).write_bytes(document(**{"$schema": url}))
        scene.explain()
    assert not [
        request
        for request in scene.index.requests
        if "schema" in request.path or "v0" in request.path
    ]


def test_limits_can_be_changed(scene: Scene) -> None:
    """A document beyond a limit is read when the user raises it, and the other way round (F-30)."""
    many = variants(**{f"l{number}": {} for number in range(10_000)})
    (scene.folder / INDEX_FILE).write_bytes(many)
    assert scene.explain()["chosen"]["label"] is None
    assert scene.explain("--limit", "labels=20000")["chosen"]["label"] == "open"
    (scene.folder / INDEX_FILE).write_bytes(document())
    for limit in ("size=100", "depth=2", "labels=2", "values=3"):
        (lost,) = scene.explain("--limit", limit)["degradations"]
        assert "limit" in lost["reason"], limit


def test_an_oversized_document_is_hardly_read(scene: Scene) -> None:
    """A document that is announced as too large is not asked for, or not read (F-30)."""
    (scene.folder / INDEX_FILE).write_bytes(document() + b" " * (48 << 20))
    for sizes in (True, False):
        scene.index.faults.sizes = sizes
        scene.index.clear_requests()
        assert scene.explain()["chosen"]["label"] is None
        assert len(scene.index.requests_for(INDEX_FILE)) == (0 if sizes else 1)
        assert scene.index.bytes_sent(INDEX_FILE) < 8 << 20  # what lies in buffers counts too


class TestTwoSources:
    """Two indexes with the same release (A-77)."""

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
        """By default the first index supplies all; the second is asked to warn (A-77, F-126)."""
        found = scene.explain("--extra-index-url", second.url)
        assert (found["version"], found["chosen"]["label"]) == ("1.0", "open")
        assert {request.path for request in second.requests} == {"/simple/some/"}

    def test_versions_are_compared(self, scene: Scene, second: RecordingIndex) -> None:
        """On request the best version of all indexes wins (F-127)."""
        found = scene.explain("--extra-index-url", second.url, "--compare-sources")
        assert found["version"] == "2.0"
        assert found["source"] == second.url

    def test_contradiction(self, scene: Scene, second: RecordingIndex) -> None:
        """Variants of both fit and contradict: an error names the sources (A-77, F-127)."""
        words = ["--json", "--compare-sources", "--extra-index-url", second.url, "some==1.0"]
        error = scene.command("explain", *words, code=1).error
        assert error["code"] == "inconsistent-documents"
        assert scene.index.url in error["message"]
        assert second.url in error["message"]

    def test_one_source_fits(self, scene: Scene, second: RecordingIndex) -> None:
        """Where variants of one source only fit, that one decides (F-127)."""
        words = ["--compare-sources", "--extra-index-url", second.url, "--disable-provider", "gpu"]
        said = scene.command("explain", "--json", *words, "some==1.0").object["projects"][0]
        assert said["chosen"]["filename"] == "some-1.0-py3-none-any-open.whl"
        assert said["source"] == scene.index.url
        reasons = {candidate["filename"]: candidate["reason"] for candidate in said["candidates"]}
        foreign = reasons["some-1.0-py2.py3-none-any-other.whl"]
        assert foreign == f"no variant of {second.url} fits"

    def test_agreement(self, scene: Scene, second: RecordingIndex) -> None:
        """Documents that agree are one, and the order is that of the combination (F-127)."""
        folder = scene.folder.parent / "second"
        (folder / "some-1.0-py2.py3-none-any-open.whl").unlink()
        (folder / INDEX_FILE).write_bytes(document(variants={"other": VARIANTS["a2"]}))
        words = ["--json", "--compare-sources", "--extra-index-url", second.url, "some==1.0"]
        said = scene.command("explain", *words).object["projects"][0]
        order = [
            candidate["label"]
            for candidate in said["candidates"]
            if candidate["verdict"] != "rejected"
        ]
        assert order == ["open", "mkl", "a2", "other", None]


class TestPolicy:
    """What packages claim about hardware, and who else may decide (P-20, P-64)."""

    CLAIM: Mapping[str, list[str]] = {"level": ["v9"]}

    def claim(self, scene: Scene, **provider: Any) -> None:
        """Let the package itself say which level of x86-64 there is."""
        made = release_document({"v9": {"x86_64": self.CLAIM}}, providers={"x86_64": provider})
        build_wheel(scene.folder, "some", "3.0", label="v9", document=made)
        build_wheel(scene.folder, "some", "3.0")
        (scene.folder / "some-3.0-variants.json").write_text(json.dumps(made))

    def test_obeyed_with_a_warning(self, scene: Scene) -> None:
        """A static list is obeyed, with a warning that the machine was not asked (P-20)."""
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
        self, scene: Scene, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An option, or the user's file, has the machine asked instead, and says so (P-20)."""
        self.claim(scene, **{"static-properties": self.CLAIM})
        words = ["--ignore-static", how]
        if how == "file":
            path = tmp_path / "wheelfit.toml"
            path.write_text('ignore-static = [":all:"]\n')
            monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(path))
            words = []
        monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v1")
        found = scene.explain(*words)
        assert found["chosen"]["label"] is None
        (provider,) = found["providers"]
        assert provider["step"] == "built-in"
        assert provider["source"].endswith("instead of the static list of the package")

    def test_a_row_of_the_table(
        self, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A plugin in the user's table is answered by the built-in provider (P-63, P-64)."""
        self.claim(scene, requires=["acme-cpu>=1"], **{"plugin-api": "acme.cpu:Plugin"})
        found = scene.explain()
        assert found["chosen"]["label"] is None
        assert found["providers"][0]["step"] == "not-trusted"
        path = tmp_path / "wheelfit.toml"
        path.write_text(
            '[[provider]]\nnamespace = "x86_64"\npackage = "Acme_CPU"\nversions = ["1.2"]\n'
            'plugin-api = ["acme.cpu : Plugin"]\n'
        )
        monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(path))
        monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v9")
        (provider,) = scene.explain()["providers"]
        assert provider["step"] == "built-in"
        assert "stands in for acme-cpu 1.2 by the configured table" in provider["source"]
        assert not scene.index.requests_for("/simple/acme-cpu/")

    def test_overrides_can_be_ignored(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        """A variable counts only visibly, and not at all if the user says so (P-73)."""
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

    def test_a_misspelt_override(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        """A variable of ours for a namespace that there is not is named (P-73)."""
        monkeypatch.setenv("WHEELFIT_OVERRIDE_NVIDA_SM_ARCH", "90_real")
        result = scene.install("--dry-run", "some")
        assert "warning: WHEELFIT_OVERRIDE_NVIDA_SM_ARCH has no effect" in result.err
