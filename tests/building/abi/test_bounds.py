"""Which releases of a library something works with."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from server.debian import Unavailable, find_or_install
from wheels.binaries.compiling import FAST, POINT, Workshop, versions_of_fast

from wheelfit.building.abi.bounds import (
    Bounds,
    ReleaseSymbols,
    consumer_of,
    derive_bounds,
    symbols_of_release,
)
from wheelfit.building.abi.release_comparison import (
    LibraryRelease,
    choose_wheels,
    compare_releases,
    find_abicompat,
)
from wheelfit.core.abi_dependency import matches
from wheelfit.core.abi_exports import AbiExports, AbiLevel, exported_value, values_for
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.page import File
from wheelfit.testing.binaries import elf_file
from wheelfit.wheels.binaries.elf import Symbols
from wheelfit.wheels.binaries.reading import symbols_in
from wheelfit_runtime.errors import FileProblem


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Give a place to compile, or skip."""
    folder = tmp_path / "workshop"
    folder.mkdir()
    return Workshop(folder)


def found(
    consumer: Path, libraries: dict[str, Path], scratch: Path, program: str | None = None
) -> Bounds:
    """Hold a consumer against versions of a library."""
    scratch.mkdir()
    releases = [
        LibraryRelease(Version(version), path.name, lambda path=path: path)  # type: ignore[misc]
        for version, path in libraries.items()
    ]
    return compare_releases(consumer, releases, AbiExports(), scratch, program=program)


class TestCompiled:
    """Real libraries."""

    def test_from_first_to_last(self, workshop: Workshop, tmp_path: Path) -> None:
        """B-61: from the first release that has all symbols to the one that changes its name."""
        libraries = versions_of_fast(workshop)
        result = found(workshop.user(libraries["1.1"]), libraries, tmp_path / "scratch")
        bounds = result
        assert bounds.libraries == ("libfast.so.1",)
        assert bounds.symbols == ("fast_new", "fast_scale")
        assert {str(release.version): release.fits for release in bounds.releases} == {
            "1.0": False,
            "1.1": True,
            "1.2": True,
            "2.0": False,
        }
        assert bounds.releases[0].missing_symbols == ("fast_scale",)
        assert bounds.releases[3].missing_libraries == ("libfast.so.1",)
        assert (bounds.values, bounds.requirement) == (("1.1", "1.2"), ">=1.1,<2.0")
        assert "have no debug information" in result.notes[0]

    def test_a_symbol_that_goes(self, workshop: Workshop, tmp_path: Path) -> None:
        """B-61: the upper bound is the first release that drops a symbol."""
        source = "int fast_gone(void);\nint use(void) { return fast_gone(); }\n"
        libraries = versions_of_fast(workshop)
        consumer = workshop.user(libraries["1.0"], source)
        bounds = found(consumer, libraries, tmp_path / "scratch")
        assert (bounds.values, bounds.requirement) == (("1.0", "1.1"), ">=1.0,<1.2")

    def test_what_cannot_be_seen(self, workshop: Workshop, tmp_path: Path) -> None:
        """B-61: a structure that grows is invisible in stripped libraries, and that is said."""
        libraries = {
            "1.1": workshop.library("1.1", POINT + FAST["1.1"]),
            "1.2": workshop.library("1.2", GROWN + FAST["1.2"]),
        }
        result = found(workshop.user(libraries["1.1"]), libraries, tmp_path / "scratch")
        assert all(release.fits for release in result.releases)
        assert "changes of types and layouts cannot be detected" in result.notes[0]

    @pytest.mark.integration
    def test_types(self, workshop: Workshop, tmp_path: Path) -> None:
        """B-61: with debug information and abicompat a structure that grows is found."""
        try:
            program = find_or_install("abigail-tools", find_abicompat)
        except Unavailable as error:
            pytest.skip(str(error))
        libraries = {
            "1.1": workshop.library("1.1", POINT + FAST["1.1"], debug=True),
            "1.2": workshop.library("1.2", POINT + FAST["1.2"], debug=True),
            "1.3": workshop.library("1.3", GROWN + FAST["1.2"], debug=True),
        }
        consumer = workshop.user(libraries["1.1"], debug=True)
        result = found(consumer, libraries, tmp_path / "scratch", program)
        assert [release.fits for release in result.releases] == [True, True, False]
        assert "fast_new" in result.releases[2].changed_types
        assert result.values == ("1.1", "1.2")
        assert not any("debug information" in note for note in result.notes)
        without = found(consumer, libraries, tmp_path / "again")
        assert any("abicompat" in note for note in without.notes)

    def test_nothing_used(self, workshop: Workshop, tmp_path: Path) -> None:
        """B-61: what loads nothing of the library is an error that says so."""
        libraries = versions_of_fast(workshop)
        consumer = workshop.user(workshop.library("x", "int x;", soname="libother.so"), "int y;")
        with pytest.raises(FileProblem, match="loads no library of any"):
            found(consumer, libraries, tmp_path / "scratch")

    def test_no_library(self, tmp_path: Path) -> None:
        """B-61: what is not a library is an error."""
        path = tmp_path / "text.so"
        path.write_text("text")
        with pytest.raises(FileProblem, match="neither a wheel nor an ELF file"):
            found(path, {}, tmp_path / "scratch")


