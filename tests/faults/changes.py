"""The changes that accidents interrupt, each from a prepared state, and the wheels for them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from faults.scene import Scene

from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_wheel, release_document


@dataclass(frozen=True, slots=True)
class Change:
    """Describe one change."""

    name: str
    before: tuple[tuple[str, ...], ...]
    """Command lines that make the state in which it starts."""
    words: tuple[str, ...]
    """The command line that is interrupted."""


OLD_DRIVER, NEW_DRIVER = ("--for", "cuda-12.6-sm90"), ("--for", "cuda-12.8-sm90")

CHANGES = (
    Change("install", (("install", "bystander"),), ("install", "demo==2.0")),
    Change(
        "upgrade",
        (("install", "bystander", "demo==1.0"),),
        ("install", "--upgrade", "demo"),
    ),
    Change(
        "reinstall",
        (("install", "bystander", "demo==1.0"),),
        ("install", "--force-reinstall", "--no-deps", "demo==1.0"),
    ),
    Change(
        "rewrite",
        (("install", "bystander", "demo==1.0"),),
        ("install", "--force-reinstall", "--no-deps", "--link-mode", "copy", "demo==1.0"),
    ),
    Change(
        "uninstall",
        (("install", "bystander", "demo==1.0"),),
        ("uninstall", "demo"),
    ),
    Change(
        "sync",
        (("install", "bystander", "demo==1.0", "leaves"),),
        ("sync", "pylock.toml"),
    ),
    Change(
        "exchange",
        (("install", "bystander", "torch", *NEW_DRIVER),),
        ("install", "--refit", *OLD_DRIVER),
    ),
)
"""Every kind of change, small enough to interrupt it everywhere."""


def build_wheels(folder: Path) -> None:
    """Build the wheels of `CHANGES`.

    ``demo`` has of everything: several folders of its own, a lone module, a part of a folder
    that ``bystander`` has a part of too, scripts of both kinds, data files; in its second
    version some of it is new, some changed, some gone, and some as it was.

    :param folder: which the index serves.
    """
    build_wheel(
        folder,
        "bystander",
        "1.0",
        files={"bystander/__init__.py": "", "common/bystander.py": "here = True\n"},
    )
    for version in ("1.0", "2.0"):
        build_wheel(
            folder,
            "demo",
            version,
            files=_demo_files(version),
            entry_points={"console_scripts": {"demo": "demo:main", f"demo-{version}": "demo:main"}},
            executables=[f"demo-{version}.data/scripts/demo-tool"],
        )
    build_wheel(folder, "leaves", "1.0", files={"leaves/__init__.py": "", "leaves.pth": "\n"})
    build_wheel(folder, "comes", "1.0", files={"comes/__init__.py": "", "common/comes.py": ""})
    build_wheel(folder, "witness", "1.0")
    document = release_document(
        {
            label: {"nvidia": {"cuda_version_lower_bound": [cuda]}}
            for label, cuda in (("cu128", "12.8"), ("cu126", "12.6"))
        },
        providers={"nvidia": NVIDIA},
    )
    for label in ("cu128", "cu126"):
        files = {
            "torch/__init__.py": f"label = '{label}'\n",
            "torch/same.py": "same = True\n" * 500,
            f"torch/lib/{label}.so": label * 1000,
        }
        build_wheel(folder, "torch", "2.8", label=label, document=document, files=files)
    (folder / "torch-2.8-variants.json").write_text(json.dumps(document))


def _demo_files(version: str) -> dict[str, bytes | str]:
    data = f"demo-{version}.data"
    files: dict[str, bytes | str] = {
        "demo/__init__.py": f"__version__ = '{version}'\n\n\ndef main():\n    pass\n",
        "demo/same.py": "same = True\n",
        "demo/part/large.bin": bytes(range(256)) * (100 if version == "1.0" else 300),
        "demo_more/__init__.py": f"# {version}\n",
        "demo_alone.py": f"alone = '{version}'\n",
        "common/demo.py": f"part = '{version}'\n",
        f"{data}/scripts/demo-tool": f"#!python\nprint('{version}')\n",
        f"{data}/data/share/demo/data.txt": f"data {version}\n",
    }
    if version == "1.0":
        files |= {"demo/gone/__init__.py": "", "demo_gone/__init__.py": "", "demo/turns": "a file"}
    else:
        files |= {"demo/new/__init__.py": "", "demo_new/__init__.py": "", "demo/turns/x.py": ""}
    return files


def write_lock(scene: Scene, wheels: Path) -> None:
    """Write the lock of the change ``sync``: one package goes, one comes, one is upgraded."""
    lines = ['lock-version = "1.0"', 'created-by = "a test"', ""]
    for name, version in (("bystander", "1.0"), ("comes", "1.0"), ("demo", "2.0")):
        wheel = wheels / f"{name}-{version}-py3-none-any.whl"
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        url = scene.index.replace("/simple/", f"/files/{wheel.name}")
        lines += [
            "[[packages]]",
            f'name = "{name}"',
            f'version = "{version}"',
            f'index = "{scene.index}"',
            "[[packages.wheels]]",
            f'name = "{wheel.name}"',
            f'url = "{url}"',
            f"size = {wheel.stat().st_size}",
            "[packages.wheels.hashes]",
            f'sha256 = "{digest}"',
            "",
        ]
    (scene.folder / "pylock.toml").write_text("\n".join(lines))


def large_files(version: str, count: int = 3000) -> dict[str, bytes | str]:
    """Return the files of a package of many, of which nearly all differ between versions."""
    files: dict[str, bytes | str] = {"many/__init__.py": f"__version__ = '{version}'\n"}
    for number in range(count):
        path = f"many/part{number % 40:02}/module{number:04}.py"
        files[path] = f"value = '{version} {number}'\n" * 20
    return files
