"""The family of errors, and those of detection and of programs that run.

Every error a user can meet is one of these or of `wheelfit.errors`. Each has a reference (a
code that the documentation explains), says what happened, where, and what to do next.
The parts are kept apart; the command line renders them.

A class stands for what somebody catches: a kind for each exit code, and some errors below it.
Every other error is a code of its kind, as ``raise UserError("…", code="invalid-label")``. A new
one is a word in the list of its kind, and a row in ``docs/reference/errors.md``.

```
WheelfitError
├── UserError                    exit 1   something given to wheelfit is wrong
│   ├── InvalidDocument                   invalid-document
│   │   └── InvalidLock                   invalid-lock
│   ├── UnknownHost                       unknown-host
│   ├── InvalidConfiguration              invalid-configuration
│   └── FileProblem                       file-problem
├── NoFit                        exit 3   nothing compatible exists
│   ├── NoCompatibleWheel                 no-compatible-wheel
│   ├── DriverTooOld                      driver-too-old
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
│   └── StoreUnavailable                  store-unavailable
└── PolicyRefusal                exit 7   allowed by nobody
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self


__all__ = [
    "DriverTooOld",
    "EnvironmentUnavailable",
    "Fault",
    "FileProblem",
    "HashMismatch",
    "IntegrityError",
    "InvalidConfiguration",
    "InvalidDocument",
    "InvalidLock",
    "InvalidPage",
    "InvalidWheel",
    "NetworkError",
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


# Codes by the status with which a command ends.
_UserCode: TypeAlias = Literal[
    "error", "user-error", "invalid-property", "invalid-document", "invalid-lock",
    "invalid-preset", "unknown-host", "invalid-cases", "ambiguous-cases",
    "invalid-configuration", "file-problem", "invalid-label", "invalid-filename",
    "invalid-marker", "invalid-requirement", "unsupported-schema", "invalid-bridge",
    "invalid-project", "inconsistent-documents", "invalid-host-file", "unknown-shorthand",
    "link-in-the-way", "unusable-interpreter", "no-environment", "not-installed", "not-removable",
    "build-failed", "lost-optimisation", "upload-refused", "needs-extra", "not-a-dependency",
]  # fmt: skip
_NoFitCode: TypeAlias = Literal[
    "no-fit", "no-compatible-wheel", "no-case-fits", "driver-too-old", "project-not-found",
    "no-implementation", "no-solution", "no-consistent-set", "no-accelerator",
    "no-compatible-release", "unknown-label", "source-off",
]  # fmt: skip
_IntegrityCode: TypeAlias = Literal[
    "integrity", "hash-mismatch", "invalid-wheel", "invalid-source", "file-conflict",
    "attestation", "metadata-disagreement", "damaged-bundle",
]  # fmt: skip
_NetworkCode: TypeAlias = Literal[
    "network", "unreachable", "unexpected-status", "invalid-page", "not-in-store",
    "checkout-failed", "too-costly",
]  # fmt: skip
_EnvironmentCode: TypeAlias = Literal[
    "environment-unavailable", "store-unavailable", "another-library-loaded",
    "library-not-loadable", "environment-busy", "environment-read-only", "storage-unavailable",
    "unfit-workers", "worker-lost", "not-recoverable",
]  # fmt: skip
_PolicyCode: TypeAlias = Literal[
    "refused", "externally-managed", "own-requirement", "no-consent", "too-large",
    "startup-file", "too-new", "variant-change", "unusable-policy",
]  # fmt: skip
_InternalCode: TypeAlias = Literal[
    "work-failed", "broken-installation", "internal-error",
]  # fmt: skip
Code: TypeAlias = Literal[
    _UserCode, _NoFitCode, _IntegrityCode, _NetworkCode, _EnvironmentCode, _PolicyCode,
    _InternalCode,
    "usage", "bad-metadata", "lock-outdated", "interrupted", "terminated",
]  # fmt: skip
"""A code of an error; ``docs/reference/errors.md`` explains each."""


class Row(NamedTuple):
    """What a code decides."""

    exit_code: int
    """The status with which a command ends."""
    details_key: str = ""
    """The name of the details in ``--json``; empty: there are none."""


_BY_EXIT_CODE: dict[int, tuple[Code, ...]] = {
    1: get_args(_UserCode),
    2: ("usage",),
    3: get_args(_NoFitCode),
    4: get_args(_IntegrityCode),
    5: get_args(_NetworkCode),
    6: get_args(_EnvironmentCode),
    7: get_args(_PolicyCode),
    8: ("bad-metadata",),
    31: ("lock-outdated",),
    70: get_args(_InternalCode),
    130: ("interrupted",),
    143: ("terminated",),
}
_DETAILS: dict[Code, str] = {
    "upload-refused": "violations",
    "no-implementation": "implementations",
    "no-consistent-set": "closest",
    "no-accelerator": "without_accelerator",
    "source-off": "packages",
    "variant-change": "variant_changes",
    "bad-metadata": "degradations",
    "lock-outdated": "changes",
}
CODES: dict[Code, Row] = {
    code: Row(exit_code, _DETAILS.get(code, ""))
    for exit_code, codes in _BY_EXIT_CODE.items()
    for code in codes
}
"""Every code of the family."""


class WheelfitError(Exception):
    """What happened, where, and what to do next.

    :param message: what happened, one sentence without a final full stop.
    :param code: a code with the exit code of the class; None for the code of the class itself. This
        base takes every code.
    :param where: the file, URL (never with credentials) or path in a document.
    :param note: further explanation; may have several lines.
    :param hint: what to do next.
    :param details: the same for programs, as plain data; only of codes with a `Row.details_key`.
    """

    reference: Code = "error"
    """The code; a subclass gives its own in its header: ``class Mine(UserError, code="mine")``."""

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
        self.details = tuple(dict(one) for one in details)

    def __str__(self) -> str:
        return f"{self.message} [{self.where}]" if self.where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with ``args`` only and lose the parts.
        return (_rebuild, (type(self), self.__dict__, self.args))

    @property
    def exit_code(self) -> int:
        """The status with which a command ends."""
        return CODES[self.reference].exit_code

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


# --- 1: something given to wheelfit is wrong ---------------------------------


class UserError(WheelfitError, ValueError, code="user-error"):
    """Something given to wheelfit is wrong."""


class InvalidDocument(UserError, code="invalid-document"):
    """A document breaks its rules; has every fault found.

    :param faults: what is wrong; at least one.
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
    """A lock file breaks its rules; holds every fault found (PEP 751, F-117)."""


