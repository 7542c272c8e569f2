"""P-75: what identifies a machine or its user is taken out, and nothing else."""

from __future__ import annotations

import pytest

from wheelfit_runtime.platforms.scrubbing import Scrubber, concerns_detection
from wheelfit_runtime.platforms.system_view import SystemView


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("Serial Number                : 1320A17", "Serial Number                : 0000000"),
        ("Serial\t\t: 10000000abcdef", "Serial\t\t: 00000000000000"),
        ("unique_id 48213377", "unique_id 00000000"),
        ("hive_id 16118294370166583000", "hive_id 00000000000000000000"),
        ('{"serial": "13A", "index": 0}', '{"serial": "000", "index": 0}'),
        ("| Product Serial | 21DE9 |", "| Product Serial | 00000 |"),
        ("UUID : GPU-5a6b7c8d", "UUID : GPU-00000000"),
        ("VDie ID : 0x1F 2B", "VDie ID : 0x00 2B"),
        (
            "MIG-5a6b7c8d-1234-5678-9abc-def012345678",
            "MIG-00000000-0000-0000-0000-000000000000",
        ),
        ("link/ether 02:42:ac:11:00:02", "link/ether 00:00:00:00:00:00"),
    ],
)
def test_identifiers_are_known_by_form_or_by_the_word_in_front(text: str, scrubbed: str) -> None:
    """P-75: their digits become zeros, and scrubbing again changes nothing."""
    scrubber = Scrubber(())
    assert scrubber.text(text) == scrubbed
    assert scrubber.text(scrubbed) == scrubbed


@pytest.mark.parametrize(
    "text",
    [
        "flags : fpu sse2 serialize sha_ni",
        "0000:17:00.0",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10",
        "gfx_target_version 90402",
        '{"capability": [9, 0], "cuda_version": 12080}',
        "MIDR 0x00000000410fd4f0",
    ],
)
def test_what_detection_needs_stays(text: str) -> None:
    """P-75: addresses, versions and abilities identify nobody."""
    assert Scrubber(()).text(text) == text


def test_blanks_without_end_cost_no_time() -> None:
    """P-75: what a tool prints cannot make scrubbing hang."""
    text = f"serial number{' ' * 300_000}"
    assert Scrubber(()).text(text) == text


def test_names_of_host_and_user_are_replaced_wherever_they_stand() -> None:
    """P-75: whole words, the long ones first; common names identify nobody."""
    environ = {"HOME": "/home/jane", "USER": "jane", "HOSTNAME": "atlas.example.org"}
    scrubber = Scrubber.of(SystemView("/nowhere", environ))
    assert scrubber.text("/home/jane/lib of jane@atlas") == "/home/user/lib of user@host"
    assert scrubber.text("atlas.example.org janes") == "host janes"
    assert Scrubber.of(SystemView("/nowhere", {"USER": "root", "HOME": "/root"})).names == ()


def test_bytes_that_are_no_text_keep_their_values() -> None:
    """P-75: an auxiliary vector is not damaged by looking for names in it."""
    data = bytes(range(256))
    assert Scrubber((("jane", "user"),)).data(data) == data


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        *((name, True) for name in ("CUDA_VISIBLE_DEVICES", "ROCM_PATH", "ZE_AFFINITY_MASK")),
        *((name, True) for name in ("WHEELFIT_OVERRIDE_X86_64_LEVEL", "TPU_NAME", "PATH")),
        *((name, False) for name in ("HOME", "AWS_PROFILE", "NVIDIA_API_KEY", "HIP_TOKEN")),
    ],
)
def test_which_variables_concern_detection(name: str, is_kept: bool) -> None:  # noqa: FBT001
    """P-75: an allow-list by prefix, without anything that sounds like a secret."""
    assert concerns_detection(name) is is_kept
