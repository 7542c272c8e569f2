"""Build published projects plain and for x86-64-v3, and time what comes of them; print a table.

    python benchmarks/build_flags.py                  every project
    python benchmarks/build_flags.py ujson lz4        some of them
    python benchmarks/build_flags.py --sdists FOLDER  source distributions that are there already
    python benchmarks/build_flags.py --keep FOLDER    keep the wheels, and take them up again
    python benchmarks/build_flags.py --docs           write the table of building.md

The projects are taken as their authors published them, and nobody tuned them for this. Each is
built by `wheelfit build --plain --variant v3 --flags`. The two wheels are unpacked and take turns,
every turn in a new process, which runs one piece of work five times and gives the shortest
processor time, which suffers less than the time of day from whatever else runs there.
Figures are medians of the turns; the ratio is the median of the ratios of each turn, and above 1
where the variant is faster. Beside it stand the quartiles of these ratios: where 1 lies between
them, the difference is noise. Needs a processor of level v3 and compilers for C, C++, Fortran and
Rust.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PAGE = CHECKOUT / "docs" / "explanation" / "building.md"
BEGIN, END = "<!-- build_flags: begin -->", "<!-- build_flags: end -->"
WHEELFIT = [sys.executable, "-m", "wheelfit"]
PROPERTY = "x86_64 :: level :: v3"
PROVIDER = "x86_64=x86-64-variant-provider<1"


@dataclass(frozen=True)
class Project:
    """A published project, and a piece of work for it."""

    requirement: str
    backend: str
    languages: str
    """What its extension modules are written in."""
    setup: str
    work: str
    needs: tuple[str, ...] = ()
    """What it needs to run."""

    @property
    def name(self) -> str:
        """The name without the version."""
        return self.requirement.partition("==")[0]


_JSON = "[{'id': n, 'name': 'item %d' % n, 'tags': ['a', 'b'], 'x': n / 7} for n in range(5000)]"
PROJECTS = (
    Project(
        "ujson==5.10.0", "setuptools", "C, C++", f"import ujson; text = ujson.dumps({_JSON})",
        "ujson.loads(text)",
    ),
    Project(
        "msgpack==1.2.4", "setuptools", "Cython",
        f"import msgpack._cmsgpack as m; data = m.Packer().pack({_JSON})",
        "m.unpackb(data)",
    ),
    Project(
        "kiwisolver==1.5.1", "setuptools", "C++",
        "import kiwisolver as k\n"
        "def solve():\n"
        "    solver, names = k.Solver(), [k.Variable(str(n)) for n in range(300)]\n"
        "    for a, b in zip(names, names[1:]):\n"
        "        solver.addConstraint(b >= a + 10)\n"
        "    solver.addConstraint(names[-1] <= 9000)\n"
        "    solver.updateVariables()",
        "solve()",
        ("typing-extensions",),
    ),
    Project(
        "xxhash==4.1.0", "setuptools", "C", "import xxhash; data = bytes(range(256)) * 40000",
        "xxhash.xxh3_128_digest(data)",
    ),
    Project(
        "numexpr==2.14.2", "setuptools", "C++",
        "import numpy, numexpr; numexpr.set_num_threads(1); a = numpy.linspace(0, 1, 1_000_000); "
        "b = a + 1",
        "numexpr.evaluate('2 * a + 3 * b * b - a / b')",
        ("numpy",),
    ),
    Project(
        "lz4==4.4.5", "setuptools", "C",
        "import lz4.block; data = b''.join(b'%d line %d;' % (n, n * n) for n in range(200_000))",
        "lz4.block.compress(data)",
    ),
    Project(
        "murmurhash==1.0.16", "setuptools", "Cython, C++",
        "from murmurhash import mrmr; text = 'word' * 250_000",
        "mrmr.hash(text, 1)",
    ),
    Project(
        "levenshtein==0.27.5", "scikit-build-core", "Cython, C++",
        "import Levenshtein as l; a, b = 'kitten sitting' * 300, 'sitting kitten' * 300",
        "l.distance(a, b)",
        ("rapidfuzz",),
    ),
    Project(
        "pywavelets==1.9.0", "meson-python", "Cython, C",
        "import numpy, pywt; data = numpy.linspace(0, 1, 2_000_000)",
        "pywt.dwt(data, 'db8')",
        ("numpy",),
    ),
    Project(
        "spglib==2.8.0", "scikit-build-core", "C",
        "import numpy, spglib; places = [[0, 0, 0], [0, .5, .5], [.5, 0, .5], [.5, .5, 0]]; "
        "cell = (numpy.eye(3) * 4, places, [1] * 4)",
        "spglib.get_symmetry_dataset(cell)",
        ("numpy", "typing-extensions"),
    ),
    Project(
        "ulid-transform==2.2.9", "poetry-core", "Cython, C++",
        "import ulid_transform as u; text = u.ulid_at_time(1_700_000_000.0)",
        "for _ in range(1000): u.ulid_to_bytes(text)",
    ),
    Project(
        "fnv-hash-fast==2.0.3", "poetry-core", "Cython, C++",
        "from fnv_hash_fast import fnv1a_32; data = b'x' * 100_000",
        "fnv1a_32(data)",
        ("fnvhash",),
    ),
    Project(
        "editdistance==0.8.1", "pdm-backend", "Cython, C++",
        "import editdistance as e; a, b = 'kitten sitting' * 60, 'sitting kitten' * 60",
        "e.eval(a, b)",
    ),
    Project(
        "frozenlist==1.8.0", "its own", "Cython",
        "from frozenlist._frozenlist import FrozenList; names = FrozenList(map(str, range(1000)))",
        "for name in names: names.index(name)",
    ),
    Project(
        "crcmod==1.7", "setuptools, setup.py alone", "C",
        "import crcmod; check = crcmod.mkCrcFun(0x104C11DB7); data = bytes(range(256)) * 4000",
        "check(data)",
    ),
    Project(
        "pymongo==4.20.1", "hatchling", "C",
        f"import bson; assert bson.has_c(); data = bson.encode({{'all': {_JSON}}})",
        "bson.decode(data)",
    ),
    Project(
        "apexpy==2.1.1", "meson-python", "Fortran, C",
        "import numpy, apexpy; apex = apexpy.Apex(date=2015.3); "
        "places = numpy.linspace(-80, 80, 200)",
        "apex.geo2qd(places, 15, 300)",
        ("numpy",),
    ),
    Project(
        "orjson==3.13.0", "maturin", "Rust, C", f"import orjson; text = orjson.dumps({_JSON})",
        "orjson.loads(text)",
    ),
)  # fmt: skip
_TIMER = """
import sys, time
sys.path[:0] = sys.argv[1:3]
names = {{}}
exec({setup!r}, names)
work = compile({work!r}, "work", "exec")
number, spent = 1, 0.0
while True:  # until a turn takes long enough to be measured
    began = time.process_time()
    for _ in range(number):
        exec(work, names)
    spent = time.process_time() - began
    if spent > 0.05:
        break
    number *= 2
