"""SARIF 2.1.0, as far as code review tools want it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checking.releases import INDEX_FILE, check, codes, document, only, sound_release, write
from jsonschema import Draft202012Validator

from wheelfit.checking.findings import Report, UncheckedTarget
from wheelfit.checking.sarif import to_sarif
from wheelfit.testing.wheels import build_wheel

Schema = dict[str, Any]


def record(required: str, *, is_closed: bool = False, **properties: Schema) -> Schema:
    """Return the schema of an object.

    :param required: names of properties.
    :param is_closed: whether it has no other properties.
    """
    schema: Schema = {"type": "object", "required": required.split(), "properties": properties}
    return schema | ({"additionalProperties": False} if is_closed else {})


def several(items: Schema, **limits: object) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": items, **limits}


STRING = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
POSITION = {"type": "integer", "minimum": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
TEXT = record("text", text={"type": "string", "minLength": 1})
ARTIFACT = record(
    "uri",
    is_closed=True,
    # A URI reference: no blanks, no backslashes, nothing unescaped.
    uri={"type": "string", "pattern": r"^[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+$"},
    uriBaseId=STRING,
)
LOCATION = record(
    "physicalLocation",
    physicalLocation=record(
        "artifactLocation",
        artifactLocation=ARTIFACT,
        region=record("startLine", startLine=POSITION),
    ),
    logicalLocations=several(record("fullyQualifiedName")),
)
REGION = record(
    "", is_closed=True,
    startLine=POSITION, startColumn=POSITION, endLine=POSITION, endColumn=POSITION,
)  # fmt: skip
REPLACEMENT = record("deletedRegion", is_closed=True, deletedRegion=REGION, insertedContent=TEXT)
CHANGE = record(
    "artifactLocation replacements",
    is_closed=True,
    artifactLocation=ARTIFACT,
    replacements=several(REPLACEMENT, minItems=1),
)
FIX = record(
    "artifactChanges",
    is_closed=True,
    description=TEXT,
    artifactChanges=several(CHANGE, minItems=1, uniqueItems=True),
)
RULE = record(
    "id shortDescription help",
    id=STRING,
    name={"pattern": "^[A-Z][A-Za-z]+$"},
    shortDescription=TEXT,
    help=TEXT,
    defaultConfiguration=record("", level=LEVEL),
)
NOTIFICATION = record("message", level=LEVEL, message=TEXT, locations=several(LOCATION))
RESULT = record(
    "message ruleId ruleIndex locations",
    level=LEVEL,
    message=TEXT,
    ruleIndex=COUNT,
    locations=several(LOCATION, minItems=1),
    fixes=several(FIX),
    partialFingerprints={"type": "object", "additionalProperties": STRING},
)
INVOCATION = record(
    "executionSuccessful",
    executionSuccessful={"type": "boolean"},
    toolExecutionNotifications=several(NOTIFICATION),
)
RUN = record(
    "tool results invocations",
    tool=record(
        "driver", driver=record("name version rules", rules=several(RULE, uniqueItems=True))
    ),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    invocations=several(INVOCATION),
    results=several(RESULT),
)
# What the standard requires of the parts in use (sections 3.13, 3.14, 3.19, 3.20, 3.27, 3.49, 3.55
# to 3.57).
SCHEMA = record("version runs", version={"const": "2.1.0"}, runs=several(RUN, minItems=1))
SCHEMA["properties"]["$schema"] = {"type": "string", "pattern": "sarif-2.1.0"}


def log(report: Report, folder: Path) -> dict[str, Any]:
    """Return the one run of a valid log."""
    written = json.loads(json.dumps(to_sarif(report, folder=folder)))
    Draft202012Validator(SCHEMA).validate(written)
    (run,) = written["runs"]
    assert isinstance(run, dict)
    return run


def test_findings(tmp_path: Path) -> None:
    """F-131: each finding is a result with its rule, level, file, line and place."""
    spoilt = document(lambda d: d["variants"]["cu128"]["nvidia"]["sm_arch"].reverse())
    path = write(tmp_path / "a folder" / INDEX_FILE, spoilt)
    build_wheel(tmp_path, "other", "1.0", requires=['a; "x" in variant_namespaces'])
    report = check(tmp_path)
    run = log(report, tmp_path)
    rules = run["tool"]["driver"]["rules"]
    assert len(run["results"]) == len(report.findings) == 2
    for result, finding in zip(run["results"], report.findings, strict=True):
        rule = rules[result["ruleIndex"]]
        assert rule["id"] == result["ruleId"] == finding.code
        assert finding.rule in rule["properties"]["tags"]
        assert f"docs/reference/checks.md#{finding.code}" in rule["help"]["text"]
        assert result["level"] == finding.severity
        assert finding.message in result["message"]["text"]
    (values,) = [result for result in run["results"] if result["ruleId"] == "bad-values"]
    (location,) = values["locations"]
    place = location["physicalLocation"]
    assert place["artifactLocation"] == {
        "uri": f"a%20folder/{INDEX_FILE}",
        "uriBaseId": "%SRCROOT%",
    }
    assert location["logicalLocations"] == [{"fullyQualifiedName": "variants.cu128.nvidia.sm_arch"}]
    line = path.read_text().splitlines()[place["region"]["startLine"] - 1]
    assert '"sm_arch"' in line
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def applied(fix: dict[str, Any], text: str) -> str:
    """Return a text after a fix, done as an editor does it."""
    (change,) = fix["artifactChanges"]
    (replacement,) = change["replacements"]
    region = replacement["deletedRegion"]
    lines = text.split("\n")

    def index(line: int, column: int) -> int:
        return sum(len(one) + 1 for one in lines[: line - 1]) + column - 1

    start = index(region["startLine"], region["startColumn"])
    stop = index(region["endLine"], region["endColumn"])
    return text[:start] + str(replacement["insertedContent"]["text"]) + text[stop:]


def renamed(content: dict[str, Any], old: str, new: str) -> None:
    """Rename a key."""
    content[new] = content.pop(old)


def misspelt_value(content: dict[str, Any]) -> None:
    """Spell a value of a variant otherwise than its static list does."""
    content["providers"]["blas"]["static-properties"]["library"] = ["openblas"]
    content["variants"]["mkl"]["blas"]["library"] = ["openbals"]


SPOILT: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "order": ("bad-values", lambda d: d["variants"]["cu128"]["nvidia"]["sm_arch"].reverse()),
    "twice": (
        "bad-values", lambda d: d["variants"]["cu128"]["nvidia"]["sm_arch"].append("90_real")
    ),
    "value": ("unselectable-variant", misspelt_value),
    "feature": (
        "unknown-feature",
        lambda d: renamed(d["variants"]["cu128"]["nvidia"], "sm_arch", "sm_arhc"),
    ),
    "key": ("wrong-keys", lambda d: renamed(d["providers"]["nvidia"], "plugin-api", "plugin-aip")),
    "outer key": ("wrong-keys", lambda d: renamed(d, "variants", "varaints")),
}  # fmt: skip


@pytest.mark.parametrize("kind", SPOILT)
def test_fixes(tmp_path: Path, kind: str) -> None:
    """F-131: where the right text is sure, a fix has it, and after that nothing is found."""
    code, spoil = SPOILT[kind]
    path = write(tmp_path / INDEX_FILE, document(spoil))
    report = check(path)
    fixed = [
        (result, fix)
        for result in log(report, tmp_path)["results"]
        for fix in result.get("fixes", ())
    ]
    ((result, fix),) = fixed
    assert result["ruleId"] == code
    assert fix["artifactChanges"][0]["artifactLocation"]["uri"] == INDEX_FILE
    assert fix["description"]["text"][:-1].lower() in result["message"]["text"].lower()
    path.write_text(applied(fix, path.read_text()))
    assert not check(path).findings


def test_fixes_of_a_project(tmp_path: Path) -> None:
    """B-34: classifiers that are misspelt or out of use are corrected in the project."""
    pytest.importorskip("trove_classifiers", reason="needs the extra `build`")
    project = tmp_path / "pyproject.toml"
    project.write_text(
        """\
