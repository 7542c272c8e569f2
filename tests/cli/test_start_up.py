"""Which modules commands import: what a command does without is what makes it quick.

No time is measured here, `benchmarks/start_up.py` does that. If a test fails because of a module
that a command cannot do without, allow it: take its name from the forbidden ones, or raise the
number of modules. If it can do without, import it where it is needed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import time
from dataclasses import replace
from pathlib import Path

import pytest

from wheelfit.server.folder import FolderIndex
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Request, Response
from wheelfit.testing.wheels import build_release, build_wheel, release_document

DOCUMENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)
PROGRAM = """
import sys
from wheelfit.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as ended:
    code = ended.code
print(code, *sys.modules, file=sys.stderr)
"""

NEVER = {
    "asyncio", "ctypes", "email", "http", "http.client", "multiprocessing",
    "unittest", "xml", "sqlite3", "importlib.metadata", "pkg_resources", "setuptools", "zipfile",
    "rich", "truststore", "urllib3", "tomli_w", "installer", "ssl", "socket", "pydoc",
    "hashlib", "isal", "shlex", "dataclasses",
}  # fmt: skip
"""Nothing that only looks needs these, nor does an installation that is resolved from the cache."""
LITTLE = NEVER | {
    "packaging", "msgspec", "nab_resolver", "filelock", "json", "tempfile", "subprocess",
    "logging", "platform", "concurrent.futures", "tomli", "decimal",
}  # fmt: skip
"""Help and the like need none of these either."""
THIRD_PARTY = {
    "packaging", "msgspec", "nab_resolver", "filelock", "tomli", "tomli_w", "urllib3", "rich",
}  # fmt: skip
"""What may be broken where something is repaired."""
CHANGING = {
    "wheelfit.installation.apply", "wheelfit.installation.transaction",
    "wheelfit.installation.checked_wheel",
    "wheelfit.wheels.unpacking", "wheelfit.wheels.archive", "wheelfit.wheels.remote",
    "wheelfit.sources.downloads", "wheelfit.sources.segmented_download",
    "wheelfit.sources.delta_download",
    "wheelfit.sources.urllib3_transport", "wheelfit.sources.html_links",
    "wheelfit.sources.cache_inventory",
    "wheelfit.wheels.unpacked", "wheelfit.core.tag_phrases", "tempfile", "shutil", "csv",
    "wheelfit.projects.backend", "wheelfit.doctor", "wheelfit.locking", "wheelfit.building",
    "wheelfit.server", "packaging.requirements", "packaging.markers", "packaging.metadata",
}  # fmt: skip
"""What only changes something, or only goes on the network."""
VARIED = {
    "wheelfit.core.metadata", "wheelfit.core.variant_json_layouts", "wheelfit.checking",
    "wheelfit.installation.removal",
}  # fmt: skip
"""What is needed where there are variants, or where something goes."""
DETECTING = {
    "wheelfit_runtime.platforms.system_view", "wheelfit_runtime.platforms.child_processes",
    "wheelfit_runtime.platforms.cache",
    "wheelfit_runtime.platforms.providers.nvidia.provider",
    "wheelfit_runtime.platforms.providers.nvidia.library",
    "wheelfit_runtime.platforms.providers.nvidia.tables", "wheelfit_runtime.platforms.facts",
}  # fmt: skip
"""What only finds out about hardware."""


RESOLVING = {
    "wheelfit.resolution.resolver", "wheelfit.resolution.solver", "wheelfit.locking.locking",
    "wheelfit.locking.solving", "nab_resolver", "email", "importlib.metadata", "zipfile", "rich",
    "urllib3", "ssl", "http", "socket", "asyncio", "tomli_w", "tempfile",
    "dataclasses", "packaging.pylock", "packaging.markers",
}  # fmt: skip
"""What a lock needs no more once it is known that nothing has changed."""


LOCKED = {"wheelfit.locking", "wheelfit.core.metadata", "wheelfit.core.variant_json_layouts"}
"""What reads a lock."""


class FreshFolderIndex:
    """A folder index with fresh pages."""

    def __init__(self, folder: Path) -> None:
        self._inner = FolderIndex(folder)

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        answer = self._inner(request)
        return replace(answer, headers={**answer.headers, "cache-control": "max-age=3000"})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a folder with a filled cache, and the URL of an index that is no longer needed."""
    folder = tmp_path_factory.mktemp("start-up")
    build_release(folder / "index", "varied", "1.0", DOCUMENT, ["mkl"])
    build_wheel(folder / "index", "plain", "1.0", requires=["needed>=1"])
    build_wheel(folder / "index", "needed", "1.0")
    with LoopbackServer(FreshFolderIndex(folder / "index")) as server:
        url = f"{server.origin}/simple/"
        imported_modules(folder, "install", "-i", url, "--target", folder / "installed", "plain")
        imported_modules(
            folder, "install", "-i", url, "--dry-run", "--target", folder / "t", "plain"
        )
        imported_modules(
            folder, "install", "-i", url, "--dry-run", "--target", folder / "t", "varied"
        )
        imported_modules(folder, "lock", "-i", url, "-o", folder / "pylock.toml", "plain")
        words = (folder / "pylock.toml", "--target", folder / "installed")
        imported_modules(folder, "sync", *words)
    return folder, url


