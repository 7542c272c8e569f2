"""The machine that is chosen for: this one, or one that a host file describes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from error_codes import raises_code
from operations.remarks import Remarks

from wheelfit.core.provider_lookup import ProviderPolicy
from wheelfit.operations.context import Context
from wheelfit.operations.hosts import load_host_file
from wheelfit.operations.machine import ChosenMachine, choose_machine
from wheelfit.operations.requests import MachineOptions
from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.resolution_setup import linux_target
from wheelfit_runtime.errors import FileProblem
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.providers import namespaces

HOST = """
[metadata]
created-by = "a test"
version = "0.1"

[[provider]]
namespace = "nvidia"
[provider.properties]
cuda_version_lower_bound = ["12.9", "12.8"]
"""
OVERRIDE = {"WHEELFIT_OVERRIDE_X86_64_LEVEL": "v3"}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Write a host file with one namespace."""
    path = tmp_path / "host.toml"
    path.write_text(HOST)
    return path


@pytest.fixture
def remarks() -> Remarks:
    """Return what keeps the remarks."""
    return Remarks()


def choose(
    remarks: Remarks | None = None, *, environ: dict[str, str] | None = None, **options: Any
) -> ChosenMachine:
    """Choose a machine on an x86-64 Linux.

    :param options: of `MachineOptions`.
    """
    context = Context(environ or {}, remarks or Remarks())
    return choose_machine(MachineOptions(**options), linux_target(), context)


def status(machine: ChosenMachine, namespace: str) -> Status | None:
    """Return how the detection of a namespace ended."""
    detection = machine.detect(namespace)
    return None if detection is None else detection.status


@pytest.mark.parametrize("policy", ["all", "highest", "lowest", "any"])
def test_the_device_policy(policy: str) -> None:
    """P-88: the policy of the request is that of the machine."""
    assert choose(devices=policy).policy.device_policy == policy


class TestThisMachine:
    """Without ``--for``."""

    def test_every_built_in_namespace(self) -> None:
        """All can be asked; of another namespace nothing is known."""
        machine = choose()
        assert machine.name == "this machine"
        assert set(machine.namespaces) == set(namespaces())
        assert status(machine, "aarch64") is Status.NOTHING
        assert machine.detect("blas") is None

    def test_the_generation_of_a_tpu_counts_on_request(self, remarks: Remarks) -> None:
        """P-153: an option that is off by default, and visible where it is on."""
        default, asked = choose(), choose(remarks, tpu_generation=True)
        assert isinstance(default.detector, Machine)
        assert isinstance(asked.detector, Machine)
        assert not default.detector.view.tpu_generation
        assert asked.detector.view.tpu_generation
        assert "in effect: --tpu-generation" in remarks.text

    def test_older_releases_of_rocm_count_on_request(self, remarks: Remarks) -> None:
        """P-123: an option that is off by default, and visible where it is on."""
        default, asked = choose(), choose(remarks, rocm_compat="same-major")
        assert isinstance(default.detector, Machine)
        assert isinstance(asked.detector, Machine)
        assert not default.detector.view.rocm_same_major
        assert asked.detector.view.rocm_same_major
        assert "in effect: --rocm-compat same-major" in remarks.text

    def test_overrides_are_shown(self, remarks: Remarks) -> None:
        """P-73: what the environment overrides is said, whatever else is wanted."""
        machine = choose(remarks, environ=OVERRIDE)
        assert machine.overrides == ("WHEELFIT_OVERRIDE_X86_64_LEVEL=v3",)
        said = remarks.text
        assert (
            said == "warning: the environment overrides detection: " + machine.overrides[0] + "\n"
        )
        detection = machine.detect("x86_64")
        assert detection is not None
        assert detection.features[0].values == ("v3",)

    def test_variables_of_conda_about_the_system(self, remarks: Remarks) -> None:
        """P-73: they choose the wheel tags of this machine, visibly, unless they shall not."""
        environ = {"CONDA_OVERRIDE_GLIBC": "2.17", "CONDA_OVERRIDE_LINUX": "new"}
        machine = choose(remarks, environ=environ)
        tags = [tag.platform for tag in machine.target.tags]
        assert "manylinux_2_17_x86_64" in tags
        assert "manylinux_2_28_x86_64" not in tags
        assert machine.overrides == ("CONDA_OVERRIDE_GLIBC=2.17",)
        assert remarks.text == (
            "warning: CONDA_OVERRIDE_LINUX='new' is ignored: it must be a version such as 5.10\n"
            "warning: the environment overrides the system's version: CONDA_OVERRIDE_GLIBC=2.17\n"
        )
        assert choose(environ=environ, no_env_override=True).target == linux_target()
        described = choose(remarks, environ=environ, host="cuda-12.8-sm90")
        assert "manylinux_2_28_x86_64" in [tag.platform for tag in described.target.tags]

    def test_policy(self) -> None:
        """Providers and devices are decided about by options."""
        machine = choose(
            disable_provider=("nvidia",),
            enable_provider=("amd",),
            ignore_static=("blas",),
            devices="any",
        )
        assert machine.policy == ProviderPolicy(
            enabled=frozenset({"amd"}),
            disabled=frozenset({"nvidia"}),
            ignore_static=frozenset({"blas"}),
            device_policy="any",
        )


