"""Hostile files that lie around: in the environment, in host files, in configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hostile.conftest import Site

from wheelfit.testing.wheels import build_wheel

LONG = "9" * 5000
DEEP = b"[" * 100_000


class TestInstalled:
    """Distributions in the environment that somebody has tampered with."""

    @pytest.fixture(autouse=True)
    def _flat(self, site: Site) -> None:
        """Be quick: nothing here depends on the kind of environment."""
        site.flat = True

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("METADATA", b""),
            ("METADATA", b"\xff\xfe\x00"),
            ("METADATA", b"Name: demo\nVersion: " + LONG.encode() + b"\n"),
            ("METADATA", b"Name: ../../evil\nVersion: 1\n"),
            ("METADATA", b"Name: \x1b[2Jdemo\nVersion: 1\n"),
            ("METADATA", b"Name: demo\nVersion: 1\nRequires-Dist: " + b"(" * 10_000 + b"\n"),
            ("METADATA", b"Name: demo\nVersion: 1\nSummary: " + b" " * 1_000_000 + b"\n x\n"),
            ("METADATA", None),
            ("RECORD", b""),
            ("RECORD", b"\xff\xfe\x00"),
            ("RECORD", b'"'),
            ("RECORD", b"a" * 1_000_000),
            ("RECORD", b"/etc/passwd,,\n../../../../../../../../../../etc/hostname,,\n"),
            ("RECORD", None),
            ("INSTALLER", b"\x1b[2J\x1b]0;owned\x07"),
            ("INSTALLER", b"\xff" * 1000),
            ("INSTALLER", b"x" * 1_000_000),
            ("direct_url.json", DEEP),
            ("direct_url.json", b"{"),
            ("direct_url.json", b'{"url": 1}'),
            ("direct_url.json", b'{"url": "https://user:hunter2@h.invalid/", "dir_info": {}}'),
            ("direct_url.json", b'{"url": "\\u001b[2J"}'),
            ("wheelfit.json", DEEP),
            ("wheelfit.json", b"{"),
            ("wheelfit.json", b'{"label": "\\u001b[2J", "filename": "x"}'),
            ("wheelfit.json", b'{"label": "../../x", "filename": "x"}'),
            ("wheelfit.json", b'{"label": ' + LONG.encode() + b"}"),
            ("variant.json", DEEP),
            ("variant.json", b"{" * 10),
            ("variant.json", b" " * (5 << 20)),
            ("entry_points.txt", b"\xff\x00[console_scripts]\n../evil = a:b\n"),
        ],
        ids=lambda value: value if isinstance(value, str) else repr(value)[:30],
    )
    def test_a_bad_file(self, site: Site, name: str, content: bytes | None) -> None:
        """It is worth a note at most; nothing outside is touched, and others can be installed."""
        for project in ("demo", "other"):
            site.shelf.put(build_wheel(site.wheels, project, "1"))
        site.run("install", "demo")
        path = site.library / "demo-1.dist-info" / name
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        result = site.run("list")
        machine = site.run("list", "--json")
        for text in (result.out, result.err, machine.out, machine.err):
            assert "\x1b" not in text
            assert "hunter2" not in text
            assert len(text) < 100_000
        site.run("install", "other")
        removed = site.attempt("uninstall", "demo")
        assert removed.code in {0, 1}
        assert Path("/etc/passwd").exists()
        assert "\x1b" not in removed.out + removed.err

    @pytest.mark.parametrize(
        ("folder", "kind"),
        [
            ("evil-1.dist-info", "folder"),
            ("evil-1.dist-info", "file"),
            ("evil-1.dist-info", "link"),
            ("evil-1.dist-info", "loop"),
            ("-1.dist-info", "folder"),
            (".dist-info", "folder"),
            ("..dist-info", "file"),
            (f"evil-{LONG[:200]}.dist-info", "folder"),
            ("evil\x1b[2J-1.dist-info", "folder"),
            ("evil\n-1.dist-info", "link"),
            ("evil-1.egg-info", "file"),
            ("evil-1.egg-info", "folder"),
            ("evil.egg-link", "file"),
            ("evil.egg-link", "loop"),
            ("~vil-1.dist-info", "folder"),
        ],
    )
    def test_a_bad_folder(self, site: Site, folder: str, kind: str) -> None:
        """The same for whatever is only called like a distribution."""
        site.shelf.put(build_wheel(site.wheels, "other", "1"))
        site.library.mkdir()
        path = site.library / folder
        match kind:
            case "folder":
                path.mkdir()
            case "file":
                path.write_bytes(b"\xff")
            case "link":
                path.symlink_to(site.folder / "home")
            case "loop":
                path.symlink_to(path)
        site.run("install", "other")
        result = site.run("list")
        assert "\x1b" not in result.out + result.err
        site.run("list", "--json")


class TestHostFiles:
    """``--for`` with a file from a stranger."""

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "\0",
            "\xff",
            "[",
            "a = " + "[" * 100_000,
            "a." * 100_000 + "a = 1",
            "[[" + "a." * 50_000 + "a]]",
            "a = " + LONG,
            'a = "' + "x" * 10_000_000 + '"',
            "x = 1\n" * 2,
            "[metadata]\ncreated-by = 1\n",
            '[metadata]\ncreated-by = "\\u001b[2J"\nversion = "\\u001b[2J"\n',
            '[metadata]\ncreated-by = "x"\nversion = "' + LONG + '"\n',
        ],
        ids=range(13),
    )
    @pytest.mark.parametrize("command", ["explain", "probe"])
    def test_it_is_refused(self, site: Site, command: str, text: str) -> None:
        """It is an error of the user's (1), or says nothing; never more."""
        site.shelf.put(build_wheel(site.wheels, "demo", "1"))
        path = site.folder / "work" / "host.toml"
        path.write_text(text, encoding="latin-1")
        words = ["demo"] if command == "explain" else []
        options: list[str | Path] = ["--for", path, "--json", *words]
        said = (
            site.attempt(command, *options)
            if command == "explain"
            else site.bare(command, *options)
        )
        assert said.code in {0, 1}
        assert "\x1b" not in said.out + said.err
        assert len(said.out) < 100_000


