"""Claims about installations that are refused or fail: the environment stays as it was."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from error_codes import raises_code
from installation.bench import Bench, Install, Tree
from msgspec import structs

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.errors import EnvironmentBusy, NotRemovable
from wheelfit.installation.apply import apply
from wheelfit.installation.environment import Environment, open_environment
from wheelfit.installation.locking import locked
from wheelfit.installation.plan import Plan
from wheelfit.resolution.resolution import Pin
from wheelfit.sources.progress import Progress
from wheelfit.testing.wheels import add_member, release_document, unpack_wheel
from wheelfit.wheels.file_system import FileSystem
from wheelfit.wheels.record import format_record, parse_record, row_for
from wheelfit_runtime.errors import (
    EnvironmentUnavailable,
    IntegrityError,
    InvalidWheel,
    WheelfitError,
)

LEVELS = {"x86_64": {"level": ["v3", "v2"]}}
DOCUMENT = release_document(
    {"v2": {"x86_64": {"level": ["v2"]}}, "v3": {"x86_64": {"level": ["v3"]}}}, static=LEVELS
)


@pytest.fixture
def refused(bench: Bench) -> Callable[..., WheelfitError]:
    """Return a function that tries to install and checks that nothing changed.

    A sound wheel comes first, so that a late refusal would leave something.
    """
    first = bench.wheel("aaa", "1")

    def attempt(
        *paths: Path, error: type[WheelfitError] = IntegrityError, **options: object
    ) -> WheelfitError:
        with bench.untouched(), pytest.raises(error) as excinfo:
            bench.install(first, *paths, **options)
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

OUTSIDE = (
    "../evil.py",
    "demo/../../evil.py",
    "/tmp/evil.py",
    "demo-1.data/purelib/../../../evil.py",
    "demo-1.data/scripts/../evil",
    "demo-1.data/data/../../evil",
    "demo\\..\\evil.py",
    "C:/evil.py",
)
NO_SCHEMES = ("nowhere/x", "x", "scripts")
RECORDS = ("METADATA", "WHEEL", "RECORD")
FLIPPED = range(40, 20_000, 3999)


class TestHostileWheels:
    """Wheels that mean harm, or are damaged."""

    @pytest.mark.parametrize(
        ("changes", "is_honest", "message"),
        [
            *(({name: b"evil"}, True, "") for name in OUTSIDE),
            *(({f"demo-1.data/{name}": b""}, True, "no known scheme") for name in NO_SCHEMES),
            *(({"demo/__init__.py": data}, False, "") for data in (b"longer than before" * 9, b"")),
            ({"demo/more.py": b""}, False, "RECORD does not list 'demo/more.py'"),
            *(({f"demo-1.dist-info/{name}": None}, False, "") for name in RECORDS),
            (
                {"demo-1.dist-info/WHEEL": b"Wheel-Version: 2.0\nRoot-Is-Purelib: true\n"},
                True,
                "version",
            ),
        ],
        ids=str,
    )
    def test_edited(
        self,
        refused: Refused,
        bench: Bench,
        changes: Mapping[str, bytes | None],
        is_honest: bool,  # noqa: FBT001
        message: str,
    ) -> None:
        """A wheel is refused that leaves its place, breaks PEP 427 or lies in its RECORD."""
        error = refused(edit(bench.wheel("demo", "1"), changes, honest=is_honest))
        assert isinstance(error, InvalidWheel)
        assert message in error.message

    @pytest.mark.parametrize("name", ["python", "python3", "Python.exe", "python3.11"])
    def test_interpreter_as_script(self, refused: Refused, bench: Bench, name: str) -> None:
        """CVE-2026-8643: neither a script nor an entry point replaces the interpreter."""
        files = {f"demo-1.data/scripts/{name}": "#!/bin/sh\n"}
        assert "interpreter" in refused(bench.wheel("demo", "1", files=files)).message
        files = {f"demo-1.data/data/bin/{name}": "#!/bin/sh\n"}
        assert isinstance(refused(bench.wheel("demo", "1", files=files)), IntegrityError)
        points = {"console_scripts": {name: "demo:main"}}
        assert "interpreter" in refused(bench.wheel("d2", "1", entry_points=points)).message

    @pytest.mark.parametrize("name", ["bin/python", "pyvenv.cfg", "bin/activate"])
    def test_files_of_the_environment(
        self, refused: Refused, bench: Bench, venv: Path, name: str
    ) -> None:
        """The data scheme reaches the whole environment, but may not replace anything in it."""
        if not (venv / name).exists():
            pytest.skip(f"this environment has no {name}")
        files = {f"demo-1.data/data/{name}": "evil"}
        assert refused(bench.wheel("demo", "1", files=files)).exit_code == 4

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
    def test_workplace(self, refused: Refused, bench: Bench, name: str) -> None:
        """No wheel puts anything where changes of an environment are prepared."""
        error = refused(bench.wheel("demo", "1", files={name: ""}), replace=True)
        assert "changes of the environment are prepared" in error.message

    def test_entry_point_paths(self, refused: Refused, bench: Bench) -> None:
        """GHSA-4gg8-gxpx-9rph: an entry point is a name and no path."""
        points = {"console_scripts": {"../../evil": "demo:main"}}
        assert isinstance(refused(bench.wheel("demo", "1", entry_points=points)), InvalidWheel)

    def test_through_a_link(self, refused: Refused, bench: Bench, tmp_path: Path) -> None:
        """CVE-2026-34591: a link inside the environment does not lead a wheel out of it."""
        outside = tmp_path / "outside"
        outside.mkdir()
        (bench.site / "demo").symlink_to(outside)
        assert "by a link" in refused(bench.wheel("demo", "1")).message
        assert list(outside.iterdir()) == []

    def test_wrong_hash(self, refused: Refused, bench: Bench) -> None:
        """A file that is not what RECORD promises is refused, however late it comes."""
        files = {f"demo/{number}.py": "x" * 1000 for number in range(50)} | {"zzz.py": "x"}
        wheel = edit(bench.wheel("demo", "1", files=files), {"zzz.py": b"y"})
        error = refused(wheel)
        assert isinstance(error, InvalidWheel)
        assert "zzz.py" in error.message
        assert error.note is not None

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
    def test_weak_record(self, refused: Refused, bench: Bench, row: bytes, message: str) -> None:
        """Without a strong hash and a size nothing is verified, so it is refused."""
        wheel = bench.wheel("demo", "1")
        with zipfile.ZipFile(wheel) as archive:
            record = archive.read("demo-1.dist-info/RECORD").split(b"\n", 1)[1]
        wheel = edit(wheel, {"demo-1.dist-info/RECORD": row + b"\n" + record})
        error = refused(wheel)
        assert any(part in str(error) + str(error.note) for part in message.split("|"))

    def test_record_names_more(self, bench: Bench) -> None:
        """A row without a file does no harm: well-known wheels have such rows."""
        wheel = bench.wheel("demo", "1")
        with zipfile.ZipFile(wheel) as archive:
            record = archive.read("demo-1.dist-info/RECORD")
        bench.install(edit(wheel, {"demo-1.dist-info/RECORD": b"gone.py,sha256=abc,3\n" + record}))
        text = (bench.site / "demo-1.dist-info/RECORD").read_text()
        assert "gone.py" not in text

    @pytest.mark.parametrize(
        "damage",
        [
            *(
                lambda data, part=part: data[: len(data) * part // 1000]
                for part in (100, 500, 900, 999)
            ),
            *(
                lambda data, at=at: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                for at in FLIPPED
            ),
            lambda _: b"<html>not found</html>",
        ],
    )
    def test_damaged(
        self, refused: Refused, bench: Bench, damage: Callable[[bytes], bytes]
    ) -> None:
        """A wheel that was cut off or damaged, or is an error page, is refused."""
        wheel = bench.wheel("demo", "1", files={"demo/data.bin": os.urandom(20_000)})
        wheel.write_bytes(damage(wheel.read_bytes()))
        assert isinstance(refused(wheel), InvalidWheel)

    def test_files_of_installers(self, bench: Bench) -> None:
        """A wheel cannot bring the records that an installer writes."""
        evil = {
            f"demo-1.dist-info/{name}": b"{}"
            for name in ("INSTALLER", "REQUESTED", "direct_url.json", "wheelfit.json")
        }
        done = bench.install(edit(bench.wheel("demo", "1"), evil, honest=True))
        (entry,) = bench.environment.installed()
        assert (entry.installer, entry.requested, entry.direct_url) == ("wheelfit", False, None)
        assert len(done.notes) == 4


class TestDisagreement:
    """F-93: wheels that are not what was chosen."""

    @pytest.mark.parametrize(
        ("field", "text"),
        [("name", b"Name: other\nVersion: 1\n"), ("version", b"Name: demo\nVersion: 2\n")],
    )
    def test_identity(self, refused: Refused, bench: Bench, field: str, text: bytes) -> None:
        """METADATA must have the name and the version that were resolved."""
        wheel = bench.wheel("demo", "1")
        error = refused(edit(wheel, {"demo-1.dist-info/METADATA": text}, honest=True))
        assert error.reference == "metadata-disagreement"
        assert field in error.message

    def test_a_version_is_compared_by_value(self, bench: Bench) -> None:
        """PEP 440: 1 in the name and 1.0 in METADATA are one version."""
        text = {"demo-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"}
        bench.install(edit(bench.wheel("demo", "1"), text, honest=True))
        (entry,) = bench.environment.installed()
        assert str(entry) == "demo 1.0"

    def test_properties(self, refused: Refused, bench: Bench) -> None:
        """F-93: other properties than those that drove the selection are refused."""
        wheel = bench.wheel("demo", "1", label="v3", document=DOCUMENT)
        other = PropertySet.from_mapping({"x86_64": {"level": ["v2"]}})
        error = refused(wheel, properties=other)
        assert error.reference == "metadata-disagreement"
        assert "x86_64 :: level :: v2" in str(error.note)
        assert "x86_64 :: level :: v3" in str(error.note)

    def test_label(self, refused: Refused, bench: Bench) -> None:
        """F-24, F-93: the document is about the label of the file name and no other."""
        wheel = bench.wheel("demo", "1", label="v3", document=DOCUMENT)
        renamed = wheel.with_name(wheel.name.replace("v3", "v2"))
        wheel.rename(renamed)
        properties = PropertySet.from_mapping({"x86_64": {"level": ["v2"]}})
        error = refused(renamed, properties=properties)
        assert "the wheel of v2 describes v3" in error.message

    @pytest.mark.parametrize("document", [None, b"{}", b"", b'{"variants": 1}'])
    def test_no_document(self, refused: Refused, bench: Bench, document: bytes | None) -> None:
        """F-27: a label without a document that can be read is refused."""
        wheel = bench.wheel("demo", "1", label="v3", document=document)
        assert isinstance(refused(wheel, properties=EMPTY), InvalidWheel)


class TestConflicts:
    """What belongs to others is not overwritten."""

    def test_file_of_another(self, refused: Refused, bench: Bench) -> None:
        """Onnxruntime and onnxruntime-gpu: the second is refused, and the owner named."""
        bench.add("ort", "1", files={"ort/x.py": "cpu"})
        error = refused(bench.wheel("ort-gpu", "1", files={"ort/x.py": "gpu"}))
        assert error.reference == "file-conflict"
        assert "belongs to ort 1" in error.message
        assert "--replace-files" not in (error.hint or "")  # it would be of no use
        assert error.exit_code == 4

    def test_file_of_nobody(self, refused: Refused, bench: Bench) -> None:
        """A file that nobody installed is not lost either, unless the user says so."""
        (bench.site / "demo").mkdir()
        module = bench.site / "demo" / "__init__.py"
        module.write_text("mine")
        wheel = bench.wheel("demo", "1")
        error = refused(wheel)
        assert "no installed distribution" in error.message
        assert "--replace-files" in (error.hint or "")
        bench.install(wheel, replace=True)
        assert module.read_text() != "mine"

    def test_never_a_folder(self, bench: Bench) -> None:
        """Not even then does a file replace a folder."""
        (bench.site / "demo.py").mkdir()
        wheel = bench.wheel("demo", "1", files={"demo.py": ""})
        with raises_code("file-conflict"):
            bench.install(wheel, replace=True)

    def test_owned_files_stay(self, bench: Bench) -> None:
        """Leave to replace does not extend to what another distribution owns."""
        bench.add("a", "1", files={"m.py": "a"})
        with raises_code("file-conflict"):
            bench.install(bench.wheel("b", "1", files={"m.py": "b"}), replace=True)

    def test_script_of_another(self, refused: Refused, bench: Bench) -> None:
        """Scripts are files like others."""
        points = {"console_scripts": {"tool": "a:main"}}
        bench.add("a", "1", entry_points=points)
        points = {"console_scripts": {"tool": "b:main"}}
        assert "bin/tool" in refused(bench.wheel("b", "1", entry_points=points)).message

    def test_file_as_folder(self, refused: Refused, bench: Bench) -> None:
        """A module of one cannot become the package of another, nor the reverse."""
        bench.add("a", "1", files={"m": "file", "n/x.py": ""})
        assert refused(bench.wheel("b", "1", files={"m/x.py": ""})).reference == "file-conflict"
        assert refused(bench.wheel("c", "1", files={"n": ""})).reference == "file-conflict"

    def test_file_as_folder_in_another_spelling(
        self, refused: Refused, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where case is ignored, a file of another spelling is in the way too, and is named."""
        bench.add("a", "1", files={"M": ""})
        monkeypatch.setattr(FileSystem, "is_case_sensitive", lambda *_: False)
        error = refused(bench.wheel("b", "1", files={"m/sub/x.py": ""}))
        assert f"{bench.site / 'M'} belongs to a 1" in error.message

    @pytest.mark.parametrize("order", [1, -1])
    def test_file_as_folder_in_one_change(self, refused: Refused, bench: Bench, order: int) -> None:
        """Nor can that happen between two wheels of one change."""
        wheels = [
            bench.wheel("b", "1", files={"m": "file"}),
            bench.wheel("c", "1", files={"m/deep/x.py": ""}),
        ][::order]
        assert refused(*wheels).reference == "file-conflict"

    def test_file_becomes_folder(self, bench: Bench) -> None:
        """Within a distribution a file may become a folder, and the reverse."""
        bench.add("a", "1", files={"m": "", "n/x/y.py": ""})
        bench.add("a", "2", files={"m/x/y.py": "", "n": ""})
        assert (bench.site / "m/x/y.py").is_file()
        assert (bench.site / "n").is_file()

    def test_within_one_change(self, refused: Refused, bench: Bench) -> None:
        """Two wheels of one change cannot have different contents for one file."""
        wheels = [bench.wheel(name, "1", files={"m.py": name}) for name in "bc"]
        error = refused(*wheels)
        assert "is also in b-1-" in error.message
        assert "`--exclude c`" in str(error.hint)

    def test_same_content(self, bench: Bench) -> None:
        """Equal files do no harm: many distributions share an empty ``__init__.py``."""
        shared = {"tests/__init__.py": ""}
        bench.add("a", "1", files=shared | {"tests/a.py": ""})
        bench.install(
            bench.wheel("b", "1", files=shared | {"tests/b.py": ""}),
            bench.wheel("c", "1", files=shared | {"tests/c.py": ""}),
        )
        for name in "abc":
            text = (bench.site / f"{name}-1.dist-info/RECORD").read_text()
            assert "tests/__init__.py,sha256=" in text

    def test_all_are_named(self, refused: Refused, bench: Bench) -> None:
        """All conflicts of a wheel are counted, the first ones listed."""
        files = {f"m{number:02}.py": "a" for number in range(15)}
        bench.add("a", "1", files=files)
        files = dict.fromkeys(files, "b")
        note = refused(bench.wheel("b", "1", files=files)).note
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
        self, refused: Refused, bench: Bench, read_only: Callable[[Path], None]
    ) -> None:
        """So is a read-only folder of scripts, if there is a script to install."""
        read_only(bench.environment.schemes.scripts)
        points = {"console_scripts": {"tool": "a:main"}}
        error = refused(bench.wheel("demo", "1", entry_points=points), error=EnvironmentUnavailable)
        assert error.reference == "environment-read-only"

    def test_site_packages_is_a_file(self, refused: Refused, environment: Environment) -> None:
        """A file in the place of site-packages is named."""
        environment.schemes.purelib.rmdir()
        environment.schemes.purelib.write_text("")
        error = refused(error=EnvironmentUnavailable)
        assert error.reference == "environment-read-only"

    def test_denied_late(self, bench: Bench, read_only: Callable[[Path], None]) -> None:
        """What turns out to be unwritable in the middle of an upgrade undoes the upgrade."""
        files = {"aaa/x.py": "old", "deep/sub/x.py": "old"}
        bench.add("demo", "1", files=files)
        bench.add("rest", "1", files={"deep/sub/rest.py": ""})
        before = bench.tree()
        read_only(bench.site / "deep" / "sub")
        with raises_code("environment-read-only") as excinfo:
            bench.add("demo", "2", files=files | {"b.py": ""})
        assert "nothing was changed" in str(excinfo.value.hint)
        after = bench.tree()
        sub = bench.site.relative_to(bench.environment.interpreter.prefix) / "deep/sub"
        assert {k: v for k, v in before.items() if k != str(sub)} == {
            k: v for k, v in after.items() if k != str(sub)
        }

    def test_proc(self, bench: Bench, install: Install) -> None:
        """A file system that refuses, although permissions look right, is an error of ours."""
        if not Path("/proc/self").exists():
            pytest.skip("there is no /proc")
        target = bench.opened(target=Path("/proc/wheelfit"))
        with pytest.raises(EnvironmentUnavailable):
            install(target, bench.wheel("demo", "1"))

    def test_managed(self, bench: Bench, install: Install) -> None:
        """PEP 668: refused before the wheels are even opened."""
        managed = bench.environment._replace(
            interpreter=bench.environment.interpreter._replace(externally_managed="x")
        )
        with raises_code("externally-managed"):
            install(managed, bench.wheel("demo", "1"))
        install(managed, bench.wheel("demo", "1"), break_system_packages=True)
        assert managed.installed()

    def test_changed_since(self, bench: Bench, pin: Callable[..., Pin]) -> None:
        """A plan that does not fit any more is not applied."""
        wheel = bench.wheel("demo", "1")
        plan = Plan(install=(pin(wheel),))
        wheels = {parse_wheel_filename(wheel.name).name: unpack_wheel(wheel)}
        bench.add("demo", "2")
        before = bench.tree()
        with pytest.raises(EnvironmentBusy, match="since the plan"):
            apply(plan, bench.environment, wheels)
        stale = structs.replace(plan, remove=bench.environment.installed())
        bench.add("demo", "3")
        with pytest.raises(EnvironmentBusy, match="since the plan"):
            apply(stale, bench.environment, wheels)
        assert before.keys() != bench.tree().keys()
        assert [str(entry) for entry in bench.environment.installed()] == ["demo 3"]

    def test_interrupt(self, bench: Bench) -> None:
        """Ctrl-C while unpacking leaves the environment as it was."""

        class Interrupt(Progress):
            left = 1

            def advance(self, count: int) -> None:
                self.left -= min(count, 1)
                if not self.left:
                    raise KeyboardInterrupt

        bench.add("demo", "1")
        with bench.untouched(), pytest.raises(KeyboardInterrupt):
            bench.install(bench.wheel("demo", "2"), progress=Interrupt())

    def test_unknown_files(self, refused: Refused, bench: Bench) -> None:
        """What cannot be removed cannot be replaced either."""
        bench.add("demo", "1")
        (bench.site / "demo-1.dist-info" / "RECORD").unlink()
        refused(bench.wheel("demo", "2"), error=NotRemovable)

    def test_new_target_goes_again(self, bench: Bench, install: Install, tmp_path: Path) -> None:
        """A target folder that was created for an installation that fails goes again."""
        target = bench.opened(target=tmp_path / "x" / "y")
        wheel = edit(bench.wheel("demo", "1"), {"demo/__init__.py": b"changed"})
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
        self, small_venv: Path, bench: Bench, install: Install, tree: Tree, size: int
    ) -> None:
        """ENOSPC in the middle of an upgrade leaves the old version, whole."""
        environment = open_environment(str(small_venv), environ=os.environ)
        old = {"demo/data.bin": os.urandom(600_000), "demo/__init__.py": b"old"}
        install(environment, bench.wheel("demo", "1", files=old))
        before = tree(small_venv)
        new = {"aaa.py": b"", "demo/data.bin": os.urandom(size), "demo/__init__.py": b"new"}
        wheel = bench.wheel("demo", "2", files=new)
        if size < 1_300_000:
            install(environment, wheel)  # both fit at the same time
            return
        disk = f"space on the disk at {small_venv.parent}: .+ are needed and .+ are free"
        with pytest.raises(EnvironmentUnavailable, match=disk) as excinfo:
            install(environment, wheel)
        assert excinfo.value.exit_code == 6
        assert tree(small_venv) == before
