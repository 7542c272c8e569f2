"""Hints about environments and installed packages."""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import requires

from cli.hints.scene import Scene
from packaging.requirements import Requirement
from programs import run_program
from runtime.declaring import declare
from runtime.test_loading import World

from wheelfit.installation.environment_folders import WORKPLACE
from wheelfit.installation.locking import locked
from wheelfit.testing.binaries import elf_file
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.error_codes import CODES


def unusable_interpreter(scene: Scene) -> None:
    """Try another interpreter."""
    words = ("list", "--python", "/bin/false")
    scene.fails("unusable-interpreter", *words, advised="the path of an interpreter")
    scene.run("list", "--python", sys.executable)


def no_environment(scene: Scene) -> None:
    """Try an environment of one's own."""
    scene.fails("no-environment", "list", advised="`wheelfit venv`")
    scene.run("venv")
    scene.run("list")


def no_implementation(scene: Scene) -> None:
    """Try with the implementation that is named installed."""
    world = World(scene.folder)
    sm90 = {"implementation": "sm90", "install": "spam-sm90"}
    known = [{**sm90, "properties": ["nvidia :: sm_arch :: 90_real"]}]
    declare(world.site, "spam.json", {"schema": 1, "group": "spam", "known": known})
    scene.raises("no-implementation", world.chosen, advised="pip install spam-sm90")
    world.declare("spam-sm90", "nvidia :: sm_arch :: 90_real")
    assert world.chosen() == "spam_sm90"


def needs_extra(scene: Scene) -> None:
    """Try where the extra is installed, as here."""
    wheel = build_wheel(scene.folder, "native", "1.0", files={"native/x.so": elf_file()})
    words = ["wheel", "inspect", "--instructions", str(wheel)]
    program = (
        "import sys; sys.modules['iced_x86'] = None\n"
        f"from wheelfit.cli.main import main; sys.exit(main({words!r}))"
    )
    completed = run_program(sys.executable, "-c", program, code=CODES["needs-extra"].exit_code)
    assert "pip install ./runtime '.[build]'" in completed.stderr
    needs = [Requirement(text) for text in requires("wheelfit") or ()]
    (library,) = (one for one in needs if one.name == "iced-x86")
    assert library.marker is not None
    assert library.marker.evaluate({"extra": "build"})
    scene.run(*words)


def not_installed(scene: Scene) -> None:
    """Try the list of what is installed."""
    scene.install("some")
    place = ("--target", scene.target)
    scene.fails("not-installed", "uninstall", *place, "smoe", advised="`wheelfit list`")
    assert "some" in scene.run("list", *place).out
    scene.run("uninstall", *place, "some")


def not_removable(scene: Scene) -> None:
    """Try to delete its record, and to install it over its files."""
    scene.install("some")
    (record,) = scene.target.glob("some-*/RECORD")
    record.unlink()
    place = ("--target", scene.target)
    advised = "`wheelfit install --replace-files some`"
    scene.fails("not-removable", "uninstall", *place, "some", advised=advised)
    shutil.rmtree(record.parent)
    scene.install("--replace-files", "some")
    scene.run("uninstall", *place, "some")


def link_refused(scene: Scene) -> None:
    """Try without the link."""
    link = scene.target / "bin"
    scene.target.mkdir()
    link.symlink_to(scene.folder)
    scene.refuses("link-refused", "some", advised="remove the link")
    link.unlink()
    scene.install("some")


def file_conflict(scene: Scene) -> None:
    """Try without the other package, which is new or installed."""
    build_wheel(scene.wheels, "twin", "1.0", files={"some/__init__.py": "twin"})
    build_wheel(scene.wheels, "first", "1.0", files={"some/__init__.py": "first"})
    both = ("first", "twin")
    scene.refuses("file-conflict", *both, advised="`--exclude twin` leaves this one out")
    scene.install(*both, "--exclude", "twin")
    scene.refuses("file-conflict", "twin", advised="uninstall the package that owns it")
    scene.run("uninstall", "--target", scene.target, "first")
    scene.install("twin")


