"""What is installed, against itself and against the machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from doctor.patient import Patient
from msgspec.structs import replace
from packaging.tags import Tag

from wheelfit.checking.findings import Severity
from wheelfit.core.target import Target
from wheelfit.doctor.environment import examine_environment
from wheelfit.doctor.packages import tag_findings
from wheelfit.testing.wheels import release_document

Machine = Callable[..., dict[str, dict[str, list[str]]]]
CUDART12 = {"nvidia/cuda_runtime/lib/libcudart.so.12": b"12"}
CUDART13 = {"nvidia/cu13/lib/libcudart.so.13": b"13"}


def test_a_sound_environment(patient: Patient, nvidia: Machine) -> None:
    """Packages that go together, and fit, give no finding; shared empty files are no fault."""
    files = {"shared/__init__.py": b"", "nvidia/__init__.py": b""}
    patient.add("one", files={**files, "one/a.py": b"1"}, requires=["two>=1"])
    patient.add("two", "1.5", files={**files, "two/b.py": b"2"})
    patient.add("nvidia-cuda-runtime-cu12", "12.4.99", files={**files, **CUDART12})
    patient.add("torch", "2.6.0+cu124", requires=["nvidia-cuda-runtime-cu12==12.4.*"])
    assert patient.codes(nvidia("12.4", "9.0")) == []


class TestVariants:
    """Installed variants, and what became of their machine."""

    document = release_document(
        {"cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"], "sm_arch": ["90_real"]}}},
        providers={
            "nvidia": {
                "requires": ["nvidia-variant-provider>=0.0.1,<1"],
                "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
            }
        },
    )

    def test_fits_no_longer(self, patient: Patient, nvidia: Machine) -> None:
        """F-96: a variant that the driver does not support any more, with reason and repair."""
        patient.add("torch", "2.8.0", label="cu129", document=self.document)
        machine = nvidia("12.9", "9.0")
        assert patient.codes(machine) == []
        finding = patient.only(nvidia("12.4", "9.0"))
        assert finding.code == "unsupported-here"
        assert "torch 2.8.0 (cu129)" in finding.message
        assert "12.9" in finding.message
        assert finding.remedy.startswith("`wheelfit install --refit`;")

    def test_another_gpu(self, patient: Patient, nvidia: Machine) -> None:
        """P-83: code for another GPU than the one that is there."""
        patient.add("torch", "2.8.0", label="cu129", document=self.document)
        finding = patient.only(nvidia("12.9", "8.6"))
        assert finding.code == "unsupported-here"
        assert "sm_arch" in finding.message

    def test_built_for_another_version(self, patient: Patient) -> None:
        """P-56: the dependency that a build was made for was exchanged."""
        document = release_document(
            {"t28": {"abi": {"torch": ["2.8"]}}}, providers={"abi": {"builtin": "abi_dependency"}}
        )
        patient.add("xformers", "1.0", label="t28", document=document)
        patient.add("torch", "2.8.1")
        assert patient.codes() == []
        shutil.rmtree(patient.folder / "torch-2.8.1.dist-info")
        patient.add("torch", "2.9.0")
        assert patient.only().code == "broken-by-dependency"

    def test_uses_no_gpu(self, patient: Patient, nvidia: Machine) -> None:
        """A variant without GPU of a release that has others is told where there is a GPU."""
        document = {**self.document, "variants": {"null": {}}}
        patient.add("torch", "2.8.0", label="null", document=document)
        finding = patient.only(nvidia("12.9", "9.0"))
        assert finding.code == "idle-hardware"
        assert (
            "its variant null uses no accelerator of this machine, although its release has builds "
            "for nvidia" in finding.message
        )
        assert patient.codes(nvidia(None)) == []

    def test_nobody_to_ask(self, patient: Patient) -> None:
        """P-17: where nobody can be asked, that is said; it is no fault of the package."""
        document = release_document(
            {"x": {"odd": {"way": ["yes"]}}}, providers={"odd": {"requires": ["odd-provider"]}}
        )
        patient.add("thing", label="x", document=document)
        finding = patient.only()
        assert finding.code == "unchecked-variant"
        assert "odd" in finding.message


class TestFamilies:
    """Packages that do not go together."""

    def test_two_cuda_majors(self, patient: Patient) -> None:
        """P-92: two majors are a warning that names each package and by which sign it is known."""
        patient.add("torch", "2.8.0+cu128")
        patient.add("cupy-cuda13x", "13.6.0")
        patient.add("nvidia-cuda-runtime-cu12", "12.8.90", files=CUDART12)
        patient.add("nvidia-cuda-runtime", "13.0.96", files=CUDART13)
        finding = patient.only()
        assert (finding.code, finding.severity) == ("mixed-cuda", Severity.WARNING)
        assert "CUDA 12: torch 2.8.0+cu128 (its version ends with +cu128)" in finding.message
        assert "CUDA 13: cupy-cuda13x 13.6.0 (its name)" in finding.message
        assert "cupy-cuda13x" in finding.remedy or "torch" in finding.remedy

    def test_one_soname_of_two_majors(self, patient: Patient) -> None:
        """Libraries of one SONAME for two majors cannot be in one process: an error."""
        patient.add(
            "nvidia-cudnn-cu12", "9.10.2.21", files={"nvidia/cudnn/lib/libcudnn.so.9": b"a"}
        )
        patient.add("nvidia-cudnn-cu13", "9.13.0.50", files={"nvidia/x/lib/libcudnn.so.9": b"b"})
        finding = patient.only()
        assert (finding.code, finding.severity) == ("mixed-cuda", Severity.ERROR)
        assert "libcudnn.so.9 comes from nvidia-cudnn-cu12 9.10.2.21 and from" in finding.message

    @pytest.mark.parametrize(
        ("name", "version", "arguments"),
        [
            ("jax-cuda12-plugin", "0.8.0", {}),
            ("cudf-cu12", "25.10", {}),
            ("torch", "2.8.0", {"requires": ["nvidia-cuda-runtime-cu12==12.8.90"]}),
            ("torch", "2.8.0", {"requires": ["cuda-toolkit[cudart]==12.9.*"]}),
            ("thing", "1.0", {"files": {"thing.libs/libcudart-9335f6a2.so.12.1.105": b"x"}}),
            ("thing", "1.0", {"files": {"thing/libcufft.so.11": b"x"}}),
            ("cuda-bindings", "12.9.4", {}),
        ],
    )
    def test_signs(
        self, patient: Patient, name: str, version: str, arguments: dict[str, object]
    ) -> None:
        """Name, version, content and needs tell the CUDA major, in this order."""
        patient.add(name, version, **arguments)
        patient.add("cupy-cuda13x", "13.6.0")
        mixed = [finding for finding in patient.findings() if finding.code == "mixed-cuda"]
        assert f"CUDA 12: {name} {version}" in mixed[0].message

    def test_no_sign(self, patient: Patient) -> None:
        """A number that looks alike is none: cufft's 12 is CUDA 13, NCCL's 2 is of any."""
        patient.add("cupy-cuda13x", "13.6.0")
        patient.add("thing", files={"thing/libcufft.so.12": b"x", "thing/libnccl.so.2": b"y"})
        patient.add("cudatext", "1.0")
        assert patient.codes() == []

    def test_two_rocms(self, patient: Patient) -> None:
        """Two versions of ROCm do not go together."""
        patient.add("torch", "2.8.0+rocm6.4")
        patient.add("triton", "3.4.0+rocm7.0.2")
        finding = patient.only()
        assert finding.code == "mixed-rocm"
        assert finding.message == "ROCm 6.4: torch 2.8.0+rocm6.4; ROCm 7.0: triton 3.4.0+rocm7.0.2"

    def test_openmp(self, patient: Patient) -> None:
        """P-160: two OpenMP runtimes are a note if one is GNU's, else a warning."""
        patient.add("scikit", files={"scikit.libs/libgomp-a34b3233.so.1.0.0": b"g"})
        patient.add("mkl", files={"mkl/libiomp5.so": b"i"})
        assert patient.codes() == ["note mixed-openmp"]
        patient.add("other", files={"other/libomp.so": b"o"})
        assert patient.codes() == ["warning mixed-openmp"]

    def test_blas(self, patient: Patient) -> None:
        """P-160: copies of one maker's library are normal, those of two worth a note."""
        patient.add("numpy", files={"numpy.libs/libscipy_openblas64_-6bb31eeb.so": b"n"})
        patient.add("scipy", files={"scipy.libs/libscipy_openblas-68440149.so": b"s"})
        assert patient.codes() == []
        patient.add("mkl", files={"mkl/libmkl_rt.so.2": b"m"})
        assert patient.codes() == ["note several-blas"]


