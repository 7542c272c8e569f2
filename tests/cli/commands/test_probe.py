"""``wheelfit probe``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli.running import Runner, tree

from wheelfit.testing.drivers import FakeDriver

LONG = "a long text, so long that nobody would want to read all of it in one line of a terminal"
HOST = """
[metadata]
version = "0.1"

[interpreter]
version = "3.12.1"

[platform]
machine = "x86_64"
glibc = "2.39"

[[provider]]
namespace = "nvidia"
feature-order = ["cuda_version_lower_bound", "sm_arch"]
[provider.properties]
cuda_version_lower_bound = ["12.9", "12.8", "12.7", "12.6", "12.5", "12.4", "12.3", "12.2", "12.1"]
sm_arch = ["90_real"]
[[provider.evidence]]
source = "the label on the box"
value = "LONG"

[[provider]]
namespace = "x86_64"
[provider.properties]
level = ["v3"]
avx2 = ["on"]
sse = ["on"]
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Write a host file."""
    path = tmp_path / "host.toml"
    path.write_text(HOST.replace("LONG", LONG))
    return path


def test_text_output(host: Path, run: Runner) -> None:
    """Features are listed by preference, long lists are shortened, and evidence follows."""
    result = run("probe", "--for", host)
    assert result.out.splitlines() == [
        f"{host}: cpython 3.12.1 on Linux x86_64",
        "",
        "nvidia: supported",
        f"  source      host file {host}",
        "  cuda_version_lower_bound  12.9, 12.8, 12.7, 12.6, 12.5, 12.4, … 12.1 (9 in all)",
        "  sm_arch                   90_real",
        f"  evidence    the label on the box: {LONG[:72]} …",
        "",
        "x86_64: supported",
        f"  source      host file {host}",
        "  level       v3",
        "  on          avx2, sse",
    ]


def test_missing_hardware(run: Runner, tmp_path: Path) -> None:
    """Namespaces without hardware have one line each, with the reason."""
    host = tmp_path / "host.toml"
    host.write_text(
        HOST.partition("[[provider]]")[0]
        + """
[[provider]]
namespace = "amd"
properties = {}
warnings = ["the GPU is not to be opened"]

[[provider]]
namespace = "intel"
properties = {}
evidence = [{ source = "files", value = "no sign of an Intel GPU" }]

[[provider]]
namespace = "tpu"
properties = { present = ["false"] }
"""
    )
    result = run("probe", "--for", host, "amd", "intel", "tpu", "ascend")
    assert result.out.splitlines()[1:] == [
        "",
        "amd: nothing",
        f"  source      host file {host}",
        "",
        "ascend: unknown",
        "  source      not in host file {host}".replace("{host}", str(host)),
        "",
        "not available on this machine:",
        "  intel  no sign of an Intel GPU",
        f"  tpu    host file {host}",
    ]
    assert "amd: the GPU is not to be opened" in result.err
    assert "intel: nothing\n" in run("probe", "--for", host, "intel", "-v").out


def test_equal_devices(run: Runner) -> None:
    """Equal devices share a line, except with -v."""
    machine = Path(__file__).parents[2] / "machines" / "linux-x86-tpu-v5e"
    bus = "/sys/bus/pci/devices/0000:00"
    assert run("probe", "--replay", machine, "tpu").out.splitlines()[-2:] == [
        f"  evidence    {bus}:05.0 … {bus}:0c.0: vendor 0x1ae0, device 0x0063 (8 in all)",
        "  evidence    /dev/vfio/0 … /dev/vfio/7: exists (8 in all)",
    ]
    assert run("probe", "--replay", machine, "tpu", "-v").out.count("  evidence  ") == 16


def test_verbose(host: Path, run: Runner) -> None:
    """With -v nothing is shortened."""
    out = run("probe", "--for", host, "-v").out
    assert "12.9, 12.8, 12.7, 12.6, 12.5, 12.4, 12.3, 12.2, 12.1\n" in out
    assert "in one line of a terminal\n" in out


def test_named_namespaces(host: Path, run: Runner) -> None:
    """Only the named namespaces are detected, once each, in that order."""
    found = run("probe", "--json", "--for", host, "x86_64", "openmp", "x86_64").object["namespaces"]
    assert list(found) == ["x86_64", "openmp"]
    assert found["openmp"]["status"] == "unknown"
    here = run("probe", "--json", "openmp").object["namespaces"]
    assert here["openmp"]["status"] == "unknown"
    assert here["openmp"]["source"] == "no provider is available"


def test_disabled_provider(run: Runner) -> None:
    """A disabled provider is not run; the output names the option."""
    entry = run("probe", "--json", "--disable-provider", "x86_64", "x86_64").object["namespaces"]
    assert entry["x86_64"]["status"] == "disabled"
    assert entry["x86_64"]["source"] == "--disable-provider"
    assert entry["x86_64"]["features"] == []


def test_invalid_namespace(run: Runner) -> None:
    """F-2: A text that cannot be a namespace is an error."""
    assert run("probe", "--json", "NVIDIA", code=1).error["code"] == "invalid-property"


def test_overrides(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-73: overrides are listed with a warning; an invalid one disables the provider."""
    monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v2,v1")
    result = run("probe", "--json", "x86_64")
    assert result.object["overrides"] == ["WHEELFIT_OVERRIDE_X86_64_LEVEL=v2,v1"]
    (level,) = [
        feature
        for feature in result.object["namespaces"]["x86_64"]["features"]
        if feature["name"] == "level"
    ]
    assert level["values"] == ["v2", "v1"]
    assert "WHEELFIT_OVERRIDE_X86_64_LEVEL=v2,v1" in result.err
    monkeypatch.setenv("WHEELFIT_OVERRIDE_X86_64_LEVEL", "fast")
    result = run("probe", "--json", "x86_64")
    assert result.object["namespaces"]["x86_64"]["status"] == "disabled"
    assert "'fast' is not a value of level" in result.err


