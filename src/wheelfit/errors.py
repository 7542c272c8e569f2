"""The errors of wheelfit, and the tree of all errors.

Every error for users is one of these. Its parts are a code that the documentation explains, a
message, a place and a hint; the command line renders them. All codes are rows of the table
`wheelfit_runtime.error_codes`; a code has a class here only if programs catch it.
`wheelfit_runtime.errors` has the base class, the kinds, and the errors of detection and of running
programs.

```
WheelfitError
├── UserError                    exit 1   something given to wheelfit is wrong
│   ├── InvalidFilename                   invalid-filename
│   ├── InvalidMarker                     invalid-marker
│   ├── InvalidRequirement                invalid-requirement
│   ├── InvalidDocument                   invalid-document
│   │   └── InvalidLock                   invalid-lock
│   ├── InconsistentDocuments             inconsistent-documents
│   ├── UnknownHost                       unknown-host
│   ├── UnknownShorthand                  unknown-shorthand
│   ├── InvalidConfiguration              invalid-configuration
│   ├── FileProblem                       file-problem
│   │   └── LinkRefused                   link-refused
│   ├── UnusableInterpreter               unusable-interpreter
│   ├── NotRemovable                      not-removable
│   ├── BuildFailed                       build-failed
│   ├── UploadRefused            exit 9   upload-refused
│   └── NeedsExtra                        needs-extra
├── UsageError                   exit 2   usage
├── NoFit                        exit 3   nothing compatible exists
│   ├── NoSolution                        no-solution
│   │   └── NoConsistentSet               no-consistent-set
│   ├── NoCompatibleWheel                 no-compatible-wheel
│   ├── DriverTooOld                      driver-too-old
│   ├── ProjectNotFound                   project-not-found
│   ├── NoImplementation                  no-implementation
│   └── SourceBuildNotAllowed             source-build-not-allowed
├── IntegrityError               exit 4   bytes are not what was promised
│   ├── HashMismatch                      hash-mismatch
│   ├── InvalidWheel                      invalid-wheel
│   ├── InvalidSource                     invalid-source
│   ├── AttestationProblem                attestation
│   └── DamagedBundle                     damaged-bundle
├── NetworkError                 exit 5   a source could not be read
│   ├── Unreachable                       unreachable
│   ├── UnexpectedStatus                  unexpected-status
│   ├── InvalidPage                       invalid-page
│   └── NotInStore                        not-in-store
├── EnvironmentUnavailable       exit 6   the environment cannot be changed now
│   ├── EnvironmentBusy                   environment-busy
│   ├── StorageUnavailable                storage-unavailable
│   ├── StoreUnavailable                  store-unavailable
│   ├── WorkerLost                        worker-lost
│   └── NotRecoverable                    not-recoverable
├── PolicyRefusal                exit 7   forbidden by a policy
│   ├── VariantChangeRefused              variant-change
│   └── TooLarge                          too-large
├── BadMetadata                  exit 8   bad-metadata
├── LockOutdated                 exit 31  lock-outdated
└── InternalError                exit 70  internal-error
```
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from wheelfit_runtime.errors import (
    EnvironmentUnavailable,
    FileProblem,
    IntegrityError,
    NoFit,
    PolicyRefusal,
    UserError,
    WheelfitError,
    os_reason,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


# --- 1: something given to wheelfit is wrong ---------------------------------


class InvalidFilename(UserError, code="invalid-filename"):
    """Raised when a text is not a wheel filename (F-12 to F-16)."""


_SHOWN_LENGTH = 200  # characters that are shown on either side of the caret


def _with_caret(source: str, position: int) -> str:
    """Return a text, shortened around a position, with a caret below it."""
    start, stop = max(0, position - _SHOWN_LENGTH), position + _SHOWN_LENGTH
    before = "…" if start else ""
    after = "…" if stop < len(source) else ""
    line = f"{before}{source[start:stop]}{after}"
    return f"{line}\n{' ' * (len(before) + position - start)}^"


class _GrammarError(UserError):
    """Raised when a text does not follow a grammar; the note has a caret at the position.

    :param message: what was expected.
    :param source: the whole text.
    :param position: index in ``source`` at which reading stopped.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str,
        position: int = 0,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        caret = _with_caret(source, position)
        super().__init__(message, where=where, note=caret, hint=hint)
        self.source = source
        self.position = position


class InvalidMarker(_GrammarError, code="invalid-marker"):
    """Raised when a text is not an environment marker (F-105)."""


class InvalidRequirement(_GrammarError, code="invalid-requirement"):
    """Raised when a text is not a requirement, or has a forbidden variant marker (F-109)."""


class InconsistentDocuments(UserError, code="inconsistent-documents"):
    """Raised when documents of one release contradict each other (F-60 to F-65)."""


class UnknownShorthand(UserError, code="unknown-shorthand"):
    """Raised when a word is not a variant shorthand."""


class LinkRefused(FileProblem, code="link-refused"):
    """Raised when a link leads outside a folder."""


class UnusableInterpreter(UserError, code="unusable-interpreter"):
    """Raised when a Python interpreter cannot be started or is not supported."""


class NotRemovable(UserError, code="not-removable"):
    """Raised when a distribution cannot be removed, because its files are unknown."""


class BuildFailed(UserError, code="build-failed"):
    """Raised when a project could not be built: its backend failed, or built something else.

    The note has the last lines of the output of the backend.
    """


