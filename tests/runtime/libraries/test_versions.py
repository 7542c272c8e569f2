"""Versions, markers, machines: the little of them that libraries need, and nothing guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit_runtime.errors import InvalidPage, NoCompatibleWheel, UserError
from wheelfit_runtime.libraries import fetching
from wheelfit_runtime.libraries.machine import Machine, check_machine, is_compatible, this_machine
from wheelfit_runtime.libraries.progress import Progress
from wheelfit_runtime.libraries.request import LibraryRequest
from wheelfit_runtime.libraries.requirements import distributions_of, span_of
from wheelfit_runtime.libraries.toolkits import family_named
from wheelfit_runtime.libraries.versions import parse_requirement, parse_version, satisfies
from wheelfit_runtime.libraries.wheels import split_filename
from wheelfit_runtime.loader.driver import Driver, read_driver

CUDA = family_named("cuda")
LINUX = Machine("Linux", "x86_64", (2, 31))


@pytest.mark.parametrize(
    ("version", "specifier", "holds"),
    [
        ("12.9.79", "==12.9.79.*", True),
        ("12.9.790", "==12.9.79.*", False),
        ("13.5.37", "<14,>=13.5.37", True),
        ("14.0", "<14,>=13.5.37", False),
        ("1.10", ">=1.9", True),
        ("1.4", "~=1.4", True),
        ("2.0", "~=1.4", False),
        ("12.0", "==12.0.*", True),
        ("12", "==12.0.*", True),
        ("12.1", "!=12.1.*", False),
        ("1.0.post2", "", True),
    ],
)
def test_specifiers(version: str, specifier: str, *, holds: bool) -> None:
    """Numbers are compared as numbers, and zeros at the end do not count."""
    number = parse_version(version)
    assert number is not None
    assert satisfies(number, specifier) is holds


def test_pre_releases_are_no_versions() -> None:
    """A version with letters is never chosen, and one in a specifier is refused."""
    assert parse_version("13.0.0rc1") is None
    with pytest.raises(InvalidPage):
        satisfies((1,), ">=1.0rc1")


@pytest.mark.parametrize(
    ("marker", "holds"),
    [
        ("python_version ~= '3.8'", True),
        ("python_version === '2.7'", False),
        ("python_version\t>=\n'3.8'", True),
        ("sys_platform != 'a\\d'", True),
        ("sys_platform == 'linux' and extra == 'cudart'", True),
        ("(sys_platform == 'win32' or sys_platform == 'linux') and extra == 'cudart'", True),
        ("sys_platform == 'win32' or extra == 'other'", False),
        ("platform_machine != 'x86_64'", False),
        ('"lin" in sys_platform', True),
        ("sys_platform not in 'linux win32'", False),
        ("python_version >= '3.9'", True),
        ("", True),
    ],
)
def test_markers(marker: str, *, holds: bool) -> None:
    """The markers that tables of libraries use are understood."""
    requirement = parse_requirement(f"some==1.*; {marker}" if marker else "some (==1.*)")
    assert requirement.applies({**LINUX.markers, "extra": "cudart"}) is holds


@pytest.mark.parametrize(
    "marker", ["banana == 'x'", "(sys_platform == 'x'", "sys_platform ==", "'a' < 'b'", "§", "or"]
)
def test_markers_that_are_not_understood(marker: str) -> None:
    """What is not understood is refused, never guessed."""
    with pytest.raises(InvalidPage, match="marker"):
        parse_requirement(f"some; {marker}").applies(LINUX.markers)


@pytest.mark.parametrize(
    ("tag", "fitting"),
    [
        ("any", True),
        ("linux_x86_64", True),
        ("manylinux2014_x86_64", True),
        ("manylinux_2_31_x86_64", True),
        ("manylinux_2_34_x86_64", False),
        ("manylinux_2_34_x86_64.manylinux_2_17_x86_64", True),
        ("manylinux_2_x86_64", False),
        ("manylinux_2_²_x86_64", False),
        ("manylinux2014_aarch64", False),
        ("musllinux_1_2_x86_64", False),
        ("win_amd64", False),
    ],
)
def test_platform_tags(tag: str, *, fitting: bool) -> None:
    """A wheel fits by the oldest C library that one of its tags wants."""
    assert is_compatible(f"some-1.0-py3-none-{tag}.whl", LINUX) is fitting


def test_names_of_wheels() -> None:
    """A build number is part of a wheel's name, a variant label makes it none of ours."""
    assert split_filename("A_b-1.0-py3-none-any.whl") == ("a-b", "1.0")
    assert split_filename("a-1.0-1-py3-none-any.whl") == ("a", "1.0")
    assert split_filename("a-1.0-py3-none-any-cu128.whl") is None
    assert split_filename("a-1.0.tar.gz") is None


