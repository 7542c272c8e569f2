"""Environment variables that matter, and masks."""

from __future__ import annotations

import pytest

from wheelfit.doctor.settings import Mask, read_mask, variables_in


@pytest.mark.parametrize(
    ("text", "count", "mask"),
    [
        ("0,2,-1,1", None, Mask(("0", "2"), "-1")),
        ("", None, Mask(())),
        ("  ", 4, Mask(())),
        ("-1", None, Mask((), "-1")),
        ("0, 1", 2, Mask(("0", "1"))),
        ("0,8,1", 8, Mask(("0",), "8")),
        ("1,x", None, Mask(("1",), "x")),
        ("GPU-8932f937,MIG-GPU-1/0/0", 1, Mask(("GPU-8932f937", "MIG-GPU-1/0/0"))),
        ("none", 4, Mask((), "none")),
        ("0,,1", None, Mask(("0",), "")),
        ("9" * 5000, None, Mask((), "9" * 5000)),
    ],
)
def test_masks(text: str, count: int | None, mask: Mask) -> None:
    """P-89: a mask ends at the first entry that names no device; empty means none."""
    assert read_mask(text, count) == mask


def test_masks_in_words() -> None:
    """P-89: what programs see is said, by kind of device."""
    environ = {"CUDA_VISIBLE_DEVICES": "1,7", "HIP_VISIBLE_DEVICES": ""}
    cuda, hip = variables_in(environ, {"CUDA_VISIBLE_DEVICES": 2})
    assert cuda.meaning == "programs see NVIDIA GPUs 1 only"
    assert hip.meaning == "programs see no AMD GPUs"


def test_what_matters() -> None:
    """Variables of no interest stay out; those shown are sorted and have a meaning."""
    environ = {
        "UV_TORCH_BACKEND": "cu128",
        "HOME": "/home/alice",
        "LD_PRELOAD": "",
        "WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH": "90_real",
        "MY_SECRET": "x",
    }
    found = {one.name: one.meaning for one in variables_in(environ)}
    assert list(found) == ["LD_PRELOAD", "UV_TORCH_BACKEND", "WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH"]
    assert found["WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH"] == "meant to replace a detected value"
    assert all(found.values())


def test_variables_of_wheelfit() -> None:
    """A variable with the prefix of settings is only named a setting of what reads it."""
    meanings = {
        variable.name: variable.meaning
        for variable in variables_in(dict.fromkeys(("WHEELFIT_LIBRARY_STORE", "WHEELFIT_FOO"), "1"))
    }
    assert meanings == {
        "WHEELFIT_FOO": "a setting of wheelfit, unless `wheelfit config show` reports it",
        "WHEELFIT_LIBRARY_STORE": "a setting of the library store",
    }


def test_secrets() -> None:
    """Credentials are never shown: neither in URLs nor in variables that hold only them."""
    environ = {
        "PIP_INDEX_URL": "https://alice:hunter2@index.example/simple",
        "PIP_EXTRA_INDEX_URL": "https://index.example/a https://bob:hunter2@index.example/b",
        "UV_PUBLISH_TOKEN": "hunter2",
        "UV_INDEX_PRIVATE_PASSWORD": "hunter2",
        "UV_INDEX_PRIVATE_USERNAME": "hunter2",
    }
    found = {one.name: one.value for one in variables_in(environ)}
    assert len(found) == len(environ)
    assert "hunter2" not in repr(found)
    assert "index.example/simple" in found["PIP_INDEX_URL"]
