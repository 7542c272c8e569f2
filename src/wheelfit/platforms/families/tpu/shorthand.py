"""The words of ``--variant`` for builds for TPUs."""

from __future__ import annotations

from wheelfit.platforms.family import Shorthand

__all__ = ["SHORTHAND"]


def __dir__() -> list[str]:
    return __all__


SHORTHAND = Shorthand("tpu", "TPU")
