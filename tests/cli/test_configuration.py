"""Layers of settings: files, allowed keys and precedence."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from pathlib import Path, PurePath
from typing import Any

import pytest

from wheelfit.cli.command import make_parser
from wheelfit.cli.commands import find_command
from wheelfit.cli.configuration import (
    Configuration,
    clear_defaults,
    complete,
    project_file,
    read_file,
    read_layers,
    read_project,
    read_variables,
    unknown_variables,
)
from wheelfit.cli.options.option import ProjectAccess
from wheelfit.cli.options.settings import SETTINGS
from wheelfit.core.provider_table import EmulatedPlugin
from wheelfit.errors import UsageError
from wheelfit.operations.user_folders import configuration_file, site_folder
from wheelfit_runtime.errors import InvalidConfiguration, UserError

TEXT = """
strict = true
ignore-static = ["nvidia"]
enable-provider = ["amd"]
index-strategy = "unsafe-best-match"
tpu-generation = true
rocm-compat = "same-major"
devices = "highest"

[limit]
labels = 20
lookups = 0

[[provider]]
namespace = "nvidia"
package = "Acme.Nvidia"
versions = ["1.0"]
plugin-api = ["acme : Plugin"]
"""


@pytest.mark.parametrize(
    ("environ", "platform", "path"),
    [
        ({}, "linux", "/home/me/.config/wheelfit/wheelfit.toml"),
        ({"XDG_CONFIG_HOME": "/c"}, "linux", "/c/wheelfit/wheelfit.toml"),
        ({}, "darwin", "/home/me/Library/Application Support/wheelfit/wheelfit.toml"),
        ({"APPDATA": "/roaming"}, "win32", "/roaming/wheelfit/wheelfit.toml"),
        ({"WHEELFIT_CONFIG_FILE": "/x.toml", "XDG_CONFIG_HOME": "/c"}, "linux", "/x.toml"),
        ({"WHEELFIT_CONFIG_FILE": ""}, "linux", "/home/me/.config/wheelfit/wheelfit.toml"),
    ],
)
def test_configuration_file(environ: dict[str, str], platform: str, path: str) -> None:
    """Each system has a settings folder, unless a variable names the file."""
    assert configuration_file(environ, platform, Path("/home/me")) == PurePath(path)


@pytest.mark.parametrize(
    ("platform", "path"),
    [
        ("linux", "/etc/wheelfit"),
        ("darwin", "/Library/Application Support/wheelfit"),
        ("win32", "C:\\ProgramData/wheelfit"),
    ],
)
def test_site_folder(platform: str, path: str) -> None:
    """The site's settings are beside its policy."""
    if platform == "win32" and sys.platform == "win32":
        assert site_folder(platform).name == "wheelfit"
    else:
        assert site_folder(platform) == PurePath(path)


class SettingsFiles:
    """Write the layers of a test, and parse words of a command that starts from them.

    :param folder: where to write.
    """

    def __init__(self, folder: Path) -> None:
        self.site = folder / "site"
        self.user = folder / "user.toml"
        self.project = folder / "project"
        self.site.mkdir()
        self.project.mkdir()
        self.user.touch()

    def write(self, *, site: str = "", user: str = "", project: str = "") -> SettingsFiles:
        """Write the files; the project's text is under ``[tool.wheelfit]``."""
        (self.site / "wheelfit.toml").write_text(site)
        self.user.write_text(user)
        (self.project / "pyproject.toml").write_text(f"[tool.wheelfit]\n{project}")
        return self

    def layers(self, **variables: str) -> Configuration:
        """Read all layers, as a command with a project does."""
        arguments = Namespace(project=str(self.project))
        return read_layers(
            arguments, {"WHEELFIT_CONFIG_FILE": str(self.user), **variables}, self.site
        )

    def parsed(self, command: str, *words: str, **variables: str) -> dict[str, Any]:
        """Parse words as the program does."""
        parser = make_parser(command, find_command(command))
        own = clear_defaults(parser)
        arguments = parser.parse_args(list(words))
        complete(parser, arguments, own, lambda: self.layers(**variables))
        return vars(arguments)


@pytest.fixture
def settings_files(tmp_path: Path) -> SettingsFiles:
    """Return empty settings files."""
    return SettingsFiles(tmp_path)


