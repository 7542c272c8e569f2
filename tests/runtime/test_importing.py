"""An import that fails leaves nothing behind."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wheelfit_runtime.loader.loading import import_or_remove


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a package that imports modules below it, and then fails."""
    for name, text in {
        "half_cu12/__init__.py": "from . import core, sub\nraise OSError('no library')\n",
        "half_cu12/core.py": "",
        "half_cu12/sub/__init__.py": "from . import deep\n",
        "half_cu12/sub/deep.py": "",
        "half_cu12_tools.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("half_cu12")]:
        del sys.modules[name]


@pytest.mark.usefixtures("half")
def test_modules_below() -> None:
    """Modules below it that had been imported go too, others stay."""
    importlib.import_module("half_cu12_tools")
    with pytest.raises(OSError, match="no library"):
        import_or_remove("half_cu12")
    assert [n for n in sys.modules if n.startswith("half_cu12")] == ["half_cu12_tools"]


def test_second_names(half: Path) -> None:
    """Nor does a module stay under another name, or as an attribute of a package."""
    (half / "half_cu12_tools").mkdir()
    (half / "half_cu12_tools.py").rename(half / "half_cu12_tools" / "__init__.py")
    tools = importlib.import_module("half_cu12_tools")
    (half / "half_cu12" / "__init__.py").write_text(
        "import sys\nfrom . import core\nimport half_cu12_tools as tools\n"
        "tools.core = sys.modules['half_cu12_tools.core'] = core\nraise OSError('no library')\n"
    )
    with pytest.raises(OSError, match="no library"):
        import_or_remove("half_cu12")
    assert [n for n in sys.modules if n.startswith("half_cu12")] == ["half_cu12_tools"]
    assert not hasattr(tools, "core")


def test_it_goes_well(half: Path) -> None:
    """What is imported stays, with all that is below it."""
    (half / "half_cu12" / "__init__.py").write_text("from . import core\n")
    assert import_or_remove("half_cu12").core is sys.modules["half_cu12.core"]


def test_modules_of_others(half: Path) -> None:
    """What somebody else has imported stays, also if it had a second name below the module."""
    (half / "half_cu12" / "__init__.py").write_text(
        "import json, sys\nsys.modules['half_cu12.json'] = json\nraise OSError('no library')\n"
    )
    with pytest.raises(OSError, match="no library"):
        import_or_remove("half_cu12")
    assert sys.modules["json"] is json
    assert "half_cu12.json" not in sys.modules


def test_threads_that_wait_for_each_other(half: Path) -> None:
    """Who gave up for another thread tries again, and what is half imported does not stay."""
    (half / "half_cu12" / "__init__.py").write_text(
        "import sys\nfrom . import core\n"
        "class _DeadlockError(RuntimeError):\n    pass\n"
        "sys.half_cu12_tries = getattr(sys, 'half_cu12_tries', 0) + 1\n"
        "if sys.half_cu12_tries < 3:\n    raise _DeadlockError\n"
    )
    try:
        assert import_or_remove("half_cu12").core is sys.modules["half_cu12.core"]
        assert vars(sys).pop("half_cu12_tries") == 3
    finally:
        vars(sys).pop("half_cu12_tries", None)
