"""The folder that is laid out as a toolkit: what it has, who makes it, and when it goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runtime.libraries.stored import add_built
from sampled_cases import sampled

from wheelfit_runtime.errors import StoreUnavailable
from wheelfit_runtime.libraries.folders import remove_broken, toolkit_folder
from wheelfit_runtime.libraries.store import Store
from wheelfit_runtime.libraries.store_changes import remove_wheel

ROOT = """
import os
cuda = initialize_cuda("VERSION", ["cudart", "nvrtc"])
root = cuda.root()
answer = {"root": root, "again": cuda.root(), "same": os.path.samefile(
    cuda.path("nvrtc"), f"{root}/lib64/{os.path.basename(cuda.path('nvrtc'))}"),
    "header": open(f"{root}/include/cuda_fp16.h").read(), "has": sorted(os.listdir(root))}
"""


def kept(store: Store, folder: Path, name: str, files: dict[str, bytes]) -> str:
    """Put a wheel with some files into a store and return its hash."""
    return add_built(store, folder, name, files).sha256


@pytest.mark.parametrize("version", sampled(["12.9", "13"], fast={1}))
def test_of_libraries(program: Callable[..., Any], version: str) -> None:
    """A program gets headers and libraries in one folder, the same each time."""
    told = program(ROOT.replace("VERSION", version))
    assert told["again"] == told["root"]
    assert told["same"]
    assert told["header"] == f"// {'13.1' if version == '13' else version}\n"
    assert {"include", "lib", "lib64"} <= set(told["has"])
    assert program(ROOT.replace("VERSION", version))["root"] == told["root"]


def test_what_it_has(tmp_path: Path) -> None:
    """It joins what the wheels have below their own folders, and leaves out what is about them."""
    store = Store(str(tmp_path / "store"))
    compiler = {
        "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc": b"code",
        "nvidia/cuda_nvcc/include/crt/host.h": b"header",
        "nvidia/cuda_nvcc/include/made.py": b"no header",
        "nvidia/cuda_nvcc/bin/ptxas": b"a program",
    }
    headers = {
        "nvidia/cuda_cccl/include/nv/target": b"header",
        "nvidia/cuda_cccl/include/crt/host.h": b"another",
        "cutensor/lib/libcutensor.so.2": b"library",
        "nvidia/License.txt": b"yes",
    }
    wheels = [kept(store, tmp_path, "one", compiler), kept(store, tmp_path, "two", headers)]
    root = Path(toolkit_folder(store, wheels))
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert {name for name in files if not name.startswith("lib64/")} == {
        "nvvm/libdevice/libdevice.10.bc",
        "include/crt/host.h",
        "include/nv/target",
        "lib/libcutensor.so.2",
    }
    assert (root / "include/crt/host.h").read_bytes() == b"header"
    assert (root / "lib64/libcutensor.so.2").read_bytes() == b"library"
    assert toolkit_folder(store, wheels) == str(root)
    assert toolkit_folder(store, wheels[:1]) != str(root)


def test_goes_with_its_wheels(tmp_path: Path) -> None:
    """A folder is removed when a wheel of it is gone, and no other."""
    store = Store(str(tmp_path / "store"))
    wheels = [
        kept(store, tmp_path, name, {f"nvidia/{name}/include/{name}.h": b"header"})
        for name in ("one", "two")
    ]
    one, both = toolkit_folder(store, wheels[:1]), toolkit_folder(store, wheels)
    remove_broken(store)
    assert Path(one).is_dir()
    assert Path(both).is_dir()
    entry = store.find(wheels[1])
    assert entry is not None
    remove_wheel(store, entry)
    for number in range(20):  # files of others do not end the search
        Path(store.root, "folders", f"{number:x}").touch()
    remove_broken(store)
    assert Path(one).is_dir()
    assert not Path(both).exists()
    remove_broken(Store(str(tmp_path / "none")))


def test_of_a_site(tmp_path: Path) -> None:
    """Whoever reads the store of a site uses the folder that was made there."""
    site = Store(str(tmp_path / "site"))
    wheel = kept(site, tmp_path, "one", {"nvidia/one/include/one.h": b"header"})
    made = toolkit_folder(site, [wheel])
    own = tmp_path / "own"
    own.write_text("no folder can be made here")
    assert toolkit_folder(Store(str(own), (site.root,)), [wheel]) == made


def test_cannot_be_written(tmp_path: Path) -> None:
    """Where the store cannot be written, that is said; what is there already is found."""
    store = Store(str(tmp_path / "store"))
    one = kept(store, tmp_path, "one", {"nvidia/one/include/one.h": b"header"})
    two = kept(store, tmp_path, "two", {"nvidia/two/include/two.h": b"header"})
    root = toolkit_folder(store, [one])
    (tmp_path / "store" / "partial").rmdir()
    (tmp_path / "store" / "partial").write_text("in the way")
    with pytest.raises(StoreUnavailable):
        toolkit_folder(store, [two])
    assert toolkit_folder(store, [one]) == root