def test_options_and_settings(settings_files: SettingsFiles) -> None:
    """F-30, P-20, P-64, P-88, P-123, P-153: options extend lists of settings and replace values."""
    settings_files.write(user=TEXT)
    words = ["demo", "--ignore-static", ":all:", "--limit", "labels=30", "--limit", "size=99"]
    found = settings_files.parsed("install", *words)
    assert found["strict"] is True
    assert found["index_strategy"] == "unsafe-best-match"
    assert found["tpu_generation"] is True
    assert found["ignore_static"] == [":all:", "nvidia"]
    assert found["enable_provider"] == ["amd"]
    assert found["rocm_compat"] == "same-major"
    assert found["devices"] == "highest"
    assert (
        settings_files.parsed("install", "demo", "--rocm-compat", "exact")["rocm_compat"] == "exact"
    )
    assert dict(found["limit"]) == {"labels": 30, "lookups": 0, "size": 99}
    row = EmulatedPlugin("nvidia", "acme-nvidia", ("1.0",), ("acme:Plugin",))
    assert found["provider_table"] == (row,)


def test_no_settings(settings_files: SettingsFiles) -> None:
    """Without settings every argument has the parser's default."""
    plain = vars(make_parser("install", find_command("install")).parse_args(["demo"]))
    assert settings_files.parsed("install", "demo") == plain


def test_precedence_of_layers(settings_files: SettingsFiles) -> None:
    """The precedence is command line, variable, project, user, site."""
    settings_files.write(
        site='devices = "any"', user='devices = "lowest"', project='devices = "highest"'
    )
    variable = {"WHEELFIT_DEVICES": "all"}
    assert (
        settings_files.parsed("install", "a", "--devices", "min", **variable)["devices"] == "lowest"
    )
    assert settings_files.parsed("install", "a", **variable)["devices"] == "all"
    assert settings_files.parsed("install", "a")["devices"] == "highest"
    settings_files.write(site='devices = "any"', user='devices = "lowest"')
    assert settings_files.parsed("install", "a")["devices"] == "lowest"
    settings_files.write(site='devices = "any"')
    assert settings_files.parsed("install", "a")["devices"] == "any"


def test_lists_of_all_layers(settings_files: SettingsFiles) -> None:
    """Lists are joined by precedence; each name occurs once."""
    settings_files.write(
        site='prefer = ["s"]\nlabel = ["a=site", "c=site"]',
        user='prefer = ["u", "v"]\nlabel = ["A=user"]',
        project='prefer = ["p", "u"]\nlabel = ["b=project"]',
    )
    found = settings_files.parsed("install", "x", "--prefer", "c", "--label", "B_=command")
    assert found["prefer"] == ["c", "p", "u", "v", "s"]
    assert found["label"] == ["B_=command", "b=project", "A=user", "c=site"]
    assert settings_files.parsed("install", "x", "--label", "b=own")["label"][:2] == [
        "b=own",
        "A=user",
    ]


def test_project_can_only_tighten(settings_files: SettingsFiles) -> None:
    """F-30: limits of a project apply only if they are stricter."""
    settings_files.write(
        site="[limit]\ndepth = 5", user="strict = true\n[limit]\nlabels = 20",
        project="strict = false\nlimit = {labels = 30, values = 7, size = 1073741824}",
    )  # fmt: skip
    found = settings_files.parsed("install", "x")
    assert found["strict"] is True
    assert dict(found["limit"]) == {"labels": 20, "values": 7, "size": 4194304, "depth": 5}
    for user, project, most in [("1GB", "2GB", 10**9), ("1GB", "5MB", 5 * 10**6)]:
        settings_files.write(user=f'max-download = "{user}"', project=f'max-download = "{project}"')
        assert settings_files.parsed("install", "x")["max_download"] == most
    settings_files.write(project="strict = true\nlimit.labels = 3")
    assert settings_files.parsed("install", "x")["strict"] is True
    assert settings_files.parsed("install", "x", WHEELFIT_STRICT="no")["strict"] is False
    assert settings_files.parsed("install", "x", "--limit", "labels=9")["limit"] == [("labels", 9)]


