"""Former place of `wheelfit.operations.onlookers`."""

from wheelfit.operations.onlookers import onlookers

__all__ = ["onlookers"]
