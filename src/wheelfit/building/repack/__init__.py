"""Edits of finished wheels: name, version and dependencies, and their variant.

May import the same as ``building``.
"""
