"""What is planned is carried out: it imports, falls back, tells once, with threads and forks."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from runtime.declaring import declaration, declare

from wheelfit_runtime.errors import NoFit, NoImplementation
from wheelfit_runtime.loader.declaration_files import FOLDER
from wheelfit_runtime.loader.evidence import EvidenceGatherer
from wheelfit_runtime.loader.loading import Loader
from wheelfit_runtime.loader.planning import LoadedValue
from wheelfit_runtime.loader.process import Process
from wheelfit_runtime.loader.quick_choice import variable_of
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status

DRIVER = ("12.4", "12.0", "11.8", "11.0")


class World:
    """Be an environment with packages, a machine, and somebody who listens."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.environ: dict[str, str] = {}
        self.driver: tuple[str, ...] = DRIVER
        self.without_driver = Status.NOTHING
        self.loaded: list[LoadedValue] = []
        self.broken: dict[str, Exception] = {}
        self.imported: list[str] = []
        self.looked: list[tuple[tuple[str, ...], bool]] = []
        self.warnings: list[str] = []
        self.on_look: Callable[[], None] = lambda: None
        self.on_import: Callable[[str], None] = lambda _: None
        self.loader = self.start()

    def start(self, longest_wait: float = 10.0) -> Loader:
        """Return what a process begins with."""
        return Loader(
            lambda: EvidenceGatherer(
                environ=lambda: self.environ, paths=lambda: [str(self.site)], detect=self.look
            ),
            import_module=self.bring,
            warn=self.warnings.append,
            longest_wait=longest_wait,
        )

    def declare(self, title: str, *properties: str, **more: object) -> None:
        """Install one, as ``spam-cu12``."""
        told = declaration(title, *properties, distribution=title, **more)
        declare(self.site, f"{title}.json", told)

    def cuda(self, title: str, version: str) -> None:
        """Install one for a version of CUDA."""
        self.declare(title, f"nvidia :: cuda_version_lower_bound :: {version}")

    def look(self, names: Sequence[str], environ: Mapping[str, str], *, devices: bool) -> Process:
        """Return the supported properties of the machine."""
        assert environ is self.environ
        self.looked.append((tuple(names), devices))
        self.on_look()
        lower = FeatureConfig("cuda_version_lower_bound", self.driver)
        sm = FeatureConfig("sm_arch", ("90_real",) if devices else ())
        there = Detection("nvidia", (lower, sm), status=Status.SUPPORTED)
        nothing = Detection("nvidia", status=self.without_driver, warnings=("no driver",))
        level = FeatureConfig("level", ("v3", "v2", "v1"))
        every = {
            "nvidia": there if self.driver else nothing,
            "x86_64": Detection("x86_64", (level,), status=Status.SUPPORTED),
        }
        return Process({n: every[n] for n in names if n in every}, tuple(self.loaded))

    def bring(self, name: str) -> ModuleType:
        """Import a module, or fail as it does."""
        self.imported.append(name)
        self.on_import(name)
        if name in self.broken:
            raise self.broken[name]
        return ModuleType(name)

    def chosen(self, group: str = "spam") -> str:
        """Return the name of the module that a group gets."""
        return self.loader.load(group).__name__


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Start with nothing installed, on a machine with a driver for CUDA 12.4."""
    return World(tmp_path)


@pytest.fixture
def spam(world: World) -> World:
    """Install the five implementations of spam."""
    world.cuda("spam-cu12", "12.0")
    world.cuda("spam-cu11", "11.8")
    world.declare("spam-avx512", "x86_64 :: level :: v4")
    world.declare("spam-avx2", "x86_64 :: level :: v3")
    world.declare("spam-generic")
    return world


class TestChoice:
    """The best is imported, and what is lost is told once."""

    def test_the_best(self, spam: World) -> None:
        """The best is imported and nothing else; later calls return the same."""
        module = spam.loader.load("spam")
        assert module.__name__ == "spam_cu12"
        assert spam.loader.load("spam") is module
        assert spam.imported == ["spam_cu12"]
        assert spam.looked == [(("nvidia", "x86_64"), False)]

    def test_no_hardware(self, spam: World) -> None:
        """What is installed for hardware that this machine lacks is as intended: no warning."""
        spam.driver = ()
        assert spam.chosen() == "spam_avx2"
        assert spam.warnings == []

    def test_a_driver_that_fails(self, spam: World) -> None:
        """A GPU is lost if its driver cannot be asked."""
        spam.driver, spam.without_driver = (), Status.FAILED
        assert spam.chosen() == "spam_avx2"
        (words,) = spam.warnings
        assert "spam-cu12 (needs an NVIDIA driver for CUDA 12.0 or newer; no driver)" in words

    def test_a_driver_that_is_too_old(self, spam: World) -> None:
        """A GPU that nothing uses, because its driver is too old, is told of once."""
        spam.driver = ("11.4", "11.0")
        spam.chosen()
        spam.chosen()
        (words,) = spam.warnings
        assert words == (
            "spam uses spam-avx2; could not be used: "
            "spam-cu11 (needs an NVIDIA driver for CUDA 11.8 or newer; here it is 11.4), "
            "spam-cu12 (needs an NVIDIA driver for CUDA 12.0 or newer; here it is 11.4)"
        )

    def test_another_build_for_the_same_hardware(self, spam: World) -> None:
        """An older driver gets the build that is installed for it, and nothing is lost."""
        spam.driver = ("11.8", "11.0")
        assert spam.chosen() == "spam_cu11"
        assert spam.warnings == []

    def test_an_author_who_wants_it_so(self, spam: World) -> None:
        """What comes first by its priority is not a fallback."""
        spam.driver = ("11.4", "11.0")
        spam.declare("spam-best", priority=1)
        assert spam.chosen() == "spam_best"
        assert spam.warnings == []

    def test_code_for_another_gpu(self, spam: World) -> None:
        """A GPU that none was compiled for is hardware as any other: no warning."""
        spam.driver = ("11.4", "11.0")
        for title in ("spam-cu11", "spam-cu12"):
            version = f"{title[-2:]}.8"
            bound = f"nvidia :: cuda_version_lower_bound :: {version}"
            spam.declare(title, bound, "nvidia :: sm_arch :: 75_real")
        assert spam.chosen() == "spam_avx2"
        assert spam.warnings == []

    def test_one_that_cannot_be_imported(self, spam: World) -> None:
        """What fits and cannot be imported is lost."""
        spam.broken["spam_cu12"] = ImportError("libfoo.so.1: cannot open")
        assert spam.chosen() == "spam_cu11"
        (words,) = spam.warnings
        assert words == (
            "spam uses spam-cu11; could not be used: "
            "spam-cu12 (cannot be loaded: libfoo.so.1: cannot open)"
        )

    def test_what_the_process_has(self, spam: World) -> None:
        """A GPU that another package keeps from being used, by what it has loaded, is told of."""
        spam.loaded.append(LoadedValue("cuda", "13", "libcudart.so.13 is loaded"))
        assert spam.chosen() == "spam_avx2"
        (words,) = spam.warnings
        assert "this process has CUDA 13: libcudart.so.13 is loaded" in words
        assert "avx512" not in words

    def test_broken_files_are_told(self, spam: World) -> None:
        """What is wrong with a file is told, by its name, and stops nobody."""
        declare(spam.site, "wrong.json", [])
        assert spam.chosen() == "spam_cu12"
        assert spam.warnings[0].startswith(f"{spam.site / FOLDER / 'wrong.json'}: ")

    def test_devices_only_if_asked_for(self, spam: World) -> None:
        """GPUs are asked for where a declaration names their code."""
        spam.declare("spam-sm90", "nvidia :: sm_arch :: 90_real", priority=1)
        assert spam.chosen() == "spam_sm90"
        assert spam.looked == [(("nvidia", "x86_64"), True)]

    def test_what_is_not_installed(self, world: World) -> None:
        """The machine is not asked for what is known and not installed, unless nothing fits."""
        sm90 = {"implementation": "sm90", "install": "spam-sm90"}
        known = [{**sm90, "properties": ["nvidia :: sm_arch :: 90_real"]}]
        declare(world.site, "spam.json", {"schema": 1, "group": "spam", "known": known})
        with pytest.raises(NoImplementation, match="pip install spam-sm90"):
            world.chosen()
        assert world.looked == [((), False), (("nvidia",), True)]
        world.looked.clear()
        world.declare("spam-generic")
        assert world.chosen() == "spam_generic"
        assert world.looked == [((), False)]

    def test_the_machine_is_looked_at_once(self, spam: World) -> None:
        """A second group asks of the machine only what is new; of what is loaded again."""
        spam.declare("eggs-generic")
        spam.chosen()
        spam.chosen("eggs")
        assert spam.looked == [(("nvidia", "x86_64"), False), ((), False)]

    def test_another_environment(self, spam: World) -> None:
        """Where a variable has changed, as a mask, the machine is looked at anew."""
        spam.declare("eggs-generic")
        spam.chosen()
        spam.environ["CUDA_VISIBLE_DEVICES"] = ""
        spam.chosen("eggs")
        assert spam.looked == [(("nvidia", "x86_64"), False)] * 2


class TestFallingBack:
    """What cannot be imported counts as unsupported."""

    @pytest.mark.parametrize("error", [OSError("libcudart.so.12: cannot open"), ImportError("no")])
    def test_the_next_best(self, spam: World, error: Exception) -> None:
        """The next is taken, and the warning has the reason."""
        spam.broken["spam_cu12"] = error
        assert spam.chosen() == "spam_cu11"
        assert f"spam-cu12 (cannot be loaded: {error})" in spam.warnings[0]

    def test_other_errors_are_not_hidden(self, spam: World) -> None:
        """A mistake in an implementation is its author's to see; asking again tries it again."""
        spam.broken["spam_cu12"] = ZeroDivisionError()
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                spam.chosen()
        spam.broken.clear()
        assert spam.chosen() == "spam_cu12"

    def test_a_mistake_claims_nothing(self, spam: World) -> None:
        """Who catches the error of one group can use another that needs something else."""
        assert spam.loader.explain(["spam"])["agreed"] == {"cuda": "12"}
        spam.broken["spam_cu12"] = ZeroDivisionError()
        with pytest.raises(ZeroDivisionError):
            spam.chosen()
        spam.cuda("eggs-cu11", "11.8")
        assert spam.chosen("eggs") == "eggs_cu11"

    def test_an_error_of_many_lines(self, spam: World) -> None:
        """Each warning is one line, without what a terminal would obey."""
        spam.broken["spam_cu12"] = OSError("first\n  second\x1b[31m\n")
        spam.chosen()
        assert "spam-cu12 (cannot be loaded: first; second\\x1b[31m)" in spam.warnings[0]

    def test_all_fail(self, spam: World) -> None:
        """If none can be imported, the error has every reason and the last error as cause."""
        for name in ("cu12", "cu11", "avx2", "generic"):
            spam.broken[f"spam_{name}"] = OSError(f"broken {name}")
        with pytest.raises(NoImplementation) as excinfo:
            spam.chosen()
        assert isinstance(excinfo.value.__cause__, OSError)
        for name in ("cu12", "cu11", "avx2", "generic"):
            assert f"spam-{name}: cannot be loaded: broken {name}" in str(excinfo.value)
        spam.broken.clear()
        assert spam.chosen() == "spam_cu12"

    def test_it_asks_for_itself(self, spam: World) -> None:
        """An implementation that asks for its own group is an error, and no endless loop."""

        def ask_for_itself(_: str) -> None:
            spam.loader.load("spam")

        spam.on_import = ask_for_itself
        with pytest.raises(NoImplementation, match="spam is loaded while its own"):
            spam.chosen()

    def test_what_it_will_be(self, spam: World) -> None:
        """While it is imported its name can be had, and by other threads when it is there."""
        names: list[str] = []
        spam.broken["spam_cu12"] = OSError("broken")
        spam.on_import = lambda _: names.append(spam.loader.module_of("spam"))
        assert spam.loader.module_of("spam") == "spam_cu11"
        assert names == ["spam_cu12", "spam_cu11"]

    def test_it_asks_for_another(self, spam: World) -> None:
        """An implementation may use another group; that follows what the first has."""
        spam.cuda("eggs-cu12", "12.0")
        spam.cuda("eggs-cu11", "11.0")
        spam.environ["SPAM_IMPLEMENTATION"] = "cu11"

        def ask_for_eggs(name: str) -> None:
            if name.startswith("spam"):
                spam.loader.load("eggs")

        spam.on_import = ask_for_eggs
        spam.chosen()
        assert spam.imported == ["spam_cu11", "eggs_cu11"]

    def test_it_had_another_one_loaded(self, spam: World) -> None:
        """What it had imported before it failed stays, and so does what that needs."""
        spam.cuda("eggs-cu12", "12.0")
        spam.broken["spam_cu12"] = OSError("broken")

        def ask_for_eggs(name: str) -> None:
            if name == "spam_cu12":
                spam.loader.load("eggs")

        spam.on_import = ask_for_eggs
        assert spam.chosen() == "spam_avx2"


