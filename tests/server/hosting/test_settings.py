"""Settings of a server: precedence and validation."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from wheelfit.server.hosting.settings import ServerSettings, read_settings
from wheelfit.server.store.project_rules import ProjectRules
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration


def settings_of(folder: Path, text: str, **flags: str) -> ServerSettings:
    """Read the settings of a file with this text, and of flags."""
    file = folder / "serve.toml"
    file.write_text(text)
    return read_settings(flags, {}, str(file))


def test_precedence(tmp_path: Path) -> None:
    """Flags override variables, which override the file."""
    file = tmp_path / "serve.toml"
    file.write_text(
        'port = 1\nhost = "a"\nlog-format = "json"\ndelete = "72h"\naccess-log = false\n'
    )
    environ = {"WHEELFIT_SERVER_PORT": "2", "WHEELFIT_SERVER_HOST": "b"}
    settings = read_settings({"port": "3", "host": None}, environ, str(file))
    assert (settings.port, settings.host, settings.log_format) == (3, "b", "json")
    assert settings.rules.deletes == timedelta(hours=72)
    assert not settings.access_log
    assert read_settings({}, {}).folder == Path()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("port", "70000"),
        ("port", "x"),
        ("public-url", "wheels.example.org"),
        ("public-url", "https://me:secret@wheels.example.org/"),
        ("delete", "sometimes"),
        ("delete", "99999999999w"),
        ("audit-retention", "99999999999w"),
        ("stage-lifetime", "soon"),
        ("log-format", "xml"),
        ("max-file-size", "large"),
        ("metrics", "nobody"),
    ],
)
def test_invalid_values(key: str, value: str) -> None:
    """An error about a value names its flag or variable."""
    with pytest.raises(InvalidConfiguration) as excinfo:
        read_settings({key: value}, {})
    assert excinfo.value.where == f"--{key}"
    variable = f"WHEELFIT_SERVER_{key.upper().replace('-', '_')}"
    with pytest.raises(InvalidConfiguration) as excinfo:
        read_settings({}, {variable: value})
    assert excinfo.value.where == variable


def test_unknown_keys_and_missing_files(tmp_path: Path) -> None:
    """Unknown keys and missing files are errors."""
    with pytest.raises(InvalidConfiguration, match="prot"):
        settings_of(tmp_path, "prot = 1\n")
    with pytest.raises(FileProblem):
        read_settings({}, {}, str(tmp_path / "none.toml"))


def test_lists(tmp_path: Path) -> None:
    """A file may have a list, or a string as in variables."""
    text = 'allowed-host = ["a.example", "b.example"]\ntrusted-proxy = "::1 10.0.0.0/8"\n'
    settings = settings_of(tmp_path, text)
    assert settings.allowed_hosts == ("a.example", "b.example")
    assert settings.trusted_proxies == ("::1/128", "10.0.0.0/8")
    for wrong in ('port = ["1"]', "allowed-host = { a = 1 }", 'allowed-host = ["a/b"]'):
        with pytest.raises(InvalidConfiguration, match=r"must be|is not a host"):
            settings_of(tmp_path, wrong)


def test_private_patterns(tmp_path: Path) -> None:
    """Patterns come from a flag, a variable or a list; invalid patterns are errors."""
    text = 'private = ["acme-*", "spam"]\n'
    assert read_settings({}, {}).rules.private == ()
    assert settings_of(tmp_path, text).rules.private == ("acme-*", "spam")
    assert settings_of(tmp_path, text, private="x y-*").rules.private == ("x", "y-*")
    assert settings_of(tmp_path, text, read="tokens").rules.private == ("*",)
    for wrong in ("acme/*", "[a]"):
        with pytest.raises(InvalidConfiguration):
            read_settings({"private": wrong}, {})


def test_project_rules(tmp_path: Path) -> None:
    """Each table applies to some projects; errors name the key."""
    settings = settings_of(
        tmp_path,
        '[[project]]\nnames = ["acme-*"]\nmax-size = "1GiB"\nkeep-releases = 3\n'
        'dev-release-retention = "30d"\n[[project]]\nnames = ["*"]\nmax-file-size = 100\n',
    )
    assert settings.rules.projects == (
        ProjectRules(
            ("acme-*",), max_size=1 << 30, keep_releases=3, dev_release_retention=timedelta(days=30)
        ),
        ProjectRules(("*",), max_file_size=100),
    )
    for wrong in ("keep-releases = 0", "max-files = -1", 'max-size = "much"', "max-files = 1.5",
                  "max-files = true", 'prerelease-retention = "9999999w"', "keep = 1"):  # fmt: skip
        with pytest.raises(InvalidConfiguration, match=wrong.partition(" ")[0]):
            settings_of(tmp_path, f'[[project]]\nnames = ["acme-*"]\n{wrong}\n')
    for wrong in ('names = ["a/b"]', "names = []", "keep-releases = 1"):
        with pytest.raises(InvalidConfiguration, match="name"):
            settings_of(tmp_path, f"[[project]]\n{wrong}\n")


def test_values_of_the_wrong_type(tmp_path: Path) -> None:
    """A known table of the wrong type is not reported as unknown, nor is any table left out."""
    file = tmp_path / "server.toml"
    for content in ('owners = "x"', '[owners]\nx = ["own", "a"]', 'webhook = "x"'):
        file.write_text(content)
        with pytest.raises(InvalidConfiguration, match="must be a"):
            read_settings({}, {}, str(file))
    for content in ('x = ["own", "a"]', 'x = "nowhere"', 'x = ""'):
        file.write_text(f"[owners]\n{content}")
        with pytest.raises(
            InvalidConfiguration, match=r"owners\.x must be a source, not"
        ) as caught:
            read_settings({}, {}, str(file))
        assert (caught.value.where, caught.value.hint) == (str(file), "name one source: own")
    file.write_text("webhooks = []")
    with pytest.raises(InvalidConfiguration) as caught:
        read_settings({}, {}, str(file))
    assert "webhook" in str(caught.value.hint)


def test_long_number() -> None:
    """All digits of a number are compared with its limits."""
    with pytest.raises(InvalidConfiguration, match="is not a number from 0 to 65535"):
        read_settings({"port": "0" * 20 + "999999"}, {})
