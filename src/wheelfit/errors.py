"""The family of errors; imports nothing of ours.

Every error a user can meet is one of these. Each has a reference (a code that
the documentation explains), says what happened, where, and what to do next.
The parts are kept apart; the command line renders them.

```
WheelfitError
├── UserError                    exit 1   something given to wheelfit is wrong
│   ├── InvalidLabel                      invalid-label
│   ├── InvalidProperty                   invalid-property
│   ├── InvalidFilename                   invalid-filename
│   ├── InvalidMarker                     invalid-marker
│   ├── InvalidRequirement                invalid-requirement
│   ├── InvalidDocument                   invalid-document
│   │   ├── UnsupportedSchema             unsupported-schema
│   │   ├── InvalidBridge                 invalid-bridge
│   │   ├── InvalidLock                   invalid-lock
│   │   └── InvalidProject                invalid-project
│   ├── InconsistentDocuments             inconsistent-documents
│   ├── InvalidHostFile                   invalid-host-file
│   ├── InvalidPreset                     invalid-preset
│   ├── UnknownHost                       unknown-host
│   ├── UnknownShorthand                  unknown-shorthand
│   ├── InvalidCases                      invalid-cases
│   │   └── AmbiguousCases                ambiguous-cases
│   ├── InvalidConfiguration              invalid-configuration
│   ├── FileProblem                       file-problem
│   │   └── LinkInTheWay                  link-in-the-way
│   ├── UnusableInterpreter               unusable-interpreter
│   ├── NotInstalled                      not-installed
│   ├── NotRemovable                      not-removable
│   ├── BuildFailed                       build-failed
│   │   └── LostOptimisation              lost-optimisation
│   ├── UploadRefused                     upload-refused
│   └── NeedsExtra                        needs-extra
├── UsageError                   exit 2   usage
├── NoFit                        exit 3   nothing compatible exists
│   ├── NoSolution                        no-solution
│   │   └── NoConsistentSet               no-consistent-set
│   ├── NoCompatibleWheel                 no-compatible-wheel
│   ├── NoAccelerator                     no-accelerator
│   ├── NoCompatibleRelease               no-compatible-release
│   ├── DriverTooOld                      driver-too-old
│   ├── NoCaseFits                        no-case-fits
│   ├── ProjectNotFound                   project-not-found
│   ├── UnknownLabel                      unknown-label
│   ├── NoImplementation                  no-implementation
│   └── SourceOff                         source-off
├── IntegrityError               exit 4   bytes are not what was promised
│   ├── HashMismatch                      hash-mismatch
│   ├── InvalidWheel                      invalid-wheel
│   ├── InvalidSource                     invalid-source
│   ├── FileConflict                      file-conflict
│   ├── MetadataDisagreement              metadata-disagreement
│   ├── AttestationProblem                attestation
│   └── DamagedBundle                     damaged-bundle
├── NetworkError                 exit 5   a source could not be read
│   ├── Unreachable                       unreachable
│   ├── UnexpectedStatus                  unexpected-status
│   ├── InvalidPage                       invalid-page
│   ├── NotInStore                        not-in-store
│   └── CheckoutFailed                    checkout-failed
├── EnvironmentUnavailable       exit 6   the environment cannot be changed now
│   ├── EnvironmentBusy                   environment-busy
│   ├── EnvironmentReadOnly               environment-read-only
│   ├── StorageUnavailable                storage-unavailable
│   ├── StoreUnavailable                  store-unavailable
│   ├── AnotherLibraryLoaded              another-library-loaded
│   ├── LibraryNotLoadable                library-not-loadable
│   ├── UnfitWorkers                      unfit-workers
│   ├── WorkerLost                        worker-lost
│   └── NotRecoverable                    not-recoverable
├── PolicyRefusal                exit 7   allowed by nobody
│   ├── ExternallyManaged                 externally-managed
│   ├── OwnRequirementRefused             own-requirement
│   ├── NoConsent                         no-consent
│   ├── StartupFileRefused                startup-file
│   ├── VariantChangeRefused              variant-change
│   ├── TooLarge                          too-large
│   └── UnusablePolicy                    unusable-policy
├── BadMetadata                  exit 8   bad-metadata
├── LockOutdated                 exit 31  lock-outdated
├── WorkFailed                   exit 70  work-failed
└── BrokenInstallation           exit 70  broken-installation
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self


__all__ = [
    "AmbiguousCases",
    "AnotherLibraryLoaded",
    "AttestationProblem",
    "BadMetadata",
    "BrokenInstallation",
    "BuildFailed",
    "CheckoutFailed",
    "DamagedBundle",
    "DriverTooOld",
    "EnvironmentBusy",
    "EnvironmentReadOnly",
    "EnvironmentUnavailable",
    "ExternallyManaged",
    "Fault",
    "FileConflict",
    "FileProblem",
    "HashMismatch",
    "InconsistentDocuments",
    "IntegrityError",
    "InvalidBridge",
    "InvalidCases",
    "InvalidConfiguration",
    "InvalidDocument",
    "InvalidFilename",
    "InvalidHostFile",
    "InvalidLabel",
    "InvalidLock",
    "InvalidMarker",
    "InvalidPage",
    "InvalidPreset",
    "InvalidProject",
    "InvalidProperty",
    "InvalidRequirement",
    "InvalidSource",
    "InvalidWheel",
    "LibraryNotLoadable",
    "LinkInTheWay",
    "LockOutdated",
    "LostOptimisation",
    "MetadataDisagreement",
    "NeedsExtra",
    "NetworkError",
    "NoAccelerator",
    "NoCaseFits",
    "NoCompatibleRelease",
    "NoCompatibleWheel",
    "NoConsent",
    "NoConsistentSet",
    "NoFit",
    "NoImplementation",
    "NoSolution",
    "NotInStore",
    "NotInstalled",
    "NotRecoverable",
    "NotRemovable",
    "OwnRequirementRefused",
    "PolicyRefusal",
    "ProjectNotFound",
    "SourceOff",
    "StartupFileRefused",
    "StorageUnavailable",
    "StoreUnavailable",
    "TooLarge",
    "UnexpectedStatus",
    "UnfitWorkers",
    "UnknownHost",
    "UnknownLabel",
    "UnknownShorthand",
    "Unreachable",
    "UnsupportedSchema",
    "UnusableInterpreter",
    "UnusablePolicy",
    "UploadRefused",
    "UsageError",
    "UserError",
    "VariantChangeRefused",
    "WheelfitError",
    "WorkFailed",
    "WorkerLost",
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


class InvalidLabel(UserError):
    """A text is not a variant label (F-2)."""

    reference = "invalid-label"


class InvalidProperty(UserError):
    """A text is not a property, a feature or a namespace (F-2, F-5)."""

    reference = "invalid-property"


class InvalidFilename(UserError):
    """A text is not a wheel file name (F-12 to F-16)."""

    reference = "invalid-filename"


_SHOWN = 200  # characters on either side of what a caret points at


def _with_caret(source: str, position: int) -> str:
    """Write a text with a caret below the place that matters, and not all of a huge one."""
    start, stop = max(0, position - _SHOWN), position + _SHOWN
    before = "…" if start else ""
    after = "…" if stop < len(source) else ""
    line = f"{before}{source[start:stop]}{after}"
    return f"{line}\n{' ' * (len(before) + position - start)}^"


class _GrammarError(UserError):
    """A text does not follow a grammar; show where with a caret.

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


