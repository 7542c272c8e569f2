"""One object answers for one machine."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from platforms.detecting import MACHINES, detect, detection_of, view_of
from python_runs import printed_by

from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.providers import families, namespaces
from wheelfit_runtime.platforms.system_view import SystemView

PROVIDERS = {family.plugin_api.partition(":")[0] for family in families()}


def _modules_after(statement: str) -> set[str]:
    """Return the modules that a statement imports in a fresh interpreter."""
    program = (
        "import sys; before = set(sys.modules)\n"
        f"{statement}\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    return set(printed_by("-c", program).split())


def test_discovery_needs_nothing_but_the_standard_library() -> None:
    """House plan: whoever imports discovery gets no third-party module."""
    statements = "; ".join(
        f"import {name}" for name in ("wheelfit_runtime.platforms.discovery", *PROVIDERS)
    )
    top_level = {name.partition(".")[0] for name in _modules_after(statements)}
    assert top_level - set(sys.stdlib_module_names) == {"wheelfit_runtime"}


def test_discovery_imports_no_provider_before_it_is_asked() -> None:
    """P-22: importing discovery costs neither ctypes nor a provider nor child processes."""
    loaded = _modules_after("import wheelfit_runtime.platforms.discovery")
    assert not loaded & {"ctypes", "subprocess", "json", "pathlib", *PROVIDERS}


def test_asking_for_the_processor_does_not_load_what_gpus_need() -> None:
    """P-22: detection is lazy, namespace by namespace."""
    loaded = _modules_after(
        "from wheelfit_runtime.platforms.discovery import Machine; Machine().detect('x86_64')"
    )
    assert "subprocess" not in loaded
    assert "wheelfit_runtime.platforms.providers.nvidia.provider" not in loaded


@pytest.mark.parametrize("namespace", sorted(set(namespaces()) - {"aarch64", "x86_64"}))
def test_a_machine_without_accelerator_loads_nothing_for_child_processes(
    namespace: str, tmp_path: Path
) -> None:
    """P-96: where files tell of no accelerator, looking for one costs a few look-ups."""
    loaded = _modules_after(
        "from wheelfit_runtime.platforms.discovery import Machine\n"
        "from wheelfit_runtime.platforms.system_view import SystemView\n"
        f"Machine(SystemView({str(tmp_path)!r}, {{}}, system='Linux')).detect({namespace!r})"
    )
    assert f"wheelfit_runtime.platforms.providers.{namespace}.provider" in loaded
    assert not loaded & {"ctypes", "subprocess", "json", "pathlib"}


def test_where_nothing_is_overridden_no_provider_is_imported_to_say_so() -> None:
    """P-73: the names of the variables alone tell that there is none."""
    loaded = _modules_after(
        "from wheelfit_runtime.platforms.discovery import Machine\n"
        "from wheelfit_runtime.platforms.system_view import SystemView\n"
        "Machine(SystemView(environ={})).overrides_in_effect()"
    )
    assert not loaded & PROVIDERS


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("WHEELFIT_OVERRIDE_X86_64_LEVEL", "v2"),
        ("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "12.8"),
        ("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "9.0"),
        ("AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", "gfx942"),
        ("AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION", "7.0.0"),
        ("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", "gfx942"),
        ("ROCM_BOOTSTRAP_DISABLE_DETECTION", "1"),
        ("INTEL_VARIANT_PROVIDER_FORCE_DEVICE_IP", "20.1.0"),
        ("ASCEND_VARIANT_PROVIDER_FORCE_NPU_TYPE", "910b"),
        ("TPU_VARIANT_PROVIDER_FORCE_PRESENT", "1"),
    ],
)
def test_every_variable_in_effect_is_told(variable: str, value: str) -> None:
    """P-73: the pattern of names knows each variable that a provider honours."""
    machine = Machine(SystemView(environ={variable: value}, architecture="x86_64"))
    assert machine.overrides_in_effect() == (f"{variable}={value}",)


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("linux-x86-intel-igpu-without-level-zero", "intel"),
        ("linux-x86-intel-container-without-node", "intel"),
        ("linux-x86-tpu-v5e", "tpu"),
    ],
)
def test_what_files_decide_loads_nothing_for_child_processes(name: str, namespace: str) -> None:
    """P-22, P-133, P-151: laptops with nothing installed for their GPU pay for no child."""
    root = MACHINES / name / "root"
    loaded = _modules_after(
        "from wheelfit_runtime.platforms.discovery import Machine\n"
        "from wheelfit_runtime.platforms.system_view import SystemView\n"
        f"machine = Machine(SystemView({str(root)!r}, {{}}, system='Linux'))\n"
        f"found = machine.detect({namespace!r})\n"
        "assert len(found.evidence) > 1"
    )
    assert not loaded & {"ctypes", "subprocess", "json", "pathlib"}


def test_an_unknown_namespace_has_no_answer() -> None:
    """P-13: only namespaces with a provider of ours are answered for."""
    assert Machine().detect("fictional_hw") is None
    assert Machine().namespaces == namespaces()


def test_a_machine_is_looked_at_once(tmp_path: Path) -> None:
    """P-22: the second question gets the first answer, from whichever thread it comes."""
    machine = Machine(view_of(tmp_path))
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(machine.detect("x86_64"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(answer) for answer in answers}) == 1


@pytest.mark.parametrize("namespace", list(namespaces()))
def test_a_provider_that_fails_makes_only_its_namespace_unsupported(namespace: str) -> None:
    """P-17: a failure is an answer, with the reason in it."""
    detection = detect(namespace, Path("no such\0folder"), architecture=namespace)
    assert detection.status is Status.FAILED
    assert "null" in detection.warnings[0]


def test_a_captured_machine_does_not_see_this_one(tmp_path: Path) -> None:
    """P-70: below an empty root nothing is found, whatever this machine has."""
    machine = Machine(view_of(tmp_path))
    processor = detection_of("x86_64", machine)
    assert [feature.values for feature in processor.features] == [("v1",)]
    assert detection_of("nvidia", machine).status is Status.NOTHING


def test_a_foreign_architecture_supports_nothing_of_ours(tmp_path: Path) -> None:
    """P-104: neither processor provider answers for another architecture."""
    for namespace in ("x86_64", "aarch64"):
        detection = detect(namespace, tmp_path, architecture="riscv64")
        assert (detection.status, detection.features) == (Status.NOTHING, ())
