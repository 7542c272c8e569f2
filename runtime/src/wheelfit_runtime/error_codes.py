"""The error codes, each with its exit status and the key of its details in JSON.

To add a code, add it to the list of its exit status, and a row to ``docs/reference/errors.md``.
The exception classes are in `wheelfit_runtime.errors` and `wheelfit.errors`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

# Codes by exit status.
_UserCode: TypeAlias = Literal[
    "error", "user-error", "invalid-property", "invalid-document", "invalid-lock",
    "invalid-preset", "unknown-host", "invalid-cases", "ambiguous-cases",
    "invalid-configuration", "file-problem", "invalid-label", "invalid-filename",
    "invalid-marker", "invalid-requirement", "unsupported-schema", "invalid-bridge",
    "invalid-project", "inconsistent-documents", "invalid-host-file", "unknown-shorthand",
    "link-refused", "unusable-interpreter", "no-environment", "not-installed", "not-removable",
    "build-failed", "lost-optimisation", "needs-extra", "not-a-dependency", "pinned-elsewhere",
]  # fmt: skip
_NoFitCode: TypeAlias = Literal[
    "no-fit", "no-compatible-wheel", "no-case-fits", "driver-too-old", "project-not-found",
    "no-implementation", "no-solution", "no-consistent-set", "no-accelerator",
    "no-compatible-release", "unknown-label", "source-build-not-allowed",
]  # fmt: skip
_IntegrityCode: TypeAlias = Literal[
    "integrity", "hash-mismatch", "invalid-wheel", "invalid-source", "file-conflict",
    "attestation", "metadata-disagreement", "damaged-bundle", "file-changed",
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
    "usage", "bad-metadata", "upload-refused", "lock-outdated", "interrupted", "terminated",
]  # fmt: skip
"""An error code; ``docs/reference/errors.md`` explains each."""


class CodeProperties(NamedTuple):
    """The properties of an error code."""

    exit_code: int
    """The exit status of a command."""
    details_key: str = ""
    """The key of the details in ``--json``; empty: there are none."""


_BY_EXIT_CODE: dict[int, tuple[Code, ...]] = {
    1: get_args(_UserCode),
    2: ("usage",),
    3: get_args(_NoFitCode),
    4: get_args(_IntegrityCode),
    5: get_args(_NetworkCode),
    6: get_args(_EnvironmentCode),
    7: get_args(_PolicyCode),
    8: ("bad-metadata",),
    9: ("upload-refused",),
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
    "source-build-not-allowed": "packages",
    "variant-change": "variant_changes",
    "bad-metadata": "degradations",
    "lock-outdated": "changes",
}
CODES: dict[Code, CodeProperties] = {
    code: CodeProperties(exit_code, _DETAILS.get(code, ""))
    for exit_code, codes in _BY_EXIT_CODE.items()
    for code in codes
}
"""The properties of each error code."""
