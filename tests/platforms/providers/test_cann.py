"""P-142, P-143: which CANN toolkit is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheelfit_runtime.platforms.providers.ascend import probes
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from pathlib import Path

LATEST = "/usr/local/Ascend/ascend-toolkit/latest"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("package_name=Ascend-cann-toolkit\nversion=8.2.RC1\ninnerversion=V100R001", "8.2.RC1"),
        ("innerversion=V100R001C22\nversion=8.5.0\r\narch=aarch64", "8.5.0"),
        ("# version: 1.0\nopp_running_version=[7.0.0]\ntoolkit_running_version=[7.5.0:8.0.RC3]",
         "8.0.RC3"),
        ("toolkit_running_version=[8.0.RC3]", "8.0.RC3"),
        ("toolkit_running_version=[]", None),
        ("innerversion=V100", None),
        ("", None),
    ],
)  # fmt: skip
def test_both_kinds_of_file(text: str, version: str | None) -> None:
    """P-142, P-143: the toolkit's version, and none of its parts'."""
    assert probes.parse_cann(text) == version


def test_the_places_in_their_order(tmp_path: Path) -> None:
    """P-142, P-143: where the variable says, then the usual places; by architecture first."""
    for name in (
        f"{LATEST}/x86_64-linux/ascend_toolkit_install.info",
        f"{LATEST}/aarch64-linux/ascend_toolkit_install.info",
        f"{LATEST}/version.cfg",
        "/srv/cann/version.cfg",
        "/usr/local/Ascend/cann/x86_64-linux/ascend_toolkit_install.info",
    ):
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    seen = SystemView(
        str(tmp_path), {"ASCEND_TOOLKIT_HOME": "/srv/cann/"}, system="Linux", architecture="x86_64"
    )
    assert [file[0] for file in probes.read_cann(seen)] == [
        "/srv/cann/version.cfg",
        f"{LATEST}/x86_64-linux/ascend_toolkit_install.info",
        f"{LATEST}/version.cfg",
        "/usr/local/Ascend/cann/x86_64-linux/ascend_toolkit_install.info",
    ]


def test_nothing_is_installed(tmp_path: Path) -> None:
    """P-74: nothing there is no error."""
    assert probes.read_cann(SystemView(str(tmp_path), {"ASCEND_TOOLKIT_HOME": "/gone"})) == ()