def test_two_different_gpus(
    run: Runner, fake_driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two different GPUs are named with their features, also from a host file (P-88)."""
    environ = fake_driver.environ(
        cuda="12.9", driver="575.57", devices=["7.0 Tesla V100", "9.0 NVIDIA H100"]
    )
    for name, value in {**environ, "LD_LIBRARY_PATH": str(fake_driver.folder)}.items():
        monkeypatch.setenv(name, value)
    host = tmp_path / "gpus.toml"
    result = run("probe", "nvidia", "-o", host)
    assert "nvidia: supported" in result.out
    assert "  GPU 0 (Tesla V100, 7.0): sm_arch  70_virtual, 69_virtual," in result.out
    assert "cuda_version_lower_bound  12.9, 12.8" in result.out
    here = run("probe", "nvidia", "--json").object["namespaces"]["nvidia"]
    there = run("probe", "nvidia", "--json", "--for", host).object["namespaces"]["nvidia"]
    assert len(here["devices"]) == 2
    assert there["devices"] == here["devices"]
    assert there["features"] == here["features"]
    names = "".join(sorted(device["device"] for device in here["devices"]))
    assert names == "GPU 0 (Tesla V100, 7.0)GPU 1 (NVIDIA H100, 9.0)"


class TestWriting:
    """``-o FILE``."""

    def test_note_about_the_file(self, run: Runner, tmp_path: Path) -> None:
        """A note explains the use of the file, unless --quiet is given."""
        path = tmp_path / "host.toml"
        result = run("probe", "-o", path)
        assert f"wheelfit install --for {path}" in result.err
        assert result.out.startswith("this machine: ")
        assert run("probe", "-q", "-o", path).err == ""
        assert path.read_text().startswith('[metadata]\ncreated-by = "wheelfit ')

    @pytest.mark.parametrize("place", ["missing/host.toml", "file/host.toml", "."])
    @pytest.mark.parametrize("more", [[], ["--json"]])
    def test_write_error(self, place: str, more: list[str], run: Runner, tmp_path: Path) -> None:
        """If the file cannot be written, there is only the error and nothing changes."""
        (tmp_path / "file").write_text("a file")
        before = tree(tmp_path)
        result = run("probe", "-o", tmp_path / place, *more, code=1)
        assert "file-problem" in result.out + result.err
        assert tree(tmp_path) == before

    def test_existing_file(self, run: Runner, tmp_path: Path) -> None:
        """An existing file is replaced completely."""
        path = tmp_path / "host.toml"
        path.write_text("x" * 100_000)
        run("probe", "-o", path, "aarch64")
        assert "xxx" not in path.read_text()
        assert os.listdir(tmp_path) == ["host.toml"]  # noqa: PTH208

    def test_standard_output(self, host: Path, run: Runner, tmp_path: Path) -> None:
        """``-o -`` prints what ``-o FILE`` writes."""
        before = tree(tmp_path)
        printed = run("probe", "--for", host, "-o", "-").out
        assert tree(tmp_path) == before
        assert not Path("-").exists()
        run("probe", "--for", host, "-o", tmp_path / "written.toml")
        assert printed == (tmp_path / "written.toml").read_text()

    def test_json_and_standard_output(self, run: Runner) -> None:
        """``--json`` and ``-o -`` conflict."""
        assert run("probe", "-o", "-", "--json", code=2).error["code"] == "usage"


def test_round_trip(run: Runner, tmp_path: Path) -> None:
    """P-44: A written host file gives the same features in the same order."""
    host = tmp_path / "host.toml"
    here = run("probe", "--json", "-o", host).object["namespaces"]
    there = run("probe", "--json", "--for", host).object["namespaces"]
    assert list(here) == list(there)
    for namespace, entry in here.items():
        assert there[namespace]["features"] == entry["features"]
        assert there[namespace]["status"] == entry["status"]
        assert there[namespace]["source"] == f"host file {host}"


def test_unknown_namespace(run: Runner) -> None:
    """A misspelt namespace is an error; a static one is not."""
    error = run("probe", "nvidai", "--json", code=1).error
    assert error["message"] == "'nvidai' is not a known provider"
    assert error["hint"] == "did you mean 'nvidia'?"
    assert run("probe", "openmp", "--json").object["namespaces"]["openmp"]["status"] == "unknown"
