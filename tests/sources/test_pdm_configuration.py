"""Which indexes pdm asks."""

from __future__ import annotations

from pathlib import Path

from wheelfit.sources.pdm_configuration import PdmIndexes, read_pdm_configuration


def said(tmp_path: Path, **environ: str) -> PdmIndexes:
    """Return what pdm asks below a project."""
    return read_pdm_configuration(
        environ, home=tmp_path / "home", folder=tmp_path / "project/below", platform="linux"
    )


def write(path: Path, text: str) -> None:
    """Write a file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_sources_of_a_project(tmp_path: Path) -> None:
    """They are asked besides, with their logins; lists of files are no indexes."""
    write(
        tmp_path / "project/pyproject.toml",
        '[[tool.pdm.source]]\nname = "own"\nurl = "https://${WHO}@a.example"\n'
        '[[tool.pdm.source]]\nname = "more"\nurl = "https://b.example"\nusername = "me"\n'
        'password = "p/w"\n'
        '[[tool.pdm.source]]\nname = "files"\nurl = "https://c.example"\ntype = "find_links"\n'
        '[[tool.pdm.source]]\nurl = "https://nameless.example"\n',
    )
    assert said(tmp_path, WHO="you") == PdmIndexes(
        ("https://you@a.example", "https://me:p%2Fw@b.example")
    )


def test_the_usual_index(tmp_path: Path) -> None:
    """A variable counts before a source that is called pypi, that before what was stored."""
    write(
        tmp_path / "home/.config/pdm/config.toml",
        '[pypi]\nurl = "https://stored.example"\nverify_ssl = true\n'
        '[pypi.extra]\nurl = "https://extra.example"\n',
    )
    extra = ("https://extra.example",)
    assert said(tmp_path) == PdmIndexes(extra, "https://stored.example")
    write(
        tmp_path / "project/pyproject.toml",
        '[[tool.pdm.source]]\nname = "pypi"\nurl = "https://named.example"\n',
    )
    assert said(tmp_path) == PdmIndexes(extra, "https://named.example")
    variable = "https://variable.example"
    assert said(tmp_path, PDM_PYPI_URL=variable) == PdmIndexes(extra, variable)


def test_nothing_is_said(tmp_path: Path) -> None:
    """No files, files that are none, and tables that are something else."""
    assert said(tmp_path) == PdmIndexes()
    write(tmp_path / "project/pyproject.toml", "[tool]\npdm = 3\n")
    write(tmp_path / "home/.config/pdm/config.toml", "pypi = [\n")
    assert said(tmp_path) == PdmIndexes()