class TestConfiguration:
    """pip's configuration, netrc and the environment, with nonsense in them."""

    @pytest.mark.parametrize(
        "text",
        [
            "[global",
            "\0\xff",
            "[global]\nindex-url = \x1b[2J\n",
            "[global]\nindex-url = javascript:alert(1)\n",
            "[global]\nextra-index-url = https://user:hunter2@[\n",
            "[global]\ntimeout = " + LONG + "\n",
            "[global]\nretries = " + LONG + "\n",
            "[global]\ntrusted-host = [\n",
            "[global]\nproxy = http://user:hunter2@[\n",
            "[global]\nproxy = http://user:hunter2@127.0.0.1:99999/\n",
            "[global]\nproxy = nonsense\n",
            "[global]\ncert = /dev/null\n",
            "[global]\ncert = /nowhere\n",
            "[global]\nfind-links = //user:hunter2@evil/share\n",
            "[global]\nindex-url = %(evil)s\n",
            "[global]\n" + "x = y\n" * 2,
        ],
        ids=range(16),
    )
    def test_pip(self, site: Site, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is an error that names the place, or a note; no secret of it is shown."""
        path = site.folder / "home" / "pip.conf"
        path.write_text(text, encoding="latin-1")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(path))
        if "index-url" not in text:  # nobody but this machine is asked
            monkeypatch.setenv("PIP_INDEX_URL", site.index.url)
        site.shelf.put(build_wheel(site.wheels, "demo", "1"))
        for options in ([], ["-i", site.index.url]):
            result = site.bare("explain", "demo", "--retries", "0", "--timeout", "1", *options)
            assert "hunter2" not in result.out + result.err
            assert "\x1b" not in result.out + result.err

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("PIP_INDEX_URL", "https://user:hunter2@["),
            ("PIP_TIMEOUT", LONG),
            ("PIP_RETRIES", "-1"),
            ("PIP_TRUSTED_HOST", "]["),
            ("PIP_FIND_LINKS", "\x1b[2J"),
            ("HTTP_PROXY", "http://user:hunter2@["),
            ("HTTPS_PROXY", "nonsense://user:hunter2@evil"),
            ("NO_PROXY", "[" * 1000),
            ("NETRC", "/dev/full"),
            ("WHEELFIT_CACHE_DIR", "/dev/null/cache"),
            ("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", LONG),
            ("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "\x1b[2J"),
            ("VIRTUAL_ENV", "\x1b[2J"),
            ("COLUMNS", LONG),
        ],
    )
    def test_variables(
        self, site: Site, name: str, value: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The same for variables of the environment."""
        monkeypatch.setenv("PIP_INDEX_URL", site.index.url)
        monkeypatch.setenv(name, value)
        site.shelf.put(build_wheel(site.wheels, "demo", "1"))
        for words in (["explain", "demo"], ["explain", "demo", "-i", site.index.url], ["probe"]):
            options = ["--retries", "0", "--timeout", "1"] if words[0] == "explain" else []
            result = site.bare(*words, *options)
            assert "hunter2" not in result.out + result.err
            assert "\x1b" not in result.out + result.err


def test_what_is_said_of_strangers_is_harmless(site: Site) -> None:
    """Control characters, and marks that turn text around, are shown and not obeyed."""
    for number, words in enumerate(("\x9b2J", "\u202egnp.exe", "\u2066x", "\x07", "\x08\x08")):
        name = f"demo{number}"
        site.shelf.put(build_wheel(site.wheels, name, "1"))
        site.shelf.revise(f"{name}-1-py3-none-any.whl", yanked=words)
        for option in ([], ["--json"]):
            result = site.run("explain", f"{name}==1", *option)
            assert words not in result.out + result.err, (ascii(words), option)
            if option:
                assert json.loads(result.out)


class TestPlaces:
    """Folders that are not what they should be."""

    def test_a_folder_that_is_gone(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the current folder was removed, an error says so (1), and nothing crashes."""
        place = site.folder / "work" / "gone"
        place.mkdir()
        monkeypatch.chdir(place)
        place.rmdir()
        for words in (["list"], ["install", "demo"], ["explain", "-f", "wheels", "demo"]):
            result = site.bare(*words)
            assert result.code == 1
            assert "the current folder no longer exists" in result.err

    def test_a_locale_without_characters(self, site: Site) -> None:
        """Paths with characters that the locale lacks are read and written all the same."""
        folder = site.folder / "f\u00fcr \u65e5\u672c"
        build_wheel(folder, "demo", "1")
        environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        target = folder / "target"
        commands: list[list[str | Path]] = [
            ["install", "--no-index", "-f", folder, "--target", target, "demo"],
            ["explain", folder / "demo-1-py3-none-any.whl"],
            ["list", "--target", target, "--json"],
        ]
        for words in commands:
            completed = subprocess.run(
                [sys.executable, "-m", "wheelfit", *(os.fsencode(word) for word in words)],
                env=environ,
                capture_output=True,
                check=False,
            )
            assert completed.returncode == 0, completed.stderr
        assert (target / "demo-1.dist-info").is_dir()

    def test_a_cache_that_cannot_be_used(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """It costs nothing but a warning that names it."""
        file = site.folder / "work" / "file"
        file.write_text("")
        monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(file / "cache"))
        site.shelf.put(build_wheel(site.wheels, "demo", "1"))
        result = site.run("install", "demo")
        assert result.err.count(f"the cache {file / 'cache'} cannot be written, ") == 1
        assert site.installed() == {"demo": None}


@pytest.mark.parametrize(
    "proxy", ["nonsense://user:hunter2@evil", "http://", "http://[", "ftp://h"]
)
def test_a_proxy_that_is_none(site: Site, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error blames the proxy and not the index, whether an option or a variable names it."""
    words = ["explain", "demo", "-i", "http://index.invalid/", "--trusted-host", "index.invalid"]
    result = site.bare(*words, "--proxy", proxy, "--retries", "0")
    assert result.code == 1
    assert "error: the proxy is not an http, https or SOCKS URL" in result.err
    monkeypatch.setenv("HTTP_PROXY", proxy)
    told = site.bare(*words, "--retries", "0")
    assert told.code == 5
    assert "the proxy is not an http, https or SOCKS URL" in told.err
    assert "hunter2" not in result.err + told.err


def test_a_link_in_a_wheel(site: Site) -> None:
    """A wheel with a symbolic link is refused in these words (exit code 4)."""
    path = build_wheel(site.wheels, "demo", "1")
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("demo/evil")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    said = site.refused(path, code=4)
    assert "'demo/evil' is a symbolic link" in said.out


def test_metadata_of_the_future(site: Site) -> None:
    """Core metadata of a newer major version is not guessed at: that wheel is not taken."""
    for version, metadata in (("1", "2.9"), ("2", "3.0"), ("3", "10.0")):
        wheel = build_wheel(site.wheels, "demo", version)
        text = f"Metadata-Version: {metadata}\nName: demo\nVersion: {version}\n"
        site.shelf.put(wheel, metadata=text.encode())
    result = site.run("explain", "demo")
    assert "demo 1 for this machine" in result.out
    assert "Metadata-Version 10.0, which this version of wheelfit does not read" in result.err


ROW = "[[provider]]\nnamespace = '{}'\npackage = 'b'\nversions = ['{}']\nplugin-api = ['{}']\n"


class TestSettings:
    """The user's own file, with nonsense in it."""

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("strict = 1", "strict is neither true nor false"),
            ("strikt = true", "strikt is not a setting"),
            ("limit = 1", "limit is not a table of limits"),
            ("[limit]\nsize = -1", "limit.size must be a number from 2 to 1073741824"),
            ("[limit]\ndepth = 100000", "limit.depth must be a number from 1 to 200"),
            ("[limit]\nlabels = true", "limit.labels must be a number"),
            ("[limit]\nsise = 1", "limit.sise is not a setting"),
            ("ignore-static = 'nvidia'", "ignore-static must be a list of strings"),
            ("rocm-compat = 'any'", "rocm-compat: 'any' is none of exact, same-major"),
            ("devices = []", "devices: '[]' is none of all, highest, lowest, any, min"),
            ("provider = 1", "provider is not a list of tables"),
            ("[[provider]]\nnamespace = 'a'", "provider[0].package is missing"),
            (ROW.format("A", "1", "c"), "provider[0].namespace is not a namespace"),
            (ROW.format("a", "x", "c"), "provider[0].versions has an invalid version"),
            (ROW.format("a", "1", "../c"), "provider[0] needs versions"),
            ("\x1b[2J = 1", "the configuration file is not TOML"),
            ("a." * 100_000, "nested deeper than the limit of 32"),
        ],
        ids=range(17),
    )
    def test_it_is_refused(
        self, site: Site, text: str, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is an error that names file and key, and control characters do nothing (P-64)."""
        path = site.folder / "home" / "wheelfit.toml"
        path.write_text(text)
        monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(path))
        for words in (["probe"], ["explain", "demo"]):
            told = site.bare(*words)
            assert told.code == 1
            assert said in told.err
            assert str(path) in told.err
            assert "\x1b" not in told.err

    def test_where_it_lies(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """The user's folder is looked in, the current one never; a named file must exist."""
        bad = "strikt = true\n"
        monkeypatch.delenv("WHEELFIT_CONFIG_FILE")
        (site.folder / "work" / "wheelfit.toml").write_text(bad)
        assert site.bare("probe").code == 0
        own = site.folder / "home" / ".config" / "wheelfit"
        own.mkdir(parents=True)
        (own / "wheelfit.toml").write_text(bad)
        assert site.bare("probe").code == 1
        monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(own / "missing"))
        assert "does not exist" in site.bare("probe").err
