"""``wheelfit show`` and ``wheelfit why``: installed packages, variants, and dependents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

DOCUMENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}, "open": {"blas": {"library": ["openblas"]}}},
    static={"blas": {"library": ["openblas", "mkl"]}},
    providers={},
    namespaces=["blas"],
)
OTHER = "sys_platform == 'never'"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve an application with an extra for a plug-in, and a library with variants."""
    place = tmp_path / "index"
    for label in ("mkl", "open"):
        needs = ["small", f"never; {OTHER}", *(["for-mkl"] if label == "mkl" else [])]
        build_wheel(place, "fast", "2.0", label=label, document=DOCUMENT, requires=needs)
    (place / "fast-2.0-variants.json").write_text(json.dumps(DOCUMENT))
    build_wheel(
        place,
        "app",
        "1.5",
        requires=["fast>=1", 'plugin<2; extra == "more"', 'other; extra == "unused"'],
        provides_extra=["more", "unused"],
    )
    build_wheel(place, "web", "3", requires=["app[more]"])
    for name in ("small", "for-mkl", "plugin", "other"):
        build_wheel(place, name, "1.0")
    with RecordingIndex(place) as server:
        yield server


@pytest.fixture
def python(run: Runner, index: RecordingIndex, environment: Callable[[], Path]) -> Path:
    """Install the application in a real environment."""
    path = environment()
    run("install", "--python", path, "-i", index.url, "--label", "fast=mkl", "web", "other")
    return path


def test_show(run: Runner, python: Path) -> None:
    """A variant is shown with dependencies, source, and compatibility."""
    lines = run("show", "--python", python, "fast").out.splitlines()
    assert lines[:2] == ["Name: fast", "Version: 2.0"]
    assert "Requested: no" in lines
    assert "Requires: small, for-mkl" in lines or "Requires: for-mkl, small" in lines
    assert "Required-by: app" in lines
    assert "Variant: mkl" in lines
    assert "Variant-properties: blas :: library :: mkl" in lines
    assert "Variant-wheel: fast-2.0-py3-none-any-mkl.whl" in lines
    assert "Variant-chosen-for: this machine, --label fast=mkl" in lines
    assert "Variant-fits: yes" in lines


def test_show_several(run: Runner, python: Path) -> None:
    """Names in any spelling are shown; a missing package is a warning."""
    result = run("show", "--python", python, "Web", "APP", "nosuch", "--files")
    first, second = result.out.split("---\n")
    assert "Requires: app" in first
    assert "Requires: fast, plugin" in second
    assert "Required-by: web" in second
    assert "  app/__init__.py" in second.split("Files:\n")[1].splitlines()
    assert "nosuch is not installed" in result.err


def test_show_json(run: Runner, python: Path) -> None:
    """Each dependency has its requirement, and whether it is met."""
    library = next(python.parent.parent.glob("lib/python3*/site-packages"))
    (library / "plugin-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: plugin\nVersion: 2.5\nSummary: about\n"
        "Project-URL: Home Page, https://x.example\nLicense: MIT\n"
    )
    run("uninstall", "--python", python, "small")
    report = run("show", "--python", python, "app", "fast", "plugin", "--json").object
    app, fast, plugin = report["packages"]
    assert {one["name"]: one["met"] for one in app["requires"]} == {"fast": True, "plugin": False}
    assert {one["name"]: one["installed"] for one in fast["requires"]} == {
        "small": None,
        "for-mkl": "1.0",
    }
    assert (plugin["summary"], plugin["home_page"]) == ("about", "https://x.example")
    assert (plugin["license"], plugin["variant"], plugin["files"]) == ("MIT", None, None)


def test_show_a_missing_package(run: Runner, python: Path) -> None:
    """The error names similar packages."""
    error = run("show", "--python", python, "fats", "--json", code=1).error
    assert error["code"] == "not-installed"
    assert "did you mean 'fast'?" in error["hint"]


def test_show_a_broken_package(run: Runner, python: Path) -> None:
    """The error names the distributions that cannot be read, since it may be one of them."""
    packages = run("list", "--python", python, "--json").object["packages"]
    broken = Path(packages[0]["location"]) / "harmed-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Summary: no name\n")
    error = run("show", "--python", python, "harmed", "--json", code=1).error
    assert f"{broken}: its metadata has the invalid name" in error["note"]


def test_why(run: Runner, python: Path) -> None:
    """Chains begin with requested packages, and name extras and markers."""
    said = run("why", "--python", python, "for-mkl").out.splitlines()
    assert said == ["for-mkl 1.0", "  web 3 -> app[more] -> fast>=1 -> for-mkl"]
    said = run("why", "--python", python, "plugin").out.splitlines()
    assert said == ["plugin 1.0", '  web 3 -> app[more] -> plugin<2; extra == "more"']
    assert run("why", "--python", python, "web").out == "web 3\n  requested\n"
    # That an extra nobody asked for needs it too is no reason.
    assert run("why", "--python", python, "other").out == "other 1.0\n  requested\n"


def test_why_json(run: Runner, python: Path) -> None:
    """Each link has the requirement of the previous one."""
    report = run("why", "--python", python, "Plugin", "--json").object
    (chain,) = report["chains"]
    assert [one["name"] for one in chain] == ["web", "app", "plugin"]
    assert [one["requirement"] for one in chain] == [
        None,
        "app[more]",
        'plugin<2; extra == "more"',
    ]
    assert [one["extra"] for one in chain] == [None, None, "more"]
    assert (report["truncated"], report["installed"]) == (False, "1.0")


def test_why_with_an_extra(
    run: Runner, index: RecordingIndex, environment: Callable[[], Path]
) -> None:
    """Unrecorded extras of requested packages are named only where nothing else leads."""
    python = environment()
    run("install", "--python", python, "-i", index.url, "app[more]")
    said = run("why", "--python", python, "plugin").out.splitlines()
    assert said == ["plugin 1.0", '  app[more] 1.5 -> plugin<2; extra == "more"']
    run("uninstall", "--python", python, "app")
    lines = run("why", "--python", python, "plugin").out.splitlines()
    assert lines[1:] == ["  not required by any package, and not requested"]


def test_why_in_a_circle(run: Runner, tmp_path: Path, environment: Callable[[], Path]) -> None:
    """Chains end for packages that need each other."""
    place = tmp_path / "circle"
    for one, other in (("a", "b"), ("b", "c"), ("c", "a")):
        build_wheel(place, one, "1", requires=[other])
    python = environment()
    run("install", "--python", python, "--no-index", "-f", place, "a")
    assert run("why", "--python", python, "c").out.splitlines() == ["c 1", "  a 1 -> b -> c"]


def test_why_of_a_missing_package(run: Runner, environment: Callable[[], Path]) -> None:
    """A package missing from the environment is an error."""
    error = run("why", "nosuch", "--python", environment(), "--json", code=1).error
    assert error["code"] == "not-installed"