@pytest.mark.parametrize(
    "machine",
    [
        Machine("Linux", "x86_64", None),
        Machine("Linux", "aarch64", (2, 35), is_tegra=True),
        Machine("Linux", "riscv64", (2, 35)),
        Machine("Darwin", "aarch64"),
        Machine("Windows", "x86_64"),
    ],
)
def test_machines_without_libraries(machine: Machine) -> None:
    """musl, Jetson, macOS, Windows and rare architectures are told so, before anything is asked."""
    with pytest.raises(NoCompatibleWheel) as excinfo:
        check_machine(CUDA, machine)
    assert excinfo.value.note


def test_machines_with_libraries() -> None:
    """Linux with glibc on two architectures has CUDA; Jetson has what is not NVIDIA's driver's."""
    check_machine(CUDA, LINUX)
    check_machine(CUDA, Machine("Linux", "aarch64", (2, 35)))
    assert this_machine().system


@pytest.mark.parametrize(
    ("asked", "driver", "span"),
    [
        ("12", None, ">=12,<13"),
        ("12", Driver(None), ">=12,<13"),
        ("12", Driver((12, 6)), ">=12,<12.7"),
        ("12", Driver((13, 0)), ">=12,<13"),
        ("12.8", Driver((12, 6)), ">=12.8,<12.9"),
        ("12.8.1", Driver((12, 6)), ">=12.8.1,<12.8.2"),
        ("13", Driver((13, 0)), ">=13,<13.1"),
    ],
)
def test_spans(asked: str, driver: Driver | None, span: str) -> None:
    """P-91, P-92: a major version is capped to the driver's own; what is named is taken."""
    assert str(span_of(CUDA, asked, driver, cap_to_driver=True)) == span


def test_spans_without_a_cap() -> None:
    """Whoever compiles no PTX may have the newest of the driver's major version."""
    assert str(span_of(CUDA, "12", Driver((12, 6)), cap_to_driver=False)) == ">=12,<13"


@pytest.mark.parametrize(
    ("asked", "version", "held"),
    [
        ("13.0", "13.0.0", True),
        ("13.0", "13", True),
        ("13.0.0", "13.0.0", True),
        ("12.9", "12.9.2.0", True),
        ("13.0", "13.1.0", False),
        ("13.1", "13.0.2", False),
        ("12", "13.0.0", False),
    ],
)
def test_zeros_of_spans(asked: str, version: str, *, held: bool) -> None:
    """Zeros at the end say nothing: what is asked for as 13.0 is CUDA 13.0.0 too."""
    number = parse_version(version)
    assert number is not None
    assert span_of(CUDA, asked, None, cap_to_driver=True).contains(number) is held


@pytest.mark.parametrize("asked", ["", "x", "12.", "1.2.3.4", ">=12", "²"])
def test_versions_that_are_none(asked: str) -> None:
    """What is not a version is told so."""
    with pytest.raises(UserError):
        span_of(CUDA, asked, None, cap_to_driver=True)


def test_a_driver_that_is_not_there(tmp_path: object) -> None:
    """Without a driver there is no version, and a fingerprint all the same."""
    driver = read_driver(root=str(tmp_path), libraries=("/not/there.so",))
    assert (driver.cuda, driver.version, driver.fingerprint) == (None, "none", "none|")


@pytest.mark.parametrize(
    ("components", "version"), [(("tcm", "tbb"), "2022.1.0"), (("umf",), "2022")]
)
def test_version_of_a_family_in_a_lock(
    tmp_path: Path, components: tuple[str, ...], version: str
) -> None:
    """A component with versions of its own, as tcm, does not decide on that of the family."""
    lock = tmp_path / "pylock.toml"
    packages = "".join(
        f"[[packages]]\nname = '{name}'\nversion = '{number}'\nwheels = [{{ url = 'https://a.example/"
        f"{name}-{number}-py3-none-any.whl', hashes = {{ sha256 = '{'0' * 64}' }} }}]\n"
        for name, number in (("tcmlib", "1.4.0"), ("tbb", "2022.1.0"), ("umf", "1.0.2"))
    )
    lock.write_text(f"lock-version = '1.0'\n{packages}")
    request = LibraryRequest("onetbb", "2022", components, {}, lock=lock, store=tmp_path)
    projects = distributions_of(request.family, components, "2022")
    span = span_of(request.family, "2022", None, cap_to_driver=True)
    wheels, found_version, _ = fetching.resolve(request, LINUX, projects, span, Progress(None))
    assert [wheel.project for wheel in wheels] == list(projects.values())
    assert found_version == version
