"""Write small real projects: folders with a build backend of their own, archives, repositories.

The backend lies in the project itself (PEP 517, ``backend-path``) and needs nothing but the
standard library, so that building takes no index and hardly any time.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

_TIME = 1_767_225_600
_BACKEND = """
import base64, hashlib, json, os, sys, zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "about.json"), encoding="utf-8") as file:
    ABOUT = json.load(file)
NAME, VERSION = ABOUT["name"], ABOUT["version"]
STEM = NAME.replace("-", "_") + "-" + VERSION
INFO = STEM + ".dist-info"


def metadata():
    lines = ["Metadata-Version: 2.2", "Name: " + NAME, "Version: " + VERSION]
    lines += ["Requires-Dist: " + one for one in ABOUT["dependencies"]]
    return "\\n".join(lines) + "\\n"


def prepare_metadata_for_build_wheel(folder, config_settings=None):
    os.makedirs(os.path.join(folder, INFO))
    with open(os.path.join(folder, INFO, "METADATA"), "w", encoding="utf-8") as file:
        file.write(metadata())
    return INFO


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def get_requires_for_build_wheel(config_settings=None):
    return ABOUT["needs"]


get_requires_for_build_editable = get_requires_for_build_wheel


def write(folder, filename, files):
    rows = []
    with zipfile.ZipFile(os.path.join(folder, filename), "w") as wheel:
        for name, text in files.items():
            data = text.encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            rows.append(f"{name},sha256={digest},{len(data)}")
            wheel.writestr(name, data)
        wheel.writestr(INFO + "/RECORD", "\\n".join([*rows, INFO + "/RECORD,,"]) + "\\n")
    return filename


def records():
    tag = "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    return {INFO + "/METADATA": metadata(), INFO + "/WHEEL": tag}


def build_wheel(folder, config_settings=None, metadata_directory=None):
    package = NAME.replace("-", "_")
    text = f"SETTINGS = {config_settings!r}\\nPYTHON = {sys.executable!r}\\nPATH = {sys.path!r}\\n"
    files = {package + "/__init__.py": text, **records()}
    return write(folder, STEM + "-py3-none-any.whl", files)


def build_editable(folder, config_settings=None, metadata_directory=None):
    files = {"__editable__." + NAME + ".pth": os.path.join(HERE, "src") + "\\n", **records()}
    return write(folder, STEM + "-py3-none-any.whl", files)
"""


def write_project(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    dependencies: Iterable[str] = (),
    requires: Iterable[str] = (),
    needs: Iterable[str] = (),
    dynamic: bool = False,
    backend: str = "",
) -> Path:
    """Write a project and return its folder.

    :param folder: where; made if it does not exist.
    :param requires: what building needs, as ``[build-system]`` says.
    :param needs: what the backend says that building needs besides.
    :param dynamic: whether only the backend tells version and dependencies.
    :param backend: Python code that replaces functions of the backend.
    """
    package = folder / "src" / name.replace("-", "_")
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("EDITABLE = True\n", encoding="utf-8")
    about = {
        "name": name,
        "version": version,
        "dependencies": list(dependencies),
        "needs": list(needs),
    }
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")
    (folder / "own_backend.py").write_text(_BACKEND + backend, encoding="utf-8")
    lines = [
        "[build-system]",
        f"requires = {json.dumps(list(requires))}",
        'build-backend = "own_backend"',
        'backend-path = ["."]',
        "[project]",
        f'name = "{name}"',
    ]
    if dynamic:
        lines.append('dynamic = ["version", "dependencies"]')
    else:
        lines += [f'version = "{version}"', f"dependencies = {json.dumps(list(dependencies))}"]
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_archive(path: Path, files: Mapping[str, bytes | str | tarfile.TarInfo]) -> Path:
    """Write a ``.tar.gz`` and return its path.

    :param files: name to content; or a member as it is, without content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), _TIME
            archive.addfile(member, io.BytesIO(data))
    return path


def write_sdist(
    folder: Path, project: Path, name: str, version: str = "1.0", *, pkg_info: str | None = None
) -> Path:
    """Pack a project as a source distribution and return its path.

    :param project: as `write_project` wrote it.
    :param name: as its file name has it.
    :param pkg_info: its ``PKG-INFO``; default: one that leaves the dependencies to the backend.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    if pkg_info is None:
        pkg_info = (
            f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\nDynamic: Requires-Dist\n"
        )
    files: dict[str, bytes | str | tarfile.TarInfo] = {
        f"{stem}/{path.relative_to(project).as_posix()}": path.read_bytes()
        for path in sorted(project.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }
    return write_archive(folder / f"{stem}.tar.gz", {**files, f"{stem}/PKG-INFO": pkg_info})


def commit_all(folder: Path, *, tag: str | None = None) -> str:
    """Commit everything in a folder, which becomes a repository, and return the commit's id.

    :param folder: a project, or a folder with some.
    :param tag: names the commit.
    """
    environ = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "t@example" for who in ("AUTHOR", "COMMITTER")
           for what in ("NAME", "EMAIL")},
    }  # fmt: skip

    def git(*words: str) -> str:
        completed = subprocess.run(
            ["git", *words], cwd=folder, env=environ, check=True, capture_output=True, text=True
        )
        return completed.stdout.strip()

    if not (folder / ".git").exists():
        git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "--allow-empty", "--message=all")
    if tag is not None:
        git("tag", tag)
    return git("rev-parse", "HEAD")
