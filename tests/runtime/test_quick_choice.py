"""What is chosen quickly is what the whole loader chooses, and nothing is lost on the way."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_runs import RUNTIME_SOURCE, plain_environ, printed_by
from runtime.declaring import LOADS_SPAM, declaration, declare

from wheelfit_runtime.loader import quick_choice
from wheelfit_runtime.loader.declaration_files import FOLDER, InvalidDeclaration
from wheelfit_runtime.loader.declarations import read
from wheelfit_runtime.loader.evidence import EvidenceGatherer
from wheelfit_runtime.loader.loading import Loader
from wheelfit_runtime.loader.process import Process
from wheelfit_runtime.platforms import recording
from wheelfit_runtime.platforms.facts import CpuidRegisters, CpuidTable
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status
from wheelfit_runtime.platforms.probes.cpuinfo_flags import PATH
from wheelfit_runtime.platforms.providers.x86_64 import provider, quick_look
from wheelfit_runtime.platforms.providers.x86_64.tables import CPUID_FLAGS
from wheelfit_runtime.platforms.system_view import architecture_of_this_process

MACHINES = Path(__file__).parents[1] / "machines"
EVERYTHING = CpuidTable(
    {(leaf, subleaf): CpuidRegisters(*[0xFFFFFFFF] * 4) for leaf, subleaf, _ in CPUID_FLAGS},
    xcr0=0x600E7,
)
"""What a processor with all abilities answers, for machines that were captured without it."""
LEVELS = ("v3", "v2", "v1")

NAMES = st.sampled_from(["a", "b", "cu12", "avx2", "a.b", "Ä", "", "-x", "x_1", "a" * 101])
GOOD_NAMES = st.sampled_from(["a", "b", "avx2", "generic"])
PROPERTIES = st.sampled_from(
    [f"x86_64 :: level :: {value}" for value in ("v4", "v3", "v2", "v1", "v9")]
    + ["x86_64 :: avx2 :: on", "nvidia :: sm_arch :: 90_real", "x86_64::level::v1", "x86_64", "A"]
)
GOOD_PROPERTIES = st.sampled_from([f"x86_64 :: level :: v{n}" for n in range(1, 5)])
GOOD = st.fixed_dictionaries(
    {
        "schema": st.just(1),
        "group": st.sampled_from(["spam", "spam", "eggs"]),
        "implementation": GOOD_NAMES,
        "module": st.sampled_from(["spam_a", "spam_b", "spam.c"]),
        "properties": st.lists(GOOD_PROPERTIES, max_size=2),
    },
    optional={"priority": st.integers(-1, 1), "distribution": st.just("spam-it")},
)
STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, 1, 2, -1, 0.5, "", "x", " a", "a b", "\x1b", "a..b", "1a"),
        *([], {}, [1], ["x"], {"a": 1}),
    ]
)
ANY = st.fixed_dictionaries(
    {"schema": st.one_of(st.just(1), STRANGE), "group": st.one_of(GOOD_NAMES, STRANGE)},
    optional={
        "implementation": st.one_of(NAMES, STRANGE),
        "module": st.one_of(GOOD_NAMES, STRANGE),
        "properties": st.one_of(st.lists(PROPERTIES, max_size=3), STRANGE),
        "priority": STRANGE,
        "distribution": STRANGE,
        "dimensions": st.one_of(STRANGE, st.just({"acme :: x": "requirement"})),
        "known": st.one_of(
            STRANGE,
            st.lists(
                st.fixed_dictionaries(
                    {"implementation": st.one_of(NAMES, STRANGE), "install": STRANGE},
                    optional={"properties": st.lists(PROPERTIES, max_size=2)},
                ),
                max_size=2,
            ),
        ),
    },
)


def supported(namespace: str) -> tuple[str, tuple[str, ...]]:
    """Return what an x86-64 processor of level v3 has."""
    assert namespace == "x86_64"
    return "level", LEVELS


def look(names: Sequence[str], environ: Mapping[str, str], *, devices: bool) -> Process:
    """Return the same as the whole detection has it."""
    del environ, devices
    level = Detection("x86_64", (FeatureConfig("level", LEVELS),), Status.SUPPORTED)
    return Process({name: level for name in names if name == "x86_64"})


@given(st.lists(GOOD, max_size=6))
def test_as_the_whole_loader(
    tmp_path_factory: pytest.TempPathFactory, documents: list[dict[str, Any]]
) -> None:
    """It chooses what the whole loader chooses, which then has nothing to tell."""
    site = tmp_path_factory.mktemp("site")
    (site / FOLDER).mkdir()
    for number, one in enumerate(documents):
        declare(site, f"{number}.json", one)
    told = quick_choice.read_documents([str(site)], ())
    assert told == documents
    quick = quick_choice.choose("spam", told, "x86_64", supported)
    news: list[str] = []
    sources = EvidenceGatherer(environ=dict, paths=lambda: [str(site)], detect=look)
    if quick is None:
        fits = [document for document in documents if document["group"] == "spam"]
        # A second file about one implementation does not count.
        firsts = {fit["implementation"]: fit for fit in reversed(fits)}
        needs = [first["properties"] for first in firsts.values()]
        assert all(each and not {p[-2:] for p in each} & set(LEVELS) for each in needs)
        return
    loader = Loader(lambda: sources, import_module=ModuleType, warn=news.append)
    assert loader.load("spam").__name__ == quick.module
    assert news == []


@given(ANY)
def test_strange_declarations(document: dict[str, Any]) -> None:
    """Whatever a file says, it is read or refused."""
    with contextlib.suppress(InvalidDeclaration):
        read(json.dumps(document).encode(), "x.json")


@pytest.mark.parametrize(
    "text", ["{", '{"schema": 1} x', "", "[" * 5000, '{"schema": NaN}', "\xff", "x" * 70_000]
)
def test_what_is_no_document(tmp_path: Path, text: str) -> None:
    """What is broken is left to the whole loader, which tells of it."""
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "x.json").write_bytes(text.encode("latin-1"))
    assert quick_choice.read_documents([str(tmp_path)], ()) is None


@pytest.mark.parametrize("machine", sorted(MACHINES.glob("linux-x86*")), ids=lambda m: m.name)
def test_levels_of_captured_machines(machine: Path) -> None:
    """On every machine that was captured it finds the level that the provider finds, or none."""
    seen = recording.open_recorded(machine).view
    # With overrides, or a 32-bit Python, nobody looks quickly.
    seen = replace(seen, environ={}, architecture="x86_64")
    table = seen.recorded_cpuid or EVERYTHING
    text = seen.read_text(PATH) or ""
    found = quick_look.levels_in(text, (dict(table.leaves), table.xcr0))
    detection = provider.PROVIDER.detect(seen)
    levels = next(
        feature.values for feature in detection.features if feature.name == quick_look.FEATURE
    )
    assert found == levels or (found is None and (detection.warnings or "flags" not in text))


# --- a process -----------------------------------------------------------------------------------

_ASK = """
import sys; sys.path[:0] = sys.argv[1:]
import spam
print(spam.NAME, "re" in sys.modules, "wheelfit_runtime.loader.planning" in sys.modules)
import wheelfit_runtime
told = wheelfit_runtime.explain("spam")["groups"][0]
print(told["chosen"], told["loaded"])
"""


def ask(site: Path, **environ: str) -> list[str]:
    """Return the implementation a fresh process gets, and whether it went the long way."""
    words = ("-S", "-c", _ASK, site, RUNTIME_SOURCE)
    return printed_by(*words, environ={**plain_environ(), **environ}).split()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Install spam with two implementations."""
    (tmp_path / "spam.py").write_text(LOADS_SPAM)
    declare(tmp_path, "spam-fast.json", declaration("spam-fast", "x86_64 :: level :: v1"))
    declare(tmp_path, "spam-generic.json", declaration("spam-generic"))
    for name in ("fast", "generic"):
        (tmp_path / f"spam_{name}.py").write_text(f"NAME = {name!r}\n")
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is looked at quickly")
@pytest.mark.skipif(architecture_of_this_process() != "x86_64", reason="it is for x86-64")
class TestProcess:
    """An import of a split package costs little, and the same counts as ever."""

    def test_nothing_unnecessary_is_imported(self, site: Path) -> None:
        """Neither regular expressions nor the planner are; `explain` tells what was taken."""
        assert ask(site) == ["fast", "False", "False", "fast", "True"]

    @pytest.mark.parametrize(
        "environ",
        [{"WHEELFIT_OVERRIDE_X86_64_LEVEL": "v1"}, {"SPAM_IMPLEMENTATION": "fast"}],
        ids=["an override", "a demand"],
    )
    def test_variables(self, site: Path, environ: dict[str, str]) -> None:
        """Where a variable may change the choice, it is made with all that is known."""
        assert ask(site, **environ) == ["fast", "True", "True", "fast", "True"]

    def test_a_demand_counts(self, site: Path) -> None:
        """The implementation that somebody demands is taken."""
        assert ask(site, SPAM_IMPLEMENTATION="generic")[0] == "generic"

    def test_one_that_cannot_be_loaded(self, site: Path) -> None:
        """Where the import of what was chosen fails, the next one is taken."""
        (site / "spam_fast.py").write_text("import no_such_library\n")
        assert ask(site) == ["generic", "True", "True", "generic", "True"]

    @pytest.mark.parametrize("text", ["{", '{"schema" 1}', '"x'])
    def test_a_broken_declaration(self, site: Path, text: str) -> None:
        """A file of another package that is not JSON does not prevent the import."""
        declare(site, "x.json", text)
        assert ask(site)[:3] == ["fast", "True", "True"]

    def test_hardware_that_needs_more(self, site: Path) -> None:
        """A group with an implementation for a GPU is chosen from with all that is known."""
        told = declaration("spam-x", "nvidia :: sm_arch :: 90_real")
        declare(site, "x.json", told)
        assert ask(site)[1] == "True"
        # In a group of its own it is of no concern.
        declare(site, "x.json", {**told, "group": "eggs"})
        assert ask(site)[1] == "False"
