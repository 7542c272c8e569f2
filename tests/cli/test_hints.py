"""The hints of the error reference, played: the error, what it advises, and that this helps."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner, Said
from projects.writing import write_project, write_sdist

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.error_codes import CODES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
ADVICE = dict(
    re.findall(r"^\| `([\w-]+)` \| \d+ \| .* \| (.*) \|$", REFERENCE.read_text(), re.MULTILINE)
)
"""What the last column of the reference advises, by code."""
EXIT_CODES = {str(code): row.exit_code for code, row in CODES.items()}
BLAS = {"blas": {"library": ["mkl", "openblas"]}}
FAST = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}, "open": {"blas": {"library": ["openblas"]}}},
    static=BLAS,
)


class Scene:
    """A folder of wheels, and a place to install them into."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self.run = run
        self.folder = folder
        self.wheels = folder / "wheels"
        self.target = folder / "target"
        build_wheel(self.wheels, "some", "1.0")
        build_wheel(self.wheels, "other", "1.0", requires=("some",))
        for label in ("mkl", "open"):
            build_wheel(self.wheels, "fast", "1.0", label=label, document=FAST)
        self.document = self.wheels / "fast-1.0-variants.json"
        self.document.write_text(json.dumps(FAST))

    def install(self, *words: str | Path, code: int = 0) -> Said:
        """Install from the folder into the place."""
        return self.run("install", *self.sources(), "--target", self.target, *words, code=code)

    def sources(self) -> list[str | Path]:
        """Return the options that name the folder."""
        return ["--no-index", "-f", self.wheels]

    def fails(self, reference: str, *words: str | Path, advised: str) -> Mapping[str, Any]:
        """Run a command that fails, and see that the hint or the reference advises something."""
        said = self.run(*words, "--json", code=EXIT_CODES[reference])
        error = said.error
        assert error["code"] == reference
        hints = f"{error['hint']} {ADVICE[reference]}"
        assert advised in hints, hints
        return error

    def refuses(self, reference: str, *words: str | Path, advised: str) -> Mapping[str, Any]:
        """Run an installation that fails, as `fails`."""
        own = (*self.sources(), "--target", self.target)
        return self.fails(reference, "install", *own, *words, advised=advised)


