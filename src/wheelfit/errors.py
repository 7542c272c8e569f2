"""The errors of wheelfit, and the tree of all errors.

Every error a user can meet is one of these. Each has a reference (a code that
the documentation explains), says what happened, where, and what to do next.
The parts are kept apart; the command line renders them. The base, the kinds and what detection
and programs that run raise are in `wheelfit_runtime.errors`.

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

from typing import TYPE_CHECKING, Literal

from wheelfit_runtime.errors import (
    EnvironmentUnavailable,
    FileProblem,
    IntegrityError,
    InvalidDocument,
    NetworkError,
    NoFit,
    PolicyRefusal,
    UserError,
    WheelfitError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = [
    "AttestationProblem",
    "BadMetadata",
    "BrokenInstallation",
    "BuildFailed",
    "CheckoutFailed",
    "DamagedBundle",
    "EnvironmentBusy",
    "EnvironmentReadOnly",
    "ExternallyManaged",
    "FileConflict",
    "InconsistentDocuments",
    "InvalidBridge",
    "InvalidFilename",
    "InvalidHostFile",
    "InvalidLabel",
    "InvalidMarker",
    "InvalidProject",
    "InvalidRequirement",
    "InvalidSource",
    "LinkInTheWay",
    "LockOutdated",
    "LostOptimisation",
    "MetadataDisagreement",
    "NeedsExtra",
    "NoAccelerator",
    "NoCompatibleRelease",
    "NoConsent",
    "NoConsistentSet",
    "NoSolution",
    "NotInstalled",
    "NotRecoverable",
    "NotRemovable",
    "OwnRequirementRefused",
    "SourceOff",
    "StartupFileRefused",
    "StorageUnavailable",
    "TooLarge",
    "UnfitWorkers",
    "UnknownLabel",
    "UnknownShorthand",
    "UnsupportedSchema",
    "UnusableInterpreter",
    "UnusablePolicy",
    "UploadRefused",
    "UsageError",
    "VariantChangeRefused",
    "WorkFailed",
    "WorkerLost",
]


def __dir__() -> list[str]:
    return __all__


# --- 1: something given to wheelfit is wrong ---------------------------------


class InvalidLabel(UserError):
    """A text is not a variant label (F-2)."""

    reference = "invalid-label"


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


class UnsupportedSchema(InvalidDocument):
    """A document names a schema that must be refused (F-36, F-38, F-40)."""

    reference = "unsupported-schema"


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


class UnknownShorthand(UserError):
    """A word stands for no wishes about variants."""

    reference = "unknown-shorthand"


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


class NoSolution(NoFit):
    """No set of versions satisfies every requirement; the note is the proof."""

    reference = "no-solution"


class NoConsistentSet(NoSolution):
    """Every set of builds mixes what an environment must agree on.

    Its details say for each value what goes with it and what it lacks.
    """

    reference = "no-consistent-set"
    details_key = "closest"


class NoAccelerator(NoFit):
    """Builds would be taken that use no accelerator, though there are others.

    Its details are these packages.
    """

    reference = "no-accelerator"
    details_key = "without_accelerator"


class NoCompatibleRelease(NoFit):
    """What was built for a library works with none of its releases."""

    reference = "no-compatible-release"


class UnknownLabel(NoFit):
    """A label the user asked for does not exist in the release."""

    reference = "unknown-label"


class SourceOff(NoFit):
    """Only source distributions are left, and building them was not allowed (F-92)."""

    reference = "source-off"


# --- 4: bytes are not what was promised ----------------------------------------


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


class CheckoutFailed(NetworkError):
    """A repository, or a revision of it, could not be had."""

    reference = "checkout-failed"


# --- 6: the environment cannot be changed now --------------------------------------


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
