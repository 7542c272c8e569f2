"""Serve wheels to installers.

May import ``lock``, ``check`` and below; never meets ``install`` or ``build``.
"""
