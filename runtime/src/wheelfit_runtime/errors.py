"""The family of errors, and those of detection and of programs that run.

Every error a user can meet is one of these or of `wheelfit.errors`. Each has a reference (a
code that the documentation explains), says what happened, where, and what to do next.
The parts are kept apart; the command line renders them.

```
WheelfitError
├── UserError                    exit 1   something given to wheelfit is wrong
│   ├── InvalidProperty                   invalid-property
│   ├── InvalidDocument                   invalid-document
│   │   └── InvalidLock                   invalid-lock
│   ├── InvalidPreset                     invalid-preset
│   ├── UnknownHost                       unknown-host
│   ├── InvalidCases                      invalid-cases
│   │   └── AmbiguousCases                ambiguous-cases
│   ├── InvalidConfiguration              invalid-configuration
│   └── FileProblem                       file-problem
├── NoFit                        exit 3   nothing compatible exists
│   ├── NoCompatibleWheel                 no-compatible-wheel
│   ├── DriverTooOld                      driver-too-old
│   ├── NoCaseFits                        no-case-fits
│   ├── ProjectNotFound                   project-not-found
│   └── NoImplementation                  no-implementation
├── IntegrityError               exit 4   bytes are not what was promised
│   ├── HashMismatch                      hash-mismatch
│   └── InvalidWheel                      invalid-wheel
├── NetworkError                 exit 5   a source could not be read
│   ├── Unreachable                       unreachable
│   ├── UnexpectedStatus                  unexpected-status
│   ├── InvalidPage                       invalid-page
│   └── NotInStore                        not-in-store
├── EnvironmentUnavailable       exit 6   the environment cannot be changed now
│   ├── StoreUnavailable                  store-unavailable
│   ├── AnotherLibraryLoaded              another-library-loaded
│   └── LibraryNotLoadable                library-not-loadable
└── PolicyRefusal                exit 7   allowed by nobody
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self


__all__ = [
    "AmbiguousCases",
    "AnotherLibraryLoaded",
    "DriverTooOld",
    "EnvironmentUnavailable",
    "Fault",
    "FileProblem",
    "HashMismatch",
    "IntegrityError",
    "InvalidCases",
    "InvalidConfiguration",
    "InvalidDocument",
    "InvalidLock",
    "InvalidPage",
    "InvalidPreset",
    "InvalidProperty",
    "InvalidWheel",
    "LibraryNotLoadable",
    "NetworkError",
    "NoCaseFits",
    "NoCompatibleWheel",
    "NoFit",
    "NoImplementation",
    "NotInStore",
    "PolicyRefusal",
    "ProjectNotFound",
    "StoreUnavailable",
    "UnexpectedStatus",
    "UnknownHost",
    "Unreachable",
    "UserError",
    "WheelfitError",
]


def __dir__() -> list[str]:
    return __all__


class Fault(NamedTuple):
    """One thing that is wrong in a document.

    Several faults of one document are reported together.
    """

    path: str
    """Where in the document, as ``variants.cu128.nvidia[0]``; empty for the whole."""
    message: str
    """What is wrong there, one sentence without a final full stop."""
    rule: str = ""
    """The rule that is broken, as ``F-23``; empty when none applies."""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        rule = f" ({self.rule})" if self.rule else ""
        return f"{where}{self.message}{rule}"


class WheelfitError(Exception):
    """Say what happened, where, and what to do next.

    :param message: what happened, one sentence without a final full stop.
    :param where: the file, URL (never with credentials) or path in a document.
    :param note: what the reader should know besides; may have several lines.
    :param hint: what to do next.
    :param details: what programs are told besides, as plain data; only where `details_key` says
        under which name.
    """

    reference: ClassVar[str] = "error"
    """The code that ``docs/reference/errors.md`` explains."""
    exit_code: ClassVar[int] = 1
    """The status with which a command ends."""
    details_key: ClassVar[str] = ""
    """The name of the details in ``--json``; empty: there are none."""

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        note: str | None = None,
        hint: str | None = None,
        details: Iterable[Mapping[str, object]] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.note = note
        self.hint = hint
        self.details = tuple(dict(one) for one in details)

    def __str__(self) -> str:
        return f"{self.message} [{self.where}]" if self.where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with ``args`` only and lose the parts.
        return (_rebuild, (type(self), self.__dict__, self.args))

    def in_full(self) -> Self:
        """Return this error, with note and hint in what a traceback shows of it.

        For those that end other people's programs, where nobody renders the parts.
        """
        for words in (self.note, self.hint and f"hint: {self.hint}"):
            if words:
                self.add_note(words)
        return self

    def parts(self) -> dict[str, object]:
        """Return the error as plain data, for ``--json``."""
        details = {self.details_key: list(self.details)} if self.details_key else {}
        return {
            "code": self.reference,
            "exit_code": self.exit_code,
            "message": self.message,
            "where": self.where,
            "note": self.note,
            "hint": self.hint,
            **details,
        }


def _rebuild(
    kind: type[WheelfitError], state: dict[str, Any], args: tuple[Any, ...]
) -> WheelfitError:
    error = kind.__new__(kind, *args)
    error.__setstate__(state)
    return error


# --- 1: something given to wheelfit is wrong ---------------------------------


class UserError(WheelfitError, ValueError):
    """Something given to wheelfit is wrong."""

    reference = "user-error"


class InvalidProperty(UserError):
    """A text is not a property, a feature or a namespace (F-2, F-5)."""

    reference = "invalid-property"


class InvalidDocument(UserError):
    """A variant metadata document breaks its rules; holds every fault found.

    :param faults: what is wrong; at least one.
    """

    reference = "invalid-document"

    def __init__(
        self,
        faults: Sequence[Fault],
        *,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.faults = tuple(faults)
        first = str(self.faults[0]) if self.faults else "the document is invalid"
        rest = "\n".join(str(fault) for fault in self.faults[1:])
        super().__init__(first, where=where, note=rest or None, hint=hint)

    def parts(self) -> dict[str, object]:
        """Return the error as plain data, each fault with path and rule."""
        faults = [
            {"path": fault.path, "message": fault.message, "rule": fault.rule}
            for fault in self.faults
        ]
        return {**super().parts(), "faults": faults}


class InvalidLock(InvalidDocument):
    """A lock file breaks its rules; holds every fault found (PEP 751, F-117)."""

    reference = "invalid-lock"


class InvalidPreset(UserError):
    """Parts of a preset of a machine contradict each other."""

    reference = "invalid-preset"


class UnknownHost(UserError):
    """A name is neither a preset nor a host file."""

    reference = "unknown-host"


class InvalidCases(UserError):
    """A table of cases cannot be understood."""

    reference = "invalid-cases"


class AmbiguousCases(InvalidCases):
    """Several cases of a table hold, and none is more special than the others."""

    reference = "ambiguous-cases"


class InvalidConfiguration(UserError):
    """A configuration file or variable cannot be understood."""

    reference = "invalid-configuration"


class FileProblem(UserError):
    """A file named by the user cannot be read or written."""

    reference = "file-problem"


# --- 3: nothing compatible exists ---------------------------------------------


class NoFit(WheelfitError):
    """Nothing compatible exists for what was asked."""

    reference = "no-fit"
    exit_code = 3


class NoCompatibleWheel(NoFit):
    """A project, release or file has no wheel for the target; the note lists why."""

    reference = "no-compatible-wheel"


class NoCaseFits(NoFit):
    """No case of a table holds on this machine, and it has no default."""

    reference = "no-case-fits"


class DriverTooOld(NoFit):
    """The driver of this machine cannot run the libraries that were asked for (P-92)."""

    reference = "driver-too-old"


class ProjectNotFound(NoFit):
    """No source knows a project of this name."""

    reference = "project-not-found"


class NoImplementation(NoFit, ImportError):
    """Nothing that is installed can do the work of a package here.

    It is raised in the middle of an import, so it is an error of one, and its text has all parts:
    nobody renders it. Its details are the implementations with their reasons.
    """

    reference = "no-implementation"
    details_key = "implementations"

    def __str__(self) -> str:
        parts = (super().__str__(), self.note, self.hint and f"hint: {self.hint}")
        return "\n".join(filter(None, parts))

    def __reduce__(self) -> tuple[Any, ...]:
        # What an ImportError has of its own stands beside its __dict__.
        build, (kind, state, args) = super().__reduce__()
        return build, (kind, {**state, "name": self.name, "msg": self.msg}, args)


# --- 4: bytes are not what was promised ----------------------------------------


class IntegrityError(WheelfitError):
    """Bytes are not what was promised."""

    reference = "integrity"
    exit_code = 4


class HashMismatch(IntegrityError):
    """A file does not have the hash that was promised.

    :param algorithm: name of the hash, as ``sha256``.
    :param expected: the promised digests, hexadecimal.
    :param actual: the digest found, hexadecimal.
    """

    reference = "hash-mismatch"

    def __init__(self, *, algorithm: str, expected: Iterable[str], actual: str, where: str) -> None:
        promised = " or ".join(expected)
        super().__init__(
            f"the {algorithm} hash does not match",
            where=where,
            note=f"expected {promised}\n  actual {actual}",
            hint="nothing was installed from this file; "
            "retry, and tell the index operator if it happens again",
        )


class InvalidWheel(IntegrityError):
    """An archive is not a sound wheel."""

    reference = "invalid-wheel"


# --- 5: a source could not be read -----------------------------------------------


class NetworkError(WheelfitError):
    """A source could not be read."""

    reference = "network"
    exit_code = 5


class Unreachable(NetworkError):
    """A server cannot be reached, or the connection broke and retries did not help."""

    reference = "unreachable"


class UnexpectedStatus(NetworkError):
    """A server answered, but not with what was asked for.

    :param status: the HTTP status.
    """

    reference = "unexpected-status"

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


class InvalidPage(NetworkError):
    """A server answered with something that is no index page."""

    reference = "invalid-page"


class NotInStore(NetworkError):
    """Libraries would have to be fetched, and nothing may be."""

    reference = "not-in-store"


# --- 6: the environment cannot be changed now --------------------------------------


class EnvironmentUnavailable(WheelfitError):
    """The environment cannot be changed now."""

    reference = "environment-unavailable"
    exit_code = 6


class StoreUnavailable(EnvironmentUnavailable):
    """The folder that libraries are kept in cannot be written, or is not safe to load from."""

    reference = "store-unavailable"


class AnotherLibraryLoaded(EnvironmentUnavailable):
    """This process has loaded other libraries already, beside which these cannot be."""

    reference = "another-library-loaded"


class LibraryNotLoadable(EnvironmentUnavailable):
    """The loader of this system refuses a library that is what it should be."""

    reference = "library-not-loadable"


# --- 7: allowed by nobody -------------------------------------------------------------


class PolicyRefusal(WheelfitError):
    """What was asked is possible, but a policy forbids it."""

    reference = "refused"
    exit_code = 7
