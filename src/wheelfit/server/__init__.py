"""Serve wheels to installers.

May import ``resolve`` and below; never meets ``install`` or ``build``.
"""