class InvalidMarker(_GrammarError):
    """A text is not an environment marker (F-105)."""

    reference = "invalid-marker"


class InvalidRequirement(_GrammarError):
    """A text is not a dependency specifier, or has a variant marker where none may be (F-109)."""

    reference = "invalid-requirement"


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


class UnsupportedSchema(InvalidDocument):
    """A document names a schema that must be refused (F-36, F-38, F-40)."""

    reference = "unsupported-schema"


class InvalidLock(InvalidDocument):
    """A lock file breaks its rules; holds every fault found (PEP 751, F-117)."""

    reference = "invalid-lock"


class InvalidBridge(InvalidDocument):
    """The file of a bridged family breaks its rules; holds every fault found."""

    reference = "invalid-bridge"


class InvalidProject(InvalidDocument):
    """The ``pyproject.toml`` of a project breaks its rules; holds every fault found."""

    reference = "invalid-project"


class InconsistentDocuments(UserError):
    """Documents of one release contradict each other (F-60 to F-65)."""

    reference = "inconsistent-documents"


class InvalidHostFile(UserError):
    """A host file cannot be understood (P-44)."""

    reference = "invalid-host-file"


class InvalidPreset(UserError):
    """Parts of a preset of a machine contradict each other."""

    reference = "invalid-preset"


class UnknownHost(UserError):
    """A name is neither a preset nor a host file."""

    reference = "unknown-host"


class UnknownShorthand(UserError):
    """A word stands for no wishes about variants."""

    reference = "unknown-shorthand"


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


