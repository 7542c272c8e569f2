"""Where files come from: pip's configuration, then options, then requirements files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from operations.remarks import Remarks
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.operations.context import Context
from wheelfit.operations.indexes import open_indexes, read_settings, warn_of_later_indexes
from wheelfit.operations.requests import SourceOptions
from wheelfit.resolution.requirements_file import RequirementsFile
from wheelfit.sources.merged import Pool
from wheelfit.sources.open import OpenedSources
from wheelfit.sources.release_files import PageFiles, sort_by_release
from wheelfit.sources.settings import DEFAULT_INDEX, SourceSettings
from wheelfit.testing.repositories import FakeRepository
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from packaging.utils import NormalizedName

    from wheelfit.sources.page import File, ProjectPage

HERE = "https://pip.example/simple"
THERE = "https://option.example/simple"
ELSEWHERE = "https://file.example/simple"


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """Write a configuration of pip's."""
    path = tmp_path / "pip.conf"
    path.write_text(
        f"[global]\nindex-url = {HERE}\nextra-index-url = {HERE}/more\nfind-links = /wheels\n"
        "trusted-host = pip.example\ntimeout = 7\nretries = 1\nproxy = http://proxy.example:1\n"
    )
    return path


def settings(
    *,
    configuration: Path | None = None,
    files: tuple[RequirementsFile, ...] = (),
    **options: Any,
) -> SourceSettings:
    """Put together what a command would use.

    :param options: of `SourceOptions`.
    """
    environ = {"PIP_CONFIG_FILE": str(configuration or "/dev/null")}
    return read_settings(SourceOptions(**options), environ, files)


def test_nobody_says_anything() -> None:
    """Without any word the settings are pip's own defaults."""
    assert settings() == SourceSettings()
    assert settings().index_url == DEFAULT_INDEX


def test_pip_supplies_the_defaults(configuration: Path) -> None:
    """What pip has been told counts here too."""
    found = settings(configuration=configuration)
    assert found.index_urls == (HERE, f"{HERE}/more")
    assert (found.find_links, found.trusted_hosts) == (("/wheels",), ("pip.example",))
    assert (found.timeout, found.retries, found.proxy) == (7, 1, "http://proxy.example:1")


def test_options_count_more_than_pip(configuration: Path) -> None:
    """Single values replace, lists grow, as with pip itself."""
    found = settings(
        index_url=THERE,
        extra_index_url=(f"{THERE}/more",),
        find_links=("here",),
        trusted_host=("option.example",),
        timeout=3.0,
        retries=0,
        proxy="",
        cert="ca.pem",
        client_cert="me.pem",
        configuration=configuration,
    )
    assert found.index_urls == (THERE, f"{HERE}/more", f"{THERE}/more")
    assert found.find_links == ("/wheels", "here")
    assert found.trusted_hosts == ("pip.example", "option.example")
    assert (found.timeout, found.retries, found.proxy) == (3, 0, "")
    assert (found.cert, found.client_cert) == ("ca.pem", "me.pem")


def test_requirements_files_count_most(configuration: Path) -> None:
    """An index named in a requirements file replaces even the option, as with pip."""
    file = RequirementsFile(
        index_url=ELSEWHERE,
        extra_index_urls=(f"{ELSEWHERE}/more",),
        find_links=("beside",),
        trusted_hosts=("file.example",),
    )
    found = settings(
        index_url=THERE, find_links=("here",), configuration=configuration, files=(file,)
    )
    assert found.index_urls == (ELSEWHERE, f"{HERE}/more", f"{ELSEWHERE}/more")
    assert found.find_links == ("/wheels", "here", "beside")
    assert found.trusted_hosts == ("pip.example", "file.example")
    silent = settings(index_url=THERE, configuration=configuration, files=(RequirementsFile(),))
    assert silent.index_url == THERE


@pytest.mark.parametrize(
    ("options", "file"),
    [({"no_index": True}, RequirementsFile()), ({}, RequirementsFile(no_index=True))],
)
def test_no_index(options: dict[str, Any], file: RequirementsFile, configuration: Path) -> None:
    """Either can leave out all indexes; folders stay."""
    found = settings(**options, configuration=configuration, files=(file,))
    assert found.index_urls == ()
    assert found.find_links == ("/wheels",)


