"""Wheel tags of other machines, held against uv 0.13.8 as a black box.

wheelfit gets a host file, uv ``--python-platform`` and ``--python-version``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomli_w
from differential.releases import Shelves
from differential.side_by_side import Tools
from packaging.version import Version

from wheelfit.core.compatible_tags import linux_platforms, tags_for
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.network

PAIRS = 40
ELSEWHERE = [
    "cp312-cp312-macosx_11_0_arm64",
    "cp312-cp312-win_amd64",
    "cp311-cp311-manylinux_2_17_x86_64",
    "cp312-cp312t-manylinux_2_17_x86_64",
    "cp313-abi3-manylinux_2_17_x86_64",
    "py313-none-any",
    "py2-none-any",
    "pp310-none-any",
    "cp312-cp312-manylinux_2_41_x86_64",
    "cp312-cp312-manylinux_2_41_aarch64",
    "cp312-cp312-manylinux_2_16_aarch64",
    "cp312-cp312-musllinux_1_3_x86_64",
    "cp312-cp312-linux_armv7l",
]


@dataclass(frozen=True, slots=True)
class Platform:
    """Hold one platform in the words of both tools."""

    uv: str
    """Value of ``--python-platform``."""
    machine: str
    """As ``platform.machine()``."""
    glibc: int | None = None
    """Minor version of a glibc 2."""
    musl: int | None = None
    """Minor version of a musl 1."""

    def host_file(self, folder: Path) -> Path:
        """Write the host file."""
        libc = {"glibc": f"2.{self.glibc}"} if self.glibc else {"musl": f"1.{self.musl}"}
        content = {
            "metadata": {"created-by": "a test", "version": "0.1"},
            "interpreter": {"implementation": "cpython", "version": "3.12.1"},
            "platform": {"machine": self.machine, **libc},
        }
        path = folder / "host.toml"
        path.write_text(tomli_w.dumps(content), encoding="utf-8")
        return path

    def tags(self) -> list[str]:
        """Return the tags that fit, best first; where ``linux_*`` belongs is held elsewhere."""
        platforms = linux_platforms(self.machine, glibc=self.glibc, musl=self.musl)
        kept = [platform for platform in platforms if not platform.startswith("linux_")]
        return list(map(str, tags_for("cpython", Version("3.12.1"), (), kept)))


@pytest.mark.parametrize(
    "platform",
    [
        Platform("x86_64-manylinux_2_28", "x86_64", glibc=28),
        Platform("x86_64-manylinux_2_40", "x86_64", glibc=40),
        Platform("aarch64-manylinux_2_17", "aarch64", glibc=17),
        Platform("aarch64-manylinux_2_39", "aarch64", glibc=39),
        Platform("x86_64-unknown-linux-musl", "x86_64", musl=2),
    ],
    ids=lambda platform: platform.uv,
)
def test_same_tags_as_uv(uv: Path, tmp_path: Path, platform: Platform) -> None:
    """F-68, F-90: of two tags that are neighbours the same one is better; others do not fit."""
    draw = random.Random(platform.uv)
    tags = platform.tags()
    places = draw.sample(range(len(tags) - 1), PAIRS)
    projects: list[Sequence[str]] = [draw.sample(tags[place : place + 2], 2) for place in places]
    projects += [[tag] for tag in ELSEWHERE]
    names = [f"p{number}" for number in range(len(projects))]
    shelves = Shelves(tmp_path / "shelves")
    for name, project in zip(names, projects, strict=True):
        for tag in project:
            files = {f"{name}/filename": tag}
            build_wheel(shelves.shelf(name), name, "1", tag=tag, files=files)
        build_wheel(shelves.shelf(name), name, "0.1", files={f"{name}/filename": "none"})
    better = [tags[place] for place in places] + ["none"] * len(ELSEWHERE)
    expected = dict(zip(names, better, strict=True))
    with RecordingIndex(shelves) as index:
        tools = Tools(uv, tmp_path, index.url)
        explained = tools.explain(*names, "--for", str(platform.host_file(tmp_path)))
        theirs = tools.uv_install(
            *names, options=["--python-platform", platform.uv, "--python-version", "3.12.1"]
        )
    ours = {name: filenames[0] for name, filenames in explained.items()}
    assert theirs == expected
    assert ours == {
        name: f"{name}-0.1-py3-none-any.whl" if tag == "none" else f"{name}-1-{tag}.whl"
        for name, tag in expected.items()
    }