@pytest.mark.parametrize(
    "key", [key for key in SETTINGS if SETTINGS[key].project is ProjectAccess.NONE]
)
def test_settings_forbidden_in_projects(settings_files: SettingsFiles, key: str) -> None:
    """Settings that weaken trust or limits are errors in a project."""
    settings_files.write(project=f"\n{key} = true")
    with pytest.raises(InvalidConfiguration, match=f"a project cannot set {key}") as excinfo:
        settings_files.layers()
    assert excinfo.value.where == f"{settings_files.project / 'pyproject.toml'}:3"
    hint = str(excinfo.value.hint)
    assert "your own wheelfit.toml" in hint
    assert ("WHEELFIT_" in hint) == (key != "provider")  # which no variable can say


def test_site_file_writable_by_others(settings_files: SettingsFiles) -> None:
    """A site file that others can write has no more rights than a project."""
    settings_files.write(site="no-plugins = true")
    assert settings_files.parsed("install", "x")["no_plugins"] is True
    settings_files.write(site="limit = {labels = 1000000}")
    (settings_files.site / "wheelfit.toml").chmod(0o666)
    assert settings_files.parsed("install", "x")["limit"] == [("labels", 10000)]
    settings_files.write(site='index-strategy = "unsafe-best-match"')
    (settings_files.site / "wheelfit.toml").chmod(0o666)
    with pytest.raises(InvalidConfiguration, match="others than the administrator"):
        settings_files.layers()
    (settings_files.site / "wheelfit.toml").chmod(0o644)
    settings_files.site.chmod(0o777)  # who can write there can put another file in its place
    with pytest.raises(InvalidConfiguration, match="others than the administrator"):
        settings_files.layers()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root's files")
def test_site_file_of_root(settings_files: SettingsFiles) -> None:
    """P-20: A site file that only root can write may have any setting."""
    settings_files.write(site='ignore-static = ["nvidia"]')
    assert settings_files.parsed("install", "x")["ignore_static"] == ["nvidia"]


def test_project_only_setting(settings_files: SettingsFiles) -> None:
    """Default groups are set by a project only."""
    settings_files.write(project='default-groups = ["dev"]')
    assert settings_files.layers().effective("default-groups").value == ["dev"]
    assert settings_files.layers(WHEELFIT_DEFAULT_GROUPS="a").effective("default-groups").value == [
        "dev"
    ]
    settings_files.write(user='default-groups = ["dev"]')
    with pytest.raises(InvalidConfiguration, match="belongs to a project"):
        settings_files.layers()


def test_project_file(tmp_path: Path) -> None:
    """The project is the named one, or the one beside the lock."""
    assert project_file(Namespace(requirements=["demo"])) is None
    assert project_file(Namespace(lock=None)) is None
    named = {"requirements": ["demo"], "requirement": []}
    assert project_file(Namespace(project=None, **named)) is None
    file = {"requirements": [], "requirement": ["requirements.txt"]}
    assert project_file(Namespace(project=None, **file)) is None
    nothing: dict[str, list[str]] = {"requirements": [], "requirement": []}
    assert project_file(Namespace(project=None, **nothing)) == Path("pyproject.toml")
    assert project_file(Namespace(project=".", **named)) == Path("pyproject.toml")
    inside = tmp_path / "pyproject.toml"
    assert project_file(Namespace(project=str(tmp_path))) == inside
    assert project_file(Namespace(project=str(inside))) == inside
    assert project_file(Namespace(lock=str(tmp_path / "pylock.toml"))) == inside
    assert project_file(Namespace(lock="pylock.toml")) == Path("pyproject.toml")
    assert project_file(Namespace(project="x" * 300)) == Path("x" * 300)  # none can be there


def test_project_without_settings(tmp_path: Path) -> None:
    """A file that does not mention wheelfit is not parsed."""
    path = tmp_path / "pyproject.toml"
    assert (read_project(path).exists, read_project(path).values) == (False, {})
    path.write_text("this is not TOML")
    assert (read_project(path).exists, read_project(path).values) == (True, {})
    path.write_text("wheelfit: this is not TOML either")
    with pytest.raises(InvalidConfiguration, match="is not TOML"):
        read_project(path)
    path.write_text("tool.wheelfit = 1")
    with pytest.raises(InvalidConfiguration, match=r"tool\.wheelfit is not a table"):
        read_project(path)


