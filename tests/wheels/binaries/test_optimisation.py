"""How libraries were compiled, by what compilers write into them."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest

from wheelfit.testing.binaries import elf_file, pe_file
from wheelfit.wheels.binaries.optimisation import Optimisation, read_optimisation

pytestmark = pytest.mark.integration

SOURCE = """
#include <assert.h>
#include <string.h>
struct table { int values[100]; };
int sum(struct table *table, int count) {
    int result = 0;
    for (int i = 0; i < count; i++) {
        assert(i < 100);
        result += table->values[i] * 3;
    }
    return result;
}
int count(char *text, int length) {
    int found = 0;
    while (length--) switch (*text++) {
        case 'a': found++; break;
        case 'b': found--; break;
        default: if (found > 5) found ^= sum((void *)text, length);
    }
    return found;
}
"""


def compiled(folder: Path, *options: str, compiler: str = "gcc") -> Optimisation:
    """Return how a library says it was compiled."""
    program = shutil.which(compiler)
    if program is None:
        pytest.skip(f"needs {compiler}")
    source, library = folder / "sum.c", folder / "sum.so"
    source.write_text(SOURCE)
    words = [program, "-shared", "-fPIC", "-fno-stack-protector", *options]
    subprocess.run([*words, str(source), "-o", str(library)], check=True)
    with library.open("rb") as file:
        optimisation = read_optimisation(file, library.name)
    assert optimisation is not None
    return optimisation


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("march", ["-march=x86-64", "-march=x86-64-v3"])
def test_code_without_optimisation(compiler: str, march: str, tmp_path: Path) -> None:
    """Without debug information the instructions tell, whatever the compiler and the level."""
    plain = compiled(tmp_path, "-O2", "-DNDEBUG", compiler=compiler)
    worse = compiled(tmp_path, "-O0", "-DNDEBUG", march, compiler=compiler)
    (loss,) = worse.losses_against(plain)
    assert "not optimised" in loss
    assert plain.losses_against(worse) == ()
    assert worse.losses_against(worse) == ()


@pytest.mark.parametrize(
    "options", [["-O1"], ["-O2"], ["-O3"], ["-Os"], ["-O2", "-fno-omit-frame-pointer"]]
)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_optimised_code(options: list[str], compiler: str, tmp_path: Path) -> None:
    """Code that is optimised in one way or another is not taken for code that is not."""
    plain = compiled(tmp_path, "-O2", "-DNDEBUG", compiler=compiler)
    other = compiled(tmp_path, *options, "-DNDEBUG", "-march=x86-64-v3", compiler=compiler)
    assert other.losses_against(plain) == ()


@pytest.mark.parametrize(
    ("plain", "worse", "told"),
    [
        (["-O3"], ["-O2"], "sum.c is compiled with -O2, in the plain wheel with -O3"),
        (["-O3"], [], "sum.c is compiled with -O0, in the plain wheel with -O3"),
        (["-O"], ["-Og"], "sum.c is compiled with -Og, in the plain wheel with -O1"),
        (["-O0", "-O2"], ["-O2", "-Os"], "sum.c is compiled with -Os, in the plain wheel with -O2"),
    ],
)
def test_levels(plain: list[str], worse: list[str], told: str, tmp_path: Path) -> None:
    """GCC writes its options beside the debug information; the last level counts."""
    first = compiled(tmp_path, "-g", *plain)
    second = compiled(tmp_path, "-g", *worse, "-march=x86-64-v3")
    assert second.losses_against(first) == (told,)
    assert first.losses_against(second) == ()


def test_assertions(tmp_path: Path) -> None:
    """An assertion that the plain build has not is a loss, and the other way round none."""
    plain, worse = compiled(tmp_path, "-O2", "-DNDEBUG"), compiled(tmp_path, "-O2", "-s")
    assert worse.losses_against(plain) == (
        "it has assertions, in the plain wheel they are off (-DNDEBUG)",
    )
    assert plain.losses_against(worse) == ()


def test_the_code_itself(tmp_path: Path) -> None:
    """A note for the loader changes no code; instructions of a level do."""
    plain = compiled(tmp_path, "-O3", "-DNDEBUG")
    assert compiled(tmp_path, "-O3", "-DNDEBUG", "-Wl,-z,x86-64-v3").code == plain.code
    assert compiled(tmp_path, "-O3", "-DNDEBUG", "-march=x86-64-v3").code != plain.code


def test_what_is_no_such_library() -> None:
    """Other formats say nothing, and of what cannot be read nothing is known."""
    assert read_optimisation(io.BytesIO(pe_file()), "some.pyd") is None
    assert read_optimisation(io.BytesIO(b"text"), "some") is None
    assert read_optimisation(io.BytesIO(elf_file()[:200]), "some") is not None
