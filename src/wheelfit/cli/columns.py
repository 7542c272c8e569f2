"""Former place of `wheelfit.operations.text.columns`."""

from wheelfit.operations.text import columns

__all__ = ["columns"]
