"""Plugins that mean harm, or are as broken as can be, asked as trusted ones are.

Whatever a plugin does, there is a report with a reason, nothing of it stays, and others answer
as before. Where the kernel is said to enforce something, the attempt shows that it does; all of
it is repeated on kernels that lack one thing or another.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hostile import asking, without
from hostile.plugins import HOSTILE, hostile
from programs import until

from wheelfit.core.plugin_answer import PluginAnswer, read_report
from wheelfit.testing.plugins import fictional_hw
from wheelfit_runtime.platforms.features import FeatureConfig
from wheelfit_runtime.platforms.plugin_process import PluginReport, ask

pytestmark = pytest.mark.skipif(os.name != "posix", reason="plugins are asked so on POSIX only")
linux = pytest.mark.skipif(sys.platform != "linux", reason="what Linux enforces")

FINE = FeatureConfig("fine", ("yes",))
DEADLINE = 20.0
SHORT = 0.4


@dataclasses.dataclass
class Victim:
    """A user with a home folder, a secret in it, and an environment with plugins."""

    folder: Path
    """Holds all the rest."""
    python: Path
    """The interpreter of the environment."""
    environ: dict[str, str]
    """Variables; one is a secret."""

    @property
    def home(self) -> Path:
        """Where the file ``secret`` lies."""
        return self.folder / "home"

    def ask(self, kind: str, target: str = "", deadline: float = DEADLINE) -> PluginReport:
        """Ask a hostile plugin, and see to it that nothing of it stays."""
        plugin = hostile(kind)
        environ = {**self.environ, "HOSTILE_PROVIDER_FORCE_TARGET": target}
        report = ask(str(self.python), plugin.endpoint, environ=environ, deadline=deadline)
        self.nothing_stays()
        return report

    def attempts(self, kind: str, target: str, *enforced: str) -> dict[str, str]:
        """Ask a plugin that tries things, and return how each went.

        Skips where the report does not claim that this is enforced.
        """
        report = self.ask(kind, target)
        assert report.failure is None
        assert report.configs is not None
        if not all(any(what in words for words in report.confinement) for what in enforced):
            pytest.skip(f"not enforced here: {'; '.join(report.unconfined)}")
        found = {}
        for config in report.configs:
            values = config["values"]
            assert isinstance(values, list)
            found[str(config["name"])] = str(values[0])
        return found

    def nothing_stays(self) -> None:
        """Check that no process and no working folder is left."""
        assert left_over(self.folder) == []
        assert list((self.folder / "tmp").iterdir()) == []


def at_work(folder: Path) -> list[str]:
    """Return the command lines of processes of plugins that work below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"plugin_child.py") for word in words) and any(
            os.fsencode(folder) in word for word in words
        ):
            found.append(repr(words))
    return found


def left_over(folder: Path) -> list[str]:
    """Return the same of those that are still there after a while."""
    until = time.monotonic() + 10
    while found := at_work(folder):
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    return found


