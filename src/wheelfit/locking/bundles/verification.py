"""Verification of a bundle against its manifest; nothing outside of its folder is read.

First the files are checked: none may be missing, changed or added. Then the pages of the index are
checked, and the choice of each host.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from wheelfit.core import strict_toml
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.host_file import HostDetector
from wheelfit.core.host_file_mapping import read_host_file
from wheelfit.errors import DamagedBundle
from wheelfit.locking.bundles.manifest import LOCK, MANIFEST, read_manifest
from wheelfit.locking.document import Lock, read_lock
from wheelfit.locking.selection import LockCandidates
from wheelfit.sources.file_readers import AllFiles
from wheelfit.sources.find_links import FileIndex
from wheelfit.sources.urls import file_url, join
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import WheelfitError, os_reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.target import Target
    from wheelfit.locking.bundles.manifest import BundledFile, BundledHost, Manifest
    from wheelfit.resolution.candidates import ChoicePolicy

Problem = tuple[str, str, str]
"""Path in the bundle, kind of problem, and details."""


def load_manifest(folder: Path) -> Manifest:
    """Read the manifest of a bundle.

    :raises DamagedBundle: there is none, or it cannot be used.
    """
    path = folder / MANIFEST
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)  # opening a pipe may block forever
        data = path.read_bytes() if is_file else b""
    except FileNotFoundError:
        raise DamagedBundle([(MANIFEST, "missing", "")], where=str(folder)) from None
    except OSError as error:
        problem = (MANIFEST, "unreadable", os_reason(error))
        raise DamagedBundle([problem], where=str(folder)) from None
    return read_manifest(data, where=str(path))


def verify(folder: Path, manifest: Manifest, base: Target, policy: ChoicePolicy) -> None:
    """Check a bundle against its manifest.

    :param base: the target with the values that the host files of the bundle do not set.
    :raises DamagedBundle: the bundle is damaged; lists all faults of the first step that fails.
    """
    for step in (
        _file_problems(folder, manifest),
        _page_problems(folder, manifest),
        _choice_problems(folder, manifest, base, policy),
    ):
        problems = sorted(step)
        if problems:
            raise DamagedBundle(problems, where=str(folder))


def _files_below(folder: Path) -> Iterator[str]:
    """Yield every file and every link below a folder, by its path with slashes."""
    for parent, folders, names in os.walk(folder):
        parent_path = Path(parent)
        links = [name for name in folders if (parent_path / name).is_symlink()]
        for name in (*names, *links):
            yield (parent_path / name).relative_to(folder).as_posix()


def _file_problems(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    # Links to folders are not followed, so nothing outside is ever opened.
    existing = set(_files_below(folder))
    for path, expected in manifest.files.items():
        problem = _file_problem(folder / path, expected, is_found=path in existing)
        if problem is not None:
            yield path, *problem
    if LOCK not in manifest.files:
        yield LOCK, "missing", ""
    for path in existing - manifest.files.keys() - {MANIFEST}:
        yield (path if path.isprintable() else ascii(path)), "extra", ""


def _file_problem(path: Path, promised: BundledFile, *, is_found: bool) -> tuple[str, str] | None:
    try:
        status = path.lstat()
        if not is_found:  # a parent is a link, which is not followed
            return "missing", ""
        if not stat.S_ISREG(status.st_mode):
            return "changed", "it is a link" if path.is_symlink() else "it is not a file"
        if status.st_size != promised.size:
            return "changed", f"it has {status.st_size} bytes, not {promised.size}"
        digest = sha256_of_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return "missing", ""
    except OSError as error:
        return "unreadable", os_reason(error)
    return None if digest == promised.sha256 else ("changed", "its content differs")


def _page_problems(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Yield the problems of the index pages, read as an installer reads them."""
    index = FileIndex(folder / "simple", AllFiles())
    base = join(f"{file_url(folder)}/", ".")
    wheels: dict[NormalizedName, dict[str, BundledFile]] = {}
    for filename, bundled_file in manifest.wheels.items():
        wheels.setdefault(parse_wheel_filename(filename).name, {})[filename] = bundled_file
    for path in manifest.files:
        project = path.removeprefix("simple/").rpartition("/")[0]
        if path.startswith("simple/") and project and project not in wheels:
            yield path, "changed", "it is the page of a project without wheels"
    for name, expected in wheels.items():
        path = f"simple/{name}/index.html"
        try:
            page = index.project(name)
        except WheelfitError as error:
            yield path, "unreadable", error.message
            continue
        files = () if page is None else page.files
        listed = {file.filename: file for file in files if file.filename.endswith(".whl")}
        if listed.keys() != expected.keys():
            yield path, "changed", "its wheels differ from those in the manifest"
            continue
        for file in files:
            manifest_file = manifest.files.get(unquote(file.url.removeprefix(base)))
            if manifest_file is None or file.hashes.get("sha256") != manifest_file.sha256:
                yield path, "changed", f"its link for {file.filename} is wrong"


def _choice_problems(
    folder: Path, manifest: Manifest, base: Target, policy: ChoicePolicy
) -> Iterator[Problem]:
    """Yield the hosts whose choice from the lock differs from the recorded one."""
    path = folder / LOCK
    try:
        lock = read_lock(path.read_bytes(), where=str(path))
    except WheelfitError as error:
        yield LOCK, "unreadable", f"{error.message} [{error.reference}]"
        return
    wheels = manifest.wheels
    for host in manifest.hosts:
        try:
            chosen = _chosen_files(folder, manifest, host, base, policy, lock)
        except WheelfitError as error:
            yield host.file, "selection", f"{error.message} [{error.reference}]"
            continue
        expected = {name: wheels[name].sha256 for name in host.wheels}
        unexpected = sorted(chosen.keys() - expected.keys())
        missing = sorted(expected.keys() - chosen.keys())
        if unexpected or missing:
            unexpected_names, missing_names = (
                ", ".join(names) or "nothing" for names in (unexpected, missing)
            )
            yield host.file, "selection", f"it gets {unexpected_names} instead of {missing_names}"
        elif chosen != expected:
            yield host.file, "selection", "the hashes in the lock differ"


def _chosen_files(
    folder: Path,
    manifest: Manifest,
    host: BundledHost,
    base: Target,
    policy: ChoicePolicy,
    lock: Lock,
) -> Mapping[str, str]:
    path = folder / host.file
    try:
        table = strict_toml.load(path.read_bytes())
    except ValueError as error:
        raise DamagedBundle([(host.file, "unreadable", str(error))], where=str(folder)) from None
    host_file = read_host_file(table, str(path))
    candidates = LockCandidates(
        lock,
        host_file.target(base, host.name),
        None,
        policy,
        host_detector=HostDetector(host_file, host.name),
        files=AllFiles(),
        folder=folder.absolute(),
        extras=manifest.extras,
    )
    pins = candidates.select().resolution().pins
    return {pin.filename.text: pin.file.hashes.get("sha256", "") for pin in pins}