class TestOneProcess:
    """What a process has one of is agreed on."""

    def test_planned_together(self, spam: World) -> None:
        """Eggs that has only CUDA 11 makes spam take CUDA 11, whoever is first."""
        spam.cuda("eggs-cu11", "11.0")
        assert spam.chosen() == "spam_cu11"
        assert spam.chosen("eggs") == "eggs_cu11"

    def test_what_came_later(self, spam: World) -> None:
        """What is installed after the first choice follows it."""
        assert spam.chosen() == "spam_cu12"
        spam.cuda("eggs-cu11", "11.0")
        with pytest.raises(NoImplementation) as excinfo:
            spam.chosen("eggs")
        words = "is for CUDA 11, but this process has CUDA 12: spam uses spam-cu12"
        assert words in str(excinfo.value)

    def test_loaded_by_somebody(self, spam: World) -> None:
        """CUDA 13 that somebody loaded leaves no CUDA 12 to spam."""
        spam.loaded = [LoadedValue("cuda", "13", "/x/libcudart.so.13 is loaded")]
        assert spam.chosen() == "spam_avx2"
        assert "this process has CUDA 13: /x/libcudart.so.13 is loaded" in spam.warnings[0]

    @pytest.mark.parametrize("value", ["cuda", "all", "mpi, cuda"])
    def test_mixing_on_demand(self, spam: World, value: str) -> None:
        """Who knows that two majors go together may say so."""
        spam.loaded = [LoadedValue("cuda", "13", "/x/libcudart.so.13 is loaded")]
        spam.environ["WHEELFIT_MIX"] = value
        assert spam.chosen() == "spam_cu12"


