"""The replacement of installed variants: those that do not fit, and others with consent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner, tree

from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_release, build_wheel, release_document

SetDriver = Callable[..., None]
DOCUMENT = release_document(
    {
        "cu130": {"nvidia": {"cuda_version_lower_bound": ["13.0"]}},
        "cu128": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
        "cu126": {"nvidia": {"cuda_version_lower_bound": ["12.6"]}},
    },
    providers={"nvidia": NVIDIA},
)
CUDA_13, CUDA_12, CUDA_OLD, CPU = (
    "cuda-13.0-sm90",
    "cuda-12.8-sm90",
    "cuda-12.6-sm90",
    "cpu-x86_64-v3",
)


class TargetFolder:
    """Installations into one folder, and their checks."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.wheels = folder / "wheels"
        self.folder = folder / "place"

    def add(self, name: str, version: str, *labels: str | None, requires: str = "") -> None:
        """Write a release with builds for CUDA."""
        for label in labels:
            document = DOCUMENT if label else None
            needs = [requires] if requires else []
            build_wheel(self.wheels, name, version, label=label, document=document, requires=needs)
        if any(labels):
            (self.wheels / f"{name}-{version}-variants.json").write_text(json.dumps(DOCUMENT))

    def add_cuda(self, name: str, version: str, **labels: str) -> None:
        """Write a release with one label for each CUDA version."""
        variants = {
            label: {"nvidia": {"cuda_version_lower_bound": [cuda]}}
            for label, cuda in labels.items()
        }
        document = release_document(variants, providers={"nvidia": NVIDIA})
        build_release(self.wheels, name, version, document, labels)

    def install(self, host: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Install for a host."""
        target = ("--no-index", "-f", self.wheels, "--target", self.folder, "--for", host)
        return self._run("install", *target, *words, code=code)

    def check(self, host: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Diagnose the folder for a host."""
        return self._run("doctor", "--target", self.folder, "--for", host, *words, code=code)

    def installed(self) -> dict[str, tuple[str, str | None]]:
        """Return version and label of the installed packages."""
        packages = self._run.installed("--target", self.folder).items()
        return {name: (package["version"], package["label"]) for name, package in packages}


@pytest.fixture
def target(run: Runner, tmp_path: Path) -> TargetFolder:
    """Return a folder with an index of a project for three CUDA versions and its dependents."""
    made = TargetFolder(run, tmp_path)
    made.add("torch", "2.8", "cu130", "cu128", "cu126", None)
    made.add("vision", "1.0", None, requires="torch")
    made.add("plain", "1.0", None)
    made.add("plain", "2.0", None)
    return made


class TestRefit:
    """``install --refit``."""

    def test_refit_replaces_only_unfit_variants(self, target: TargetFolder) -> None:
        """Unfit variants get another build of the same version; other packages are unchanged."""
        target.install(CUDA_12, "vision", "plain==1.0")
        target.add("torch", "2.9", "cu128", "cu126")
        requested = next(target.folder.glob("torch-*.dist-info"), target.folder) / "REQUESTED"
        assert not requested.exists()
        result = target.install(CUDA_OLD, "--refit")
        assert "note: torch 2.8 cu128 -> cu126, because " in result.err
        assert result.out.startswith("installed torch 2.8 (cu126), replacing 2.8 (cu128): best fit")
        assert len(result.out.splitlines()) == 1
        assert target.installed()["plain"] == ("1.0", None)
        assert not requested.exists()
        result = target.install(CUDA_OLD, "--refit")
        assert result.out == "nothing to do: all installed variants that could be checked fit\n"

    def test_refit_to_another_version(self, target: TargetFolder) -> None:
        """Where the version has no build that fits, another version is installed."""
        target.add("jax", "1.0", "cu128")
        target.add("jax", "1.1", "cu126")
        target.install(CUDA_12, "jax==1.0")
        result = target.install(CUDA_OLD, "--refit")
        assert "installed jax 1.1 (cu126), replacing 1.0 (cu128)" in result.out

    def test_refit_with_requirements(self, target: TargetFolder) -> None:
        """Only dependencies of the requirements are replaced; other unfit variants are named."""
        target.add("jax", "1.0", "cu128", "cu126")
        target.install(CUDA_12, "torch", "jax")
        result = target.install(CUDA_OLD, "--refit", "vision")
        assert "installed torch 2.8 (cu126), replacing 2.8 (cu128)" in result.out
        assert "jax 1.0 (cu128) does not fit any more" in result.err
        assert target.installed()["jax"] == ("1.0", "cu128")

    def test_refit_after_a_dependency_changed(self, target: TargetFolder, run: Runner) -> None:
        """P-56: A build for another version of its dependency is unfit too."""
        document = release_document(
            {
                "t28": {"abi_dependency": {"torch": ["2.8"]}},
                "t29": {"abi_dependency": {"torch": ["2.9"]}},
            },
            providers={"abi_dependency": {"builtin": "abi_dependency"}},
        )
        for label in ("t28", "t29"):
            build_wheel(
                target.wheels, "ext", "1.0", label=label, document=document, requires=["torch"]
            )
        target.install(CUDA_12, "torch==2.8", "ext")
        assert target.installed()["ext"] == ("1.0", "t28")
        target.add("torch", "2.9", "cu128")
        result = target.install(CUDA_12, "-U", "torch")
        assert "warning: ext 1.0 (t28) does not fit any more: is built for torch 2.8" in result.err
        assert "broken-by-dependency (P-56)" in target.check(CUDA_12, code=13).out
        result = target.install(CUDA_12, "--refit")
        assert "installed ext 1.0 (t29), replacing 1.0 (t28)" in result.out
        target.check(CUDA_12)
        result = run("uninstall", "--target", target.folder, "ext")
        target.install(CUDA_12, "torch==2.8", "ext")
        result = target.install(CUDA_12, "-U", "torch", "ext")
        assert "note: ext 1.0 t28 -> t29, because " in result.err  # told, and nothing refused


class TestConsent:
    """Installed variants, which are replaced only with consent."""

    def test_unfit_dependency(self, target: TargetFolder) -> None:
        """F-96: replacing an unfit dependency is refused, with --refit in the hint."""
        target.install(CUDA_12, "torch")
        before = tree(target.folder)
        for words in ((), ("--dry-run",)):
            result = target.install(CUDA_OLD, "vision", *words, code=7)
            assert "torch would be replaced by another build" in result.err
            assert (
                "torch 2.8 cu128 -> cu126, because cu128 needs CUDA driver >= 12.8, " in result.err
            )
            assert "hint: --refit exchanges variants that do not fit any more" in result.err
        assert tree(target.folder) == before

    def test_unfit_package_that_is_not_needed(self, target: TargetFolder) -> None:
        """An unfit package that is not needed is unchanged, and named."""
        target.install(CUDA_12, "torch")
        result = target.install(CUDA_OLD, "plain")
        assert result.out == "installed plain 2.0\n"
        assert "torch 2.8 (cu128) does not fit any more" in result.err
        (misfit,) = target.install(CUDA_OLD, "plain", "--json").object["incompatible_variants"]
        assert (misfit["name"], misfit["label"]) == ("torch", "cu128")

    def test_upgrade_keeps_the_label(self, target: TargetFolder) -> None:
        """An upgrade keeps the installed label, though a better build would fit."""
        target.install(CUDA_12, "torch")
        target.add("torch", "2.9", "cu130", "cu128")
        result = target.install(CUDA_13, "-U", "torch")
        assert "installed torch 2.9 (cu128), replacing 2.8: cu128 is installed" in result.out
        assert "note: torch stays cu128, though cu130 would fit better" in result.err

    def test_upgrade_without_the_installed_label(self, target: TargetFolder) -> None:
        """An upgrade without the installed label is refused; the hint has both options."""
        target.install(CUDA_12, "torch")
        target.add("torch", "2.9", "cu130")
        for words in (("-U", "torch"), ("-P", "torch", "vision"), ("torch>=2.9",)):
            result = target.install(CUDA_13, *words, code=7)
            assert (
                "torch 2.8 cu128 -> 2.9 cu130, because torch 2.9 has no build cu128" in result.err
            )
            assert "--allow-variant-change allows this; --label torch=cu130" in result.err
        result = target.install(CUDA_13, "-U", "torch", "--allow-variant-change")
        assert target.installed()["torch"] == ("2.9", "cu130")

    @pytest.mark.parametrize(
        "words",
        [
            ("--label", "torch=cu130", "torch"),
            ("--label", "torch=cu130", "vision"),
            ("--force-reinstall", "torch"),
            ("--forbid", "nvidia :: cuda_version_lower_bound :: 12.8", "torch"),
        ],
    )
    def test_explicit_label(self, target: TargetFolder, words: tuple[str, ...]) -> None:
        """Options that name the label or a new selection for the package are consent."""
        target.install(CUDA_12, "torch")
        result = target.install(CUDA_13, *words)
        assert "note: torch 2.8 cu128 -> cu130, because " in result.err
        assert target.installed()["torch"] == ("2.8", "cu130")

    def test_no_variants_is_consent_for_named_packages(self, target: TargetFolder) -> None:
        """General preferences are consent for named packages, not for dependencies."""
        target.install(CUDA_12, "torch")
        result = target.install(CUDA_12, "--no-variants", "vision", code=7)
        assert "torch 2.8 cu128 -> plain, because " in result.err
        target.install(CUDA_12, "--no-variants", "torch")
        assert target.installed()["torch"] == ("2.8", None)

    def test_plain_wheel_by_default(self, target: TargetFolder) -> None:
        """A plain wheel without a preference is replaced by a variant with a note."""
        target.install(CPU, "torch")
        target.add("torch", "2.9", "cu130")
        report = target.install(CUDA_13, "-U", "torch", "--json").object
        (change,) = report["variant_changes"]
        assert (change["from"], change["to"], change["needs_consent"]) == (None, "cu130", False)

    @pytest.mark.parametrize("wish", ["--variant cpu", "--no-variants", "--forbid nvidia"])
    def test_plain_wheel_by_preference(self, target: TargetFolder, wish: str) -> None:
        """A plain wheel of a preference against variants needs consent."""
        target.install(CUDA_13, *wish.split(" ", 1), "torch")
        target.add("torch", "2.9", "cu130", None)
        target.add("other", "1.0", None, requires="torch>=2.9")
        result = target.install(CUDA_13, "other", code=7)
        assert "torch 2.8 plain -> 2.9 cu130, because " in result.err
        assert f"{wish} keeps the plain wheel, as when it was installed" in result.err
        target.install(CUDA_13, *wish.split(" ", 1), "other")
        assert target.installed()["torch"] == ("2.9", None)
        target.install(CUDA_13, "--force-reinstall", "--label", "torch=cu130", "torch")
        assert target.installed()["torch"] == ("2.9", "cu130")

    @pytest.mark.parametrize("wish", ["--variant cpu", "--forbid nvidia"])
    def test_preference_against_accelerators_only(self, target: TargetFolder, wish: str) -> None:
        """A preference against accelerators does not concern CPU variants."""
        target.install(CPU, *wish.split(), "plain==1.0")
        document = release_document(
            {"v2": {"x86_64": {"level": ["v2"]}}},
            providers={"x86_64": {"requires": ["x86-64-variant-provider<1"]}},
        )
        build_wheel(target.wheels, "plain", "3.0", label="v2", document=document)
        result = target.install(CPU, "-U", "plain")
        assert "note: plain 1.0 plain -> 3.0 v2" in result.err

    def test_renamed_label(self, target: TargetFolder) -> None:
        """A renamed label with the same properties causes a note and needs no consent."""
        target.install(CUDA_12, "torch==2.8")
        document = release_document(
            {"cuda12.8": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}}},
            providers={"nvidia": NVIDIA},
        )
        build_wheel(target.wheels, "torch", "2.9", label="cuda12.8", document=document)
        result = target.install(CUDA_12, "-U", "torch")
        assert "note: torch 2.8 cu128 -> 2.9 cuda12.8, because torch 2.9 has no" in result.err

    def test_upgrade_to_a_renamed_label(self, target: TargetFolder) -> None:
        """An upgrade keeps the properties, though their label was renamed."""
        target.install(CUDA_13, "--label", "torch=cu128", "torch==2.8")
        target.add_cuda("torch", "2.9", new="13.0", old="12.8")
        result = target.install(CUDA_13, "-U", "torch")
        assert (
            "note: torch 2.8 cu128 -> 2.9 old, because torch 2.9 has no build cu128" in result.err
        )
        assert target.installed()["torch"] == ("2.9", "old")

    @pytest.mark.parametrize("words", [("-U", "jax"), ("-P", "jax", "user"), ("user>=2",)])
    def test_same_label_for_another_cuda_version(
        self, target: TargetFolder, words: tuple[str, ...]
    ) -> None:
        """A label that now means another CUDA version needs consent."""
        target.add("user", "1.0", None, requires="jax")
        target.add("user", "2.0", None, requires="jax>=2")
        target.add_cuda("jax", "1.0", gpu="12.8")
        target.install(CUDA_13, "user==1.0")
        target.add_cuda("jax", "2.0", gpu="13.0")
        result = target.install(CUDA_13, *words, code=7)
        assert (
            "jax 1.0 gpu -> 2.0 gpu, because gpu of jax 2.0 is built for CUDA 13, "
            "and the installed one for CUDA 12"
        ) in result.err
        target.install(CUDA_13, *words, "--label", "jax=gpu")
        assert target.installed()["jax"] == ("2.0", "gpu")

    def test_same_label_without_a_document(self, target: TargetFolder) -> None:
        """Without a readable document the label alone is kept."""
        target.add_cuda("jax", "1.0", gpu="12.8")
        target.install(CUDA_13, "jax")
        next(target.folder.glob("jax-*.dist-info/variant.json")).unlink()
        target.add_cuda("jax", "2.0", gpu="12.8", other="13.0")
        assert "->" not in target.install(CUDA_13, "-U", "jax").err
        assert target.installed()["jax"] == ("2.0", "gpu")

    def test_same_label_with_a_compatible_change(self, target: TargetFolder) -> None:
        """Compatible changes of a label's properties need no consent."""
        target.add_cuda("jax", "1.0", gpu="12.6")
        target.install(CUDA_13, "jax")
        target.add_cuda("jax", "2.0", gpu="12.8", other="12.6")
        result = target.install(CUDA_13, "-U", "jax")
        assert "->" not in result.err
        assert target.installed()["jax"] == ("2.0", "gpu")

    def test_change_required_by_another_package(self, target: TargetFolder) -> None:
        """A change that another package requires is refused with that reason."""
        target.install(CUDA_12, "torch")
        target.add("jax", "1.0", "cu130")
        result = target.install(CUDA_13, "jax", code=7)
        assert (
            "torch 2.8 cu128 -> cu130, because cu128 is built for CUDA 12, this environment has "
            "CUDA 13 because of jax"
        ) in result.err
        target.install(CUDA_13, "jax", "--allow-variant-change")
        assert target.installed()["torch"] == ("2.8", "cu130")

    def test_wheel_file_is_consent(self, target: TargetFolder) -> None:
        """A wheel file on the command line is consent."""
        target.install(CUDA_12, "torch")
        target.install(CUDA_13, target.wheels / "torch-2.8-py3-none-any-cu130.whl")
        assert target.installed()["torch"] == ("2.8", "cu130")

    def test_consent_by_configuration(self, target: TargetFolder, user_settings: Path) -> None:
        """The configuration can give consent for all packages."""
        user_settings.write_text("allow-variant-change = true\n")
        target.install(CUDA_12, "torch")
        target.add("torch", "2.9", "cu130", "cu128")
        target.install(CUDA_13, "-U", "torch")
        assert target.installed()["torch"] == ("2.9", "cu130")


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="the fake driver is found as on Linux")
def test_downgraded_driver(
    run: Runner, tmp_path: Path, fake_driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-96: with an older driver the variant is reported as unfit and replaced."""
    target = TargetFolder(run, tmp_path)
    target.add("torch", "2.8", "cu130", "cu128", "cu126", None)
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)

    def driver(cuda: str) -> None:
        environ = fake_driver.environ(cuda=cuda, devices=["9.0 NVIDIA H100"])
        for name, value in {**environ, "LD_LIBRARY_PATH": str(fake_driver.folder)}.items():
            monkeypatch.setenv(name, value)

    words = ("--no-index", "-f", target.wheels, "--python", environment)
    driver("12.8")
    assert "installed torch 2.8 (cu128)" in run("install", *words, "torch").out
    run("doctor", "--python", environment)
    driver("12.6")
    run("doctor", "--python", environment, code=13)
    assert "installed torch 2.8 (cu126)" in run("install", *words, "--refit").out
    run("doctor", "--python", environment)
