"""Hints about the selection, locks, builds and downloads."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cli.hints.scene import BLAS, Scene
from msgspec.structs import replace
from projects.writing import write_project, write_sdist

from wheelfit.server.folder import FolderIndex
from wheelfit.testing.binaries import elf_file
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_release, build_wheel, release_document

LINUX = "py3-none-manylinux_2_28_x86_64"


def no_solution(scene: Scene) -> None:
    """Try one of the versions that there are."""
    scene.refuses("no-solution", "other", "some>=2", advised="available: 1.0")
    scene.install("other", "some==1.0")


def no_consistent_set(scene: Scene) -> None:
    """Try with mixing allowed."""
    for name, value in (("one", "mkl"), ("two", "openblas")):
        document = release_document(
            {value: {"blas_lapack": {"provider": [value]}}},
            static={"blas_lapack": {"provider": ["mkl", "openblas"]}},
        )
        build_release(scene.wheels, name, "1.0", document, [value])
    scene.refuses("no-consistent-set", "one", "two", advised="--allow-mixed blas")
    scene.install("--allow-mixed", "blas", "one", "two")


def no_compatible_wheel(scene: Scene) -> None:
    """Try on the machine that it was built for."""
    build_wheel(scene.wheels, "some", "2.0", tag="py3-none-win_amd64")
    scene.refuses("no-compatible-wheel", "some==2.0", advised="built for Windows x86_64")
    scene.install("--for", "windows-x86_64", "some==2.0")


def no_compatible_release(scene: Scene) -> None:
    """Try a newer release of the library too."""
    for version, exports in (("1", ["new"]), ("2", ["old"]), ("3", ["old", "new"])):
        files = {"lib/libl.so.1": elf_file(soname="libl.so.1", exports=exports)}
        build_wheel(scene.wheels, "lib", version, files=files, tag=LINUX)
    files = {"user/_native.so": elf_file(needed=["libl.so.1"], imports=["old", "new"])}
    consumer = build_wheel(scene.folder, "user", "1.0", files=files, tag=LINUX)
    one, two, both = sorted(scene.wheels.glob("lib-*.whl"))
    words = ("abi", "bounds", consumer, "--against", one, "--against", two)
    scene.fails("no-compatible-release", *words, advised="older and newer releases")
    scene.run(*words, "--against", both)


def no_accelerator(scene: Scene) -> None:
    """Try without the wish that there be one."""
    document = release_document(
        {"gpu": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}}, "null": {}},
        providers={"nvidia": NVIDIA},
    )
    build_release(scene.wheels, "deep", "1.0", document, ("gpu", "null"))
    words = ("--for", "linux-x86_64", "deep")
    advised = "without --require-accelerator"
    scene.refuses("no-accelerator", "--require-accelerator", *words, advised=advised)
    scene.install(*words)


def project_not_found(scene: Scene) -> None:
    """Try another spelling."""
    scene.refuses("project-not-found", "smoe", advised="check the spelling")
    scene.install("some")


def unknown_label(scene: Scene) -> None:
    """Try a label that the note lists."""
    scene.refuses("unknown-label", "--label", "fast=mlk", "fast", advised="its labels are mkl")
    scene.install("--label", "fast=mkl", "fast")


def source_build_not_allowed(scene: Scene) -> None:
    """Try an older release with a wheel."""
    project = write_project(scene.folder / "project", "some", "2.0")
    write_sdist(scene.wheels, project, "some", "2.0")
    scene.refuses("source-build-not-allowed", "some", advised="--only-binary some")
    scene.install("--only-binary", "some", "some")


def build_failed(scene: Scene) -> None:
    """Try when what the backend printed is mended."""
    place = scene.folder / "project"
    project = write_project(place, "app", backend="\nimport not_there\n")
    error = scene.refuses("build-failed", project, "--debug", advised="No module named 'not_there'")
    if error["where"]:
        Path(error["where"]).unlink(missing_ok=True)
    scene.install(write_project(place, "app"))


def hash_mismatch(scene: Scene) -> None:
    """Try the right hash."""
    path = scene.folder / "requirements.txt"
    path.write_text(f"some==1.0 --hash=sha256:{'0' * 64}\n")
    scene.refuses("hash-mismatch", "-r", path, advised="if the hash is yours, correct it")
    (wheel,) = scene.wheels.glob("some-1.0-*.whl")
    path.write_text(f"some==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    scene.install("-r", path)


def damaged_bundle(scene: Scene) -> None:
    """Try to make it anew."""
    scene.run("lock", *scene.sources(), "some")
    scene.run("bundle", *scene.sources(), "-o", "bundle")
    (wheel,) = (scene.folder / "bundle").glob("wheels/some-*.whl")
    wheel.write_bytes(b"x")
    advised = "copy it again, or make it again in a new folder"
    scene.fails("damaged-bundle", "bundle", "--verify", "bundle", advised=advised)
    scene.run("bundle", *scene.sources(), "-o", "new")
    scene.run("bundle", "--verify", "new")


def variant_change(scene: Scene) -> None:
    """Try with consent, by either option."""
    scene.install("--label", "fast=open", "fast")
    build_wheel(scene.wheels, "wants", "1.0", requires=("fast>1",))
    document = release_document({"mkl": {"blas": {"library": ["mkl"]}}}, static=BLAS)
    build_release(scene.wheels, "fast", "2.0", document, ["mkl"])
    scene.refuses("variant-change", "wants", advised="--allow-variant-change")
    scene.install("--allow-variant-change", "wants")


def unreachable(scene: Scene) -> None:
    """Try the URL of an index."""
    with RecordingIndex(scene.wheels) as index:
        words = ("download", "--no-cache-dir", "--retries", "0", "some", "-i")
        closed = "http://127.0.0.1:1/simple/"
        scene.fails("unreachable", *words, closed, advised="check the URL")
        scene.run(*words, index.url)


def unexpected_status(scene: Scene) -> None:
    """Try with the login in the URL."""
    with RecordingIndex(scene.wheels) as index:
        index.faults.login = ("user", "secret")
        words = ("download", "--no-cache-dir", "some", "-i")
        scene.fails("unexpected-status", *words, index.url, advised="or the URL of the index")
        scene.run(*words, index.url_with_login("user", "secret"))


def invalid_page(scene: Scene) -> None:
    """Try the URL that ends with ``/simple/``."""
    with RecordingIndex(scene.wheels) as index:
        index.faults.redirect["/some/"] = index.file_url(scene.document.name)
        words = ("download", "--no-cache-dir", "some", "-i")
        root = index.url.removesuffix("simple/")
        scene.fails("invalid-page", *words, root, advised="ends with /simple/")
        scene.run(*words, index.url)


def too_large(scene: Scene) -> None:
    """Try with more."""
    with RecordingIndex(scene.wheels) as index:
        words = ("install", "-i", index.url, "--no-cache-dir", "--target", scene.target, "some")
        scene.fails("too-large", *words, "--max-download", "10", advised="raise --max-download")
        scene.run(*words, "--max-download", "1MB")


def too_new(scene: Scene) -> None:
    """Try with the exception that the hint names."""
    dated = FolderIndex(
        scene.wheels, edit_entry=lambda file: replace(file, upload_time="2026-03-15T12:00:00Z")
    )
    with RecordingIndex(dated) as index:
        source = ("-i", index.url, "--no-cache-dir")
        scene.run("lock", *source, "some")
        words = ("sync", *source, "--target", scene.target, "--uploaded-prior-to", "2026-02-01")
        exception = ("--uploaded-prior-to-package", "some=false")
        scene.fails("too-new", *words, advised=" ".join(exception))
        scene.run(*words, *exception)


def bad_metadata(scene: Scene) -> None:
    """Try without ``--strict`` the rest is used."""
    scene.document.write_text("{")
    build_wheel(scene.wheels, "fast", "1.0")
    scene.refuses("bad-metadata", "--strict", "fast", advised="without --strict")
    scene.install("fast")


def lock_outdated(scene: Scene) -> None:
    """Try the same command without ``--check``."""
    words = ("lock", *scene.sources(), "some", "--python-version", "3.12")
    scene.fails("lock-outdated", *words, "--check", advised="without --check")
    scene.run(*words)
    scene.run(*words, "--check")


PLAYS = (
    no_solution,
    no_consistent_set,
    no_compatible_wheel,
    no_compatible_release,
    no_accelerator,
    project_not_found,
    unknown_label,
    source_build_not_allowed,
    build_failed,
    hash_mismatch,
    damaged_bundle,
    variant_change,
    too_large,
    unreachable,
    unexpected_status,
    invalid_page,
    too_new,
    bad_metadata,
    lock_outdated,
)
"""The plays of this module; each has the name of its code."""