class TestDemands:
    """A variable names the implementation."""

    @pytest.mark.parametrize(
        ("group", "variable"),
        [("spam", "SPAM_IMPLEMENTATION"), ("my-fast.fft", "MY_FAST_FFT_IMPLEMENTATION")],
    )
    def test_its_name(self, group: str, variable: str) -> None:
        """It is the group in capitals."""
        assert variable_of(group) == variable

    def test_taken_in_any_case(self, spam: World) -> None:
        """What is demanded is imported whatever the machine says, and nothing is warned of."""
        spam.environ["SPAM_IMPLEMENTATION"] = "avx512"
        assert spam.chosen() == "spam_avx512"
        assert spam.warnings == []

    def test_no_such_name(self, spam: World) -> None:
        """The error lists the names there are."""
        spam.environ["SPAM_IMPLEMENTATION"] = "cu13"
        with pytest.raises(NoImplementation) as excinfo:
            spam.chosen()
        assert str(excinfo.value) == (
            "SPAM_IMPLEMENTATION=cu13 names no installed implementation of spam\n"
            "hint: installed are avx2, avx512, cu11, cu12, generic"
        )

    def test_it_fails(self, spam: World) -> None:
        """What is demanded and fails is an error; nothing else is taken instead."""
        spam.environ["SPAM_IMPLEMENTATION"] = "cu12"
        spam.broken["spam_cu12"] = OSError("no libcudart")
        with pytest.raises(
            NoImplementation, match="SPAM_IMPLEMENTATION forces cu12 of spam, which cannot"
        ):
            spam.chosen()
        assert spam.imported == ["spam_cu12"]

    def test_others_that_cannot_follow(self, spam: World) -> None:
        """Who asks is served, though another group is to have something else."""
        spam.cuda("eggs-cu11", "11.8")
        spam.cuda("ham-cu12", "12.0")
        spam.environ["EGGS_IMPLEMENTATION"] = "cu11"
        assert spam.chosen("ham") == "ham_cu12"

    def test_others_follow(self, spam: World) -> None:
        """Other groups go with what is demanded of one, before that is imported."""
        spam.cuda("eggs-cu12", "12.0")
        spam.cuda("eggs-cu11", "11.0")
        spam.environ["SPAM_IMPLEMENTATION"] = "cu11"
        assert spam.chosen("eggs") == "eggs_cu11"


