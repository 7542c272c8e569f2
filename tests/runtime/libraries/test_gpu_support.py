"""What speaks against a version of CUDA on a machine whose driver runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from wheelfit.testing.index import RecordingIndex
from wheelfit_runtime.errors import NoCompatibleWheel
from wheelfit_runtime.libraries.gpu_support import gpu_support_warnings
from wheelfit_runtime.libraries.initializing import prepare
from wheelfit_runtime.libraries.verifying import sha256_of
from wheelfit_runtime.loader.driver import Driver
from wheelfit_runtime.platforms.providers.nvidia.kernel import KernelGpu

V100 = KernelGpu(0, "Tesla V100-SXM2-16GB", "", 0x1DB1)
P100 = KernelGpu(1, "Tesla P100-PCIE-16GB", "", 0x15F8)
T4 = KernelGpu(2, "Tesla T4", "", 0x1EB8)
K80 = KernelGpu(3, "Tesla K80", "", 0x102D)
UNKNOWN = KernelGpu(4, "", "", None)


def warnings_for(
    version: str,
    *gpus: KernelGpu,
    components: tuple[str, ...] = ("cudart",),
    cuda: tuple[int, int] | None = (13, 0),
    environ: Mapping[str, str] | None = None,
    cap_to_driver: bool = True,
) -> tuple[str, ...]:
    """Return what is said of a version on a machine."""
    return gpu_support_warnings(
        version, components, Driver(cuda, "", gpus), environ or {}, cap_to_driver=cap_to_driver
    )


@pytest.mark.parametrize(
    ("version", "gpus", "hint"),
    [
        ("13", (V100,), "ask for CUDA 12"),
        ("13.0", (V100, V100, P100), "ask for CUDA 12"),
        ("13", (K80,), "ask for CUDA 11"),
        ("12", (K80,), "ask for CUDA 11"),
    ],
)
def test_no_gpu_can_run_it(version: str, gpus: tuple[KernelGpu, ...], hint: str) -> None:
    """P-95: where a toolkit has no code for any GPU it is refused, and what has is named."""
    with pytest.raises(NoCompatibleWheel) as excinfo:
        warnings_for(version, *gpus)
    assert excinfo.value.hint == hint
    assert str(excinfo.value).count(gpus[0].model) == 1


def test_words() -> None:
    """P-95: the error names GPU, capability and way out."""
    with pytest.raises(NoCompatibleWheel) as excinfo:
        warnings_for("13", V100)
    assert excinfo.value.message == (
        "CUDA 13 has no code for the GPUs of this machine: Tesla V100-SXM2-16GB"
    )
    assert excinfo.value.note == ("it needs compute capability 7.5 or newer, with any driver")


@pytest.mark.parametrize(
    ("version", "gpus"),
    [
        ("12", (V100, P100)),
        ("13", (T4,)),
        ("13", ()),
        ("13", (UNKNOWN,)),
        ("11", (K80,)),
        ("14", (V100,)),
        ("x", (V100,)),
        ("", (V100,)),
    ],
)
def test_what_is_not_refused(version: str, gpus: tuple[KernelGpu, ...]) -> None:
    """P-95: what can run, and what nothing is known of, is not refused."""
    assert warnings_for(version, *gpus) == ()


def test_no_driver_no_warnings() -> None:
    """Without a driver libraries may be for another machine."""
    assert warnings_for("13", V100, cuda=None) == ()


def test_some_gpus_cannot_run_it() -> None:
    """P-95: GPUs that are left out are named; a mask is an answer to that."""
    (words,) = warnings_for("13", V100, T4, P100)
    assert words == (
        "CUDA 13 has no code for Tesla V100-SXM2-16GB, Tesla P100-PCIE-16GB (compute capability "
        "below 7.5), which this machine has beside others; hide it with CUDA_VISIBLE_DEVICES, or "
        "ask for CUDA 12"
    )
    assert warnings_for("13", V100, T4, environ={"CUDA_VISIBLE_DEVICES": "0"}) == ()
    assert len(warnings_for("13", V100, UNKNOWN)) == 1


@pytest.mark.parametrize("mask", ["", "-1", "none"])
def test_a_mask_that_hides_all(mask: str) -> None:
    """Who hides all GPUs does not want to know of them; any other mask leaves some of these."""
    assert warnings_for("13", V100, environ={"CUDA_VISIBLE_DEVICES": mask}) == ()
    with pytest.raises(NoCompatibleWheel):
        warnings_for("13", V100, environ={"CUDA_VISIBLE_DEVICES": "GPU-1"})


@pytest.mark.parametrize(
    ("version", "cuda", "component", "warned"),
    [
        ("12.9", (12, 4), "nvrtc", "NVRTC"),
        ("12.9.1", (12, 4), "nvjitlink", "nvJitLink"),
        ("13.99", (13, 98), "nvrtc", "NVRTC"),
        ("12.9", (12, 4), "cublas", ""),
        ("12.4", (12, 4), "nvrtc", ""),
        ("12.6", (12, 5), "nvrtc", ""),  # both write PTX 8.5
        ("12.9", (13, 0), "nvrtc", ""),
        ("12", (12, 4), "nvrtc", ""),
        ("13.0", (12, 4), "nvrtc", ""),  # is refused for another reason
    ],
)
def test_ptx(version: str, cuda: tuple[int, int], component: str, warned: str) -> None:
    """P-91: PTX of a newer toolkit is refused by the driver, and whoever compiles is told so."""
    found = warnings_for(version, components=("cudart", component), cuda=cuda)
    assert len(found) == bool(warned)
    for words in found:
        assert warned in words
        assert f"ask for CUDA {cuda[0]}" in words
        assert "-arch=sm_XX" in words


def test_ptx_without_a_cap() -> None:
    """Whoever says that the driver's minor version is not to count knows."""
    assert warnings_for("12.9", components=("nvrtc",), cuda=(12, 4), cap_to_driver=False) == ()


