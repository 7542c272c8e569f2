"""What is kept of a wheel, and wheels that mean harm."""

from __future__ import annotations

import platform
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from runtime.libraries.stored import CUDART, add_built

from wheelfit.testing.drivers import find_compiler
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.libraries import build_cuda_wheels, compile_library
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import HashMismatch, InvalidWheel
from wheelfit_runtime.libraries.fetching import loading_order
from wheelfit_runtime.libraries.store import Store
from wheelfit_runtime.libraries.verifying import sha256_of, unpack
from wheelfit_runtime.libraries.wheels import ListedWheel


def listed(wheel: Path, sha256: str | None = None) -> ListedWheel:
    """Return what an index would say of a file."""
    return ListedWheel(CUDART, "1.0", wheel.name, wheel.as_uri(), sha256 or sha256_of(wheel))


def packed(
    path: Path, members: list[tuple[str, bytes]], kind: int = zipfile.ZIP_STORED
) -> ListedWheel:
    """Write a wheel, and return what an index would say of it."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", kind) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in members:
            archive.writestr(name, content)
    return listed(path)


def test_keeps_libraries_and_licences(cuda_wheels: Path, tmp_path: Path) -> None:
    """Of a wheel the libraries, METADATA and licences are kept; no static and no second builds."""
    (wheel,) = cuda_wheels.glob("nvidia_cuda_nvrtc_cu12-12.9*")
    unpack(wheel, listed(wheel), tmp_path / "entry")
    tree = tmp_path / "entry" / "tree"
    names = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    about = "nvidia_cuda_nvrtc_cu12-12.9.7.dist-info"
    assert names == {
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9",
        f"{about}/METADATA",
        f"{about}/licenses/License.txt",
    }


def test_another_hash(cuda_wheels: Path, tmp_path: Path) -> None:
    """A wheel with another hash than promised is refused, and nothing is unpacked."""
    (wheel,) = cuda_wheels.glob("nvidia_cuda_nvrtc_cu12-12.9*")
    with pytest.raises(HashMismatch):
        unpack(wheel, listed(wheel, "0" * 64), tmp_path / "entry")
    assert not (tmp_path / "entry").exists()


@pytest.mark.parametrize(
    "member", ["../libevil.so", "/libevil.so", "a/../../libevil.so", "a\\libevil.so", "a\tb.so"]
)
def test_paths_that_lead_out(tmp_path: Path, member: str) -> None:
    """A wheel whose paths lead out of it is refused."""
    wheel = tmp_path / "evil-1.0-py3-none-any.whl"
    listed = packed(wheel, [(member, b"x")])
    with pytest.raises(InvalidWheel):
        unpack(wheel, listed, tmp_path / "entry")
    assert not (tmp_path / "libevil.so").exists()


def test_links_and_rubbish(tmp_path: Path) -> None:
    """A link in a wheel is refused, and so is what is not an archive."""
    wheel = tmp_path / "evil-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        link = zipfile.ZipInfo("lib/liba.so")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(InvalidWheel, match="plain file"):
        unpack(wheel, listed(wheel), tmp_path / "one")
    wheel.write_bytes(b"rubbish")
    with pytest.raises(InvalidWheel):
        unpack(wheel, listed(wheel), tmp_path / "two")


def test_one_library_of_many_names(tmp_path: Path) -> None:
    """A library that a wheel has under several names takes its space once."""
    wheel = tmp_path / "tbb-1.0-py3-none-any.whl"
    names = ("libtbb.so", "libtbb.so.12", "libtbb.so.12.20")
    listed = packed(wheel, [(f"tbb-1.0.data/data/lib/{name}", b"the same") for name in names])
    unpack(wheel, listed, tmp_path / "entry")
    files = list((tmp_path / "entry" / "tree").rglob("lib*.so*"))
    assert len(files) == 3
    assert len({file.stat().st_ino for file in files}) == 1


@pytest.mark.parametrize(
    "names",
    [
        ("lib/a.so", "lib/a.so"),
        ("a.so", "a.so/b.so"),
        ("a.so/b.so", "a.so"),
        ("x-1.data/purelib/lib/a.so", "lib/a.so"),
    ],
)
def test_members_that_want_one_place(tmp_path: Path, names: tuple[str, str]) -> None:
    """Two files for one place are the fault of the wheel, not of the disk."""
    wheel = tmp_path / "x-1-py3-none-any.whl"
    listed = packed(wheel, [(name, b"x") for name in names])
    with pytest.raises(InvalidWheel, match="same path"):
        unpack(wheel, listed, tmp_path / "entry")


def test_wheels_of_odd_kinds(tmp_path: Path) -> None:
    """Other compressions are refused; a member that is only a dot is not a file."""
    wheel = tmp_path / "x-1-py3-none-any.whl"
    listed = packed(wheel, [("a.so", b"x")], zipfile.ZIP_LZMA)
    with pytest.raises(InvalidWheel):
        unpack(wheel, listed, tmp_path / "one")
    listed = packed(wheel, [(".", b""), ("a.so", b"x")])
    unpack(wheel, listed, tmp_path / "two")
    assert (tmp_path / "two" / "tree" / "a.so").read_bytes() == b"x"


def test_wheels_with_a_bad_byte(tmp_path: Path) -> None:
    """Whatever byte of an archive is another one, it is unpacked or an invalid wheel."""
    wheel = tmp_path / "x-1-py3-none-any.whl"
    packed(wheel, [("a.so", b"x" * 10)], zipfile.ZIP_DEFLATED)
    body = wheel.read_bytes()
    for at in range(len(body)):
        wheel.write_bytes(body[:at] + bytes([body[at] ^ 0xFF]) + body[at + 1 :])
        listed = ListedWheel(CUDART, "1.0", wheel.name, wheel.as_uri(), sha256_of(wheel))
        entry = tmp_path / str(at)
        with suppress(InvalidWheel):
            unpack(wheel, listed, entry)
            assert (entry / "wheel.txt").exists()
            continue
        assert not (entry / "wheel.txt").exists()


# --- in which order libraries are loaded, and which files are none --------------------------------


pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def test_what_the_system_adds(program: Callable[..., Any], tmp_path: Path) -> None:
    """A library that ours need, and that is no wheel's, is the system's: it is told."""
    system, wheels = tmp_path / "system", tmp_path / "wheels"
    system.mkdir()
    needed = system / "libcurand.so.10"
    needed.write_bytes(compile_library(needed.name, "int curand(void) { return 10; }"))
    build_cuda_wheels(wheels, ("13.1",), machine=platform.machine())
    (cudart,) = wheels.glob("nvidia_cuda_runtime-*")
    source = "int cudaRuntimeGetVersion(int *v) { *v = 13010; return 0; }"
    library = compile_library("libcudart.so.13", source, needed=[needed.name])
    tag = cudart.name.split("-", 2)[2].removesuffix(".whl")
    files = {"nvidia/cu13/lib/libcudart.so.13": library}
    build_wheel(wheels, "nvidia-cuda-runtime", "13.1.7", files=files, tag=tag)
    code = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    cuda = initialize_cuda("13", ["cudart"])
answer = [cuda.foreign_paths, [str(one.message) for one in told]]
"""
    with RecordingIndex(wheels) as index:
        extra = {"WHEELFIT_LIBRARY_INDEX": index.url, "LD_LIBRARY_PATH": str(system)}
        foreign_paths, told = program(code, extra)
    assert foreign_paths == {needed.name: str(needed)}
    assert told == [f"CUDA 13 loads {needed}, which no wheel of the library store has"]


def test_scripts_of_linkers(tmp_path: Path) -> None:
    """A text that leads linkers to another file, as Intel's compiler libraries have, is none."""
    needed = compile_library("libintlc.so.5", "int intlc(void) { return 5; }")
    files = {
        "lib/libintlc.so": b"INPUT(libintlc.so.5)\n",
        "lib/libintlc.so.5": needed,
        "lib/libimf.so": compile_library("libimf.so", "", needed=["libintlc.so.5"]),
        "lib/libempty.so": b"",
    }
    entry = add_built(Store(str(tmp_path / "store")), tmp_path, "one", files)
    found = loading_order([entry], {"compiler": ("libimf.so", "libintlc.so")})
    assert [one.path for one in found] == ["lib/libintlc.so.5", "lib/libimf.so"]
    assert {one.component for one in found} == {"compiler"}
