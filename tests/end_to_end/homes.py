"""Environments that contain wheelfit itself and its dependencies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import wheelfit
import wheelfit_runtime


def site_of(environment: Path) -> Path:
    """Return the site-packages folder of an environment."""
    (site,) = environment.glob("lib/python*/site-packages")
    return site


def required() -> dict[str, Distribution]:
    """Return the dependencies of wheelfit by name, without extras."""
    found: dict[str, Distribution] = {}
    pending = [distribution("wheelfit")]
    while pending:
        for text in pending.pop().requires or ():
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name in found or (
                requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
            ):
                continue
            found[name] = distribution(name)
            pending.append(found[name])
    return found


def make_home(place: Path) -> Path:
    """Make an environment with wheelfit by copying the installed packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    site = site_of(place)
    for name, found in required().items():
        if name != "wheelfit-runtime":
            _copy(found, site)
    _install("wheelfit", Path(wheelfit.__file__).parent, site)
    _install("wheelfit-runtime", Path(wheelfit_runtime.__file__).parent, site)
    return place


def _install(name: str, package: Path, site: Path) -> None:
    folder = site / package.name
    shutil.copytree(package, folder, ignore=shutil.ignore_patterns("__pycache__"))
    info = site / f"{package.name}-0.1.0.dist-info"
    info.mkdir()
    needs = [text for text in distribution(name).requires or () if "extra ==" not in text]
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {name}\nVersion: 0.1.0\n"
        + "".join(f"Requires-Dist: {text}\n" for text in needs)
    )
    files = [path.relative_to(site) for path in folder.rglob("*.py")]
    rows = [f"{path},," for path in (*files, info.relative_to(site) / "METADATA")]
    (info / "RECORD").write_text("\n".join([*rows, f"{info.name}/RECORD,,", ""]))


def _copy(found: Distribution, site: Path) -> None:
    for path in found.files or ():
        if path.suffix != ".pyc" and ".." not in path.parts:
            place = site / path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(found.locate_file(path)), place)
