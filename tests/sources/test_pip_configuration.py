"""pip's configuration means here what it means to pip."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from wheelfit.sources.pip_configuration import (
    ConfigurationFile,
    InstallRules,
    PipContext,
    configuration_files,
    read_pip_configuration,
    rules_from,
    settings_from,
)
from wheelfit.sources.settings import SourceSettings
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME = Path("/home/me")


def settings(*texts: str, **environ: str) -> SourceSettings:
    """Return what some files and PIP_* variables express."""
    files = [ConfigurationFile(f"{number}.conf", text) for number, text in enumerate(texts)]
    return settings_from(files, {f"PIP_{k}": v for k, v in environ.items()}, home=HOME)


def around(platform: str = "linux", environ: Mapping[str, str] | None = None) -> PipContext:
    """Describe a machine where every folder and file exists."""
    return PipContext(
        environ=environ or {},
        home=HOME,
        platform=platform,
        prefixes=(Path("/venv"),),
        is_folder=lambda _path: True,
        exists=lambda _path: True,
    )


def paths(view: PipContext) -> list[str]:
    """Return the files in order, with slashes."""
    return [PurePath(path).as_posix() for path in configuration_files(view)]


class TestFiles:
    """Where pip keeps its configuration."""

    @pytest.mark.parametrize(
        ("platform", "environ", "system", "user"),
        [
            ("linux", {}, "/etc/xdg/pip /etc", "/home/me/.pip /home/me/.config/pip"),
            (
                "linux",
                {"XDG_CONFIG_HOME": "/c", "XDG_CONFIG_DIRS": "/x:/y"},
                "/x/pip /y/pip /etc",
                "/home/me/.pip /c/pip",
            ),
            (
                "win32",
                {"APPDATA": "/roaming", "ALLUSERSPROFILE": "/data"},
                "/data/pip",
                "/home/me/pip /roaming/pip",
            ),
        ],
        ids=["Linux", "XDG variables", "Windows"],
    )
    def test_order(self, platform: str, environ: dict[str, str], system: str, user: str) -> None:
        """System, user (old place, new place), environment."""
        name = "pip.ini" if platform == "win32" else "pip.conf"
        folders = f"{system} {user} /venv".split()
        assert paths(around(platform, environ)) == [f"{folder}/{name}" for folder in folders]

    def test_macos(self) -> None:
        """The library folder if it exists, else as on Linux."""
        assert paths(around("darwin")) == [
            "/Library/Application Support/pip/pip.conf",
            "/home/me/.pip/pip.conf",
            "/home/me/Library/Application Support/pip/pip.conf",
            "/venv/pip.conf",
        ]
        bare = PipContext({}, HOME, "darwin", (), is_folder=lambda _path: False)
        assert "/home/me/.config/pip/pip.conf" in paths(bare)

    def test_named_file(self) -> None:
        """PIP_CONFIG_FILE comes last and replaces the user's; if absent, it replaces nothing."""
        environ = {"PIP_CONFIG_FILE": "/named.conf"}
        assert paths(around(environ=environ)) == [
            "/etc/xdg/pip/pip.conf",
            "/etc/pip.conf",
            "/venv/pip.conf",
            "/named.conf",
        ]
        absent = PipContext(environ, HOME, "linux", (), exists=lambda _path: False)
        assert "/home/me/.pip/pip.conf" in paths(absent)

    def test_no_files_at_all(self) -> None:
        """The null device turns all files off."""
        assert paths(around(environ={"PIP_CONFIG_FILE": os.devnull})) == []


