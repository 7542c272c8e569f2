"""Settings of mirrors, and their errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from wheelfit.core.project_patterns import check_patterns
from wheelfit.core.table_reader import FirstFault, Table
from wheelfit.server.upstream.merged import OwnerRules
from wheelfit.server.upstream.settings import (
    MirrorSettings,
    check_names,
    mirror_of_table,
    mirror_of_text,
)
from wheelfit_runtime.errors import InvalidConfiguration

read_settings = pytest.importorskip(
    "wheelfit.server.hosting.settings", reason="needs the extra `server`"
).read_settings

URL = "https://index.example/simple/"


@pytest.mark.parametrize(
    ("text", "url", "name", "label"),
    [
        (URL, URL, "", "index.example"),
        (f"pypi={URL}", URL, "pypi", "pypi"),
        ("https://index.example/a=b/", "https://index.example/a=b/", "", "index.example"),
        ("https://me:a=b@index.example/", "https://me:a=b@index.example/", "", "index.example"),
    ],
)
def test_option(text: str, url: str, name: str, label: str) -> None:
    """A URL, with an optional name before it."""
    settings = mirror_of_text(text)
    assert (settings.url, settings.name, settings.label) == (url, name, label)


@pytest.mark.parametrize(
    ("text", "url"),
    [("pytorch", ""), (f"pytorch@{URL}", URL), ("pytorch@https://me:a@b.example/", "")],
)
def test_family(text: str, url: str) -> None:
    """The indexes of a family, at its own URLs or at others."""
    settings = mirror_of_text(text)
    assert (settings.bridge, settings.label) == ("pytorch", "pytorch")
    assert settings.url == (url or text.partition("@")[2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"bridge": "pytroch"}, "or a bridge with indexes"),
        ({"bridge": "cupy"}, "has no indexes that could be mirrored"),
        ({"bridge": "pytorch", "url": "ftp://index.example/"}, "is not an http or https URL"),
        ({"url": URL, "folders": ["cpu"]}, "only the mirror of a bridge"),
        ({"bridge": ["pytorch"]}, "string"),
    ],
)
def test_invalid_family(content: dict[str, Any], message: str) -> None:
    """It is refused before anything is opened."""
    with pytest.raises(InvalidConfiguration, match=message):
        mirror_of_table(mirror_table(content))


def test_unmatched_folder_patterns() -> None:
    """A wrong pattern is an error, not an empty mirror."""
    with pytest.raises(InvalidConfiguration, match=r"has no folder cuda\*"):
        mirror_of_table(mirror_table({"bridge": "pytorch", "folders": ["cuda*"]}))


@pytest.mark.parametrize(
    ("python", "platforms", "wanted"),
    [
        ((), (), "abcdef"),
        (("3.12",), (), "bcdf"),
        (("3.13t",), (), "cdef"),
        ((), ("linux_x86_64",), "acdf"),
        (("3.12",), ("linux_x86_64", "macosx_arm64"), "bcdf"),
        (("3.11",), ("win_amd64",), "df"),
    ],
)
def test_wheel_filters(python: tuple[str, ...], platforms: tuple[str, ...], wanted: str) -> None:
    """Wheels match Pythons and platforms by their tags; source distributions match all."""
    files = {
        "a": "own-1-cp311-cp311-manylinux_2_28_x86_64.manylinux2014_x86_64.whl",
        "b": "own-1-cp312-cp312-macosx_14_0_universal2.whl",
        "c": "own-1-py3-none-musllinux_1_2_x86_64.whl",
        "d": "own-1-py3-none-any.whl",
        "e": "own-1-cp313-cp313t-win_amd64.whl",
        "f": "own-1.tar.gz",
    }
    settings = MirrorSettings(URL, python=python, platforms=platforms)
    found = "".join(key for key, name in files.items() if settings.admits_file(name))
    assert found == (wanted if python != ("3.11",) else "df")
    abi3 = "own-1-cp39-abi3-manylinux_2_17_x86_64.whl"
    is_of_python = not python or not python[0].endswith("t")
    assert settings.admits_file(abi3) == (is_of_python and platforms != ("win_amd64",))


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"python": ["three"]}, "'three' is not a Python or platform of wheels"),
        ({"python": ["2.7"]}, "'2.7' is not a Python or platform of wheels"),
        ({"platforms": ["linux"]}, "'linux' is not a Python or platform of wheels"),
        (
            {"platforms": ["freebsd_x86_64"]},
            "'freebsd_x86_64' is not a Python or platform of wheels",
        ),
    ],
)
def test_unmatched_wheel_filters(table: dict[str, Any], problem: str) -> None:
    """A wrong filter is an error, not an empty mirror."""
    with pytest.raises(InvalidConfiguration, match=problem):
        mirror_of_table(mirror_table({"url": URL, **table}))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("pytroch", "unknown bridge 'pytroch'", "did you mean pytorch"),
        ("pytorch@ftp://x", "'ftp://x' is not an http or https URL", "as https://"),
        ("pytorch@", "has no URL of the indexes after the @", "pytorch alone"),
        ("xgboost", "xgboost has no indexes", "mirror the URL of that registry"),
    ],
)
def test_misspelt_options(text: str, message: str, hint: str) -> None:
    """Each error suggests a correction."""
    with pytest.raises(InvalidConfiguration, match=message) as excinfo:
        mirror_of_text(text)
    assert hint in str(excinfo.value.hint)


def test_duplicate_names() -> None:
    """Two mirrors of one name, or one with the name of the uploads, are refused."""
    for texts in (["pytorch", "pytorch"], [URL, URL], [f"own={URL}"]):
        with pytest.raises(InvalidConfiguration, match="two sources are called"):
            check_names(map(mirror_of_text, texts))
    check_names([mirror_of_text("pytorch"), mirror_of_text(URL)])


@pytest.mark.parametrize(
    "text",
    ["", "pypi", "pypi=", "file:///srv", "ftp://index.example/", f"{URL}?a=b", f"a/b={URL}",
     f"two words={URL}", f"-x={URL}", "https://"],
)  # fmt: skip
def test_invalid_urls(text: str) -> None:
    """They are refused, and the error shows no password."""
    with pytest.raises(InvalidConfiguration):
        mirror_of_text(text)
    with pytest.raises(InvalidConfiguration) as excinfo:
        mirror_of_text("https://me:secret@index.example/?x")
    assert "secret" not in str(excinfo.value) + str(excinfo.value.where)


def mirror_table(content: dict[str, Any]) -> Table:
    """Return a table of a settings file."""
    return Table(content, FirstFault(InvalidConfiguration, "server.toml"), "mirror", 0)


def test_table() -> None:
    """Keys are those of the settings, with dashes."""
    table = {
        "url": URL,
        "max-size": 5,
        "max-age": 1.5,
        "allow": ["a"],
        "list-all": True,
        "cert": "x",
    }
    assert mirror_of_table(mirror_table(table)) == MirrorSettings(
        URL, max_size=5, max_age=1.5, allow=("a",), list_all=True, cert="x"
    )


def test_units() -> None:
    """Sizes and times may have units, as in other settings."""
    table = {"url": URL, "max-size": "1GiB", "max-age": "2m", "stale-if-error": "7d"}
    assert mirror_of_table(mirror_table(table)) == MirrorSettings(
        URL, max_size=1 << 30, max_age=120, stale_if_error=7 * 86400
    )


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"url": 5},
        {"url": URL, "unknown": 1},
        {"url": URL, "list_all": True},
        {"url": URL, "max-size": "five"},
        {"url": URL, "max-age": "5 apples"},
        {"url": URL, "max-size": -5},
        {"url": URL, "max-size": True},
        {"url": URL, "max-age": False},
        {"url": URL, "redirect": 1},
        {"url": URL, "allow": "torch"},
        {"url": URL, "allow": [1]},
    ],
)
def test_invalid_tables(table: dict[str, Any]) -> None:
    """Each error names the file."""
    with pytest.raises(InvalidConfiguration) as excinfo:
        mirror_of_table(mirror_table(table))
    assert excinfo.value.where == "server.toml" or "url" in table


def test_login_in_output() -> None:
    """The representation of settings has no login."""
    assert "secret" not in repr(mirror_of_text("https://me:secret@index.example/simple/"))


def test_patterns() -> None:
    """Names are normalised on both sides; denied names override allowed ones."""
    settings = MirrorSettings(URL, allow=("NVIDIA_*", "torch"), deny=("nvidia-evil",))
    admitted = [
        name
        for name in ("torch", "torchvision", "nvidia-cublas", "nvidia-evil", "numpy")
        if settings.admits(canonicalize_name(name))
    ]
    assert admitted == ["torch", "nvidia-cublas"]


@pytest.mark.parametrize("pattern", ["acme-[", "", "a b", "acme/*"])
def test_invalid_patterns(pattern: str) -> None:
    """A pattern that can match nothing is an error."""
    with pytest.raises(InvalidConfiguration, match="matches no valid project name"):
        mirror_of_table(mirror_table({"url": URL, "deny": [pattern]}))
    with pytest.raises(InvalidConfiguration) as excinfo:
        check_patterns([pattern], where="reserved")
    assert excinfo.value.where == "reserved"


@pytest.mark.parametrize("text", ["mirror = 5", f'reserved = [5]\n[[mirror]]\nurl = "{URL}"'])
def test_invalid_files(tmp_path: Path, text: str) -> None:
    """Values of another type are errors."""
    file = tmp_path / "server.toml"
    file.write_text(text)
    with pytest.raises(InvalidConfiguration):
        read_settings({}, {}, str(file))


def test_precedence(tmp_path: Path) -> None:
    """Flags and variables replace the tables of a file."""
    file = tmp_path / "server.toml"
    file.write_text(
        'reserved = ["acme-*"]\nmirror-max-size = "1GiB"\n'
        f'[[mirror]]\nname = "a"\nurl = "{URL}"\n[[mirror]]\nurl = "{URL}b/"\nmax-size = 5\n'
        '[owners]\nSmall_One = "a"\nother = "own"\n'
    )
    settings = read_settings({}, {}, str(file))
    assert [mirror.label for mirror in settings.mirrors] == ["a", "index.example"]
    assert [mirror.max_size for mirror in settings.mirrors] == [1 << 30] * 2
    assert settings.owners == OwnerRules({"small-one": "a", "other": "own"}, ("acme-*",))
    file.write_text(file.read_text().partition("[owners]")[0])
    environ = {"WHEELFIT_SERVER_MIRROR": f"x={URL} y={URL}c/", "WHEELFIT_SERVER_RESERVED": "a b"}
    settings = read_settings({}, environ, str(file))
    assert [mirror.label for mirror in settings.mirrors] == ["x", "y"]
    assert settings.owners.reserved == ("a", "b")
    settings = read_settings({"mirror": URL}, environ, str(file))
    assert [mirror.url for mirror in settings.mirrors] == [URL]
    assert read_settings({}, {}).mirrors == ()
