"""Several configured sources on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import Runner
from msgspec.structs import replace
from sampled_cases import sampled

from wheelfit.server.folder import FolderIndex
from wheelfit.sources.page import File
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document


class SourceSetup:
    """Two indexes, a folder of wheels, and installations from them."""

    def __init__(
        self, run: Runner, folder: Path, first: RecordingIndex, later: RecordingIndex
    ) -> None:
        self._run = run
        self.folder = folder
        self.first = first
        self.later = later

    def versions(self, *words: str | Path, code: int = 0) -> dict[str, str]:
        """Return the versions that an installation would select."""
        result = self._run(*self._words(words), "--json", code=code)
        return {one["name"]: one["version"] for one in result.object["install"]}

    def chosen(self, *words: str | Path) -> str:
        """Return the URL of the single file that an installation would select."""
        (one,) = self._run(*self._words(words), "--json").object["install"]
        return str(one["url"])

    def messages(self, *words: str | Path, code: int = 0) -> str:
        """Return the messages of an installation."""
        return self._run(*self._words(words), code=code).err

    def _words(self, words: tuple[str | Path, ...]) -> list[str | Path]:
        both = ["-i", self.first.url, "--extra-index-url", self.later.url]
        where = self.folder / "target"
        return ["install", "--dry-run", "--no-cache-dir", "--target", where, *both, *words]


@pytest.fixture
def sources(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SourceSetup]:
    """Serve ``plain`` 1 and 2 on the first index, and 3 on the later one."""
    monkeypatch.chdir(tmp_path)
    for folder, versions in (("first", "12"), ("later", "3"), ("links", "")):
        (tmp_path / folder).mkdir()
        for version in versions:
            build_wheel(tmp_path / folder, "plain", version)
    build_wheel(tmp_path / "first", "private", "1")
    build_wheel(tmp_path / "later", "private", "9")
    with (
        RecordingIndex(tmp_path / "first") as first,
        RecordingIndex(tmp_path / "later") as later,
    ):
        yield SourceSetup(run, tmp_path, first, later)


def test_folder_and_index(sources: SourceSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-126: A folder competes with the index; for equal versions its file is used."""
    build_wheel(sources.folder / "links", "plain", "0.5")
    monkeypatch.setenv("PIP_FIND_LINKS", str(sources.folder / "links"))
    assert sources.versions("plain") == {"plain": "2"}
    assert sources.versions("plain<1") == {"plain": "0.5"}
    build_wheel(sources.folder / "links", "plain", "2")
    sources.first.clear_requests()
    assert "is the local file, not that of" not in sources.messages("plain")
    assert "plain 2 is the local file, not that of" in sources.messages("plain", "-v")


def test_index_strategies(sources: SourceSetup) -> None:
    """The index strategies have uv's names."""
    assert sources.versions("plain") == {"plain": "2"}
    for strategy, taken in (
        ("first-index", "2"),
        ("unsafe-first-match", "2"),
        ("unsafe-best-match", "3"),
    ):
        assert sources.versions("plain", "--index-strategy", strategy) == {"plain": taken}
    unsafe = ["--index-strategy", "unsafe-first-match"]
    assert sources.versions("plain>2", *unsafe) == {"plain": "3"}


def test_warning_about_a_later_index(sources: SourceSetup) -> None:
    """One warning names the release on a later index, and the settings."""
    said = sources.messages("plain")
    assert said.count("an index that was not used") == 1
    assert f"plain 3 ({sources.later.url}" in said
    assert "--index-strategy" in said
    assert "[sources]" in said
    assert "was not used" not in sources.messages("plain", "--index-strategy", "unsafe-best-match")