def start(victim: Victim) -> subprocess.Popen[bytes]:
    """Start somebody who asks a plugin that hangs, and wait until it does."""
    words = [sys.executable, asking.__file__, str(victim.python), f"{hostile('hangs').endpoint}@60"]
    environ = {**victim.environ, "TMPDIR": str(victim.folder / "tmp")}
    asker = subprocess.Popen(words, env=environ, stderr=subprocess.PIPE)
    until(lambda: len(at_work(victim.folder)) >= 2)  # the supervisor and the plugin
    return asker


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give an environment into which wheelfit installed a wheel of every hostile plugin."""
    folder = tmp_path_factory.mktemp("plugins")
    plugins = [hostile(kind) for kind in HOSTILE if kind != "starts_up"] + [fictional_hw()]
    for plugin in plugins:
        plugin.wheel(folder / "wheels")
    return environment(folder, [plugin.name for plugin in plugins])


def environment(folder: Path, names: list[str]) -> Path:
    """Make an environment, install wheels that lie beside it, and return its interpreter."""
    python = folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    options: list[str | Path] = [
        "--python",
        python,
        "--no-index",
        "--find-links",
        folder / "wheels",
    ]
    environ = {**os.environ, "WHEELFIT_CONFIG_FILE": os.devnull, "PIP_CONFIG_FILE": os.devnull}
    subprocess.run(
        [sys.executable, "-m", "wheelfit", "install", *options, *names],
        check=True,
        capture_output=True,
        cwd=folder,
        env=environ,
    )
    return python


@pytest.fixture
def victim(python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Victim]:
    """Set up a user; in the end the user has lost nothing."""
    for name in ("home", "tmp", "work"):
        (tmp_path / name).mkdir()
    secret = tmp_path / "home" / "secret"
    secret.write_text("precious")
    before = secret.stat()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PLANTED_SECRET", "precious")
    environ = {**os.environ, "HOME": str(tmp_path / "home")}
    yield Victim(tmp_path, python, environ)
    assert secret.read_text() == "precious"
    assert (secret.stat().st_mode, secret.stat().st_mtime) == (before.st_mode, before.st_mtime)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "tmp", "work"]
    assert list((tmp_path / "work").iterdir()) == []


FAILURES = {
    "hangs": "it did not answer within 0.4 s",
    "spins": "it did not answer within 0.4 s",
    "ignores_signals": "it did not answer within 0.4 s",
    "hangs_on_import": "it did not answer within 0.4 s",
    "segfaults": "it crashed: SIG(SEGV|BUS)",
    "aborts": "it crashed: SIGABRT",
    "leaves": "it ended with status 0 and without an answer",
    "exits": r"it called sys.exit\(that is enough\)",
    "recurses": "it raised RecursionError: maximum recursion depth exceeded.*",
    "recurses_in_c": "it crashed: SIG(SEGV|BUS|ABRT)|it raised RecursionError: .*",
    "raises_badly": "it raised Indescribable",
    "raises_escapes": r"it raised RuntimeError: \\x1b\[2J\\x1b\]0;owned\\x07 all is well",
    "answers_a_gigabyte": "its answer is larger than 8 MiB",
    "closes_everything": "it ended with status 1 and without an answer",
    "writes_everywhere": "its answer is invalid",
    "forges": "its answer is invalid",
    "replaces_modules": ".*answer.*",
    "looks_raise": "it raised RuntimeError: nobody looks at name",
    "answers_none": r"get_supported_configs\(\) returned None and no list",
    "answers_text": r"get_supported_configs\(\) returned a str and no list",
    "answers_mapping": r"get_supported_configs\(\) returned a dict and no list",
    "answers_generator": r"get_supported_configs\(\) returned a generator and no list",
}
LATE = {"hangs", "spins", "ignores_signals", "hangs_on_import"}


@pytest.mark.parametrize("kind", FAILURES)
def test_failures(victim: Victim, kind: str) -> None:
    """P-17, P-36, P-37: hangs, crashes and garbage are failures with a reason in a clause."""
    report = victim.ask(kind, deadline=SHORT if kind in LATE else DEADLINE)
    assert report.configs is None
    assert re.fullmatch(FAILURES[kind], report.failure or "")


@pytest.mark.parametrize("kind", ["floods_the_answer", "forks", "takes_memory"])
@linux
def test_too_much(victim: Victim, kind: str) -> None:
    """P-34, P-37: who writes, starts or takes without end is ended long before the deadline."""
    report = victim.ask(kind)
    assert report.failure in {
        "its answer is larger than 8 MiB",
        "it started more than 64 processes",
        "it used more memory than it may",
        "it used more than 1024 MiB of memory",
    }


@linux
def test_shared_memory(victim: Victim) -> None:
    """P-35: memory that no limit of a process counts is counted all the same."""
    report = ask(
        str(victim.python),
        hostile("takes_shared_memory").endpoint,
        environ=victim.environ,
        memory=100 << 20,
    )
    assert report.failure == "it used more than 100 MiB of memory"


@linux
@pytest.mark.parametrize("way", ["files", "unmapped", "tables", "sockets", "device"])
def test_hidden_memory(victim: Victim, way: str) -> None:
    """P-35: memory that belongs to no process, or to the kernel on its behalf, is counted."""
    report = ask(
        str(victim.python),
        hostile("hides_memory").endpoint,
        environ={**victim.environ, "HOSTILE_PROVIDER_FORCE_TARGET": way},
        memory=100 << 20,
    )
    enforced = "no file is written" if way == "device" else "processes started"
    if not any(enforced in words for words in report.confinement):
        pytest.skip(f"not enforced here: {'; '.join(report.unconfined)}")
    if way == "device":
        assert (
            report.failure == "it raised PermissionError: [Errno 13] Permission denied: '/dev/zero'"
        )
    else:
        assert report.failure == "it used more than 100 MiB of memory"


def test_output_costs_nothing(victim: Victim) -> None:
    """P-36: a gigabyte on standard output is cut, not kept, and does not spoil the answer."""
    report = victim.ask("prints_a_gigabyte", deadline=60)
    assert report.failure is None
    assert report.output == "x" * len(report.output)
    assert 1000 < len(report.output) < 100_000


def test_terminal(victim: Victim) -> None:
    """P-36: what a terminal would obey is escaped in everything that can be shown."""
    report = victim.ask("prints_escapes")
    assert report.output == "\\x1b[31mred\\x1b[0m\\x07\\r\\x9b2J\n"
    assert report.errors == "\\x1b]0;title\\x07\n"


@pytest.mark.parametrize("kind", ["stays", "leaves_threads", "digs", "fills_the_disk"])
def test_nothing_stays(victim: Victim, kind: str) -> None:
    """P-35, P-37: neither a daemon nor a thread nor any file is there after the answer."""
    report = victim.ask(kind)
    assert report.failure is None
    if any("MiB in all in its working folder" in words for words in report.confinement):
        assert kind != "fills_the_disk" or report.output in {"56 MiB\n", "64 MiB\n"}


@linux
def test_asker_is_killed(victim: Victim) -> None:
    """P-37: when whoever asked is killed, the plugin and its working folder go too."""
    with start(victim) as asker:
        asker.kill()
    assert left_over(victim.folder) == []
    until(lambda: not list((victim.folder / "tmp").iterdir()))
    victim.nothing_stays()


@linux
def test_interrupted(victim: Victim) -> None:
    """P-37: an interrupt ends the plugin too, and nothing stays."""
    with start(victim) as asker:
        asker.send_signal(signal.SIGINT)
        _, errors = asker.communicate(timeout=20)
    assert b"KeyboardInterrupt" in errors
    victim.nothing_stays()


def test_others_answer(victim: Victim) -> None:
    """P-17: among plugins that fail at the same time, a good one answers as ever."""
    kinds = ["segfaults", "takes_memory", "forges", "exits", "replaces_modules", "stays"]
    alone = ask(str(victim.python), fictional_hw().endpoint, environ=victim.environ)
    with ThreadPoolExecutor(8) as pool:
        bad = [
            pool.submit(ask, str(victim.python), hostile(kind).endpoint, environ=victim.environ)
            for kind in kinds
        ]
        good = pool.submit(
            ask, str(victim.python), fictional_hw().endpoint, environ=victim.environ
        ).result()
        failures = [future.result().failure for future in bad]
    assert alone.failure is good.failure is None
    assert good.configs == alone.configs
    assert [failure is None for failure in failures] == [False] * 5 + [True]


def framed(body: bytes) -> bytes:
    """Write an answer as our own code does."""
    return b"%d\n" % len(body) + body


FORGED = {
    "no length": b"{}",
    "no end of the length": b"12",
    "only a length": b"2\n",
    "too short": b"3\n{}",
    "too long": b"1\n{}",
    "a huge length": b"99999999999999999999\n{}",
    "a negative length": b"-2\n{}",
    "not JSON": framed(b"{"),
    "no UTF-8": framed(b'{"failure": "\xff"}'),
    "no object": framed(b"[]"),
    "an empty object": framed(b"{}"),
    "a failure that is not text": framed(b'{"failure": 1}'),
    "features that are no objects": framed(b'{"configs": [1], "flags": {}, "notes": []}'),
    "notes that are no texts": framed(b'{"configs": [], "flags": {}, "notes": [1]}'),
    "too deep": framed(b"[" * 30_000),
    "deep enough": framed(b'{"configs": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
    "a number without end": framed(b'{"configs": [], "flags": {"x": ' + b"9" * 5000 + b"}}"),
}


@pytest.mark.parametrize("forged", FORGED)
def test_forged_answers(victim: Victim, forged: str) -> None:
    """P-36: who writes into the private pipe spoils its own answer and nothing else."""
    report = victim.ask("forges", FORGED[forged].hex())
    assert report.failure == "its answer is invalid"
    assert report.configs is None


def test_a_forged_answer_is_no_more_than_an_answer(victim: Victim) -> None:
    """P-34, P-36: a well-formed one is checked like any other, and escaped where it is shown."""
    body = {
        "configs": [{"name": {"kind": "\x1b[2J"}}, {"name": "a", "values": ["1"], "x": {"y": []}}],
        "flags": {"all_properties_compatible": {"kind": "\x07"}},
        "notes": ["\x1b[31mold"],
    }
    report = victim.ask("forges", framed(json.dumps(body).encode()).hex())
    assert report.failure is None
    assert report.notes == ("\\x1b[31mold",)
    answer = read_report(report.configs, report.flags)
    assert answer.features == (FeatureConfig("a", ("1",)),)
    assert not answer.all_compatible
    assert all(warning.isprintable() for warning in answer.warnings)


# --- what answers become ----------------------------------------------------------------

ANSWERS = {
    "answers_numbers": ((FINE,), 1),
    "answers_without_end": ((), 0),
    "values_text": ((FINE,), 1),
    "values_none": ((FINE,), 1),
    "values_generator": ((FINE,), 1),
    "values_mixed": ((FeatureConfig("level", ("v2",)), FINE), 6),
    "values_upper": ((FeatureConfig("level", ("v2",)), FINE), 2),
    "values_unicode": ((FeatureConfig("level", ("v2",)), FINE), 4),
    "values_twice": ((FeatureConfig("level", ("v2",)), FINE), 2),
    "names_odd": ((FeatureConfig("fine", ("x",)),), 5),
    "too_many_features": ((), 0),
    "too_many_values": ((), 0),
    "says_nothing_of_several": ((FeatureConfig("level", ("v2",)),), 1),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_wrong_answers(victim: Victim, kind: str) -> None:
    """P-27, P-34: what is sound of a wrong answer is used, the rest dropped with a warning."""
    report = victim.ask(kind)
    assert report.failure is None
    answer = read_report(report.configs, report.flags)
    features, warnings = ANSWERS[kind]
    assert answer.features == features
    assert len(answer.warnings) == warnings
    assert all(warning.isascii() and warning.isprintable() for warning in answer.warnings)
    assert (answer.failure is not None) == (features == ())
    assert answer != PluginAnswer()


def test_every_kind_is_tested() -> None:
    """No hostile plugin is made for nothing."""
    source = Path(__file__).read_text()
    assert [kind for kind in HOSTILE if f'"{kind}"' not in source] == []


# --- what is enforced --------------------------------------------------------------------


def test_environment_variables(victim: Victim) -> None:
    """P-35: a secret in the environment reaches no plugin; overrides of providers do."""
    found = victim.attempts("reads", str(victim.home))
    names = set(found["own"].split(","))
    assert names <= {
        "HOME", "HOSTILE_PROVIDER_FORCE_TARGET", "LANG", "LANGUAGE", "PATH", "TMPDIR",
        "LD_LIBRARY_PATH", *(name for name in os.environ if name.startswith("LC_")), "LC_CTYPE",
    }  # fmt: skip
    assert "HOSTILE_PROVIDER_FORCE_TARGET" in names


@linux
def test_writing(victim: Victim) -> None:
    """P-35: with Landlock and seccomp a plugin changes nothing but its working folder."""
    enforced = ("no file is written", "no change of owner")
    found = victim.attempts("writes", str(victim.home), *enforced)
    done = {name for name, outcome in found.items() if outcome == "done"}
    assert done == {"own_folder", "temporary"}
    assert sorted(path.name for path in victim.home.iterdir()) == ["secret"]
    library = next(victim.python.parents[1].glob("lib/python*/site-packages"))
    assert not (library / "hostile.pth").exists()


@linux
def test_reading(victim: Victim) -> None:
    """P-35: with Landlock neither a home folder nor another process's environment is read."""
    found = victim.attempts("reads", str(victim.home), "files and its own environment are read")
    assert found["others"] == "0"
    done = {name for name, outcome in found.items() if outcome == "done"}
    assert done == {"system", "program"}


