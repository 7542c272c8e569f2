"""Find and fetch wheels of libraries: with the user's installer, else with the standard library.

The installer is configured with indexes, proxies and logins. pip reports its choice with ``install
--dry-run --report``, and fetches it with ``download --require-hashes``. uv has no command to
download: it writes its choice to a lock, and the files are fetched over HTTPS.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, NoReturn, Protocol
from urllib.parse import unquote, urlsplit

from wheelfit_runtime.errors import IntegrityError, NetworkError, NoCompatibleWheel, UserError
from wheelfit_runtime.libraries import settings
from wheelfit_runtime.libraries.listings import read_lock
from wheelfit_runtime.libraries.machine import Machine, is_compatible
from wheelfit_runtime.libraries.versions import Requirement, normalized
from wheelfit_runtime.libraries.wheels import ListedWheel
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.child_processes import Answer, Ending, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit_runtime.libraries.progress import Progress
    from wheelfit_runtime.libraries.transport_http import HttpTransport


_RESOLUTION_DEADLINE = 600.0
_DOWNLOAD_DEADLINE = 6 * 3600.0
"""Seconds of a download; pip itself gives up if a server is silent."""
_MAX_NOTE_LINES = 12
_MAX_LINE_LENGTH = 500
_SKIPPED = "Could not fetch URL "
"""The text in pip's log about an index that it skips."""
_MISSING_PROJECT = ("404 Client Error", "410 Client Error")
_NOT_FOR_PIP = (
    *("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_NO_DEPS", "PIP_REQUIRE_HASHES"),
    *("PIP_QUIET", "PIP_VERBOSE", "PYTHONWARNINGS"),
)
_LOGIN = pattern(r"://[^/@\s]+@")
_NOT_QUERIED = "could not be queried"
"""The text in uv's message about an index that refuses a request."""
_FETCH_AHEAD = "fetch ahead where there is a network: python -m wheelfit_runtime store prefetch"
_NOTHING_FITS = ("No matching distribution", "no versions of", "No solution found")


class Transport(Protocol):
    """A finder and fetcher of wheels; the caller verifies the fetched files."""

    def resolve(
        self, requirements: Sequence[Requirement], machine: Machine, progress: Progress
    ) -> list[ListedWheel]:
        """Return the wheels that satisfy requirements, including those of their extras."""
        ...

    def fetch(self, wheel: ListedWheel, folder: str, progress: Progress) -> str:
        """Write a wheel into a folder and return its path.

        :raises NetworkError: the wheel is not available.
        :raises IntegrityError: its hash is wrong or unknown.
        """
        ...


def transport_for(name: str | None, index_url: str | None, environ: Mapping[str, str]) -> Transport:
    """Return the transport: the user's installer, else the standard library.

    :param name: ``pip``, ``uv`` or ``http``; None: the first available one.
    :param index_url: the index; None: as the installer is configured.
    :raises UserError: the named transport is not available.
    """
    from wheelfit_runtime.libraries.transport_http import HttpTransport

    if name not in (None, *settings.TRANSPORTS):
        raise UserError(
            f"unknown transport {name!r}", note="known: " + ", ".join(settings.TRANSPORTS)
        )
    pip = find_pip(sys.executable, is_frozen=settings.is_frozen()) if name != "http" else None
    if pip and name in (None, "pip"):
        return PipTransport(pip, environ, index_url)
    uses_uv = name in (None, "uv") and not settings.is_frozen()
    uv = find_uv(sys.executable, environ) if uses_uv else None
    http = HttpTransport(index_url or settings.usual_index(environ), environ)
    if uv:
        return UvTransport(uv, environ, http, index_url, python=sys.executable)
    if name in ("pip", "uv"):
        raise UserError(
            f"{name} was not found", hint="use the transport http, which needs no program"
        )
    return http


def find_pip(executable: str | None, *, is_frozen: bool) -> str | None:
    """Return the interpreter if it has pip, else None.

    :param executable: ``sys.executable``: the application itself if it is frozen; may be empty in
        an embedded Python.
    """
    return executable if _is_python(executable) and not is_frozen and find_spec("pip") else None