@pytest.mark.parametrize(
    "command",
    [
        ["install", "--dry-run", "--target", "target"],
        ["explain"],
        ["download", "--dry-run"],
        ["lock"],
    ],
)
def test_no_match_on_the_first_index(sources: SourceSetup, run: Runner, command: list[str]) -> None:
    """The error names the release on an index that was not used."""
    both = ["-i", sources.first.url, "--extra-index-url", sources.later.url]
    stderr = run(*command, *both, "plain>=3", code=3).err
    assert f"an index that was not used has plain 3 ({sources.later.url}" in stderr


def test_warning_of_other_commands(sources: SourceSetup, run: Runner) -> None:
    """``lock`` and ``explain`` have the warning once, and not for an unchanged lock."""
    both = ["-i", sources.first.url, "--extra-index-url", sources.later.url, "plain", "private"]
    for words in (
        ["lock", "--platform", "linux-x86_64", "--platform", "windows-x86_64"],
        ["explain"],
        ["explain", "--with-deps"],
    ):
        stderr = run(*words, *both).err
        assert stderr.count("an index that was not used") == 1, words
        assert f"plain 3 ({sources.later.url}" in stderr
    again = run("lock", "--platform", "linux-x86_64", "--platform", "windows-x86_64", *both).err
    assert "an index that was not used" not in again


def test_local_wheel_and_variants(sources: SourceSetup) -> None:
    """F-126: A local wheel replaces those with its label; other variants compete."""
    provider = {"requires": ["nvidia-variant-provider"], "plugin-api": "nvidia_variant_provider"}
    cuda = {"nvidia": {"sm_arch": ["90_real"]}}
    document = release_document({"cu128": cuda, "null": {}}, providers={"nvidia": provider})
    build_release(sources.folder / "first", "fast", "1", document, (None, "null"))
    build_wheel(sources.folder / "links", "fast", "1")
    links: list[str | Path] = ["-f", sources.folder / "links"]
    assert "fast-1-py3-none-any-null.whl" in sources.chosen("fast", *links)
    assert sources.chosen("fast", *links, "--no-variants").startswith("file:")


@pytest.mark.parametrize("strategy", ["first-index", "unsafe-best-match"])
def test_dependency_confusion(sources: SourceSetup, user_settings: Path, strategy: str) -> None:
    """A pinned name is not taken from another index, whatever the version there."""
    user_settings.write_text(
        f'[[index]]\nname = "own"\nurl = "{sources.first.url}"\nexplicit = true\n\n'
        '[sources]\nPrivate = { index = "own" }\nabsent = { index = "own" }\n'
    )
    build_wheel(sources.folder / "later", "absent", "1")
    turned = ["-i", sources.later.url, "--index-strategy", strategy]
    assert sources.versions("private", *turned) == {"private": "1"}
    assert not sources.later.requests_for("/simple/private/")
    error = sources.messages("absent", *turned, code=3)
    assert "absent" in error
    assert not sources.later.requests_for("/simple/absent/")


def test_pin_to_an_unknown_index(sources: SourceSetup, user_settings: Path) -> None:
    """A pin to an unknown index is an error, and no index is contacted."""
    user_settings.write_text('[sources]\nprivate = { index = "own" }\n')
    assert "not configured" in sources.messages("private", code=1)


@pytest.mark.parametrize("tool", ["wheelfit", "uv"])
def test_indexes_of_a_project(sources: SourceSetup, run: Runner, tool: str) -> None:
    """A project has its own indexes and pins, also in uv's tables."""
    above = f"tool.{tool}"
    (sources.folder / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\ndependencies = ["private", "plain"]\n'
        f'[[{above}.index]]\nname = "own"\nurl = "{sources.later.url}"\nexplicit = true\n'
        f'[{above}.sources]\nprivate = {{ index = "own" }}\n'
    )
    run("lock", "-i", sources.first.url, "--no-cache-dir", "--platform", "linux-x86_64")
    lock = (sources.folder / "pylock.toml").read_text()
    assert "private-9" in lock
    assert "plain-2" in lock


