"""Text output of ``wheelfit explain``; the JSON is tested with the contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

NVIDIA = {
    "requires": ["nvidia-variant-provider>=0.0.1,<1"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
}
DOCUMENT = release_document(
    {
        "null": {},
        "cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}},
        "cu130": {"nvidia": {"cuda_version_lower_bound": ["13.0"]}},
    },
    providers={"nvidia": NVIDIA},
)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a release with CUDA builds, and a newer one that fits nowhere."""
    folder = tmp_path / "index"
    build_release(
        folder, "torch", "2.8.0", DOCUMENT, (None, "null", "cu129", "cu130"), requires=["plain"]
    )
    build_wheel(folder, "torch", "2.9.0", label="cu130", document=DOCUMENT)
    build_wheel(folder, "plain", "1.0")
    build_wheel(folder, "plain", "2.0rc1")
    with RecordingIndex(folder) as server:
        yield server


class Machine:
    """Explanations for a machine with a given driver."""

    def __init__(self, run: Runner, index: RecordingIndex, folder: Path) -> None:
        self._run = run
        self.index = index
        self._folder = folder

    def explain(self, driver: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Explain for a driver; empty: no driver."""
        host = self._folder / "host.toml"
        supported = {"12.9": ["12.9", "12.8"], "12.4": ["12.4", "12.3"], "": []}[driver]
        host.write_text(
            '[metadata]\nversion = "0.1"\n[[provider]]\nnamespace = "nvidia"\n'
            f"[provider.properties]\ncuda_version_lower_bound = {json.dumps(supported)}\n"
        )
        sources = ["-i", self.index.url, "--no-cache-dir"]
        return self._run("explain", *sources, "--for", host, *words, code=code)


@pytest.fixture
def machine(run: Runner, index: RecordingIndex, tmp_path: Path) -> Machine:
    """Return a machine of the index."""
    return Machine(run, index, tmp_path)


def test_chosen_and_rejected_variants(machine: Machine, tmp_path: Path) -> None:
    """The chosen variant has its properties, each other one the reason of its rejection."""
    result = machine.explain("12.9", "torch")
    title, source, properties, *rows = result.out.splitlines()
    assert title == f"torch 2.8.0 for {tmp_path}/host.toml: torch-2.8.0-py3-none-any-cu129.whl"
    assert source == f"  from        {machine.index.url}"
    assert properties == "  properties  nvidia :: cuda_version_lower_bound :: 12.9"
    assert [row.split(None, 2)[:2] for row in rows if not row.startswith("   ")] == [
        ["chosen", "cu129"],
        ["compatible", "null"],
        ["compatible", "plain"],
        ["rejected", "cu130"],
    ]
    assert "needs CUDA driver >= 13.0" in result.out
    assert "12.9" in result.out
    assert "warning" not in result.err


def test_skipped_release(machine: Machine) -> None:
    """A newer release that does not fit is a note, with the reason."""
    stderr = machine.explain("12.9", "torch").err
    (note,) = [line for line in stderr.splitlines() if "torch 2.9.0 is passed over" in line]
    assert "needs CUDA driver >= 13.0" in note


def test_idle_gpu(machine: Machine) -> None:
    """A build that leaves the GPU idle causes a warning, unless -q is given."""
    result = machine.explain("12.4", "torch")
    assert "chosen      null" in result.out
    (warning,) = [line for line in result.err.splitlines() if line.startswith("warning: ")]
    assert "nvidia" in warning
    assert "12.4" in warning
    quiet = machine.explain("12.4", "torch", "-q")
    assert (quiet.out, quiet.err) == (result.out, "")
    assert "warning" not in machine.explain("", "torch").err


def test_several_projects(machine: Machine) -> None:
    """Several projects are explained in order, separated by an empty line."""
    result = machine.explain("", "plain", "torch")
    first, second = result.out.split("\n\n")
    assert first.startswith("plain 1.0 for ")
    assert second.startswith("torch 2.8.0 for ")


def test_builds_that_do_not_agree(run: Runner, index: RecordingIndex, tmp_path: Path) -> None:
    """Best builds that install would not combine cause a warning."""
    document = release_document(
        {"cu12": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}}}, providers={"nvidia": NVIDIA}
    )
    wheel = build_wheel(tmp_path / "given", "flash", "1.0", label="cu12", document=document)
    words = ("-i", index.url, "--no-cache-dir", "--for", "cuda-13.0-sm90", "torch==2.8.0", wheel)
    warning = (
        "warning: install would not take these builds together (CUDA 12: flash; CUDA 13: torch); "
        "--with-deps shows what it takes"
    )
    assert warning in run("explain", *words).err
    result = run("explain", *words, "--with-deps")
    assert warning not in result.err
    assert result.out.startswith("CUDA 12 for all, because flash 1.0 has only builds for CUDA 12")
    assert warning not in run("explain", *words, "--allow-mixed", "cuda").err


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["plain", "--pre"], "plain 2.0rc1 for "),
        (["plain>1"], "plain 2.0rc1 for "),
        (["plain", "-c", "{here}/limits.txt"], "plain 0.9 for "),
        (["{here}/given/plain-0.5-py3-none-any.whl"], "plain 0.5 for "),
        (["plain @ file://{here}/given/plain-0.5-py3-none-any.whl"], "plain 0.5 for "),
    ],
)
def test_selection_options(words: list[str], title: str, machine: Machine, tmp_path: Path) -> None:
    """Constraints, pre-releases and local wheels apply as for install."""
    build_wheel(tmp_path / "given", "plain", "0.5")
    build_wheel(tmp_path / "index", "plain", "0.9")
    (tmp_path / "limits.txt").write_text("plain<1\n")
    result = machine.explain("", *(word.replace("{here}", str(tmp_path)) for word in words))
    assert result.out.startswith(title)


def test_with_dependencies(machine: Machine) -> None:
    """With --with-deps dependencies with variants are explained too."""
    out = machine.explain("12.9", "torch", "--with-deps").out
    assert out.startswith("torch 2.8.0 for ")
    assert "plain" not in [line.split()[0] for line in out.splitlines() if line[:1].isalpha()]


def test_no_compatible_wheel(machine: Machine) -> None:
    """The reasons are shown, with exit code 3."""
    result = machine.explain("12.9", "torch==2.9.0", code=3)
    assert result.out.startswith("torch 2.9.0: nothing fits ")
    assert "needs CUDA driver >= 13.0" in result.out


def test_unknown_label(machine: Machine) -> None:
    """F-91: an unknown label is the same error as for ``install``, with the known labels."""
    result = machine.explain("12.9", "torch", "--label", "torch=nope", "--json", code=3)
    assert result.error["code"] == "unknown-label"
    assert "cu129" in result.error["note"]


def test_unmet_required_property(machine: Machine) -> None:
    """F-91: A required property that no variant has is refused, as by install."""
    result = machine.explain("12.9", "plain", "--require", "nvidia")
    assert "nvidia is required, but no package has a variant with it" in result.err
    machine.explain("12.9", "plain", "--require", "nvidia", "--with-deps", code=3)
    machine.explain("12.9", "torch", "--require", "nvidia", "--with-deps")
    # An older release is no way round it either.
    machine.explain("", "torch", "--require", "nvidia", code=3)
