"""Wheels like those of NVIDIA's CUDA libraries, with small shared libraries that can be loaded."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.testing.drivers import require_compiler
from wheelfit.testing.wheels import build_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_TAG = "py3-none-manylinux2014_{machine}.manylinux_2_17_{machine}"
_LICENCE = "You may use this library in tests.\n"


def compile_library(
    soname: str, source: str, *, needed: Iterable[str] = (), options: Iterable[str] = ()
) -> bytes:
    """Return the content of a shared library compiled from C.

    :param needed: SONAMEs of libraries that it needs; they need not exist.
    :param options: further options of the compiler.
    :raises FileNotFoundError: there is no C compiler.
    """
    command = [require_compiler(), "-shared", "-fPIC", "-w"]

    def run(name: str, output: Path, *arguments: str | Path) -> None:
        subprocess.run([*command, f"-Wl,-soname,{name}", "-o", output, *arguments], check=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source_file = folder / "source.c"
        source_file.write_text(source, encoding="utf-8")
        empty_file = folder / "empty.c"
        empty_file.touch()
        needed_files = [folder / name for name in needed]
        for file in needed_files:
            run(file.name, file, empty_file)
        library = folder / "compiled.so"
        run(soname, library, "-Wl,--no-as-needed", *options, source_file, *needed_files)
        return library.read_bytes()


def build_cuda_wheels(
    folder: Path,
    versions: Sequence[str] = ("12.4", "12.9", "13.1"),
    *,
    machine: str = "x86_64",
    patch: int = 1,
) -> list[Path]:
    """Write wheels of the CUDA runtime, NVRTC and ``cuda-toolkit``, and return their paths.

    The functions ``cudaRuntimeGetVersion`` and ``nvrtcVersion`` can be called. As in NVIDIA's
    wheels, NVRTC needs another library of its wheel and has an alternative build beside it, and
    from CUDA 13 on the names of the distributions have no suffix.

    :param versions: versions of CUDA, such as ``12.9``.
    :param machine: the processor of the platform tag.
    :param patch: the last part of the versions of ``cuda-toolkit``.
    """
    wheels = []
    for version in versions:
        tag = _TAG.format(machine=machine)
        contents = _contents(version)
        for name, files in contents.items():
            stem = f"{name.replace('-', '_')}-{version}.7"
            licence = {f"{stem}.dist-info/licenses/License.txt": _LICENCE}
            wheels.append(
                build_wheel(folder, name, f"{version}.7", files={**files, **licence}, tag=tag)
            )
        condition = "(sys_platform == 'win32' or sys_platform == 'linux') and extra == "
        requires = [
            f"{name}=={version}.7.*; {condition}'{extra}'"
            for extra, name in zip(("cudart", "nvrtc"), contents, strict=True)
        ]
        wheels.append(
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
    return wheels


def _contents(version: str) -> dict[str, dict[str, bytes]]:
    """Return the files of the CUDA runtime and of NVRTC, in this order, by distribution."""
    major, minor = version.split(".")
    suffix = "" if int(major) >= 13 else f"-cu{major}"
    if suffix:
        cudart, nvrtc = "nvidia/cuda_runtime/lib", "nvidia/cuda_nvrtc/lib"
    else:
        cudart = nvrtc = f"nvidia/cu{major}/lib"
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
