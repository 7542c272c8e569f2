"""Claims about what an installation leaves in an environment."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from error_codes import raises_code
from installation.bench import Bench, Install, Pip

from wheelfit.core.properties import PropertySet
from wheelfit.errors import EnvironmentBusy
from wheelfit.installation.apply import Applied, PlanOutdated, apply
from wheelfit.installation.environment_folders import LOCK_FILE, WORKPLACE, EnvironmentFolders
from wheelfit.installation.journal import mark_of
from wheelfit.installation.plan import plan
from wheelfit.installation.uninstall import uninstall
from wheelfit.resolution.resolution import Pin, Resolution
from wheelfit.testing.file_systems import (
    CaseInsensitiveFileSystem,
    FullFileSystem,
    WindowsLikeFileSystem,
)
from wheelfit.testing.wheels import build_wheel, release_document, unpack_wheel
from wheelfit.wheels.file_system import NATIVE
from wheelfit_runtime.errors import EnvironmentUnavailable

if TYPE_CHECKING:
    from wheelfit.installation.environment import Environment

MakePin = Callable[..., Pin]

LEVELS = {"x86_64": {"level": ["v3", "v2"]}}
DOCUMENT = release_document(
    {"v2": {"x86_64": {"level": ["v2"]}}, "v3": {"x86_64": {"level": ["v3"]}}, "null": {}},
    static=LEVELS,
)


def run(environment: Environment, *arguments: str) -> str:
    """Run the interpreter of an environment, or one of its scripts."""
    scripts = environment.schemes.scripts
    first = scripts / (arguments[0] if arguments else "python")
    completed = subprocess.run(
        [first, *arguments[1:]], capture_output=True, check=True, text=True, cwd=scripts
    )
    return completed.stdout.strip()


def check_record(environment: Environment, dist_info: str) -> dict[str, str]:
    """Check RECORD against the files, by simple means, and return path to hash."""
    site = environment.schemes.purelib
    with (site / dist_info / "RECORD").open(newline="") as stream:
        rows = list(csv.reader(stream))
    found = {}
    for path, digest, size in rows:
        content = (site / path).read_bytes()
        found[path] = digest
        if path == f"{dist_info}/RECORD":
            assert (digest, size) == ("", "")
            continue
        expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
        assert digest == "sha256=" + expected.rstrip("="), path
        assert size == str(len(content)), path
    return found


class TestPlainWheel:
    """An ordinary wheel."""

    def test_files(self, bench: Bench) -> None:
        """PEP 376: files are there, RECORD names each with its hash, INSTALLER names us."""
        bench.add("Foo.Bar", "1.0")
        site = bench.site
        assert run(
            bench.environment, "python", "-c", "import foo_bar; print(foo_bar.__version__)"
        ) == ("1.0")
        assert (site / "foo_bar-1.0.dist-info/INSTALLER").read_text() == "wheelfit\n"
        assert set(check_record(bench.environment, "foo_bar-1.0.dist-info")) == {
            "foo_bar/__init__.py",
            *(
                f"foo_bar-1.0.dist-info/{name}"
                for name in ("METADATA", "WHEEL", "INSTALLER", "RECORD", "wheelfit.json")
            ),
        }
        assert sorted(path.name for path in site.iterdir()) == ["foo_bar", "foo_bar-1.0.dist-info"]

    def test_listed(self, bench: Bench) -> None:
        """It is found again, with everything that was recorded."""
        wheel = bench.wheel("demo", "1.0")
        bench.install(wheel, requested=True)
        (entry,) = bench.environment.installed()
        assert (entry.name, str(entry.version), entry.label) == ("demo", "1.0", None)
        assert entry.requested
        assert entry.installer == "wheelfit"
        assert entry.hashes == {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}

    def test_not_requested(self, bench: Bench) -> None:
        """REQUESTED is written only for what the user asked for."""
        bench.add("demo", "1.0")
        assert not bench.environment.installed()[0].requested

    def test_direct_url(self, bench: Bench) -> None:
        """PEP 610: a wheel named by the user leaves direct_url.json with its hash."""
        wheel = bench.wheel("demo", "1.0")
        bench.install(wheel, is_direct=True)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        content = json.loads((bench.site / "demo-1.0.dist-info/direct_url.json").read_bytes())
        assert content == {
            "archive_info": {"hash": f"sha256={digest}", "hashes": {"sha256": digest}},
            "url": wheel.as_uri(),
        }
        check_record(bench.environment, "demo-1.0.dist-info")

    def test_modes(self, bench: Bench) -> None:
        """Files follow the umask; what is executable in the wheel is executable."""
        files = {"demo/__init__.py": "", "demo/tool": "#!/bin/sh\n"}
        bench.add("demo", "1", files=files, executables=["demo/tool"])
        umask = os.umask(0)
        os.umask(umask)
        site = bench.site
        assert stat.S_IMODE((site / "demo/__init__.py").stat().st_mode) == 0o666 & ~umask
        assert stat.S_IMODE((site / "demo/tool").stat().st_mode) == 0o777 & ~umask
        assert stat.S_IMODE((site / "demo").stat().st_mode) == 0o777 & ~umask

    def test_many(self, bench: Bench, pip: Pip) -> None:
        """Several wheels are one change; pip is content with the result."""
        wheels = [
            bench.wheel("a", "1", requires=["b>=1"]),
            bench.wheel("b", "1"),
            bench.wheel("c", "1", tag="py3-none-linux_x86_64"),
        ]
        done = bench.install(*wheels)
        assert [one.name for one in done.installed] == ["a", "b", "c"]
        python = bench.environment.interpreter.executable
        listed = json.loads(pip("--python", python, "list", "--format=json").stdout)
        assert [(e["name"], e["version"]) for e in listed] == [("a", "1"), ("b", "1"), ("c", "1")]
        checked = pip("--python", python, "check")
        assert checked.returncode == 0, checked.stdout

    def test_nothing_to_do(self, bench: Bench) -> None:
        """An empty plan changes nothing at all."""
        before = bench.tree()
        assert bench.install() == Applied()
        assert bench.tree() == before

    def test_progress(self, bench: Bench) -> None:
        """The bytes unpacked are reported, and add up to what was announced at least."""

        class Bar:
            total = seen = 0
            ended = False

            def start(self, total: int | None) -> None:
                self.total = total or 0

            def advance(self, count: int) -> None:
                self.seen += count

            def done(self) -> None:
                self.ended = True

        bar = Bar()
        bench.install(bench.wheel("demo", "1"), progress=bar)
        assert bar.ended
        assert bar.seen >= bar.total > 0

    def test_nested_and_odd_names(self, bench: Bench) -> None:
        """Commas, quotes, blanks and letters of any script survive in RECORD."""
        files = {
            "demo/a,b.txt": "x",
            'demo/"q".txt': "y",
            "demo/ä/日本 語.txt": "z",
            "demo/x/y/z.py": "",
        }
        bench.add("demo", "1", files=files)
        assert files.keys() <= check_record(bench.environment, "demo-1.dist-info").keys()

    def test_nothing_is_executed(self, bench: Bench, tmp_path: Path) -> None:
        """CVE-2026-6357: nothing that was installed runs, not even while compiling bytecode."""
        trap = f"open({str(tmp_path / 'trapped')!r}, 'w').close()\n"
        files = {
            "demo.pth": f"import sys; {trap}",
            "demo/__init__.py": trap,
            "sitecustomize.py": trap,
            "compileall.py": trap,
            "packaging/__init__.py": trap,
        }
        done = bench.install(bench.wheel("demo", "1", files=files), compile_bytecode=True)
        bench.environment.installed()
        assert not (tmp_path / "trapped").exists()
        assert any("demo.pth" in note for note in done.notes)
        assert any("sitecustomize.py" in note for note in done.notes)


class TestVariantWheel:
    """A wheel with a label."""

    def test_label(self, bench: Bench, pip: Pip) -> None:
        """F-96: label and properties are recorded and found again; pip is content."""
        bench.add("demo", "1.0", label="v3", document=DOCUMENT)
        (entry,) = bench.environment.installed()
        assert entry.label == "v3"
        assert entry.properties == PropertySet.from_mapping({"x86_64": {"level": ["v3"]}})
        assert (entry.path / "variant.json").is_file()
        assert str(entry) == "demo 1.0 (v3)"
        check_record(bench.environment, "demo-1.0.dist-info")
        assert pip("--python", bench.environment.interpreter.executable, "check").returncode == 0

    def test_null(self, bench: Bench) -> None:
        """F-6: the null variant is a variant."""
        bench.add("demo", "1.0", label="null", document=DOCUMENT)
        assert bench.environment.installed()[0].label == "null"

    def test_markers(self, bench: Bench, pip: Pip) -> None:
        """F-103, F-107: variant markers are resolved, so that every tool can read METADATA."""
        requires = [
            'a; variant_label == "v3"',
            'b; "x86_64 :: level :: v2" in variant_properties',
            'c; extra == "x" and "x86_64" in variant_namespaces',
            'd; python_version < "3" or variant_label == "other"',
            "e>=1",
        ]
        wheel = bench.wheel(
            "demo",
            "1",
            label="v3",
            document=DOCUMENT,
            requires=requires,
            description="Requires-Dist: in the text; variant_label stays\n",
        )
        others = [bench.wheel(name, "1") for name in "ae"]
        bench.install(wheel, *others)
        (entry,) = (one for one in bench.environment.installed() if one.name == "demo")
        text = (entry.path / "METADATA").read_text()
        head, _, body = text.partition("\n\n")
        assert [line for line in head.splitlines() if line.startswith("Requires-Dist")] == [
            "Requires-Dist: a",
            'Requires-Dist: c; extra == "x"',
            'Requires-Dist: d; python_version < "3"',
            "Requires-Dist: e>=1",
        ]
        assert body == "Requires-Dist: in the text; variant_label stays\n"
        check_record(bench.environment, "demo-1.dist-info")
        python = bench.environment.interpreter.executable
        checked = pip("--python", python, "check")
        assert checked.returncode == 0, checked.stdout + checked.stderr

    def test_markers_filtered(self, bench: Bench) -> None:
        """F-103: only values the machine supports count."""
        document = release_document({"fat": LEVELS}, static=LEVELS)
        wheel = bench.wheel(
            "demo",
            "1",
            label="fat",
            document=document,
            requires=[f'{v}; "x86_64 :: level :: {v}" in variant_properties' for v in ("v2", "v3")],
        )
        supported = PropertySet.from_mapping({"x86_64": {"level": ["v2"]}})
        bench.install(wheel, supported=supported)
        (requirement,) = bench.environment.installed()[0].metadata().requires
        assert requirement.name == "v2"

    def test_markers_in_a_plain_wheel(self, bench: Bench) -> None:
        """F-104: in a plain wheel the label is empty and the sets are."""
        requires = ['a; variant_label == ""', 'b; "x86_64" in variant_namespaces']
        bench.add("demo", "1", requires=requires)
        (requirement,) = bench.environment.installed()[0].metadata().requires
        assert str(requirement) == "a"
        check_record(bench.environment, "demo-1.dist-info")

    def test_another_variant(self, bench: Bench) -> None:
        """Another label of the same version replaces the first as a whole."""
        v2 = bench.wheel("demo", "1", label="v2", document=DOCUMENT, files={"demo/v2.py": ""})
        v3 = bench.wheel("demo", "1", label="v3", document=DOCUMENT, files={"demo/v3.py": ""})
        bench.install(v2)
        done = bench.install(v3)
        assert [entry.label for entry in done.removed] == ["v2"]
        assert [entry.label for entry in bench.environment.installed()] == ["v3"]
        assert [path.name for path in (bench.site / "demo").iterdir()] == ["v3.py"]


class TestSchemes:
    """Where the parts of .data go."""

    FILES = {  # noqa: RUF012
        "demo.py": "def main():\n    print('hello')\n    return 3\n",
        "demo-1.data/scripts/tool": "#!python\nprint('tool')\n",
        "demo-1.data/scripts/shell": "#!/bin/sh\necho shell\n",
        "demo-1.data/data/share/demo/x.txt": "x",
        "demo-1.data/headers/demo.h": "h",
        "demo-1.data/purelib/pure.py": "",
        "demo-1.data/platlib/plat.py": "",
    }

    def test_places(self, bench: Bench) -> None:
        """PEP 427: each part goes to its place, RECORD finds it from site-packages."""
        executables = ["demo-1.data/scripts/tool", "demo-1.data/scripts/shell"]
        bench.add("demo", "1", files=self.FILES, executables=executables)
        prefix = bench.environment.interpreter.prefix
        headers = bench.environment.schemes.headers / "demo" / "demo.h"
        assert (prefix / "share/demo/x.txt").read_text() == "x"
        assert headers.read_text() == "h"
        for module in ("demo", "pure", "plat"):
            assert (bench.site / f"{module}.py").is_file()
        assert run(bench.environment, "tool") == "tool"
        assert run(bench.environment, "shell") == "shell"
        recorded = check_record(bench.environment, "demo-1.dist-info")
        assert {"../../../bin/tool", "../../../share/demo/x.txt"} <= recorded.keys()

    @pytest.mark.parametrize("content", ["x = 1\n", ""])
    def test_file_in_both_places(self, bench: Bench, content: str) -> None:
        """A file in the root and again in its scheme's folder in .data is installed once."""
        files = {"demo/x.py": content, "demo-1.data/purelib/demo/x.py": content}
        bench.add("demo", "1", files={**files, "demo-1.data/purelib/demo/y.py": ""})
        assert (bench.site / "demo/x.py").read_text() == content
        assert (bench.site / "demo/y.py").is_file()
        record = (bench.site / "demo-1.dist-info/RECORD").read_text()
        assert [line.count("demo/x.py") for line in record.splitlines()].count(1) == 1
        check_record(bench.environment, "demo-1.dist-info")

    def test_shebang(self, bench: Bench) -> None:
        """PEP 427: ``#!python`` becomes the interpreter; other first lines stay.

        Such a script is executable, even if its wheel was built on Windows.
        """
        bench.add("demo", "1", files=self.FILES)
        scripts = bench.environment.schemes.scripts
        python = bench.environment.interpreter.executable
        assert (scripts / "tool").read_text() == f"#!{python}\nprint('tool')\n"
        assert run(bench.environment, "tool") == "tool"
        assert (scripts / "shell").read_text() == "#!/bin/sh\necho shell\n"

    def test_console_script(self, bench: Bench) -> None:
        """An entry point becomes a script that calls the function with its own status."""
        wheel = bench.wheel(
            "demo", "1", files=self.FILES, entry_points={"console_scripts": {"hello": "demo:main"}}
        )
        bench.install(wheel)
        completed = subprocess.run(
            [bench.environment.schemes.scripts / "hello"],
            capture_output=True,
            check=False,
            text=True,
        )
        assert (completed.stdout, completed.returncode) == ("hello\n", 3)
        assert "../../../bin/hello" in check_record(bench.environment, "demo-1.dist-info")

    def test_script_in_both_groups(self, bench: Bench) -> None:
        """A command that is a console script and a program with windows is installed once."""
        points = {"console_scripts": {"hello": "demo:main"}, "gui_scripts": {"hello": "demo:main"}}
        bench.install(bench.wheel("demo", "1", files=self.FILES, entry_points=points))
        assert (bench.environment.schemes.scripts / "hello").is_file()
        check_record(bench.environment, "demo-1.dist-info")

    def test_wrapper_in_the_wheel(self, bench: Bench) -> None:
        """A script in the wheel of the same name as an entry point gives way to it."""
        wheel = bench.wheel(
            "demo", "1", files=self.FILES, entry_points={"console_scripts": {"tool": "demo:main"}}
        )
        bench.install(wheel)
        assert "from demo import main" in (bench.environment.schemes.scripts / "tool").read_text()

    def test_bytecode(self, bench: Bench) -> None:
        """Compiling is optional; tracebacks name the final place."""
        files = {"demo/__init__.py": "def f(): 1/0\n", "top.py": "", "demo/bad.py": "print 1"}
        bench.install(bench.wheel("demo", "1", files=files), compile_bytecode=True)
        site = bench.site
        tag = bench.environment.interpreter.cache_tag
        assert (site / f"demo/__pycache__/__init__.{tag}.pyc").is_file()
        assert (site / f"__pycache__/top.{tag}.pyc").is_file()
        assert not list(site.glob(f"demo/__pycache__/bad.{tag}.pyc"))
        command = "import demo; print(demo.f.__code__.co_filename, demo.__cached__)"
        code, cached = run(bench.environment, "python", "-B", "-c", command).split()
        assert code == str(site / "demo/__init__.py")
        assert Path(cached).is_file()
        check_record(bench.environment, "demo-1.dist-info")

    def test_bytecode_in_the_wheel(self, bench: Bench) -> None:
        """Bytecode that a wheel brings could be anything; it is left out and named."""
        files = {"demo.py": "", "__pycache__/demo.cpython-311.pyc": "evil"}
        done = bench.add("demo", "1", files=files)
        assert not (bench.site / "__pycache__").exists()
        assert any("bytecode" in note for note in done.notes)


