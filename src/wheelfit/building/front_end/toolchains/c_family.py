"""C, C++ and Fortran: levels of processors for GCC, clang and the compiler of Microsoft.

The flags of a variant are those of the plain build, and its own. Their form depends on how a
backend combines ``CFLAGS`` with flags of its own:

- Meson, CMake and cargo put them after those of the build type.
- Meson ignores them if a project sets ``c_args`` among its default options. So they are also added
  to the commands of its compilers.
- Setuptools uses the flags of the interpreter, and ``CFLAGS`` and ``CXXFLAGS`` *replace* these
  (since 75.7 and 72.2; before, they were appended). So the variables must start with these, unless
  the user has set them: then the plain build lacks them, too.
- In-tree backends are treated as setuptools, which most of them use.

The compiler of Microsoft reads ``CL`` itself, and puts it before all other flags.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from wheelfit.building.front_end.toolchains.inputs import CMAKE_BACKENDS, Toolchain, split_words
from wheelfit.wheels.binaries.reading import read_binary
from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.platforms.child_processes import run
from wheelfit_runtime.platforms.providers.aarch64 import tables as aarch64
from wheelfit_runtime.platforms.providers.x86_64 import tables as x86_64

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wheelfit.building.front_end.toolchains.inputs import BuildInputs
    from wheelfit.core.properties import PropertySet

_C_VARIABLES = ("CFLAGS", "CXXFLAGS")
_FORTRAN_VARIABLES = ("FFLAGS", "FCFLAGS")
_MESON = "mesonpy"
_APPENDING_BACKENDS = CMAKE_BACKENDS | {"maturin", _MESON}
"""Backends that append ``CFLAGS`` to the flags of the build type."""
_COMPILERS: Mapping[str, tuple[str, ...]] = {
    "CC": ("cc", "gcc", "clang"),
    "CXX": ("c++", "g++", "clang++"),
    "FC": ("gfortran", "flang-new", "flang"),
}
"""The programs that Meson tries, in this order, if the variable is not set."""
_FLAGS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("x86_64", "level"): {
        name: f"-march=x86-64{'' if name == 'v1' else f'-{name}'}" for name, _ in x86_64.LEVELS
    },
    ("aarch64", "version"): {
        # Compilers accept no ".0".
        name: f"-march=armv{name.removesuffix('a').removesuffix('.0')}-a"
        for name in reversed(aarch64.VERSIONS)
    },
}
"""The flags of gcc and clang by value, lowest first; code for one runs on higher processors too."""
DEFAULT_FLAGS = frozenset(next(iter(flags.values())) for flags in _FLAGS.values())
"""The lowest flag of each feature, which is the default of compilers."""
_MICROSOFT: Mapping[str, str] = {
    "-march=x86-64-v3": "/arch:AVX2",
    "-march=x86-64-v4": "/arch:AVX512",
}
"""The flags of Microsoft's compiler, which has none for v2 and for versions of Arm."""
_MACHINES = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}


def level_of(properties: PropertySet, namespace: str) -> str | None:
    """Return the processor level that properties require; None if they require none.

    With several values of a feature the wheel must run on the machines of each: the lowest counts.
    """
    return next((value for name, value, _ in _levels(properties) if name == namespace), None)


def _levels(properties: PropertySet) -> Iterator[tuple[str, str, str]]:
    """Yield namespace, lowest value and flag of each feature with a level."""
    for feature, values in properties.features():
        flags = _FLAGS.get((feature.namespace, feature.name), {})
        lowest = next((value for value in flags if value in values), None)
        if lowest is not None:
            yield feature.namespace, lowest, flags[lowest]


def words(properties: PropertySet, machine: Mapping[str, str]) -> tuple[str, ...]:
    """Return the flags that follow from properties, in their order.

    >>> from wheelfit.core.properties import PropertySet, parse_property
    >>> words(PropertySet([parse_property("x86_64 :: level :: v3")]), {})
    ('-march=x86-64-v3',)
    """
    flags = (flag for _, _, flag in _levels(properties))
    if machine.get("sys_platform") == "win32":
        return tuple(_MICROSOFT[flag] for flag in flags if flag in _MICROSOFT)
    return tuple(flags)


def base_flags(inputs: BuildInputs) -> str:
    """Return the flags that a backend gives to C and C++ compilers if ``CFLAGS`` is not set."""
    return "" if inputs.backend in _APPENDING_BACKENDS else inputs.compiler.flags


def add(inputs: BuildInputs, properties: PropertySet) -> BuildInputs:
    """Return inputs with the flags of properties, after those of a plain build.

    :raises InvalidConfiguration: flags for another machine, or for another compiler, would be
        needed.
    """
    for namespace, value, flag in _levels(properties):
        _check_flag(namespace, value, flag, inputs)
    flags = words(properties, inputs.machine)
    if not flags:
        return inputs
    if inputs.is_windows:
        return inputs.with_appended("CL", flags)
    # The command may be an absolute path, whose folders mean nothing.
    if any(Path(word).name.startswith("zig") for word in split_words(inputs.environ.get("CC", ""))):
        flags = tuple(map(_zig_flag, flags))
    option = _linker_option(properties, inputs)
    inputs = with_compiler_flags(inputs, flags)
    return inputs.with_appended("LDFLAGS", [option]) if option else inputs


