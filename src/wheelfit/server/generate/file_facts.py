"""What an index has to know of a file: digests, what METADATA says, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wheelfit.checking.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.document import VariantDocument


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Hold what an index tells of a file, and why it should not have it."""

    sha256: str
    requires_python: str | None = None
    metadata_sha256: str | None = None
    """Digest of the METADATA of a wheel; None where there is none to be served."""
    metadata_size: int = 0
    findings: tuple[Finding, ...] = ()
    """Every reason why no index should take it (F-131)."""
    metadata: bytes | None = field(default=None, repr=False, compare=False)
    """The METADATA itself, of a file that was just looked at; it is not remembered."""
    document: VariantDocument | None = field(default=None, repr=False, compare=False)
    """What it says of its variant, likewise."""

    def to_mapping(self) -> dict[str, Any]:
        """Return it as plain data, to be remembered."""
        return {
            "sha256": self.sha256,
            "requires_python": self.requires_python,
            "metadata": [self.metadata_sha256, self.metadata_size],
            "findings": [one.to_mapping() for one in self.findings],
        }

    @classmethod
    def of_mapping(cls, data: Mapping[str, Any]) -> FileFacts:
        """Return what `to_mapping` wrote down.

        :raises LookupError, TypeError, ValueError: that is not what this is.
        """
        digest, size = data["metadata"]
        return cls(
            data["sha256"],
            data["requires_python"],
            digest,
            size,
            tuple(_finding(one) for one in data["findings"]),
        )


def _finding(data: Mapping[str, Any]) -> Finding:
    return Finding(
        Severity(data["severity"]),
        data["code"],
        data["rule"],
        data["where"],
        data["message"],
        data["remedy"],
        data["member"] or "",
        data["path"] or "",
        data["line"],
    )
