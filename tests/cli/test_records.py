"""``wheelfit probe --record`` and ``--replay``: machines that can be sent."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from cli.running import Runner, tree

MACHINES = Path(__file__).parents[1] / "machines"
NVIDIA = MACHINES / "linux-x86-nouveau"


def test_a_record_says_elsewhere_what_was_said_here(tmp_path: Path, run: Runner) -> None:
    """P-75: what is written replays to the same answer, and it is said where it is."""
    folder = tmp_path / "record"
    result = run("probe", "--record", folder, "--no-cache-dir")
    assert f"recorded this machine in {folder}" in result.err
    here = run("probe", "--json", "--record", folder, "--no-cache-dir").object
    assert here["record"] == {"folder": str(folder), "differing": []}
    there = run("probe", "--json", "--replay", folder).object
    assert there["machine"] == str(folder)
    assert there["record"] == {"folder": str(folder), "differing": []}
    features = {name: told["features"] for name, told in here["namespaces"].items()}
    assert {name: told["features"] for name, told in there["namespaces"].items()} == features
    assert (folder / "expected.json").is_file()


def test_a_record_beside_a_host_file(tmp_path: Path, run: Runner) -> None:
    """P-75: a host file on standard output does not keep a record from being written."""
    folder = tmp_path / "record"
    result = run("probe", "x86_64", "-o", "-", "--record", folder, "--no-cache-dir")
    assert result.out.startswith("[metadata]")
    assert f"recorded this machine in {folder}" in result.err
    assert (folder / "expected.json").is_file()


def test_without_either_there_is_no_record(run: Runner) -> None:
    """P-75: the key is there, and empty."""
    assert run("probe", "--json", "x86_64").object["record"] is None


def test_a_captured_machine_can_be_looked_at(run: Runner) -> None:
    """P-75: the maintainer sees what the user's machine said, and nothing of his own."""
    result = run("probe", "--replay", NVIDIA, "nvidia")
    assert result.out.startswith(f"{NVIDIA}: A GPU of NVIDIA's without NVIDIA's driver\n")
    assert "an NVIDIA GPU is there" in result.err


@pytest.mark.parametrize(("options", "values"), [((), None), (("--tpu-generation",), ["v5e"])])
def test_options_count_for_a_recorded_machine(
    options: tuple[str, ...], values: list[str] | None, run: Runner
) -> None:
    """P-75, P-153: it is asked as this machine would be, and that is no difference."""
    folder = MACHINES / "linux-x86-tpu-v5e"
    report = run("probe", "--json", "--replay", folder, "tpu", *options).object
    features = {
        feature["name"]: feature["values"] for feature in report["namespaces"]["tpu"]["features"]
    }
    assert features.get("generation") == values
    assert report["record"]["differing"] == []


def test_where_detection_has_changed_since_it_is_said(tmp_path: Path, run: Runner) -> None:
    """P-75: a record holds what detection said; another answer today is worth a word."""
    folder = tmp_path / "record"
    run("probe", "--record", folder, "--no-cache-dir")
    told = json.loads((folder / "expected.json").read_text())
    told["nvidia"]["status"] = "supported"
    (folder / "expected.json").write_text(json.dumps(told))
    result = run("probe", "--replay", folder, "nvidia")
    assert "nvidia: detection has another result than when it was recorded" in result.err
    assert run("probe", "--json", "--replay", folder).object["record"]["differing"] == ["nvidia"]


def test_what_is_not_a_record_is_not_overwritten(tmp_path: Path, run: Runner) -> None:
    """P-75: neither a folder with something else in it, nor a file."""
    (tmp_path / "thesis.txt").write_text("ten years")
    before = tree(tmp_path)
    result = run("probe", "--record", tmp_path, "--json", code=1)
    assert "files that are not a record" in result.error["message"]
    run("probe", "--record", tmp_path / "thesis.txt", code=1)
    run("probe", "--record", tmp_path / "thesis.txt" / "below", code=1)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "damage", ["", "description = 1", "description = ''\nsystem = 'Linux'", "no toml", None]
)
def test_what_is_no_record_cannot_be_replayed(
    damage: str | None, tmp_path: Path, run: Runner
) -> None:
    """P-75: an empty folder, and one with odd contents, is told from a record."""
    if damage is not None:
        (tmp_path / "machine.toml").write_text(damage)
    result = run("probe", "--replay", tmp_path, "--json", code=1)
    assert result.error["message"].startswith("not a record of a machine")


