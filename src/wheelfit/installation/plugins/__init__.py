"""Plugins that the user trusts: find their wheels, install them separately, run them.

`wheelfit.core.trust` decides about trust.
"""
