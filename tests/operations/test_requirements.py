"""Requirements of a request, from words and requirements files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from wheelfit.errors import InvalidRequirement, UsageError
from wheelfit.operations.install import InstallRequest
from wheelfit.operations.requirements import RequestedRequirements, read_requirements
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import FileProblem, UserError, WheelfitError


def wanted(
    *words: str | Path,
    files: Sequence[Path | str] = (),
    limits: Sequence[Path] = (),
    environ: dict[str, str] | None = None,
) -> RequestedRequirements:
    """Read the requirements of a request.

    :param words: requirements, wheels and URLs.
    :param files: requirements files.
    :param limits: constraints files.
    :param environ: values of variables in files.
    """
    request = InstallRequest(
        requirements=tuple(map(str, words)),
        requirement=tuple(map(str, files)),
        constraint=tuple(map(str, limits)),
    )
    return read_requirements(request, environ or {})


class TestWords:
    """A requirement, a wheel, or the URL of one."""

    @pytest.mark.parametrize(
        ("word", "name", "rest"),
        [
            ("torch", "torch", ""),
            ("Torch.Audio>=2", "torch-audio", ">=2"),
            ("some[a,b]==1.0", "some", "==1.0"),
            ("folder", "folder", ""),
            ("wheel.whl2", "wheel-whl2", ""),
        ],
    )
    def test_requirements(
        self, word: str, name: str, rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name is a name, even where a folder of that name lies around."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "folder").mkdir()
        found = wanted(word)
        (asked,) = found.requirements
        assert (asked.requirement.name, str(asked.requirement.specifier)) == (name, rest)
        assert asked.where == ""
        assert not found.wheels

    @pytest.mark.parametrize(
        "word", [f"{folder}some-1.0-py3-none-any.whl" for folder in ("", "./", "{here}/")]
    )
    def test_paths(self, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A path ends in ``.whl`` or begins like one; extras may follow."""
        path = build_wheel(tmp_path, "some", "1.0")
        monkeypatch.chdir(tmp_path)
        for extras in ("", "[One,two_b]"):
            found = wanted(word.format(here=tmp_path) + extras)
            (wheel,) = found.wheels
            assert wheel.file.url == path.as_uri()
            assert wheel.file.filename == path.name
            assert wheel.extras == ({"one", "two-b"} if extras else frozenset())
            assert not found.requirements

    def test_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A tilde means the user's home; that of a user nobody knows is just no file."""
        path = build_wheel(tmp_path, "some", "1.0")
        monkeypatch.setenv("HOME", str(tmp_path))
        (wheel,) = wanted(f"~/{path.name}").wheels
        assert wheel.file.url == path.as_uri()
        with pytest.raises(FileProblem):
            wanted(f"~nobody-of-that-name/{path.name}")

    def test_a_path_with_special_characters(self, tmp_path: Path) -> None:
        """Blanks, hashes, per cent signs and brackets in folder names mean nothing."""
        path = build_wheel(tmp_path / "a b#c%20[d]", "some", "1.0")
        (wheel,) = wanted(path).wheels
        assert wheel.file.url == path.as_uri()
        assert not wheel.file.hashes

    @pytest.mark.parametrize("scheme", ["http", "https", "file"])
    def test_urls(self, scheme: str) -> None:
        """A URL names a wheel; its fragment is a promise, its login is not shown."""
        url = f"{scheme}://host.example/files/some-1.0%2Blocal-py3-none-any-cu128.whl"
        (wheel,) = wanted(f"{url}#sha256={'AB' * 32}").wheels
        assert wheel.file.url == url
        assert wheel.file.filename == "some-1.0+local-py3-none-any-cu128.whl"
        assert wheel.file.hashes == {"sha256": "ab" * 32}
        (wheel,) = wanted(url.replace("://", "://me:s3cret@") + "[extra]").wheels
        assert wheel.file.url == url
        assert wheel.extras == {"extra"}

    def test_urls_of_relative_paths(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A ``file:`` URL may be relative to the current folder, as for pip and uv."""
        path = build_wheel(tmp_path / "a b", "some", "1.0")
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        (wheel,) = wanted(f"file:../a%20b/{path.name}[extra]").wheels
        assert wheel.file.url == path.as_uri()
        assert wheel.extras == {"extra"}
        (asked,) = wanted(f"some @ file:../a%20b/{path.name}").requirements
        assert asked.requirement.url == path.as_uri()
        (source,) = wanted("file:..#subdirectory=sub").sources
        assert source.url == f"{tmp_path.as_uri()}#subdirectory=sub"

    def test_a_name_with_a_url(self) -> None:
        """``name @ URL`` is a requirement, which is resolved under its name (F-125)."""
        for url in ("https://host.example/some-1.0-py3-none-any.whl", "file:///some-1.0.whl"):
            for text in (f"some[x] @ {url}", f"some@{url}", f"some @ {url} ; os_name != 'x'"):
                found = wanted(text)
                (asked,) = found.requirements
                assert asked.requirement.url == url
                assert not found.wheels

    @pytest.mark.parametrize("option", ["files", "limits"])
    def test_variant_markers_in_files(self, option: str, tmp_path: Path) -> None:
        """F-109: requirements and constraints in files have no wheel to look at either."""
        limits = tmp_path / "limits.txt"
        limits.write_text('first\nsome<2 ; "nvidia" in variant_namespaces\n')
        with pytest.raises(InvalidRequirement, match="variant_namespaces cannot be") as excinfo:
            wanted("other", **{option: [limits]})  # type: ignore[arg-type]
        assert excinfo.value.where == f"{limits}:2"

    @pytest.mark.parametrize(
        ("word", "kind", "said"),
        [
            ("some ==", InvalidRequirement, "expected"),
            ("some ; variant_label == 'a'", InvalidRequirement, "variant"),  # F-109
            ("-", InvalidRequirement, ""),
            ("[x]", InvalidRequirement, ""),
            ("missing-1.0-py3-none-any.whl", FileProblem, "the wheel does not exist"),
            ("./missing", FileProblem, "the path does not exist"),
            ("missing-1.0.tar.gz", FileProblem, "the path does not exist"),
            ("https://host.example/", UserError, "only wheels are accepted"),
            ("http://[::1/some-1.0-py3-none-any.whl", UserError, "cannot be read"),
        ],
    )
    def test_bad_words(self, word: str, kind: type[WheelfitError], said: str) -> None:
        """Each way to be wrong is an error that says so."""
        with pytest.raises(kind) as excinfo:
            wanted(word)
        assert said in excinfo.value.message

    @pytest.mark.parametrize(
        "word",
        [
            "pyproject.toml",
            "a/pyproject.toml",
            "requirements.txt",
            "./a.txt",
            "requirements.in",
        ],
    )
    def test_a_file_in_place_of_a_requirement(self, word: str) -> None:
        """A forgotten ``-r`` must not fetch whatever an index has under the name of the file."""
        with pytest.raises(UserError, match="is a file, not a requirement") as excinfo:
            wanted(word)
        assert excinfo.value.hint == f"-r {word} reads it"

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("pylock.toml", "`wheelfit sync --inexact {path}` installs it"),
            ("pylock.dev.toml", "`wheelfit sync --inexact {path}` installs it"),
            ("uv.lock", "uv export --format pylock.toml"),
            ("poetry.lock", "poetry export --format pylock.toml"),
            ("pdm.lock", "pdm export --format pylock"),
        ],
    )
    def test_a_lock_in_place_of_a_requirement(self, name: str, hint: str, tmp_path: Path) -> None:
        """A lock is neither a package nor a requirements file; the hint names what reads it."""
        path = tmp_path / name
        path.write_text("version = 1\n")
        with pytest.raises(UserError, match="is a file, not a requirement") as excinfo:
            wanted(name)
        assert hint.format(path=name) in (excinfo.value.hint or "")
        with pytest.raises(UserError, match="a lock is not a requirements file") as excinfo:
            wanted(files=[path])
        assert hint.format(path=path) in (excinfo.value.hint or "")

    @pytest.mark.parametrize("separator", [" ; ", ";", "; ", " ;"])
    def test_the_marker_of_a_path(self, separator: str, tmp_path: Path) -> None:
        """As in pip, a marker may follow a folder, an archive or a wheel, with its extras."""
        path = build_wheel(tmp_path, "some", "1.0")
        (asked,) = wanted(f"{path}[x]{separator}python_version < '3'").requirements
        assert str(asked.requirement) == f'some[x] @ {path.as_uri()} ; python_version < "3"'
        folder = tmp_path / "a;b"
        folder.mkdir()
        (source,) = wanted(f"{folder}[x]{separator}sys_platform == 'x'").sources
        assert (source.url, list(source.extras)) == (folder.as_uri(), ["x"])
        assert str(source.marker) == 'sys_platform == "x"'

    @pytest.mark.parametrize("url", ["git+https://host.example/x;y", "https://host.example/x.zip"])
    def test_the_marker_of_a_url(self, url: str) -> None:
        """A marker may follow a URL; it is not part of it."""
        (source,) = wanted(f"{url} ; os_name == 'x'").sources
        assert (source.url, str(source.marker)) == (url, 'os_name == "x"')

    def test_the_marker_of_a_hashed_wheel(self) -> None:
        """The hash of a wheel counts with a marker, too."""
        url = f"https://host.example/some-1.0-py3-none-any.whl#sha256={'ab' * 32}"
        (asked,) = wanted(f"{url} ; os_name == 'x'").requirements
        assert asked.requirement.url == url

    @pytest.mark.parametrize("marker", ["bad == 'x'", "variant_label == 'x'"])  # F-109
    def test_a_bad_marker_of_a_path(self, marker: str, tmp_path: Path) -> None:
        """A bad marker is shown in its line."""
        line = f"{tmp_path} ; {marker}"
        with pytest.raises(InvalidRequirement) as excinfo:
            wanted(line)
        assert (excinfo.value.source, excinfo.value.position) == (line, line.index(marker))

    def test_nothing(self, tmp_path: Path) -> None:
        """No words ask for nothing; that is wrong usage. A file may be empty."""
        (tmp_path / "empty.txt").write_text("# nothing\n")
        empty = tmp_path / "empty.txt"
        assert wanted(files=[empty]).requirements == ()
        for limits in ([], [empty]):
            with pytest.raises(UsageError):
                wanted(limits=limits)


class TestFiles:
    """Requirements and constraints files."""

    def test_both_kinds(self, tmp_path: Path) -> None:
        """Words come first, then files in their order; constraints only limit."""
        build_wheel(tmp_path, "given", "1.0")
        (tmp_path / "one.txt").write_text(
            f"first>=1\n-c limits.txt\n{tmp_path}/given-1.0-py3-none-any.whl\n"
            f"hashed==2 --hash=sha256:{'AB' * 32} --hash=sha256:{'cd' * 32}\n"
        )
        (tmp_path / "two.txt").write_text("${WHO}==3\n")
        (tmp_path / "limits.txt").write_text("first<9\n")
        (tmp_path / "more.txt").write_text("other<2\n")
        found = wanted(
            "word",
            files=[tmp_path / "one.txt", tmp_path / "two.txt"],
            limits=[tmp_path / "more.txt"],
            environ={"WHO": "second"},
        )
        assert [asked.requirement.name for asked in found.requirements] == [
            "word", "first", "hashed", "second",
        ]  # fmt: skip
        assert [asked.where for asked in found.requirements] == [
            "", f"{tmp_path}/one.txt:1", f"{tmp_path}/one.txt:4", f"{tmp_path}/two.txt:1",
        ]  # fmt: skip
        assert [str(asked) for asked in found.constraints] == [
            f"first<9 ({tmp_path}/limits.txt:1)",
            f"other<2 ({tmp_path}/more.txt:1)",
        ]
        (wheel,) = found.wheels
        assert wheel.where == f"{tmp_path}/one.txt:3"
        assert found.hashes == {"hashed": {("sha256", "ab" * 32), ("sha256", "cd" * 32)}}
        assert len(found.files) == 3

    @pytest.mark.parametrize("option", ["files", "limits"])
    def test_missing(self, option: str, tmp_path: Path) -> None:
        """A file that is not there is named, whichever option names it."""
        with pytest.raises(FileProblem) as excinfo:
            wanted("some", **{option: [tmp_path / "missing.txt"]})  # type: ignore[arg-type]
        assert excinfo.value.where == str(tmp_path / "missing.txt")
        assert "No such file" in excinfo.value.message

    def test_not_text(self, tmp_path: Path) -> None:
        """Bytes that are no UTF-8 are an error, not a traceback."""
        (tmp_path / "bad.txt").write_bytes(b"caf\xe9\n")
        with pytest.raises(FileProblem, match="UTF-8"):
            wanted(files=[tmp_path / "bad.txt"])

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
    def test_byte_order_marks(self, encoding: str, tmp_path: Path) -> None:
        """A mark states the encoding; PowerShell redirects output as UTF-16."""
        (tmp_path / "all.txt").write_text("# né\nsome==1\n", encoding=encoding)
        (asked,) = wanted(files=[tmp_path / "all.txt"]).requirements
        assert str(asked.requirement) == "some==1"

    def test_a_folder(self, tmp_path: Path) -> None:
        """A folder is not a file."""
        with pytest.raises(FileProblem):
            wanted(files=[tmp_path])

    def test_from_elsewhere(self) -> None:
        """A file on a server is not fetched unseen; its login is not shown."""
        with pytest.raises(UserError) as excinfo:
            wanted(files=["https://me:s3cret@host.example/all.txt?token=s3cret"])
        assert excinfo.value.where == "https://****@host.example/all.txt?****"

    def test_files_that_lead_too_far(self, tmp_path: Path) -> None:
        """A long chain of files ends in an error, not in a full stack."""
        for number in range(1200):
            (tmp_path / f"{number}.txt").write_text(f"-r {number + 1}.txt\n")
        (tmp_path / "1150.txt").write_text("some\n")
        assert wanted(files=[tmp_path / "1100.txt"]).requirements
        with pytest.raises(UserError, match="too deeply"):
            wanted(files=[tmp_path / "0.txt"])

    def test_a_bad_line_is_named(self, tmp_path: Path) -> None:
        """An error names file and line, for requirements and for wheels."""
        for line in ("some ==", "./missing-1.0-py3-none-any.whl", "http://[::1"):
            (tmp_path / "bad.txt").write_text(f"good\n{line}\n")
            with pytest.raises(UserError) as excinfo:
                wanted(files=[tmp_path / "bad.txt"])
            assert f"{tmp_path}/bad.txt:2" in f"{excinfo.value.where} {excinfo.value.note}"
