"""Plugins that the user trusts: find their wheels, install them separately, run them.

Nothing here decides about trust; that is `wheelfit.core.trust`.
"""