[project]
classifiers = [
  "Programing Language :: Python",  # ü
  'Natural Language :: Ukranian',
  "Nonsense",
]
"""
    )
    while fixes := [
        fix
        for result in log(check(project), tmp_path)["results"]
        for fix in result.get("fixes", ())
    ]:
        project.write_text(applied(fixes[0], project.read_text()))
    assert codes(check(project)) == {"unknown-classifier": 1}
    assert only(check(project), "unknown-classifier").line == 5
    assert project.read_text().splitlines()[2:4] == [
        '  "Programming Language :: Python",  # ü',
        '  "Natural Language :: Ukrainian",',
    ]


def test_no_fixes_inside_a_wheel(tmp_path: Path) -> None:
    """What is packed into a wheel cannot be edited there; the message has what is right."""
    pytest.importorskip("trove_classifiers", reason="needs the extra `build`")
    metadata = [("Classifier", "Programing Language :: Python")]
    spoilt = document(lambda d: d["variants"]["mkl"]["blas"]["library"].append("mkl"))
    build_wheel(tmp_path, "fast", "1.0", label="mkl", document=spoilt, metadata_extra=metadata)
    results = log(check(tmp_path), tmp_path)["results"]
    found = {result["ruleId"]: result for result in results}
    assert (
        "write 'Programming Language :: Python'" in found["unknown-classifier"]["message"]["text"]
    )
    assert "bad-values" in found
    assert not any("fixes" in result for result in results)


def test_nothing_found(tmp_path: Path) -> None:
    """A run without findings is a run all the same, so that old alerts are closed."""
    run = log(check(sound_release(tmp_path)), tmp_path)
    assert run["results"] == []
    assert run["tool"]["driver"]["rules"] == []


def test_fingerprints(tmp_path: Path) -> None:
    """A finding that moves to another line or folder keeps its fingerprint."""

    def prints(folder: Path, indent: bytes) -> list[str]:
        spoilt = json.dumps(document(lambda d: d["variants"].update(cpu={}, gpu={}))).encode()
        report = check(write(folder / INDEX_FILE, indent + spoilt))
        results = log(report, folder)["results"]
        return [result["partialFingerprints"]["wheelfit/v1"] for result in results]

    first = prints(tmp_path / "a", b"")
    assert first == prints(tmp_path / "b", b"\n\n\n")
    assert len(set(first)) == len(first) > 2


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("dist/x.whl", {"uri": "dist/x.whl", "uriBaseId": "%SRCROOT%"}),
        ("/root/dist/ü.whl", {"uri": "dist/%C3%BC.whl", "uriBaseId": "%SRCROOT%"}),
        ("/elsewhere/x.whl", {"uri": "file:///elsewhere/x.whl"}),
        ("https://index.example/x.whl", {"uri": "https://index.example/x.whl"}),
    ],
)
def test_places(where: str, expected: dict[str, str]) -> None:
    """Files of the project are named from its root, others by their URL."""
    report = Report.of((), [UncheckedTarget(where, "file-problem", "no")])
    run = log(report, Path("/root"))
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert not run["invocations"][0]["executionSuccessful"]
    (location,) = notification["locations"]
    assert location["physicalLocation"]["artifactLocation"] == expected
