"""Serve wheels to installers.

May import ``locking``, ``checking`` and below; never meets ``installation`` or ``building``.
"""