# --- a program ------------------------------------------------------------------------------------


def test_nothing_is_fetched(
    environ: dict[str, str], index: RecordingIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-95: the GPUs are looked at before anybody is asked for anything."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(NoCompatibleWheel):
        prepare("cuda", "13", ["cudart"], driver=Driver((13, 0), "", (V100,)), progress=False)
    assert index.requests == []
    found = prepare("cuda", "12", ["cudart"], driver=Driver((13, 0), "", (V100,)), progress=False)
    assert found.version == "12.9.1"


WARNED = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    initialize_cuda({})
answer = [[str(one.message), one.category.__name__, one.filename] for one in seen]
"""


def test_a_warning_at_each_start(
    program: Callable[..., Any], with_driver: Callable[..., dict[str, str]]
) -> None:
    """P-91: a program is warned at its own line, at a later start too, and has its libraries."""
    for _ in range(2):
        ((words, kind, place),) = program(WARNED.format("'12.9'"), with_driver("12.4"))
        assert words.startswith("the driver supports CUDA 12.4, and refuses PTX that NVRTC of CUDA")
        assert (kind, place) == ("VariantWarning", "<string>")


def test_a_lock_that_is_newer_than_the_driver(
    program: Callable[..., Any],
    with_driver: Callable[..., dict[str, str]],
    cuda_wheels: Path,
    tmp_path: Path,
) -> None:
    """P-91: what a lock has counts for a warning, where a major version alone was asked for."""
    lock = tmp_path / "pylock.toml"
    text = 'lock-version = "1.0"\ncreated-by = "me"\n'
    for wheel in sorted(cuda_wheels.glob("nvidia_cuda_[nr]*_cu12-12.9.*.whl")):
        name, version, *_ = wheel.name.split("-")
        digest = sha256_of(wheel)
        text += (
            f'[[packages]]\nname = "{name.replace("_", "-")}"\nversion = "{version}"\n'
            f'wheels = [{{ url = "{wheel.as_uri()}", hashes = {{ sha256 = "{digest}" }} }}]\n'
        )
    lock.write_text(text)
    ask = WARNED.format(f"'12', lock={str(lock)!r}")
    for _ in range(2):
        ((words, *_),) = program(ask, with_driver("12.4"))
        assert "of CUDA 12.9 writes (error 222)" in words
        assert words.endswith("take a lock of CUDA 12.4")
