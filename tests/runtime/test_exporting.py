"""A package shows what its implementation has."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import runpy
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from runtime.declaring import declaration, declare

from wheelfit_runtime import VariantWarning
from wheelfit_runtime.errors import NoImplementation
from wheelfit_runtime.loader.caller_warnings import warn
from wheelfit_runtime.loader.evidence import EvidenceGatherer
from wheelfit_runtime.loader.exporting import export, offer_submodules
from wheelfit_runtime.loader.loading import Loader
from wheelfit_runtime.loader.process import Process

IMPLEMENTATION = {
    "eggs_fast/__init__.py": '"""Fast eggs."""\nboil = "fast"\nfry = "fast"\n_secret = 1\n'
    'def __getattr__(name):\n    if name == "late":\n        return "came late"\n'
    "    raise AttributeError(name)\n",
    "eggs_fast/core.py": "from . import boil\nclass Egg:\n    pass\n",
    "eggs_fast/pan/__init__.py": "",
    "eggs_fast/pan/lid.py": "from ..core import Egg\n",
    "eggs_fast/own.py": "where = 'implementation'\n",
}
PACKAGE = {
    "eggs/__init__.py": "fry = 'own'\n",
    "eggs/own.py": "where = 'package'\n",
    "eggs/sub/__init__.py": "",
    "eggs/sub/deep.py": "",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a package and its implementation importable, and forget them afterwards."""
    for name, text in {**IMPLEMENTATION, **PACKAGE}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("eggs"):
            del sys.modules[name]


def joined(*, submodules: bool = False) -> object:
    """Return the package with what its implementation has."""
    package = importlib.import_module("eggs")
    if submodules:
        offer_submodules("eggs", lambda: "eggs_fast")
    export(importlib.import_module("eggs_fast"), "eggs")
    return package


@pytest.mark.usefixtures("site")
class TestNames:
    """Names of the implementation are names of the package."""

    def test_public_names(self) -> None:
        """Public names are there, what the package has itself stays, private ones are not put."""
        package = joined()
        assert (package.boil, package.fry) == ("fast", "own")  # type: ignore[attr-defined]
        assert "_secret" not in vars(package)
        assert package.__doc__ == "Fast eggs."
        scope: dict[str, object] = {}
        exec("from eggs import *", scope)
        assert scope["boil"] == "fast"

    def test_all_says_what_is_public(self) -> None:
        """Where an implementation has ``__all__``, that counts."""
        implementation = importlib.import_module("eggs_fast")
        implementation.__all__ = ["_secret"]  # type: ignore[attr-defined]
        package = joined()
        assert vars(package)["_secret"] == 1
        assert "boil" not in vars(package)

    def test_what_comes_on_demand(self) -> None:
        """What is made when it is asked for is not asked for before a user does."""
        asked: list[str] = []

        def on_demand(name: str) -> str:
            asked.append(name)
            return f"made {name}"

        implementation = importlib.import_module("eggs_fast")
        implementation.__all__ = ["boil", "soft"]  # type: ignore[attr-defined]
        implementation.__getattr__ = on_demand  # type: ignore[method-assign]
        package = joined()
        assert {"soft", "boil", "fry"} <= set(dir(package))
        assert asked == []
        assert package.soft == "made soft"  # type: ignore[attr-defined]
        assert asked == ["soft"]
        scope: dict[str, object] = {}
        exec("from eggs import *", scope)
        assert (scope["boil"], scope["soft"]) == ("fast", "made soft")

    def test_on_demand_in_both(self) -> None:
        """A package that makes names on demand itself gets the public ones at once."""
        importlib.import_module("eggs_fast").__all__ = ["late"]  # type: ignore[attr-defined]
        package = importlib.import_module("eggs")
        package.__getattr__ = lambda name: f"own {name}"  # type: ignore[method-assign]
        joined()
        assert (package.late, package.other) == ("came late", "own other")

    def test_imported_again(self) -> None:
        """A package that is imported again asks for nothing before a user does, either."""
        implementation = importlib.import_module("eggs_fast")
        implementation.__all__ = ["boil", "never"]  # type: ignore[attr-defined]
        joined()
        package = joined()
        assert package.boil == "fast"  # type: ignore[attr-defined]
        assert package.late == "came late"  # type: ignore[attr-defined]

    def test_its_own_implementation(self) -> None:
        """A package that is declared as its own implementation is told so."""
        package = importlib.import_module("eggs")
        with pytest.raises(NoImplementation, match="eggs is declared to be its own"):
            export(package, "eggs")

    def test_what_comes_later(self) -> None:
        """Names that come later, or on demand, are found; others are an error of the package."""
        package = joined()
        assert package.late == "came late"  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match="module 'eggs' has no attribute 'never'"):
            _ = package.never  # type: ignore[attr-defined]


