"""Claims about removing distributions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from error_codes import raises_code
from installation.bench import Bench, Install, Pip, Tree
from packaging.utils import canonicalize_name

from wheelfit.errors import NotRemovable
from wheelfit.installation.apply import Applied
from wheelfit.installation.environment import Environment
from wheelfit.installation.installed import Installed
from wheelfit.installation.uninstall import uninstall
from wheelfit.wheels.file_system import FileSystem

EVERYTHING = {
    "demo/__init__.py": "",
    "demo/sub/x.py": "",
    "top.py": "",
    "demo-1.data/scripts/tool": "#!python\n",
    "demo-1.data/data/share/demo/x.txt": "x",
    "demo-1.data/headers/demo.h": "h",
}


def remove(environment: Environment, *names: str, **options: bool) -> Applied:
    """Uninstall by name."""
    return uninstall([canonicalize_name(name) for name in names], environment, **options)


def add_rows(environment: Environment, *rows: str) -> None:
    """Add rows to the RECORD of demo 1."""
    with (environment.schemes.purelib / "demo-1.dist-info/RECORD").open("a") as stream:
        stream.writelines(f"{row},,\n" for row in rows)


class Crossed(Environment):
    """An environment in which another process acts as soon as somebody has looked at it."""

    act: Callable[[], object] | None = None

    def installed(self) -> tuple[Installed, ...]:
        """Look, and let the other one act."""
        found = super().installed()
        act, Crossed.act = Crossed.act, None
        if act is not None:
            act()
        return found


class TestRemoved:
    """What goes."""

    def test_another_was_faster(self, bench: Bench) -> None:
        """What another process upgraded meanwhile goes all the same; what it removed is gone."""
        bench.add("demo", "1")
        crossed = Crossed(*bench.environment)
        Crossed.act = lambda: bench.add("demo", "2")
        assert [str(entry) for entry in remove(crossed, "demo").removed] == ["demo 2"]
        assert bench.environment.installed() == ()
        bench.add("demo", "1")
        Crossed.act = lambda: remove(bench.environment, "demo")
        with raises_code("not-installed"):
            remove(crossed, "demo")

    def test_everything(self, bench: Bench) -> None:
        """Everything that was installed goes, folders and bytecode too."""
        bench.environment.schemes.headers.mkdir(parents=True)  # the five places themselves stay
        before = bench.tree()
        points = {"console_scripts": {"hello": "demo:main"}}
        wheel = bench.wheel("demo", "1", files=EVERYTHING, entry_points=points)
        bench.install(wheel, compile_bytecode=True)
        (bench.site / "demo/__pycache__/__init__.other.opt-1.pyc").write_bytes(b"")
        done = remove(bench.environment, "demo")
        assert [str(entry) for entry in done.removed] == ["demo 1"]
        assert done.notes == ()
        assert bench.tree() == before

    def test_dry_run(self, bench: Bench) -> None:
        """A dry run says what would go, or why it cannot, and changes nothing."""
        bench.add("demo", "1")
        before = bench.tree()
        assert [str(one) for one in remove(bench.environment, "demo", dry_run=True).removed] == [
            "demo 1"
        ]
        assert bench.tree() == before
        (bench.site / "demo-1.dist-info" / "RECORD").unlink()
        with pytest.raises(NotRemovable):
            remove(bench.environment, "demo", dry_run=True)

    def test_several(self, bench: Bench) -> None:
        """Several at once; names are normalised, others stay."""
        bench.install(*(bench.wheel(name, "1") for name in ("A.b", "c", "d")))
        remove(bench.environment, "a-B", "D")
        assert [entry.name for entry in bench.environment.installed()] == ["c"]

    def test_of_pip(self, bench: Bench, pip: Pip) -> None:
        """What pip installed goes as completely."""
        bench.environment.schemes.headers.mkdir(parents=True)  # the five places themselves stay
        before = bench.tree()
        points = {"console_scripts": {"hello": "demo:main"}}
        wheel = bench.wheel("demo", "1", files=EVERYTHING, entry_points=points)
        python = bench.environment.interpreter.executable
        assert pip("--python", python, "install", "--no-index", wheel).returncode == 0
        remove(bench.environment, "demo")
        assert bench.tree() == before

    def test_editable(self, environment: Environment, tree: Tree) -> None:
        """PEP 660: an editable installation has a RECORD and goes like others."""
        site = environment.schemes.purelib
        before = tree(environment.interpreter.prefix)
        (site / "__editable__.demo.pth").write_text("/src\n")
        info = site / "demo-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: demo\nVersion: 1\n")
        url = '{"url": "file:///src", "dir_info": {"editable": true}}'
        (info / "direct_url.json").write_text(url)
        (info / "RECORD").write_text("__editable__.demo.pth,,\ndemo-1.dist-info/RECORD,,\n")
        assert environment.installed()[0].editable
        remove(environment, "demo")
        assert tree(environment.interpreter.prefix) == before

    def test_two_of_one_name(self, environment: Environment) -> None:
        """What an interrupted upgrade of another tool left behind goes as well."""
        site = environment.schemes.purelib
        for version in "12":
            info = site / f"demo-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Name: demo\nVersion: {version}\n")
            (info / "RECORD").write_text("")
        assert len(remove(environment, "demo").removed) == 2
        assert list(site.iterdir()) == []


class TestStays:
    """GHSA-pjjw-68hj-v9mw: what RECORD may say, and what is done."""

    @pytest.fixture(autouse=True)
    def demo(self, bench: Bench) -> None:
        """Install demo 1."""
        bench.add("demo", "1")

    @pytest.mark.parametrize("absolute", [False, True])
    @pytest.mark.parametrize("kind", ["file", "folder", "link"])
    def test_outside(
        self, environment: Environment, tmp_path: Path, tree: Tree, kind: str, *, absolute: bool
    ) -> None:
        """A row that leads out of the environment is an error that names it, not followed."""
        victim = tmp_path / "victim"
        if kind == "file":
            victim.write_text("precious")
        elif kind == "folder":
            victim.mkdir()
        else:
            victim.symlink_to("nowhere")
        path = victim if absolute else os.path.relpath(victim, environment.schemes.purelib)
        add_rows(environment, str(path))
        before = tree(tmp_path)
        with pytest.raises(NotRemovable, match=f"RECORD lists {victim}") as excinfo:
            remove(environment, "demo")
        assert "delete that row" in (excinfo.value.hint or "")
        assert tree(tmp_path) == before

    def test_nothing_outside(self, environment: Environment) -> None:
        """Rows that name nothing, as pip writes them with --target, hinder nobody; it is said."""
        add_rows(environment, "../../../../../bin/no-such-command")
        done = remove(environment, "demo")
        (note,) = done.notes
        assert "no-such-command, which lies outside the environment and does not exist" in note
        assert not environment.installed()

    def test_sibling(self, environment: Environment) -> None:
        """GHSA-6vgw-5pg2-w6jp: a folder whose name merely begins alike is outside."""
        sibling = environment.interpreter.prefix.with_name(
            environment.interpreter.prefix.name + "-other"
        )
        sibling.mkdir()
        (sibling / "x").write_text("precious")
        add_rows(environment, f"../../../../{sibling.name}/x")
        with pytest.raises(NotRemovable, match="outside the environment"):
            remove(environment, "demo")
        assert (sibling / "x").exists()

    def test_through_a_link(self, environment: Environment, tmp_path: Path) -> None:
        """A link inside the environment does not lead the removal out of it."""
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "x").write_text("precious")
        (environment.schemes.purelib / "link").symlink_to(tmp_path / "out")
        add_rows(environment, "link/x")
        with pytest.raises(NotRemovable, match="outside the environment"):
            remove(environment, "demo")
        assert (tmp_path / "out" / "x").exists()

    def test_link_itself(self, environment: Environment, tmp_path: Path) -> None:
        """A recorded link goes, what it leads to stays."""
        (tmp_path / "out").mkdir()
        (environment.schemes.purelib / "link").symlink_to(tmp_path / "out")
        add_rows(environment, "link")
        remove(environment, "demo")
        assert not (environment.schemes.purelib / "link").is_symlink()
        assert (tmp_path / "out").is_dir()

    def test_workplace(self, environment: Environment) -> None:
        """A distribution cannot take away what changes of the environment are prepared with."""
        add_rows(environment, ".wheelfit.locking", ".wheelfit-change/folders")
        done = remove(environment, "demo")
        assert len([note for note in done.notes if "changes of the environment" in note]) == 2

    @pytest.mark.parametrize(
        "name", ["bin/python", "bin/python3", "pyvenv.cfg", "bin/activate", "pip.conf", "uv.toml"]
    )
    def test_environment_itself(self, environment: Environment, name: str) -> None:
        """A distribution cannot take the environment's own files with it, nor its settings."""
        if name in ("pip.conf", "uv.toml"):
            (environment.interpreter.prefix / name).touch()
        add_rows(environment, f"../../../{name}")
        done = remove(environment, "demo")
        assert os.path.lexists(environment.interpreter.prefix / name)
        assert len(done.notes) == 1

    def test_records_of_others(self, bench: Bench) -> None:
        """Neither another's records nor files that another has too are removed."""
        bench.add("other", "1")
        add_rows(bench.environment, "other-1.dist-info/METADATA", "other/__init__.py")
        done = remove(bench.environment, "demo")
        assert (bench.site / "other-1.dist-info/METADATA").exists()
        assert (bench.site / "other/__init__.py").exists()
        assert len(done.notes) == 2

    def test_shared(self, bench: Bench) -> None:
        """A file that two distributions brought stays until the last one goes."""
        wheels = [bench.wheel(name, "1", files={"s/__init__.py": ""}) for name in "ab"]
        bench.install(*wheels)
        shared = bench.site / "s" / "__init__.py"
        remove(bench.environment, "a")
        assert shared.exists()
        remove(bench.environment, "b")
        assert not shared.parent.exists()

    def test_shared_in_another_spelling(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where case is ignored, a file that another distribution spells otherwise stays."""
        bench.add("crypto", "1", files={"crypto/x.py": "", "crypto/own.py": ""})
        bench.add("pycrypto", "1", files={"Crypto/X.py": ""})
        monkeypatch.setattr(FileSystem, "is_case_sensitive", lambda *_: False)
        done = remove(bench.environment, "crypto")
        assert [path.name for path in (bench.site / "crypto").iterdir()] == ["x.py"]
        assert done.notes == (
            f"{bench.site / 'crypto/x.py'} stays: another distribution has it too",
        )

    def test_bytecode_of_shared_modules(self, bench: Bench) -> None:
        """The bytecode of a module that stays, which its other owner may record, stays too."""
        wheels = [bench.wheel(name, "1", files={"s/x.py": "", f"s/{name}.py": ""}) for name in "ab"]
        bench.install(*wheels, compile_bytecode=True)
        tag = bench.environment.interpreter.cache_tag
        remove(bench.environment, "a")
        bytecode = {path.name for path in (bench.site / "s/__pycache__").iterdir()}
        assert bytecode == {f"x.{tag}.pyc", f"b.{tag}.pyc"}

    def test_folder_row(self, environment: Environment) -> None:
        """A row that names a folder removes nothing but what is recorded inside it."""
        (environment.schemes.purelib / "demo" / "mine.txt").write_text("mine")
        add_rows(environment, "demo", "..", ".")
        remove(environment, "demo")
        assert (environment.schemes.purelib / "demo" / "mine.txt").exists()

    def test_gone_already(self, environment: Environment) -> None:
        """A recorded file that does not exist any more is not an error."""
        (environment.schemes.purelib / "demo" / "__init__.py").unlink()
        remove(environment, "demo")
        assert not environment.installed()


class TestRefused:
    """What is not removed, with the reason."""

    def test_not_installed(self, bench: Bench) -> None:
        """If one of them is not there, none is removed."""
        bench.add("demo", "1")
        with raises_code("not-installed", match="other is not installed"):
            remove(bench.environment, "demo", "other")
        assert bench.environment.installed()

    @pytest.mark.parametrize(
        ("by", "hint"),
        [
            ("debian", "remove it with debian"),
            ("pip", "`wheelfit install --replace-files demo`"),
            ("wheelfit", "delete the folder demo-1.dist-info, then"),
        ],
    )
    def test_no_record(self, bench: Bench, by: str, hint: str) -> None:
        """Without RECORD nobody knows what to remove; the tool that can, if any, is named."""
        bench.add("demo", "1")
        info = bench.site / "demo-1.dist-info"
        (info / "RECORD").unlink()
        (info / "INSTALLER").write_text(f"{by}\n")
        with pytest.raises(NotRemovable, match="no RECORD") as excinfo:
            remove(bench.environment, "demo")
        assert hint in str(excinfo.value.hint)

    @pytest.mark.parametrize("record", [b"a,b\n", b"\xff,,\n", b'"a,,\n'])
    def test_bad_record(self, bench: Bench, record: bytes) -> None:
        """A RECORD that cannot be read is as good as none."""
        bench.add("demo", "1")
        (bench.site / "demo-1.dist-info" / "RECORD").write_bytes(record)
        with pytest.raises(NotRemovable, match="RECORD"):
            remove(bench.environment, "demo")

    def test_unreadable_record(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is removed if this user may not read RECORD."""
        bench.add("demo", "1")

        def refuse(path: Path) -> bytes:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(NotRemovable, match="RECORD cannot be read: Permission denied"):
            remove(bench.environment, "demo")
        assert (bench.site / "demo-1.dist-info").is_dir()

    def test_legacy(self, environment: Environment) -> None:
        """What distutils installed can be listed and not removed."""
        path = environment.schemes.purelib / "demo-1.egg-info"
        path.write_text("Name: demo\nVersion: 1\n")
        with pytest.raises(NotRemovable, match="did not record"):
            remove(environment, "demo")

    def test_outside(self, bench: Bench, tmp_path: Path, install: Install) -> None:
        """What belongs to the base of the environment is not removed through it."""
        base = bench.opened(target=tmp_path / "base")
        install(base, bench.wheel("demo", "1"))
        both = bench.environment._replace(search=(*bench.environment.search, tmp_path / "base"))
        with pytest.raises(NotRemovable, match="visible in this environment"):
            remove(both, "demo")
        assert base.installed()

    def test_managed(self, bench: Bench) -> None:
        """PEP 668 protects from removing too."""
        bench.add("demo", "1")
        managed = bench.environment._replace(
            interpreter=bench.environment.interpreter._replace(externally_managed="x")
        )
        with raises_code("externally-managed"):
            remove(managed, "demo")
        remove(managed, "demo", break_system_packages=True)
        assert not bench.environment.installed()

    def test_denied_late(self, bench: Bench, read_only: Callable[[Path], None]) -> None:
        """If one file cannot be removed, all come back."""
        files = {"aaa/x.py": "", "zzz/x.py": ""}
        bench.add("demo", "1", files=files)
        read_only(bench.site / "zzz")
        with bench.untouched(), raises_code("environment-read-only"):
            remove(bench.environment, "demo")
