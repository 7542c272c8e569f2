"""How a plugin is found, what it is given, and what is reported of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from programs import until
from sampled_cases import sampled

import wheelfit
import wheelfit_runtime
from wheelfit.core.plugin_answer import read_report
from wheelfit.testing.plugins import Plugin, fictional_hw, fictional_tech, simple_plugin
from wheelfit_runtime.platforms.features import FeatureConfig
from wheelfit_runtime.platforms.plugin_process import Method, PluginReport, ask
from wheelfit_runtime.platforms.providers import namespaces

pytestmark = pytest.mark.skipif(os.name != "posix", reason="plugins are asked so on POSIX only")

ENVIRON = dict(os.environ)
MODULE = """
import os, stat, sys

class Feature:
    def __init__(self, name, *values):
        self.name, self.values, self.multi_value = name, list(values), False

SUPPORTED = [Feature("level", "v2", "v1")]

def get_supported_configs():
    return SUPPORTED

def get_all_configs():
    return [Feature("level", "v3", "v2", "v1")]

class Static:
    all_properties_compatible = True
    is_aot_plugin = 3
    namespace = "another"

    @staticmethod
    def get_supported_configs():
        return SUPPORTED

class Bound:
    @classmethod
    def get_supported_configs(cls):
        return SUPPORTED

class Needy:
    def get_supported_configs(self):
        return SUPPORTED

class Heir(Needy):
    pass

class Choosy:
    def __init__(self, size):
        pass
    def get_supported_configs(self):
        return SUPPORTED

class Older:
    @staticmethod
    def get_supported_configs(known_properties):
        return SUPPORTED if known_properties is None else []

class Oldest:
    def get_supported_configs(self, known_properties):
        return SUPPORTED if known_properties is None else []

class Wide:
    @staticmethod
    def get_supported_configs(known_properties=(), *more, **others):
        return SUPPORTED if known_properties == () else []

class Empty:
    @staticmethod
    def get_supported_configs():
        return []

class Callable:
    def __call__(self):
        return SUPPORTED

class Odd:
    get_supported_configs = Callable()

class Nothing:
    get_supported_configs = None

needed = Needy()

class Outer:
    class Inner:
        plugin = Needy()

class Noisy:
    @staticmethod
    def get_supported_configs():
        print("hello from the plugin")
        print("and an error", file=sys.stderr)
        os.system("echo from a program")
        return SUPPORTED