@pytest.mark.usefixtures("site")
class TestSubmodules:
    """Modules below the implementation can be imported below the package."""

    def test_only_on_request(self) -> None:
        """Without being asked for there are none."""
        joined()
        with pytest.raises(ModuleNotFoundError, match=r"eggs\.core"):
            importlib.import_module("eggs.core")

    def test_they_are_the_same(self) -> None:
        """A module has two names and one content, at any depth."""
        package = joined(submodules=True)
        core = importlib.import_module("eggs.core")
        assert core is importlib.import_module("eggs_fast.core")
        assert package.core is core  # type: ignore[attr-defined]
        assert core.__spec__ is not None
        assert core.__spec__.name == core.__name__ == "eggs_fast.core"
        lid = importlib.import_module("eggs.pan.lid")
        assert lid is importlib.import_module("eggs_fast.pan.lid")
        assert lid.Egg is core.Egg
        assert pickle.loads(pickle.dumps(core.Egg())).__class__ is core.Egg

    def test_the_package_comes_first(self) -> None:
        """What the package has itself is not hidden, nor what lies below it."""
        joined(submodules=True)
        assert importlib.import_module("eggs.own").where == "package"
        assert importlib.import_module("eggs.sub.deep").__name__ == "eggs.sub.deep"

    @pytest.mark.parametrize("submodules", [True, False])
    def test_not_even_before_it_is_imported(self, *, submodules: bool) -> None:
        """A module of the implementation is not seen in the place of one of the package."""
        importlib.import_module("eggs_fast.own")
        importlib.import_module("eggs_fast.core")
        package = joined(submodules=submodules)
        assert not hasattr(package, "own")
        scope: dict[str, object] = {}
        exec("from eggs import own, core", scope)
        assert scope["own"].where == "package"  # type: ignore[attr-defined]
        assert scope["core"] is importlib.import_module("eggs_fast.core")

    def test_threads(self, site: Path) -> None:
        """A thread that imports while another does never sees an empty module."""
        # Another thread asks after this one has begun, and before it has ended.
        (site / "eggs_fast" / "slow.py").write_text(
            "import threading, time\n"
            "entered, found = threading.Event(), []\n"
            "def ask():\n    entered.set()\n    from eggs.slow import egg\n    found.append(egg)\n"
            "asking = threading.Thread(target=ask)\nasking.start()\nentered.wait(10)\n"
            "time.sleep(0.05)\negg = 'whole'\n"
        )
        joined(submodules=True)
        errors: list[object] = []
        before, threading.excepthook = threading.excepthook, errors.append
        try:
            slow = importlib.import_module("eggs.slow")
            slow.asking.join(10)
        finally:
            threading.excepthook = before
        assert (slow.found, errors) == (["whole"], [])
        assert slow.__spec__ is not None
        assert slow.__spec__.name == "eggs_fast.slow"

    def test_before_all_is_there(self) -> None:
        """What an implementation imports may import a module below the package; so may a thread."""
        importlib.import_module("eggs")
        offer_submodules("eggs", lambda: "eggs_fast")
        core = importlib.import_module("eggs.core")
        assert core is importlib.import_module("eggs_fast.core")
        assert importlib.import_module("eggs.own").where == "package"

    def test_who_is_warned(self, site: Path) -> None:
        """What is lost is told at the line that wanted a module below the package."""
        declare(site, "fast.json", declaration("eggs-fast"))
        declare(site, "other.json", declaration("eggs-other", "acme :: x :: 1"))
        sources = EvidenceGatherer(
            environ=dict, paths=lambda: [str(site)], detect=lambda *_, **__: Process({})
        )
        loader = Loader(lambda: sources, warn=warn)
        importlib.import_module("eggs")
        offer_submodules("eggs", partial(loader.module_of, "eggs"))
        with pytest.warns(VariantWarning, match="eggs uses fast; could not") as caught:
            importlib.import_module("eggs.core")
        assert caught[0].filename == __file__

    def test_mistakes_of_others(self, site: Path) -> None:
        """A module that a module needs and nobody has is named as it is."""
        (site / "eggs_fast" / "needy.py").write_text("import eggs_needed\n")
        importlib.import_module("eggs")
        offer_submodules("eggs", lambda: "eggs_fast")
        with pytest.raises(ModuleNotFoundError, match="eggs_needed"):
            importlib.import_module("eggs.needy")

    def test_run_as_a_program(self, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """``python -m`` runs a module by either name."""
        (site / "eggs_fast" / "pan" / "__main__.py").write_text(
            "from .lid import Egg\nprint(__package__, Egg.__module__)\n"
        )
        joined(submodules=True)
        for name in ("eggs", "eggs_fast"):
            runpy.run_module(f"{name}.pan", run_name="__main__")
            assert capsys.readouterr().out == f"{name}.pan eggs_fast.core\n"

    def test_strange_modules(self) -> None:
        """What others have put among the modules, as an object without a name, is their affair."""
        joined(submodules=True)
        strange = SimpleNamespace(__path__=[])
        sys.modules["eggs_strange"] = strange  # type: ignore[assignment]
        assert importlib.util.find_spec("eggs_strange.core") is None

    def test_where_it_lies(self, site: Path) -> None:
        """Who asks where a module lies, without importing it, is told."""
        joined(submodules=True)
        core, pan = map(importlib.util.find_spec, ("eggs.core", "eggs.pan"))
        assert core is not None
        assert pan is not None
        assert core.origin == str(site / "eggs_fast" / "core.py")
        assert pan.submodule_search_locations == [str(site / "eggs_fast" / "pan")]

    def test_single_files(self, site: Path) -> None:
        """A package that is a single file can have modules below it, an implementation cannot."""
        (site / "eggs_alone.py").write_text("")
        importlib.import_module("eggs_alone")
        offer_submodules("eggs_alone", lambda: "eggs_fast")
        core = importlib.import_module("eggs_alone.core")
        assert core is importlib.import_module("eggs_fast.core")
        importlib.import_module("eggs")
        (site / "eggs_flat.py").write_text("")
        offer_submodules("eggs", lambda: "eggs_flat")
        with pytest.raises(ModuleNotFoundError, match=r"'eggs\.core'"):
            importlib.import_module("eggs.core")
        export(importlib.import_module("eggs_flat"), "eggs")
        assert importlib.util.find_spec("eggs.core") is None
        with pytest.raises(ModuleNotFoundError, match=r"'eggs\.core'"):
            importlib.import_module("eggs.core")

    def test_what_nobody_has(self) -> None:
        """A module that neither has is not found, under the name that was asked for."""
        joined(submodules=True)
        for name in ("eggs.never", "eggs.pan.never", "eggs.core.never"):
            with pytest.raises(ModuleNotFoundError, match=name.replace(".", r"\.")):
                importlib.import_module(name)

    def test_a_module_with_a_mistake(self, site: Path) -> None:
        """A mistake in a module is seen as it is, and it can be tried again."""
        (site / "eggs_fast" / "wrong.py").write_text("1 / 0")
        joined(submodules=True)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                importlib.import_module("eggs.wrong")
        assert "eggs.wrong" not in sys.modules