class TestHardware:
    """What is installed, and what the machine has."""

    def test_driver_too_old(self, patient: Patient, nvidia: Machine) -> None:
        """P-92: runtime 13 on a driver with CUDA 12; the remedy names the driver."""
        patient.add("nvidia-cuda-runtime", "13.0.96", files=CUDART13)
        finding = patient.only(nvidia("12.4", "9.0"))
        assert (finding.code, finding.severity) == ("driver-too-old", Severity.ERROR)
        assert "driver to release 580 or newer" in finding.remedy
        assert patient.codes(nvidia("13.0", "9.0")) == []
        assert patient.codes(nvidia("14.1", "9.0")) == []

    def test_gpu_too_old(self, patient: Patient, nvidia: Machine) -> None:
        """P-95: CUDA 13 makes no code for a V100, whatever its driver says."""
        patient.add("cupy-cuda13x", "13.6.0")
        finding = patient.only(nvidia("13.0", "7.0"))
        assert (finding.code, finding.severity) == ("gpu-too-old", Severity.ERROR)
        assert "7.5 and newer" in finding.message
        assert finding.remedy == "install the builds for CUDA 12"
        finding = patient.only(nvidia("13.0", "3.7"))
        assert finding.remedy == "install the builds for CUDA 11"
        finding = patient.only(nvidia("13.0", "3.0"))
        assert finding.remedy == "uninstall them: the GPU is too old for every known CUDA"

    def test_newer_than_driver(self, patient: Patient, nvidia: Machine) -> None:
        """P-91: within a major a newer toolkit may be refused where PTX is compiled: a note."""
        patient.add("torch", "2.8.0+cu129")
        assert patient.codes(nvidia("12.4", "9.0")) == ["note newer-than-driver"]
        assert patient.codes(nvidia("12.9", "9.0")) == []

    def test_gpu_builds_without_gpu(self, patient: Patient, nvidia: Machine) -> None:
        """Gigabytes for nothing: named together, with their size."""
        patient.add("torch", "2.8.0+cu128")
        large = {"nvidia/cublas/lib/libcublas.so.12": b"x" * 1_500_000}
        patient.add("nvidia-cublas-cu12", "12.8.4.1", files=large)
        finding = patient.only(nvidia(None))
        assert finding.code == "idle-build"
        assert (
            "torch 2.8.0+cu128 and nvidia-cublas-cu12 12.8.4.1, 1.5 MB for CUDA" in finding.message
        )
        patient.add("triton", "3.4.0+rocm6.4")
        assert patient.codes({"amd": {}}) == ["warning idle-build"]

    def test_variant_without_gpu(self, patient: Patient) -> None:
        """A variant that the machine does not support has the finding of variants alone."""
        endpoint = "amd_variant_provider.plugin:AMDVariantPlugin"
        provider = {"requires": ["amd-variant-provider>=0.0.2,<1"], "plugin-api": endpoint}
        document = release_document(
            {"rocm": {"amd": {"rocm_version": ["6.4"]}}}, providers={"amd": provider}
        )
        patient.add("torch", "2.8.0+rocm6.4", label="rocm", document=document)
        assert patient.codes({"amd": {}}) == ["error unsupported-here"]

    def test_cpu_build_beside_gpu(self, patient: Patient, nvidia: Machine) -> None:
        """A build for the CPU on a machine with a GPU, whoever made that."""
        patient.add("torch", "2.8.0+cpu")
        finding = patient.only(nvidia("12.4", "9.0"))
        assert finding.code == "idle-hardware"
        assert "its version ends with +cpu" in finding.message
        assert patient.only({"amd": {"gfx_arch": ["gfx942"]}}).code == "idle-hardware"
        assert patient.codes(nvidia("12.4")) == []  # a driver without GPU
        assert patient.codes(nvidia(None)) == []

    def test_nobody_looked(self, patient: Patient) -> None:
        """Where nothing is known of the hardware, nothing is said of it."""
        patient.add("torch", "2.8.0+cpu")
        patient.add("cupy-cuda13x", "13.6.0")
        assert patient.codes() == []