class TestHostFile:
    """With ``--for`` (P-44)."""

    def test_the_file_decides(self, host: Path, remarks: Remarks) -> None:
        """This machine is not asked, not even about what the file leaves out; it is said whose."""
        machine = choose(remarks, host=str(host), environ=OVERRIDE)
        assert machine.name == str(host)
        assert machine.namespaces == ("nvidia",)
        assert machine.overrides == ()
        assert status(machine, "nvidia") is Status.SUPPORTED
        assert status(machine, "x86_64") is Status.UNKNOWN
        assert remarks.text == (
            f"choosing for the machine in {host}\n"
            "  WHEELFIT_OVERRIDE_X86_64_LEVEL of the environment counts for this machine only\n"
        )

    def test_what_is_left_out_may_be_asked_here(self, host: Path, remarks: Remarks) -> None:
        """With ``--allow-incomplete`` this machine answers for the rest, overrides included."""
        machine = choose(remarks, host=str(host), allow_incomplete=True, environ=OVERRIDE)
        assert machine.namespaces[0] == "nvidia"
        assert set(machine.namespaces) == set(namespaces())
        nvidia = machine.detect("nvidia")
        assert nvidia is not None
        assert nvidia.features[0].values == ("12.9", "12.8")
        level = machine.detect("x86_64")
        assert level is not None
        assert level.features[0].values == ("v3",)
        assert machine.overrides == ("WHEELFIT_OVERRIDE_X86_64_LEVEL=v3",)
        assert "overrides detection: WHEELFIT_OVERRIDE_X86_64_LEVEL=v3" in remarks.text

    @pytest.mark.parametrize(
        ("platform", "namespace", "values"),
        [
            ("manylinux_2_28_aarch64", "aarch64", ("8a",)),
            ("win_amd64", "x86_64", ("v1",)),
            ("macosx_14_0_arm64", "aarch64", ("8a",)),
        ],
    )
    def test_another_platform(
        self, host: Path, platform: str, namespace: str, values: tuple[str, ...]
    ) -> None:
        """P-65: of another platform its baseline is known, and this machine says nothing."""
        host.write_text(HOST + f'[platform]\ntags = ["{platform}"]\n')
        override = OVERRIDE | {"WHEELFIT_OVERRIDE_AARCH64_VERSION": "9.0a"}
        machine = choose(host=str(host), allow_incomplete=True, environ=override)
        assert machine.overrides == ()
        detection = machine.detect(namespace)
        assert detection is not None
        assert [feature.values for feature in detection.features] == [values]
        other = {"x86_64", "aarch64"} - {namespace}
        assert status(machine, other.pop()) is Status.NOTHING
        assert status(machine, "nvidia") is Status.SUPPORTED  # the file says so

    def test_notes_are_said(self, host: Path, remarks: Remarks) -> None:
        """A key nobody knows is ignored, visibly."""
        host.write_text(HOST + "[colour]\nred = 1\n")
        choose(remarks, host=str(host))
        assert "unknown key colour is ignored" in remarks.text

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"a = [", "not TOML"),
            (b"\xff\xfe", "not TOML"),
            (b"a = " + b"[" * 100_000, "nested deeper than the limit of 32"),
            (b"", "the host file is empty"),
            (b"[metadata]\nversion = '9'", "only '0.1' is known"),
            (b"[metadata]\nversion = '0.1'\n[[provider]]\n", "namespace is missing"),
            (b"[metadata]\nversion = '0.1'\n[[providers]]\n", "providers is an unknown key"),
        ],
    )
    def test_broken(self, content: bytes, said: str, host: Path) -> None:
        """Each way to be broken is an error that names the file."""
        host.write_bytes(content)
        with raises_code("invalid-host-file") as excinfo:
            load_host_file(str(host))
        assert said in excinfo.value.message
        assert (excinfo.value.where or "").partition(", line ")[0] == str(host)

    @pytest.mark.parametrize("name", ["missing.toml", "."])
    def test_no_file(self, name: str, tmp_path: Path) -> None:
        """A file that is not there, and a folder, are named; the hint says how to get one."""
        with pytest.raises(FileProblem) as excinfo:
            load_host_file(str(tmp_path / name))
        assert "probe -o" in (excinfo.value.hint or "")