class Curious:
    @staticmethod
    def get_supported_configs():
        with open("note", "w"):
            mode = stat.S_IMODE(os.stat("note").st_mode)
        import socket
        facts = {
            "variables": sorted(os.environ), "path": os.environ["PATH"], "cwd": os.getcwd(),
            "home": os.environ["HOME"], "temporary": os.environ["TMPDIR"], "mode": oct(mode),
            "isolated": sys.flags.isolated, "prefix": sys.prefix, "stdin": sys.stdin.read(),
            "session": os.getsid(0) != os.getpid(), "argv": len(sys.argv), "first": sys.path[0],
            "files": sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1],
            "modules": [n for n in ("confinement", "system_calls") if n in sys.modules],
            "forced": os.environ.get("NV_VARIANT_PROVIDER_FORCE_SM_ARCH"),
        }
        return [Feature(name, repr(value)) for name, value in facts.items()]
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return an environment with some plugins."""
    folder = tmp_path_factory.mktemp("plugins") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (library,) = folder.glob("lib/python*/site-packages")
    plugin = Plugin("many", "1", "x", "many:Static", {"many.py": MODULE, "broken.py": "import it"})
    for one in (plugin, fictional_hw(), fictional_tech()):
        one.write_to(library)
    (library / "raising.py").write_text("raise ImportError('no driver')")
    (library / "syntax.py").write_text("def")
    return str(folder / "bin" / "python")


def supported(report: PluginReport) -> list[tuple[str, list[str]]]:
    """Return the features of an answer."""
    answer = read_report(report.configs, report.flags)
    return [(feature.name, list(feature.values)) for feature in answer.features]


LEVELS = [("level", ["v2", "v1"])]


class TestEndpoint:
    """P-25: the module is imported and the attributes are followed."""

    @pytest.mark.parametrize(
        "endpoint",
        sampled(
            fast={0, 5},
            cases=[
                "many",
                "many:Static",
                "many:Bound",
                "many:needed",
                "many:Outer.Inner.plugin",
                " many : Static ",
                "many:Wide",
                "many:Odd",
            ],
        ),
    )
    def test_found(self, python: str, endpoint: str) -> None:
        """P-25: modules, class and static methods, and methods of instances all work."""
        report = ask(python, endpoint, environ=ENVIRON)
        assert report.failure is None
        assert report.notes == ()
        assert supported(report) == LEVELS

    @pytest.mark.parametrize(
        ("endpoint", "notes"),
        sampled(
            fast={0, 2},
            cases=[
                ("many:Needy", ["needs an instance"]),
                ("many:Heir", ["needs an instance"]),
                ("many:Older", ["takes an argument"]),
                ("many:Oldest", ["needs an instance", "takes an argument"]),
            ],
        ),
    )
    def test_older_drafts(self, python: str, endpoint: str, notes: list[str]) -> None:
        """P-25: an instance is made and None is passed where that is needed, with a note."""
        report = ask(python, endpoint, environ=ENVIRON)
        assert supported(report) == LEVELS
        assert len(report.notes) == len(notes)
        assert all(words in note for words, note in zip(notes, report.notes, strict=True))

    @pytest.mark.parametrize(
        ("endpoint", "failure"),
        sampled(
            fast={0, 3, 6, 9},
            cases=[
                ("nowhere", "it cannot be imported: No module named 'nowhere'"),
                ("many.more", "it cannot be imported: No module named 'many.more'"),
                ("broken", "it cannot be imported: No module named 'it'"),
                ("raising", "it cannot be imported: it raised ImportError: no driver"),
                ("syntax", "it raised SyntaxError: invalid syntax"),
                ("many:Missing", "many:Missing does not exist: there is no Missing"),
                ("many:Outer.Other", "many:Outer.Other does not exist: there is no Other"),
                ("many:Outer", "many:Outer has no get_supported_configs()"),
                ("many:Nothing", "many:Nothing has no get_supported_configs()"),
                ("many:Choosy", "it raised TypeError: "),
                ("", "it raised ValueError: "),
            ],
        ),
    )
    def test_not_found(self, python: str, endpoint: str, failure: str) -> None:
        """P-17, P-25: what is not there is a failure that says so."""
        report = ask(python, endpoint, environ=ENVIRON)
        assert report.configs is None
        assert (report.failure or "").startswith(failure)

    def test_methods(self, python: str) -> None:
        """P-26, P-28: either list can be asked for; an empty one is an answer."""
        everything = ask(python, "many", method="get_all_configs", environ=ENVIRON)
        assert supported(everything) == [("level", ["v3", "v2", "v1"])]
        report = ask(python, "many:Empty", environ=ENVIRON)
        assert (report.configs, report.failure) == ((), None)
        missing = ask(python, "many:Static", method="get_all_configs", environ=ENVIRON)
        assert missing.failure == "many:Static has no get_all_configs()"

    def test_flags(self, python: str) -> None:
        """P-29, P-31: flags come with the answer, under older names too, and nothing else."""
        report = ask(python, "many:Static", environ=ENVIRON)
        assert report.flags == {"all_properties_compatible": True, "is_aot_plugin": 3}
        assert ask(python, "many", environ=ENVIRON).flags == {}


class TestSurroundings:
    """P-35: what a plugin is given, and what not."""

    @pytest.fixture
    def facts(
        self, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Mapping[str, object]:
        """Ask a plugin that tells what it sees."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        home = tmp_path / "home"
        (home / "bin").mkdir(parents=True)
        environ = {
            "PATH": f"{home}/bin:relative::/usr/bin:/bin",
            "HOME": str(home),
            "LC_TIME": "C",
            "PYTHONPATH": str(home),
            "AWS_SECRET_ACCESS_KEY": "x",
            "CUDA_VISIBLE_DEVICES": "0",
            "ROCM_PATH": "/opt/rocm",
            "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "9.0",
            "WHEELFIT_OVERRIDE_X_Y": "1",
            "WHEELFIT_CACHE_DIR": "/x",
            "LD_PRELOAD": "",
        }
        report = ask(python, "many:Curious", environ=environ)
        assert report.failure is None
        assert report.configs is not None
        assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]
        found: dict[str, object] = {}
        for config in report.configs:
            values = config["values"]
            assert isinstance(values, list)
            found[str(config["name"])] = values[0]
        return found

    def test_variables(self, facts: Mapping[str, object]) -> None:
        """P-35, P-89: of the environment only what is listed, and no mask of devices."""
        names = set(str(facts["variables"]).strip("[]'").split("', '"))
        assert names - {"LC_CTYPE"} == {
            "HOME", "LC_TIME", "NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "PATH", "ROCM_PATH", "TMPDIR",
            "WHEELFIT_OVERRIDE_X_Y",
        }  # fmt: skip
        assert facts["path"] == "'/usr/bin:/bin'"
        assert facts["forced"] == "'9.0'"

    def test_folder(self, facts: Mapping[str, object], tmp_path: Path) -> None:
        """P-35: home and current folder are a fresh one, which nobody else can read."""
        assert facts["cwd"] == facts["home"]
        assert str(facts["cwd"]).startswith(f"'{tmp_path}/wheelfit-plugin-")
        assert facts["temporary"] == f"{str(facts['cwd'])[:-1]}/tmp'"
        assert facts["mode"] == "'0o600'"

    def test_process(self, facts: Mapping[str, object], python: str) -> None:
        """P-35, P-36: isolated mode, no input, its own session, few files, no module of ours."""
        assert facts["isolated"] == "1"
        assert facts["stdin"] == "''"
        assert facts["session"] == "True"
        assert facts["prefix"] == repr(str(Path(python).parents[1]))
        assert facts["modules"] == "[]"
        if sys.platform == "linux":
            numbers = str(facts["files"]).strip("[]").split(", ")
            assert numbers[:3] == ["0", "1", "2"]
            assert len(numbers) <= 4  # and the pipe of the answer