@pytest.mark.parametrize("header", ["[tool]\nuv.", '[tool."uv"]\n', "[tool . uv]\n"])
def test_spelling_of_uv_tables(sources: SourceSetup, run: Runner, header: str) -> None:
    """The indexes and pins of uv's table are used in every form that TOML allows."""
    key = "uv." if header.endswith("uv.") else ""
    (sources.folder / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\ndependencies = ["private"]\n'
        f'{header}sources = {{ private = {{ index = "own" }} }}\n'
        f'{key}index = [{{ name = "own", url = "{sources.later.url}", explicit = true }}]\n'
    )
    run("lock", "-i", sources.first.url, "--no-cache-dir", "--platform", "linux-x86_64")
    assert "private-9" in (sources.folder / "pylock.toml").read_text()


@pytest.mark.parametrize("tool", ["wheelfit", "uv"])
def test_pins_of_the_current_project(
    sources: SourceSetup, run: Runner, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pins of the current project apply to requirements and dependencies."""
    monkeypatch.setenv("PIP_INDEX_URL", sources.first.url)
    (sources.folder / "pyproject.toml").write_text(
        f'[tool.{tool}.sources]\nprivate = {{ index = "own" }}\n'
    )
    build_wheel(sources.folder / "first", "app", "1", requires=["private"])
    where = ["--target", sources.folder / "target"]
    for words in (["install", *where], ["download"], ["explain"]):
        for name in ("private", "app") if words != ["explain"] else ("private",):
            error = run(*words, name, "--json", code=1).error
            assert error["code"] == "pinned-elsewhere"
            assert error["message"].startswith("private is pinned to the index 'own'")
    assert not (sources.folder / "target").exists()
    assert sources.versions("private") == {"private": "1"}  # who names an index means it


def test_config_show(run: Runner, user_settings: Path) -> None:
    """``config show`` lists indexes and pins without passwords, with their origins."""
    user_settings.write_text(
        '[[index]]\nname = "own"\nurl = "https://me:secret@own.example/simple"\n'
        '[sources]\ntorch = { index = "own" }\n'
    )
    shown = run("config", "show", "install", "--json")
    assert "secret" not in shown.out
    assert {
        "kind": "index",
        "url": "https://****@own.example/simple",
        "origin": f"{user_settings}:1",
        "name": "own",
        "explicit": False,
        "pins": ["torch"],
    } in shown.object["sources"]
    found = shown.object["settings"]
    assert found["index"]["value"][0]["name"] == "own"
    assert found["sources"]["value"] == {"torch": {"index": "own"}}
    assert found["sources"]["origin"][0]["where"].startswith(str(user_settings))


@pytest.mark.parametrize("words", sampled(["config show", "doctor"], fast={0}))
def test_origins_of_sources(
    run: Runner, tmp_path: Path, user_settings: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Sources are listed by precedence, with their origins."""
    (tmp_path / "pip.conf").write_text(
        "[global]\nextra-index-url = https://me:secret@more.example/simple\n"
        "[install]\nfind-links = /wheels\n"
    )
    user_settings.write_text(
        '[[index]]\nname = "own"\nurl = "https://own.example/simple"\n'
        '[[index]]\nname = "apart"\nurl = "https://apart.example/simple"\nexplicit = true\n'
        '[sources]\ntorch = { index = "apart" }\n'
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://main.example/simple")
    result = run(*words.split(), "--json")
    assert "secret" not in result.out
    home = str(Path.home())
    found = [
        (source["url"], source["origin"].replace("~", home), source["pins"])
        for source in result.object["sources"]
    ]
    folder = str(tmp_path)
    assert found == [
        ("/wheels", f"{folder}/pip.conf [install]", []),
        ("https://own.example/simple", f"{folder}/wheelfit.toml:1", []),
        ("https://main.example/simple", "PIP_INDEX_URL", []),
        ("https://****@more.example/simple", f"{folder}/pip.conf [global]", []),
        ("https://apart.example/simple", f"{folder}/wheelfit.toml:4", ["torch"]),
    ]
    text = run(*words.split()).out
    assert "index https://main.example/simple: PIP_INDEX_URL" in text
    assert "(apart), the only source of torch, explicit" in text


@pytest.mark.parametrize("above", ["", "tool.uv."])
def test_pins_with_markers(sources: SourceSetup, run: Runner, above: str) -> None:
    """Pins with markers apply where the marker matches."""
    for system, folder in (("linux", "first"), ("win32", "later")):
        build_wheel(sources.folder / folder, "split", "1" if system == "linux" else "2")
    (sources.folder / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\ndependencies = ["split"]\n'
        f'[[{above or "tool.wheelfit."}index]]\nname = "win"\nurl = "{sources.later.url}"\n'
        f"explicit = true\n[{above or 'tool.wheelfit.'}sources]\n"
        'split = [{ index = "win", marker = "sys_platform == \'win32\'" }]\n'
    )
    machines = ["--platform", "linux-x86_64", "--platform", "windows-x86_64"]
    run("lock", "-i", sources.first.url, "--no-cache-dir", *machines)
    lock = (sources.folder / "pylock.toml").read_text()
    assert f"{sources.later.url.removesuffix('/simple')}" in lock
    assert "split-1-" in lock
    assert "split-2-" in lock
    run("lock", "-i", sources.first.url, "--no-cache-dir", *machines[:2])
    assert "split-2-" not in (sources.folder / "pylock.toml").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[index]]\nname = "a"\nurl = "x"\n' * 2, "has the name of another index: a"),
        (
            '[[index]]\nname = "pytorch"\nurl = "x"\n[sources]\nplain = { index = "pytorhc" }\n',
            "did you mean 'pytorch'?",
        ),
        ('[sources]\nplain = [{ index = "a", marker = "os_nam == 1" }]\n', "invalid marker"),
        ('[sources]\nplain = "a"\n', "must be a table with the name of an index"),
        ('uploaded-prior-to = "yesterdayish"\n', "neither a date"),
        ('uploaded-prior-to = "2999-01-01"\n', "in the future"),
    ],
)
def test_invalid_settings(
    sources: SourceSetup, user_settings: Path, text: str, message: str
) -> None:
    """An invalid settings file is an error that names it."""
    user_settings.write_text(text)
    code = 2 if "uploaded" in text else 1
    assert message in sources.messages("plain", code=code)