class LinkInTheWay(FileProblem):
    """A link leads out of a folder that may not be left; it is not followed."""

    reference = "link-in-the-way"


class UnusableInterpreter(UserError):
    """A Python interpreter cannot be started or is not supported."""

    reference = "unusable-interpreter"


class NotInstalled(UserError):
    """A distribution that should be there is not."""

    reference = "not-installed"


class NotRemovable(UserError):
    """A distribution cannot be removed, because nobody knows which files are its own."""

    reference = "not-removable"


class BuildFailed(UserError):
    """A project could not be built: its build backend failed, or gave something else.

    The note has the last lines of what the backend said.
    """

    reference = "build-failed"


class LostOptimisation(BuildFailed):
    """A variant was compiled with less optimisation than the plain build, or with assertions.

    The note has a line for each binary: what it has lost, and what the plain build has.
    """

    reference = "lost-optimisation"


class UploadRefused(UserError):
    """A file may not be on an index, or not now; its details are everything that is wrong."""

    reference = "upload-refused"
    details_key = "violations"


class NeedsExtra(UserError):
    """What was asked needs libraries that are installed with an extra only.

    :param extra: its name, as ``server``.
    :param library: what could not be imported.
    """

    reference = "needs-extra"

    def __init__(self, extra: str, library: str) -> None:
        super().__init__(
            f"this needs {library}, which is not installed",
            hint=f"pip install 'wheelfit[{extra}]'",
        )


# --- 2 ------------------------------------------------------------------------


class UsageError(WheelfitError):
    """The command line itself is wrong."""

    reference = "usage"
    exit_code = 2


# --- 3: nothing compatible exists ---------------------------------------------


class NoFit(WheelfitError):
    """Nothing compatible exists for what was asked."""

    reference = "no-fit"
    exit_code = 3


class NoSolution(NoFit):
    """No set of versions satisfies every requirement; the note is the proof."""

    reference = "no-solution"


class NoConsistentSet(NoSolution):
    """Every set of builds mixes what an environment must agree on.

    Its details say for each value what goes with it and what it lacks.
    """

    reference = "no-consistent-set"
    details_key = "closest"


class NoCompatibleWheel(NoFit):
    """A project, release or file has no wheel for the target; the note lists why."""

    reference = "no-compatible-wheel"


class NoAccelerator(NoFit):
    """Builds would be taken that use no accelerator, though there are others.

    Its details are these packages.
    """

    reference = "no-accelerator"
    details_key = "without_accelerator"


class NoCompatibleRelease(NoFit):
    """What was built for a library works with none of its releases."""

    reference = "no-compatible-release"


class NoCaseFits(NoFit):
    """No case of a table holds on this machine, and it has no default."""

    reference = "no-case-fits"


class DriverTooOld(NoFit):
    """The driver of this machine cannot run the libraries that were asked for (P-92)."""

    reference = "driver-too-old"


class ProjectNotFound(NoFit):
    """No source knows a project of this name."""

    reference = "project-not-found"


class UnknownLabel(NoFit):
    """A label the user asked for does not exist in the release."""

    reference = "unknown-label"


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


class SourceOff(NoFit):
    """Only source distributions are left, and building them was not allowed (F-92)."""

    reference = "source-off"


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


class InvalidSource(IntegrityError):
    """An archive of a project is not sound, or is another project than it says."""

    reference = "invalid-source"


class FileConflict(IntegrityError):
    """An installation would overwrite a file that is not its own."""

    reference = "file-conflict"


class AttestationProblem(IntegrityError):
    """What was signed about a file does not hold, or nothing was, or by somebody else (PEP 740)."""

    reference = "attestation"


class MetadataDisagreement(IntegrityError):
    """Two places that must say the same about a wheel do not (F-93)."""

    reference = "metadata-disagreement"


class DamagedBundle(IntegrityError):
    """A folder is not the bundle that it was when it was made.

    :param problems: path in the bundle, kind (``missing``, ``changed``, ``extra``,
        ``unreadable``, ``selection``) and the rest in words, if more is to be said; at least one.
    """

    reference = "damaged-bundle"

    def __init__(self, problems: Sequence[tuple[str, str, str]], *, where: str) -> None:
        self.problems = tuple(problems)
        lines = [
            f"{path}: {kind}" + (f", {words}" if words else "") for path, kind, words in problems
        ]
        more = [f"and {len(lines) - 100} more"] if len(lines) > 100 else []
        super().__init__(
            "the bundle is not what it was when it was made",
            where=where,
            note="\n".join([*lines[:100], *more]),
            hint="copy it again, or make it anew: wheelfit bundle --update",
        )

    def parts(self) -> dict[str, object]:
        """Return the error as plain data, with everything that is wrong."""
        problems = [
            {"path": path, "problem": kind, "words": words} for path, kind, words in self.problems
        ]
        return {**super().parts(), "problems": problems}


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


