"""Intel's oneAPI Threading Building Blocks, with the libraries it can use."""

from __future__ import annotations

from wheelfit_runtime.libraries.toolkits import Component, LibraryFamily

DATA_VERSION = "2026-11"

FAMILY = LibraryFamily(
    "onetbb",
    title="oneTBB",
    machines=(("Linux", "x86_64"),),
    default_components=("tbb",),
    components={
        "tbb": Component({"*": "tbb"}, ("libtbb.so",)),
        # libtbb loads it by name if it exists.
        "tcm": Component({"*": "tcmlib"}, ("libhwloc.so", "libtcm.so"), specifier=">=1,<2"),
        "umf": Component({"*": "umf"}, ("libumf.so",), specifier=">=1,<2", needs=("tcm",)),
    },
)
