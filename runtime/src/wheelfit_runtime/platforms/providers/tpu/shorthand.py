"""The words of ``--variant`` for builds for TPUs."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import Shorthand

SHORTHAND = Shorthand("tpu", "TPU")
