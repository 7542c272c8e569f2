"""Write the table of torch's stable C interface that `wheelfit abi bounds` uses.

Of every release only its headers are fetched, as ranges of bytes of one wheel (a few megabytes in
all)::

    python tests/building/abi/write_torch_interface.py
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.operations.context import Context
from wheelfit.operations.indexes import open_indexes, read_settings
from wheelfit.operations.requests import SourceOptions
from wheelfit.sources.page import File
from wheelfit.sources.repository import Repository
from wheelfit.wheels.archive import WheelArchive

DATA = Path(__file__).parents[3] / "src/wheelfit/building/abi/torch_interface.json"
OLDEST = Version("2.4")
"""The first release in the table; 2.3 had thousands of functions, which 2.4 dropped."""
HEADER = re.compile(r"torch/include/torch/csrc/(inductor/aoti_torch/(c|generated)|stable/c)/\w+\.h")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"AOTI_TORCH_EXPORT\s+[\w\s*]*?\b((?:aoti|torch)_\w+)\s*\(")


def functions_in(header: str) -> set[str]:
    """Return the functions that a header declares, behind whatever condition."""
    return set(FUNCTION.findall(COMMENT.sub("", header)))


def table_of(functions: Mapping[Version, set[str]]) -> dict[str, object]:
    """Return the table: which release brought what it has, and which dropped what.

    :param functions: of each release.
    """
    releases = sorted(functions)
    since: dict[str, list[str]] = {}
    until: dict[str, list[str]] = {}
    for name in sorted(set().union(*functions.values())):
        present = [release for release in releases if name in functions[release]]
        absent = [release for release in releases if name not in functions[release]]
        first = next(one for one in present if not any(one < gone < present[-1] for gone in absent))
        since.setdefault(str(first), []).append(name)
        if dropped := [one for one in absent if one > present[-1]]:
            until.setdefault(str(dropped[0]), []).append(name)
    return {
        "source": "the headers of torch's wheels for Linux, BSD-3-Clause License",
        "oldest": str(releases[0]),
        "newest": str(releases[-1]),
        "since": {
            str(release): since[str(release)] for release in releases if str(release) in since
        },
        "until": until,
    }


def wheels(repository: Repository) -> Iterator[tuple[Version, File]]:
    """Yield one wheel of each release."""
    page = repository.project(canonicalize_name("torch"))
    assert page is not None
    found: dict[Version, File] = {}
    for file in page.files:
        if file.filename.endswith(".whl"):
            name = parse_wheel_filename(file.filename)
            platforms = {tag.platform for tag in name.tags}
            is_linux = any(re.fullmatch(r"manylinux\w*_x86_64", platform) for platform in platforms)
            if is_linux and name.version >= OLDEST and name.version.local is None:
                found.setdefault(name.version, file)
    yield from sorted(found.items(), key=lambda pair: pair[0])


def main() -> None:
    """Read the headers, and write the table."""
    functions: dict[Version, set[str]] = {}
    context, options = Context(dict(os.environ)), SourceOptions()
    with open_indexes(options, read_settings(options, context.environ), context) as repository:
        for version, file in wheels(repository):
            with closing(repository.open(file)) as source:
                archive = WheelArchive(source, parse_wheel_filename(file.filename))
                headers = [
                    member.name for member in archive.members if HEADER.fullmatch(member.name)
                ]
                texts = [archive.read(name).decode() for name in headers]
            functions[version] = set().union(*map(functions_in, texts))
    DATA.write_text(f"{json.dumps(table_of(functions), indent=1)}\n", "utf-8")


if __name__ == "__main__":
    main()
