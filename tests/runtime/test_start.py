"""An import of the floor brings nothing, so any program can afford it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from python_runs import RUNTIME_SOURCE, printed_by
from runtime.declaring import declaration, declare

import wheelfit_runtime as runtime
from wheelfit_runtime.errors import NoImplementation


def loaded_by(code: str) -> list[str]:
    """Return the modules that code brings into a fresh interpreter."""
    program = (
        f"import sys; sys.path.append({str(RUNTIME_SOURCE)!r}); before = set(sys.modules)\n{code}\n"
        "found = sorted(set(sys.modules) - before)\nimport json; print(json.dumps(found))"
    )
    found: list[str] = json.loads(printed_by("-I", "-S", "-c", program))
    return found


def test_an_import_brings_nothing() -> None:
    """Of ours the package alone, of others nothing at all."""
    found = loaded_by("import wheelfit_runtime")
    assert found == ["__future__", "wheelfit_runtime"]


def test_no_third_party_module(tmp_path: Path) -> None:
    """Choosing needs the standard library, and of that nothing heavy of no use."""
    told = declaration("spam-x", "x86_64 :: level :: v1", module="string")
    declare(tmp_path, "spam-x.json", told)
    code = (
        f"sys.path.append({str(tmp_path)!r})\nimport wheelfit_runtime\n"
        "import os; os.environ['WHEELFIT_OVERRIDE_X86_64_LEVEL'] = 'v1'\n"
        "wheelfit_runtime.load('spam', into='__main__', submodules=True)"
    )
    found = loaded_by(code)
    standard = {*sys.stdlib_module_names, "wheelfit_runtime"}
    assert {name.partition(".")[0] for name in found} <= standard
    heavy = {"asyncio", "email", "importlib.resources", "pathlib"}
    assert not (heavy | {"subprocess"}) & set(found)


def test_a_package_shows_early_what_will_be_below_it() -> None:
    """What `load` needs to say so is there at once, or other threads would look in vain."""
    found = loaded_by("from wheelfit_runtime import load")
    assert [name for name in found if name.startswith("wheelfit")] == [
        "wheelfit_runtime",
        "wheelfit_runtime.loader",
        "wheelfit_runtime.loader.declaration_files",
        "wheelfit_runtime.loader.exporting",
    ]


def test_names() -> None:
    """Every name is there, comes from its module, and stays."""
    assert dir(runtime) == runtime.__all__ == sorted(runtime.__all__)
    for name in runtime.__all__:
        assert getattr(runtime, name) is getattr(runtime, name)
    assert runtime.NoImplementation is NoImplementation
    assert issubclass(runtime.VariantWarning, UserWarning)


def test_no_such_name() -> None:
    """A name that is not there is an ordinary error."""
    with pytest.raises(AttributeError, match="has no attribute 'chose'"):
        _ = runtime.chose
