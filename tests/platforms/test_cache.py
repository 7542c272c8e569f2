"""P-22: what child processes answered is remembered until anything changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from platforms.detecting import FakeProcesses

from wheelfit.testing.drivers import compile_fake_driver, find_compiler
from wheelfit_runtime.platforms.cache import CachedProcesses, cache_key_parts
from wheelfit_runtime.platforms.child_processes import Answer, Ending, Question
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.system_view import SystemView

_ANSWER = Answer(Ending.EXITED, 0, b'{"a": 1}\xff', b"noise\n")


@dataclass(frozen=True)
class _Elsewhere(SystemView):
    """Look like this machine, with some files and folders that say something else."""

    texts: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def read_text(self, name: str) -> str | None:
        return self.texts[name] if name in self.texts else SystemView.read_text(self, name)

    def children(self, folder: str) -> tuple[str, ...]:
        if folder in self.folders:
            return self.folders[folder]
        return SystemView.children(self, folder)


_BOOT = "/proc/sys/kernel/random/boot_id"
_HERE = _Elsewhere(environ={}, texts={_BOOT: "one", "/etc/machine-id": "m"})


def _question(*arguments: str, **environ: str) -> Question:
    return Question("nvidia-smi -q", ("/bin/true", *arguments), environ, 1.0)


def _asked(
    folder: Path,
    seen: SystemView = _HERE,
    question: Question | None = None,
    processes: FakeProcesses | None = None,
) -> int:
    """Ask once, as a new process would; return how often a child was asked."""
    asking = processes or FakeProcesses(_ANSWER)
    CachedProcesses(asking, lambda: str(folder), seen).ask(question or _question())
    return len(asking.asked)


# --- remembering ----------------------------------------------------------------------------


def test_the_second_process_gets_the_first_ones_answer(tmp_path: Path) -> None:
    """P-22: the answer is the same to the byte, and no child is asked."""
    asking = FakeProcesses(_ANSWER)
    first = CachedProcesses(asking, lambda: str(tmp_path), _HERE)
    second = CachedProcesses(asking, lambda: str(tmp_path), _HERE)
    assert first.ask(_question()) == second.ask(_question()) == _ANSWER
    assert asking.asked == ["nvidia-smi -q"]
    assert (first.cached_names, second.cached_names) == ([], ["nvidia-smi -q"])


@pytest.mark.parametrize(
    "answer",
    [
        Answer(Ending.EXITED, 3, b"{}"),
        Answer(Ending.EXITED, 0, b"{}", is_uncertain=True),
        Answer(Ending.KILLED, 11),
        Answer(Ending.LATE),
        Answer(Ending.FLOODED),
        Answer(Ending.NOT_STARTED, errors=b"no such file"),
    ],
    ids=lambda answer: str(answer.ending),
)
def test_only_good_answers_are_remembered(answer: Answer, tmp_path: Path) -> None:
    """P-22: a crash, a hang or a complaint may pass, so it is asked again."""
    asking = FakeProcesses(answer)
    assert _asked(tmp_path, processes=asking) == 1
    assert _asked(tmp_path, processes=asking) == 2
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_who_does_not_recall_still_remembers_for_others(tmp_path: Path) -> None:
    """P-22: `probe` looks anew, and what it found serves the next installation."""
    asking = FakeProcesses(_ANSWER)
    for _ in range(2):
        CachedProcesses(asking, lambda: str(tmp_path), _HERE, use_cache=False).ask(_question())
    assert len(asking.asked) == 2
    assert _asked(tmp_path) == 0


@pytest.mark.parametrize(
    "seen",
    [
        _Elsewhere(environ={}, texts={_BOOT: ""}),
        _Elsewhere(root="/captured", environ={}, texts={_BOOT: "one"}),
    ],
    ids=["no boot id", "captured machine"],
)
def test_where_nothing_tells_of_a_restart_nothing_is_remembered(
    seen: SystemView, tmp_path: Path
) -> None:
    """P-22: without a boot id, and for a machine that is not this one, all is asked."""
    assert (_asked(tmp_path, seen), _asked(tmp_path, seen)) == (1, 1)
    assert not list(tmp_path.iterdir())


def test_nowhere_is_a_place_too() -> None:
    """P-22: without a folder nothing is kept, and everything asked."""
    asking = FakeProcesses(_ANSWER)
    for _ in range(2):
        CachedProcesses(asking, lambda: None, _HERE).ask(_question())
    assert len(asking.asked) == 2


def test_nothing_is_remembered_of_processors(tmp_path: Path) -> None:
    """P-22: two machines that share a folder never get each other's level or flags."""
    processes = CachedProcesses(FakeProcesses(_ANSWER), lambda: str(tmp_path), _HERE)
    machine = Machine(SystemView(processes=processes))
    for namespace in ("x86_64", "aarch64"):
        assert machine.detect(namespace) is not None
    assert not list(tmp_path.iterdir())