def imported_modules(folder: Path, *words: str | Path) -> set[str]:
    """Return the modules that a command imports, in a separate process without ``.pth`` files."""
    repository = Path(__file__).parents[2]
    own = [str(repository / "src"), str(repository / "runtime" / "src")]
    paths = [sysconfig.get_path("purelib"), *own]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PIP_CONFIG_FILE": os.devnull,
        "WHEELFIT_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join(reversed(paths)),
    }
    completed = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=folder,  # a checkout may have a .venv
        env=environ,
    )
    assert completed.returncode == 0, completed.stderr
    code, *names = completed.stderr.splitlines()[-1].split()
    assert code in ("0", "None"), completed.stderr
    return set(names)


def module_count(names: set[str]) -> int:
    """Return the number of modules of wheelfit, without the records of families of hardware."""
    family = re.compile(r"wheelfit_runtime\.platforms\.providers\.\w+(\.record)?")
    return sum(name.startswith("wheelfit") and not family.fullmatch(name) for name in names)


MOST = 177
"""Modules of wheelfit for one plain wheel."""
COMMANDS: dict[str, tuple[list[str], set[str], int]] = {
    # What is run, what it must not import, and how many modules of wheelfit it may.
    "version": (["--version"], LITTLE, 13),
    "help": (["--help"], LITTLE, 14),
    "help of install": (["install", "--help"], LITTLE, 34),
    "cache dir": (["cache", "dir"], LITTLE | CHANGING, 31),
    "recover": (["recover", "--target", "{folder}"], THIRD_PARTY, 73),
    "list": (["list", "--target", "{folder}"], NEVER | CHANGING | DETECTING, 69),
    "check": (
        ["check", "--binaries", "{folder}/index/plain-1.0-py3-none-any.whl"],
        {
            "wheelfit.checking.documents.document",
            "wheelfit.core.project_table",
            "wheelfit.wheels.binaries.instructions",
            "tomllib",
            "tempfile",
            "importlib.resources",
        },
        137,
    ),
    "satisfied": (
        ["install", "--dry-run", "plain", "-i", "{url}", "--target", "{folder}/installed"],
        NEVER | CHANGING | DETECTING | VARIED,
        172,
    ),
    "resolved": (
        ["install", "--dry-run", "plain", "--target", "{folder}/t", "-i", "{url}"],
        NEVER | CHANGING | DETECTING | VARIED,
        MOST,
    ),
    "resolved, with variants": (
        ["install", "--dry-run", "varied", "--target", "{folder}/t", "-i", "{url}"],
        NEVER | CHANGING | {"wheelfit_runtime.platforms.providers.nvidia.provider"},
        191,
    ),
    "synchronised": (
        ["sync", "{folder}/pylock.toml", "--target", "{folder}/installed"],
        RESOLVING | CHANGING - LOCKED | DETECTING | VARIED - LOCKED,
        182,
    ),
    "lock, unchanged": (
        ["lock", "--check", "plain", "-o", "{folder}/pylock.toml", "-i", "{url}"],
        RESOLVING | DETECTING,
        170,
    ),
}


@pytest.mark.integration
def test_cached_interpreter(place: tuple[Path, str], tmp_path: Path) -> None:
    """A known interpreter of another environment is not started again."""
    folder, url = place
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    python.symlink_to(base)
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    time.sleep(2.1)  # what was made just now is not remembered
    words = ("install", "--dry-run", "-i", url, "--python", python, "plain")
    imported_modules(folder, *words)
    names = imported_modules(folder, *words)
    assert {"wheelfit.installation.known_interpreters", "wheelfit.sources.cache"} <= names
    # Only where something is written does the store import this.
    assert sorted((NEVER | CHANGING | DETECTING | VARIED) & names) == []
    assert module_count(names) <= MOST, sorted(names)


@pytest.mark.parametrize("what", COMMANDS)
def test_imports_of_each_command(what: str, place: tuple[Path, str]) -> None:
    """A command imports no slow module that it does not need."""
    folder, url = place
    words, forbidden, most = COMMANDS[what]
    names = imported_modules(folder, *(word.format(folder=folder, url=url) for word in words))
    assert sorted(forbidden & names) == []
    assert module_count(names) <= most, sorted(names)


@pytest.mark.integration
def test_imports_of_a_download(place: tuple[Path, str]) -> None:
    """The forbidden modules are imported where they are needed."""
    folder, _ = place
    with LoopbackServer(FolderIndex(folder / "index")) as server:
        url = f"{server.origin}/simple/"
        names = imported_modules(
            folder, "install", "-i", url, "--target", folder / "new", "--no-cache-dir", "plain"
        )
    assert {"urllib3", "ssl", "wheelfit.installation.apply", "wheelfit.wheels.unpacking"} <= names