def test_noise(python: str) -> None:
    """P-36: what is printed is kept apart from the answer, and attached."""
    report = ask(python, "many:Noisy", environ=ENVIRON)
    assert supported(report) == LEVELS
    assert report.output == "hello from the plugin\nfrom a program\n"
    assert report.errors == "and an error\n"


@pytest.mark.parametrize(
    ("interpreter", "failure"),
    [
        ("/no/such/python", "its process cannot be started: "),
        ("/bin/false", "its interpreter, which ended with status 1, could not prepare to run it"),
    ],
)
def test_no_interpreter(interpreter: str, failure: str) -> None:
    """P-17: an environment that has broken is a failure like others."""
    report = ask(interpreter, "many", environ=ENVIRON)
    assert (report.failure or "").startswith(failure)
    assert report.configs is None


OTHERS = [
    path
    for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    if int(path.parents[1].name.split(".")[1]) >= 9
]


@pytest.mark.integration
@pytest.mark.parametrize("other", OTHERS, ids=lambda path: path.parents[1].name)
def test_other_interpreters(other: Path, tmp_path: Path) -> None:
    """P-35: the plugin's interpreter may be another Python than the one that asks."""
    subprocess.run([other, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (library,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    fictional_hw().write_to(library)
    python = str(tmp_path / "venv" / "bin" / "python")
    report = ask(python, fictional_hw().endpoint, environ=ENVIRON)
    assert report.failure is None
    assert supported(report)[0] == ("architecture", ["deepthought", "hal9000"])


def is_there(group: int) -> bool:
    """Return whether a group of processes has members."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_interpreter_that_hangs(tmp_path: Path) -> None:
    """P-37: what is not even our code by the deadline is killed with all it started."""
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho $$\nsleep 1000\n")
    script.chmod(0o755)
    report = ask(str(script), "many", environ=ENVIRON, deadline=0.3)
    assert report.failure == "it did not answer within 0.3 s"
    # What was killed is collected by somebody else, a little later.
    until(lambda: not is_there(int(report.output)))


def test_limits_are_said(python: str) -> None:
    """P-35, P-37: what was enforced and what was not is part of the report, and the time."""
    report = ask(python, "many", environ=ENVIRON, memory=512 << 20, deadline=7)
    assert report.seconds > 0
    assert "8 s of processor time a process" in report.confinement
    if sys.platform == "linux":
        assert "512 MiB of memory a process" in report.confinement
        assert "no privileges, and none from programs it starts" in report.confinement
    for word in ("Landlock", "seccomp", "namespaces"):
        assert any(word in said for said in (*report.confinement, *report.unconfined)) or (
            sys.platform != "linux"
        )


@pytest.mark.parametrize(
    ("plugin", "method", "expected"),
    [
        (
            fictional_tech(),
            "get_supported_configs",
            [
                ("technology", ("auto_chef",)),
                ("quantum", ("foam", "superposition")),
                ("risk_exposure", ("25",)),
            ],
        ),
        (
            fictional_tech(),
            "get_all_configs",
            [
                ("technology", ("auto_chef", "improb_drive")),
                ("quantum", ("foam", "superposition")),
                ("risk_exposure", ("25", "1000000000")),
            ],
        ),
        (
            fictional_hw(),
            "get_supported_configs",
            [
                ("architecture", ("deepthought", "hal9000")),
                ("compute_capability", ("10", "6", "2")),
                ("compute_accuracy", ("1000", "0", "10")),
            ],
        ),
        (
            fictional_hw(),
            "get_all_configs",
            [
                ("architecture", ("deepthought", "hal9000", "mother", "tars")),
                ("compute_capability", ("10", "6", "2")),
                ("compute_accuracy", ("1000", "0", "10")),
            ],
        ),
    ],
)
def test_fictional(
    python: str, plugin: Plugin, method: Method, expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    """P-170, P-171: the demo plugins say what those of the demonstration say."""
    report = ask(python, plugin.endpoint, method=method, environ=ENVIRON)
    answer = read_report(report.configs, report.flags)
    assert answer.features == tuple(FeatureConfig(*feature) for feature in expected)
    assert answer.warnings == ()


def test_demo_plugins_are_for_tests() -> None:
    """P-172: no fictional provider is built in; only the testing package knows them."""
    assert not {"fictional_hw", "fictional_tech"} & set(namespaces())
    packages = [Path(wheelfit.__file__).parent, Path(wheelfit_runtime.__file__).parent]
    modules = [path for package in packages for path in package.rglob("*.py")]
    naming = {path for path in modules if "fictional" in path.read_text()}
    assert naming == {path for path in naming if packages[0] / "testing" in path.parents}
    assert naming


def test_humor() -> None:
    """P-171: another version of the source has one feature more, in the middle."""
    assert (
        "'humor', ['0', '2']" in fictional_hw(humor=True).files["provider_fictional_hw/plugin.py"]
    )
    assert "humor" not in fictional_hw().files["provider_fictional_hw/plugin.py"]


PUBLISHED = {
    "provider-variant-x86-64==0.0.1.post2": "provider_variant_x86_64.plugin:X8664Plugin",
    "ascend-variant-provider==0.0.2": "ascend_variant_provider.plugin:AscendVariantPlugin",
}


@pytest.mark.network
@pytest.mark.parametrize("requirement", PUBLISHED)
def test_published_plugins(registry: None, tmp_path: Path, requirement: str) -> None:
    """P-25, P-36: plugins as published answer, though one takes an argument and one prints."""
    del registry
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", requirement]
    subprocess.run(install, check=True)
    report = ask(python, PUBLISHED[requirement], environ=ENVIRON)
    assert report.failure is None, report
    answer = read_report(report.configs, report.flags)
    assert answer.failure is None
    if requirement.startswith("ascend"):
        assert report.output
    else:
        assert any("takes an argument" in note for note in report.notes)
        assert os.uname().machine != "x86_64" or answer.features[0].name == "level"


def test_simple_plugins(python: str, tmp_path: Path) -> None:
    """A plugin for a test of one's own is one line, and its wheel asks for nothing."""
    plugin = simple_plugin("gpu", {"arch": ["90", "80"], "driver": ["12"]}, multi_value=["arch"])
    library = next(Path(python).parents[1].glob("lib/python*/site-packages"))
    plugin.write_to(library)
    report = ask(python, plugin.endpoint, environ=ENVIRON)
    answer = read_report(report.configs, report.flags)
    assert answer.features == (
        FeatureConfig("arch", ("90", "80"), multi_value=True),
        FeatureConfig("driver", ("12",)),
    )
    assert plugin.wheel(tmp_path).name == "gpu_provider-1.0.0-py3-none-any.whl"
