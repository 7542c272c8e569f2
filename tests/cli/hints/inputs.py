"""Hints about command lines, projects and settings files."""

from __future__ import annotations

import sys
from functools import partial

from cli.hints.scene import Scene
from projects.writing import commit_all, write_project
from runtime.test_value_choice import V2, V3, supporting

from wheelfit_runtime.loader.value_choice import Cases, select

MKL = "blas :: library :: mkl"
BRIDGE = """
name = "acme"
source = "https://acme.example/install"
checked = 2026-11-22
says = "acme-gpu has the files of acme"

[[member]]
distribution = "acme-gpu"
label = "cuda12"
when.nvidia.cuda_version_lower_bound = ["12.0"]

[[member]]
distribution = "acme"
"""


def usage(scene: Scene) -> None:
    """Try the option that was meant."""
    scene.refuses("usage", "--dry-rnu", "some", advised="'--dry-run'")
    scene.install("--dry-run", "some")


def user_error(scene: Scene) -> None:
    """Try a wheel under the name that it was published with."""
    (wheel,) = scene.wheels.glob("some-*.whl")
    renamed = wheel.rename("some.whl")
    scene.refuses("user-error", scene.folder / renamed, advised="keep the name")
    scene.install(renamed.rename(wheel))


def invalid_label(scene: Scene) -> None:
    """Try a correct label."""
    scene.refuses("invalid-label", "--label", "fast=MKL!", "fast", advised="use lower-case")
    scene.install("--label", "fast=mkl", "fast")


def invalid_property(scene: Scene) -> None:
    """Try a property written with the letters that are named."""
    words = ("--require", "blas :: Library", "fast")
    scene.refuses("invalid-property", *words, advised="use lower-case")
    scene.install("--require", "blas :: library", "fast")


def invalid_filename(scene: Scene) -> None:
    """Try to make a variant wheel of a plain one first."""
    (wheel,) = scene.wheels.glob("some-*.whl")
    words = ("wheel", "relabel", wheel, "--label", "x")
    scene.fails("invalid-filename", *words, advised="`wheelfit wheel make`")
    own = ("--property", "acme :: fabric :: fast", "--provider", "acme=acme-provider")
    scene.run("wheel", "make", wheel, *own, "--label", "y")
    scene.run("wheel", "relabel", wheel.with_name(f"{wheel.stem}-y.whl"), "--label", "x")


def invalid_requirement(scene: Scene) -> None:
    """Try a correct requirement."""
    scene.refuses("invalid-requirement", "some ==", advised="^")
    scene.install("some==1.0")


def invalid_marker(scene: Scene) -> None:
    """Try a comparison with a version, where the caret stands."""
    scene.refuses("invalid-marker", "some; python_version ~= 'x'", advised="^")
    scene.install("some; python_version ~= '3.1'")


def invalid_project(scene: Scene) -> None:
    """Try what the project needs, by name."""
    text = '[project]\nname = "app"\nversion = "1"\ndynamic = ["dependencies"]\n'
    (scene.folder / "pyproject.toml").write_text(text)
    words = ("lock", *scene.sources())
    scene.fails("invalid-project", *words, advised="name its requirements")
    scene.run(*words, "some")


def invalid_document(scene: Scene) -> None:
    """Try with the provider that is missing."""
    (wheel,) = scene.wheels.glob("some-*.whl")
    words = ("wheel", "make", wheel, "--property", MKL, "--label", "x")
    scene.fails("invalid-document", *words, advised="--provider blas=REQUIREMENT")
    scene.run(*words, "--provider", "blas=blas-provider")


def invalid_lock(scene: Scene) -> None:
    """Try a new lock."""
    path = scene.folder / "pylock.toml"
    path.write_text("x = 1\n")
    words = ("lock", *scene.sources(), "some")
    scene.fails("invalid-lock", *words, advised="delete it to lock anew")
    path.unlink()
    scene.run(*words)
    scene.run("sync", *scene.sources(), "--target", scene.target)


def invalid_host_file(scene: Scene) -> None:
    """Try a file that ``probe`` writes."""
    path = scene.folder / "host.toml"
    path.write_text("nothing\n")
    scene.refuses("invalid-host-file", "--for", path, "some", advised="`wheelfit probe -o FILE`")
    scene.run("probe", "-o", path)
    scene.install("--for", path, "some")


def invalid_preset(scene: Scene) -> None:
    """Try the preset with one of the systems that are named."""
    scene.refuses(
        "invalid-preset", "--for", "macos-arm64+cuda-12.8", "some", advised="linux-x86_64"
    )
    scene.install("--for", "linux-x86_64+cuda-12.8", "some")


