"""Folders for object files that keep the builds of a project apart."""

from __future__ import annotations

import configparser
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit.building.front_end.source import Source
    from wheelfit.building.front_end.toolchains.inputs import BuildInputs

_MAX_PARENTS = 8
"""The maximum number of parent folders of a project that may have its sources."""


def with_separate_objects(source: Source, folder: Path, inputs: BuildInputs) -> BuildInputs:
    """Return inputs by which a backend writes object files into a folder of this build only.

    Setuptools reuses an object file even if it was compiled with other flags, CMake reads
    ``CFLAGS`` only once, and cargo does not run scripts again that call make.

    :raises InvalidConfiguration: a file that ``DIST_EXTRA_CONFIG`` names cannot be read.
    """
    environ = inputs.environ
    # Set for all: in-tree backends may use setuptools, and other backends ignore the variable.
    parser = configparser.RawConfigParser()
    if config_file := environ.get("DIST_EXTRA_CONFIG"):
        try:
            parser.read(config_file, encoding="utf-8")
        except (configparser.Error, OSError, ValueError):
            raise InvalidConfiguration(
                "DIST_EXTRA_CONFIG cannot be read", where=config_file
            ) from None
    if not parser.has_section("build"):
        parser.add_section("build")
    # Setuptools puts objects of "../../x.c" two folders up; they must stay in this one.
    parser.set("build", "build_base", str(folder.joinpath(*["objects"] * _MAX_PARENTS)))
    with (folder / "extra.cfg").open("w", encoding="utf-8") as file:
        parser.write(file)
    environ = {**environ, "DIST_EXTRA_CONFIG": str(folder / "extra.cfg")}
    if inputs.calls_cargo:
        environ = {"CARGO_TARGET_DIR": str(folder / "cargo"), **environ}
    settings = inputs.settings
    if (
        source.backend == "scikit_build_core.build"
        and source.value("tool", "scikit-build", "build-dir") is not None
        and not {"build-dir", "skbuild.build-dir"} & settings.keys()
    ):
        settings = {**settings, "build-dir": str(folder / "cmake")}
    return replace(inputs, settings=settings, environ=environ)