@pytest.mark.skipif(
    not Path("/proc/sys/kernel/random/boot_id").is_file(), reason="needs Linux' boot id"
)
class TestMemory:
    """P-22: what a driver answered is remembered by one command for the next."""

    @pytest.fixture
    def environ(self, fake_driver: FakeDriver, tmp_path: Path) -> dict[str, str]:
        """Return an environment with a driver that leaves a trace, and a cache."""
        return {
            "LD_LIBRARY_PATH": str(fake_driver.folder),
            "WHEELFIT_CACHE_DIR": str(tmp_path / "cache"),
            "PIP_CONFIG_FILE": os.devnull,
            "HOME": str(tmp_path),
            **fake_driver.environ(devices=["9.0 NVIDIA H100"], trace=tmp_path / "trace"),
        }

    @staticmethod
    def visits(
        tmp_path: Path, environ: dict[str, str], *, use_probe_cache: bool = True, **options: Any
    ) -> int:
        """Ask as a new process would, and return how often the driver was visited so far."""
        request, context = MachineOptions(**options), Context(environ)
        machine = choose_machine(request, linux_target(), context, use_probe_cache=use_probe_cache)
        assert status(machine, "nvidia") is Status.SUPPORTED
        return (tmp_path / "trace").read_text().count("nvmlInit")

    def test_the_next_command_makes_no_child(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """The second visits no driver; one without the cache does, for the third as well."""
        assert self.visits(tmp_path, environ) == 1
        assert self.visits(tmp_path, environ) == 1
        assert self.visits(tmp_path, environ, use_probe_cache=False) == 2
        assert self.visits(tmp_path, environ) == 2

    def test_where_nothing_is_kept(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """Neither with the option nor by pip's configuration is anything kept."""
        assert self.visits(tmp_path, environ, no_cache_dir=True) == 1
        assert self.visits(tmp_path, environ, no_cache_dir=True) == 2
        quiet = environ | {"PIP_NO_CACHE_DIR": "1"}
        assert (self.visits(tmp_path, quiet), self.visits(tmp_path, quiet)) == (3, 4)
        assert not (tmp_path / "cache").exists()

    def test_the_folder_can_be_chosen(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """``--cache-dir`` names another memory."""
        assert self.visits(tmp_path, environ, cache_dir=str(tmp_path / "other")) == 1
        assert (tmp_path / "other" / "probes").is_dir()
        assert self.visits(tmp_path, environ) == 2

    def test_a_cache_that_is_no_folder(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """Then all is asked, and it is not an error."""
        (tmp_path / "file").write_text("")
        assert self.visits(tmp_path, environ, cache_dir=str(tmp_path / "file")) == 1
        assert self.visits(tmp_path, environ, cache_dir=str(tmp_path / "file")) == 2


class TestPresets:
    """With ``--for`` and the name of a machine."""

    def test_nothing_of_this_machine_counts(self, remarks: Remarks) -> None:
        """P-65, P-70: variables of this machine say nothing of another, and that is said."""
        machine = choose(remarks, host="cuda-12.8-sm90", environ=OVERRIDE)
        assert machine.name == "cuda-12.8-sm90"
        assert machine.overrides == ()
        found = machine.detect("x86_64")
        assert found is not None
        assert found.features[0].values == ("v1",)
        assert found.source == "preset cuda-12.8-sm90"
        said = remarks.text
        assert "WHEELFIT_OVERRIDE_X86_64_LEVEL of the environment counts for this machine" in said

    def test_options_are_in_effect(self, remarks: Remarks) -> None:
        """P-73: whatever narrows the choice is said and kept, wherever it was set."""
        machine = choose(remarks, host="macos-arm64", disable_provider=("tpu",), devices="any")
        assert machine.overrides == ("--disable-provider tpu", "--devices any")
        assert machine.all_overrides == machine.overrides
        assert machine.to_mapping()["overrides"] == list(machine.overrides)
        assert "in effect: --disable-provider tpu, --devices any" in remarks.text

    def test_what_was_declared_of_packages(self) -> None:
        """P-57: versions that the environment declares are overrides too."""
        machine = choose(environ={"VARIANT_ABI_DEPENDENCY": "torch==2.8"})
        assert machine.overrides == ("VARIANT_ABI_DEPENDENCY=torch==2.8",)

    def test_older_releases_of_rocm(self) -> None:
        """P-123: the option counts for presets as it does for this machine."""
        machine = choose(host="rocm-6.4-gfx942", rocm_compat="same-major")
        found = machine.detect("amd")
        assert found is not None
        assert "6.3" in found.features[-1].values
        assert machine.overrides == ("--rocm-compat same-major",)