class TestReplacement:
    """What was there before."""

    def test_upgrade(self, bench: Bench) -> None:
        """An upgrade leaves nothing of the old version, its bytecode included."""
        old = {"demo/__init__.py": "", "demo/gone.py": "", "demo/sub/x.py": "", "top.py": ""}
        bench.install(bench.wheel("demo", "1", files=old), compile_bytecode=True)
        done = bench.add("demo", "2")
        assert [str(entry) for entry in done.removed] == ["demo 1"]
        site = bench.site
        assert sorted(path.name for path in site.iterdir()) == ["demo", "demo-2.dist-info"]
        assert [path.name for path in (site / "demo").iterdir()] == ["__init__.py"]

    def test_bytecode_of_the_old(self, bench: Bench) -> None:
        """Stale bytecode in a folder that stays does not stop the new one."""
        site = bench.site
        tag = bench.environment.interpreter.cache_tag
        (site / "__pycache__").mkdir()
        (site / f"__pycache__/top.{tag}.pyc").write_bytes(b"stale")
        bench.install(bench.wheel("demo", "1", files={"top.py": ""}), compile_bytecode=True)
        assert (site / f"__pycache__/top.{tag}.pyc").read_bytes() != b"stale"

    def test_same_again(self, bench: Bench) -> None:
        """The same wheel again is kept, unless a reinstallation is asked for."""
        wheel = bench.wheel("demo", "1")
        bench.install(wheel)
        assert bench.install(wheel) == Applied()
        module = bench.site / "demo/__init__.py"
        before = bench.tree()
        module.write_text("changed")
        assert bench.install(wheel, reinstall=True).removed
        assert bench.tree() == before

    def test_files_of_the_user(self, bench: Bench) -> None:
        """A file that somebody put into a package survives an upgrade."""
        bench.add("demo", "1")
        (bench.site / "demo" / "mine.txt").write_text("mine")
        bench.add("demo", "2")
        assert (bench.site / "demo" / "mine.txt").read_text() == "mine"

    def test_what_pip_installed(self, bench: Bench, pip: Pip) -> None:
        """What pip installed is replaced, and pip uninstalls what was installed here."""
        old, new = bench.wheel("demo", "1"), bench.wheel("demo", "2")
        python = bench.environment.interpreter.executable
        empty = sorted(bench.site.iterdir())
        assert pip("--python", python, "install", "--no-index", old).returncode == 0
        bench.install(new)
        assert [str(entry) for entry in bench.environment.installed()] == ["demo 2"]
        done = pip("--python", python, "uninstall", "-y", "demo")
        assert done.returncode == 0, done.stderr
        assert sorted(bench.site.iterdir()) == empty

    def test_moves_between_distributions(self, bench: Bench) -> None:
        """A module may move from one distribution to another in one change."""
        bench.add("a", "1", files={"m.py": "a"})
        bench.install(
            bench.wheel("a", "2", files={"n.py": "a"}), bench.wheel("b", "1", files={"m.py": "b"})
        )
        assert (bench.site / "m.py").read_text() == "b"


