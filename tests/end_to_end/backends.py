"""Small real projects, one for each build backend, with variants for x86-64 levels."""

from __future__ import annotations

from pathlib import Path

TABLE = """
[variant.default-priorities]
namespace = ["x86_64"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]
[variant.variants.v3]
x86_64.level = ["v3"]
[variant.variants.v1]
x86_64.level = ["v1"]
[variant.variants.null]
"""
"""What all of them have."""

SUM = """
#include <Python.h>
#include <assert.h>

/* A loop over integers that any compiler makes vectors of, as wide as it may. */
void scaled(int *restrict out, const int *restrict in, int factor, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        out[i] += in[i] * factor;
}

static PyObject *total(PyObject *self, PyObject *args)
{
    int in[64], out[64] = {0}, factor, result = 0;
    if (!PyArg_ParseTuple(args, "i", &factor))
        return NULL;
    assert(factor != 7);
    for (int i = 0; i < 64; i++)
        in[i] = i;
    scaled(out, in, factor, 64);
    for (int i = 0; i < 64; i++)
        result += out[i];
    return PyLong_FromLong(result);
}

static PyMethodDef methods[] = {{"total", total, METH_VARARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", "", -1, methods};
PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
"""

HATCHLING = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "hatched-demo"
dynamic = ["version"]
[tool.hatch.version]
path = "src/hatched_demo/__init__.py"
"""
    + TABLE,
    "src/hatched_demo/__init__.py": '__version__ = "1.2"\n',
}
FLIT = {
    "pyproject.toml": """
[build-system]
requires = ["flit_core>=3.4"]
build-backend = "flit_core.buildapi"
[project]
name = "flit-demo"
version = "1.0"
description = "a demo"
"""
    + TABLE,
    "flit_demo.py": '"""a demo"""\n',
}
SETUPTOOLS = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "set-demo"
version = "1.0"
[tool.setuptools]
packages = ["set_demo"]
ext-modules = [{ name = "set_demo.fast", sources = ["fast.c"] }]
"""
    + TABLE,
    "set_demo/__init__.py": "",
    "fast.c": SUM,
}
MESON = {
    "pyproject.toml": """
[build-system]
requires = ["meson-python", "ninja"]
build-backend = "mesonpy"
[project]
name = "meson-demo"
version = "1.0"
"""
    + TABLE,
    "meson.build": """
project('meson-demo', 'c', version: '1.0')
py = import('python').find_installation(pure: false)
py.extension_module('fast', 'fast.c', install: true, subdir: 'meson_demo')
told = configuration_data({'told': '", "'.join(get_option('variant'))})
built = configure_file(input: '__init__.py.in', output: '__init__.py', configuration: told)
py.install_sources(built, subdir: 'meson_demo')
""",
    "meson.options": "option('variant', type: 'array', value: [])\n",
    "__init__.py.in": 'TOLD = ["@told@"]\n',
    "fast.c": SUM,
}
SCIKIT = {
    "pyproject.toml": """
[build-system]
requires = ["scikit-build-core==1.1.2", "cmake", "ninja"]
build-backend = "scikit_build_core.build"
[project]
name = "scikit-demo"
version = "1.0"
[tool.scikit-build]
build-dir = "build/{wheel_tag}"
cmake.build-type = "Release"
"""
    + TABLE,
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.15...4.0)
project(scikit_demo LANGUAGES C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
python_add_library(fast MODULE fast.c WITH_SOABI)
install(TARGETS fast DESTINATION scikit_demo)
""",
    "src/scikit_demo/__init__.py": "",
    "fast.c": SUM,
}


def write(folder: Path, files: dict[str, str], more: str = "") -> Path:
    """Write a project and return its folder.

    :param folder: where.
    :param files: path to content.
    :param more: what its pyproject.toml says besides.
    """
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + (more if name == "pyproject.toml" else ""))
    return folder
