"""Claims about installations that are refused or fail: the environment stays as it was."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from error_codes import raises_code
from msgspec import structs

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.errors import EnvironmentBusy, NotRemovable
from wheelfit.installation.apply import Applied, apply
from wheelfit.installation.environment import Environment, open_environment
from wheelfit.installation.locking import locked
from wheelfit.installation.plan import Plan
from wheelfit.resolution.resolution import Pin
from wheelfit.sources.progress import NoProgress
from wheelfit.testing.wheels import add_member, build_wheel, release_document, unpack_wheel
from wheelfit.wheels.record import format_record, parse_record, row_for
from wheelfit_runtime.errors import (
    EnvironmentUnavailable,
    IntegrityError,
    InvalidWheel,
    WheelfitError,
)

Install = Callable[..., Applied]
Tree = Callable[[Path], dict[str, str]]

LEVELS = {"x86_64": {"level": ["v3", "v2"]}}
DOCUMENT = release_document(
    {"v2": {"x86_64": {"level": ["v2"]}}, "v3": {"x86_64": {"level": ["v3"]}}}, static=LEVELS
)


@pytest.fixture
def refused(
    environment: Environment, home: Path, install: Install, tree: Tree
) -> Callable[..., WheelfitError]:
    """Return a function that tries to install and checks that nothing changed.

    A sound wheel comes first, so that a late refusal would leave something.
    """
    first = build_wheel(home, "aaa", "1")

    def attempt(
        *paths: Path, error: type[WheelfitError] = IntegrityError, **options: object
    ) -> WheelfitError:
        before = tree(environment.interpreter.prefix)
        with pytest.raises(error) as excinfo:
            install(environment, first, *paths, **options)
        assert tree(environment.interpreter.prefix) == before
        return excinfo.value

    return attempt


def edit(path: Path, changes: Mapping[str, bytes | None], *, honest: bool = False) -> Path:
    """Change members of a wheel; None removes one.

    :param honest: whether RECORD is made to fit.
    """
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    for name, content in changes.items():
        if content is None:
            del members[name]
        else:
            members[name] = content
    if honest:
        (record,) = (name for name in members if name.endswith(".dist-info/RECORD"))
        rows = [row_for(name, content) for name, content in members.items() if name != record]
        own = parse_record(members[record], where="").rows[-1]
        members[record] = format_record([*rows, own])
    path.unlink()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            add_member(archive, name, content)
    return path


Refused = Callable[..., WheelfitError]


class TestHostileWheels:
    """Wheels that mean harm, or are damaged."""

    @pytest.mark.parametrize(
        "name",
        [
            "../evil.py",
            "demo/../../evil.py",
            "/tmp/evil.py",
            "demo-1.data/purelib/../../../evil.py",
            "demo-1.data/scripts/../evil",
            "demo-1.data/data/../../evil",
            "demo\\..\\evil.py",
            "C:/evil.py",
        ],
    )
    def test_traversal(self, refused: Refused, home: Path, name: str) -> None:
        """A member that would leave its place is refused."""
        wheel = edit(build_wheel(home, "demo", "1"), {name: b"evil"}, honest=True)
        assert isinstance(refused(wheel), InvalidWheel)

    @pytest.mark.parametrize(
        "name", ["demo-1.data/nowhere/x", "demo-1.data/x", "demo-1.data/scripts"]
    )
    def test_unknown_place(self, refused: Refused, home: Path, name: str) -> None:
        """PEP 427 knows five places; another is refused."""
        wheel = edit(build_wheel(home, "demo", "1"), {name: b""}, honest=True)
        assert "no known scheme" in refused(wheel).message

    @pytest.mark.parametrize("name", ["python", "python3", "Python.exe", "python3.11"])
    def test_interpreter_as_script(self, refused: Refused, home: Path, name: str) -> None:
        """CVE-2026-8643: neither a script nor an entry point replaces the interpreter."""
        files = {f"demo-1.data/scripts/{name}": "#!/bin/sh\n"}
        assert "interpreter" in refused(build_wheel(home, "demo", "1", files=files)).message
        files = {f"demo-1.data/data/bin/{name}": "#!/bin/sh\n"}
        assert isinstance(refused(build_wheel(home, "demo", "1", files=files)), IntegrityError)
        points = {"console_scripts": {name: "demo:main"}}
        assert "interpreter" in refused(build_wheel(home, "d2", "1", entry_points=points)).message

    @pytest.mark.parametrize("name", ["bin/python", "pyvenv.cfg", "bin/activate"])
    def test_files_of_the_environment(
        self, refused: Refused, home: Path, venv: Path, name: str
    ) -> None:
        """The data scheme reaches the whole environment, but may not replace anything in it."""
        if not (venv / name).exists():
            pytest.skip(f"this environment has no {name}")
        files = {f"demo-1.data/data/{name}": "evil"}
        assert refused(build_wheel(home, "demo", "1", files=files)).exit_code == 4

    @pytest.mark.parametrize(
        "name",
        [
            ".wheelfit-change/journal",
            ".wheelfit-change/folders",
            ".Wheelfit-Change/committed",
            "deep/.wheelfit-change/x",
            "demo-1.data/data/bin/.wheelfit-change/x",
            "demo-1.data/purelib/.wheelfit.locking",
        ],
    )
    def test_workplace(self, refused: Refused, home: Path, name: str) -> None:
        """No wheel puts anything where changes of an environment are prepared."""
        error = refused(build_wheel(home, "demo", "1", files={name: ""}), replace=True)
        assert "changes of the environment are prepared" in error.message

    def test_entry_point_paths(self, refused: Refused, home: Path) -> None:
        """GHSA-4gg8-gxpx-9rph: an entry point is a name and no path."""
        points = {"console_scripts": {"../../evil": "demo:main"}}
        assert isinstance(
            refused(build_wheel(home, "demo", "1", entry_points=points)), InvalidWheel
        )

    def test_through_a_link(
        self, refused: Refused, home: Path, environment: Environment, tmp_path: Path
    ) -> None:
        """CVE-2026-34591: a link inside the environment does not lead a wheel out of it."""
        outside = tmp_path / "outside"
        outside.mkdir()
        (environment.schemes.purelib / "demo").symlink_to(outside)
        assert "by a link" in refused(build_wheel(home, "demo", "1")).message
        assert list(outside.iterdir()) == []

    def test_wrong_hash(self, refused: Refused, home: Path) -> None:
        """A file that is not what RECORD promises is refused, however late it comes."""
        files = {f"demo/{number}.py": "x" * 1000 for number in range(50)} | {"zzz.py": "x"}
        wheel = edit(build_wheel(home, "demo", "1", files=files), {"zzz.py": b"y"})
        error = refused(wheel)
        assert isinstance(error, InvalidWheel)
        assert "zzz.py" in error.message
        assert error.note is not None

    @pytest.mark.parametrize("content", [b"longer than before" * 100, b""])
    def test_wrong_size(self, refused: Refused, home: Path, content: bytes) -> None:
        """A file of another size is refused."""
        wheel = edit(build_wheel(home, "demo", "1"), {"demo/__init__.py": content})
        assert isinstance(refused(wheel), InvalidWheel)

    def test_not_in_record(self, refused: Refused, home: Path) -> None:
        """A file that RECORD does not name is refused."""
        wheel = edit(build_wheel(home, "demo", "1"), {"demo/more.py": b""})
        assert "RECORD does not list 'demo/more.py'" in refused(wheel).message

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            (b"demo/__init__.py,,", "no accepted hash"),
            (b"demo/__init__.py,md5=abc,3", "no accepted hash"),
            (b"demo/__init__.py,sha256=abc,", "but '' in RECORD"),
            (b"demo/__init__.py,sha256=abc,x", "but 'x' in RECORD"),
            (b"demo/__init__.py,sha256=abc", "three columns|a path and two more"),
            (b"demo/__init__.py,sha256=a,1\ndemo/__init__.py,sha256=a,1", "twice"),
        ],
    )
    def test_weak_record(self, refused: Refused, home: Path, row: bytes, message: str) -> None:
        """Without a strong hash and a size nothing is verified, so it is refused."""
        wheel = build_wheel(home, "demo", "1")
        with zipfile.ZipFile(wheel) as archive:
            record = archive.read("demo-1.dist-info/RECORD").split(b"\n", 1)[1]
        wheel = edit(wheel, {"demo-1.dist-info/RECORD": row + b"\n" + record})
        error = refused(wheel)
        assert any(part in str(error) + str(error.note) for part in message.split("|"))

    def test_record_names_more(
        self, environment: Environment, home: Path, install: Install
    ) -> None:
        """A row without a file does no harm: well-known wheels have such rows."""
        wheel = build_wheel(home, "demo", "1")
        with zipfile.ZipFile(wheel) as archive:
            record = archive.read("demo-1.dist-info/RECORD")
        install(
            environment,
            edit(wheel, {"demo-1.dist-info/RECORD": b"gone.py,sha256=abc,3\n" + record}),
        )
        text = (environment.schemes.purelib / "demo-1.dist-info/RECORD").read_text()
        assert "gone.py" not in text

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
    def test_truncated(self, refused: Refused, home: Path, share: float) -> None:
        """A wheel that was cut off anywhere is refused."""
        wheel = build_wheel(home, "demo", "1", files={"demo/data.bin": os.urandom(20_000)})
        wheel_bytes = wheel.read_bytes()
        wheel.write_bytes(wheel_bytes[: int(len(wheel_bytes) * share)])
        assert isinstance(refused(wheel), InvalidWheel)

    @pytest.mark.parametrize("position", range(40, 20_000, 3999))
    def test_flipped_bit(self, refused: Refused, home: Path, position: int) -> None:
        """A wheel that was damaged in a content is refused."""
        wheel = build_wheel(home, "aab", "1", files={"demo/data.bin": os.urandom(20_000)})
        damaged = bytearray(wheel.read_bytes())
        damaged[position] ^= 1
        wheel.write_bytes(bytes(damaged))
        assert isinstance(refused(wheel), InvalidWheel)

    def test_not_a_wheel(self, refused: Refused, home: Path) -> None:
        """A file that is not an archive, as an error page saved under the name, is refused."""
        wheel = build_wheel(home, "demo", "1")
        wheel.write_text("<html>not found</html>")
        assert isinstance(refused(wheel), InvalidWheel)

    @pytest.mark.parametrize("name", ["METADATA", "WHEEL", "RECORD"])
    def test_missing_record_files(self, refused: Refused, home: Path, name: str) -> None:
        """A wheel without its records is refused."""
        wheel = edit(build_wheel(home, "demo", "1"), {f"demo-1.dist-info/{name}": None})
        assert isinstance(refused(wheel), InvalidWheel)

    def test_future_format(self, refused: Refused, home: Path) -> None:
        """PEP 427: a later major version of the format is refused."""
        content = {"demo-1.dist-info/WHEEL": b"Wheel-Version: 2.0\nRoot-Is-Purelib: true\n"}
        wheel = edit(build_wheel(home, "demo", "1"), content, honest=True)
        assert "version" in refused(wheel).message

    def test_files_of_installers(
        self, environment: Environment, home: Path, install: Install
    ) -> None:
        """A wheel cannot bring the records that an installer writes."""
        evil = {
            f"demo-1.dist-info/{name}": b"{}"
            for name in ("INSTALLER", "REQUESTED", "direct_url.json", "wheelfit.json")
        }
        done = install(environment, edit(build_wheel(home, "demo", "1"), evil, honest=True))
        (entry,) = environment.installed()
        assert (entry.installer, entry.requested, entry.direct_url) == ("wheelfit", False, None)
        assert len(done.notes) == 4


class TestDisagreement:
    """F-93: wheels that are not what was chosen."""

    @pytest.mark.parametrize(
        ("field", "text"),
        [("name", b"Name: other\nVersion: 1\n"), ("version", b"Name: demo\nVersion: 2\n")],
    )
    def test_identity(self, refused: Refused, home: Path, field: str, text: bytes) -> None:
        """METADATA must have the name and the version that were resolved."""
        wheel = build_wheel(home, "demo", "1")
        error = refused(edit(wheel, {"demo-1.dist-info/METADATA": text}, honest=True))
        assert error.reference == "metadata-disagreement"
        assert field in error.message

    def test_a_version_is_compared_by_value(
        self, environment: Environment, home: Path, install: Install
    ) -> None:
        """PEP 440: 1 in the name and 1.0 in METADATA are one version."""
        text = {"demo-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"}
        install(environment, edit(build_wheel(home, "demo", "1"), text, honest=True))
        (entry,) = environment.installed()
        assert str(entry) == "demo 1.0"

    def test_properties(self, refused: Refused, home: Path) -> None:
        """F-93: other properties than those that drove the selection are refused."""
        wheel = build_wheel(home, "demo", "1", label="v3", document=DOCUMENT)
        other = PropertySet.from_mapping({"x86_64": {"level": ["v2"]}})
        error = refused(wheel, properties=other)
        assert error.reference == "metadata-disagreement"
        assert "x86_64 :: level :: v2" in str(error.note)
        assert "x86_64 :: level :: v3" in str(error.note)

    def test_label(self, refused: Refused, home: Path) -> None:
        """F-24, F-93: the document is about the label of the file name and no other."""
        wheel = build_wheel(home, "demo", "1", label="v3", document=DOCUMENT)
        renamed = wheel.with_name(wheel.name.replace("v3", "v2"))
        wheel.rename(renamed)
        properties = PropertySet.from_mapping({"x86_64": {"level": ["v2"]}})
        error = refused(renamed, properties=properties)
        assert "the wheel of v2 describes v3" in error.message

    @pytest.mark.parametrize("document", [None, b"{}", b"", b'{"variants": 1}'])
    def test_no_document(self, refused: Refused, home: Path, document: bytes | None) -> None:
        """F-27: a label without a document that can be read is refused."""
        wheel = build_wheel(home, "demo", "1", label="v3", document=document)
        assert isinstance(refused(wheel, properties=EMPTY), InvalidWheel)


class TestConflicts:
    """What belongs to others is not overwritten."""

    def test_file_of_another(
        self, refused: Refused, environment: Environment, home: Path, install: Install
    ) -> None:
        """Onnxruntime and onnxruntime-gpu: the second is refused, and the owner named."""
        install(environment, build_wheel(home, "ort", "1", files={"ort/x.py": "cpu"}))
        error = refused(build_wheel(home, "ort-gpu", "1", files={"ort/x.py": "gpu"}))
        assert error.reference == "file-conflict"
        assert "belongs to ort 1" in error.message
        assert "--replace-files" not in (error.hint or "")  # it would be of no use
        assert error.exit_code == 4

    def test_file_of_nobody(
        self, refused: Refused, environment: Environment, home: Path, install: Install
    ) -> None:
        """A file that nobody installed is not lost either, unless the user says so."""
        (environment.schemes.purelib / "demo").mkdir()
        module = environment.schemes.purelib / "demo" / "__init__.py"
        module.write_text("mine")
        wheel = build_wheel(home, "demo", "1")
        error = refused(wheel)
        assert "no installed distribution" in error.message
        assert "--replace-files" in (error.hint or "")
        install(environment, wheel, replace=True)
        assert module.read_text() != "mine"

    def test_never_a_folder(self, environment: Environment, home: Path, install: Install) -> None:
        """Not even then does a file replace a folder."""
        (environment.schemes.purelib / "demo.py").mkdir()
        wheel = build_wheel(home, "demo", "1", files={"demo.py": ""})
        with raises_code("file-conflict"):
            install(environment, wheel, replace=True)

    def test_owned_files_stay(self, environment: Environment, home: Path, install: Install) -> None:
        """Leave to replace does not extend to what another distribution owns."""
        install(environment, build_wheel(home, "a", "1", files={"m.py": "a"}))
        with raises_code("file-conflict"):
            install(environment, build_wheel(home, "b", "1", files={"m.py": "b"}), replace=True)

    def test_script_of_another(
        self, refused: Refused, environment: Environment, home: Path, install: Install
    ) -> None:
        """Scripts are files like others."""
        points = {"console_scripts": {"tool": "a:main"}}
        install(environment, build_wheel(home, "a", "1", entry_points=points))
        points = {"console_scripts": {"tool": "b:main"}}
        assert "bin/tool" in refused(build_wheel(home, "b", "1", entry_points=points)).message

    def test_file_as_folder(
        self, refused: Refused, environment: Environment, home: Path, install: Install
    ) -> None:
        """A module of one cannot become the package of another, nor the reverse."""
        install(environment, build_wheel(home, "a", "1", files={"m": "file", "n/x.py": ""}))
        assert (
            refused(build_wheel(home, "b", "1", files={"m/x.py": ""})).reference == "file-conflict"
        )
        assert refused(build_wheel(home, "c", "1", files={"n": ""})).reference == "file-conflict"

    @pytest.mark.parametrize("order", [1, -1])
    def test_file_as_folder_in_one_change(self, refused: Refused, home: Path, order: int) -> None:
        """Nor can that happen between two wheels of one change."""
        wheels = [
            build_wheel(home, "b", "1", files={"m": "file"}),
            build_wheel(home, "c", "1", files={"m/deep/x.py": ""}),
        ][::order]
        assert refused(*wheels).reference == "file-conflict"

    def test_file_becomes_folder(
        self, environment: Environment, home: Path, install: Install
    ) -> None:
        """Within a distribution a file may become a folder, and the reverse."""
        install(environment, build_wheel(home, "a", "1", files={"m": "", "n/x/y.py": ""}))
        install(environment, build_wheel(home, "a", "2", files={"m/x/y.py": "", "n": ""}))
        assert (environment.schemes.purelib / "m/x/y.py").is_file()
        assert (environment.schemes.purelib / "n").is_file()

    def test_within_one_change(self, refused: Refused, home: Path) -> None:
        """Two wheels of one change cannot have different contents for one file."""
        wheels = [build_wheel(home, name, "1", files={"m.py": name}) for name in "bc"]
        error = refused(*wheels)
        assert "is also in b-1-" in error.message

    def test_same_content(self, environment: Environment, home: Path, install: Install) -> None:
        """Equal files do no harm: many distributions share an empty ``__init__.py``."""
        shared = {"tests/__init__.py": ""}
        install(environment, build_wheel(home, "a", "1", files=shared | {"tests/a.py": ""}))
        install(
            environment,
            build_wheel(home, "b", "1", files=shared | {"tests/b.py": ""}),
            build_wheel(home, "c", "1", files=shared | {"tests/c.py": ""}),
        )
        for name in "abc":
            text = (environment.schemes.purelib / f"{name}-1.dist-info/RECORD").read_text()
            assert "tests/__init__.py,sha256=" in text

    def test_all_are_named(
        self, refused: Refused, environment: Environment, home: Path, install: Install
    ) -> None:
        """All conflicts of a wheel are counted, the first ones listed."""
        files = {f"m{number:02}.py": "a" for number in range(15)}
        install(environment, build_wheel(home, "a", "1", files=files))
        files = dict.fromkeys(files, "b")
        note = refused(build_wheel(home, "b", "1", files=files)).note
        assert note is not None
        assert "m09.py" in note
        assert "and 5 more" in note


class TestEnvironment:
    """Environments that cannot be changed."""

    def test_busy(self, refused: Refused, environment: Environment) -> None:
        """Somebody else who changes the environment is waited for, then named."""
        with locked(environment.schemes.purelib):
            # The lock file itself is there before and after.
            error = refused(error=EnvironmentBusy, lock_timeout=0.1)
        assert error.exit_code == 6

    def test_read_only(
        self, refused: Refused, environment: Environment, read_only: Callable[[Path], None]
    ) -> None:
        """A read-only environment is found out before anything is done."""
        read_only(environment.schemes.purelib)
        error = refused(error=EnvironmentUnavailable)
        assert (error.reference, error.exit_code) == ("environment-read-only", 6)

    def test_scripts_read_only(
        self,
        refused: Refused,
        environment: Environment,
        home: Path,
        read_only: Callable[[Path], None],
    ) -> None:
        """So is a read-only folder of scripts, if there is a script to install."""
        read_only(environment.schemes.scripts)
        points = {"console_scripts": {"tool": "a:main"}}
        error = refused(
            build_wheel(home, "demo", "1", entry_points=points), error=EnvironmentUnavailable
        )
        assert error.reference == "environment-read-only"

    def test_site_packages_is_a_file(self, refused: Refused, environment: Environment) -> None:
        """A file in the place of site-packages is named."""
        environment.schemes.purelib.rmdir()
        environment.schemes.purelib.write_text("")
        error = refused(error=EnvironmentUnavailable)
        assert error.reference == "environment-read-only"

    def test_denied_late(
        self, install: Install, home: Path, environment: Environment, tree: Tree,
        read_only: Callable[[Path], None],
    ) -> None:  # fmt: skip
        """What turns out to be unwritable in the middle of an upgrade undoes the upgrade."""
        files = {"aaa/x.py": "old", "deep/sub/x.py": "old"}
        install(environment, build_wheel(home, "demo", "1", files=files))
        install(environment, build_wheel(home, "rest", "1", files={"deep/sub/rest.py": ""}))
        before = tree(environment.interpreter.prefix)
        read_only(environment.schemes.purelib / "deep" / "sub")
        with raises_code("environment-read-only") as excinfo:
            install(environment, build_wheel(home, "demo", "2", files=files | {"b.py": ""}))
        assert "nothing was changed" in str(excinfo.value.hint)
        after = tree(environment.interpreter.prefix)
        sub = environment.schemes.purelib.relative_to(environment.interpreter.prefix) / "deep/sub"
        assert {k: v for k, v in before.items() if k != str(sub)} == {
            k: v for k, v in after.items() if k != str(sub)
        }

    def test_proc(self, environment: Environment, home: Path, install: Install) -> None:
        """A file system that refuses, although permissions look right, is an error of ours."""
        if not Path("/proc/self").exists():
            pytest.skip("there is no /proc")
        target = open_environment(
            str(environment.interpreter.prefix), environ=os.environ, target=Path("/proc/wheelfit")
        )
        with pytest.raises(EnvironmentUnavailable):
            install(target, build_wheel(home, "demo", "1"))

    def test_managed(self, environment: Environment, home: Path, install: Install) -> None:
        """PEP 668: refused before the wheels are even opened."""
        managed = environment._replace(
            interpreter=environment.interpreter._replace(externally_managed="x")
        )
        with raises_code("externally-managed"):
            install(managed, build_wheel(home, "demo", "1"))
        install(managed, build_wheel(home, "demo", "1"), break_system_packages=True)
        assert managed.installed()

    def test_changed_since(
        self, environment: Environment, home: Path, install: Install, pin: Callable[..., Pin],
        tree: Tree,
    ) -> None:  # fmt: skip
        """A plan that does not fit any more is not applied."""
        wheel = build_wheel(home, "demo", "1")
        plan = Plan(install=(pin(wheel),))
        wheels = {parse_wheel_filename(wheel.name).name: unpack_wheel(wheel)}
        install(environment, build_wheel(home, "demo", "2"))
        before = tree(environment.interpreter.prefix)
        with pytest.raises(EnvironmentBusy, match="since the plan"):
            apply(plan, environment, wheels)
        stale = structs.replace(plan, remove=environment.installed())
        install(environment, build_wheel(home, "demo", "3"))
        with pytest.raises(EnvironmentBusy, match="since the plan"):
            apply(stale, environment, wheels)
        assert before.keys() != tree(environment.interpreter.prefix).keys()
        assert [str(entry) for entry in environment.installed()] == ["demo 3"]

    def test_interrupt(
        self, environment: Environment, home: Path, install: Install, tree: Tree
    ) -> None:
        """Ctrl-C while unpacking leaves the environment as it was."""

        class Interrupt(NoProgress):
            left = 1

            def advance(self, count: int) -> None:
                self.left -= min(count, 1)
                if not self.left:
                    raise KeyboardInterrupt

        install(environment, build_wheel(home, "demo", "1"))
        before = tree(environment.interpreter.prefix)
        with pytest.raises(KeyboardInterrupt):
            install(environment, build_wheel(home, "demo", "2"), progress=Interrupt())
        assert tree(environment.interpreter.prefix) == before

    def test_unknown_files(
        self, refused: Refused, environment: Environment, home: Path, install: Install
    ) -> None:
        """What cannot be removed cannot be replaced either."""
        install(environment, build_wheel(home, "demo", "1"))
        (environment.schemes.purelib / "demo-1.dist-info" / "RECORD").unlink()
        refused(build_wheel(home, "demo", "2"), error=NotRemovable)

    def test_new_target_goes_again(
        self, environment: Environment, home: Path, install: Install, tmp_path: Path
    ) -> None:
        """A target folder that was created for an installation that fails goes again."""
        target = open_environment(
            str(environment.interpreter.prefix), environ=os.environ, target=tmp_path / "x" / "y"
        )
        wheel = edit(build_wheel(home, "demo", "1"), {"demo/__init__.py": b"changed"})
        with pytest.raises(InvalidWheel):
            install(target, wheel)
        assert not (tmp_path / "x").exists()


@pytest.fixture
def small_venv(venv: Path, tmp_path: Path, small_disk: Callable[[Path, str], Path]) -> Path:
    """Return an environment in a file system with little space."""
    place = small_disk(tmp_path / "small", "2m") / "venv"
    return Path(shutil.copytree(venv, place, symlinks=True))


class TestNoSpace:
    """Full disks."""

    @pytest.mark.parametrize("size", [1_000_000, 1_600_000, 5_000_000])
    def test_full(
        self, small_venv: Path, home: Path, install: Install, tree: Tree, size: int
    ) -> None:
        """ENOSPC in the middle of an upgrade leaves the old version, whole."""
        environment = open_environment(str(small_venv), environ=os.environ)
        old = {"demo/data.bin": os.urandom(600_000), "demo/__init__.py": b"old"}
        install(environment, build_wheel(home, "demo", "1", files=old))
        before = tree(small_venv)
        new = {"aaa.py": b"", "demo/data.bin": os.urandom(size), "demo/__init__.py": b"new"}
        wheel = build_wheel(home, "demo", "2", files=new)
        if size < 1_300_000:
            install(environment, wheel)  # both fit at the same time
            return
        disk = f"space on the disk at {small_venv.parent}: .+ are needed and .+ are free"
        with pytest.raises(EnvironmentUnavailable, match=disk) as excinfo:
            install(environment, wheel)
        assert excinfo.value.exit_code == 6
        assert tree(small_venv) == before
