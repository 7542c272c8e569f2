"""The run-time libraries for programs of Intel's oneAPI compilers and MKL."""

from __future__ import annotations

from wheelfit_runtime.libraries.toolkits import Component, LibraryFamily

DATA_VERSION = "2026-11"

FAMILY = LibraryFamily(
    "oneapi",
    title="oneAPI",
    machines=(("Linux", "x86_64"),),
    default_components=("openmp", "mkl"),
    components={
        "openmp": Component({"*": "intel-openmp"}, ("libiomp5.so",)),
        # `libmkl_rt` loads the libraries for the processor from its own folder.
        "mkl": Component({"*": "mkl"}, ("libmkl_rt.so",), needs=("openmp",)),
        "compiler": Component(
            {"*": "intel-cmplr-lib-rt"},
            ("libintlc.so", "libirc.so", "libimf.so", "libsvml.so", "libirng.so", "libxptifw.so"),
        ),
        "hwloc": Component({"*": "tcmlib"}, ("libhwloc.so",), specifier=">=1,<2"),
        "umf": Component({"*": "umf"}, ("libumf.so",), specifier=">=1,<2", needs=("hwloc",)),
        "ur": Component(
            {"*": "intel-cmplr-lib-ur"}, ("libur_loader.so",), needs=("compiler", "umf")
        ),
        "sycl": Component({"*": "intel-sycl-rt"}, ("libsycl.so",), needs=("ur",)),
    },
)
