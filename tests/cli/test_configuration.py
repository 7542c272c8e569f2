"""Settings in layers: where the files lie, what may stand in them, and what counts."""

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
compare-sources = true
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
def test_where(environ: dict[str, str], platform: str, path: str) -> None:
    """Each system's folder for settings, unless a variable names the file."""
    assert configuration_file(environ, platform, Path("/home/me")) == PurePath(path)


@pytest.mark.parametrize(
    ("platform", "path"),
    [
        ("linux", "/etc/wheelfit"),
        ("darwin", "/Library/Application Support/wheelfit"),
        ("win32", "C:\\ProgramData/wheelfit"),
    ],
)
def test_where_the_site_has_its_files(platform: str, path: str) -> None:
    """The site's file lies beside its policy, where no variable leads elsewhere."""
    if platform == "win32" and sys.platform == "win32":
        assert site_folder(platform).name == "wheelfit"
    else:
        assert site_folder(platform) == PurePath(path)


class Place:
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

    def write(self, *, site: str = "", user: str = "", project: str = "") -> Place:
        """Write what each file says; the project's under ``[tool.wheelfit]``."""
        (self.site / "wheelfit.toml").write_text(site)
        self.user.write_text(user)
        (self.project / "pyproject.toml").write_text(f"[tool.wheelfit]\n{project}")
        return self

    def layers(self, **variables: str) -> Configuration:
        """Read all of them, as a command does that works on the project."""
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
def place(tmp_path: Path) -> Place:
    """Return files that say nothing yet."""
    return Place(tmp_path)


def test_options_add_to_it(place: Place) -> None:
    """F-30, P-20, P-64, P-88, P-123, P-153: a command starts from the file.

    Lists grow; of limits and choices the command line counts.
    """
    place.write(user=TEXT)
    words = ["demo", "--ignore-static", ":all:", "--limit", "labels=30", "--limit", "size=99"]
    found = place.parsed("install", *words)
    assert found["strict"] is True
    assert found["compare_sources"] is True
    assert found["tpu_generation"] is True
    assert found["ignore_static"] == [":all:", "nvidia"]
    assert found["enable_provider"] == ["amd"]
    assert found["rocm_compat"] == "same-major"
    assert found["devices"] == "highest"
    assert place.parsed("install", "demo", "--rocm-compat", "exact")["rocm_compat"] == "exact"
    assert dict(found["limit"]) == {"labels": 30, "lookups": 0, "size": 99}
    row = EmulatedPlugin("nvidia", "acme-nvidia", ("1.0",), ("acme:Plugin",))
    assert found["provider_table"] == (row,)


def test_nothing_said(place: Place) -> None:
    """Without settings every argument is what the parser says by itself."""
    plain = vars(make_parser("install", find_command("install")).parse_args(["demo"]))
    assert place.parsed("install", "demo") == plain


def test_the_order_of_the_layers(place: Place) -> None:
    """Command line, variable, project, user, site: the first that speaks is heard."""
    place.write(site='devices = "any"', user='devices = "lowest"', project='devices = "highest"')
    variable = {"WHEELFIT_DEVICES": "all"}
    assert place.parsed("install", "a", "--devices", "min", **variable)["devices"] == "lowest"
    assert place.parsed("install", "a", **variable)["devices"] == "all"
    assert place.parsed("install", "a")["devices"] == "highest"
    place.write(site='devices = "any"', user='devices = "lowest"')
    assert place.parsed("install", "a")["devices"] == "lowest"
    place.write(site='devices = "any"')
    assert place.parsed("install", "a")["devices"] == "any"


def test_lists_of_all_layers_count(place: Place) -> None:
    """Lists add up, the strongest first; of a name only the strongest is heard."""
    place.write(
        site='prefer = ["s"]\nlabel = ["a=site", "c=site"]',
        user='prefer = ["u", "v"]\nlabel = ["A=user"]',
        project='prefer = ["p", "u"]\nlabel = ["b=project"]',
    )
    found = place.parsed("install", "x", "--prefer", "c", "--label", "B_=command")
    assert found["prefer"] == ["c", "p", "u", "v", "s"]
    assert found["label"] == ["B_=command", "b=project", "A=user", "c=site"]
    assert place.parsed("install", "x", "--label", "b=own")["label"][:2] == ["b=own", "A=user"]


