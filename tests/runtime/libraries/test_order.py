"""In which order libraries are loaded, and which files are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.runtime.libraries.order import in_order
from wheelfit.runtime.libraries.store import Entry, Store
from wheelfit.runtime.libraries.verifying import sha256_of, unpack
from wheelfit.runtime.libraries.wheels import Listed
from wheelfit.testing.drivers import find_compiler
from wheelfit.testing.libraries import compile_library
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def entry_of(folder: Path, files: dict[str, bytes]) -> Entry:
    """Return a wheel with some files, in a store."""
    wheel = build_wheel(folder, "one", "1.0", files=files)
    store = Store(str(folder / "store"))
    sha256 = sha256_of(wheel)
    with store.working_folder() as working:
        listed = Listed("one", "1.0", wheel.name, wheel.as_uri(), sha256)
        unpack(wheel, listed, Path(working, "entry"))
        return store.keep(str(Path(working, "entry")), sha256)


def test_scripts_of_linkers(tmp_path: Path) -> None:
    """A text that leads linkers to another file, as Intel's compiler libraries have, is none."""
    needed = compile_library("libintlc.so.5", "int intlc(void) { return 5; }")
    files = {
        "lib/libintlc.so": b"INPUT(libintlc.so.5)\n",
        "lib/libintlc.so.5": needed,
        "lib/libimf.so": compile_library("libimf.so", "", needed=["libintlc.so.5"]),
        "lib/libempty.so": b"",
    }
    found = in_order([entry_of(tmp_path, files)], {"compiler": ("libimf.so", "libintlc.so")})
    assert [one.path for one in found] == ["lib/libintlc.so.5", "lib/libimf.so"]
    assert {one.component for one in found} == {"compiler"}
