"""The words for what an x86-64 processor lacks."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.x86_64.record import FAMILY
from wheelfit_runtime.platforms.words import ProcessorWords


class Words(ProcessorWords):
    """The words for what an x86-64 processor lacks."""

    kind = FAMILY.device
    growing = "level"

    @classmethod
    def needed(cls, value: str) -> str:
        """Return the same where it stands alone."""
        return f"x86-64-{value}"
