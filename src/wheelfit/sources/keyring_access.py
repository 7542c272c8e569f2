"""Read passwords from keyring: the installed package, or the program on PATH."""

from __future__ import annotations

import importlib
import json
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wheelfit.sources.settings import KeyringChoice


_TIMEOUT = 60.0  # seconds; keyring may prompt the user to unlock a store


class Keyring(Protocol):
    """A source of passwords; may be slow, and may prompt the user to unlock a store."""

    def find(self, service: str, user: str | None) -> tuple[str, str] | None:
        """Return user name and password, or None if there are none.

        :param service: the URL of an index, or a host.
        :param user: the user name if it is known.
        """


def open_keyring(
    choice: KeyringChoice, *, environ: Mapping[str, str], note: Callable[[str], None]
) -> Keyring | None:
    """Return the keyring of the user's choice; None if there is none.

    As in pip, ``auto`` means the package if it can be imported, else the program. The package is
    imported when the first password is needed.

    :param note: called if keyring fails, once.
    """
    if choice == "disabled":
        return None
    if choice == "subprocess":
        return _program(environ, note)
    if choice == "import":
        return ImportedKeyring(note)
    return ImportedKeyring(note, partial(_program, environ, note))


def _program(environ: Mapping[str, str], note: Callable[[str], None]) -> KeyringProgram | None:
    import shutil

    program = shutil.which("keyring", path=environ.get("PATH"))
    return KeyringProgram(program, environ, note) if program else None


class ImportedKeyring:
    """The package ``keyring`` that is installed beside wheelfit.

    :param find_program: returns the program to use once the package cannot be imported or fails;
        None: there is none.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        find_program: Callable[[], KeyringProgram | None] = lambda: None,
    ) -> None:
        self._note = note
        self._find_program = find_program
        self._program: KeyringProgram | None = None
        self._is_available = True

    def find(self, service: str, user: str | None) -> tuple[str, str] | None:
        """Return the login for a service; see `Keyring`."""
        if self._is_available:
            try:
                credential = importlib.import_module("keyring").get_credential(service, user)
            except ImportError:
                self._is_available = False
            except Exception as error:  # noqa: BLE001 - back ends raise anything
                self._is_available = False
                self._note(f"keyring is not used: {type(error).__name__}")
            else:
                return None if credential is None else (credential.username, credential.password)
        self._program = self._program or self._find_program()
        return None if self._program is None else self._program.find(service, user)


class KeyringProgram:
    """The program ``keyring get``."""

    def __init__(
        self, program: str, environ: Mapping[str, str], note: Callable[[str], None]
    ) -> None:
        self._program = program
        self._environ = {**environ, "PYTHONIOENCODING": "utf-8"}
        self._note = note

    def find(self, service: str, user: str | None) -> tuple[str, str] | None:
        """Return the login for a service; see `Keyring`."""
        command = [self._program, "--mode=creds", "--output=json", "get", service]
        if user is not None:
            command.append(user)
        try:
            run = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=self._environ,
                timeout=_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self._note(f"keyring is not used: {type(error).__name__}")
            return None
        if run.returncode != 0:
            if b"--mode=creds" in run.stderr:  # an unknown option
                self._note("keyring is not used: the program is older than version 25.2.1")
            return None
        try:
            answer = json.loads(run.stdout)
            return str(answer["username"]), str(answer["password"])
        except (ValueError, KeyError, TypeError):
            self._note("keyring is not used: its output is not valid")
            return None
