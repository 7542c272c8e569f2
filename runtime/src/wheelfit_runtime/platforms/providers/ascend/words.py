"""The words for what a machine lacks of Ascend NPUs."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.ascend.record import FAMILY
from wheelfit_runtime.platforms.words import AcceleratorWords


class Words(AcceleratorWords):
    """The words about Ascend NPUs."""

    kind = FAMILY.device
