"""The packages people ask for, as files: what registries and vendors have, and who gets what.

Each file in ``packages`` is one row of the table of right answers, with the distributions that
it takes. Of the needs of a distribution only those are there that depend on the machine::

    ask = ["torch"]                                    # what is asked for
    rank = 330

    [cells]                                            # the answers, one for each machine
    cpu-linux = ["torch 2.15.0+cpu"]                   # all that is installed
    mac-m3 = { refused = "words of the reason" }       # `options`, `says`, `code`, `warns`: `Cell`

    [[has]]                                            # what there is: see `_distributions`
    name = "torch"
    versions = ["2.14.1", "2.15.0"]
    builds = ["cu130", "cu132"]
    index = "https://download.pytorch.org/whl/{build}" # none: the registry; .html: one flat page
    on = "linux arm windows mac"                       # none: any platform
    python = "py3-none"                                # none: that of the running interpreter
    requires = ["nvidia-cudnn-cu13==9.26.0.51 ; platform_system == 'Linux'"]
    extras = ["opt-einsum"]
    MB = 535                                           # the size that the registry claims

    [pythons]                                          # the first and the last, of all in the file
    "2.15.0" = ["3.11", "3.15"]                        # none: any Python has a wheel

``is-source = true`` is a source distribution, with ``is-dynamic = true`` one whose backend alone
tells what it needs; ``local`` is a local version that is not the build,
``file-local`` one that only the file name has.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from world.internet import World
from world.registries import (
    ARM,
    HERE,
    LINUX,
    MAC,
    WINDOWS,
    Distribution,
    SourceArchive,
    Wheel,
    wheels,
)

MACHINES = {
    "cpu-linux": "Linux, no GPU",
    "h100-580": "H100, driver 580",
    "v100-535": "V100, driver 535",
    "rtx5090-windows": "RTX 5090, Windows",
    "mi300x-rocm7": "MI300X, ROCm 7",
    "mac-m3": "Mac M3",
}
"""The machines of the table, presets, with what the documentation calls them."""
_PLATFORMS = {"linux": LINUX, "arm": ARM, "windows": WINDOWS, "mac": MAC}
_FOLDER = Path(__file__).with_name("packages")


@dataclass(frozen=True)
class Cell:
    """The right answer for a package on a machine."""

    package: str
    ask: tuple[str, ...]
    """The requirements."""
    machine: str
    install: tuple[str, ...] = ()
    """Everything that is installed: name, version and label, if it has one."""
    refused: str = ""
    """Words of the reason why there is nothing for the machine."""
    options: tuple[str, ...] = ()
    """The options without which the answer is another one."""
    says: str = ""
    """Words that are said without these options, which name them."""
    code: int = 0
    """The exit code without these options."""
    warns: str = ""
    """Words of a warning or a note that comes with the answer."""
    other_pythons: tuple[str, ...] = ()
    """Pythons for which the answer is another one: `test_pythons`."""

    def __str__(self) -> str:
        return f"{self.package}-{self.machine}"


@dataclass(frozen=True)
class Package:
    """A row of the table."""

    name: str
    ask: tuple[str, ...]
    rank: int
    """Among the projects of the registry by downloads, in November 2026."""
    cells: tuple[Cell, ...]


def packages() -> list[Package]:
    """Return the rows of the table, those that are asked for most first."""
    found = []
    for path in sorted(_FOLDER.glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        if "ask" not in content:
            continue  # libraries that several rows need
        ask, rows = tuple(content["ask"]), content["cells"]
        assert rows.keys() == MACHINES.keys(), path
        cells = tuple(_cell(path.stem, ask, machine, rows[machine]) for machine in MACHINES)
        found.append(Package(path.stem, ask, content["rank"], cells))
    return sorted(found, key=lambda one: one.rank)


def _cell(package: str, ask: tuple[str, ...], machine: str, row: Any) -> Cell:
    if isinstance(row, list):
        return Cell(package, ask, machine, tuple(row))
    fields: dict[str, Any] = {
        key.replace("-", "_"): tuple(value) if isinstance(value, list) else value
        for key, value in row.items()
    }
    return Cell(package, ask, machine, **fields)


def fill(world: World, *, claims_sizes: bool = True, python: str = HERE) -> None:
    """Put what all rows take into a world.

    :param claims_sizes: whether the registry claims the real sizes, so that nothing is installed.
    :param python: the tag of the Python that wheels for one are for.
    """
    for path in sorted(_FOLDER.glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        limits = content.get("pythons", {})
        for row in content.get("has", ()):
            row.setdefault("python", python)
            if not row.get("is-source"):
                row["versions"] = [
                    version for version in row["versions"] if _is_for(python, limits.get(version))
                ]
            if not claims_sizes:
                row.pop("MB", None)
            for place, found in _distributions(row):
                if not place:
                    world.registry.add([found])
                    continue
                url = urlsplit(place)
                assert url.hostname, place
                world.index(url.hostname).add(url.path, [found])


def _is_for(python: str, limits: Sequence[str] | None) -> bool:
    """Return whether a release has wheels for a Python.

    :param limits: the first and the last Python, as ``3.11``; None: there are none.
    """
    first, last = limits or (python, python)
    return _minor(first) <= _minor(python) <= _minor(last)


def _minor(python: str) -> int:
    """Return the minor version of a Python that is written as ``cp311`` or ``3.11``."""
    return int(python.removeprefix("cp3").removeprefix("3."))


def _distributions(row: Mapping[str, Any]) -> Iterator[tuple[str, Distribution]]:
    """Yield what a row of a file stands for, with where it is; empty: the registry.

    A row is one distribution for every version, build and platform. ``{version}`` and ``{build}``
    stand for these in its other values; a build is also the local version, unless it is ``""``.
    """
    fields: dict[str, Any] = {
        "extras": tuple(row.get("extras", ())),
        "requires_python": row.get("requires-python"),
        "size": row["MB"] * 1_000_000 if "MB" in row else None,
    }
    for version in row["versions"]:
        for build in row.get("builds", [""]):
            words = {"version": version, "build": build}
            requires = tuple(_filled(text, words) for text in row.get("requires", ()))
            local = _filled(row.get("local", build), words)
            own = f"{version}+{local}" if local else version
            place = _filled(row.get("index", ""), words)
            if row.get("is-source"):
                is_dynamic = row.get("is-dynamic", False)
                source = SourceArchive(
                    row["name"], own, requires=requires, is_dynamic=is_dynamic, **fields
                )
                yield place, source
                continue
            if "file-local" in row:
                own = version
                fields["file_local"] = _filled(row["file-local"], words)
            platforms = [_PLATFORMS.get(word, word) for word in row.get("on", "").split()]
            made = wheels(
                row["name"],
                own,
                *platforms,
                python=_filled(row["python"], words),
                requires=requires,
                **fields,
            )
            if not platforms:
                made = iter([Wheel(row["name"], own, requires=requires, **fields)])
            for wheel in made:
                yield place, wheel


def _filled(text: str, words: Mapping[str, str]) -> str:
    for key, word in words.items():
        text = text.replace(f"{{{key}}}", word)
    return text