class TestFiles:
    """Files and the records of them."""

    def test_one_library_of_two_packages(self, patient: Patient) -> None:
        """Two packages own one library with different content; whose it is now is said."""
        path = "nvidia/nccl/lib/libnccl.so.2"
        patient.add("nvidia-nccl-cu12", "2.27.3", files={path: b"for 12"})
        patient.add("nvidia-nccl-cu13", "2.27.7", files={path: b"for 13!"})
        shared = [finding for finding in patient.findings() if finding.code == "shared-file"]
        assert [one.severity for one in shared] == [Severity.ERROR]
        assert shared[0].message == (
            "nvidia-nccl-cu12 2.27.3 and nvidia-nccl-cu13 2.27.7 both own "
            f"{path}; its content is that of nvidia-nccl-cu13 2.27.7"
        )
        assert "changed-file" not in {finding.code for finding in patient.findings(full=True)}

    def test_one_library_without_a_hash(self, patient: Patient) -> None:
        """A RECORD without a hash does not tell whose content the file has."""
        path = "lib/x.so"
        patient.add("a", files={path: b"content"})
        record = patient.add("b", files={path: b"content"}) / "RECORD"
        rows = record.read_text().splitlines()
        without_hash = [f"{path},," if row.startswith(f"{path},") else row for row in rows]
        record.write_text("\n".join(without_hash) + "\n")
        assert (
            patient.only().message
            == f"a 1.0 and b 1.0 both own {path}; its content is that of a 1.0"
        )
        (patient.folder / path).write_bytes(b"edited")
        assert patient.only().message == f"a 1.0 and b 1.0 both own {path}"

    def test_other_files_of_two_packages(self, patient: Patient) -> None:
        """Headers that differ are a warning, equal libraries a note, equal modules nothing."""
        patient.add("a", files={"inc/x.h": b"1", "inc/y.h": b"1", "m/z.py": b"same"})
        patient.add("b", files={"inc/x.h": b"22", "inc/y.h": b"22", "m/z.py": b"same"})
        finding = patient.only()
        assert (finding.code, finding.severity) == ("shared-file", Severity.WARNING)
        assert "both own inc/x.h and 1 more" in finding.message
        shutil.rmtree(patient.folder)
        patient.folder.mkdir()
        patient.add("a", files={"lib/x.so": b"1"})
        patient.add("b", files={"lib/x.so": b"1"})
        finding = patient.only()
        assert (finding.code, finding.severity) == ("shared-file", Severity.NOTE)
        assert "uninstalling one removes it from the other" in finding.message

    def test_names_like_libraries(self, patient: Patient) -> None:
        """A file with ``.so`` somewhere in its name is not a library."""
        patient.add("a", files={"inc/x.source.h": b"1"})
        patient.add("b", files={"inc/x.source.h": b"22"})
        assert patient.codes() == ["warning shared-file"]

    def test_certificates(self, patient: Patient) -> None:
        """Whoever adds an authority that a site trusts does so on purpose."""
        patient.add("certifi", files={"certifi/cacert.pem": b"public"})
        (patient.folder / "certifi/cacert.pem").write_bytes(b"public, and ours")
        assert patient.codes() == ["note changed-file"]

    def test_lost_and_changed(self, patient: Patient) -> None:
        """PEP 376: missing files are an error, files of another size a warning."""
        patient.add("pack", files={"pack/a.py": b"a", "pack/b.py": b"b", "pack/c.py": b"c"})
        (patient.folder / "pack/a.py").unlink()
        (patient.folder / "pack/b.py").write_bytes(b"longer")
        (patient.folder / "pack/c.py").write_bytes(b"x")
        assert patient.codes() == ["error lost-file", "warning changed-file"]
        lost, changed = sorted(patient.findings(full=True), key=lambda one: one.severity)
        assert lost.message == "pack 1.0: 1 of 6 files missing: pack/a.py"
        assert changed.message == "pack 1.0: 2 of 6 files not as installed: pack/b.py and pack/c.py"
        assert lost.remedy == "`wheelfit install --force-reinstall pack==1.0`"

    def test_bytecode_may_go(self, patient: Patient) -> None:
        """What installers write without a hash may be missing."""
        info = patient.add("pack")
        record = info / "RECORD"
        record.write_text(record.read_text() + "pack/__pycache__/__init__.cpython-311.pyc,,\n")
        assert patient.codes() == []

    def test_twice(self, patient: Patient) -> None:
        """Two dist-info folders of one project are an error, and told once."""
        patient.add("torch", "2.7.0")
        patient.add("torch", "2.8.0")
        finding = patient.only()
        assert finding.code == "duplicate-package"
        assert "2.7.0" in finding.message
        assert "2.8.0" in finding.message
        assert "torch-2.7.0.dist-info" in finding.remedy

    def test_interrupted(self, patient: Patient) -> None:
        """What a killed installation leaves behind is found, ours and pip's."""
        (patient.folder / ".wheelfit-change").mkdir()
        (patient.folder / "~orch-2.8.0.dist-info").mkdir()
        assert patient.codes() == ["warning interrupted-installation"] * 2

    def test_unreadable(self, patient: Patient) -> None:
        """Records that cannot be understood are findings, never an exception."""
        info = patient.add("one")
        (info / "variant.json").write_text("{")
        (info / "direct_url.json").write_text("[")
        (patient.add("two") / "METADATA").unlink()
        (patient.add("three") / "RECORD").write_bytes(b"\xff\n")
        (patient.add("four") / "RECORD").unlink()
        assert patient.codes() == ["warning unreadable-package"] * 5
        remedies = [finding.remedy for finding in patient.findings()]
        for name in ("two", "three", "four"):
            (remedy,) = [text for text in remedies if text.endswith(f"--replace-files {name}`")]
            assert f"delete the folder {name}-" in remedy

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is closed to root"
    )
    def test_closed(self, patient: Patient) -> None:
        """What this user may not read is not lost: installing it again would not help."""
        info = patient.add("one", files={"one/a.py": b"a"})
        other = patient.add("two")
        closed = [info.parent / "one", other]
        try:
            for folder in closed:
                folder.chmod(0)
            found = patient.findings()
            patient.folder.chmod(0)
            nothing = patient.findings()
        finally:
            for folder in (patient.folder, *closed):
                folder.chmod(0o755)
        assert [one.code for one in (*found, *nothing)] == ["unreadable-package"] * 3
        assert any("not readable by this user: one/" in one.message for one in found)
        assert any("chmod -R a+rX" in one.remedy for one in found)

    def test_records_of_other_package_managers(self, patient: Patient) -> None:
        """A system's packages have no RECORD, and nothing is wrong with that."""
        info = patient.add("one")
        (info / "RECORD").unlink()
        (info / "INSTALLER").write_text("debian\n")
        assert patient.codes() == []

    def test_rows_that_lead_elsewhere(self, patient: Patient) -> None:
        """Rows with ``..`` are resolved; what they name outside the environment is nobody's."""
        info = patient.add("tool")
        record = info / "RECORD"
        record.write_text(record.read_text() + "x/../bin/tool,sha256=x,4\n../bin/tool,sha256=x,4\n")
        assert patient.only().message == "tool 1.0: 1 of 6 files missing: bin/tool"
        (patient.folder / "bin").mkdir()
        (patient.folder / "bin/tool").write_text("tool")
        assert patient.codes() == []

    def test_other_package_managers_rewrite(self, patient: Patient) -> None:
        """Conda puts its prefix into files and keeps its own records: no comparison with RECORD."""
        info = patient.add("pack")
        (patient.folder / "pack/__init__.py").write_text("/opt/conda/bin/python")
        assert patient.codes() == ["warning changed-file"]
        (info / "INSTALLER").write_text("conda\n")
        assert patient.codes() == []

    @pytest.mark.network
    def test_real_packages(self, patient: Patient, pip: Path) -> None:
        """NVIDIA's headers for CUDA 11 and 12 are the same files, and pip says nothing of it."""
        wanted = ["nvidia-cuda-runtime-cu11==11.8.89", "nvidia-cuda-runtime-cu12==12.9.79"]
        words = ["install", "--quiet", "--target", str(patient.folder), "--only-binary=:all:"]
        words += ["--platform", "manylinux2014_x86_64", "--no-deps", *wanted]
        completed = subprocess.run([pip, *words], capture_output=True, text=True, check=False)
        if completed.returncode:
            pytest.skip(f"the wheels cannot be had: {completed.stderr}")
        assert patient.codes() == ["warning mixed-cuda", "warning shared-file"]
        (shared,) = (finding for finding in patient.findings() if finding.code == "shared-file")
        assert "nvidia-cuda-runtime-cu11 11.8.89 and nvidia-cuda-runtime-cu12" in shared.message
        assert "nvidia/cuda_runtime/include/" in shared.message

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
    def test_rows_that_never_end(self, patient: Patient) -> None:
        """Pipes and devices in RECORD neither block nor are read for ever."""
        for name in ("one", "two"):
            info = patient.add(name)
            record = info / "RECORD"
            rows = f"trap,sha256=x,{len(name)}\n/dev/zero,sha256={name},9\n"
            record.write_text(record.read_text() + rows)
        os.mkfifo(patient.folder / "trap")
        (shared,) = patient.findings(full=True)
        assert shared.code == "shared-file"

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
    @pytest.mark.parametrize(
        ("file", "found"),
        [
            ("RECORD", ["warning unreadable-package"]),
            ("METADATA", ["warning unreadable-package"]),
            ("INSTALLER", []),
            ("WHEEL", ["warning changed-file"]),
            ("variant.json", []),
            ("direct_url.json", []),
            ("wheelfit.json", []),
        ],
    )
    def test_records_that_never_end(self, file: str, found: list[str], patient: Patient) -> None:
        """A pipe or a device in place of a record neither blocks nor is read for ever."""
        for name, kind in (("one", "pipe"), ("two", "device")):
            info = patient.add(name)
            (info / file).unlink(missing_ok=True)
            if kind == "pipe":
                os.mkfifo(info / file)
            else:
                (info / file).symlink_to("/dev/zero")
        assert patient.codes() == found * 2


