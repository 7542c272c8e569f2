"""The base classes of errors, and the errors of detection and of running programs.

Every error for users is one of these or of `wheelfit.errors`. It has a code that the documentation
explains, and states what happened, where, and what to do next, as separate parts that the command
line renders.

There is a base class for each exit code, and a subclass for each error that programs catch. All
other errors are instances of a base class with a code (`wheelfit_runtime.error_codes`), as
``UserError("…", code="invalid-label")``.

`wheelfit.errors` draws the tree of all errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from wheelfit_runtime.error_codes import CODES, Code

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self


class Fault(NamedTuple):
    """A fault in a document; several faults of one document are reported together."""

    path: str
    """The place in the document, such as ``variants.cu128.nvidia[0]``; empty for the whole."""
    message: str
    """One sentence without a final full stop."""
    rule: str = ""
    """The rule that is broken, such as ``F-23``; may be empty."""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        rule = f" ({self.rule})" if self.rule else ""
        return f"{where}{self.message}{rule}"


class WheelfitError(Exception):
    """The base class of all errors for users.

    :param message: what happened, one sentence without a final full stop.
    :param code: another code with the same exit code; None: the code of the class. This base class
        accepts every code.
    :param where: the file, URL (never with credentials) or path in a document.
    :param note: further explanation; may have several lines.
    :param hint: what to do next.
    :param details: the facts for programs, as plain data; only for codes whose row in the table has
        `CodeProperties.details_key`.
    """

    reference: Code = "error"
    """The code; a subclass sets it in its header, as ``class NoFit(WheelfitError, code="no-fit")``.
    """

    def __init_subclass__(cls, *, code: Code | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            if code not in CODES:
                raise KeyError(code)
            cls.reference = code

    def __init__(
        self,
        message: str,
        *,
        code: Code | None = None,
        where: str | None = None,
        note: str | None = None,
        hint: str | None = None,
        details: Iterable[Mapping[str, object]] = (),
    ) -> None:
        super().__init__(message)
        if code is not None:
            if CODES[code].exit_code != self.exit_code and self.reference != "error":
                raise ValueError(f"{code} is not a code of {type(self).__name__}")
            self.reference = code
        self.message = message
        self.where = where
        self.note = note
        self.hint = hint
        self.details = tuple(dict(detail) for detail in details)

    def __str__(self) -> str:
        return f"{self.message} [{self.where}]" if self.where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The default passes only ``args`` to the class, and loses the parts.
        return (_rebuild, (type(self), self.__dict__, self.args))

    @property
    def exit_code(self) -> int:
        """The status with which a command ends."""
        return CODES[self.reference].exit_code

    def with_parts_as_notes(self) -> Self:
        """Return this error, with its note and hint added to its traceback.

        For errors in other programs, where no command line renders the parts.
        """
        for part in (self.note, self.hint and f"hint: {self.hint}"):
            if part:
                self.add_note(part)
        return self

    def parts(self) -> dict[str, object]:
        """Return the error as plain data, for ``--json``."""
        key = CODES[self.reference].details_key
        return {
            "code": self.reference,
            "exit_code": self.exit_code,
            "message": self.message,
            "where": self.where,
            "note": self.note,
            "hint": self.hint,
            **({key: list(self.details)} if key else {}),
        }


def _rebuild(
    kind: type[WheelfitError], state: dict[str, Any], args: tuple[Any, ...]
) -> WheelfitError:
    error = kind.__new__(kind, *args)
    error.__setstate__(state)
    return error


def os_reason(error: BaseException) -> str:
    """Return the operating system's reason for an error, such as ``No space left on device``.

    For any other error, return its text, or the name of its class if it has none.
    """
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


# --- 1: something given to wheelfit is wrong ---------------------------------


class UserError(WheelfitError, ValueError, code="user-error"):
    """Raised for invalid arguments, files and other input."""


class InvalidDocument(UserError, code="invalid-document"):
    """Raised when a document breaks its rules.

    :param faults: the faults; at least one.
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        *,
        code: Code | None = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.faults = tuple(faults)
        first = str(self.faults[0]) if self.faults else "the document is invalid"
        rest = "\n".join(str(fault) for fault in self.faults[1:])
        super().__init__(first, code=code, where=where, note=rest or None, hint=hint)

    def parts(self) -> dict[str, object]:
        """Return the error as plain data, each fault with path and rule."""
        faults = [
            {"path": fault.path, "message": fault.message, "rule": fault.rule}
            for fault in self.faults
        ]
        return {**super().parts(), "faults": faults}


