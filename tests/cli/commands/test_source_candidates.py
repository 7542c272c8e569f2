"""Source distributions of an index as candidates, which are not built without consent."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import Runner
from cli.workplace import POISONED, Workplace
from projects.writing import write_sdist

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration


@pytest.fixture
def workshop(run: Runner, tmp_path: Path) -> Iterator[Workplace]:
    """Yield a folder with an index of a plain wheel."""
    with RecordingIndex(tmp_path / "wheels") as index:
        build_wheel(tmp_path / "wheels", "plain", "1.0")
        yield Workplace(run, tmp_path, index)


class TestVersions:
    """Selection of the release."""

    def test_no_older_release_of_the_dependent(self, workshop: Workplace) -> None:
        """A dependency without a wheel selects no older release, as in pip and uv."""
        build_wheel(workshop.wheels, "app", "2.0", requires=["reader"])
        build_wheel(workshop.wheels, "app", "1.0")
        workshop.sdist("reader", backend=POISONED)
        result = workshop.install("app", code=3)
        assert "reader 1.0 must be built from source" in result.err
        assert "reader-1.0.tar.gz: app 2.0 needs it" in result.err
        assert "--allow-source reader" in result.err
        assert "--only-binary" not in result.err  # no release of it has a wheel
        assert not workshop.target.exists()

    def test_older_wheel(self, workshop: Workplace) -> None:
        """A newer source distribution is preferred to an older wheel."""
        build_wheel(workshop.wheels, "reader", "0.9")
        workshop.sdist("reader", backend="")
        refused = workshop.install("reader", code=3).err
        assert "reader 1.0 must be built" in refused
        assert "--only-binary reader takes older releases that have wheels" in refused
        workshop.install("reader", "--allow-source", "reader")
        assert workshop.packages()["reader"]["version"] == "1.0"

    @pytest.mark.parametrize(
        "words", [["--only-binary", "reader"], ["--only-binary=:all:"], ["--prefer-binary"]]
    )
    def test_binary_options(self, workshop: Workplace, words: list[str]) -> None:
        """``--only-binary`` and ``--prefer-binary`` work as in pip, with a note."""
        build_wheel(workshop.wheels, "reader", "0.9")
        workshop.sdist("reader", backend=POISONED)
        result = workshop.install("reader", *words)
        assert workshop.packages()["reader"]["version"] == "0.9"
        assert "reader 0.9 (latest 1.0 has no wheel that fits, and --" in result.err
        assert words[0].partition("=")[0] in result.err

    @pytest.mark.parametrize(
        ("variables", "version"),
        [
            ({"ONLY_BINARY": "other,reader"}, "0.9"),
            ({"ONLY_BINARY": ":all:"}, "0.9"),
            ({"PREFER_BINARY": "1"}, "0.9"),
            ({"ONLY_BINARY": ":all:", "NO_BINARY": "reader"}, None),
            ({"ONLY_BINARY": ":all:,:none:"}, None),
        ],
    )
    def test_binary_settings_of_pip(
        self,
        workshop: Workplace,
        monkeypatch: pytest.MonkeyPatch,
        variables: dict[str, str],
        version: str | None,
    ) -> None:
        """Pip's settings have the same effect; `no-binary` is ignored with a warning."""
        build_wheel(workshop.wheels, "reader", "0.9")
        workshop.sdist("reader", backend=POISONED)
        for name, value in variables.items():
            monkeypatch.setenv(f"PIP_{name}", value)
        if "ONLY_BINARY" in variables:  # the option counts more
            workshop.install("reader", "--only-binary", ":none:", code=3)
        result = workshop.install("reader", code=0 if version else 3)
        assert ("PIP_NO_BINARY is ignored" in result.err) == ("NO_BINARY" in variables)
        if version:
            assert workshop.packages()["reader"]["version"] == version
        else:
            assert "reader 1.0 must be built from source" in result.err

    @pytest.mark.parametrize(
        ("tag", "reason"),
        [("cp399-cp399-any", ""), ("py3-none-any", "has no wheel that fits: ")],
    )
    def test_release_for_another_python(self, workshop: Workplace, tag: str, reason: str) -> None:
        """If the wheels need another Python, the note names that reason."""
        build_wheel(workshop.wheels, "reader", "0.9")
        python = "!=3.99.1,>=3.99"
        build_wheel(workshop.wheels, "reader", "1.0", tag=tag, requires_python=python)
        if not reason:
            workshop.sdist("reader", backend=POISONED)
        result = workshop.install("reader", "--only-binary=:all:")
        assert f"reader 0.9 (latest 1.0 {reason}needs Python {python})" in result.err

    @pytest.mark.parametrize("dynamic", [False, True])
    def test_declared_metadata_is_cached(
        self, workshop: Workplace, tmp_path: Path, *, dynamic: bool
    ) -> None:
        """An archive is unpacked for its metadata once, even if it declares none."""
        archive = workshop.sdist("reader", dynamic=dynamic, backend=POISONED)
        first = workshop.install("--dry-run", "reader", code=3)
        (stored,) = [
            path
            for path in (tmp_path / "cache").rglob("*")
            if path.is_file() and path.read_bytes() == archive.read_bytes()
        ]
        stored.unlink()
        workshop.index.faults.status[archive.name] = 404
        assert workshop.install("--dry-run", "reader", code=3).err == first.err

    def test_archive_under_another_name(self, workshop: Workplace) -> None:
        """PEP 625: cached metadata do not make an archive that of another release."""
        archive = workshop.sdist("reader")
        archive.with_name("reader-2.0.tar.gz").write_bytes(archive.read_bytes())
        workshop.install("--dry-run", "reader==1.0", code=3)
        result = workshop.install("--dry-run", "reader==2.0", code=3)
        assert "the archive is named reader 2.0" in result.err

    def test_prefer_binary_without_wheels(self, workshop: Workplace) -> None:
        """``--prefer-binary`` allows a source distribution where there is no wheel, as in pip."""
        workshop.sdist("reader", backend="")
        workshop.install("reader", "--prefer-binary", "--allow-source", "reader")

    def test_requires_python(self, workshop: Workplace) -> None:
        """A source distribution for another Python is not a candidate."""
        build_wheel(workshop.wheels, "reader", "0.9")
        workshop.sdist("reader", backend=POISONED)
        path = workshop.folder / "projects" / "reader-1.0" / "pyproject.toml"
        text = path.read_text().replace("[project]", '[project]\nrequires-python = "<3"')
        path.write_text(text)
        write_sdist(workshop.wheels, path.parent, "reader", "1.0")
        workshop.install("reader")
        assert workshop.packages()["reader"]["version"] == "0.9"


