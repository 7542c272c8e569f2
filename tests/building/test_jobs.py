"""What is remembered of the jobs of a matrix."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from wheelfit.building.front_end.build_orders import BuildOrder, BuiltWheel, TunedParts
from wheelfit.building.front_end.recipes import Recipe
from wheelfit.building.front_end.toolchains.rust import CompiledCrates
from wheelfit.building.front_end.variants import PLAIN, WheelToBuild
from wheelfit.building.jobs import order_digest, record_of_wheels, source_digest, wheels_of_record
from wheelfit.core.labels import Label
from wheelfit.core.properties import PropertySet

V3 = PropertySet.from_mapping({"x86_64": {"level": ["v3"]}})


def archive(path: Path, text: str, *, mode: int = 0o644, time: int = 0) -> Path:
    """Write a source distribution of one file."""
    with tarfile.open(path, "w:gz") as packed:
        entry = tarfile.TarInfo("demo-1.0/demo.py")
        entry.size, entry.mode, entry.mtime = len(text), mode, time
        packed.addfile(entry, io.BytesIO(text.encode()))
    return path


def test_when_sources_are_the_same(tmp_path: Path) -> None:
    """Contents, names and modes count; when it was packed does not."""
    one = source_digest(archive(tmp_path / "a.tar.gz", "text"))
    assert source_digest(archive(tmp_path / "b.tar.gz", "text", time=1_700_000_000)) == one
    assert source_digest(archive(tmp_path / "c.tar.gz", "other")) != one
    assert source_digest(archive(tmp_path / "d.tar.gz", "text", mode=0o755)) != one
    (tmp_path / "e.zip").write_bytes(b"text")
    assert source_digest(tmp_path / "e.zip") != one


def test_when_orders_are_the_same() -> None:
    """What decides a wheel decides its key: labels, settings, flags, interpreter, compilers."""
    order = BuildOrder(Path("x"), (PLAIN,), Recipe())

    def digest(order: BuildOrder = order, python: str = "3.12", **environ: str) -> str:
        return order_digest(order, "source", python, "", environ)

    assert digest(PATH="/a", HOME="/b") == digest(PATH="/c")
    different = {
        digest(),
        digest(CFLAGS="-O3"),
        digest(CC="clang"),
        digest(python="3.13"),
        digest(replace(order, choices=(WheelToBuild(Label("v3"), V3),))),
        digest(replace(order, recipe=Recipe(environment={"A": "b"}))),
        digest(replace(order, recipe=Recipe(flags=True))),
        digest(replace(order, epoch=0)),
    }
    assert len(different) == 8


def built(folder: Path) -> BuiltWheel:
    """Return a wheel that is there."""
    path = folder / "demo-1.0-py3-none-any-v3.whl"
    path.write_bytes(b"wheel")
    return BuiltWheel(
        path=path,
        label=Label("v3"),
        properties=V3,
        backend="flit-core 3.12",
        flags=("-march=x86-64-v3",),
        validators={"x86_64": "built-in provider", "blas": None},
        plugins={"blas": "some 1.0"},
        notes=("a note",),
        content="00",
        sha256=hashlib.sha256(b"wheel").hexdigest(),
        size=5,
        tuned=TunedParts(("a.so",), ("b.so",), CompiledCrates(1, ("c",))),
    )


def test_remembered(tmp_path: Path) -> None:
    """All that is told of a wheel is remembered."""
    wheel = built(tmp_path)
    assert wheels_of_record(record_of_wheels([wheel]), tmp_path) == (wheel,)


def test_remembered_wheels_that_are_others(tmp_path: Path) -> None:
    """A wheel with other content is none of those that were built; nor is one elsewhere."""
    data = record_of_wheels([built(tmp_path)])
    (tmp_path / "demo-1.0-py3-none-any-v3.whl").write_bytes(b"other")
    assert wheels_of_record(data, tmp_path) is None
    data["wheels"][0]["name"] = "../../demo-1.0-py3-none-any-v3.whl"
    (tmp_path / "x").mkdir()
    with pytest.raises(FileNotFoundError):
        wheels_of_record(data, tmp_path / "x")