# --- what an answer depends on ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "folders"),
    [
        ({_BOOT: "two"}, {}),
        ({"/etc/machine-id": "another"}, {}),
        ({"/proc/sys/kernel/osrelease": "6.99"}, {}),
        ({"/proc/self/cgroup": "0::/slurm/job_2"}, {}),
        ({"/proc/driver/nvidia/version": "580"}, {}),
        ({"/sys/module/nvidia/version": "580.1"}, {}),
        ({"/sys/module/amdgpu/version": "6.8"}, {}),
        ({"/sys/module/xe/srcversion": "ABC"}, {}),
        ({"/usr/local/Ascend/driver/version.info": "Version=24"}, {}),
        ({}, {"/proc/driver/nvidia/gpus": ("0000:01:00.0",)}),
        ({}, {"/sys/class/kfd/kfd/topology/nodes": ("0", "1")}),
        ({}, {"/dev": ("nvidia0",)}),
        ({}, {"/dev": ("dri",), "/dev/dri": ("renderD128",)}),
        ({}, {"/dev": ("davinci0",)}),
        ({}, {"/dev": ("accel",), "/dev/accel": ("accel0",)}),
        ({}, {"/dev": ("vfio",), "/dev/vfio": ("0",)}),
    ],
    ids=lambda part: " ".join(part) or "-",
)
def test_a_changed_machine_is_asked_again(
    texts: dict[str, str], folders: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    """P-22: boot, kernel, driver, devices and container are part of the question."""
    here = replace(_HERE, folders={"/dev": ()})
    assert _asked(tmp_path, here) == 1
    changed = replace(here, texts={**here.texts, **texts}, folders={**here.folders, **folders})
    assert _asked(tmp_path, changed) == 1
    assert _asked(tmp_path, changed) == 0


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES"),
        *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ROCM_PATH", "ZE_AFFINITY_MASK"),
        *("ONEAPI_DEVICE_SELECTOR", "ASCEND_TOOLKIT_HOME", "WHEELFIT_FAKE_DEVICES"),
    ],
)
def test_a_variable_that_steers_drivers_is_part_of_the_question(name: str, tmp_path: Path) -> None:
    """P-22: another value, another question; the old one keeps its answer."""
    assert _asked(tmp_path) == 1
    assert _asked(tmp_path, question=_question(**{name: "value"})) == 1
    assert _asked(tmp_path, question=_question(**{name: "other"})) == 1
    assert _asked(tmp_path) == 0


def test_other_variables_do_not_matter(tmp_path: Path) -> None:
    """P-22: what no driver looks at does not make anybody ask again."""
    assert _asked(tmp_path, question=_question(TERM="xterm", PWD="/a")) == 1
    assert _asked(tmp_path, question=_question(TERM="dumb", PWD="/b")) == 0


