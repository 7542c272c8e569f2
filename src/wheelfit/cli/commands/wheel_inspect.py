"""Show what the binaries in wheels are made for.

For each library: machine, GPUs (code in CUDA fat binaries, PTX), the libraries it needs and in
which versions, and the x86-64 level that the loader asks for; and which properties the wheel may
claim by that. What a binary does not say is left out, what cannot be read is called unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.wheels import INSPECT

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from wheelfit.cli.output import Output
    from wheelfit.wheels.binaries.facts import Binaries, Binary, SymbolVersion
    from wheelfit.wheels.binaries.properties import FoundProperties


OPTIONS = (INSPECT,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Show each wheel."""
    del environ
    from wheelfit.wheels.binaries.properties import properties_of

    shown: list[dict[str, object]] = []
    for path in _meant(arguments.wheels):
        binaries = _read(path, instructions=arguments.instructions)
        found = properties_of(binaries, ptx=not arguments.no_ptx)
        shown.append(_mapping(path, binaries, found))
        for line in _lines(path, binaries, found):
            output.result(line)
    output.result_json({"version": 1, "wheels": shown})
    return 0


def _meant(names: Sequence[str]) -> Iterator[Path]:
    """Yield wheels and libraries that are named, and the wheels of folders."""
    from pathlib import Path

    from wheelfit.cli.wheel_work import find_wheels

    for name in names:
        path = Path(name)
        if path.is_dir() or path.suffix == ".whl":
            yield from find_wheels([name])
        else:
            yield path


def _read(path: Path, *, instructions: bool) -> Binaries:
    from wheelfit.errors import FileProblem
    from wheelfit.wheels.archive import WheelArchive
    from wheelfit.wheels.binaries.facts import Binaries
    from wheelfit.wheels.binaries.instructions import with_instructions
    from wheelfit.wheels.binaries.reading import read_binary, unpacked_binaries

    def look(file: BinaryIO, name: str) -> Binary | None:
        binary = read_binary(file, name)
        return with_instructions(binary, file) if binary is not None and instructions else binary

    if path.suffix == ".whl":
        with WheelArchive(path, lenient=True) as archive:
            found = [look(file, member.name) for member, file in unpacked_binaries(archive)]
        return Binaries(tuple(one for one in found if one is not None))
    try:
        with path.open("rb") as file:
            binary = look(file, path.name)
    except OSError as error:
        raise FileProblem(
            f"it cannot be read: {error.strerror or type(error).__name__}", where=str(path)
        ) from error
    if binary is None:
        raise FileProblem(
            "it is neither a wheel nor a binary", where=str(path), hint="name a wheel or a library"
        )
    return Binaries((binary,))


def _mapping(path: Path, binaries: Binaries, found: FoundProperties) -> dict[str, object]:
    return {
        "path": str(path),
        "binaries": [one.to_mapping() for one in binaries],
        "properties": [str(one) for one in found.properties],
        "notes": list(found.notes),
    }


# --- for people ---------------------------------------------------------------------------


def _lines(path: Path, binaries: Binaries, found: FoundProperties) -> Iterator[str]:
    yield str(path)
    if not binaries.members:
        yield "  no binaries"
    for one in binaries:
        yield from _about(one)
    properties = [str(one) for one in found.properties]
    if properties:
        yield "  properties that the binaries show:"
        yield from (f"    {one}" for one in properties)
    yield from (f"  note: {one}" for one in found.notes)


def _about(binary: Binary) -> Iterator[str]:
    from wheelfit.core.sizes import size_in_words

    kind = ", ".join([binary.format.value, *binary.machines, size_in_words(binary.size)])
    yield f"  {binary.member} ({kind})"
    levels = binary.levels
    rows: list[tuple[str, Iterable[str]]] = [
        ("calls itself", [binary.soname] if binary.soname else []),
        ("needs", binary.needed),
        ("looks in", binary.rpath),
        ("versions", _newest(binary.versions)),
        (
            "x86-64",
            [
                *([f"needs {levels.needed}"] if levels.needed else []),
                *([f"has code of {levels.used}"] if levels.used else []),
                *(f"{count:,} of {level}" for level, count in levels.instructions or ()),
            ],
        ),
        (
            "made for",
            [
                f"{one.system} {one.version[0]}.{one.version[1]} on {one.machine}"
                for one in binary.minimum_systems
            ],
        ),
        ("GPUs", map(str, binary.code)),
        ("unlinked", map(str, binary.unlinked)),
        ("unknown", binary.faults),
    ]
    for word, items in rows:
        if text := ", ".join(items):
            yield f"    {word:<13}{text}"


def _newest(versions: Iterable[SymbolVersion]) -> list[str]:
    """Return the newest version of each family: who has that has the older ones too."""
    from wheelfit.platforms.words import natural

    newest: dict[str, str] = {}
    for one in versions:
        family, underscore, _ = one.name.rpartition("_")
        family = family if underscore else one.name
        newest[family] = max(newest.get(family, one.name), one.name, key=natural)
    return sorted(newest.values())
