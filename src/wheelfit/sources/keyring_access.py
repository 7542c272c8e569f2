"""Read passwords from keyring: the installed package, or the program on PATH."""

from __future__ import annotations

import importlib
import json
import subprocess
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
    package = ImportedKeyring(note)
    return package if choice == "import" else _Either(package, lambda: _program(environ, note))


def _program(environ: Mapping[str, str], note: Callable[[str], None]) -> KeyringProgram | None:
    import shutil

    program = shutil.which("keyring", path=environ.get("PATH"))
    return KeyringProgram(program, environ, note) if program else None


class ImportedKeyring:
    """The package ``keyring`` that is installed beside wheelfit."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self.is_available: bool | None = None
        """Whether the package can be imported and works; None before the first use."""

    def find(self, service: str, user: str | None) -> tuple[str, str] | None:
        """Return the login for a service; see `Keyring`."""
        if self.is_available is False:
            return None
        try:
            keyring = importlib.import_module("keyring")
            self.is_available = True
            credential = keyring.get_credential(service, user)
        except ImportError:
            self.is_available = False
            return None
        except Exception as error:  # noqa: BLE001 - back ends raise anything
            self.is_available = False
            self._note(f"keyring is not used: {type(error).__name__}")
            return None
        return None if credential is None else (credential.username, credential.password)


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
            return None
        try:
            answer = json.loads(run.stdout)
            return str(answer["username"]), str(answer["password"])
        except (ValueError, KeyError, TypeError):
            self._note("keyring is not used: its output is not valid")
            return None


class _Either:
    """The package, or the program if the package is not available."""

    def __init__(
        self, package: ImportedKeyring, find_program: Callable[[], KeyringProgram | None]
    ) -> None:
        self._package = package
        self._find_program = find_program
        self._program: KeyringProgram | None = None

    def find(self, service: str, user: str | None) -> tuple[str, str] | None:
        login = self._package.find(service, user)
        if login is None and self._package.is_available is False:
            self._program = self._program or self._find_program()
            return None if self._program is None else self._program.find(service, user)
        return login