class CheckoutFailed(NetworkError):
    """A repository, or a revision of it, could not be had."""

    reference = "checkout-failed"


# --- 6: the environment cannot be changed now --------------------------------------


class EnvironmentUnavailable(WheelfitError):
    """The environment cannot be changed now."""

    reference = "environment-unavailable"
    exit_code = 6


class EnvironmentBusy(EnvironmentUnavailable):
    """Another process is changing the environment."""

    reference = "environment-busy"


class EnvironmentReadOnly(EnvironmentUnavailable):
    """The environment cannot be written."""

    reference = "environment-read-only"


class StorageUnavailable(EnvironmentUnavailable):
    """What an index keeps its projects and files in cannot be read or written now.

    :param trouble: ``silent``: no answer came; ``full``: it has no space left; empty: it refused.
    """

    reference = "storage-unavailable"

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        note: str | None = None,
        hint: str | None = None,
        trouble: Literal["silent", "full", ""] = "",
    ) -> None:
        super().__init__(message, where=where, note=note, hint=hint)
        self.trouble = trouble


class StoreUnavailable(EnvironmentUnavailable):
    """The folder that libraries are kept in cannot be written, or is not safe to load from."""

    reference = "store-unavailable"


class AnotherLibraryLoaded(EnvironmentUnavailable):
    """This process has loaded other libraries already, beside which these cannot be."""

    reference = "another-library-loaded"


class LibraryNotLoadable(EnvironmentUnavailable):
    """The loader of this system refuses a library that is what it should be."""

    reference = "library-not-loadable"


class UnfitWorkers(EnvironmentUnavailable):
    """Processes that shall do the work have another wheelfit, or other files."""

    reference = "unfit-workers"


class WorkerLost(EnvironmentUnavailable):
    """A process ended while it worked on something, and did so each time."""

    reference = "worker-lost"


class NotRecoverable(EnvironmentUnavailable):
    """A change of the environment was interrupted, and cannot be undone by itself."""

    reference = "not-recoverable"


# --- 7: allowed by nobody -------------------------------------------------------------


class PolicyRefusal(WheelfitError):
    """What was asked is possible, but a policy forbids it."""

    reference = "refused"
    exit_code = 7


class ExternallyManaged(PolicyRefusal):
    """The environment belongs to another package manager (PEP 668)."""

    reference = "externally-managed"


class OwnRequirementRefused(PolicyRefusal):
    """A change that would break wheelfit itself, in the environment that it runs from."""

    reference = "own-requirement"


class NoConsent(PolicyRefusal):
    """What was asked needs the user's consent, and nobody was there to give it (P-18)."""

    reference = "no-consent"


class TooLarge(PolicyRefusal):
    """More would be downloaded than the user allows."""

    reference = "too-large"


class StartupFileRefused(PolicyRefusal):
    """A wheel has files that run code whenever Python starts, and the user wants none."""

    reference = "startup-file"


class VariantChangeRefused(PolicyRefusal):
    """An installed variant would give way to another build, and nobody asked for that.

    Its details are all changes that would be made.
    """

    reference = "variant-change"
    details_key = "variant_changes"


class UnusablePolicy(PolicyRefusal):
    """A site's policy cannot be understood, so nothing may be done that it might forbid."""

    reference = "unusable-policy"


# --- 8: what --strict does not pass over ----------------------------------------------


class BadMetadata(WheelfitError):
    """Metadata of a release is bad, and the user wants no fallback (``--strict``, F-130).

    Its details are all that would be lost.
    """

    reference = "bad-metadata"
    exit_code = 8
    details_key = "degradations"


# --- 31: what --check found --------------------------------------------------------------


class LockOutdated(WheelfitError):
    """Locking now would give another lock than the one that is there.

    Its details are all that would be different.
    """

    reference = "lock-outdated"
    exit_code = 31
    details_key = "changes"


# --- 70: an error in wheelfit itself -----------------------------------------------------


class WorkFailed(WheelfitError):
    """What was done with one of many items failed in a way it should not; the others are done."""

    reference = "work-failed"
    exit_code = 70


class BrokenInstallation(WheelfitError):
    """A package that wheelfit depends on is missing, damaged or of an unsuitable version."""

    reference = "broken-installation"
    exit_code = 70