class TestNothing:
    """Nothing fits, or nothing is there."""

    def test_reasons_and_what_to_install(self, world: World) -> None:
        """Each implementation has its reason, and what would fit is named; it fails an import."""
        world.driver = ()
        world.cuda("spam-cu12", "12.0")
        known = [
            {"implementation": "cu12", "install": "spam-cu12"},
            {"implementation": "generic", "install": "spam-generic"},
            {
                "implementation": "avx2",
                "install": "spam-avx2",
                "properties": ["x86_64 :: level :: v3"],
            },
            {
                "implementation": "avx512",
                "install": "spam-avx512",
                "properties": ["x86_64 :: level :: v4"],
            },
        ]
        declare(world.site, "spam.json", {"schema": 1, "group": "spam", "known": known})
        with pytest.raises(ImportError) as excinfo:
            world.chosen()
        error = excinfo.value
        assert isinstance(error, NoImplementation)
        assert isinstance(error, NoFit)
        assert error.name == "spam"
        assert str(error) == (
            "no installed implementation of spam can be used here\n"
            "  spam-cu12: needs an NVIDIA driver for CUDA 12.0 or newer; no driver\n"
            "hint: this machine can use: pip install spam-avx2 (or spam-generic)"
        )
        (told,) = error.details
        assert told["implementation"] == "cu12"
        assert world.warnings == []

    def test_nothing_is_installed(self, world: World) -> None:
        """What nobody implements is an error that says so."""
        with pytest.raises(NoImplementation, match="no implementation of spam is inst") as excinfo:
            world.chosen()
        assert "the documentation of spam names them" in str(excinfo.value)

    def test_nothing_suits(self, world: World) -> None:
        """Where nothing that exists suits the machine, it says what there is."""
        world.driver = ()
        cu12 = "nvidia :: cuda_version_lower_bound :: 12.0"
        known = [{"implementation": "cu12", "install": "spam-cu12", "properties": [cu12]}]
        declare(world.site, "spam.json", {"schema": 1, "group": "spam", "known": known})
        with pytest.raises(NoImplementation, match="there are spam-cu12; none of them suits"):
            world.chosen()


