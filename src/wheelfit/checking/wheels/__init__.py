"""Checks of a single wheel.

The row of a check, with its severity, rule, meaning and remedy, is in `wheelfit.checking.checks`.
"""