class TestOtherFileSystems:
    """Environments in file systems unlike this machine's."""

    def test_case_of_a_name(self, bench: Bench) -> None:
        """Where case is ignored, an upgrade may change that of a module."""
        disk = CaseInsensitiveFileSystem()
        files = {"Single.py": "1", "same.py": "1"}
        bench.install(bench.wheel("demo", "1", files=files), file_system=disk)
        files = {"single.py": "2", "same.py": "2"}
        bench.install(bench.wheel("demo", "2", files=files), file_system=disk)
        site = bench.site
        assert {path.name for path in site.glob("*.py")} == {"single.py", "same.py"}
        with raises_code("file-conflict", match="belongs to demo 2"):
            bench.install(bench.wheel("other", "1", files={"SAME.py": "x"}), file_system=disk)

    @pytest.mark.parametrize("path", ["SAME.py", "Lib/x.py", "LIB"])
    def test_case_in_two_wheels(self, bench: Bench, path: str) -> None:
        """Where case is ignored, names that differ in it alone are one file."""
        one = bench.wheel("one", "1", files={"same.py": "1", "lib/X.py": "1"})
        two = bench.wheel("two", "1", files={path: "2"})
        with raises_code("file-conflict", match="is also in one-1"), bench.untouched():
            bench.install(one, two, file_system=CaseInsensitiveFileSystem())

    def test_composed_letters(self, bench: Bench) -> None:
        """Where case is ignored, letters that compose only in lower case are equal as well."""
        disk = CaseInsensitiveFileSystem()
        lower, upper = "\u0390.py", "\u03aa\u0301.py"
        bench.install(bench.wheel("demo", "1", files={lower: "1"}), file_system=disk)
        with raises_code("file-conflict", match="belongs to demo 1"):
            bench.install(bench.wheel("other", "1", files={upper: "2"}), file_system=disk)

    def test_without_exchange(self, bench: Bench) -> None:
        """As on Windows, old and new change places in two steps."""
        disk = WindowsLikeFileSystem()
        for version in ("1", "2"):
            bench.install(bench.wheel("demo", version), file_system=disk)
        (entry,) = bench.environment.installed()
        assert str(entry) == "demo 2"
        assert run(bench.environment, "python", "-c", "import demo; print(demo.__version__)") == "2"

    def test_no_room(self, bench: Bench) -> None:
        """A disk that becomes full before the change is made leaves everything as it was."""
        bench.add("demo", "1")
        before = bench.tree()
        for after in range(6):
            with pytest.raises(EnvironmentUnavailable, match="space") as excinfo:
                bench.install(bench.wheel("demo", "2"), file_system=FullFileSystem(after))
            assert excinfo.value.exit_code == 6
            assert bench.tree() == before


