"""Which indexes uv and pdm ask: variables, files, the command line of uv."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.sources.installer_configuration import (
    InstallerIndexes,
    UvEnvironment,
    read_pdm_configuration,
    read_uv_configuration,
)


def said(
    tmp_path: Path,
    environ: dict[str, str] | None = None,
    folder: str = "project",
    **options: tuple[str, ...],
) -> InstallerIndexes:
    """Return what uv asks in a folder of a home with nothing of this machine."""
    named = {name.replace("_", "-"): values for name, values in options.items()}
    return read_uv_configuration(
        UvEnvironment(
            environ or {},
            tmp_path / "home",
            tmp_path / folder,
            "linux",
            named,
            (tmp_path / "etc" / "uv.toml",),
        )
    )


def write(path: Path, text: str) -> None:
    """Write a file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class TestVariables:
    """What is set for all of uv."""

    def test_their_order(self, tmp_path: Path) -> None:
        """UV_INDEX goes before UV_EXTRA_INDEX_URL, and the new name of the last before the old."""
        found = said(
            tmp_path,
            {
                "UV_INDEX": "own=https://a.example/s https://b.example/?x=y",
                "UV_EXTRA_INDEX_URL": "https://c.example/s",
                "UV_DEFAULT_INDEX": "main=https://d.example",
                "UV_INDEX_URL": "https://e.example",
            },
        )
        assert found.first == (
            "https://a.example/s",
            "https://b.example/?x=y",
            "https://c.example/s",
        )
        assert found.default == "https://d.example"

    def test_nothing_is_set(self, tmp_path: Path) -> None:
        """Whoever says nothing asks the usual index."""
        assert said(tmp_path, {"UV_INDEX": "", "UV_INDEX_URL": ""}) == InstallerIndexes()


class TestFiles:
    """What uv.toml and pyproject.toml say."""

    def test_project_user_and_system(self, tmp_path: Path) -> None:
        """The nearest counts most, all indexes are asked, and one is the last."""
        write(
            tmp_path / "project/pyproject.toml",
            '[[tool.uv.index]]\nname = "p"\nurl = "https://p.example"\n'
            '[[tool.uv.index]]\nurl = "https://pd.example"\ndefault = true\n'
            '[tool.uv.pip]\nextra-index-url = ["https://pip.example"]\n',
        )
        write(tmp_path / "home/.config/uv/uv.toml", '[[index]]\nurl = "https://u.example"\n')
        write(
            tmp_path / "etc/uv.toml",
            'index-url = "https://sd.example"\nextra-index-url = ["https://s.example"]\n',
        )
        found = said(tmp_path, folder="project/below")
        assert found.first == (
            "https://p.example",
            "https://u.example",
            "https://s.example",
            "https://pip.example",
        )
        assert found.default == "https://pd.example"

    def test_its_own_file_counts_before_that_of_the_project(self, tmp_path: Path) -> None:
        """Beside a uv.toml, what pyproject.toml says to uv is not read."""
        write(tmp_path / "project/pyproject.toml", '[tool.uv]\nindex-url = "https://no.example"\n')
        write(tmp_path / "project/uv.toml", 'index-url = "https://yes.example"\n')
        assert said(tmp_path).default == "https://yes.example"

    def test_a_workspace(self, tmp_path: Path) -> None:
        """Of a member the root says what is asked."""
        write(
            tmp_path / "project/pyproject.toml",
            '[tool.uv]\nindex-url = "https://root.example"\n[tool.uv.workspace]\nmembers = ["*"]\n',
        )
        write(tmp_path / "project/member/pyproject.toml", "[tool.uv.sources]\n")
        assert said(tmp_path, folder="project/member").default == "https://root.example"

    def test_what_is_no_index_for_everything(self, tmp_path: Path) -> None:
        """One for what is pinned to it is left alone, and a flat list is named apart."""
        write(
            tmp_path / "project/uv.toml",
            '[[index]]\nname = "t"\nurl = "https://t.example"\nexplicit = true\n'
            '[[index]]\nname = "f"\nurl = "https://f.example"\nformat = "flat"\n'
            '[[index]]\nname = 3\n[[index]]\nurl = ""\n',
        )
        assert said(tmp_path) == InstallerIndexes(flat=("https://f.example",))

    @pytest.mark.parametrize(
        ("environ", "options"),
        [
            ({"UV_NO_CONFIG": "1"}, {}),
            ({}, {"no_config": ()}),
            ({"UV_CONFIG_FILE": "own.toml"}, {}),
        ],
    )
    def test_other_files_or_none(
        self, tmp_path: Path, environ: dict[str, str], options: dict[str, tuple[str, ...]]
    ) -> None:
        """Whoever names a file, or wants none, gets nothing of the others."""
        write(tmp_path / "project/uv.toml", 'index-url = "https://no.example"\n')
        write(tmp_path / "project/own.toml", 'index-url = "https://own.example"\n')
        found = said(tmp_path, environ, "project", **options)
        assert found.default == ("https://own.example" if "UV_CONFIG_FILE" in environ else None)

    def test_logins_of_variables(self, tmp_path: Path) -> None:
        """An index with a name gets the login that variables have for it."""
        write(
            tmp_path / "project/uv.toml",
            '[[index]]\nname = "my-own.x"\nurl = "https://p.example/s"\n',
        )
        environ = {"UV_INDEX_MY_OWN_X_USERNAME": "me", "UV_INDEX_MY_OWN_X_PASSWORD": "p@ss"}
        assert said(tmp_path, environ).first == ("https://me:p%40ss@p.example/s",)

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        """What is not TOML, or not what is expected in it, says nothing."""
        write(tmp_path / "project/pyproject.toml", "tool = 3\n")
        write(tmp_path / "home/.config/uv/uv.toml", "[[index\n")
        for extra in ('"y"', '[1, ["z"]]'):
            text = f'index = "x"\nindex-url = 3\nextra-index-url = {extra}\n'
            write(tmp_path / "etc/uv.toml", text)
            assert said(tmp_path) == InstallerIndexes()