def test_interpreter_architecture_and_knowledge_are_part_of_the_question(tmp_path: Path) -> None:
    """P-22: another interpreter, architecture, program, argument or data version asks anew."""
    assert _asked(tmp_path) == 1
    for seen in (replace(_HERE, interpreter="/other"), replace(_HERE, architecture="aarch64")):
        assert _asked(tmp_path, seen) == 1
    for question in (
        _question("-x"),
        _question()._replace(name="other"),
        _question()._replace(version="2027-01"),
        _question()._replace(arguments=("/bin/false",)),
    ):
        assert _asked(tmp_path, question=question) == 1
    assert _asked(tmp_path) == 0


def test_a_replaced_library_is_asked_again(tmp_path: Path) -> None:
    """P-22: a link that leads elsewhere, and a file that was written anew, are noticed."""
    old, new, link = tmp_path / "lib.so.550", tmp_path / "lib.so.580", tmp_path / "libcuda.so.1"
    old.write_text("old")
    new.write_text("new")
    link.symlink_to(old)
    kept = tmp_path / "kept"
    question = _question(f"cuda={link}")
    assert (_asked(kept, question=question), _asked(kept, question=question)) == (1, 0)
    link.unlink()
    link.symlink_to(new)
    assert (_asked(kept, question=question), _asked(kept, question=question)) == (1, 0)
    os.utime(new, ns=(1, 1))
    assert (_asked(kept, question=question), _asked(kept, question=question)) == (1, 0)


def test_a_library_the_loader_finds_is_noticed(tmp_path: Path) -> None:
    """P-22: a library asked for by name is looked for where the loader would find it."""
    kept, question = (
        tmp_path / "kept",
        _question("cuda=libcuda.so.1", LD_LIBRARY_PATH=str(tmp_path)),
    )
    assert (_asked(kept, question=question), _asked(kept, question=question)) == (1, 0)
    (tmp_path / "libcuda.so.1").write_text("there now")
    assert _asked(kept, question=question) == 1


def test_a_device_that_may_not_be_opened_is_another_machine(tmp_path: Path) -> None:
    """P-22: permission to open a device is part of the question."""
    lines = [line for line in cache_key_parts(_question(), _HERE) if line.startswith("user ")]
    assert str(os.getuid()) in lines[0]
    null = replace(_HERE, folders={"/dev": ("nvidia-none",)})
    assert "device /dev/nvidia-none is out of reach" in list(cache_key_parts(_question(), null))
    assert (_asked(tmp_path), _asked(tmp_path, null)) == (1, 1)


def test_two_machines_share_a_folder_and_no_answer(tmp_path: Path) -> None:
    """P-22: neither gets the other's answers, and neither removes them."""
    other = replace(_HERE, texts={_BOOT: "three", "/etc/machine-id": "o"})
    assert (_asked(tmp_path), _asked(tmp_path, other)) == (1, 1)
    assert (_asked(tmp_path), _asked(tmp_path, other)) == (0, 0)


@pytest.mark.skipif(not Path(_BOOT).is_file(), reason="needs Linux' boot id")
def test_this_machine_tells_when_it_was_started() -> None:
    """P-22: the boot id of a real kernel is read, and so part of every question."""
    boot = Path(_BOOT).read_text().strip()
    assert f"boot {boot}" in list(cache_key_parts(_question(), SystemView(environ={})))


# --- entries --------------------------------------------------------------------------------------


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """Return the file of an answer that was remembered."""
    assert _asked(tmp_path) == 1
    (path,) = _entries(tmp_path)
    return path


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\0" * 100,
        b"[]",
        b"null",
        b'{"format": 1}',
        b'{"format": 1, "key": "x", "answer": 7}',
        b"[" * 100_000,
    ],
    ids=["empty", "zeros", "list", "null", "short", "answer", "deep"],
)
def test_a_damaged_entry_is_none(damage: bytes, entry: Path, tmp_path: Path) -> None:
    """P-22: it is asked again, and the entry replaced."""
    entry.write_bytes(damage)
    assert (_asked(tmp_path), _asked(tmp_path)) == (1, 0)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_no_entry(entry: Path, tmp_path: Path) -> None:
    """P-22: what somebody puts in the place of an entry is not waited for."""
    entry.unlink()
    os.mkfifo(entry)
    assert (_asked(tmp_path), _asked(tmp_path)) == (1, 0)