class TestOrder:
    """What counts more."""

    def test_sections_before_files(self) -> None:
        """[install] of an early file counts more than [global] of a late one, variables most."""
        early = "[install]\nindex-url = https://install/\n"
        late = "[global]\nindex-url = https://global/\n[download]\nindex-url = https://no/\n"
        assert settings(early, late).index_url == "https://install/"
        assert settings(early, late, INDEX_URL="https://env/").index_url == "https://env/"
        assert settings(late).index_url == "https://global/"

    def test_lists_are_replaced(self) -> None:
        """A list in a later place replaces the earlier one as a whole."""
        first = "[global]\nextra-index-url = https://a/ https://b/\nfind-links = /one\n"
        second = "[install]\nextra-index-url =\n    https://c/\n    https://d/\n"
        assert settings(first).extra_index_urls == ("https://a/", "https://b/")
        assert settings(first, second).extra_index_urls == ("https://c/", "https://d/")
        assert settings(first, second, FIND_LINKS="/two /three").find_links == ("/two", "/three")

    def test_empty_values(self) -> None:
        """An empty value is as if it were not there, but hides one of the same section."""
        first = "[global]\nindex-url = https://a/\n"
        assert settings(first, INDEX_URL="").index_url == "https://a/"
        assert settings(first, "[install]\nindex-url =\n").index_url == "https://a/"
        assert settings(first, "[global]\nindex-url =\n").index_url == SourceSettings().index_url


class TestValues:
    """How pip's text becomes a setting."""

    def test_spelling(self) -> None:
        """Underscores, capitals and leading dashes in names do not matter."""
        assert settings("[global]\n--Index_URL = https://a/\n").index_url == "https://a/"

    def test_two_spellings(self) -> None:
        """Of two spellings of a name in one section, the later counts."""
        text = "[global]\nindex-url = https://a/\nindex_url = https://b/\n"
        assert settings(text).index_url == "https://b/"

    def test_every_option(self) -> None:
        """Each option that concerns sources arrives."""
        text = """[global]
            index-url = https://a/%20/
            no-index = on
            cert = ~/ca.pem
            client-cert = me.pem
            proxy = proxy:1
            no-proxy-env = yes
            trusted-host = a b:1
            timeout = 2.5
            retries = 7
            resume-retries = 8
            keyring-provider = subprocess
            no-cache-dir = false
            unknown = x
        """.replace("\n            ", "\n")
        assert replace(settings(text), origins={}) == SourceSettings(
            index_url="https://a/%20/",
            no_index=True,
            cert="/home/me/ca.pem",
            client_cert="me.pem",
            proxy="proxy:1",
            no_proxy_env=True,
            trusted_hosts=("a", "b:1"),
            timeout=2.5,
            retries=7,
            resume_retries=8,
            keyring="subprocess",
            cache=False,
        )

    def test_default_timeout(self) -> None:
        """Both names of the timeout are known."""
        assert settings(DEFAULT_TIMEOUT="180").timeout == 180.0

    def test_no_input(self) -> None:
        """Who wants no questions gets none from keyring, unless it was asked for by name."""
        assert settings(NO_INPUT="1").keyring == "disabled"
        assert settings(NO_INPUT="1", KEYRING_PROVIDER="import").keyring == "import"

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("NO_INDEX", "maybe"),
            ("TIMEOUT", "soon"),
            ("TIMEOUT", "-1"),
            ("TIMEOUT", "nan"),
            ("RETRIES", "many"),
            ("KEYRING_PROVIDER", "magic"),
        ],
    )
    def test_wrong_values(self, name: str, value: str) -> None:
        """A value of the wrong kind is an error that names the place."""
        with pytest.raises(InvalidConfiguration, match=repr(value)) as excinfo:
            settings(**{name: value})
        assert excinfo.value.where == f"PIP_{name}"

    @pytest.mark.parametrize("text", ["index-url = x", "[global\n", "[global]\nx\n"])
    def test_broken_files(self, text: str) -> None:
        """A file that cannot be understood is an error that names the file."""
        with pytest.raises(InvalidConfiguration) as excinfo:
            settings(text)
        assert excinfo.value.where == "0.conf"

    def test_errors_hide_secrets(self) -> None:
        """A broken line with credentials is not shown."""
        with pytest.raises(InvalidConfiguration) as excinfo:
            settings("index-url = https://me:secret@h/")
        assert "secret" not in str(excinfo.value.parts())


