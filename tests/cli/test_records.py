"""``wheelfit probe --record`` and ``--replay``."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from cli.running import Runner, tree

MACHINES = Path(__file__).parents[1] / "machines"
NVIDIA = MACHINES / "linux-x86-nouveau"


def test_record_and_replay(tmp_path: Path, run: Runner) -> None:
    """P-75: A replayed record gives the same result, and the output names the folder."""
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


def test_record_and_host_file(tmp_path: Path, run: Runner) -> None:
    """P-75: A host file on standard output can be combined with a record."""
    folder = tmp_path / "record"
    result = run("probe", "x86_64", "-o", "-", "--record", folder, "--no-cache-dir")
    assert result.out.startswith("[metadata]")
    assert f"recorded this machine in {folder}" in result.err
    assert (folder / "expected.json").is_file()


def test_no_record(run: Runner) -> None:
    """P-75: without a record the key is null."""
    assert run("probe", "--json", "x86_64").object["record"] is None


def test_replay_of_a_captured_machine(run: Runner) -> None:
    """P-75: A replay shows only the recorded machine."""
    result = run("probe", "--replay", NVIDIA, "nvidia")
    assert result.out.startswith(f"{NVIDIA}: A GPU of NVIDIA's without NVIDIA's driver\n")
    assert "an NVIDIA GPU is there" in result.err


@pytest.mark.parametrize(("options", "values"), [((), None), (("--tpu-generation",), ["v5e"])])
def test_options_of_a_replay(
    options: tuple[str, ...], values: list[str] | None, run: Runner
) -> None:
    """P-75, P-153: options apply to a replay, and are not a difference."""
    folder = MACHINES / "linux-x86-tpu-v5e"
    report = run("probe", "--json", "--replay", folder, "tpu", *options).object
    features = {
        feature["name"]: feature["values"] for feature in report["namespaces"]["tpu"]["features"]
    }
    assert features.get("generation") == values
    assert report["record"]["differing"] == []


def test_changed_detection(tmp_path: Path, run: Runner) -> None:
    """P-75: A result that differs from the recorded one causes a note."""
    folder = tmp_path / "record"
    run("probe", "--record", folder, "--no-cache-dir")
    told = json.loads((folder / "expected.json").read_text())
    told["nvidia"]["status"] = "supported"
    (folder / "expected.json").write_text(json.dumps(told))
    result = run("probe", "--replay", folder, "nvidia")
    assert "nvidia: detection has another result than when it was recorded" in result.err
    assert run("probe", "--json", "--replay", folder).object["record"]["differing"] == ["nvidia"]


def test_other_files_are_not_overwritten(tmp_path: Path, run: Runner) -> None:
    """P-75: A folder with other files, and a file, are not overwritten."""
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
def test_invalid_records(damage: str | None, tmp_path: Path, run: Runner) -> None:
    """P-75: an empty folder, and one with invalid contents, are errors."""
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
def test_conflicting_options(words: list[str], run: Runner) -> None:
    """P-75: --record and --replay conflict with each other and with other hosts."""
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
def test_damaged_records(
    name: str, text: str | bytes, words: str, tmp_path: Path, run: Runner
) -> None:
    """P-74, P-75: A damaged record is an error that names the part."""
    folder = tmp_path / "record"
    shutil.copytree(NVIDIA, folder)
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    result = run("probe", "--replay", folder, code=1)
    assert f"not a record of a machine: {words}" in result.err.replace("\n", " ")
    assert "Error:" not in result.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_in_a_record(tmp_path: Path, run: Runner) -> None:
    """P-74: A pipe in a record counts as unreadable."""
    folder = tmp_path / "record"
    shutil.copytree(NVIDIA, folder)
    (folder / "root/proc/cpuinfo").unlink()
    os.mkfifo(folder / "root/proc/cpuinfo")
    assert "only x86-64 v1 is assumed" in run("probe", "--replay", folder, "x86_64").err


def test_link_to_a_folder(tmp_path: Path, run: Runner) -> None:
    """P-75: A record is written to the target of a link, which may not exist yet."""
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        link = tmp_path / f"to {name}"
        link.symlink_to(tmp_path / name)
        run("probe", "--record", link, "--no-cache-dir")
        assert link.is_symlink()
        assert (tmp_path / name / "machine.toml").is_file()
    assert len(list(tmp_path.iterdir())) == 4


def test_current_folder(tmp_path: Path, run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-75: the current folder is not replaced."""
    monkeypatch.chdir(tmp_path)
    result = run("probe", "--record", ".", "--json", code=1)
    assert result.error["hint"] == "name a new folder, where there is room"
    assert list(tmp_path.iterdir()) == []
