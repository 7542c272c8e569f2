"""The "final boss" in locks: builds for versions of other packages, synced on any machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cli.running import Runner
from end_to_end.locks import Locks
from end_to_end.test_abi_dependency import NEEDS, converted, fixed, published

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release

pytestmark = pytest.mark.usefixtures("bare_environment")

H100_12, H100_13 = "cuda-12.8-sm90", "cuda-13.0-sm90"
P100, B200 = "cuda-12.8-sm60", "cuda-13.0-sm100"


@pytest.fixture
def example(
    tmp_path: Path,
    environment: Callable[[], Path],
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., Locks]]:
    """Return a function that serves the published example without some builds of torch."""
    with ExitStack() as servers:

        def serve(**without: list[str]) -> Locks:
            documents = converted(fixed(published("v0.0.3")))
            folder = tmp_path / "index"
            for (name, version), document in documents.items():
                for label in without.get(f"{name}_{version.replace('.', '_')}", ()):
                    del document["variants"][label]
                build_release(folder, name, version, document, requires=NEEDS[name])
            index = servers.enter_context(RecordingIndex(folder))
            return Locks(Runner(capsys), index.url, tmp_path, environment)

        yield serve


def test_matching_builds_from_one_lock(
    example: Callable[..., Locks],
) -> None:
    """A-41, A-43: each machine gets its build of one torch release, and flash-attn for it."""
    locks = example()
    locks.lock("--for", H100_12, "--for", H100_13, "torch", "flash-attn")
    assert locks.synced(H100_12) == {
        "torch": "2.9.0 cuda12.8",
        "flash-attn": "2.8.0 cu12_pyt2.9.0",
    }
    assert locks.synced(H100_13) == {
        "torch": "2.9.0 cuda13.0",
        "flash-attn": "2.8.0 cu13_pyt2.9.0",
    }


def test_package_with_one_build(example: Callable[..., Locks]) -> None:
    """A-45, A-47: as vllm needs torch 2.8 with CUDA 12, all machines get these."""
    locks = example()
    locks.lock("--for", H100_12, "--for", H100_13, "torch", "flash-attn", "vllm")
    expected = {
        "torch": "2.8.0 cuda12.8",
        "flash-attn": "2.8.0 cu12_pyt2.8.0",
        "vllm": "0.11.0 cu128_pyt2.8.0",
    }
    assert locks.synced(H100_12) == locks.synced(H100_13) == expected


def test_lock_for_all_machines(
    example: Callable[..., Locks],
) -> None:
    """A-42: A lock without named machines has the builds for each of them."""
    locks = example()
    locks.lock("torch", "flash-attn")
    chosen = {host: locks.synced(host)["torch"] for host in (P100, H100_12, H100_13, B200)}
    assert chosen == {
        P100: "2.9.0 cuda12.6",
        H100_12: "2.9.0 cuda12.8",
        H100_13: "2.9.0 cuda13.0",
        B200: "2.9.0 cuda13.0",
    }


def test_older_common_release(example: Callable[..., Locks]) -> None:
    """A-47: A common release is preferred to a newer one for one machine; CUDA agrees."""
    locks = example(torch_2_9_0=["cuda12.6"])
    locks.lock("--for", P100, "--for", B200, "torch", "flash-attn")
    assert list(locks.files()) == ["pylock.toml"]
    assert locks.synced(P100)["torch"] == "2.8.0 cuda12.6"
    assert locks.synced(B200)["torch"] == "2.8.0 cuda12.8"  # as flash-attn for 2.8 is for CUDA 12


def test_separate_locks(example: Callable[..., Locks]) -> None:
    """Without a common release there is a file for each machine, and the reason is given."""
    locks = example(torch_2_9_0=["cuda12.6"], torch_2_8_0=["cuda12.8", "cuda13.0"])
    words = ("torch", "flash-attn")
    result = locks.lock("--for", P100, "--for", B200, *words)
    files = locks.files()
    p100, b200 = "pylock.cuda-12-8-sm60.toml", "pylock.cuda-13-0-sm100.toml"
    assert list(files) == [p100, b200]
    assert "no marker of a lock file distinguishes the two" in result.err
    assert locks.synced(P100, p100) == {
        "torch": "2.8.0 cuda12.6",
        "flash-attn": "2.8.0 cu12_pyt2.8.0",
    }
    assert locks.synced(B200, b200) == {
        "torch": "2.9.0 cuda13.0",
        "flash-attn": "2.8.0 cu13_pyt2.9.0",
    }
    locks.lock("--for", B200, "--for", P100, *words)
    assert locks.files() == files
    locks.lock("--check", "--for", P100, "--for", B200, *words)
