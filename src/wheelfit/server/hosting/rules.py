"""What the operator of an index wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wheelfit.server.uploads.form import FormLimits

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Rules:
    """Say what the operator wants."""

    deletes: Literal["never", "admin"] | timedelta = "admin"
    """Who may delete: nobody, tokens of the scope ``admin``; or besides, for so long after an
    upload, whoever may upload."""
    file_size: int = FormLimits().file
    """Bytes of the largest file."""
    stage_lasts: float = 7 * 86400.0
    """Seconds that a stage may wait, if nobody says how long."""
    metrics: Literal["operator", "everybody"] = "operator"
    """Who sees the metrics."""
    reads: Literal["everybody", "tokens"] = "everybody"
    """Who sees pages and files: everybody, or whoever shows a token, whatever it is for."""