def test_project_that_is_not_a_file(tmp_path: Path) -> None:
    """A pipe or a folder in place of the file is an error."""
    os.mkfifo(tmp_path / "pyproject.toml")
    for path, why in ((tmp_path / "pyproject.toml", "it is a pipe"), (tmp_path, "directory")):
        with pytest.raises(InvalidConfiguration, match=f"cannot be read: .*{why}"):
            read_project(path)


def test_current_folder_is_not_read(
    tmp_path: Path, settings_files: SettingsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands without a project ignore the current folder's settings."""
    monkeypatch.chdir(settings_files.write(project='prefer = ["p"]').project)
    parser = make_parser("install", find_command("install"))
    own = clear_defaults(parser)
    arguments = parser.parse_args(["demo"])
    complete(parser, arguments, own, lambda: read_layers(arguments, {}, tmp_path / "none"))
    assert arguments.prefer == []


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("WHEELFIT_STRICT", "yes", "strict", True),
        ("WHEELFIT_STRICT", "off", "strict", False),
        ("WHEELFIT_STRICT", " ", "strict", False),
        ("WHEELFIT_PREFER", "a :: b\n\n c \n", "prefer", ["a :: b", "c"]),
        ("WHEELFIT_LIMIT", "labels=3\nsize = 9", "limit", [("labels", 3), ("size", 9)]),
        ("WHEELFIT_PLUGIN_TIMEOUT", "2.5", "plugin_timeout", 2.5),
        ("WHEELFIT_DEVICES", "min", "devices", "lowest"),
        ("WHEELFIT_WHATEVER", "1", "strict", False),
    ],
)
def test_variables(
    settings_files: SettingsFiles, variable: str, text: str, name: str, value: object
) -> None:
    """P-88: A variable has the option's syntax, with one list element a line."""
    assert settings_files.parsed("install", "x", **{variable: text})[name] == value


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("WHEELFIT_STRICT", "perhaps", "strict: 'perhaps' is neither true nor false"),
        ("WHEELFIT_DEVICES", "some", "is none of all, highest, lowest, any, min"),
        ("WHEELFIT_LIMIT", "labels=x", "labels must be a number from 1 to"),
        ("WHEELFIT_LIMIT", f"labels={'9' * 5000}", "labels must be a number from 1 to"),
        ("WHEELFIT_LIMIT", "lables=1", "limit.lables is not a setting"),
        ("WHEELFIT_PLUGIN_TIMEOUT", "soon", "not a number of seconds"),
        ("WHEELFIT_PLUGIN_TIMEOUT", "-1", "not a number of seconds"),
        ("WHEELFIT_PROVIDER", "nvidia", "can be set in a file only"),
        ("WHEELFIT_LABEL", "cu128", "names no package"),
        ("WHEELFIT_EXCLUDES", "a b", "is not a valid package name"),
        ("WHEELFIT_OVERRIDES", "a >>", "expected semicolon"),
        ("WHEELFIT_FORBID", "A!", "namespace"),
    ],
)
def test_invalid_variables(variable: str, text: str, message: str) -> None:
    """A wrong value is an error that names the variable."""
    with pytest.raises(UserError) as excinfo:
        read_variables({variable: text})
    assert message in str(excinfo.value.message) + str(excinfo.value)
    assert excinfo.value.where == variable


def test_unknown_variables() -> None:
    """Variables that resemble settings are reported."""
    environ = {
        "WHEELFIT_STRIKT": "1", "WHEELFIT_STRICT": "1", "WHEELFIT_OVERRIDE_X_Y": "1",
        "WHEELFIT_CACHE_DIR": "/c", "WHEELFIT_POLICY_FILE": "/p", "OTHER": "1",
        "WHEELFIT_LIBRARY_STORE": "/l", "WHEELFIT_LIBRARY_SITES": "/s",
    }  # fmt: skip
    assert unknown_variables(environ) == ("WHEELFIT_STRIKT",)


PLUGIN = '[[provider]]\nnamespace = "a"\npackage = "{}"\nversions = ["{}"]\nplugin-api = ["c:d"]\n'


