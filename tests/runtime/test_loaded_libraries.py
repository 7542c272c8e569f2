"""What is mapped in a process, and what loading more would get into."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from python_runs import printed_by

from wheelfit.testing.drivers import find_compiler
from wheelfit.testing.libraries import compile_library
from wheelfit_runtime.loader.loaded_libraries import (
    Library,
    family_and_major,
    find_conflicts,
    is_same_library,
    read_library,
    read_mapped,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")

_CHILD = """
import ctypes, json, os, shutil, sys
from wheelfit_runtime.loader.loaded_libraries import find_conflicts, read_library, read_mapped
loaded, wanted, replaced = json.loads(sys.argv[1])
for path in loaded:
    ctypes.CDLL(path)
if replaced:
    os.replace(replaced, loaded[0])
found = find_conflicts([read_library(path) for path in wanted], read_mapped())
print(json.dumps([[one.level, one.wanted.path, one.mapped.path, one.reason] for one in found]))
"""


def _build(folder: Path, name: str, soname: str, value: int, *flags: str) -> str:
    """Link a library that holds one number, and return its path."""
    if find_compiler() is None:
        pytest.skip("needs a C compiler (cc, gcc or clang)")
    folder.mkdir(parents=True, exist_ok=True)
    source = f"int wheelfit_value = {value};"
    path = folder / name
    path.write_bytes(compile_library(soname, source, options=flags))
    return str(path)


def _conflicts(
    loaded: list[str], wanted: list[str], replaced: str = ""
) -> list[tuple[str, str, str, str]]:
    """Load libraries in a process of its own, and return what it says of others."""
    told = printed_by("-c", _CHILD, json.dumps([loaded, wanted, replaced]))
    return [tuple(pair) for pair in json.loads(told)]


def test_read(tmp_path: Path) -> None:
    """A library that is mapped is found with its SONAME and build identifier."""
    path = _build(tmp_path, "any.so.1.2", "libany.so.1", 1, "-Wl,--build-id=0x0123abcd")
    assert read_library(path) == Library(path, "libany.so.1", "0123abcd")
    maps = tmp_path / "maps"
    maps.write_text(
        "559a8a400000-559a8a401000 r-xp 00000000 08:01 131 /usr/bin/python3.11\n"
        f"7f0000000000-7f0000001000 r--p 00000000 08:01 42   {path}\n"
        f"7f0000001000-7f0000002000 r-xp 00000000 08:01 42   {path}\n"
        f"7f0000003000-7f0000004000 r-xp 00000000 08:01 43   {tmp_path}/libold.so.3 (deleted)\n"
    )
    assert read_mapped(str(maps)) == (
        Library(path, "libany.so.1", "0123abcd"),
        Library(f"{tmp_path}/libold.so.3", replaced=True),
    )


def test_nobody_tells(tmp_path: Path) -> None:
    """Where no kernel says what is mapped, nothing is and nothing conflicts."""
    assert read_mapped(str(tmp_path / "absent")) == ()
    assert find_conflicts([Library("/a/libcudart.so.12", "libcudart.so.12")], ()) == ()


@pytest.mark.parametrize("build_id", ["none", "sha1"])
def test_same_soname(build_id: str, tmp_path: Path) -> None:
    """Another content under a SONAME that is mapped is an error, with and without identifiers."""
    flag = f"-Wl,--build-id={build_id}"
    one = _build(tmp_path / "one", "libany.so.1", "libany.so.1", 1, flag)
    other = _build(tmp_path / "other", "libany.so.1", "libany.so.1", 2, flag)
    assert _conflicts([one], [other]) == [
        ("error", other, one, f"another libany.so.1 is loaded already: {one}")
    ]


@pytest.mark.parametrize("build_id", ["none", "sha1"])
def test_same_content(build_id: str, tmp_path: Path) -> None:
    """The same content under the same or another path is not a conflict."""
    flag = f"-Wl,--build-id={build_id}"
    one = _build(tmp_path / "one", "libany.so.1", "libany.so.1", 1, flag)
    copy = _build(tmp_path / "copy", "libany.so.1", "libany.so.1", 1, flag)
    assert _conflicts([one], [one, copy]) == []


def test_odd_paths(tmp_path: Path) -> None:
    """A library is seen whatever its path is, as far as the kernel tells it."""
    one = _build(tmp_path / " a\r\n\tb \udcff", "libany.so.1 ", "libany.so.1", 1)
    other = _build(tmp_path / "other", "libany.so.1", "libany.so.1", 2)
    link = tmp_path / "libany.so"
    link.symlink_to(one)
    assert [path for _, _, path, _ in _conflicts([one], [one, str(link), other])] == [one]


@pytest.mark.parametrize(
    ("mapped", "wanted"),
    [
        pytest.param("libany.so.1", "libany.so.2", id="of no family"),
        pytest.param("libcudart.so.12", "libcublas.so.12", id="of one major version"),
    ],
)
def test_another_soname(mapped: str, wanted: str, tmp_path: Path) -> None:
    """Libraries with other SONAMEs do not conflict unless they are of two major versions."""
    one, other = (_build(tmp_path, name, name, 1) for name in (mapped, wanted))
    assert _conflicts([one], [other]) == []


@pytest.mark.parametrize(
    ("mapped", "wanted", "family"),
    [
        ("libcudart.so.12", "libcudart.so.13", "CUDA 12"),
        # The number of a SONAME is not that of CUDA.
        ("libcufft.so.11", "libcudart.so.13", "CUDA 12"),
        ("libamdhip64.so.6", "libamdhip64.so.7", "amdhip64 6"),
    ],
)
def test_two_majors(mapped: str, wanted: str, family: str, tmp_path: Path) -> None:
    """Two majors of a family with SONAMEs of their own are a warning, one for each major."""
    one = _build(tmp_path, mapped, mapped, 1)
    other = _build(tmp_path, wanted, wanted, 2)
    ((level, _, path, reason),) = _conflicts([one], [other])
    assert (level, path) == ("warn", one)
    assert reason.startswith(f"{family} is loaded already")


def test_both_at_once(tmp_path: Path) -> None:
    """CUDA majors that share a SONAME are an error, beside the warning for those that do not."""
    mapped = [
        _build(tmp_path / "12", "libcudart.so.12", "libcudart.so.12", 1),
        _build(tmp_path / "12", "libcurand.so.10", "libcurand.so.10", 2),
    ]
    wanted = [
        _build(tmp_path / "13", "libcudart.so.13", "libcudart.so.13", 3),
        _build(tmp_path / "13", "libcurand.so.10", "libcurand.so.10", 4),
    ]
    assert [level for level, *_ in _conflicts(mapped, wanted)] == ["error", "warn"]


def test_replaced(tmp_path: Path) -> None:
    """A file that was exchanged after it was mapped is an error, under its path and its SONAME."""
    one = _build(tmp_path, "libany.so.1", "libany.so.1", 1)
    new = _build(tmp_path / "new", "libany.so.1", "libany.so.1", 2)
    other = _build(tmp_path / "other", "libany.so.1", "libany.so.1", 2)
    found = _conflicts([one], [one, other], replaced=new)
    assert [(level, path) for level, path, *_ in found] == [("error", one), ("error", other)]
    assert found[0][3] == f"{one} was replaced after this process had loaded it"


def test_unreadable(tmp_path: Path) -> None:
    """What cannot be read is the same as nothing."""
    library = Library(str(tmp_path / "absent"), "libany.so.1")
    other = Library(str(tmp_path / "gone"), "libany.so.1")
    assert not is_same_library(library, other)
    with pytest.raises(OSError, match="absent"):
        read_library(library.path)
    assert read_library(str(tmp_path)) == Library(str(tmp_path))


def test_unreadable_for_a_moment(tmp_path: Path) -> None:
    """What could not be opened, as for want of file descriptors, is tried again."""
    path = _build(tmp_path, "any.so.1.2", "libany.so.1", 1)
    code = (
        "import resource as r, sys\n"
        "from wheelfit_runtime.loader.loaded_libraries import read_library\n"
        "soft, hard = r.getrlimit(r.RLIMIT_NOFILE)\n"
        "for limit in (3, soft):\n"
        "    r.setrlimit(r.RLIMIT_NOFILE, (limit, hard))\n"
        "    print(read_library(sys.argv[1]).name)"
    )
    assert printed_by("-c", code, path).split() == ["any.so.1.2", "libany.so.1"]


def test_no_family() -> None:
    """Drivers, BLAS libraries and names that tell no major are of no family."""
    for name in ("libcuda.so.1", "libopenblas.so.0", "libcurand.so.10", "libpng16.so.16"):
        assert family_and_major(name) is None


@pytest.mark.cuda_real
@pytest.mark.network
def test_of_nvidia(environment_with: Callable[..., Path]) -> None:
    """NVIDIA's own: another minor version is an error, another major a warning."""
    both = environment_with("nvidia-cuda-runtime-cu12==12.9.79", "nvidia-cuda-runtime==13.0.96")
    older = environment_with("nvidia-cuda-runtime-cu12==12.6.77")
    (new,) = both.parent.parent.rglob("libcudart.so.12")
    (next_major,) = both.parent.parent.rglob("libcudart.so.13")
    (old,) = older.parent.parent.rglob("libcudart.so.12")
    found = _conflicts([str(new)], [str(new), str(old), str(next_major)])
    assert [(level, path) for level, path, *_ in found] == [
        ("error", str(old)),
        ("warn", str(next_major)),
    ]