def test_variables_count_more_than_files(configuration: Path) -> None:
    """``PIP_*`` variables come between files and options."""
    environ = {"PIP_CONFIG_FILE": str(configuration), "PIP_INDEX_URL": ELSEWHERE}
    assert read_settings(SourceOptions(), environ).index_url == ELSEWHERE
    assert read_settings(SourceOptions(index_url=THERE), environ).index_url == THERE


def test_the_environment_in_use_may_hold_a_configuration(tmp_path: Path) -> None:
    """An environment's own pip.conf counts when wheelfit works on that environment."""
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {ELSEWHERE}\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "none"), "XDG_CONFIG_DIRS": str(tmp_path / "none")}
    found = read_settings(SourceOptions(), environ, prefix=tmp_path)
    assert found.index_url == ELSEWHERE


def test_a_configuration_that_cannot_be_read(tmp_path: Path) -> None:
    """It is named; what it says is not repeated with its passwords."""
    path = tmp_path / "pip.conf"
    path.write_text("index-url = https://me:s3cret@host.example\n")
    with pytest.raises(InvalidConfiguration) as excinfo:
        settings(configuration=path)
    assert excinfo.value.where == str(path)
    assert "s3cret" not in str(excinfo.value.parts())


def test_a_user_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container a user may have no home; everything works but what would lie there."""

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    request = SourceOptions(no_index=True, find_links=(str(tmp_path),))
    environ = {"PIP_CONFIG_FILE": "/dev/null"}
    with open_indexes(request, read_settings(request, environ), Context(environ)) as repository:
        assert repository.name == str(tmp_path)


def test_the_cache(tmp_path: Path) -> None:
    """It lies where the option says, else where the variable says; or nowhere."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    environ = {"WHEELFIT_CACHE_DIR": str(tmp_path / "variable"), "PIP_CONFIG_FILE": "/dev/null"}
    options: tuple[dict[str, Any], ...]
    options = ({}, {"cache_dir": str(tmp_path / "option")}, {"no_cache_dir": True})
    for option in options:
        request = SourceOptions(no_index=True, find_links=(str(wheels),), **option)
        found = read_settings(request, environ)
        assert found.cache is not request.no_cache_dir
        with open_indexes(request, found, Context(environ)) as repository:
            assert repository.name == str(wheels)


class SortedPages(FakeRepository):
    """A repository whose pages are sorted by release, and never read as a whole."""

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return a page whose files cannot be listed without their release."""
        page = super().project(name)
        if page is None:
            return None
        by_release = sort_by_release(name, page.files)
        return structs.replace(page, files=PageFiles(by_release, len(page.files), self._all, tuple))

    def _all(self) -> tuple[File, ...]:
        raise AssertionError("all files of a page were read")


@pytest.mark.parametrize(
    ("later", "is_variant", "expected"),
    [
        (["2.0"], False, "a 2.0 (later)"),
        (["2.0", "2.1rc1"], False, "a 2.0 (later)"),
        (["1.0", "0.9"], False, ""),
        (["1.0-cu"], False, "variants of a 1.0 (later)"),
        (["1.0-cu"], True, ""),
        (["2.0 yanked", "1.5"], False, "a 1.5 (later)"),
        (["2.0 yanked"], False, ""),
        (["2.0 newer format", "1.5"], False, "a 1.5 (later)"),
        ([], False, ""),
    ],
)
def test_newer_releases_of_a_later_index(
    *, later: list[str], is_variant: bool, expected: str
) -> None:
    """A warning names the newest usable release, for which only releases are compared."""
    first, second = SortedPages("first"), SortedPages("later")
    first.add_wheel("a-1.0-py3-none-any.whl")
    for text in later:
        version, _, label = text.split()[0].partition("-")
        suffix = ".whlx" if text.endswith("newer format") else ".whl"
        filename = f"a-{version}-py3-none-any{label and f'-{label}'}{suffix}"
        second.add_wheel(filename, yanked="broken" if text.endswith("yanked") else None)
    pool = Pool([first, second])
    remarks = Remarks()
    package = (canonicalize_name("a"), Version("1.0"), is_variant)
    warn_of_later_indexes([package], OpenedSources(pool, pool), remarks)
    assert (expected in remarks.text) if expected else remarks.lines == []