class TestUploadTimes:
    """Limits for upload times."""

    @pytest.fixture
    def dated(self, run: Runner, sources: SourceSetup) -> Iterator[SourceSetup]:
        """Serve ``plain`` 1 of January and 2 of March."""
        times = {"1": "2026-01-15T12:00:00Z", "2": "2026-03-15T12:00:00Z"}

        def dated(file: File) -> File:
            return replace(file, upload_time=times.get(file.filename.split("-")[1]))

        with RecordingIndex(FolderIndex(sources.folder / "first", edit_entry=dated)) as index:
            yield SourceSetup(run, sources.folder, index, index)

    @pytest.mark.parametrize(
        ("words", "version"),
        [
            (["--uploaded-prior-to", "2026-02-01"], "1"),
            (["--exclude-newer", "2026-03-15T12:00:00Z"], "1"),
            (["--exclude-newer", "2026-03-15T12:00:01Z"], "2"),
            (["--exclude-newer", "2026-02-01", "--exclude-newer-package", "plain=false"], "2"),
            (["--exclude-newer-package", "Plain=2026-02-01"], "1"),
        ],
    )
    def test_limit(self, dated: SourceSetup, words: list[str], version: str) -> None:
        """Files of the exact time are too late; a package may have its own limit."""
        assert dated.versions("plain", *words) == {"plain": version}

    def test_lock_and_pip_settings(
        self, dated: SourceSetup, run: Runner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The limit applies to locks, and may come from pip's configuration."""
        where = ["-i", dated.first.url, "--no-cache-dir", "--platform", "linux-x86_64"]
        run("lock", "plain", *where, "--exclude-newer", "2026-02-01")
        assert "plain-1-" in (dated.folder / "pylock.toml").read_text()
        monkeypatch.setenv("PIP_UPLOADED_PRIOR_TO", "2026-02-01")
        assert dated.versions("plain") == {"plain": "1"}

    def test_index_without_upload_times(self, sources: SourceSetup) -> None:
        """An index without upload times is refused."""
        said = sources.messages("plain", "--exclude-newer", "P7D", code=3)
        assert "lists no upload times" in said
        assert "--uploaded-prior-to-package plain=false" in said

    @pytest.mark.parametrize("text", ["soon", "yesterdayish", "2026-13-01"])
    def test_invalid_time(self, sources: SourceSetup, text: str) -> None:
        """The error about an invalid time shows an example."""
        said = sources.messages("plain", "--exclude-newer", text, code=2)
        assert "2026-01-31" in said

    def test_future_time(self, sources: SourceSetup) -> None:
        """A time in the future is an error."""
        assert "in the future" in sources.messages("plain", "--exclude-newer", "2999-01-01", code=2)

    def test_sync(self, dated: SourceSetup, run: Runner) -> None:
        """A locked file that is too new is refused, unless it is excepted."""
        where = ["-i", dated.first.url, "--no-cache-dir"]
        run("lock", "plain", *where, "--platform", "linux-x86_64")
        target: list[str | Path] = ["--target", dated.folder / "target"]
        sync: list[str | Path] = ["sync", *target, *where, "--exclude-newer"]
        refused = run(*sync, "2026-02-01", "--dry-run", code=7).err
        assert "plain-2-py3-none-any.whl: 2026-03-15T12:00:00" in refused
        assert "--uploaded-prior-to-package plain=false" in refused
        run(*sync, "2026-02-01", code=7)
        assert not (dated.folder / "target" / "plain").exists()
        run(*sync, "2026-02-01", "--exclude-newer-package", "plain=false")
        run(*sync, "2026-02-01")  # what is there stays
        run(*sync, "2026-04-01")

    def test_sync_without_upload_times(self, sources: SourceSetup, run: Runner) -> None:
        """A lock without upload times is refused."""
        where = ["-i", sources.first.url, "--no-cache-dir"]
        run("lock", "plain", *where, "--platform", "linux-x86_64")
        refused = run(
            "sync", "--target", sources.folder / "target", *where, "--exclude-newer", "P1D", code=7
        ).err
        assert "py3-none-any.whl: no upload time" in refused

    @pytest.mark.parametrize("words", [("--full",), ()])
    def test_run(self, dated: SourceSetup, run: Runner, words: tuple[str, ...]) -> None:
        """The proxy of `run` lists nothing newer, and pip and uv get the limit."""
        script = (
            "import json, os, urllib.request as u\n"
            "base = os.environ['PIP_EXTRA_INDEX_URL'].split()[-1]\n"
            "full = base.replace('/pip/', '/pip/full/')\n"
            "ask = u.Request(full + 'plain/')\n"
            "ask.add_header('Accept', 'application/vnd.pypi.simple.v1+json')\n"
            "names = [one['filename'] for one in json.load(u.urlopen(ask))['files']]\n"
            "seen = {'names': names, 'uv': os.environ.get('UV_EXCLUDE_NEWER')}\n"
            "open('seen.json', 'w').write(json.dumps(seen))\n"
        )
        command = ["--exclude-newer", "2026-02-01", *words, "--", sys.executable, "-c", script]
        run("run", "-i", dated.first.url, "--no-cache-dir", *command)
        seen = json.loads((dated.folder / "seen.json").read_text())
        assert seen["names"] == ["plain-1-py3-none-any.whl"]
        assert (seen["uv"] is None) == bool(words)