class UnknownHost(UserError, code="unknown-host"):
    """A name is neither a preset nor a host file."""


class InvalidConfiguration(UserError, code="invalid-configuration"):
    """A configuration file or variable cannot be understood."""


class FileProblem(UserError, code="file-problem"):
    """A file named by the user cannot be read or written."""


# --- 3: nothing compatible exists ---------------------------------------------


class NoFit(WheelfitError, code="no-fit"):
    """Nothing compatible exists for what was asked."""


class NoCompatibleWheel(NoFit, code="no-compatible-wheel"):
    """A project, release or file has no wheel for the target; the note lists why."""


class DriverTooOld(NoFit, code="driver-too-old"):
    """The driver of this machine cannot run the libraries that were asked for (P-92)."""


class ProjectNotFound(NoFit, code="project-not-found"):
    """No source knows a project of this name."""


class NoImplementation(NoFit, ImportError, code="no-implementation"):
    """Nothing that is installed can do the work of a package here.

    It is raised in the middle of an import, so it is an error of one, and its text has all parts:
    nobody renders it. Its details are the implementations with their reasons.
    """

    def __str__(self) -> str:
        parts = (super().__str__(), self.note, self.hint and f"hint: {self.hint}")
        return "\n".join(filter(None, parts))

    def __reduce__(self) -> tuple[Any, ...]:
        # What an ImportError has of its own stands beside its __dict__.
        build, (kind, state, args) = super().__reduce__()
        return build, (kind, {**state, "name": self.name, "msg": self.msg}, args)


# --- 4: bytes are not what was promised ----------------------------------------


class IntegrityError(WheelfitError, code="integrity"):
    """Bytes are not what was promised."""


class HashMismatch(IntegrityError, code="hash-mismatch"):
    """A file does not have the hash that was promised.

    :param algorithm: name of the hash, as ``sha256``.
    :param expected: the promised digests, hexadecimal.
    :param actual: the digest found, hexadecimal.
    """

    def __init__(self, *, algorithm: str, expected: Iterable[str], actual: str, where: str) -> None:
        promised = " or ".join(expected)
        super().__init__(
            f"the {algorithm} hash does not match",
            where=where,
            note=f"expected {promised}\n  actual {actual}",
            hint="nothing was installed from this file; "
            "retry, and tell the index operator if it happens again",
        )


class InvalidWheel(IntegrityError, code="invalid-wheel"):
    """An archive is not a sound wheel."""


# --- 5: a source could not be read -----------------------------------------------


class NetworkError(WheelfitError, code="network"):
    """A source could not be read."""


class Unreachable(NetworkError, code="unreachable"):
    """A server cannot be reached, or the connection broke and retries did not help."""


class UnexpectedStatus(NetworkError, code="unexpected-status"):
    """A server answered, but not with what was asked for."""

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
    """A server answered with something that is no index page."""


class NotInStore(NetworkError, code="not-in-store"):
    """Libraries would have to be fetched, and nothing may be."""


# --- 6: the environment cannot be changed now --------------------------------------


class EnvironmentUnavailable(WheelfitError, code="environment-unavailable"):
    """The environment cannot be changed now."""


class StoreUnavailable(EnvironmentUnavailable, code="store-unavailable"):
    """The folder that libraries are kept in cannot be written, or is not safe to load from."""


# --- 7: allowed by nobody -------------------------------------------------------------


class PolicyRefusal(WheelfitError, code="refused"):
    """What was asked is possible, but a policy forbids it."""
