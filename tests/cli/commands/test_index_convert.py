"""``wheelfit index convert``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner, tree

from wheelfit.core.metadata import read_document
from wheelfit.testing.wheels import build_release, build_wheel

OLD: dict[str, Any] = {
    "$schema": "https://variants-schema.wheelnext.dev/v0.0.3.json",
    "default-priorities": {"namespace": ["blas"]},
    "providers": {"blas": {"install-time": False}},
    "static-properties": {"blas": {"library": ["openblas", "mkl"]}},
    "variants": {
        "00000000": {},
        "mkl": {"blas": {"library": ["mkl"]}},
    },
}


@pytest.fixture
def old_index(tmp_path: Path) -> Path:
    """Write an index in an old layout: pages, documents, wheels."""
    folder = tmp_path / "old" / "fast"
    build_release(folder, "fast", "1.0", OLD, (None, *OLD["variants"]))
    links = [f'<a href="{path.name}">{path.name}</a>' for path in sorted(folder.iterdir())]
    links.append(
        '<a href="https://files.example.org/fast-0.9-py3-none-any.whl#sha256=00ff" '
        'data-yanked="bad" data-requires-python="&gt;=3.9">fast-0.9-py3-none-any.whl</a>'
    )
    (folder / "index.html").write_text("\n".join(links))
    (tmp_path / "old" / "static").mkdir()
    (tmp_path / "old" / "static" / "logo.png").touch()
    return tmp_path / "old"


def entries(place: Path) -> dict[str, dict[str, Any]]:
    """Return the file entries of the new page."""
    document = json.loads((place / "simple/fast/index.json").read_bytes())
    return {file["filename"]: file for file in document["files"]}


def document(place: Path) -> dict[str, Any]:
    """Return the new document."""
    url = entries(place)["fast-1.0-variants.json"]["url"]
    found: dict[str, Any] = json.loads((place / "simple/fast" / url).read_bytes())
    return found


def test_documents_are_converted(run: Runner, old_index: Path, tmp_path: Path) -> None:
    """F-53, F-56: the document has the current layout and the labels of the wheels."""
    before = tree(old_index)
    new = tmp_path / "new"
    report = run("index", "convert", old_index, "--to", new, "--json").object
    assert report["documents"] == {"fast-1.0-variants.json": "L3"}
    assert report["projects"] == 1
    assert tree(old_index) == before
    made = document(new)
    assert made["$schema"].endswith("/peps/850/v0.2.0.json")
    assert made["variants"].keys() == {"00000000", "mkl"}
    page = entries(new)
    for path in (old_index / "fast").glob("*.whl"):
        copy = (new / "simple/fast" / page[path.name]["url"]).resolve()
        assert copy.read_bytes() == path.read_bytes()
        assert Path(f"{copy}.metadata").exists()
    elsewhere = page["fast-0.9-py3-none-any.whl"]
    assert elsewhere["url"] == "https://files.example.org/fast-0.9-py3-none-any.whl"
    assert (elsewhere["yanked"], elsewhere["requires-python"]) == ("bad", ">=3.9")
    assert elsewhere["hashes"] == {"sha256": "00ff"}


def test_second_run(run: Runner, old_index: Path, tmp_path: Path) -> None:
    """A second run writes nothing."""
    new = tmp_path / "new"
    run("index", "convert", old_index, "--to", new)
    before = tree(new)
    assert "0 written" in run("index", "convert", old_index, "--to", new).out
    assert tree(new) == before


def test_layout_of_each_document(run: Runner, old_index: Path, tmp_path: Path) -> None:
    """Two documents of one release are reported with the layout of each."""
    run("index", "convert", old_index, "--to", tmp_path / "first")
    current = json.dumps(document(tmp_path / "first"))
    (old_index / "fast/fast-1.0.0-variants.json").write_text(current)
    with (old_index / "fast/index.html").open("a") as page:
        page.write('\n<a href="fast-1.0.0-variants.json">fast-1.0.0-variants.json</a>')
    report = run("index", "convert", old_index, "--to", tmp_path / "second", "--json").object
    assert report["documents"] == {
        "fast-1.0-variants.json": "L3",
        "fast-1.0.0-variants.json": "L7",
    }


def test_losses(run: Runner, old_index: Path, tmp_path: Path) -> None:
    """F-56: A conversion that loses information is refused, or exits with 32 if accepted."""
    lossy = json.loads(json.dumps(OLD))
    lossy["providers"]["gpu"] = {"requires": ["gpu-provider"], "plugin-api": "gpu:Plugin"}
    lossy["default-priorities"] = {"namespace": ["gpu", "blas"], "feature": {"gpu": ["arch"]}}
    (old_index / "fast/fast-1.0-variants.json").write_text(json.dumps(lossy))
    new = tmp_path / "new"
    report = run("index", "convert", old_index, "--to", new, "--json", code=9).object
    assert [finding["code"] for finding in report["findings"]] == ["lossy-conversion"]
    assert not (new / "simple").exists()
    report = run(
        "index", "convert", old_index, "--to", new, "--accept-losses", "--json", code=32
    ).object
    assert "preferred features of gpu" in report["lost"][0]


@pytest.mark.parametrize("text", ["", "[]", '{"$schema": "https://evil.example/v9.0.0.json"}'])
def test_unreadable_document(run: Runner, old_index: Path, tmp_path: Path, text: str) -> None:
    """An unreadable document is an error; with ``--keep-going`` it is left out."""
    (old_index / "fast/fast-1.0-variants.json").write_text(text)
    new = tmp_path / "new"
    result = run("index", "convert", old_index, "--to", new, code=9)
    assert "unconvertible" in result.out
    run("index", "convert", old_index, "--to", new, "--keep-going", code=9)
    assert "fast-1.0-variants.json" not in entries(new)


def test_published_index(run: Runner, published_index: Path, tmp_path: Path) -> None:
    """Every document of published releases is converted to a valid current one."""
    new = tmp_path / "new"
    report = run("index", "convert", published_index, "--to", new, "--json").object
    names = [path.name for path in published_index.rglob("*-variants.json")]
    assert len(report["documents"]) == len(names)
    assert set(report["documents"].values()) <= {"L2", "L3"}
    for path in new.rglob("*-variants.json"):
        assert read_document(path.read_bytes(), where=path.name).layout == "L7"
    assert {path.name for path in new.rglob("*-variants.json")} == set(names)


def test_usage_errors(run: Runner, old_index: Path, tmp_path: Path) -> None:
    """The target must differ from the source, and the source must exist."""
    run("index", "convert", old_index, "--to", old_index, code=2)
    run("index", "convert", tmp_path / "none", "--to", tmp_path / "new", code=1)


def test_the_source_by_another_name(run: Runner, old_index: Path, tmp_path: Path) -> None:
    """An index is not written over itself either if its folder is named in another way."""
    new, link = tmp_path / "new", tmp_path / "link"
    run("index", "convert", old_index, "--to", new)
    link.symlink_to(new)
    before = tree(new)
    for source in (new / "simple", new.as_uri(), link, new / ".." / "new"):
        ended = run("index", "convert", source, "--to", new, code=2)
        assert "the index cannot be written over itself" in ended.err
    assert tree(new) == before


def test_changed_wheel(run: Runner, old_index: Path, tmp_path: Path) -> None:
    """F-131: If a wheel changed since the last conversion, nothing is published."""
    new = tmp_path / "new"
    run("index", "convert", old_index, "--to", new)
    before = tree(new)
    name = "fast-1.0-py3-none-any-mkl.whl"
    build_wheel(
        old_index / "fast", "fast", "1.0", label="mkl", document=OLD, files={"more": b"more"}
    )
    newer = build_wheel(old_index / "fast", "fast", "2.0")
    with (old_index / "fast/index.html").open("a") as page:
        page.write(f'<a href="{newer.name}">{newer.name}</a>')
    ended = run("index", "convert", old_index, "--to", new, "--json", code=9)
    assert [(finding["code"], finding["where"]) for finding in ended.object["findings"]] == [
        ("changed-file", name)
    ]
    assert tree(new) == before
    ended = run("index", "convert", old_index, "--to", new, "--keep-going", code=9)
    assert "nothing is published" in ended.out
    assert tree(new) == before
