"""Check one wheel by itself.

The row of a check, with its severity, rule, meaning and remedy, is in `wheelfit.checking.checks`.
"""