class TestTags:
    """Wheels for another interpreter or system."""

    @pytest.mark.parametrize(
        "tag", ["cp27-cp27m-win32", "py3-none-no_such_system", "cp99-abi3-any"]
    )
    def test_of_another(self, tag: str, patient: Patient) -> None:
        """What pip would not have installed here is told, with one command for all of it."""
        patient.add("one", "1.0", tag=tag)
        patient.add("two", "2.0", tag=tag)
        patient.add("three", "3.0")
        finding = patient.only()
        assert (finding.code, finding.severity) == ("wrong-platform", Severity.ERROR)
        assert f"cannot use one 1.0 (for {tag}) and two 2.0 (for {tag})" in finding.message
        assert finding.remedy == "wheelfit install --force-reinstall one==1.0 two==2.0"

    @pytest.mark.parametrize("installer", ["conda", "debian", ""])
    def test_of_other_package_managers(self, installer: str, patient: Patient) -> None:
        """Others build for themselves, and what they write as tags is theirs."""
        info = patient.add("one", "1.0", tag="cp27-cp27m-win32")
        (info / "INSTALLER").write_text(f"{installer}\n")
        assert patient.codes() == []

    @pytest.mark.parametrize("text", ["", "Tag:\n", "Tag: x\n", "Tag: py3-none-any\r\n"])
    def test_nothing_said(self, text: str, patient: Patient) -> None:
        """A WHEEL that names no other platform is no reason for an alarm."""
        info = patient.add("one")
        (info / "WHEEL").write_text(text)
        record = (info / "RECORD").read_text().splitlines(keepends=True)
        (info / "RECORD").write_text("".join(row for row in record if "/WHEEL," not in row))
        assert patient.codes() == []

    def test_plain_linux(self, patient: Patient) -> None:
        """A wheel for plain linux fits where a manylinux of its processor does, and only there."""
        patient.add("one", tag="py3-none-linux_riscv64")
        (package,) = examine_environment(patient.environment).packages
        environment = {"python_full_version": "3.12.1"}

        def found(platform: str) -> list[str]:
            target = Target.of("host", environment, [Tag("py3", "none", platform)])
            return [finding.code for finding in tag_findings([package], target, "env")]

        assert found("manylinux_2_28_riscv64") == found("linux_riscv64") == []
        assert found("manylinux_2_28_x86_64") == ["wrong-platform"]
        assert found("macosx_14_0_riscv64") == ["wrong-platform"]


