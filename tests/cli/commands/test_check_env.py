"""``wheelfit check-env``, and the exchange of what does not fit any more."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.running import CommandResult, Runner, tree
from jsonschema import Draft202012Validator

from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.testing.worlds import NVIDIA

SetDriver = Callable[..., None]
SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs/reference/schemas/check-env.json").read_text()
)
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


class Place:
    """Install into one folder and judge it."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.wheels = folder / "wheels"
        self.folder = folder / "place"

    def add(self, name: str, version: str, *labels: str | None, requires: str = "") -> None:
        """Add a release with builds for CUDA."""
        for label in labels:
            document = DOCUMENT if label else None
            needs = [requires] if requires else []
            build_wheel(self.wheels, name, version, label=label, document=document, requires=needs)
        if any(labels):
            (self.wheels / f"{name}-{version}-variants.json").write_text(json.dumps(DOCUMENT))

    def add_cuda(self, name: str, version: str, **labels: str) -> None:
        """Add a release whose labels stand for one CUDA version each."""
        variants = {
            label: {"nvidia": {"cuda_version_lower_bound": [cuda]}}
            for label, cuda in labels.items()
        }
        document = release_document(variants, providers={"nvidia": NVIDIA})
        for label in labels:
            build_wheel(self.wheels, name, version, label=label, document=document)
        (self.wheels / f"{name}-{version}-variants.json").write_text(json.dumps(document))

    def install(self, host: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Install for a host."""
        place = ("--no-index", "-f", self.wheels, "--target", self.folder, "--for", host)
        return self._run("install", *place, *words, code=code)

    def check(self, host: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Judge for a host."""
        return self._run("check-env", "--target", self.folder, "--for", host, *words, code=code)

    def installed(self) -> dict[str, tuple[str, str | None]]:
        """Return version and label of what is there."""
        packages = self._run("list", "--target", self.folder, "--json").object["packages"]
        return {entry["name"]: (entry["version"], entry["label"]) for entry in packages}


@pytest.fixture
def place(run: Runner, tmp_path: Path) -> Place:
    """Offer a project with builds for three CUDA versions, and two that need it."""
    made = Place(run, tmp_path)
    made.add("torch", "2.8", "cu130", "cu128", "cu126", None)
    made.add("vision", "1.0", None, requires="torch")
    made.add("plain", "1.0", None)
    made.add("plain", "2.0", None)
    return made


def values(said: CommandResult) -> dict[str, Any]:
    """Return the object, held against its schema."""
    Draft202012Validator(SCHEMA).validate(said.object)
    return said.object


def test_all_fits(place: Place) -> None:
    """A variant that fits is not a finding, and --verbose names it."""
    place.install(CUDA_12, "torch")
    result = place.check(CUDA_12, "-v")
    assert result.out.splitlines() == ["  fits    torch 2.8 (cu128)", "nothing is wrong"]
    assert "1 of 1 installed variants fit cuda-12.8-sm90" in result.err
    (variant,) = values(place.check(CUDA_13, "--json"))["variants"]
    assert variant == {
        "name": "torch",
        "version": "2.8",
        "label": "cu128",
        "fits": True,
        "reason": None,
    }


def test_it_does_not_fit_any_more(place: Place) -> None:
    """F-96: reason and remedy, with the place that was asked for."""
    place.install(CUDA_12, "torch")
    before = tree(place.folder)
    result = place.check(CUDA_OLD, code=13)
    assert "error   unsupported-here (F-96)" in result.out
    command = f"wheelfit install --target {place.folder} --for {CUDA_OLD} --refit`; "
    assert command in result.out
    found = values(place.check(CUDA_OLD, "--json", code=13))
    (variant,) = found["variants"]
    assert variant["fits"] is False
    assert "cuda_version_lower_bound" in variant["reason"]
    assert found["summary"]["errors"] == 1
    assert tree(place.folder) == before


def test_what_nobody_can_be_asked_about(place: Place, run: Runner) -> None:
    """Of what only a plugin knows nothing is claimed."""
    document = release_document(
        {"a": {"acme": {"speed": ["fast"]}}},
        providers={"acme": {"requires": ["acme-provider"], "plugin-api": "acme:Plugin"}},
    )
    build_wheel(place.wheels, "odd", "1.0", label="a", document=document)
    host = place.folder.parent / "acme.toml"
    host.write_text(
        '[metadata]\nversion = "0.1"\n\n[[provider]]\nnamespace = "acme"\n'
        '[provider.properties]\nspeed = ["fast"]\n'
    )
    place.install(str(host), "odd")
    found = values(place.check(str(host), "--json"))
    assert [variant["fits"] for variant in found["variants"]] == [True]
    found = run("check-env", "--target", place.folder, "--json").object
    assert [variant["fits"] for variant in found["variants"]] == [None]
    assert [finding["code"] for finding in found["findings"]] == ["unchecked-variant"]


def test_a_record_without_its_label(place: Place) -> None:
    """Of a variant whose properties cannot be read nobody claims that it fits."""
    place.install(CUDA_12, "torch")
    (record,) = place.folder.glob("torch-*.dist-info/variant.json")
    record.write_text(record.read_text().replace('"12.8"', '"12.8 "'))
    found = values(place.check(CUDA_12, "--json"))
    assert [variant["fits"] for variant in found["variants"]] == [None]


def test_a_folder_that_is_not_there(run: Runner, tmp_path: Path) -> None:
    """A slip of the name is an error: of nothing it would be said that all fits."""
    for option in ("--target", "--prefix", "--root"):
        result = run("check-env", option, tmp_path / "slip", code=1)
        assert "the folder does not exist" in result.err


def test_needs_and_mixtures(place: Place) -> None:
    """They are warnings, which count with --strict."""
    blas = release_document(
        {
            "mkl": {"blas_lapack": {"provider": ["mkl"]}},
            "open": {"blas_lapack": {"provider": ["openblas"]}},
        },
        static={"blas_lapack": {"provider": ["mkl", "openblas"]}},
    )
    build_wheel(place.wheels, "one", "1.0", label="mkl", document=blas, requires=["torch"])
    build_wheel(place.wheels, "two", "1.0", label="open", document=blas)
    place.install(CPU, "--no-deps", "--allow-mixed", "blas", "one", "two")
    found = values(place.check(CPU, "--json"))
    assert [finding["code"] for finding in found["findings"]] == [
        "mixed-variants",
        "unmet-requirement",
    ]
    assert found["findings"][0]["message"] == "BLAS mkl: one; BLAS openblas: two"
    place.check(CPU, "--strict", code=13)


class TestRefit:
    """``install --refit``."""

    def test_exactly_what_does_not_fit(self, place: Place) -> None:
        """The same version, another build; what fits or is plain stays, however old."""
        place.install(CUDA_12, "vision", "plain==1.0")
        place.add("torch", "2.9", "cu128", "cu126")
        requested = next(place.folder.glob("torch-*.dist-info"), place.folder) / "REQUESTED"
        assert not requested.exists()
        result = place.install(CUDA_OLD, "--refit")
        assert "note: torch 2.8 cu128 -> cu126, because " in result.err
        assert result.out.startswith("installed torch 2.8 (cu126), replacing 2.8 (cu128): best fit")
        assert len(result.out.splitlines()) == 1
        assert place.installed()["plain"] == ("1.0", None)
        assert not requested.exists()
        result = place.install(CUDA_OLD, "--refit")
        assert result.out == "nothing to do: all installed variants that could be checked fit\n"

    def test_another_version_if_there_is_no_build(self, place: Place) -> None:
        """Where the version has no build that fits, not even a plain one, another one is taken."""
        place.add("jax", "1.0", "cu128")
        place.add("jax", "1.1", "cu126")
        place.install(CUDA_12, "jax==1.0")
        result = place.install(CUDA_OLD, "--refit")
        assert "installed jax 1.1 (cu126), replacing 1.0 (cu128)" in result.out

    def test_with_requirements(self, place: Place) -> None:
        """What they need is exchanged on the way; other misfits stay, and that is said."""
        place.add("jax", "1.0", "cu128", "cu126")
        place.install(CUDA_12, "torch", "jax")
        result = place.install(CUDA_OLD, "--refit", "vision")
        assert "installed torch 2.8 (cu126), replacing 2.8 (cu128)" in result.out
        assert "jax 1.0 (cu128) does not fit any more" in result.err
        assert place.installed()["jax"] == ("1.0", "cu128")

    def test_a_build_for_another_version(self, place: Place, run: Runner) -> None:
        """P-56: a build whose package was exchanged below it is a misfit too."""
        document = release_document(
            {
                "t28": {"abi_dependency": {"torch": ["2.8"]}},
                "t29": {"abi_dependency": {"torch": ["2.9"]}},
            },
            providers={"abi_dependency": {"builtin": "abi_dependency"}},
        )
        for label in ("t28", "t29"):
            build_wheel(
                place.wheels, "ext", "1.0", label=label, document=document, requires=["torch"]
            )
        place.install(CUDA_12, "torch==2.8", "ext")
        assert place.installed()["ext"] == ("1.0", "t28")
        place.add("torch", "2.9", "cu128")
        result = place.install(CUDA_12, "-U", "torch")
        assert "warning: ext 1.0 (t28) does not fit any more: is built for torch 2.8" in result.err
        assert "broken-by-dependency (P-56)" in place.check(CUDA_12, code=13).out
        result = place.install(CUDA_12, "--refit")
        assert "installed ext 1.0 (t29), replacing 1.0 (t28)" in result.out
        place.check(CUDA_12)
        result = run("uninstall", "--target", place.folder, "ext")
        place.install(CUDA_12, "torch==2.8", "ext")
        result = place.install(CUDA_12, "-U", "torch", "ext")
        assert "note: ext 1.0 t28 -> t29, because " in result.err  # told, and nothing refused


class TestConsent:
    """No installed variant is exchanged unasked."""

    def test_what_does_not_fit_is_not_exchanged_on_the_way(self, place: Place) -> None:
        """F-96: installing something that needs it is refused, and names --refit."""
        place.install(CUDA_12, "torch")
        before = tree(place.folder)
        for words in ((), ("--dry-run",)):
            result = place.install(CUDA_OLD, "vision", *words, code=7)
            assert "torch would be replaced by another build" in result.err
            assert (
                "torch 2.8 cu128 -> cu126, because cu128 needs CUDA driver >= 12.8, " in result.err
            )
            assert "hint: --refit exchanges variants that do not fit any more" in result.err
        assert tree(place.folder) == before

    def test_what_is_not_needed_stays(self, place: Place) -> None:
        """A misfit that nothing asked for needs is left alone, and named."""
        place.install(CUDA_12, "torch")
        result = place.install(CUDA_OLD, "plain")
        assert result.out == "installed plain 2.0\n"
        assert "torch 2.8 (cu128) does not fit any more" in result.err
        (misfit,) = place.install(CUDA_OLD, "plain", "--json").object["incompatible_variants"]
        assert (misfit["name"], misfit["label"]) == ("torch", "cu128")

    def test_an_upgrade_keeps_the_label(self, place: Place) -> None:
        """The newer release is taken in the installed build, though a better one would fit."""
        place.install(CUDA_12, "torch")
        place.add("torch", "2.9", "cu130", "cu128")
        result = place.install(CUDA_13, "-U", "torch")
        assert "installed torch 2.9 (cu128), replacing 2.8: cu128 is installed" in result.out
        assert "note: torch stays cu128, though cu130 would fit better" in result.err

    def test_an_upgrade_that_has_no_such_build(self, place: Place) -> None:
        """It is refused, with both ways to have it; -P and a plain dependency alike."""
        place.install(CUDA_12, "torch")
        place.add("torch", "2.9", "cu130")
        for words in (("-U", "torch"), ("-P", "torch", "vision"), ("torch>=2.9",)):
            result = place.install(CUDA_13, *words, code=7)
            assert (
                "torch 2.8 cu128 -> 2.9 cu130, because torch 2.9 has no build cu128" in result.err
            )
            assert "--allow-variant-change allows this; --label torch=cu130" in result.err
        result = place.install(CUDA_13, "-U", "torch", "--allow-variant-change")
        assert place.installed()["torch"] == ("2.9", "cu130")

    @pytest.mark.parametrize(
        "words",
        [
            ("--label", "torch=cu130", "torch"),
            ("--label", "torch=cu130", "vision"),
            ("--force-reinstall", "torch"),
            ("--forbid", "nvidia :: cuda_version_lower_bound :: 12.8", "torch"),
        ],
    )
    def test_asked_for(self, place: Place, words: tuple[str, ...]) -> None:
        """Who names the package, and says which build or that it shall be chosen anew, agrees."""
        place.install(CUDA_12, "torch")
        result = place.install(CUDA_13, *words)
        assert "note: torch 2.8 cu128 -> cu130, because " in result.err
        assert place.installed()["torch"] == ("2.8", "cu130")

    def test_to_a_plain_wheel(self, place: Place) -> None:
        """A wish about variants in general counts for what is named, not for what is needed."""
        place.install(CUDA_12, "torch")
        result = place.install(CUDA_12, "--no-variants", "vision", code=7)
        assert "torch 2.8 cu128 -> plain, because " in result.err
        place.install(CUDA_12, "--no-variants", "torch")
        assert place.installed()["torch"] == ("2.8", None)

    def test_from_a_plain_wheel(self, place: Place) -> None:
        """Nobody chose a plain wheel among builds, so a change to a variant is only told."""
        place.install(CPU, "torch")
        place.add("torch", "2.9", "cu130")
        report = place.install(CUDA_13, "-U", "torch", "--json").object
        (change,) = report["variant_changes"]
        assert (change["from"], change["to"], change["needs_consent"]) == (None, "cu130", False)

    @pytest.mark.parametrize("wish", ["--variant cpu", "--no-variants", "--forbid nvidia"])
    def test_from_a_plain_wheel_that_was_chosen(self, place: Place, wish: str) -> None:
        """Who ruled variants out when it was installed is asked before one comes in its place."""
        place.install(CUDA_13, *wish.split(" ", 1), "torch")
        place.add("torch", "2.9", "cu130", None)
        place.add("other", "1.0", None, requires="torch>=2.9")
        result = place.install(CUDA_13, "other", code=7)
        assert "torch 2.8 plain -> 2.9 cu130, because " in result.err
        assert f"{wish}, as when it was installed, keeps it plain" in result.err
        place.install(CUDA_13, *wish.split(" ", 1), "other")
        assert place.installed()["torch"] == ("2.9", None)
        place.install(CUDA_13, "--force-reinstall", "--label", "torch=cu130", "torch")
        assert place.installed()["torch"] == ("2.9", "cu130")

    @pytest.mark.parametrize("wish", ["--variant cpu", "--forbid nvidia"])
    def test_from_a_plain_wheel_to_what_was_not_ruled_out(self, place: Place, wish: str) -> None:
        """A wish against accelerators says nothing against a build for the processor."""
        place.install(CPU, *wish.split(), "plain==1.0")
        document = release_document(
            {"v2": {"x86_64": {"level": ["v2"]}}},
            providers={"x86_64": {"requires": ["x86-64-variant-provider<1"]}},
        )
        build_wheel(place.wheels, "plain", "3.0", label="v2", document=document)
        result = place.install(CPU, "-U", "plain")
        assert "note: plain 1.0 plain -> 3.0 v2" in result.err

    def test_the_same_properties_under_another_label(self, place: Place) -> None:
        """A label that was only renamed is told, and needs no consent."""
        place.install(CUDA_12, "torch==2.8")
        document = release_document(
            {"cuda12.8": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}}},
            providers={"nvidia": NVIDIA},
        )
        build_wheel(place.wheels, "torch", "2.9", label="cuda12.8", document=document)
        result = place.install(CUDA_12, "-U", "torch")
        assert "note: torch 2.8 cu128 -> 2.9 cuda12.8, because torch 2.9 has no" in result.err

    def test_the_installed_build_under_another_label(self, place: Place) -> None:
        """A newer release is taken in the build with the same properties, however it is called."""
        place.install(CUDA_13, "--label", "torch=cu128", "torch==2.8")
        place.add_cuda("torch", "2.9", new="13.0", old="12.8")
        result = place.install(CUDA_13, "-U", "torch")
        assert (
            "note: torch 2.8 cu128 -> 2.9 old, because torch 2.9 has no build cu128" in result.err
        )
        assert place.installed()["torch"] == ("2.9", "old")

    @pytest.mark.parametrize("words", [("-U", "jax"), ("-P", "jax", "user"), ("user>=2",)])
    def test_the_same_label_for_another_cuda(self, place: Place, words: tuple[str, ...]) -> None:
        """A label is only a name: what it stands for now needs consent where it is another CUDA."""
        place.add("user", "1.0", None, requires="jax")
        place.add("user", "2.0", None, requires="jax>=2")
        place.add_cuda("jax", "1.0", gpu="12.8")
        place.install(CUDA_13, "user==1.0")
        place.add_cuda("jax", "2.0", gpu="13.0")
        result = place.install(CUDA_13, *words, code=7)
        assert (
            "jax 1.0 gpu -> 2.0 gpu, because gpu of jax 2.0 is built for CUDA 13, "
            "and the installed one for CUDA 12"
        ) in result.err
        place.install(CUDA_13, *words, "--label", "jax=gpu")
        assert place.installed()["jax"] == ("2.0", "gpu")

    def test_the_same_label_of_what_cannot_be_read(self, place: Place) -> None:
        """Where the record says nothing but the label, the label is what is held on to."""
        place.add_cuda("jax", "1.0", gpu="12.8")
        place.install(CUDA_13, "jax")
        next(place.folder.glob("jax-*.dist-info/variant.json")).unlink()
        place.add_cuda("jax", "2.0", gpu="12.8", other="13.0")
        assert "->" not in place.install(CUDA_13, "-U", "jax").err
        assert place.installed()["jax"] == ("2.0", "gpu")

    def test_the_same_label_for_more_devices(self, place: Place) -> None:
        """What builds need not agree on may change below a label without a word."""
        place.add_cuda("jax", "1.0", gpu="12.6")
        place.install(CUDA_13, "jax")
        place.add_cuda("jax", "2.0", gpu="12.8", other="12.6")
        result = place.install(CUDA_13, "-U", "jax")
        assert "->" not in result.err
        assert place.installed()["jax"] == ("2.0", "gpu")

    def test_what_another_package_forces(self, place: Place) -> None:
        """What must agree may force an exchange; that is a reason, and no consent."""
        place.install(CUDA_12, "torch")
        place.add("jax", "1.0", "cu130")
        result = place.install(CUDA_13, "jax", code=7)
        assert (
            "torch 2.8 cu128 -> cu130, because cu128 is built for CUDA 12, this environment has "
            "CUDA 13 because of jax"
        ) in result.err
        place.install(CUDA_13, "jax", "--allow-variant-change")
        assert place.installed()["torch"] == ("2.8", "cu130")

    def test_a_given_wheel(self, place: Place) -> None:
        """The very file that was named is what was asked for."""
        place.install(CUDA_12, "torch")
        place.install(CUDA_13, place.wheels / "torch-2.8-py3-none-any-cu130.whl")
        assert place.installed()["torch"] == ("2.8", "cu130")

    def test_once_for_all(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        """The configuration can agree in general; the best build is then taken."""
        file = place.folder.parent / "wheelfit.toml"
        file.write_text("allow-variant-change = true\n")
        place.install(CUDA_12, "torch")
        place.add("torch", "2.9", "cu130", "cu128")
        monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(file))
        place.install(CUDA_13, "-U", "torch")
        assert place.installed()["torch"] == ("2.9", "cu130")


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="the fake driver is found as on Linux")
def test_a_driver_is_exchanged(
    run: Runner, tmp_path: Path, fake_driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-96: chosen on one driver, found out and exchanged on an older one, in an environment."""
    place = Place(run, tmp_path)
    place.add("torch", "2.8", "cu130", "cu128", "cu126", None)
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)

    def driver(cuda: str) -> None:
        environ = fake_driver.environ(cuda=cuda, devices=["9.0 NVIDIA H100"])
        for name, value in {**environ, "LD_LIBRARY_PATH": str(fake_driver.folder)}.items():
            monkeypatch.setenv(name, value)

    words = ("--no-index", "-f", place.wheels, "--python", environment)
    driver("12.8")
    assert "installed torch 2.8 (cu128)" in run("install", *words, "torch").out
    assert run("check-env", "--python", environment).out == "nothing is wrong\n"
    driver("12.6")
    run("check-env", "--python", environment, code=13)
    assert "installed torch 2.8 (cu126)" in run("install", *words, "--refit").out
    run("check-env", "--python", environment)