def test_a_project_can_only_tighten(place: Place) -> None:
    """F-30: what a project says of bounds counts where it is stricter."""
    place.write(
        site="[limit]\ndepth = 5", user="strict = true\n[limit]\nlabels = 20",
        project="strict = false\nlimit = {labels = 30, values = 7, size = 1073741824}",
    )  # fmt: skip
    found = place.parsed("install", "x")
    assert found["strict"] is True
    assert dict(found["limit"]) == {"labels": 20, "values": 7, "size": 4194304, "depth": 5}
    for user, project, most in [("1GB", "2GB", 10**9), ("1GB", "5MB", 5 * 10**6)]:
        place.write(user=f'max-download = "{user}"', project=f'max-download = "{project}"')
        assert place.parsed("install", "x")["max_download"] == most
    place.write(project="strict = true\nlimit.labels = 3")
    assert place.parsed("install", "x")["strict"] is True
    assert place.parsed("install", "x", WHEELFIT_STRICT="no")["strict"] is False
    assert place.parsed("install", "x", "--limit", "labels=9")["limit"] == [("labels", 9)]


@pytest.mark.parametrize(
    "key", [key for key in SETTINGS if SETTINGS[key].project is ProjectAccess.NONE]
)
def test_what_a_project_cannot_set(place: Place, key: str) -> None:
    """What weakens trust or bounds is an error that says where it belongs."""
    place.write(project=f"\n{key} = true")
    with pytest.raises(InvalidConfiguration, match=f"a project cannot set {key}") as excinfo:
        place.layers()
    assert excinfo.value.where == f"{place.project / 'pyproject.toml'}:3"
    hint = str(excinfo.value.hint)
    assert "your own wheelfit.toml" in hint
    assert ("WHEELFIT_" in hint) == (key != "provider")  # which no variable can say


def test_a_site_file_that_anybody_can_write(place: Place) -> None:
    """What no administrator need have written decides no more than a project."""
    place.write(site="no-plugins = true")
    assert place.parsed("install", "x")["no_plugins"] is True
    place.write(site="limit = {labels = 1000000}")
    (place.site / "wheelfit.toml").chmod(0o666)
    assert place.parsed("install", "x")["limit"] == [("labels", 10000)]
    place.write(site="compare-sources = true")
    (place.site / "wheelfit.toml").chmod(0o666)
    with pytest.raises(InvalidConfiguration, match="others than the administrator"):
        place.layers()
    (place.site / "wheelfit.toml").chmod(0o644)
    place.site.chmod(0o777)  # who can write there can put another file in its place
    with pytest.raises(InvalidConfiguration, match="others than the administrator"):
        place.layers()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root's files")
def test_a_site_file_of_the_administrator(place: Place) -> None:
    """P-20: what root alone can write may set everything."""
    place.write(site='ignore-static = ["nvidia"]')
    assert place.parsed("install", "x")["ignore_static"] == ["nvidia"]


def test_the_project_alone(place: Place) -> None:
    """Which groups are installed by default is said by a project and by nobody else."""
    place.write(project='default-groups = ["dev"]')
    assert place.layers().effective("default-groups").value == ["dev"]
    assert place.layers(WHEELFIT_DEFAULT_GROUPS="a").effective("default-groups").value == ["dev"]
    place.write(user='default-groups = ["dev"]')
    with pytest.raises(InvalidConfiguration, match="belongs to a project"):
        place.layers()


def test_which_project(tmp_path: Path) -> None:
    """The project named, or the one beside the lock; no command that works on none."""
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


def test_a_project_without_settings(tmp_path: Path) -> None:
    """A file that does not mention wheelfit is not even parsed; one that is not there is none."""
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