class UploadRefused(UserError, code="upload-refused"):
    """Raised when an index does not accept a file; the details list all reasons.

    ``wheelfit publish`` ends with the same exit code if it finds such a fault before an upload.
    """


@contextmanager
def reporting_os_errors(message: str, *, where: str, hint: str | None = None) -> Iterator[None]:
    """Raise a `FileProblem` in place of an ``OSError`` of the block, with the system's reason.

    :param message: what cannot be done, such as ``the file cannot be read``.
    """
    try:
        yield
    except OSError as error:
        raise FileProblem(f"{message}: {os_reason(error)}", where=where, hint=hint) from None


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint with the most similar known word, or another hint if none is similar."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def install_hint(extra: str) -> str:
    """Return a hint with the command that installs an extra of wheelfit.

    :param extra: its name, such as ``server``.
    """
    # wheelfit is not on the public registry: its bare name would install something else.
    return f"in a checkout of wheelfit: pip install ./runtime '.[{extra}]'"


class NeedsExtra(UserError, code="needs-extra"):
    """Raised when a request needs libraries of an extra that is not installed.

    :param extra: the name of the extra, such as ``server``.
    :param library: the name of the library.
    """

    def __init__(self, extra: str, library: str) -> None:
        super().__init__(f"this needs {library}, which is not installed", hint=install_hint(extra))


# --- 2: a wrong command line ----------------------------------------------------


class UsageError(WheelfitError, code="usage"):
    """Raised when the command line is invalid."""


# --- 3: nothing compatible exists ---------------------------------------------


class NoSolution(NoFit, code="no-solution"):
    """Raised when no set of versions satisfies every requirement; the note is the proof."""

    main_cause: str = ""
    """The main cause, as a clause; empty if the message contains it."""


class NoConsistentSet(NoSolution, code="no-consistent-set"):
    """Raised when every set of builds mixes values on which an environment must agree.

    Its details are the values, each with the packages that support it and those that do not.
    """


class SourceBuildNotAllowed(NoFit, code="source-build-not-allowed"):
    """Raised when only source distributions are left, and building is not allowed (F-92)."""


# --- 4: bytes are not what was promised ----------------------------------------


class InvalidSource(IntegrityError, code="invalid-source"):
    """Raised when an archive of a project is invalid, or contains another project."""


class AttestationProblem(IntegrityError, code="attestation"):
    """Raised when attestations of a file are missing, invalid or of another publisher (PEP 740)."""


class DamagedBundle(IntegrityError, code="damaged-bundle"):
    """Raised when a bundle has changed since it was made.

    :param problems: path in the bundle, kind (``missing``, ``changed``, ``extra``,
        ``unreadable``, ``selection``) and details, which may be empty; at least one.
    """

    def __init__(self, problems: Sequence[tuple[str, str, str]], *, where: str) -> None:
        self.problems = tuple(problems)
        lines = [
            f"{path}: {kind}" + (f", {details}" if details else "")
            for path, kind, details in problems
        ]
        omitted = [f"and {len(lines) - 100} more"] if len(lines) > 100 else []
        super().__init__(
            "the bundle was changed",
            where=where,
            note="\n".join([*lines[:100], *omitted]),
            hint="copy it again, or make it again in a new folder",
        )

    def parts(self) -> dict[str, object]:
        """Return the error as plain data, with all problems."""
        problems = [
            {"path": path, "problem": kind, "details": details}
            for path, kind, details in self.problems
        ]
        return {**super().parts(), "problems": problems}


# --- 6: the environment cannot be changed now --------------------------------------


class EnvironmentBusy(EnvironmentUnavailable, code="environment-busy"):
    """Raised when another process is changing the environment."""


class StorageUnavailable(EnvironmentUnavailable, code="storage-unavailable"):
    """Raised when the database or storage of an index cannot be read or written now.

    :param cause: ``unresponsive``: it does not respond; ``full``: it has no space left; empty:
        another error.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        note: str | None = None,
        hint: str | None = None,
        cause: Literal["unresponsive", "full", ""] = "",
    ) -> None:
        super().__init__(message, where=where, note=note, hint=hint)
        self.cause = cause


class WorkerLost(EnvironmentUnavailable, code="worker-lost"):
    """Raised when every process that worked on an item was killed."""


class NotRecoverable(EnvironmentUnavailable, code="not-recoverable"):
    """Raised when an interrupted change of the environment cannot be undone automatically."""


# --- 7: forbidden by a policy -------------------------------------------------------------


class TooLarge(PolicyRefusal, code="too-large"):
    """Raised when a download would be larger than the user allows."""


class VariantChangeRefused(PolicyRefusal, code="variant-change"):
    """Raised when an installed variant would be replaced by another build without consent.

    Its details are all changes that would be made.
    """


# --- 8: invalid metadata under --strict -----------------------------------------------


class BadMetadata(WheelfitError, code="bad-metadata"):
    """Raised when metadata of a release is invalid, with ``--strict`` (F-130).

    Its details are the degradations that would follow.
    """


# --- 31: `lock --check` -------------------------------------------------------------------


class LockOutdated(WheelfitError, code="lock-outdated"):
    """Raised when a lock is out of date.

    Its details are the differences from a new lock.
    """


# --- 70: an error in wheelfit itself -----------------------------------------------------


class InternalError(WheelfitError, code="internal-error"):
    """Raised for an error in wheelfit itself, or in its installation."""