class TestOthersAtWork:
    """Other processes that change the environment, now or before."""

    def abandon(self, environment: Environment) -> Path:
        """Leave what a process leaves that is killed while it unpacks."""
        stage = environment.schemes.purelib / WORKPLACE / "new-abcdefgh"
        stage.mkdir(parents=True)
        (stage / "big.so").write_text("big")
        stage.parent.chmod(0o700)
        places = EnvironmentFolders.of(environment.schemes, environment.signer)
        with NATIVE.limited_to([places.library]) as disk:
            (stage.parent / mark_of(places, places.workplace, disk)).touch()
        return stage.parent

    def test_what_a_killed_process_left(self, bench: Bench) -> None:
        """The next installation removes what was only unpacked, and says so."""
        left = self.abandon(bench.environment)
        applied = bench.add("demo", "1")
        assert applied.notes == ("files that an interrupted change had prepared were removed",)
        assert not left.exists()

    def test_nothing_is_removed_without_the_lock(self, bench: Bench) -> None:
        """Where there are no locks, another process may still be filling it, and is waited for."""
        left = self.abandon(bench.environment)
        (bench.site / LOCK_FILE).mkdir()  # so that none can be made
        with pytest.raises(EnvironmentBusy) as excinfo:
            bench.install(bench.wheel("demo", "1"), lock_timeout=0.1)
        assert "wheelfit recover" in str(excinfo.value.hint)
        assert (left / "new-abcdefgh" / "big.so").exists()

    @pytest.mark.parametrize("change", ["appears", "goes", "is replaced", "is not kept"])
    def test_a_plan_that_was_crossed(self, change: str, bench: Bench, pin: MakePin) -> None:
        """What the plan replaces, removes or relies on must be as it was; else nothing is done."""
        old, new, rest = (bench.wheel(*w) for w in (("a", "1"), ("a", "2"), ("b", "1")))
        bench.install(rest, *([] if change == "appears" else [old]))
        kept = [one.for_resolver() for one in bench.environment.installed() if one.name == "b"]
        made = plan(Resolution((pin(new),), kept=tuple(kept)), bench.environment.installed())
        if change == "goes":
            uninstall(["a"], bench.environment)  # type: ignore[list-item]
        elif change == "is not kept":
            uninstall(["b"], bench.environment)  # type: ignore[list-item]
        else:
            bench.add("a", "1.5")
        before = [str(entry) for entry in bench.environment.installed()]
        with pytest.raises(PlanOutdated, match="changed since"):
            apply(made, bench.environment, {made.install[0].name: unpack_wheel(new)})
        assert [str(entry) for entry in bench.environment.installed()] == before


class TestOtherPythons:
    """Environments of other interpreters."""

    @pytest.mark.integration
    @pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
    def test_foreign(self, version: str, home: Path, tmp_path: Path, install: Install) -> None:
        """A wheel installed for another Python works there, its scripts and bytecode too."""
        from wheelfit.installation.environment import open_environment

        pythons = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        if not pythons:
            pytest.skip(f"unknown Python version {version}")
        subprocess.run([pythons[0], "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
        environment = open_environment(str(tmp_path / "v"), environ=os.environ)
        wheel = build_wheel(
            home, "demo", "1", files=TestSchemes.FILES,
            entry_points={"console_scripts": {"hello": "demo:main"}},
        )  # fmt: skip
        install(environment, wheel, compile_bytecode=True)
        command = "import demo, sys; print(demo.__cached__, *sys.version_info[:2], sep='\\n')"
        cached, major, minor = run(environment, "python", "-c", command).split("\n")
        assert f"{major}.{minor}" == version
        assert Path(cached).is_file()
        with pytest.raises(subprocess.CalledProcessError, match="status 3"):
            run(environment, "hello")