@linux
def test_network(victim: Victim) -> None:
    """P-35: with seccomp no socket is made, by no family and by no program it starts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        found = victim.attempts("connects", port, "no network and no sockets")
        server.settimeout(0.05)
        with pytest.raises(TimeoutError):
            server.accept()
    assert {name for name, outcome in found.items() if outcome == "done"} == {"pair_of_streams"}


@linux
def test_attacks(victim: Victim) -> None:
    """P-35: with seccomp and Landlock a plugin reaches neither whoever asked nor the kernel."""
    enforced = ("no tracing of other processes", "no file is written")
    found = victim.attempts("attacks", str(os.getpid()), *enforced)
    assert {name for name, outcome in found.items() if outcome == "done"} == {"child"}


@linux
def test_start_up_files(victim: Victim, tmp_path_factory: pytest.TempPathFactory) -> None:
    """P-35: start-up files of the plugin's environment run, and run confined."""
    plugin = hostile("starts_up")
    folder = tmp_path_factory.mktemp("start")
    plugin.wheel(folder / "wheels")
    victim.python = environment(folder, [plugin.name])
    found = victim.attempts("starts_up", str(victim.home), "no file is written")
    assert found == {"at_start": "PermissionError"}


LACKS = [
    "landlock",
    "namespaces",
    "seccomp",
    "listener",
    "landlock,namespaces",
    "namespaces,seccomp",
    "landlock,namespaces,seccomp",
]
SAID = {
    "landlock": "it may read and write what you may (no Landlock): Function not implemented",
    "namespaces": "it may see your other processes (no namespaces): Operation not permitted",
    "seccomp": "it may make all system calls (no seccomp): Function not implemented",
    "landlock,namespaces": "it may look into your other processes and change them, wheelfit "
    "included (neither namespaces nor Landlock)",
    "listener": "it is seen only now and then if it starts over 64, and memory that it shares and "
    "maps nowhere is not counted",
}


