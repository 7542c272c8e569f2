"""Where packages come from when several places are configured, on the command line."""

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
from wheelfit.testing.wheels import build_wheel, release_document


class Places:
    """Two indexes, a folder of wheels, and what installs from them."""

    def __init__(
        self, run: Runner, folder: Path, first: RecordingIndex, later: RecordingIndex
    ) -> None:
        self._run = run
        self.folder = folder
        self.first = first
        self.later = later

    def versions(self, *words: str | Path, code: int = 0) -> dict[str, str]:
        """Return what an installation would take."""
        result = self._run(*self._words(words), "--json", code=code)
        return {one["name"]: one["version"] for one in result.object["install"]}

    def chosen(self, *words: str | Path) -> str:
        """Return the URL of the one file that an installation would take."""
        (one,) = self._run(*self._words(words), "--json").object["install"]
        return str(one["url"])

    def messages(self, *words: str | Path, code: int = 0) -> str:
        """Return what an installation tells."""
        return self._run(*self._words(words), code=code).err

    def _words(self, words: tuple[str | Path, ...]) -> list[str | Path]:
        both = ["-i", self.first.url, "--extra-index-url", self.later.url]
        where = self.folder / "target"
        return ["install", "--dry-run", "--no-cache-dir", "--target", where, *both, *words]


