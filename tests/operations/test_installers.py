"""What the command that is run tells its installer, and which indexes each one asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.operations.installers import Installers, installers_of, read_command
from wheelfit.sources.settings import DEFAULT_INDEX, SourceSettings

PRIVATE = "https://private.example/simple"


class TestReadCommand:
    """Options of the command line that we start."""

    @pytest.mark.parametrize(
        ("words", "tool", "options"),
        [
            (("pip", "install", "-i", "U", "x"), "pip", {"index-url": ("U",)}),
            (("/v/bin/pip3.11", "install", "-iU"), "pip", {"index-url": ("U",)}),
            (("python3.12", "-m", "pip", "--index=U"), "pip", {"index-url": ("U",)}),
            (("pip", "install", "--extra-ind", "U"), "pip", {"extra-index-url": ("U",)}),
            (
                ("pip", "--trusted-host=h", "--isolated"),
                "pip",
                {"trusted-host": ("h",), "isolated": ()},
            ),
            (("uv", "pip", "install", "--index", "U", "--index=V"), "uv", {"index": ("U", "V")}),
            (
                ("pip", "--pypi-url", "U", "--index-url", "V", "--pypi=W"),
                "pip",
                {"index-url": ("U", "V", "W")},
            ),
            (("uv", "pip", "sync", "--requirements", "r.txt"), "uv", {"requirement": ("r.txt",)}),
            (("uvx", "--default-index", "U", "ruff"), "uv", {"default-index": ("U",)}),
            (("uv", "run", "--", "x", "--index", "U"), "uv", {}),
            (("uv", "run", "x.py", "--config-file", "x.yaml"), "uv", {}),
            (("uv", "tool", "run", "x", "-c", "x"), "uv", {}),
            (("uv", "add", "run", "x", "--index", "U"), "uv", {"index": ("U",)}),
            (
                ("uv", "run", "--python", "3.12", "--index", "U", "x", "--index", "V"),
                "uv",
                {"index": ("U",)},
            ),
            (("uvx", "--index", "U", "x", "--project", "V"), "uv", {"index": ("U",)}),
            (("pdm", "add", "torch"), "pdm", {}),
            (("bash", "-c", "pip install -i U"), "", {}),
            ((), "", {}),
        ],
    )
    def test_forms(
        self, words: tuple[str, ...], tool: str, options: dict[str, tuple[str, ...]]
    ) -> None:
        """With a blank or an equals sign, short and shortened; nothing of other programs."""
        command = read_command(words)
        assert (command.tool, command.options) == (tool, options)


class TestInstallers:
    """Who asks what."""

    def asked(
        self,
        tmp_path: Path,
        *words: str,
        settings: SourceSettings = SourceSettings(),
        environ: dict[str, str] | None = None,
        is_index_named: bool = False,
    ) -> Installers:
        """Return what each tool asks."""
        return installers_of(
            read_command(words),
            settings,
            environ or {},
            home=tmp_path / "home",
            folder=tmp_path,
            is_index_named=is_index_named,
        )

    def test_nothing_is_said(self, tmp_path: Path) -> None:
        """All ask the usual index, and no variable need say so."""
        found = self.asked(tmp_path, "uv", "pip", "install", "x")
        for settings in found.by_name().values():
            assert settings.index_urls == (DEFAULT_INDEX,)
        assert (found.pip_index, found.uv_index, found.notes) == (None, None, ())

    def test_an_index_of_uv_is_asked_before_the_public_one(self, tmp_path: Path) -> None:
        """What its files name goes first behind its proxy, and is nothing to pip and pdm."""
        (tmp_path / "uv.toml").write_text(f'[[index]]\nurl = "{PRIVATE}"\n')
        found = self.asked(tmp_path, "uv", "pip", "install", "x")
        assert found.uv.index_urls == (PRIVATE, DEFAULT_INDEX)
        assert found.pip.index_urls == found.pdm.index_urls == (DEFAULT_INDEX,)

    def test_nothing_of_the_others_is_asked_with_a_default_of_its_own(self, tmp_path: Path) -> None:
        """Private names of uv and pdm are not told to the indexes of pip."""
        environ = {"UV_DEFAULT_INDEX": PRIVATE, "PDM_PYPI_URL": PRIVATE}
        settings = SourceSettings(extra_index_urls=("https://public.example/simple",))
        found = self.asked(tmp_path, "uv", environ=environ, settings=settings)
        assert found.uv.index_urls == found.pdm.index_urls == (PRIVATE,)
        assert found.uv_index is None

    def test_what_pip_is_told_counts_for_those_who_are_told_nothing(self, tmp_path: Path) -> None:
        """An index of pip's configuration takes the place of the public one for all of them."""
        found = self.asked(tmp_path, "uv", settings=SourceSettings(index_url=PRIVATE))
        assert {one.index_urls for one in found.by_name().values()} == {(PRIVATE,)}
        assert found.pip_index == found.uv_index == PRIVATE

    def test_an_index_that_is_named_to_us(self, tmp_path: Path) -> None:
        """It takes the place of every default; what goes first in uv still does."""
        environ = {"UV_DEFAULT_INDEX": "https://d.example", "UV_INDEX": "https://f.example"}
        settings = SourceSettings(index_url=PRIVATE)
        found = self.asked(tmp_path, "uv", environ=environ, settings=settings, is_index_named=True)
        assert found.uv.index_urls == ("https://f.example", PRIVATE)
        assert found.uv_index == PRIVATE

    @pytest.mark.parametrize("option", ["-i", "--index-url", "--index"])
    def test_an_index_on_the_command_line_of_pip(self, tmp_path: Path, option: str) -> None:
        """The public index, which pip does not ask then, is not behind its proxy either."""
        found = self.asked(tmp_path, "pip", "install", option, PRIVATE, "x")
        assert found.pip.index_urls == (PRIVATE,)

    def test_options_before_the_command_of_uv(self, tmp_path: Path) -> None:
        """The value of an option is not taken for the command."""
        words = ("uv", "--color", "never", "--cache-dir", "pip", "add", "x")
        assert self.asked(tmp_path, *words).in_project

    def test_further_options_of_pip(self, tmp_path: Path) -> None:
        """More indexes, and hosts that are trusted."""
        words = ("--extra-index-url", "http://a.example", "--trusted-host", "a.example")
        found = self.asked(tmp_path, "pip", "install", *words, "x")
        assert found.pip.index_urls == (DEFAULT_INDEX, "http://a.example")
        assert found.pip.trusted_hosts == ("a.example",)

    def test_an_index_on_the_command_line_of_uv(self, tmp_path: Path) -> None:
        """A default takes the place of the public one; what replaces the proxy is told of."""
        found = self.asked(tmp_path, "uv", "pip", "install", "--default-index", PRIVATE, "x")
        assert found.uv.index_urls == (PRIVATE,)
        (note,) = self.asked(tmp_path, "uv", "pip", "install", "--index", PRIVATE, "x").notes
        assert "before the proxy" in note
        words = ("uv", "pip", "install", "--extra-index-url", PRIVATE, "x")
        (note,) = self.asked(tmp_path, *words).notes
        assert "instead of the proxy" in note

    def test_a_project_of_uv(self, tmp_path: Path) -> None:
        """Commands that write into its files are told apart."""
        assert self.asked(tmp_path, "uv", "--project", "x", "add", "torch").in_project
        assert not self.asked(tmp_path, "uv", "pip", "install", "torch").in_project
        assert not self.asked(tmp_path, "pip", "lock").in_project

    def test_requirements_files(self, tmp_path: Path) -> None:
        """Indexes of files that are named, and of those that they name, count too."""
        (tmp_path / "r.txt").write_text("-r deep/more.txt\nx --hash=sha256:00\n-e 'odd\n")
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep/more.txt").write_text(
            "-r ../r.txt\n--index-url \\\n  https://${USER}:${WORD}@p.example/s # private\n"
            "--extra-index-url=https://e.example\n"
        )
        environ = {"USER": "me", "WORD": "secret"}
        words = ("install", "-r", "r.txt", "-c", "missing.txt")
        uv = self.asked(tmp_path, "uv", "pip", *words, environ=environ)
        assert uv.uv.index_urls == ("https://e.example", "https://me:secret@p.example/s")
        pip = self.asked(tmp_path, "pip", *words, environ=environ)
        assert pip.pip.index_urls == (DEFAULT_INDEX, "https://e.example")
        (note,) = pip.notes
        assert "https://****@p.example/s" in note

    @pytest.mark.parametrize(
        "words",
        [("pip", "--isolated", "install"), ("pip", "install", "--no-index"), ("uv", "--no-index")],
    )
    def test_what_leaves_the_proxy_out_is_told_of(
        self, tmp_path: Path, words: tuple[str, ...]
    ) -> None:
        """Options with which a tool asks nobody, or does not read variables."""
        (note,) = self.asked(tmp_path, *words).notes
        assert "does not use the proxy" in note

    def test_a_flat_list_is_told_of(self, tmp_path: Path) -> None:
        """It is not behind the proxy, and a public name would win over it."""
        url = "https://me:secret@flat.example/x"
        (tmp_path / "uv.toml").write_text(f'[[index]]\nurl = "{url}"\nformat = "flat"\n')
        (note,) = self.asked(tmp_path, "uv", "pip", "install", "x").notes
        assert "flat index" in note
        assert "secret" not in note

    def test_plain_http_that_a_tool_asks_itself(self, tmp_path: Path) -> None:
        """An index that were left out would let the public one have its names."""
        (tmp_path / "uv.toml").write_text('[[index]]\nurl = "http://plain.example/s"\n')
        assert self.asked(tmp_path, "uv").uv.trusted_hosts == ("plain.example:80",)
        environ = {"PDM_PYPI_URL": "http://main.example:3141/s"}
        assert self.asked(tmp_path, environ=environ).pdm.trusted_hosts == ("main.example:3141",)
