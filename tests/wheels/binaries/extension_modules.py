"""Extension modules that gcc makes for a level of x86-64; nothing runs them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

MODULE = """
struct method { const char *name; void *call; int flags; const char *doc; };
struct slot { int id; void *value; };
struct definition {
    void *head[HEAD]; const char *name; const char *doc; long size;
    struct method *methods; struct slot *slots; void *rest[3];
};
void *PyModuleDef_Init(struct definition *);

static double scale(double *values, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) { values[i] *= 2.5; sum += values[i]; }
    return sum;
}
static struct method methods[] = {{"scale", scale, 1, 0}, {0}};
static struct slot slots[] = {{0}};
static struct definition fast = {{0}, "some.fast", 0, 0, methods, slots};
void *PyInit_fast(void) { return PyModuleDef_Init(&fast); }
""".replace("[HEAD]", "[5]")
"""A module with a method that works on floating-point numbers."""

DISPATCHING = """
__attribute__((noinline, target("arch=x86-64-v4")))
double sum_new(double *v, int n) { double s = 0; for (int i = 0; i < n; i++) s += v[i]; return s; }
__attribute__((noinline))
double sum_old(double *v, int n) { double s = 0; for (int i = 0; i < n; i++) s += v[i]; return s; }
double sum(double *v, int n) {
    return __builtin_cpu_supports("avx512f") ? sum_new(v, n) : sum_old(v, n);
}
"""
"""Functions that choose by the processor."""

INTEGERS = """
unsigned long mix(unsigned long x, unsigned n) {
    for (unsigned i = 0; i < n; i++) { x = (x << i) ^ (x >> (n - i)); x &= ~(x << n); }
    return x;
}
unsigned long more(unsigned long x, unsigned n) { return mix(x, n) << n ^ mix(x >> n, n + 1) >> n; }
"""
"""Functions that have no use for vectors."""


def compiled(folder: Path, source: str, *options: str, march: str = "x86-64-v3") -> bytes:
    """Compile a library for a level, or skip."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    machine = subprocess.run([compiler, "-dumpmachine"], capture_output=True, check=True).stdout
    if not machine.startswith(b"x86_64"):
        pytest.skip("needs a compiler for x86-64")
    folder.mkdir(parents=True, exist_ok=True)
    path, library = folder / "some.c", folder / "some.so"
    path.write_text(source)
    command = [compiler, "-O3", "-ffast-math", f"-march={march}", "-shared", "-fPIC", *options]
    subprocess.run([*command, "-nostartfiles", "-o", library, path], check=True)
    return library.read_bytes()