best = spent / number
for _ in range(4):
    began = time.process_time()
    for _ in range(number):
        exec(work, names)
    best = min(best, (time.process_time() - began) / number)
print(best)
"""


def sdist_of(project: Project, folder: Path) -> Path:
    """Return the source distribution of a project, fetched where it is not there."""
    stem = project.requirement.replace("==", "-")
    patterns = (
        f"{stem}.tar.gz",
        f"{project.name.replace('-', '_')}{stem[len(project.name) :]}.tar.gz",
    )
    if not any((folder / name).exists() for name in patterns):
        words = ["download", "-q", "--no-deps", "--no-binary", project.name, "-d", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", *words, project.requirement], check=True)
    return next(folder / name for name in patterns if (folder / name).exists())


def built(project: Project, sdist: Path, folder: Path) -> tuple[Path, Path]:
    """Return the plain wheel and the variant, unpacked."""
    if not list(folder.glob("*-v3.whl")):
        words = ["build", str(sdist), "--plain", "--flags", "-o", str(folder), "--quiet"]
        words += ["--variant", "v3", "--property", PROPERTY, "--provider", PROVIDER]
        print(f"building {project.requirement}", file=sys.stderr, flush=True)
        subprocess.run([*WHEELFIT, *words], check=True, stdout=subprocess.DEVNULL)
    (variant,) = folder.glob("*-v3.whl")
    (plain,) = (path for path in folder.glob("*.whl") if path != variant)
    places = []
    for path in (plain, variant):
        place = folder / path.stem
        if not place.is_dir():
            with zipfile.ZipFile(path) as archive:
                archive.extractall(place)
        places.append(place)
    return places[0], places[1]


def needed(project: Project, folder: Path) -> Path:
    """Return a folder with what a project needs to run."""
    if project.needs and not folder.is_dir():
        words = ["install", "-q", "--target", str(folder), *project.needs]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return folder


def seconds(project: Project, place: Path, needs: Path) -> float:
    """Return how long the work takes in a new process."""
    code = _TIMER.format(setup=project.setup, work=project.work)
    words = [sys.executable, "-I", "-c", code, str(place), str(needs)]
    done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=place)
    return float(done.stdout)


def shown(value: float) -> str:
    """Return a time with its unit."""
    unit, factor = ("ms", 1e3) if value >= 1e-3 else ("µs", 1e6)
    return f"{value * factor:.3g} {unit}"


def row(project: Project, turns: list[tuple[float, float]]) -> str:
    """Return the line of a project."""
    plain, variant = (statistics.median(one) for one in zip(*turns, strict=True))
    low, ratio, high = statistics.quantiles((first / second for first, second in turns), n=4)
    words = f"{project.name} {project.requirement.partition('==')[2]}"
    times = f"{shown(plain)} | {shown(variant)} | {ratio:.2f} | {low:.2f}–{high:.2f}"
    return f"| {words} | {project.backend} | {project.languages} | {times} |"


def main() -> None:
    """Build, time, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("projects", nargs="*", choices=[[], *(one.name for one in PROJECTS)])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--sdists", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--docs", action="store_true")
    arguments = parser.parse_args()
    chosen = [one for one in PROJECTS if not arguments.projects or one.name in arguments.projects]
    with tempfile.TemporaryDirectory() as scratch:
        kept = (arguments.keep or Path(scratch)).absolute()
        sdists = (arguments.sdists or kept / "sdists").absolute()
        sdists.mkdir(parents=True, exist_ok=True)
        lines = [
            "| project | backend | languages | plain | v3 | plain / v3 | middle half |",
            "|---|---|---|---:|---:|---:|---:|",
        ]
        for project in chosen:
            folder = kept / project.name
            places = built(project, sdist_of(project, sdists), folder)
            needs = needed(project, kept / f"{project.name}-needs")
            turns = [
                (seconds(project, places[0], needs), seconds(project, places[1], needs))
                for _ in range(arguments.turns)
            ]
            lines.append(row(project, turns))
            print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join(lines)
    day = datetime.now(UTC).strftime("%B %Y")
    python = platform.python_version()
    where = f"{day}, CPython {python}, {os.cpu_count()} cores of a shared and busy machine"
    where += f"; processor time, {arguments.turns} turns. The ratio is the median of those of each"
    where += " turn, and the last column their quartiles: where 1 is between them, the difference"
    where += " is noise."
    text += f"\n\n{where}"
    print(text)
    if arguments.docs:
        page = PAGE.read_text("utf-8")
        pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
        page = pattern.sub(f"{BEGIN}\n{text}\n{END}", page)
        PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