class InvalidLock(InvalidDocument, code="invalid-lock"):
    """Raised when a lock file breaks its rules (PEP 751, F-117)."""


class UnknownHost(UserError, code="unknown-host"):
    """Raised when a name is neither a preset nor a host file."""


class InvalidConfiguration(UserError, code="invalid-configuration"):
    """Raised when a configuration file or environment variable is invalid."""


class FileProblem(UserError, code="file-problem"):
    """Raised when a file of the user cannot be read or written."""


# --- 3: nothing compatible exists ---------------------------------------------


class NoFit(WheelfitError, code="no-fit"):
    """Raised when nothing compatible with the request exists."""


class NoCompatibleWheel(NoFit, code="no-compatible-wheel"):
    """Raised when a project, release or file has no wheel for the target; the note has reasons."""


class DriverTooOld(NoFit, code="driver-too-old"):
    """Raised when the driver of this machine cannot run the requested libraries (P-92)."""


class ProjectNotFound(NoFit, code="project-not-found"):
    """Raised when no source has a project of this name."""


class NoImplementation(NoFit, ImportError, code="no-implementation"):
    """Raised when no installed implementation of a package is compatible.

    It is raised during an import, so it is an `ImportError`, and its text has all parts, since the
    command line does not render it. Its details are the implementations, each with the reasons
    against it.
    """

    def __str__(self) -> str:
        parts = (super().__str__(), self.note, self.hint and f"hint: {self.hint}")
        return "\n".join(filter(None, parts))

    def __reduce__(self) -> tuple[Any, ...]:
        # The attributes of ImportError itself are not in __dict__.
        build, (kind, state, args) = super().__reduce__()
        return build, (kind, {**state, "name": self.name, "msg": self.msg}, args)


# --- 4: bytes are not what was promised ----------------------------------------


class IntegrityError(WheelfitError, code="integrity"):
    """Raised when bytes are not as promised."""


class HashMismatch(IntegrityError, code="hash-mismatch"):
    """Raised when a file does not have an expected hash.

    :param algorithm: name of the hash, such as ``sha256``.
    :param expected: the expected digests, hexadecimal; any of them is accepted.
    :param actual: the digest of the file, hexadecimal.
    """

    def __init__(self, *, algorithm: str, expected: Iterable[str], actual: str, where: str) -> None:
        promised = " or ".join(expected)
        super().__init__(
            f"the {algorithm} hash does not match",
            where=where,
            note=f"expected {promised}\n  actual {actual}",
            hint="nothing was installed from this file; if the hash is yours, correct it, else "
            "try again; if it happens again, report it to the index operator",
        )


class InvalidWheel(IntegrityError, code="invalid-wheel"):
    """Raised when an archive is not a valid wheel."""


# --- 5: a source could not be read -----------------------------------------------


class NetworkError(WheelfitError, code="network"):
    """Raised when a source cannot be read."""


class Unreachable(NetworkError, code="unreachable"):
    """Raised when a server cannot be reached, or the connection breaks in all attempts."""


class UnexpectedStatus(NetworkError, code="unexpected-status"):
    """Raised when a server answers with an unexpected status."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        where: str | None = None,
        note: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, note=note, hint=hint)
        self.status = status


class InvalidPage(NetworkError, code="invalid-page"):
    """Raised when an answer of a server is not an index page."""


class NotInStore(NetworkError, code="not-in-store"):
    """Raised when a library is not in the store, and nothing may be fetched."""


# --- 6: the environment cannot be changed now --------------------------------------


class EnvironmentUnavailable(WheelfitError, code="environment-unavailable"):
    """Raised when the environment cannot be changed now."""


class StoreUnavailable(EnvironmentUnavailable, code="store-unavailable"):
    """Raised when the library store cannot be written, or is not safe to load from."""


# --- 7: forbidden by a policy ---------------------------------------------------------


class PolicyRefusal(WheelfitError, code="refused"):
    """Raised when the request is possible, but a policy forbids it."""