class TestThreads:
    """Thirty-two threads, and forks in the middle."""

    def test_all_get_the_same(self, spam: World) -> None:
        """Threads that ask at once get one module, and one warning is given."""
        spam.driver = ()
        spam.on_look = lambda: time.sleep(0.02)
        spam.broken["spam_avx2"] = OSError("broken")
        spam.declare("eggs-generic")
        start = threading.Barrier(32)
        found: list[ModuleType] = []

        def ask(number: int) -> None:
            start.wait()
            found.append(spam.loader.load("eggs" if number % 4 == 0 else "spam"))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        assert len({id(module) for module in found}) == 2
        assert {module.__name__ for module in found} == {"spam_generic", "eggs_generic"}
        assert len([words for words in spam.warnings if words.startswith("spam uses")]) == 1

    def test_it_fails_for_one_thread_only(self, world: World) -> None:
        """What one thread gives up another keeps only if it still goes with all others."""
        world.cuda("spam-cu12", "12.0")
        world.cuda("eggs-cu12", "12.0")
        world.cuda("eggs-cu11", "11.8")
        world.broken["spam_cu12"] = OSError("not now")

        def fail_elsewhere(_: str) -> None:
            world.on_import = lambda _: None
            thread = threading.Thread(target=pytest.raises, args=(NoImplementation, world.chosen))
            thread.start()
            thread.join(10)
            world.environ["EGGS_IMPLEMENTATION"] = "cu11"
            assert world.chosen("eggs") == "eggs_cu11"
            world.broken.clear()

        world.on_import = fail_elsewhere
        with pytest.raises(NoImplementation, match="this process has CUDA 11: eggs uses eggs-cu11"):
            world.chosen()

    def test_no_lock_is_held_while_importing(self, spam: World) -> None:
        """Another thread decides while one imports: an import may wait for that thread."""
        spam.declare("eggs-generic")

        def load_eggs(name: str) -> None:
            if name.startswith("spam"):
                thread = threading.Thread(target=spam.loader.load, args=("eggs",))
                thread.start()
                thread.join(10)
                assert not thread.is_alive()

        spam.on_import = load_eggs
        assert spam.chosen() == "spam_cu12"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    @pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
    def test_a_fork_while_deciding(self, spam: World) -> None:
        """A child that is forked while a thread decides has a whole state, and can decide too."""
        deciding = threading.Event()

        def slow() -> None:
            deciding.set()
            time.sleep(0.2)

        spam.on_look = slow
        loader = spam.loader
        os.register_at_fork(
            before=loader.before_fork,
            after_in_parent=loader.after_fork_in_parent,
            after_in_child=loader.after_fork_in_child,
        )
        thread = threading.Thread(target=spam.chosen)
        thread.start()
        assert deciding.wait(10)
        child = os.fork()
        if not child:  # pragma: no cover - another process
            is_right = spam.loader.load("spam").__name__ == "spam_cu12"
            os._exit(0 if is_right else 1)
        thread.join(10)
        end = time.monotonic() + 20
        pid, status = 0, 0
        while not pid and time.monotonic() < end:
            pid, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if not pid:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert pid == child
        assert status == 0
        assert spam.chosen() == "spam_cu12"

    def test_a_fork_that_does_not_wait(self, spam: World) -> None:
        """Of two threads that fork, one that gives up waiting leaves the other its lock."""
        loader = spam.start(longest_wait=0.01)

        def fork() -> None:
            loader.before_fork()
            loader.after_fork_in_parent()

        loader.before_fork()
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join(10)
        loader.after_fork_in_parent()
        thread = threading.Thread(target=loader.load, args=("spam",), daemon=True)
        thread.start()
        thread.join(10)
        assert spam.imported == ["spam_cu12"]


class TestExplain:
    """What would happen, as data."""

    def test_before_and_after(self, spam: World) -> None:
        """Nothing is imported by explaining; after an import it says that this is in use."""
        spam.driver = ("11.8", "11.0")
        before = spam.loader.explain(())
        assert spam.imported == []
        (group,) = before["groups"]
        assert (group["chosen"], group["loaded"]) == ("cu11", False)
        states = {
            implementation["implementation"]: implementation["state"]
            for implementation in group["implementations"]
        }
        assert states == {
            "cu11": "chosen",
            "avx2": "fits",
            "generic": "fits",
            "avx512": "unsupported",
            "cu12": "unsupported",
        }
        assert before["agreed"] == {"cuda": "11"}
        json.dumps(before)
        spam.chosen()
        after = spam.loader.explain(("spam",))
        assert (after["groups"][0]["chosen"], after["groups"][0]["loaded"]) == ("cu11", True)
        assert spam.imported == ["spam_cu11"]

    def test_an_unknown_group(self, world: World) -> None:
        """A group of which nothing is known has nothing."""
        (group,) = world.loader.explain(("spam",))["groups"]
        assert (group["chosen"], group["implementations"]) == (None, [])
