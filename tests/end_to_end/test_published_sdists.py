"""Published projects that nobody tuned for wheelfit: built, checked, served, and chosen by all.

The projects are those that ``benchmarks/build_flags.py`` times. One of them is enough in between:
``pytest -m backends_long tests/end_to_end/test_published_sdists.py -k ulid``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from programs import run_program
from web_servers import served

import wheelfit_runtime
from wheelfit_runtime.platforms.providers.x86_64 import quick_look

RUNTIME = Path(wheelfit_runtime.__file__).parents[1]
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "build_flags.py"
PLUGIN = "wheelfit_runtime.platforms.providers.x86_64.provider:PROVIDER"
"""A plugin for variantlib: the one that documents name is not on the registry."""
VARIANTS = ("--preview-features", "wheel-variants")
ORDER = """
import json, os, sys
os.environ["PYTHONPATH"] = sys.argv[3]  # of the process that loads plugins
from variantlib.api import get_variants_by_priority
document = json.load(open(sys.argv[1]))
document["providers"]["x86_64"]["plugin-api"] = sys.argv[2]
print([each.label for each in get_variants_by_priority(variants_json=document)])
"""


def load_benchmark() -> Any:
    """Return the module of the benchmark, which has the projects and knows how to build them."""
    spec = importlib.util.spec_from_file_location("build_flags", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["build_flags"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


benchmark = load_benchmark()
pytestmark = [
    pytest.mark.network,
    pytest.mark.backends_long,
    pytest.mark.usefixtures("registry"),
    pytest.mark.skipif(
        "v3" not in (quick_look.supported() or ()), reason="needs Linux on x86-64-v3"
    ),
]


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    """Return a function that serves a folder with the standard library and returns its URL."""
    with ExitStack() as servers:
        yield lambda folder: f"{servers.enter_context(served(folder))}/simple/"


def run(*words: str | Path) -> str:
    """Run a client, which has to end well, and return what it prints."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith("UV_")}
    return run_program(*words, env=environ).stdout


def label_in(target: Path) -> str | None:
    """Return the label of what is installed in a folder; None: it is no variant."""
    (described,) = target.glob("*.dist-info/WHEEL")
    found = described.with_name("variant.json")
    return next(iter(json.loads(found.read_text())["variants"])) if found.exists() else None


def native_code(wheel: Path) -> dict[str, bytes]:
    """Return the libraries of a wheel by their names."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}


@pytest.mark.parametrize("project", benchmark.PROJECTS, ids=lambda project: project.name)
def test_a_published_project(
    project: Any,
    tmp_path: Path,
    wheelfit: Callable[..., str],
    pip: Path,
    uv: Path,
    variantlib_python: Path,
    serve: Callable[[Path], str],
) -> None:
    """What is built of it has no errors, and five installers take of it what they should."""
    kept = Path(os.environ.get("WHEELFIT_TEST_SDISTS", tmp_path))
    (kept / "sdists").mkdir(parents=True, exist_ok=True)
    sdist = benchmark.sdist_of(project, kept / "sdists")
    dist = kept / project.name
    benchmark.built(project, sdist, dist)
    wheels = sorted(dist.glob("*.whl"))
    assert len(wheels) == 2
    plain, variant = map(native_code, wheels)
    assert any(plain[name] != variant[name] for name in plain)  # its compilers heard the flags
    wheelfit("check", *wheels, "--binaries")

    public = tmp_path / "public"
    (tmp_path / "wheels").mkdir()
    for wheel in wheels:
        (tmp_path / "wheels" / wheel.name).symlink_to(wheel)
    wheelfit("index", "generate", tmp_path / "wheels", "--to", public)
    url = serve(public)
    name = project.requirement

    places = {each: tmp_path / each for each in ("pip", "uv", "uv preview", "wheelfit")}
    install = ("install", "--no-deps", "--target")
    run(pip, *install, places["pip"], "--no-cache-dir", "--index-url", url, name)
    common = ("--no-config", "--no-cache", "--python", sys.executable, "--index", url, name)
    run(uv, "pip", *install, places["uv"], *common)
    run(uv, "pip", *install, places["uv preview"], *common, *VARIANTS)
    wheelfit(*install, places["wheelfit"], "-i", url, name)
    found = {each: label_in(place) for each, place in places.items()}
    assert found == {"pip": None, "uv": None, "uv preview": "v3", "wheelfit": "v3"}

    (document,) = public.rglob("*-variants.json")
    assert run(variantlib_python, "-c", ORDER, document, PLUGIN, RUNTIME).startswith("['v3'")
