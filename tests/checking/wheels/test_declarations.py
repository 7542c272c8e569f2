"""What a wheel declares to the loader of run time is checked before a user's machine reads it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from checking.releases import check, codes, only, rewritten
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wheelfit.checking.wheels.wheel import check_wheel
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.loader.declaration_files import FOLDER
from wheelfit_runtime.loader.declarations import scan

CU12 = {
    "schema": 1,
    "group": "spam",
    "implementation": "cu12",
    "module": "spam_cu12",
    "distribution": "spam-cu12",
    "properties": ["nvidia :: cuda_version_lower_bound :: 12.0"],
}
GROUP = {
    "schema": 1,
    "group": "spam",
    "known": [
        {"implementation": "cu12", "install": "spam-cu12", "properties": CU12["properties"]},
        {"implementation": "generic", "install": "spam[generic]>=1"},
    ],
}
Files = Mapping[str, object]


def wheel(folder: Path, files: Files, name: str = "spam-cu12", module: str = "__init__.py") -> Path:
    """Build a wheel with a package and some further files."""
    more = {
        path: content if isinstance(content, str | bytes) else json.dumps(content, indent=1)
        for path, content in files.items()
    }
    package = name.replace("-", "_")
    tag = "cp313-cp313-linux_x86_64"
    return build_wheel(folder, name, "1.0", files={f"{package}/{module}": "", **more}, tag=tag)


def declared(**changes: object) -> Files:
    """Return the file of the implementation, changed."""
    return {f"{FOLDER}/spam-cu12.json": {**CU12, **changes}}


def known(install: str) -> Files:
    """Return the file of a group that names one implementation."""
    told = {**GROUP, "known": [{"implementation": "cu12", "install": install}]}
    return {f"{FOLDER}/spam-cu12.json": told}


@pytest.mark.parametrize(
    "files",
    [
        {},
        declared(),
        declared(module="spam_cu12.core.fast"),
        declared(module="spam_cu12.native"),
        declared(module="spam_cu12.single"),
        declared(distribution="Spam.CU12"),
        declared(priority=1, properties=[]),
        declared(properties=["acme :: wire :: 3"], dimensions={"acme :: wire": "requirement"}),
        declared(properties=["x86_64 :: mine :: 2"], dimensions={"x86_64 :: mine": ["2", "1"]}),
        declared(properties=["nvidia :: sm_arch :: 90_real", "aarch64 :: bti :: on"]),
        {f"{FOLDER}/spam_cu12.json": CU12},
        {f"{FOLDER}/spam-cu12.json": GROUP},
        {
            f"{FOLDER}/spam-cu12-11.json": {**CU12, "implementation": "cu11"},
            f"{FOLDER}/spam-cu12-12.json": CU12,
            f"{FOLDER}/spam-cu12.json": GROUP,
        },
        {"spam_cu12-1.0.data/platlib/wheelfit_implementations/spam-cu12.json": CU12},
        {"spam_cu12/wheelfit_implementations/readme.txt": "no declaration at all"},
    ],
)
def test_sound(tmp_path: Path, files: Files) -> None:
    """B-34: nothing is found in what the loader uses."""
    inside = {"core/fast.py": "", "native.cpython-313-x86_64-linux-gnu.so": "", "single.pyd": ""}
    more = {f"spam_cu12/{path}": content for path, content in inside.items()}
    report = check(wheel(tmp_path, {**more, **files}), full=True)
    assert not report.findings
    assert not report.unchecked


@pytest.mark.parametrize(
    ("files", "code", "words"),
    [
        (declared(module="spam_cuda12"), "missing-module", "no module spam_cuda12"),
        (declared(module="spam_cu12.core"), "missing-module", "no module spam_cu12.core"),
        (
            {"spam_cu12/core.old.py": "", **declared(module="spam_cu12.core")},
            "missing-module",
            "no module spam_cu12.core",
        ),
        (declared(module="spam"), "missing-module", "no module spam"),
        (
            declared(distribution="spam-cu13"),
            "wrong-distribution",
            "the wheel belongs to spam-cu12",
        ),
        (
            {f"{FOLDER}/__init__.py": ""},
            "declarations-as-package",
            "__init__.py makes the folder a package",
        ),
        ({f"{FOLDER}/spam.json": CU12}, "shared-declaration-name", "have a spam.json too"),
        ({f"{FOLDER}/cu12.json": CU12}, "shared-declaration-name", "have a cu12.json too"),
        ({f"{FOLDER}/_spam.json": GROUP}, "shared-declaration-name", "have a _spam.json too"),
        ({f"{FOLDER}/spam.json": GROUP}, "shared-declaration-name", "have a spam.json too"),
        (
            {f"{FOLDER}/spam-cu12.json": CU12, f"{FOLDER}/spam-cu12-old.json": CU12},
            "repeated-declaration",
            "spam-cu12-old.json declares spam cu12 already",
        ),
        (
            {f"{FOLDER}/spam-cu12.json": GROUP, f"{FOLDER}/spam-cu12-old.json": GROUP},
            "repeated-declaration",
            "declares spam already",
        ),
        ({f"{FOLDER}/spam-cu12.JSON": CU12}, "unread-declaration", "at the top of a wheel"),
        ({f"{FOLDER}/.spam-cu12.json": CU12}, "unread-declaration", "at the top of a wheel"),
        ({f"{FOLDER}/spam/cu12.json": CU12}, "unread-declaration", "this is"),
        ({f"spam_cu12/{FOLDER}/spam-cu12.json": CU12}, "unread-declaration", "this is spam_cu12/"),
        (
            {f"spam_cu12-1.0.data/data/{FOLDER}/spam-cu12.json": CU12},
            "unread-declaration",
            "this is spam_cu12-1.0.data/data/",
        ),
        (known("spam-avx2 or spam-generic"), "not-installable", "'spam-avx2 or spam-generic'"),
        (known("--pre spam"), "not-installable", "'--pre spam'"),
        (known('spam; "x" in variant_namespaces'), "not-installable", "variant_namespaces"),
        (declared(properties=["aarch64 :: btiecv :: on"]), "unknown-feature", "feature btiecv"),
        (declared(properties=["x86_64 :: lvl :: v3"]), "unknown-feature", "no feature lvl"),
        (declared(properties=["x86_64 :: level :: v9"]), "unknown-value", "the value v9"),
    ],
)
def test_found(tmp_path: Path, files: Files, code: str, words: str) -> None:
    """B-34, P-28: what the loader would use wrongly, or never see, is found once, in its file."""
    path = wheel(tmp_path, files)
    report = check(path)
    assert codes(report) == {code: 1}
    finding = only(report, code)
    assert words in finding.message
    assert finding.where == str(path)
    assert finding.member in files


@pytest.mark.parametrize(
    "told",
    [
        "",
        "[]",
        b"\xff",
        "[" * 20_000 + "]" * 20_000,
        " " * 64 * 1024 + "{}",
        b"\0" * (3 << 20),
        {**CU12, "schema": 2},
        {**CU12, "group": "../evil"},
        {**CU12, "module": "os; import evil"},
        {**CU12, "priority": "high"},
        {**CU12, "properties": ["x86_64 :: v3"]},
        {**GROUP, "known": ["cu12"]},
    ],
)
def test_in_the_words_of_the_loader(tmp_path: Path, told: object) -> None:
    """B-34: what the loader leaves out is an error, and says what its warning would say."""
    site = tmp_path / "site" / FOLDER
    site.mkdir(parents=True)
    content = told if isinstance(told, str | bytes) else json.dumps(told)
    data = content.encode() if isinstance(content, str) else content
    (site / "spam-cu12.json").write_bytes(data)
    (problem,) = scan([str(site.parent)]).problems
    found = only(check(wheel(tmp_path, {f"{FOLDER}/spam-cu12.json": data})), "bad-declaration")
    assert found.message == problem.removeprefix(f"{site}{os.sep}")
    assert found.member == f"{FOLDER}/spam-cu12.json"


def test_where_in_the_file(tmp_path: Path) -> None:
    """F-131: a finding has the line of what is wrong, for editors and review tools."""
    report = check(wheel(tmp_path, {**declared(module="spam", properties=["x86_64 :: a :: b"])}))
    assert [(finding.path, finding.line) for finding in report.findings] == [
        ("module", 5),
        ("properties", 7),
    ]
    spoilt = {**GROUP, "known": [*GROUP["known"], {"implementation": "x", "install": "a b"}]}  # type: ignore[misc]
    report = check(wheel(tmp_path, {f"{FOLDER}/spam-cu12.json": spoilt}))
    (finding,) = report.findings
    assert finding.path == "known[2].install"
    assert finding.line is not None


@pytest.mark.parametrize(
    ("name", "told", "found"),
    [
        ("spam-cu12.json", CU12, []),
        ("Spam_CU12.json", CU12, []),
        ("kernels-cu12.json", CU12, []),
        ("cu12.json", CU12, ["shared-declaration-name"]),
        ("spam-cu123.json", CU12, ["shared-declaration-name"]),
        ("kernels.json", GROUP, []),
        ("spam.json", GROUP, ["shared-declaration-name"]),
    ],
)
def test_names(tmp_path: Path, name: str, told: dict[str, object], found: list[str]) -> None:
    """B-34: a file is called like its distribution, or like group and implementation."""
    files = {f"{FOLDER}/{name}": {**told, "module": "kernels", "distribution": "kernels"}}
    path = wheel(tmp_path, files, name="kernels")
    assert [*codes(check(path))] == found


def test_damaged(tmp_path: Path) -> None:
    """B-38: a declaration that cannot be unpacked hides nothing else of the wheel."""
    path = wheel(tmp_path, {**declared(module="spam"), f"{FOLDER}/__init__.py": ""})
    data = path.read_bytes()
    name = f"{FOLDER}/spam-cu12.json".encode()
    start = data.index(name) + len(name)
    path.write_bytes(data[:start] + b"\xff" * 8 + data[start + 8 :])
    found = codes(check(path))
    assert found["damaged-content"] == found["declarations-as-package"] == 1
    assert "missing-module" not in found


def test_too_many(tmp_path: Path) -> None:
    """B-34: as many files are looked at as the loader reads, and the rest is told of."""
    files = {f"{FOLDER}/spam-cu12-{number}.json": "" for number in range(1001)}
    report = check(wheel(tmp_path, files))
    assert codes(report) == {"bad-declaration": 1001}
    assert report.findings[0].message == f"{FOLDER} has 1001 files; 1000 are read"


def test_not_in_the_record(tmp_path: Path) -> None:
    """B-36: a declaration that was put into a finished wheel is judged all the same."""
    path = rewritten(wheel(tmp_path, {}), additions={f"{FOLDER}/a.json": b"{}"})
    assert set(codes(check(path))) == {"bad-record", "bad-declaration"}


def test_other_wheels_pay_nothing(tmp_path: Path) -> None:
    """A wheel that declares nothing brings nothing of the loader with it."""
    path = build_wheel(tmp_path, "spam", "1.0")
    program = (
        "import sys; from pathlib import Path\n"
        "from wheelfit.checking.targets.paths import check_paths\n"
        "check_paths([Path(sys.argv[1])]); print('wheelfit_runtime.loader' in sys.modules)"
    )
    command = [sys.executable, "-c", program, os.fspath(path)]
    assert subprocess.check_output(command, text=True) == "False\n"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just("spam"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


@given(st.dictionaries(st.sampled_from(sorted({*CU12, "dimensions", "known"})), _JSON))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_declared(tmp_path: Path, told: dict[str, object]) -> None:
    """F-131: no declaration makes a check fail."""
    path = wheel(tmp_path, declared(**told))
    findings, _ = check_wheel(io.BytesIO(path.read_bytes()), path.name, where="x.whl")
    assert all(finding.message and finding.rule and finding.member for finding in findings)