class TestCommandLine:
    """What options say."""

    def test_they_count_more_than_variables(self, tmp_path: Path) -> None:
        """As in uv: --index in place of UV_INDEX, and its own last index before all others."""
        found = said(
            tmp_path,
            {"UV_INDEX": "https://a.example", "UV_DEFAULT_INDEX": "https://b.example"},
            index=("https://c.example",),
            default_index=("https://d.example",),
            extra_index_url=("https://e.example",),
        )
        assert found.first == ("https://c.example", "https://e.example")
        assert found.default == "https://d.example"

    def test_another_project(self, tmp_path: Path) -> None:
        """--project says whose files count."""
        write(tmp_path / "other/uv.toml", 'index-url = "https://o.example"\n')
        assert said(tmp_path, project=("../other",)).default == "https://o.example"


def said_by_pdm(tmp_path: Path, **environ: str) -> InstallerIndexes:
    """Return what pdm asks below a project."""
    return read_pdm_configuration(
        environ, home=tmp_path / "home", folder=tmp_path / "project/below", platform="linux"
    )


def test_pdm_sources_of_a_project(tmp_path: Path) -> None:
    """They are asked besides, with their logins; lists of files are no indexes."""
    write(
        tmp_path / "project/pyproject.toml",
        '[[tool.pdm.source]]\nname = "own"\nurl = "https://${WHO}@a.example"\n'
        '[[tool.pdm.source]]\nname = "more"\nurl = "https://b.example"\nusername = "me"\n'
        'password = "p/w"\n'
        '[[tool.pdm.source]]\nname = "files"\nurl = "https://c.example"\ntype = "find_links"\n'
        '[[tool.pdm.source]]\nurl = "https://nameless.example"\n',
    )
    assert said_by_pdm(tmp_path, WHO="you") == InstallerIndexes(
        ("https://you@a.example", "https://me:p%2Fw@b.example")
    )


def test_pdm_usual_index(tmp_path: Path) -> None:
    """A variable counts before a source that is called pypi, that before what was stored."""
    write(
        tmp_path / "home/.config/pdm/config.toml",
        '[pypi]\nurl = "https://stored.example"\nverify_ssl = true\n'
        '[pypi.extra]\nurl = "https://extra.example"\n',
    )
    extra = ("https://extra.example",)
    assert said_by_pdm(tmp_path) == InstallerIndexes(extra, "https://stored.example")
    write(
        tmp_path / "project/pyproject.toml",
        '[[tool.pdm.source]]\nname = "pypi"\nurl = "https://named.example"\n',
    )
    assert said_by_pdm(tmp_path) == InstallerIndexes(extra, "https://named.example")
    variable = "https://variable.example"
    assert said_by_pdm(tmp_path, PDM_PYPI_URL=variable) == InstallerIndexes(extra, variable)


def test_pdm_says_nothing_by_pdm(tmp_path: Path) -> None:
    """No files, files that are none, and tables that are something else."""
    assert said_by_pdm(tmp_path) == InstallerIndexes()
    write(tmp_path / "project/pyproject.toml", "[tool]\npdm = 3\n")
    write(tmp_path / "home/.config/pdm/config.toml", "pypi = [\n")
    assert said_by_pdm(tmp_path) == InstallerIndexes()