GROWN = "struct point { int w; int x; int y; };\n"


# --- symbols --------------------------------------------------------------------------------------


def symbols(
    *, soname: str | None = None, needed: str = "", exported: str = "", wanted: str = ""
) -> Symbols:
    """Return the symbols of a library; names by blanks."""
    return Symbols(
        soname,
        tuple(needed.split()),
        frozenset(exported.split()),
        frozenset(wanted.split()),
        frozenset(),
    )


def candidate(
    version: str, exported: str, *, wanted: str, soname: str = "liba.so"
) -> ReleaseSymbols:
    """Return what a library with some symbols offers."""
    consumer = consumer_of([symbols(needed="liba.so", wanted=wanted)])
    libraries = {"liba.so": symbols(soname=soname, exported=exported)}
    return symbols_of_release(Version(version), "file", libraries, consumer, AbiExports())


class TestSymbols:
    """What counts."""

    def test_versions_of_symbols(self) -> None:
        """B-61: a symbol with a version wants that one, a symbol without takes any."""
        given = candidate("1", "f@A_1 g@A_2", wanted="f@A_1 g@A_1 f g h")
        assert given.symbols == {"f@A_1", "f", "g"}

    def test_of_others(self) -> None:
        """B-61: symbols that are bound to another library count for nothing."""
        (needed, wanted) = ("liba.so libc.so.6", "f memcpy@GLIBC_2.14")
        one = Symbols(
            None,
            tuple(needed.split()),
            frozenset(),
            frozenset(wanted.split()),
            frozenset(),
            (("memcpy@GLIBC_2.14", "libc.so.6"),),
        )
        consumer = consumer_of([one])
        libraries = {"liba.so": symbols(exported="f memcpy@GLIBC_2.14")}
        old = symbols_of_release(Version("1"), "file", libraries, consumer, AbiExports())
        new = symbols_of_release(
            Version("2"), "file", {"liba.so": symbols(exported="f")}, consumer, AbiExports()
        )
        bounds = derive_bounds(consumer, [old, new], AbiExports())
        assert bounds.symbols == ("f",)
        assert all(release.fits for release in bounds.releases)

    def test_what_is_loaded_in_turn(self) -> None:
        """B-61: a library of the release that another one of it loads offers symbols too."""
        consumer = consumer_of([symbols(needed="liba.so", wanted="f g h")])
        libraries = {
            "liba.so": symbols(needed="libb.so", exported="f"),
            "libb.so": symbols(exported="g"),
            "libc.so": symbols(exported="h"),
        }
        given = symbols_of_release(Version("1"), "file", libraries, consumer, AbiExports())
        assert given.symbols == {"f", "g"}

    def test_own_libraries(self) -> None:
        """B-61: what a consumer brings along it wants of nobody."""
        consumer = consumer_of(
            [
                symbols(needed="liba.so libown.so", wanted="f own"),
                symbols(soname="libown.so", exported="own"),
            ]
        )
        assert consumer.needed == {"liba.so"}
        assert consumer.symbols == {"f"}

    def test_promised_libraries(self) -> None:
        """B-61: only libraries that the table names are for users to link with."""
        consumer = consumer_of([symbols(needed="liba.so libb.so", wanted="f g")])
        libraries = {"liba.so": symbols(exported="f"), "libb.so": symbols(exported="g")}
        exports = AbiExports(libraries=("liba*",))
        given = symbols_of_release(Version("1"), "file", libraries, consumer, exports)
        assert given.libraries == {"liba.so"}
        assert given.symbols == {"f"}

    def test_a_gap(self) -> None:
        """B-61: a release between those that fit is excluded by itself."""
        consumer = consumer_of([symbols(needed="liba.so", wanted="f g")])
        candidates = [
            candidate("1.0", "f g", wanted="f g"),
            candidate("1.0.1", "f", wanted="f g"),
            candidate("1.0.2", "f g", wanted="f g"),
            candidate("1.1", "f g", wanted="f g"),
        ]
        bounds = derive_bounds(consumer, candidates, AbiExports())
        assert bounds.requirement == ">=1.0,!=1.0.1"
        assert bounds.values == ("1.0.0", "1.0.2", "1.1")
        assert (bounds.broken_by, bounds.last) == (None, Version("1.1"))

    def test_built_by_hand(self) -> None:
        """B-61: symbols are read from the dynamic table of an ELF file."""
        library = elf_file(exports=["f", "g"], imports=["h"], needed=["libc.so.6"])
        read = symbols_in(io.BytesIO(library))
        assert read.exported == {"f", "g"}
        assert read.imported == {"h"}
        assert read.needed == ("libc.so.6",)