@pytest.mark.parametrize(
    "words",
    [
        ["--record", "a", "--replay", "b"],
        ["--record", "a", "--for", "host.toml"],
        ["--replay", "a", "--for", "host.toml"],
        ["--replay", "a", "-o", "host.toml"],
    ],
)
def test_one_machine_at_a_time(words: list[str], run: Runner) -> None:
    """P-75: a record is of this machine, a replay of another."""
    run("probe", *words, code=2)


LINUX = 'description = "a"\nsystem = "Linux"\narchitecture = "x86_64"\n'


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("machine.toml", "x", "machine.toml cannot be read: Expected '=' after a key"),
        ("machine.toml", b"\xff\xfe", "machine.toml is not UTF-8 text"),
        ("machine.toml", 'description = "a"', "system in machine.toml is not a string"),
        ("machine.toml", LINUX.replace('"x86_64"', "[1]"), "architecture in machine.toml is not"),
        (
            "machine.toml",
            f"{LINUX}[cpuid]\nfoo = '1'",
            "cpuid in machine.toml is not what",
        ),
        (
            "machine.toml",
            f"{LINUX}[cpuid]\nxcr0 = 'x'",
            "cpuid in machine.toml is not what",
        ),
        (
            "machine.toml",
            f"{LINUX}[sysctl]\nx = -1",
            "sysctl in machine.toml is not what",
        ),
        (
            "machine.toml",
            f"{LINUX}sysctl = 3",
            "sysctl in machine.toml is not what",
        ),
        ("machine.toml", f"{LINUX}processor-features = ['a']", "processor-features in machine.t"),
        ("answers.json", "[]", "answers.json is not what a recording writes"),
        ("answers.json", "[" * 100_000, "answers.json is not what a recording writes"),
        ("answers.json", '{"nvidia libraries": 3}', "answers.json is not what a recording writes"),
        (
            "answers.json",
            '{"a": {"ending": "boom"}}',
            "answers.json is not what a recording writes",
        ),
        (
            "environ.json",
            '{"WHEELFIT_OVERRIDE_X86_64_LEVEL": 3}',
            "environ.json is not what",
        ),
        ("expected.json", "[]", "expected.json is not what a recording writes"),
        ("expected.json", "", "expected.json cannot be read: Expecting value"),
    ],
)
def test_a_damaged_record_is_told_from_a_whole_one(
    name: str, text: str | bytes, words: str, tmp_path: Path, run: Runner
) -> None:
    """P-74, P-75: records come from anybody; each part may hold anything, and is named."""
    folder = tmp_path / "record"
    shutil.copytree(NVIDIA, folder)
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    result = run("probe", "--replay", folder, code=1)
    assert f"not a record of a machine: {words}" in result.err.replace("\n", " ")
    assert "Error:" not in result.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_a_record_is_not_waited_for(tmp_path: Path, run: Runner) -> None:
    """P-74: a file that never ends to be opened is one that says nothing."""
    folder = tmp_path / "record"
    shutil.copytree(NVIDIA, folder)
    (folder / "root/proc/cpuinfo").unlink()
    os.mkfifo(folder / "root/proc/cpuinfo")
    assert "only x86-64 v1 is assumed" in run("probe", "--replay", folder, "x86_64").err


def test_a_link_to_a_folder_stays(tmp_path: Path, run: Runner) -> None:
    """P-75: the record goes where the link leads, be the folder there already or not."""
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        link = tmp_path / f"to {name}"
        link.symlink_to(tmp_path / name)
        run("probe", "--record", link, "--no-cache-dir")
        assert link.is_symlink()
        assert (tmp_path / name / "machine.toml").is_file()
    assert len(list(tmp_path.iterdir())) == 4


def test_a_folder_that_cannot_be_exchanged_is_left(
    tmp_path: Path, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-75: nobody's current folder is taken away from under him."""
    monkeypatch.chdir(tmp_path)
    result = run("probe", "--record", ".", "--json", code=1)
    assert result.error["hint"] == "name a new folder, where there is room"
    assert list(tmp_path.iterdir()) == []