class TestReading:
    """From the machine."""

    def test_files_and_variables(self, tmp_path: Path) -> None:
        """Files that exist are read, with a byte-order mark or without."""
        (tmp_path / ".config/pip").mkdir(parents=True)
        (tmp_path / ".config/pip/pip.conf").write_text(
            "[global]\nindex-url = https://user/\n", encoding="utf-8-sig"
        )
        environ = {
            "XDG_CONFIG_DIRS": str(tmp_path / "absent"),
            "PIP_EXTRA_INDEX_URL": "https://x/",
        }
        view = PipContext(environ, tmp_path, "linux", (tmp_path / "absent",))
        found = read_pip_configuration(view)
        assert found.index_url == "https://user/"
        assert found.extra_index_urls[-1] == "https://x/"

    def test_unreadable(self, tmp_path: Path) -> None:
        """A file that is not text is an error."""
        (tmp_path / "named.conf").write_bytes(b"[global]\nindex-url = \xff\n")
        environ = {"PIP_CONFIG_FILE": str(tmp_path / "named.conf")}
        with pytest.raises(InvalidConfiguration, match="UTF-8"):
            read_pip_configuration(PipContext(environ, tmp_path, "linux", ()))


ORACLE = """
import json, sys
from pip._internal.commands import create_command
options, _ = create_command("install").parse_args(sys.argv[1:])
print(json.dumps({
    "index_url": options.index_url, "extra_index_urls": options.extra_index_urls,
    "find_links": options.find_links, "no_index": bool(options.no_index),
    "timeout": options.timeout, "retries": options.retries, "proxy": options.proxy,
    "cert": options.cert, "trusted_hosts": options.trusted_hosts,
    "cache": bool(options.cache_dir), "keyring": options.keyring_provider,
}))
"""


def asked_pip(environ: Mapping[str, str], *options: str) -> dict[str, Any]:
    """Return the settings that pip itself has, with some variables and options."""
    command = [sys.executable, "-c", ORACLE, *options]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if "No module named 'pip'" in run.stderr:
        pytest.skip("pip is not at hand")
    settings: dict[str, Any] = json.loads(run.stdout)
    return settings


@pytest.mark.integration
@pytest.mark.skipif(os.name == "nt", reason="the files lie elsewhere there")
@pytest.mark.parametrize(
    ("user", "named", "environ"),
    [
        ("[global]\nindex-url=https://a/\ntimeout=3", None, {}),
        ("[global]\nindex-url=https://a/\n[install]\nindex_url=https://b/", None, {}),
        (
            "[install]\nfind-links=/a /b\n[global]\nfind-links=/c",
            None,
            {"PIP_INDEX_URL": "https://e/"},
        ),
        ("[global]\nindex-url=https://a/", "[global]\nextra-index-url=\n  x\n  y", {}),
        ("[global]\nno-index=on", "[install]\nno-index=off", {"PIP_FIND_LINKS": "/f /g"}),
        ("[global]\ntimeout=3\n[install]\ndefault-timeout=4", None, {"PIP_RETRIES": "2"}),
        ("[global]\nindex-url=\ncert=~/c.pem\nproxy=", None, {"PIP_PROXY": ""}),
        ("[global]\nno-cache-dir=off\ntrusted-host=a b", None, {"PIP_TRUSTED_HOST": "c"}),
        ("", None, {"PIP_TIMEOUT": "5", "PIP_DEFAULT_TIMEOUT": "6", "PIP_ISOLATED": "1"}),
        ("", None, {"PIP_PYPI_URL": "https://p/", "PIP_KEYRING_PROVIDER": "import"}),
        (
            "[download]\nindex-url=https://d/",
            "[list]\nindex-url=https://l/",
            {"PIP_NO_INDEX": "no"},
        ),
    ],
)
def test_pip_agrees(tmp_path: Path, user: str, named: str | None, environ: dict[str, str]) -> None:
    """pip itself, given the same files and variables, has the same settings."""  # noqa: D403
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text(user)
    variables = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], **environ}
    if named is not None:
        (tmp_path / "named.conf").write_text(named)
        variables["PIP_CONFIG_FILE"] = str(tmp_path / "named.conf")
    expected = asked_pip(variables)
    found = read_pip_configuration(
        PipContext(variables, tmp_path, sys.platform, (Path(sys.prefix),))
    )
    ours = {name: getattr(found, name) for name in expected}
    assert {**ours, **{k: list(v) for k, v in ours.items() if isinstance(v, tuple)}} == expected