def with_compiler_flags(
    inputs: BuildInputs, flags: Sequence[str], *, fortran: bool = True
) -> BuildInputs:
    """Return inputs with flags for GCC and clang, after those of a plain build.

    :param fortran: whether the compiler of Fortran gets them too.
    """
    for variable in _C_VARIABLES:
        inputs = inputs.with_appended(variable, flags, base=base_flags(inputs))
    if fortran:
        for variable in _FORTRAN_VARIABLES:
            inputs = inputs.with_appended(variable, flags)
    if inputs.backend != _MESON:
        return inputs
    path = inputs.environ.get("PATH", "")
    for variable, programs in _COMPILERS.items():
        program = next((name for name in programs if shutil.which(name, path=path)), "")
        if (program or variable in inputs.environ) and (fortran or variable != "FC"):
            inputs = inputs.with_appended(variable, flags, base=program)
    return inputs


def with_mapped_folder(inputs: BuildInputs) -> BuildInputs:
    """Return inputs by which GCC and clang write paths relative to the project.

    Debug information, assertions and ``__FILE__`` have such paths.
    """
    if inputs.is_windows:
        return inputs
    return with_compiler_flags(inputs, [shlex.quote(f"-ffile-prefix-map={inputs.project}=.")])


def _zig_flag(flag: str) -> str:
    """Return a flag for ``zig cc``, which has other names for processors.

    >>> _zig_flag("-march=x86-64-v3"), _zig_flag("-march=armv8.2-a")
    ('-mcpu=x86_64_v3', '-mcpu=generic+v8_2a')
    """
    name = flag.removeprefix("-march=")
    if name.startswith("armv"):
        version = name.removeprefix("armv").removesuffix("-a").replace(".", "_")
        return f"-mcpu=generic+v{version}a"
    return f"-mcpu={name.replace('-', '_')}"


def _check_flag(namespace: str, value: str, flag: str, inputs: BuildInputs) -> None:
    """Check that this machine, and its compiler, can use the flag of a level."""
    machine = inputs.machine.get("platform_machine", "")
    if machine.lower() not in _MACHINES[namespace]:
        raise InvalidConfiguration(
            f"this machine ({machine}) cannot use compiler flags for {namespace}",
            hint="build that variant on such a machine, or leave out --flags and give those of "
            "your cross compiler",
        )
    if inputs.is_windows and flag not in DEFAULT_FLAGS and flag not in _MICROSOFT:
        raise InvalidConfiguration(
            f"the compiler of Microsoft has no option for {namespace} {value}",
            hint="leave out --flags; [tool.wheelfit.build.variants.LABEL] may set what your "
            "compiler reads",
        )


# --- the mark for the loader ---------------------------------------------------------------------


def level_mark(properties: PropertySet) -> tuple[str, str] | None:
    """Return the level of x86-64 that a loader requires, and the option of the linker for it.

    Return None if there is no such level, or if every processor supports it.

    >>> from wheelfit.core.properties import PropertySet, parse_property
    >>> level_mark(PropertySet([parse_property("x86_64 :: level :: v3")]))
    ('v3', '-Wl,-z,x86-64-v3')
    """
    level = level_of(properties, "x86_64")
    return None if level in (None, "v1") else (level, f"-Wl,-z,x86-64-{level}")


def _linker_option(properties: PropertySet, inputs: BuildInputs) -> str | None:
    """Return the linker option by which the loader refuses the library on lower processors."""
    mark = level_mark(properties)
    if mark is None or inputs.machine.get("sys_platform") != "linux":
        return None
    with TemporaryDirectory() as folder:
        is_marked = _marks_level(*mark, inputs, Path(folder))
    return mark[1] if is_marked else None


_TIME_LIMIT = 60.0


def _marks_level(level: str, option: str, inputs: BuildInputs, folder: Path) -> bool:
    """Link a library with an option, and return whether it is marked with its level.

    Linkers differ: that of binutils marks it since 2.36, gold refuses the option, lld ignores it.
    It is linked by ``CC``, or else the compiler of the interpreter, with ``LDFLAGS``.
    """
    environ = inputs.environ
    command_words = split_words(environ.get("CC") or inputs.compiler.command)
    path = environ.get("PATH")
    if not command_words or shutil.which(command_words[0], path=path) is None:
        command_words = ["cc"]
    program = shutil.which(command_words[0], path=path)
    if program is None:
        return False
    source, library = folder / "empty.c", folder / "empty.so"
    source.write_text("int wheelfit_empty;\n")
    command_line = [program, *command_words[1:], "-shared", "-fPIC", str(source)]
    command_line += ["-o", str(library), *split_words(environ.get("LDFLAGS", "")), option]
    if not run(command_line, environ=environ, deadline=_TIME_LIMIT).succeeded:
        return False
    try:
        with library.open("rb") as file:
            binary = read_binary(file, library.name)
    except OSError:
        return False
    return binary is not None and binary.levels.needed == level


C_FAMILY = Toolchain(words, add)
