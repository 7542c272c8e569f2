"""What publishers attest about the files they upload (PEP 740)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.errors import AttestationProblem
from wheelfit.server.store.records import Violation
from wheelfit.sources.attestations import make_provenance
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from typing import TypeAlias

    Checked: TypeAlias = tuple[bytes | None, tuple[Violation, ...]]


def provenance_of(text: str, filename: str, sha256: str) -> Checked:
    """Verify attestations, and make of them what is served as ``.provenance``.

    What cannot be verified is refused and never served: whoever reads it takes it as checked.

    :param text: the field of the form, a list of attestations as JSON; empty: there are none.
    :return: the document, None without attestations; and what is wrong.
    """
    if not text:
        return None, ()
    try:
        return make_provenance(text.encode(), filename, sha256), ()
    except (AttestationProblem, UserError) as error:
        return None, (Violation("bad-attestation", error.message, filename),)