@pytest.fixture
def scene(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Give a scene in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return Scene(run, tmp_path)


def usage(scene: Scene) -> None:
    """Try the option that was meant."""
    scene.refuses("usage", "--dry-rnu", "some", advised="'--dry-run'")
    scene.install("--dry-run", "some")


def invalid_label(scene: Scene) -> None:
    """Try a correct label."""
    scene.refuses("invalid-label", "--label", "fast=MKL!", "fast", advised="correct it")
    scene.install("--label", "fast=mkl", "fast")


def invalid_requirement(scene: Scene) -> None:
    """Try a correct requirement."""
    scene.refuses("invalid-requirement", "some ==", advised="correct it")
    scene.install("some==1.0")


def unknown_host(scene: Scene) -> None:
    """Try the list of hosts, and one of them."""
    scene.refuses("unknown-host", "--for", "nowhere", "some", advised="`wheelfit host list`")
    assert "linux-x86_64" in scene.run("host", "list").out
    scene.install("--for", "linux-x86_64", "some")


def invalid_preset(scene: Scene) -> None:
    """Try without one of the parts that contradict each other."""
    scene.refuses("invalid-preset", "--for", "macos-arm64+cuda-12.8", "some", advised="leave one")
    scene.install("--for", "macos-arm64", "some")


def invalid_host_file(scene: Scene) -> None:
    """Try a file that ``probe`` writes."""
    path = scene.folder / "host.toml"
    path.write_text("nothing\n")
    scene.refuses("invalid-host-file", "--for", path, "some", advised="`wheelfit probe -o`")
    scene.run("probe", "-o", path)
    scene.install("--for", path, "some")


def unknown_shorthand(scene: Scene) -> None:
    """Try one of those listed."""
    scene.refuses("unknown-shorthand", "--variant", "cdua", "some", advised="cuda")
    scene.install("--variant", "cuda", "some")


def file_problem(scene: Scene) -> None:
    """Try a path that exists."""
    path = scene.folder / "requirements.txt"
    scene.refuses("file-problem", "-r", path, advised="check the path")
    path.write_text("some\n")
    scene.install("-r", path)


def not_installed(scene: Scene) -> None:
    """Try the list of what is installed."""
    scene.install("some")
    place = ("--target", scene.target)
    scene.fails("not-installed", "uninstall", *place, "smoe", advised="`wheelfit list`")
    assert "some" in scene.run("list", *place).out
    scene.run("uninstall", *place, "some")


def unusable_interpreter(scene: Scene) -> None:
    """Try another interpreter."""
    words = ("list", "--python", "/bin/false")
    scene.fails("unusable-interpreter", *words, advised="`--python`")
    scene.run("list", "--python", sys.executable)


def no_environment(scene: Scene) -> None:
    """Try an environment of one's own."""
    scene.fails("no-environment", "list", advised="`wheelfit venv`")
    scene.run("venv")
    scene.run("list")


def no_solution(scene: Scene) -> None:
    """Try without one of the requirements in the proof."""
    scene.refuses("no-solution", "other", "some>=2", advised="loosen one of the requirements")
    scene.install("other", "some")


def project_not_found(scene: Scene) -> None:
    """Try another spelling."""
    scene.refuses("project-not-found", "smoe", advised="check the spelling")
    scene.install("some")


def no_compatible_wheel(scene: Scene) -> None:
    """Try another version."""
    build_wheel(scene.wheels, "some", "2.0", tag="cp311-cp311-win32")
    scene.refuses("no-compatible-wheel", "some==2.0", advised="ask for another version")
    scene.install("some")


def unknown_label(scene: Scene) -> None:
    """Try a label that the note lists."""
    error = scene.refuses("unknown-label", "--label", "fast=mlk", "fast", advised="those listed")
    assert "mkl" in error["note"]
    scene.install("--label", "fast=mkl", "fast")


def source_off(scene: Scene) -> None:
    """Try an older release with a wheel."""
    project = write_project(scene.folder / "project", "some", "2.0")
    write_sdist(scene.wheels, project, "some", "2.0")
    scene.refuses("source-off", "some", advised="--only-binary some")
    scene.install("--only-binary", "some", "some")


def hash_mismatch(scene: Scene) -> None:
    """Try the right hash."""
    path = scene.folder / "requirements.txt"
    path.write_text(f"some==1.0 --hash=sha256:{'0' * 64}\n")
    scene.refuses("hash-mismatch", "-r", path, advised="correct the `--hash`")
    (wheel,) = scene.wheels.glob("some-1.0-*.whl")
    path.write_text(f"some==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    scene.install("-r", path)


def file_conflict(scene: Scene) -> None:
    """Try without the other package."""
    build_wheel(scene.wheels, "twin", "1.0", files={"some/__init__.py": "twin"})
    build_wheel(scene.wheels, "first", "1.0", files={"some/__init__.py": "first"})
    scene.install("first")
    scene.refuses("file-conflict", "twin", advised="uninstall one of the two")
    scene.run("uninstall", "--target", scene.target, "first")
    scene.install("twin")


def startup_file(scene: Scene) -> None:
    """Try with a warning, for a package that is trusted."""
    build_wheel(scene.wheels, "starter", "1.0", files={"starter.pth": "import os\n"})
    words = ("--startup-files", "deny", "starter")
    scene.refuses("startup-file", *words, advised="`--startup-files warn`")
    scene.install("--startup-files", "warn", "starter")


def variant_change(scene: Scene) -> None:
    """Try with consent, by either option."""
    scene.install("--label", "fast=open", "fast")
    build_wheel(scene.wheels, "wants", "1.0", requires=("fast>1",))
    document = release_document({"mkl": {"blas": {"library": ["mkl"]}}}, static=BLAS)
    build_wheel(scene.wheels, "fast", "2.0", label="mkl", document=document)
    (scene.wheels / "fast-2.0-variants.json").write_text(json.dumps(document))
    scene.refuses("variant-change", "wants", advised="--allow-variant-change")
    scene.install("--allow-variant-change", "wants")


def too_large(scene: Scene) -> None:
    """Try with more."""
    with RecordingIndex(scene.wheels) as index:
        words = ("install", "-i", index.url, "--no-cache-dir", "--target", scene.target, "some")
        scene.fails("too-large", *words, "--max-download", "10", advised="allow more")
        scene.run(*words, "--max-download", "1MB")


def bad_metadata(scene: Scene) -> None:
    """Try without ``--strict`` the rest is used."""
    scene.document.write_text("{")
    build_wheel(scene.wheels, "fast", "1.0")
    scene.refuses("bad-metadata", "--strict", "fast", advised="without `--strict`")
    scene.install("fast")


def lock_outdated(scene: Scene) -> None:
    """Try the same command without ``--check``."""
    words = ("lock", *scene.sources(), "some", "--python-version", "3.12")
    scene.fails("lock-outdated", *words, "--check", advised="without --check")
    scene.run(*words)
    scene.run(*words, "--check")


def invalid_lock(scene: Scene) -> None:
    """Try a new lock."""
    path = scene.folder / "pylock.toml"
    path.write_text("x = 1\n")
    words = ("lock", *scene.sources(), "some")
    scene.fails("invalid-lock", *words, advised="delete it to lock anew")
    path.unlink()
    scene.run(*words)
    scene.run("sync", *scene.sources(), "--target", scene.target)


PLAYS: Mapping[str, Callable[[Scene], None]] = {
    play.__name__.replace("_", "-"): play
    for play in (
        usage, invalid_label, invalid_requirement, unknown_host, invalid_preset,
        invalid_host_file, unknown_shorthand, file_problem, not_installed, unusable_interpreter,
        no_environment, no_solution, project_not_found, no_compatible_wheel, unknown_label,
        source_off, hash_mismatch, file_conflict, startup_file, variant_change, too_large,
        bad_metadata, lock_outdated, invalid_lock,
    )
}  # fmt: skip
_PUBLISHER = "the remedy is with whoever published it; no command of this user helps"
_OPERATOR = "the remedy is on the server or the network"
_HARDWARE = "needs a driver, a GPU or a library of a vendor"
_ELSEWHERE = "not played yet: it needs the setting of the tests of its own command"
NOT_PLAYED: Mapping[str, str] = {
    **dict.fromkeys(
        ("invalid-document", "unsupported-schema", "inconsistent-documents", "invalid-wheel",
         "invalid-source", "metadata-disagreement", "attestation", "integrity"),
        _PUBLISHER,
    ),
    **dict.fromkeys(
        ("network", "unreachable", "unexpected-status", "invalid-page", "checkout-failed",
         "too-costly", "storage-unavailable", "upload-refused"),
        _OPERATOR,
    ),
    **dict.fromkeys(
        ("no-accelerator", "driver-too-old", "another-library-loaded", "library-not-loadable",
         "no-implementation", "no-case-fits", "not-in-store", "store-unavailable"),
        _HARDWARE,
    ),
    **dict.fromkeys(
        ("user-error", "invalid-property", "invalid-filename", "invalid-marker", "invalid-project",
         "invalid-cases", "ambiguous-cases", "invalid-bridge", "invalid-configuration",
         "link-in-the-way", "not-removable", "build-failed", "lost-optimisation", "needs-extra",
         "no-fit", "no-consistent-set", "no-compatible-release", "damaged-bundle",
         "environment-unavailable", "environment-busy", "environment-read-only", "unfit-workers",
         "worker-lost", "not-recoverable", "refused", "externally-managed", "no-consent",
         "own-requirement", "not-a-dependency", "too-new", "error", "unusable-policy",
         "broken-installation"),
        _ELSEWHERE,
    ),
    **dict.fromkeys(
        ("work-failed", "interrupted", "terminated", "internal-error"),
        "no input of the user brings it about",
    ),
}  # fmt: skip
"""Codes whose hint is not played here, each with the reason."""


@pytest.mark.parametrize("code", PLAYS)
def test_the_hint_helps(code: str, scene: Scene) -> None:
    """The error comes, its hint or the reference advises something, and that helps."""
    PLAYS[code](scene)


def test_every_code_is_played_or_has_a_reason() -> None:
    """No code is forgotten, and none is both."""
    assert sorted([*PLAYS, *NOT_PLAYED]) == sorted(CODES)