class TestNeeds:
    """Needs that are not met."""

    def test_missing_and_wrong(self, patient: Patient) -> None:
        """Both are told in one finding with one command."""
        patient.add("app", requires=["gone>=2", "old>=2", "fine", "extra; extra == 'x'"])
        patient.add("old", "1.0")
        patient.add("fine", "1.0rc1")
        finding = patient.only()
        assert finding.code == "unmet-requirement"
        assert finding.message == (
            "app 1.0 needs gone>=2 (not installed) and old>=2 (1.0 is installed)"
        )
        assert finding.remedy == "wheelfit install 'gone>=2' 'old>=2'"

    @pytest.mark.network
    def test_like_pip(self, patient: Patient, pip: Path) -> None:
        """``pip check`` finds the same needs unmet, and no others."""
        patient.add("app", requires=["gone>=2", "old>=2", "fine", "pre>=2", "extra; extra == 'x'"])
        patient.add("old", "1.0", requires=["app==1.*", "fine!=1.0", "local==1.0"])
        patient.add("fine", "1.0", requires=["old<1; python_version < '3'", "Fine.Two"])
        patient.add("fine-two", "3", requires=["local===1.0", "local~=1.0"])
        patient.add("pre", "2.0rc1")
        patient.add("local", "1.0+cu128")
        stdout = subprocess.run(
            [pip, "check"],
            env={**os.environ, "PYTHONPATH": str(patient.folder)},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        theirs = set(re.findall(r"^(\S+) \S+ requires (\S+), which", stdout, re.MULTILINE))
        theirs |= set(re.findall(r"^(\S+) \S+ has requirement ([\w-]+)", stdout, re.MULTILINE))
        ours = {
            (finding.message.partition(" ")[0], name)
            for finding in patient.findings()
            if finding.code == "unmet-requirement"
            for name in re.findall(r"'([\w-]+)[<>=!~']", finding.remedy)
        }
        assert ours == theirs
        assert len(ours) > 3

    def test_other_platforms(self, patient: Patient) -> None:
        """Needs of other systems do not count."""
        patient.add("app", requires=["gone; sys_platform == 'no such'"])
        assert patient.codes() == []
        own = patient.environment.target
        other = replace(own, environment={**own.environment, "sys_platform": "no such"})
        package = examine_environment(patient.environment, other).packages[0]
        assert [need.name for need in package.requirements] == ["gone"]


def test_nothing_is_imported(patient: Patient) -> None:
    """Code of packages never runs."""
    patient.add(
        "evil", files={"evil/__init__.py": b"raise SystemExit(1)", "evil.pth": b"import evil"}
    )
    assert patient.codes() == []


def test_equal_environments_give_equal_findings(patient: Patient) -> None:
    """The report is deterministic."""
    for number in range(5):
        patient.add(f"app{number}", requires=["gone"])
    first = json.dumps([finding.to_mapping() for finding in patient.findings()])
    assert first == json.dumps([finding.to_mapping() for finding in patient.findings()])
