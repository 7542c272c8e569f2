"""The inputs of a build backend and its compilers, and the toolchains that add to them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wheelfit.core.properties import PropertySet
    from wheelfit.projects.backend import ConfigSettings

CMAKE_BACKENDS = frozenset({"scikit_build_core.build", "py_build_cmake.build"})
BUILD_SYSTEMS = ("setuptools-rust", "torch")
"""Packages with a build system of their own."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """The C compiler that an interpreter was built with (its ``sysconfig``)."""

    command: str = ""
    """As ``gcc -pthread``; empty where the interpreter has none, as on Windows."""
    flags: str = ""
    """Its ``CFLAGS``, which setuptools uses for C and C++."""


@dataclass(frozen=True, slots=True)
class BuildInputs:
    """The environment and the settings of one build, and the facts that flags depend on."""

    environ: Mapping[str, str] = field(default_factory=dict, hash=False)
    settings: ConfigSettings = field(default_factory=dict, hash=False)
    machine: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Marker variables of the interpreter that builds."""
    backend: str = ""
    """The module of the build backend."""
    project: Path = Path()
    compiler: Compiler = Compiler()
    packages: frozenset[str] = frozenset()
    """The packages of `BUILD_SYSTEMS` in the build environment."""
    project_variables: frozenset[str] = frozenset()
    """Variables that the project sets for this wheel, which flags must not change."""

    @property
    def calls_cargo(self) -> bool:
        """Whether the backend calls cargo, and gets the paths of artifacts from it."""
        return self.backend == "maturin" or "setuptools-rust" in self.packages

    @property
    def is_windows(self) -> bool:
        """Whether the build machine has Windows."""
        return self.machine.get("sys_platform") == "win32"

    def with_appended(
        self, name: str, words: Iterable[str], *, base: str = "", separator: str = " "
    ) -> BuildInputs:
        """Return these inputs with words appended to a variable.

        :param base: the value if the variable is not set.
        """
        text = separator.join(filter(None, [self.environ.get(name, base), *words]))
        return replace(self, environ={**self.environ, name: text})

    def with_variable(self, name: str, text: str) -> BuildInputs:
        """Return these inputs with a variable, unless the project sets it for this wheel."""
        if name in self.project_variables:
            return self
        return replace(self, environ={**self.environ, name: text})

    def with_setting(self, key: str, value: str) -> BuildInputs:
        """Return these inputs with a setting of the backend, unless it is set."""
        return replace(self, settings={key: value, **self.settings})

    def with_setup_args(self, *words: str) -> BuildInputs:
        """Return these inputs with arguments for Meson, before existing ones."""
        existing = self.settings.get("setup-args", [])
        existing = [existing] if isinstance(existing, str) else existing
        return replace(self, settings={**self.settings, "setup-args": [*words, *existing]})


def split_words(text: str) -> list[str]:
    """Return the words of a variable, split as by a shell; none if the text is invalid."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The compilers of some languages, or a build system, and their use of properties."""

    words: Callable[[PropertySet, Mapping[str, str]], tuple[str, ...]]
    """Returns its flags for properties and marker variables of the machine, for reports."""
    add: Callable[[BuildInputs, PropertySet], BuildInputs]
    """Returns inputs with its flags for properties."""
    is_reported_only_if_used: bool = False
    """Whether reports name its flags only if it has compiled something."""