def test_a_project_that_is_no_file(tmp_path: Path) -> None:
    """Nobody waits for a pipe that somebody put there, and a folder is none either."""
    os.mkfifo(tmp_path / "pyproject.toml")
    for path, why in ((tmp_path / "pyproject.toml", "it is a pipe"), (tmp_path, "directory")):
        with pytest.raises(InvalidConfiguration, match=f"cannot be read: .*{why}"):
            read_project(path)


def test_the_settings_of_the_current_folder_are_not_read(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that works on no project reads none: an archive decides nothing by lying there."""
    monkeypatch.chdir(place.write(project='prefer = ["p"]').project)
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
def test_variables(place: Place, variable: str, text: str, name: str, value: object) -> None:
    """P-88: a variable says what the option says; of lists one element a line."""
    assert place.parsed("install", "x", **{variable: text})[name] == value


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("WHEELFIT_STRICT", "perhaps", "strict: 'perhaps' is neither true nor false"),
        ("WHEELFIT_DEVICES", "some", "is none of all, highest, lowest, any, min"),
        ("WHEELFIT_LIMIT", "labels=x", "labels must be a number from 1 to"),
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
def test_variables_that_are_wrong(variable: str, text: str, message: str) -> None:
    """A value of the wrong kind is an error that names the variable."""
    with pytest.raises(UserError) as excinfo:
        read_variables({variable: text})
    assert message in str(excinfo.value.message) + str(excinfo.value)
    assert excinfo.value.where == variable


def test_variables_that_are_none() -> None:
    """What begins like a setting and is none is likely misspelt."""
    environ = {
        "WHEELFIT_STRIKT": "1", "WHEELFIT_STRICT": "1", "WHEELFIT_OVERRIDE_X_Y": "1",
        "WHEELFIT_CACHE_DIR": "/c", "WHEELFIT_POLICY_FILE": "/p", "OTHER": "1",
    }  # fmt: skip
    assert unknown_variables(environ) == ("WHEELFIT_STRIKT",)


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
    ],
)
def test_what_is_no_setting(
    tmp_path: Path, text: str, message: str, line: int, hint: str | None
) -> None:
    """P-64: what cannot be set is an error with the line, and with what may have been meant."""
    path = tmp_path / "wheelfit.toml"
    path.write_text(text)
    with pytest.raises(UserError) as excinfo:
        read_file(path, "user")
    assert message in excinfo.value.message
    assert excinfo.value.where == f"{path}:{line}"
    if hint is not None:
        assert hint in str(excinfo.value.hint)


def test_a_command_without_such_an_option(place: Place) -> None:
    """What a command has no option for does not concern it."""
    place.write(user=TEXT)
    assert "strict" not in place.parsed("uninstall", "demo")
    assert place.parsed("check")["strict"] is False  # another option of the same name
    assert place.parsed("check", "--strict")["strict"] is True
    assert place.parsed("probe")["ignore_static"] == ["nvidia"]


@pytest.mark.parametrize(
    "limit", ["size", "size=", "size=x", "size=1", "depth=0", "depth=201", "what=1", "labels=-1"]
)
def test_a_limit_that_is_none(place: Place, limit: str) -> None:
    """F-30: a limit is one of the known names with a number in its range."""
    with pytest.raises(UsageError, match=r"is none of size|must be a number from"):
        place.parsed("install", "demo", "--limit", limit)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Nobody needs a file; one that was named must be there."""
    assert read_file(tmp_path / "none", "user").values == {}
    assert read_file(tmp_path / "none" / "such", "user").values == {}
    with pytest.raises(InvalidConfiguration, match="does not exist"):
        read_file(tmp_path / "none", "user", must_exist=True)
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        read_file(tmp_path, "user")


def test_the_example_of_the_reference(tmp_path: Path) -> None:
    """The example of the reference can be written into a file as it is."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"
    (example,) = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    path = tmp_path / "wheelfit.toml"
    alone = {key for key, one in SETTINGS.items() if one.project is ProjectAccess.PROJECT_ONLY}
    path.write_text(re.sub(rf"^({'|'.join(alone)}) .*\n", "", example, flags=re.MULTILINE))
    assert set(read_file(path, "user").values) == set(SETTINGS) - alone - {"require", "forbid"}
