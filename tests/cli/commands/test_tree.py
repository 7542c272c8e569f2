"""Text output of ``wheelfit tree``; the JSON is tested with the contract."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import tomli_w
from cli.running import Runner
from locking.entries import lock_table, locked, plain_entry, world
from locking.entries import wheel_name as wheel

from wheelfit.locking.document import write_lock
from wheelfit.locking.locking import new_lock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a lock with labels, markers, an extra and a group."""
    repository = world()
    repository.add_wheel(wheel("plot", "3", tags="py3-none-any"), requires=["numbers"])
    pins = [("fastfft", "2.1"), ("gpu-lib", "1"), ("cpu-lib", "1"), ("numbers", "1"), ("plot", "3")]
    tables = {name: locked(repository, name, version).table for name, version in pins}
    tables["gpu-lib"]["marker"] = "sys_platform == 'linux'"
    lock = new_lock(
        tables.values(),
        roots=["fastfft", "plot; 'plots' in extras", "cpu-lib; 'dev' in dependency_groups"],
        extras=["plots"],
        dependency_groups=["dev"],
    )
    place = tmp_path / "pylock.toml"
    # Presets take their Python from this interpreter.
    place.write_bytes(write_lock(lock).replace(b"cp311", interpreter_name().encode()))
    return place


def interpreter_name() -> str:
    """Return the Python tag of this interpreter."""
    return f"cp{sys.version_info.major}{sys.version_info.minor}"


def lock_bytes(*packages: object, **more: object) -> bytes:
    """Return the bytes of a lock."""
    return tomli_w.dumps(lock_table(*packages, **more)).encode()


def test_conditions(path: Path, run: Runner) -> None:
    """Labels, markers, extras and groups are conditions; shared subtrees are shown once."""
    assert run("tree", path).out.splitlines() == [
        "pylock.toml: for all machines",
        "fastfft 2.1 (cu12.6, cu12.8, null, v3, v4 or plain wheel)",
        "├─ numbers 1",
        "├─ with v4: needs x86-64-v4",
        "│  └─ cpu-lib 1",
        "└─ with cu12.6 or cu12.8",
        '   └─ gpu-lib 1  when sys_platform == "linux"',
        "with the group dev",
        "└─ cpu-lib 1",
        "with the extra plots",
        "└─ plot 3",
        "   └─ numbers 1",
    ]


def test_environments_of_the_lock(run: Runner, tmp_path: Path) -> None:
    """Requires-Python and environments of the lock are shown first."""
    place = tmp_path / "pylock.toml"
    markers = ["sys_platform == 'linux'", "sys_platform == 'darwin'"]
    more = {"requires-python": ">=3.11", "environments": markers}
    place.write_bytes(lock_bytes(plain_entry("a"), **more))
    assert run("tree", place).out.splitlines() == [
        "pylock.toml: for all machines",
        "for Python >=3.11",
        'for sys_platform == "linux"',
        'for sys_platform == "darwin"',
        "a 1",
    ]


def test_several_requirements_of_a_package(run: Runner, tmp_path: Path) -> None:
    """Several requirements of one package share a line."""
    place = tmp_path / "pylock.toml"
    roots = ["a>=1", "a<9", "a!=3; sys_platform == 'win32'", "b; sys_platform == 'win32'"]
    roots.append("b>=1; sys_platform == 'win32'")
    own: dict[str, object] = {"wheelfit": {"variant-dependencies": {"": []}}}
    packages = [plain_entry("a", tool=own), plain_entry("b", tool=own)]
    place.write_bytes(write_lock(new_lock(packages, roots=roots)))
    assert run("tree", place).out.splitlines()[1:] == [
        "a 1",
        'when sys_platform == "win32"',
        "└─ b 1",
    ]
    result = run("tree", place, "--for", "linux-x86_64", "--invert", "a")
    assert result.out.splitlines()[1:] == ["a 1", "├─ asked for: a<9", "└─ asked for: a>=1"]
    result = run("tree", place, "--for", "linux-x86_64")
    assert result.out.splitlines()[1:] == ["a 1", "not installed: b (no chosen wheel needs it)"]