@pytest.mark.integration
def test_pip_appends_options_too() -> None:
    """Lists given on pip's command line are appended to what is configured."""
    variables = {"PIP_EXTRA_INDEX_URL": "https://a/", "PIP_FIND_LINKS": "/a"}
    expected = asked_pip(
        {**os.environ, "PIP_CONFIG_FILE": os.devnull, **variables},
        *("--extra-index-url", "https://b/", "-f", "/b"),
    )
    ours = settings(EXTRA_INDEX_URL="https://a/", FIND_LINKS="/a").with_options(
        extra_index_urls=["https://b/"], find_links=["/b"]
    )
    assert list(ours.extra_index_urls) == expected["extra_index_urls"]
    assert list(ours.find_links) == expected["find_links"]


class TestRules:
    """What pip is told about installing."""

    def rules(self, *texts: str, command: str = "install", **environ: str) -> InstallRules:
        """Return what some files and PIP_* variables express."""
        files = [ConfigurationFile(f"{number}.conf", text) for number, text in enumerate(texts)]
        return rules_from(files, {f"PIP_{k}": v for k, v in environ.items()}, command)

    def test_nothing_is_said(self) -> None:
        """Settings of the sources are no rules."""
        assert self.rules("[global]\nindex-url = x\n", FIND_LINKS="y") == InstallRules()

    def test_each(self) -> None:
        """Files and variables count as they do for the sources, and are named."""
        text = "[global]\nrequire-hashes = no\npre = yes\n[install]\nconstraint = a.txt\n b.txt\n"
        found = self.rules(text, "[install]\nrequire-hashes = 1\n", REQUIRE_VENV="true")
        assert found.constraints == ("a.txt", "b.txt")
        assert (found.pre, found.require_hashes, found.require_virtualenv) == (True, True, True)
        assert found.origin_of("constraint") == "constraint in 0.conf [install]"
        assert found.origin_of("require-hashes") == "require-hashes in 1.conf [install]"
        assert found.origin_of("require-virtualenv") == "PIP_REQUIRE_VENV"

    def test_what_is_taken_back(self) -> None:
        """A later file may switch off what an earlier one switched on."""
        found = self.rules("[global]\nrequire-hashes = 1\n", "[global]\nrequire-hashes = 0\n")
        assert not found.require_hashes

    def test_commands(self) -> None:
        """Each command of pip has a section of its own."""
        text = "[install]\nrequire-virtualenv = 1\n"
        assert self.rules(text).require_virtualenv
        assert not self.rules(text, command="uninstall").require_virtualenv

    def test_places(self) -> None:
        """Where pip would install is told to whoever asks."""
        assert dict(self.rules("[install]\ntarget = /x\n").others) == {"target": "/x"}

    @pytest.mark.parametrize("name", ["pre", "require-hashes", "require-virtualenv"])
    def test_neither_yes_nor_no(self, name: str) -> None:
        """A safety setting with a slip in it is never taken for off."""
        with pytest.raises(InvalidConfiguration, match="yes or no"):
            self.rules(f"[global]\n{name} = treu\n")
