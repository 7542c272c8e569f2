"""Let no build take up what another one left in the project."""

from __future__ import annotations

import configparser
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wheelfit.building.front_end.source import Source
    from wheelfit.projects.backend import ConfigSettings


def afresh(
    source: Source, folder: Path, settings: ConfigSettings, environ: Mapping[str, str]
) -> tuple[ConfigSettings, Mapping[str, str]]:
    """Return what tells a backend to keep its objects in a folder of this build alone.

    Setuptools takes an object file that is there whatever flags it was compiled with, and
    CMake hears of ``CFLAGS`` only once.

    :param folder: an empty one.
    :raises InvalidConfiguration: a file that ``DIST_EXTRA_CONFIG`` names cannot be read.
    """
    # Backends of a project's own use setuptools too; nobody else reads it.
    parser = configparser.RawConfigParser()
    if own := environ.get("DIST_EXTRA_CONFIG"):
        try:
            parser.read(own, encoding="utf-8")
        except (configparser.Error, OSError, ValueError):
            raise InvalidConfiguration("DIST_EXTRA_CONFIG cannot be read", where=own) from None
    if not parser.has_section("build"):
        parser.add_section("build")
    parser.set("build", "build_base", str(folder / "build"))
    with (folder / "extra.cfg").open("w", encoding="utf-8") as file:
        parser.write(file)
    environ = {**environ, "DIST_EXTRA_CONFIG": str(folder / "extra.cfg")}
    if (
        source.backend == "scikit_build_core.build"
        and source.at("tool", "scikit-build", "build-dir") is not None
        and not {"build-dir", "skbuild.build-dir"} & settings.keys()
    ):
        settings = {**settings, "build-dir": str(folder / "cmake")}
    return settings, environ