def test_depth(path: Path, run: Runner) -> None:
    """--depth limits the levels, not counting headings."""
    lines = run("tree", path, "--depth", "0").out.splitlines()
    assert lines[1:] == [
        "fastfft 2.1 (cu12.6, cu12.8, null, v3, v4 or plain wheel)",
        "with the group dev",
        "└─ cpu-lib 1",
        "with the extra plots",
        "└─ plot 3",
    ]
    run("tree", path, "--depth", "-1", code=2)


def test_one_machine(path: Path, run: Runner) -> None:
    """The packages of a machine, the reasons, and the packages left out are shown."""
    assert run("tree", path, "--for", "cuda-12.8-sm90", "--extra", "plots").out.splitlines() == [
        "pylock.toml: for cuda-12.8-sm90",
        "fastfft 2.1 (cu12.8)  best fit: nvidia :: cuda_version_lower_bound :: 12.8",
        "├─ gpu-lib 1",
        "└─ numbers 1",
        "plot 3",
        "└─ numbers 1",
        "not installed: cpu-lib (no chosen wheel needs it)",
    ]


def test_here(path: Path, run: Runner) -> None:
    """--here selects this machine, which is not detected otherwise."""
    report = run("tree", path, "--here", "--no-variants", "--json").object
    assert report["target"] == "this machine"
    assert [package["chosen"]["label"] for package in report["packages"]] == [None, None]
    run("tree", path, "--here", "--for", "linux-x86_64", code=2)
    assert "need one machine" in run("tree", path, "--extra", "plots", code=2).err


def test_invert(path: Path, run: Runner) -> None:
    """The dependents of a package are shown with labels, up to the requirements."""
    assert run("tree", path, "--invert", "GPU_lib").out.splitlines()[1:] == [
        'gpu-lib 1  when sys_platform == "linux"',
        "└─ fastfft 2.1 (cu12.6, cu12.8, null, v3, v4 or plain wheel)  with cu12.6 or cu12.8",
        "   └─ asked for: fastfft",
    ]
    report = run("tree", path, "--invert", "gpu-lib", "--depth", "0", "--json").object
    assert [package["name"] for package in report["packages"]] == ["gpu-lib"]
    unknown = run("tree", path, "--invert", "numbres", code=1)
    assert "did you mean numbers?" in unknown.err
    unknown = run("tree", path, "--invert", "xyzzy", code=1)
    assert "hint: `wheelfit tree` lists the packages of the lock" in unknown.err
    left_out = run("tree", path, "--for", "linux-x86_64", "--invert", "gpu-lib", code=1)
    assert "no chosen wheel needs it" in left_out.err


def test_shared_subtrees_and_cycles(run: Runner, tmp_path: Path) -> None:
    """A package is expanded once; cycles end."""

    def entry(name: str, *needs: str) -> object:
        own = {"wheelfit": {"variant-dependencies": {"": list(needs)}}}
        return plain_entry(name, tool=own)

    place = tmp_path / "pylock.toml"
    lock = [entry("a", "b", "c"), entry("b", "d"), entry("c", "b"), entry("d", "a", "gone")]
    place.write_bytes(lock_bytes(*lock, tool={"wheelfit": {"roots": ["a"]}}))
    assert run("tree", place).out.splitlines()[1:] == [
        "a 1",
        "├─ b 1",
        "│  └─ d 1",
        "│     ├─ a 1  (above)",
        "│     └─ gone  (not in the lock)",
        "└─ c 1",
        "   └─ b 1  (above)",
    ]
    assert run("tree", place, "--invert", "d").out.splitlines()[1:] == [
        "d 1",
        "└─ b 1",
        "   ├─ a 1",
        "   │  ├─ asked for: a",
        "   │  └─ d 1  (above)",
        "   └─ c 1",
        "      └─ a 1  (above)",
    ]
    lock = [entry("a", "b", "c"), entry("b", "d"), entry("c", "d"), entry("d"), entry("e", "d")]
    place.write_bytes(lock_bytes(*lock, entry("f", "e", "b"), tool={"wheelfit": {"roots": ["a"]}}))
    assert run("tree", place, "--invert", "d").out.splitlines()[1:] == [
        "d 1",
        "├─ b 1",
        "│  ├─ a 1",
        "│  │  └─ asked for: a",
        "│  └─ f 1",
        "├─ c 1",
        "│  └─ a 1  (above)",
        "└─ e 1",
        "   └─ f 1",
    ]