def unknown_host(scene: Scene) -> None:
    """Try the list of hosts, and one of them."""
    scene.refuses("unknown-host", "--for", "nowhere", "some", advised="`wheelfit host list`")
    assert "linux-x86_64" in scene.run("host", "list").out
    scene.install("--for", "linux-x86_64", "some")


def unknown_shorthand(scene: Scene) -> None:
    """Try one of those listed."""
    scene.refuses("unknown-shorthand", "--variant", "cdua", "some", advised="cuda")
    scene.install("--variant", "cuda", "some")


def invalid_cases(scene: Scene) -> None:
    """Try a table without the condition that it has twice."""
    double = {(V2, V3): 1, (V3, V2): 2}
    scene.raises("invalid-cases", lambda: Cases(double), advised="the same condition")
    Cases({(V2, V3): 1, V2: 2})


def ambiguous_cases(scene: Scene) -> None:
    """Try a case that names what all of them name."""
    table: dict[str | tuple[str, ...], str] = {V3: "v3", MKL: "mkl"}
    machine = supporting(V3, MKL)
    choice = partial(select, table, detections=machine)
    scene.raises("ambiguous-cases", choice, advised="add a case")
    assert select({**table, (V3, MKL): "both"}, detections=machine) == "both"


def no_case_fits(scene: Scene) -> None:
    """Try the table with a default."""
    machine = supporting(V2)
    choice = partial(select, {MKL: "mkl"}, detections=machine)
    scene.raises("no-case-fits", choice, advised="a default")
    assert select({MKL: "mkl"}, default="plain", detections=machine) == "plain"


def no_fit(scene: Scene) -> None:
    """Try a lock for the Python of the environment."""
    lock = ("lock", *scene.sources(), "some", "--python-version")
    scene.run(*lock, "3.10")
    sync = ("sync", *scene.sources(), "--target", scene.target)
    scene.fails("no-fit", *sync, advised="lock for this one: --python-version")
    scene.run(*lock, "{}.{}".format(*sys.version_info))
    scene.run(*sync)


def checkout_failed(scene: Scene) -> None:
    """Try a revision that the repository has."""
    folder = write_project(scene.folder / "demo", "demo")
    commit_all(folder, tag="v1")
    url = f"git+{folder.as_uri()}"
    scene.refuses("checkout-failed", f"demo @ {url}@v2", advised="revision")
    scene.install(f"demo @ {url}@v1")


def invalid_bridge(scene: Scene) -> None:
    """Try the file with everything mended that is listed."""
    path = scene.folder / "family.toml"
    path.write_text(BRIDGE.replace("checked = 2026-11-22\n", ""))
    scene.fails("invalid-bridge", "bridges", "show", path, advised="checked")
    path.write_text(BRIDGE)
    scene.run("bridges", "show", path)


def invalid_configuration(scene: Scene) -> None:
    """Try the setting that was meant."""
    path = scene.folder / "wheelfit.toml"
    scene.given.setenv("WHEELFIT_CONFIG_FILE", str(path))
    path.write_text("strct = true\n")
    scene.refuses("invalid-configuration", "some", advised="'strict'")
    path.write_text("strict = true\n")
    scene.install("some")


def file_problem(scene: Scene) -> None:
    """Try a path that exists."""
    path = scene.folder / "requirements.txt"
    scene.refuses("file-problem", "-r", path, advised="No such file")
    path.write_text("some\n")
    scene.install("-r", path)


def not_a_dependency(scene: Scene) -> None:
    """Try the list that the hint names."""
    text = '[project]\nname = "app"\nversion = "1"\n[dependency-groups]\ndev = ["some"]\n'
    (scene.folder / "pyproject.toml").write_text(text)
    words = ("remove", "--frozen", "some")
    scene.fails("not-a-dependency", *words, advised="--group dev")
    scene.run(*words, "--group", "dev")


PLAYS = (
    usage,
    user_error,
    invalid_label,
    invalid_property,
    invalid_filename,
    invalid_requirement,
    invalid_marker,
    invalid_project,
    invalid_document,
    invalid_lock,
    invalid_host_file,
    invalid_preset,
    unknown_host,
    unknown_shorthand,
    invalid_cases,
    ambiguous_cases,
    no_case_fits,
    no_fit,
    checkout_failed,
    invalid_bridge,
    invalid_configuration,
    file_problem,
    not_a_dependency,
)
"""The plays of this module; each has the name of its code."""