@pytest.fixture
def places(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    """Serve ``plain`` 1 and 2 first, and 3 on the later index."""
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
        yield Places(run, tmp_path, first, later)


def test_a_folder_hides_no_index(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-126: what a folder and the index have competes; of one version the folder's is taken."""
    build_wheel(places.folder / "links", "plain", "0.5")
    monkeypatch.setenv("PIP_FIND_LINKS", str(places.folder / "links"))
    assert places.versions("plain") == {"plain": "2"}
    assert places.versions("plain<1") == {"plain": "0.5"}
    build_wheel(places.folder / "links", "plain", "2")
    places.first.forget()
    assert "is the local file, not that of" not in places.messages("plain")
    assert "plain 2 is the local file, not that of" in places.messages("plain", "-v")


def test_strategies(places: Places) -> None:
    """The strategies of uv, under its names."""
    assert places.versions("plain") == {"plain": "2"}
    for strategy, taken in (
        ("first-index", "2"),
        ("unsafe-first-match", "2"),
        ("unsafe-best-match", "3"),
    ):
        assert places.versions("plain", "--index-strategy", strategy) == {"plain": taken}
    unsafe = ["--index-strategy", "unsafe-first-match"]
    assert places.versions("plain>2", *unsafe) == {"plain": "3"}
    assert places.versions("plain", "--compare-sources") == {"plain": "3"}


def test_what_was_not_looked_at_is_told(places: Places) -> None:
    """One warning names what a later index has, and the settings that change that."""
    said = places.messages("plain")
    assert said.count("an index that was not used") == 1
    assert f"plain 3 ({places.later.url}" in said
    assert "--index-strategy" in said
    assert "[sources]" in said
    assert "not asked" not in places.messages("plain", "--index-strategy", "unsafe-best-match")


@pytest.mark.parametrize(
    "command",
    [
        ["install", "--dry-run", "--target", "target"],
        ["explain"],
        ["download", "--dry-run"],
        ["lock"],
    ],
)
def test_a_later_index_is_told_where_nothing_fits(
    places: Places, run: Runner, command: list[str]
) -> None:
    """A request that only a later index could meet says that it was not asked."""
    both = ["-i", places.first.url, "--extra-index-url", places.later.url]
    stderr = run(*command, *both, "plain>=3", code=3).err
    assert f"an index that was not used has plain 3 ({places.later.url}" in stderr


def test_other_commands_tell_it_too(places: Places, run: Runner) -> None:
    """``lock`` and ``explain`` give the same warning, once, and not of an unchanged lock."""
    both = ["-i", places.first.url, "--extra-index-url", places.later.url, "plain", "private"]
    for words in (
        ["lock", "--platform", "linux-x86_64", "--platform", "windows-x86_64"],
        ["explain"],
        ["explain", "--with-deps"],
    ):
        stderr = run(*words, *both).err
        assert stderr.count("an index that was not used") == 1, words
        assert f"plain 3 ({places.later.url}" in stderr
    again = run("lock", "--platform", "linux-x86_64", "--platform", "windows-x86_64", *both).err
    assert "an index that was not used" not in again


def test_a_local_wheel_beside_variants(places: Places) -> None:
    """F-126: a local wheel stands for those of its label; other variants of indexes compete."""
    provider = {"requires": ["nvidia-variant-provider"], "plugin-api": "nvidia_variant_provider"}
    cuda = {"nvidia": {"sm_arch": ["90_real"]}}
    document = release_document({"cu128": cuda, "null": {}}, providers={"nvidia": provider})
    for label in (None, "null"):
        build_wheel(places.folder / "first", "fast", "1", label=label, document=document)
    (places.folder / "first" / "fast-1-variants.json").write_text(json.dumps(document))
    build_wheel(places.folder / "links", "fast", "1")
    links: list[str | Path] = ["-f", places.folder / "links"]
    assert "fast-1-py3-none-any-null.whl" in places.chosen("fast", *links)
    assert places.chosen("fast", *links, "--no-variants").startswith("file:")


@pytest.mark.parametrize("strategy", ["first-index", "unsafe-best-match"])
def test_dependency_confusion(
    places: Places, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """A pinned name is never taken from another index, however high the version there."""
    settings = places.folder / "wheelfit.toml"
    settings.write_text(
        f'[[index]]\nname = "own"\nurl = "{places.first.url}"\nexplicit = true\n\n'
        '[sources]\nPrivate = { index = "own" }\nabsent = { index = "own" }\n'
    )
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(settings))
    build_wheel(places.folder / "later", "absent", "1")
    turned = ["-i", places.later.url, "--index-strategy", strategy]
    assert places.versions("private", *turned) == {"private": "1"}
    assert not places.later.requests_for("/simple/private/")
    error = places.messages("absent", *turned, code=3)
    assert "absent" in error
    assert not places.later.requests_for("/simple/absent/")


def test_a_pin_to_nothing(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that no setting names is an error, and nothing is asked instead."""
    settings = places.folder / "wheelfit.toml"
    settings.write_text('[sources]\nprivate = { index = "own" }\n')
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(settings))
    assert "not configured" in places.messages("private", code=1)


@pytest.mark.parametrize("tool", ["wheelfit", "uv"])
def test_indexes_of_a_project(places: Places, run: Runner, tool: str) -> None:
    """A project names indexes and pins for itself, in the tables of uv too."""
    above = f"tool.{tool}"
    (places.folder / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\ndependencies = ["private", "plain"]\n'
        f'[[{above}.index]]\nname = "own"\nurl = "{places.later.url}"\nexplicit = true\n'
        f'[{above}.sources]\nprivate = {{ index = "own" }}\n'
    )
    run("lock", "-i", places.first.url, "--no-cache-dir", "--platform", "linux-x86_64")
    lock = (places.folder / "pylock.toml").read_text()
    assert "private-9" in lock
    assert "plain-2" in lock


@pytest.mark.parametrize("tool", ["wheelfit", "uv"])
def test_pins_of_the_folder(
    places: Places, run: Runner, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the project of this folder pins is not taken from another index, asked for or needed."""
    monkeypatch.setenv("PIP_INDEX_URL", places.first.url)
    (places.folder / "pyproject.toml").write_text(
        f'[tool.{tool}.sources]\nprivate = {{ index = "own" }}\n'
    )
    build_wheel(places.folder / "first", "app", "1", requires=["private"])
    where = ["--target", places.folder / "target"]
    for words in (["install", *where], ["download"], ["explain"]):
        for name in ("private", "app") if words != ["explain"] else ("private",):
            error = run(*words, name, "--json", code=1).error
            assert error["code"] == "pinned-elsewhere"
            assert error["message"].startswith("private is pinned to the index 'own'")
    assert not (places.folder / "target").exists()
    assert places.versions("private") == {"private": "1"}  # who names an index means it


def test_config_shows_them(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``config show`` shows indexes and pins, without passwords, and who set them."""
    settings = tmp_path / "wheelfit.toml"
    settings.write_text(
        '[[index]]\nname = "own"\nurl = "https://me:secret@own.example/simple"\n'
        '[sources]\ntorch = { index = "own" }\n'
    )
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(settings))
    shown = run("config", "show", "install", "--json")
    assert "secret" not in shown.out
    assert {
        "kind": "index",
        "url": "https://****@own.example/simple",
        "origin": f"{settings}:1",
        "name": "own",
        "explicit": False,
        "pins": ["torch"],
    } in shown.object["sources"]
    found = shown.object["settings"]
    assert found["index"]["value"][0]["name"] == "own"
    assert found["sources"]["value"] == {"torch": {"index": "own"}}
    assert found["sources"]["origin"][0]["where"].startswith(str(settings))


@pytest.mark.parametrize("words", sampled(["config show", "doctor"], fast={0}))
def test_who_set_each_source(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Sources are listed in the order in which they are asked, each with who configured it."""
    (tmp_path / "pip.conf").write_text(
        "[global]\nextra-index-url = https://me:secret@more.example/simple\n"
        "[install]\nfind-links = /wheels\n"
    )
    (tmp_path / "wheelfit.toml").write_text(
        '[[index]]\nname = "own"\nurl = "https://own.example/simple"\n'
        '[[index]]\nname = "apart"\nurl = "https://apart.example/simple"\nexplicit = true\n'
        '[sources]\ntorch = { index = "apart" }\n'
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://main.example/simple")
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(tmp_path / "wheelfit.toml"))
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
def test_pins_with_markers(places: Places, run: Runner, above: str) -> None:
    """Each machine gets the files of the index whose marker holds there, others the usual ones."""
    for system, folder in (("linux", "first"), ("win32", "later")):
        build_wheel(places.folder / folder, "split", "1" if system == "linux" else "2")
    (places.folder / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\ndependencies = ["split"]\n'
        f'[[{above or "tool.wheelfit."}index]]\nname = "win"\nurl = "{places.later.url}"\n'
        f"explicit = true\n[{above or 'tool.wheelfit.'}sources]\n"
        'split = [{ index = "win", marker = "sys_platform == \'win32\'" }]\n'
    )
    machines = ["--platform", "linux-x86_64", "--platform", "windows-x86_64"]
    run("lock", "-i", places.first.url, "--no-cache-dir", *machines)
    lock = (places.folder / "pylock.toml").read_text()
    assert f"{places.later.url.removesuffix('/simple')}" in lock
    assert "split-1-" in lock
    assert "split-2-" in lock
    run("lock", "-i", places.first.url, "--no-cache-dir", *machines[:2])
    assert "split-2-" not in (places.folder / "pylock.toml").read_text()


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
def test_bad_settings(
    places: Places, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    """What a settings file cannot mean is an error that names it."""
    settings = places.folder / "wheelfit.toml"
    settings.write_text(text)
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(settings))
    code = 2 if "uploaded" in text else 1
    assert message in places.messages("plain", code=code)


class TestTimesOfUpload:
    """What was uploaded since a moment is left out."""

    @pytest.fixture
    def dated(self, run: Runner, places: Places) -> Iterator[Places]:
        """Serve ``plain`` 1 of January and 2 of March."""
        times = {"1": "2026-01-15T12:00:00Z", "2": "2026-03-15T12:00:00Z"}

        def dated(file: File) -> File:
            return replace(file, upload_time=times.get(file.filename.split("-")[1]))

        with RecordingIndex(FolderIndex(places.folder / "first", revise=dated)) as index:
            yield Places(run, places.folder, index, index)

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
    def test_moments(self, dated: Places, words: list[str], version: str) -> None:
        """The moment itself is too late; a package may have another."""
        assert dated.versions("plain", *words) == {"plain": version}

    def test_lock_and_pip(
        self, dated: Places, run: Runner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A lock takes nothing newer either, nor does who is told so by pip's configuration."""
        where = ["-i", dated.first.url, "--no-cache-dir", "--platform", "linux-x86_64"]
        run("lock", "plain", *where, "--exclude-newer", "2026-02-01")
        assert "plain-1-" in (dated.folder / "pylock.toml").read_text()
        monkeypatch.setenv("PIP_UPLOADED_PRIOR_TO", "2026-02-01")
        assert dated.versions("plain") == {"plain": "1"}

    def test_no_times(self, places: Places) -> None:
        """An index without times of upload is named, and what it has is not taken unseen."""
        said = places.messages("plain", "--exclude-newer", "P7D", code=3)
        assert "lists no upload times" in said
        assert "--uploaded-prior-to-package plain=false" in said

    @pytest.mark.parametrize("text", ["soon", "yesterdayish", "2026-13-01"])
    def test_no_time(self, places: Places, text: str) -> None:
        """What is not a time is an error that shows how to write one."""
        said = places.messages("plain", "--exclude-newer", text, code=2)
        assert "2026-01-31" in said

    def test_a_time_to_come(self, places: Places) -> None:
        """A time in the future, which excludes nothing, is an error."""
        assert "in the future" in places.messages("plain", "--exclude-newer", "2999-01-01", code=2)

    def test_sync(self, dated: Places, run: Runner) -> None:
        """What is too new in a lock is not installed, and its time is told; exceptions hold."""
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

    def test_sync_of_unknown_times(self, places: Places, run: Runner) -> None:
        """A lock that does not tell when something was uploaded is refused, and says so."""
        where = ["-i", places.first.url, "--no-cache-dir"]
        run("lock", "plain", *where, "--platform", "linux-x86_64")
        refused = run(
            "sync", "--target", places.folder / "target", *where, "--exclude-newer", "P1D", code=7
        ).err
        assert "py3-none-any.whl: no upload time" in refused

    @pytest.mark.parametrize("words", [("--full",), ()])
    def test_run(self, dated: Places, run: Runner, words: tuple[str, ...]) -> None:
        """The proxy of a command lists nothing newer, and beside it pip and uv are told."""
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