def test_very_deep_lock(run: Runner, tmp_path: Path) -> None:
    """F-30: A chain longer than Python's recursion limit is shown."""
    count = sys.getrecursionlimit() + 50
    packages = [
        plain_entry(f"p{n}", dependencies=[{"name": f"p{n + 1}"}] if n < count - 1 else [])
        for n in range(count)
    ]
    place = tmp_path / "pylock.toml"
    place.write_bytes(lock_bytes(*packages))
    assert len(run("tree", place).out.splitlines()) == count + 1
    assert len(run("tree", place, "--invert", f"p{count - 1}").out.splitlines()) == count + 1


def test_unknown_dependencies(run: Runner, tmp_path: Path) -> None:
    """A lock without dependencies is shown as having unknown ones."""
    place = tmp_path / "pylock.toml"
    place.write_bytes(lock_bytes(plain_entry("a"), plain_entry("b")))
    result = run("tree", place)
    assert result.out.splitlines()[1:] == ["a 1", "b 1"]
    assert "does not record the requirements of its packages" in result.err
    place.write_bytes(lock_bytes(plain_entry("a", dependencies=[{"name": "b"}]), plain_entry("b")))
    result = run("tree", place)
    assert result.out.splitlines()[1:] == ["a 1", "└─ b 1", "   └─ its dependencies are unknown"]
    two = [plain_entry("a")["wheels"][0], {"url": "https://x.invalid/a-1-py3-none-any-null.whl"}]
    two[1]["hashes"] = {"sha256": "00"}
    several = plain_entry("a", dependencies=[{"name": "b"}], wheels=two)
    place.write_bytes(lock_bytes(several, plain_entry("b")))
    result = run("tree", place)
    assert result.out.splitlines()[2:4] == ["└─ with some of its wheels", "   └─ b 1"]
    assert "which wheels of a have which requirements" in result.err


def test_many_labels(run: Runner, tmp_path: Path) -> None:
    """Only some labels are named, all of them with -v."""
    labels = [f"l{number:02}" for number in range(20)]
    wheels = [
        {"url": f"https://x.invalid/a-1-py3-none-any-{label}.whl", "hashes": {"sha256": "00"}}
        for label in labels
    ]
    place = tmp_path / "pylock.toml"
    document = {
        "$schema": "https://variants-schema.wheelnext.dev/peps/825/v0.1.0.json",
        "default-priorities": {"namespace": ["x"]},
        "variants": {label: {"x": {"y": [label]}} for label in labels},
    }
    place.write_bytes(
        lock_bytes({"name": "a", "version": "1", "wheels": wheels, "variants-json": document})
    )
    assert "l06, l07 or 12 more)" in run("tree", place).out
    assert "l18 or l19)" in run("tree", place, "-v").out


def test_control_characters(run: Runner, tmp_path: Path) -> None:
    """Control characters in markers and requirements are escaped."""
    place = tmp_path / "pylock.toml"
    entry = plain_entry("a", marker="os_name == '\u202eevil\x1b[31m'")
    place.write_bytes(lock_bytes(entry))
    result = run("tree", place)
    assert "\u202e" not in result.out
    assert "\x1b" not in result.out
    assert "\\u202eevil" in result.out
    place.write_bytes(lock_bytes(plain_entry("a", marker=f"os_name == '{'x' * 5000}'")))
    assert max(map(len, run("tree", place).out.splitlines())) < 500
    assert max(map(len, run("tree", place, "-v").out.splitlines())) > 5000
    roots = ["a @ https://user:secret@x.invalid/a-1-py3-none-any.whl ; 'b' in extras"]
    own = {"wheelfit": {"roots": roots}}
    place.write_bytes(lock_bytes(plain_entry("a"), tool=own, extras=["b"]))
    for words in ((), ("--invert", "a"), ("--json",)):
        assert "secret" not in run("tree", place, *words).out
    assert "  with the extra b" in run("tree", place, "--invert", "a").out
    assert json.loads(run("tree", place, "--json").out)["packages"][0]["name"] == "a"
