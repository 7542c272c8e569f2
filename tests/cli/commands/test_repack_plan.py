"""``wheel repack --plan``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli.running import Runner
from programs import run_program

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

LINUX = "manylinux_2_28_x86_64"


def wheel(
    folder: Path,
    name: str,
    version: str,
    tag: str = f"cp312-cp312-{LINUX}",
    *,
    module: str = "fast",
    requires: tuple[str, ...] = (),
    provides_extra: tuple[str, ...] = (),
) -> Path:
    """Build a wheel of a project of the family."""
    return build_wheel(
        folder,
        name,
        version,
        tag=tag,
        files={f"{module}/__init__.py": f"BUILD = {name!r}\n"},
        requires=requires,
        provides_extra=provides_extra,
        entry_points={"console_scripts": {"fast": f"{module}:main"}},
    )


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """Build two projects: 2.0 of one only, 1.1 of both, 1.0 as a different post-release."""
    folder = tmp_path / "family"
    for version in ("1.0", "1.1", "2.0"):
        wheel(folder, "fast", version, f"cp310-abi3-{LINUX}", requires=("numpy",))
    wheel(folder, "fast", "1.1", "cp310-abi3-macosx_11_0_arm64", requires=("numpy",))
    for version in ("1.0.post1", "1.1"):
        wheel(folder, "fast-cu12", version, requires=("numpy", "nvidia-cublas-cu12"))
    return folder


def test_plan_from_an_index(family: Path, run: Runner) -> None:
    """Joinable releases are listed from an index, with the reasons for the others."""
    with RecordingIndex(family) as index:
        words = ("--index-url", index.url, "--no-cache-dir")
        result = run("wheel", "repack", "--plan", "fast", "fast-cu12", *words)
    lines = result.out.splitlines()
    assert [line.split() for line in lines[2:5]] == [
        ["2.0", "1", "wheel", "-", "no:", "only", "fast", "has", "it"],
        ["1.1", "2", "wheels", "1", "wheel", "yes"],
        ["1.0.post1+joined", "1.0:", "1", "wheel", "1.0.post1:", "1", "wheel", "yes"],
    ]
    assert "  fast-cu12 1.1: label cu12, properties unknown" in result.out
    assert ["cp312", "linux_x86_64", "yes", "yes"] in [line.split() for line in lines]
    assert "dependencies differ: only fast-cu12 has nvidia-cublas-cu12 (F-95)" in lines
    assert "entry points" not in result.out
    assert "only fast has releases after 1.1: leave these out of the index" in result.out
    assert lines[-1].endswith("-o dist fast==1.1 fast-cu12==1.1 --index-file")


def test_invalid_name(family: Path, run: Runner) -> None:
    """The name of the joined project must be a valid one."""
    result = run("wheel", "repack", "--plan", family, "--name", "!!", code=2)
    assert "'!!' is not a valid name" in result.err


def test_version_without_wheels(family: Path, run: Runner) -> None:
    """A project whose required version has no wheels is named."""
    with RecordingIndex(family) as index:
        words = ("--index-url", index.url, "--no-cache-dir")
        result = run("wheel", "repack", "--plan", "fast==9", "fast-cu12", *words, code=3)
    assert "there are no wheels of fast==9" in result.err


def test_proposed_configuration(family: Path, tmp_path: Path, run: Runner) -> None:
    """B-44: the proposed file joins the releases once the properties are filled in."""
    plan = run("wheel", "repack", "--plan", family, "--json").object
    config = tmp_path / "repack.toml"
    needs = 'properties = ["nvidia :: cuda_version_lower_bound :: 12.0"]\n#'
    config.write_text(plan["config"].replace("# properties", needs))
    words = ("--config", config, "--provider", "nvidia", "--skip-unmatched", "--index-file")
    run("wheel", "repack", *words, "-o", tmp_path / "dist", family)
    assert sorted(path.name for path in (tmp_path / "dist").iterdir()) == [
        "fast-1.1-cp310-abi3-macosx_11_0_arm64.whl",
        f"fast-1.1-cp310-abi3-{LINUX}.whl",
        f"fast-1.1-cp312-cp312-{LINUX}-cu12.whl",
        "fast-1.1-variants.json",
    ]


def test_file_names_in_an_old_spelling(tmp_path: Path, run: Runner) -> None:
    """The proposed file has the names of the wheels, which need not be normalized."""
    for path in (wheel(tmp_path, "fast", "1.0"), wheel(tmp_path, "fast-cu12", "1.0")):
        path.rename(path.with_name(path.name.replace("fast", "Fast")))
    plan = run("wheel", "repack", "--plan", tmp_path, "--json").object
    assert 'match = "Fast-1.0-*"' in plan["config"]
    assert 'match = "Fast_cu12-1.0-*"' in plan["config"]


def test_different_versions(tmp_path: Path, run: Runner) -> None:
    """Named releases with different versions are joined with a local version."""
    first = wheel(tmp_path, "fast", "1.15.1")
    second = wheel(tmp_path, "fast-cu12", "1.14.1", provides_extra=("fix",))
    plan = run("wheel", "repack", "--plan", first, second, "--json").object
    (release,) = plan["releases"]
    assert release["version"] == "1.15.1+joined"
    assert 'version = "1.15.1+joined"' in plan["config"]
    assert [difference["what"] for difference in release["differences"]] == ["extras"]
    assert "it is joined from fast 1.15.1 and fast-cu12 1.14.1" in plan["notes"][0]


def test_unjoinable_projects(tmp_path: Path, run: Runner) -> None:
    """Other modules, equal labels and no common version are reasons, with exit code 9."""
    folder = tmp_path / "a"
    wheel(folder, "fast", "1.0")
    wheel(folder, "fast-cu12", "1.0", module="fast_cu12")
    plan = run("wheel", "repack", "--plan", folder, "--json", code=9).object
    assert "have no module in common (fast; fast_cu12)" in plan["releases"][0]["obstacles"][0]
    assert (plan["config"], plan["command"]) == (None, None)
    folder = tmp_path / "b"
    wheel(folder, "fast", "1.0")
    wheel(folder, "fast-cpu", "1.0")
    result = run("wheel", "repack", "--plan", folder, code=9)
    assert "no: fast and fast-cpu would all become plain" in result.out
    folder = tmp_path / "c"
    for version in ("11.1", "11.2"):
        wheel(folder, "blas-cu11", version)
        wheel(folder, "blas-cu12", version.replace("11.", "12."))
    result = run("wheel", "repack", "--plan", folder, code=9)
    assert "make each a release of blas with --name" in result.err


@pytest.mark.parametrize("names", [["fast"], ["fast", "slow"]])
def test_usage_errors(names: list[str], tmp_path: Path, run: Runner) -> None:
    """A single project, and projects without a common name, are usage errors."""
    for name in names:
        wheel(tmp_path / "dist", name, "1.0")
    run("wheel", "repack", "--plan", tmp_path / "dist", code=2)


@pytest.mark.network
@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "plain", "variant", "version"),
    [
        ("onnxruntime", "onnxruntime==1.26.0", "onnxruntime-gpu==1.26.0", "1.26.0"),
        ("faiss", "faiss-cpu==1.15.1", "faiss-gpu-cu12==1.14.1.post1", "1.15.1+joined"),
        ("cupy", "cupy-cuda12x==14.2.0", "cupy-cuda13x==14.2.0", "14.2.0"),
    ],
)
def test_published_families(
    name: str, plain: str, variant: str, version: str, registry: None, tmp_path: Path, run: Runner
) -> None:
    """Published families are planned, joined, served, and installed by pip."""
    del registry
    pip = [sys.executable, "-m", "pip"]
    wheels, dist = tmp_path / "wheels", tmp_path / "dist"
    linux = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64")
    target = [
        "--only-binary=:all:",
        "--python-version=3.12",
        *(f"--platform={one}" for one in linux),
    ]
    command = [*pip, "download", "--quiet", "--no-deps", *target, "--dest", str(wheels)]
    for requirement in (plain, variant):
        completed = run_program(*command, requirement, code=None)
        if completed.returncode:
            pytest.skip(
                f"{requirement} cannot be had from the package registry: {completed.stderr}"
            )
    plan = run("wheel", "repack", "--plan", wheels, "--json").object
    assert (plan["name"], plan["releases"][0]["version"]) == (name, version)
    config = plan["config"]
    if name == "cupy":  # it has no build without CUDA, so one of both is the plain one
        assert "no plain wheel" in plan["notes"][0]
        config = config.replace('variant = "cuda12"', 'metadata = "joined"')
    (tmp_path / "repack.toml").write_text(config)
    words = ("--config", tmp_path / "repack.toml", "--provider", "nvidia", "--index-file")
    run("wheel", "repack", *words, "-o", dist, wheels)
    assert len(list(dist.glob(f"{name}-{version}-*.whl"))) == 2
    site = tmp_path / "site-packages"
    with RecordingIndex(dist) as index:
        source = ["--index-url", index.url, "--no-deps", "--target", str(site)]
        subprocess.run([*pip, "install", "--quiet", *source, *target, name], check=True)
    assert (site / f"{name}-{version}.dist-info/METADATA").exists()
    assert not (site / f"{name}-{version}.dist-info/variant.json").exists()