@pytest.mark.parametrize(
    ("text", "message", "line", "hint"),
    [
        ("strikt = true", "strikt is not a setting", 1, "did you mean 'strict'?"),
        ("\nzzz = true", "zzz is not a setting", 2, "wheelfit config show"),
        ("[limit]\nlabls = 1", "limit.labls is not a setting", 2, "did you mean 'limit.labels'?"),
        ("[limit]\nlabels = 0", "limit.labels must be a number from 1", 2, None),
        ("limit = 3", "limit is not a table", 1, None),
        ("strict = 1", "strict is neither true nor false", 1, None),
        ("plugin-timeout = true", "not a number of seconds", 1, None),
        ('devices = "none"', "devices: 'none' is none of all", 1, None),
        ("devices = [1]", "devices: '[1]' is none of all", 1, None),
        ("prefer = 'a'", "prefer must be a list of strings", 1, None),
        ('prefer = [\n "a",\n "B!"\n]', "namespace", 3, None),
        ('label = ["a"]', "names no package", 1, "write NAME=LABEL"),
        ('overrides = ["a==1",\n"b >>"]', "", 2, None),
        ("constraints = [\"a; 'x' in variant_namespaces\"]", "variant_namespaces", 1, None),
        ("provider = 1", "provider is not a list of tables; write [[provider]]", 1, None),
        ("[[provider]]\nnam = 1", "provider[0].nam is not a setting", 1, None),
        ('[[provider]]\nnamespace = "a"', "provider[0].package is missing", 1, None),
        ('[shorthand.a]\nname = "b"', "shorthand.a.name is not a setting", 1, None),
        (PLUGIN.format("b/", "1"), "provider[0].package is not a valid package name", 1, None),
        (PLUGIN.format("b", "9" * 5000), "provider[0].versions has an invalid version", 1, None),
        ('[sources]\n"a b" = {index = "c"}', "sources.a b is not a valid package name", 2, None),
    ],
)
def test_invalid_settings(
    tmp_path: Path, text: str, message: str, line: int, hint: str | None
) -> None:
    """P-64: an invalid setting is an error with the line and a suggestion."""
    path = tmp_path / "wheelfit.toml"
    path.write_text(text)
    with pytest.raises(UserError) as excinfo:
        read_file(path, "user")
    assert message in excinfo.value.message
    assert excinfo.value.where == f"{path}:{line}"
    if hint is not None:
        assert hint in str(excinfo.value.hint)


def test_settings_of_other_commands(settings_files: SettingsFiles) -> None:
    """Settings without an option in the command have no effect."""
    settings_files.write(user=TEXT)
    assert "strict" not in settings_files.parsed("uninstall", "demo")
    assert settings_files.parsed("check")["strict"] is False  # another option of the same name
    assert settings_files.parsed("check", "--strict")["strict"] is True
    assert settings_files.parsed("probe")["ignore_static"] == ["nvidia"]


@pytest.mark.parametrize(
    "limit", ["size", "size=", "size=x", "size=1", "depth=0", "depth=201", "what=1", "labels=-1"]
)
def test_invalid_limit(settings_files: SettingsFiles, limit: str) -> None:
    """F-30: A limit has a known name and a number in its range."""
    with pytest.raises(UsageError, match=r"is none of size|must be a number from"):
        settings_files.parsed("install", "demo", "--limit", limit)


def test_missing_file(tmp_path: Path) -> None:
    """A missing file is ignored, unless it was named."""
    assert read_file(tmp_path / "none", "user").values == {}
    assert read_file(tmp_path / "none" / "such", "user").values == {}
    with pytest.raises(InvalidConfiguration, match="does not exist"):
        read_file(tmp_path / "none", "user", must_exist=True)
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        read_file(tmp_path, "user")


def test_example_of_the_reference(tmp_path: Path) -> None:
    """The example of the reference page is a valid settings file."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"
    (example,) = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    path = tmp_path / "wheelfit.toml"
    alone = {key for key, one in SETTINGS.items() if one.project is ProjectAccess.PROJECT_ONLY}
    path.write_text(re.sub(rf"^({'|'.join(alone)}) .*\n", "", example, flags=re.MULTILINE))
    assert set(read_file(path, "user").values) == set(SETTINGS) - alone - {"require", "forbid"}