# --- values ---------------------------------------------------------------------------------------

releases = st.dictionaries(
    st.builds(
        lambda numbers, tail: Version(".".join(map(str, numbers)) + tail),
        st.lists(st.integers(0, 3), min_size=1, max_size=4),
        st.sampled_from(["", "rc1", ".post1", "+cu128"]),
    ),
    st.booleans(),
    max_size=12,
)


@given(releases, st.sampled_from(AbiLevel))
def test_values(compatible: dict[Version, bool], level: AbiLevel) -> None:
    """B-61, P-48: values admit releases that fit, no other of those looked at, and miss few."""
    values = values_for(compatible, AbiExports(level))
    assert len(set(values)) == len(values)
    for version, fits in compatible.items():
        admitted = any(matches(value, version) for value in values)
        exact = exported_value(version, AbiExports(AbiLevel.PATCH))
        shared = [
            other
            for other in compatible
            if exported_value(other, AbiExports(AbiLevel.PATCH)) == exact
        ]
        if not fits:
            assert not admitted
        elif all(compatible[other] for other in shared):
            assert admitted  # otherwise no value tells it from one that does not fit


def test_levels() -> None:
    """B-61: a value stands for as much as the library promises."""
    version = Version("2.8.1.4+cu128")
    values = {level.value: exported_value(version, AbiExports(level)) for level in AbiLevel}
    assert values == {"major": "2", "minor": "2.8", "patch": "2.8.1"}
    assert values_for({Version("1!2.0"): True}, AbiExports()) == ()  # P-48: epochs never match


# --- wheels ---------------------------------------------------------------------------------------


def file(name: str, *, yanked: str | None = None) -> File:
    """Return an entry of a page."""
    return File(name, f"https://index.example/{name}", yanked=yanked)


def test_which_wheels() -> None:
    """B-61: of each release one wheel: same machine, same Python if there is one, plain first."""
    linux = "manylinux_2_28_x86_64"
    files = [
        file(f"fast-1.0-cp312-cp312-{linux}.whl"),
        file(f"fast-1.0-cp313-cp313-{linux}.whl"),
        file(f"fast-1.0-cp313-cp313-{linux}-cu128.whl"),
        file("fast-1.0-cp313-cp313-win_amd64.whl"),
        file("fast-1.1-cp313-cp313-manylinux_2_28_aarch64.whl"),
        file(f"fast-1.2-cp313-cp313-{linux}-cu128.whl"),
        file(f"fast-1.3-cp313-cp313-{linux}.whl", yanked="bad"),
        file(f"fast-1.4rc1-cp313-cp313-{linux}.whl"),
        file(f"fast-1.5-cp312-cp312-{linux}.whl"),
        file("fast-1.5.tar.gz"),
    ]
    consumer = parse_wheel_filename(f"user-1-cp313-cp313-{linux}.whl")

    def chosen(label: str | None = None, newest: int = 0, versions: str = "") -> list[str]:
        wheels = choose_wheels(
            files,
            frozenset(["x86_64"]),
            consumer,
            specifier=SpecifierSet(versions),
            label=label,  # type: ignore[arg-type]
            newest=newest,
        )
        return [one.filename for _, one in wheels]

    assert chosen() == [
        f"fast-1.0-cp313-cp313-{linux}.whl",
        f"fast-1.2-cp313-cp313-{linux}-cu128.whl",
        f"fast-1.5-cp312-cp312-{linux}.whl",
    ]
    assert chosen(newest=1) == [f"fast-1.5-cp312-cp312-{linux}.whl"]
    assert chosen(label="cu128", versions="<1.2") == [f"fast-1.0-cp313-cp313-{linux}-cu128.whl"]