def _is_python(executable: str | None) -> bool:
    name = os.path.basename(executable or "").lower()  # noqa: PTH119
    return name.startswith(("python", "pypy"))


def find_uv(executable: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the path of uv; None if it is not installed."""
    own_folders = [str(Path(executable).parent)] if executable else []
    return which("uv", path=os.pathsep.join([*own_folders, environ.get("PATH", "")]))


class PipTransport:
    """A transport through pip.

    :param index_url: the index; None: as pip is configured.
    """

    def __init__(
        self, python: str, environ: Mapping[str, str], index_url: str | None = None
    ) -> None:
        # -P: files in the current folder must not shadow modules.
        self._pip = (python, "-P", "-m", "pip")
        # Settings for the user's environments do not apply to a store.
        own_settings = {
            "PIP_REQUIRE_VIRTUALENV": "0",
            "PIP_USER": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        if index_url:  # not as an argument, since every user can read those with the login
            own_settings["PIP_INDEX_URL"] = index_url
        self._environ = {
            name: value for name, value in environ.items() if name not in _NOT_FOR_PIP
        } | own_settings
        self._options = ("--no-input", "--only-binary=:all:", "--progress-bar=off")

    def resolve(
        self, requirements: Sequence[Requirement], machine: Machine, progress: Progress
    ) -> list[ListedWheel]:
        """Return the wheels that pip chooses for requirements."""
        del machine  # pip detects it
        with progress.during("resolving with pip"), tempfile.TemporaryDirectory() as temporary:
            report = Path(temporary, "report.json")
            self._call(
                "find",
                *("install", "--dry-run", "--ignore-installed", "--report", str(report)),
                *map(str, requirements),
                folder=temporary,
            )
            text = report.read_text("utf-8")
        try:
            wheels = []
            for item in json.loads(text)["install"]:
                download = item["download_info"]
                hashes = download.get("archive_info", {}).get("hashes", {})
                wheels.append(
                    ListedWheel(
                        project=normalized(item["metadata"]["name"]),
                        version=item["metadata"]["version"],
                        filename=unquote(urlsplit(download["url"]).path.rpartition("/")[2]),
                        url=download["url"],
                        sha256=hashes.get("sha256", "").lower(),
                    )
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NetworkError(f"the report of pip cannot be read: {error}") from None
        return wheels

    def fetch(self, wheel: ListedWheel, folder: str, progress: Progress) -> str:
        """Download a wheel with pip into a folder and return its path.

        :raises IntegrityError: no wheel has the promised hash.
        :raises NetworkError: pip fails otherwise.
        """
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            requirements_file = Path(temporary) / "requirements.txt"
            requirements_file.write_text(
                f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8"
            )
            with progress.during(f"fetching {wheel.project} {wheel.version} with pip"):
                self._call(
                    "fetch",
                    *("download", "--no-deps", "--require-hashes", "--dest", temporary),
                    *("--requirement", str(requirements_file)),
                    folder=temporary,
                )
            files = list(Path(temporary).glob("*.whl"))
            if len(files) != 1:
                raise NetworkError(f"pip fetched {len(files)} files instead of one wheel")
            path = Path(folder) / "wheel.part"
            files[0].replace(path)
        return str(path)

    def _call(self, verb: str, command: str, *arguments: str, folder: str) -> None:
        """Run pip.

        :param verb: the verb of error messages: ``find`` or ``fetch``.
        :param folder: the folder for its temporary files, which may be as large as the wheels.
        """
        log = Path(folder, "log")
        answer = run(
            (*self._pip, command, "--quiet", "--log", str(log), *self._options, *arguments),
            environ={**self._environ, "TMPDIR": folder},
            deadline=_DOWNLOAD_DEADLINE,
        )
        if not answer.succeeded:
            _raise_failure(answer, "pip", verb, _skipped_indexes(log))


class UvTransport:
    """A transport that resolves with uv, and fetches the wheels over HTTPS.

    :param index_url: the index; None: as uv is configured.
    :param python: the interpreter to resolve for; uv finds one if this is None or not a Python.
    """

    def __init__(
        self,
        program: str,
        environ: Mapping[str, str],
        http: HttpTransport,
        index_url: str | None = None,
        *,
        python: str | None = None,
    ) -> None:
        self._program = program
        self._python = ("--python", str(python)) if _is_python(python) else ()
        self._environ = {**environ, **({"UV_DEFAULT_INDEX": index_url} if index_url else {})}
        self._http = http

    def resolve(
        self, requirements: Sequence[Requirement], machine: Machine, progress: Progress
    ) -> list[ListedWheel]:
        """Return the wheels that uv chooses for requirements."""
        with tempfile.TemporaryDirectory() as temporary:
            requirements_file = Path(temporary, "requirements.in")
            lock = Path(temporary, "pylock.toml")
            requirements_file.write_text(
                "".join(f"{requirement}\n" for requirement in requirements), encoding="utf-8"
            )
            # uv reads indexes and an interpreter from the nearest uv.toml above the current folder,
            # which may belong to another user.
            Path(temporary, "uv.toml").touch()
            arguments = (
                *(self._program, "--directory", temporary, "pip", "compile", "--quiet"),
                *("--format", "pylock.toml", "--no-header", "--only-binary", ":all:"),
                *self._python,
                *("--output-file", str(lock), str(requirements_file)),
            )
            with progress.during("resolving with uv"):
                answer = run(arguments, environ=self._environ, deadline=_RESOLUTION_DEADLINE)
            if not answer.succeeded:
                _raise_failure(answer, "uv", "find")
            wheels = [wheel for wheel in read_lock(lock) if is_compatible(wheel.filename, machine)]
        # Of the compatible wheels of a project, the last by name has the newest platform tag.
        wheels.sort(key=lambda wheel: wheel.filename)
        return list({wheel.project: wheel for wheel in wheels}.values())

    def fetch(self, wheel: ListedWheel, folder: str, progress: Progress) -> str:
        """Write a wheel into a folder and return its path."""
        return self._http.fetch(wheel, folder, progress)


def _note(lines: Sequence[str]) -> str:
    """Return the last lines as text, without logins."""
    return "\n".join(
        str(_LOGIN.sub("://", line))[:_MAX_LINE_LENGTH] for line in lines[-_MAX_NOTE_LINES:]
    )


def _skipped_indexes(log: Path) -> list[str]:
    """Return the log lines of indexes that pip could not read; a missing project is no failure."""
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    skipped = [line.partition(_SKIPPED)[2] for line in lines if _SKIPPED in line]
    return [line for line in skipped if not any(status in line for status in _MISSING_PROJECT)]


def _raise_failure(
    answer: Answer, name: str, verb: str, skipped_indexes: Sequence[str] = ()
) -> NoReturn:
    """Raise the error that corresponds to the output of a failed installer."""
    errors = answer.errors.decode("utf-8", "replace").strip()
    note = _note(errors.splitlines())
    if "THESE PACKAGES DO NOT MATCH THE HASHES" in errors:
        raise IntegrityError(f"{name} fetched a wheel with another hash", note=note)
    if "No space left on device" in errors:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if any(message in errors for message in _NOTHING_FITS) and _NOT_QUERIED not in errors:
        if skipped_indexes:
            message = f"{name} could not reach an index"
            raise NetworkError(message, note=_note(skipped_indexes), hint=_FETCH_AHEAD)
        raise NoCompatibleWheel(
            f"{name} finds no wheels of these libraries",
            note=note,
            hint="ask for another version, or set WHEELFIT_LIBRARY_INDEX to an index that has them",
        )
    ending = "" if answer.ending is Ending.EXITED else f" ({answer.ending})"
    raise NetworkError(
        f"{name} could not {verb} the libraries{ending}", note=note, hint=_FETCH_AHEAD
    )