@linux
@pytest.mark.parametrize("lacking", LACKS)
def test_older_kernels(victim: Victim, lacking: str) -> None:
    """P-35, P-37: what a kernel lacks is said, and everything else holds without it."""
    kinds = ["ignores_signals", "stays", "attacks"]
    if lacking in {"landlock", "namespaces", "landlock,namespaces"}:
        kinds.append("forks")  # without the question before each start, only a look now and then
    endpoints = [fictional_hw().endpoint, *(hostile(kind).endpoint for kind in kinds)]
    endpoints[1] += "@0.4"
    words = [sys.executable, asking.__file__, victim.python, *endpoints]
    completed = subprocess.run(
        [sys.executable, without.__file__, lacking, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**victim.environ, "TMPDIR": str(victim.folder / "tmp")},
    )
    if completed.stderr == "this kernel has no filters\n":
        pytest.skip(completed.stderr)
    assert completed.returncode == 0, completed.stderr
    good, late, stays, attacks, *forks = map(json.loads, completed.stdout.splitlines())
    assert [one["failure"] for one in (good, stays, attacks)] == [None] * 3
    assert late["failure"] == "it did not answer within 0.4 s"
    assert [fork["failure"] for fork in forks] in ([], ["it started more than 64 processes"])
    for what in lacking.split(","):
        assert SAID[what] in good["unconfined"]
    both = "landlock,namespaces"
    assert (SAID[both] in good["unconfined"]) is lacking.startswith(both)
    outcomes = {config["name"]: config["values"][0] for config in attacks["configs"]}
    if lacking != "landlock,namespaces,seccomp":
        assert outcomes["signal"] != "done"
    if "seccomp" not in lacking:
        done_all_the_same = {name for name, outcome in outcomes.items() if outcome == "done"}
        assert not {name for name in done_all_the_same if name.startswith(("signal_", "any_"))}
    victim.nothing_stays()
