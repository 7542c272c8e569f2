"""Claims about where an installation goes, compared with pip."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from error_codes import raises_code

from wheelfit.errors import UsageError
from wheelfit.installation.environment import DestinationKind, Environment, open_environment

if TYPE_CHECKING:
    from collections.abc import Callable

ENVIRON = dict(os.environ)


def opened(
    venv: Path, *, target: Path | None = None, prefix: Path | None = None, root: Path | None = None
) -> Environment:
    """Open what is named beside an environment."""
    return open_environment(str(venv), environ=ENVIRON, target=target, prefix=prefix, root=root)


class TestSchemes:
    """Folders of the four kinds."""

    def test_environment(self, venv: Path, environment: Environment) -> None:
        """Without options the interpreter decides, and nothing else is searched."""
        assert environment.kind is DestinationKind.ENVIRONMENT
        assert environment.name == str(venv)
        assert environment.schemes == environment.runtime == environment.interpreter.schemes
        assert environment.search == (environment.schemes.purelib,)

    def test_a_copy(self, venv: Path, environment: Environment) -> None:
        """What the fixture says of a copied environment is what its interpreter says."""
        assert environment == opened(venv)._replace(signer=environment.signer)

    def test_prefix(self, venv: Path, tmp_path: Path) -> None:
        """--prefix lays everything out below another folder, as the interpreter would."""
        prefix = tmp_path / "prefix"
        environment = open_environment(str(venv), environ=ENVIRON, prefix=prefix)
        own = environment.interpreter.schemes
        assert environment.kind is DestinationKind.PREFIX
        for name, folder in environment.schemes.folders().items():
            assert folder.relative_to(prefix) == own.folders()[name].relative_to(venv), name
        assert environment.search == (environment.schemes.purelib,)
        assert not prefix.exists()

    def test_root(self, venv: Path, tmp_path: Path) -> None:
        """--root puts all paths below another folder; at run time they are as without it."""
        root = tmp_path / "root"
        environment = open_environment(str(venv), environ=ENVIRON, root=root)
        assert environment.kind is DestinationKind.ROOT
        assert environment.runtime == environment.interpreter.schemes
        assert environment.schemes.scripts == Path(f"{root}{venv}/bin")

    def test_root_and_prefix(self, venv: Path, tmp_path: Path) -> None:
        """--root applies to --prefix too."""
        environment = open_environment(
            str(venv), environ=ENVIRON, root=tmp_path / "root", prefix=Path("/opt/thing")
        )
        assert environment.schemes.scripts == tmp_path / "root/opt/thing/bin"
        assert environment.runtime.scripts == Path("/opt/thing/bin")

    def test_target(self, venv: Path, tmp_path: Path) -> None:
        """--target is flat: modules in the folder, scripts in its bin."""
        environment = open_environment(str(venv), environ=ENVIRON, target=tmp_path / "flat")
        assert environment.kind is DestinationKind.TARGET
        assert environment.schemes.purelib == environment.schemes.platlib == tmp_path / "flat"
        assert environment.schemes.scripts == tmp_path / "flat" / "bin"
        assert environment.name == str(tmp_path / "flat")

    def test_one_library(self, environment: Environment, tmp_path: Path) -> None:
        """Where lib64 is a link to lib, both schemes have one name for the folder."""
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib64").symlink_to("lib")
        two = environment.schemes._replace(
            purelib=tmp_path / "lib" / "x", platlib=tmp_path / "lib64" / "x"
        )
        assert two.with_one_library().platlib == tmp_path / "lib" / "x"
        other = two._replace(platlib=tmp_path / "other")
        assert other.with_one_library() == other

    @pytest.mark.parametrize("option", ["target", "prefix", "root"])
    def test_files_are_no_places(self, venv: Path, tmp_path: Path, option: str) -> None:
        """A folder is wanted; one that does not exist yet will do."""
        path = tmp_path / "file"
        path.write_text("")
        with pytest.raises(UsageError, match=f"--{option} .*file is not a folder"):
            opened(venv, **{option: path})
        opened(venv, **{option: tmp_path / "new"})

    @pytest.mark.parametrize("other", ["prefix", "root"])
    def test_target_alone(self, venv: Path, tmp_path: Path, other: str) -> None:
        """--target cannot be combined."""
        options = {"target": tmp_path / "a", other: tmp_path / "b"}
        with pytest.raises(UsageError, match=f"--{other}"):
            opened(venv, **options)

    def test_base_is_only_looked_at(self, tmp_path: Path) -> None:
        """What lies in the base of a virtual environment is visible and marked as outside."""
        base = open_environment(None, environ={}, may_be_own=True).interpreter
        python = base.stdlib.parent.parent / "bin" / "python3"
        if not python.exists():
            pytest.skip("the base interpreter is laid out otherwise")
        options = ["--without-pip", "--system-site-packages"]
        subprocess.run([python, "-m", "venv", *options, str(tmp_path / "venv")], check=True)
        environment = open_environment(str(tmp_path / "venv"), environ=ENVIRON)
        installed = environment.installed()
        if not installed:
            pytest.skip("nothing is installed in the base interpreter")
        assert all(entry.outside for entry in installed)


class TestTarget:
    """What the interpreter says about the machine to choose wheels for."""

    def test_target(self, environment: Environment) -> None:
        """Tags, markers and version are those of the interpreter."""
        target = environment.target
        assert target.tags.tags == environment.interpreter.tags
        assert target.environment == environment.interpreter.environment
        assert str(target.python_full_version) == target.environment["python_full_version"]


class TestManaged:
    """PEP 668."""

    @pytest.fixture
    def managed(self, environment: Environment) -> Environment:
        """Return an environment that belongs to another package manager."""
        text = "[externally-managed]\nError = Use the package manager:\n apt install python3-x\n"
        return environment._replace(
            interpreter=environment.interpreter._replace(externally_managed=text)
        )

    def test_refused(self, managed: Environment) -> None:
        """PEP 668: it is refused in the words of whoever manages it."""
        with raises_code("externally-managed") as excinfo:
            managed.check_allowed()
        assert excinfo.value.note == "Use the package manager:\napt install python3-x"
        assert excinfo.value.exit_code == 7

    def test_insisting(self, managed: Environment) -> None:
        """--break-system-packages insists."""
        managed.check_allowed(break_system_packages=True)

    @pytest.mark.parametrize(
        "kind", [DestinationKind.PREFIX, DestinationKind.ROOT, DestinationKind.TARGET]
    )
    def test_elsewhere(self, managed: Environment, kind: DestinationKind) -> None:
        """As for pip, only the interpreter's own folders are protected."""
        managed._replace(kind=kind).check_allowed()

    @pytest.mark.parametrize("text", ["", "nonsense", "[other]\n", "[externally-managed]\n"])
    def test_without_words(self, managed: Environment, text: str) -> None:
        """A marker file without a message protects as well."""
        interpreter = managed.interpreter._replace(externally_managed=text)
        with raises_code("externally-managed") as excinfo:
            managed._replace(interpreter=interpreter).check_allowed()
        assert excinfo.value.note is None

    def test_free(self, environment: Environment) -> None:
        """A virtual environment is never protected."""
        environment.check_allowed()


class TestWritable:
    """What can be found out before anything is tried."""

    def test_writable(self, environment: Environment) -> None:
        """An ordinary environment is."""
        environment.check_writable()

    def test_new_folders(self, venv: Path, tmp_path: Path) -> None:
        """Folders that do not exist yet are judged by where they would be created."""
        environment = open_environment(str(venv), environ=ENVIRON, target=tmp_path / "a" / "b")
        environment.check_writable()
        assert not (tmp_path / "a").exists()

    def test_file_in_place(self, venv: Path, tmp_path: Path) -> None:
        """A file where a folder must be is named."""
        (tmp_path / "file").write_text("")
        environment = open_environment(str(venv), environ=ENVIRON, target=tmp_path / "file" / "x")
        with raises_code("environment-read-only", match="a file is in the place") as excinfo:
            environment.check_writable()
        assert excinfo.value.where == str(tmp_path / "file")

    def test_read_only(self, environment: Environment, read_only: Callable[[Path], None]) -> None:
        """An environment that cannot be written is refused, also for root."""
        read_only(environment.schemes.purelib)
        with raises_code("environment-read-only") as excinfo:
            environment.check_writable()
        assert excinfo.value.exit_code == 6
        assert excinfo.value.hint is not None