class TestDependencies:
    """Dependencies of source distributions, which are read without consent only if static."""

    def test_static_dependencies(self, workshop: Workplace) -> None:
        """Static metadata is part of the resolution (PEP 621, PEP 643)."""
        workshop.sdist("reader", dependencies=["plain<1"], backend=POISONED)
        build_wheel(workshop.wheels, "plain", "0.5")
        result = workshop.install("reader", "--json", code=3)
        (row,) = result.error["packages"]
        assert row == {
            "name": "reader",
            "version": "1.0",
            "filename": "reader-1.0.tar.gz",
            "needed_by": [],
            "needs_known": True,
        }

    def test_conflict_of_static_dependencies(self, workshop: Workplace) -> None:
        """Conflicting static dependencies select another release, as those of a wheel do."""
        workshop.sdist("reader", "2.0", dependencies=["plain>5"], backend=POISONED)
        build_wheel(workshop.wheels, "reader", "1.0")
        workshop.install("reader", "plain==1.0")
        assert workshop.packages()["reader"]["version"] == "1.0"

    def test_unknown_dependencies(self, workshop: Workplace) -> None:
        """Unknown dependencies count as none, with a note in the error."""
        workshop.sdist("reader", dynamic=True, dependencies=["absent"], backend=POISONED)
        result = workshop.install("reader", code=3)
        assert "the requirements of reader are known only to the build backend" in result.err
        assert "the backend was run" not in result.err

    def test_release_with_unknown_dependencies(self, workshop: Workplace) -> None:
        """A release is not selected only because its dependencies are unknown."""
        build_wheel(workshop.wheels, "reader", "3.0", requires=["plain>5"])
        workshop.sdist("reader", "2.0", dynamic=True, dependencies=["plain>5"], backend=POISONED)
        build_wheel(workshop.wheels, "reader", "1.0")
        result = workshop.install("plain", "reader")
        assert workshop.packages()["reader"]["version"] == "1.0"
        assert "reader 2.0 is passed over" in result.err
        assert (
            "reader 1.0 (latest 3.0 needs plain>5, and no version of plain matches plain>5"
            in result.err
        )

    def test_all_packages_in_one_error(self, workshop: Workplace) -> None:
        """One error names all packages that must be built, and all options."""
        workshop.sdist("one", backend="", dependencies=["two"])
        workshop.sdist("two", backend="")
        result = workshop.install("one", code=3)
        assert "two 1.0 and one 1.0 must be built from source" in result.err
        assert "two-1.0.tar.gz: one 1.0 needs it" in result.err
        assert "--allow-source two --allow-source one" in result.err
        workshop.install("one", "--allow-source", "one", "--allow-source", "two")
        assert {"one", "two"} <= workshop.packages().keys()


class TestConsent:
    """The setting ``allow-source``."""

    @pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 3), ("", 3)])
    def test_question_in_a_terminal(
        self, workshop: Workplace, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
    ) -> None:
        """In a terminal the user is asked once for all packages."""
        workshop.sdist("reader", backend="", dynamic=True, dependencies=["plain"])
        terminal = _TerminalInput(answer)
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        result = workshop.install("reader", code=code)
        assert "Build from source? [y/N]" in result.err
        assert (workshop.target / "plain").exists() is (code == 0)

    @pytest.mark.parametrize(
        "words", [["--no-input"], ["--dry-run"], ["--allow-source=never"], ["--json"], ["-q"]]
    )
    def test_no_question(
        self, workshop: Workplace, monkeypatch: pytest.MonkeyPatch, words: list[str]
    ) -> None:
        """There is no question with these options."""
        workshop.sdist("reader", backend=POISONED)
        monkeypatch.setattr(sys, "stdin", _TerminalInput("y\n"))
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        result = workshop.install("reader", *words, code=3)
        assert "[y/N]" not in result.err

    def test_precedence(self, workshop: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
        """A general value on the command line overrides a variable; a name is added to it."""
        workshop.sdist("reader", backend="")
        monkeypatch.setenv("WHEELFIT_ALLOW_SOURCE", "always")
        workshop.install("reader", "--allow-source", "never", code=3)
        monkeypatch.setenv("WHEELFIT_ALLOW_SOURCE", "never")
        workshop.install("reader", code=3)
        workshop.install("reader", "--allow-source", "reader")

    def test_all_is_not_a_value(self, workshop: Workplace) -> None:
        """The error about `:all:` names the right value."""
        result = workshop.install("plain", "--allow-source", ":all:", code=2)
        assert "write always" in result.err


class _TerminalInput(io.StringIO):
    """Text typed into a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True
