"""Build wheels that look like NVIDIA's, with small shared libraries that really load."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.testing.drivers import find_compiler
from wheelfit.testing.wheels import build_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_TAG = "py3-none-manylinux2014_{machine}.manylinux_2_17_{machine}"
_LICENCE = "You may use this library in tests.\n"


def compile_library(soname: str, source: str, *, needed: Iterable[str] = ()) -> bytes:
    """Return a shared library.

    :param needed: SONAMEs of libraries that it wants; they need not exist.
    :raises FileNotFoundError: there is no C compiler.
    """
    compiler = find_compiler()
    if compiler is None:
        raise FileNotFoundError("no C compiler: cc, gcc or clang")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        common = [compiler, "-shared", "-fPIC", "-w"]
        (folder / "source.c").write_text(source, encoding="utf-8")
        others = []
        for name in needed:
            (folder / "empty.c").write_text("", encoding="utf-8")
            command = [*common, f"-Wl,-soname,{name}", "-o", str(folder / name)]
            subprocess.run([*command, str(folder / "empty.c")], check=True)
            others.append(str(folder / name))
        options = [f"-Wl,-soname,{soname}", "-Wl,--no-as-needed"]
        target = folder / "made.so"
        command = [*common, *options, "-o", str(target), str(folder / "source.c"), *others]
        subprocess.run(command, check=True)
        return target.read_bytes()


def build_cuda_wheels(
    folder: Path,
    versions: Sequence[str] = ("12.4", "12.9", "13.1"),
    *,
    machine: str = "x86_64",
    patch: int = 1,
) -> list[Path]:
    """Write cudart, NVRTC and the table of some versions of CUDA, and return the paths.

    ``cudaRuntimeGetVersion`` and ``nvrtcVersion`` work. As NVIDIA's, NVRTC needs another library
    of its wheel, has a second build beside it, and the names of 13 have no suffix.

    :param versions: as ``12.9``; each gets a table ``cuda-toolkit`` of that version.
    """
    made = []
    for version in versions:
        tag = _TAG.format(machine=machine)
        runtime, compiler = contents = _contents(version)
        for name, files in contents.items():
            stem = f"{name.replace('-', '_')}-{version}.7"
            licence = {f"{stem}.dist-info/licenses/License.txt": _LICENCE}
            made.append(
                build_wheel(folder, name, f"{version}.7", files={**files, **licence}, tag=tag)
            )
        when = "(sys_platform == 'win32' or sys_platform == 'linux') and extra == "
        requires = [
            f"{name}=={version}.7.*; {when}'{extra}'"
            for extra, name in (("cudart", runtime), ("nvrtc", compiler))
        ]
        made.append(
            build_wheel(
                folder,
                "cuda-toolkit",
                f"{version}.{patch}",
                requires=requires,
                provides_extra=["cudart", "nvrtc"],
                files={},
                tag="py2.py3-none-any",
            )
        )
    return made


def _contents(version: str) -> dict[str, dict[str, bytes]]:
    """Return the files of the two distributions of a version, cudart's first."""
    major, minor = version.split(".")
    suffix = "" if int(major) >= 13 else f"-cu{major}"
    where = "nvidia/{}/lib" if suffix else f"nvidia/cu{major}/lib"
    cudart, nvrtc = where.format("cuda_runtime"), where.format("cuda_nvrtc")
    number = 1000 * int(major) + 10 * int(minor)
    builtins = f"libnvrtc-builtins.so.{version}"
    get_version = f"int cudaRuntimeGetVersion(int *v) {{ *v = {number}; return 0; }}"
    compile_version = (
        f"extern int builtins(void); int nvrtcVersion(int *a, int *b) "
        f"{{ *a = {major}; *b = {minor}; return 0; }}"
    )
    return {
        f"nvidia-cuda-runtime{suffix}": {
            f"{cudart}/libcudart.so.{major}": compile_library(f"libcudart.so.{major}", get_version),
            f"{cudart}/libcudart_static.a": b"not needed",
            f"{cudart.rpartition('/')[0]}/include/cuda_fp16.h": f"// {version}\n".encode(),
        },
        f"nvidia-cuda-nvrtc{suffix}": {
            f"{nvrtc}/libnvrtc.so.{major}": compile_library(
                f"libnvrtc.so.{major}", compile_version, needed=[builtins]
            ),
            f"{nvrtc}/{builtins}": compile_library(
                builtins, f"int builtins(void) {{ return {number}; }}"
            ),
            f"{nvrtc}/libnvrtc.alt.so.{major}": b"a second build",
        },
    }