def startup_file(scene: Scene) -> None:
    """Try with a warning, for a package that is trusted."""
    build_wheel(scene.wheels, "starter", "1.0", files={"starter.pth": "import os\n"})
    words = ("--startup-files", "deny", "starter")
    scene.refuses("startup-file", *words, advised="--startup-files warn")
    scene.install("--startup-files", "warn", "starter")


def environment_busy(scene: Scene) -> None:
    """Try again when the other process has finished."""
    scene.target.mkdir()
    with locked(scene.target):
        scene.refuses("environment-busy", "some", advised="try again when it has finished")
    scene.install("some")


def environment_read_only(scene: Scene) -> None:
    """Try without the file that is in the way."""
    scene.target.mkdir()
    file = scene.target / "bin"
    file.touch()
    build_wheel(scene.wheels, "tool", "1.0", entry_points={"console_scripts": {"tool": "tool:x"}})
    scene.refuses("environment-read-only", "tool", advised="move the file away")
    file.rename(scene.folder / "away")
    scene.install("tool")


def not_recoverable(scene: Scene) -> None:
    """Try without the journal that came from elsewhere."""
    workplace = scene.target / WORKPLACE
    workplace.mkdir(parents=True)
    (workplace / "folders").write_text('{"workplaces": [], "made": {}}')
    error = scene.refuses("not-recoverable", "some", advised="delete it if")
    shutil.rmtree(error["where"])
    scene.install("some")


def refused(scene: Scene) -> None:
    """Try the place that pip is told, said to wheelfit too."""
    scene.given.setenv("PIP_TARGET", str(scene.target))
    words = ("install", *scene.sources(), "some")
    place = ("--target", scene.target)
    advised = " ".join(map(str, place))
    scene.fails("refused", *words, "--python", sys.executable, advised=advised)
    scene.run(*words, *place)


def externally_managed(scene: Scene) -> None:
    """Try a virtual environment."""
    words = ("install", *scene.sources(), "some", "--python")
    python = scene.fixture("managed")
    scene.fails("externally-managed", *words, python, advised="virtual environment")
    scene.run("venv", scene.folder / "environment")
    scene.run(*words, scene.folder / "environment")


def no_consent(scene: Scene) -> None:
    """Try with consent."""
    scene.given.setenv("WHEELFIT_PROVIDERS_FILE", str(scene.folder / "providers.toml"))
    words = ("providers", "trust", *scene.sources(), "some")
    scene.fails("no-consent", *words, advised="--yes")
    scene.run(*words, "--yes")


def own_requirement(scene: Scene) -> None:
    """Try a folder of one's own."""
    build_wheel(scene.wheels, "packaging", "1.0")
    words = ("install", *scene.sources(), "packaging==1.0", "--dry-run")
    own = ("--python", sys.executable)
    scene.fails("own-requirement", *words, *own, advised="--target")
    scene.run(*words, "--target", scene.target)


def unusable_policy(scene: Scene) -> None:
    """Try with a policy where the variable says."""
    path = scene.folder / "policy.toml"
    scene.given.setenv("WHEELFIT_POLICY_FILE", str(path))
    scene.refuses("unusable-policy", "some", advised="WHEELFIT_POLICY_FILE")
    path.write_text("version = 1\n")
    scene.install("some")


def pinned_elsewhere(scene: Scene) -> None:
    """Try with an index that is named."""
    scene.given.chdir(scene.folder)
    pins = '[tool.wheelfit.sources]\nsome = { index = "own" }\n'
    (scene.folder / "pyproject.toml").write_text(pins)
    words = ("install", "some", "--target", scene.target)
    scene.fails("pinned-elsewhere", *words, advised="-i URL")
    with RecordingIndex(scene.wheels) as index:
        scene.run(*words, "-i", index.url)


PLAYS = (
    pinned_elsewhere,
    unusable_interpreter,
    no_environment,
    no_implementation,
    needs_extra,
    not_installed,
    not_removable,
    link_refused,
    file_conflict,
    startup_file,
    environment_busy,
    environment_read_only,
    not_recoverable,
    refused,
    externally_managed,
    no_consent,
    own_requirement,
    unusable_policy,
)
"""The plays of this module; each has the name of its code."""