@pytest.mark.parametrize(
    "changes",
    [{"key": "0" * 40}, {"answer": {"ending": "killed", "code": 11}}],
    ids=["another question", "a planted crash"],
)
def test_a_changed_entry_is_none(changes: dict[str, object], entry: Path, tmp_path: Path) -> None:
    """P-22: what is inside counts, not only the name of the file, and only success."""
    told = json.loads(entry.read_text())
    entry.write_text(json.dumps(told | changes))
    assert _asked(tmp_path) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_an_entry_of_someone_else_is_none(entry: Path, tmp_path: Path) -> None:
    """P-22: who may write into a shared folder decides nothing for others."""
    os.chown(entry, 12345, 12345)
    assert _asked(tmp_path) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_root_leaves_nothing_in_the_folder_of_someone_else(tmp_path: Path) -> None:
    """P-22: with sudo and a user's home, no file of root's is left there."""
    os.chown(tmp_path, 12345, 12345)
    assert (_asked(tmp_path / "kept"), _asked(tmp_path / "kept")) == (1, 1)
    assert not list(tmp_path.iterdir())


def test_entries_are_private(entry: Path) -> None:
    """P-22: an answer may name devices by their identifiers."""
    assert entry.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    """P-22: then all is asked, always."""
    file = tmp_path / "file"
    file.write_text("in the way")
    assert (_asked(file / "below"), _asked(file / "below")) == (1, 1)


def test_entries_are_few(tmp_path: Path) -> None:
    """P-22: a thousand environments do not fill the disk."""
    for number in range(300):
        assert _asked(tmp_path, question=_question(CUDA_HOME=str(number))) == 1
    assert len(_entries(tmp_path)) == 256
    assert _asked(tmp_path, question=_question(CUDA_HOME="299")) == 0


# --- with real processes -----------------------------------------------------------------

_PROGRAM = """
import os, sys
from dataclasses import replace
from wheelfit_runtime.platforms.cache import CachedProcesses
from wheelfit_runtime.platforms.child_processes import RealProcesses
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.system_view import SystemView

class Booted(SystemView):  # also where the kernel does not tell of its boot
    def read_text(self, name):
        return "one" if name.endswith("boot_id") else super().read_text(name)

seen = Booted(library_folders=(sys.argv[1],), deadline=60)
processes = CachedProcesses(RealProcesses(), lambda: sys.argv[2], seen)
found = Machine(replace(seen, processes=processes)).detect("nvidia")
print(found.features[0].values[0], found.features[2].values[0], found.status)
"""


@pytest.mark.integration
@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_twenty_processes_at_once_get_one_answer_and_the_next_makes_no_child(
    tmp_path: Path,
) -> None:
    """P-22: whoever comes first; afterwards the driver's own trace shows no further visit."""
    driver = compile_fake_driver(tmp_path / "driver")
    trace = tmp_path / "trace"
    environ = {
        **os.environ,
        **driver.environ(devices=["9.0 NVIDIA H100"], cuda="12.8", trace=trace),
    }
    command = [sys.executable, "-c", _PROGRAM, str(driver.folder), str(tmp_path / "kept")]
    many = [
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(20)
    ]
    answers = {one.communicate()[0] for one in many}
    assert answers == {"12.8 90_real supported\n"}
    visits = trace.read_text().count("nvmlInit")
    assert 1 <= visits <= 20
    again = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert again.stdout == "12.8 90_real supported\n"
    assert trace.read_text().count("nvmlInit") == visits
    # Another driver behind the same name is asked.
    changed = environ | driver.environ(devices=["7.5 Tesla T4"], cuda="12.4", trace=trace)
    other = subprocess.run(command, env=changed, capture_output=True, text=True, check=True)
    assert other.stdout == "12.4 75_real supported\n"
    assert trace.read_text().count("nvmlInit") == visits + 1
